"""One connection to the embedded relay: passes messages between a websocket, a `ServerSession` and the event store.

Events that have arrived together are stored in one transaction, and their OKs are sent after the commit. The answer to a
REQ is sent in chunks, and each chunk waits until the client has read the chunk before, so a slow client costs little
memory. The connection is aborted if too many unread live events pile up.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Final

import orjson
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from sense_memory.errors import MalformedFrame
from sense_memory.limits import UNTHREADED_COUNT
from sense_memory.nostr.negentropy import ID_BYTES, Items, Responder
from sense_memory.nostr.wire import Count, NegClose, NegMessage, NegOpen, frame, neg_message
from sense_memory.relay.server.session import AnswerRequest, EndRequest, SendFrame, ServerSession, StoreEvent


if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Sequence

    from websockets.asyncio.server import ServerConnection

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.server.event_store import EventStore
    from sense_memory.relay.server.session import RelayLimits


# ── Comparisons (NIP-77) ────────────────────────────────────────────────────────────────
# When a comparison is opened, the relay reads the matching events once, some rows at a time; later changes do not affect
# the comparison. What takes longer than a millisecond is computed in a thread, so a large comparison hardly delays other
# connections.

INBOX_COUNT: Final = 8  # messages that wait for their answers; an honest client has one

_UNKNOWN_COMPARISON: Final = "closed: unknown subscription"
_TOO_MANY_COMPARISONS: Final = "blocked: too many comparisons at once"
_TOO_MANY_EVENTS: Final = "blocked: too many events match"
_TOO_MANY_MESSAGES: Final = "blocked: too many messages at once"
_INVALID_MESSAGE: Final = "error: invalid negentropy message"
_READING_FAILED: Final = "error: the relay's storage failed, try again later"


class _ServerComparison:
    """An open comparison: the client's unanswered messages, and the task that answers them."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[bytes] = asyncio.Queue(INBOX_COUNT)
        self.task: asyncio.Task[None] | None = None


class ServerComparisons:
    """The open comparisons of one connection.

    Args:
        event_store: where events are kept.
        limits: the relay's limits.
        send: writes frames to the client.
    """

    def __init__(
        self, event_store: EventStore, limits: RelayLimits, send: Callable[[Sequence[bytes]], None]
    ) -> None:
        self._event_store, self._limits, self._send = event_store, limits, send
        self._open: dict[str, _ServerComparison] = {}

    def open(self, subscription: str, wanted: Filter, message: bytes, now: int) -> None:
        """Begin a comparison; an open comparison with the same id ends.

        Args:
            subscription: the id of the comparison, in another namespace than the ids of REQs.
            wanted: which events to compare.
            message: the client's first message.
            now: seconds since 1970.
        """
        self.close(subscription)
        if len(self._open) >= self._limits.max_comparisons:
            self._refuse(subscription, _TOO_MANY_COMPARISONS)
            return
        comparison = self._open[subscription] = _ServerComparison()
        comparison.inbox.put_nowait(message)
        comparison.task = asyncio.create_task(self._answer(subscription, wanted, now, comparison))

    def continue_comparison(self, subscription: str, message: bytes) -> None:
        """Queue the client's next message in a comparison."""
        comparison = self._open.get(subscription)
        if comparison is None:
            self._refuse(subscription, _UNKNOWN_COMPARISON)
        elif comparison.inbox.full():
            self.close(subscription)
            self._refuse(subscription, _TOO_MANY_MESSAGES)
        else:
            comparison.inbox.put_nowait(message)

    def close(self, subscription: str) -> None:
        """End a comparison, if it is open."""
        comparison = self._open.pop(subscription, None)
        if comparison is not None and comparison.task is not None:
            comparison.task.cancel()

    def end(self) -> list[asyncio.Task[None]]:
        """Cancel all comparisons; returns their tasks."""
        tasks = [comparison.task for comparison in self._open.values() if comparison.task is not None]
        for subscription in tuple(self._open):
            self.close(subscription)
        return tasks

    async def _answer(
        self, subscription: str, wanted: Filter, now: int, comparison: _ServerComparison
    ) -> None:
        """Answer the client's messages until one is invalid or the comparison must be refused."""
        try:
            refusal = await self._converse(subscription, wanted, now, comparison.inbox)
        except MalformedFrame:
            refusal = _INVALID_MESSAGE
        except sqlite3.Error:
            refusal = _READING_FAILED
        del self._open[subscription]
        self._refuse(subscription, refusal)

    async def _converse(
        self, subscription: str, wanted: Filter, now: int, inbox: asyncio.Queue[bytes]
    ) -> str:
        items = await self._items(wanted, now)
        while items is not None:
            reply, message = Responder(items).reply, await inbox.get()
            is_long = len(items) + len(message) // ID_BYTES > UNTHREADED_COUNT
            answer = await asyncio.to_thread(reply, message) if is_long else reply(message)
            self._send([neg_message(subscription, answer).encode()])
        return _TOO_MANY_EVENTS

    async def _items(self, wanted: Filter, now: int) -> Items | None:
        """The relay's side of a comparison, or None if too many events match."""
        pairs: list[tuple[int, bytes]] = []
        for part in self._event_store.iter_pairs(wanted, now):
            pairs += part
            if len(pairs) > self._limits.max_compared:
                return None
            await asyncio.sleep(0)  # the other connections' turn
        return await asyncio.to_thread(Items, pairs) if len(pairs) > UNTHREADED_COUNT else Items(pairs)

    def _refuse(self, subscription: str, why: str) -> None:
        self._send([frame("NEG-ERR", subscription, why).encode()])


# ── The connection ──────────────────────────────────────────────────────────────────────

BATCH_COUNT: Final = 128  # messages handled in one turn of the event loop: about 10 ms of verification
CHUNK_BYTES: Final = 262_144  # bytes of an answer that are sent before the client has to read

_STORING_FAILED: Final = "error: the relay's storage failed; nothing was stored, try again later"


class _StoredAnswer:
    """An answer to a REQ that is being sent; new events for the subscription are held back until its EOSE."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.held: list[bytes] = []
        self.held_bytes = 0


class ClientHandler:
    """Serves one client until it leaves.

    Args:
        connection: the open websocket.
        session: this client's protocol state.
        event_store: where events are kept.
        limits: the relay's limits.
        clock: seconds since 1970.
        announce: passes newly stored events to every connection.
    """

    def __init__(
        self,
        connection: ServerConnection,
        session: ServerSession,
        event_store: EventStore,
        *,
        limits: RelayLimits,
        clock: Callable[[], float],
        announce: Callable[[Sequence[Event]], None],
    ) -> None:
        self._connection, self._session, self._event_store, self._limits = (
            connection,
            session,
            event_store,
            limits,
        )
        self._clock, self._announce = clock, announce
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue(BATCH_COUNT)
        self._answers: dict[str, _StoredAnswer] = {}
        self._comparisons = ServerComparisons(event_store, limits, self._send)

    async def serve(self) -> None:
        """Answer the client's messages until the connection is closed."""
        self._send([self._session.greeting().encode()])
        reader = asyncio.create_task(self._read())
        try:
            while batch := await self._next_batch():
                self._handle(batch)
                await self._drained()
        finally:
            tasks = [reader, *(answer.task for answer in self._answers.values() if answer.task)]
            for task in tasks:
                task.cancel()
            tasks += self._comparisons.end()
            await asyncio.gather(*tasks, return_exceptions=True)

    def deliver(self, events: Sequence[Event]) -> None:
        """Send new events to the subscriptions that they match; hold back events for an answer that is being sent."""
        ready: list[bytes] = []
        for event in events:
            for subscription in self._session.matching_subscriptions(event):
                data = _event_frame(_opening(subscription), event.body())
                answer = self._answers.get(subscription)
                if answer is None:
                    ready.append(data)
                else:
                    answer.held.append(data)
                    answer.held_bytes += len(data)
        self._send(ready)
        waiting = self._connection.transport.get_write_buffer_size()
        waiting += sum(answer.held_bytes for answer in self._answers.values())
        if waiting > self._limits.max_backlog_bytes:
            self.abort()

    def abort(self) -> None:
        """End the connection at once, without a close frame."""
        self._connection.transport.abort()

    async def _read(self) -> None:
        """Fill the inbox; while the inbox is full, nothing more is read from the network."""
        try:
            while True:
                await self._inbox.put(await self._connection.recv(decode=False))
        except ConnectionClosed:
            await self._inbox.put(None)

    async def _next_batch(self) -> list[bytes]:
        """Wait for a message; returns all messages that have arrived, or an empty list after the connection has ended."""
        batch = [await self._inbox.get()]
        while len(batch) < BATCH_COUNT and not self._inbox.empty():
            batch.append(self._inbox.get_nowait())
        if batch[-1] is None and len(batch) > 1:
            self._inbox.put_nowait(None)  # the end of the connection is for the next call
        return [data for data in batch if data is not None]

    def _handle(self, batch: list[bytes]) -> None:
        now = self._clock()
        to_store: list[Event] = []
        for data in batch:
            action = self._session.handle_message(data, now)
            if isinstance(action, StoreEvent):
                to_store.append(action.event)
                continue
            self._store(to_store, now)
            to_store = []
            match action:
                case SendFrame(text):
                    self._send([text.encode()])
                case AnswerRequest(subscription, _):
                    self._answer(action, now)
                case EndRequest(subscription):
                    self._drop_answer(subscription)
                case Count(subscription, filters):
                    self._count(subscription, filters, now)
                case NegOpen(subscription, wanted, message):
                    self._comparisons.open(subscription, wanted, message, int(now))
                case NegMessage(subscription, message):
                    self._comparisons.continue_comparison(subscription, message)
                case NegClose(subscription):
                    self._comparisons.close(subscription)
        self._store(to_store, now)

    def _store(self, events: list[Event], now: float) -> None:
        """Store events in one transaction, then send the OKs, then send the events to subscribers."""
        if not events:
            return
        try:
            receipts = self._event_store.add_events(events, int(now))
        except sqlite3.Error:
            self._send([frame("OK", event.id, False, _STORING_FAILED).encode() for event in events])
            return
        pairs = list(zip(events, receipts, strict=True))
        self._send(
            [frame("OK", event.id, receipt.accepted, receipt.text).encode() for event, receipt in pairs]
        )
        self._announce([event for event, receipt in pairs if receipt.is_new])

    def _answer(self, wanted: AnswerRequest, now: float) -> None:
        """Select the stored events that match now, and begin to send them."""
        self._drop_answer(wanted.subscription)
        try:
            rows = self._event_store.find_rows(wanted.filters, self._limits.max_limit, int(now))
        except sqlite3.Error:
            self._fail_answer(wanted.subscription)
            return
        answer = self._answers[wanted.subscription] = _StoredAnswer()
        answer.task = asyncio.create_task(self._stream(wanted.subscription, rows, answer))

    def _count(self, subscription: str, filters: Sequence[Filter], now: float) -> None:
        """Send how many events match (NIP-45)."""
        try:
            answer = frame(
                "COUNT", subscription, {"count": self._event_store.count_events(filters, int(now))}
            )
        except sqlite3.Error:
            answer = frame("CLOSED", subscription, _READING_FAILED)
        self._send([answer.encode()])

    def _drop_answer(self, subscription: str) -> None:
        answer = self._answers.pop(subscription, None)
        if answer is not None and answer.task is not None:
            answer.task.cancel()

    def _fail_answer(self, subscription: str) -> None:
        """End a subscription whose stored events cannot be read."""
        self._answers.pop(subscription, None)
        self._session.end_subscription(subscription)
        self._send([frame("CLOSED", subscription, _READING_FAILED).encode()])

    async def _stream(self, subscription: str, rows: array[int], answer: _StoredAnswer) -> None:
        try:
            await self._send_stored(subscription, rows, answer)
        except sqlite3.Error:
            self._fail_answer(subscription)

    async def _send_stored(self, subscription: str, rows: array[int], answer: _StoredAnswer) -> None:
        opening = _opening(subscription)
        chunk: list[bytes] = []
        size = 0
        for row in rows:
            body = self._event_store.body(row, int(self._clock()))
            if body is None:
                continue
            chunk.append(_event_frame(opening, body))
            size += len(body)
            if size >= CHUNK_BYTES:
                self._send(chunk)
                chunk, size = [], 0
                await self._drained()
                await asyncio.sleep(0)  # the other connections' turn
        del self._answers[subscription]
        self._send([*chunk, frame("EOSE", subscription).encode(), *answer.held])

    def _send(self, frames: Iterable[bytes]) -> None:
        """Write all messages with one system call; `connection.send` needs a coroutine and a system call for each."""
        protocol = self._connection.protocol
        if protocol.state is not State.OPEN:
            return
        for data in frames:
            protocol.send_text(data)
        if parts := protocol.data_to_send():
            self._connection.transport.write(b"".join(parts))

    async def _drained(self) -> None:
        """Wait until the write buffer has room again."""
        try:
            await self._connection.drain()
        except OSError:
            return  # the connection was lost, and `_read` handles that


def _opening(subscription: str) -> bytes:
    return b'["EVENT",' + orjson.dumps(subscription) + b","


def _event_frame(opening: bytes, body: bytes) -> bytes:
    return b"".join((opening, body, b"]"))
