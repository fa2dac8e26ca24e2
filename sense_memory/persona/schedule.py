"""Introspection on a schedule: an iterator that looks over the palace, waits, and looks again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from sense_memory.errors import InvalidInput, StoreClosed


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.models import IntrospectionReport


class Introspections:
    """Reports, the first at once, each other one so many seconds after the one before was asked for.

    Ends when the store is closed.

    Args:
        look: makes a report.
        every: seconds between two, 1 or more.

    Raises:
        InvalidInput: less than a second.
    """

    def __init__(self, look: Callable[[], Awaitable[IntrospectionReport]], every: float) -> None:
        if isinstance(every, bool) or not isinstance(every, int | float) or not 1 <= every < float("inf"):
            raise InvalidInput(f"introspections must lie a second or more apart, not {every!r}")
        self._look, self._every = look, every
        self._next = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> IntrospectionReport:
        """The next report, when it is time."""
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._next - clock()))
        self._next = clock() + self._every
        try:
            return await self._look()
        except StoreClosed:
            raise StopAsyncIteration from None
