"""The memories of a palace in RAM: by path, by bare key, by domain and facet, most relevant first. Pure.

The values that decay depends on are kept in columns, with one place for each memory, so a listing of thousands costs some
vector operations and a change costs microseconds. A memory may be added as a function that reads the memory. Most
programs use few memories of a palace, and a memory object takes time and two kilobytes, so the function is called only
when more than the name of the memory is needed.
"""

from __future__ import annotations

import gc
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from sense_memory.limits import (
    ACTIVE_ABOVE,
    APPLY_BATCH_COUNT,
    CONNECTION_BOOST,
    DAY_SECONDS,
    FADING_FROM,
    FORGOTTEN_FROM,
    SUPERSEDED_FACTOR,
)
from sense_memory.models import State
from sense_memory.palace.lifecycle import opponents, without


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory


# ── Decay ───────────────────────────────────────────────────────────────────────────────
# The same as `palace.lifecycle`, for all memories at once with numpy.

STATES: Final = (State.DISSOLVED, State.FORGOTTEN, State.FADING, State.ACTIVE)  # indexed by `Columns.states`


@dataclass(frozen=True, slots=True)
class Columns:
    """The values that decay depends on, with one place for each memory.

    Attributes:
        last_accessed: seconds since 1970, float64 of shape (n,).
        rates: halvings per second; four times as many for a superseded memory.
        factors: the relevance at the last access, times the factors of connections and contradictions.
    """

    last_accessed: NDArray[np.float64]
    rates: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, memories: Sequence[PersonaMemory]) -> Self:
        """The columns of some memories, in their order."""
        table = np.array([row(memory) for memory in memories], dtype=np.float64).reshape(-1, 3)
        return cls(*(np.ascontiguousarray(column) for column in table.T))

    def relevances(self, now: float) -> NDArray[np.float64]:
        """The current relevance of each memory at a time, seconds since 1970."""
        return relevances_at(now, np.stack((self.last_accessed, self.rates, self.factors)))

    def states(self, now: float) -> NDArray[np.int8]:
        """The state of each memory at a time, as an index into `STATES`."""
        return states_at(self.relevances(now))


def row(memory: PersonaMemory) -> tuple[float, float, float]:
    """The values of one memory in `Columns`: last access, rate, factor."""
    rate = (SUPERSEDED_FACTOR if memory.superseded_by else 1) / (memory.halflife_days * DAY_SECONDS)
    boost = 1.0 + CONNECTION_BOOST * len(memory.connections)
    return memory.last_accessed, rate, memory.relevance * boost * 0.5 ** len(memory.contradicts)


def relevances_at(now: float, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Current relevances at a time (seconds since 1970); `table` has shape (3, n), with a column for each `row`."""
    last_accessed, rates, factors = table
    relevances: NDArray[np.float64] = np.exp2(-np.maximum(0.0, now - last_accessed) * rates) * factors
    return relevances


def states_at(relevances: NDArray[np.float64]) -> NDArray[np.int8]:
    """The states that current relevances mean, as indices into `STATES`."""
    count = (
        (relevances >= FORGOTTEN_FROM).astype(np.int8)
        + (relevances >= FADING_FROM)
        + (relevances > ACTIVE_ABOVE)
    )
    return count.astype(np.int8)


@dataclass(frozen=True, slots=True)
class Forecast:
    """How a palace fades if nothing is recalled.

    Attributes:
        memories: in the order of the caller.
        times: seconds since 1970.
        relevances: of each memory at each time, of shape (memories, times).
    """

    memories: tuple[PersonaMemory, ...]
    times: tuple[float, ...]
    relevances: NDArray[np.float64]

    @classmethod
    def of(cls, memories: Sequence[PersonaMemory], times: Sequence[float]) -> Self:
        """The forecast for some times, at least one."""
        columns = Columns.of(memories)
        found = np.stack([columns.relevances(moment) for moment in times], axis=1)
        return cls(tuple(memories), tuple(times), found)

    def states(self, places: Sequence[int] | None = None) -> dict[str, NDArray[np.intp]]:
        """How many memories are in each state at each time, active first; of the memories at `places`, or of all."""
        numbers = states_at(self.relevances if places is None else self.relevances[list(places)])
        counts = {state.value: (numbers == number).sum(axis=0) for number, state in enumerate(STATES)}
        return dict(reversed(counts.items()))

    def domains(self) -> dict[str, list[int]]:
        """The places of the memories of each domain, the largest domain first."""
        found: dict[str, list[int]] = {}
        for place, memory in enumerate(self.memories):
            found.setdefault(memory.domain, []).append(place)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


_FIRST_PLACES = 1_024
_AGES = 3  # rows of the table that decay depends on; the rows of `Tally` follow


class Tally(NamedTuple):
    """Counts over all memories.

    Attributes:
        connections: links; a connection counts twice if both memories name each other.
        superseded: memories that another memory has replaced.
        conflicts: siblings that keep a value which lost to a concurrent edit.
    """

    connections: int
    superseded: int
    conflicts: int


class _Selection:
    """Some memories in the order of their paths.

    Args:
        items: pairs of path and place.

    Attributes:
        places: the places of the memories.
    """

    def __init__(self, items: Iterable[tuple[str, int]]) -> None:
        ordered = sorted(items)
        self._paths = [path for path, _ in ordered]
        self.places: NDArray[np.intp] = np.array([place for _, place in ordered], np.intp)

    def add(self, path: str, place: int) -> None:
        """Add a new path."""
        at = bisect_left(self._paths, path)
        self._paths.insert(at, path)
        self.places = np.insert(self.places, at, place)

    def remove(self, path: str) -> None:
        """Remove an existing path."""
        at = bisect_left(self._paths, path)
        del self._paths[at]
        self.places = np.delete(self.places, at)


class Catalog:
    """The memories of a palace, changed one at a time."""

    def __init__(self) -> None:
        self._memories: list[PersonaMemory | None] = []  # without void marks; None if not read
        self._unread: dict[
            int, Callable[[], PersonaMemory]
        ] = {}  # by place: reads a memory that is not read yet
        self._shown: dict[
            int, PersonaMemory
        ] = {}  # by place: memories whose state differs from the written state
        self._places: dict[str, int] = {}  # by path
        self._free: list[int] = []
        self._table = np.zeros((_AGES + len(Tally._fields), _FIRST_PLACES))
        self._tree: dict[str, dict[str, dict[str, int]]] = {}  # by domain, facet and path
        self._by_key: dict[str, dict[str, None]] | None = (
            None  # paths by key; made for the first lookup by key
        )
        self._selections: dict[tuple[str | None, str | None], _Selection] = {}
        self._opposed: dict[str, PersonaMemory] = {}  # by path: memories with marks, as written
        self._opposed_by: dict[
            str, set[str]
        ] = {}  # by the name in a mark: the paths of the memories with the mark

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[PersonaMemory]:
        self._read(self._places.values())
        return (memory for memory in self._memories if memory is not None)

    def __contains__(self, path: str) -> bool:
        return path in self._places

    def get(self, path: str) -> PersonaMemory | None:
        """The memory at a path (`domain/facet/key`) as it was written, but without void marks; see "Marks" below."""
        place = self._places.get(path)
        return None if place is None else self._at(place)

    def written(self, path: str) -> PersonaMemory | None:
        """As `get`, with void marks."""
        memory = self.get(path)
        return self._opposed.get(path, memory)

    def meant(self, name: str) -> PersonaMemory | None:
        """The memory that a mark names by its path, or by a bare key that no other memory has; None if there is none."""
        paths = [name] if "/" in name else self.named(name)
        return self.get(paths[0]) if len(paths) == 1 else None

    def paths(self) -> list[str]:
        """The paths of all memories."""
        return list(self._places)

    def all_of(self, paths: Iterable[str]) -> list[PersonaMemory]:
        """The memories at some paths, as `get` gives them; missing paths are left out."""
        places = [place for path in paths if (place := self._places.get(path)) is not None]
        self._read(places)
        return [memory for place in places if (memory := self._memories[place]) is not None]

    def named(self, key: str) -> list[str]:
        """The paths of all memories with a bare key, sorted."""
        if self._by_key is None:
            self._by_key = {}
            for domain, facets in self._tree.items():
                for facet, paths in facets.items():
                    for path in paths:  # a name of another program may contain a slash
                        self._by_key.setdefault(path[len(f"{domain}/{facet}/") :], {})[path] = None
        return sorted(self._by_key.get(key, ()))

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the memory at its path."""
        path = memory.path
        has_marks = path not in self._places or path in self._opposed
        place = self._placed(path, memory.domain, memory.facet, memory.key)
        memory = self._memories[place] = self._without_void_marks(memory)
        self._table[:, place] = _numbers(memory)
        if has_marks or path in self._opposed:
            self._update_marks_of(path)

    def put_unread(self, domain: str, facet: str, key: str, read: Callable[[], PersonaMemory]) -> str:
        """As `put`, for a memory that is read when it is first used.

        Args:
            domain: the memory's domain.
            facet: the memory's facet.
            key: the memory's key.
            read: returns the memory with these names; called at most once, and must not fail.

        Returns:
            The path of the memory.
        """
        path = f"{domain}/{facet}/{key}"
        self._unread[self._placed(path, domain, facet, key)] = read
        self._update_marks_of(path)
        return path

    def expect_many(self) -> None:
        """Prepare for adding or removing many memories: listings are then sorted once, and not after each change."""
        self._selections.clear()

    def drop(self, path: str) -> None:
        """Remove a memory; a missing memory is not an error."""
        place = self._places.pop(path, None)
        memory = None if place is None else self._at(place)
        if place is None or memory is None:
            return
        self._forget_marks(path)
        self._memories[place] = None
        self._table[:, place] = 0
        self._shown.pop(place, None)
        self._free.append(place)
        for selection in self._selections_with(memory.domain, memory.facet):
            selection.remove(path)
        facets = self._tree[memory.domain]
        del facets[memory.facet][path]
        if self._by_key is not None:
            del self._by_key[memory.key][path]
            if not self._by_key[memory.key]:
                del self._by_key[memory.key]
        if not facets[memory.facet]:
            del facets[memory.facet]
        if not facets:
            del self._tree[memory.domain]
        self._update_marks_of(path)

    # ── Marks ───────────────────────────────────────────────────────────────────────────
    # A mark counts only while the memory that it names exists; see `palace.lifecycle`. Devices that did not know of each
    # other may have marked memories in a circle, so that each is superseded by the next. All of them would fade and be
    # pruned, so of a circle the newest memory stands: its mark does not count. Every device finds the same one, because
    # that depends only on the marks and on when the texts were written. The cost is a step for each older memory of the circle.

    def opposed_by(self, path: str) -> list[str]:
        """The paths of memories with a mark that names a path, existing or not; unread memories are left out."""
        if not self._opposed_by:
            return []
        names = {path, path.rpartition("/")[2]}
        return sorted({other for name in names for other in self._opposed_by.get(name, ())} - {path})

    def _without_void_marks(self, memory: PersonaMemory) -> PersonaMemory:
        """A memory without the marks that name no other memory; see also `_update_marks_of`."""
        if not self._note_marks(memory):
            return memory
        void = {None, memory.path}
        if stands := self._stands(memory):
            void.add(self._successor(memory))
        left = without(memory, lambda name: self._path_named(name) in void)
        return left.changed(superseded_by=None) if stands else left

    def _note_marks(self, memory: PersonaMemory) -> bool:
        """Keep a memory as it was written, if it has marks; returns whether it has."""
        names = opponents(memory)
        for name in names:
            self._opposed_by.setdefault(name, set()).add(memory.path)
        if names:
            self._opposed[memory.path] = memory
        return bool(names)

    def _stands(self, memory: PersonaMemory) -> bool:
        """Whether a memory is the newest of a circle of memories, each superseded by the next."""
        own, met = (memory.written_at, memory.path), set[str]()
        path = self._successor(memory)
        while path is not None and path not in met and path != memory.path:
            met.add(path)
            other = self._as_written(path)
            if (other.written_at, path) > own:
                return False
            path = self._successor(other)
        return path == memory.path

    def _successor(self, memory: PersonaMemory) -> str | None:
        """The path of the existing memory that supersedes a memory, as `without` leaves it; or None."""
        if memory.superseded_by is None:
            return None
        named = map(self._path_named, (memory.superseded_by, *reversed(memory.contradicts)))
        return next((path for path in named if path not in {None, memory.path}), None)

    def _as_written(self, path: str) -> PersonaMemory:
        """An existing memory with void marks; an unread memory stays unread, because it may be one of many in a row."""
        place = self._places[path]
        memory = self._opposed.get(path, self._memories[place])
        if memory is None:
            memory = self._unread[place]()
            self._unread[place] = repeat(memory).__next__  # `read` is called once
            self._note_marks(memory)
        return memory

    def _path_named(self, name: str) -> str | None:
        """The path of the memory that a mark names by path, or by a bare key that only this memory has; or None."""
        if "/" in name:
            return name if name in self._places else None
        paths = self.named(name)
        return paths[0] if len(paths) == 1 else None

    def _update_marks_of(self, path: str) -> None:
        """After a memory was added or removed, or its marks changed: update those whose marks lead to it."""
        found, waiting = {path}, [path]
        while waiting:
            new = set(self.opposed_by(waiting.pop())) - found
            found |= new
            waiting += new
        for other in found - {path}:
            place = self._places[other]
            if place not in self._unread:
                memory = self._memories[place] = self._without_void_marks(self._opposed[other])
                self._table[:, place] = _numbers(memory)
                self._shown.pop(place, None)

    def _forget_marks(self, path: str) -> None:
        if self._opposed and (written := self._opposed.pop(path, None)) is not None:
            for name in opponents(written):
                self._opposed_by[name].discard(path)
                if not self._opposed_by[name]:
                    del self._opposed_by[name]

    # ── Views ───────────────────────────────────────────────────────────────────────────

    def domains(self) -> list[str]:
        """Every domain that holds a memory, sorted."""
        return sorted(self._tree)

    def facets(self, domain: str) -> list[str]:
        """Every facet of a domain that holds a memory, sorted."""
        return sorted(self._tree.get(domain, ()))

    def of(self, domain: str, facet: str) -> list[PersonaMemory]:
        """Every memory of a facet, by path."""
        paths = sorted(self._tree.get(domain, {}).get(facet, ()))
        return [memory for path in paths if (memory := self.get(path)) is not None]

    def sizes(self) -> dict[str, dict[str, int]]:
        """The number of memories by domain and facet, sorted."""
        return {
            domain: {facet: len(self._tree[domain][facet]) for facet in self.facets(domain)}
            for domain in self.domains()
        }

    def ranked(
        self,
        now: float,
        domain: str | None = None,
        facet: str | None = None,
        *,
        include_forgotten: bool = False,
    ) -> list[PersonaMemory]:
        """Memories with their state at a time, most relevant first, then by path.

        Args:
            now: seconds since 1970.
            domain: only memories of this domain; None for all.
            facet: only memories of facets with this name; None for all.
            include_forgotten: include forgotten and dissolved memories.
        """
        places = self._selected(domain, facet)
        self._read(places.tolist())
        relevances = relevances_at(now, self._table[:_AGES, places])
        if not include_forgotten:
            alive = relevances >= FADING_FROM
            places, relevances = places[alive], relevances[alive]
        order = np.argsort(-relevances, kind="stable")
        states = states_at(relevances[order]).tolist()
        return [
            self._in_state(place, STATES[state])
            for place, state in zip(places[order].tolist(), states, strict=True)
        ]

    def counts_by_state(self, now: float) -> dict[State, int]:
        """The number of memories in each state at a time, from active to dissolved."""
        places = np.fromiter(self._places.values(), np.intp, len(self._places))
        self._read(self._places.values())
        states = states_at(relevances_at(now, self._table[:_AGES, places]))
        counts = np.bincount(states, minlength=len(STATES)).tolist()
        return dict(reversed(list(zip(STATES, counts, strict=True))))

    def tally(self) -> Tally:
        """Counts over all memories."""
        self._read(self._places.values())
        return Tally(*self._table[_AGES:].sum(axis=1).astype(np.int64).tolist())

    def columns(self) -> Columns:
        """A copy of the values that decay depends on, in the order of iteration."""
        self._read(self._places.values())
        places = [place for place, memory in enumerate(self._memories) if memory is not None]
        return Columns(*self._table[:_AGES, places])

    # ── Inside ──────────────────────────────────────────────────────────────────────────

    def _at(self, place: int) -> PersonaMemory | None:
        """The memory at a place, read if necessary; None if the place is empty."""
        if place in self._unread:
            self._read((place,))
        return self._memories[place]

    def _read(self, places: Iterable[int]) -> None:
        """Read the unread memories at some places."""
        unread = [place for place in places if place in self._unread] if self._unread else []
        if not unread:
            return
        with collector_paused(len(unread)):
            memories = [self._unread[place]() for place in unread]
        for place, memory in zip(unread, memories, strict=True):
            self._memories[place] = memory
            del self._unread[place]
        memories = [self._without_void_marks(memory) for memory in memories]
        for place, memory in zip(unread, memories, strict=True):
            self._memories[place] = memory
        self._table[:, unread] = np.array([_numbers(memory) for memory in memories]).T

    def _in_state(self, place: int, state: State) -> PersonaMemory:
        memory = self._memories[place]
        if memory is None:
            raise KeyError(place)
        if memory.state is state:
            return memory
        shown = self._shown.get(place)
        if shown is None or shown.state is not state:
            shown = self._shown[place] = memory.changed(state=state)
        return shown

    def _selected(self, domain: str | None, facet: str | None) -> NDArray[np.intp]:
        """The places of a domain, or of a facet, in the order of their paths."""
        wanted = (domain, facet)
        if wanted not in self._selections:
            domains = self._tree.values() if domain is None else [self._tree.get(domain, {})]
            groups = [
                paths
                for facets in domains
                for paths in (facets.values() if facet is None else [facets.get(facet, {})])
            ]
            self._selections[wanted] = _Selection(item for paths in groups for item in paths.items())
        return self._selections[wanted].places

    def _selections_with(self, domain: str, facet: str) -> Iterator[_Selection]:
        """The existing selections that contain a facet of a domain."""
        if self._selections:
            for wanted in ((domain, facet), (domain, None), (None, facet), (None, None)):
                if (selection := self._selections.get(wanted)) is not None:
                    yield selection

    def _placed(self, path: str, domain: str, facet: str, key: str) -> int:
        """The place for a memory, new if necessary, and emptied if not."""
        place = self._places.get(path)
        if place is None:
            place = self._free.pop() if self._free else self._new_place()
            self._places[path] = place
            self._tree.setdefault(domain, {}).setdefault(facet, {})[path] = place
            if self._by_key is not None:
                self._by_key.setdefault(key, {})[path] = None
            for selection in self._selections_with(domain, facet):
                selection.add(path, place)
        else:
            self._forget_marks(path)
            self._memories[place] = None
            self._unread.pop(place, None)
            self._shown.pop(place, None)
        return place

    def _new_place(self) -> int:
        place = len(self._memories)
        self._memories.append(None)
        if place == self._table.shape[1]:
            self._table = np.concatenate((self._table, np.zeros_like(self._table)), axis=1)
        return place


def _numbers(memory: PersonaMemory) -> tuple[float, ...]:
    """The column of a memory in the table."""
    return (
        *row(memory),
        len(memory.connections),
        memory.superseded_by is not None,
        memory.conflict_of is not None,
    )


@contextmanager
def collector_paused(count: int) -> Iterator[None]:
    """Pause the garbage collector while many lasting objects (`count`) are made, which it would visit repeatedly."""
    is_paused = count >= APPLY_BATCH_COUNT and gc.isenabled()
    if is_paused:
        gc.disable()
    try:
        yield
    finally:
        if is_paused:
            gc.enable()
