"""Conflicts: memories that two devices edited without knowing of each other, and what the ledger says about them.

The later text counts. In the palace the other text is kept beside it as a *conflict copy*; see `memories.persona.forks`. Any
device may write the copy, so each device concludes from the copy itself, and not from who wrote it, that one of its texts was
in conflict. A flat memory or a record of the mind has no copy; its other text is in the history.

The rule of `standing_of`: a ledger speaks of an edit as made here only if it wrote the text as it stands (`Edits.wrote`),
so neither a copy nor a ledger that was set back takes the edits of the other for its own. If the text that counts was written
here, that is said; else, if a text that was written here lost, that is said. A text under an id of this ledger that it did
not write as it stands is named only where no conflict copy holds the text. So no text disappears unnamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sense_memory.nostr import address
from sense_memory.palace.version import copy_key
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.ledger.removals import Origin
    from sense_memory.records.reader import Reader


@dataclass(frozen=True, slots=True)
class ConflictCopy:
    """A conflict copy that exists.

    Attributes:
        path: of the copy, `persona/domain/facet/key~conflict-…`.
        original: the path of the memory in which its text lost.
        origin: of the text that lost.
    """

    path: str
    original: str
    origin: Origin

    def was_unknown_to(self, version: Origin) -> bool:
        """Whether a version of the original and the text that lost did not know each other."""
        if version.said == self.origin.said or not version.device:
            return False
        return not (version.knows(self.origin) or self.origin.knows(version))


class Standing(StrEnum):
    """What became of an edit; the values are the fields of `SyncReport` that name its memory."""

    OVERRULED = "overruled"
    WRITTEN_AGAIN = "written_again"
    CONFLICT = "conflicts"
    PREVAILED = "prevailed"
    UNCLAIMED = "unclaimed"


async def copies_of(ledger: Ledger, reader: Reader, path: str) -> list[ConflictCopy]:
    """The conflict copies of a memory that exist, by path.

    A copy at a hashed address is found only if a version with its text is here.

    Args:
        ledger: holds the versions.
        reader: opens them.
        path: of the memory, `persona/domain/facet/key`.
    """
    slots = {slot for slot, _ in ledger.heads.seqs_beneath(f"{address.PREFIX}{copy_key(path, '')}")}
    for stored in ledger.versions(address.d_tag(path)):
        record = await reader.record(stored)
        if record is not None and record.type.traits.is_merged:
            said = origin_of(record, stored.id.hex(), stored.created_at).said
            slots.add(address.d_tag(copy_key(path, said)))
    found = [await copy_at(ledger, reader, slot) for slot in slots]
    copies = [copy for copy in found if copy is not None and copy.original == path]
    return sorted(copies, key=lambda copy: copy.path)


async def copy_at(ledger: Ledger, reader: Reader, slot: str) -> ConflictCopy | None:
    """The conflict copy at a slot; None if another memory is there, or none."""
    head = ledger.head(slot)
    if head is None or not head.role.is_live:
        return None
    *_, first = (stored for stored in ledger.versions(slot) if stored.role.is_live)
    record = await reader.record(first)
    original = None if record is None else record.fields.get("conflict_of")
    if record is None or not isinstance(original, str) or not original:
        return None
    origin = origin_of(record, first.id.hex(), first.created_at)
    return ConflictCopy(record.path, f"{address.PERSONA}{original}", origin)


async def standing_of_copy(ledger: Ledger, reader: Reader, copy: ConflictCopy) -> Standing | None:
    """What to say about a conflict copy; None if no text of this ledger was in the conflict, or neither is the current text."""
    if any(
        ledger.edits.wrote(origin) for _, origin in await _texts(ledger, reader, address.d_tag(copy.path))
    ):
        return Standing.OVERRULED
    texts = await _texts(ledger, reader, address.d_tag(copy.original))
    counts = _counting(ledger, address.d_tag(copy.original), texts)
    if counts is None or not ledger.edits.wrote(counts):
        return None
    own = [origin for _, origin in texts if ledger.edits.wrote(origin)]
    return Standing.CONFLICT if any(copy.was_unknown_to(origin) for origin in own) else None


async def standing_of(ledger: Ledger, reader: Reader, slot: str) -> Standing:
    """What to say about a slot, no conflict copy, that the ledger has recorded; see the rule above."""
    texts = await _texts(ledger, reader, slot)
    own = [origin for _, origin in texts if ledger.edits.wrote(origin)]
    if not own and ledger.edits.removal(slot).is_forgetting:
        return Standing.WRITTEN_AGAIN
    counts = _counting(ledger, slot, texts)
    if counts is None or counts in own:
        return Standing.OVERRULED if counts is None else Standing.PREVAILED
    is_lost = any(origin.text != counts.text and not counts.knows(origin) for origin in own)
    others = [origin for _, origin in texts if origin not in own and origin.text != counts.text]
    if not is_lost and any(ledger.edits.is_own(origin.device) for origin in others):
        return Standing.UNCLAIMED
    return Standing.OVERRULED  # one of an earlier version of this program too, which says no device


def _counting(ledger: Ledger, slot: str, texts: list[tuple[StoredEvent, Origin]]) -> Origin | None:
    """The origin of the text that counts at a slot; None if none does."""
    head = ledger.head(slot)
    return next((origin for stored, origin in texts if head is not None and stored.seq == head.seq), None)


async def _texts(ledger: Ledger, reader: Reader, slot: str) -> list[tuple[StoredEvent, Origin]]:
    """The versions at a slot that have a text, with their origins."""
    found = []
    for stored in ledger.versions(slot):
        record = await reader.record(stored)
        if record is not None and not record.type.role.is_tombstone:
            found.append((stored, origin_of(record, stored.id.hex(), stored.created_at)))
    return found
