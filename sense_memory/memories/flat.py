"""The flat memories of a store: one value under one key.

A call with many values checks all of them, then writes them batch by batch. If a pair cannot be written, the error names
it by number and key before anything is written. If a key is given twice, its last value counts, and the memory gets one
version.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from sense_memory import arguments
from sense_memory.errors import ClockSkewError, InvalidInput, NeedsNewerVersion, TooLargeError
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FUTURE_SECONDS, MAX_PLAINTEXT_BYTES
from sense_memory.memories.history import RESTORED, head_at, history, is_deleted, paths_of, undo_target
from sense_memory.models import Memory
from sense_memory.nostr import address
from sense_memory.plain_text import printable
from sense_memory.records import envelope
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import next_seen


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.palace.plan import Plan
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import OpenedRecord
    from sense_memory.records.writer import Writer

_KEY_CHARS: Final = 80  # of a key in an error


class AsksRelays(Protocol):
    """Asks the relays before a caller answers "nothing"; see `Replication.ask`."""

    async def __call__(self, what: str, found: Callable[[], object] = ..., /) -> bool:
        """Return whether a relay was asked; stop waiting once `found` is true."""


class FlatMemories:
    """The flat memories of an open store. Errors are those that the methods of `MemoryStore` name.

    Args:
        ledger: holds the memories.
        reader: decrypts memories.
        writer: encrypts and signs memories.
        clock: seconds since 1970.
        ask: asks the relays before the answer is "nothing"; returns whether a relay was asked.
        plan: limits how many memories may be added.
        persona_count: counts the persona memories, for the plan.
    """

    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        *,
        clock: Callable[[], float],
        ask: AsksRelays,
        plan: Plan,
        persona_count: Callable[[], Awaitable[int]],
    ) -> None:
        self._ledger, self._reader, self._writer = ledger, reader, writer
        self._clock, self._ask = clock, ask
        self._plan, self._persona_count = plan, persona_count

    async def remember(self, key: str, value: str, created_at: object = None) -> str:
        """Write a value under a key, now or as of `created_at`; returns the event's id."""
        at = arguments.written_at(created_at, self._clock())
        record = await self._carry_over(envelope.flat(key, arguments.value(value), at))
        await self._check_plan([record])
        (ident,) = await self._writer.write([record])
        return ident

    async def remember_many(
        self, pairs: Iterable[object], written: Callable[[int], None], created_at: object = None
    ) -> list[str]:
        """Write many values in batches; returns for each pair the id of the event that was written for its key.

        Args:
            pairs: of key and value, or of key, value and when the value was written.
            written: called after each batch with the number of memories written so far.
            created_at: when values without a time of their own were written; None for now.
        """
        now = self._clock()
        bulk, done = BulkWrite(now, arguments.written_at(created_at, now)), 0
        for item in pairs:
            bulk.add(item)
        await bulk.prepare(self._carry_over)
        await self._check_plan(bulk.records)
        for batch in bulk.batches(self._ledger.marks):
            with bulk.name_entry_in_error(self._ledger.marks):
                bulk.add_ids(batch, await self._writer.write([entry.record for entry in batch]))
            done += len(batch)
            written(done)
            if len(batch) == APPLY_BATCH_COUNT:
                await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
        return bulk.ids()

    async def recall(self, key: str) -> Memory | None:
        """The memory under a key; None if no memory has the key, or the memory was forgotten."""
        paths = address.lookup_paths(key)
        stored = head_at(self._ledger, paths)
        if stored is None and not is_deleted(self._ledger, paths):
            await self._ask("this memory is", lambda: head_at(self._ledger, paths))
            stored = head_at(self._ledger, paths)
        if stored is None or stored.role.is_tombstone:
            return None
        record = await self._reader.readable_record(stored)
        return _memory(stored, record) if record.type is RecordType.FLAT and record.path in paths else None

    async def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """The memories under many keys, by key; no relay is asked."""
        wanted = [(key, path) for key in keys for path in reversed(address.lookup_paths(key))]
        heads = self._ledger.heads.seqs_at({address.d_tag(path) for _, path in wanted})
        opened = await self._reader.opened(heads)
        flat = {item.path: _memory(item, item.record) for item in opened if item.type is RecordType.FLAT}
        return {key: flat[path] for key, path in wanted if path in flat}  # the path that we write comes last

    async def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address."""
        found = await self._all()
        if not found and await self._ask("memories are"):
            found = await self._all()
        return found

    async def as_of(self, time: float) -> list[Memory]:
        """Every flat memory as it was at a time, seconds since 1970."""
        found = []
        for versions in self._ledger.histories(address.PREFIX):
            for stored in versions:
                record = await self._reader.record(stored)
                if record is not None and record.written_at(stored) <= time:
                    if record.type is RecordType.FLAT:
                        found.append(_memory(stored, record))
                    break
        return found

    async def undo(self, key: str) -> Memory | None:
        """Write the previous text as a new version; returns the memory, or None if no other text is known."""
        versions = await history(self._ledger, self._reader, paths_of(key))
        earlier = undo_target(list(itertools.dropwhile(lambda item: not item.is_head, versions)))
        if earlier is None or earlier.value is None:
            return None
        record = envelope.flat(key, earlier.value, self._clock(), {RESTORED: earlier.event_id})
        await self.publish_draft(record)
        return await self.recall(key)

    async def publish_draft(self, record: Record) -> str:
        """Write a record over the head of its key, and never as a draft; returns the event's id."""
        (ident,) = await self._writer.write([await self._carry_over(record)], drafts=False)
        return ident

    async def refresh(self, name: str) -> str | None:
        """Sign a flat or persona memory again; returns the event's id, or None if no memory has the name."""
        paths = paths_of(name)
        if "/" not in name and await self.recall(name) is None:
            return None
        stored = head_at(self._ledger, paths)
        if stored is None or not stored.role.is_live:
            return None
        record, origin = await self._reader.readable_record(stored), await self._reader.origin(stored)
        fields = {
            **record.fields,
            "seen": next_seen(origin, self._ledger.edits.device, self._clock()),
            "said": [origin.device, origin.count, origin.said_at, origin.said],
        }
        renewed = replace(record, fields=fields)
        if not envelope.fits(renewed):  # the largest memories leave no room for the new fields
            renewed = record
        (ident,) = await self._writer.write([renewed], drafts=False)
        return ident

    async def _all(self) -> list[Memory]:
        alive = await self._reader.live(address.PREFIX)
        return [_memory(opened, opened.record) for opened in alive if opened.type is RecordType.FLAT]

    async def _check_plan(self, records: Sequence[Record]) -> None:
        """Check that the plan allows adding the memories in these records; replacing an existing memory adds none."""
        if self._plan.max_memories is None:
            return
        from sense_memory.palace.plan import Usage

        new = {record.path for record in records if head_at(self._ledger, (record.path,)) is None}
        count = self._ledger.heads.flat_count() + await self._persona_count()
        self._plan.check_adding(Usage(count), len(new))

    async def _carry_over(self, record: Record) -> Record:
        """The record to write over a head: with the edits that the head knows (`seen`), and with the head's other fields.

        Fields that this version does not know may come from a newer sense-memory, and must survive an edit.
        """
        ledger = self._ledger
        head, kept, origin = ledger.head(address.d_tag(record.path)), {}, None
        if head is not None and head.role.is_live:
            old = await self._reader.readable_record(head)
            if old.type is record.type:
                kept = {name: value for name, value in old.fields.items() if name != RESTORED}
                origin = await self._reader.origin(head)
        device = await ledger.write_if_due(lambda: ledger.edits.device)
        known = {"seen": next_seen(origin, device, self._clock()), "said": device}
        return Record(record.type, record.path, {**kept, **record.fields, **known})


def _memory(stored: StoredEvent | OpenedRecord, record: Record) -> Memory:
    return Memory(
        key=record.fields["key"],
        value=record.fields["value"],
        created_at=record.written_at(stored),
        event_id=stored.id.hex(),
    )


# ── Bulk writes ─────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class BulkEntry:
    """One memory of a bulk write.

    Attributes:
        number: the number of the last pair with its key, counted from 1.
        record: the record to write.
    """

    number: int
    record: Record


class BulkWrite:
    """The pairs of one bulk write, and the record for each key.

    Args:
        now: seconds since 1970.
        created_at: the time of values that are given without a time.
    """

    def __init__(self, now: float, created_at: float) -> None:
        self._now, self._created_at = now, created_at
        self._entries: dict[str, BulkEntry] = {}  # by path, in the order in which the keys were first given
        self._paths: list[str] = []  # the path of each pair
        self._ids: dict[str, str] = {}  # by path

    def add(self, item: object) -> None:
        """Add a pair.

        Raises:
            InvalidInput: `item` is not a pair, its key breaks the naming rules, or its value is blank or not a text.
        """
        number = len(self._paths) + 1
        with numbered_errors(number, item):
            key, value, *times = _pair(item)
            at = arguments.written_at(times[0], self._now) if times else self._created_at
            record = envelope.flat(key, arguments.value(value), at)
        self._paths.append(record.path)
        self._entries[record.path] = BulkEntry(number, record)  # an existing entry keeps its place

    async def prepare(self, carry_over: Callable[[Record], Awaitable[Record]]) -> None:
        """Complete each record with `carry_over`, and check that the record fits an event.

        Raises:
            TooLargeError: a record does not fit an event.
            NeedsNewerVersion: a newer sense-memory wrote the head of a key.
        """
        for entry in self._entries.values():
            with numbered_errors(entry.number, (entry.record.path,)):
                entry.record = await carry_over(entry.record)
                if (size := envelope.plaintext_bytes(entry.record)) > MAX_PLAINTEXT_BYTES:
                    raise TooLargeError(size, MAX_PLAINTEXT_BYTES)

    @property
    def records(self) -> list[Record]:
        """The records to write."""
        return [entry.record for entry in self._entries.values()]

    def batches(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[list[BulkEntry]]:
        """The memories in batches; each batch is written whole or not at all.

        If the clock does not allow one of the memories to be written, all memories are one batch: its write fails, and
        keeps all texts as drafts.

        Args:
            marks: gives the newest second ever seen at each of some slots.
        """
        entries = list(self._entries.values())
        step = max(len(entries), 1) if self._ahead(marks) else APPLY_BATCH_COUNT
        yield from (entries[start : start + step] for start in range(0, len(entries), step))

    @contextmanager
    def name_entry_in_error(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[None]:
        """Name the entry in a `ClockSkewError`."""
        try:
            yield
        except ClockSkewError as error:
            if (entry := self._ahead(marks)) is not None:
                error.args = (_of_entry(entry.number, entry.record.path, str(error)),)
            raise

    def add_ids(self, entries: Sequence[BulkEntry], ids: Sequence[str]) -> None:
        """Note the event ids of some entries."""
        self._ids.update((entry.record.path, ident) for entry, ident in zip(entries, ids, strict=True))

    def ids(self) -> list[str]:
        """For each pair, the id of the event that holds its key."""
        return [self._ids[path] for path in self._paths]

    def _ahead(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> BulkEntry | None:
        """The first memory whose newest version is further in the future than any clock may be wrong."""
        latest = int(self._now) + MAX_FUTURE_SECONDS
        slots = {address.d_tag(path): path for path in self._entries}
        ahead = {slots[slot] for slot, mark in marks(slots).items() if mark > latest}
        return next((entry for path, entry in self._entries.items() if path in ahead), None)


def _pair(item: object) -> Sequence[Any]:
    """Check that an item is a key and a value, with or without a time. A text of two characters is not a pair."""
    if not isinstance(item, tuple | list) or len(item) not in {2, 3}:
        raise InvalidInput("it must be a pair of key and value, or key, value and a time")
    return item


@contextmanager
def numbered_errors(number: int, item: object) -> Iterator[None]:
    """Name an entry of a bulk write in its error, by number (counted from 1) and key, the first part of `item`."""
    try:
        yield
    except (InvalidInput, NeedsNewerVersion) as error:
        key = item[0] if isinstance(item, tuple | list) and item else None
        error.args = (_of_entry(number, key, str(error)),)
        raise


def _of_entry(number: int, key: object, problem: str) -> str:
    name = f" ({printable(repr(key), _KEY_CHARS)})" if isinstance(key, str) else ""
    sentence = problem if "nothing was" in problem else f"{problem}; nothing was written"
    return f"entry {number}{name}: {sentence}"
