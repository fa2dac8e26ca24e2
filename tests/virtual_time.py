"""Time that passes only while nobody has anything to do: an hour takes as long as its work.

A coroutine test marked `virtual_time` runs in a `VirtualLoop`, and its fake clock follows: real timeouts, no waiting.
All that it talks to has to live in the same thread; threads that work are waited for, other processes are not.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import termios
import time
from collections import Counter
from contextlib import suppress
from fcntl import ioctl
from struct import unpack_from

from tests.time_unit import SECOND


CORES = os.cpu_count() or 1
TCP_INFO = getattr(socket, "TCP_INFO", 0)  # Linux


class _Patience(selectors.DefaultSelector):
    """Waits for readiness; where that would take time, moves the loop's time instead.

    Everything of a test happens in one thread on the loopback interface, where what one side sends is there
    at the other's next look. So when nothing is ready nothing will be; a slow kernel gets a moment of grace,
    a longer one on a busy machine while it holds what was not delivered, and a thread that works a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.threads = 0.0, 0
        self._end = time.monotonic() + 60 * SECOND

    def select(self, timeout=None):
        assert time.monotonic() < self._end, "a test in virtual time took a real minute"
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # only another thread can end this
            return super().select(5 * SECOND)
        ready = super().select(SECOND if self.threads else 0.02 * SECOND if self._is_late() else 0.0005)
        if not ready:
            self.now += timeout
        return ready

    def _is_late(self) -> bool:
        """Whether bytes of any socket may not have reached the other side, because others keep the kernel busy."""
        if os.getloadavg()[0] <= CORES:
            return False
        flows = Counter()
        for descriptor in self.get_map():
            with suppress(OSError):  # no socket of that kind
                flows.update(undelivered(descriptor))
        return any(count > 0 for count in flows.values())


def undelivered(descriptor: int) -> dict[object, int]:
    """What a socket sent counts for it, and what it received against its other side: in sum, what is on the way.

    What is merely not acknowledged yet is not on the way. Where the kernel does not count bytes so, it is taken
    for that: a wait too many does no harm.
    """
    with socket.socket(fileno=os.dup(descriptor)) as same:
        if same.family != socket.AF_INET:
            return {}
        here, there = same.getsockname(), same.getpeername()
        counts = same.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 216) if TCP_INFO else b""
    if len(counts) < 216:
        return {here: any(ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))}
    received, sent, again = (unpack_from("Q", counts, at)[0] for at in (128, 200, 208))
    return {(here, there): sent - again, (there, here): -received}


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own, in seconds from 0."""

    def __init__(self) -> None:
        self._patience = _Patience()
        super().__init__(self._patience)

    def time(self) -> float:
        return self._patience.now

    def stand_still(self, seconds: float) -> None:
        """Let so many seconds pass in which this process does nothing, as on a machine that is too busy."""
        self._patience.now += seconds

    def run_in_executor(self, *work):
        future = super().run_in_executor(*work)
        self._patience.threads += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, _) -> None:
        self._patience.threads -= 1

    async def shutdown_default_executor(self, _timeout=None) -> None:
        """As any loop's, without the timeout of Python 3.12: threads take real time, which is bounded elsewhere."""
        await super().shutdown_default_executor()

    async def passes(self, seconds: float) -> None:
        """Let everybody do what they do in so many seconds."""
        over = self.create_future()
        self.call_later(seconds, over.set_result, None)
        await over
