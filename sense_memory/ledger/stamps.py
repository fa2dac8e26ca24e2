"""The version clock: which second a new event is stamped with (design.md section 5). Pure.

Every write takes the latest second that is not after now, after the address's mark, and holds fewer
than 200 of our events, at most an hour back; else the mark itself, where the version there was given to nobody
and may be replaced (see `handover`); else the first such second ahead. So a burst of thousands never puts more
into one second than a relay's page holds, two edits that were handed out never share a second, and rewriting an
address never runs further ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import ClockSkewError
from sense_memory.limits import MAX_EVENTS_PER_SECOND_COUNT, MAX_FUTURE_SECONDS, STAMP_LOOKBACK_SECONDS


if TYPE_CHECKING:
    from collections.abc import Callable


class BurstWait(Exception):
    """Our own burst ran 300 s ahead: the writer waits this many seconds and asks again.

    Attributes:
        seconds: how long.
    """

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(f"the burst is {seconds} s too far ahead")


class Stamps:
    """Seconds for a run of new events, each counted as it is taken.

    Args:
        now: this machine's time, whole seconds since 1970.
        used: how many of our events a second holds already.
    """

    def __init__(self, now: int, used: Callable[[int], int]) -> None:
        self._now = now
        self._used = used
        self._counts: dict[int, int] = {}  # by second: as first asked, and what was taken since
        self._full_from = now + 1  # every second from here to `now` is known to be full

    def take(self, mark: int | None, *, is_open: bool = False) -> int:
        """The second for one more event at an address.

        Args:
            mark: the second of the newest version there, or None.
            is_open: whether that version may be replaced.

        Raises:
            ClockSkewError: the mark itself lies more than 300 s ahead of this clock.
            BurstWait: our own events fill everything up to 300 s ahead.
        """
        second = self._behind(mark)
        if second is None and is_open and mark is not None and mark <= self._now + MAX_FUTURE_SECONDS:
            return mark
        if second is None:
            second = self._ahead(mark)
        self._counts[second] += 1
        return second

    def _behind(self, mark: int | None) -> int | None:
        lowest = max(self._now - STAMP_LOOKBACK_SECONDS, 0 if mark is None else mark + 1)
        second = min(self._now, self._full_from - 1)
        while second >= lowest:
            if self._has_room(second):
                return second
            self._full_from = second
            second -= 1
        return None

    def _ahead(self, mark: int | None) -> int:
        latest = self._now + MAX_FUTURE_SECONDS
        if mark is not None and mark > latest:
            raise ClockSkewError(self._now, mark)
        second = (self._now if mark is None else max(self._now, mark)) + 1
        while not self._has_room(second):
            second += 1
        if second > latest:
            raise BurstWait(second - latest)
        return second

    def _has_room(self, second: int) -> bool:
        if second not in self._counts:
            self._counts[second] = self._used(second)
        return self._counts[second] < MAX_EVENTS_PER_SECOND_COUNT
