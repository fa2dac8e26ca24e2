"""Conflicts: memories of the palace that two devices edited without knowing of each other.

The later text counts, and the other text is kept beside it as a *conflict copy*; see `memories.persona.forks`. Any device may
write the copy, so each device concludes from the copy itself, and not from who wrote it, that one of its texts was in conflict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.ledger import Role
from sense_memory.nostr import address
from sense_memory.palace.version import copy_key
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sense_memory.ledger import Ledger
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
        if record is not None and record.type is RecordType.PERSONA:
            said = origin_of(record, stored.id.hex(), stored.created_at).said
            slots.add(address.d_tag(copy_key(path, said)))
    found = [await copy_at(ledger, reader, slot) for slot in slots]
    copies = [copy for copy in found if copy is not None and copy.original == path]
    return sorted(copies, key=lambda copy: copy.path)


async def copy_at(ledger: Ledger, reader: Reader, slot: str) -> ConflictCopy | None:
    """The conflict copy at a slot; None if another memory is there, or none."""
    head = ledger.head(slot)
    if head is None or head.role is not Role.MEMORY:
        return None
    *_, first = (stored for stored in ledger.versions(slot) if stored.role is Role.MEMORY)
    record = await reader.record(first)
    original = None if record is None else record.fields.get("conflict_of")
    if record is None or not isinstance(original, str) or not original:
        return None
    origin = origin_of(record, first.id.hex(), first.created_at)
    return ConflictCopy(record.path, f"{address.PERSONA}{original}", origin)


async def is_of_others(ledger: Ledger, reader: Reader, copy: ConflictCopy) -> bool:
    """Whether a conflict copy has no text of this device in any version, so that no edit of this device lost."""
    return not [origin async for origin in _own_texts(ledger, reader, copy.path)]


async def is_won_here(ledger: Ledger, reader: Reader, copy: ConflictCopy) -> bool:
    """Whether this device wrote a text of the original without knowing the text of a copy, which did not know it."""
    own = [origin async for origin in _own_texts(ledger, reader, copy.original)]
    return any(copy.was_unknown_to(origin) for origin in own)


async def _own_texts(ledger: Ledger, reader: Reader, path: str) -> AsyncIterator[Origin]:
    """The origins of the versions of a memory whose texts this device wrote."""
    for stored in ledger.versions(address.d_tag(path)):
        record = await reader.record(stored)
        if record is not None and record.type is RecordType.PERSONA:
            origin = origin_of(record, stored.id.hex(), stored.created_at)
            if ledger.edits.is_own(origin.device):
                yield origin
