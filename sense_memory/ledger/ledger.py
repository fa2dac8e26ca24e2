"""`Ledger`: the one object the rest of the program holds. Append, apply, read; nothing is decrypted here."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from sense_memory.errors import InvalidEvent, LedgerError
from sense_memory.ledger import versions
from sense_memory.ledger.database import Database
from sense_memory.ledger.outbox import Outbox
from sense_memory.ledger.stamps import Stamps
from sense_memory.ledger.versions import Fate, Filed, Role, Stored
from sense_memory.limits import (
    LOCK_SECONDS,
    MAX_EVENTS_PER_SECOND_COUNT,
    MAX_FUTURE_SECONDS,
    STAMP_LOOKBACK_SECONDS,
)
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Event, is_hex64


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

_HEADS = (
    "SELECT e.seq, e.id, e.slot, e.role, e.body FROM slots s JOIN events e ON e.seq = s.head "
    f"WHERE e.role = {int(Role.MEMORY)} AND "
)


class Ledger:
    """The ledger of one key. See `Database` for the errors of opening.

    Args:
        path: the file, or ":memory:".
        owner: the public key, 64 hex digits.

    Attributes:
        outbox: what each relay was given.
    """

    def __init__(self, path: str | Path, owner: str) -> None:
        self._db = Database(path, owner)
        self.outbox = Outbox(self._db)

    def close(self) -> None:
        """Checkpoint and close."""
        self._db.close()

    @property
    def path(self) -> Path | None:
        """The file, or None for a ledger in memory."""
        return self._db.path

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    def stamps(self, now: float) -> Stamps:
        """The version clock as of now; `append` checks again what was taken from it."""
        return Stamps(int(now), self._used)

    def mark(self, slot: str) -> int | None:
        """The newest second ever seen at a slot, or None."""
        return versions.mark(self._db, slot)

    def append(
        self, items: Sequence[Filed], relays: Sequence[str], now: float, *, together: bool = False
    ) -> list[int]:
        """File our own events and queue them for relays, in one transaction.

        Returns the indices of items whose second was taken by another process meanwhile: those are not
        stored (with `together`, then none is), and the caller stamps and signs them again.
        """
        late: list[int] = []
        used: dict[int, int] = {}  # within the transaction nobody else can add to a second
        with self._db.transaction():
            if together and any(self._is_late(item, used) for item in items):
                return list(range(len(items)))
            for index, item in enumerate(items):
                if self._is_late(item, used):
                    late.append(index)
                    continue
                fate, seq = versions.apply(self._db, item, now)
                if fate is not Fate.NEW or seq is None:
                    raise LedgerError("an event of ours did not become the head; nothing was written")
                used[item.event.created_at] += 1
                self.outbox.queue([seq], relays, now)
        return late

    def apply(self, items: Sequence[Filed], relay: str | None, now: float) -> list[Fate]:
        """File events in one transaction: from a relay, recording that it holds them, or (None) from a file."""
        fates: list[Fate] = []
        behind: list[str] = []
        with self._db.transaction():
            for item in items:
                fate, seq = versions.apply(self._db, item, now)
                fates.append(fate)
                if relay is None:
                    continue
                if seq is not None:
                    self.outbox.seen(relay, [seq], now)
                if self._is_behind(fate, seq):
                    behind.append(item.slot)
        if relay is not None and behind:
            self.outbox.heal(relay, behind, now)
        return fates

    def release(self, now: float) -> int:
        """Apply quarantined events whose time has come; returns how many."""
        if not self._db.row("SELECT 1 FROM events WHERE quarantined = 1 LIMIT 1"):
            return 0
        with self._db.transaction():
            return versions.release(self._db, now)

    def touch(self, slot: str, now: float) -> None:
        """Record that a memory was read. Stays local until the memory's next edit."""
        with self._db.transaction():
            self._db.execute(
                "INSERT INTO access VALUES (?, ?, 1) "
                "ON CONFLICT DO UPDATE SET last_at = max(last_at, excluded.last_at), count = count + 1",
                slot,
                now,
            )

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    def head(self, slot: str) -> Stored | None:
        """The version that counts at a slot, a tombstone included; None where there is none."""
        found = self._db.row(
            "SELECT e.seq, e.id, e.slot, e.role, e.body FROM slots s JOIN events e ON e.seq = s.head WHERE s.slot = ?",
            slot,
        )
        return _stored(found) if found else None

    def heads(self, prefix: str) -> Iterator[Stored]:
        """The live heads directly under a prefix (no further `/`), ordered by slot."""
        rows = self._db.rows(
            _HEADS + "s.slot >= ? AND s.slot < ? AND instr(substr(s.slot, ?), '/') = 0 ORDER BY s.slot",
            prefix,
            prefix[:-1] + chr(ord(prefix[-1]) + 1),
            len(prefix) + 1,
        )
        return map(_stored, rows)

    def journal(self, limit: int) -> list[Stored]:
        """The newest direct messages to oneself: at least the last `limit` by the time inside, and some more.

        A burst dates events back by up to an hour, so everything within that of the last is returned.
        """
        page = "FROM events WHERE kind = 4 AND quarantined = 0 "
        oldest = self._db.row(
            f"SELECT min(created_at) FROM (SELECT created_at {page} ORDER BY created_at DESC LIMIT ?)", limit
        )
        reach = (oldest[0] if oldest and oldest[0] else 0) - STAMP_LOOKBACK_SECONDS - MAX_FUTURE_SECONDS
        return [
            _stored(row)
            for row in self._db.rows(f"SELECT seq, id, slot, role, body {page} AND created_at >= ?", reach)
        ]

    def versions(self, slot: str) -> list[Stored]:
        """Every version kept of a slot, newest first; the head leads."""
        return [
            _stored(row)
            for row in self._db.rows(
                "SELECT seq, id, slot, role, body FROM events WHERE slot = ? AND quarantined = 0 "
                "ORDER BY created_at DESC, id",
                slot,
            )
        ]

    def histories(self, prefix: str) -> Iterator[list[Stored]]:
        """The versions of every slot directly under a prefix (no further `/`), each newest first."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        slots = self._db.rows(
            "SELECT slot FROM slots WHERE slot >= ? AND slot < ? AND instr(substr(slot, ?), '/') = 0",
            prefix,
            end,
            len(prefix) + 1,
        )
        return (self.versions(slot) for (slot,) in slots)

    def by_id(self, event_id: str) -> Stored | None:
        """One stored event by its id (hex), or None."""
        if not is_hex64(event_id):
            return None
        found = self._db.row(
            "SELECT seq, id, slot, role, body FROM events WHERE id = ?", bytes.fromhex(event_id)
        )
        return _stored(found) if found else None

    def place(self, event: Event) -> Filed | None:
        """A verified event as it was filed here before, or None if it is new."""
        found = self._db.row("SELECT slot, role FROM events WHERE id = ?", bytes.fromhex(event.id))
        return Filed(event, found[0], Role(found[1])) if found else None

    def slots(self) -> list[str]:
        """Every address ever seen, forgotten ones included."""
        return [slot for (slot,) in self._db.rows("SELECT slot FROM slots WHERE substr(slot, 1, 1) <> '#'")]

    def is_deleted(self, slot: str) -> bool:
        """Whether a deletion of ours is the last word on a slot."""
        return bool(
            self._db.row(
                "SELECT 1 FROM deletions d LEFT JOIN slots s ON s.slot = d.target WHERE d.target = ? "
                "AND (s.head IS NULL OR s.mark_at <= d.until)",
                slot,
            )
        )

    def access(self, slot: str) -> tuple[float, int] | None:
        """When a memory was last read (seconds since 1970) and how often, or None."""
        found = self._db.row("SELECT last_at, count FROM access WHERE slot = ?", slot)
        return (found[0], found[1]) if found else None

    def census(self) -> dict[str, int]:
        """Counts of what the ledger holds: heads, versions, tombstones, deletions, quarantined."""
        found = self._db.row(
            "SELECT (SELECT count(*) FROM slots s JOIN events e ON e.seq = s.head WHERE e.role = 0), "
            "count(*), sum(role = 1), sum(role = 2), sum(quarantined) FROM events"
        )
        names = ("heads", "events", "tombstones", "deletions", "quarantined")
        return {name: int(value or 0) for name, value in zip(names, found or (0,) * 5, strict=True)}

    def bodies(self) -> Iterator[bytes]:
        """Every event's canonical JSON in order of arrival, read in batches."""
        last = 0
        while rows := self._db.rows(
            "SELECT seq, body FROM events WHERE seq > ? ORDER BY seq LIMIT 500", last
        ):
            last = rows[-1][0]
            yield from (body for _, body in rows)

    def integrity(self) -> list[str]:
        """What is wrong with the file: SQLite's findings, and events that lie under another id, time or place."""
        problems = self._db.integrity()
        last = 0
        while rows := self._db.rows(
            "SELECT seq, id, slot, kind, created_at, body FROM events WHERE seq > ? ORDER BY seq LIMIT 500",
            last,
        ):
            last = rows[-1][0]
            problems += [
                f"event {row[0]} is damaged or misplaced" for row in rows if not _is_in_place(*row[1:])
            ]
        return problems

    # ── Several processes ───────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def publishing(self, wait: float = LOCK_SECONDS) -> AsyncIterator[bool]:
        """Hold the publisher's lock; yields False when another process kept it for `wait` seconds."""
        deadline = asyncio.get_running_loop().time() + wait
        while not (held := self._db.try_lock()):
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(0.05)
        try:
            yield held
        finally:
            if held:
                self._db.unlock()

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file and truncate it, unless another process publishes."""
        self._db.checkpoint()

    def _used(self, second: int) -> int:
        found = self._db.row("SELECT count(*) FROM events WHERE created_at = ?", second)
        return int(found[0]) if found else 0

    def _is_late(self, item: Filed, used: dict[int, int]) -> bool:
        """Whether another process wrote between the stamp and this transaction."""
        second = item.event.created_at
        if second not in used:
            used[second] = self._used(second)
        mark = self.mark(item.slot)
        if mark is not None and second <= mark:
            return True
        return item.role is not Role.DELETION and used[second] >= MAX_EVENTS_PER_SECOND_COUNT

    def _is_behind(self, fate: Fate, seq: int | None) -> bool:
        """Whether a relay that served this lacks something newer."""
        if fate is Fate.KNOWN:
            return not self._db.row("SELECT 1 FROM slots WHERE head = ?", seq)
        return fate in {Fate.STALE, Fate.DELETED}


def _stored(row: tuple[Any, ...]) -> Stored:
    seq, ident, slot, role, body = row
    return Stored(seq, ident, slot, Role(role), body)


def _is_in_place(ident: bytes, slot: str, kind: int, created_at: int, body: bytes) -> bool:
    """Whether a row's columns say what its event says; whether the event verifies is for others to check."""
    try:
        event = Event.restored(body)
    except InvalidEvent:
        return False
    tag = event.d_tag if event.kind == KIND_APP_DATA else None
    place = versions.slot_of(event.id) if tag is None else address.filed_tag(tag)
    return (event.id, place, event.kind, event.created_at) == (ident.hex(), slot, kind, created_at)
