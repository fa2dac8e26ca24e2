"""Turns of the event loop: a task that never waits lets other tasks run.

A write to the ledger with a local signer awaits nothing that takes time, so a loop of writes would hold up every
other task, relays and heartbeats among them, until the loop of writes ends. So each call that writes takes a turn first:
where the event loop has not gone round for 10 ms, the call lets it go round once. That costs a microsecond for each
write, and a hundred rounds a second.

Nothing has been decided when a call takes its turn, so a call that waited sees what arrived meanwhile, as a later call
would. Concurrent calls continue in the order in which they were made.
"""

from __future__ import annotations

import asyncio

from sense_memory.limits import TURN_SECONDS


class Turns:
    """The turns of one event loop, for tasks that write one after the other."""

    def __init__(self) -> None:
        self._order = asyncio.Lock()  # first come, first served
        self._since: float | None = None  # the first call of this round of the loop

    async def take(self) -> None:
        """Let other tasks go first, if none could for `limits.TURN_SECONDS`."""
        async with self._order:
            loop = asyncio.get_running_loop()
            if self._since is None:
                self._since = loop.time()
                loop.call_soon(self._end_round)
            elif loop.time() - self._since >= TURN_SECONDS:
                await asyncio.sleep(0)

    def _end_round(self) -> None:
        self._since = None
