"""The bookkeeping of one `publish` call: what is in flight, what came back, and when there is room. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sense_memory.limits import PUBLISH_WINDOW_BYTES
from sense_memory.nostr.verdict import NO_ANSWER, RelayOutcome


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sense_memory.nostr.verdict import RelayVerdict

Item = TypeVar("Item")
Events: TypeAlias = (
    "Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]]"  # ids, and canonical JSON
)


class PublishBatch:
    """The events of one `publish` call.

    Args:
        window: most events in flight, and most verdicts that wait for the caller.
        room_bytes: nothing more is sent while the events in flight are this long together.

    Attributes:
        waiting: ids in flight: how many bytes each has, and how many answers there were when it was sent.
        verdicts: what came back and was not handed over yet.
        stopped: whether nothing more is sent: the relay asked for a pause, is gone, or answers nothing at all.
        changed: set when a verdict came, or when nothing more will be sent.
        room: set when there may be room for more.
    """

    def __init__(self, window: int, room_bytes: int = PUBLISH_WINDOW_BYTES) -> None:
        self.waiting: dict[str, tuple[int, int]] = {}
        self.verdicts: deque[tuple[str, RelayVerdict]] = deque()
        self.stopped = False
        self.changed = asyncio.Event()
        self.room = asyncio.Event()
        self._window, self._room_bytes = window, room_bytes
        self._bytes, self._answers = 0, 0

    def mark_sent(self, event_id: str, size: int) -> None:
        """Note that an event of so many bytes is in flight."""
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
        self.changed.set()
        self.room.set()

    def stop(self) -> None:
        """Send nothing more; what is in flight will still be judged."""
        self.stopped = True
        self.changed.set()
        self.room.set()

    async def has_room(self) -> None:
        """Wait until one more may be sent, or nothing more will be."""
        while not self.stopped and self._is_full():
            self.room.clear()
            await self.room.wait()

    def _is_full(self) -> bool:
        counts = max(len(self.waiting), len(self.verdicts))
        return counts >= self._window or self._bytes >= self._room_bytes


async def each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """The items of an iterable of either kind."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
