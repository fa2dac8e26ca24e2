"""The drafts of a store, and the edits of this device that lost to an edit of another device.

An edit loses where another device wrote without having seen it. The ledger notes the loss in the transaction in which
the edit loses: a flat memory was replaced, the text of a persona memory is kept as a conflict copy, or a text was
forgotten and is a draft now. The ledger also notes where a forgotten memory is written again on another device, and
each new conflict copy: the device whose text counts has to know too. `edit_notices` reports each note once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory import arguments
from sense_memory.errors import InvalidInput, LedgerError
from sense_memory.memories.conflicts import copy_at, is_of_others, is_won_here
from sense_memory.models import Draft
from sense_memory.nostr import address
from sense_memory.records import envelope
from sense_memory.records.origins import origin_of, words_in


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader


async def drafts(ledger: Ledger, signer: Signer) -> list[Draft]:
    """Every draft, decrypted, oldest first."""
    found = []
    for draft in ledger.drafts.all():
        record = await envelope.open_draft(signer, draft.content, draft.slot)
        found.append(
            Draft(
                number=draft.number,
                key=record.path.removeprefix(address.PERSONA),
                value=words_in(record.fields),
                created_at=draft.created_at,
                reason=draft.reason,
            )
        )
    return found


async def publish(
    ledger: Ledger, signer: Signer, number: int, write: Callable[[Record, bool], Awaitable[str]]
) -> str:
    """Write a draft as a memory, and discard the draft; returns the event's id. The draft stays if writing fails.

    Args:
        ledger: holds the draft.
        signer: decrypts the draft.
        number: the number of the draft.
        write: writes a record and returns the event's id; called with the record, and whether its memory was forgotten.

    Raises:
        InvalidInput: there is no such draft.
    """
    draft = ledger.drafts.get(arguments.draft_number(number))
    if draft is None:
        raise InvalidInput(f"there is no draft {number}; nothing was written")
    record = await envelope.open_draft(signer, draft.content, draft.slot)
    ident = await write(record, bool(draft.reason))
    with suppress(LedgerError):  # an error would say that nothing was written, and the memory was
        await ledger.write(ledger.drafts.discard, number)
    return ident


def discard(ledger: Ledger, number: int) -> None:
    """Remove a draft for good.

    Raises:
        InvalidInput: there is no such draft.
    """
    if not ledger.drafts.discard(arguments.draft_number(number)):
        raise InvalidInput(f"there is no draft {number}; nothing was removed")
    ledger.checkpoint()


@dataclass(frozen=True, slots=True)
class EditNotices:
    """What became of edits since the last notices: sorted names, as in the fields of `SyncReport` of the same names."""

    overruled: tuple[str, ...] = ()
    written_again: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


async def edit_notices(ledger: Ledger, reader: Reader, signer: Signer) -> EditNotices:
    """What the ledger has noted about edits of this device and of others, each note once.

    A name is a key, or `domain/facet/key`. Several processes may use the ledger; each note goes to the first that asks.
    """
    slots = ledger.edits.overruled()
    if not slots:
        return EditNotices()
    contents = {draft.slot: draft.content for draft in ledger.drafts.all()}
    lost, again, won = set[str](), set[str](), set[str]()
    for slot in slots:
        copy = await copy_at(ledger, reader, slot)
        if copy is not None and await is_of_others(ledger, reader, copy):
            if await is_won_here(ledger, reader, copy):
                won.add(copy.path.removeprefix(address.PERSONA))
            continue
        names = lost if slot in contents or await _has_own_text(ledger, reader, slot) else again
        names.add(await _name(ledger, reader, slot, contents.get(slot), signer))
    await ledger.write(ledger.edits.clear_overruled, slots)
    return EditNotices(tuple(sorted(lost)), tuple(sorted(again)), tuple(sorted(won)))


async def _has_own_text(ledger: Ledger, reader: Reader, slot: str) -> bool:
    """Whether a text may have lost at a slot: nothing was ever forgotten there, or this device wrote one since."""
    if not ledger.edits.removal(slot).is_forgetting:
        return True
    for stored in ledger.versions(slot):
        record = await reader.record(stored)
        if record is None:
            continue
        if ledger.edits.is_own(origin_of(record, stored.id.hex(), stored.created_at).device):
            return True
    return False


async def _name(ledger: Ledger, reader: Reader, slot: str, draft: str | None, signer: Signer) -> str:
    """The name of the memory that is or was at a slot; for a conflict copy, the name of its original."""
    path = slot.removeprefix(address.PREFIX)  # used if no version of the memory is left
    if draft is not None:
        path = (await envelope.open_draft(signer, draft, slot)).path
    for stored in ledger.versions(slot):
        record = await reader.record(stored)
        if record is not None:
            copied = record.fields.get("conflict_of")
            path = copied if isinstance(copied, str) and copied else record.path
            break
    return path.removeprefix(address.PERSONA)
