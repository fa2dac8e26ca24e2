"""The journal of a store: entries are written, listed and removed; none is ever replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import InvalidInput
from sense_memory.ledger import Role
from sense_memory.limits import ENTRY_AHEAD_SECONDS, MAX_RECENT_COUNT
from sense_memory.models import JournalEntry
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable
from sense_memory.records import envelope
from sense_memory.records.envelope import RecordType


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.ledger import Ledger
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer


class Journal:
    """The journal entries of an open store. Errors are those that the methods of `MemoryStore` name.

    Args:
        ledger: holds the entries.
        reader: opens them.
        writer: seals and signs them.
        clock: seconds since 1970.
        ask: makes sure that a relay was asked before "nothing" is said; returns whether one was.
    """

    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        writer: Writer,
        *,
        clock: Callable[[], float],
        ask: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._ledger, self._reader, self._writer = ledger, reader, writer
        self._clock, self._ask = clock, ask
        self._last = 0.0  # when the last entry of this process was written

    async def write(self, content: str) -> str:
        """Write an entry; returns the event's id."""
        # Two entries of one instant would have no order on another device: a microsecond gives them one.
        # Where the last entry is dated further ahead, the clock was set back, and entries get the date of the clock.
        now, after = self._clock(), self._last + 1e-6
        self._last = after if now < after <= now + ENTRY_AHEAD_SECONDS else now
        (ident,) = await self._writer.write([envelope.journal(content, self._last)])
        return ident

    async def recent(self, limit: int) -> list[JournalEntry]:
        """The newest entries, newest first."""
        if type(limit) is not int or not 1 <= limit <= MAX_RECENT_COUNT:
            raise InvalidInput(
                f"limit must lie between 1 and {MAX_RECENT_COUNT:,}, not {printable(repr(limit))}"
            )
        found = await self._entries(limit)
        if not found and await self._ask("journal entries are"):
            found = await self._entries(limit)
        return found

    async def forget(self, event_id: str) -> str:
        """Remove an entry; returns the id of the deletion request."""
        stored = self._ledger.by_id(event_id)
        if stored is None and await self._ask("this journal entry is"):
            stored = self._ledger.by_id(event_id)
        record = await self._reader.readable_record(stored) if stored and stored.role is Role.MEMORY else None
        if stored is None or record is None or record.type is not RecordType.JOURNAL:
            raise InvalidInput("no journal entry has this id; nothing was removed")
        ident = await self._writer.forget_entry(stored.event())
        self._ledger.checkpoint()
        return ident

    async def _entries(self, limit: int) -> list[JournalEntry]:
        events = [*self._ledger.journal(limit), *self._ledger.heads.live_under(address.JOURNAL_PREFIX)]
        entries: list[tuple[float, int, JournalEntry]] = []
        for stored, record in await self._reader.records(events):
            if record.type is RecordType.JOURNAL:
                ts = record.written_at(stored.created_at)
                entry = JournalEntry(
                    content=record.fields["content"], created_at=ts, event_id=stored.id.hex()
                )
                entries.append((ts, stored.seq, entry))
        entries.sort(key=lambda item: item[:2], reverse=True)
        return [entry for _, _, entry in entries[:limit]]
