"""How a palace memory ages, and when a contradiction counts: the rules of the specification, for one memory. Pure.

This module is the readable reference for decay and states. `palace.catalog` computes the same for a whole palace at
once, and a property test compares the two. Where the prose and the code of the specification differ, the code is
followed: connections multiply the relevance, and do not lengthen the half-life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import (
    ACTIVE_ABOVE,
    CONNECTION_BOOST,
    DAY_SECONDS,
    FADING_FROM,
    FORGOTTEN_FROM,
    MAX_SAFE_INTEGER,
    SUPERSEDED_FACTOR,
    USED_HALFLIVES,
)
from sense_memory.models import State


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.models import PersonaMemory


def current_relevance(memory: PersonaMemory, now: float) -> float:
    """The relevance of a memory at a time (sense-memory v2, "Decay Function").

    Args:
        memory: a memory whose `relevance` was valid at `last_accessed`.
        now: seconds since 1970. A time before `last_accessed`, which another clock wrote, counts as `last_accessed`.

    Returns:
        0 or more; connections may raise the relevance above 1.
    """
    days = max(0.0, now - memory.last_accessed) / DAY_SECONDS
    decay: float = 0.5 ** (days / memory.halflife_days)
    if memory.superseded_by:
        decay = decay**SUPERSEDED_FACTOR
    boost = 1.0 + len(memory.connections) * CONNECTION_BOOST
    penalty: float = 0.5 ** len(memory.contradicts)
    return memory.relevance * decay * boost * penalty


def state_at(relevance: float) -> State:
    """The state that a current relevance means: above 0.3 active, from 0.1 fading, from 0.01 forgotten."""
    if relevance > ACTIVE_ABOVE:
        return State.ACTIVE
    if relevance >= FADING_FROM:
        return State.FADING
    return State.FORGOTTEN if relevance >= FORGOTTEN_FROM else State.DISSOLVED


def current_state(memory: PersonaMemory, now: float) -> State:
    """The state of a memory at a time (seconds since 1970)."""
    return state_at(current_relevance(memory, now))


def shown(memory: PersonaMemory, now: float) -> PersonaMemory:
    """A memory with its current relevance at a time, as callers get it."""
    return memory.changed(current_relevance=current_relevance(memory, now))


def revived(memory: PersonaMemory, now: float, times: int = 1) -> PersonaMemory:
    """A memory after `times` recalls by its exact key: with relevance 1.0 and that many more accesses."""
    return memory.changed(
        relevance=1.0,
        last_accessed=max(now, memory.last_accessed),
        access_count=min(memory.access_count + times, MAX_SAFE_INTEGER),
        state=current_state(memory.changed(relevance=1.0, last_accessed=now), now),
        dissolved_at=None,
    )


def use_time(memory: PersonaMemory, now: float) -> float | None:
    """The time of the recall that a use of a memory by a model at a time amounts to; None if the use adds nothing.

    A use counts as a recall half a half-life ago. So it raises the relevance partly, to 0.71; a later recall and an
    earlier use merge like two recalls, on every version of this program; and no second use within a day adds anything.
    The first use of a memory always counts, because pruning keeps what was used.
    """
    halflife = memory.halflife_days / (SUPERSEDED_FACTOR if memory.superseded_by else 1)
    at = max(0.0, now - USED_HALFLIVES * halflife * DAY_SECONDS)
    return at if not memory.access_count or at - memory.last_accessed >= DAY_SECONDS else None


# ── Marks of contradiction ──────────────────────────────────────────────────────────────
# The fields `contradicts` and `superseded_by` name memories that contradict a memory; each name in them is a mark.
# Guaranteed: every mark can be removed for good, and of memories that supersede each other one stands. Six rules see to
# that:
#
# * Writing the text of a memory, the same one or another, removes its marks; a merge drops those of an earlier writing.
# * A dismissed name is never a mark. A merge unites dismissed names, so a device that does not know of a dismissal
#   cannot bring a removed mark back, unless a hand set the mark later than the dismissal; see `palace.merge`.
# * A mark counts only while the memory that it names exists: a forgotten or pruned memory contradicts nothing. The
#   catalog leaves marks of missing memories out, and the next write of the memory removes them.
# * Where devices marked memories in a circle, the mark of the newest memory does not count; see `palace.catalog`.
# * Only `superseded` adds a mark, and removes the name from `dismissed`. Its name is the last in `contradicts`.
# * Where the mark of the superseding memory goes, the latest of the other marks supersedes again: it did before.
#
# A mark that was set by hand (`marked_by_hand`) is not removed because the text of the named memory changes.


def opponents(memory: PersonaMemory) -> tuple[str, ...]:
    """The names in the marks of a memory: paths, or bare keys that another program wrote."""
    named = dict.fromkeys(memory.contradicts)
    return tuple(named if memory.superseded_by is None else {**named, memory.superseded_by: None})


def is_by_hand(one: PersonaMemory, other: PersonaMemory) -> bool:
    """Whether one of two memories has a mark of the other that a hand set or confirmed: that is decided."""
    return other.path in one.marked_by_hand or one.path in other.marked_by_hand


def is_undecided(one: PersonaMemory, other: PersonaMemory) -> bool:
    """Whether two memories may be suspected to contradict each other: neither is superseded, and neither marks or
    dismisses the other.
    """
    return not any(
        first.superseded_by or second.path in {*first.contradicts, *first.dismissed}
        for first, second in ((one, other), (other, one))
    )


def superseded(memory: PersonaMemory, by: str, *, by_hand: bool = False) -> PersonaMemory:
    """A memory marked as contradicted and replaced by the memory at a path."""
    contradicts = (*(name for name in memory.contradicts if name != by), by)
    marked = dict.fromkeys((*memory.marked_by_hand, by)) if by_hand else memory.marked_by_hand
    return undismissed(memory, by).changed(
        contradicts=contradicts, superseded_by=by, marked_by_hand=tuple(marked)
    )


def unusual_in(old: PersonaMemory, new: PersonaMemory) -> list[str]:
    """What is unusual in having marked `old` as superseded by `new`, in words; empty for most pairs."""
    found = []
    if old.domain != new.domain:
        found.append(f"they are of different domains, {old.domain} and {new.domain}")
    if old.written_at > new.written_at:
        found.append(f"{old.path} was written later than {new.path}")
    if others := [name for name in old.contradicts if name != new.path]:
        found.append(f"{old.path} was already contradicted by {others[-1]}")
    return found


def reconciled(memory: PersonaMemory, names: Iterable[str]) -> PersonaMemory:
    """A memory that no longer carries marks of the named memories, and dismisses their names."""
    dismissed = tuple(dict.fromkeys((*memory.dismissed, *names)))
    return without_dismissed(memory.changed(dismissed=dismissed))


def undismissed(memory: PersonaMemory, name: str) -> PersonaMemory:
    """A memory that no longer dismisses a name."""
    return memory.changed(dismissed=tuple(path for path in memory.dismissed if path != name))


def unopposed(memory: PersonaMemory) -> PersonaMemory:
    """A memory without its marks."""
    return memory.changed(contradicts=(), superseded_by=None, marked_by_hand=())


def without(memory: PersonaMemory, is_void: Callable[[str], bool]) -> PersonaMemory:
    """A memory without the marks for whose names `is_void` is true; the latest of the others supersedes it."""
    void = {name for name in (*opponents(memory), *memory.marked_by_hand) if is_void(name)}
    if not void:
        return memory
    left = tuple(name for name in memory.contradicts if name not in void)
    return memory.changed(
        contradicts=left,
        superseded_by=next(reversed(left), None) if memory.superseded_by in void else memory.superseded_by,
        marked_by_hand=tuple(name for name in memory.marked_by_hand if name not in void),
    )


def without_dismissed(memory: PersonaMemory) -> PersonaMemory:
    """A memory without the marks that it dismisses."""
    if not memory.dismissed:
        return memory
    # Another program may name a memory by its bare key.
    dismissed = {name for path in memory.dismissed for name in (path, path.rpartition("/")[2])}
    return without(memory, dismissed.__contains__)
