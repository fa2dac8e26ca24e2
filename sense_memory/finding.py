"""One search over everything: persona memories, flat memories and the journal, in one index.

One index, and not a ranked list of each kind: scores of different lists can not be compared (the best of a
poor list is still its best), while in one a word is as rare as it is in all that the agent knows. A key counts
as if its words stood three times in the text and themes twice, which is the specification's weights on BM25;
what was said on a day lends its words to its neighbours in the journal, and to nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.embedding import Gaps
from sense_memory.items import item_of, item_of_persona, stamp_of, text_of, written_at
from sense_memory.keeping import Kept, made_of
from sense_memory.limits import EMBED_BATCH_COUNT, EMBED_SECONDS
from sense_memory.nostr import address
from sense_memory.persona.finding import LANGUAGE, check
from sense_memory.said import Said
from sense_memory.search.fusion import Levers
from sense_memory.search.hits import Hit, Kind
from sense_memory.search.index import FORMAT, MemoryIndex, SearchItem
from sense_memory.vault import Read
from sense_memory.weighing import Weigher


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from numpy.typing import NDArray

    from sense_memory.embedding import Embedding
    from sense_memory.ledger import Ledger
    from sense_memory.models import PersonaMemory
    from sense_memory.persona.palace import Palace
    from sense_memory.reader import Reader
    from sense_memory.search.embedders import Embedder
    from sense_memory.search.index import SearchItem
    from sense_memory.search.ranking import SearchHit
    from sense_memory.search.scope import Scope

_PART_COUNT: Final = 2_000  # memories that are read at a time: some 0.2 s


class Finding(Kept):
    """The index of everything that a ledger holds.

    Args:
        palace: its persona memories.
        ledger: where everything lies.
        reader: opens it.
        clock: seconds since 1970.
        ask: makes sure that a relay was asked before "nothing" is said; whether one was.
        meaning: finds by meaning besides words.
    """

    def __init__(
        self,
        palace: Palace,
        ledger: Ledger,
        reader: Reader,
        *,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
        meaning: Embedding | None = None,
    ) -> None:
        self._levers = Levers()
        super().__init__("everything", made_of("all", FORMAT, LANGUAGE, self._levers), ledger, reader)
        self._palace, self._clock, self._ask, self._meaning = palace, clock, ask, meaning
        self._index: MemoryIndex | None = None
        self._said = Said(ledger, reader)
        self._stamps: dict[str, str] = {}  # of persona memories, by path
        self._changed: dict[str, PersonaMemory | None] = {}  # by path, since the last search
        self._unread = 0  # memories without vectors, when kept ones were last looked for
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    async def search(self, query: str, limit: int, scope: Scope, relevance_floor: float) -> list[Hit]:
        """The memories that answer a question best, the best first."""
        check(query, limit, relevance_floor)
        index = await self._current()
        if not len(index) and await self._ask("memories are"):
            index = await self._current()
        direction, now = await self._direction(index, query), self._clock()
        about: dict[str, Any] = {"query": query, "now": now, "floor": relevance_floor}
        weigher = Weigher(self._memory, self._said.written_at, index.vocabulary, **about)
        only = None if scope.is_all else self._filter(scope)
        # How well a day fits tells entries of the journal apart; beside memories without a day it is unfair.
        by_day = scope.within == {Kind.JOURNAL}
        levers = replace(self._levers, session=by_day, dense=direction is not None)
        found = index.search(
            *(query, limit), now=now, levers=levers, only=only, factors=weigher.factors, direction=direction
        )
        hits = [await self._hit(hit, weigher) for hit in found]
        return [hit for hit in hits if hit is not None]

    # ── Meaning ─────────────────────────────────────────────────────────────────────────

    async def embed(self, progress: Callable[[int, int], None] | None = None) -> Gaps:
        """Embed every memory that is not yet; `progress` is told how many of how many are."""
        index = await self._current()
        total = len(index.without_meaning())
        while self._meaning is not None:
            left = index.without_meaning()
            if progress is not None:
                progress(total - len(left), total)
            if not left or not await self._fill(index, left[:EMBED_BATCH_COUNT], again=True):
                break
        return self.gaps()

    def gaps(self) -> Gaps:
        """What searches know by words only, as of the last one."""
        if self._meaning is None or self._index is None:
            return Gaps(0, None)
        return Gaps(len(self._index.without_meaning()), self._meaning.trouble)

    async def near(self, query: str) -> dict[str, float]:
        """The persona memories that mean what a question means, by path: how nearly, above 0 up to 1."""
        if self._meaning is None:
            return {}
        index = await self._current()
        direction = await self._direction(index, query)
        if direction is None:
            return {}
        head = f"{Kind.PALACE}/"
        nearest = index.nearest(direction)
        return {name.removeprefix(head): near for name, near in nearest.items() if name.startswith(head)}

    async def _direction(self, index: MemoryIndex, query: str) -> NDArray[Any] | None:
        """The vector of a question, once the memories have theirs, or as many as there was time for."""
        if self._meaning is None:
            return None
        end = self._meaning.clock() + EMBED_SECONDS
        while left := index.without_meaning():
            if self._meaning.clock() > end or not await self._fill(index, left[-EMBED_BATCH_COUNT:]):
                break  # the newest first; the others wait for the next search, or for `embed`
        asked = index.asks(query)
        rows = await self._meaning.rows([asked]) if asked else None
        return None if rows is None else rows[0]

    async def _fill(self, index: MemoryIndex, names: Sequence[str], *, again: bool = False) -> bool:
        """Have some memories read by the embedder; whether that worked."""
        assert self._meaning is not None  # noqa: S101 - whoever calls has looked
        async with self._turn:  # what is read must not change meanwhile
            texts = {item.id: index.texts_of(item) for item in await self._items(names)}
            rows = await self._meaning.rows([text for parts in texts.values() for text in parts], again=again)
            if rows is None:
                return False
            reads, start = {}, 0
            for name, parts in texts.items():
                reads[name] = rows[start : start + len(parts)]
                start += len(parts)
            origins = {name: origin for name in reads if (origin := self._origin(name))}
            await self._meaning.keep(
                {slot: Read(stamp, reads[name]) for name, (slot, stamp) in origins.items()}
            )
            return index.fill(reads) > 0

    async def _look_at_kept(self, index: MemoryIndex) -> None:
        """Give memories the vectors that were made of them before, by this process or another."""
        if self._meaning is None:
            return
        left = index.without_meaning()
        if len(left) == self._unread:
            return
        origins = {name: origin for name in left if (origin := self._origin(name))}
        kept = await self._meaning.kept({slot for slot, _ in origins.values()})
        index.fill(
            {
                name: kept[slot].rows
                for name, (slot, stamp) in origins.items()
                if slot in kept and kept[slot].stamp == stamp
            }
        )
        self._unread = len(index.without_meaning())

    def _origin(self, name: str) -> tuple[str, str] | None:
        """The slot of a memory, and what tells its states apart, by its name in the index."""
        kind, _, path = name.partition("/")
        if kind != Kind.PALACE:
            return self._said.origin(name)
        stamp = self._stamps.get(path)
        return None if stamp is None else (address.d_tag(address.PERSONA + path), stamp)

    async def _items(self, names: Sequence[str]) -> list[SearchItem]:
        """Memories as the index takes them, by their names in it."""
        items = [item_of_persona(memory) for name in names if (memory := self._memory(name)) is not None]
        said = await self._said.read(names)
        found = (item_of(record, opened.id.hex(), opened.created_at) for opened, record in said)
        return items + [item for item in found if item is not None]

    # ── Following the ledger ────────────────────────────────────────────────────────────

    def put(self, memory: PersonaMemory) -> None:
        """A persona memory is new, or changed."""
        self._changed[memory.path] = memory

    def drop(self, path: str) -> None:
        """A persona memory is gone."""
        self._changed[path] = None

    async def catch_up(self) -> None:
        """Bring the index up to date."""
        await self._current()

    async def _current(self) -> MemoryIndex:
        catalog = await self._palace.refresh()
        async with self._turn:
            if self._index is None:
                index = self._restored(await self.saved())
                self._palace.follow(self)
                self._changed = dict.fromkeys(self._stamps)
                self._changed |= {memory.path: memory for memory in catalog}
                self._index = index
            await self._look_at_said(self._index)
            await self._look_at_palace(self._index)
            await self._look_at_kept(self._index)
        return self._index

    async def _look_at_said(self, index: MemoryIndex) -> None:
        async for gone, fresh in self._said.changes():
            for name in gone:
                index.drop(name)
            await self._put(index, fresh)

    async def _put(self, index: MemoryIndex, items: Sequence[SearchItem]) -> None:
        index.put_many(items, embeds=False)
        self.unsaved += len(items)
        if len(items) > _PART_COUNT // 2:
            await asyncio.sleep(0)  # that was a while, and other tasks want their turn

    async def _look_at_palace(self, index: MemoryIndex) -> None:
        while self._changed:
            items = []
            for path in list(islice(self._changed, _PART_COUNT)):
                memory = self._changed.pop(path)
                if memory is None:
                    self._stamps.pop(path, None)
                    index.drop(f"{Kind.PALACE}/{path}")
                elif self._stamps.get(path) != (stamp := stamp_of(memory)):
                    self._stamps[path] = stamp
                    items.append(item_of_persona(memory))
            await self._put(index, items)

    # ── Finding ─────────────────────────────────────────────────────────────────────────

    def _filter(self, scope: Scope) -> Callable[[str], bool]:
        kinds = tuple(f"{kind}/" for kind in scope.within)
        if scope.since is None and scope.source is None:
            return lambda name: name.startswith(kinds)

        def is_meant(name: str) -> bool:
            if not name.startswith(kinds):
                return False
            memory = self._memory(name)
            if memory is not None:
                is_new = scope.since is None or memory.created_at >= scope.since
                return is_new and scope.is_from(memory.source)
            if scope.source is not None or name not in self._said:
                return False
            return scope.since is None or self._said.written_at(name) >= scope.since

        return is_meant

    def _memory(self, name: str) -> PersonaMemory | None:
        """The persona memory that a name in the index means."""
        kind, _, path = name.partition("/")
        return self._palace.catalog.get(path) if kind == Kind.PALACE else None

    async def _hit(self, found: SearchHit, weigher: Weigher) -> Hit | None:
        kind, _, path = found.id.partition("/")
        memory = self._memory(found.id)
        if memory is not None:
            fields = {"key": memory.key, "themes": " \n".join(memory.themes), "value": memory.value}
            more: dict[str, Any] = {"created_at": memory.created_at, "event_id": memory.event_id}
            more["source"] = memory.source
        else:
            opened = await self._said.read([found.id])
            if not opened:
                return None  # forgotten while this search waited
            ((event, record),) = opened
            fields = {"value": text_of(record)} | ({"key": path} if kind == Kind.FLAT else {})
            more = {"created_at": written_at(record, event.created_at), "event_id": event.id.hex()}
        why = weigher.explain(found, fields)
        return Hit(kind=Kind(kind), path=path, value=fields["value"], score=found.score, why=why, **more)

    # ── Keeping ─────────────────────────────────────────────────────────────────────────

    def dumped(self) -> bytes:
        """The index as bytes, with what it was made from."""
        if self._index is None:
            return b""
        head = orjson.dumps([self._said.dumped(), self._stamps])
        return len(head).to_bytes(8, "big") + head + self._index.dump(vectors=False)

    def _restored(self, saved: bytes | None) -> MemoryIndex:
        """The index of the last time, or a new one."""
        if saved:
            try:
                end = 8 + int.from_bytes(saved[:8], "big")
                said, self._stamps = orjson.loads(saved[8:end])
                self._said = Said(self._ledger, self._reader, said)
                return MemoryIndex.load(saved[end:], self._levers, self._embedder)
            except (ValueError, KeyError, TypeError, IndexError):  # a cache: it is made anew
                self._said, self._stamps = Said(self._ledger, self._reader), {}
        return MemoryIndex(self._levers, LANGUAGE, self._embedder)

    @property
    def _embedder(self) -> Embedder | None:
        return None if self._meaning is None else self._meaning.embedder
