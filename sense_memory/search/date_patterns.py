"""Single dates as patterns of roles: "last week", "am 14. Juni", "le mois dernier", "at Christmas", each as periods. Pure.

Each word of a text that may be part of a date has a letter for its role (`search.date_words`), and a date is a pattern of
letters, so that one pattern serves every language. `RULES` has the patterns, the first that matches wins; the function
beside a pattern says what its words mean, or that they are no date after all. `search.dates` puts dates together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sense_memory.search import date_words as roles
from sense_memory.search.calendar_days import (
    DAY_SECONDS,
    Period,
    Span,
    date,
    days_in,
    month_span,
    number,
    weekday,
    year_span,
)
from sense_memory.search.holidays import holiday
from sense_memory.search.tokens import STOP_WORDS


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAX_YEARS: Final = 50  # that an expression without a year may mean
MAX_MONTHS: Final = 240  # that "the 3rd" may mean
UNIT_SECONDS: Final = {
    "minute": 60,
    "hour": 3_600,
    "day": DAY_SECONDS,
    "week": 7 * DAY_SECONDS,
    "weekend": 7 * DAY_SECONDS,
    "month": 30 * DAY_SECONDS,
    "quarter": 91 * DAY_SECONDS,
    "year": 365 * DAY_SECONDS,
}
_FRIDAY: Final = 4
_MAY: Final = 5
_YEAR_DIGITS: Final = 4
_FEW_DECADES: Final = 20  # "the 20s" are those of this century


# ── Texts and matches ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DatedText:
    """A text that may name dates.

    Attributes:
        tokens: its words and numbers.
        codes: the role of each, a letter.
        now: when it was written, in wall-clock seconds.
        covered: the days that an expression without a year may mean; None for the nearest one.
        is_coming: whether it asks for what is to come.
    """

    tokens: Sequence[roles.Token]
    codes: str
    now: float
    covered: Span | None
    is_coming: bool

    @property
    def today(self) -> int:
        """The day on which it was written."""
        return int(self.now // DAY_SECONDS)


class SingleDate(NamedTuple):
    """A date in a text: its first token, the token after it, and what it may mean."""

    first: int
    end: int
    periods: list[Period]


_LEAD: Final = re.compile(
    r"(?:[pif<>+_VBFE][Ltai]*|a|[MmYDOHSWe][-&a_]t?)$"
)  # what makes a season or holiday a date
_NEAR_LEAD: Final = re.compile(r"(?:[pf<>+_VBFE]|EL|[MmYDO][-&a_])$")  # what makes a doubtful word a date


_WEAK_LEADS: Final = {roles.A, roles.FOR}  # "a Christmas carol", "for Christmas cookies"


class _Match:
    """One match of a pattern in a text."""

    def __init__(self, text: DatedText, match: re.Match[str]) -> None:
        self.text, self.code = text, match[0]
        self.tokens = text.tokens[match.start() : match.end()]
        self.before, self.after = text.codes[: match.start()], text.codes[match.end() :]

    def all(self, wanted: str) -> list[Any]:
        """The values of all tokens with one of some roles."""
        return [token.value for token in self.tokens if token.role in wanted]

    def one(self, wanted: str) -> Any:
        """The first of these values; None without any."""
        return next(iter(self.all(wanted)), None)

    def year(self) -> int | None:
        """The year that is said."""
        return next((token.value for token in self.tokens if token.role == roles.YEAR), None)

    def each_year(self, days: Callable[[int], Span]) -> list[Period]:
        """The days in the year that is said, or in every year that may be meant."""
        year, covered, today = self.year(), self.text.covered, self.text.today
        if year is not None:
            return [_period(days(year))]
        if covered is None:
            near = (days(date(today).year + step) for step in (-1, 0, 1))
            return [_period(min(near, key=lambda span: abs(span.first + span.last - 2 * today)))]
        last = date(covered.last).year
        years = range(max(date(covered.first).year, last - MAX_YEARS), last + 1 + self.text.is_coming)
        return [_period(days(year)) for year in years]

    def nth(self, days: Callable[[int], Span], step: int) -> list[Period]:
        """The last (-1), the present or coming (0), or the next (1) of what comes every year."""
        today = self.text.today
        around = [days(date(today).year + offset) for offset in (-3, -2, -1, 0, 1, 2)]
        past, coming = [span for span in around if span.last < today], [s for s in around if s.last >= today]
        if step < 0:
            return [_period(past[step])]
        return [_period(coming[step] if step and coming[0].first <= today else coming[0])]

    @property
    def has_lead(self) -> bool:
        """Whether the words before make this a date: "at Christmas", but not "a Christmas carol"."""
        lead = _LEAD.search(self.before)
        return lead is not None and not (lead[0] in _WEAK_LEADS and self.after.startswith(roles.OTHER))

    @property
    def has_near_lead(self) -> bool:
        """Whether the word just before makes a doubtful word a date."""
        return _NEAR_LEAD.search(self.before) is not None


# ── Meanings ────────────────────────────────────────────────────────────────────────────


def _iso(said: _Match) -> list[Period]:
    year, month, day = map(int, said.tokens[0].text.split("-"))
    return _days(year, month, day)


def _numeric(said: _Match) -> list[Period]:
    """15.03.2024; 3/5/2024, which means both the 5th of March and the 3rd of May."""
    text = said.tokens[0].text
    first, second, year = map(int, re.split("[./]", text))
    orders = [(second, first)] if "." in text else [(first, second), (second, first)]
    return [found for month, day in dict.fromkeys(orders) for found in _days(year, month, day)]


def _in_month(said: _Match) -> list[Period]:
    month, days = said.one("Mm"), said.all("DOo")
    return said.each_year(lambda year: Span(number(year, month, days[0]), number(year, month, max(days))))


def _week_of_month(said: _Match) -> list[Period]:
    month, nth = said.one("Mm"), said.one("oORJ")
    if said.one("Ue") not in {"week", "weekend"} or not nth:
        return []

    def week(year: int) -> Span:
        last = days_in(year, month)
        first = last - 6 if nth < 0 else min(7 * nth - 6, last)
        return Span(number(year, month, first), number(year, month, first + 6))

    return said.each_year(week)


def _month_of_year(said: _Match) -> list[Period]:
    return said.each_year(lambda year: month_span(year, said.one("Mm")))


def _edge_of_unit(said: _Match) -> list[Period]:
    return [edge(whole, said.one("E")) for whole in _unit(said.one("Uu"), 0, said.text)]


def _quarter(said: _Match) -> list[Period]:
    nth = said.one("qoOD")
    return said.each_year(lambda year: _months(year, 3 * nth - 2, 3 * nth)) if nth in {1, 2, 3, 4} else []


def _half(said: _Match) -> list[Period]:
    nth = said.one("oO")
    return said.each_year(lambda year: _months(year, 6 * nth - 5, 6 * nth)) if nth in {1, 2} else []


def _season_of_year(said: _Match) -> list[Period]:
    return said.each_year(_season(said.one("Ss")))


def _holiday_of_year(said: _Match) -> list[Period]:
    return said.each_year(lambda year: holiday(said.one("H"), year))


def _last_units(said: _Match) -> list[Period]:
    """A number of units up to today: "the last two weeks"."""
    step, unit = said.one("RJ"), said.one("Ueu")
    now, today = said.text.now, said.text.today * DAY_SECONDS
    length = said.one("naiDN") * UNIT_SECONDS[unit]
    if not step or not length:
        return []
    if length < DAY_SECONDS:
        return [Period(now - length, now) if step < 0 else Period(now, now + length)]
    end = today + DAY_SECONDS
    return [Period(today - length, end) if step < 0 else Period(today, end + length)]


def _ago(said: _Match) -> list[Period]:
    count, unit, text = said.one("naiDN"), said.one("Ueu") or "year", said.text
    if unit == "weekend":
        return _unit(unit, -count, text)
    length = UNIT_SECONDS[unit]
    if length < DAY_SECONDS:
        middle = text.now - count * length
        return [Period(middle - length / 2, middle + length / 2)]
    days = length // DAY_SECONDS
    return [_period(Span(text.today - count * days - days // 2, text.today - count * days + days // 2))]


def _relative(said: _Match) -> list[Period]:
    """A period by its distance: "last week", "le mois dernier", "the weekend before last"."""
    step, kind = said.one("RJ"), re.sub("[RJ]", "", said.code)
    value, text = said.one(kind[0]), said.text
    if kind in roles.UNITS:
        return _unit(value, step, text)
    if kind in "Mm":
        is_verb = step == 0 and kind == roles.DOUBTFUL_MONTH and value == _MAY  # "this may be"
        return [] if is_verb else [_period(_nth_month(value, step, text.today))]
    if kind in {"W", "w", "WP"}:
        return [_on(_nth_weekday(value, step, text.today), said.one("P"))]
    if kind in "Ss":
        return said.nth(_season(value), step)
    if kind == roles.HOLIDAY:
        return said.nth(lambda year: holiday(value, year), step)
    return [_on(text.today + step, value or roles.MORNING)]


def _near(said: _Match) -> list[Period]:
    """A day near today, or a part of it: "yesterday evening", "heute", "stamattina"."""
    value, text = said.one("K"), said.text
    hours = roles.MORNING if roles.TOMORROW in said.code else said.one("P")
    if said.tokens[0].text == "hier" and hours is None and _is_german(text):
        return []
    if value == "between the years":
        return said.each_year(lambda year: Span(number(year, 12, 27), number(year, 12, 30)))
    day, own = value if isinstance(value, tuple) else (value, None)
    at = _weekday_at(day[1], text) if isinstance(day, tuple) else text.today + day
    if text.covered is None and at == text.today:
        return []  # the day of a memory is known without its text
    return [_on(at, own or hours)]


def _tomorrow(said: _Match) -> list[Period]:
    """The words "morgen" and "mañana"; not "am Morgen" or "por la mañana", which are a part of any day."""
    if said.code[0] != roles.TOMORROW:
        return []
    return [_on(said.text.today + 1, said.one("P"))]


def _day_of_month(said: _Match) -> list[Period]:
    """A day of every month that the memories cover: "on the 3rd", "am 3."."""
    covered, day = said.text.covered, said.one("OD")
    if covered is None or (roles.DAY in said.code and said.tokens[0].text not in {"am", "zum", "vom"}):
        return []
    first, last = date(covered.first), date(covered.last)
    months = range(first.year * 12 + first.month - 1, last.year * 12 + last.month)
    return [_on(number(at // 12, at % 12 + 1, day)) for at in months[-MAX_MONTHS:]]


def _weekday(said: _Match) -> list[Period]:
    if said.text.covered is None:
        return []  # "on Friday" in a memory is as often to come as past
    return [_on(_weekday_at(said.one("Ww"), said.text), said.one("P"))]


def _weekend(said: _Match) -> list[Period]:
    is_past = not said.text.is_coming and weekday(said.text.today) < _FRIDAY
    return [] if said.text.covered is None else _unit("weekend", -is_past, said.text)


def _season_alone(said: _Match) -> list[Period]:
    return _season_of_year(said) if said.has_lead and not said.before.rstrip("t").endswith(roles.FOR) else []


def _holiday_alone(said: _Match) -> list[Period]:
    return _holiday_of_year(said) if said.has_lead else []


def _month_alone(said: _Match) -> list[Period]:
    return _month_of_year(said) if said.code == roles.MONTH or said.has_near_lead else []


def _year(said: _Match) -> list[Period]:
    return [] if said.text.covered is None else [_period(year_span(said.one("Y")))]


def _decade(said: _Match) -> list[Period]:
    text = said.tokens[0].text.rstrip("s")
    if not said.has_lead and len(text) < _YEAR_DIGITS:
        return []
    first = (
        int(text) if len(text) == _YEAR_DIGITS else int(text) + (2000 if int(text) <= _FEW_DECADES else 1900)
    )
    return [_period(Span(number(first, 1, 1), number(first + 9, 12, 31)))]


_COUNT: Final = "[naiDN]"
_X: Final = "[Mm]"
_OF_YEAR: Final = "(?:,?L?Y)?"
_SUNDAY: Final = "(?:[Ww],?[tp]?)?"  # the weekday before a date
RULES: Final[tuple[tuple[str, Callable[[_Match], list[Period]]], ...]] = (
    ("I", _iso),
    ("x", _numeric),
    (rf"{_SUNDAY}[DO]\.?[-a&_][tp]?[DO]\.?L?{_X}{_OF_YEAR}", _in_month),
    (rf"{_SUNDAY}{_X}\.?t?[DO]\.?-t?[DO](?![c.]){_OF_YEAR}", _in_month),
    (rf"{_SUNDAY}{_X}\.?t?[DO](?!c){_OF_YEAR}", _in_month),
    (rf"{_SUNDAY}[DOo]\.?L?t?{_X}\.?{_OF_YEAR}", _in_month),
    (rf"[oORJ][Ue][Lpt]+{_X}{_OF_YEAR}", _week_of_month),
    (rf"{_X}\.?,?L?t?Y", _month_of_year),
    ("E[Lt]+[Uu]", _edge_of_unit),
    (r"(?:q|[oO]u|D\.u)(?:[Lpt]*Y)?", _quarter),
    ("[oO]h[Lpt]*Y", _half),
    ("[Ss][Lt]*Y", _season_of_year),
    ("H[Lt]*Y", _holiday_of_year),
    (f"[RJ]{_COUNT}[Ueu]|{_COUNT}J[Ueu]", _last_units),
    (f"{_COUNT}[Ueu]A|V{_COUNT}[Ueui]", _ago),
    ("[RJ](?:WP?|[wMmSsHPQUeu])|[WMmSsHUeu]J", _relative),
    ("K(?:[pitaL]*[PQ])?", _near),
    ("(?:p?t?)Q(?:[pitaL]*P)?", _tomorrow),
    (rf"[p_+<>L](?:tO|D\.)(?!L?{_X})", _day_of_month),
    ("(?<=[pt<>+_BF&])WP?|WP|(?<=[p<>+_])w", _weekday),
    ("(?<=[pt])e", _weekend),
    ("[Ss]", _season_alone),
    ("H", _holiday_alone),
    (_X, _month_alone),
    ("Y(?!c)", _year),
    ("d", _decade),
)


@cache
def _pattern() -> re.Pattern[str]:
    """All patterns, in the order of `RULES`; compiled for the first text that may name a date."""
    return re.compile("|".join(f"({pattern})" for pattern, _ in RULES))


def single_dates(text: DatedText) -> Iterator[SingleDate]:
    """The dates of a text, in its order."""
    for match in _pattern().finditer(text.codes):
        _, meaning = RULES[(match.lastindex or 1) - 1]
        if meant := meaning(_Match(text, match)):
            yield SingleDate(*match.span(), meant)


# ── Parts of the calendar ───────────────────────────────────────────────────────────────


def edge(period: Period, which: int) -> Period:
    """The first (0), middle (1) or last (2) third of a period, in whole days."""
    days = (period.end - period.start) // DAY_SECONDS
    third = max(1, days // 3) * DAY_SECONDS
    if which == 1:
        return Period(period.start + third, max(period.start + 2 * third, period.end - third))
    first = period.end - third if which else period.start
    return Period(first, first + third)


def _period(span: Span) -> Period:
    return Period(span.first * DAY_SECONDS, (span.last + 1) * DAY_SECONDS)


def _on(day: int, hours: tuple[int, int] | None = None) -> Period:
    """A day, or some hours of it."""
    first, last = hours or (0, 24)
    return Period(day * DAY_SECONDS + first * 3_600, day * DAY_SECONDS + last * 3_600)


def _days(year: int, month: int, day: int) -> list[Period]:
    """A day of the calendar; nothing if there is no such month or day."""
    return [_on(number(year, month, day))] if 1 <= month <= 12 and 1 <= day <= 31 else []


def _months(year: int, first: int, last: int) -> Span:
    return Span(month_span(year, first).first, month_span(year, last).last)


def _season(first: int) -> Callable[[int], Span]:
    return lambda year: _months(year, first, first + 2)


def _unit(unit: str, step: int, text: DatedText) -> list[Period]:
    """The present unit of time, or the one so many steps from it; nothing for a day or a minute."""
    year, month, _ = date(text.today)
    monday = text.today - weekday(text.today) + 7 * step
    match unit:
        case "week":
            return [_period(Span(monday, monday + 6))]
        case "weekend":
            return [_period(Span(monday + _FRIDAY, monday + 6))]
        case "month":
            return [_period(month_span(year, month + step))]
        case "quarter":
            first = (month - 1) // 3 * 3 + 1 + 3 * step
            return [_period(_months(year, first, first + 2))]
        case "year":
            return [_period(year_span(year + step))]
        case "hour" if step < 0:
            return [Period(text.now - UNIT_SECONDS[unit], text.now)]
    return []


def _nth_month(month: int, step: int, today: int) -> Span:
    now = date(today)
    if step == 0:
        return month_span(now.year, month)
    is_past = month < now.month if step < 0 else month <= now.month
    return month_span(now.year + (0 if is_past == (step < 0) else step), month)


def _nth_weekday(day: int, step: int, today: int) -> int:
    back = (weekday(today) - day) % 7
    if step < 0:
        return today - (back or 7) + 7 * (step + 1)
    return today + (-back % 7 or 7 * step)


def _weekday_at(day: int, text: DatedText) -> int:
    """The last such weekday up to today, or the next one."""
    back = (weekday(text.today) - day) % 7
    return text.today + (-back % 7 if text.is_coming else -back)


def _is_german(text: DatedText) -> bool:
    """Whether "hier" means "here": a text with more stop words of German than of French."""
    said = {token.text for token in text.tokens}
    return len(said & STOP_WORDS["german"]) > len(said & STOP_WORDS["french"])
