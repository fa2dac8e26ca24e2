"""The records of the mind, and of every other kind that names its path.

A record is one event at a path such as `mind/block/persona`. As for a flat memory, the newest version counts, and earlier
versions stay in the local history. All parts read and write records through `MindRecords`; the log also has rows.

`change` reads records, edits them and writes them back. Guaranteed: an edit never replaces a version that it did not read,
written by whichever task or process on this ledger. Safe, because the ledger compares the record's head in the
transaction that writes (`ledger.edits`); if the head has moved, the edit is repeated from the new head. Of versions that
two devices wrote, the later one counts, as for flat memories; the other stays in the history, and `sync` names its path.
The cost is one read and one write for each attempt.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sense_memory.ledger import retry_while_moved
from sense_memory.ledger.feed import START
from sense_memory.mind.fields import texts_in
from sense_memory.nostr import address
from sense_memory.records import envelope
from sense_memory.records.kinds import RecordType, kind_at
from sense_memory.records.origins import edited_by


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, StoredEvent
    from sense_memory.memories.open_store import OpenStore

_T = TypeVar("_T")

# Records of the mind with words of the user or the agent; the other parts are computed, or united.
_WORDS: Final = (f"{address.MIND}block/", f"{address.MIND}objective/")


@dataclass(frozen=True, slots=True)
class MindRecord:
    """One version of a record of the mind.

    Attributes:
        path: such as `mind/block/persona`.
        fields: the fields of the record, without its path.
        event_id: the event's id, 64 hex digits.
        created_at: the event's created_at, seconds since 1970.
        is_forgotten: whether this version is a tombstone; `fields` is then empty.
    """

    path: str
    fields: Mapping[str, Any] = field(repr=False)
    event_id: str
    created_at: int
    is_forgotten: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    # A field of an unexpected type counts as missing; see `fields`.

    def text(self, name: str, default: str = "") -> str:
        """A text field."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else default

    def texts(self, name: str) -> tuple[str, ...]:
        """A field with a list of texts; items of other types are left out."""
        return texts_in(self.fields, name)

    def whole(self, name: str, default: int = 0) -> int:
        """A field with a whole number."""
        value = self.fields.get(name)
        return value if type(value) is int else default

    def is_true(self, name: str) -> bool:
        """Whether a field is true."""
        return self.fields.get(name) is True

    @property
    def written_at(self) -> float:
        """When the record was written, seconds since 1970: the field `ts`, or else the event's date."""
        value = self.fields.get("ts")
        if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
            return float(self.created_at)
        return float(value)


class MindRecords:
    """Reads and writes the records of the mind.

    Args:
        store: the open store.
    """

    def __init__(self, store: OpenStore) -> None:
        self.store = store

    async def read(self, path: str) -> MindRecord | None:
        """The record at a path; None if there is none. Relays are asked as by `Replication.ask`.

        Raises:
            NotSynced: the ledger has no record, and no relay has answered completely yet.
        """
        found = await self._head(path)
        if found is None and await self.store.replication.ask("this record of the mind is"):
            found = await self._head(path)
        return found

    async def under(self, prefix: str, *, asks: bool = True) -> list[MindRecord]:
        """Every record directly under a prefix such as `mind/block/`, by path; with `asks`, relays are asked as in `read`."""
        found = await self._under(prefix)
        if not found and asks and await self.store.replication.ask("records of the mind are"):
            found = await self._under(prefix)
        return found

    def names_under(self, prefix: str) -> list[str]:
        """The names of the records directly under a prefix that this ledger holds; none is read."""
        names = (path.removeprefix(prefix) for path in self.paths_beneath(prefix))
        return [name for name in names if "/" not in name]

    def paths_beneath(self, prefix: str) -> list[str]:
        """The paths of all records beneath a prefix that this ledger holds; none is read."""
        self.store.check()
        heads = self.store.ledger.heads.live_beneath(address.PREFIX + prefix)
        return [slot.removeprefix(address.PREFIX) for slot, _ in heads]

    async def write(
        self, records: Mapping[str, Mapping[str, Any]], *, bases: Mapping[str, Basis] | None = None
    ) -> list[str]:
        """Write records by path, all or none; returns their event ids in order.

        Args:
            records: the fields of each record, by path.
            bases: the ledger's state that an edit starts from, by slot.

        Raises:
            TooLargeError, InvalidInput: a record does not fit an event, or is not valid Unicode; nothing was written.
            ClockSkewError: the clock is far behind a record's newest version; nothing was written.
            LedgerError: the ledger could not be written; nothing was written.
            HeadMoved: a record has changed since its basis was read; nothing was written.
        """
        made = [envelope.record_at(path, fields) for path, fields in records.items()]
        async with self.store.writing() as store:
            return await store.writer.write(made, drafts=False, bases=bases)

    async def change(
        self,
        paths: Iterable[str],
        edit: Callable[[Mapping[str, MindRecord]], Awaitable[Mapping[str, Mapping[str, Any]]]],
    ) -> None:
        """Read records, edit them and write them back, all or none; repeat this if one of them changed meanwhile.

        Args:
            paths: the records to read.
            edit: gets the existing records by path, and returns the fields to write by path; may be called several times.

        Raises: as `write`, and as `edit`; nothing was written.
        """
        slots = {path: address.d_tag(path) for path in paths}
        edits = self.store.ledger.edits

        async def attempt() -> None:
            bases = {slot: edits.basis(slot) for slot in slots.values()}
            before = {path: found for path in slots if (found := await self.read(path)) is not None}
            changed = await edit(before)
            if not changed:
                return
            device = await self.store.ledger.write_if_due(lambda: edits.device)
            for path in changed:
                if _says_edits(path):
                    known = edited_by(
                        device, before[path].fields if path in before else {}, self.store.options.clock()
                    )
                    changed = {**changed, path: {**changed[path], **known}}
            await self.write(changed, bases=bases)

        await retry_while_moved(attempt)

    async def forget(self, paths: Iterable[str]) -> str:
        """Forget records here, and ask relays to delete them (NIP-09); an unknown path is not an error.

        Returns the id of the deletion request; empty if there are no paths.
        """
        wanted = list(paths)
        if not wanted:
            return ""
        async with self.store.writing() as store:
            ident = await store.writer.forget_all(wanted, insists=True)
            store.ledger.checkpoint()
        return ident

    async def versions(self, path: str) -> list[MindRecord]:
        """Every version of a record in this ledger, newest first; versions of a newer sense-memory are left out."""
        self.store.check()
        reader = self.store.reader
        found = []
        for stored in self.store.ledger.versions(address.d_tag(path)):
            record = await reader.record(stored)
            if record is not None:
                found.append(_version(stored, record, stored.created_at))
        return found

    async def _head(self, path: str) -> MindRecord | None:
        self.store.check()
        heads = self.store.ledger.heads.live_heads_at([address.d_tag(path)])
        return next(iter(await self.opened([(head.slot, head.seq) for head in heads])), None)

    async def _under(self, prefix: str) -> list[MindRecord]:
        self.store.check()
        return await self.opened(self.store.ledger.heads.uncovered_under(address.PREFIX + prefix))

    async def opened(self, heads: Sequence[tuple[str, int]]) -> list[MindRecord]:
        """The records of some heads (slot, seq) in their order, without tombstones and records of a newer version."""
        return [
            MindRecord(item.path, _content(item.record.fields), item.id.hex(), item.created_at)
            for item in await self.store.reader.opened(heads)
            if item.type is not None and item.type.traits.names_path
        ]


class RecordView(Generic[_T]):
    """The records directly under a prefix as values, which follow the ledger.

    Guaranteed: `refresh` returns what `MindRecords.under` would read, whichever process or device changed it. Safe,
    because the ledger's feed names each change. The first refresh reads every record, a later one only those with a new
    head: its cost does not grow with their number. Each value stays in RAM.

    Args:
        records: reads the records.
        prefix: such as `mind/block/`.
        value_of: makes the value of a record.

    Attributes:
        changed: the names of records that were added, changed or removed, in the order in which the view noticed; a
            follower remembers how many of them it has read.
    """

    def __init__(self, records: MindRecords, prefix: str, value_of: Callable[[MindRecord], _T]) -> None:
        self._records, self._prefix, self._value_of = records, prefix, value_of
        self._start = address.PREFIX + prefix
        self._values: dict[str, _T] = {}
        self._seqs: dict[str, int] = {}  # of the heads that were read
        self._cursor, self._refreshing = START, asyncio.Lock()
        self.changed: list[str] = []

    async def refresh(self, *, asks: bool = True) -> Mapping[str, _T]:
        """The values by the names of the records, as of now; later refreshes change this mapping.

        Args:
            asks: whether relays are asked if there are no records here, as by `MindRecords.under`.

        Raises:
            NotSynced: as `MindRecords.under`.
        """
        await self._read_changes()
        asked = asks and not self._values
        if asked and await self._records.store.replication.ask("records of the mind are"):
            await self._read_changes()
        return self._values

    async def _read_changes(self) -> None:
        self._records.store.check()
        async with self._refreshing:
            ledger = self._records.store.ledger
            if not ledger.feed.has_changed(self._cursor):
                return
            changes = ledger.feed.since(self._cursor)
            if changes.is_everything:
                slots = set(self._seqs)
                heads = ledger.heads.uncovered_under(self._start)
            else:
                slots = {slot for slot in changes.slots if slot.startswith(self._start)}
                heads = [(head.slot, head.seq) for head in ledger.heads.live_heads_at(slots)]
            fresh = [(slot, seq) for slot, seq in heads if self._seqs.get(slot) != seq]
            opened = await self._records.opened(fresh)
            self._take(
                {record.name: self._value_of(record) for record in opened}, fresh, slots - {*dict(heads)}
            )
            self._cursor = changes.cursor

    def _take(self, found: Mapping[str, _T], fresh: Iterable[tuple[str, int]], gone: Iterable[str]) -> None:
        """Take over the values of new heads; a new head without a value is a tombstone, or of a newer version."""
        for slot in gone:
            self._seqs.pop(slot, None)
        self._seqs.update(fresh)
        names = (slot.removeprefix(self._start) for slot in (*gone, *dict(fresh)))
        removed = [name for name in names if name not in found and self._values.pop(name, None) is not None]
        self._values.update(found)
        self.changed += (*removed, *found)


def _says_edits(path: str) -> bool:
    """Whether the record at a path says who edited it, so that `sync` names an edit that lost to another device."""
    kind = kind_at(path)
    is_with_words = kind is not RecordType.MIND or path.startswith(_WORDS)
    return kind is not None and kind.traits.says_edits and is_with_words


def _version(stored: StoredEvent, record: envelope.Record, created_at: int) -> MindRecord:
    is_forgotten = stored.role.is_tombstone
    fields = {} if is_forgotten else _content(record.fields)
    return MindRecord(record.path, fields, stored.id.hex(), created_at, is_forgotten)


def _content(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "path"}
