"""The link to one relay of a store: its connection, its runs, and the background task that follows the relay.

The agenda decides what the relay is asked next, and the dialler how often it is dialled; the link carries out both.

What is guaranteed: whatever a relay does, `run` returns a report, and no relay delays another. A failure of this machine
is no relay's fault and is kept apart, in `failure`. A relay that hangs up during a run is dialled again at once, as long
as each attempt makes progress and the hourly number of dials allows another.

Why it is safe: runs over one connection never overlap (`_run_lock`). A run that is cut off loses nothing, because pages,
verdicts and positions are written to the ledger during the run.

What it costs: one connection for as long as the relay holds it, a pull every 30 seconds, and a query of the ledger every
2 seconds for events that other processes wrote.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.limits import (
    AHEAD_SECONDS,
    RECONNECT_FIRST_SECONDS,
)
from sense_memory.relay import log_fault
from sense_memory.relay.client.dialler import Dialler
from sense_memory.relay.sync.agenda import Agenda, RelayQuestion, Round, SyncPlan, after_cut_off
from sense_memory.relay.sync.live import LiveSubscription
from sense_memory.relay.sync.relay_sync import RelaySync
from sense_memory.relay.sync.reports import RelayLog, RelayReport


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.client.nip11 import RelayInformation
    from sense_memory.relay.sync.reconcile import InventoryCache
    from sense_memory.relay.sync.relay_sync import Intake


class RelayLink:
    """The link to one relay.

    Attributes:
        url: the relay, as the ledger knows it.
        report: the report of the last run, or None.
        failure: the ledger error that ended the last run, or None.
        last_pull_complete: whether the last pull was complete, but for a journal that the relay hides; None if the relay
            could not be reached or refuses reads.
        live: the live subscription.
        wake: set to make the background ask the next question now.
        first_round: set when the first run has ended.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        signer: Signer,
        intake: Intake,
        *,
        inventories: InventoryCache,
        clock: Callable[[], float],
        timeouts: Timeouts,
        on_pull: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._on_pull = on_pull
        self.last_pull_complete: bool | None = None
        self.url = url
        self.report: RelayReport | None = None
        self.failure: SenseMemoryError | None = None
        self.wake = asyncio.Event()
        self.first_round = asyncio.Event()
        self._recovered = asyncio.Event()
        self._ledger, self._clock = ledger, clock
        self._dialler = Dialler(url, signer, clock=clock, timeouts=timeouts)
        self._sync = RelaySync(url, ledger, signer.public_key, intake, inventories=inventories, clock=clock)
        self._connection: RelayConnection | None = None
        self._log = RelayLog(url)
        self._run_lock = asyncio.Lock()
        self._agenda = Agenda()
        self.live = LiveSubscription(
            url, ledger, signer.public_key, intake, agenda=self._agenda, wake=self.wake.set
        )

    async def run(self, plan: SyncPlan, *, brief: bool = False) -> RelayReport:
        """Make one run, unless there is nothing to do. A failure becomes the report's `problem`.

        Args:
            plan: what to do.
            brief: whether the report of a run with nothing to do may leave out the counts of the ledger.
        """
        async with self._run_lock:
            now = asyncio.get_running_loop().time
            begun, limiter = now(), self._dialler.limiter
            self.failure = None
            if plan.question.pulls:
                self.last_pull_complete = False
            try:
                if not plan.question.pulls and not await self._has_unsent(plan):
                    return RelayReport(self.url, asked=False) if brief else self._sync.ledger_report()
                as_of = self._clock()
                report = await self._run_once(plan, as_of)
                while (rest := await self._remaining(plan, report)) and limiter.may_redial(now()):
                    plan, report = rest, report.continued_by(await self._run_once(rest, as_of))
            except SenseMemoryError as error:  # of the ledger, so the report has no counts
                await self._hang_up()
                self.failure = error
                report = RelayReport(self.url, problem=str(error), asked=plan.question.pulls)
            except Exception as error:  # our bug: the other relays go on, and this relay is tried again
                problem = log_fault(self.url, error)
                await self._hang_up()
                self._sync.made_progress = False
                report = RelayReport(self.url, problem=problem, asked=plan.question.pulls)
            if plan.question.pulls or report.asked:
                can_tell = (report.pulled.reasons or not report.problem) and not report.pulled.refused
                self.last_pull_complete = report.pulled.shows_all_but_hidden if can_tell else None
            if not report.problem:
                self._recovered.set()
            limiter.record_run(now(), failed=bool(report.problem) and not self._sync.made_progress)
            self.report = replace(report, seconds=now() - begun)
            self.first_round.set()
            self.live.report_failure(report.problem)
            return self.report

    async def _run_once(self, plan: SyncPlan, as_of: float) -> RelayReport:
        """Make one run over one connection.

        Args:
            plan: what to do.
            as_of: the relay must show everything that had reached it by this time, seconds since 1970.
        """
        self._sync.was_cut_off = self._sync.made_progress = False
        try:
            connection = await self._connected()
            may_subscribe = plan.question.pulls and self._agenda.may_subscribe
            subscribed = may_subscribe and await self.live.subscribe(connection)
            report = await self._sync.run(connection, plan, as_of)
            achieved = self._sync.made_progress or self.live.has_received
            self._agenda.record_connection(
                cut_off=self._sync.was_cut_off, only_subscribed=subscribed and not achieved
            )
            return report
        except RelayError as error:
            return replace(self._sync.ledger_report(), problem=error.problem, asked=plan.question.pulls)

    async def _remaining(self, plan: SyncPlan, report: RelayReport) -> SyncPlan | None:
        """What is left of a plan after the relay hung up; None if an immediate retry is useless."""
        if not self._sync.was_cut_off:
            return None
        progressed, complete = self._sync.made_progress, report.pulled.shows_all_but_hidden
        rest = replace(plan, question=after_cut_off(plan.question, progressed=progressed, complete=complete))
        if rest.question is RelayQuestion.PUSH and not await self._has_unsent(rest):
            return None
        return None if rest.question is RelayQuestion.NOTHING else rest

    @property
    def has_answered(self) -> bool:
        """Whether a pull of this relay was ever complete."""
        return self._ledger.relays.state(self.url).completed_at is not None

    @property
    def last_message_at(self) -> float:
        """When the relay last sent anything, in seconds of the loop; minus infinity while it is not connected."""
        return self._connection.last_message_at if self._connection is not None else float("-inf")

    @property
    def information(self) -> RelayInformation | None:
        """The relay's information document (NIP-11), or None."""
        return self._dialler.information

    @property
    def notices(self) -> tuple[str, ...]:
        """The last few NOTICE texts of the relay on this connection, escaped and cut."""
        return tuple(self._connection.notices) if self._connection is not None else ()

    async def _has_unsent(self, plan: SyncPlan) -> bool:
        """Whether events are due for this relay, including events of other relays that were not queued for it yet."""
        if self._sync.is_held_back(plan):
            return False
        await self._ledger.write_if_due(self._ledger.outbox.queue_missing, self.url, self._clock())
        due = self._ledger.outbox.next_due([self.url])
        return due is not None and due <= self._clock() + AHEAD_SECONDS

    async def follow(self, offline_first: bool) -> None:
        """Follow the relay until cancelled. An unexpected exception ends one round, and the next round starts anew."""
        while True:
            try:
                await self._follow(offline_first)
            except Exception as error:  # raised outside of `run`, which handles its own
                log_fault(self.url, error)
                self.first_round.set()
                self._dialler.limiter.record_run(asyncio.get_running_loop().time(), failed=True)
                await asyncio.sleep(max(self._wait_seconds, RECONNECT_FIRST_SECONDS))

    async def _follow(self, offline_first: bool) -> None:
        """Ask the agenda's questions, one after the other, with the pauses of agenda and dialler."""
        now, agenda = asyncio.get_running_loop().time, self._agenda
        agenda.begin(now())
        while True:
            at, rest = now(), self._wait_seconds
            question, until = agenda.next_question(
                at, paused_until=at + rest, may_have_missed=self.live.needs_start
            )
            if question is RelayQuestion.NOTHING:
                await _wait(self._recovered if rest else self.wake, until - now())
                agenda.wake()
                continue
            report = await self.run(SyncPlan(question, offline_first), brief=True)
            self._log.log_run(report, self._wait_seconds)
            if self.last_pull_complete and question.pulls and self._on_pull is not None:
                with suppress(SenseMemoryError):  # of the ledger: the next round reports it
                    await self._on_pull()
            agenda.record_round(now(), self._round(question, report))

    def _round(self, question: RelayQuestion, report: RelayReport) -> Round:
        """The result of a run, as the agenda needs it."""
        return Round(
            question,
            failed=bool(report.problem),
            complete=report.shows_all_but_hidden,
            cut_off=self._sync.was_cut_off,
            leaves_queued=report.waiting > 0 and not report.held_back,
            refetched=self._sync.refetched,
            new=report.served.get("new", 0),
        )

    async def drain(self, *, offline_first: bool) -> None:
        """Send queued events now, unless the last run failed and the relay is not connected.

        A ledger that may have been copied or set back is pulled first, as a new one is.
        """
        if self.report is not None and self.report.problem and not self._is_connected():
            return
        with suppress(SenseMemoryError):  # of the ledger: queued events stay queued
            is_fresh = self._ledger.relays.state(self.url).completed_at is None
            is_fresh |= self._ledger.edits.device_id.is_renewed and not self.last_pull_complete
            question = RelayQuestion.COMPARE if is_fresh and not offline_first else RelayQuestion.PUSH
            plan = SyncPlan(question, offline_first)
            if await self._has_unsent(replace(plan, offline_first=True)):
                await self.run(plan, brief=True)

    @property
    def _wait_seconds(self) -> float:
        """Seconds until the background may use the relay again; a run that a user asks for does not wait."""
        return (
            0.0
            if self._is_connected()
            else self._dialler.limiter.wait_seconds(asyncio.get_running_loop().time())
        )

    async def close(self) -> None:
        """Close the subscription and the connection, and stop reading the information document."""
        await self.live.close()
        await self._dialler.close()
        await self._hang_up()

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def _connected(self) -> RelayConnection:
        if self._connection is None or not self._connection.is_open:
            if self._connection is not None:
                self._log.log_lost(self._connection.problem or "")
            await self._hang_up()
            self._connection = await self._dialler.dial()
            self._log.log_connected()
        return self._connection


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait up to `seconds` for an event, then clear it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()
