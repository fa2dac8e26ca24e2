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
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from sense_memory.errors import InvalidInput, LedgerError, StoreClosed
from sense_memory.limits import DAY_SECONDS, DEFAULT_HALFLIFE_DAYS, EMBED_SECONDS
from sense_memory.mind.call_checks import checked
from sense_memory.mind.chat.message_index import MessageIndex
from sense_memory.mind.chat.messages import KIND_PREFIX, is_from_tool
from sense_memory.mind.layers.archive import Passage
from sense_memory.mind.search.hits import (
    EVERYWHERE,
    MindHit,
    Place,
    with_corrections_first,
    with_newest_first,
)
from sense_memory.mind.search.said_after import said_after
from sense_memory.mind.search.text_scan import best_texts
from sense_memory.nostr import address
from sense_memory.records.sealed_caches import CachedIndex, MemoryVectors, made_of
from sense_memory.search.confidence import confidence_in
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import FORMAT, SearchIndex
from sense_memory.search.ranking import SearchOptions


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.memories.embedding_jobs import EmbedderClient
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.layers.archive import Archive
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.search.ranking import SearchHit

_T = TypeVar("_T")

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
_NUMBER_BYTES: Final = 8
_MORE_COUNT: Final = 15  # more hits than asked for, to find corrections among them
_log = logging.getLogger("sense_memory.mind")
_ARCHIVE: Final = f"{address.PREFIX}{address.MIND}archive/"


@checked
class MindSearch(CachedIndex):
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
        super().__init__("mind", made_of("the mind", FORMAT), store.ledger, store.reader)
        self._store, self._log, self._archive = store, log, archive
        self._messages = messages or MessageIndex(log)
        self._index: SearchIndex | None = None
        self._arrived = self._gone = 0
        self._passages: Mapping[str, Passage] = {}
        self._passage_changes = 0  # how many changes of passages were indexed
        self._refreshing, self._filling = asyncio.Lock(), asyncio.Lock()
        self._is_sorted = self._is_clean = True
        self._is_compared = False  # whether the saved index was compared with the log
        self._fresh: set[str] = set()  # items whose vectors are not cached yet
        self._newest = ""  # the id of the entry that arrived last
        self._made = 0  # vectors made since vectors were last cached
        self._warming: asyncio.Task[SearchIndex] | None = None  # brings the index up to date
        self._embedding: asyncio.Task[None] | None = None  # embeds items after a search
        self._asking: set[asyncio.Task[NDArray[np.float32] | None]] = set()
        # Whether a search gave up waiting for the embedder, and its answer is still to come.
        self._is_late = False

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

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
        now = self._store.options.clock()
        hits = index.search(
            query,
            limit + _MORE_COUNT if limit else 0,
            now=now,
            zone=self._store.options.zone(now),
            options=replace(index.options, dense=direction is not None),
            kinds=places,
            only=self._allowed(index, *about),
            factors=lambda names: self._factors(names, now),
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
            return is_question or hit.id == self._newest

        return sorted(hits, key=is_asked)

    async def close(self) -> None:
        """Stop the tasks, and cache new vectors."""
        tasks = [task for task in (*self._asking, self._warming, self._embedding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        meaning = await self._store.embedding() if self._fresh else None
        if meaning is not None and self._index is not None:
            await self._cache_vectors(self._index, meaning)

    # ── While the index is not ready ────────────────────────────────────────────────────

    async def warm(self) -> None:
        """Bring the index up to date; searches meanwhile do not wait for it.

        Raises:
            StoreClosed: the store was closed meanwhile.
        """
        task = self._warm_up()
        await asyncio.wait({task})
        if task.cancelled():
            raise StoreClosed
        task.result()

    async def _ready(self) -> SearchIndex | None:
        """The index, up to date; None if that takes longer than `_WORDS_SECONDS`, and the search should not wait."""
        is_running = self._warming is not None and not self._warming.done()
        if not (is_running or self._store.options.background):
            return await self.refresh()
        task = self._warm_up()
        done, _ = await asyncio.wait({task}, timeout=_WORDS_SECONDS)
        if not done:
            return None
        if task.cancelled():
            raise StoreClosed
        return await self.refresh() if is_running else task.result()  # what came meanwhile is found too

    def _warm_up(self) -> asyncio.Task[SearchIndex]:
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self.refresh())
            self._warming.add_done_callback(_warn_of_failure)
        return self._warming

    async def _excerpt(
        self,
        query: str,
        places: Collection[Place],
        conversation: str | None,
        tags: frozenset[str],
        topic: str | None,
    ) -> SearchIndex:
        """An index of the items that have most words of a query."""
        self._passages, _ = await self._archive.changes(self._passage_changes)

        def text_of(thing: LogEntry | Passage) -> str | None:
            if isinstance(thing, Passage):
                is_meant = Place.ARCHIVE in places and conversation is None and _is_about(thing, tags, topic)
                return (
                    " ".join((thing.content, thing.title, *thing.tags, *thing.topics)) if is_meant else None
                )
            is_meant = _place_of(thing) in places and (
                conversation is None or thing.conversation == conversation
            )
            return f"{thing.text} {thing.actor}" if is_meant and not tags and topic is None else None

        entries = await self._log.entries()
        self._newest = entries[-1].id if entries else ""
        things: list[LogEntry | Passage] = [*self._passages.values(), *entries]
        index, chosen = SearchIndex(), await best_texts(query, things, text_of)
        index.put_many(filter(None, map(_item_of, chosen)))
        return index

    # ── The index ───────────────────────────────────────────────────────────────────────

    async def refresh(self) -> SearchIndex:
        """The index with the changes of the log and the archive since the last search."""
        async with self._refreshing:
            index = self._index = self._index or await self._restored()
            entries, gone = await self._log.changes(self._arrived, self._gone)
            self._newest = entries[-1].id if entries else self._newest
            names = [_entry_name(ident) for ident in gone]
            if not self._is_compared:
                names += [name for name in index.documents.rows if self._is_lost(name)]
            await self._drop(index, names)
            new = [entry for entry in entries if _entry_name(entry.id) not in index]
            await self._put(index, [entry for entry in new if self._log.known(entry.id)], _entry_item)
            self._arrived, self._gone = self._arrived + len(entries), self._gone + len(gone)
            await self._refresh_archive(index)
            await self._sort(index)
            if not self._is_compared:
                self._is_compared = True
                await self._fill_from_cache(index)
            return index

    async def _refresh_archive(self, index: SearchIndex) -> None:
        self._passages, ids = await self._archive.changes(self._passage_changes)
        there = [] if self._is_compared else index.ids_of(Place.ARCHIVE)
        passages = [
            passage for ident in dict.fromkeys(ids) if (passage := self._passages.get(ident)) is not None
        ]
        gone = (name for name in (*there, *map(_passage_name, ids)) if _ident(name) not in self._passages)
        await self._drop(index, gone)
        changed = {item.id for item in index.refreshed(map(_passage_item, passages))}
        await self._put(
            index, [item for item in passages if _passage_name(item.id) in changed], _passage_item
        )
        self._passage_changes += len(ids)

    def _is_lost(self, name: str) -> bool:
        """Whether an item of a saved index is an entry that is no longer in the log."""
        return name.startswith(f"{Place.LOG}/") and self._log.known(_ident(name)) is None

    async def _drop(self, index: SearchIndex, names: Iterable[str]) -> None:
        dropped = [name for name in names if index.drop(name)]
        if not dropped:
            return
        self._is_clean = False
        with suppress(LedgerError):
            await self._ledger.write(self._ledger.snapshot.discard)

    async def _put(
        self, index: SearchIndex, things: Sequence[_T], item_of: Callable[[_T], SearchItem | None]
    ) -> None:
        is_many = len(things) > _PART_COUNT
        for start in range(0, len(things), _PART_COUNT):
            part = things[start : start + _PART_COUNT]
            items = [item for thing in part if (item := item_of(thing)) is not None]
            self.unsaved += len(items)
            if is_many:
                self._is_sorted = False
                index.put_many_unsorted(items)
                await asyncio.sleep(0)
            else:
                index.put_many(items, embeds=False)

    async def _sort(self, index: SearchIndex) -> None:
        """Sort the words of new items, so that they can be found."""
        if not self._is_sorted:
            is_long = len(index) >= _THREAD_COUNT
            index.use_sorted(
                await asyncio.to_thread(index.sorted_postings) if is_long else index.sorted_postings()
            )
            self._is_sorted = True

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
        """Give items their cached vectors."""
        meaning = await self._store.embedding()
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
            if names := [name for ident in idents if (name := _entry_name(ident)) in index]:
                yield slot, names
        for ident in self._passages:
            yield f"{_ARCHIVE}{ident}", [_passage_name(ident)]

    # ── Filters and scores ──────────────────────────────────────────────────────────────

    def _allowed(
        self, index: SearchIndex, conversation: str | None, tags: frozenset[str], topic: str | None
    ) -> NDArray[np.bool_] | None:
        """Which rows of the index may be found; None for all."""
        documents = index.documents
        if not tags and topic is None:
            number = np.uint64(_number(conversation))
            return None if conversation is None else documents.column("events") == number
        meant = [
            _passage_name(passage.id)
            for passage in self._passages.values()
            if _is_about(passage, tags, topic)
        ]
        allowed = np.zeros(len(documents), np.bool_)
        if conversation is None:  # no passage is of a conversation
            allowed[[documents.rows[name] for name in meant if name in documents.rows]] = True
        return allowed

    def _factors(self, names: Sequence[str], now: float) -> list[float]:
        times = [self._time(name) for name in names]
        days = [None if at is None else max(0.0, now - at) / DAY_SECONDS for at in times]
        return [
            0.0 if passed is None else _FLOOR + (1 - _FLOOR) * 0.5 ** (passed / DEFAULT_HALFLIFE_DAYS)
            for passed in days
        ]

    def _found(self, name: str) -> LogEntry | Passage | None:
        """An entry or a passage by its name in the index; None if it was removed since the last refresh."""
        ident = _ident(name)
        return self._passages.get(ident) if name.startswith(_PASSAGE) else self._log.known(ident)

    def _time(self, name: str) -> float | None:
        found = self._found(name)
        return None if found is None else found.at

    def _item(self, name: str) -> SearchItem | None:
        found = self._found(name)
        return None if found is None else _item_of(found)

    # ── The snapshot ────────────────────────────────────────────────────────────────────

    async def catch_up(self) -> None:
        """Do nothing: a store that closes reads no changes. The next process reads them."""

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """As `CachedIndex.dump`; also None if any device has removed an entry."""
        return await super().dump() if self._is_clean else None

    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes."""
        return () if self._index is None else self._index.dump()

    async def _restored(self) -> SearchIndex:
        """The saved index, or a new one."""
        meaning = await self._store.embedding()
        embedder = None if meaning is None else meaning.embedder
        saved = await self.saved()
        if saved:
            with suppress(ValueError, KeyError, TypeError, IndexError):  # only a cache: a new index is built
                return await asyncio.to_thread(SearchIndex.load, saved, SearchOptions(), embedder)
        return SearchIndex(SearchOptions(), embedder=embedder)


def _warn_of_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning(
            "a search of the mind goes on by the words of the texts: a task for its index failed (%s)",
            type(error).__name__,
        )


# ── Items ───────────────────────────────────────────────────────────────────────────────

_PASSAGE: Final = f"{Place.ARCHIVE}/"


def _entry_name(ident: str) -> str:
    return f"{Place.LOG}/{ident}"


def _passage_name(ident: str) -> str:
    return f"{_PASSAGE}{ident}"


def _ident(name: str) -> str:
    return name.partition("/")[2]


def _is_about(passage: Passage, tags: frozenset[str], topic: str | None) -> bool:
    has_tag = not tags or not tags.isdisjoint(passage.tags)
    return has_tag and (topic is None or topic in passage.topics)


def _place_of(entry: LogEntry) -> Place:
    return Place.CONVERSATION if entry.kind.startswith(KIND_PREFIX) else Place.LOG


def _number(text: str | None) -> int:
    """A hash of a text as a number, for a column of the index; 0 for None."""
    if text is None:
        return 0
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=_NUMBER_BYTES).digest())


def _hit(found: LogEntry | Passage, hit: SearchHit, query: str) -> MindHit:
    more: dict[str, Any]
    if isinstance(found, Passage):
        place, text, more = Place.ARCHIVE, found.content, {"tags": found.tags, "topics": found.topics}
    else:
        place, text = _place_of(found), found.text
        more = {"actor": found.actor, "conversation": found.conversation, "is_from_tool": is_from_tool(found)}
    sure = confidence_in(text, query, hit.clues)
    return MindHit(place, found.id, text, found.at, hit.score, why=hit.why, answer_confidence=sure, **more)


def _item_of(thing: LogEntry | Passage) -> SearchItem | None:
    return _passage_item(thing) if isinstance(thing, Passage) else _entry_item(thing)


def _entry_item(entry: LogEntry) -> SearchItem | None:
    """An entry for the index, with the number of its conversation; None if the entry has no text."""
    name, text = _entry_name(entry.id), entry.text
    place, number = _place_of(entry), _number(entry.conversation)
    return SearchItem(name, text, entry.at, entry.actor, kind=place, event=number) if text else None


def _passage_item(passage: Passage) -> SearchItem:
    """A passage for the index; without its time, because passages of one day are not related."""
    themes = (*passage.tags, *passage.topics)
    stamp = _number("\0".join((passage.content, passage.title, *themes)))
    name, kind = _passage_name(passage.id), Place.ARCHIVE
    return SearchItem(
        name, passage.content, key=passage.title, themes=themes, kind=kind, stamp=stamp, written=passage.at
    )


# ── Cached vectors ──────────────────────────────────────────────────────────────────────


def _stamp(index: SearchIndex, names: Sequence[str]) -> str:
    """A hash of the states of some items."""
    states = " ".join(f"{name} {index.stamp(name)}" for name in names)
    return f"{_number(states):0{2 * _NUMBER_BYTES}x}"


def _split(
    index: SearchIndex, names: Sequence[str], rows: NDArray[np.float32]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The rows of each of some items; nothing if the number of rows does not fit."""
    counts = [index.piece_count(name) for name in names]
    if sum(counts) == len(rows):
        ends = np.cumsum(counts)
        yield from zip(names, np.split(rows, ends[:-1]), strict=True)
