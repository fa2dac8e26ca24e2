"""What each relay should hold, as times and ids: the ledger's side of a comparison of whole sets (NIP-77).

An inventory has every head, deletions included, except the heads that a relay need not hold: tombstones whose
deletion the relay accepted, and events that the relay refused. Events that are useless here but stay at the relay
(other programs' events of the same key, older versions) are recorded as *aside*, so that they are fetched only once.

Guaranteed: after a complete comparison, every head that the relay lacks is queued, and every compared head that it
claims to hold is confirmed.

Why it is safe: the caller has checked the relay's claim by a sample (`relay.sync.reconcile`); here the claim is believed.
The result names the version of the inventory, so heads that were written meanwhile are neither queued nor confirmed. A
comparison changes only outbox rows and the list of events aside; it removes no event.

Cost: one pass over an index of dates and ids, without reading events; a row for each event aside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sense_memory.ledger.heads import LOGS, Heads, beneath
from sense_memory.ledger.outbox import WAS_ACCEPTED
from sense_memory.ledger.places import slot_at
from sense_memory.ledger.relays import LedgerReason, RelayRecords, Remark
from sense_memory.ledger.roles import IS_LIVE, IS_REQUEST, IS_TOMBSTONE
from sense_memory.ledger.schema import HELD
from sense_memory.ledger.versions import slot_of
from sense_memory.limits import HEAL_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KINDS


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from sense_memory.ledger.database import Database
    from sense_memory.nostr.event import Event

Pair: TypeAlias = tuple[int, bytes]  # created_at in seconds, and an id of 32 bytes

# Heads that a relay need not hold. CROSS: SQLite joins the tables in this order, beginning with the few deletions.
_DROPS = f"EXISTS (SELECT 1 FROM remarks WHERE relay = ?1 AND remark = '{Remark.DROPS_DELETIONS.value}')"
_EXEMPT = (
    "SELECT o.event FROM outbox o WHERE o.relay = ?1 AND o.state IN ('refused', 'parked') UNION "
    f"SELECT e.seq FROM events e CROSS JOIN outbox o ON o.relay = ?1 AND o.event = e.seq WHERE e.{IS_REQUEST} "
    f"AND (o.state = 'superseded' OR o.state IN {HELD} AND {_DROPS}) UNION "
    "SELECT s.head FROM deletions d CROSS JOIN slots s ON s.slot = d.target "
    f"CROSS JOIN events e ON e.seq = s.head AND e.{IS_TOMBSTONE} AND e.created_at <= d.until "
    "CROSS JOIN events x ON x.id = d.by_event CROSS JOIN outbox o ON o.relay = ?1 AND o.event = x.seq "
    f"WHERE o.state IN {HELD} AND NOT {_DROPS}"
)
# As in the outbox, an accepted event is queued again a given time after it was last sent. An event that the relay
# accepted after the comparison began stays accepted.
_SEND = (
    "INSERT INTO outbox (relay, event, state, due_at) VALUES (?1, ?2, 'queued', ?3) ON CONFLICT DO UPDATE SET "
    "state = 'queued', reason = iif(state = 'superseded', '', ?5), tries = 0, first_try_at = NULL, "
    "due_at = max(excluded.due_at, due_at + ?4) "
    "WHERE state IN ('acked', 'confirmed', 'superseded') AND due_at <= ?6"
)
_OTHERS = "SELECT value FROM json_each(?3)"  # seqs that the relay lacks or that were not compared
_CONFIRM = (
    "UPDATE outbox SET state = 'confirmed', reason = '', seen_at = ?4 WHERE relay = ?1 AND event <= ?2 "
    f"AND state IN ('queued', 'acked', 'superseded') AND event NOT IN ({_OTHERS}) "
    "AND EXISTS (SELECT 1 FROM slots WHERE head = event)"
)
_DATED = " AND (SELECT created_at FROM events WHERE seq = event) >= ?5"
_FILL = (
    "INSERT OR IGNORE INTO outbox (relay, event, state, due_at, seen_at) "
    "SELECT relay, head, 'confirmed', 0, ?4 FROM relays JOIN slots ON head > filled_to AND head <= ?2 "
    f"WHERE relay = ?1 AND head NOT IN ({_OTHERS})"
)
_UNCONFIRMED = (
    "SELECT e.id FROM outbox o CROSS JOIN slots s ON s.head = o.event CROSS JOIN events e ON e.seq = o.event "
    "WHERE o.relay = ?1 AND o.state <> 'confirmed' UNION "
    "SELECT e.id FROM relays r CROSS JOIN slots s ON s.head > r.filled_to CROSS JOIN events e ON e.seq = s.head "
    "WHERE r.relay = ?1"
)
# SQLite's random() cannot be guessed by a relay: it is seeded by the operating system.
_CONFIRMED = (
    "SELECT e.kind, e.id FROM outbox o CROSS JOIN slots s ON s.head = o.event CROSS JOIN events e ON e.seq = o.event "
    f"WHERE o.relay = ?1 AND o.state = 'confirmed' AND o.event NOT IN ({_EXEMPT}) "
    "AND e.kind IN (SELECT value FROM json_each(?3)) ORDER BY random() LIMIT ?2"
)
_ACCEPTED = f"SELECT event FROM outbox WHERE relay = ? AND {WAS_ACCEPTED}"
# The last condition, because only this one reads events, and few heads are left by then.
_HEAD_IS_LIVE = f"EXISTS (SELECT 1 FROM events e WHERE e.seq = s.head AND e.{IS_LIVE})"
_HELD = (
    "SELECT o.state, count(*) FROM outbox o JOIN slots s ON s.head = o.event WHERE o.relay = ? "
    f"AND o.state IN {HELD} AND NOT (s.slot >= ? AND s.slot < ?) AND {_HEAD_IS_LIVE} GROUP BY o.state"
)
_AT_SLOT = (
    "SELECT s.mark_at, d.until, s.head FROM (SELECT ?1 AS slot) w LEFT JOIN slots s ON s.slot = w.slot "
    "LEFT JOIN deletions d ON d.target = w.slot"
)
_THERE_AFTER_ALL = (
    "UPDATE outbox SET state = 'acked', reason = '', due_at = ? WHERE relay = ? "
    "AND event = (SELECT seq FROM events WHERE id = ?) AND state IN ('refused', 'parked')"
)


@dataclass(frozen=True, slots=True)
class InventoryVersion:
    """Everything that an inventory depends on: equal versions mean equal inventories, for any relay.

    Attributes:
        newest: the seq of the last event; no head changes without a new event.
        exempt: seqs of heads that the relay need not hold.
        aside: events that the relay holds and that are useless here.
    """

    newest: int
    exempt: frozenset[int]
    aside: frozenset[Pair]


class Inventory:
    """The inventories of a ledger, relay by relay.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db, self._relays, self._heads = db, RelayRecords(db), Heads(db)

    def version(self, url: str) -> InventoryVersion:
        """The current version of a relay's inventory; much cheaper than the inventory."""
        newest = self._db.row("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        relay = self._relay(url)
        aside = self._db.rows("SELECT created_at, id FROM aside WHERE relay = ?", relay)
        return InventoryVersion(newest[0] if newest else 0, self._exempt(relay), frozenset(aside))

    def pairs(self, version: InventoryVersion, since: int = 0) -> list[Pair]:
        """What a relay should hold, in order, then what it holds aside; a pair may occur twice.

        Args:
            version: the current version; do not await between the two calls.
            since: only events dated then or later, seconds since 1970.
        """
        exempt = version.exempt
        heads = [(time, ident) for seq, time, ident in self._heads.dated_since(since) if seq not in exempt]
        return heads + [pair for pair in version.aside if pair[0] >= since]

    def known_pairs(self, ids: Iterable[bytes]) -> list[Pair]:
        """The pairs of the events that the ledger holds, among some ids."""
        query = "SELECT created_at, id FROM events WHERE id = ?"
        return [(found[0], found[1]) for ident in ids if (found := self._db.row(query, ident))]

    def lacking_count(self, version: InventoryVersion, ids: Iterable[bytes]) -> int:
        """The number of events that a relay should hold, among some ids."""
        return len(self._heads.seqs_of_ids(ids) - version.exempt)

    def unconfirmed_ids(self, url: str) -> set[bytes]:
        """The ids of the heads that a relay has not been found to hold; a comparison may confirm them."""
        return {ident for (ident,) in self._db.rows(_UNCONFIRMED, self._relay(url))}

    def sample_confirmed(
        self, url: str, count: int, kinds: Collection[int] = KINDS
    ) -> list[tuple[int, bytes]]:
        """Kind and id of up to `count` random heads of some kinds that a relay was found to hold, and must still hold."""
        return self._db.rows(_CONFIRMED, self._relay(url), count, json.dumps([*kinds]))

    def journal_ids(self) -> set[bytes]:
        """The ids of the events of the journal's kind, forgotten entries included."""
        query = "SELECT id FROM events WHERE kind = 4 AND quarantined = 0"
        return {ident for (ident,) in self._db.rows(query)}

    def counts_by_kind(self, version: InventoryVersion) -> dict[int, tuple[int, int]]:
        """By kind, the number of events that a relay should hold, and the number that it need not hold but may."""
        found: dict[int, tuple[int, int]] = {}
        for kind, seq in self._heads.kinds():
            should, may = found.get(kind, (0, 0))
            found[kind] = (should, may + 1) if seq in version.exempt else (should + 1, may)
        return found

    def held_counts(self, url: str) -> tuple[int, int]:
        """How many current memories and journal entries a relay has shown, and how many more it has accepted."""
        found = dict(self._db.rows(_HELD, self._relay(url), *beneath(LOGS)))
        return found.get("confirmed", 0), found.get("acked", 0)

    def accepted_count(self, url: str, ids: Iterable[bytes]) -> int:
        """How many of some events, by id, a relay has accepted or shown."""
        query = (
            "SELECT 1 FROM events e JOIN outbox o ON o.event = e.seq AND o.relay = ?1 "
            f"WHERE e.id = ?2 AND (o.state IN {HELD} OR o.reason IN ('{LedgerReason.LOST}', '{LedgerReason.BEHIND}'))"
        )
        relay = self._relay(url)
        return sum(self._db.row(query, relay, ident) is not None for ident in ids)

    def sorted_beside(
        self, version: InventoryVersion, events: Iterable[Event], was_accepted: Callable[[str], bool]
    ) -> tuple[int, int, int]:
        """What a relay holds beside its inventory, as three numbers.

        Args:
            version: the version of its inventory.
            events: verified events that are not in the inventory.
            was_accepted: whether the relay accepted the deletion of a slot.

        Returns:
            How many of them are older versions of what is here or was forgotten; how many the relay still has although it
            accepted their deletion; and how many this ledger lacks or has no use for. What a relay need not hold, but may,
            is in none.
        """
        stale = undeleted = extra = 0
        for event in events:
            known = self._db.row(
                "SELECT slot, seq, quarantined FROM events WHERE id = ?", bytes.fromhex(event.id)
            )
            slot, seq, waits = known or (self._slot_of(event), None, False)
            if seq in version.exempt:
                continue
            mark, until, head = self._db.row(_AT_SLOT, slot) or (None, None, None)
            if until is not None and until >= event.created_at and was_accepted(slot):
                undeleted += 1
            elif not waits and max(mark or 0, until or 0) >= event.created_at and head != seq:
                stale += 1
            else:
                extra += 1
        return stale, undeleted, extra

    def record_comparison(
        self,
        url: str,
        version: InventoryVersion,
        lacks: Collection[bytes],
        holds: Sequence[Pair],
        now: float,
        *,
        begun: float,
        since: int | None = None,
        every: float = HEAL_SECONDS,
        kinds: Collection[int] = KINDS,
    ) -> int:
        """Record the result of a complete comparison: queue what the relay lacks, and confirm what it holds.

        Args:
            url: the relay; an unknown relay changes nothing.
            version: the version of the compared inventory.
            lacks: ids in the inventory that the relay does not hold.
            holds: events that the relay holds and the inventory lacks; they have been fetched and filed.
            now: seconds since 1970.
            begun: when the comparison began; it may have missed events that the relay accepted later.
            since: only events dated then or later were compared; None if all events were.
            every: seconds after its last sending at which a lost event is sent again; if the relay holds an older
                version instead, see `Outbox.requeue_lost`.
            kinds: the kinds that were compared; nothing is recorded of the others.

        Returns:
            The number of events that the relay had accepted and no longer holds.
        """
        relay, lacks = self._relay(url), frozenset(lacks)
        if not relay:
            return 0  # the relay was removed meanwhile
        lacking = self._heads.seqs_of_ids(lacks)
        accepted = self._db.rows(_ACCEPTED, relay, begun) if lacking else ()
        lost = {seq for (seq,) in accepted if seq in lacking}
        with self._db.transaction():
            self._db.execute_many(
                "DELETE FROM aside WHERE relay = ? AND id = ?", [(relay, ident) for ident in lacks]
            )
            waits = self._waits(lacking, holds, every, self._relays.state(url).behind_seconds(now))
            self._db.execute_many(
                _SEND, [(relay, seq, now, wait, why, begun) for seq, (wait, why) in waits.items()]
            )
            self._relays.excuse_lost_deletions(url, lost)
            uncompared = self._of_other_kinds(kinds)
            self._confirm(relay, version, {*lacking, *uncompared}, now, since, is_whole=not uncompared)
            self._db.execute_many(_THERE_AFTER_ALL, [(now, relay, ident) for _, ident in holds])
            exempt = self._exempt(relay) if holds else ()
            self._db.execute_many(
                "INSERT OR IGNORE INTO aside (relay, created_at, id) VALUES (?, ?, ?)",
                [(relay, *pair) for pair in holds if self._is_aside(pair[1], exempt, lacks)],
            )
        return len(lost)

    def _waits(
        self, lacking: Iterable[int], holds: Sequence[Pair], every: float, behind_seconds: float
    ) -> dict[int, tuple[float, str]]:
        """By seq of each missing head, the seconds to wait since it was last sent, and the reason to send it again."""
        found = [self._db.row("SELECT slot FROM events WHERE id = ?", ident) for _, ident in holds]
        behind = {row[0] for row in found if row is not None}
        slots = {seq: self._db.row("SELECT slot FROM events WHERE seq = ?", seq) for seq in lacking}
        return {
            seq: (behind_seconds, LedgerReason.BEHIND)
            if row is not None and row[0] in behind
            else (every, LedgerReason.LOST)
            for seq, row in slots.items()
        }

    def _confirm(
        self,
        relay: int,
        version: InventoryVersion,
        others: Collection[int],
        now: float,
        since: int | None,
        *,
        is_whole: bool,
    ) -> None:
        """Confirm the compared heads that the relay holds, whatever it answered when they were sent.

        Args:
            relay: the number of the relay.
            version: the version of the compared inventory.
            others: seqs of the heads that the relay lacks, or that were not compared.
            now: seconds since 1970.
            since: only events dated then or later were compared; None if all events were.
            is_whole: whether `others` has no head that was not compared; such a head may have no row yet.
        """
        listed = json.dumps([*others, *version.exempt])
        if since is not None:
            self._db.execute(_CONFIRM + _DATED, relay, version.newest, listed, now, since)
            return
        for statement in (_CONFIRM, _FILL):
            self._db.execute(statement, relay, version.newest, listed, now)
        if is_whole:
            self._db.execute(
                "UPDATE relays SET filled_to = ?2 WHERE relay = ?1 AND filled_to < ?2", relay, version.newest
            )

    def _of_other_kinds(self, kinds: Collection[int]) -> list[int]:
        """The seqs of the heads that are of none of these kinds."""
        if set(KINDS) <= set(kinds):
            return []
        return [seq for kind, seq in self._heads.kinds() if kind not in kinds]

    def _is_aside(self, ident: bytes, exempt: Collection[int], lacks: Collection[bytes]) -> bool:
        """Whether an event outside the inventory is useless here and will stay at the relay."""
        found = self._db.row(
            "SELECT e.seq, s.head, h.id FROM events e LEFT JOIN slots s ON s.slot = e.slot "
            "LEFT JOIN events h ON h.seq = s.head WHERE e.id = ?",
            ident,
        )
        if found is None:
            return True
        seq, head, head_id = found
        return seq in exempt if seq == head else head_id not in lacks  # the head will replace the event there

    def _slot_of(self, event: Event) -> str:
        """The slot of an event that is not stored: that of its d-tag, if this ledger has ever seen it."""
        tag = event.d_tag if event.kind == KIND_APP_DATA else None
        return slot_of(event) if tag is None else slot_at(self._db, tag)

    def _relay(self, url: str) -> int:
        found = self._db.row("SELECT relay FROM relays WHERE url = ?", url)
        return int(found[0]) if found else 0

    def _exempt(self, relay: int) -> frozenset[int]:
        return frozenset(seq for (seq,) in self._db.rows(_EXEMPT, relay))
