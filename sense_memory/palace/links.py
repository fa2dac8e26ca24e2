"""Which memory a link means: full paths, and bare keys where only one memory has that key.

A link to a memory that is not there, an ambiguous bare key, and a link to oneself mean nothing here. It
never raises: what a user names is checked where it is written.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory


class Edges(NamedTuple):
    """Links, one place in both for each; in the order of the owners, and of their links.

    Attributes:
        owners: the places of the memories that name another.
        others: the places of those that are named.
    """

    owners: NDArray[np.int64]
    others: NDArray[np.int64]


class Links:
    """The links of some memories, as places in their sequence.

    Args:
        memories: each path once.
        paths: of the memories, where the caller has them already.

    Attributes:
        paths: of the memories.
        connected: what `connections` mean.
        opposed: for each memory with `contradicts` or `superseded_by`, in order, the memories that they mean.
        dismissed: the same of `dismissed` and `conflict_of`.
    """

    def __init__(self, memories: Sequence[PersonaMemory], paths: Sequence[str] | None = None) -> None:
        self.paths = [memory.path for memory in memories] if paths is None else paths
        self._memories = memories
        self._places = dict(zip(self.paths, range(len(memories)), strict=True))
        self._of_keys: dict[str, int] | None = None  # most palaces have no bare link
        self.connected = self._edges([memory.connections for memory in memories])
        self.opposed: dict[int, set[int]] = {}
        self.dismissed: dict[int, set[int]] = {}
        for place, memory in enumerate(memories):
            if memory.contradicts or memory.superseded_by is not None:
                self.opposed[place] = self._meant(place, (*memory.contradicts, memory.superseded_by))
            if memory.dismissed or memory.conflict_of is not None:
                self.dismissed[place] = self._meant(place, (*memory.dismissed, memory.conflict_of))

    def place(self, link: str) -> int | None:
        """Where the memory that a link means stands; None where it means none."""
        found = self._places.get(link, -1) if "/" in link else self._of_key(link)
        return None if found < 0 else found

    def settled(self) -> Edges:
        """Who names whom in any way: their relation is decided."""
        lists = [*self.opposed.items(), *self.dismissed.items()]
        owners = np.repeat([place for place, _ in lists], [len(meant) for _, meant in lists])
        others = [other for _, meant in lists for other in meant]
        return Edges(
            np.concatenate((self.connected.owners, owners)).astype(np.int64),
            np.concatenate((self.connected.others, others)).astype(np.int64),
        )

    def _meant(self, place: int, links: Sequence[str | None]) -> set[int]:
        found = {self.place(link) for link in links if link is not None} - {None, place}
        return {other for other in found if other is not None}

    def _edges(self, lists: Sequence[Sequence[str]]) -> Edges:
        links = list(chain.from_iterable(lists))
        owners = np.repeat(np.arange(len(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
        others = np.fromiter(map(self._places.get, links, repeat(-1)), np.int64, len(links))
        for number in np.flatnonzero(others < 0).tolist():
            if "/" not in links[number]:
                others[number] = self._of_key(links[number])
        meant = (others >= 0) & (others != owners)
        return Edges(owners[meant], others[meant])

    def _of_key(self, key: str) -> int:
        """The place of the only memory with a bare key, or -1."""
        if self._of_keys is None:
            self._of_keys = {}
            for place, memory in enumerate(self._memories):
                self._of_keys[memory.key] = -1 if memory.key in self._of_keys else place
        return self._of_keys.get(key, -1)
