"""The embedder of an open store, and the jobs that give the memories of an index their vectors.

An embedder runs in a thread. After a failure it is not called for a while: callers get None at once, and searches rank
by words. Texts go only to the embedder that the owner has chosen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from sense_memory.errors import EmbedderError, LedgerError, SenseMemoryError
from sense_memory.limits import EMBED_BATCH_COUNT, EMBED_SECONDS, EMBEDDER_REST_SECONDS, MAX_BATCH_COUNT
from sense_memory.records.sealed_caches import MemoryVectors


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.memories.shared_embeddings import SharedEmbeddings
    from sense_memory.records.sealed_caches import VectorCache, VectorSource
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.index import SearchIndex


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Gaps:
    """The memories that a search finds by words only although there is an embedder, and those that it does not find.

    Attributes:
        count: memories without vectors.
        trouble: why the last call of the embedder failed; None if it succeeded.
        unread: memories that are not in the index yet, so that no search finds them. The first search builds the
            index, at some ten thousand memories a second.
    """

    count: int
    trouble: EmbedderError | None
    unread: int = 0


@dataclass(frozen=True, slots=True)
class EmbedReport(Gaps):
    """The result of `MemoryStore.embed`, and what is left to do.

    Attributes:
        embedded: memories for which the embedder made vectors.
        taken: memories whose vectors came from another device of this key, without a call of the embedder.
        shared: memories whose vectors were written as events.
        too_large: memories whose vectors do not fit an event, because a long text has many vectors. Searches here find
            these memories by meaning; every other device has to embed them itself.
        unshared: memories whose vectors could not be shared: the event at their address is dated far ahead of this
            clock, or was written by a newer sense-memory.
        forgotten: events with vectors of forgotten memories; this call has forgotten the events too.
        model: the embedder's name; empty if there is no embedder.
    """

    embedded: int = 0
    taken: int = 0
    shared: int = 0
    too_large: int = 0
    unshared: int = 0
    forgotten: int = 0
    model: str = field(default="", compare=False)


class EmbedderClient:
    """An embedder that is called in a thread, one call at a time, and rests after a failure.

    Args:
        embedder: the embedder to call.
        clock: seconds of a clock that never goes back.
        cache: keeps the vectors of memories.

    Attributes:
        embedder, clock, cache: as given.
        trouble: why the last call of the embedder failed; None if it succeeded.
    """

    def __init__(self, embedder: Embedder, clock: Callable[[], float], cache: VectorCache) -> None:
        self.embedder, self.cache = embedder, cache
        self.trouble: EmbedderError | None = None
        self.clock, self._rests_until = clock, float("-inf")
        self._dimension: int | None = None  # None until it is known
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.embedder.name

    async def rows(self, texts: Sequence[str], *, again: bool = False) -> NDArray[np.float32] | None:
        """A row for each text; None, with `trouble` set, if the embedder fails or is resting after a failure.

        Args:
            texts: what to embed.
            again: call the embedder even if it is resting.
        """
        async with self._turn:
            return await self._call(lambda: self._embed(texts), again=again)

    async def direction(self, question: str) -> NDArray[np.float32] | None:
        """The vector of a question; None as for `rows`, and for an empty question."""
        rows = await self.directions([question]) if question else None
        return None if rows is None else rows[0]

    async def directions(self, questions: Sequence[str]) -> NDArray[np.float32] | None:
        """The vectors of some questions; None as for `rows`."""
        async with self._turn:
            return await self._call(lambda: self._embed(questions, as_questions=True), again=False)

    async def dimension(self, *, again: bool = False) -> int | None:
        """The number of values in each row; None as for `rows`."""
        async with self._turn:
            if self._dimension is None:
                from sense_memory.search.embedders.embedder import dimension_of

                self._dimension = await self._call(lambda: dimension_of(self.embedder), again=again)
            return self._dimension

    async def read(
        self, texts: Mapping[str, Sequence[str]], *, again: bool = False
    ) -> dict[str, NDArray[np.float32]] | None:
        """The rows of some memories, by name, from one call of the embedder. A memory has one or more texts.

        None as for `rows`.
        """
        rows = await self.rows([text for parts in texts.values() for text in parts], again=again)
        if rows is None:
            return None
        ends = list(accumulate(map(len, texts.values())))
        return {name: rows[end - len(texts[name]) : end] for name, end in zip(texts, ends, strict=True)}

    async def cached(self, stamps: Mapping[str, str]) -> Mapping[str, MemoryVectors]:
        """The cached vectors of some memories, by slot; `stamps` gives the stamp that the vectors must have."""
        try:
            return await self.cache.find(stamps)
        except SenseMemoryError:  # only a cache: missing vectors are made again
            return {}

    async def store(self, reads: Mapping[str, MemoryVectors]) -> None:
        """Cache the vectors of some memories, by slot, if the cache can be written."""
        with suppress(SenseMemoryError):
            await self.cache.store(reads)

    async def _call(self, question: Callable[[], _T], *, again: bool) -> _T | None:
        if not again and self.clock() < self._rests_until:
            return None
        try:
            found = await asyncio.to_thread(question)
        except EmbedderError as error:
            self.trouble, self._rests_until = error, self.clock() + EMBEDDER_REST_SECONDS
            return None
        self.trouble, self._rests_until = None, float("-inf")
        return found

    def _embed(self, texts: Sequence[str], *, as_questions: bool = False) -> NDArray[np.float32]:
        from sense_memory.search.embedders.embedder import embedded

        found = embedded(self.embedder, texts, self._dimension, as_questions=as_questions)
        self._dimension = found.shape[1]
        return found


# ── Jobs ────────────────────────────────────────────────────────────────────────────────
# Each memory of an index gets its vectors from the cheapest source: the cache, another device that has shared them, or
# the embedder. The embedder gets some memories at a time, and an interruption loses only the current call.


class IndexedMemories(Protocol):
    """The memories of an index, by their names in the index."""

    async def catch_up(self) -> None:
        """Bring the index up to date."""

    def origin(self, name: str) -> VectorSource | None:
        """The slot and the stamp of a memory; None if the memory is gone."""

    def origins(self) -> dict[str, VectorSource]:
        """The slot and the stamp of every memory."""

    async def items(self, names: Sequence[str]) -> list[SearchItem]:
        """Some memories as items of the index."""


class Directions(NamedTuple):
    """The vectors of a question; None without an embedder, or if it failed.

    Attributes:
        asked: of `SearchIndex.asks`.
        beyond_names: of `SearchIndex.asks_beyond_names`; of the whole question if it asks for nothing else.
    """

    asked: NDArray[Any] | None = None
    beyond_names: NDArray[Any] | None = None


class _Filled(NamedTuple):
    """How many memories got shared vectors, how many got new vectors, and whether the embedder did not fail."""

    taken: int
    made: int
    is_done: bool


class EmbeddingJobs:
    """Gives the memories of one index their vectors.

    Args:
        meaning: the embedder, with its cache.
        sharing: shares vectors with other devices, and reads the vectors that they shared.
        memories: the memories of the index.
        turn: a lock that is held while the index must not change.
    """

    def __init__(
        self,
        meaning: EmbedderClient,
        sharing: SharedEmbeddings,
        memories: IndexedMemories,
        turn: asyncio.Lock,
    ) -> None:
        self._meaning, self._shared, self._memories, self._turn = meaning, sharing, memories, turn
        self._unread = 0  # memories without vectors, when the cache was last read

    def gaps(self, index: SearchIndex) -> Gaps:
        """The memories that searches find by words only."""
        return Gaps(index.gaps_count, self._meaning.trouble)

    async def directions(self, index: SearchIndex, query: str) -> Directions:
        """The vectors of a question. First, for up to `EMBED_SECONDS`, memories without vectors get theirs."""
        await self._fill_soon(index)
        asked = index.asks(query)
        texts = dict.fromkeys((asked, index.asks_beyond_names(query) or asked))
        rows = await self._meaning.directions(list(texts)) if asked else None
        return Directions() if rows is None else Directions(rows[0], rows[-1])

    async def direction(self, index: SearchIndex, text: str) -> NDArray[np.float32] | None:
        """The vector of a question, word for word; None as for `EmbedderClient.rows`. First as `directions`."""
        await self._fill_soon(index)
        return await self._meaning.direction(text)

    async def fill_from_cache(self, index: SearchIndex) -> None:
        """Give memories their cached vectors, made by this process or another. Call while holding `turn`."""
        if index.gaps_count == self._unread:
            return
        origins = self._origins(index.without_meaning())
        kept = await self._meaning.cached({origin.slot: origin.stamp for origin in origins.values()})
        index.fill({name: kept[origin.slot].rows for name, origin in origins.items() if origin.slot in kept})
        self._unread = index.gaps_count

    # ── All memories ────────────────────────────────────────────────────────────────────

    def planned(self, index: SearchIndex, *, share: bool) -> EmbedReport:
        """What `embed` would do: `count` memories to embed, and `unshared` others whose vectors can be shared."""
        unread = frozenset(index.without_meaning())
        waiting = self._shared.unshared(self._memories.origins()).keys() - unread if share else ()
        return EmbedReport(
            len(unread), self._meaning.trouble, unshared=len(waiting), model=self._meaning.name
        )

    async def planned_with_shared(self, index: SearchIndex, *, share: bool) -> EmbedReport:
        """As `planned`, but memories whose vectors another device has shared count as `taken`. Calls no embedder."""
        report = self.planned(index, share=share)
        seqs = self._shared.seqs_of(self._origins(index.without_meaning()).values())
        taken = len([origin async for origin, _ in self._shared.fitting(seqs)])
        return replace(report, count=report.count - taken, taken=taken)

    async def embed(
        self, index: SearchIndex, *, share: bool, progress: Callable[[int, int], None] | None
    ) -> EmbedReport:
        """Give every memory its vectors, and share them.

        Args:
            index: the index to fill.
            share: whether to write vectors as events for other devices.
            progress: called with the number of steps done and the number of all steps: one step to embed a memory,
                and one to share its vectors.
        """
        report_progress = progress or (lambda _done, _total: None)
        begun = self.planned(index, share=share)
        total = begun.unshared + begun.count * (2 if share else 1)
        counts: Counter[str] = Counter()
        while True:
            left = index.without_meaning()
            report_progress(begun.count - len(left), total)
            if not left:
                break
            filled = await self._fill(index, left[:EMBED_BATCH_COUNT], again=True)
            counts.update(taken=filled.taken, embedded=filled.made)
            if not filled.is_done:
                break
        if share:
            counts.update(await self._share(begun.count, report_progress))
        await self._memories.catch_up()
        alive = (origin.path for origin in self._memories.origins().values())
        counts["forgotten"] = await self._shared.forget_orphans(alive)
        gaps = self.gaps(index)
        return EmbedReport(gaps.count, gaps.trouble, **counts, model=self._meaning.name)

    async def _share(self, done: int, report_progress: Callable[[int, int], None]) -> Counter[str]:
        """Share cached vectors that were not shared yet, in batches; returns counts by fields of `EmbedReport`."""
        waiting = list(self._shared.unshared(self._memories.origins()).values())
        counts: Counter[str] = Counter()
        for start in range(0, len(waiting), MAX_BATCH_COUNT):
            counts.update(await self._shared.share(waiting[start : start + MAX_BATCH_COUNT]))
            report_progress(done + min(start + MAX_BATCH_COUNT, len(waiting)), done + len(waiting))
            await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
        return counts

    # ── Some memories ───────────────────────────────────────────────────────────────────

    async def _fill_soon(self, index: SearchIndex) -> None:
        """For up to `EMBED_SECONDS`, give memories without vectors theirs."""
        end = self._meaning.clock() + EMBED_SECONDS
        count = EMBED_BATCH_COUNT // 4  # a call of a large model is long
        # The newest come first; the others wait for the next search, or for `embed`.
        while (newest := index.without_meaning(count)) and self._meaning.clock() <= end:
            if not (await self._fill(index, newest)).is_done:
                break
            count = EMBED_BATCH_COUNT

    async def _fill(self, index: SearchIndex, names: Sequence[str], *, again: bool = False) -> _Filled:
        """Give some memories the vectors that another device has shared, or else new vectors of the embedder."""
        async with self._turn:  # the index must not change meanwhile
            origins = self._origins(names)
            taken = await self._take_over(index, origins, again=again)
            rest = [name for name in names if name not in taken]
            made = await self._make(index, rest, origins, again=again) if rest else 0
            await asyncio.sleep(0)  # `_take_over` may not await, and other tasks need a turn
            return _Filled(len(taken), made, not rest or made > 0)

    async def _take_over(
        self, index: SearchIndex, origins: Mapping[str, VectorSource], *, again: bool
    ) -> frozenset[str]:
        """Give memories the vectors that another device has shared; returns the names of those memories."""
        seqs = self._shared.seqs_of(origins.values())
        dimension = await self._meaning.dimension(again=again) if seqs else None
        if dimension is None:
            return frozenset()
        found = await self._shared.read(seqs, dimension)
        shared = {name: origin for name, origin in origins.items() if origin in found}
        taken = {name: origin for name, origin in shared.items() if index.fill({name: found[origin]})}
        await self._cache({origin: found[origin] for origin in taken.values()})
        with suppress(LedgerError):  # without the note, sharing only compares the vectors again
            await self._shared.note_cached({origin: seqs[origin] for origin in taken.values()})
        return frozenset(taken)

    async def _make(
        self, index: SearchIndex, names: Sequence[str], origins: Mapping[str, VectorSource], *, again: bool
    ) -> int:
        """Embed some memories; returns how many got vectors."""
        texts = {item.id: index.texts_of(item) for item in await self._memories.items(names)}
        reads = await self._meaning.read(texts, again=again)
        if reads is None:
            return 0
        await self._cache({origins[name]: reads[name] for name in reads if name in origins})
        return index.fill(reads)

    async def _cache(self, made: Mapping[VectorSource, NDArray[Any]]) -> None:
        await self._meaning.store(
            {origin.slot: MemoryVectors(origin.stamp, rows) for origin, rows in made.items()}
        )

    def _origins(self, names: Iterable[str]) -> dict[str, VectorSource]:
        return {name: origin for name in names if (origin := self._memories.origin(name)) is not None}
