"""The change feed: what changed in a ledger since a cursor, whichever process made the change.

Guaranteed: a follower of a ledger (the palace, the index of flat memories and the journal, a watcher) misses no change,
whether a relay, an import or another process brought it.

Why it is safe: each follower holds a `Cursor` and asks the one `ChangeFeed`. Every event gets the next number (`seq`),
and nothing is removed without an event that removes it. The feed decrypts nothing.

Cost: a check that finds nothing takes one pragma and one counter: SQLite's `data_version` shows changes of other
connections, `total_changes` those of this connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.errors import LedgerError
from sense_memory.ledger.heads import stored
from sense_memory.ledger.roles import IS_FOLLOWED, IS_REQUEST, ROLES
from sense_memory.ledger.versions import stored_targets
from sense_memory.nostr.address import is_vacated_slot
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE, Event


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.heads import Heads, StoredEvent

_BATCH_COUNT: Final = 500  # events in one batch for watchers
_NEW: Final = (
    f"SELECT seq, slot, role, iif({IS_REQUEST}, body, NULL) FROM events WHERE seq > ? "
    f"AND quarantined = 0 AND {IS_FOLLOWED} ORDER BY seq LIMIT ?"
)
_EVENTS: Final = "SELECT seq, id, slot, role, body FROM events WHERE seq IN "


class Cursor(NamedTuple):
    """How far a follower has read a ledger.

    Attributes:
        seq: the seq of the last event that was read, or -1. It is the same in every process.
        version: the version of the file at that time (`Database.version`), valid in this process only, or (-1, -1).
    """

    seq: int = -1
    version: tuple[int, int] = (-1, -1)


START: Final = Cursor()


@dataclass(frozen=True, slots=True)
class Changes:
    """What may have changed after a cursor.

    Attributes:
        cursor: where to continue.
        slots: the slots, each with the seq of the tombstone or deletion that removed something there, or 0.
        ids: ids of events that another Nostr client deleted by id; their slots are no longer known.
        is_everything: whether every slot may have changed, not only `slots` and `ids`.
    """

    cursor: Cursor
    slots: Mapping[str, int]
    ids: frozenset[bytes] = frozenset()
    is_everything: bool = False


class ChangeFeed:
    """The changes of a ledger. The feed keeps no state: each follower keeps a cursor.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    def has_changed(self, cursor: Cursor) -> bool:
        """Whether this process or another has changed anything since the cursor."""
        return self._db.version() != cursor.version

    def cursor(self) -> Cursor:
        """The current end of the feed."""
        version = self._db.version()  # first, so that a change between the two queries is found again
        (seq,) = self._db.row("SELECT max(seq) FROM events") or (0,)
        return Cursor(int(seq or 0), version)

    def since(self, cursor: Cursor, limit: int = -1) -> Changes:
        """What the next `limit` events after a cursor may have changed; -1 for all events."""
        now = self.cursor()
        if not 0 <= cursor.seq <= now.seq:
            return Changes(now, {}, is_everything=True)
        slots: dict[str, int] = {}
        tombstones: set[str] = set()  # their slots: a tombstone takes precedence over a deletion
        ids: set[bytes] = set()
        rows = self._db.rows(_NEW, cursor.seq, limit)
        for seq, slot, role, body in rows:
            if is_vacated_slot(slot):  # the memory is where it was
                continue
            if not ROLES[role].is_removal:  # live
                slots.setdefault(slot, 0)
            elif ROLES[role].is_tombstone:
                slots[slot] = seq
                tombstones.add(slot)
            else:
                request = Event.restored(body)
                targets = [target for target, _ in stored_targets(self._db, body)]
                slots.update((target, seq) for target in targets if target not in tombstones)
                if _names_ids_alone(request, targets):
                    ids.update(bytes.fromhex(target[1:]) for target in targets)
        last = rows[-1][0] if rows else 0
        end = last if len(rows) == limit else max(last, now.seq)
        return Changes(Cursor(end, now.version), slots, frozenset(ids), bool(ids))


def _names_ids_alone(request: Event, targets: Iterable[str]) -> bool:
    """Whether a deletion names versions of memories by id only."""
    is_journal = request.tag_values("k") == [str(KIND_DIRECT_MESSAGE)]
    return not is_journal and all(target.startswith("#") for target in targets)


# ── For watchers ────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HeadChange:
    """A slot whose live head changed.

    Attributes:
        slot: the slot.
        by: the event that made the change: the new head, or the tombstone or deletion.
        gone: id (hex) of the head that was forgotten; None if there is a new head.
    """

    slot: str
    by: StoredEvent
    gone: str | None = None


class HeadChanges:
    """The changes of live heads that other processes and devices made.

    The ids of all live heads are held in memory from `start` to `stop`, to name the heads that are gone.

    Args:
        db: the open ledger file.
        feed: the change feed of the ledger.
        heads: the heads of the ledger.
    """

    def __init__(self, db: Database, feed: ChangeFeed, heads: Heads) -> None:
        self._db, self._feed, self._heads = db, feed, heads
        self._live: dict[str, bytes] | None = None  # id of the live head by slot
        self._cursor = START
        # By id, because another process may reuse the seq of a write that failed.
        self._own: dict[bytes, int] = {}

    def start(self) -> None:
        """Follow the heads from now on."""
        self._cursor = self._feed.cursor()
        self._live = self._heads.live_ids()

    def stop(self) -> None:
        """Stop following the heads."""
        self._live = None
        self._own.clear()

    def leave_out(self, events: Iterable[tuple[bytes, int]]) -> None:
        """Leave out these events (id, seq), which this process has written."""
        if self._live is not None:
            self._own.update(events)

    def slots_under(self, prefix: str) -> list[str]:
        """The slots that begin with a prefix and have a live head."""
        return [slot for slot in self._live or () if slot.startswith(prefix)]

    def next_batch(self) -> list[HeadChange] | None:
        """The changes made by the next events, in order of arrival; None if there are no more events.

        If several versions of a slot arrived, only the current head is reported.

        Raises:
            LedgerError: the file was deleted or replaced, so that what others write no longer arrives here.
        """
        if self._live is None:
            return None
        if not self._db.is_in_place:
            raise LedgerError(
                f"{self._db.path} was deleted or replaced while it was open, so changes in it are no longer seen; close the "
                "store and open it again, or put the file back"
            )
        changes = self._feed.since(self._cursor, _BATCH_COUNT)
        if changes.cursor.seq == self._cursor.seq:
            return None
        found = self._compared(self._live, self._with_named(self._live, changes))
        self._cursor = changes.cursor
        self._own = {ident: seq for ident, seq in self._own.items() if seq > self._cursor.seq}
        return found

    def _with_named(self, live: Mapping[str, bytes], changes: Changes) -> dict[str, int]:
        """The changed slots, including the slots of heads that were deleted by id alone."""
        slots = dict(changes.slots)
        if changes.ids:
            named = ((slot, ident) for slot, ident in live.items() if ident in changes.ids)
            slots.update((slot, slots[f"#{ident.hex()}"]) for slot, ident in named if not slots.get(slot))
        return slots

    def _compared(self, live: dict[str, bytes], slots: Mapping[str, int]) -> list[HeadChange]:
        """The changes of some slots against `live`, which is updated."""
        heads = {head.slot: head for head in self._heads.live_at(slots)}
        causes = {seq: None for slot, seq in slots.items() if seq and slot in live and slot not in heads}
        removers = {row[0]: stored(row) for row in self._db.rows_in(_EVENTS, causes)}
        found: list[HeadChange] = []
        for slot, cause in slots.items():
            before, head, remover = live.get(slot), heads.get(slot), removers.get(cause)
            if head is not None:
                live[slot] = head.id
                if head.id != before:
                    found.append(HeadChange(slot, head))
            elif before is not None and remover is not None:  # else another process is forgetting it
                del live[slot]
                found.append(HeadChange(slot, remover, before.hex()))
        theirs = (change for change in found if change.by.id not in self._own)
        return sorted(theirs, key=lambda change: change.by.seq)
