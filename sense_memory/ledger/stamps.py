"""The version clock: the second of a new event (docs/wire-format.md), and the events that were not handed out yet.

A new event gets the latest second that is after the address's mark, not after now, at most an hour back, and holds
fewer than 50 events of this ledger. If there is no such second, the event gets the first of these that there is:

* the mark itself, if the version there was not handed out and may be replaced (see below);
* the latest second as above that holds fewer than 200 events;
* the first second ahead that holds fewer than 200.

Guaranteed: no two versions of an address that were handed out share a second. No second holds more than 200 events of
this ledger (deletion requests aside), so a second always fits a page of 500. Rewriting an address dates it at most a
second ahead. A process that alone writes up to 180,000 new addresses in an hour puts at most 50 of them into a second,
so a second fits the smaller pages of some relays too.

Why it is safe: the ledger checks inside the transaction that writes the event that its second is free and below 200, so
several processes may stamp events at the same time. Together, they may put more than 50 events into a second.

Cost: one count by index for each second examined; a second that was full is not counted again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sense_memory.errors import ClockSkewError
from sense_memory.ledger.roles import IS_LIVE, IS_NO_HISTORY, IS_TOMBSTONE, ROLES, Role
from sense_memory.limits import (
    MAX_EVENTS_PER_SECOND_COUNT,
    MAX_FUTURE_SECONDS,
    STAMP_LOOKBACK_SECONDS,
    USUAL_EVENTS_PER_SECOND_COUNT,
)
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from sense_memory.ledger.database import Database


class BurstWait(Exception):
    """A burst of this ledger is dated 300 s ahead: the writer waits, and asks again.

    Attributes:
        seconds: how long to wait.
    """

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"the burst is {seconds} s too far ahead")


class Stamps:
    """Seconds for a series of new events; each event is counted at once.

    Args:
        now: this machine's time, whole seconds since 1970.
        used: returns how many events of this ledger a second holds. Its second argument is the number of events from which
            on the second is full; if the second holds at least so many, the result may be any number from there on.
        below: returns a second before a given second; all seconds in between are known to hold 50 events or more.
    """

    def __init__(
        self,
        now: int,
        used: Callable[[int, int], int],
        below: Callable[[int], int] = lambda second: second - 1,
    ) -> None:
        self._now = now
        self._used, self._below = used, below
        self._stored: dict[tuple[int, int], int] = {}  # by second and room: the events stored
        self._stamped: Counter[int] = Counter()  # by second: those stamped since
        self._full_from: dict[int, int] = {}  # by room: every second from here to `now` is known to be full

    def assign(self, mark: int | None, *, is_open: bool = False) -> int:
        """Assign a second to one more event at an address.

        Args:
            mark: the second of the newest version at the address, or None.
            is_open: whether that version may be replaced.

        Raises:
            ClockSkewError: the mark is more than 300 s ahead of this clock.
            BurstWait: every second up to 300 s ahead is full of events of this ledger.
        """
        second = self._behind(mark, USUAL_EVENTS_PER_SECOND_COUNT)
        if second is None and is_open and mark is not None and mark <= self._now + MAX_FUTURE_SECONDS:
            return mark
        if second is None:
            second = self._behind(mark, MAX_EVENTS_PER_SECOND_COUNT)
        if second is None:
            second = self._ahead(mark)
        self._stamped[second] += 1
        return second

    def _behind(self, mark: int | None, room: int) -> int | None:
        lowest = max(self._now - STAMP_LOOKBACK_SECONDS, 0 if mark is None else mark + 1)
        second = min(self._now, self._full_from.get(room, self._now + 1) - 1)
        while second >= lowest:
            if self._has_room(second, room):
                return second
            self._full_from[room] = second
            second = self._below(second) if room == USUAL_EVENTS_PER_SECOND_COUNT else second - 1
        return None

    def _ahead(self, mark: int | None) -> int:
        latest = self._now + MAX_FUTURE_SECONDS
        if mark is not None and mark > latest:
            raise ClockSkewError(self._now, mark)
        second = (self._now if mark is None else max(self._now, mark)) + 1
        while not self._has_room(second, MAX_EVENTS_PER_SECOND_COUNT):
            second += 1
        if second > latest:
            raise BurstWait(second - latest)
        return second

    def _has_room(self, second: int, room: int) -> bool:
        if (second, room) not in self._stored:
            self._stored[second, room] = self._used(second, room)
        return self._stored[second, room] + self._stamped[second] < room


# ── Events not handed out yet ───────────────────────────────────────────────────────────
# A version that was not handed out yet may be replaced in its own second.
#
# Relays keep the latest version of an address, and of two versions with the same second the one with the lower id
# (NIP-01). So versions that were handed out need different seconds, and a hundred quick rewrites would be dated a
# hundred seconds ahead of the clock: a `forget` would then destroy what another device writes half a minute later. A
# version that was not handed out competes with no other. The next version may take its second, and the replaced
# version stays in the history of this ledger only (`Role.history`): neither relays nor exports get it. An event
# dated ahead waits for its second before it is sent (`Outbox.due`), so rewriting never dates an address more than a
# second ahead.
#
# Handing out is therefore a write, which is made before the first byte is sent: an event counts as handed out even if
# the process ends before the relay answers, and other processes on the same ledger know. Until then, each event costs
# a row of some ten bytes. The functions here that write are called inside a transaction only.

# Heads that were not handed out, and that no relay has served or answered.
_OPEN: Final = (
    "SELECT s.slot, e.role FROM slots s JOIN events e ON e.seq = s.head AND e.created_at = s.mark_at "
    "JOIN unsent u ON u.event = s.head WHERE NOT EXISTS "
    "(SELECT 1 FROM outbox o WHERE o.event = s.head AND o.state <> 'queued') AND s.slot IN "
)
# Tombstones older than such a head, not handed out either; nothing else was written at the slot since.
_OPEN_TOMBSTONES: Final = (
    "SELECT s.slot, t.created_at, coalesce((SELECT until FROM deletions d WHERE d.target = s.slot), 0) "
    "FROM slots s JOIN events h ON h.seq = s.head AND h.created_at = s.mark_at "
    f"AND h.{IS_LIVE} JOIN unsent u ON u.event = h.seq "
    f"JOIN events t ON t.slot = s.slot AND t.{IS_TOMBSTONE} AND t.quarantined = 0 "
    "JOIN unsent v ON v.event = t.seq WHERE NOT EXISTS "
    "(SELECT 1 FROM outbox o WHERE o.event IN (h.seq, t.seq) AND o.state <> 'queued') AND NOT EXISTS "
    "(SELECT 1 FROM events x WHERE x.slot = s.slot AND x.created_at >= t.created_at AND x.quarantined = 0 "
    f"AND x.seq NOT IN (h.seq, t.seq) AND x.{IS_NO_HISTORY}) AND s.slot IN "
)


def record_unsent(db: Database, seqs: Iterable[int]) -> None:
    """Record new events as not handed out yet."""
    db.execute_many("INSERT INTO unsent (event) VALUES (?)", [(seq,) for seq in seqs])


def record_all_sent(db: Database) -> None:
    """Record every event as handed out, because an export is about to contain all of them."""
    db.execute("DELETE FROM unsent")


def open_slots(db: Database, wanted: Mapping[str, Role], known: Collection[str]) -> set[str]:
    """The slots whose newest version a new version may replace in the same second.

    Args:
        db: the open ledger file.
        wanted: by slot, the role of the new version.
        known: slots at which the new version knows the newest version, which matters if versions are merged.
    """
    return {
        slot
        for slot, role in db.rows_in(_OPEN, wanted)
        if may_share_second(ROLES[role], wanted[slot]) and needs_no_merge(slot, wanted[slot], known)
    }


def open_tombstones(
    db: Database, slots: Iterable[str], now: int, has_room: Callable[[int], bool]
) -> dict[str, int]:
    """By slot, the second of a tombstone that a new tombstone may replace, together with everything written since.

    The second must not be over, and neither the tombstone nor a later event at the slot may have been handed out. So a
    memory that is forgotten and written again and again is not dated further ahead either. If the memory was forgotten
    together with others, the new tombstone gets the date of their deletion request.

    Args:
        db: the open ledger file.
        slots: the slots where something is to be forgotten.
        now: the current second.
        has_room: whether a second may hold more events.
    """
    found = {}
    for slot, second_of_tombstone, until in db.rows_in(_OPEN_TOMBSTONES, slots):
        second = max(second_of_tombstone, until)
        if second >= now and (second == second_of_tombstone or has_room(second)):
            found[slot] = second
    return found


def undo_tombstone(db: Database, slot: str, second: int) -> None:
    """Remove the tombstone of a second, and everything written since, to make room for a new tombstone."""
    db.execute("UPDATE slots SET head = NULL, mark_at = ? WHERE slot = ?", second, slot)
    db.execute("DELETE FROM events WHERE slot = ? AND created_at >= ? AND quarantined = 0", slot, second)


def may_share_second(before: Role, role: Role) -> bool:
    """Whether a version may replace the previous one in the same second: one of the same role, or a tombstone."""
    return role is before or role.is_tombstone


def needs_no_merge(slot: str, role: Role, known: Collection[str]) -> bool:
    """Whether a new version need not be merged: a tombstone, one that knows the previous version, or not persona."""
    return role.is_tombstone or slot in known or not address.may_be_persona(slot)
