"""The outbox: which event was sent to which relay, and what the relay answered.

There is one row for each relay and event. A row is `queued` until the relay sends an OK, then `acked`, and
`confirmed` once the relay has served the event, or claims in a comparison to hold it and has served a sample. It is
`refused` or `parked` with a reason. It is `superseded` once the relay has shown or accepted a newer version, and if the
event must not be sent (`drop_outdated`); a mere claim to have a newer version leaves the row `queued`. If the relay is
found to have lost an accepted event, the row is `queued` again.

Guaranteed: every current head, tombstone and deletion is sent to every relay, or its row says why not. A version that
was replaced before it was sent need not be sent. A kill at any moment loses no row. A relay that is found to have lost an
accepted event gets the event again. After a week of retries a row is parked, which `status` shows, until a user asks to
send it again.

Why it is safe: a row is committed with its event, before anything is sent. A row counts as accepted only after an answer
of the relay; everything that changes a row without an answer queues it, makes it due, or leaves the event out. The bytes
of an event never change, so sending an event twice is harmless. If sending one event may remove another at the relay (an
old deletion request), the other is queued again before the request is sent.

Cost: one row for each relay and event, and an index of the queued rows, the only ones that a push reads.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.heads import Heads
from sense_memory.ledger.relays import LedgerReason, RelayRecords, Remark, reason_code, reason_sentence
from sense_memory.ledger.roles import IS_CONTENT, IS_REMOVAL, IS_REQUEST, IS_TOMBSTONE, ROLES
from sense_memory.ledger.schema import HELD
from sense_memory.ledger.versions import stored_targets
from sense_memory.limits import (
    AFTER_DELETION_SECONDS,
    AHEAD_SECONDS,
    HEAL_SECONDS,
    JITTER,
    PARK_SECONDS,
    RATE_LIMIT_FIRST_SECONDS,
    RETRY_FIRST_SECONDS,
    RETRY_MAX_SECONDS,
)
from sense_memory.nostr.event import KINDS
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.roles import Role


# Accepted before a given time, even if the relay has lost the event since.
WAS_ACCEPTED: Final = f"(state IN {HELD} AND due_at <= ? OR state = 'queued' AND reason IN ('{LedgerReason.LOST}', '{LedgerReason.BEHIND}'))"


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One event that waits for a relay: its seq, id (hex), slot and canonical JSON, and since when it is due."""

    seq: int
    id: str
    slot: str
    body: bytes = field(repr=False)
    due_at: float


class Outbox:
    """The outbox of a ledger.

    Args:
        db: the open ledger file.
        seed: seed of the jitter; None for the system's randomness.
    """

    def __init__(self, db: Database, seed: int | None = None) -> None:
        self._db, self._relays, self._heads = db, RelayRecords(db), Heads(db)
        self._random = random.Random(seed)  # noqa: S311 - jitter, not a secret

    # ── Queueing ────────────────────────────────────────────────────────────────────────

    def queue_events(self, seqs: Iterable[int], urls: Sequence[str], now: float) -> None:
        """Queue events for relays, inside the caller's transaction; existing rows stay.

        Memories that are not heads are left out. Tombstones and deletions are always queued.
        """
        marks = ", ".join("?" * len(urls))
        self._db.execute_many(
            f"INSERT OR IGNORE INTO outbox (relay, event, state, due_at) SELECT relay, seq, 'queued', {_DUE} "
            f"FROM events, relays WHERE seq = ? AND ({IS_REMOVAL} OR EXISTS (SELECT 1 FROM slots WHERE head = seq)) "
            f"AND url IN ({marks})",
            [(now, now, seq, *urls) for seq in seqs],
        )

    def queue_missing(self, url: str, now: float) -> int:
        """Queue the heads (also deletions) that were filed since the last call and have no row; returns how many."""
        found = self._db.row("SELECT relay, filled_to FROM relays WHERE url = ?", url)
        newest = self._db.row("SELECT max(seq) FROM events")
        if found is None or newest is None or newest[0] is None or newest[0] <= found[1]:
            return 0
        with self._db.transaction():
            cursor = self._db.execute(
                "INSERT OR IGNORE INTO outbox (relay, event, state, due_at) "
                f"SELECT ?, e.seq, 'queued', {_DUE} "
                "FROM events e JOIN slots s ON s.slot = e.slot AND s.head = e.seq WHERE e.seq > ? AND e.seq <= ?",
                found[0],
                now,
                now,
                found[1],
                newest[0],
            )
            self._db.execute("UPDATE relays SET filled_to = ? WHERE relay = ?", newest[0], found[0])
        return cursor.rowcount

    def requeue_heads(self, url: str, slots: Iterable[str], now: float) -> int:
        """Queue the heads of slots at which a relay served an older version, each head at most once an hour.

        If a deletion is newer than the head, its request is queued too. Returns how many events were queued.
        """
        with self._db.transaction():
            found = (seq for slot in slots for (seq,) in self._db.rows(_CURRENT_OF_SLOT, slot, slot))
            return sum(self._requeue(url, seq, now) for seq in found)

    def lost_events(
        self, url: str, begun: float, since: int = 0, kinds: Collection[int] = KINDS
    ) -> list[int]:
        """Seqs of events that a relay accepted, but did not serve in a complete pull.

        A tombstone whose deletion the relay accepted is left out, because the relay need not hold the tombstone.

        Args:
            url: the relay.
            begun: when the pull began; it may have missed events that the relay accepted later.
            since: the pull asked only for events dated then or later, in seconds since 1970.
            kinds: the kinds that the pull covered.
        """
        rows = self._db.rows(
            "SELECT o.event FROM outbox o JOIN relays r USING (relay) JOIN events e ON e.seq = o.event "
            "JOIN slots s ON s.head = e.seq WHERE r.url = ? AND coalesce(o.seen_at, 0) < ? AND e.created_at >= ? "
            f"AND {WAS_ACCEPTED} AND e.kind IN (SELECT value FROM json_each(?)) "
            f"AND {f'NOT e.{IS_REQUEST}' if self._drops_deletions(url) else f'NOT {_IS_SETTLED}'}",
            url,
            begun,
            since,
            begun,
            json.dumps([*kinds]),
        )
        return [seq for (seq,) in rows]

    def requeue_lost(self, url: str, seqs: Sequence[int], begun: float, now: float, *, every: float) -> None:
        """Queue lost events again, to be sent `every` seconds after they were last sent.

        Where the pull that began at `begun` served an older version, the relay was set back. Its events are sent at once,
        unless the relay was repaired less than an hour ago: then they wait an hour, because it will lose them again.
        """
        wait = self._relays.state(url).behind_seconds(now)
        with self._db.transaction():
            behind = {seq for seq in seqs if self._db.row(_OLDER_SEEN, seq, url, begun)}
            self._db.execute_many(
                _LOST_AGAIN, [(LedgerReason.LOST, now, every, seq, url) for seq in seqs if seq not in behind]
            )
            self._db.execute_many(_LOST_AGAIN, [(LedgerReason.BEHIND, now, wait, seq, url) for seq in behind])
            self._relays.excuse_lost_deletions(url, seqs)

    def requeue_unseen(self, url: str, seqs: Sequence[int], now: float, *, every: float) -> None:
        """As `requeue_lost`, where the relay hides the events, so that nobody knows whether it lost them too."""
        with self._db.transaction():
            self._db.execute_many(_LOST_AGAIN, [(LedgerReason.UNSEEN, now, every, seq, url) for seq in seqs])

    # ── Deletions ───────────────────────────────────────────────────────────────────────

    def drop_outdated(self, url: str) -> None:
        """Remove events from the queue that would delete too much at a relay; everything else stays queued.

        Three kinds of events are removed:

        * a deletion request that the relay has lost, if its address has a newer living version. (A request that the
          relay never accepted is sent, because other devices must learn what was forgotten.)
        * every request by address, at a relay that keeps no requests: the request would remove the tombstone there, and
          other devices would never learn what was forgotten.
        * a tombstone, if the relay holds a newer version by now.
        """
        relay, drops = self._relay(url), self._drops_deletions(url)
        left_out = [
            seq
            for seq, reason, body in self._db.rows(_QUEUED_DELETIONS, relay)
            if self._is_left_out(body, reason in (LedgerReason.LOST, LedgerReason.BEHIND), drops)
        ]
        left_out += [
            seq for (seq,) in self._db.rows(_QUEUED_TOMBSTONES, relay) if self._db.row(_OVERTAKEN, relay, seq)
        ]
        if left_out:
            with self._db.transaction():
                self._db.execute_many(_LEAVE_OUT, [(relay, seq) for seq in left_out])

    def outlived_slots(self, url: str, now: float) -> list[str]:
        """The addresses that have newer living versions than the deletion requests due for a relay.

        Empty while sending pauses.
        """
        if self._relays.paused_until(url) > now:
            return []
        due = f"{_QUEUED_DELETIONS} AND o.due_at <= ?"
        bodies = [body for *_, body in self._db.rows(due, self._relay(url), now)]
        return [slot for body in bodies for slot in self._outlived(body)]

    def delay_heads(self, url: str, slots: Iterable[str], now: float) -> None:
        """Queue the heads of slots for later, because a deletion request that is about to be sent may remove them.

        Call this before sending the request, and `release_heads` afterwards. If the process ends in between, no head
        that the request removed counts as accepted.
        """
        with self._db.transaction():
            for slot in slots:
                self._db.execute(_DELAY, now + AFTER_DELETION_SECONDS, now, slot, url)

    def release_heads(self, url: str, now: float) -> bool:
        """Make heads due that this process or an earlier one delayed; returns whether there were any."""
        relay = self._relay(url)
        if self._db.row(_DELAYED, relay, now, LedgerReason.AFTER_DELETION) is None:
            return False
        with self._db.transaction():
            return self._db.execute(_RELEASE, relay, now, LedgerReason.AFTER_DELETION).rowcount > 0

    def _is_left_out(self, body: bytes, is_lost: bool, drops: bool) -> bool:
        targets = [slot for slot, _ in stored_targets(self._db, body) if not slot.startswith("#")]
        if drops:
            return bool(targets)
        return is_lost and bool(self._outlived(body))

    def _outlived(self, body: bytes) -> list[str]:
        """The addresses in a deletion request that have newer living versions, which some relays would delete too."""
        targets = stored_targets(self._db, body)
        return [slot for slot, until in targets if self._heads.is_live_after(slot, until)]

    def unproven_deletions(self, url: str) -> list[str]:
        """Ids of deletion requests that a relay accepted, while it is unknown whether the relay keeps requests."""
        if self._drops_deletions(url) or self._db.row(_KEPT_DELETION, url):
            return []
        return [ident.hex() for (ident,) in self._db.rows(_UNPROVEN, url)]

    def keeps_deletions(self, url: str) -> bool:
        """Whether a relay has shown a deletion request."""
        return self._db.row(_KEPT_DELETION, url) is not None

    def requeue_tombstones(self, url: str, now: float) -> int:
        """Queue the tombstones of deleted addresses, for a relay that keeps no requests; returns how many."""
        with self._db.transaction():
            return self._db.execute(_REQUEUE_TOMBSTONES, now, self._relay(url)).rowcount

    def _drops_deletions(self, url: str) -> bool:
        query = "SELECT 1 FROM remarks JOIN relays USING (relay) WHERE url = ? AND remark = ?"
        return self._db.row(query, url, Remark.DROPS_DELETIONS.value) is not None

    def _relay(self, url: str) -> int:
        found = self._db.row("SELECT relay FROM relays WHERE url = ?", url)
        return int(found[0]) if found else 0

    # ── Losses ──────────────────────────────────────────────────────────────────────────

    def make_due(self, url: str, now: float) -> None:
        """At the user's request, make events due that wait for another attempt.

        Events that wait because of a rate limit or `LedgerReason.BEHIND` keep waiting.
        """
        with self._db.transaction():
            self._db.execute(_MAKE_DUE, now, url, RelayOutcome.RATE_LIMITED.value, LedgerReason.BEHIND)

    def has_accepted_deletion(self, url: str, slots: Iterable[str]) -> bool:
        """Whether a relay has accepted the deletion of any of these slots.

        That is the deletion request; at a relay that keeps no requests, the tombstone.
        """
        query = _TOMBSTONES_THERE if self._drops_deletions(url) else _DELETED_THERE
        return any(self._db.row(query, slot, url) for slot in slots)

    def requeue_refused(self, urls: Iterable[str], now: float) -> int:
        """Queue refused and parked events again, at the user's request; returns how many."""
        with self._db.transaction():
            return sum(self._db.execute(_RETRY, now, url).rowcount for url in urls)

    def _requeue(self, url: str, seq: int, now: float) -> int:
        return self._db.execute(
            "INSERT INTO outbox (relay, event, state, due_at) "
            "SELECT relay, ?, 'queued', ? FROM relays WHERE url = ? "
            "ON CONFLICT DO UPDATE SET state = 'queued', reason = iif(state = 'superseded', '', ?), "
            "due_at = excluded.due_at, tries = 0, first_try_at = NULL "
            "WHERE state IN ('acked', 'confirmed', 'superseded') AND due_at <= excluded.due_at - ?",
            seq,
            now,
            url,
            LedgerReason.BEHIND,
            HEAL_SECONDS,
        ).rowcount

    # ── Sending ─────────────────────────────────────────────────────────────────────────

    def due(self, url: str, now: float, limit: int, *, after: OutboxEntry | None = None) -> list[OutboxEntry]:
        """The next events to send to a relay, those due for longest first.

        Events are sent in the order in which they were written. An event that the relay did not accept goes last, so
        that it never delays the others. While sending pauses (`_pace`), there are no events. The returned events count
        as handed out, whether they are sent or not; see `stamps`.

        Args:
            url: the relay.
            now: seconds since 1970.
            limit: how many events at most.
            after: return only events that come after this one; None to begin with the first.
        """
        if self._relays.paused_until(url) > now:
            return []
        wanted = url, now, *((after.due_at, after.seq) if after else (float("-inf"), 0)), limit
        rows = self._db.rows(_NEXT, *wanted)
        if any(is_unsent for *_, is_unsent in rows):
            with self._db.transaction():
                self._db.execute(_HAND_OUT, url, now)
                rows = self._db.rows(_NEXT, *wanted)  # another process may have replaced an event since
        return [OutboxEntry(seq, ident.hex(), slot, body, due) for seq, ident, slot, body, due, _ in rows]

    def still_due(self, url: str, seqs: Iterable[int], now: float) -> list[OutboxEntry]:
        """Those of some events that are queued and due again for a relay. No events while sending pauses."""
        query = (
            "SELECT e.seq, e.id, e.slot, e.body, o.due_at FROM outbox o JOIN events e ON e.seq = o.event "
            "WHERE o.relay = ? AND o.event = ? AND o.state = 'queued' AND o.due_at <= ?"
        )
        relay = self._relay(url)
        if self._relays.paused_until(url) > now:
            return []
        rows = [row for seq in seqs if (row := self._db.row(query, relay, seq, now))]
        return [OutboxEntry(seq, ident.hex(), slot, body, due) for seq, ident, slot, body, due in rows]

    def as_large_as(self, url: str, size: int) -> list[int]:
        """Seqs of the queued events for a relay that have at least `size` bytes."""
        query = (
            "SELECT o.event FROM outbox o JOIN events e ON e.seq = o.event "
            "WHERE o.relay = ? AND o.state = 'queued' AND length(e.body) >= ?"
        )
        return [seq for (seq,) in self._db.rows(query, self._relay(url), size)]

    def record_verdicts(self, url: str, verdicts: Mapping[int, RelayVerdict], now: float) -> None:
        """Record a relay's verdicts on events, by seq; a rate limit pauses all sending to the relay."""
        accepted = {seq: item for seq, item in verdicts.items() if item.outcome is RelayOutcome.ACCEPTED}
        with self._db.transaction():
            self._pace(url, {item.outcome for item in verdicts.values()}, now)
            self._db.execute_many(
                _ACCEPTED, [(reason_code(item.reason), now, now, seq, url) for seq, item in accepted.items()]
            )
            for seq, verdict in verdicts.items():
                if seq not in accepted:
                    self._record(url, seq, verdict, now)

    def _pace(self, url: str, outcomes: set[RelayOutcome], now: float) -> None:
        """Pause all sending to a relay that limits its rate; each further limit in a row doubles the pause.

        Verdicts on events that were in flight when the pause began do not change it.
        """
        if self._relays.paused_until(url) > now:
            return
        if RelayOutcome.RATE_LIMITED in outcomes:
            before = 0 if RelayOutcome.ACCEPTED in outcomes else self._relays.rate_limits(url)
            until = now + self._wait(RATE_LIMIT_FIRST_SECONDS, before + 1)
            self._relays.pause(url, until, before + 1, now)
        elif RelayOutcome.ACCEPTED in outcomes:
            self._relays.remove_remark(url, Remark.RATE_LIMITED)

    def record_served(self, url: str, seqs: Iterable[int], now: float) -> None:
        """Record, inside the caller's transaction, that a relay served these events: stronger proof than an OK."""
        self._db.execute_many(
            "INSERT INTO outbox (relay, event, state, due_at, seen_at) "
            "SELECT relay, seq, 'confirmed', 0, ? FROM events, relays WHERE seq = ? AND url = ? "
            "ON CONFLICT DO UPDATE SET state = 'confirmed', reason = '', seen_at = excluded.seen_at",
            [(now, seq, url) for seq in seqs],
        )

    def counts(self, url: str) -> dict[str, int]:
        """How many events are in each state for a relay."""
        return dict(
            self._db.rows(
                "SELECT state, count(*) FROM outbox JOIN relays USING (relay) WHERE url = ? GROUP BY state",
                url,
            )
        )

    def reasons(self, url: str) -> dict[str, int]:
        """Why events wait or were refused at a relay: sentences, with counts."""
        return {reason_sentence(code): count for code, count in self._reasons(url).items()}

    def has_lost(self, url: str) -> bool:
        """Whether an event is queued because this relay has lost it."""
        return LedgerReason.LOST in self._reasons(url)

    def _reasons(self, url: str) -> dict[str, int]:
        return dict(
            self._db.rows(
                "SELECT reason, count(*) FROM outbox JOIN relays USING (relay) "
                "WHERE url = ? AND reason <> '' AND state <> 'confirmed' GROUP BY reason ORDER BY 2 DESC",
                url,
            )
        )

    def next_due(self, urls: Sequence[str]) -> float | None:
        """When the next queued event may be sent to any of these relays, or None."""
        times = [
            max(found[0], self._relays.paused_until(url))
            for url in urls
            if (
                found := self._db.row(
                    "SELECT min(due_at) FROM outbox WHERE state = 'queued' "
                    "AND relay = (SELECT relay FROM relays WHERE url = ?)",
                    url,
                )
            )
            and found[0] is not None
        ]
        return min(times, default=None)

    def states_by_relay(self, seq: int) -> dict[str, str]:
        """The state of one event at each relay for which the event has a row."""
        return dict(
            self._db.rows("SELECT url, state FROM outbox JOIN relays USING (relay) WHERE event = ?", seq)
        )

    def _record(self, url: str, seq: int, verdict: RelayVerdict, now: float) -> None:
        row = self._db.row(
            "SELECT o.relay, o.tries, o.first_try_at, e.role FROM outbox o JOIN relays r USING (relay) "
            "JOIN events e ON e.seq = o.event WHERE r.url = ? AND o.event = ? AND o.state = 'queued'",
            url,
            seq,
        )
        if row is None:
            return
        # A rate limit is no failure of the event, so it does not count as an attempt.
        counts = verdict.outcome is not RelayOutcome.RATE_LIMITED
        relay, tries, first = row[0], row[1] + counts, row[2] or (now if counts else None)
        verdict = self._interpreted(url, relay, seq, ROLES[row[3]], verdict)
        state, due = self._next(verdict.outcome, tries, first or now, now)
        self._db.execute(
            "UPDATE outbox SET state = ?, reason = ?, tries = ?, first_try_at = ?, due_at = ? "
            "WHERE relay = ? AND event = ?",
            state,
            reason_code(verdict.reason),
            tries,
            first,
            due,
            relay,
            seq,
        )

    def _interpreted(self, url: str, relay: int, seq: int, role: Role, verdict: RelayVerdict) -> RelayVerdict:
        """A verdict, interpreted by what is known of the relay and the event."""
        outcome = verdict.outcome
        if outcome is RelayOutcome.DELETED and not role.is_removal:
            # The relay says that the author deleted this memory, which this ledger did not do: the status shows it.
            why = (
                LedgerReason.OLD_DELETION
                if self._db.row(_FORGOTTEN_ONCE, seq)
                else LedgerReason.NOT_OUR_DELETION
            )
            return RelayVerdict(RelayOutcome.REFUSED, why)
        if role.is_tombstone and outcome in _NEGATIVE_OUTCOMES and self._db.row(_SETTLED, relay, seq):
            # Some relays do not use the prefix `deleted`. At a relay that keeps no requests, the tombstone is tried
            # again: nothing else there says that the memory was forgotten.
            drops = self._drops_deletions(url)
            return RelayVerdict(RelayOutcome.RETRY, LedgerReason.NO_TOMBSTONE) if drops else _ACCEPTS
        if outcome is RelayOutcome.DELETED:
            return _ACCEPTS
        if outcome is RelayOutcome.SUPERSEDED and not self._db.row(_OVERTAKEN, relay, seq):
            return RelayVerdict(
                RelayOutcome.RETRY, verdict.reason
            )  # a mere claim: no newer version was shown
        return verdict

    def _next(self, outcome: RelayOutcome, tries: int, first: float, now: float) -> tuple[str, float]:
        """State and due time after a verdict. No event is ever dropped: after a week of retries it is parked."""
        if outcome is RelayOutcome.ACCEPTED:
            return "acked", now
        if outcome is RelayOutcome.SUPERSEDED:
            return "superseded", now
        if outcome in {RelayOutcome.REFUSED, RelayOutcome.NEEDS_AUTH}:
            return "refused", now
        if outcome is RelayOutcome.RATE_LIMITED:
            return "queued", now
        if now - first > PARK_SECONDS:
            return "parked", now
        return "queued", now + self._wait(RETRY_FIRST_SECONDS, tries)

    def _wait(self, first: float, times: int) -> float:
        """Seconds to wait after `times` failures in a row: `first`, doubled with each further failure, with jitter."""
        wait: float = min(first * 2 ** min(times - 1, 20), RETRY_MAX_SECONDS)
        return wait * self._random.uniform(1 - JITTER, 1 + JITTER)


_ACCEPTS: Final = RelayVerdict(RelayOutcome.ACCEPTED)
_NEGATIVE_OUTCOMES: Final = frozenset({RelayOutcome.DELETED, RelayOutcome.RETRY, RelayOutcome.REFUSED})
# An event dated ahead waits until its second, but at most `AHEAD_SECONDS`; see `stamps`.
_DUE = f"max(?, min(created_at, ? + {AHEAD_SECONDS}))"
_NEXT = (
    "SELECT e.seq, e.id, e.slot, e.body, o.due_at, u.event IS NOT NULL FROM outbox o JOIN relays r USING (relay) "
    "JOIN events e ON e.seq = o.event LEFT JOIN unsent u ON u.event = o.event "
    "WHERE r.url = ? AND o.state = 'queued' AND o.due_at <= ? AND (o.due_at, o.event) > (?, ?) "
    "ORDER BY o.due_at, o.event LIMIT ?"
)
_HAND_OUT = (
    "DELETE FROM unsent WHERE event IN (SELECT event FROM outbox "
    "WHERE relay = (SELECT relay FROM relays WHERE url = ?) AND state = 'queued' AND due_at <= ?)"
)
_ACCEPTED = (
    "UPDATE outbox SET state = 'acked', reason = ?, tries = tries + 1, first_try_at = coalesce(first_try_at, ?), "
    "due_at = ? WHERE state = 'queued' AND event = ? AND relay = (SELECT relay FROM relays WHERE url = ?)"
)
_RETRY = (
    "UPDATE outbox SET state = 'queued', reason = '', tries = 0, first_try_at = NULL, due_at = ? "
    "WHERE state IN ('refused', 'parked') AND relay = (SELECT relay FROM relays WHERE url = ?)"
)
_LOST_AGAIN = (
    "UPDATE outbox SET state = 'queued', reason = ?1, tries = 0, first_try_at = NULL, due_at = max(?2, due_at + ?3) "
    f"WHERE event = ?4 AND relay = (SELECT relay FROM relays WHERE url = ?5) AND state IN {HELD}"
)
_MAKE_DUE = (
    "UPDATE outbox SET due_at = ?1 WHERE state = 'queued' AND due_at > ?1 AND reason NOT IN ('', ?3, ?4) "
    "AND relay = (SELECT relay FROM relays WHERE url = ?2)"
)
# Whether the event `e` of the row `o` is a tombstone whose deletion the same relay has accepted.
_IS_SETTLED = (
    f"(e.{IS_TOMBSTONE} AND EXISTS (SELECT 1 FROM deletions d JOIN events x ON x.id = d.by_event "
    "JOIN outbox k ON k.event = x.seq AND k.relay = o.relay "
    f"WHERE d.target = e.slot AND d.until >= e.created_at AND k.state IN {HELD}))"
)
_DELETED_THERE = (
    "SELECT 1 FROM deletions d JOIN events e ON e.id = d.by_event JOIN outbox o ON o.event = e.seq "
    "JOIN relays r USING (relay) LEFT JOIN slots s ON s.slot = d.target WHERE d.target = ? AND url = ? "
    f"AND state IN {HELD} AND (s.head IS NULL OR s.mark_at <= d.until)"
)
_TOMBSTONES_THERE = (
    f"SELECT 1 FROM slots s JOIN events e ON e.seq = s.head AND e.{IS_TOMBSTONE} JOIN outbox o ON o.event = e.seq "
    f"JOIN relays r USING (relay) WHERE s.slot = ? AND url = ? AND state IN {HELD}"
)
_FORGOTTEN_ONCE = "SELECT 1 FROM deletions d JOIN events e ON e.slot = d.target WHERE e.seq = ?"
# INDEXED BY, because SQLite would otherwise scan every row of a relay for the few that are queued.
_WAITING = "outbox o INDEXED BY outbox_waiting"
_QUEUED_DELETIONS = (
    f"SELECT e.seq, o.reason, e.body FROM {_WAITING} CROSS JOIN events e ON e.seq = o.event AND e.{IS_REQUEST} "
    "WHERE o.relay = ? AND o.state = 'queued'"
)
_DELAYED = f"SELECT 1 FROM {_WAITING} WHERE o.relay = ? AND o.state = 'queued' AND o.due_at > ? AND o.reason = ? LIMIT 1"
_QUEUED_TOMBSTONES = (
    f"SELECT e.seq FROM {_WAITING} CROSS JOIN events e ON e.seq = o.event AND e.{IS_TOMBSTONE} WHERE o.relay = ? "
    "AND o.state = 'queued' AND NOT EXISTS (SELECT 1 FROM slots WHERE head = e.seq)"
)
_DELAY = (
    "INSERT INTO outbox (relay, event, state, reason, due_at) "
    f"SELECT r.relay, s.head, 'queued', '{LedgerReason.AFTER_DELETION}', ?1 FROM slots s, relays r "
    "WHERE s.slot = ?3 AND s.head IS NOT NULL AND r.url = ?4 "
    "ON CONFLICT DO UPDATE SET state = 'queued', reason = excluded.reason, due_at = excluded.due_at, "
    "tries = iif(state = 'queued', tries, 0), first_try_at = iif(state = 'queued', first_try_at, NULL) "
    "WHERE state IN ('acked', 'confirmed', 'superseded') OR state = 'queued' AND due_at <= ?2"
)
_RELEASE = "UPDATE outbox SET due_at = ?2, reason = '' WHERE relay = ?1 AND state = 'queued' AND due_at > ?2 AND reason = ?3"
_LEAVE_OUT = "UPDATE outbox SET state = 'superseded', reason = '' WHERE relay = ? AND event = ?"
_KEPT_DELETION = (
    "SELECT 1 FROM events e CROSS JOIN outbox o ON o.event = e.seq JOIN relays r USING (relay) "
    f"WHERE e.{IS_REQUEST} AND o.state = 'confirmed' AND r.url = ?"
)
_UNPROVEN = (
    "SELECT e.id FROM events e CROSS JOIN outbox o ON o.event = e.seq JOIN relays r USING (relay) "
    f"WHERE e.{IS_REQUEST} AND o.state = 'acked' AND r.url = ? ORDER BY e.seq DESC LIMIT 20"
)
_REQUEUE_TOMBSTONES = (
    "INSERT INTO outbox (relay, event, state, due_at) SELECT ?2, s.head, 'queued', ?1 FROM deletions d "
    f"CROSS JOIN slots s ON s.slot = d.target CROSS JOIN events e ON e.seq = s.head AND e.{IS_TOMBSTONE} WHERE ?2 > 0 "
    "ON CONFLICT DO UPDATE SET state = 'queued', reason = '', due_at = excluded.due_at, tries = 0, "
    "first_try_at = NULL WHERE state IN ('acked', 'confirmed', 'superseded')"
)
# Whether the relay has shown or accepted a version that wins over the event.
_OVERTAKEN = (
    "SELECT 1 FROM events e JOIN events n ON n.slot = e.slot AND (n.created_at > e.created_at "
    "OR n.created_at = e.created_at AND n.id < e.id) JOIN outbox o ON o.event = n.seq AND o.relay = ?1 "
    f"AND o.state IN {HELD} WHERE e.seq = ?2"
)
_OLDER_SEEN = (
    "SELECT 1 FROM events h JOIN events e USING (slot) JOIN outbox o ON o.event = e.seq AND e.seq <> h.seq "
    "JOIN relays r USING (relay) WHERE h.seq = ? AND r.url = ? AND o.seen_at >= ?"
)
_SETTLED = (
    "SELECT 1 FROM outbox o JOIN events e ON e.seq = o.event "
    f"WHERE o.relay = ? AND o.event = ? AND {_IS_SETTLED}"
)
_CURRENT_OF_SLOT = (
    "SELECT head FROM slots WHERE slot = ? AND head IS NOT NULL UNION "
    f"SELECT e.seq FROM deletions d JOIN events e ON e.id = d.by_event AND e.{IS_REQUEST} "
    "WHERE d.target = ? AND NOT EXISTS (SELECT 1 FROM slots s JOIN events h ON h.seq = s.head "
    f"WHERE s.slot = d.target AND h.{IS_CONTENT} AND h.created_at > d.until)"
)
