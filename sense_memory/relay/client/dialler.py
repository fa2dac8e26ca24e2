"""Dials one relay, limits how often, and reads the relay's information document once (NIP-11).

All dials of a relay are counted in one place, so however a relay hangs up, the hourly limit holds. A synchronisation
that a user asks for never waits, but its dials count.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Final

from sense_memory.limits import (
    DIALS_PER_HOUR_COUNT,
    JITTER,
    NIP11_SECONDS,
    RECONNECT_FIRST_SECONDS,
    RECONNECT_MAX_SECONDS,
    REDIALS_PER_HOUR_COUNT,
)
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.client.nip11 import relay_information


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.nostr.signer import Signer
    from sense_memory.relay.client.actions import Timeouts
    from sense_memory.relay.client.nip11 import RelayInformation


_HOUR: Final = 3_600.0
_SPACED_SECONDS: Final = _HOUR / (DIALS_PER_HOUR_COUNT - REDIALS_PER_HOUR_COUNT)  # between spaced dials


class DialLimiter:
    """How often one relay is dialled. Times are seconds of any one clock that never goes back.

    A dial less than 90 seconds after the previous dial is a redial; any other dial is spaced. An hour has room for
    `REDIALS_PER_HOUR_COUNT` redials, and for at most 40 spaced dials: together they never exceed
    `DIALS_PER_HOUR_COUNT`, the limit of R-18.

    Args:
        seed: seed of the jitter; None takes randomness from the system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._jitter = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._redials: deque[float] = deque(maxlen=REDIALS_PER_HOUR_COUNT)
        self._failures = 0
        self._last = self._next = -inf

    def record_dial(self, now: float) -> None:
        """Record a dial. Each redial of the last hour doubles the wait before the background's next dial."""
        if now - self._last < _SPACED_SECONDS:
            self._redials.append(now)
        recent = sum(now - redial < _HOUR for redial in self._redials)
        wait = min(RECONNECT_FIRST_SECONDS * 2**recent, _SPACED_SECONDS)
        self._last, self._next = now, now + wait * self._jitter.uniform(1, 1 + JITTER)

    def record_run(self, now: float, *, failed: bool) -> None:
        """Record the end of a run. Each consecutive run that failed doubles the wait before the background's next dial.

        Args:
            now: when the run ended.
            failed: whether the run had a problem and achieved nothing.
        """
        self._failures = self._failures + 1 if failed else 0
        if failed:
            wait = min(RECONNECT_FIRST_SECONDS * 2 ** min(self._failures - 1, 20), RECONNECT_MAX_SECONDS)
            self._next = max(self._next, now + wait * self._jitter.uniform(1 - JITTER, 1 + JITTER))

    def may_redial(self, now: float) -> bool:
        """Whether a relay that hung up during a run may be dialled again at once."""
        is_full = len(self._redials) == REDIALS_PER_HOUR_COUNT and now - self._redials[0] < _HOUR
        return not is_full or now - self._last >= _SPACED_SECONDS

    def wait_seconds(self, now: float) -> float:
        """Seconds until the background may dial the relay again."""
        return max(0.0, self._next - now)


class Dialler:
    """Dials one relay.

    Args:
        url: the relay.
        signer: the key whose events are wanted; signs NIP-42 challenges.
        clock: seconds since 1970.
        timeouts: the timeouts of every connection.

    Attributes:
        limiter: how often the relay is dialled.
    """

    def __init__(self, url: str, signer: Signer, *, clock: Callable[[], float], timeouts: Timeouts) -> None:
        self._url, self._signer, self._clock, self._timeouts = url, signer, clock, timeouts
        self.limiter = DialLimiter()
        self._information: asyncio.Task[RelayInformation | None] | None = None

    async def dial(self) -> RelayConnection:
        """Open a new connection. The first successful dial also reads the relay's information document.

        Raises:
            RelayError: the connection could not be opened.
        """
        if self._information is None:
            asking = relay_information(self._url, min(NIP11_SECONDS, self._timeouts.open))
            self._information = asyncio.create_task(asking)
        try:
            connection = RelayConnection(
                self._url,
                public_key=self._signer.public_key,
                sign=self._signer.sign,
                timeouts=self._timeouts,
                clock=asyncio.get_running_loop().time,
                now=self._clock,
            )
            self.limiter.record_dial(asyncio.get_running_loop().time())
            await connection.open()
        except BaseException:
            await self.close()
            raise
        try:
            connection.information = await asyncio.shield(self._information)
        except BaseException:
            await connection.close()
            await self.close()
            raise
        return connection

    @property
    def information(self) -> RelayInformation | None:
        """The relay's information document; None if the relay was not reached yet, or has no document."""
        task = self._information
        has_answer = task is not None and task.done() and not task.cancelled() and not task.exception()
        return task.result() if task is not None and has_answer else None

    async def close(self) -> None:
        """Stop reading the relay's information document."""
        information, self._information = self._information, None
        if information is not None:
            information.cancel()
            await asyncio.wait([information])
