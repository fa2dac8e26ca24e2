"""Holidays by rule: the days of a holiday in any year of the Gregorian calendar. Pure.

A holiday is a fixed day, an n-th weekday of a month, or so many days from Easter (of the Western churches). Where
countries differ, the day that most of a language's speakers mean counts: Labour Day in English is the first Monday of
September, "Tag der Arbeit" the first of May. Holidays of lunar calendars are not here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from sense_memory.search.calendar_days import Span, days_in, number, weekday


class HolidayRule(NamedTuple):
    """When a holiday is.

    Attributes:
        month: its month; 0 for a holiday that follows Easter.
        day: its first day; the day of the week (0 for Monday) where `nth` is given; the days after Easter where `month`
            is 0.
        length: how many days it takes.
        nth: which of these weekdays of the month, from 1; -1 for the last; 0 for a fixed day.
    """

    month: int
    day: int
    length: int = 1
    nth: int = 0


HOLIDAYS: Final = {
    "new year": HolidayRule(1, 1),
    "epiphany": HolidayRule(1, 6),
    "valentine": HolidayRule(2, 14),
    "carnival": HolidayRule(0, -52, 6),
    "ash wednesday": HolidayRule(0, -46),
    "saint patrick": HolidayRule(3, 17),
    "holy week": HolidayRule(0, -7, 7),
    "palm sunday": HolidayRule(0, -7),
    "maundy thursday": HolidayRule(0, -3),
    "good friday": HolidayRule(0, -2),
    "easter": HolidayRule(0, -2, 4),
    "easter sunday": HolidayRule(0, 0),
    "easter monday": HolidayRule(0, 1),
    "kings day": HolidayRule(4, 27),
    "may day": HolidayRule(5, 1),
    "mothers day": HolidayRule(5, 6, nth=2),
    "memorial day": HolidayRule(5, 0, nth=-1),
    "ascension": HolidayRule(0, 39),
    "pentecost": HolidayRule(0, 49, 2),
    "whit monday": HolidayRule(0, 50),
    "corpus christi": HolidayRule(0, 60),
    "fathers day": HolidayRule(6, 6, nth=3),
    "midsummer": HolidayRule(6, 23, 2),
    "independence day": HolidayRule(7, 4),
    "bastille day": HolidayRule(7, 14),
    "assumption": HolidayRule(8, 15),
    "labor day": HolidayRule(9, 0, nth=1),
    "german unity": HolidayRule(10, 3),
    "halloween": HolidayRule(10, 31),
    "all saints": HolidayRule(11, 1),
    "all souls": HolidayRule(11, 2),
    "martinmas": HolidayRule(11, 11),
    "thanksgiving": HolidayRule(11, 3, nth=4),
    "saint nicholas": HolidayRule(12, 5, 2),
    "christmas eve": HolidayRule(12, 24),
    "christmas": HolidayRule(12, 24, 3),
    "christmas day": HolidayRule(12, 25),
    "boxing day": HolidayRule(12, 26),
    "new years eve": HolidayRule(12, 31),
}


def holiday(name: str, year: int) -> Span:
    """The days of a holiday of `HOLIDAYS` in a year.

    >>> holiday("easter sunday", 2026) == Span(number(2026, 4, 5), number(2026, 4, 5))
    True
    """
    month, day, length, nth = HOLIDAYS[name]
    if not month:
        first = easter(year) + day
    elif nth:
        first = _nth_weekday(year, month, day, nth)
    else:
        first = number(year, month, day)
    return Span(first, first + length - 1)


def easter(year: int) -> int:
    """The number of Easter Sunday, by the rule of Gauss as Lichtenberg completed it."""
    century = year // 100
    shift = 15 + (3 * century + 3) // 4 - (8 * century + 13) // 25
    age = (19 * (year % 19) + shift) % 30
    full_moon = 21 + age - (age // 29 + (age // 28 - age // 29) * (year % 19 // 11))
    first_sunday = 7 - (year + year // 4 + 2 - (3 * century + 3) // 4) % 7
    return number(year, 3, 1) - 1 + full_moon + 7 - (full_moon - first_sunday) % 7


def _nth_weekday(year: int, month: int, day: int, nth: int) -> int:
    """The n-th weekday of a month; the last for -1."""
    if nth < 0:
        last = number(year, month, days_in(year, month))
        return last - (weekday(last) - day) % 7
    first = number(year, month, 1)
    return first + (day - weekday(first)) % 7 + 7 * (nth - 1)
