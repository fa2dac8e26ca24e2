"""The history of palace memories: as they were at a time, and undo.

Many versions only record that a memory was recalled or linked. Undo passes over them: it goes back to the newest version
with another text, and brings back that text, what describes it, and its marks of contradiction as far as they still hold.
Themes that were added or removed since the text was written, such as `pinned`, stay so.
Connections, accesses and the half-life are not of the text, so an undo leaves them as they are. Connections stand in two
memories; `persona_disconnect` takes them out of both.
"""

from __future__ import annotations

import asyncio
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Final

from sense_memory.limits import MAX_THEMES_COUNT
from sense_memory.memories.history import RESTORED, Version, restored_in, undo_target
from sense_memory.memories.persona.edit import Edit
from sense_memory.models import PROVENANCE, State
from sense_memory.palace.lifecycle import current_state, without_dismissed
from sense_memory.palace.version import version_of
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import origin_of


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.reader import Reader

_TURN_COUNT: Final = 50  # memories that are read before other tasks get a turn
_OF_TEXT: Final = (  # the fields that undo brings back with the text
    "value",
    *PROVENANCE,
    "confidence",
    "written_at",
    "contradicts",
    "superseded_by",
    "marked_by_hand",
)


async def versions(ledger: Ledger, reader: Reader, slot: str) -> list[PersonaVersion]:
    """The versions of a memory since it was last forgotten, newest first."""
    found = []
    for stored in ledger.versions(slot):
        if not stored.role.is_live:
            continue
        record = await reader.record(stored)
        if record is not None and record.type is RecordType.PERSONA:
            ident, at = stored.id.hex(), stored.created_at
            if not ledger.edits.forgets(slot, origin_of(record, ident, at)):  # otherwise a stray, see `forks`
                found.append(version_of(record.fields, ident, at))
    return found


def undone(slot_state: SlotState, past: Iterable[PersonaVersion], now: float) -> Edit | None:
    """The edit that brings back the previous text; None if no other text is known.

    Args:
        slot_state: the current state of the slot.
        past: the versions of the memory, newest first.
        now: seconds since 1970.
    """
    memory = slot_state.memory
    if memory is None:
        return None
    known = list(dropwhile(lambda version: version.memory.value != memory.value, past))
    target = undo_target(
        [
            Version(version.memory.value, version.ts, version.id, place == 0, restored_in(version.rest))
            for place, version in enumerate(known)
        ]
    )
    if target is None:
        return None
    earlier = next(version.memory for version in known if version.id == target.event_id)
    *_, first = takewhile(lambda version: version.memory.value == memory.value, known)
    changed = memory.changed(
        **{name: getattr(earlier, name) for name in _OF_TEXT},
        themes=with_later_themes(earlier.themes, first.memory.themes, memory.themes),
        # What was dismissed together with the text goes with the text; what was dismissed since stays.
        dismissed=(
            *earlier.dismissed,
            *(name for name in memory.dismissed if name not in {*earlier.dismissed, *first.memory.dismissed}),
        ),
        relevance=1.0,
        last_accessed=max(now, memory.last_accessed),
        last_reinforced=max(now, memory.last_reinforced),
        state=State.ACTIVE,
        dissolved_at=None,
    )
    restored = {RESTORED: target.event_id}
    return Edit(slot_state, without_dismissed(changed), is_new_value=True, extra=restored)


def with_later_themes(
    earlier: tuple[str, ...], first: tuple[str, ...], now: tuple[str, ...]
) -> tuple[str, ...]:
    """The themes of an earlier text, with what changed since a later text was written.

    Args:
        earlier: of the earlier text.
        first: of the later text when it was written.
        now: of the memory.
    """
    kept = (theme for theme in earlier if theme in now or theme not in first)
    added = (theme for theme in now if theme not in first)
    return tuple(dict.fromkeys((*kept, *added)))[: max(MAX_THEMES_COUNT, len(earlier))]


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
