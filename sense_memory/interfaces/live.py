"""Changes as server-sent events: one watch of the store for all streams that are open, and none while no stream is.

A stream has a `hello` first, then a `change` for each memory or journal entry that changed, and `missed` where it was read too
slowly or the watch missed changes (read everything again). Where it is asked for, `other` says that something else changed, such
as a record of the mind. `problem` comes before it ends with an error: no stream stays open that has nothing more to tell. A
comment every 15 seconds keeps it open. Streams wait for changes; none polls.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import ChangesMissed, InvalidInput, SenseMemoryError
from sense_memory.interfaces.shapes import shape_of
from sense_memory.relay import silent_traceback


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sense_memory.memories.watch import Watch
    from sense_memory.store import MemoryStore

MAX_STREAMS: Final = 16  # open at once
MAX_WAITING: Final = 256  # events of a stream that is not read; with more, it gets `missed`
KEEP_ALIVE_SECONDS: Final = 15.0
_log: Final = logging.getLogger("sense_memory.live")


class LiveChanges:
    """The streams of changes of one store.

    Args:
        store: an open store.
        with_texts: whether a `change` has the text of the memory.
        with_others: whether `other` is sent.
    """

    def __init__(self, store: MemoryStore, *, with_texts: bool = False, with_others: bool = False) -> None:
        self._store, self._with_texts, self._with_others = store, with_texts, with_others
        self._waiting: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._watch: Watch | None = None

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._waiting)

    def open(self) -> AsyncGenerator[bytes, None]:
        """A new stream, in pieces to be sent; it is closed when the iterator is, and by `close`.

        Raises:
            InvalidInput: too many streams are open.
        """
        if len(self._waiting) >= MAX_STREAMS:
            raise InvalidInput(f"{MAX_STREAMS} streams of changes are open; close one first")
        return self._stream()

    def tell(self, event: str, **data: Any) -> None:
        """Send an event to every stream."""
        self._send(_frame(event, data))

    def _send(self, frame: bytes) -> None:
        missed = _frame("missed", {})
        for waiting in self._waiting:
            waiting.put_nowait(missed if _emptied(waiting) else frame)

    def close(self) -> None:
        """End every stream."""
        for waiting in self._waiting:
            _emptied(waiting)
            waiting.put_nowait(None)
        self._end_watch()

    async def _stream(self) -> AsyncGenerator[bytes, None]:
        if len(self._waiting) >= MAX_STREAMS:  # others have begun since it was opened
            return
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING)
        self._waiting.add(waiting)
        try:
            try:
                self._begin()  # before `hello`, so that the stream has every change after what the page reads next
            except SenseMemoryError as error:  # the store was closed meanwhile
                yield _problem(error)
                return
            yield _frame("hello", {})
            while True:
                frame: bytes | None = b":\n\n"
                with suppress(TimeoutError):
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        frame = await waiting.get()
                if frame is None:
                    return
                yield frame
        finally:
            self._waiting.discard(waiting)
            if not self._waiting:
                self._end_watch()

    def _begin(self) -> None:
        if self._task is None:
            self._watch = self._new_watch()
            self._task = asyncio.create_task(self._follow(), name="sense-memory live")

    def _new_watch(self) -> Watch:
        watch = self._store.watch()
        if self._with_others:
            watch.on_other = lambda: self.tell("other")
        return watch

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.end()
        if self._task is not None:
            self._task.cancel()
        self._task = self._watch = None

    async def _follow(self) -> None:
        """Send the changes of the store, until no stream is open or the store is closed."""
        try:
            while self._watch is not None:
                try:
                    if (change := await self._watch.next()) is None:
                        break
                    self.tell("change", **self._told(shape_of(change)))
                except ChangesMissed:
                    self._watch = self._new_watch()
                    self.tell("missed")
        except Exception as error:  # otherwise the streams would stay open, and tell nothing
            self._send(_problem(error))
        self._task = None
        self.close()

    def _told(self, change: dict[str, Any]) -> dict[str, Any]:
        return change if self._with_texts else {name: change[name] for name in change if name != "value"}


def _frame(event: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), orjson.dumps(data))


def _problem(error: Exception) -> bytes:
    """The last event of a stream; the message of a bug may quote a memory, and is neither shown nor logged."""
    if isinstance(error, SenseMemoryError):
        return _frame("problem", {"message": str(error)})
    _log.error("the stream of changes failed because of a bug\n%s", silent_traceback(error))
    return _frame(
        "problem",
        {"message": f"the stream of changes failed because of a bug ({type(error).__name__}); open it again"},
    )


def _emptied(waiting: asyncio.Queue[bytes | None]) -> bool:
    """Empty a queue if it is full; returns whether it was."""
    is_full = waiting.full()
    while is_full and not waiting.empty():
        waiting.get_nowait()
    return is_full
