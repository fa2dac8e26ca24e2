"""Search over the log and the archive, with the search core of sense-memory.

The index follows the changes of the log and the archive, so a search after an append indexes one entry. Between two
processes the snapshot keeps the index. With an embedder, messages and passages are also found by meaning: a search embeds
items without vectors for a second at most, newest first. If the embedder fails or does not answer, the search ranks by
words. Age lowers a score by a tenth at most, so an old entry that matches best is found.

In a store with `background`, a search never waits longer than `_WORDS_SECONDS` for the index or for the embedder. A task
brings the index up to date in parts, and another one embeds items, for `_FILL_SECONDS` after each search. Until the index
is ready, a search reads all texts (see `text_scan`), which finds every item that has the words; until items are embedded,
it ranks them by words. Without `background`, a search brings the index up to date first.

A removed entry leaves the caches too. The ledger's sealed vectors have one row for each passage, and one for each page of
the log with the vectors of all its entries. Removing an entry removes the row of its page in the same transaction, and the
next refresh discards the snapshot, because the index contains words. The cost: the other entries of the page are embedded
again, and the next process builds a new index.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.limits import DAY_SECONDS, DEFAULT_HALFLIFE_DAYS, EMBED_SECONDS
from sense_memory.memories.index_keeper import IndexKeeper
from sense_memory.mind.call_checks import checked
from sense_memory.mind.chat.message_index import MessageIndex
from sense_memory.mind.chat.messages import is_from_tool
from sense_memory.mind.layers.archive import Passage
from sense_memory.mind.search.hits import (
    EVERYWHERE,
    MindHit,
    Place,
    with_corrections_first,
    with_newest_first,
)
from sense_memory.mind.search.items import (
    NUMBER_BYTES,
    LogItems,
    PassageItems,
    entry_name,
    ident_of,
    is_passage,
    item_of,
    number_of,
    passage_name,
    place_of,
)
from sense_memory.mind.search.said_after import said_after
from sense_memory.mind.search.text_scan import best_texts
from sense_memory.mind.trust import gate_of
from sense_memory.nostr import address
from sense_memory.records.sealed_caches import MemoryVectors, made_of
from sense_memory.search.confidence import confidence_in
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import FORMAT, SearchIndex


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.layers.archive import Archive
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.mind.trust import EntryGate
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.ranking import SearchHit


_FLOOR: Final = 0.9  # the least factor by which age lowers a score
_PART_COUNT: Final = 100  # items to index before other tasks get a turn, some 10 ms
_THREAD_COUNT: Final = 5_000  # an index with so many items sorts its words in a thread
# The longest wait of a search for its embedder, without `background`.
_ANSWER_SECONDS: Final = 2 * EMBED_SECONDS
_WORDS_SECONDS: Final = 0.1  # with `background`, the longest wait for the index, and for the embedder
_FILL_SECONDS: Final = 10.0  # with `background`, items are embedded for so long after a search
_FILL_COUNT: Final = 16  # items embedded at once, so that a question is soon the next one
_KEPT_COUNT: Final = 256  # items with new vectors that are cached together
_READ_COUNT: Final = 16  # rows of cached vectors to read before other tasks get a turn
_MORE_COUNT: Final = 15  # more hits than asked for, to find corrections among them
_log = logging.getLogger("sense_memory.mind")
_ARCHIVE: Final = f"{address.PREFIX}{address.MIND}archive/"


@checked
class MindSearch:
    """Finds messages, other entries of the log, and passages.

    Args:
        store: the open store.
        log: the log.
        archive: the passages.
        messages: the messages of conversations; by default read from the log anew.
    """

    def __init__(
        self, store: OpenStore, log: Log, archive: Archive, messages: MessageIndex | None = None
    ) -> None:
        self._store, self._log = store, log
        self._messages = messages or MessageIndex(log)
        self._entries, self._passages = LogItems(log), PassageItems(archive)
        self._keeper = IndexKeeper(
            "mind",
            made_of("the index of the mind", FORMAT),
            store.ledger,
            store.reader,
            (self._entries, self._passages),
            embedder=self._open_embedder,
            was_read=self._fill_from_cache,
            has_ended=_warn_of_failure if store.options.background else None,
            discards=True,
        )
        self._warming_count = 0  # calls of `warm`
        self._filling = asyncio.Lock()
        self._is_filled = False  # whether items have their cached vectors
        self._fresh: set[str] = set()  # items whose vectors are not cached yet
        self._made = 0  # vectors made since vectors were last cached
        self._embedding: asyncio.Task[None] | None = None  # embeds items after a search
        self._asking: set[asyncio.Task[NDArray[np.float32] | None]] = set()
        # Whether a search gave up waiting for the embedder, and its answer is still to come.
        self._is_late = False

    def __len__(self) -> int:
        return len(self._keeper)

    async def search(
        self,
        query: str,
        limit: int = 5,
        *,
        within: Iterable[str] = EVERYWHERE,
        conversation: str | None = None,
        tags: Collection[str] = (),
        topic: str | None = None,
    ) -> list[MindHit]:
        """The hits that answer a query best.

        Args:
            query: a question or some words.
            limit: the largest number of hits.
            within: the places to search.
            conversation: only messages and entries of this conversation.
            tags: only passages with one of these tags.
            topic: only passages of this topic.

        Raises:
            InvalidInput: a place is unknown, or `limit` is negative.
            MissingExtra: the store's embedder is not installed.
            StoreClosed: the store was closed meanwhile.
        """
        try:
            places = frozenset(map(Place, within))
        except ValueError:
            raise InvalidInput(f"a place is one of {', '.join(Place)}") from None
        about = conversation, frozenset(tags), topic
        index = await self._ready()
        if index is None:
            index, direction = await self._excerpt(query, places, *about), None
        else:
            direction = await self._direction(index, query)
        now, gate = self._store.options.clock(), await gate_of(self._store, self._log)
        hits = index.search(
            query,
            limit + _MORE_COUNT if limit else 0,
            now=now,
            zone=self._store.options.zone(now),
            options=replace(index.options, dense=direction is not None),
            kinds=places,
            only=self._allowed(index, *about),
            factors=lambda names: self._factors(names, now, gate),
            direction=direction,
        )
        found = [_hit(found, hit, query) for hit in hits if (found := self._found(hit.id)) is not None]
        after = await said_after(found, self._messages)
        # Corrections last: one that shares no word with the question is none of the newest about its subject.
        ranked = with_corrections_first(with_newest_first(found, query), after)
        return self._question_last(query, ranked)[:limit]

    def _question_last(self, query: str, hits: list[MindHit]) -> list[MindHit]:
        """Hits with the question itself last: a message that asks the question, or has just brought it, is no answer."""
        asked = query.strip()
        is_question = asked.endswith("?")

        def is_asked(hit: MindHit) -> bool:
            if hit.place is not Place.CONVERSATION or hit.actor == "assistant" or hit.text.strip() != asked:
                return False
            return is_question or hit.id == self._entries.newest

        return sorted(hits, key=is_asked)

    async def close(self) -> None:
        """Stop the tasks, and cache new vectors."""
        tasks = [task for task in (*self._asking, self._embedding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._keeper.close()
        meaning = await self._store.embedding() if self._fresh else None
        if meaning is not None and self._keeper.index is not None:
            await self._cache_vectors(self._keeper.index, meaning)

    # ── While the index is not ready ────────────────────────────────────────────────────

    async def warm(self) -> None:
        """Bring the index of the search up to date; searches meanwhile do not wait for it.

        Raises:
            StoreClosed: the store was closed meanwhile.
        """
        self._warming_count += 1
        try:
            await self._keeper.current()
        finally:
            self._warming_count -= 1

    async def _ready(self) -> SearchIndex | None:
        """The index, up to date; None if that takes longer than `_WORDS_SECONDS`, and the search should not wait."""
        waits = not (self._warming_count or self._store.options.background)
        return await self._keeper.current_within(None if waits else _WORDS_SECONDS)

    async def _excerpt(
        self,
        query: str,
        places: Collection[Place],
        conversation: str | None,
        tags: frozenset[str],
        topic: str | None,
    ) -> SearchIndex:
        """An index of the items that have most words of a query."""

        def text_of(thing: LogEntry | Passage) -> str | None:
            if isinstance(thing, Passage):
                is_meant = Place.ARCHIVE in places and conversation is None and _is_about(thing, tags, topic)
                return (
                    " ".join((thing.content, thing.title, *thing.tags, *thing.topics)) if is_meant else None
                )
            is_meant = place_of(thing) in places and (
                conversation is None or thing.conversation == conversation
            )
            return f"{thing.text} {thing.actor}" if is_meant and not tags and topic is None else None

        entries = await self._log.entries()
        self._entries.newest = entries[-1].id if entries else ""
        things: list[LogEntry | Passage] = [*(await self._passages.look()).values(), *entries]
        index, chosen = SearchIndex(), await best_texts(query, things, text_of)
        index.put_many(filter(None, map(item_of, chosen)))
        return index

    async def _open_embedder(self) -> Embedder | None:
        meaning = await self._store.embedding()
        return None if meaning is None else meaning.embedder

    # ── Meaning ─────────────────────────────────────────────────────────────────────────

    async def _direction(self, index: SearchIndex, query: str) -> NDArray[np.float32] | None:
        """The vector of a question; None without an embedder, or if it fails or does not answer in time."""
        meaning = await self._store.embedding()
        if meaning is None or self._is_late:
            return None
        is_quick = self._store.options.background
        ask = meaning.direction(index.asks(query)) if is_quick else self._ask(index, meaning, query)
        task = asyncio.create_task(ask)
        self._asking.add(task)
        task.add_done_callback(self._answered)
        done, _ = await asyncio.wait({task}, timeout=_WORDS_SECONDS if is_quick else _ANSWER_SECONDS)
        if is_quick and (self._embedding is None or self._embedding.done()):
            self._embedding = asyncio.create_task(
                self._embed_newest(index, meaning, _FILL_SECONDS, _FILL_COUNT)
            )
            self._embedding.add_done_callback(_warn_of_failure)
        self._is_late = not done
        return task.result() if done else None

    def _answered(self, task: asyncio.Task[NDArray[np.float32] | None]) -> None:
        self._asking.discard(task)
        self._is_late = self._is_late and bool(self._asking)
        if not task.cancelled():
            task.exception()  # marks the error as read; a caller that still waits gets it too

    async def _ask(
        self, index: SearchIndex, meaning: EmbedderClient, query: str
    ) -> NDArray[np.float32] | None:
        """The vector of a question. First, for up to `EMBED_SECONDS`, items without vectors get theirs."""
        await self._embed_newest(index, meaning, EMBED_SECONDS, _FILL_COUNT)
        return await meaning.direction(index.asks(query))

    async def _embed_newest(
        self, index: SearchIndex, meaning: EmbedderClient, seconds: float, count: int
    ) -> None:
        """Give items without vectors theirs for some seconds, the newest first and `count` at once."""
        end = meaning.clock() + seconds
        async with self._filling:
            while (newest := index.without_meaning(count)) and meaning.clock() <= end:
                if not await self._read(index, meaning, newest):
                    break
            if self._made >= _KEPT_COUNT:
                await self._cache_vectors(index, meaning)

    async def _read(self, index: SearchIndex, meaning: EmbedderClient, names: Sequence[str]) -> int:
        """Embed some items; returns how many got vectors."""
        items = {name: item for name in names if (item := self._item(name)) is not None}
        texts = {name: index.texts_of(item) for name, item in items.items()}
        reads = await meaning.read(texts) if texts else None
        # An item may have changed meanwhile.
        same = {name: rows for name, rows in (reads or {}).items() if self._item(name) == items[name]}
        taken = index.fill(same)
        self._fresh |= same.keys()
        self._made += taken
        return taken

    async def _cache_vectors(self, index: SearchIndex, meaning: EmbedderClient) -> None:
        """Cache new vectors; vectors of a page are cached once all its entries have vectors."""
        self._made, made, kept = 0, dict[str, MemoryVectors](), list[str]()
        for slot, names in self._sources(index):
            if not self._fresh.isdisjoint(names):
                rows = [found for name in names if (found := index.vectors(name)) is not None]
                if len(rows) == len(names):
                    made[slot] = MemoryVectors(_stamp(index, names), np.concatenate(rows))
                    kept += names
        self._fresh.difference_update(kept)
        await meaning.store(made)

    async def _fill_from_cache(self, index: SearchIndex) -> None:
        """Give items their cached vectors, after the first reading."""
        meaning = None if self._is_filled else await self._store.embedding()
        self._is_filled = True
        sources = [] if meaning is None else list(self._sources(index))
        for start in range(0, len(sources), _READ_COUNT):
            if meaning is not None:
                part = dict(sources[start : start + _READ_COUNT])
                found = await meaning.cached({slot: _stamp(index, names) for slot, names in part.items()})
                for slot, read in found.items():
                    index.fill(dict(_split(index, part[slot], read.rows)))
                await asyncio.sleep(0)

    def _sources(self, index: SearchIndex) -> Iterator[tuple[str, list[str]]]:
        """The slot of each page and each passage, with the names of its items in the index."""
        for slot, idents in self._log.pages().items():
            if names := [name for ident in idents if (name := entry_name(ident)) in index]:
                yield slot, names
        for ident in self._passages.by_id:
            yield f"{_ARCHIVE}{ident}", [passage_name(ident)]

    # ── Filters and scores ──────────────────────────────────────────────────────────────

    def _allowed(
        self, index: SearchIndex, conversation: str | None, tags: frozenset[str], topic: str | None
    ) -> NDArray[np.bool_] | None:
        """Which rows of the index may be found; None for all."""
        documents = index.documents
        if not tags and topic is None:
            number = np.uint64(number_of(conversation))
            return None if conversation is None else documents.column("events") == number
        meant = [
            passage_name(passage.id)
            for passage in self._passages.by_id.values()
            if _is_about(passage, tags, topic)
        ]
        allowed = np.zeros(len(documents), np.bool_)
        if conversation is None:  # no passage is of a conversation
            allowed[[documents.rows[name] for name in meant if name in documents.rows]] = True
        return allowed

    def _is_held(self, name: str, gate: EntryGate) -> bool:
        """Whether a rule keeps an entry or a passage back."""
        thing = self._found(name) if gate.withholds else None
        if thing is None:
            return False
        return bool(gate.passage_held(thing) if isinstance(thing, Passage) else gate.held(thing))

    def _factors(self, names: Sequence[str], now: float, gate: EntryGate) -> list[float]:
        times = [None if self._is_held(name, gate) else self._time(name) for name in names]
        days = [None if at is None else max(0.0, now - at) / DAY_SECONDS for at in times]
        return [
            0.0 if passed is None else _FLOOR + (1 - _FLOOR) * 0.5 ** (passed / DEFAULT_HALFLIFE_DAYS)
            for passed in days
        ]

    def _found(self, name: str) -> LogEntry | Passage | None:
        """An entry or a passage by its name in the index; None if it was removed since the last refresh."""
        ident = ident_of(name)
        return self._passages.by_id.get(ident) if is_passage(name) else self._log.known(ident)

    def _time(self, name: str) -> float | None:
        found = self._found(name)
        return None if found is None else found.at

    def _item(self, name: str) -> SearchItem | None:
        found = self._found(name)
        return None if found is None else item_of(found)


def _warn_of_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning(
            "a search of the mind goes on by the words of the texts: a task for its index failed (%s)",
            type(error).__name__,
        )


def _is_about(passage: Passage, tags: frozenset[str], topic: str | None) -> bool:
    has_tag = not tags or not tags.isdisjoint(passage.tags)
    return has_tag and (topic is None or topic in passage.topics)


def _hit(found: LogEntry | Passage, hit: SearchHit, query: str) -> MindHit:
    more: dict[str, Any]
    if isinstance(found, Passage):
        place, text, more = Place.ARCHIVE, found.content, {"tags": found.tags, "topics": found.topics}
    else:
        place, text = place_of(found), found.text
        more = {"actor": found.actor, "conversation": found.conversation, "is_from_tool": is_from_tool(found)}
    sure = confidence_in(text, query, hit.clues)
    return MindHit(place, found.id, text, found.at, hit.score, why=hit.why, answer_confidence=sure, **more)


# ── Cached vectors ──────────────────────────────────────────────────────────────────────


def _stamp(index: SearchIndex, names: Sequence[str]) -> str:
    """A hash of the states of some items."""
    states = " ".join(f"{name} {index.stamp(name)}" for name in names)
    return f"{number_of(states):0{2 * NUMBER_BYTES}x}"


def _split(
    index: SearchIndex, names: Sequence[str], rows: NDArray[np.float32]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The rows of each of some items; nothing if the number of rows does not fit."""
    counts = [index.piece_count(name) for name in names]
    if sum(counts) == len(rows):
        ends = np.cumsum(counts)
        yield from zip(names, np.split(rows, ends[:-1]), strict=True)
