"""The drafts of a store, and the edits of this device and of another that did not know each other.

The ledger notes such an edit in the transaction in which it meets the other: a flat memory was replaced, or was kept
against a text that arrived later, the text of a palace memory is kept as a conflict copy, or a text was forgotten and is
a draft now. The ledger also notes where a forgotten memory is written again on another device. `edit_notices` reports
each note once, and says what is true then; see `conflicts`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory import arguments
from sense_memory.errors import InvalidInput, LedgerError
from sense_memory.memories.conflicts import Standing, copy_at, standing_of, standing_of_copy
from sense_memory.models import Draft
from sense_memory.nostr import address
from sense_memory.records import envelope
from sense_memory.records.origins import words_in


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
                value=words_in(record),
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
    prevailed: tuple[str, ...] = ()
    unclaimed: tuple[str, ...] = ()


async def edit_notices(ledger: Ledger, reader: Reader, signer: Signer) -> EditNotices:
    """What the ledger has noted about edits of this device and of others, each note once.

    A name is a key, or `domain/facet/key`. Several processes may use the ledger; each note goes to the first that asks.
    """
    slots = ledger.edits.overruled()
    if not slots:
        return EditNotices()
    contents = {draft.slot: draft.content for draft in ledger.drafts.all()}
    found: dict[Standing, set[str]] = {standing: set() for standing in Standing}
    for slot in slots:
        copy, draft = await copy_at(ledger, reader, slot), contents.get(slot)
        if copy is not None:
            standing = await standing_of_copy(ledger, reader, copy)
        else:
            standing = Standing.OVERRULED if draft is not None else await standing_of(ledger, reader, slot)
        if copy is not None and standing is Standing.CONFLICT:
            found[standing].add(copy.path.removeprefix(address.PERSONA))
        elif standing is not None:
            found[standing].add(await _name(ledger, reader, slot, draft, signer))
    await ledger.write(ledger.edits.clear_overruled, slots)
    return EditNotices(**{standing.value: tuple(sorted(names)) for standing, names in found.items()})


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
