"""One search over everything: palace memories, flat memories and the journal, in one index.

There is one index, and not a ranked list of each kind: scores of different lists cannot be compared (the best of a poor
list is still its best), while in one index a word is as rare as it is in all that the agent knows. A word of a key
counts three times and a word of a theme twice, which are the specification's weights on BM25. Journal entries also
match on the entries just before and after them; other memories do not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from sense_memory.errors import EmbedderError, InvalidInput
from sense_memory.limits import INDEX_SECONDS, MAX_FOUND_COUNT
from sense_memory.memories.embedding_jobs import Directions, EmbeddingJobs, EmbedReport, Gaps
from sense_memory.memories.index_keeper import LANGUAGE, IndexKeeper
from sense_memory.memories.nearness import TextVectors
from sense_memory.memories.persona.arguments import quoted
from sense_memory.memories.search_items import PalaceItems, RecordItems, excerpt, item_of_record, text_of
from sense_memory.memories.trust import of_fields, provenance_in_fields
from sense_memory.memories.weigher import Weigher
from sense_memory.models import State
from sense_memory.nostr import address
from sense_memory.palace.bearing import bearing_on
from sense_memory.palace.lifecycle import current_relevance, state_at
from sense_memory.palace.search import STAMP_BYTES, PalaceIndex, PersonaHit, Why, item_of
from sense_memory.palace.succession import with_newest_first, with_successors_first
from sense_memory.palace.trust import JOURNAL_PART
from sense_memory.records.sealed_caches import VectorSource, made_of
from sense_memory.search.confidence import confidence_in
from sense_memory.search.hits import NOT_QUOTED, PALACE, Explanation, Hit, Hits, Kind
from sense_memory.search.index import FORMAT
from sense_memory.search.quotations import quotes_like, quoting
from sense_memory.search.ranking import SearchOptions
from sense_memory.search.second_look import with_named


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.ledger import Ledger
    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.memories.shared_embeddings import SharedEmbeddings
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.candidates import Bears
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.trust import TrustJudge
    from sense_memory.records.reader import Reader
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.hits import Scope
    from sense_memory.search.index import SearchIndex
    from sense_memory.search.ranking import SearchHit


_H = TypeVar("_H", Hit, PersonaHit)
_ALIVE: Final = frozenset({State.ACTIVE, State.FADING})
_STATES_OF: Final = {state: {state} for state in State} | {
    State.FORGOTTEN: {State.FORGOTTEN, State.DISSOLVED}
}  # that a search for a state shows, as `palace.search.is_in_state`


class MemorySearch:
    """The index of everything that a ledger holds, and both searches in it.

    One task at a time brings the index up to date for all searches, and goes on when a search is cancelled. The task
    reads palace memories first, then the others, some at a time, so that other tasks get their turn. A search of the
    palace waits for all palace memories; a search over everything waits `INDEX_SECONDS`, then uses the index as it is.

    Args:
        palace: its palace memories.
        ledger: where everything lies.
        reader: opens it.
        clock: seconds since 1970.
        zone: how far the clocks that a question means are ahead of UTC at a time, in seconds.
        catalog: the palace's memories; asks a relay where there are none.
        withheld: gives the names of memories that a rule keeps back, which no search finds.
        judge: gives what says which journal entries a rule keeps back.
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
        withheld: Callable[[], Awaitable[Collection[str]]],
        judge: Callable[[], Awaitable[TrustJudge]],
        ask: Callable[[str], Awaitable[bool]],
        meaning: tuple[EmbedderClient, SharedEmbeddings] | None = None,
        note: str = "",
    ) -> None:
        self._note = note
        self._options = SearchOptions()
        self._palace, self._clock, self._catalog, self._ask = palace, clock, catalog, ask
        self._zone, self._withheld, self._judge = zone, withheld, judge
        self._records = RecordItems(ledger, reader)
        self._keeper = IndexKeeper(
            "everything",
            made_of("the index of everything, files too", FORMAT, LANGUAGE, self._options),
            ledger,
            reader,
            (PalaceItems(palace, ledger), self._records),
            embedder=self._open_embedder,
            was_read=self._was_read,
        )
        self._embedder = None if meaning is None else meaning[0].embedder
        self._jobs = None if meaning is None else EmbeddingJobs(*meaning, self, self._keeper.turn)
        self._vectors = None if meaning is None else TextVectors(meaning[0])

    def __len__(self) -> int:
        return len(self._keeper)

    async def search(self, query: str, limit: int, scope: Scope, relevance_floor: float) -> Hits[Hit]:
        """The memories that answer a question best, best first, of those that are indexed within `INDEX_SECONDS`."""
        check_arguments(query, limit, relevance_floor)
        scope = scope._replace(without=frozenset(await self._withheld()))
        index = await self._indexed_soon()
        if not len(index) and not self._keeper.left and await self._ask("memories are"):
            index = await self._indexed_soon()
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
        """The palace memories that match a query, scored as the specification says, the best first."""
        check_arguments(query, limit, relevance_floor)
        scope = scope._replace(without=frozenset(await self._withheld()))
        catalog = await self._catalog()
        asked = await self._directions(await self._keeper.current(), query) if self._jobs else Directions()
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
        """The hits with palace memories of a scope that have a rare name of the first hit, if that is one."""
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

    async def cosines(self, query: str, texts: Mapping[str, Sequence[str]]) -> dict[str, float] | None:
        """How near in meaning palace memories are to a question: cosines, from -1 to 1, by path.

        Args:
            query: the question.
            texts: by path, what stands for a memory in its place, such as some of its fields; such a memory counts as its
                nearest text, and one with no text is left out.

        Returns: None without an embedder, or if it failed. Memories that it has not read yet are left out.
        """
        index = await self._with_palace()
        direction = None if self._jobs is None else await self._jobs.direction(index, query)
        if direction is None or self._vectors is None:
            return None
        found, similar = dict[str, float](), index.similar(direction)
        if similar is not None:
            unread, rows = frozenset(index.without_meaning()), index.documents.rows
            for name in index.ids_of(Kind.PALACE):
                path = name.removeprefix(f"{Kind.PALACE}/")
                if name not in unread and path not in texts:
                    found[path] = float(similar[rows[name]])
        return found | await self._vectors.cosines(direction, texts)

    async def embed(
        self,
        *,
        share: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """Embed every memory that has no vectors, and share the vectors if `share`; see `MemoryStore.embed`."""
        index = await self._keeper.current()
        if self._jobs is None:
            return EmbedReport(0, None)
        if dry_run:
            return await self._jobs.planned_with_shared(index, share=share)
        return await self._jobs.embed(index, share=share, progress=progress)

    def gaps(self) -> Gaps:
        """What searches find by words only, and what they do not find yet, as of the last search."""
        if self._jobs is None or self._keeper.index is None:
            trouble = EmbedderError("the embedder", self._note) if self._note else None
            return Gaps(0, trouble, self._keeper.left)
        return replace(self._jobs.gaps(self._keeper.index), unread=self._keeper.left)

    async def _directions(self, index: SearchIndex, query: str) -> Directions:
        return Directions() if self._jobs is None else await self._jobs.directions(index, query)

    def _near(self, index: SearchIndex, direction: NDArray[Any] | None) -> dict[str, float]:
        """By path, how near in meaning a palace memory is to a question: above 0, up to 1."""
        if direction is None:
            return {}
        head = f"{Kind.PALACE}/"
        nearest = index.nearest(direction)
        return {name.removeprefix(head): near for name, near in nearest.items() if name.startswith(head)}

    def origins(self) -> dict[str, VectorSource]:
        """The path, slot and stamp of every memory, by its name in the index."""
        persona = [] if self._keeper.index is None else self._keeper.index.ids_of(Kind.PALACE)
        names = [*self._records.names(), *persona]
        return {name: origin for name in names if (origin := self.origin(name)) is not None}

    def origin(self, name: str) -> VectorSource | None:
        """The path, slot and stamp of a memory; None where the memory is gone."""
        kind, _, path = name.partition("/")
        if kind != Kind.PALACE:
            return self._records.origin(name)
        stamp, path = (
            None if self._keeper.index is None else self._keeper.index.stamp(name),
            address.PERSONA + path,
        )
        return (
            None if stamp is None else VectorSource(path, address.d_tag(path), f"{stamp:0{2 * STAMP_BYTES}x}")
        )

    async def items(self, names: Sequence[str]) -> list[SearchItem]:
        """Memories as the index takes them, by their names in it."""
        items = [item_of(memory) for name in names if (memory := self._memory(name)) is not None]
        opened = await self._records.read(names)
        found = (item_of_record(one.record, one.id.hex(), one.created_at) for one in opened)
        return items + [item for item in found if item is not None]

    # ── The index ───────────────────────────────────────────────────────────────────────

    async def catch_up(self) -> None:
        """Bring the index up to date; after `close` the index stays as it is, and the next process continues it."""
        await self._keeper.catch_up()

    async def read(self, progress: Callable[[int, int], None] | None = None) -> int:
        """As `catch_up`; `progress` is called with the memories read and all memories. Returns how many there are."""
        self._keeper.progress = progress
        try:
            return len(await self._keeper.current())
        finally:
            self._keeper.progress = None

    async def close(self) -> None:
        """Stop reading."""
        await self._keeper.close()

    async def _indexed_soon(self) -> SearchIndex:
        """The index, up to date, or as far as it is after `INDEX_SECONDS`."""
        index = await self._keeper.current_within(INDEX_SECONDS)
        return await self._keeper.so_far() if index is None else index

    async def _with_palace(self) -> SearchIndex:
        """The index, with all palace memories."""
        return await self._keeper.current_of(0)

    async def _was_read(self, index: SearchIndex) -> None:
        if self._jobs is not None:
            await self._jobs.fill_from_cache(index)

    async def _open_embedder(self) -> Embedder | None:
        return self._embedder

    # ── Finding ─────────────────────────────────────────────────────────────────────────

    def _filter(self, scope: Scope) -> Callable[[str], bool]:
        def is_meant(name: str) -> bool:
            memory = self._memory(name)
            if memory is not None:
                return scope.holds(memory)
            if scope.source is not None or name not in self._records:
                return False
            if name.removeprefix(f"{Kind.FLAT}/") in scope.without:
                return False
            return scope.since is None or self._records.written_at(name) >= scope.since

        return is_meant

    def _memory(self, name: str) -> PersonaMemory | None:
        """The palace memory with this name in the index."""
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
        if kind == Kind.JOURNAL and (judge := await self._judge()).withholds:
            entry = of_fields(f"{JOURNAL_PART}{path}", record.fields, record.written_at(event))
            if judge.holds_back(entry, {}, {}):
                return None
        written_at = record.written_at(event)
        fields = {"value": text_of(record)} | ({"key": path} if kind in {Kind.FLAT, Kind.FILE} else {})
        why = weigher.explain(found, fields).noting(note)
        words = [one.detail for one in why.evidence if "value" in one.fields]
        return Hit(
            kind=Kind(kind),
            path=path,
            key=path,
            value=excerpt(fields["value"], words) if kind == Kind.FILE else fields["value"],
            created_at=written_at,
            written_at=written_at,
            event_id=event.id.hex(),
            **(provenance_in_fields(record.fields) if kind in {Kind.FLAT, Kind.JOURNAL} else {}),
            score=found.score,
            answer_confidence=confidence_in(fields["value"], query, found.clues),
            why=why,
        )


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
