"""The live subscription of one relay, open while a caller watches the store.

What is guaranteed: no event that reaches the relay between two pulls is missed. The subscription is opened before a
pull, never after, so the pull fetches the events that arrived before the subscription, and the subscription brings the
events that arrive during the pull. When a subscription ends, a pull is due that begins with a new subscription.

The journal has a REQ of its own, because some relays refuse it, or leave it out of a mixed answer without a word. Where
the relay refuses only the journal, the rest of the subscription stays open, and the pulls say that the journal is hidden.

Why it is safe: nothing depends on the subscription alone. A relay without NIP-77 is asked only for events dated since the
cursor, and the daily sweep fetches the rest. A relay that refuses the subscription is pulled every 30 seconds.

What it costs: two open REQs, and memory for at most 5,000 events or 32 MiB that wait to be filed. If a relay
sends events faster than they can be filed, the subscription ends and the relay is pulled instead. This module handles
verified events and cannot read their content.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    MAX_LIVE_WAITING_BYTES,
    MAX_LIVE_WAITING_COUNT,
    PAGE_COUNT,
)
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay import log_fault
from sense_memory.relay.client.authentication import UNAUTHENTICATED
from sense_memory.relay.client.page import OpenLive
from sense_memory.relay.sync.reconcile import JOURNAL, OTHERS, kinds_filter


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.nostr.event import Event
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.client.page import EventPage
    from sense_memory.relay.sync.agenda import Agenda
    from sense_memory.relay.sync.relay_sync import Intake

_TOO_FAST = "sends events faster than they can be stored"


class _Inbox:
    """A queue of verified events that wait to be filed."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._closed = self.overflowed = False

    def add_events(self, events: Sequence[Event]) -> None:
        """Add events. If too many wait, the inbox closes and drops all of them; the next pull fetches them."""
        self._events.extend(events)
        self._bytes += sum(len(event.content) for event in events)
        if len(self._events) > MAX_LIVE_WAITING_COUNT or self._bytes > MAX_LIVE_WAITING_BYTES:
            self.overflowed = True
            self.close()
        if self.overflowed:
            self._events.clear()
        self._changed.set()

    def close(self) -> None:
        """Let `next_events` return the empty list once no events are left."""
        self._closed = True
        self._changed.set()

    async def next_events(self) -> list[Event]:
        """Wait for events and return at most `PAGE_COUNT`; empty once the inbox is closed and no events are left."""
        while not self._events and not self._closed:
            self._changed.clear()
            await self._changed.wait()
        events = [self._events.popleft() for _ in range(min(len(self._events), PAGE_COUNT))]
        self._bytes -= sum(len(event.content) for event in events)
        return events


class LiveSubscription:
    """The live subscription of one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger, which is asked for the ids of known events.
        author: the ledger's public key, 64 hex digits.
        intake: files the events.
        agenda: decides when the relay is pulled, depending on the subscription.
        wake: called when a pull becomes due.

    Attributes:
        has_received: whether the last subscription brought an event.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        author: str,
        intake: Intake,
        *,
        agenda: Agenda,
        wake: Callable[[], None],
    ) -> None:
        self._url, self._ledger, self._author, self._intake = url, ledger, author, intake
        self._agenda, self._wake = agenda, wake
        self.has_received = False
        self._on_change: Callable[[str, str], None] | None = None
        self._last_problem: str | None = None  # the problem last reported to `_on_change`
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # running, or ended by an exception
        self._connection: RelayConnection | None = None  # of `_task`
        self._refused_on: RelayConnection | None = None  # where the relay refused the subscription

    def start(self, on_change: Callable[[str, str], None]) -> None:
        """Open the subscription with the next pull, which is due now.

        Args:
            on_change: called with the relay and its problem whenever that changes; the problem is empty while the
                subscription is open.
        """
        self._on_change, self._last_problem = on_change, None
        self._agenda.pull_is_due = True
        self._wake()

    @property
    def needs_start(self) -> bool:
        """Whether the next pull should begin with a subscription: one is wanted, not open and not refused."""
        refused = self._refused_on is not None and self._refused_on.is_open
        return self._on_change is not None and self._task is None and not refused

    def stop(self) -> None:
        """Close the subscription."""
        self._on_change, self._agenda.pull_is_due = None, False
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Close the subscription and wait until its task has ended."""
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in tuple(self._tasks):
            if not task.cancelled():
                task.result()  # fails only by a bug in this module: raise it

    async def subscribe(self, connection: RelayConnection) -> bool:
        """Subscribe before a pull, if a subscription is wanted and not open; returns whether the relay opened one now."""
        self._agenda.pull_is_due = False
        if self._task is not None and self._connection is not connection:
            await asyncio.wait([self._task])  # it files the events of the connection that was lost
        if self._on_change is None or self._task is not None or self._refused_on is connection:
            return False
        self._connection, self.has_received = connection, False
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self._task = asyncio.create_task(
            self._listen(connection, opened), name="sense-memory listener"
        )
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait([task, opened], return_when=asyncio.FIRST_COMPLETED)
        return opened.done()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    def report_failure(self, problem: str) -> None:
        """Report the problem of a failed run, unless a subscription is open; an empty problem is not reported."""
        if problem and self._task is None:
            self._report(problem)

    async def _listen(self, connection: RelayConnection, opened: asyncio.Future[None]) -> None:
        """Run the subscription until it ends, then tell the agenda and the watcher."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            problem, outcome = await self._receive(connection, opened)
        except SenseMemoryError as error:  # of the ledger: the next pull reports it too
            problem, outcome = str(error), RelayOutcome.RETRY
        except Exception as error:  # our bug: the next pull fetches what was not filed
            problem, outcome = log_fault(self._url, error), RelayOutcome.RETRY
        finally:
            if self._task is asyncio.current_task():
                self._task = None
        if outcome is RelayOutcome.REFUSED and connection.is_open:
            self._refused_on = connection
        self._agenda.record_subscription_end(loop.time() - begun, is_connected=connection.is_open)
        self._report(f"{problem}; asked every {BACKGROUND_SECONDS:.0f} s" if connection.is_open else problem)
        if self._agenda.pull_is_due:
            self._wake()

    async def _receive(
        self, connection: RelayConnection, opened: asyncio.Future[None]
    ) -> tuple[str, RelayOutcome]:
        """Subscribe and file the events that arrive; returns why the subscription ended."""
        inbox, unopened = _Inbox(), {OTHERS, JOURNAL}

        def open_one(kinds: tuple[int, ...]) -> None:
            unopened.discard(kinds)
            if not unopened and not opened.done():
                opened.set_result(None)
                self._report("")

        others, journal = (
            asyncio.create_task(self._follow(connection, kinds, inbox, partial(open_one, kinds)))
            for kinds in (OTHERS, JOURNAL)
        )
        receiving = asyncio.create_task(_first_end(others, journal, partial(open_one, JOURNAL)))
        receiving.add_done_callback(lambda _: inbox.close())
        try:
            while events := await inbox.next_events():
                await self._intake(events, self._url)
            if inbox.overflowed:
                return _TOO_FAST, RelayOutcome.RETRY
            page = await receiving
            return connection.problem or page.reason, page.outcome
        except RelayError as error:
            return error.problem, RelayOutcome.RETRY
        finally:
            for task in (receiving, others, journal):
                task.cancel()
            await asyncio.gather(receiving, others, journal, return_exceptions=True)

    async def _follow(
        self, connection: RelayConnection, kinds: tuple[int, ...], inbox: _Inbox, on_open: Callable[[], None]
    ) -> EventPage:
        """Open one REQ and wait for its end; `on_open` is called when the relay has opened it."""

        def on_events(events: Sequence[Event]) -> None:
            self.has_received |= bool(events)
            if not events:
                on_open()
            inbox.add_events(events)

        # Events of any date, because a device that was offline sends events with old dates. The limit of 1 keeps stored
        # events out as far as possible: the pull fetches them, and some relays do not understand a limit of 0.
        wanted = replace(kinds_filter(self._author, kinds), limit=1)
        opened_at = asyncio.get_running_loop().time()
        live = OpenLive(filters=(wanted,), author=self._author, opened_at=opened_at)
        return await connection.listen(live, on_events, self._ledger.stored_ids)

    def _report(self, problem: str) -> None:
        if self._on_change is not None and problem != self._last_problem:
            self._last_problem = problem
            self._on_change(self._url, problem)


async def _first_end(
    others: asyncio.Task[EventPage], journal: asyncio.Task[EventPage], on_hidden: Callable[[], None]
) -> EventPage:
    """The page of the REQ that ended first; if only the journal is refused, `on_hidden` is called and `others` goes on."""
    await asyncio.wait([others, journal], return_when=asyncio.FIRST_COMPLETED)
    if not others.done():
        page = await journal
        if page.outcome is not RelayOutcome.REFUSED and page.reason not in UNAUTHENTICATED:
            return page
        on_hidden()
    return await others
