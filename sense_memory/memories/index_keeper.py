"""The keeper of a search index: it follows the sources of the items, and keeps the index in step with them.

A source says what has changed: which items are gone, and which are new. The keeper reads changes in parts, so that other
tasks get their turn, drops and indexes items, and sorts the words of many new items in a thread. One task at a time does
this for all searches, and goes on when a search is cancelled. A snapshot keeps the index between processes.

Guaranteed: a search that waits for the index finds all that was written before it began. A search that waits only for
some seconds finds all that was indexed by then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sense_memory.errors import LedgerError, StoreClosed
from sense_memory.records.sealed_caches import CachedIndex, with_header, without_header
from sense_memory.search.index import SearchIndex
from sense_memory.search.ranking import SearchOptions


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.records.reader import Reader
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.embedders.embedder import Embedder

LANGUAGE: Final = "english"  # of the stemmer for Latin letters; other scripts have their own
_MANY: Final = 100  # so many new items are sorted together, later
_THREAD_COUNT: Final = 5_000  # an index with so many items sorts its words in a thread


class ItemChanges(NamedTuple):
    """Some changes: the names of items that are gone, then new items or new states of items."""

    gone: Sequence[str]
    fresh: Sequence[SearchItem]


class ItemSource(Protocol):
    """Where some items of an index come from."""

    @property
    def left(self) -> int:
        """How many changes are still unread, as far as is known."""

    def has_changed(self) -> bool:
        """Whether something may have changed since the last look; True where only `changes` can tell."""

    def changes(self, index: SearchIndex) -> AsyncIterator[ItemChanges]:
        """What changed since the last look, in parts of some 20 ms. Exhaust the iterator.

        At the first look, all in which the source differs from the index, which may be of an earlier process. A changed
        item whose stamp says nothing of it is among those that are gone, too.
        """

    def begin(self, saved: Any) -> None:
        """Begin before the first look, with None or with what `saved` returned in an earlier process.

        Raises:
            ValueError, KeyError, TypeError, IndexError: `saved` did not return this.
        """

    def saved(self) -> Any:
        """What `begin` needs to go on from here, as plain values for JSON; None where the index says enough."""


class IndexKeeper(CachedIndex):
    """Keeps one index in step with its sources.

    Args:
        name: the name of the index in the snapshot.
        made: what the index depends on, from the function `made_of`.
        ledger: the ledger whose items are indexed.
        reader: the reader, which has the snapshot.
        sources: the sources of the items, in the order of reading.
        embedder: opens the embedder, or None where there is none.
        was_read: called after each reading, while `turn` is held.
        has_ended: called with each reading that ends, to report an error that no search waits for.
        discards: whether the snapshot is discarded as soon as an item is dropped; for items whose removal the ledger
            does not notice.

    Attributes:
        index: the index; None before it was first read.
        turn: a lock, held while the index changes.
        options: of the index.
        progress: called with the numbers of the items read and of all items, or None.
    """

    def __init__(
        self,
        name: str,
        made: str,
        ledger: Ledger,
        reader: Reader,
        sources: Sequence[ItemSource],
        *,
        embedder: Callable[[], Awaitable[Embedder | None]],
        was_read: Callable[[SearchIndex], Awaitable[None]],
        has_ended: Callable[[asyncio.Task[None]], None] | None = None,
        discards: bool = False,
    ) -> None:
        super().__init__(name, made, ledger, reader)
        self.index: SearchIndex | None = None
        self.turn = asyncio.Lock()
        self.options = SearchOptions()
        self.progress: Callable[[int, int], None] | None = None
        self._sources, self._embedder, self._was_read = sources, embedder, was_read
        self._has_ended = has_ended or _retrieve
        self._discards, self._is_clean = discards, True
        self._unsorted = 0  # items in the index that no search finds yet
        self._unsorted_waiting: list[asyncio.Future[None]] = []  # searches that wait for these
        self._source_waiting: dict[int, list[asyncio.Future[None]]] = {}  # by place of the source
        self._reading: asyncio.Task[None] | None = None
        self._begun = 0  # readings
        self._is_closed = False

    def __len__(self) -> int:
        return 0 if self.index is None else len(self.index)

    @property
    def left(self) -> int:
        """How many changes are still unread, as far as is known."""
        return sum(source.left for source in self._sources)

    # ── For searches ────────────────────────────────────────────────────────────────────

    async def current(self) -> SearchIndex:
        """The index, up to date.

        Raises:
            StoreClosed: the keeper was closed meanwhile.
        """
        index = await self.current_within(None)
        return self._new_index() if index is None else index

    async def current_within(self, seconds: float | None) -> SearchIndex | None:
        """The index, up to date; None if that takes longer than some seconds. Raises as `current`."""
        earlier, is_ours = self._begun, False
        while not is_ours and (self.index is None or any(source.has_changed() for source in self._sources)):
            reading = self._reading_task()
            is_ours = self._begun > earlier  # an earlier one may have missed what was written since
            done, _ = await asyncio.wait({reading}, timeout=seconds)
            if not done:
                return None
            _check(reading)
        return self.index

    async def so_far(self) -> SearchIndex:
        """The index as far as it is, in which all that it has can be found."""
        if self._unsorted and self._reading is not None:
            await self._first_of(self._reading, self._unsorted_waiting)
        return self._new_index() if self.index is None else self.index

    async def current_of(self, place: int) -> SearchIndex:
        """The index with all items of one source, by its place among the sources. Raises as `current`."""
        while self.index is None or self._sources[place].has_changed():
            reading = self._reading_task()
            await self._first_of(reading, self._source_waiting.setdefault(place, []))
            if reading.done():
                _check(reading)
        return self.index

    async def catch_up(self) -> None:
        """Bring the index up to date; after `close` it stays as it is, and the next process continues it."""
        if not self._is_closed:
            await self.current()

    async def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _first_of(self, reading: asyncio.Task[None], waiting: list[asyncio.Future[None]]) -> None:
        """Wait until a reading ends, or until it wakes those who wait."""
        ready = asyncio.get_running_loop().create_future()
        waiting.append(ready)
        await asyncio.wait({reading, ready}, return_when=asyncio.FIRST_COMPLETED)

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    def _reading_task(self) -> asyncio.Task[None]:
        """The task that brings the index up to date, or a new one."""
        if self._reading is not None and not self._reading.done():
            return self._reading
        task = self._reading = asyncio.create_task(self._read_on())
        self._begun += 1
        task.add_done_callback(self._has_ended)
        return task

    async def _read_on(self) -> None:
        """Bring the index up to date, source by source; one that searches wait for comes first."""
        async with self.turn:
            index = self.index = self.index or await self._restored()
            for place in range(len(self._sources)):
                await self._look_at(index, place)
            await self._sort_in(index)
            await self._was_read(index)

    async def _look_at(self, index: SearchIndex, place: int, within: frozenset[int] = frozenset()) -> None:
        """Index what changed in a source, then wake the searches that wait for it.

        Args:
            index: the index.
            place: of the source.
            within: the places of the sources that are in the middle of their changes.
        """
        waiting, busy = self._source_waiting.pop(place, []), within | {place}
        try:
            async for changes in self._sources[place].changes(index):
                await self._take_in(index, changes)
                for other in self._source_waiting.keys() - busy:
                    await self._look_at(index, other, busy)
            if waiting:
                await self._sort_in(index)
        finally:
            _wake(waiting)

    async def _take_in(self, index: SearchIndex, changes: ItemChanges) -> None:
        """Drop and index some items, before anything awaits: a source does not give them again."""
        dropped = [name for name in changes.gone if index.drop(name)]
        items = index.refreshed(changes.fresh)
        self.unsaved += len(items)
        is_part = len(items) >= _MANY
        if is_part:
            index.put_many_unsorted(items)
            self._unsorted += len(items)
        else:
            index.put_many(items, embeds=False)
        if dropped and self._discards:
            self._is_clean = False
            with suppress(LedgerError):
                await self._ledger.write(self._ledger.snapshot.discard)
        if self._unsorted_waiting:
            await self._sort_in(index)
        if items and self.progress is not None:
            self.progress(len(index), len(index) + self.left)
        if is_part:
            await asyncio.sleep(0)  # indexing took a while, and other tasks want their turn

    async def _sort_in(self, index: SearchIndex) -> None:
        """Make everything in the index findable, then wake the searches that wait for that."""
        if self._unsorted:
            is_long = len(index) >= _THREAD_COUNT
            index.use_sorted(
                await asyncio.to_thread(index.sorted_postings) if is_long else index.sorted_postings()
            )
            self._unsorted = 0
        waiting, self._unsorted_waiting = self._unsorted_waiting, []
        _wake(waiting)

    # ── The snapshot ────────────────────────────────────────────────────────────────────

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """As `CachedIndex.dump`; also None if an item was dropped and the keeper `discards`."""
        return await super().dump() if self._is_clean else None

    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes, with what its sources need to go on."""
        if self.index is None:
            return ()
        return with_header([source.saved() for source in self._sources], self.index.dump())

    async def _restored(self) -> SearchIndex:
        """The saved index, or a new one."""
        self._begin([None] * len(self._sources))
        embedder, saved = await self._embedder(), await self.saved()
        if saved:
            try:
                states, index = without_header(saved)
                self._begin(states)
                return await asyncio.to_thread(SearchIndex.load, index, self.options, embedder)
            except (ValueError, KeyError, TypeError, IndexError):  # a cache: the index is made anew
                self._begin([None] * len(self._sources))
        return self._new_index(embedder)

    def _new_index(self, embedder: Embedder | None = None) -> SearchIndex:
        return SearchIndex(self.options, LANGUAGE, embedder)

    def _begin(self, states: Sequence[Any]) -> None:
        for source, state in zip(self._sources, states, strict=True):
            source.begin(state)


def _check(reading: asyncio.Task[None]) -> None:
    """Raise the error of a reading that has ended."""
    if reading.cancelled():
        raise StoreClosed
    reading.result()


def _retrieve(reading: asyncio.Task[None]) -> None:
    """Mark an error as read: a caller that still waits gets it; without one, asyncio need not report it."""
    if not reading.cancelled():
        reading.exception()


def _wake(waiting: Sequence[asyncio.Future[None]]) -> None:
    for one in waiting:
        if not one.done():
            one.set_result(None)
