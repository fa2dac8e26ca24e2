"""Versions, heads, marks and deletions: what becomes of an event that enters the ledger.

A *slot* is the logical place of an event: the d-tag of an addressable one, `#{id}` of any other. Its
*mark* is the newest second ever seen and never goes back; its *head* is the version that counts. What
is stored of a slot is its living versions and its best tombstone; the first of them is the head. So the
order in which events arrive never matters. Functions here run inside a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.ledger import forks
from sense_memory.limits import MAX_FUTURE_SECONDS, MAX_SAFE_INTEGER
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Event, is_hex64, wins_over


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sense_memory.ledger.database import Database

_NEVER: Final = -1  # a second before every event

# Whether an event is known, and everything about its slot that decides on it, in one look.
_PLACE: Final = (
    "SELECT k.seq, k.quarantined, s.mark_at, e.seq, e.created_at, e.id, e.role, d.until, x.by_event "
    "FROM (SELECT 1) LEFT JOIN events k ON k.id = ? "
    "LEFT JOIN slots s ON s.slot = ? LEFT JOIN events e ON e.seq = s.head "
    "LEFT JOIN deletions d ON d.target = ? LEFT JOIN deletions x ON x.target = ?"
)
_OF_SLOT: Final = "FROM events WHERE slot = ? AND quarantined = 0"


class Role(IntEnum):
    """What an event is to the ledger; only the envelope knows it from inside the ciphertext."""

    MEMORY = 0
    TOMBSTONE = 1
    DELETION = 2
    EMBEDDING = 3  # vectors of a memory: nobody's memory, and without history
    REPLACED = 4  # a memory that was rewritten in its own second, before anybody was given it: history only


class Fate(StrEnum):
    """What became of an event."""

    NEW = "new"  # it is the head now
    KNOWN = "known"  # it was there already
    STALE = "stale"  # an older version: kept in history, never the head
    DELETED = "deleted"  # forgotten, or older than what was forgotten: not kept
    QUARANTINED = "quarantined"  # dated too far ahead: kept, not applied before its time


@dataclass(frozen=True, slots=True)
class Filed:
    """An event with its place: what the ledger accepts.

    Attributes:
        event: verified.
        slot: its logical place.
        role: memory, tombstone, deletion or embedding.
    """

    event: Event
    slot: str
    role: Role = Role.MEMORY


class Stored(NamedTuple):
    """An event as the ledger holds it. (A tuple, because ten thousand are made at a start.)

    Attributes:
        seq: its place in the order of arrival, from 1.
        id: the event's id, 32 bytes.
        slot: its logical place.
        role: memory, tombstone, deletion or embedding.
        body: canonical JSON.
    """

    seq: int
    id: bytes
    slot: str
    role: Role
    body: bytes

    def __repr__(self) -> str:
        return f"Stored(seq={self.seq}, id={self.id.hex()[:16]}…, slot={self.slot!r}, role={self.role!r})"

    @property
    def created_at(self) -> int:
        """The event's, seconds since 1970."""
        return self.event().created_at

    def event(self) -> Event:
        """The verified event."""
        return Event.restored(self.body)


def slot_of(event: Event) -> str:
    """Where an event is filed: its address, or its id where it has none."""
    tag = event.d_tag if event.kind == KIND_APP_DATA else None
    return slot_of_id(event.id) if tag is None else address.filed_tag(tag)


def slot_of_id(event_id: str) -> str:
    """The slot of an event that has no address, by its id (hex)."""
    return f"#{event_id}"


def apply(
    db: Database, filed: Filed, now: float, *, knows: bool = False, replaces: bool = False
) -> tuple[Fate, int | None]:
    """File one event; returns its fate and, if stored, its seq.

    Args:
        db: the open ledger file.
        filed: what.
        now: seconds since 1970.
        knows: it knows all that is there of its slot.
        replaces: it takes the place of the head, whose second it shares (see `handover`).
    """
    event, ident = filed.event, bytes.fromhex(filed.event.id)
    if replaces:
        _make_room(db, filed)
    place = _place(db, filed, ident)
    if place.known is not None:
        return (Fate.QUARANTINED if place.quarantined else Fate.KNOWN), place.known
    if event.created_at > now + MAX_FUTURE_SECONDS:
        return Fate.QUARANTINED, _insert(db, filed, quarantined=True)
    if filed.role is Role.DELETION:
        seq = _insert(db, filed)
        _set_head(db, filed.slot, event.created_at, seq)
        for target, until in deletion_targets(event):
            _delete(db, target, until, ident)
            forks.doubt_head(db, target)
        return Fate.NEW, seq
    if filed.role is Role.TOMBSTONE:
        fate, kept = _bury(db, filed, place)
        forks.doubt_head(db, filed.slot)
        return fate, kept
    fate, kept = _keep(db, filed, place)
    if not knows and filed.role is Role.MEMORY:
        is_doubtful = fate is Fate.STALE or place.buried or place.until != _NEVER
        forks.doubt(db, filed.slot, kept if is_doubtful else None)
        forks.doubt(db, filed.slot, place.head if fate is Fate.NEW and not place.buried else None)
    return fate, kept


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


def marks(db: Database, slots: Iterable[str]) -> dict[str, int]:
    """The newest second ever seen at each of some slots; those never seen are left out."""
    return dict(db.rows_in("SELECT slot, mark_at FROM slots WHERE slot IN ", slots))


@dataclass(frozen=True, slots=True)
class _Place:
    """A slot before an event is filed there.

    Attributes:
        known: the event's own seq, or None where it is new.
        quarantined: whether it is kept for later.
        mark_at: its mark, or `_NEVER`.
        head: the head's seq, or None.
        head_at: the head's created_at, or `_NEVER`.
        head_id: the head's id, hex.
        buried: whether the head is a tombstone.
        until: up to which second a deletion covers the slot, or `_NEVER`.
        deleted_by: the deletion that names the event itself, or None.
    """

    known: int | None
    quarantined: bool
    mark_at: int
    head: int | None
    head_at: int
    head_id: str
    buried: bool
    until: int
    deleted_by: bytes | None

    def wins(self, event: Event) -> bool:
        """Whether an event replaces the head (NIP-01)."""
        return self.head is None or wins_over(event.created_at, event.id, self.head_at, self.head_id)


def _place(db: Database, filed: Filed, ident: bytes) -> _Place:
    found = db.row(_PLACE, ident, filed.slot, filed.slot, slot_of_id(filed.event.id)) or (None,) * 9
    known, quarantined, mark_at, head, head_at, head_id, role, until, deleted_by = found
    return _Place(
        known,
        bool(quarantined),
        _NEVER if mark_at is None else mark_at,
        head,
        _NEVER if head_at is None else head_at,
        "" if head_id is None else head_id.hex(),
        role == Role.TOMBSTONE,
        _NEVER if until is None else until,
        deleted_by,
    )


def _make_room(db: Database, filed: Filed) -> None:
    """The head is none any more: a memory becomes history where another comes, of anything else nothing is left."""
    (head,) = db.row("SELECT head FROM slots WHERE slot = ?", filed.slot) or (None,)
    db.execute("UPDATE slots SET head = NULL WHERE slot = ?", filed.slot)
    if filed.role is not Role.MEMORY:
        db.execute("DELETE FROM events WHERE seq = ?", head)
        return
    for table in ("outbox", "unsent"):
        db.execute(f"DELETE FROM {table} WHERE event = ?", head)
    db.execute(f"UPDATE events SET role = {int(Role.REPLACED)} WHERE seq = ?", head)


def _keep(db: Database, filed: Filed, place: _Place) -> tuple[Fate, int | None]:
    """A memory, an entry or an embedding: the head if it wins, else history, and nothing where it was forgotten."""
    event = filed.event
    if place.deleted_by is not None:
        _delete_version(db, filed.slot, event.created_at, place.deleted_by)
        return Fate.DELETED, None
    if event.created_at <= place.until:
        return Fate.DELETED, None
    if place.wins(event):
        seq = _insert(db, filed)
        _set_head(db, filed.slot, max(place.mark_at, event.created_at), seq)
        if filed.role is Role.EMBEDDING:
            db.execute(f"DELETE {_OF_SLOT} AND role = {int(Role.EMBEDDING)} AND seq <> ?", filed.slot, seq)
        if place.head is not None and not place.buried:
            # Coalescing: a replaced version needs no sending. Tombstones and deletions always go out.
            db.execute(
                "DELETE FROM outbox WHERE event = ? AND state IN ('queued', 'refused', 'parked')", place.head
            )
        return Fate.NEW, seq
    if place.buried or _has_better_tombstone(db, filed):
        return Fate.DELETED, None
    return Fate.STALE, None if filed.role is Role.EMBEDDING else _insert(db, filed)


def _bury(db: Database, filed: Filed, place: _Place) -> tuple[Fate, int | None]:
    """A tombstone: the versions that it wins over go for good.

    The best one stays at its slot even where a deletion came first, because it heals relays that ignore
    NIP-09.
    """
    event = filed.event
    wins = place.wins(event)
    if not wins and (place.buried or _has_better_tombstone(db, filed)):
        return Fate.DELETED, None
    seq = _insert(db, filed)
    if wins:
        _set_head(db, filed.slot, max(place.mark_at, event.created_at), seq)
        db.execute("DELETE FROM access WHERE slot = ?", filed.slot)
    db.execute(
        f"DELETE {_OF_SLOT} AND seq <> ? "
        f"AND (created_at < ? OR created_at = ? AND (id > ? OR role = {int(Role.REPLACED)}))",
        filed.slot,
        seq,
        event.created_at,
        event.created_at,
        bytes.fromhex(event.id),
    )
    return (Fate.NEW if wins else Fate.STALE), seq


def _has_better_tombstone(db: Database, filed: Filed) -> bool:
    """Whether history holds a tombstone that wins over an event."""
    found = db.row(f"SELECT created_at, id {_OF_SLOT} AND role = {int(Role.TOMBSTONE)}", filed.slot)
    return found is not None and wins_over(found[0], found[1].hex(), filed.event.created_at, filed.event.id)


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


def _set_head(db: Database, slot: str, mark_at: int, head: int | None) -> None:
    db.execute("INSERT OR REPLACE INTO slots (slot, mark_at, head) VALUES (?, ?, ?)", slot, mark_at, head)


def deletion_targets(event: Event) -> Iterator[tuple[str, int]]:
    """What a NIP-09 request of ours deletes: slots up to its second, single events for good."""
    for coordinate in event.tag_values("a"):
        tag = address.d_tag_of(coordinate, event.pubkey)
        if tag is not None and address.is_ours(tag):
            yield address.filed_tag(tag), event.created_at
    for ident in event.tag_values("e"):
        if is_hex64(ident):
            yield slot_of_id(ident), MAX_SAFE_INTEGER


def _delete(db: Database, target: str, until: int, by_event: bytes) -> None:
    """Raise the water-mark of a target (never lower it) and purge what lies below."""
    db.execute(
        "INSERT INTO deletions (target, until, by_event) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
        "SET until = excluded.until, by_event = excluded.by_event WHERE until < excluded.until",
        target,
        until,
        by_event,
    )
    if target.startswith("#"):
        _delete_by_id(db, target, by_event)
    else:
        _purge(db, target, until)


def _delete_by_id(db: Database, target: str, by_event: bytes) -> None:
    """Delete one event by id: a journal entry, or a version that another Nostr client deletes."""
    found = db.row(
        "SELECT seq, slot, role, created_at, quarantined FROM events WHERE id = ?",
        bytes.fromhex(target.removeprefix("#")),
    )
    if found is None or found[2] in {Role.TOMBSTONE, Role.DELETION}:
        return
    seq, slot, _, created_at, quarantined = found
    if slot == target:
        db.execute("DELETE FROM slots WHERE slot = ?", slot)
    else:
        db.execute("UPDATE slots SET head = NULL WHERE head = ?", seq)
    db.execute("DELETE FROM events WHERE seq = ?", seq)
    if slot != target and not quarantined:
        _delete_version(db, slot, created_at, by_event)


def _delete_version(db: Database, slot: str, created_at: int, by_event: bytes) -> None:
    """A version was deleted by its id: whoever did that does not want the older ones back either."""
    if not slot.startswith("#"):
        _delete(db, slot, created_at - 1, by_event)
        db.execute(f"DELETE {_OF_SLOT} AND role = {int(Role.REPLACED)} AND created_at = ?", slot, created_at)
        db.execute("UPDATE slots SET mark_at = max(mark_at, ?) WHERE slot = ?", created_at, slot)


def _purge(db: Database, slot: str, until: int) -> None:
    """Remove a slot's versions up to a second, tombstones excepted, and elect the head from what is left."""
    db.execute("UPDATE slots SET head = NULL WHERE slot = ?", slot)  # a foreign key: it goes first
    db.execute(f"DELETE {_OF_SLOT} AND role <> {int(Role.TOMBSTONE)} AND created_at <= ?", slot, until)
    left = db.row(
        f"SELECT seq, role {_OF_SLOT} AND role <> {int(Role.REPLACED)} ORDER BY created_at DESC, id LIMIT 1",
        slot,
    )
    db.execute(
        "INSERT INTO slots (slot, mark_at, head) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
        "SET mark_at = max(mark_at, excluded.mark_at), head = excluded.head",
        slot,
        until,
        None if left is None else left[0],
    )
    if left is None or left[1] != Role.MEMORY:
        db.execute("DELETE FROM access WHERE slot = ?", slot)
