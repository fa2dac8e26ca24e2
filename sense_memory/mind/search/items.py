"""The sources of the index of the mind: the entries of the log, and the passages of the archive."""

from __future__ import annotations

from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sense_memory.memories.index_keeper import ItemChanges
from sense_memory.mind.chat.messages import KIND_PREFIX
from sense_memory.mind.layers.archive import Passage
from sense_memory.mind.search.hits import Place
from sense_memory.search.documents import SearchItem


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sense_memory.mind.layers.archive import Archive
    from sense_memory.mind.log import Log, LogEntry
    from sense_memory.search.index import SearchIndex

NUMBER_BYTES: Final = 8
_PART_COUNT: Final = 100  # items to read before other tasks get a turn, some 10 ms
_PASSAGE: Final = f"{Place.ARCHIVE}/"


class LogItems:
    """Follows the entries of the log.

    Args:
        log: the log.

    Attributes:
        newest: the id of the entry that arrived last; empty if there is none.
    """

    left = 0  # only reading tells

    def __init__(self, log: Log) -> None:
        self._log, self.newest = log, ""
        self._arrived = self._gone = 0
        self._is_compared = False  # whether a saved index was compared with the log

    def has_changed(self) -> bool:
        """True: only reading the log tells."""
        return True

    def begin(self, saved: Any) -> None:
        """Nothing to go on from: the first look compares the index with the log."""

    def saved(self) -> None:
        """Nothing: the index says enough."""

    async def changes(self, index: SearchIndex) -> AsyncIterator[ItemChanges]:
        """What changed since the last look, in parts; at first what differs from the index. Exhaust the iterator."""
        entries, gone = await self._log.changes(self._arrived, self._gone)
        self.newest = entries[-1].id if entries else self.newest
        names = [entry_name(ident) for ident in gone]
        if not self._is_compared:
            names += [name for name in index.documents.rows if self._is_lost(name)]
        yield ItemChanges(names, ())
        new = [entry for entry in entries if entry_name(entry.id) not in index]
        for start in range(0, len(new), _PART_COUNT):
            there = [entry for entry in new[start : start + _PART_COUNT] if self._log.known(entry.id)]
            yield ItemChanges((), [item for entry in there if (item := item_of(entry)) is not None])
        self._arrived, self._gone = self._arrived + len(entries), self._gone + len(gone)
        self._is_compared = True

    def _is_lost(self, name: str) -> bool:
        """Whether an item of a saved index is an entry that is no longer in the log."""
        return not is_passage(name) and self._log.known(ident_of(name)) is None


class PassageItems:
    """Follows the passages of the archive.

    Args:
        archive: the passages.

    Attributes:
        by_id: the passages, as of the last look.
    """

    left = 0  # only reading tells

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.by_id: Mapping[str, Passage] = MappingProxyType({})
        self._seen = 0  # changes
        self._is_compared = False  # whether a saved index was compared with the archive

    def has_changed(self) -> bool:
        """True: only reading the archive tells."""
        return True

    def begin(self, saved: Any) -> None:
        """Nothing to go on from: the first look compares the index with the archive."""

    def saved(self) -> None:
        """Nothing: the index says enough."""

    async def look(self) -> Mapping[str, Passage]:
        """The passages of now, by id; for the index, their changes wait for `changes`."""
        self.by_id, _ = await self._archive.changes(self._seen)
        return self.by_id

    async def changes(self, index: SearchIndex) -> AsyncIterator[ItemChanges]:
        """What changed since the last look, in parts; at first what differs from the index. Exhaust the iterator."""
        self.by_id, ids = await self._archive.changes(self._seen)
        there = [] if self._is_compared else index.ids_of(Place.ARCHIVE)
        names = (*there, *map(passage_name, ids))
        yield ItemChanges([name for name in names if ident_of(name) not in self.by_id], ())
        new = [passage for ident in dict.fromkeys(ids) if (passage := self.by_id.get(ident)) is not None]
        for start in range(0, len(new), _PART_COUNT):
            yield ItemChanges((), [_passage_item(passage) for passage in new[start : start + _PART_COUNT]])
        self._seen += len(ids)
        self._is_compared = True


# ── Names and items ─────────────────────────────────────────────────────────────────────


def entry_name(ident: str) -> str:
    """The name of an entry in the index."""
    return f"{Place.LOG}/{ident}"


def passage_name(ident: str) -> str:
    """The name of a passage in the index."""
    return f"{_PASSAGE}{ident}"


def is_passage(name: str) -> bool:
    """Whether an item of the index is a passage."""
    return name.startswith(_PASSAGE)


def ident_of(name: str) -> str:
    """The id of an entry or a passage, from its name in the index."""
    return name.partition("/")[2]


def place_of(entry: LogEntry) -> Place:
    """Where an entry of the log is found."""
    return Place.CONVERSATION if entry.kind.startswith(KIND_PREFIX) else Place.LOG


def number_of(text: str | None) -> int:
    """A hash of a text as a number, for a column of the index; 0 for None."""
    if text is None:
        return 0
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=NUMBER_BYTES).digest())


def item_of(thing: LogEntry | Passage) -> SearchItem | None:
    """An entry or a passage for the index; None if it has no text."""
    return _passage_item(thing) if isinstance(thing, Passage) else _entry_item(thing)


def _entry_item(entry: LogEntry) -> SearchItem | None:
    """An entry for the index, with the number of its conversation; None if the entry has no text."""
    name, text = entry_name(entry.id), entry.text
    place, number = place_of(entry), number_of(entry.conversation)
    return SearchItem(name, text, entry.at, entry.actor, kind=place, event=number) if text else None


def _passage_item(passage: Passage) -> SearchItem:
    """A passage for the index; without its time, because passages of one day are not related."""
    themes = (*passage.tags, *passage.topics)
    stamp = number_of("\0".join((passage.content, passage.title, *themes)))
    name, kind = passage_name(passage.id), Place.ARCHIVE
    return SearchItem(
        name, passage.content, key=passage.title, themes=themes, kind=kind, stamp=stamp, written=passage.at
    )
