"""Which edits of this device lost against another's that did not know them: noted when they do, told once.

The ledger notes it in the transaction in which an edit loses: a flat memory that another device replaced unaware, a
persona memory whose text is kept as a conflict copy, and a text that was forgotten unseen and is a draft now. Here
the notes get their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.nostr import address
from sense_memory.records import envelope


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.reader import Reader


async def overruled(ledger: Ledger, reader: Reader, signer: Signer) -> tuple[str, ...]:
    """Names of the memories at which an edit of this device lost since this was last asked, sorted.

    A key, or `domain/facet/key`. Each is given once, to whichever process on the ledger asks first.
    """
    slots = ledger.edits.overruled()
    if not slots:
        return ()
    drafts = {draft.slot: draft.content for draft in ledger.drafts.all()}
    names = {await _name(ledger, reader, slot, drafts.get(slot), signer) for slot in slots}
    await ledger.write(ledger.edits.told, slots)
    return tuple(sorted(names))


async def _name(ledger: Ledger, reader: Reader, slot: str, draft: str | None, signer: Signer) -> str:
    """What lies, or lay, at a slot; of a conflict copy what it is a copy of."""
    path = slot.removeprefix(address.PREFIX)  # where nothing is left of it
    if draft is not None:
        path = (await envelope.open_draft(signer, draft, slot)).path
    for stored in ledger.versions(slot):
        record = await reader.record(stored)
        if record is not None:
            copied = record.fields.get("conflict_of")
            path = copied if isinstance(copied, str) and copied else record.path
            break
    return path.removeprefix(address.PERSONA)
