"""Dates in questions: "last May", "on the 3rd", "between August 11 and August 15 2023", "two weeks ago".

Each expression becomes spans of days. An expression without a year or a month ("May 3", "the 3rd") means every matching
day in the time that the memories cover. A relative expression counts from the day of the question. A word that could also
be a name or a verb ("May", "march") counts as a date only with a number or a preposition beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    from collections.abc import Iterator


# ── Calendar ────────────────────────────────────────────────────────────────────────────
# Days of the Gregorian calendar as numbers since 1970-01-01 (UTC), without a clock and without time zones.

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


MAX_SPANS: Final = 300  # of one query; more would only mean every day
MAX_DATED_CHARS: Final = 1_000  # a longer query is searched for dates only up to here

_MONTH_NAMES: Final = (
    "january jan januar janvier enero janeiro gennaio januari",
    "february feb februar fevrier febrero fevereiro febbraio februari",
    "march marz mars marzo marco maart",
    "april apr avril abril aprile",
    "may mai mayo maio maggio mei",
    "june jun juni juin junio junho giugno",
    "july jul juli juillet julio julho luglio",
    "august aug aout agosto augustus",
    "september sept sep septembre septiembre setembro settembre",
    "october oct oktober okt octobre octubre outubro ottobre",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dezembro dicembre",
)
_MONTHS: Final = {name: n for n, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_DOUBTFUL: Final = frozenset({"may", "march", "mars", "jan", "sep", "mai", "mei", "jun", "dec"})
_DAY_NAMES: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS: Final = {name: n for n, names in enumerate(_DAY_NAMES) for name in (names, names[:3])}
_SEASONS: Final = {"spring": (3, 5), "summer": (6, 8), "fall": (9, 11), "autumn": (9, 11), "winter": (12, 14)}
_COUNTED: Final = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"
)  # fmt: skip
_NUMBERS: Final = {word: n for n, word in enumerate(_COUNTED)} | {
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "a few": 3,
}
_UNIT_DAYS: Final = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}

_M: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_D: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_Y: Final = r"(?:19|20|21)\d\d"
_W: Final = "(?:" + "|".join(sorted(_DAYS, key=len, reverse=True)) + ")"
_EXPRESSION: Final = rf"""
  \b(?P<iso>{_Y}-\d\d?-\d\d?)\b
 |\b(?P<parts>\d\d?[./]\d\d?[./]{_Y})\b
 |\b(?P<md_m>{_M})\s*(?:the\s+)?(?P<md_d>{_D})(?:st|nd|rd|th)?\b(?:\s*(?:-|\u2013|to)\s*(?P<md_e>{_D})(?:st|nd|rd|th)?\b)?(?:,?\s+(?:of\s+)?(?P<md_y>{_Y})\b)?(?![:\d]|\s*[ap]m\b)
 |\b(?P<dm_d>{_D})(?:st|nd|rd|th)?\.?\s+(?:of\s+|de\s+)?(?P<dm_m>{_M})(?:,?\s+(?:of\s+|de\s+)?(?P<dm_y>{_Y})\b)?
 |\b(?P<my_m>{_M}),?\s+(?:of\s+|de\s+)?(?P<my_y>{_Y})\b
 |\b(?P<rel>last|past|previous|this|next)\s+(?:(?P<rel_m>{_M})|(?P<rel_w>{_W})\b|(?P<rel_s>spring|summer|fall|autumn|winter)\b|(?P<rel_u>week|weekend|month|year|night)\b)
 |\b(?P<ago>\d{{1,3}}|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a\ couple\ of|a\ few|an?)\s+(?P<ago_u>day|night|week|weekend|month|year)s?\s+ago\b
 |\b(?P<near>the\ day\ before\ yesterday|yesterday|today|tonight|tomorrow)\b
 |\b(?P<sy_s>spring|summer|fall|autumn|winter)\s+(?:of\s+)?(?P<sy_y>{_Y})\b
 |\b(?:on|by|until|till|since|from|of)\s+(?:the\s+)(?P<only_d>{_D})(?:st|nd|rd|th)\b(?!\s+(?:of\s+)?{_M})
 |\bon\s+(?P<only_w>{_W})\b
 |\b(?P<only_m>{_M})
 |\b(?P<only_y>{_Y})\b
"""
_BEFORE_MONTH: Final = re.compile(
    r"\b(?:in|during|of|since|until|till|by|before|after|early|late|mid|for|im|en|em|from)[\s-]$"
)
_ANY_DATE: Final = re.compile(
    rf"\d|\b(?:{_M}|{_W}|last|past|previous|this|next|ago|yesterday|today|tonight|tomorrow|spring|summer|fall|autumn|winter)"
)


def mentions_date(query: str) -> bool:
    """Whether a folded query may name a date; this check costs less than a search for dates."""
    return bool(_ANY_DATE.search(query[:MAX_DATED_CHARS]))


def spans(query: str, today: int, covered: Span) -> list[Span]:
    """The days that a query names.

    Args:
        query: folded text (`search.tokens.fold`).
        today: the day of the question, days since 1970.
        covered: the days from the first memory to the last.

    Returns:
        Spans in the order of the query; empty if it names no date.
    """
    query = query[:MAX_DATED_CHARS]
    found = re.finditer(_EXPRESSION, query, re.VERBOSE)  # compiled for the first query that may name a date
    read = [(match, _read(match, query, today, covered)) for match in found]
    dated = [(match.start(), match.end(), days) for match, days in read if days]
    return list(dict.fromkeys(_joined(query, dated)))[:MAX_SPANS]


def _joined(query: str, found: list[tuple[int, int, list[Span]]]) -> Iterator[Span]:
    """The spans of dates; "between A and B" and "from A to B" are one span each."""
    skip = False
    for at, this in enumerate(found):
        if skip:
            skip = False
            continue
        after = found[at + 1] if at + 1 < len(found) else None
        lead = re.search(r"\b(between|from)\s+(?:the\s+)?$", query[: this[0]])
        link = query[this[1] : after[0]].strip() if after else ""
        if after and lead and link in {"and", "to", "until", "till", "through", "and the", "to the"}:
            skip = True
            for span in this[2]:
                ends = [other.last for other in after[2] if 0 <= other.last - span.first <= 366]
                if ends:
                    yield Span(span.first, min(ends))
        else:
            yield from this[2]


def _read(match: re.Match[str], query: str, today: int, covered: Span) -> list[Span]:
    part = match.groupdict()
    if part["iso"] or part["parts"]:
        return _numeric(part["iso"], part["parts"])
    if month := part["md_m"] or part["dm_m"]:
        day, year = part["md_d"] or part["dm_d"], part["md_y"] or part["dm_y"]
        return _in_month(_month(month), int(day), int(part["md_e"] or day), year, covered)
    if part["my_m"]:
        return [month_span(int(part["my_y"]), _month(part["my_m"]))]
    if part["rel"]:
        return _relative(part, today)
    if part["ago"] or part["near"]:
        return [_ago(part, today)]
    if part["sy_s"]:
        return [_season(part["sy_s"], int(part["sy_y"]))]
    if part["only_d"]:
        return _each_month(int(part["only_d"]), covered)
    if part["only_w"]:
        wanted = _DAYS[part["only_w"]]
        return [_day(today - (weekday(today) - wanted) % 7)]
    if part["only_y"]:
        return [year_span(int(part["only_y"]))]
    name = part["only_m"].rstrip(".")
    if name in _DOUBTFUL and not _BEFORE_MONTH.search(query[: match.start()]):
        return []
    return [month_span(year, _MONTHS[name]) for year in _years(covered)]


def _numeric(iso: str | None, parts: str | None) -> list[Span]:
    """2024-03-15; 15.03.2024; 3/5/2024, which means both the 5th of March and the 3rd of May."""
    if iso:
        year, month, day = map(int, iso.split("-"))
        orders = [(month, day)]
    else:
        first, second, year = map(int, re.split("[./]", parts or ""))
        orders = [(second, first)] if "." in (parts or "") else [(first, second), (second, first)]
    return [_day(number(year, m, d)) for m, d in dict.fromkeys(orders) if 1 <= m <= 12 and 1 <= d <= 31]


def _in_month(month: int, first: int, last: int, year: str | None, covered: Span) -> list[Span]:
    years = [int(year)] if year else _years(covered)
    return [Span(number(y, month, first), number(y, month, max(first, last))) for y in years]


def _relative(part: dict[str, str | None], today: int) -> list[Span]:
    step = {"this": 0, "next": 1}.get(part["rel"] or "", -1)
    now = date(today)
    if part["rel_m"]:
        return [_nth_month(_month(part["rel_m"]), step, now)]
    if part["rel_w"]:
        back = (weekday(today) - _DAYS[part["rel_w"]]) % 7
        return [_day(today - (back or 7)) if step < 0 else _day(today + (-back % 7 or 7 * step))]
    if part["rel_s"]:
        spans_of = [_season(part["rel_s"], now.year + offset) for offset in (-2, -1, 0, 1, 2)]
        return [_chosen(spans_of, step, today)]
    if part["rel_u"] == "night":
        return [_day(today - 1)] if step < 0 else [_day(today)]
    if part["rel_u"] == "year":
        return [year_span(now.year + step)]
    if part["rel_u"] == "month":
        return [month_span(now.year, now.month + step)]
    monday = today - weekday(today) + 7 * step
    return [Span(monday + 4, monday + 6) if part["rel_u"] == "weekend" else Span(monday, monday + 6)]


def _nth_month(month: int, step: int, now: Date) -> Span:
    if step == 0:
        return month_span(now.year, month)
    is_past = month < now.month if step < 0 else month <= now.month
    return month_span(now.year + (0 if is_past == (step < 0) else step), month)


def _chosen(around: list[Span], step: int, today: int) -> Span:
    if step < 0:
        return [span for span in around if span.last < today][-1]
    coming = [span for span in around if span.last >= today]
    return coming[step] if step and coming[0].first <= today else coming[0]


def _ago(part: dict[str, str | None], today: int) -> Span:
    if near := part["near"]:
        steps = {"yesterday": 1, "the day before yesterday": 2, "tomorrow": -1}
        return _day(today - steps.get(near, 0))
    count = part["ago"] or "1"
    days = _UNIT_DAYS[part["ago_u"] or "day"]
    middle = today - (int(count) if count.isdigit() else _NUMBERS[count]) * days
    return Span(middle - days // 2, middle + days // 2)


def _each_month(day: int, covered: Span) -> list[Span]:
    first, last = date(covered.first), date(covered.last)
    months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    return [_day(number(at // 12, at % 12 + 1, day)) for at in months[-240:]]


def _season(name: str, year: int) -> Span:
    first, last = _SEASONS[name]
    return Span(month_span(year, first).first, month_span(year, last).last)


def _years(covered: Span) -> range:
    last = date(covered.last).year
    return range(max(date(covered.first).year, last - 50), last + 1)


def _month(name: str | None) -> int:
    return _MONTHS[(name or "").rstrip(".")]


def _day(day: int) -> Span:
    return Span(day, day)
