"""Search among persona memories, as the specification has it: its weights, its states, score times relevance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput
from sense_memory.limits import MAX_FOUND_COUNT
from sense_memory.memories.persona import arguments as given
from sense_memory.palace.lifecycle import state_at
from sense_memory.palace.search import FORMAT, PalaceIndex, PersonaHit
from sense_memory.records.cached_index import Kept, made_of, mark_of, with_head, without_head


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.persona import Persona
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.catalog import Catalog
    from sense_memory.records.reader import Reader

_PART_COUNT: Final = 200  # memories that are read at a time: some 20 ms
LANGUAGE: Final = "english"  # of the stemmer for Latin letters; other scripts have their own


class PalaceSearch(Kept):
    """The index of one palace.

    Args:
        persona: its memories.
        ledger: where they lie.
        reader: has the snapshot.
        clock: seconds since 1970.
        near: what an embedder finds close to a query, by path; see `PalaceIndex.search`.
    """

    def __init__(
        self,
        persona: Persona,
        ledger: Ledger,
        reader: Reader,
        *,
        clock: Callable[[], float],
        near: Callable[[str], Awaitable[Mapping[str, float]]] | None = None,
    ) -> None:
        super().__init__("palace", made_of("palace", FORMAT, LANGUAGE, "behind events"), ledger, reader)
        self._persona, self._clock, self._near = persona, clock, near
        self._index: PalaceIndex | None = None
        self._is_following = False
        self._missed: dict[str, None] = {}  # paths that changed while the index was made
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    async def search(self, query: str, limit: int, relevance_floor: float) -> list[PersonaHit]:
        """The memories that a query means, the best first."""
        check(query, limit, relevance_floor)
        catalog = await self._persona.names.catalog()
        index = self._index or await self._made(catalog)
        near = await self._near(query) if self._near is not None else None
        hits = []
        for found in index.search(
            query, now=self._clock(), limit=limit, relevance_floor=relevance_floor, near=near
        ):
            memory = catalog.get(found.path)
            if memory is not None:
                memory = memory.changed(state=state_at(found.why.relevance))
                hits.append(PersonaHit.of(memory, found.score, found.why))
        return hits

    async def _made(self, catalog: Catalog) -> PalaceIndex:
        """The index of the last time with what changed since, or a new one; it follows the palace from now on."""
        async with self._turn:
            if self._index is None:
                index, known = _loaded(await self.saved())
                if not self._is_following:  # a task that was cancelled here may have begun to
                    self._is_following = True
                    self._persona.palace.follow(self)
                changed = self._changed(known)
                for path in known.keys() - set(catalog.paths()):
                    index.drop(path)
                add = index.take_many if len(changed) >= _PART_COUNT else index.put_many
                for start in range(0, len(changed), _PART_COUNT):
                    self.unsaved += add(catalog.all_of(changed[start : start + _PART_COUNT]))
                    await asyncio.sleep(0)  # that was a while, and other tasks want their turn
                if len(changed) >= _PART_COUNT:
                    index.fold()
                self._index, missed, self._missed = index, self._missed, {}
                for path in missed.keys() - set(catalog.paths()):
                    index.drop(path)
                if missed:
                    self.unsaved += index.put_many(catalog.all_of(missed))
        return self._index

    def _changed(self, known: Mapping[str, str]) -> list[str]:
        """The paths of memories that are not just what the event said from which the index knows them."""
        palace = self._persona.palace
        events = ((path, palace.plain.get(path)) for path in palace.catalog.paths())
        return [path for path, ident in events if ident is None or known.get(path) != mark_of(ident)]

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        if self._index is None:
            self._missed[memory.path] = None
        else:
            self.unsaved += self._index.put_many((memory,))

    def drop(self, path: str) -> None:
        """A memory is gone."""
        if self._index is None:
            self._missed[path] = None
        else:
            self._index.drop(path)

    async def catch_up(self) -> None:
        """Bring the index up to date."""
        await self._persona.palace.refresh()

    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes, behind the events of which it knows the memories."""
        if self._index is None:
            return ()
        palace = self._persona.palace
        events = {path: mark_of(palace.plain.get(path, b"")) for path in palace.catalog.paths()}
        return with_head(events, self._index.pieces())


def check(query: object, limit: object, relevance_floor: object) -> None:
    """Refuse what no search can be made with.

    Raises:
        InvalidInput: the query is no text, or a number is out of range.
    """
    if not isinstance(query, str):
        raise InvalidInput("a query must be text")
    if type(limit) is not int or not 1 <= limit <= MAX_FOUND_COUNT:
        raise InvalidInput(f"limit must lie between 1 and {MAX_FOUND_COUNT:,}, not {given.quoted(limit)}")
    if type(relevance_floor) not in {int, float} or not 0 <= relevance_floor <= 1:  # type: ignore[operator]
        raise InvalidInput(f"relevance_floor must lie between 0 and 1, not {given.quoted(relevance_floor)}")


def _loaded(saved: memoryview | None) -> tuple[PalaceIndex, dict[str, str]]:
    """The index that was saved, and by path the event from which it knows each memory; empty: from several."""
    if saved:
        try:
            known, index = without_head(saved)
            return PalaceIndex.load(index), {str(path): ident for path, ident in known.items()}
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):  # a cache: it is made anew
            pass
    return PalaceIndex(LANGUAGE), {}
