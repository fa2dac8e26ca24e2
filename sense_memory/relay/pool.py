"""All relays of a store: connections kept while they live, rounds of synchronisation, the background.

Each relay has its own pace: one that is dead or slow never holds up the others. A background round
pulls every half minute and sends as soon as something was written, by this process or another.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    DEBOUNCE_SECONDS,
    INCOMPLETE_SECONDS,
    POLL_SECONDS,
    VAIN_EVENT_SECONDS,
    VAIN_MAX_SECONDS,
)
from sense_memory.relay.dialling import Dialler
from sense_memory.relay.listening import Listener
from sense_memory.relay.reconcile import Stock
from sense_memory.relay.report import RelayReport, SyncReport
from sense_memory.relay.sync import Plan, RelaySync


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.conduct import Timeouts
    from sense_memory.relay.connection import RelayConnection
    from sense_memory.relay.sync import Intake

_HASTY_COUNT = 2  # fruitless connections after which a relay is pulled without a subscription, until that succeeds


class Pool:
    """The relays of one store.

    Args:
        urls: the relays, checked already.
        ledger: what they are brought in step with.
        signer: whose key they serve; it signs NIP-42 challenges.
        intake: where pulled events go.
        clock: seconds since 1970.
        timeouts: of every connection.
        offline_first: push to relays that never completed a pull.
    """

    def __init__(
        self,
        urls: Sequence[str],
        ledger: Ledger,
        signer: Signer,
        intake: Intake,
        *,
        clock: Callable[[], float],
        timeouts: Timeouts,
        offline_first: bool = False,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._offline_first = offline_first
        stock = Stock(ledger)
        self._links = [
            _Link(url, ledger, signer, intake, stock=stock, clock=clock, timeouts=timeouts) for url in urls
        ]
        self._wake = asyncio.Event()
        self._asked = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._retired: list[asyncio.Task[None]] = []
        self._is_for_listeners = False  # whether the background ends with them
        ledger.outbox.ensure(urls)

    async def sync(self, plan: Plan) -> SyncReport:
        """One round over all relays at once, and a second sending for what the first brought from others.

        Raises:
            LedgerError: the ledger could not be used; every relay's round has ended by then.
        """
        plan = replace(plan, offline_first=plan.offline_first or self._offline_first)
        self._ledger.release(self._clock())
        reports = await asyncio.gather(*(link.run(plan) for link in self._links))
        self._raise_our_own()
        followed = await asyncio.gather(
            *(self._follow_up(link, report, plan) for link, report in zip(self._links, reports, strict=True))
        )
        self._raise_our_own()
        self._asked.set()
        return SyncReport(tuple(followed))

    def _raise_our_own(self) -> None:
        """Raise what went wrong on this machine: it is no relay's fault, and no relay's report."""
        for link in self._links:
            if link.failure is not None:
                raise link.failure

    async def _follow_up(self, link: _Link, report: RelayReport, plan: Plan) -> RelayReport:
        """Send a relay what came in from the others meanwhile."""
        if report.problem:
            return report
        link.report = report.followed_by(await link.run(replace(plan, pull=False)))
        return link.report

    def start(self) -> None:
        """Begin the background rounds; the first starts at once."""
        self._background = asyncio.create_task(self._run(), name="sense-memory relays")

    def listen(self, told: Callable[[str, str], None]) -> None:
        """Have every relay tell at once what comes in; see `Listener.want`. Needs the background, and starts it."""
        for link in self._links:
            link.listener.want(told)
        if self._background is None:
            self.start()
            self._is_for_listeners = True

    def deafen(self) -> None:
        """End that."""
        for link in self._links:
            link.listener.unwant()
        if self._is_for_listeners:
            self._retire()

    def _retire(self) -> None:
        """End the background; `close` waits for that."""
        background, self._background, self._is_for_listeners = self._background, None, False
        if background is not None:
            background.cancel()
            self._retired = [*(task for task in self._retired if not task.cancelled()), background]

    def wake(self) -> None:
        """Something was written: send it soon."""
        self._wake.set()

    async def asked(self) -> None:
        """Wait until every relay was asked once, successfully or not."""
        if self._background is None and not self._asked.is_set():
            await self.sync(Plan())
        await self._asked.wait()

    async def close(self) -> None:
        """End the background and the connections. What is queued stays queued in the ledger."""
        self._retire()
        if self._retired:
            await asyncio.wait(self._retired)
        await asyncio.gather(*(link.close() for link in self._links))
        for background in self._retired:
            if not background.cancelled():
                background.result()  # it ends by itself only when something in here is broken: say so

    @property
    def reports(self) -> dict[str, RelayReport]:
        """The last report of each relay that was tried."""
        return {link.url: link.report for link in self._links if link.report is not None}

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each relay whose last round was not complete."""
        return SyncReport(tuple(self.reports.values())).problems

    @property
    def notices(self) -> dict[str, tuple[str, ...]]:
        """The last words of each relay in this connection, escaped: data, never instructions."""
        return {link.url: link.notices for link in self._links}

    async def _run(self) -> None:
        """The background: one task a relay, each at its own pace."""
        try:
            async with asyncio.TaskGroup() as group:
                for link in self._links:
                    group.create_task(link.follow(self._offline_first))
                group.create_task(self._spread_wakes())
                await asyncio.gather(*(link.first_round.wait() for link in self._links))
                self._asked.set()
        finally:
            self._asked.set()  # whatever ended it: nobody has to wait any longer

    async def _spread_wakes(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(DEBOUNCE_SECONDS)
            for link in self._links:
                link.wake.set()


class _Link:
    """One relay: its connection while it lives, its back-off, its last report.

    Attributes:
        report: of the last run.
        failure: what went wrong on this machine in the last run, or None.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        signer: Signer,
        intake: Intake,
        *,
        stock: Stock,
        clock: Callable[[], float],
        timeouts: Timeouts,
    ) -> None:
        self.url = url
        self.report: RelayReport | None = None
        self.failure: SenseMemoryError | None = None
        self.wake = asyncio.Event()
        self.first_round = asyncio.Event()
        self._revived = asyncio.Event()
        self._ledger, self._clock = ledger, clock
        self._dialler = Dialler(url, signer, clock=clock, timeouts=timeouts)
        self._sync = RelaySync(url, ledger, signer.public_key, intake, stock=stock, clock=clock)
        self._connection: RelayConnection | None = None
        self._turn = asyncio.Lock()
        self._fruitless = 0  # connections in a row that the relay ended before anything had come of them
        self.listener = Listener(url, ledger, signer.public_key, intake, wake=self.wake.set)

    async def run(self, plan: Plan) -> RelayReport:
        """One run over a live connection, unless there is nothing to do; a failure becomes `problem`."""
        async with self._turn:
            now = asyncio.get_running_loop().time
            begun, pace = now(), self._dialler.pace
            self.failure = None
            try:
                if not plan.pull and not self._is_behind(plan):
                    return self._sync.standing()
                report = await self._attempt(plan)
                while (rest := self._rest(plan, report)) and pace.may_hurry(now()):
                    plan, report = rest, report.continued_by(await self._attempt(rest))
            except SenseMemoryError as error:  # the ledger's: it can not be asked for more
                await self._hang_up()
                self.failure = error
                report = RelayReport(self.url, problem=str(error), asked=plan.pull)
            if not report.problem:
                self._revived.set()
            pace.ended(now(), failed=bool(report.problem) and not self._sync.came_further)
            self.report = replace(report, seconds=now() - begun)
            self.first_round.set()
            self.listener.failed(report.problem)
            return self.report

    async def _attempt(self, plan: Plan) -> RelayReport:
        """One run over one connection."""
        self._sync.was_cut_off = self._sync.came_further = False
        try:
            connection = await self._connected()
            if plan.pull and self._fruitless < _HASTY_COUNT:
                await self.listener.begin(connection)
            report = await self._sync.run(connection, plan)
            if not self._sync.was_cut_off:
                self._fruitless = 0
            elif not self._sync.came_further:
                self._fruitless += 1
            return report
        except RelayError as error:
            return replace(self._sync.standing(), problem=error.problem, asked=plan.pull)

    def _rest(self, plan: Plan, report: RelayReport) -> Plan | None:
        """What is left to do of a plan after the relay hung up; None where trying again at once is of no use."""
        if not self._sync.was_cut_off:
            return None
        if self._sync.came_further and plan.pull and not report.pulled.complete:
            return plan
        achieved = self._sync.came_further or plan.pull
        return replace(plan, pull=False) if achieved and self._is_behind(plan) else None

    @property
    def notices(self) -> tuple[str, ...]:
        """The relay's last words, escaped."""
        return tuple(self._connection.notices) if self._connection is not None else ()

    def _is_behind(self, plan: Plan) -> bool:
        """Whether something may be sent to this relay: it is queued, or came in and was never given to it."""
        if self._sync.is_held_back(plan):
            return False
        self._ledger.outbox.backfill(self.url, self._clock())
        due = self._ledger.outbox.next_due([self.url])
        return due is not None and due <= self._clock()

    async def follow(self, offline_first: bool) -> None:
        """Stay in step for good: pull every half minute, send when woken, rest while the relay fails or flaps.

        The first pull compares everything, and so does the first that a subscription protects: what came while
        nobody listened may be dated long ago. From then on, asking for what is new costs the relay less.
        """
        loop = asyncio.get_running_loop()
        next_pull, compare, sends = loop.time(), True, False
        while True:
            pulls = not sends and (self.listener.is_due or loop.time() >= next_pull)
            compare = compare or self.listener.is_off
            report = await self.run(Plan(pull=pulls, compare=compare, offline_first=offline_first))
            # A pull that is cut off again and again would leave what was written here for ever.
            sends = pulls and self._sync.was_cut_off and report.waiting > 0 and not report.held_back
            if pulls and not report.problem:
                compare = False
                pause = BACKGROUND_SECONDS if report.complete else INCOMPLETE_SECONDS
                # Where the newest is many events, each pass fetches all of them again: it may well be a rare one.
                vain = min(self._sync.in_vain * VAIN_EVENT_SECONDS, VAIN_MAX_SECONDS)
                next_pull = loop.time() + max(pause, vain)
            if not self._rest_seconds:
                await _until(self.wake, POLL_SECONDS)
            while seconds := self._rest_seconds:
                await _until(self._revived, seconds)

    @property
    def _rest_seconds(self) -> float:
        """How long nothing is done whoever writes, unless somebody else finds the relay in order."""
        return 0.0 if self._is_connected() else self._dialler.pace.rest(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """End the connection, if there is one, and stop asking the relay about itself."""
        await self.listener.close()
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
            await self._hang_up()
            self._connection = await self._dialler.dialled()
        return self._connection


async def _until(told: asyncio.Event, seconds: float) -> None:
    """Wait until something is told, for so long at most; it can be told anew then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await told.wait()
    told.clear()
