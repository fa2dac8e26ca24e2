"""Days of the Gregorian calendar as numbers since 1970-01-01, without a clock and without time zones. Pure."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple


DAY_SECONDS: Final = 86_400
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Span(NamedTuple):
    """Consecutive days, as numbers since 1970-01-01; both ends are included."""

    first: int
    last: int


class Date(NamedTuple):
    """A day of the calendar."""

    year: int
    month: int
    day: int


def days_in(year: int, month: int) -> int:
    """How many days a month has."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTH_DAYS[month - 1]


def number(year: int, month: int, day: int) -> int:
    """The number of a day; the 31st of a shorter month counts as its last day."""
    day = min(day, days_in(year, month))
    shifted = year - (month <= 2)
    era, month_from_march = shifted // 400, (month + 9) % 12
    year_of_era = shifted - era * 400
    day_of_year = (153 * month_from_march + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date(day: int) -> Date:
    """The day of the calendar with a number."""
    shifted = day + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = year_of_era + era * 400 + (month <= 2)
    return Date(year, month, day_of_year - (153 * month_from_march + 2) // 5 + 1)


def weekday(day: int) -> int:
    """0 for Monday to 6 for Sunday."""
    return (day + 3) % 7


def month_span(year: int, month: int) -> Span:
    """All days of a month; a month below 1 or above 12 is a month of an earlier or later year."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    return Span(number(year, month, 1), number(year, month, days_in(year, month)))


def year_span(year: int) -> Span:
    """All days of a year."""
    return Span(number(year, 1, 1), number(year, 12, 31))


class Period(NamedTuple):
    """A time that a text names, in *wall-clock seconds*: seconds since 1970 as the clocks of one time zone show them.

    Attributes:
        start: its beginning.
        end: its end, which is not part of it.
        direction: "" for the time itself; "before", "after", "since" or "until" for what lies on that side of it.
    """

    start: float
    end: float
    direction: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """The beginning and the end of what is meant; infinite where it is open."""
        match self.direction:
            case "before":
                return -inf, self.start
            case "until":
                return -inf, self.end
            case "after":
                return self.end, inf
            case "since":
                return self.start, inf
        return self.start, self.end
