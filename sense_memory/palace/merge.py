"""The merge of concurrent versions of one memory. Pure, and the same on every device.

A version knows another version if its version vector (`seen`) covers the vector of the other; then it replaces the
other. The versions that no other version knows are merged: times and counts take the maximum, links and themes unite
(a mark that one of them dismissed is gone, see `supersession`), and a value yields to a value that was written in
knowledge of the first. Of concurrent values the later one wins (in NIP-01's order of the events that first held them),
and the others are returned, to be kept as siblings. The vectors are joined, so the merged memory knows all versions. A
version without a vector is last-write-wins: it replaces every version before it, and every version after it replaces
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sense_memory.models import State
from sense_memory.palace.lifecycle import standing
from sense_memory.palace.version import PersonaVersion, Provenance, copy_key


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.models import PersonaMemory

_LIVELINESS: Final = (State.DISSOLVED, State.FORGOTTEN, State.FADING, State.ACTIVE)
_COMPARED: Final = (  # the merged memory is written only where one of these fields differs
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
    "themes",
    "source",
    "confidence",
    "created_at",
    "dissolved_at",
    "dismissed",
    "conflict_of",
)


@dataclass(frozen=True, slots=True)
class Joined:
    """The merge of some versions.

    Attributes:
        version: the merged version, with the event id of the newest.
        losers: versions with values that lost against a concurrent one, the newest first.
        settled: whether the newest version already equals the merged one, and knows all versions.
    """

    version: PersonaVersion
    losers: tuple[PersonaVersion, ...] = ()
    settled: bool = True


def merge(some: Iterable[PersonaVersion], others: Iterable[PersonaVersion]) -> tuple[PersonaVersion, ...]:
    """The versions of both that no other one knows, the newest first. Commutative, associative, idempotent."""
    ordered = sorted({version.id: version for version in chain(some, others)}.values(), key=_rank)
    return tuple(
        version
        for place, version in enumerate(ordered)
        if not any(_counts_over(newer, version) for newer in ordered[:place])
    )


def joined(versions: Iterable[PersonaVersion]) -> Joined:
    """The merge of the versions of one memory, which depends on the set of versions and not on their order.

    Raises:
        ValueError: there are no versions.
    """
    left = merge(versions, ())
    if not left:
        raise ValueError("no versions to join")
    speaking = [version for version in left if version.memory.seen] or list(left)
    if len(speaking) == 1:
        return Joined(speaking[0], settled=speaking[0] is left[0])
    main, *losers = _values(speaking)
    same = [version for version in speaking if version.memory.value == main.memory.value]
    memory = _joined(main, same, speaking)
    version = PersonaVersion(
        memory.changed(event_id=left[0].id),
        left[0].at,
        main.provenance,
        max(v.ts for v in speaking),
        main.rest,
    )
    settled = all(getattr(left[0].memory, name) == getattr(memory, name) for name in _COMPARED)
    return Joined(version, tuple(losers), settled)


def sibling(loser: PersonaVersion) -> PersonaMemory:
    """The sibling that keeps a value which lost; the same memory at the same path on every device."""
    memory = loser.memory
    return memory.changed(
        key=copy_key(memory.key, loser.provenance.id),
        connections=(),
        dismissed=(),
        conflict_of=memory.path,
        event_id="",
    )


def _rank(version: PersonaVersion) -> tuple[int, str]:
    """NIP-01: the later second, then the lower id."""
    return -version.at, version.id


def _counts_over(newer: PersonaVersion, older: PersonaVersion) -> bool:
    """Whether the newer version knows the older one, or has no vector and so replaces every older one."""
    seen, known = newer.memory.seen, older.memory.seen
    if not seen:
        return True
    return bool(known) and all(seen.get(device, 0) >= count for device, count in known.items())


def _values(speaking: Sequence[PersonaVersion]) -> list[PersonaVersion]:
    """For each value that no later one replaced, the newest version with it; the value written last comes first."""
    current = [version for version in speaking if not _is_outdated(version, speaking)] or speaking
    by_value: dict[str, list[PersonaVersion]] = {}
    for version in current:
        by_value.setdefault(version.memory.value, []).append(version)
    latest = [min(same, key=_provenance_rank) for same in by_value.values()]
    return sorted(latest, key=_provenance_rank)


def _provenance_rank(version: PersonaVersion) -> tuple[Any, ...]:
    return -version.provenance.at, version.provenance.id, *_rank(version)


def _is_outdated(version: PersonaVersion, speaking: Iterable[PersonaVersion]) -> bool:
    """Whether the value of a version was replaced by a value that was written in knowledge of that version."""
    said = version.provenance
    for other in speaking:
        if other.provenance.id == said.id:
            continue
        if said.device and other.memory.seen.get(said.device, 0) >= said.count:
            return True
        if not said.device and (-other.provenance.at, other.provenance.id) < (-said.at, said.id):
            return True
    return False


def _joined(
    main: PersonaVersion, same: Sequence[PersonaVersion], speaking: Sequence[PersonaVersion]
) -> PersonaMemory:
    """The memory of `main`, merged with the others; fields about the value come only from versions with that value."""
    memories = [version.memory for version in speaking]
    about = [version.memory for version in same]
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
        dismissed=_united(memory.dismissed for memory in (main.memory, *memories)),
        contradicts=_united(memory.contradicts for memory in (main.memory, *about)),
        superseded_by=next((memory.superseded_by for memory in about if memory.superseded_by), None),
        state=max((memory.state for memory in memories), key=_LIVELINESS.index),
        dissolved_at=None if None in dissolved else max(filter(None, dissolved), default=None),
        conflict_of=next((memory.conflict_of for memory in memories if memory.conflict_of), None),
        seen=dict(sorted(seen.items())),
    )
    return standing(merged)


def _united(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(lists)))


__all__ = ["Joined", "PersonaVersion", "Provenance", "joined", "merge", "sibling"]
