"""The time zone of this machine, in which "this morning" and "yesterday" of a question are meant."""

from __future__ import annotations

import time


def offset_at(now: float) -> float:
    """How far the clocks of this machine's time zone (`TZ`) are ahead of UTC at a time, in seconds; 0 where unknown.

    Args:
        now: seconds since 1970.
    """
    try:
        return float(time.localtime(now).tm_gmtoff)
    except (OverflowError, ValueError, OSError):  # a time outside of the calendar
        return 0.0
