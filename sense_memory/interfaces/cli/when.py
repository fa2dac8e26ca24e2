"""A moment as people write it: "2027-01-15", "2027-01-15 08:00", "yesterday", "2 days ago", "3h".

What is told roughly means its end (a day with all that happened on it, a minute as `history` shows it), or its
beginning where that is asked for. Pure: now is a parameter.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from sense_memory.errors import InvalidInput


_UNITS: Final = (  # the names of a unit, without the s of a plural, and its seconds
    (("s", "sec", "second"), 1),
    (("m", "min", "minute"), 60),
    (("h", "hour"), 3_600),
    (("d", "day"), 86_400),
    (("w", "week"), 7 * 86_400),
    (("month",), 30 * 86_400),
    (("y", "year"), 365 * 86_400),
)
_SECONDS: Final = {name: seconds for names, seconds in _UNITS for name in names}
_DAYS: Final = {"today": 0, "yesterday": 1}  # how many days before this one
_LENGTHS: Final = {2: 3_600, 4: 60, 6: 1}  # by the digits of a time: hour, minute, second

_relative = re.compile(r"([0-9]{1,9})\s*([a-z]+?)s?(?:\s+ago)?", re.IGNORECASE).fullmatch
_time_of_day = re.compile(r"[T ]([0-9:]+)(?:[.,]([0-9]+))?").search


def moment(text: str, now: float, *, begins: bool = False) -> float:
    """A moment in seconds since 1970, never later than now.

    Args:
        text: ISO 8601 (without an offset: this machine's time zone), how long ago with or without "ago" (a
            month has 30 days, a year 365), "yesterday", "today" or "now".
        now: seconds since 1970.
        begins: what is told roughly means its beginning.

    Raises:
        InvalidInput: something else, or a moment that has not come yet.
    """
    bare = text.strip()
    if bare.lower() in {"now", "just now"}:
        return now
    ago = _relative(bare)
    if ago is not None and ago[2].lower() in _SECONDS:
        return now - int(ago[1]) * _SECONDS[ago[2].lower()]
    try:
        begin, end = _span(_day(bare, now))
    except (ValueError, OverflowError, OSError):
        problem = f'{text!r} is no time; give one such as 2027-01-15, "2027-01-15 08:00", yesterday, "2 days ago" or 3h'
    else:
        if begin <= now:
            return begin if begins else min(math.nextafter(end, begin), now)
        problem = f"{text!r} has not come yet"
    raise InvalidInput(problem)


def duration(text: str) -> float:
    """A length of time in seconds, such as "6h", "30 min" or "1 day".

    Raises:
        InvalidInput: something else, or no time at all.
    """
    found = _relative(text.strip())
    if found is not None and found[2].lower() in _SECONDS and int(found[1]) and "ago" not in text.lower():
        return float(int(found[1]) * _SECONDS[found[2].lower()])
    raise InvalidInput(f'{text!r} is no length of time; give one such as 6h, "30 min" or "1 day"')


def _day(text: str, now: float) -> str:
    """The date of a day that is named; any other text as it is."""
    before = _DAYS.get(text.lower())
    if before is None:
        return text
    return (datetime.fromtimestamp(now, UTC).astimezone().date() - timedelta(days=before)).isoformat()


def _span(text: str) -> tuple[float, float]:
    """When what an ISO text names begins, and when it is over: a day, an hour, … or a part of a second."""
    begin = datetime.fromisoformat(text)
    clock = _time_of_day(text)
    if clock is None:
        end = datetime.combine(date.fromisoformat(text) + timedelta(days=1), begin.time())
        return begin.astimezone().timestamp(), end.astimezone().timestamp()
    digits, fraction = clock[1].replace(":", ""), clock[2]
    length = 10.0 ** -len(fraction) if fraction else _LENGTHS[len(digits)]
    first = begin.astimezone().timestamp()
    return first, first + length
