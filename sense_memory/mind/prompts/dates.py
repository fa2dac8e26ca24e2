"""Dates and times as a prompt shows them, in UTC. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(at: float) -> str:
    """A time with its weekday, to the minute.

    >>> moment(0.0)
    'Thu 1970-01-01 00:00'
    >>> moment(1e300)
    'at no known time'
    """
    try:
        found = datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return "at no known time"
    return f"{_DAYS[found.weekday()]} {found:%Y-%m-%d %H:%M}"


def day(at: float) -> str:
    """The date of a time.

    >>> day(0.0)
    '1970-01-01'
    """
    shown = moment(at)
    return shown[4:14] if shown[:3] in _DAYS else shown


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # whatever the locale
