"""The sources of the index over everything: the palace, and the flat memories and journal entries of the ledger.

Only what changed since the last look is opened. A row names the event that an entry of the index was made from, so that
an index from a snapshot goes on where it stopped.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sense_memory.ledger.feed import START, Cursor
from sense_memory.limits import DAY_SECONDS, DEFAULT_HALFLIFE_DAYS
from sense_memory.memories.index_keeper import ItemChanges
from sense_memory.memories.persona.palace import ROOTS
from sense_memory.nostr import address
from sense_memory.palace.search import item_of
from sense_memory.records.kinds import RecordType
from sense_memory.records.sealed_caches import VectorSource, mark_of
from sense_memory.search.documents import Ageing, SearchItem
from sense_memory.search.hits import Kind
from sense_memory.search.tokens import fold


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.heads import Head
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import OpenedRecord
    from sense_memory.search.index import SearchIndex


# ── Items ───────────────────────────────────────────────────────────────────────────────
# Flat memories and journal entries as the index takes them: a flat memory does not age, a journal entry does.

STAMP_BYTES: Final = 8
EXCERPT_CHARS: Final = 800  # of a mirrored file that is longer: what a hit shows of it
_RATE: Final = 1 / (DEFAULT_HALFLIFE_DAYS * DAY_SECONDS)  # halvings per second


def text_of(record: Record) -> str:
    """The text of a flat memory or a journal entry."""
    return record.type.text_of(record.fields) or ""


def item_of_record(record: Record, event_id: str, created_at: float) -> SearchItem | None:
    """A flat memory, journal entry or mirrored file as the index takes it; None for anything else."""
    ageing = Ageing(created_at, _RATE) if record.type.traits.fades else Ageing()
    if record.type is RecordType.JOURNAL:
        name = f"{Kind.JOURNAL}/{event_id}"
        return SearchItem(name, text_of(record), created_at, kind=Kind.JOURNAL, ageing=ageing)
    if record.type is RecordType.FLAT:
        key = record.fields["key"]
        name = f"{Kind.FLAT}/{key}"
        return SearchItem(name, text_of(record), key=key, kind=Kind.FLAT, ageing=ageing, written=created_at)
    if record.type is RecordType.FILE and not record.fields.get("gone"):
        key = f"{record.fields['project']}:{record.fields['name']}"
        name = f"{Kind.FILE}/{key}"
        return SearchItem(name, text_of(record), key=key, kind=Kind.FILE, ageing=ageing, written=created_at)
    return None


def excerpt(text: str, words: Sequence[str]) -> str:
    """The lines of a file around the line that has most of some words, whole up to `EXCERPT_CHARS`.

    Args:
        text: of the file.
        words: in lower case and without accents; `photo*` for a beginning.
    """
    if len(text) <= EXCERPT_CHARS:
        return text
    lines = text.split("\n")
    wanted = {word.rstrip("*") for word in words}
    counts = [sum(word in line for word in wanted) for line in map(fold, lines)]
    start = counts.index(max(counts))
    end, size = start + 1, len(lines[start])
    while True:
        following = len(lines[end]) + 1 if end < len(lines) else EXCERPT_CHARS
        if size + following <= EXCERPT_CHARS:
            end, size = end + 1, size + following
            continue
        before = len(lines[start - 1]) + 1 if start else EXCERPT_CHARS
        if size + before > EXCERPT_CHARS:
            break
        start, size = start - 1, size + before
    shown = "\n".join(lines[start:end])[:EXCERPT_CHARS]
    return f"{'…' if start else ''}{shown}{'…' if end < len(lines) or size > EXCERPT_CHARS else ''}"


_FLAT: Final = f"{Kind.FLAT}/"
_PALACE: Final = f"{Kind.PALACE}/"
_PART_COUNT: Final = 200  # memories per step, some 20 ms of opening and indexing


# ── The palace ──────────────────────────────────────────────────────────────────────────


class PalaceItems:
    """Follows the palace memories of a palace.

    Args:
        palace: the memories.
        ledger: where they lie.
    """

    def __init__(self, palace: Palace, ledger: Ledger) -> None:
        self._palace, self._ledger = palace, ledger
        self._changed: dict[str, None] = {}  # paths, since the last look
        self._ahead = 0  # memories that were not compared with the index yet
        self._cursor = START
        self._is_following = False

    @property
    def left(self) -> int:
        """How many memories are still unread, as far as is known."""
        return self._ahead + len(self._changed)

    def has_changed(self) -> bool:
        """Whether something has changed since the last look."""
        return bool(self._changed) or self._ledger.feed.has_changed(self._cursor)

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        self._changed[memory.path] = None

    def drop(self, path: str) -> None:
        """A memory is gone."""
        self._changed[path] = None

    def begin(self, saved: Any) -> None:  # noqa: ARG002 - the index says which event each memory was read from
        """Count the memories to compare with the index."""
        self._ahead = len(self._ledger.heads.seqs_beneath(*ROOTS))

    def saved(self) -> None:
        """Nothing: the index says which event each memory was read from."""

    async def changes(self, index: SearchIndex) -> AsyncIterator[ItemChanges]:
        """What changed since the last look, in parts; at first what differs from the index. Exhaust the iterator."""
        cursor = self._ledger.feed.cursor()
        catalog = await self._palace.refresh()
        if not self._is_following:
            self._is_following = True
            self._palace.follow(self)
            self._changed = dict.fromkeys(self._unlike(index, catalog.paths()))
            self._ahead = 0
        while self._changed:
            yield self._taken(list(islice(self._changed, _PART_COUNT)))
        self._cursor = cursor

    def _unlike(self, index: SearchIndex, paths: Sequence[str]) -> list[str]:
        """The paths of memories that are new, gone, or not equal to the event that the index has read."""
        plain, known = self._palace.plain, index.events(Kind.PALACE)
        changed = [
            path
            for path in paths
            if (ident := plain.get(path)) is None or known.get(_PALACE + path) != mark_of(ident)
        ]
        there = {_PALACE + path for path in paths}
        return changed + [name.removeprefix(_PALACE) for name in known if name not in there]

    def _taken(self, paths: Sequence[str]) -> ItemChanges:
        """Some memories as they are now."""
        gone, fresh = list[str](), list[SearchItem]()
        self._palace.catalog.all_of(paths)  # reading many together costs less per memory
        for path in paths:
            del self._changed[path]
            memory, ident = self._palace.catalog.get(path), self._palace.plain.get(path)
            if memory is None:
                gone.append(_PALACE + path)
            else:
                fresh.append(item_of(memory, 0 if ident is None else mark_of(ident)))
        return ItemChanges(gone, fresh)


# ── Flat memories and the journal ───────────────────────────────────────────────────────


class _Row(NamedTuple):
    """A flat memory or journal entry. `name` is empty where the slot holds something else."""

    name: str
    stamp: str  # of the event that the row was read from
    seq: int
    created_at: float


class RecordItems:
    """Follows the flat memories and the journal of a ledger.

    Args:
        ledger: where they lie.
        reader: opens them.

    Attributes:
        left: how many of the memories that the last look found are not handed over yet.
    """

    def __init__(self, ledger: Ledger, reader: Reader) -> None:
        self._ledger, self._reader = ledger, reader
        self.left = 0
        self.begin(None)

    def __contains__(self, name: str) -> bool:
        return name in self._slots

    def written_at(self, name: str) -> float:
        """When the memory or entry with this name in the index was written, seconds since 1970."""
        return self._rows[self._slots[name]].created_at

    def names(self) -> list[str]:
        """The names of all memories and entries in the index."""
        return list(self._slots)

    def origin(self, name: str) -> VectorSource | None:
        """The path, slot and stamp of the memory or entry with this name in the index; None where it is gone."""
        slot = self._slots.get(name)
        if slot is None:
            return None
        is_file = name.startswith(f"{Kind.FILE}/")
        # The path of a journal entry is its whole name; that of a file is a hash, which its slot has.
        path = slot.removeprefix(address.PREFIX) if is_file else name.removeprefix(_FLAT)
        return VectorSource(path, slot, self._rows[slot].stamp)

    async def read(self, names: Iterable[str]) -> list[OpenedRecord]:
        """The memories and entries with these names, opened; names that are gone are left out."""
        slots = [self._slots[name] for name in names if name in self._slots]
        return await self._reader.opened([(slot, self._rows[slot].seq) for slot in slots])

    def begin(self, saved: Any) -> None:
        """Go on from what `saved` returned, or with None begin anew. Nothing may have been forgotten since."""
        rows, seq = ({}, -1) if saved is None else saved
        self._rows = {slot: _Row(*row) for slot, row in rows.items()}
        self._slots = {row.name: slot for slot, row in self._rows.items() if row.name}
        self._cursor = Cursor(seq)

    def saved(self) -> tuple[dict[str, tuple[Any, ...]], int]:
        """All rows, as plain values, and the seq of the newest event that they cover."""
        return {slot: tuple(row) for slot, row in self._rows.items()}, self._cursor.seq

    def has_changed(self) -> bool:
        """Whether something has changed since the last look."""
        return self._ledger.feed.has_changed(self._cursor)

    async def changes(self, index: SearchIndex) -> AsyncIterator[ItemChanges]:  # noqa: ARG002 - the rows say it
        """What changed since the last look, in parts. Exhaust the iterator."""
        feed = self._ledger.feed
        if not feed.has_changed(self._cursor):
            return
        changes = feed.since(self._cursor)
        slots = {slot for slot in changes.slots if _may_hold_one(slot)}
        if changes.is_everything:
            slots, heads = set(self._rows), self._ledger.heads.live_records()
        else:
            heads = self._ledger.heads.live_heads_at(slots)
        gone = self._drop((self._rows.keys() & slots) - {head.slot for head in heads})
        stamped = ((head, head.id[:STAMP_BYTES].hex()) for head in heads)
        fresh = {
            head.slot: (head, stamp)
            for head, stamp in stamped
            if head.slot not in self._rows or self._rows[head.slot].stamp != stamp
        }
        gone += self._drop(fresh.keys() & self._rows.keys())
        self.left = len(fresh)
        yield ItemChanges(gone, ())
        waiting = list(fresh.values())
        for start in range(0, len(waiting), _PART_COUNT):
            part = waiting[start : start + _PART_COUNT]
            opened = await self._reader.opened([(head.slot, head.seq) for head, _ in part])
            self.left -= len(part)
            yield ItemChanges((), self._taken(part, {found.id: found for found in opened}))
        self._cursor = changes.cursor

    def _taken(
        self, heads: Iterable[tuple[Head, str]], records: Mapping[bytes, OpenedRecord]
    ) -> list[SearchItem]:
        """Note some heads in the rows; returns the items that can be searched."""
        items = []
        for head, stamp in heads:
            row, item = _Row("", stamp, head.seq, 0.0), None
            if head.id in records:
                opened = records[head.id]
                record = opened.record
                created_at = record.written_at(opened)
                item = item_of_record(record, head.id.hex(), created_at)
            if item is not None:
                row = _Row(item.id, stamp, head.seq, created_at)
                self._slots[item.id] = head.slot
                items.append(item)
            self._rows[head.slot] = row
        return items

    def _drop(self, slots: Iterable[str]) -> list[str]:
        """Drop the rows of some slots; returns the names that are gone with them."""
        gone = []
        for slot in slots:
            name = self._rows.pop(slot).name
            if name and self._slots.get(name) == slot:
                del self._slots[name]
                gone.append(name)
        return gone


def _may_hold_one(slot: str) -> bool:
    """Whether a flat memory or a journal entry may lie at a slot."""
    if slot.startswith(("#", address.JOURNAL_PREFIX)):
        return True
    path = slot.removeprefix(address.PREFIX)
    return "/" not in path or path.startswith(address.FILE)
