"""The merge of concurrent versions of one memory. Pure.

Guaranteed: devices that hold the same versions make the same memory, in whatever order the versions arrived, and no
concurrent value is dropped. Safe, because the result depends only on the set of versions: `merge` is commutative,
associative and idempotent, and ties are broken by event ids. The cost is quadratic in the number of versions, which is
small.

A version knows another if its version vector (`seen`) covers the vector of the other; a version that another one knows
is replaced. The remaining, concurrent versions are merged field by field:

* Counts and the times of access and reinforcement take the maximum, the time of creation the minimum, and the relevance is
  that of the last access; connections and themes unite.
* The marks of the versions with the winning value unite, except marks that a version dismissed (see `palace.lifecycle`),
  and marks of an earlier writing of that value: to say it again removes them, except what a hand marked after that.
  Of a dismissal, a mark that a hand set, and taking either back, the latest counts (`PersonaVersion.decided`). Where an
  older program noted no time, a mark by hand counts as earlier than all, and a dismissal as made when its version was
  written.
* A value is replaced by a value that was written in knowledge of the first. Of the remaining values the latest wins, in
  NIP-01's order of the events that first held them. The others are returned as losers, to be kept as siblings.
* The version vectors unite, so the merged memory knows all versions.

A version without a vector, of a program that writes none, is last-write-wins: it replaces every earlier version, and
every later version replaces it. `merge` keeps it beside the later versions; only `joined` leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sense_memory.models import PROVENANCE, State
from sense_memory.palace.lifecycle import without, without_dismissed
from sense_memory.palace.version import PersonaVersion, copy_key


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.models import PersonaMemory

_LIVELINESS: Final = (State.DISSOLVED, State.FORGOTTEN, State.FADING, State.ACTIVE)
_COMPARED: Final = (  # the merged memory is written only if one of these fields differs
    "seen",
    "value",
    "relevance",
    "halflife_days",
    "last_accessed",
    "last_reinforced",
    "access_count",
    "connections",
    "contradicts",
    "superseded_by",
    "marked_by_hand",
    "themes",
    *PROVENANCE,
    "confidence",
    "created_at",
    "written_at",
    "dissolved_at",
    "dismissed",
    "conflict_of",
)


class _Decision(IntEnum):
    """What a hand decided about a pair of memories; of decisions at the same time the highest counts."""

    OPEN = 0  # a mark or a dismissal was taken back
    MARKED = 1
    DISMISSED = 2


@dataclass(frozen=True, slots=True)
class Joined:
    """The merge of some versions.

    Attributes:
        version: the merged version, with the event id of the newest version.
        losers: versions whose values lost to a concurrent value, newest first.
        settled: whether the newest version already equals the merged version, so that nothing has to be written.
    """

    version: PersonaVersion
    losers: tuple[PersonaVersion, ...] = ()
    settled: bool = True


def merge(some: Iterable[PersonaVersion], others: Iterable[PersonaVersion]) -> tuple[PersonaVersion, ...]:
    """The concurrent versions of two sets: those that no other version replaces, newest first.

    Commutative, associative and idempotent.
    """
    ordered = sorted({version.id: version for version in chain(some, others)}.values(), key=_rank)
    return tuple(
        version
        for place, version in enumerate(ordered)
        if not any(_replaces(newer, version) for newer in ordered[:place])
    )


def joined(versions: Iterable[PersonaVersion]) -> Joined:
    """The merge of the versions of one memory. The result depends on the set of versions, not on their order.

    Raises:
        ValueError: there are no versions.
    """
    concurrent = merge(versions, ())
    if not concurrent:
        raise ValueError("no versions to join")
    newest = concurrent[0]
    # Versions without a vector count only where no version has one.
    merged = [version for version in concurrent if version.memory.seen] or list(concurrent)
    if len(merged) == 1:
        return Joined(merged[0], settled=merged[0] is newest)
    main, *losers = _by_value(merged)
    same = [version for version in merged if version.memory.value == main.memory.value]
    memory = _joined(main, same, merged)
    decided: dict[str, int] = {}
    for name, time in chain.from_iterable(version.decided.items() for version in merged):
        decided[name] = max(time, decided.get(name, time))
    version = PersonaVersion(
        memory.changed(event_id=newest.id),
        newest.at,
        main.provenance,
        max(v.ts for v in merged),
        main.rest,
        dict(sorted(decided.items())),
    )
    settled = newest.decided == version.decided and all(
        getattr(newest.memory, name) == getattr(memory, name) for name in _COMPARED
    )
    return Joined(version, tuple(losers), settled)


def sibling(loser: PersonaVersion) -> PersonaMemory:
    """The sibling that keeps the value of a loser: the same memory at the same path on every device."""
    memory = loser.memory
    return memory.changed(
        key=copy_key(memory.key, loser.provenance.id),
        connections=(),
        dismissed=(),
        conflict_of=memory.path,
        event_id="",
    )


def _rank(version: PersonaVersion) -> tuple[int, str]:
    """A sort key that puts the newest first (NIP-01: the later second, then the lower id)."""
    return -version.at, version.id


def _replaces(newer: PersonaVersion, older: PersonaVersion) -> bool:
    """Whether the newer version knows the older version, or has no vector and so replaces every older version."""
    seen, known = newer.memory.seen, older.memory.seen
    if not seen:
        return True
    return bool(known) and all(seen.get(device, 0) >= count for device, count in known.items())


def _by_value(versions: Sequence[PersonaVersion]) -> list[PersonaVersion]:
    """The newest version with each value that no other value replaced; the value that was written last comes first."""
    current = [version for version in versions if not _is_outdated(version, versions)] or versions
    by_value: dict[str, list[PersonaVersion]] = {}
    for version in current:
        by_value.setdefault(version.memory.value, []).append(version)
    latest = [min(same, key=_provenance_rank) for same in by_value.values()]
    return sorted(latest, key=_provenance_rank)


def _provenance_rank(version: PersonaVersion) -> tuple[Any, ...]:
    return -version.provenance.at, version.provenance.id, *_rank(version)


def _is_outdated(version: PersonaVersion, versions: Iterable[PersonaVersion]) -> bool:
    """Whether one of `versions` has another value, or the same said again, in knowledge of this version's value."""
    mine = version.provenance
    for other in versions:
        if other.provenance.id == mine.id:
            continue
        if mine.device and other.memory.seen.get(mine.device, 0) >= mine.count:
            return True
        if not mine.device and (-other.provenance.at, other.provenance.id) < (-mine.at, mine.id):
            return True
    return False


def _joined(
    main: PersonaVersion, same: Sequence[PersonaVersion], versions: Sequence[PersonaVersion]
) -> PersonaMemory:
    """The memory of `main`, merged with all versions. Marks come only from `same`, the versions with its value."""
    memories = [version.memory for version in versions]
    decisions = _decisions(main.memory.value, versions)
    about = [_without_overruled(_about(version, main, versions), decisions) for version in (main, *same)]
    dismissed = _united(memory.dismissed for memory in (main.memory, *memories))
    accessed = max(memory.last_accessed for memory in memories)
    dissolved = [memory.dissolved_at for memory in memories]
    seen: dict[str, int] = {}
    for memory in memories:
        for device, count in memory.seen.items():
            seen[device] = max(count, seen.get(device, 0))
    merged = main.memory.changed(
        relevance=max(memory.relevance for memory in memories if memory.last_accessed == accessed),
        last_accessed=accessed,
        last_reinforced=max(memory.last_reinforced for memory in memories),
        access_count=max(memory.access_count for memory in memories),
        created_at=min(memory.created_at for memory in memories),
        connections=_united(memory.connections for memory in (main.memory, *memories)),
        themes=_united(memory.themes for memory in (main.memory, *memories)),
        dismissed=tuple(name for name in dismissed if decisions[name] is _Decision.DISMISSED),
        contradicts=_united(memory.contradicts for memory in about),
        superseded_by=next((memory.superseded_by for memory in about[1:] if memory.superseded_by), None),
        marked_by_hand=_united(memory.marked_by_hand for memory in about),
        state=max((memory.state for memory in memories), key=_LIVELINESS.index),
        dissolved_at=None if None in dissolved else max(filter(None, dissolved), default=None),
        conflict_of=next((memory.conflict_of for memory in memories if memory.conflict_of), None),
        seen=dict(sorted(seen.items())),
    )
    return without_dismissed(merged)


def _decisions(value: str, versions: Iterable[PersonaVersion]) -> dict[str, _Decision]:
    """The latest decision about each name; marks count only if they are about a value."""
    latest: dict[str, tuple[float, _Decision]] = {}
    for version in versions:
        memory = version.memory
        found = dict.fromkeys(version.decided, _Decision.OPEN)
        found |= dict.fromkeys(memory.marked_by_hand, _Decision.MARKED)
        found |= dict.fromkeys(memory.dismissed, _Decision.DISMISSED)
        for name, decision in found.items():
            if decision is not _Decision.MARKED or memory.value == value:
                unknown = version.ts if decision is _Decision.DISMISSED else 0
                decided = version.decided.get(name, unknown), decision
                latest[name] = max(decided, latest.get(name, decided))
    return {name: decision for name, (_, decision) in latest.items()}


def _about(
    version: PersonaVersion, main: PersonaVersion, versions: Iterable[PersonaVersion]
) -> PersonaMemory:
    """The memory of a version, without the marks that were there when its value was said again."""
    if version is main or not _is_outdated(version, versions):
        return version.memory
    since, by_hand = int(main.memory.written_at), version.memory.marked_by_hand
    return without(version.memory, lambda name: name not in by_hand or version.decided.get(name, 0) < since)


def _without_overruled(memory: PersonaMemory, decisions: Mapping[str, _Decision]) -> PersonaMemory:
    """A memory without the marks that were dismissed, and the marks by hand that were taken back."""

    def is_overruled(name: str) -> bool:
        decision = decisions.get(name)
        by_hand = name in memory.marked_by_hand
        return decision is _Decision.DISMISSED or (by_hand and decision is _Decision.OPEN)

    return without(memory, is_overruled)


def _united(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(lists)))
