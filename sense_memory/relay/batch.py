"""The bookkeeping of one `publish` call: what is in flight, what came back, and when there is room. No I/O."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sense_memory.nostr.verdict import Outcome


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sense_memory.nostr.verdict import Verdict

Item = TypeVar("Item")
Events: TypeAlias = (
    "Iterable[tuple[str, bytes]] | AsyncIterable[tuple[str, bytes]]"  # ids, and canonical JSON
)


class Batch:
    """The events of one `publish` call.

    Args:
        window: most events in flight, and most verdicts that wait for the caller.

    Attributes:
        waiting: ids in flight.
        verdicts: what came back and was not handed over yet.
        stopped: whether nothing more is sent: the relay asked for a pause, or is gone.
        news: set when a verdict came, or when nothing more will be sent.
        room: set when there may be room for more.
    """

    def __init__(self, window: int) -> None:
        self.waiting: set[str] = set()
        self.verdicts: deque[tuple[str, Verdict]] = deque()
        self.stopped = False
        self.news = asyncio.Event()
        self.room = asyncio.Event()
        self._window = window

    def judge(self, event_id: str, verdict: Verdict) -> None:
        """Note the verdict on an event that was in flight."""
        self.waiting.discard(event_id)
        self.verdicts.append((event_id, verdict))
        if verdict.outcome is Outcome.RATE_LIMITED:
            self.stopped = True
        self.news.set()
        self.room.set()

    def stop(self) -> None:
        """Send nothing more; what is in flight will still be judged."""
        self.stopped = True
        self.news.set()
        self.room.set()

    async def has_room(self) -> None:
        """Wait until one more may be sent, or nothing more will be."""
        while not self.stopped and max(len(self.waiting), len(self.verdicts)) >= self._window:
            self.room.clear()
            await self.room.wait()


async def each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """The items of an iterable of either kind."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
