"""Search over the log and the archive: the one search core of sense-memory, with two more places.

The index follows the log and the archive by what changed, so a search after an append indexes one entry. Age lowers a
score by a tenth at most: what was said long ago is found when it is meant.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.feed import START
from sense_memory.limits import DAY_SECONDS, DEFAULT_HALFLIFE_DAYS
from sense_memory.nostr import address
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sense_memory.mind.archive import Archive, Passage
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.search.ranking import Reason

_FLOOR: Final = 0.9  # of the factor by which age lowers a score
_PART_COUNT: Final = 500  # items indexed without a pause
_ARCHIVE: Final = f"{address.PREFIX}{address.MIND}archive/"


class Place(StrEnum):
    """Where a hit was found."""

    CONVERSATION = "conversation"  # a message
    ARCHIVE = "archive"  # a passage
    LOG = "log"  # any other entry of the log


EVERYWHERE: Final = tuple(Place)


@dataclass(frozen=True, slots=True)
class MindHit:
    """Something that was found.

    Attributes:
        place: where.
        id: of the entry or the passage.
        text: what it says.
        at: seconds since 1970.
        score: higher is better; comparable within one search only.
        actor: who said it; empty for a passage.
        conversation: the conversation's id, or None.
        tags, topics: of a passage.
        why: the reasons that make up the score, the largest first.
    """

    place: Place
    id: str
    text: str = field(repr=False)
    at: float
    score: float
    actor: str = ""
    conversation: str | None = None
    tags: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    why: tuple[Reason, ...] = field(default=(), repr=False)


class MindSearch:
    """Finds messages, other entries of the log, and passages.

    Args:
        log: the log.
        archive: the passages.
        clock: seconds since 1970.
    """

    def __init__(self, log: Log, archive: Archive, clock: Callable[[], float]) -> None:
        self._log, self._archive, self._clock = log, archive, clock
        self._index = SearchIndex()
        self._arrived = self._gone = 0
        self._entries: dict[str, LogEntry] = {}
        self._passages: dict[str, Passage] = {}
        self._cursor = START
        self._refreshing = asyncio.Lock()

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
        """What answers a query best.

        Args:
            query: a question or some words.
            limit: how many hits at most.
            within: places to look in.
            conversation: only messages and entries of this conversation.
            tags: only passages that have one of these tags.
            topic: only passages of this topic.

        Raises:
            ValueError: no such place.
        """
        await self.refresh()
        places = frozenset(map(Place, within))
        now = self._clock()
        only = self._filter(conversation, frozenset(tags), topic)
        hits = self._index.search(
            query, limit, now=now, kinds=places, only=only, factors=lambda ids: self._factors(ids, now)
        )
        return [self._hit(hit.id, hit.score, hit.why) for hit in hits]

    async def refresh(self) -> None:
        """Index what changed since the last search."""
        async with self._refreshing:
            entries, gone = await self._log.changes(self._arrived, self._gone)
            self._arrived, self._gone = self._arrived + len(entries), self._gone + len(gone)
            for ident in gone:
                if self._entries.pop(ident, None) is not None:
                    self._index.drop(f"{Place.LOG}/{ident}")
            lost = set(gone)
            kept = [entry for entry in entries if entry.id not in lost and entry.text]
            self._entries |= {entry.id: entry for entry in kept}
            await self._add([_entry_item(entry) for entry in kept])
            await self._refresh_archive()

    async def _refresh_archive(self) -> None:
        feed = self._archive.feed
        if not feed.has_changed(self._cursor):
            return
        changes = feed.since(self._cursor)
        if changes.is_everything or any(slot.startswith(_ARCHIVE) for slot in changes.slots):
            found = {passage.id: passage for passage in await self._archive.all()}
            for ident in self._passages.keys() - found.keys():
                self._index.drop(f"{Place.ARCHIVE}/{ident}")
            new = [passage for ident, passage in found.items() if self._passages.get(ident) != passage]
            self._passages = found
            await self._add([_passage_item(passage) for passage in new])
        self._cursor = changes.cursor

    async def _add(self, items: Sequence[SearchItem]) -> None:
        for start in range(0, len(items), _PART_COUNT):
            if start:
                await asyncio.sleep(0)
            self._index.put_many(items[start : start + _PART_COUNT])

    def _filter(
        self, conversation: str | None, tags: frozenset[str], topic: str | None
    ) -> Callable[[str], bool] | None:
        if conversation is None and not tags and topic is None:
            return None

        def is_meant(name: str) -> bool:
            place, _, ident = name.partition("/")
            if place == Place.ARCHIVE:
                passage = self._passages[ident]
                has_tag = not tags or not tags.isdisjoint(passage.tags)
                return conversation is None and has_tag and (topic is None or topic in passage.topics)
            is_of = conversation is None or self._entries[ident].conversation == conversation
            return is_of and not tags and topic is None

        return is_meant

    def _factors(self, names: Sequence[str], now: float) -> list[float]:
        days = [max(0.0, now - self._time(name)) / DAY_SECONDS for name in names]
        return [_FLOOR + (1 - _FLOOR) * 0.5 ** (passed / DEFAULT_HALFLIFE_DAYS) for passed in days]

    def _time(self, name: str) -> float:
        place, _, ident = name.partition("/")
        return self._passages[ident].at if place == Place.ARCHIVE else self._entries[ident].at

    def _hit(self, name: str, score: float, why: tuple[Reason, ...]) -> MindHit:
        place, _, ident = name.partition("/")
        if place == Place.ARCHIVE:
            passage = self._passages[ident]
            return MindHit(
                Place.ARCHIVE,
                ident,
                passage.content,
                passage.at,
                score,
                tags=passage.tags,
                topics=passage.topics,
                why=why,
            )
        entry = self._entries[ident]
        where = _place_of(entry)
        return MindHit(where, ident, entry.text, entry.at, score, entry.actor, entry.conversation, why=why)


def _place_of(entry: LogEntry) -> Place:
    return Place.CONVERSATION if entry.kind.startswith("message.") else Place.LOG


def _entry_item(entry: LogEntry) -> SearchItem:
    kind = _place_of(entry)
    return SearchItem(f"{Place.LOG}/{entry.id}", entry.text, entry.at, entry.actor, kind=kind)


def _passage_item(passage: Passage) -> SearchItem:
    """A passage for the index: without its time, because passages of one day have nothing to do with each other."""
    themes = (*passage.tags, *passage.topics)
    name = f"{Place.ARCHIVE}/{passage.id}"
    return SearchItem(name, passage.content, key=passage.title, themes=themes, kind=Place.ARCHIVE)
