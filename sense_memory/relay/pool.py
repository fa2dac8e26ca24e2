"""All relays of a store: connections kept while they live, rounds of synchronisation, the background.

Each relay has its own pace: one that is dead or slow never holds up the others. A background round
pulls every half minute and sends as soon as something was written, by this process or another.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    DEBOUNCE_SECONDS,
    INCOMPLETE_SECONDS,
    JITTER,
    NIP11_SECONDS,
    POLL_SECONDS,
    RECONNECT_FIRST_SECONDS,
    RECONNECT_MAX_SECONDS,
    REDIALS_PER_HOUR_COUNT,
)
from sense_memory.relay.connection import RelayConnection
from sense_memory.relay.nip11 import relay_information
from sense_memory.relay.reconcile import Stock
from sense_memory.relay.report import RelayReport, SyncReport
from sense_memory.relay.sync import Plan, RelaySync


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.conduct import Timeouts
    from sense_memory.relay.nip11 import RelayInformation
    from sense_memory.relay.sync import Intake


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
        background, self._background = self._background, None
        if background is not None:
            background.cancel()
            await asyncio.wait([background])
        await asyncio.gather(*(link.close() for link in self._links))
        if background is not None and not background.cancelled():
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
        self._ledger, self._signer, self._clock, self._timeouts = ledger, signer, clock, timeouts
        self._sync = RelaySync(url, ledger, signer.public_key, intake, stock=stock, clock=clock)
        self._connection: RelayConnection | None = None
        self._turn = asyncio.Lock()
        self._failures = 0
        self._redials: deque[float] = deque(maxlen=REDIALS_PER_HOUR_COUNT)
        self._information: asyncio.Task[RelayInformation | None] | None = None
        self._jitter = random.Random()  # noqa: S311 - jitter, not a secret

    async def run(self, plan: Plan) -> RelayReport:
        """One run over a live connection, unless there is nothing to do; a failure becomes `problem`."""
        async with self._turn:
            begun = asyncio.get_running_loop().time()
            self.failure = None
            try:
                if not plan.pull and not self._is_behind(plan):
                    return self._sync.standing()
                report = await self._attempt(plan)
                while (rest := self._rest(plan, report)) and self._may_redial():
                    plan, report = rest, report.continued_by(await self._attempt(rest))
            except SenseMemoryError as error:  # the ledger's: it can not be asked for more
                await self._hang_up()
                self.failure = error
                report = RelayReport(self.url, problem=str(error), asked=plan.pull)
            if self._failures and not report.problem:
                self._revived.set()
            self._failures = self._failures + 1 if report.problem else 0
            self.report = replace(report, seconds=asyncio.get_running_loop().time() - begun)
            self.first_round.set()
            return self.report

    async def _attempt(self, plan: Plan) -> RelayReport:
        """One run over one connection."""
        self._sync.was_cut_off = False
        try:
            return await self._sync.run(await self._connected(), plan)
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

    def _may_redial(self) -> bool:
        """Whether a relay that hung up in the middle of its work is dialled again at once: so often an hour."""
        now = asyncio.get_running_loop().time()
        if len(self._redials) == REDIALS_PER_HOUR_COUNT and now - self._redials[0] < 3_600:
            return False
        self._redials.append(now)
        return True

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
        """Stay in step for good: pull every half minute, send when woken, back off when the relay fails.

        The first pull compares everything; from then on, asking for what is new costs the relay less.
        """
        loop = asyncio.get_running_loop()
        next_pull, compare = loop.time(), True
        while True:
            pulls = loop.time() >= next_pull
            report = await self.run(Plan(pull=pulls, compare=compare, offline_first=offline_first))
            if pulls and not report.problem:
                compare = False
                next_pull = loop.time() + (BACKGROUND_SECONDS if report.complete else INCOMPLETE_SECONDS)
            await self._pause()

    async def _pause(self) -> None:
        """Until the next look: at once when woken; while the relay fails, later each time whoever writes."""
        awaited, seconds = self.wake, POLL_SECONDS
        if self._failures:
            wait = min(RECONNECT_FIRST_SECONDS * 2 ** min(self._failures - 1, 20), RECONNECT_MAX_SECONDS)
            awaited, seconds = self._revived, wait * self._jitter.uniform(1 - JITTER, 1 + JITTER)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await awaited.wait()
        awaited.clear()

    async def close(self) -> None:
        """End the connection, if there is one, and stop asking the relay about itself."""
        await self._stop_asking()
        await self._hang_up()

    async def _stop_asking(self) -> None:
        information, self._information = self._information, None
        if information is not None:
            information.cancel()
            await asyncio.wait([information])

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> RelayConnection:
        if self._connection is None or not self._connection.is_open:
            await self._hang_up()
            self._connection = await self._dialled()
        return self._connection

    async def _dialled(self) -> RelayConnection:
        """A new connection. With the first that succeeds the relay is asked what it says about itself."""
        if self._information is None:
            asking = relay_information(self.url, min(NIP11_SECONDS, self._timeouts.open))
            self._information = asyncio.create_task(asking)
        try:
            connection = RelayConnection(
                self.url,
                public_key=self._signer.public_key,
                sign=self._signer.sign,
                timeouts=self._timeouts,
                clock=asyncio.get_running_loop().time,
                now=self._clock,
            )
            await connection.open()
        except BaseException:
            await self._stop_asking()
            raise
        try:
            connection.information = await asyncio.shield(self._information)
        except BaseException:
            await connection.close()
            raise
        return connection
