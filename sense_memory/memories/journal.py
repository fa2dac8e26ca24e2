"""The journal of a store: entries are written, listed and removed, and never replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sense_memory import arguments
from sense_memory.errors import InvalidInput, TooLargeError
from sense_memory.limits import (
    APPLY_BATCH_COUNT,
    ENTRY_AHEAD_SECONDS,
    MAX_FUTURE_SECONDS,
    MAX_PLAINTEXT_BYTES,
    MAX_RECENT_COUNT,
)
from sense_memory.memories.bulk import batches, numbered_errors, write_batches
from sense_memory.memories.trust import of_entry, provenance_in_fields
from sense_memory.models import JournalEntry
from sense_memory.nostr import address
from sense_memory.plain_text import printable
from sense_memory.records import envelope
from sense_memory.records.kinds import RecordType


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.palace.trust import TrustJudge
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


class Journal:
    """The journal entries of an open store. Errors are those that the methods of `MemoryStore` name.

    Args:
        ledger: holds the entries.
        reader: decrypts entries.
        writer: encrypts and signs entries.
        clock: seconds since 1970.
        ask: asks the relays before the answer is "nothing", see `Replication.ask`; returns whether a relay was asked.
        judge: gives what says which entries a rule keeps back: they are not read.
    """

    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        *,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
        judge: Callable[[], Awaitable[TrustJudge]],
    ) -> None:
        self._judge = judge
        self._ledger, self._reader, self._writer = ledger, reader, writer
        self._clock, self._ask = clock, ask
        self._last = 0.0  # when the last entry of this process was written

    async def write(
        self, content: str, created_at: object = None, *, source: str = "", session: str = ""
    ) -> str:
        """Write an entry, now or as of `created_at`; returns the event's id. `source` and `session` as of a memory."""
        told = {name: value for name, value in (("origin", source), ("session", session)) if value}
        (ident,) = await self._writer.write([self._entry(content, created_at, told)])
        return ident

    async def write_many(
        self, entries: Iterable[object], written: Callable[[int], None], created_at: object = None
    ) -> list[str]:
        """Write many entries in batches; returns the ids of their events.

        Args:
            entries: texts, or pairs of a text and when it was written.
            written: called after each batch with the number of entries written so far.
            created_at: when texts without a time of their own were written; None for now.
        """
        records = []
        shared = None if created_at is None else arguments.written_at(created_at, self._clock())
        for number, item in enumerate(entries, 1):
            with numbered_errors(number, ()):
                at = None if shared is None else shared + number * 1e-6  # keeps their order on other devices
                content, at = item if isinstance(item, tuple | list) and len(item) == 2 else (item, at)
                records.append(self._entry(content, at))
                if (size := envelope.plaintext_bytes(records[-1])) > MAX_PLAINTEXT_BYTES:
                    raise TooLargeError(size, MAX_PLAINTEXT_BYTES)
        return await write_batches(batches(records, APPLY_BATCH_COUNT), self._writer.write, written)

    def _entry(self, content: Any, created_at: object, told: Mapping[str, str] | None = None) -> Record:
        if created_at is not None:
            return envelope.journal(content, arguments.written_at(created_at, self._clock()), told)
        # Two entries with the same time have no order on other devices, so each is at least a microsecond later than
        # the last. If the last entry is far ahead of the clock, the clock was set back, and the clock's time is used.
        now, after = self._clock(), self._last + 1e-6
        self._last = after if now < after <= now + ENTRY_AHEAD_SECONDS else now
        return envelope.journal(content, self._last, told)

    async def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        if type(limit) is not int or not 1 <= limit <= MAX_RECENT_COUNT:
            raise InvalidInput(
                f"limit must be between 1 and {MAX_RECENT_COUNT:,}, not {printable(repr(limit))}"
            )
        found = await self._entries(limit)
        if not found and await self._ask("journal entries are"):
            found = await self._entries(limit)
        judge = await self._judge()
        return [entry for entry in found if not judge.holds_back(of_entry(entry), {}, {})]

    async def every(self) -> list[JournalEntry]:
        """All entries that are here, also those that a rule keeps back; no relay is asked."""
        return await self._entries(MAX_RECENT_COUNT)

    async def forget(self, event_id: str) -> str:
        """Remove an entry; returns the id of the deletion request."""
        stored = self._ledger.by_id(event_id)
        if stored is None and await self._ask("this journal entry is"):
            stored = self._ledger.by_id(event_id)
        record = await self._reader.readable_record(stored) if stored and stored.role.is_live else None
        if stored is None or record is None or record.type is not RecordType.JOURNAL:
            raise InvalidInput("no journal entry has this id; nothing was removed")
        ident = await self._writer.forget_entry(stored.event())
        self._ledger.checkpoint()
        return ident

    async def _entries(self, limit: int) -> list[JournalEntry]:
        """The newest entries, by the time in the record.

        The ledger orders events by the date of the event, which is later than the time of a backdated entry. So events
        are read until `limit` entries that are not backdated were found, or until no event is left.
        """
        older, count = self._ledger.heads.live_under(address.JOURNAL_PREFIX), limit
        while True:
            events = self._ledger.journal(count)
            entries, on_time = await self._opened([*events, *older])
            if on_time >= limit or len(events) < count:
                return entries[:limit]
            count *= 4

    async def _opened(self, events: Sequence[StoredEvent]) -> tuple[list[JournalEntry], int]:
        """The entries in some events, newest first, and how many of them are not backdated."""
        entries: list[tuple[float, int, JournalEntry]] = []
        on_time = 0
        for stored, record in await self._reader.records(events):
            if record.type is RecordType.JOURNAL:
                ts = record.written_at(stored)
                on_time += ts >= stored.created_at - MAX_FUTURE_SECONDS
                told = provenance_in_fields(record.fields)
                entry = JournalEntry(
                    content=record.fields["content"],
                    created_at=ts,
                    event_id=stored.id.hex(),
                    source=told["source"],
                    session=told["session"],
                )
                entries.append((ts, stored.seq, entry))
        entries.sort(key=lambda item: item[:2], reverse=True)
        return [entry for _, _, entry in entries], on_time
