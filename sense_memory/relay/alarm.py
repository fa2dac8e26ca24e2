"""The alarm clock of a relay connection: wakes it when patience with the relay ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable


class Alarm:
    """Rings in time, while there is anything to be impatient about.

    It rings when patience ends, and at least as often as the shortest patience there is. So no frame can
    bring about an end that lies before the alarm, and none needs to move it.

    Args:
        due: when patience ends, in seconds of `clock`; None for never.
        ring: what to do then; sets the alarm anew.
        shortest: seconds of the shortest patience.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        due: Callable[[], float | None],
        ring: Callable[[], None],
        shortest: float,
        clock: Callable[[], float],
    ) -> None:
        self._due, self._ring, self._shortest, self._clock = due, ring, shortest, clock
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Set it, unless it is set already."""
        due = self._due() if self._handle is None else None
        if due is not None:
            delay = min(max(0.0, due - self._clock()), self._shortest)
            self._handle = asyncio.get_running_loop().call_later(delay, self._go_off)

    def stop(self) -> None:
        """Switch it off."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _go_off(self) -> None:
        self._handle = None
        self._ring()
