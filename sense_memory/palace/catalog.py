"""The memories of a palace at hand: by path, by bare key, by domain and facet, the most relevant first. Pure.

What decay depends on is kept in columns, a place per memory, and changed one at a time; so a listing of
thousands costs some vector operations, and a change costs microseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from sense_memory.limits import FADING_FROM
from sense_memory.palace.columns import STATES, relevances_at, row, states_at


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory, State

_FIRST_PLACES = 1_024


class _Selection:
    """Some memories in the order of their paths.

    Args:
        items: paths and places.

    Attributes:
        places: of the memories.
    """

    def __init__(self, items: Iterable[tuple[str, int]]) -> None:
        ordered = sorted(items)
        self._paths = [path for path, _ in ordered]
        self.places: NDArray[np.intp] = np.array([place for _, place in ordered], np.intp)

    def add(self, path: str, place: int) -> None:
        """One that was not there."""
        at = bisect_left(self._paths, path)
        self._paths.insert(at, path)
        self.places = np.insert(self.places, at, place)

    def remove(self, path: str) -> None:
        """One that was there."""
        at = bisect_left(self._paths, path)
        del self._paths[at]
        self.places = np.delete(self.places, at)


class Catalog:
    """Memories that come and go."""

    def __init__(self) -> None:
        self._memories: list[PersonaMemory | None] = []  # as written
        self._shown: dict[int, PersonaMemory] = {}  # where the state has changed since
        self._places: dict[str, int] = {}  # by path
        self._free: list[int] = []
        self._table = np.zeros((3, _FIRST_PLACES))
        self._tree: dict[str, dict[str, dict[str, int]]] = {}  # by domain, facet and path
        self._by_key: dict[str, dict[str, None]] = {}
        self._selections: dict[tuple[str | None, str | None], _Selection] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[PersonaMemory]:
        return (memory for memory in self._memories if memory is not None)

    def __contains__(self, path: str) -> bool:
        return path in self._places

    def get(self, path: str) -> PersonaMemory | None:
        """The memory at a path (`domain/facet/key`) as it was written."""
        place = self._places.get(path)
        return None if place is None else self._memories[place]

    def named(self, key: str) -> list[str]:
        """The paths of all memories with a bare key, sorted."""
        return sorted(self._by_key.get(key, ()))

    def put(self, memory: PersonaMemory) -> None:
        """Add a memory, or replace the one at its path."""
        path = memory.path
        place = self._places.get(path)
        if place is None:
            place = self._free.pop() if self._free else self._new_place()
            self._places[path] = place
            self._tree.setdefault(memory.domain, {}).setdefault(memory.facet, {})[path] = place
            self._by_key.setdefault(memory.key, {})[path] = None
            for selection in self._selections_with(memory):
                selection.add(path, place)
        self._memories[place] = memory
        self._shown.pop(place, None)
        self._table[:, place] = row(memory)

    def expect_many(self) -> None:
        """Many will come or go: listings are ordered anew afterwards, instead of each time."""
        self._selections.clear()

    def drop(self, path: str) -> None:
        """Remove a memory; one that is not there is no error."""
        place = self._places.pop(path, None)
        memory = None if place is None else self._memories[place]
        if place is None or memory is None:
            return
        self._memories[place] = None
        self._shown.pop(place, None)
        self._free.append(place)
        for selection in self._selections_with(memory):
            selection.remove(path)
        facets = self._tree[memory.domain]
        del facets[memory.facet][path], self._by_key[memory.key][path]
        if not self._by_key[memory.key]:
            del self._by_key[memory.key]
        if not facets[memory.facet]:
            del facets[memory.facet]
        if not facets:
            del self._tree[memory.domain]

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
        """How many memories each facet holds, by domain and facet, sorted."""
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
        """Memories with their state at a time (seconds since 1970), the most relevant first, then by path.

        Args:
            now: the time.
            domain: only of this domain.
            facet: only of facets of this name.
            include_forgotten: forgotten and dissolved ones too.
        """
        places = self._selected(domain, facet)
        relevances = relevances_at(now, self._table[:, places])
        if not include_forgotten:
            alive = relevances >= FADING_FROM
            places, relevances = places[alive], relevances[alive]
        order = np.argsort(-relevances, kind="stable")
        states = states_at(relevances[order]).tolist()
        return [
            self._in_state(place, STATES[state])
            for place, state in zip(places[order].tolist(), states, strict=True)
        ]

    def census(self, now: float) -> dict[State, int]:
        """How many memories are in each state at a time, the liveliest first."""
        states = states_at(relevances_at(now, self._table[:, self._selected(None, None)]))
        counts = np.bincount(states, minlength=len(STATES)).tolist()
        return dict(reversed(list(zip(STATES, counts, strict=True))))

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
            shelves = [
                paths
                for facets in domains
                for paths in (facets.values() if facet is None else [facets.get(facet, {})])
            ]
            self._selections[wanted] = _Selection(item for shelf in shelves for item in shelf.items())
        return self._selections[wanted].places

    def _selections_with(self, memory: PersonaMemory) -> Iterator[_Selection]:
        """The selections made so far to which a memory belongs."""
        for domain in (memory.domain, None):
            for facet in (memory.facet, None):
                if (selection := self._selections.get((domain, facet))) is not None:
                    yield selection

    def _new_place(self) -> int:
        place = len(self._memories)
        self._memories.append(None)
        if place == self._table.shape[1]:
            self._table = np.concatenate((self._table, np.zeros_like(self._table)), axis=1)
        return place
