"""The flat memories of a store: one value under one key.

A call with many values checks all of them, then writes them batch by batch. If a pair cannot be written, the error names
it by number and key before anything is written. If a key is given twice, its last value counts, and the memory gets one
version.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from sense_memory import arguments
from sense_memory.errors import SignerError
from sense_memory.memories.bulk import BulkWrite, write_batches
from sense_memory.memories.history import RESTORED, head_at, history, is_deleted, paths_of, undo_target
from sense_memory.memories.trust import provenance_in_fields
from sense_memory.models import PROVENANCE, Memory
from sense_memory.nostr import address
from sense_memory.records import envelope
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import next_seen


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, Ledger, StoredEvent
    from sense_memory.memories.bulk import BulkEntry
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
        persona_count: counts the palace memories, for the plan.
        withheld: gives the keys of memories that a rule keeps back: they are not read.
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
        withheld: Callable[[], Awaitable[Container[str]]],
    ) -> None:
        self._ledger, self._reader, self._writer = ledger, reader, writer
        self._clock, self._ask = clock, ask
        self._plan, self._persona_count, self._withheld = plan, persona_count, withheld

    async def remember(
        self,
        key: str,
        value: str,
        created_at: object = None,
        provenance: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Write a value under a key, now or as of `created_at`; returns the event's id.

        Args:
            key: of the memory.
            value: its text.
            created_at: when it was written; None for now.
            provenance: where it came from, see `persona.arguments.provenance`; empty keeps what the memory says.
        """
        at = arguments.written_at(created_at, self._clock())
        extra = {name: list(item) if isinstance(item, tuple) else item for name, item in provenance.items()}
        record = envelope.flat(key, arguments.value(value), at, extra)
        try:
            record = await self._carry_over(record)
            await self.check_plan([record])
        except SignerError as error:
            raise await self._writer.kept(error, [record]) from None
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
        bulk = BulkWrite(now, arguments.written_at(created_at, now))
        for item in pairs:
            bulk.add(item)
        await bulk.prepare(self._carry_over)
        await self.check_plan(bulk.records)

        async def write(batch: Sequence[BulkEntry]) -> Sequence[str]:
            with bulk.name_entry_in_error(self._ledger.marks):
                return await self._writer.write([entry.record for entry in batch])

        return bulk.ids(await write_batches(bulk.batches(self._ledger.marks), write, written))

    async def recall(self, key: str) -> Memory | None:
        """The memory under a key; None if no memory has the key, or the memory was forgotten."""
        paths = address.lookup_paths(key)
        stored = head_at(self._ledger, paths)
        if stored is None and not is_deleted(self._ledger, paths):
            await self._ask("this memory is", lambda: head_at(self._ledger, paths))
        found = await self.here(key)
        return None if found is not None and found.key in await self._withheld() else found

    async def here(self, key: str) -> Memory | None:
        """The memory under a key, as `recall`; no relay is asked."""
        paths = address.lookup_paths(key)
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
        withheld = await self._withheld()
        # The path that we write comes last.
        return {key: flat[path] for key, path in wanted if path in flat and path not in withheld}

    async def recall_all(self) -> list[Memory]:
        """Every flat memory, ordered by address."""
        found = await self._all()
        if not found and await self._ask("memories are"):
            found = await self._all()
        withheld = await self._withheld()
        return [memory for memory in found if memory.key not in withheld]

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
        record = await self.previous(key)
        if record is None:
            return None
        await self.publish_draft(record)
        return await self.recall(key)

    async def previous(self, key: str) -> Record | None:
        """The record that an undo writes; None if no other text is known."""
        versions = await history(self._ledger, self._reader, paths_of(key))
        earlier = undo_target(list(itertools.dropwhile(lambda item: not item.is_head, versions)))
        if earlier is None or earlier.value is None:
            return None
        extra = {RESTORED: earlier.event_id, **await self._provenance(paths_of(key), earlier.event_id)}
        return envelope.flat(key, earlier.value, self._clock(), extra)

    async def _provenance(self, paths: Iterable[str], event_id: str) -> dict[str, Any]:
        """Where the text of a version came from, which goes with the text; also that nobody said so."""
        for stored in (one for path in paths for one in self._ledger.versions(address.d_tag(path))):
            if stored.id.hex() == event_id:
                fields = (await self._reader.readable_record(stored)).fields
                return {name: fields.get(name) for name in PROVENANCE}
        return {}

    async def publish_draft(self, record: Record, bases: Mapping[str, Basis] | None = None) -> str:
        """Write a record over the head of its key, and never as a draft; returns the event's id.

        Args:
            record: the memory.
            bases: by slot, what the write starts from. Raises HeadMoved where that has changed.
        """
        (ident,) = await self._writer.write([await self._carry_over(record)], drafts=False, bases=bases)
        return ident

    async def refresh(self, name: str) -> str | None:
        """Sign a flat or palace memory again; returns the event's id, or None if no memory has the name."""
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

    async def check_plan(self, records: Sequence[Record]) -> None:
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
        fields = {**kept, **record.fields, **known}
        unsaid = {name for name in PROVENANCE if name in fields and not fields[name]}
        return Record(
            record.type, record.path, {name: item for name, item in fields.items() if name not in unsaid}
        )


def _memory(stored: StoredEvent | OpenedRecord, record: Record) -> Memory:
    return Memory(
        key=record.fields["key"],
        value=record.fields["value"],
        created_at=record.written_at(stored),
        event_id=stored.id.hex(),
        **provenance_in_fields(record.fields),
    )
