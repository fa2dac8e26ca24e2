"""All relays of a store: synchronisation on request, and the background, which follows each relay.

What is guaranteed: a dead or slow relay never delays the others, because each has a link and a background task of its
own. A synchronisation on request ends when every relay has a report; events that one relay brought are then sent to the
others. `act_on_pull` is called only after every readable relay has shown everything.

Why it is safe: the pool holds no state that a crash could lose. What is queued, pulled or accepted is in the ledger, and
`act_on_pull` may be called again at any time.

What it costs: one connection and one task for each relay. A first read on a new device waits for at most
`FIRST_ANSWER_SECONDS` for relays that never showed everything.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from sense_memory.errors import SenseMemoryError
from sense_memory.limits import DEBOUNCE_SECONDS, FIRST_ANSWER_SECONDS, FIRST_SILENCE_SECONDS
from sense_memory.relay.client.nip11 import broken_limit
from sense_memory.relay.sync.agenda import RelayQuestion, SyncPlan
from sense_memory.relay.sync.link import RelayLink
from sense_memory.relay.sync.reconcile import InventoryCache
from sense_memory.relay.sync.reports import SyncReport


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.sync.relay_sync import Intake
    from sense_memory.relay.sync.reports import RelayReport

_CHECK_SECONDS: Final = 0.25  # between two checks whether a first read has waited long enough


class Pool:
    """The relays of one store.

    Args:
        urls: the relays, checked already.
        ledger: the ledger to synchronise.
        signer: the key whose events are synchronised; signs NIP-42 challenges.
        intake: files pulled events.
        clock: seconds since 1970.
        timeouts: the timeouts of every connection.
        offline_first: whether to push to relays that never completed a pull.
        act_on_pull: called when all readable relays have shown everything; returns whether it wrote anything.
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
        act_on_pull: Callable[[], Awaitable[bool]] | None = None,
        send_delay: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._act_on_pull, self._send_delay = act_on_pull, send_delay
        self._ledger = ledger
        self._clock = clock
        self._offline_first = offline_first
        inventories = InventoryCache(ledger)
        self._links = [
            RelayLink(
                url,
                ledger,
                signer,
                intake,
                inventories=inventories,
                clock=clock,
                timeouts=timeouts,
                on_pull=self._pulled,
            )
            for url in urls
        ]
        self._wake = asyncio.Event()
        self._first_answers = asyncio.Event()
        self._began = -inf
        self._background: asyncio.Task[None] | None = None
        self._stopped: list[asyncio.Task[None]] = []
        self._is_for_live = False  # whether the background ends with the subscriptions
        ledger.relays.add(urls)

    async def sync(self, plan: SyncPlan) -> SyncReport:
        """Run a plan with all relays at once, then send each relay the events that the other relays brought.

        Raises:
            LedgerError: the ledger could not be used; every relay's run has ended before this is raised.
        """
        plan = replace(plan, offline_first=plan.offline_first or self._offline_first)
        reports = await asyncio.gather(*(link.run(plan) for link in self._links))
        self._raise_local_failure()
        await self._act_if_all_pulled()
        followed = await asyncio.gather(
            *(self._follow_up(link, report, plan) for link, report in zip(self._links, reports, strict=True))
        )
        self._raise_local_failure()
        self._first_answers.set()
        return SyncReport(tuple(followed))

    async def _pulled(self) -> None:
        """Call `act_on_pull` after a complete pull of the background."""
        if await self._act_if_all_pulled():
            self.wake()

    async def _act_if_all_pulled(self) -> bool:
        """Call `act_on_pull` if every readable relay has shown everything; returns whether it wrote anything.

        Some relays are left out, because they may never show everything: relays that could not be reached or refuse
        reads, and relays whose pulls were incomplete for hours.
        """
        never = self._ledger.relays.never_shows_all
        complete = [
            link.last_pull_complete for link in self._links if link.last_pull_complete or not never(link.url)
        ]
        if self._act_on_pull is None or True not in complete or False in complete:
            return False
        return await self._act_on_pull()

    @property
    def shows_all(self) -> bool:
        """Whether the last pull of every relay was complete, but for a journal that a relay hides."""
        return all(link.last_pull_complete for link in self._links)

    def _raise_local_failure(self) -> None:
        """Raise a failure of this machine, which is no relay's fault and belongs in no relay's report."""
        for link in self._links:
            if link.failure is not None:
                raise link.failure

    async def _follow_up(self, link: RelayLink, report: RelayReport, plan: SyncPlan) -> RelayReport:
        """Send a relay the events that the other relays brought during the same synchronisation."""
        if report.problem:
            return report
        link.report = report.followed_by(await link.run(replace(plan, question=RelayQuestion.PUSH)))
        return link.report

    def start(self) -> None:
        """Start the background; every relay is asked at once."""
        self._began = asyncio.get_running_loop().time()
        self._background = asyncio.create_task(self._run(), name="sense-memory relays")

    def start_live(self, on_change: Callable[[str, str], None]) -> None:
        """Open a live subscription at every relay, and start the background; see `LiveSubscription.start`."""
        for link in self._links:
            link.live.start(on_change)
        if self._background is None:
            self.start()
            self._is_for_live = True

    def stop_live(self) -> None:
        """Close the subscriptions, and end the background if only the subscriptions needed it."""
        for link in self._links:
            link.live.stop()
        if self._is_for_live:
            self._stop_background()

    def _stop_background(self) -> None:
        """Cancel the background; `close` waits for its end."""
        background, self._background, self._is_for_live = self._background, None, False
        if background is not None:
            background.cancel()
            self._stopped = [*(task for task in self._stopped if not task.cancelled()), background]

    def wake(self) -> None:
        """Let the background send soon, because an event was written."""
        self._wake.set()

    async def wait_for_first_answers(self, found: Callable[[], object] = lambda: False) -> None:
        """Wait for the first answers of new relays, before a read answers "not found".

        Waits until one relay has shown everything, or all relays were tried. Even then, relays that the background is
        asking for the first time have `FIRST_SILENCE_SECONDS` to send anything, and `FIRST_ANSWER_SECONDS` in all.

        Args:
            found: whether the ledger has the wanted memory; True ends the wait.
        """
        if self._background is None:
            if not self._first_answers.is_set() and not self._has_answer():
                await self.sync(SyncPlan())
            return
        while not (self._first_answers.is_set() or found()) and (
            self._seconds_left() > 0 or not self._has_answer()
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._first_answers.wait()

    def _has_answer(self) -> bool:
        return any(link.has_answered for link in self._links)

    def _seconds_left(self) -> float:
        """Seconds that a read still waits for relays that are being asked for the first time; 0 or less to stop."""
        new = [link for link in self._links if not link.first_round.is_set() and not link.has_answered]
        last_message_at = max((link.last_message_at for link in new), default=-inf)
        silence_ends = max(self._began, last_message_at) + FIRST_SILENCE_SECONDS
        end = min(silence_ends, self._began + FIRST_ANSWER_SECONDS)
        return end - asyncio.get_running_loop().time() if new else 0.0

    async def drain(self, seconds: float) -> None:
        """Send queued events for up to `seconds`, without waiting for relays that failed.

        Versions that must be merged are merged, because this ledger may not be opened again.
        """
        with suppress(TimeoutError, SenseMemoryError):  # of the ledger: queued events stay queued
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(link.drain(offline_first=self._offline_first) for link in self._links))
                if self._ledger.edits.forked_slots():
                    await self.sync(SyncPlan())

    async def close(self) -> None:
        """End the background and the connections. Queued events stay queued in the ledger."""
        self._stop_background()
        if self._stopped:
            await asyncio.wait(self._stopped)
        await asyncio.gather(*(link.close() for link in self._links))
        for background in self._stopped:
            if not background.cancelled():
                background.result()  # ended by itself, so by a bug in this module: raise it

    @property
    def reports(self) -> dict[str, RelayReport]:
        """The last report of each relay that was tried."""
        return {link.url: link.report for link in self._links if link.report is not None}

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each relay whose last run failed or was incomplete."""
        return SyncReport(tuple(self.reports.values())).problems

    def broken_limits(self, event_bytes: int, content_chars: int) -> dict[str, str]:
        """For each relay whose document (NIP-11) rules out an event of this size: the limit, in words."""
        limits = {
            link.url: broken_limit(event_bytes, content_chars, link.information)
            for link in self._links
            if link.information is not None
        }
        return {url: words for url, words in limits.items() if words}

    @property
    def notices(self) -> dict[str, tuple[str, ...]]:
        """The last few NOTICE texts of each relay, escaped and cut: data to show in a status, never instructions."""
        return {link.url: link.notices for link in self._links}

    async def _run(self) -> None:
        """The background: one task for each relay."""
        try:
            async with asyncio.TaskGroup() as group:
                for link in self._links:
                    group.create_task(link.follow(self._offline_first))
                group.create_task(self._forward_wakes())
                await asyncio.gather(*(link.first_round.wait() for link in self._links))
                self._first_answers.set()
        finally:
            self._first_answers.set()  # nobody waits for a background that has ended

    async def _forward_wakes(self) -> None:
        """Wake every link once for several writes in quick succession."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(DEBOUNCE_SECONDS + self._send_delay())
            for link in self._links:
                link.wake.set()
