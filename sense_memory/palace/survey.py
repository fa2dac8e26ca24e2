"""What a look over a whole palace needs of its memories, read once and by place.

To visit a memory costs more than what is done with it, so each is visited as few times as possible, where it
lies; numbers stand in columns. Order and lists come from these columns. Nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.palace.columns import STATES, Columns, states_at
from sense_memory.palace.links import Links


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory, State

_TEXTS: Final = attrgetter("domain", "facet", "key", "value")


@dataclass(frozen=True, slots=True)
class Survey:
    """Memories, and what is known of each by its place.

    Attributes:
        memories: all of them, in the order they came: to sort so many costs more than to look at them.
        now: seconds since 1970.
        by_path: their places in the order of their paths.
        columns: what their decay depends on.
        relevances: current relevance.
        states: current state, as an index into `STATES`.
        shelves: every domain and facet.
        shelf_of: the shelf on which each lies, as an index into `shelves`.
        sizes: characters of key and value.
        links: which memories their links mean; it has the paths as well.
    """

    memories: tuple[PersonaMemory, ...]
    now: float
    by_path: NDArray[np.int64]
    columns: Columns
    relevances: NDArray[np.float64]
    states: NDArray[np.int8]
    shelves: tuple[tuple[str, str], ...]
    shelf_of: NDArray[np.int64]
    sizes: NDArray[np.int64]
    links: Links

    @classmethod
    def of(cls, memories: tuple[PersonaMemory, ...], now: float, columns: Columns | None) -> Survey:
        """A look at some memories, each path once, at a time; with their columns, where the caller has them."""
        columns = Columns.of(memories) if columns is None else columns
        relevances = columns.relevances(now)
        shelves: dict[tuple[str, str], int] = {}
        paths: list[str] = []
        shelf_of: list[int] = []
        sizes: list[int] = []
        for domain, facet, key, value in map(_TEXTS, memories):
            paths.append(f"{domain}/{facet}/{key}")
            shelf_of.append(shelves.setdefault((domain, facet), len(shelves)))
            sizes.append(len(key) + len(value))
        by_path = np.array(sorted(range(len(paths)), key=paths.__getitem__), np.int64)
        numbers = (np.array(shelf_of, np.int64), np.array(sizes, np.int64))
        states = states_at(relevances)
        links = Links(memories, paths)
        return cls(memories, now, by_path, columns, relevances, states, tuple(shelves), *numbers, links)

    def in_order(self) -> tuple[list[PersonaMemory], Columns]:
        """The memories and their columns in the order of their paths."""
        order, columns = self.by_path, self.columns
        memories = [self.memories[place] for place in order.tolist()]
        return memories, Columns(columns.last_accessed[order], columns.rates[order], columns.factors[order])

    def state(self, place: int) -> State:
        """The current state of one."""
        return STATES[self.states[place]]

    def places(self, *states: State, facets: Iterable[str] | None = None) -> list[int]:
        """The places of the memories in these states, perhaps only of facets of these names."""
        wanted = np.isin(self.states, [STATES.index(state) for state in states])
        if facets is not None:
            names = frozenset(facets)
            wanted &= np.array([facet in names for _, facet in self.shelves], np.bool_)[self.shelf_of]
        found: list[int] = np.flatnonzero(wanted).tolist()
        return found

    def ranked(self, found: Mapping[int, str]) -> list[tuple[PersonaMemory, str]]:
        """Memories by place, and why they are listed; the most relevant first, then by path."""
        places = np.fromiter(found, np.int64, len(found))
        ranks = np.empty_like(self.by_path)
        ranks[self.by_path] = np.arange(len(ranks))
        order = places[np.lexsort((ranks[places], -self.relevances[places]))]
        return [(self.memories[place], found[place]) for place in order.tolist()]
