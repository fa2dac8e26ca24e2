"""Which memory a link means: full paths, and bare keys where only one memory has that key.

A link to a memory that is not there, an ambiguous bare key, and a link to oneself mean nothing here. It
never raises: what a user names is checked where it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.models import PersonaMemory


class Links:
    """The links of some memories, as places in their sequence.

    Args:
        memories: each path once.
        paths: of the memories, where the caller has them already.

    Attributes:
        paths: of the memories.
        connected: for each memory with `connections`, in order, the memories that they mean.
        opposed: the same of `contradicts` and `superseded_by`.
        dismissed: the same of `dismissed` and `conflict_of`.
    """

    def __init__(self, memories: Sequence[PersonaMemory], paths: Sequence[str] | None = None) -> None:
        self.paths = [memory.path for memory in memories] if paths is None else paths
        self._memories = memories
        self._places = {path: place for place, path in enumerate(self.paths)}
        self._of_keys: dict[str, int | None] | None = None  # most palaces have no bare link
        self.connected: dict[int, set[int]] = {}
        self.opposed: dict[int, set[int]] = {}
        self.dismissed: dict[int, set[int]] = {}
        for place, memory in enumerate(memories):
            if memory.connections:
                self.connected[place] = self._meant(place, memory.connections)
            if memory.contradicts or memory.superseded_by is not None:
                self.opposed[place] = self._meant(place, (*memory.contradicts, memory.superseded_by))
            if memory.dismissed or memory.conflict_of is not None:
                self.dismissed[place] = self._meant(place, (*memory.dismissed, memory.conflict_of))

    def place(self, link: str) -> int | None:
        """Where the memory that a link means stands; None where it means none."""
        return self._places.get(link) if "/" in link else self._keys().get(link)

    def settled(self, place: int) -> set[int]:
        """The memories with which a memory's relation is decided: linked in any way, or dismissed."""
        nothing = set[int]()
        return nothing.union(
            *(links.get(place, nothing) for links in (self.connected, self.opposed, self.dismissed))
        )

    def _meant(self, place: int, links: Iterable[str | None]) -> set[int]:
        found = {self.place(link) for link in links if link is not None} - {None, place}
        return {other for other in found if other is not None}

    def _keys(self) -> dict[str, int | None]:
        if self._of_keys is None:
            self._of_keys = {}
            for place, memory in enumerate(self._memories):
                self._of_keys[memory.key] = None if memory.key in self._of_keys else place
        return self._of_keys
