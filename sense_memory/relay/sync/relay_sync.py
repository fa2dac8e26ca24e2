"""One run with one relay over an open connection: pull, then push the queued events.

What is guaranteed: an event counts as sent only after an OK with its id, or after the relay has shown it. Events that
were in flight when the connection ended are sent again, with the same bytes. A relay that never completed a pull is sent
nothing (unless `offline_first` is set), so that a new device overwrites nothing that it has not seen. (A hidden journal
does not count, because its entries replace nothing: see `conclusions`.)

Why it is safe: an event has the same id on every attempt, so if a crash loses a verdict, the event is sent once more and
nothing else happens. Only one process at a time publishes. A rate limit ends the push and pauses the relay.

What it costs: one EVENT and one OK for each event; at most 500 events or 4 MiB are in flight. If a relay hangs up when it
receives a certain event, finding the event takes about log2(n) more connections (see `Isolation`).

This module handles verified events; only the intake, which is passed in, reads their content.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from sense_memory.errors import RelayError
from sense_memory.ledger.relays import Remark
from sense_memory.limits import AHEAD_SECONDS, CLOCK_TICK_SECONDS, PUBLISH_WINDOW_COUNT, SEND_BATCH_COUNT
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, Event
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import REASONS, RelayOutcome, RelayVerdict
from sense_memory.relay.client.actions import CONNECTION_LOST, TOO_LARGE_LOST
from sense_memory.relay.client.connection import each
from sense_memory.relay.client.nip11 import is_too_large
from sense_memory.relay.sync.agenda import RelayQuestion
from sense_memory.relay.sync.pull import Puller, fetching
from sense_memory.relay.sync.reports import RelayReport
from sense_memory.relay.sync.walk import PullResult, by_address


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.outbox import OutboxEntry
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.sync.agenda import SyncPlan
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.walk import FileEvents


# ── Isolation ───────────────────────────────────────────────────────────────────────────
# Finds the event at which a relay hangs up, so that this event does not block the others. No I/O.
#
# A relay with unknown limits hangs up when it receives an event that is too large, with code 1009 or without a reason.
# All events in flight stay queued, and the next connection would end the same way. So these events are sent again in
# parts, the smallest events first, each part twice as large as the part before. The part at which the relay hangs up
# contains the suspects for the next connection, until a single suspect is left.
#
# What is guaranteed: an event is given up only if it alone was in flight when the relay hung up, and the relay had
# answered a request just before. One hang-up is enough if its code says that a message is too large; otherwise it takes
# three, and the relay must have accepted other events meanwhile.
#
# Why it is safe: a network failure alone never makes us give up an event. Events that were cut off stay queued, and a
# sole suspect is sent after all other events.
#
# What it costs: about log2(n) connections for n events.

UNANSWERED_COUNT: Final = 2  # consecutive connections that ended before any event in flight was answered
SUSPECT_HANGUPS_COUNT: Final = 3  # hang-ups at one event, without a reason, before this event is given up


class Isolation:
    """The search for the event at which one relay hangs up.

    Attributes:
        suspects: seqs of events, one of which makes the relay hang up; empty while there is no suspicion.
        moved: whether the last connection narrowed the search.
        gave_up: whether the last connection ended because of an event that was then given up.
    """

    def __init__(self) -> None:
        self.suspects: tuple[int, ...] = ()
        self.moved = self.gave_up = False
        self._unanswered = 0
        self._accepts_others = False  # whether the relay has judged any event since it began to hang up
        self._hangups: Counter[int] = Counter()  # hang-ups at a sole suspect, by seq

    @property
    def sole_suspect(self) -> int | None:
        """The only suspect, which is sent after all other events; None if there are several suspects, or none."""
        return self.suspects[0] if len(self.suspects) == 1 else None

    def begin(self) -> None:
        """Begin a run over a connection."""
        self.moved = self.gave_up = False

    def record_sending(self, lost: Sequence[int], *, answered: bool, is_too_large: bool) -> None:
        """Record the end of the normal sending.

        Args:
            lost: seqs of the events in flight when the relay hung up; empty if the relay did not hang up.
            answered: whether the relay had answered any event before.
            is_too_large: whether the relay said that a message is too large.
        """
        self._accepts_others = (self._accepts_others or answered) and bool(lost or self.suspects)
        self._unanswered = self._unanswered + 1 if lost and not answered else 0
        if lost and (is_too_large or self._unanswered >= UNANSWERED_COUNT):
            self.moved = is_too_large or self._accepts_others or not self.suspects
            self.suspects = tuple(lost)

    def record_accepted_part(self) -> None:
        """Record that the relay answered every event of a part of the suspects."""
        self._accepts_others = self.moved = True

    def record_failed_part(self, lost: Sequence[int], *, is_too_large: bool) -> bool:
        """Record that the relay hung up at a part of the suspects; returns whether to give up the event of this part."""
        self.suspects = tuple(lost)
        self.moved |= len(lost) > 1 or is_too_large or self._accepts_others
        if len(lost) > 1 or not (is_too_large or self._accepts_others):
            return False
        self._hangups[lost[0]] += 1
        if not is_too_large and self._hangups[lost[0]] < SUSPECT_HANGUPS_COUNT:
            return False
        del self._hangups[lost[0]]
        self.clear()
        self.gave_up = True
        return True

    def clear(self) -> None:
        """End the search; no event is suspected."""
        self.suspects, self._unanswered = (), 0


_TOO_LARGE = RelayVerdict(RelayOutcome.REFUSED, REASONS["too-large"])
_HANGS_UP = RelayVerdict(RelayOutcome.REFUSED, "the relay disconnects when it receives this event")


class Intake(Protocol):
    """A function that files the verified events of a relay in the ledger."""

    async def __call__(self, events: Sequence[Event], relay: str) -> Mapping[str, int]:
        """File events that a relay served; returns counts by how the events were filed."""


@dataclass(slots=True)
class _SendProgress:
    """The state of one sending.

    Attributes:
        sent: our events, counted by the relay's verdict.
        served: events that the relay showed during the sending, counted by how they were filed.
        waiting: the events in flight, by id.
        verdicts: the verdicts that are not recorded yet, by seq.
    """

    sent: Counter[str]
    served: Counter[str]
    waiting: dict[str, OutboxEntry] = field(default_factory=dict)
    verdicts: dict[int, RelayVerdict] = field(default_factory=dict)


class RelaySync:
    """The synchronisation of one ledger with one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: the ledger's public key, 64 hex digits.
        intake: files pulled events.
        inventories: the compared inventories, shared by all relays of a store.
        clock: seconds since 1970.

    Attributes:
        was_cut_off: whether the relay hung up during the last run.
        made_progress: whether the next run can build on the last run.
        refetched: how many known events the last run fetched again.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        author: str,
        intake: Intake,
        *,
        inventories: InventoryCache,
        clock: Callable[[], float],
    ) -> None:
        self._url, self._ledger, self._author = url, ledger, author
        self._intake, self._clock = intake, clock
        self._puller = Puller(url, ledger, author, inventories=inventories, clock=clock)
        self.was_cut_off = self.made_progress = False
        self.refetched = 0
        self._isolation = Isolation()
        self._reached = 0.0  # the latest second that `_wait_for_dated_ahead` has waited for
        self._reported: tuple[RelayConnection | None, Counter[str]] = None, Counter()  # useless frames

    async def run(self, connection: RelayConnection, plan: SyncPlan, as_of: float) -> RelayReport:
        """Pull and push once; if the connection fails, the report has the `problem`.

        Args:
            connection: an open connection to the relay.
            plan: what to do.
            as_of: the relay must show everything that had reached it by this time, seconds since 1970.
        """
        self.made_progress, self.refetched = False, 0
        self._isolation.begin()
        served: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        pulled = PullResult()
        await self._ledger.write_if_due(self._ledger.relays.correct_future_times, self._url, self._clock())
        if plan.question is RelayQuestion.SWEEP:
            await self._ledger.write(self._ledger.outbox.make_due, self._url, self._clock())
        if plan.question.pulls:
            file_events = self._filing_into(served)
            pulled = await self._puller.pull(connection, file_events, plan.question, as_of)
            self.made_progress = self._puller.made_progress or pulled.shows_all_but_hidden
            self.refetched = max(0, self._puller.received_in_overlap - served["new"])
        held_back = self.is_held_back(plan)
        if not held_back and connection.is_open:
            await self._send(connection, sent, served)
            if connection.is_open and await self._wait_for_dated_ahead():
                await self._send(connection, sent, served)
        problem = connection.problem or ""
        self.was_cut_off = problem.startswith(CONNECTION_LOST) and not connection.misbehaving
        self.made_progress |= self._isolation.moved or not sent.keys() <= {
            RelayOutcome.RETRY.value,
            RelayOutcome.RATE_LIMITED.value,
        }
        return replace(
            self.ledger_report(),
            problem="" if self._isolation.gave_up else problem,
            pulled=pulled,
            served=dict(served),
            sent=dict(sent),
            useless=self._new_useless(connection),
            misbehaving=connection.misbehaving,
            asked=plan.question.pulls,
            held_back=held_back,
        )

    def _new_useless(self, connection: RelayConnection) -> dict[str, int]:
        """The useless frames that the relay sent since the last report of this connection."""
        known, before = self._reported
        now = _useless(connection)
        self._reported = connection, now
        return dict(now - before if connection is known else now)

    def ledger_report(self) -> RelayReport:
        """The report of a relay that was not asked, from the ledger alone."""
        outbox = self._ledger.outbox
        counts = outbox.counts(self._url)
        return RelayReport(
            self._url,
            reasons=outbox.reasons(self._url),
            waiting=counts.get("queued", 0),
            refused=counts.get("refused", 0) + counts.get("parked", 0),
            paused_seconds=max(0.0, self._ledger.relays.paused_until(self._url) - self._clock()),
            serves_deleted=self._ledger.relays.has_remark(self._url, Remark.UNDELETED),
            asked=False,
        )

    def is_held_back(self, plan: SyncPlan) -> bool:
        """Whether nothing may be sent, because the relay never completed a pull."""
        return self._ledger.relays.state(self._url).completed_at is None and not plan.offline_first

    async def _send(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        """Push, unless another process is publishing; counts verdicts in `sent` and shown events in `served`."""
        async with self._ledger.publishing() as ours:
            if ours:
                with suppress(RelayError):  # the report has the connection's `problem`
                    await self._push(connection, sent, served)

    async def _wait_for_dated_ahead(self) -> bool:
        """Wait for the date of queued events that are dated ahead (see `ledger.stamps`).

        Returns whether there were such events and they may be sent now.
        """
        due = self._ledger.outbox.next_due([self._url])
        if due is None or not self._now() < due <= self._clock() + AHEAD_SECONDS:
            return False
        while (left := due - self._clock()) > 0:
            if left > AHEAD_SECONDS:
                return False  # the clock was set back
            before = self._clock()
            await asyncio.sleep(min(left, CLOCK_TICK_SECONDS))
            if self._clock() == before:
                break  # the clock stands still, and would never reach the second
        self._reached = due
        return True

    def _now(self) -> float:
        """The time by which events are due, seconds since 1970."""
        return max(self._clock(), self._reached)

    async def _push(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        """Send all events that are due, suspects apart from the others, until nothing new becomes due."""
        outbox = self._ledger.outbox
        await self._ledger.write_if_due(outbox.queue_missing, self._url, self._clock())
        await self._ledger.write_if_due(outbox.drop_outdated, self._url)
        await self._ledger.write_if_due(outbox.release_heads, self._url, self._clock())
        isolation = self._isolation
        # Some relays also delete versions newer than the deletion request; these versions are sent after the request.
        if outlived := outbox.outlived_slots(self._url, self._now()):
            await self._ledger.write(outbox.delay_heads, self._url, outlived, self._now())
        if isolation.sole_suspect is None and isolation.suspects:
            await self._isolate(connection, sent, served)
        if connection.is_open:
            sending, judged = _SendProgress(sent, served), sent.total()
            lost = await self._offer(connection, self._due(connection, sending), sending)
            too_large = connection.problem == TOO_LARGE_LOST
            isolation.record_sending(lost, answered=sent.total() > judged, is_too_large=too_large)
        if connection.is_open and isolation.sole_suspect is not None:
            await self._isolate(connection, sent, served)
        released = await self._ledger.write_if_due(outbox.release_heads, self._url, self._clock())
        if not connection.is_open:
            return
        if await self._drops_deletions(connection) or (released and isolation.sole_suspect is None):
            await self._push(connection, sent, served)

    async def _offer(
        self, connection: RelayConnection, entries: AsyncIterator[OutboxEntry], sending: _SendProgress
    ) -> list[int]:
        """Send events and record the relay's verdict on each; returns the seqs of the events that were cut off."""
        outbox, verdicts = self._ledger.outbox, sending.verdicts
        newer: dict[int, tuple[str, RelayVerdict]] = {}  # events whose newer version the relay claims to have
        lost: list[int] = []
        # After a rate limit, a single event is sent first, to find out whether the limit still applies.
        first = 1 if self._ledger.relays.rate_limits(self._url) else None
        items = ((entry.id, entry.body) async for entry in entries)
        async for ident, verdict in connection.publish(items, first=first):
            entry = sending.waiting.pop(ident)
            seq = entry.seq
            if verdict.outcome is RelayOutcome.RETRY and verdict.reason == (connection.problem or ""):
                lost.append(seq)  # the relay did not answer, so the event stays due
                continue
            sending.sent[verdict.outcome.value] += 1
            if verdict.outcome is RelayOutcome.SUPERSEDED:
                newer[seq] = Event.restored(entry.body).d_tag or "", verdict
                continue
            verdicts[seq] = verdict
            if len(verdicts) >= PUBLISH_WINDOW_COUNT:
                await self._ledger.write(outbox.record_verdicts, self._url, verdicts, self._clock())
                verdicts.clear()
        await self._ledger.write(outbox.record_verdicts, self._url, verdicts, self._clock())
        if newer:
            await self._pull_newer(connection, [tag for tag, _ in newer.values() if tag], sending.served)
            claims = {seq: verdict for seq, (_, verdict) in newer.items()}
            # By now the relay has shown the newer version, or its claim is false.
            await self._ledger.write(outbox.record_verdicts, self._url, claims, self._clock())
        return lost

    async def _isolate(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        """Send the suspects in parts, to find the event at which the relay hangs up (see `Isolation`)."""
        outbox, isolation = self._ledger.outbox, self._isolation
        due = outbox.still_due(self._url, isolation.suspects, self._now())
        entries, size = sorted(due, key=lambda entry: len(entry.body)), 1
        while entries:
            part, entries = entries[:size], entries[size:]
            if len(part) == 1 and not await self._is_responsive(connection):
                return
            sending = _SendProgress(sent, served, {entry.id: entry for entry in part})
            lost = await self._offer(connection, each(part), sending)
            if lost or not connection.is_open:
                too_large = connection.problem == TOO_LARGE_LOST
                if lost and isolation.record_failed_part(lost, is_too_large=too_large):
                    await self._give_up(next(entry for entry in part if entry.seq in lost), too_large)
                return
            isolation.record_accepted_part()
            size *= 2
        isolation.clear()

    async def _is_responsive(self, connection: RelayConnection) -> bool:
        """Whether the relay answers a simple request now."""
        simple = Filter(authors=(self._author,), kinds=(KIND_DELETION,), limit=1)
        return (await fetching(connection)([simple])).complete

    async def _give_up(self, entry: OutboxEntry, is_too_large: bool) -> None:
        """Give up an event, or if it is too large every event of at least its size, until a user asks to send again."""
        outbox = self._ledger.outbox
        seqs = outbox.as_large_as(self._url, len(entry.body)) if is_too_large else [entry.seq]
        verdict = _TOO_LARGE if is_too_large else _HANGS_UP
        await self._ledger.write(
            outbox.record_verdicts, self._url, dict.fromkeys(seqs, verdict), self._clock()
        )

    async def _drops_deletions(self, connection: RelayConnection) -> bool:
        """Ask for accepted deletion requests; returns whether the relay is found to keep none.

        Such a relay has removed the tombstones too, so other devices would never learn what was forgotten. The tombstones
        are queued again, and they stay at the relay because it gets no further deletion requests by address.
        """
        outbox = self._ledger.outbox
        if not (accepted := tuple(outbox.unproven_deletions(self._url))):
            return False
        mine = Filter(authors=(self._author,), kinds=(KIND_DELETION,), ids=accepted, limit=len(accepted))
        page = await fetching(connection)([mine])
        if page.events or not page.complete:
            await self._filing_into(Counter())(page.events)
            return False
        await self._ledger.write(self._requeue_tombstones)
        return True

    def _requeue_tombstones(self) -> None:
        self._ledger.relays.add_remark(self._url, Remark.DROPS_DELETIONS, self._clock())
        self._ledger.outbox.requeue_tombstones(self._url, self._clock())

    async def _due(self, connection: RelayConnection, sending: _SendProgress) -> AsyncIterator[OutboxEntry]:
        """The due events in batches; each event is recorded as waiting, or refused at once if it is too large."""
        last, due = None, self._ledger.outbox.due
        while entries := await self._ledger.write_if_due(
            due, self._url, self._now(), SEND_BATCH_COUNT, after=last
        ):
            for entry in entries:
                if entry.seq == self._isolation.sole_suspect:
                    continue
                if is_too_large(entry.body, connection.information):
                    sending.verdicts[entry.seq] = _TOO_LARGE
                else:
                    sending.waiting[entry.id] = entry
                    yield entry
            last = entries[-1]

    async def _pull_newer(
        self, connection: RelayConnection, tags: Sequence[str], served: Counter[str]
    ) -> None:
        """Fetch the versions that the relay claims are newer than ours."""
        wanted = Filter(authors=(self._author,), kinds=(KIND_APP_DATA,))
        await by_address(fetching(connection), self._filing_into(served), wanted, tags)

    def _filing_into(self, served: Counter[str]) -> FileEvents:
        async def file_events(events: Sequence[Event]) -> None:
            # Relays show the newest event first; in reverse, events are filed in the order in which they were written.
            served.update(await self._intake(events[::-1], self._url))

        return file_events


def _useless(connection: RelayConnection) -> Counter[str]:
    """The useless frames of a relay so far, without challenges, because relays begin with a challenge."""
    return Counter({**asdict(connection.counts), "challenges": 0})
