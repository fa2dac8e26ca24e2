"""One client's comparisons with the embedded relay (NIP-77): which of some events does only one side hold?

What the relay holds for a filter is read once, some rows at a time, when a comparison is opened; from then
on it stands still. The arithmetic runs in threads, so that other connections hardly notice a large one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Final

from sense_memory.errors import MalformedFrame
from sense_memory.nostr.wire import frame, neg_message
from sense_memory.relay.negentropy import Items, Responder


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.shelf import Shelf
    from sense_memory.relay.terms import Terms


INBOX_COUNT: Final = 8  # messages that wait for their answers; a client has no use for more than one

_UNKNOWN: Final = "closed: unknown subscription"
_TOO_MANY: Final = "blocked: too many comparisons at once"
_TOO_LARGE: Final = "blocked: too many events match"
_TOO_FAST: Final = "blocked: too many messages at once"
_INVALID: Final = "error: invalid negentropy message"
_TROUBLE: Final = "error: the relay's storage failed, try again later"


class _Comparison:
    """An open comparison: what the client said and was not answered yet, and the task that answers."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[bytes] = asyncio.Queue(INBOX_COUNT)
        self.task: asyncio.Task[None] | None = None


class Comparisons:
    """The open comparisons of one connection.

    Args:
        shelf: where events are kept.
        terms: the relay's limits.
        send: writes frames to the client.
    """

    def __init__(self, shelf: Shelf, terms: Terms, send: Callable[[Sequence[bytes]], None]) -> None:
        self._shelf, self._terms, self._send = shelf, terms, send
        self._open: dict[str, _Comparison] = {}

    def open(self, subscription: str, wanted: Filter, message: bytes, now: int) -> None:
        """Begin a comparison; one that is open under the same name ends.

        Args:
            subscription: its name, apart from those of REQ.
            wanted: which events it is about.
            message: the first of the client's.
            now: seconds since 1970.
        """
        self.close(subscription)
        if len(self._open) >= self._terms.max_comparisons:
            self._refuse(subscription, _TOO_MANY)
            return
        comparison = self._open[subscription] = _Comparison()
        comparison.inbox.put_nowait(message)
        comparison.task = asyncio.create_task(self._answer(subscription, wanted, now, comparison))

    def hear(self, subscription: str, message: bytes) -> None:
        """The client's next message in a comparison."""
        comparison = self._open.get(subscription)
        if comparison is None:
            self._refuse(subscription, _UNKNOWN)
        elif comparison.inbox.full():
            self.close(subscription)
            self._refuse(subscription, _TOO_FAST)
        else:
            comparison.inbox.put_nowait(message)

    def close(self, subscription: str) -> None:
        """End a comparison, if there is one."""
        comparison = self._open.pop(subscription, None)
        if comparison is not None and comparison.task is not None:
            comparison.task.cancel()

    def end(self) -> list[asyncio.Task[None]]:
        """End all of them; returns the tasks that are going to be done."""
        tasks = [comparison.task for comparison in self._open.values() if comparison.task is not None]
        for subscription in tuple(self._open):
            self.close(subscription)
        return tasks

    async def _answer(self, subscription: str, wanted: Filter, now: int, comparison: _Comparison) -> None:
        """Answer one message after the other, until something is wrong with one."""
        try:
            refusal = await self._converse(subscription, wanted, now, comparison.inbox)
        except MalformedFrame:
            refusal = _INVALID
        except sqlite3.Error:
            refusal = _TROUBLE
        del self._open[subscription]
        self._refuse(subscription, refusal)

    async def _converse(
        self, subscription: str, wanted: Filter, now: int, inbox: asyncio.Queue[bytes]
    ) -> str:
        responder = await self._responder(wanted, now)
        while responder is not None:
            answer = await asyncio.to_thread(responder.reply, await inbox.get())
            self._send([neg_message(subscription, answer).encode()])
        return _TOO_LARGE

    async def _responder(self, wanted: Filter, now: int) -> Responder | None:
        """The relay's side of a comparison, or None where it is about too many events."""
        pairs: list[tuple[int, bytes]] = []
        for part in self._shelf.pairs(wanted, now):
            pairs += part
            if len(pairs) > self._terms.max_compared:
                return None
            await asyncio.sleep(0)  # the other connections' turn
        return Responder(await asyncio.to_thread(Items, pairs))

    def _refuse(self, subscription: str, why: str) -> None:
        self._send([frame("NEG-ERR", subscription, why).encode()])
