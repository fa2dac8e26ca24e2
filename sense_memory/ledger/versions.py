"""Versions, heads, marks and deletions: how the ledger files an event.

A *slot* is the logical address of an event: the readable d-tag of an addressable event, whichever d-tag the event has (see
`places`), and `#{id}` of any other event. A slot's *mark* is
the newest second ever seen there; its *head* is the version that counts. The ledger stores the
living versions of a slot and its best tombstone; the best of all these, by NIP-01, is the head.

Guaranteed: the same events lead to the same heads and the same purges, whatever their order and number of arrivals, and
wherever the process is killed.

Why it is safe: every decision compares the event with facts that only grow (marks, deletions, removals), never with the
order of arrival. A mark never goes back; only a deleted journal entry loses its slot, and its deletion stays. The event, its slot and everything that the event removes change in one transaction. The insides of
versions are read before the transaction and passed as a `FilingContext`; if another version has been filed since,
`HeadMoved` undoes everything, and the caller reads again. A version that no removal reaches survives a later tombstone:
it is listed as a fork, and whoever opens the fork writes a newer version of it.

Cost: one query by index for each event (`_PREVIOUS_STATE`), up to two more for a memory that a relay served
(removals, and a better tombstone), and two writes for a new head; a removal reads each version of its slots once. Call these functions inside a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from sense_memory.ledger import places
from sense_memory.ledger.device_id import is_own_device, wrote
from sense_memory.ledger.removals import (
    Cover,
    FilingContext,
    Origin,
    Removal,
    add_forgotten_fork,
    add_fork,
    elect_head,
    is_held_by_relay,
    read_removal,
    record_overruled,
    remove_versions,
)
from sense_memory.ledger.roles import HAS_NO_ORIGIN, IS_HISTORY, IS_TOMBSTONE, ROLES, UNREAD, Role
from sense_memory.ledger.schema import HELD
from sense_memory.limits import MAX_FUTURE_SECONDS, MAX_SAFE_INTEGER
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Event, is_hex64, wins_over


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sense_memory.ledger.database import Database

# `+seq`, because SQLite would otherwise scan all events by seq instead of the few in quarantine.
DUE: Final = "SELECT slot, role, body FROM events WHERE quarantined = 1 AND created_at <= ? ORDER BY +seq"
_NEVER: Final = -1  # a second before every event

# One query: whether an event is known, and everything about its slot that decides how to file it.
_PREVIOUS_STATE: Final = (
    "SELECT k.seq, k.quarantined, s.mark_at, e.seq, e.created_at, e.id, e.role, d.until, x.by_event, x.until "
    "FROM (SELECT 1) LEFT JOIN events k ON k.id = ? "
    "LEFT JOIN slots s ON s.slot = ? LEFT JOIN events e ON e.seq = s.head "
    "LEFT JOIN deletions d ON d.target = ? LEFT JOIN deletions x ON x.target = ?"
)
# The `until` of a version deleted by id, if the request states what else it removes.
_ALONE: Final = MAX_SAFE_INTEGER - 1
_OF_SLOT: Final = "FROM events WHERE slot = ? AND quarantined = 0"


class FilingResult(StrEnum):
    """What became of an event."""

    NEW = "new"  # the event is the head now
    KNOWN = "known"  # the event was stored already
    STALE = "stale"  # an older version: kept as history
    DELETED = "deleted"  # forgotten, or covered by something forgotten: not kept
    QUARANTINED = "quarantined"  # dated too far ahead: kept, but not applied before its time


@dataclass(frozen=True, slots=True)
class FiledEvent:
    """An event with its slot and role, as the ledger files it.

    Attributes:
        event: the verified event.
        slot: the slot of the event; see the glossary of the package.
        role: memory, tombstone, deletion or embedding.
        origin: the origin that was read inside a memory; None if nobody has opened the event.
        removals: what was read inside a tombstone or a deletion: by slot, what it removes.
        tags: what was read inside a deletion: by private d-tag in its `a` tags, the slot.
        vacated: what was read inside a deletion: the d-tags at which it removes events, and not their memories.
    """

    event: Event
    slot: str
    role: Role = UNREAD
    origin: Origin | None = None
    removals: Mapping[str, Removal] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    vacated: tuple[str, ...] = ()

    @property
    def known_origin(self) -> Origin:
        """The origin; a plain origin if nobody has opened the event."""
        return self.origin or Origin.plain(self.event.id, self.event.created_at)

    @property
    def targets(self) -> frozenset[str]:
        """The slots at which this event removes something."""
        if self.role.is_tombstone:
            return frozenset((self.slot,))
        if self.role.is_request:
            found = deletion_targets(self.event, self._slot_of_tag)
            return frozenset(slot for slot, _ in found if not slot.startswith("#"))
        return frozenset()

    @property
    def only_vacates(self) -> bool:
        """Whether this deletion removes events at some d-tags, and no memory."""
        return bool(self.vacated) and not self.removals

    def _slot_of_tag(self, tag: str) -> str:
        return self.tags.get(tag) or address.filed_tag(tag)

    def removal(self, slot: str) -> Removal:
        """What is removed at a slot."""
        return self.removals.get(slot) or Removal.blind(self.event.created_at)


def slot_of(event: Event) -> str:
    """The slot of an event with a readable d-tag: its address, or its id if it has no address."""
    tag = event.d_tag if event.kind == KIND_APP_DATA else None
    return slot_of_id(event.id) if tag is None else address.filed_tag(tag)


def slot_of_id(event_id: str) -> str:
    """The slot of an event that has no address, by its id (hex)."""
    return f"#{event_id}"


def file_event(db: Database, filed: FiledEvent, context: FilingContext) -> tuple[FilingResult, int | None]:
    """File one event; returns the result and, if the event is stored, its seq."""
    event, ident = filed.event, bytes.fromhex(filed.event.id)
    if context.replaces:
        _replace_head(db, filed)
    state = _previous_state(db, filed, ident)
    if state.known is not None:
        return (FilingResult.QUARANTINED if state.quarantined else FilingResult.KNOWN), state.known
    if event.created_at > context.now + MAX_FUTURE_SECONDS:
        return FilingResult.QUARANTINED, _insert(db, filed, quarantined=True)
    if filed.role.is_request:
        return FilingResult.NEW, _file_request(db, filed, context)
    if address.is_vacated_slot(filed.slot):
        return _file_vacating(db, filed, state)
    if filed.role.is_tombstone:
        result, kept = _file_tombstone(db, filed, state, context)
        places.record_place(db, event, filed.slot, state.mark_at)
        return result, kept
    result, kept = _file_version(db, filed, state, context)
    is_outranked = result is FilingResult.STALE and not state.has_tombstone and state.wins(event)
    places.record_place(db, event, filed.slot, state.mark_at, is_doubtful=is_outranked)
    _end_vacating(db, event)
    if not context.knows and filed.role.has_origin:
        is_doubtful = result is FilingResult.STALE or state.has_tombstone or state.until != _NEVER
        add_fork(db, filed.slot, kept if is_doubtful else None)
        add_fork(
            db, filed.slot, state.head if result is FilingResult.NEW and not state.has_tombstone else None
        )
        if kept is not None and is_doubtful and read_removal(db, filed.slot).forgets(filed.known_origin):
            add_forgotten_fork(db, filed.slot, kept)
    if kept is not None and (copied := filed.known_origin.copy_of):
        _file_conflict_copy(db, filed, kept, copied, is_new=state.mark_at == _NEVER)
    return result, kept


def _file_request(db: Database, filed: FiledEvent, context: FilingContext) -> int:
    """File a deletion request, and purge what it removes; returns its seq."""
    event, ident = filed.event, bytes.fromhex(filed.event.id)
    seq = _insert(db, filed)
    _set_head(db, filed.slot, event.created_at, seq)
    for tag, slot in filed.tags.items():
        places.list_place(db, tag, slot)
    for tag in filed.vacated:
        _record_deletion(db, address.vacated_slot(tag), event.created_at, ident)
        places.vacate(db, tag, event.created_at)
    if filed.only_vacates:
        return seq
    for target, until in deletion_targets(event, partial(places.slot_at, db)):
        if not target.startswith("#"):
            _delete(db, target, (ident, until), filed.removal(target), context)
        elif not any(removal.is_automatic for removal in filed.removals.values()):
            _delete_by_id(db, target, _ALONE if filed.removals else until, ident, context)
    for coordinate in event.tag_values("a"):
        found = address.d_tag_of(coordinate, event.pubkey)
        if found is not None and places.is_listed(db, found):
            places.vacate(db, found, event.created_at)
    return seq


def _file_vacating(db: Database, filed: FiledEvent, state: _PreviousState) -> tuple[FilingResult, int | None]:
    """File a tombstone that removes what lies at its d-tag, and not the memory; none that came too late is kept."""
    event = filed.event
    tag = event.d_tag or ""
    if places.newest_at(db, tag) > event.created_at or not state.wins(event):
        return FilingResult.DELETED, None
    _end_vacating(db, event)
    seq = _insert(db, filed)
    _set_head(db, filed.slot, max(state.mark_at, event.created_at), seq)
    places.judge(db, places.slot_at(db, tag))
    return FilingResult.NEW, seq


def _end_vacating(db: Database, event: Event) -> None:
    """Remove the tombstone that vacated the d-tag of an event, which replaces it at relays."""
    tag = event.d_tag
    if event.kind != KIND_APP_DATA or tag is None:
        return
    slot = address.vacated_slot(tag)
    found = db.row(
        "SELECT e.seq, e.created_at, e.id FROM slots s JOIN events e ON e.seq = s.head WHERE s.slot = ?", slot
    )
    if found is not None and wins_over(event.created_at, event.id, found[1], found[2].hex()):
        db.execute("UPDATE slots SET head = NULL WHERE slot = ?", slot)
        db.execute("DELETE FROM events WHERE seq = ?", found[0])


def _file_conflict_copy(db: Database, filed: FiledEvent, seq: int, copied: str, *, is_new: bool) -> None:
    """List a conflict copy of a forgotten text as a fork; record any other new copy, for the devices of both texts."""
    origin = filed.known_origin
    if read_removal(db, copied).names(origin.said):
        add_fork(db, filed.slot, seq)
    elif is_new:
        record_overruled(db, filed.slot)


def due(db: Database, now: float) -> list[FiledEvent]:
    """The quarantined events that are due, as they were filed."""
    waiting = db.rows(DUE, int(now) + MAX_FUTURE_SECONDS)
    return [FiledEvent(Event.restored(body), slot, ROLES[role]) for slot, role, body in waiting]


def release(db: Database, items: Iterable[FiledEvent], context: FilingContext) -> int:
    """File quarantined events that are due; returns how many."""
    count = 0
    for item in items:
        count += db.execute(
            "DELETE FROM events WHERE quarantined = 1 AND id = ?", bytes.fromhex(item.event.id)
        ).rowcount
        file_event(db, item, context)
    return count


def mark(db: Database, slot: str) -> int | None:
    """The newest second ever seen at a slot, or None."""
    found = db.row("SELECT mark_at FROM slots WHERE slot = ?", slot)
    return None if found is None else int(found[0])


def marks(db: Database, slots: Iterable[str]) -> dict[str, int]:
    """As `mark`, for many slots; slots never seen are left out."""
    return dict(db.rows_in("SELECT slot, mark_at FROM slots WHERE slot IN ", slots))


@dataclass(frozen=True, slots=True)
class _PreviousState:
    """A slot before an event is filed there.

    Attributes:
        known: the event's own seq, or None for a new event.
        quarantined: whether the event is in quarantine.
        mark_at: the slot's mark, or `_NEVER`.
        head: the head's seq, or None.
        head_at: the head's created_at, or `_NEVER`.
        head_id: the head's id, hex.
        has_tombstone: whether the head is a tombstone.
        until: the second up to which a deletion covers the slot, or `_NEVER`.
        deleted_by: the deletion that names the event itself, or None.
        is_alone: whether that deletion states what else it removes, so that older versions stay.
    """

    known: int | None
    quarantined: bool
    mark_at: int
    head: int | None
    head_at: int
    head_id: str
    has_tombstone: bool
    until: int
    deleted_by: bytes | None
    is_alone: bool

    def wins(self, event: Event) -> bool:
        """Whether an event replaces the head (NIP-01)."""
        return self.head is None or wins_over(event.created_at, event.id, self.head_at, self.head_id)


def _previous_state(db: Database, filed: FiledEvent, ident: bytes) -> _PreviousState:
    found = db.row(_PREVIOUS_STATE, ident, filed.slot, filed.slot, slot_of_id(filed.event.id)) or (None,) * 10
    known, quarantined, mark_at, head, head_at, head_id, role, until, deleted_by, named_until = found
    return _PreviousState(
        known,
        bool(quarantined),
        _NEVER if mark_at is None else mark_at,
        head,
        _NEVER if head_at is None else head_at,
        "" if head_id is None else head_id.hex(),
        role is not None and ROLES[role].is_tombstone,
        _NEVER if until is None else until,
        deleted_by,
        named_until == _ALONE,
    )


def _replace_head(db: Database, filed: FiledEvent) -> None:
    """Make room for a new head in the same second: a memory becomes history, any other event is deleted."""
    (head,) = db.row("SELECT head FROM slots WHERE slot = ?", filed.slot) or (None,)
    db.execute("UPDATE slots SET head = NULL WHERE slot = ?", filed.slot)
    if (history := filed.role.history) is None:
        db.execute("DELETE FROM events WHERE seq = ?", head)
        return
    for table in ("outbox", "unsent"):
        db.execute(f"DELETE FROM {table} WHERE event = ?", head)
    db.execute("UPDATE events SET role = ? WHERE seq = ?", int(history), head)


def _file_version(
    db: Database, filed: FiledEvent, state: _PreviousState, context: FilingContext
) -> tuple[FilingResult, int | None]:
    """File a memory, a journal entry or an embedding: as head if it wins, else as history; not at all if removed."""
    event = filed.event
    if state.deleted_by is not None:
        if not state.is_alone:
            _delete_version(db, filed.slot, event.created_at, state.deleted_by, context)
        return FilingResult.DELETED, None
    wins = _wins(filed, state, context)
    is_covered = event.created_at <= state.until or (
        not wins and (state.has_tombstone or _has_better_tombstone(db, filed))
    )
    if not context.is_ours and _is_removed(db, filed, is_covered=is_covered):
        return FilingResult.DELETED, None
    if wins and not is_covered:
        if not context.is_ours:
            _record_if_overruled(db, filed, state, context)
        seq = _insert(db, filed)
        _set_head(db, filed.slot, max(state.mark_at, event.created_at), seq)
        if not filed.role.traits.keeps_older:
            db.execute(f"DELETE {_OF_SLOT} AND role = ? AND seq <> ?", filed.slot, int(filed.role), seq)
        if state.head is not None and not state.has_tombstone:
            # A replaced version need not be sent; tombstones and deletions are always sent.
            db.execute(
                "DELETE FROM outbox WHERE event = ? AND state IN ('queued', 'refused', 'parked')", state.head
            )
        return FilingResult.NEW, seq
    if not (wins or context.is_ours):
        _record_if_unknown(db, filed, state, context)
    return FilingResult.STALE, _insert(db, filed) if filed.role.traits.keeps_older else None


def _wins(filed: FiledEvent, state: _PreviousState, context: FilingContext) -> bool:
    """Whether a version replaces the head: by date, except that a copy at another d-tag is no newer than its original.

    So an edit that another device wrote meanwhile wins over the copy, whose date is later.
    """
    plain = state.wins(filed.event)
    if context.is_ours or state.head is None or state.has_tombstone or not overwrites(filed):
        return plain
    if context.origins is None or bytes.fromhex(state.head_id) not in context.origins:
        return plain
    mine, theirs = filed.known_origin.rank, context.origins[bytes.fromhex(state.head_id)].rank
    return plain if mine == theirs else mine > theirs


def _is_removed(db: Database, filed: FiledEvent, *, is_covered: bool) -> bool:
    """Whether a version is removed, and not kept even as history.

    A version of a forgotten text that is dated later is kept, because it must first be replaced on relays.
    """
    if not filed.role.has_origin:
        return is_covered
    removal = read_removal(db, filed.slot)
    return removal.names(filed.event.id) or (is_covered and removal.reaches(filed.known_origin))


def _record_if_overruled(
    db: Database, filed: FiledEvent, state: _PreviousState, context: FilingContext
) -> None:
    """Before a head is replaced: record if it is an edit of this device that the new version does not know, or if a
    memory that was forgotten is written again.
    """
    if context.origins is None or state.head is None:
        return
    if state.has_tombstone:
        removal = read_removal(db, filed.slot)
        if filed.role.has_origin and removal.is_forgetting and not removal.forgets(filed.known_origin):
            record_overruled(db, filed.slot)
        return
    if not overwrites(filed):
        return
    old, new = context.of(bytes.fromhex(state.head_id), state.head_at), filed.known_origin
    if old.text == new.text or new.knows(old):
        return
    is_ours = is_own_device(db, old.device)
    if _may_merge(filed):
        is_lost = is_ours and not is_held_by_relay(db, old.said)
    else:
        is_lost = db.row(_HELD, state.head) is None or (bool(new.seen) and is_ours)
    if is_lost:
        record_overruled(db, filed.slot)


def _record_if_unknown(
    db: Database, filed: FiledEvent, state: _PreviousState, context: FilingContext
) -> None:
    """Record an edit that a relay serves after an edit replaced it unread: one of another device, if the edit that counts
    was written here, or one under an id of this ledger, which was set back then or copied.
    """
    if context.origins is None or state.head is None or state.has_tombstone or not overwrites(filed):
        return
    head, back = context.of(bytes.fromhex(state.head_id), state.head_at), filed.known_origin
    if not back.device or back.text == head.text or head.knows(back):
        return
    if is_own_device(db, back.device) or wrote(db, head.device, head.said):
        record_overruled(db, filed.slot)


def overwrites(filed: FiledEvent) -> bool:
    """Whether a memory replaces the head without merging: any except a palace memory with a version vector.

    A page of the log does not: readers unite the pages, so no page replaces the entries of another.
    """
    if not filed.role.has_origin or address.is_log_page(filed.slot):
        return False
    return not (_may_merge(filed) and filed.known_origin.seen)


def _may_merge(filed: FiledEvent) -> bool:
    return address.may_be_persona(filed.slot) and filed.known_origin.is_merged


def _file_tombstone(
    db: Database, filed: FiledEvent, state: _PreviousState, context: FilingContext
) -> tuple[FilingResult, int | None]:
    """File a tombstone, and purge what it removes.

    The best tombstone of a slot is kept even after a deletion, because it replaces the memory on relays that ignore
    NIP-09.
    """
    event = filed.event
    wins = state.wins(event)
    result, seq = (FilingResult.NEW if wins else FilingResult.STALE), None
    if wins or not (state.has_tombstone or _has_better_tombstone(db, filed)):
        seq = _insert(db, filed)
        db.execute("UPDATE slots SET head = NULL WHERE slot = ?", filed.slot)
        db.execute(
            f"DELETE {_OF_SLOT} AND seq <> ? AND {HAS_NO_ORIGIN} "
            "AND (created_at < ? OR created_at = ? AND id > ?)",
            filed.slot,
            seq,
            event.created_at,
            event.created_at,
            bytes.fromhex(event.id),
        )
    else:
        result = FilingResult.DELETED
    remove_versions(db, filed.slot, Cover(event.created_at, event.id), filed.removal(filed.slot), context)
    return result, seq


_HELD: Final = f"SELECT 1 FROM outbox WHERE event = ? AND state IN {HELD} LIMIT 1"


def _has_better_tombstone(db: Database, filed: FiledEvent) -> bool:
    """Whether a stored tombstone wins over an event."""
    found = db.row(f"SELECT created_at, id {_OF_SLOT} AND {IS_TOMBSTONE}", filed.slot)
    return found is not None and wins_over(found[0], found[1].hex(), filed.event.created_at, filed.event.id)


def _insert(db: Database, filed: FiledEvent, *, quarantined: bool = False) -> int:
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


def deletion_targets(
    event: Event, slot_at: Callable[[str], str] = address.filed_tag
) -> Iterator[tuple[str, int]]:
    """The slots that a NIP-09 request deletes, each with the last second that is deleted there.

    For an address this is the second of the request; a single event is deleted whatever its date.

    Args:
        event: the request.
        slot_at: returns the slot of a d-tag; by default of a readable one.
    """
    for coordinate in event.tag_values("a"):
        tag = address.d_tag_of(coordinate, event.pubkey)
        if tag is not None and address.is_ours(tag):
            yield slot_at(tag), event.created_at
    for ident in event.tag_values("e"):
        if is_hex64(ident):
            yield slot_of_id(ident), MAX_SAFE_INTEGER


def stored_targets(db: Database, body: bytes) -> Iterator[tuple[str, int]]:
    """As `deletion_targets` for a stored request, with the slots of private d-tags that this ledger knows."""
    return deletion_targets(Event.restored(body), partial(places.slot_at, db))


def _delete(
    db: Database, slot: str, by_event: tuple[bytes, int], removal: Removal, context: FilingContext
) -> None:
    """Record a deletion of a slot up to a second (which never goes back), and purge what is removed there."""
    ident, until = by_event
    _record_deletion(db, slot, until, ident)
    remove_versions(db, slot, Cover(until), removal, context)


def _record_deletion(db: Database, target: str, until: int, by_event: bytes) -> None:
    db.execute(
        "INSERT INTO deletions (target, until, by_event) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
        "SET until = excluded.until, by_event = excluded.by_event WHERE until < excluded.until",
        target,
        until,
        by_event,
    )


def _delete_by_id(db: Database, target: str, until: int, by_event: bytes, context: FilingContext) -> None:
    """Delete one event by id: a journal entry, a version that the request names, or one deleted by another client."""
    _record_deletion(db, target, until, by_event)
    found = db.row(
        "SELECT seq, slot, role, created_at, quarantined FROM events WHERE id = ?",
        bytes.fromhex(target.removeprefix("#")),
    )
    if found is None or ROLES[found[2]].is_removal:
        return
    seq, slot, _, created_at, quarantined = found
    if slot == target:
        db.execute("DELETE FROM slots WHERE slot = ?", slot)
    else:
        db.execute("UPDATE slots SET head = NULL WHERE head = ?", seq)
    db.execute("DELETE FROM events WHERE seq = ?", seq)
    if slot != target and not quarantined and until == _ALONE:
        elect_head(db, slot, created_at)
    elif slot != target and not quarantined:
        _delete_version(db, slot, created_at, by_event, context)


def _delete_version(
    db: Database, slot: str, created_at: int, by_event: bytes, context: FilingContext
) -> None:
    """After another client deleted a version by id, delete the older versions too, so that they do not come back."""
    if not slot.startswith("#"):
        until = created_at - 1
        # A blind removal goes by date, so nobody has to open the versions.
        _delete(db, slot, (by_event, until), Removal.blind(until), FilingContext(context.now))
        db.execute(f"DELETE {_OF_SLOT} AND {IS_HISTORY} AND created_at = ?", slot, created_at)
        db.execute("UPDATE slots SET mark_at = max(mark_at, ?) WHERE slot = ?", created_at, slot)
