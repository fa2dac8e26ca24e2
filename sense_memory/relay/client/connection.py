"""The driver of one relay connection: passes messages and time from a websocket to a `Session`, and acts on its decisions.

The driver decides nothing about frames. Any number of `fetch`, `compare`, `count`, `listen` and `publish` calls may run
at once on one connection. Every failure becomes a `RelayError`, an incomplete answer or a verdict, in our words: the
relay's own text is not passed on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from sense_memory import limits
from sense_memory.errors import RelayError
from sense_memory.nostr.negentropy import FRAME_BYTES, Initiator
from sense_memory.nostr.verdict import NO_ANSWER, RelayOutcome
from sense_memory.relay import log_fault
from sense_memory.relay.client.actions import (
    ConnectionLost,
    EventJudged,
    Hangup,
    LiveEvents,
    LookUpIds,
    Send,
    SignAuth,
    Timeouts,
)
from sense_memory.relay.client.authentication import auth_event
from sense_memory.relay.client.page import PageDone
from sense_memory.relay.client.requests import CompareDone, CountDone
from sense_memory.relay.client.session import Session, UselessCounts


if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterable,
        Sequence,
    )
    from types import TracebackType

    from sense_memory.nostr.event import Event, Unsigned
    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Items
    from sense_memory.nostr.verdict import RelayVerdict
    from sense_memory.relay.client.actions import SessionAction
    from sense_memory.relay.client.nip11 import RelayInformation
    from sense_memory.relay.client.page import EventPage, OpenLive
    from sense_memory.relay.client.requests import Comparison, Counted
    from sense_memory.relay.client.websocket import RelaySocket

    _Listener: TypeAlias = (
        "tuple[Callable[[Sequence[Event]], None], Callable[[Sequence[str]], Collection[str]]]"
    )

Item = TypeVar("Item")
Events: TypeAlias = "Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]]"  # ids and canonical JSON


_UNREAD_SECONDS: Final = 0.05  # for reading what arrived before a deadline passed


class DeadlineTimer:
    """Calls `on_due` shortly after a deadline of the session has passed.

    While the session waits for anything, the timer fires when the first deadline passes, and at least once in every
    `shortest` seconds. A new deadline lies at least `shortest` seconds ahead, so no frame has to restart the timer.

    A busy machine may stop this process while the relay answers in time. So after a deadline, the loop first reads what
    has arrived: for 0.05 seconds, and for as long as the timer was late (at most `shortest`).

    Args:
        due: when the first deadline passes, in seconds of `clock`; None for never.
        on_due: called with the time up to which deadlines have passed; starts the timer again.
        shortest: seconds of the shortest timeout.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        due: Callable[[], float | None],
        on_due: Callable[[float], None],
        shortest: float,
        clock: Callable[[], float],
    ) -> None:
        self._due, self._on_due, self._shortest, self._clock = due, on_due, shortest, clock
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it is running or there is no deadline."""
        due = self._due() if self._handle is None else None
        if due is not None:
            delay = min(max(0.0, due - self._clock()), self._shortest)
            self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def stop(self) -> None:
        """Stop the timer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        due, now = self._due(), self._clock()
        late = 0.0 if due is None else now - due
        delay = 0.0 if late < 0 else min(max(late, _UNREAD_SECONDS), self._shortest)
        self._handle = asyncio.get_running_loop().call_later(delay, self._report, now)

    def _report(self, now: float) -> None:
        self._handle = None
        self._on_due(now)


class PublishBatch:
    """The events of one `publish` call.

    Args:
        window: maximum number of events in flight, and of verdicts that wait for the caller.
        first: maximum number of events in flight at first; each accepted event raises the number by one.

    Attributes:
        waiting: the events in flight by id: length in bytes, and the number of answers when the event was sent.
        verdicts: verdicts that the caller has not received yet.
        stopped: whether no further event is sent, because the relay asked for a pause, hung up, or answers nothing.
        changed: set when a verdict arrived, or when no further event will be sent.
        room: set when there may be room for another event.
    """

    def __init__(self, window: int, first: int) -> None:
        self.waiting: dict[str, tuple[int, int]] = {}
        self.verdicts: deque[tuple[str, RelayVerdict]] = deque()
        self.stopped = False
        self.changed = asyncio.Event()
        self.room = asyncio.Event()
        self._window, self._open_window = window, first
        self._bytes, self._answers = 0, 0

    def mark_sent(self, event_id: str, size: int) -> None:
        """Note that an event of `size` bytes is in flight."""
        self.waiting[event_id] = size, self._answers
        self._bytes += size

    def record_verdict(self, event_id: str, verdict: RelayVerdict) -> None:
        """Note the verdict on an event that was in flight."""
        size, answers = self.waiting.pop(event_id, (0, 0))
        self._bytes -= size
        self.verdicts.append((event_id, verdict))
        if verdict.outcome is not RelayOutcome.RETRY or verdict != NO_ANSWER:
            self._answers += 1
        elif answers == self._answers:
            self.stopped = True
        if verdict.outcome is RelayOutcome.RATE_LIMITED:
            self.stopped = True
        elif verdict.outcome is RelayOutcome.ACCEPTED:
            self._open_window = min(self._open_window + 1, self._window)
        self.changed.set()
        self.room.set()

    def stop(self) -> None:
        """Send no further event; events in flight still get their verdicts."""
        self.stopped = True
        self.changed.set()
        self.room.set()

    async def has_room(self) -> None:
        """Wait until another event may be sent, or until no further event will be sent."""
        while not self.stopped and self._is_full():
            self.room.clear()
            await self.room.wait()

    def _is_full(self) -> bool:
        is_full = len(self.waiting) >= self._open_window or len(self.verdicts) >= self._window
        return is_full or self._bytes >= limits.PUBLISH_WINDOW_BYTES


async def each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """Iterate over an iterable or an asynchronous iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


class RelayConnection:
    """A connection to a relay, for a single use: `async with RelayConnection(url, public_key=…) as relay: …`.

    Args:
        url: the relay's canonical URL, as `relay_url` returns it; our NIP-42 events name this URL.
        public_key: the only author whose events are wanted, 64 hex digits.
        sign: signs NIP-42 challenges if a relay requires authentication; None never authenticates.
        timeouts: how long to wait for the relay and the signer.
        clock: seconds that never go back, for timeouts.
        now: seconds since 1970, for the date of NIP-42 events.

    Attributes:
        information: the relay's information document (NIP-11) if the caller has read one; hints only.
        last_message_at: when the relay last sent anything, in seconds of `clock`.
    """

    def __init__(
        self,
        url: str,
        *,
        public_key: str,
        sign: Callable[[Unsigned], Awaitable[Event]] | None = None,
        timeouts: Timeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.information: RelayInformation | None = None
        self._sign, self._clock, self._now = sign, clock, now
        self._timeouts = timeouts or Timeouts()
        self._session = Session(public_key, can_sign=sign is not None, timeouts=self._timeouts)
        self._socket: RelaySocket | None = None
        self._problem: str | None = "not connected"
        self.last_message_at = float("-inf")
        self._replies: asyncio.Queue[str] = asyncio.Queue()  # frames that the session sends by itself
        self._answers: dict[str, asyncio.Future[Any]] = {}  # an EventPage, a Comparison or a Counted each
        self._listeners: dict[str, _Listener] = {}
        self._batches: dict[str, PublishBatch] = {}  # by the id of an event in flight
        self._publishing: set[PublishBatch] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._timer = DeadlineTimer(self._session.deadline, self._tick, self._timeouts.shortest, clock)
        self._broken = False

    async def open(self) -> None:
        """Dial the relay; `close` ends the connection.

        Raises:
            RelayError: the connection could not be opened, or was opened before.
        """
        from sense_memory.relay.client.websocket import open_socket

        if self._socket is not None:
            raise RelayError(self.url, "open a new connection; this connection was used already")
        self._socket = await open_socket(self.url, self._timeouts.open, self._timeouts.close)
        self._problem = None
        self._spawn(self._read(self._socket))
        self._spawn(self._reply())

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up and end every task; may be repeated.

        Open requests end incomplete, and events in flight get a verdict.
        """
        self._end("closed by us")
        try:
            if self._closing is not None:
                await self._closing
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # ── State ───────────────────────────────────────────────────────────────────────────

    @property
    def is_open(self) -> bool:
        """Whether `fetch` and `publish` can be called."""
        return self._problem is None

    @property
    def problem(self) -> str | None:
        """Why the connection is not open, in our words; None while the connection is open."""
        return self._problem

    @property
    def misbehaving(self) -> bool:
        """Whether we hung up because the relay broke the protocol or sent too many useless frames."""
        return self._broken or self._session.misbehaving

    @property
    def counts(self) -> UselessCounts:
        """Counts of the useless frames that the relay sent."""
        return self._session.counts

    @property
    def notices(self) -> tuple[str, ...]:
        """The last few NOTICE texts, escaped and cut: data to show in a status, never instructions."""
        return self._session.notices

    # ── Requests and publishing ─────────────────────────────────────────────────────────

    async def fetch(self, filters: Sequence[Filter], *, wait_after_eose: bool = False) -> EventPage:
        """Ask for stored events with one REQ.

        Args:
            filters: an event must match one of these filters. If a filter has neither `limit` nor `ids`, the relay
                decides how many events it sends, up to `limits.MAX_PULL_BYTES`.
            wait_after_eose: whether to wait `Timeouts.notice_settle` after EOSE for late events, because the relay
                sent events after an earlier EOSE.

        Returns:
            The verified answer. Any failure after the REQ makes the answer incomplete, with a reason.

        Raises:
            RelayError: the connection is not open.
        """
        self._check_open()
        asked = self._session.request(filters, self._clock(), wait_after_eose=wait_after_eose)
        page: EventPage = await self._answer(*asked)
        return page

    async def compare(
        self, wanted: Filter, items: Items, *, frame_bytes: int = FRAME_BYTES, doubtful: bool = False
    ) -> Comparison:
        """Find out which events only one side has (NIP-77).

        Args:
            wanted: which events to compare.
            items: all of our events that match.
            frame_bytes: maximum bytes of one of our messages, at least 4,096; hex doubles the bytes on the wire.
            doubtful: whether the relay may not know NIP-77; we then wait for its first answer only
                `Timeouts.notice_settle`.

        Returns:
            What was found. Any failure makes the comparison incomplete, with a reason; so does a relay that
            does not know NIP-77.

        Raises:
            RelayError: the connection is not open.
        """
        self._check_open()
        initiator = Initiator(items, frame_bytes)
        begun = self._session.compare(wanted, initiator, self._clock(), doubtful=doubtful)
        found: Comparison = await self._answer(*begun)
        return found

    async def count(self, filters: Sequence[Filter], *, doubtful: bool = False) -> Counted:
        """Ask how many events match (NIP-45).

        Args:
            filters: an event must match one of these filters.
            doubtful: whether the relay may not know NIP-45; we then wait for the answer only
                `Timeouts.notice_settle`.

        Raises:
            RelayError: the connection is not open.
        """
        self._check_open()
        found: Counted = await self._answer(*self._session.count(filters, self._clock(), doubtful=doubtful))
        return found

    async def listen(
        self,
        live: OpenLive,
        on_events: Callable[[Sequence[Event]], None],
        find_stored: Callable[[Sequence[str]], Collection[str]],
    ) -> EventPage:
        """Open a live subscription and wait for its end.

        Args:
            live: the subscription.
            on_events: called with new events, and with no events when the relay has opened the subscription.
            find_stored: returns the ids, among those passed in, of events that are stored here.

        Returns:
            An incomplete page, whose reason says why the subscription ended.

        Raises:
            RelayError: the connection is not open.
            Exception: any exception of `find_stored`.
        """
        self._check_open()
        subscription, actions = self._session.listen(live)
        self._listeners[subscription] = on_events, find_stored
        try:
            ended: EventPage = await self._answer(subscription, actions)
        finally:
            del self._listeners[subscription]
        return ended

    async def _look_up(self, subscription: str, ids: Sequence[str]) -> None:
        """Tell the session which events are stored here, and carry out the actions that follow."""
        if subscription not in self._listeners:
            return
        _, find_stored = self._listeners[subscription]
        try:
            known = find_stored(ids)
        except Exception as error:  # `listen` raises it
            answer = self._answers.get(subscription)
            if answer is not None and not answer.done():
                answer.set_exception(error)
        else:
            self._act(self._session.looked_up(subscription, known))

    async def _answer(self, subscription: str, actions: Iterable[SessionAction]) -> Any:
        """Send a request that the session has opened, and wait for the answer."""
        answer = self._answers[subscription] = asyncio.get_running_loop().create_future()
        self._timer.start()
        try:
            await self._write(actions)
            return await answer
        finally:
            if self._answers.pop(subscription, None) is not None:  # the caller was cancelled
                self._act(self._session.cancel(subscription))

    async def publish(
        self, items: Events, *, window: int = limits.PUBLISH_WINDOW_COUNT, first: int | None = None
    ) -> AsyncGenerator[tuple[str, RelayVerdict], None]:
        """Send events and yield the relay's verdict on each event, in the order of the relay's answers.

        Sending stops after a RATE_LIMITED verdict, if the relay answers none of the events in flight, and when the
        connection ends. Events in flight then still get a verdict, and events that were not sent get none. An event
        that is in flight already is skipped. Sending goes on while the caller handles a verdict.

        Args:
            items: event ids (64 hex digits) and bodies (canonical JSON bytes); read when there is room in the window.
            window: maximum number of events in flight (fewer if the events are long), and of verdicts that wait for a
                slow caller.
            first: maximum number of events in flight at first; each accepted event raises the number by one. None
                starts with the whole window.

        Raises:
            RelayError: the connection is not open.
        """
        self._check_open()
        batch = PublishBatch(window, first or window)
        self._publishing.add(batch)
        feeder = asyncio.create_task(self._feed(items, batch))
        feeder.add_done_callback(lambda _: batch.changed.set())
        try:
            while True:
                while batch.verdicts:
                    batch.room.set()
                    yield batch.verdicts.popleft()
                if not batch.waiting and (feeder.done() or batch.stopped):
                    break
                batch.changed.clear()
                await batch.changed.wait()
            if feeder.done():
                feeder.result()  # raises any exception of `items`
        finally:
            self._publishing.discard(batch)
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
            for event_id in batch.waiting:
                self._batches.pop(event_id, None)

    async def _feed(self, items: Events, batch: PublishBatch) -> None:
        async for event_id, body in each(items):
            await batch.has_room()
            if batch.stopped:
                return
            if event_id in self._batches:
                continue
            self._batches[event_id] = batch
            batch.mark_sent(event_id, len(body))
            actions = self._session.publish(event_id, body, self._clock())
            self._timer.start()
            await self._write(actions)

    # ── Messages and actions ────────────────────────────────────────────────────────────

    async def _read(self, socket: RelaySocket) -> None:
        """Pass messages to the session until the connection ends."""
        try:
            while self._problem is None:
                data = await socket.receive()
                self.last_message_at = self._clock()
                self._act(self._session.received(data, self.last_message_at))
        except ConnectionLost as lost:
            self._broken = lost.misbehaving
            self._end(lost.problem)

    async def _reply(self) -> None:
        """Write the frames that the session sends by itself, in a separate task, so that reading never waits for writing."""
        while True:
            await self._write([Send(await self._replies.get())])

    async def _write(self, actions: Iterable[SessionAction]) -> None:
        """Write the messages of `Send` actions; end the connection if the relay does not read in time."""
        for action in actions:
            if isinstance(action, Send) and self._socket is not None and self._problem is None:
                try:
                    await self._socket.send_text(action.text, self._timeouts.send)
                except ConnectionLost as lost:
                    self._end(lost.problem)

    def _act(self, actions: Iterable[SessionAction]) -> None:
        """Carry out actions of the session."""
        for action in actions:
            match action:
                case Send(text):
                    self._replies.put_nowait(text)
                case PageDone(ident, found) | CompareDone(ident, found) | CountDone(ident, found):
                    answer = self._answers.pop(ident, None)
                    if answer is not None and not answer.done():
                        answer.set_result(found)
                case LiveEvents(ident, events) if ident in self._listeners:
                    self._listeners[ident][0](events)
                case LookUpIds(ident, ids):
                    self._spawn(self._look_up(ident, ids))
                case EventJudged(event_id, verdict):
                    batch = self._batches.pop(event_id, None)
                    if batch is not None:
                        batch.record_verdict(event_id, verdict)
                case SignAuth(challenge) if self._sign is not None:
                    self._spawn(self._authenticate(self._sign, challenge))
                case Hangup(reason):
                    self._end(reason)
        self._timer.start()

    async def _authenticate(self, sign: Callable[[Unsigned], Awaitable[Event]], challenge: str) -> None:
        """Have a challenge signed; the session has the deadline."""
        try:
            event = await sign(auth_event(self.url, challenge, int(self._now())))
        except Exception:  # a signer is foreign code: any exception means that it did not sign
            self._act(self._session.signing_failed())
        else:
            self._act(self._session.authenticated(event, self._clock()))

    # ── Time and the end ────────────────────────────────────────────────────────────────

    def _tick(self, now: float) -> None:
        try:
            self._act(self._session.tick(now))
        except Exception as error:  # nobody awaits a timer: without this, callers would wait for ever
            self._end(log_fault(self.url, error))

    def _end(self, problem: str) -> None:
        """End every open request and every event in flight, and hang up."""
        if self._problem is not None or self._socket is None:
            return
        self._problem = problem
        for batch in self._publishing:
            batch.stop()
        self._act(self._session.disconnected(problem))
        self._timer.stop()
        self._closing = asyncio.create_task(self._socket.hang_up(self._timeouts.close))

    def _check_open(self) -> None:
        if self._problem is not None:
            raise RelayError(self.url, self._problem)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(log_fault(self.url, error))
