"""Flat memories and journal entries, followed in the ledger for the index over everything.

Only what changed since the last look is opened. A row names the event that an entry of the index was made from, so that
an index from a snapshot goes on where it stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sense_memory.ledger.feed import Cursor
from sense_memory.limits import DAY_SECONDS, DEFAULT_HALFLIFE_DAYS
from sense_memory.nostr import address
from sense_memory.records.kinds import RecordType
from sense_memory.records.sealed_caches import VectorSource
from sense_memory.search.documents import Ageing, SearchItem
from sense_memory.search.hits import Kind


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.heads import Head
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import OpenedRecord


# ── Items ───────────────────────────────────────────────────────────────────────────────
# Flat memories and journal entries as the index takes them: a flat memory does not age, a journal entry does.

STAMP_BYTES: Final = 8
_RATE: Final = 1 / (DEFAULT_HALFLIFE_DAYS * DAY_SECONDS)  # halvings per second


def text_of(record: Record) -> str:
    """The text of a flat memory or a journal entry."""
    return record.type.text_of(record.fields) or ""


def item_of_record(record: Record, event_id: str, created_at: float) -> SearchItem | None:
    """A flat memory or journal entry as the index takes it; None for anything else."""
    ageing = Ageing(created_at, _RATE) if record.type.traits.fades else Ageing()
    if record.type is RecordType.JOURNAL:
        name = f"{Kind.JOURNAL}/{event_id}"
        return SearchItem(name, text_of(record), created_at, kind=Kind.JOURNAL, ageing=ageing)
    if record.type is RecordType.FLAT:
        key = record.fields["key"]
        name = f"{Kind.FLAT}/{key}"
        return SearchItem(name, text_of(record), key=key, kind=Kind.FLAT, ageing=ageing, written=created_at)
    return None


_FLAT: Final = f"{Kind.FLAT}/"
_PART_COUNT: Final = 200  # memories per step, some 20 ms of opening and indexing


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
        rows, seq: what `dumped` gave, to go on from there; nothing may have been forgotten since.

    Attributes:
        left: how many of the memories that the last look found are not handed over yet.
    """

    def __init__(
        self, ledger: Ledger, reader: Reader, rows: Mapping[str, Sequence[Any]] | None = None, seq: int = -1
    ) -> None:
        self._ledger, self._reader = ledger, reader
        self._rows = {slot: _Row(*row) for slot, row in (rows or {}).items()}
        self._slots = {row.name: slot for slot, row in self._rows.items() if row.name}
        self._cursor = Cursor(seq)
        self.left = 0

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
        path = name.removeprefix(_FLAT)  # the path of a journal entry is its whole name
        return None if slot is None else VectorSource(path, slot, self._rows[slot].stamp)

    async def read(self, names: Iterable[str]) -> list[OpenedRecord]:
        """The memories and entries with these names, opened; names that are gone are left out."""
        slots = [self._slots[name] for name in names if name in self._slots]
        return await self._reader.opened([(slot, self._rows[slot].seq) for slot in slots])

    def dumped(self) -> tuple[dict[str, tuple[Any, ...]], int]:
        """All rows, as plain values, and the seq of the newest event that they cover."""
        return {slot: tuple(row) for slot, row in self._rows.items()}, self._cursor.seq

    async def changes(self) -> AsyncIterator[tuple[list[str], list[SearchItem]]]:
        """What changed since the last look, in parts: names that are gone, and new items. Exhaust the iterator."""
        feed = self._ledger.feed
        if not feed.has_changed(self._cursor):
            return
        changes = feed.since(self._cursor)
        slots = {slot for slot in changes.slots if _may_hold_one(slot)}
        if changes.is_everything:
            slots, heads = set(self._rows), self._ledger.heads.live_flat_and_journal()
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
        yield gone, []
        waiting = list(fresh.values())
        for start in range(0, len(waiting), _PART_COUNT):
            part = waiting[start : start + _PART_COUNT]
            opened = await self._reader.opened([(head.slot, head.seq) for head, _ in part])
            self.left -= len(part)
            yield [], self._taken(part, {found.id: found for found in opened})
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
    return "/" not in slot.removeprefix(address.PREFIX)
