"""One search over everything: persona memories, flat memories and the journal, in one index.

One index, and not a ranked list of each kind: scores of different lists cannot be compared (the best of a
poor list is still its best), while in one a word is as rare as it is in all that the agent knows. A key counts
as if its words stood three times in the text and themes twice, which is the specification's weights on BM25;
what was said on a day lends its words to its neighbours in the journal, and to nothing else.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sense_memory.limits import ACTIVE_ABOVE, DAY_SECONDS, DEFAULT_HALFLIFE_DAYS, FADING_FROM, INDEX_SECONDS
from sense_memory.memories.embedding_jobs import EmbedReport, Filling, Gaps
from sense_memory.memories.persona.palace import ROOTS
from sense_memory.memories.persona.search import LANGUAGE, check
from sense_memory.memories.search_items import Said, item_of, item_of_persona, stamp_of, text_of, written_at
from sense_memory.nostr import address
from sense_memory.palace.lifecycle import current_relevance
from sense_memory.records.cached_index import Kept, made_of, mark_of, with_head, without_head
from sense_memory.records.vector_cache import Origin
from sense_memory.search.hits import Evidence, Explanation, Hit, Kind
from sense_memory.search.index import FORMAT, MemoryIndex
from sense_memory.search.query import MAX_QUERY_CHARS, Fields, parse
from sense_memory.search.ranking import Levers
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.memories.embedding_jobs import Embedding
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.memories.shared_embeddings import Sharing
    from sense_memory.models import PersonaMemory
    from sense_memory.records.reader import Reader
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.hits import Scope
    from sense_memory.search.ranking import SearchHit
    from sense_memory.search.vocabulary import Vocabulary


# ── Weighing ────────────────────────────────────────────────────────────────────────────
# What age makes of the scores of a search over everything, and the reasons that its hits give.

_WORDS: Final = frozenset({"word", "prefix", "phrase"})


class Weigher:
    """Weighs the memories of one search, by their names in the index.

    Args:
        persona: the persona memory of a name; None for other kinds, and for one that is gone.
        written_at: when a journal entry was written, seconds since 1970.
        vocabulary: of the index.
        query: what is asked for.
        now: seconds since 1970.
        floor: of the factor.
    """

    def __init__(
        self,
        persona: Callable[[str], PersonaMemory | None],
        written_at: Callable[[str], float],
        vocabulary: Vocabulary,
        *,
        query: str,
        now: float,
        floor: float,
    ) -> None:
        self._persona, self._written_at, self._vocabulary = persona, written_at, vocabulary
        self._query, self._now, self._floor = query[:MAX_QUERY_CHARS], now, floor
        self._asked = ""

    def factors(self, names: Sequence[str]) -> list[float]:
        """What scores are multiplied by; 0 for what is forgotten, or fades and is not directly meant."""
        return [self._weighed(name)[1] for name in names]

    def explain(self, hit: SearchHit, texts: Mapping[str, str]) -> Explanation:
        """The reasons of a hit, with the fields (of its texts, by name) that its words stand in."""
        fields = Fields(texts, self._vocabulary)
        evidence = [
            Evidence(
                kind=reason.kind,
                detail=reason.detail,
                fields=fields.having(reason.detail) if reason.kind in _WORDS else (),
                contribution=reason.share,
            )
            for reason in hit.why
        ]
        return Explanation.of(evidence, *self._weighed(hit.id))

    def _weighed(self, name: str) -> tuple[float, float]:
        """What age has left of a memory, and its factor."""
        if name.startswith(f"{Kind.FLAT}/"):
            return 1.0, 1.0
        if name.startswith(f"{Kind.JOURNAL}/"):
            age = max(0.0, self._now - self._written_at(name)) / DAY_SECONDS
            left: float = 0.5 ** (age / DEFAULT_HALFLIFE_DAYS)
            return left, self._factor(left)
        memory = self._persona(name)
        left = 0.0 if memory is None else current_relevance(memory, self._now)
        is_open = left > ACTIVE_ABOVE or (
            left >= FADING_FROM and memory is not None and self._is_meant(memory)
        )
        return left, self._factor(left) if is_open else 0.0

    def _factor(self, relevance: float) -> float:
        return self._floor + (1 - self._floor) * min(1.0, relevance)

    def _is_meant(self, memory: PersonaMemory) -> bool:
        """Whether the whole key or a theme stands in the query, or the memory has a phrase that it quotes."""
        stems = self._vocabulary.stems
        self._asked = self._asked or _line(stems(self._query))
        names = [_line(stems(text)) for text in (memory.key, *memory.themes)]
        if any(name.strip() and name in self._asked for name in names):
            return True
        phrases = parse(self._query).phrases
        return bool(phrases) and any(_line(phrase) in _line(words(memory.value)) for phrase in phrases)


def _line(parts: Iterable[str]) -> str:
    return f" {' '.join(parts)} "


_PART_COUNT: Final = 200  # memories that are read at a time: some 20 ms
_THREAD_COUNT: Final = 5_000  # memories from which on sorting their words is left to a thread


class Finding(Kept):
    """The index of everything that a ledger holds.

    Args:
        palace: its persona memories.
        ledger: where everything lies.
        reader: opens it.
        clock: seconds since 1970.
        ask: makes sure that a relay was asked before "nothing" is said; whether one was.
        meaning: finds by meaning besides words: an embedder, and who shares what it made.
    """

    def __init__(
        self,
        palace: Palace,
        ledger: Ledger,
        reader: Reader,
        *,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
        meaning: tuple[Embedding, Sharing] | None = None,
    ) -> None:
        self._levers = Levers()
        super().__init__(
            "everything", made_of("all", FORMAT, LANGUAGE, "behind events", self._levers), ledger, reader
        )
        self._palace, self._clock, self._ask = palace, clock, ask
        self._index: MemoryIndex | None = None
        self._said = Said(ledger, reader)
        self._stamps: dict[str, str] = {}  # of persona memories, by path
        self._changed: dict[str, None] = {}  # paths, since the last search
        self._ahead = 0  # persona memories that nobody has looked at yet
        self._unsorted = 0  # memories in the index that nobody finds yet
        self._waiting: list[asyncio.Future[None]] = []  # for what is in the index to be found
        # By path, the events of the persona memories in an index out of the snapshot.
        self._events: Mapping[str, str] = {}
        self._is_following = self._is_closed = False
        self._reading: asyncio.Task[None] | None = None
        self._progress: Callable[[int, int], None] | None = None
        self._turn = asyncio.Lock()
        self._embedder = None if meaning is None else meaning[0].embedder
        self._filling = None if meaning is None else Filling(*meaning, self, self._turn)

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    async def search(self, query: str, limit: int, scope: Scope, relevance_floor: float) -> list[Hit]:
        """The memories that answer a question best, the best first; of those that were read within a while."""
        check(query, limit, relevance_floor)
        index = await self._current(INDEX_SECONDS)
        if not len(index) and not self._left and await self._ask("memories are"):
            index = await self._current(INDEX_SECONDS)
        direction = None if self._filling is None else await self._filling.direction(index, query)
        now = self._clock()
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
        there = [hit for hit in hits if hit is not None]
        return sorted(there, key=lambda hit: (-hit.score, -hit.created_at, hit.path))

    # ── Meaning ─────────────────────────────────────────────────────────────────────────

    async def embed(
        self,
        *,
        share: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Embed every memory that is not yet, and share what was made of them; see `MemoryStore.embed`."""
        index = await self._current()
        if self._filling is None:
            return EmbedReport(0, None)
        if dry_run:
            return await self._filling.foreseen(index, share=share)
        return await self._filling.embed(index, share=share, progress=progress)

    def gaps(self) -> Gaps:
        """What searches know by words only, and what they do not know yet, as of the last one."""
        if self._filling is None or self._index is None:
            return Gaps(0, None, self._left)
        return replace(self._filling.gaps(self._index), unread=self._left)

    async def near(self, query: str) -> dict[str, float]:
        """The persona memories that mean what a question means, by path: how nearly, above 0 up to 1."""
        index = await self._current()
        direction = None if self._filling is None else await self._filling.direction(index, query)
        if direction is None:
            return {}
        head = f"{Kind.PALACE}/"
        nearest = index.nearest(direction)
        return {name.removeprefix(head): near for name, near in nearest.items() if name.startswith(head)}

    def origins(self) -> dict[str, Origin]:
        """Where every memory lies and in which state, by its name in the index."""
        names = [*self._said.names(), *(f"{Kind.PALACE}/{path}" for path in self._stamps)]
        return {name: origin for name in names if (origin := self.origin(name)) is not None}

    def origin(self, name: str) -> Origin | None:
        """Where a memory lies and in which state; None where it is not there any more."""
        kind, _, path = name.partition("/")
        if kind != Kind.PALACE:
            return self._said.origin(name)
        stamp, path = self._stamps.get(path), address.PERSONA + path
        return None if stamp is None else Origin(path, address.d_tag(path), stamp)

    async def items(self, names: Sequence[str]) -> list[SearchItem]:
        """Memories as the index takes them, by their names in it."""
        items = [item_of_persona(memory) for name in names if (memory := self._memory(name)) is not None]
        said = await self._said.read(names)
        found = (item_of(opened.record, opened.id.hex(), opened.created_at) for opened in said)
        return items + [item for item in found if item is not None]

    # ── Following the ledger ────────────────────────────────────────────────────────────

    def put(self, memory: PersonaMemory) -> None:
        """A persona memory is new, or changed."""
        self._changed[memory.path] = None

    def drop(self, path: str) -> None:
        """A persona memory is gone."""
        self._changed[path] = None

    async def catch_up(self) -> None:
        """Bring the index up to date; once closed it stays as far as it is, and the next process goes on there."""
        if not self._is_closed:
            await self._current()

    async def read(self, progress: Callable[[int, int], None] | None = None) -> int:
        """As `catch_up`; `progress` is told how many memories are read, of how many. Returns how many there are."""
        self._progress = progress
        try:
            return len(await self._current())
        finally:
            self._progress = None

    async def close(self) -> None:
        """Read no further."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    @property
    def _left(self) -> int:
        """How many memories are still to be read, as far as that is known."""
        return self._said.left + self._ahead + len(self._changed)

    async def _current(self, wait: float | None = None) -> MemoryIndex:
        """The index, up to date; where that takes longer than so many seconds, as far as it is by then.

        It is brought up to date by one task for all who ask, which goes on when they have left.
        """
        is_ours = False
        while not is_ours:  # a task that began earlier may have missed what was written since
            is_ours = self._reading is None or self._reading.done()
            reading = self._reading = self._reading_task()
            done, _ = await asyncio.wait({reading}, timeout=wait)
            if not done:
                if self._unsorted:
                    sorted_in = asyncio.get_running_loop().create_future()
                    self._waiting.append(sorted_in)
                    await asyncio.wait({reading, sorted_in}, return_when=asyncio.FIRST_COMPLETED)
                break
            reading.result()
        return self._index or MemoryIndex(self._levers, LANGUAGE, self._embedder)

    def _reading_task(self) -> asyncio.Task[None]:
        """The task that brings the index up to date, or a new one."""
        if self._reading is not None and not self._reading.done():
            return self._reading
        task = asyncio.create_task(self._read_on())
        # Whoever still waits gets an error; where nobody does, asyncio need not report it.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _read_on(self) -> None:
        """Bring the index up to date, some memories at a time."""
        async with self._turn:
            if self._index is None:
                self._ahead = len(self._ledger.heads.seqs_beneath(*ROOTS))
                self._index, self._events = self._restored(await self.saved())
            await self._look_at_said(self._index)
            catalog = await self._palace.refresh()
            if not self._is_following:
                self._is_following = True
                self._palace.follow(self)
                paths = dict.fromkeys((*self._stamps, *catalog.paths()))
                self._changed = dict.fromkeys(path for path in paths if not self._is_from(path))
                self._ahead, self._events = 0, {}
            await self._look_at_palace(self._index)
            await self._sort_in(self._index)
            if self._filling is not None:
                await self._filling.look_at_kept(self._index)

    async def _look_at_said(self, index: MemoryIndex) -> None:
        async for gone, fresh in self._said.changes():
            for name in gone:
                index.drop(name)
            await self._put(index, fresh)

    async def _put(self, index: MemoryIndex, items: Sequence[SearchItem]) -> None:
        self.unsaved += len(items)
        is_part = len(items) >= _PART_COUNT // 2
        if is_part:
            index.take_many(items)
            self._unsorted += len(items)
        else:
            index.put_many(items, embeds=False)
        if self._waiting:
            await self._sort_in(index)
        if items and self._progress is not None:
            self._progress(len(index), len(index) + self._left)
        if is_part:
            await asyncio.sleep(0)  # that was a while, and other tasks want their turn

    async def _sort_in(self, index: MemoryIndex) -> None:
        """Let everything be found that is in the index by now, and tell those who wait for it."""
        if self._unsorted:
            is_long = len(index) >= _THREAD_COUNT
            index.fold(await asyncio.to_thread(index.folded) if is_long else index.folded())
            self._unsorted = 0
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    async def _look_at_palace(self, index: MemoryIndex) -> None:
        while self._changed:
            items = []
            for path in list(islice(self._changed, _PART_COUNT)):
                del self._changed[path]
                memory = self._palace.catalog.get(path)
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
            more |= {"source": memory.source, "superseded_by": memory.superseded_by}
        else:
            opened = await self._said.read([found.id])
            if not opened:
                return None  # forgotten while this search waited
            (event,) = opened
            record = event.record
            fields = {"value": text_of(record)} | ({"key": path} if kind == Kind.FLAT else {})
            more = {"created_at": written_at(record, event.created_at), "event_id": event.id.hex()}
        why = weigher.explain(found, fields)
        return Hit(kind=Kind(kind), path=path, value=fields["value"], score=found.score, why=why, **more)

    # ── Keeping ─────────────────────────────────────────────────────────────────────────

    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes, with what it was made from."""
        if self._index is None:
            return ()
        there = self._stamps.keys() - self._changed.keys()
        events = {path: mark_of(ident) for path, ident in self._palace.plain.items() if path in there}
        return with_head([*self._said.dumped(), self._stamps, events], self._index.dump())

    def _restored(self, saved: memoryview | None) -> tuple[MemoryIndex, Mapping[str, str]]:
        """The index of the last time, or a new one; and by path the event from which it knows a persona memory."""
        if saved:
            try:
                (rows, seq, self._stamps, events), index = without_head(saved)
                self._said = Said(self._ledger, self._reader, rows, seq)
                return MemoryIndex.load(index, self._levers, self._embedder), events
            except (ValueError, KeyError, TypeError, IndexError):  # a cache: it is made anew
                self._said, self._stamps = Said(self._ledger, self._reader), {}
        return MemoryIndex(self._levers, LANGUAGE, self._embedder), {}

    def _is_from(self, path: str) -> bool:
        """Whether a persona memory is just what the event says from which the index knows it."""
        ident = self._palace.plain.get(path)
        return ident is not None and self._events.get(path) == mark_of(ident)
