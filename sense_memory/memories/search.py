"""One search over everything: persona memories, flat memories and the journal, in one index.

There is one index, and not a ranked list of each kind: scores of different lists cannot be compared (the best of a poor
list is still its best), while in one index a word is as rare as it is in all that the agent knows. A word of a key
counts three times and a word of a theme twice, which are the specification's weights on BM25. Journal entries also
match on the entries just before and after them; other memories do not.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from sense_memory.errors import EmbedderError, InvalidInput
from sense_memory.ledger.feed import START
from sense_memory.limits import INDEX_SECONDS, MAX_FOUND_COUNT
from sense_memory.memories.embedding_jobs import Directions, EmbeddingJobs, EmbedReport, Gaps
from sense_memory.memories.persona.arguments import quoted
from sense_memory.memories.persona.palace import ROOTS
from sense_memory.memories.search_items import RecordItems, item_of_record, text_of
from sense_memory.memories.weigher import Weigher
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.bearing import bearing_on
from sense_memory.palace.lifecycle import current_relevance, state_at
from sense_memory.palace.search import STAMP_BYTES, PalaceIndex, PersonaHit, Why, item_of
from sense_memory.palace.succession import with_newest_first, with_successors_first
from sense_memory.records.sealed_caches import (
    CachedIndex,
    VectorSource,
    made_of,
    mark_of,
    with_header,
    without_header,
)
from sense_memory.search.confidence import confidence_in
from sense_memory.search.hits import NOT_QUOTED, PALACE, Explanation, Hit, Hits, Kind
from sense_memory.search.index import FORMAT, SearchIndex
from sense_memory.search.quotations import quotes_like, quoting
from sense_memory.search.ranking import SearchOptions
from sense_memory.search.second_look import with_named


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from numpy.typing import NDArray

    from sense_memory.ledger import Ledger
    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.memories.shared_embeddings import SharedEmbeddings
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.candidates import Bears
    from sense_memory.palace.catalog import Catalog
    from sense_memory.records.reader import Reader
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.hits import Scope
    from sense_memory.search.ranking import SearchHit


_H = TypeVar("_H", Hit, PersonaHit)
_ALIVE: Final = frozenset({State.ACTIVE, State.FADING})
_STATES_OF: Final = {state: {state} for state in State} | {
    State.FORGOTTEN: {State.FORGOTTEN, State.DISSOLVED}
}  # that a search for a state shows, as `palace.search.is_in_state`
_PART_COUNT: Final = 200  # memories per step of reading, some 20 ms
LANGUAGE: Final = "english"  # of the stemmer for Latin letters; other scripts have their own
_THREAD_COUNT: Final = 5_000  # from this many memories on, a thread sorts their words


class MemorySearch(CachedIndex):
    """The index of everything that a ledger holds, and both searches in it.

    One task at a time brings the index up to date for all searches, and goes on when a search is cancelled. The task
    reads persona memories first, then the others, some at a time, so that other tasks get their turn. A search of the
    palace waits for all persona memories; a search over everything waits `INDEX_SECONDS`, then uses the index as it is.

    Args:
        palace: its persona memories.
        ledger: where everything lies.
        reader: opens it.
        clock: seconds since 1970.
        zone: how far the clocks that a question means are ahead of UTC at a time, in seconds.
        catalog: the palace's memories; asks a relay where there are none.
        ask: makes sure that a relay was asked before "nothing" is said; returns whether one was.
        meaning: an embedder, to find by meaning too, and the vectors that devices share.
        note: for the reasons of every hit: why no embedder is asked, although there is one.
    """

    def __init__(
        self,
        palace: Palace,
        ledger: Ledger,
        reader: Reader,
        *,
        clock: Callable[[], float],
        zone: Callable[[float], float],
        catalog: Callable[[], Awaitable[Catalog]],
        ask: Callable[[str], Awaitable[bool]],
        meaning: tuple[EmbedderClient, SharedEmbeddings] | None = None,
        note: str = "",
    ) -> None:
        self._note = note
        self._options = SearchOptions()
        super().__init__("everything", made_of("one index", FORMAT, LANGUAGE, self._options), ledger, reader)
        self._palace, self._clock, self._catalog, self._ask = palace, clock, catalog, ask
        self._zone = zone
        self._index: SearchIndex | None = None
        self._records = RecordItems(ledger, reader)
        self._changed: dict[str, None] = {}  # paths, since the last search
        self._ahead = 0  # persona memories that were not compared with the index yet
        self._unsorted = 0  # memories in the index that no search finds yet
        self._waiting: list[asyncio.Future[None]] = []  # searches that wait for unsorted ones
        self._cursor = self._palace_cursor = START  # of everything, and of persona memories
        self._palace_waiting: list[asyncio.Future[None]] = []
        self._is_following = self._is_closed = False
        self._reading: asyncio.Task[None] | None = None
        self._progress: Callable[[int, int], None] | None = None
        self._turn = asyncio.Lock()
        self._embedder = None if meaning is None else meaning[0].embedder
        self._jobs = None if meaning is None else EmbeddingJobs(*meaning, self, self._turn)

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    async def search(self, query: str, limit: int, scope: Scope, relevance_floor: float) -> Hits[Hit]:
        """The memories that answer a question best, best first, of those that are indexed within `INDEX_SECONDS`."""
        check_arguments(query, limit, relevance_floor)
        index = await self._current(INDEX_SECONDS)
        if not len(index) and not self._left and await self._ask("memories are"):
            index = await self._current(INDEX_SECONDS)
        meant = await self._directions(index, query)
        similar = None if meant.asked is None else index.similar(meant.asked)
        now = self._clock()
        zone = self._zone(now)
        weigher = Weigher(
            index,
            query=query,
            now=now,
            floor=relevance_floor,
            state=scope.state,
            near=index.near_rows(similar),
            zone=zone,
        )
        # The day of the query tells journal entries apart; it would be unfair to memories that have no day.
        by_day = scope.within == {Kind.JOURNAL}
        asked = partial(
            index.search,
            query,
            now=now,
            zone=zone,
            options=replace(self._options, session=by_day, dense=similar is not None),
            similar=similar,
            beyond_names=meant.beyond_names,
        )
        found = asked(
            limit,
            kinds=None if scope.is_all else scope.within,
            only=self._filter(scope) if scope.narrows else None,
            factors=weigher.factors,
        )
        found = self._looked_again(found, index, query, limit, scope=scope, weigher=weigher)
        forgotten = self._forgotten(weigher, scope, index)
        late: Sequence[SearchHit] = ()
        if scope.forgotten and forgotten and len(found) < limit:
            is_late = np.zeros(len(index.documents), np.bool_)
            is_late[forgotten] = True
            late = asked(limit - len(found), only=is_late, factors=weigher.forgotten_factors)
        has_quoted = quoting(index, query) if found else None
        note = self._note
        if has_quoted is not None and not has_quoted[index.documents.rows[found[0].id]]:
            note = f"{note}; {NOT_QUOTED}" if note else NOT_QUOTED
        there = list[Hit]()
        for part in (found, late):
            hits = [hit for one in part if (hit := await self._hit(one, weigher, note, query)) is not None]
            there += sorted(hits, key=lambda hit: (-hit.score, -hit.written_at, hit.path))

        def joining(memory: PersonaMemory, relevance: float) -> Hit:
            factor = relevance_floor + (1 - relevance_floor) * min(1.0, relevance)
            text = f"relevance {relevance:.2f}"
            why = Explanation(evidence=(), relevance=relevance, factor=factor, text=text)
            return Hit.of(memory, state_at(relevance), 0.0, why.noting(note))

        first = self._successors_first(there, joining, index, query, scope)[:limit]
        return Hits(first, forgotten=len(forgotten) - len(late))

    async def search_palace(
        self, query: str, limit: int, relevance_floor: float, scope: Scope = PALACE
    ) -> Hits[PersonaHit]:
        """The persona memories that match a query, scored as the specification says, the best first."""
        check_arguments(query, limit, relevance_floor)
        catalog = await self._catalog()
        asked = await self._directions(await self._current(), query) if self._jobs else Directions()
        index = await self._with_palace()

        def is_meant(path: str) -> bool:
            memory = catalog.get(path)
            return memory is not None and scope.holds(memory)

        now = self._clock()
        found = PalaceIndex(index).search(
            query,
            now=now,
            limit=limit,
            relevance_floor=relevance_floor,
            near=self._near(index, asked.asked),
            state=scope.state,
            only=is_meant if scope.narrows else None,
            zone=self._zone(now),
            forgotten=scope.forgotten,
            beyond_names=asked.beyond_names,
        )
        hits = list[PersonaHit]()
        for match in found:
            memory = catalog.get(match.path)
            if memory is not None:
                why, sure = match.why.noting(self._note), confidence_in(memory.value, query, match.clues)
                hits.append(PersonaHit.of(memory, match.score, why, sure))

        def joining(memory: PersonaMemory, relevance: float) -> PersonaHit:
            factor = relevance_floor + (1 - relevance_floor) * relevance
            text = f"relevance {relevance:.2f}"
            why = Why(matches=(), evidence=(), relevance=relevance, factor=factor, text=text)
            return PersonaHit.of(memory, 0.0, why.noting(self._note))

        first = self._successors_first(hits, joining, index, query, scope)[:limit]
        return Hits(first, forgotten=found.forgotten)

    def _looked_again(
        self,
        found: Sequence[SearchHit],
        index: SearchIndex,
        query: str,
        limit: int,
        *,
        scope: Scope,
        weigher: Weigher,
    ) -> list[SearchHit]:
        """The hits with persona memories of a scope that have a rare name of the first hit, if that is one."""
        first = self._memory(found[0].id) if found else None
        if first is None:
            return list(found)

        def factors(names: Sequence[str]) -> list[float]:
            there = [(memory := self._memory(name)) is not None and scope.holds(memory) for name in names]
            return [share * is_there for share, is_there in zip(weigher.factors(names), there, strict=True)]

        return with_named(index, query, found, limit, text=first.value, factors=factors)

    def _forgotten(self, weigher: Weigher, scope: Scope, index: SearchIndex) -> list[int]:
        """The rows of the index with forgotten memories of a scope that the query directly means."""
        if scope.state is not None or Kind.PALACE not in scope.within:
            return []
        is_meant = self._filter(scope)
        return [row for row in weigher.forgotten() if not scope.narrows or is_meant(index.documents.ids[row])]

    def _successors_first(
        self,
        hits: Sequence[_H],
        made: Callable[[PersonaMemory, float], _H],
        index: SearchIndex,
        query: str,
        scope: Scope,
    ) -> list[_H]:
        """Hits with the newest first, then with successors first, which may be older; those that join fit the search."""

        def joining(memory: PersonaMemory) -> _H | None:
            relevance, first = current_relevance(memory, self._clock()), hits[0]
            state = state_at(relevance)
            is_shown = state in _ALIVE if scope.state is None else state in _STATES_OF[scope.state]
            names = f"{first.kind}/{first.path}", f"{Kind.PALACE}/{memory.path}"
            if not (is_shown and scope.holds(memory) and quotes_like(index, query, *names)):
                return None
            return made(memory, relevance)

        return with_successors_first(with_newest_first(hits, query), self._palace.catalog.meant, joining)

    # ── Meaning ─────────────────────────────────────────────────────────────────────────

    async def bearing_on(self, request: str) -> Bears:
        """How much standing memories bear on a request: by topics, names and words, and by meaning."""
        index = await self._with_palace()
        return bearing_on(index, request, (await self._directions(index, request)).asked)

    async def embed(
        self,
        *,
        share: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Embed every memory that has no vectors, and share the vectors if `share`; see `MemoryStore.embed`."""
        index = await self._current()
        if self._jobs is None:
            return EmbedReport(0, None)
        if dry_run:
            return await self._jobs.planned_with_shared(index, share=share)
        return await self._jobs.embed(index, share=share, progress=progress)

    def gaps(self) -> Gaps:
        """What searches find by words only, and what they do not find yet, as of the last search."""
        if self._jobs is None or self._index is None:
            trouble = EmbedderError("the embedder", self._note) if self._note else None
            return Gaps(0, trouble, self._left)
        return replace(self._jobs.gaps(self._index), unread=self._left)

    async def _directions(self, index: SearchIndex, query: str) -> Directions:
        return Directions() if self._jobs is None else await self._jobs.directions(index, query)

    def _near(self, index: SearchIndex, direction: NDArray[Any] | None) -> dict[str, float]:
        """By path, how near in meaning a persona memory is to a question: above 0, up to 1."""
        if direction is None:
            return {}
        head = f"{Kind.PALACE}/"
        nearest = index.nearest(direction)
        return {name.removeprefix(head): near for name, near in nearest.items() if name.startswith(head)}

    def origins(self) -> dict[str, VectorSource]:
        """The path, slot and stamp of every memory, by its name in the index."""
        persona = [] if self._index is None else self._index.ids_of(Kind.PALACE)
        names = [*self._records.names(), *persona]
        return {name: origin for name in names if (origin := self.origin(name)) is not None}

    def origin(self, name: str) -> VectorSource | None:
        """The path, slot and stamp of a memory; None where the memory is gone."""
        kind, _, path = name.partition("/")
        if kind != Kind.PALACE:
            return self._records.origin(name)
        stamp, path = None if self._index is None else self._index.stamp(name), address.PERSONA + path
        return (
            None if stamp is None else VectorSource(path, address.d_tag(path), f"{stamp:0{2 * STAMP_BYTES}x}")
        )

    async def items(self, names: Sequence[str]) -> list[SearchItem]:
        """Memories as the index takes them, by their names in it."""
        items = [item_of(memory) for name in names if (memory := self._memory(name)) is not None]
        opened = await self._records.read(names)
        found = (item_of_record(one.record, one.id.hex(), one.created_at) for one in opened)
        return items + [item for item in found if item is not None]

    # ── Following the ledger ────────────────────────────────────────────────────────────

    def put(self, memory: PersonaMemory) -> None:
        """A persona memory is new, or changed."""
        self._changed[memory.path] = None

    def drop(self, path: str) -> None:
        """A persona memory is gone."""
        self._changed[path] = None

    async def catch_up(self) -> None:
        """Bring the index up to date; after `close` the index stays as it is, and the next process continues it."""
        if not self._is_closed:
            await self._current()

    async def read(self, progress: Callable[[int, int], None] | None = None) -> int:
        """As `catch_up`; `progress` is called with the memories read and all memories. Returns how many there are."""
        self._progress = progress
        try:
            return len(await self._current())
        finally:
            self._progress = None

    async def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    @property
    def _left(self) -> int:
        """How many memories are still unread, as far as is known."""
        return self._records.left + self._ahead + len(self._changed)

    async def _current(self, wait: float | None = None) -> SearchIndex:
        """The index, up to date, or as far as it is after `wait` seconds.

        One task brings the index up to date for all callers, and goes on when a caller is cancelled.
        """
        is_ours = False
        while (
            not self._is_current() and not is_ours
        ):  # a task that began earlier may have missed what was written since
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
        return self._index or SearchIndex(self._options, LANGUAGE, self._embedder)

    def _is_current(self) -> bool:
        """Whether nothing has changed since the index was last brought up to date."""
        return self._has_palace() and not self._ledger.feed.has_changed(self._cursor)

    def _has_palace(self) -> bool:
        has_changed = self._changed or self._ledger.feed.has_changed(self._palace_cursor)
        return self._index is not None and not has_changed

    async def _with_palace(self) -> SearchIndex:
        """The index, with all persona memories."""
        while self._index is None or not self._has_palace():
            reading = self._reading_task()
            ready = asyncio.get_running_loop().create_future()
            self._palace_waiting.append(ready)
            await asyncio.wait({reading, ready}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
        return self._index

    def _reading_task(self) -> asyncio.Task[None]:
        """The task that brings the index up to date, or a new one."""
        if self._reading is not None and not self._reading.done():
            return self._reading
        task = asyncio.create_task(self._read_on())
        # A caller that still waits gets the error; without one, asyncio need not report it.
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    async def _read_on(self) -> None:
        """Bring the index up to date, some memories at a time."""
        async with self._turn:
            cursor = self._ledger.feed.cursor()
            if self._index is None:
                self._ahead = len(self._ledger.heads.seqs_beneath(*ROOTS))
                self._index = self._restored(await self.saved())
            await self._look_at_palace(self._index)
            async for gone, fresh in self._records.changes():
                for name in gone:
                    self._index.drop(name)
                await self._put(self._index, fresh)
                if self._palace_waiting:
                    await self._look_at_palace(self._index)
            await self._sort_in(self._index)
            self._cursor = cursor
            if self._jobs is not None:
                await self._jobs.fill_from_cache(self._index)

    async def _look_at_palace(self, index: SearchIndex) -> None:
        """Index what changed in the palace, then wake the searches that wait for persona memories."""
        cursor, waiting = self._ledger.feed.cursor(), self._palace_waiting
        self._palace_waiting = []
        try:
            catalog = await self._palace.refresh()
            if not self._is_following:
                self._is_following = True
                self._palace.follow(self)
                self._changed = dict.fromkeys(self._unlike(index, catalog.paths()))
                self._ahead = 0
            while self._changed:
                await self._take_in(index, list(islice(self._changed, _PART_COUNT)))
            await self._sort_in(index)
            self._palace_cursor = cursor
        finally:
            for one in waiting:
                if not one.done():
                    one.set_result(None)

    def _unlike(self, index: SearchIndex, paths: Sequence[str]) -> list[str]:
        """The paths of persona memories that are new, gone, or not equal to the event that the index has read."""
        head, plain = f"{Kind.PALACE}/", self._palace.plain
        known = index.events(Kind.PALACE)
        changed = [
            path
            for path in paths
            if (ident := plain.get(path)) is None or known.get(head + path) != mark_of(ident)
        ]
        there = {head + path for path in paths}
        return changed + [name.removeprefix(head) for name in known if name not in there]

    async def _take_in(self, index: SearchIndex, paths: Sequence[str]) -> None:
        """Index some persona memories as they are now."""
        items = []
        self._palace.catalog.all_of(paths)  # reading many together costs less per memory
        for path in paths:
            del self._changed[path]
            memory, ident = self._palace.catalog.get(path), self._palace.plain.get(path)
            if memory is None:
                index.drop(f"{Kind.PALACE}/{path}")
            else:
                items.append(item_of(memory, 0 if ident is None else mark_of(ident)))
        await self._put(index, index.refreshed(items))

    async def _put(self, index: SearchIndex, items: Sequence[SearchItem]) -> None:
        self.unsaved += len(items)
        is_part = len(items) >= _PART_COUNT // 2
        if is_part:
            index.put_many_unsorted(items)
            self._unsorted += len(items)
        else:
            index.put_many(items, embeds=False)
        if self._waiting:
            await self._sort_in(index)
        if items and self._progress is not None:
            self._progress(len(index), len(index) + self._left)
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
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    # ── Finding ─────────────────────────────────────────────────────────────────────────

    def _filter(self, scope: Scope) -> Callable[[str], bool]:
        def is_meant(name: str) -> bool:
            memory = self._memory(name)
            if memory is not None:
                return scope.holds(memory)
            if scope.source is not None or name not in self._records:
                return False
            return scope.since is None or self._records.written_at(name) >= scope.since

        return is_meant

    def _memory(self, name: str) -> PersonaMemory | None:
        """The persona memory with this name in the index."""
        kind, _, path = name.partition("/")
        return self._palace.catalog.get(path) if kind == Kind.PALACE else None

    async def _hit(self, found: SearchHit, weigher: Weigher, note: str, query: str) -> Hit | None:
        kind, _, path = found.id.partition("/")
        memory = self._memory(found.id)
        if memory is not None:
            fields = {"key": memory.key, "themes": " \n".join(memory.themes), "value": memory.value}
            why = weigher.explain(found, fields).noting(note)
            sure = confidence_in(memory.value, query, found.clues)
            return Hit.of(memory, state_at(why.relevance), found.score, why, sure)
        opened = await self._records.read([found.id])
        if not opened:
            return None  # forgotten while this search waited
        (event,) = opened
        record = event.record
        written_at = record.written_at(event)
        fields = {"value": text_of(record)} | ({"key": path} if kind == Kind.FLAT else {})
        return Hit(
            kind=Kind(kind),
            path=path,
            key=path,
            value=fields["value"],
            created_at=written_at,
            written_at=written_at,
            event_id=event.id.hex(),
            score=found.score,
            answer_confidence=confidence_in(fields["value"], query, found.clues),
            why=weigher.explain(found, fields).noting(note),
        )

    # ── Keeping ─────────────────────────────────────────────────────────────────────────

    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes, with the rows that it was made from."""
        if self._index is None:
            return ()
        return with_header(self._records.dumped(), self._index.dump())

    def _restored(self, saved: memoryview | None) -> SearchIndex:
        """The saved index, or a new one."""
        if saved:
            try:
                (rows, seq), index = without_header(saved)
                self._records = RecordItems(self._ledger, self._reader, rows, seq)
                return SearchIndex.load(index, self._options, self._embedder)
            except (ValueError, KeyError, TypeError, IndexError):  # a cache: the index is made anew
                self._records = RecordItems(self._ledger, self._reader)
        return SearchIndex(self._options, LANGUAGE, self._embedder)


def check_arguments(query: object, limit: object, relevance_floor: object) -> None:
    """Check the arguments of a search.

    Raises:
        InvalidInput: the query is not text, or a number is out of range.
    """
    if not isinstance(query, str):
        raise InvalidInput("a query must be text")
    if type(limit) is not int or not 1 <= limit <= MAX_FOUND_COUNT:
        raise InvalidInput(f"limit must be between 1 and {MAX_FOUND_COUNT:,}, not {quoted(limit)}")
    if type(relevance_floor) not in {int, float} or not 0 <= relevance_floor <= 1:  # type: ignore[operator]
        raise InvalidInput(f"relevance_floor must be between 0 and 1, not {quoted(relevance_floor)}")
