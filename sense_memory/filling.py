"""Filling: the memories of an index get their vectors from where that costs least.

Those that were made before are kept; those that another device has shared are taken over; only the rest is shown
to the embedder, some memories at a time. Whatever interrupts it, what is done is done.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sense_memory.embedding import EmbedReport, Gaps
from sense_memory.errors import LedgerError
from sense_memory.limits import EMBED_BATCH_COUNT, EMBED_SECONDS, MAX_BATCH_COUNT
from sense_memory.vault import Read


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.embedding import Embedding
    from sense_memory.search.index import MemoryIndex
    from sense_memory.search.shelf import SearchItem
    from sense_memory.sharing import Sharing
    from sense_memory.vault import Origin


class Memories(Protocol):
    """The memories of an index, by their names in it."""

    async def catch_up(self) -> None:
        """Bring the index up to date."""

    def origin(self, name: str) -> Origin | None:
        """Where one lies and in which state; None where it is not there any more."""

    def origins(self) -> dict[str, Origin]:
        """Where every one lies and in which state."""

    async def items(self, names: Sequence[str]) -> list[SearchItem]:
        """Some as the index takes them."""


class _Filled(NamedTuple):
    """How many memories got vectors that were taken over, how many such as were made; and whether nothing failed."""

    taken: int
    made: int
    is_done: bool


class Filling:
    """Fills one index.

    Args:
        meaning: the embedder, and what is kept of it.
        sharing: tells its vectors to other devices, and what they told.
        memories: what the index is made of.
        turn: held while the index must not change.
    """

    def __init__(self, meaning: Embedding, sharing: Sharing, memories: Memories, turn: asyncio.Lock) -> None:
        self._meaning, self._sharing, self._memories, self._turn = meaning, sharing, memories, turn
        self._unread = 0  # memories without vectors, when kept ones were last looked for

    def gaps(self, index: MemoryIndex) -> Gaps:
        """What searches know by words only."""
        return Gaps(index.gaps_count, self._meaning.trouble)

    async def direction(self, index: MemoryIndex, query: str) -> NDArray[Any] | None:
        """The vector of a question, once the memories have theirs, or as many as there was time for."""
        end = self._meaning.clock() + EMBED_SECONDS
        # The newest first; the others wait for the next search, or for `embed`.
        while (newest := index.without_meaning(EMBED_BATCH_COUNT)) and self._meaning.clock() <= end:
            if not (await self._fill(index, newest)).is_done:
                break
        asked = index.asks(query)
        rows = await self._meaning.rows([asked]) if asked else None
        return None if rows is None else rows[0]

    async def look_at_kept(self, index: MemoryIndex) -> None:
        """Give memories the vectors that were made of them before, by this process or another; in turn."""
        if index.gaps_count == self._unread:
            return
        origins = self._origins(index.without_meaning())
        kept = await self._meaning.kept({origin.slot: origin.stamp for origin in origins.values()})
        index.fill({name: kept[origin.slot].rows for name, origin in origins.items() if origin.slot in kept})
        self._unread = index.gaps_count

    # ── All of them ─────────────────────────────────────────────────────────────────────

    def planned(self, index: MemoryIndex, *, share: bool) -> EmbedReport:
        """What `embed` would have to do: how many memories are left, and how many to be shared besides those."""
        unread = frozenset(index.without_meaning())
        waiting = self._sharing.untold(self._memories.origins()).keys() - unread if share else ()
        return EmbedReport(
            len(unread), self._meaning.trouble, unshared=len(waiting), model=self._meaning.name
        )

    async def foreseen(self, index: MemoryIndex, *, share: bool) -> EmbedReport:
        """As `planned`; but what another device has shared is `taken`, and not counted as left. Asks nobody."""
        report = self.planned(index, share=share)
        told = self._sharing.told(self._origins(index.without_meaning()).values())
        there = len([origin async for origin, _ in self._sharing.fitting(told)])
        return replace(report, count=report.count - there, taken=there)

    async def embed(
        self, index: MemoryIndex, *, share: bool, progress: Callable[[int, int], None] | None
    ) -> EmbedReport:
        """Give every memory its vectors, and share them; `progress` is told how much of how much is done."""
        told = progress or (lambda _done, _total: None)
        begun = self.planned(index, share=share)
        total = begun.unshared + begun.count * (2 if share else 1)  # what is read is to be shared as well
        counts: Counter[str] = Counter()
        while True:
            left = index.without_meaning()
            told(begun.count - len(left), total)
            if not left:
                break
            filled = await self._fill(index, left[:EMBED_BATCH_COUNT], again=True)
            counts.update(taken=filled.taken, embedded=filled.made)
            if not filled.is_done:
                break
        if share:
            counts.update(await self._share(begun.count, told))
        await self._memories.catch_up()
        alive = (origin.path for origin in self._memories.origins().values())
        counts["forgotten"] = await self._sharing.forget_orphans(alive)
        gaps = self.gaps(index)
        return EmbedReport(gaps.count, gaps.trouble, **counts, model=self._meaning.name)

    async def _share(self, done: int, told: Callable[[int, int], None]) -> Counter[str]:
        """Share what is kept and was not shared yet, some at a time; what became of it, as the report calls it."""
        waiting = list(self._sharing.untold(self._memories.origins()).values())
        counts: Counter[str] = Counter()
        for start in range(0, len(waiting), MAX_BATCH_COUNT):
            counts.update(await self._sharing.share(waiting[start : start + MAX_BATCH_COUNT]))
            told(done + min(start + MAX_BATCH_COUNT, len(waiting)), done + len(waiting))
            await asyncio.sleep(0)  # a local signer never waits either
        return counts

    # ── Some of them ────────────────────────────────────────────────────────────────────

    async def _fill(self, index: MemoryIndex, names: Sequence[str], *, again: bool = False) -> _Filled:
        """Give some memories their vectors: what another device has shared, else what the embedder makes."""
        async with self._turn:  # what is read must not change meanwhile
            origins = self._origins(names)
            taken = await self._take_over(index, origins, again=again)
            rest = [name for name in names if name not in taken]
            made = await self._make(index, rest, origins, again=again) if rest else 0
            await asyncio.sleep(0)  # what is taken over never waits, and other tasks want their turn
            return _Filled(len(taken), made, not rest or made > 0)

    async def _take_over(
        self, index: MemoryIndex, origins: Mapping[str, Origin], *, again: bool
    ) -> frozenset[str]:
        """Give memories the vectors that another device has shared; the names of those that had some."""
        told = self._sharing.told(origins.values())
        dimension = await self._meaning.dimension(again=again) if told else None
        if dimension is None:
            return frozenset()
        found = await self._sharing.read(told, dimension)
        there = {name: origin for name, origin in origins.items() if origin in found}
        taken = {name: origin for name, origin in there.items() if index.fill({name: found[origin]})}
        await self._keep({origin: found[origin] for origin in taken.values()})
        with suppress(LedgerError):  # then sharing will look once more
            await self._sharing.took({origin: told[origin] for origin in taken.values()})
        return frozenset(taken)

    async def _make(
        self, index: MemoryIndex, names: Sequence[str], origins: Mapping[str, Origin], *, again: bool
    ) -> int:
        """Have the embedder read some memories; how many got vectors."""
        texts = {item.id: index.texts_of(item) for item in await self._memories.items(names)}
        reads = await self._meaning.read(texts, again=again)
        if reads is None:
            return 0
        await self._keep({origins[name]: reads[name] for name in reads if name in origins})
        return index.fill(reads)

    async def _keep(self, made: Mapping[Origin, NDArray[Any]]) -> None:
        await self._meaning.keep({origin.slot: Read(origin.stamp, rows) for origin, rows in made.items()})

    def _origins(self, names: Iterable[str]) -> dict[str, Origin]:
        return {name: origin for name in names if (origin := self._memories.origin(name)) is not None}
