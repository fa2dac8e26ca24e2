"""The live subscription of one relay, open while somebody watches.

What is guaranteed: nothing that the relay sends between two pulls is missed. The subscription is opened before a pull,
never after, so the pull fetches the events that arrived before the subscription, and the subscription brings the events
that arrive during the pull. When a subscription ends, a pull is due that begins with a new subscription.

Why it is safe: a relay that does not compare (NIP-77) is only asked for events dated since the cursor, but the daily
sweep fetches the rest. A relay that refuses the subscription is pulled every half minute, as without a subscription.

What it costs: one open subscription, and memory for at most 5,000 events or 32 MB that wait to be stored. A relay that
sends faster than events can be stored is pulled instead. This module handles verified events and cannot read their
content.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError, SenseMemoryError
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    MAX_LIVE_WAITING_BYTES,
    MAX_LIVE_WAITING_COUNT,
    PAGE_COUNT,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay import log_fault
from sense_memory.relay.client.page import OpenLive


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
    """Verified events that wait to be filed."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._closed = self.overflowed = False

    def add_events(self, events: Sequence[Event]) -> None:
        """Add events; if too many wait, all are dropped, and the next pull fetches them."""
        self._events.extend(events)
        self._bytes += sum(len(event.content) for event in events)
        if len(self._events) > MAX_LIVE_WAITING_COUNT or self._bytes > MAX_LIVE_WAITING_BYTES:
            self.overflowed = True
            self.close()
        if self.overflowed:
            self._events.clear()
        self._changed.set()

    def close(self) -> None:
        """Take no more events."""
        self._closed = True
        self._changed.set()

    async def next_events(self) -> list[Event]:
        """Wait for events and return at most one page of them; empty when no more will be added."""
        while not self._events and not self._closed:
            self._changed.clear()
            await self._changed.wait()
        taken = [self._events.popleft() for _ in range(min(len(self._events), PAGE_COUNT))]
        self._bytes -= sum(len(event.content) for event in taken)
        return taken


class LiveSubscription:
    """The live subscription of one relay.

    Args:
        url: the relay, as the ledger knows it.
        ledger: says which events are known.
        author: the ledger's public key, 64 hex digits.
        intake: files the events.
        agenda: decides when the relay is pulled, and learns when a subscription is wanted, begins and ends.
        wake: called when a pull has become due.

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
        self._state: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._on: RelayConnection | None = None
        self._refuses: RelayConnection | None = None

    def start(self, on_change: Callable[[str, str], None]) -> None:
        """Open the subscription with the next pull, which is due now.

        Args:
            on_change: called with the relay and its problem whenever that changes; the problem is empty while the
                subscription is open.
        """
        self._on_change, self._state = on_change, None
        self._agenda.pull_is_due = True
        self._wake()

    @property
    def needs_start(self) -> bool:
        """Whether the next pull should begin with a subscription, because none is open and events may be missed."""
        refused = self._refuses is not None and self._refuses.is_open
        return self._on_change is not None and self._task is None and not refused

    def stop(self) -> None:
        """Close the subscription."""
        self._on_change, self._agenda.pull_is_due = None, False
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """As `stop`, and wait until it has ended."""
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in tuple(self._tasks):
            if not task.cancelled():
                task.result()  # fails only by a bug in this module: raise it

    async def subscribe(self, connection: RelayConnection) -> bool:
        """Subscribe before a pull, if that is wanted and not done yet. Returns whether the relay agreed just now."""
        self._agenda.pull_is_due = False
        if self._task is not None and self._on is not connection:
            await asyncio.wait([self._task])  # it files the events from before the connection was lost
        if self._on_change is None or self._task is not None or self._refuses is connection:
            return False
        self._on, self.has_received = connection, False
        agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self._task = asyncio.create_task(
            self._listen(connection, agreed), name="sense-memory listener"
        )
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        await asyncio.wait([task, agreed], return_when=asyncio.FIRST_COMPLETED)
        return agreed.done()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    def report_failure(self, problem: str) -> None:
        """A run failed: the relay is not connected."""
        if problem and self._task is None:
            self._report(problem)

    async def _listen(self, connection: RelayConnection, agreed: asyncio.Future[None]) -> None:
        """Keep the subscription open until it ends, then make a pull due."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            problem, outcome = await self._receive(connection, agreed)
        except SenseMemoryError as error:  # of the ledger: the next pull reports it as well
            problem, outcome = str(error), RelayOutcome.RETRY
        except Exception as error:  # our bug: the next pull fetches what was not filed
            problem, outcome = log_fault(self._url, error), RelayOutcome.RETRY
        finally:
            if self._task is asyncio.current_task():
                self._task = None
        if outcome is RelayOutcome.REFUSED and connection.is_open:
            self._refuses = connection
        self._agenda.subscription_ended(loop.time() - begun, is_connected=connection.is_open)
        self._report(f"{problem}; asked every {BACKGROUND_SECONDS:.0f} s" if connection.is_open else problem)
        if self._agenda.pull_is_due:
            self._wake()

    async def _receive(
        self, connection: RelayConnection, agreed: asyncio.Future[None]
    ) -> tuple[str, RelayOutcome]:
        """Subscribe and file the events that arrive; returns why the subscription ended."""
        inbox = _Inbox()

        def on_events(events: Sequence[Event]) -> None:
            self.has_received |= bool(events)
            if not agreed.done() and not events:
                agreed.set_result(None)
                self._report("")
            inbox.add_events(events)

        live = OpenLive(
            filters=self._filters(),
            author=self._author,
            opened_at=asyncio.get_running_loop().time(),
        )
        receiving: asyncio.Task[EventPage] = asyncio.create_task(
            connection.listen(live, on_events, self._ledger.stored_ids)
        )
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
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    def _filters(self) -> tuple[Filter, ...]:
        """All events of ours, of any date, because a device that was offline sends events dated days ago.

        The pull fetches stored events. A limit of 0 would leave them out here, but not every relay knows that limit.
        """
        mine = (self._author,)
        return (
            Filter(authors=mine, kinds=(KIND_APP_DATA, KIND_DELETION), limit=1),
            Filter(authors=mine, kinds=(KIND_DIRECT_MESSAGE,), tags={"p": mine}, limit=1),
        )

    def _report(self, problem: str) -> None:
        if self._on_change is not None and problem != self._state:
            self._state = problem
            self._on_change(self._url, problem)
