"""Heads: the version that counts at each slot, and every query about them.

A slot has at most one head. A *live* head is a memory. A version that a deletion of its slot covers (it is dated in the
second of the deletion or before) is never a live head, because relays would refuse it: `removals` elects another, or none.
This module has all queries of heads, except those that change something and those about one relay (`outbox`,
`inventory`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sense_memory.ledger.roles import IS_CONTENT, IS_DERIVED, IS_LIVE, ROLES
from sense_memory.limits import MAX_FUTURE_SECONDS
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE, Event


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.roles import Role

LOGS: Final = address.PREFIX + address.INTROSPECTION  # prefix of the slots of introspection logs
_READABLE_EMBEDDINGS: Final = f"{address.PREFIX}{address.EMBEDDING}"
_HASHED: Final = f"{address.PREFIX}~"  # prefix of slots that contain a hash instead of the path

_JOIN: Final = "FROM slots s JOIN events e ON e.seq = s.head"
_LIVE: Final = f"{_JOIN} WHERE e.{IS_LIVE}"
_STORED: Final = "SELECT e.seq, e.id, e.slot, e.role, e.body"
_LIVE_HEADS: Final = f"SELECT s.slot, e.seq, e.id {_LIVE} AND "
_BENEATH: Final = "s.slot >= ? AND s.slot < ?"
_UNDER: Final = f"{_BENEATH} AND instr(substr(s.slot, ?), '/') = 0"  # directly under a prefix; see `_under`
_EMBEDDINGS: Final = f"SELECT s.slot, s.head {_JOIN} WHERE e.{IS_DERIVED} AND "


class StoredEvent(NamedTuple):
    """An event as the ledger holds it. A tuple, because a start creates ten thousand of them.

    Attributes:
        seq: the event's number in the order of arrival, from 1.
        id: the event's id, 32 bytes.
        slot: the event's slot.
        role: memory, tombstone, deletion or embedding.
        body: canonical JSON.
    """

    seq: int
    id: bytes
    slot: str
    role: Role
    body: bytes

    def __repr__(self) -> str:
        return (
            f"StoredEvent(seq={self.seq}, id={self.id.hex()[:16]}…, slot={self.slot!r}, role={self.role!r})"
        )

    @property
    def created_at(self) -> int:
        """The event's created_at, seconds since 1970."""
        return self.event().created_at

    def event(self) -> Event:
        """The verified event."""
        return Event.restored(self.body)


class Head(NamedTuple):
    """A head without its event.

    Attributes:
        slot: the head's slot.
        seq: the event's number in the order of arrival.
        id: the event's id, 32 bytes.
    """

    slot: str
    seq: int
    id: bytes


class Heads:
    """The heads of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    # ── At some slots ───────────────────────────────────────────────────────────────────

    def at(self, slot: str) -> StoredEvent | None:
        """The head of a slot, which may be a tombstone; None if the slot has no head."""
        found = self._db.row(f"{_STORED} {_JOIN} WHERE s.slot = ?", slot)
        return stored(found) if found else None

    def seqs_at(self, slots: Iterable[str]) -> list[tuple[str, int]]:
        """Slot and seq of the heads of some slots; some may be tombstones."""
        query = "SELECT slot, head FROM slots WHERE head IS NOT NULL AND slot IN "
        return [(slot, head) for slot, head in self._db.rows_in(query, slots)]

    def live_at(self, slots: Iterable[str]) -> list[StoredEvent]:
        """The live heads of some slots."""
        return [stored(row) for row in self._db.rows_in(f"{_STORED} {_LIVE} AND s.slot IN ", slots)]

    def live_heads_at(self, slots: Iterable[str]) -> list[Head]:
        """The live heads of some slots, without their events."""
        return [Head(*row) for row in self._db.rows_in(f"{_LIVE_HEADS}s.slot IN ", slots)]

    def is_live_after(self, slot: str, second: int) -> bool:
        """Whether a slot has a memory, or an embedding, that is dated after a second."""
        query = f"SELECT 1 {_JOIN} WHERE s.slot = ? AND e.{IS_CONTENT} AND e.created_at > ?"
        return self._db.row(query, slot, second) is not None

    # ── Under a prefix ──────────────────────────────────────────────────────────────────

    def live_under(self, prefix: str) -> list[StoredEvent]:
        """The live heads directly under a prefix (no further `/`)."""
        return list(map(stored, self._db.rows(f"{_STORED} {_LIVE} AND {_UNDER}", *_under(prefix))))

    def uncovered_under(self, prefix: str) -> list[tuple[str, int]]:
        """Slot and seq of the heads directly under a prefix (no further `/`), by slot; a few of them may be tombstones.

        No event is read, so a tombstone is recognised only by its date: most have the second of their deletion, which covers
        them, and a memory is dated later. `Ledger.read` gives the role of the others.
        """
        return self._db.rows(
            "SELECT s.slot, s.head FROM slots s LEFT JOIN deletions d ON d.target = s.slot "
            f"WHERE {_UNDER} AND s.head IS NOT NULL AND (d.until IS NULL OR d.until < s.mark_at) "
            "ORDER BY s.slot",
            *_under(prefix),
        )

    def seqs_beneath(self, *prefixes: str) -> list[tuple[str, int]]:
        """Slot and seq of every head at or beneath some prefixes; some may be tombstones."""
        query = f"SELECT s.slot, s.head FROM slots s WHERE {_BENEATH} AND s.head IS NOT NULL"
        return [row for prefix in prefixes for row in self._db.rows(query, *beneath(prefix))]

    def live_beneath(self, prefix: str) -> list[tuple[str, int]]:
        """Slot and seq of every live head at or beneath a prefix."""
        return self._db.rows(f"SELECT s.slot, e.seq {_LIVE} AND {_BENEATH}", *beneath(prefix))

    def is_live_beneath(self, prefix: str) -> bool:
        """Whether there is a live head at or beneath a prefix."""
        return self._db.row(f"SELECT 1 {_LIVE} AND {_BENEATH} LIMIT 1", *beneath(prefix)) is not None

    def crowded_beneath(self, prefix: str) -> list[str]:
        """The slots beneath a prefix that have more than one version."""
        query = (
            f"SELECT s.slot FROM events s WHERE {_BENEATH} AND s.quarantined = 0 "
            "GROUP BY s.slot HAVING count(*) > 1"
        )
        return [slot for (slot,) in self._db.rows(query, *beneath(prefix))]

    def dated_ahead(self, prefix: str, now: float) -> dict[str, int]:
        """The slots beneath a prefix whose newest version is dated too far ahead of the clock to be replaced before that date.

        Each comes with the date, seconds since 1970, whether it has a head or not.
        """
        query = f"SELECT s.slot, s.mark_at FROM slots s WHERE {_BENEATH} AND s.mark_at > ?"
        return dict(self._db.rows(query, *beneath(prefix), int(now) + MAX_FUTURE_SECONDS))

    def untaken_beneath(self, prefix: str) -> set[str]:
        """The slots beneath a prefix whose head is queued for relays, and that no relay has taken or shown."""
        query = (
            f"SELECT s.slot FROM slots s JOIN outbox o ON o.event = s.head WHERE {_BENEATH} "
            "GROUP BY s.slot HAVING max(o.state IN ('acked', 'confirmed', 'superseded')) = 0"
        )
        return {slot for (slot,) in self._db.rows(query, *beneath(prefix))}

    def superseded_beneath(self, prefix: str, until: int) -> list[str]:
        """The slots beneath a prefix whose head is dated up to a second, and outdated by what a relay says that it holds."""
        query = (
            "SELECT DISTINCT s.slot FROM slots s JOIN outbox o ON o.event = s.head "
            f"WHERE {_BENEATH} AND s.mark_at <= ? AND o.reason = 'newer-version'"
        )
        return [slot for (slot,) in self._db.rows(query, *beneath(prefix), until)]

    def slots_under(self, prefix: str) -> list[str]:
        """The slots directly under a prefix (no further `/`), with a head or without."""
        return [
            slot for (slot,) in self._db.rows(f"SELECT s.slot FROM slots s WHERE {_UNDER}", *_under(prefix))
        ]

    def embeddings(self, slots: Collection[str] | None = None) -> dict[str, int]:
        """Slot and seq of the embeddings at some slots (their own, not those of the memories), or of all embeddings."""
        if slots is not None:
            return dict(self._db.rows_in(f"{_EMBEDDINGS}s.slot IN ", slots))
        prefixes = _READABLE_EMBEDDINGS, _HASHED
        rows = (self._db.rows(f"{_EMBEDDINGS}{_BENEATH}", *beneath(prefix)) for prefix in prefixes)
        return {slot: seq for found in rows for slot, seq in found}

    # ── Of a whole kind ─────────────────────────────────────────────────────────────────

    def live_records(self) -> list[Head]:
        """The live heads of flat memories, journal entries and mirrored files, and all live heads at hashed addresses."""
        rows = self._db.rows(f"{_LIVE_HEADS}{_BENEATH}", "#", "$")
        rows += self._db.rows(f"{_LIVE_HEADS}{_BENEATH}", *beneath(address.JOURNAL_PREFIX))
        rows += self._db.rows(f"{_LIVE_HEADS}{_UNDER}", *_under(address.PREFIX))
        rows += self._db.rows(f"{_LIVE_HEADS}{_UNDER}", *_under(f"{address.PREFIX}{address.FILE}"))
        return [Head(*row) for row in rows]

    def flat_count(self) -> int:
        """The number of flat memories, without those at hashed addresses, which are few."""
        query = f"SELECT count(*) {_LIVE} AND {_UNDER}"
        ((count,),) = self._db.rows(query, address.PREFIX, _HASHED, len(address.PREFIX) + 1)
        return int(count)

    def has_many(self, count: int, without: str) -> bool:
        """Whether there are at least so many live heads, without those beneath a prefix."""
        query = f"SELECT count(*) FROM (SELECT 1 {_LIVE} AND NOT ({_BENEATH}) LIMIT ?)"
        return self._db.row(query, *beneath(without), count) == (count,)

    def live_ids(self) -> dict[str, bytes]:
        """The event id of every live head, by slot."""
        return dict(self._db.rows(f"SELECT s.slot, e.id {_LIVE}"))

    def live_after(self, slot: str, limit: int) -> list[Head]:
        """The next live heads after a slot, by slot."""
        query = f"{_LIVE_HEADS}s.slot > ? ORDER BY s.slot LIMIT ?"
        return [Head(*row) for row in self._db.rows(query, slot, limit)]

    def live_counts(self, apart: Mapping[str, str]) -> tuple[int, int, dict[str, int]]:
        """The number of live heads, and of these the journal entries, and those at some prefixes by the names of the counts.

        Args:
            apart: by the name of each count, the prefix of its slots.
        """
        counted = ["e.kind = ? OR substr(e.slot, 1, ?) = ?", *["substr(e.slot, 1, ?) = ?"] * len(apart)]
        sums = ", ".join(f"coalesce(sum({condition}), 0)" for condition in counted)
        lengths = (
            value for prefix in (address.JOURNAL_PREFIX, *apart.values()) for value in (len(prefix), prefix)
        )
        query = f"SELECT count(*), {sums} {_LIVE}"
        ((live, entries, *others),) = self._db.rows(query, KIND_DIRECT_MESSAGE, *lengths)
        return live, entries, dict(zip(apart, others, strict=True))

    # ── Of every role, deletions included ───────────────────────────────────────────────

    def dated_since(self, second: int) -> list[tuple[int, int, bytes]]:
        """Seq, created_at and id of every head that is dated at a second or later, in the order of date and id.

        An index in this order has all three values, so the bodies, which are fifty times as large, are not read.
        """
        return self._db.rows(
            "SELECT e.seq, e.created_at, e.id FROM events e JOIN slots s ON s.head = e.seq "
            "WHERE e.created_at >= ? ORDER BY e.created_at, e.id",
            second,
        )

    def kinds(self) -> list[tuple[int, int]]:
        """Kind and seq of every head."""
        return self._db.rows("SELECT e.kind, e.seq FROM events e JOIN slots s ON s.head = e.seq")

    def seqs_of_ids(self, ids: Iterable[bytes]) -> set[int]:
        """The seqs of the heads among some events, given by their ids."""
        query = "SELECT s.head FROM events e JOIN slots s ON s.head = e.seq WHERE e.id = ?"
        return {found[0] for ident in ids if (found := self._db.row(query, ident))}

    def is_head(self, seq: int | None) -> bool:
        """Whether an event is a head."""
        return self._db.row("SELECT 1 FROM slots WHERE head = ?", seq) is not None


def stored(row: tuple[Any, ...]) -> StoredEvent:
    """The event in a row with the columns seq, id, slot, role and body."""
    seq, ident, slot, role, body = row
    return StoredEvent(seq, ident, slot, ROLES[role], body)


def beneath(prefix: str) -> tuple[str, str]:
    """The values for `_BENEATH`: the range of slots that begin with a prefix."""
    return prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)


def _under(prefix: str) -> tuple[str, str, int]:
    """The values for `_UNDER`."""
    return *beneath(prefix), len(prefix) + 1
