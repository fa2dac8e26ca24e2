"""The history of persona memories: as they were at a time, and undo.

Most versions only record that a memory was recalled. Undo goes back to the newest version with other content: value,
themes, links, marks, half-life, confidence or source.
"""

from __future__ import annotations

import asyncio
from itertools import dropwhile
from typing import TYPE_CHECKING, Any, Final

from sense_memory.ledger import Role
from sense_memory.memories.history import RESTORED
from sense_memory.memories.persona.edit import Edit
from sense_memory.models import State
from sense_memory.palace.lifecycle import current_state, opponents, reconciled
from sense_memory.palace.version import version_of
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.reader import Reader

_TURN_COUNT: Final = 50  # memories that are read before other tasks get a turn
_CONTENT: Final = (  # the fields that undo restores; times and counts are not undone
    "value",
    "themes",
    "connections",
    "contradicts",
    "superseded_by",
    "marked_by_hand",
    "dismissed",
    "halflife_days",
    "confidence",
    "source",
)


async def versions(ledger: Ledger, reader: Reader, slot: str) -> list[PersonaVersion]:
    """The versions of a memory since it was last forgotten, newest first."""
    found = []
    for stored in ledger.versions(slot):
        if stored.role is not Role.MEMORY:
            continue
        record = await reader.record(stored)
        if record is not None and record.type is RecordType.PERSONA:
            ident, at = stored.id.hex(), stored.created_at
            if not ledger.edits.forgets(slot, origin_of(record, ident, at)):  # otherwise a stray, see `forks`
                found.append(version_of(record.fields, ident, at))
    return found


def undone(slot_state: SlotState, past: Iterable[PersonaVersion], now: float) -> Edit | None:
    """The edit that restores the content before the last change; None if there is nothing to restore.

    Args:
        slot_state: the current state of the slot.
        past: the versions of the memory, newest first.
        now: seconds since 1970.
    """
    memory = slot_state.memory
    if memory is None or slot_state.joined is None:
        return None
    older, content = list(past), _content(memory)
    restored = slot_state.joined.version.rest.get(RESTORED)
    if isinstance(restored, str) and any(version.id == restored for version in older):
        older = list(dropwhile(lambda version: version.id != restored, older))
        content = _content(
            older[0].memory
        )  # the head may differ from it: the last undo may have dismissed marks
    earlier = next((version for version in older if _content(version.memory) != content), None)
    if earlier is None:
        return None
    changed = memory.changed(
        **_content(earlier.memory),
        written_at=earlier.memory.written_at,
        relevance=1.0,
        last_accessed=max(now, memory.last_accessed),
        last_reinforced=max(now, memory.last_reinforced),
        state=State.ACTIVE,
        dissolved_at=None,
    )
    # Dismissed, so that a device that does not know of this undo cannot bring an undone mark back. The marks of another
    # value cannot come back.
    revoked = set(opponents(memory)) - set(opponents(changed)) if memory.value == changed.value else ()
    return Edit(
        slot_state, reconciled(changed, sorted(revoked)), is_new_value=True, extra={RESTORED: earlier.id}
    )


async def as_of(ledger: Ledger, reader: Reader, slots: Iterable[str], time: float) -> list[PersonaMemory]:
    """The memories of some slots at a time (seconds since 1970), each with its state at that time."""
    found = []
    for number, slot in enumerate(slots, 1):
        if not number % _TURN_COUNT:
            await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
        past = await versions(ledger, reader, slot)
        version = next((version for version in past if version.ts <= time), None)
        if version is not None:
            found.append(version.memory.changed(state=current_state(version.memory, time)))
    return found


def _content(memory: PersonaMemory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _CONTENT}
