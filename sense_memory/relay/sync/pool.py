"""All relays of a store: rounds of synchronisation, and the background, which follows each relay.

Each relay has its own pace: a dead or slow relay never delays the others.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

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

_LOOK_SECONDS: Final = 0.25  # between looks at how far relays are


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
        act_on_pull: called once all readable relays have shown everything; returns whether it wrote anything.
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
    ) -> None:
        self._act_on_pull = act_on_pull
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
        self._retired: list[asyncio.Task[None]] = []
        self._is_for_live = False  # whether the background ends with the subscriptions
        ledger.relays.add(urls)

    async def sync(self, plan: SyncPlan) -> SyncReport:
        """One round over all relays at once, then a second sending of the events that other relays brought.

        Raises:
            LedgerError: the ledger could not be used; every relay's round has ended by then.
        """
        plan = replace(plan, offline_first=plan.offline_first or self._offline_first)
        reports = await asyncio.gather(*(link.run(plan) for link in self._links))
        self._raise_our_own()
        await self._act_if_all_pulled()
        followed = await asyncio.gather(
            *(self._follow_up(link, report, plan) for link, report in zip(self._links, reports, strict=True))
        )
        self._raise_our_own()
        self._first_answers.set()
        return SyncReport(tuple(followed))

    async def _pulled(self) -> None:
        """Act after a complete pull of a followed relay."""
        if await self._act_if_all_pulled():
            self.wake()

    async def _act_if_all_pulled(self) -> bool:
        """Act on what was pulled once every readable relay has shown everything; returns whether anything was written.

        The pool does not wait for a relay that could not be reached, or that refuses to be read, which may last for
        ever; nor for a relay whose pulls got no further for hours.
        """
        never = self._ledger.relays.never_shows_all
        told = [
            link.last_pull_complete for link in self._links if link.last_pull_complete or not never(link.url)
        ]
        return (
            self._act_on_pull is not None and True in told and False not in told and await self._act_on_pull()
        )

    def _raise_our_own(self) -> None:
        """Raise a failure of this machine, which is not a relay's fault and belongs in no relay's report."""
        for link in self._links:
            if link.failure is not None:
                raise link.failure

    async def _follow_up(self, link: RelayLink, report: RelayReport, plan: SyncPlan) -> RelayReport:
        """Send a relay the events that the other relays brought meanwhile."""
        if report.problem:
            return report
        link.report = report.followed_by(await link.run(replace(plan, question=RelayQuestion.PUSH)))
        return link.report

    def start(self) -> None:
        """Begin the background rounds; the first starts at once."""
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
        """Close the subscriptions, and the background if it runs only for them."""
        for link in self._links:
            link.live.stop()
        if self._is_for_live:
            self._retire()

    def _retire(self) -> None:
        """End the background; `close` waits for its end."""
        background, self._background, self._is_for_live = self._background, None, False
        if background is not None:
            background.cancel()
            self._retired = [*(task for task in self._retired if not task.cancelled()), background]

    def wake(self) -> None:
        """Send soon: an event was written."""
        self._wake.set()

    async def wait_for_first_answers(self, found: Callable[[], object] = lambda: False) -> None:
        """Wait for the first answers of new relays, before a read says "not here".

        Waits until one relay has shown everything, or all were tried. The other relays that the background is asking
        then get `FIRST_SILENCE_SECONDS` to send anything, and `FIRST_ANSWER_SECONDS` in all.

        Args:
            found: whether the ledger has the wanted memory by now, which ends the wait.
        """
        if self._background is None:
            if not self._first_answers.is_set() and not self._has_answer():
                await self.sync(SyncPlan())
            return
        while not (self._first_answers.is_set() or found()) and (
            self._patience() > 0 or not self._has_answer()
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._first_answers.wait()

    def _has_answer(self) -> bool:
        return any(link.has_answered for link in self._links)

    def _patience(self) -> float:
        """The most seconds that a read waits for relays that never showed everything and are being asked."""
        new = [link for link in self._links if not link.first_round.is_set() and not link.has_answered]
        last_message_at = max((link.last_message_at for link in new), default=-inf)
        silent = max(self._began, last_message_at) + FIRST_SILENCE_SECONDS
        end = min(silent, self._began + FIRST_ANSWER_SECONDS)
        return end - asyncio.get_running_loop().time() if new else 0.0

    async def drain(self, seconds: float) -> None:
        """Send queued events for up to `seconds`, without waiting for a relay that failed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(link.drain(offline_first=self._offline_first) for link in self._links))

    async def close(self) -> None:
        """End the background and the connections. Queued events stay queued in the ledger."""
        self._retire()
        if self._retired:
            await asyncio.wait(self._retired)
        await asyncio.gather(*(link.close() for link in self._links))
        for background in self._retired:
            if not background.cancelled():
                background.result()  # ends by itself only by a bug in this module: raise it

    @property
    def reports(self) -> dict[str, RelayReport]:
        """The last report of each relay that was tried."""
        return {link.url: link.report for link in self._links if link.report is not None}

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each relay whose last round was not complete."""
        return SyncReport(tuple(self.reports.values())).problems

    def broken_limits(self, event_bytes: int, content_chars: int) -> dict[str, str]:
        """The relays whose documents (NIP-11) say that they take no event of this size, and why."""
        told = {link.url: link.information for link in self._links}
        limits = {
            url: broken_limit(event_bytes, content_chars, information)
            for url, information in told.items()
            if information is not None
        }
        return {url: words for url, words in limits.items() if words}

    @property
    def notices(self) -> dict[str, tuple[str, ...]]:
        """The last notices of each relay on this connection, escaped: data, never instructions."""
        return {link.url: link.notices for link in self._links}

    async def _run(self) -> None:
        """The background: one task a relay, each at its own pace."""
        try:
            async with asyncio.TaskGroup() as group:
                for link in self._links:
                    group.create_task(link.follow(self._offline_first))
                group.create_task(self._spread_wakes())
                await asyncio.gather(*(link.first_round.wait() for link in self._links))
                self._first_answers.set()
        finally:
            self._first_answers.set()  # however the background ended, nobody has to wait any longer

    async def _spread_wakes(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(DEBOUNCE_SECONDS)
            for link in self._links:
                link.wake.set()
