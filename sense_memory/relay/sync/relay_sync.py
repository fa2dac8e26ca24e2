"""One relay brought in step with the ledger: pull, then send what is queued, over an open connection.

What is guaranteed: an event leaves the queue only with an OK that names it. What was in flight when the connection ended
is sent again, with the same bytes. A relay that never completed a pull is sent nothing (unless `offline_first` says so),
so that a new device overwrites nothing that it has not seen.

Why it is safe: the id is the same on every try, so a verdict that a crash kept from being recorded costs one more
EVENT and nothing else. One process at a time publishes. A rate limit ends the offer and pauses the relay.

What it costs: one EVENT and one OK for each event; at most 500 events or 4 MB are in flight. A relay that hangs up at
some event costs about log2(n) more connections to find it (see Isolation).

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
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION
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
    from sense_memory.nostr.event import Event
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.sync.agenda import SyncPlan
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.walk import FileEvents


# ── Isolation ───────────────────────────────────────────────────────────────────────────
# Finds the event at which a relay hangs up, so that an event which the relay cannot take does not block others. No I/O.
#
# A relay with unknown limits hangs up when it gets an event that is too large, with code 1009 or without a reason. All
# events in flight stay queued, and the next connection would end the same way. So these events are sent again in parts,
# the smallest events first, each part twice as large as the part before. The part at which the relay hangs up holds the
# suspects for the next connection, until a single suspect is left.
#
# What is guaranteed: an event is given up only if nothing else was in flight when the relay hung up, and the relay had
# answered a question right before it; once where the code says that a message is too large, else three times, and only
# if the relay took other events meanwhile. So trouble of the network refuses no event; what it cuts off stays queued,
# and an event that is alone under suspicion is sent after the others. The cost is some log2(n) connections for n events.

VAIN_COUNT: Final = 2  # connections in a row that ended with events in flight, none of them answered
ALONE_COUNT: Final = 3  # hang-ups at one event, without a reason, before that event is given up


class Isolation:
    """What is known of the event at which one relay hangs up.

    Attributes:
        suspects: seqs of the events among which one makes the relay hang up; empty while nothing is suspected.
        moved: whether the last connection brought the search further.
        gave_up: whether the last connection ended because of an event that was then given up.
    """

    def __init__(self) -> None:
        self.suspects: tuple[int, ...] = ()
        self.moved = self.gave_up = False
        self._in_vain = 0
        self._takes_others = False  # whether the relay has taken any event since it began to hang up
        self._alone: Counter[int] = Counter()

    @property
    def sole_suspect(self) -> int | None:
        """The only suspect, for which other events do not wait; None if there are several suspects, or none."""
        return self.suspects[0] if len(self.suspects) == 1 else None

    def begin(self) -> None:
        """A run over a connection begins."""
        self.moved = self.gave_up = False

    def ended(self, lost: Sequence[int], *, answered: bool, is_too_large: bool) -> None:
        """The usual sending ended.

        Args:
            lost: seqs of the events in flight when the relay hung up; none if it did not hang up.
            answered: whether the relay had answered any event before.
            is_too_large: whether the relay said that a message is too large.
        """
        self._takes_others = (self._takes_others or answered) and bool(lost or self.suspects)
        self._in_vain = self._in_vain + 1 if lost and not answered else 0
        if lost and (is_too_large or self._in_vain >= VAIN_COUNT):
            self.moved = is_too_large or self._takes_others or not self.suspects
            self.suspects = tuple(lost)

    def took(self) -> None:
        """The relay took a part of the suspects."""
        self._takes_others = self.moved = True

    def failed(self, lost: Sequence[int], *, is_too_large: bool) -> bool:
        """The relay hung up at a part of the suspects; returns whether to give up the single event of that part."""
        self.suspects = tuple(lost)
        self.moved |= len(lost) > 1 or is_too_large or self._takes_others
        if len(lost) > 1 or not (is_too_large or self._takes_others):
            return False
        self._alone[lost[0]] += 1
        if not is_too_large and self._alone[lost[0]] < ALONE_COUNT:
            return False
        del self._alone[lost[0]]
        self.passed()
        self.gave_up = True
        return True

    def passed(self) -> None:
        """End the search: no event is suspected any more."""
        self.suspects, self._in_vain = (), 0


_TOO_LARGE = RelayVerdict(RelayOutcome.REFUSED, REASONS["too-large"])
_HANGS_UP = RelayVerdict(RelayOutcome.REFUSED, "the relay disconnects when it receives this event")


class Intake(Protocol):
    """Files the verified events of a relay in the ledger."""

    async def __call__(self, events: Sequence[Event], relay: str) -> Mapping[str, int]:
        """File events that a relay served; returns counts by fate."""


@dataclass(slots=True)
class _SendProgress:
    """One sending.

    Attributes:
        sent: the relay's verdicts so far, with counts.
        served: how events that the relay showed meanwhile were filed, with counts.
        waiting: seq and slot of the events in flight, by id.
        verdicts: the verdicts to record, by seq.
    """

    sent: Counter[str]
    served: Counter[str]
    waiting: dict[str, tuple[int, str]] = field(default_factory=dict)
    verdicts: dict[int, RelayVerdict] = field(default_factory=dict)


class RelaySync:
    """The synchronisation of one ledger with one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: its public key, 64 hex digits.
        intake: where pulled events go.
        inventories: what is compared with relays, shared by those of a store.
        clock: seconds since 1970.

    Attributes:
        was_cut_off: whether the relay hung up in the last run.
        came_further: whether the last run achieved something all the same, from where the next run continues.
        in_vain: known events that the last run fetched again.
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
        self.was_cut_off = self.came_further = False
        self.in_vain = 0
        self._isolation = Isolation()
        self._awaited = 0.0  # the second that was last waited for
        self._reported: tuple[RelayConnection | None, Counter[str]] = None, Counter()

    async def run(self, connection: RelayConnection, plan: SyncPlan, as_of: float) -> RelayReport:
        """Pull and push once; a connection that fails on the way becomes the report's `problem`.

        Args:
            connection: an open connection to the relay.
            plan: what to do.
            as_of: what came to the relay until then has to be shown, in seconds since 1970.
        """
        self.came_further, self.in_vain = False, 0
        self._isolation.begin()
        served: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        pulled = PullResult()
        await self._ledger.write_if_due(self._ledger.relays.set_clock_back, self._url, self._clock())
        if plan.question is RelayQuestion.SWEEP:
            await self._ledger.write(self._ledger.outbox.make_due, self._url, self._clock())
        if plan.question.pulls:
            file_events = self._filing_into(served)
            pulled = await self._puller.pull(connection, file_events, plan.question, as_of)
            self.came_further = self._puller.came_further or pulled.complete
            self.in_vain = max(0, self._puller.repeated - served["new"])
        held_back = self.is_held_back(plan)
        if not held_back and connection.is_open:
            await self._send(connection, sent, served)
            if connection.is_open and await self._rest_is_due():
                await self._send(connection, sent, served)
        problem = connection.problem or ""
        self.was_cut_off = problem.startswith(CONNECTION_LOST) and not connection.misbehaving
        self.came_further |= self._isolation.moved or not sent.keys() <= {
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
        """The useless frames that a relay sent since the last report, or since it was dialled."""
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
        """Whether nothing may be sent, because the relay never showed everything it has."""
        return self._ledger.relays.state(self._url).completed_at is None and not plan.offline_first

    async def _send(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        async with self._ledger.publishing() as ours:
            if ours:
                with suppress(RelayError):  # the connection's `problem` says what happened
                    await self._push(connection, sent, served)

    async def _rest_is_due(self) -> bool:
        """Wait until the second of what is dated ahead has come, see `ledger.stamps`; False where nothing has."""
        due = self._ledger.outbox.next_due([self._url])
        if due is None or not self._now() < due <= self._clock() + AHEAD_SECONDS:
            return False
        while (left := due - self._clock()) > 0:
            if left > AHEAD_SECONDS:
                return False  # the clock was set back
            before = self._clock()
            await asyncio.sleep(min(left, CLOCK_TICK_SECONDS))
            if self._clock() == before:
                break  # the clock stands still: the second would never come
        self._awaited = due
        return True

    def _now(self) -> float:
        """Seconds since 1970, by which events are due."""
        return max(self._clock(), self._awaited)

    async def _push(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        outbox = self._ledger.outbox
        await self._ledger.write_if_due(outbox.queue_missing, self._url, self._clock())
        await self._ledger.write_if_due(outbox.drop_outdated, self._url)
        await self._ledger.write_if_due(outbox.release_heads, self._url, self._clock())
        isolation = self._isolation
        # Some relays delete newer versions too: these are sent after the request.
        if outlived := outbox.outlived_slots(self._url, self._now()):
            await self._ledger.write(outbox.hold_back_heads, self._url, outlived, self._now())
        if isolation.sole_suspect is None and isolation.suspects:
            await self._isolate(connection, sent, served)
        if connection.is_open:
            sending, judged = _SendProgress(sent, served), sent.total()
            lost = await self._offer(connection, self._due(connection, sending), sending)
            too_large = connection.problem == TOO_LARGE_LOST
            isolation.ended(lost, answered=sent.total() > judged, is_too_large=too_large)
        if connection.is_open and isolation.sole_suspect is not None:
            await self._isolate(connection, sent, served)
        released = await self._ledger.write_if_due(outbox.release_heads, self._url, self._clock())
        if not connection.is_open:
            return
        if await self._keeps_no_deletions(connection) or (released and isolation.sole_suspect is None):
            await self._push(connection, sent, served)

    async def _offer(
        self, connection: RelayConnection, entries: AsyncIterator[OutboxEntry], sending: _SendProgress
    ) -> list[int]:
        """Send events and record the relay's verdict on each; returns the seqs of the events that were cut off."""
        outbox, verdicts = self._ledger.outbox, sending.verdicts
        newer: dict[int, tuple[str, RelayVerdict]] = {}  # what the relay claims to have a newer version of
        lost: list[int] = []
        # After a rate limit one event finds out whether it still holds.
        first = 1 if self._ledger.relays.rate_limits(self._url) else None
        items = ((entry.id, entry.body) async for entry in entries)
        async for ident, verdict in connection.publish(items, first=first):
            seq, slot = sending.waiting.pop(ident)
            if verdict.outcome is RelayOutcome.RETRY and verdict.reason == (connection.problem or ""):
                lost.append(seq)  # no word of the relay's, so it stays due
                continue
            sending.sent[verdict.outcome.value] += 1
            if verdict.outcome is RelayOutcome.SUPERSEDED:
                newer[seq] = slot, verdict
                continue
            verdicts[seq] = verdict
            if len(verdicts) >= PUBLISH_WINDOW_COUNT:
                await self._ledger.write(outbox.record_verdicts, self._url, verdicts, self._clock())
                verdicts.clear()
        await self._ledger.write(outbox.record_verdicts, self._url, verdicts, self._clock())
        if newer:
            await self._pull_newer(connection, [slot for slot, _ in newer.values()], sending.served)
            claims = {seq: verdict for seq, (_, verdict) in newer.items()}
            # By now it has shown a newer version, or made it up.
            await self._ledger.write(outbox.record_verdicts, self._url, claims, self._clock())
        return lost

    async def _isolate(self, connection: RelayConnection, sent: Counter[str], served: Counter[str]) -> None:
        """Find the event at which the relay hangs up: see `Isolation`."""
        outbox, isolation = self._ledger.outbox, self._isolation
        due = outbox.still_due(self._url, isolation.suspects, self._now())
        entries, size = sorted(due, key=lambda entry: len(entry.body)), 1
        while entries:
            part, entries = entries[:size], entries[size:]
            if len(part) == 1 and not await self._answers(connection):
                return
            sending = _SendProgress(sent, served, {entry.id: (entry.seq, entry.slot) for entry in part})
            lost = await self._offer(connection, each(part), sending)
            if lost or not connection.is_open:
                too_large = connection.problem == TOO_LARGE_LOST
                if lost and isolation.failed(lost, is_too_large=too_large):
                    await self._give_up(next(entry for entry in part if entry.seq in lost), too_large)
                return
            isolation.took()
            size *= 2
        isolation.passed()

    async def _answers(self, connection: RelayConnection) -> bool:
        """Whether the relay answers a simple question now."""
        question = Filter(authors=(self._author,), kinds=(KIND_DELETION,), limit=1)
        return (await fetching(connection)([question])).complete

    async def _give_up(self, entry: OutboxEntry, is_too_large: bool) -> None:
        """Give up this event, and every event as large if it is too large, until a user asks to send them again."""
        outbox = self._ledger.outbox
        seqs = outbox.as_large_as(self._url, len(entry.body)) if is_too_large else [entry.seq]
        verdict = _TOO_LARGE if is_too_large else _HANGS_UP
        await self._ledger.write(
            outbox.record_verdicts, self._url, dict.fromkeys(seqs, verdict), self._clock()
        )

    async def _keeps_no_deletions(self, connection: RelayConnection) -> bool:
        """Whether a relay turns out to keep no deletion requests, by asking for those that it accepted.

        Such a relay has removed the tombstones, and other devices would never learn what was forgotten. So the
        tombstones are queued again, and stay there, because their requests are no longer sent to this relay.
        """
        outbox = self._ledger.outbox
        if not (accepted := tuple(outbox.unproven_deletions(self._url))):
            return False
        mine = Filter(authors=(self._author,), kinds=(KIND_DELETION,), ids=accepted, limit=len(accepted))
        page = await fetching(connection)([mine])
        if page.events or not page.complete:
            await self._filing_into(Counter())(page.events)
            return False
        await self._ledger.write(self._bury_again)
        return True

    def _bury_again(self) -> None:
        self._ledger.relays.add_remark(self._url, Remark.DROPS_DELETIONS, self._clock())
        self._ledger.outbox.requeue_tombstones(self._url, self._clock())

    async def _due(self, connection: RelayConnection, sending: _SendProgress) -> AsyncIterator[OutboxEntry]:
        """The due events, read as there is room for them; each is noted as waiting, or judged at once."""
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
                    sending.waiting[entry.id] = entry.seq, entry.slot
                    yield entry
            last = entries[-1]

    async def _pull_newer(
        self, connection: RelayConnection, slots: Sequence[str], served: Counter[str]
    ) -> None:
        """Fetch at once the versions that the relay says are newer than ours."""
        wanted = Filter(authors=(self._author,), kinds=(KIND_APP_DATA,))
        await by_address(fetching(connection), self._filing_into(served), wanted, slots)

    def _filing_into(self, served: Counter[str]) -> FileEvents:
        async def file_events(events: Sequence[Event]) -> None:
            # Relays show the newest first; filed the other way round, arrivals are in the order of their writing.
            served.update(await self._intake(events[::-1], self._url))

        return file_events


def _useless(connection: RelayConnection) -> Counter[str]:
    """The useless frames of a relay so far, without challenges, because relays greet with a challenge."""
    return Counter({**asdict(connection.counts), "challenges": 0})
