"""Versions, heads, marks and deletions: what becomes of an event that enters the ledger.

A *slot* is the logical place of an event: the d-tag of an addressable one, `#{id}` of any other. Its
*mark* is the newest version ever seen and never goes back; its *head* is the version that counts.
Losing versions stay, until the slot is forgotten. Functions here run inside a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.limits import MAX_FUTURE_SECONDS, MAX_SAFE_INTEGER
from sense_memory.nostr import address
from sense_memory.nostr.event import Event, wins_over


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.ledger.database import Database

_LOWEST_ID: Final = bytes(32)  # a mark that no version of the same second can beat


class Role(IntEnum):
    """What an event is to the ledger; only the envelope knows it from inside the ciphertext."""

    MEMORY = 0
    TOMBSTONE = 1
    DELETION = 2


class Fate(StrEnum):
    """What became of an event."""

    NEW = "new"  # it is the head now
    KNOWN = "known"  # it was there already
    STALE = "stale"  # an older version: kept in history, never the head
    DELETED = "deleted"  # of a forgotten memory: not kept
    QUARANTINED = "quarantined"  # dated too far ahead: kept, not applied before its time


@dataclass(frozen=True, slots=True)
class Filed:
    """An event with its place: what the ledger accepts.

    Attributes:
        event: verified.
        slot: its logical place.
        role: memory, tombstone or deletion.
    """

    event: Event
    slot: str
    role: Role = Role.MEMORY


@dataclass(frozen=True, slots=True)
class Stored:
    """An event as the ledger holds it.

    Attributes:
        seq: its place in the order of arrival, from 1.
        id: the event's id, 32 bytes.
        role: memory, tombstone or deletion.
        body: canonical JSON.
    """

    seq: int
    id: bytes
    role: Role
    body: bytes

    def event(self) -> Event:
        """The verified event."""
        return Event.restored(self.body)


def slot_of(event_id: str) -> str:
    """The slot of an event that has no address."""
    return f"#{event_id}"


def apply(db: Database, filed: Filed, now: float) -> tuple[Fate, int | None]:
    """File one event; returns its fate and, where it is stored, its seq."""
    event, ident = filed.event, bytes.fromhex(filed.event.id)
    known = db.row("SELECT seq, quarantined FROM events WHERE id = ?", ident)
    if known is not None:
        return (Fate.QUARANTINED if known[1] else Fate.KNOWN), int(known[0])
    if event.created_at > now + MAX_FUTURE_SECONDS:
        return Fate.QUARANTINED, _insert(db, filed, quarantined=True)
    if filed.role is Role.DELETION:
        seq = _insert(db, filed)
        _set_head(db, filed.slot, seq, event.created_at, ident)
        for target, second in _targets(event):
            _delete(db, target, second, ident)
        return Fate.NEW, seq
    until = _deleted_until(db, filed)
    if until is None or event.created_at > until:
        return _version(db, filed, ident)
    if filed.role is Role.TOMBSTONE and event.created_at == until and _has_no_head(db, filed.slot):
        # The deletion came first. Its tombstone is still worth having: it heals relays that ignore NIP-09.
        seq = _insert(db, filed)
        _set_head(db, filed.slot, seq, event.created_at, ident)
        return Fate.NEW, seq
    return Fate.DELETED, None


def release(db: Database, now: float) -> int:
    """Apply the quarantined events whose time has come; returns how many."""
    waiting = db.rows(
        "SELECT seq, slot, role, body FROM events WHERE quarantined = 1 AND created_at <= ? ORDER BY seq",
        int(now) + MAX_FUTURE_SECONDS,
    )
    for seq, slot, role, body in waiting:
        db.execute("DELETE FROM events WHERE seq = ?", seq)
        apply(db, Filed(Event.restored(body), slot, Role(role)), now)
    return len(waiting)


def mark(db: Database, slot: str) -> int | None:
    """The newest second ever seen at a slot, or None."""
    found = db.row("SELECT mark_at FROM slots WHERE slot = ?", slot)
    return None if found is None else int(found[0])


def _version(db: Database, filed: Filed, ident: bytes) -> tuple[Fate, int | None]:
    """An addressable version or a journal entry: the head if it wins, history otherwise."""
    created_at = filed.event.created_at
    slot = db.row(
        "SELECT s.mark_at, s.mark_id, e.seq, e.role FROM slots s LEFT JOIN events e ON e.seq = s.head "
        "WHERE s.slot = ?",
        filed.slot,
    )
    if slot is not None and not wins_over(created_at, filed.event.id, slot[0], slot[1].hex()):
        forgotten = slot[2] is None or slot[3] == Role.TOMBSTONE
        return (Fate.DELETED, None) if forgotten else (Fate.STALE, _insert(db, filed))
    seq = _insert(db, filed)
    _set_head(db, filed.slot, seq, created_at, ident)
    if slot is not None and slot[2] is not None and slot[3] == Role.MEMORY:
        # Coalescing: a replaced version needs no sending. Tombstones and deletions always go out.
        db.execute("DELETE FROM outbox WHERE event = ? AND state = 'queued'", slot[2])
    if filed.role is Role.TOMBSTONE:
        _purge(db, filed.slot, created_at, keep=seq)
    return Fate.NEW, seq


def _insert(db: Database, filed: Filed, *, quarantined: bool = False) -> int:
    event = filed.event
    cursor = db.execute(
        "INSERT INTO events (id, slot, kind, created_at, role, quarantined, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
        bytes.fromhex(event.id),
        filed.slot,
        event.kind,
        event.created_at,
        int(filed.role),
        int(quarantined),
        event.body(),
    )
    return int(cursor.lastrowid or 0)


def _set_head(db: Database, slot: str, seq: int, created_at: int, ident: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", slot, created_at, ident, seq)


def _targets(event: Event) -> Iterator[tuple[str, int]]:
    """What a NIP-09 request of ours deletes: slots up to its second, single events for good."""
    for coordinate in event.tag_values("a"):
        tag = address.d_tag_of(coordinate, event.pubkey)
        if tag is not None:
            yield tag, event.created_at
    for ident in event.tag_values("e"):
        yield slot_of(ident), MAX_SAFE_INTEGER


def _delete(db: Database, target: str, until: int, by_event: bytes) -> None:
    """Raise the water-mark of a target (never lower it) and purge what lies below."""
    before = db.row("SELECT until FROM deletions WHERE target = ?", target)
    if before is not None and before[0] >= until:
        return
    db.execute("INSERT OR REPLACE INTO deletions VALUES (?, ?, ?)", target, until, by_event)
    if target.startswith("#"):
        _delete_event(db, target)
        return
    found = db.row(
        "SELECT s.mark_at, e.seq, e.role FROM slots s LEFT JOIN events e ON e.seq = s.head WHERE s.slot = ?",
        target,
    )
    mark_at, head, role = found or (0, None, None)
    stays = mark_at > until or role == Role.TOMBSTONE
    if not stays:
        db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, NULL)", target, until, _LOWEST_ID)
    _purge(db, target, until, keep=head if stays and head is not None else 0)


def _delete_event(db: Database, target: str) -> None:
    """Delete one event by id: a journal entry, or one version of an address by another Nostr client."""
    found = db.row(
        "SELECT seq, slot, role, created_at FROM events WHERE id = ?", bytes.fromhex(target.removeprefix("#"))
    )
    if found is None or found[2] != Role.MEMORY:
        return
    seq, slot, _, created_at = found
    head = db.row("SELECT head FROM slots WHERE slot = ?", slot)
    if head is not None and head[0] == seq:
        db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, NULL)", slot, created_at, _LOWEST_ID)
    db.execute("DELETE FROM events WHERE seq = ?", seq)


def _purge(db: Database, slot: str, until: int, *, keep: int) -> None:
    """Remove the ciphertext of a slot's versions up to a second; the tombstone and newer ones stay."""
    db.execute(
        "DELETE FROM events WHERE slot = ? AND created_at <= ? AND seq <> ? AND quarantined = 0",
        slot,
        until,
        keep,
    )
    db.execute("DELETE FROM access WHERE slot = ?", slot)


def _deleted_until(db: Database, filed: Filed) -> int | None:
    """The second up to which a deletion of ours covers the event, or None."""
    slot, single = (
        db.row("SELECT until FROM deletions WHERE target = ?", target)
        for target in (filed.slot, slot_of(filed.event.id))
    )
    if single is not None and filed.role is Role.MEMORY:
        return int(single[0])
    return None if slot is None else int(slot[0])


def _has_no_head(db: Database, slot: str) -> bool:
    found = db.row("SELECT head FROM slots WHERE slot = ?", slot)
    return found is not None and found[0] is None
