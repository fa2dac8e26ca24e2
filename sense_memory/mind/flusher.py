"""When the entries of a log travel: after a quiet moment, when a page is full, or when the first has waited long enough.

Guaranteed: with relays followed in the background, no entry waits for its page longer than `LOG_WAIT_SECONDS` after its
append, except while a flush that began before is still writing, or if the ledger cannot be written; then the entry is
durable, and the next append or flush tries again. The cost is one task while entries wait.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from sense_memory.errors import SenseMemoryError
from sense_memory.limits import LOG_PAGE_BYTES, LOG_QUIET_SECONDS, LOG_WAIT_SECONDS


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Flusher:
    """Flushes a log a moment after an append.

    Args:
        flush: writes the entries to pages; returns how many.
        is_on: whether relays are followed in the background; if not, only `sync`, `flush` and a close write pages.
    """

    def __init__(self, flush: Callable[[], Awaitable[int]], *, is_on: bool) -> None:
        self._flush, self._is_on = flush, is_on
        self._task: asyncio.Task[None] | None = None
        self._waiting_bytes, self._first_append, self._last_append = 0, 0.0, 0.0

    def appended(self, size: int) -> None:
        """Entries of so many bytes of JSON were appended."""
        if not self._is_on:
            return
        self._last_append = asyncio.get_running_loop().time()
        if not self._waiting_bytes:
            self._first_append = self._last_append
        self._waiting_bytes += size
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._flush_soon())

    async def flush(self) -> int:
        """Flush now; returns what `flush` returns, and raises what it raises."""
        self._waiting_bytes = 0
        return await self._flush()

    async def stop(self) -> None:
        """Stop waiting; entries that are in no page stay durable. Whatever ended the last flush is not raised."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _flush_soon(self) -> None:
        now = asyncio.get_running_loop().time
        while self._waiting_bytes:  # also after a flush, because entries may have arrived meanwhile
            due = min(self._last_append + LOG_QUIET_SECONDS, self._first_append + LOG_WAIT_SECONDS)
            if self._waiting_bytes < LOG_PAGE_BYTES and (rest := due - now()) > 0:
                await asyncio.sleep(min(rest, 1.0))
                continue
            with suppress(SenseMemoryError):  # the entries are durable; the next append tries again
                await self.flush()
