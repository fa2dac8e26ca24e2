"""The driver of one relay connection: carries bytes and time between a websocket and a `Session`.

The driver decides nothing about frames. Any number of `fetch`, `compare` and `publish` calls may run at once
on one connection. Every failure becomes a `RelayError`, an incomplete page or a verdict, in our words:
the relay's own text is not passed on. Redirects are never followed and compression is never offered.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

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
Events: TypeAlias = (
    "Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]]"  # ids, and canonical JSON
)

# ── The alarm clock of a relay connection ───────────────────────────────────────────────
# The alarm clock wakes the connection when a time limit of the relay has passed.


class Alarm:
    """Rings in time, while the connection waits for anything.

    The alarm rings when the first time limit passes, and at least as often as the shortest time limit. So no
    frame can create a time limit that passes before the alarm rings, and no frame needs to move the alarm.

    Args:
        due: when the first time limit passes, in seconds of `clock`; None for never.
        ring: called when the alarm rings; sets the alarm anew.
        shortest: seconds of the shortest time limit.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        due: Callable[[], float | None],
        ring: Callable[[], None],
        shortest: float,
        clock: Callable[[], float],
    ) -> None:
        self._due, self._ring, self._shortest, self._clock = due, ring, shortest, clock
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Set the alarm, unless the alarm is set already."""
        due = self._due() if self._handle is None else None
        if due is not None:
            delay = min(max(0.0, due - self._clock()), self._shortest)
            self._handle = asyncio.get_running_loop().call_later(delay, self._go_off)

    def stop(self) -> None:
        """Switch the alarm off."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _go_off(self) -> None:
        self._handle = None
        self._ring()


# ── Publishing ──────────────────────────────────────────────────────────────────────────


class PublishBatch:
    """The events of one `publish` call.

    Args:
        window: most events in flight, and most verdicts that wait for the caller.
        first: events in flight at first; each accepted event makes room for one more.
        room_bytes: nothing more is sent while the events in flight have this length together.

    Attributes:
        waiting: by id in flight: the bytes of the event, and the number of answers when the event was sent.
        verdicts: verdicts that were not handed to the caller yet.
        stopped: whether nothing more is sent: the relay asked for a pause, is gone, or answers nothing at all.
        changed: set when a verdict arrived, or when nothing more will be sent.
        room: set when there may be room for another event.
    """

    def __init__(self, window: int, first: int, room_bytes: int = limits.PUBLISH_WINDOW_BYTES) -> None:
        self.waiting: dict[str, tuple[int, int]] = {}
        self.verdicts: deque[tuple[str, RelayVerdict]] = deque()
        self.stopped = False
        self.changed = asyncio.Event()
        self.room = asyncio.Event()
        self._window, self._room, self._room_bytes = window, first, room_bytes
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
            self._room = min(self._room + 1, self._window)
        self.changed.set()
        self.room.set()

    def stop(self) -> None:
        """Send nothing more; events in flight still get their verdicts."""
        self.stopped = True
        self.changed.set()
        self.room.set()

    async def has_room(self) -> None:
        """Wait until another event may be sent, or until nothing more will be sent."""
        while not self.stopped and self._is_full():
            self.room.clear()
            await self.room.wait()

    def _is_full(self) -> bool:
        is_full = len(self.waiting) >= self._room or len(self.verdicts) >= self._window
        return is_full or self._bytes >= self._room_bytes


async def each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """The items of an iterable of either kind."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


class RelayConnection:
    """A connection to a relay: `async with RelayConnection(url, public_key=…) as relay: …`. Used once.

    Args:
        url: the relay, as `relay_url` spells it; NIP-42 events name it.
        public_key: the only author whose events are wanted, 64 hex digits.
        sign: signs NIP-42 challenges when the relay insists; None refuses to authenticate.
        timeouts: how long to wait for the relay and the signer.
        clock: seconds that never go back, for timeouts.
        now: seconds since 1970, for the date of NIP-42 events.

    Attributes:
        information: the relay's information document (NIP-11), if the dialler has read one: hints only.
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
        self._replies: asyncio.Queue[str] = asyncio.Queue()  # what the session itself wants sent
        self._answers: dict[str, asyncio.Future[Any]] = {}  # an EventPage, a Comparison or a Counted each
        self._listeners: dict[str, _Listener] = {}
        self._batches: dict[str, PublishBatch] = {}  # by the id of an event in flight
        self._publishing: set[PublishBatch] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._goodbye: asyncio.Task[None] | None = None
        self._alarm = Alarm(self._session.deadline, self._ring, self._timeouts.shortest, clock)
        self._broken = False

    async def open(self) -> None:
        """Dial; `close` ends the connection.

        Raises:
            RelayError: the connection could not be opened, or was opened before.
        """
        from sense_memory.relay.client.websocket import open_socket

        if self._socket is not None:
            raise RelayError(self.url, "this connection was used already; open another one")
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
        """Hang up and end every task; may be repeated. Open pages end incomplete, events in flight get a verdict."""
        self._end("closed by us")
        try:
            if self._goodbye is not None:
                await self._goodbye
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # ── What is known of the relay ──────────────────────────────────────────────────────

    @property
    def is_open(self) -> bool:
        """Whether `fetch` and `publish` can be called."""
        return self._problem is None

    @property
    def problem(self) -> str | None:
        """Why the connection is not open, in our words; None while it is."""
        return self._problem

    @property
    def misbehaving(self) -> bool:
        """Whether the relay broke the protocol, or sent so many useless frames that we hung up."""
        return self._broken or self._session.misbehaving

    @property
    def counts(self) -> UselessCounts:
        """Counts of the useless frames that the relay sent."""
        return self._session.counts

    @property
    def notices(self) -> tuple[str, ...]:
        """The relay's last few notices, escaped and cut: data for a status, never instructions."""
        return self._session.notices

    # ── Requests and publishing ─────────────────────────────────────────────────────────

    async def fetch(self, filters: Sequence[Filter], *, patient: bool = False) -> EventPage:
        """Ask for stored events, in one REQ.

        Args:
            patient: whether to listen for a while after EOSE, because the relay went on sending after an earlier EOSE.
            filters: an event has to match one of them. A filter without `limit` and `ids` is answered with as many
                events as the relay likes, up to `limits.MAX_PULL_BYTES`.

        Returns:
            The verified answer. Any failure after the REQ makes the answer incomplete, with a reason.

        Raises:
            RelayError: the connection was no longer open.
        """
        self._check_open()
        page: EventPage = await self._answer(*self._session.request(filters, self._clock(), patient=patient))
        return page

    async def compare(
        self, wanted: Filter, items: Items, *, frame_bytes: int = FRAME_BYTES, doubtful: bool = False
    ) -> Comparison:
        """Find out which events only one side has (NIP-77); raises RelayError as `fetch`.

        Args:
            wanted: which events to compare.
            items: all of our events that match.
            frame_bytes: most bytes of a message of ours, at least 4,096; hex doubles the bytes on the wire.
            doubtful: whether the relay may not know NIP-77; we then wait only a short time for its first answer.

        Returns:
            What was found. Any failure makes the comparison incomplete, with a reason; so does a relay that
            does not know NIP-77.
        """
        self._check_open()
        initiator = Initiator(items, frame_bytes)
        begun = self._session.compare(wanted, initiator, self._clock(), doubtful=doubtful)
        found: Comparison = await self._answer(*begun)
        return found

    async def count(self, filters: Sequence[Filter], *, doubtful: bool = False) -> Counted:
        """Ask how many events match (NIP-45); raises RelayError as `compare`.

        Args:
            filters: an event has to match one of them.
            doubtful: whether the relay may not know NIP-45; we then wait only a short time for the answer.
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
        """Keep a live subscription until it ends; raises RelayError as `fetch` does, and what `find_stored` raises.

        Args:
            live: the subscription.
            on_events: called with the events that arrived, and with no events when the relay has opened the subscription.
            find_stored: returns which of some ids are stored here.

        Returns:
            Why the subscription ended, as an incomplete page.
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
        """Tell the session which events are stored here, and carry out what the session asks for next."""
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
        """The answer to a question that the session has opened."""
        answer = self._answers[subscription] = asyncio.get_running_loop().create_future()
        self._alarm.set()
        try:
            await self._write(actions)
            return await answer
        finally:
            if self._answers.pop(subscription, None) is not None:  # the caller was cancelled
                self._act(self._session.abandon(subscription))

    async def publish(
        self, items: Events, *, window: int = limits.PUBLISH_WINDOW_COUNT, first: int | None = None
    ) -> AsyncGenerator[tuple[str, RelayVerdict], None]:
        """Send events and yield the relay's verdict on each, in the order of its answers.

        Sending stops after a RATE_LIMITED verdict, when the relay leaves everything unanswered, and when the
        connection ends: events in flight still get a verdict, events that were not sent get none. An id that is
        in flight already is skipped. Sending goes on while the caller handles a verdict.

        Args:
            items: event ids (64 hex digits) and bodies (canonical JSON bytes); read as there is room.
            window: most events in flight (fewer if they are long), and most verdicts kept for a slow caller.
            first: events in flight at first; each accepted event makes room for one more. None for the whole window.

        Raises:
            RelayError: the connection was no longer open.
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
                feeder.result()  # raises what reading the items raised
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
            self._alarm.set()
            await self._write(actions)

    # ── Carrying ────────────────────────────────────────────────────────────────────────

    async def _read(self, socket: RelaySocket) -> None:
        """Feed the session until the connection ends."""
        try:
            while self._problem is None:
                data = await socket.receive()
                self.last_message_at = self._clock()
                self._act(self._session.received(data, self.last_message_at))
        except ConnectionLost as lost:
            self._broken = lost.misbehaving
            self._end(lost.problem)

    async def _reply(self) -> None:
        """Write what the session sends by itself. A task of its own, so that reading never waits for writing."""
        while True:
            await self._write([Send(await self._replies.get())])

    async def _write(self, actions: Iterable[SessionAction]) -> None:
        """Write the messages of `Send` actions, waiting as long as a relay may take to read them."""
        for action in actions:
            if isinstance(action, Send) and self._socket is not None and self._problem is None:
                try:
                    await self._socket.send_text(action.text, self._timeouts.send)
                except ConnectionLost as lost:
                    self._end(lost.problem)

    def _act(self, actions: Iterable[SessionAction]) -> None:
        """Carry out what the session decided."""
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
        self._alarm.set()

    async def _authenticate(self, sign: Callable[[Unsigned], Awaitable[Event]], challenge: str) -> None:
        """Have a challenge signed, however long the signer takes."""
        try:
            event = await sign(auth_event(self.url, challenge, int(self._now())))
        except Exception:  # a signer is foreign code: any failure of a signer means that it did not sign
            self._act(self._session.signing_failed())
        else:
            self._act(self._session.authenticated(event, self._clock()))

    # ── Time and ends ───────────────────────────────────────────────────────────────────

    def _ring(self) -> None:
        try:
            self._act(self._session.tick(self._clock()))
        except Exception as error:  # nobody awaits a timer, and callers still wait for the relay
            self._end(log_fault(self.url, error))

    def _end(self, problem: str) -> None:
        """Settle everything that waits for the relay, and hang up."""
        if self._problem is not None or self._socket is None:
            return
        self._problem = problem
        for batch in self._publishing:
            batch.stop()
        self._act(self._session.disconnected(problem))
        self._alarm.stop()
        self._goodbye = asyncio.create_task(self._socket.hang_up(self._timeouts.close))

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
