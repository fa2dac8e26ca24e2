"""Dials one relay, limits how often, and asks once what the relay says about itself (NIP-11).

Every dial of a relay is counted in one place, so that no way of hanging up makes for more of them than an hour
may have. A sync that a user asks for never waits; its dials count like others.
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
    from sense_memory.relay.client.nip11 import RelayInformation
    from sense_memory.relay.client.timeouts import Timeouts


_HOUR: Final = 3_600.0
_EVEN_SECONDS: Final = _HOUR / (DIALS_PER_HOUR_COUNT - REDIALS_PER_HOUR_COUNT)  # between dials in no hurry


class Pace:
    """How often one relay is dialled. Times are seconds of any one clock that never goes back.

    A dial that follows the one before within a minute and a half is in a hurry, and an hour has room for so many
    of those. With the others, which their distance limits, they are never more than R-18 allows.

    Args:
        seed: of the jitter; None draws from the system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._jitter = random.Random(seed)  # noqa: S311 - jitter, not a secret
        self._hurried: deque[float] = deque(maxlen=REDIALS_PER_HOUR_COUNT)
        self._failures = 0
        self._last = self._next = -inf

    def dialled(self, now: float) -> None:
        """The relay is dialled now. The background's next dial waits twice as long with each that was hurried."""
        if now - self._last < _EVEN_SECONDS:
            self._hurried.append(now)
        recent = sum(now - one < _HOUR for one in self._hurried)
        wait = min(RECONNECT_FIRST_SECONDS * 2**recent, _EVEN_SECONDS)
        self._last, self._next = now, now + wait * self._jitter.uniform(1, 1 + JITTER)

    def ended(self, now: float, *, failed: bool) -> None:
        """A run ended now; after one that failed, and achieved nothing, the next waits twice as long."""
        self._failures = self._failures + 1 if failed else 0
        if failed:
            wait = min(RECONNECT_FIRST_SECONDS * 2 ** min(self._failures - 1, 20), RECONNECT_MAX_SECONDS)
            self._next = max(self._next, now + wait * self._jitter.uniform(1 - JITTER, 1 + JITTER))

    def may_hurry(self, now: float) -> bool:
        """Whether a relay that hung up in the middle of its work may be dialled again at once."""
        is_full = len(self._hurried) == REDIALS_PER_HOUR_COUNT and now - self._hurried[0] < _HOUR
        return not is_full or now - self._last >= _EVEN_SECONDS

    def rest(self, now: float) -> float:
        """Seconds for which the background leaves a relay alone that it is not connected to."""
        return max(0.0, self._next - now)


class Dialler:
    """Dials one relay.

    Args:
        url: the relay.
        signer: whose key it serves; it signs NIP-42 challenges.
        clock: seconds since 1970.
        timeouts: of every connection.

    Attributes:
        pace: how often it is dialled.
    """

    def __init__(self, url: str, signer: Signer, *, clock: Callable[[], float], timeouts: Timeouts) -> None:
        self._url, self._signer, self._clock, self._timeouts = url, signer, clock, timeouts
        self.pace = Pace()
        self._information: asyncio.Task[RelayInformation | None] | None = None

    async def dialled(self) -> RelayConnection:
        """A new connection. With the first that succeeds the relay is asked what it says about itself.

        Raises:
            RelayError: it could not be opened.
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
            self.pace.dialled(asyncio.get_running_loop().time())
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
        """What the relay said about itself; None as long as it was not reached, or where it says nothing."""
        asked = self._information
        has_answer = asked is not None and asked.done() and not asked.cancelled() and not asked.exception()
        return asked.result() if asked is not None and has_answer else None

    async def close(self) -> None:
        """Stop asking the relay about itself."""
        information, self._information = self._information, None
        if information is not None:
            information.cancel()
            await asyncio.wait([information])
