"""Places: the d-tags under which relays hold the events of one slot.

A memory with a readable d-tag has one place, which is its slot, and is not listed here. A memory with a private d-tag, or
one that devices write in both modes, may have several. Its versions compete at its slot, whichever place they lie at, and a
relay keeps the newest of each place. So a place may hold an event that is no longer the head: it is *left over* until
somebody vacates it, with a tombstone and a deletion request that remove the place and not the memory. Both are filed under
a slot of their own (`address.vacated_slot`).

Guaranteed: nothing that is removed at a place removes a version of the memory here, and every event that relays may still
serve under another d-tag than the head's is listed as left over.

Why it is safe: a place is listed in the transaction that files its event, with the newest second seen there, and the mark
of its vacated slot only grows.

Cost: a query by index for each filed event; for a slot with several places, two writes more. Call the functions that write
inside a transaction.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.ledger.heads import beneath
from sense_memory.ledger.roles import IS_CONTENT, ROLES
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, Event


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.ledger.database import Database


class PlaceState(IntEnum):
    """What is to be done about a place."""

    IN_ORDER = 0
    LEFT_OVER = 1  # an event there is not the head, and has not been removed
    UNDERMINED = 2  # the head lies there, and relays do not keep it there: it must be written again


class SlotPlace(NamedTuple):
    """A place: its d-tag, its slot, and the newest second that was seen there."""

    tag: str
    slot: str
    at: int


_MARK: Final = "coalesce((SELECT mark_at FROM slots v WHERE v.slot = '=' || places.tag), -1)"
_STATES: Final = (
    f"UPDATE places SET state = CASE WHEN tag <> ?1 THEN at > {_MARK} "
    f"ELSE iif(?2 AND (at <= {_MARK} OR at > ?3), {int(PlaceState.UNDERMINED)}, 0) END WHERE slot = ?4"
)
_PUT: Final = (
    "INSERT INTO places (tag, slot, at) VALUES (?, ?, ?) "
    "ON CONFLICT DO UPDATE SET at = max(at, excluded.at), slot = excluded.slot"
)


def slot_at(db: Database, tag: str) -> str:
    """The slot of the events with a d-tag, as far as this ledger knows it."""
    found = db.row("SELECT slot FROM places WHERE tag = ?", tag)
    return address.filed_tag(tag) if found is None else found[0]


def is_listed(db: Database, tag: str) -> bool:
    """Whether a d-tag is listed as a place."""
    return db.row("SELECT 1 FROM places WHERE tag = ?", tag) is not None


def list_place(db: Database, tag: str, slot: str) -> None:
    """List a d-tag at which nothing was seen yet, so that a later deletion of it is understood."""
    (mark,) = db.row("SELECT mark_at FROM slots WHERE slot = ?", slot) or (None,)
    if mark is not None and db.row("SELECT 1 FROM places WHERE slot = ? LIMIT 1", slot) is None:
        db.execute(_PUT, slot, slot, mark)
    db.execute(_PUT, tag, slot, -1)


def record_place(
    db: Database, event: Event, slot: str, mark_before: int, *, is_doubtful: bool = False
) -> None:
    """List the place of an event that has just been filed at a slot.

    Args:
        db: the open ledger file.
        event: the event, at whichever address of the slot.
        slot: the slot.
        mark_before: the slot's mark before the event was filed, or -1.
        is_doubtful: whether relays prefer the event to the head, which it does not replace here.
    """
    tag = event.d_tag if event.kind == KIND_APP_DATA else None
    if tag is None or address.is_vacated_slot(slot):
        return
    is_listed = db.row("SELECT 1 FROM places WHERE slot = ? LIMIT 1", slot) is not None
    if not (is_listed or is_doubtful) and address.filed_tag(tag) == slot:
        return
    if not is_listed and mark_before >= 0:  # earlier events had the readable d-tag, or one would be listed
        db.execute(_PUT, slot, slot, mark_before)
    db.execute(_PUT, tag, slot, event.created_at)
    judge(db, slot)


def judge(db: Database, slot: str) -> None:
    """Note what is to be done about the places of a slot, after its head or a place changed."""
    head = db.row(
        "SELECT e.body, e.role, e.created_at FROM slots s JOIN events e ON e.seq = s.head WHERE s.slot = ?",
        slot,
    )
    tag = "" if head is None else Event.restored(head[0]).d_tag or ""
    is_there = head is not None and not ROLES[head[1]].is_removal
    db.execute(_STATES, tag, is_there, -1 if head is None else head[2], slot)


def vacate(db: Database, tag: str, until: int) -> None:
    """Record that the events at a d-tag are removed up to a second, and note what that means for its slot."""
    db.execute(
        "INSERT INTO slots (slot, mark_at) VALUES (?, ?) ON CONFLICT DO UPDATE SET mark_at = max(mark_at, excluded.mark_at)",
        address.vacated_slot(tag),
        until,
    )
    judge(db, slot_at(db, tag))


def newest_at(db: Database, tag: str) -> int:
    """The newest second seen at a d-tag, except what vacated it; -1 if nothing was seen there."""
    found = db.row("SELECT at FROM places WHERE tag = ?", tag)
    if found is None:
        slot = address.filed_tag(tag)
        is_listed = db.row("SELECT 1 FROM places WHERE slot = ? LIMIT 1", slot)
        found = None if is_listed else db.row("SELECT mark_at FROM slots WHERE slot = ?", slot)
    return -1 if found is None else int(found[0])


class Places:
    """The places of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def slot_at(self, tag: str) -> str:
        """The slot of the events with a d-tag, as far as this ledger knows it."""
        return slot_at(self._db, tag)

    def newest_at(self, tag: str) -> int:
        """The newest second seen at a d-tag, except what vacated it; -1 if nothing was seen there."""
        return newest_at(self._db, tag)

    def of(self, slot: str) -> list[SlotPlace]:
        """The listed places of a slot; empty if its only place is its readable d-tag."""
        return [
            SlotPlace(*row) for row in self._db.rows("SELECT tag, slot, at FROM places WHERE slot = ?", slot)
        ]

    def used(self, slot: str) -> list[str]:
        """The d-tags at which relays may hold an event of a slot, that of the head first; empty if none was ever seen."""
        head = self._db.row(
            "SELECT e.body FROM slots s JOIN events e ON e.seq = s.head WHERE s.slot = ?", slot
        )
        first = [] if head is None else [Event.restored(head[0]).d_tag or slot]
        listed = self._db.rows(f"SELECT tag FROM places WHERE slot = ? AND at > {_MARK} ORDER BY tag", slot)
        if not first and not listed and self._db.row("SELECT 1 FROM slots WHERE slot = ?", slot):
            first = [slot] if not self.of(slot) else []
        return list(dict.fromkeys((*first, *(tag for (tag,) in listed))))

    def tags(self) -> list[str]:
        """Every d-tag under which relays may hold events: no readable d-tag of a slot that never had one."""
        rows = self._db.rows(
            "SELECT slot FROM slots s WHERE substr(slot, 1, 1) NOT IN ('#', '=') "
            "AND NOT EXISTS (SELECT 1 FROM places p WHERE p.slot = s.slot) UNION ALL SELECT tag FROM places"
        )
        return [tag for (tag,) in rows]

    def marks(self, tags: Iterable[str]) -> dict[str, int]:
        """By d-tag, the second up to which its events were removed without the memory; others are left out."""
        slots = {address.vacated_slot(tag): tag for tag in tags}
        found: Mapping[str, int] = dict(
            self._db.rows_in("SELECT slot, mark_at FROM slots WHERE slot IN ", slots)
        )
        return {slots[slot]: mark for slot, mark in found.items()}

    def was_handed_out(self, slot: str, tag: str) -> bool:
        """Whether an event at a d-tag of a slot may be at a relay, or in an export.

        Where no such event is stored any more, it may be if this ledger ever had a relay.
        """
        rows = self._db.rows(
            "SELECT e.body, u.event IS NULL FROM events e LEFT JOIN unsent u ON u.event = e.seq "
            "WHERE e.slot = ? AND e.quarantined = 0",
            slot,
        )
        there = [is_sent for body, is_sent in rows if Event.restored(body).d_tag == tag]
        return any(there) if there else self._db.row("SELECT 1 FROM relays LIMIT 1") is not None

    def settle(self, place: SlotPlace) -> None:
        """Note that nothing has to be removed at a place, because nothing ever got there."""
        with self._db.transaction():
            vacate(self._db, place.tag, place.at)

    def heads(self, skipped: str) -> list[tuple[str, int, str]]:
        """Slot, seq and d-tag of every head with an address that relays hold until it is removed.

        Args:
            skipped: the prefix of slots to leave out.
        """
        rows = self._db.rows(
            "SELECT s.slot, e.seq, e.body FROM slots s JOIN events e ON e.seq = s.head "
            f"WHERE e.kind = ? AND e.{IS_CONTENT} AND s.slot >= ? AND s.slot < ? AND NOT (s.slot >= ? AND s.slot < ?)",
            KIND_APP_DATA,
            *beneath(address.PREFIX),
            *beneath(skipped),
        )
        return [(slot, seq, Event.restored(body).d_tag or "") for slot, seq, body in rows]

    def in_state(self, state: PlaceState) -> list[SlotPlace]:
        """The places about which something is to be done."""
        rows = self._db.rows(
            "SELECT tag, slot, at FROM places WHERE state = ? ORDER BY slot, tag", int(state)
        )
        return [SlotPlace(*row) for row in rows]

    def count(self, state: PlaceState) -> int:
        """The number of the places about which something is to be done."""
        (count,) = self._db.row("SELECT count(*) FROM places WHERE state = ?", int(state)) or (0,)
        return int(count)

    def ids_at(self, slot: str, tag: str) -> Sequence[str]:
        """The ids (hex) of the stored events of a slot that lie at a d-tag."""
        rows = self._db.rows("SELECT id, body FROM events WHERE slot = ? AND quarantined = 0", slot)
        return [ident.hex() for ident, body in rows if Event.restored(body).d_tag == tag]
