"""Numbers with their units, dates and times of day, read out of the tokens of one clause.

Units of one dimension are brought to one measure (10 minutes and 1 hour compare), a date is a set of its
parts (a month and a day compare with a month, a day and a year). Nothing is relative to a clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.words import BE, IDENTIFYING, STOP, stem


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MONTH_NAMES: Final = """january jan/february feb/march mar/april apr/may/june jun/july jul/august aug/
september sept sep/october oct/november nov/december dec"""
_MONTHS: Final = {
    name: number for number, names in enumerate(_MONTH_NAMES.split("/"), start=1) for name in names.split()
}
_WEEKDAY_NAMES: Final = "monday tuesday wednesday thursday friday saturday sunday"
_WEEKDAYS: Final = {
    form: number for number, name in enumerate(_WEEKDAY_NAMES.split()) for form in (name, name + "s")
}
_UNITS: Final = {
    name: (dimension, factor)
    for dimension, units in {
        "time": "1 s sec second seconds;60 min minute minutes;3600 h hour hours;86400 day days;604800 week weeks;"
        "2592000 month months;31557600 year years;0.001 ms",
        "length": "1 m metre metres meter meters;0.01 cm;0.001 mm;1000 km kilometres kilometers;1609.34 mile miles",
        "bytes": "1 b bytes byte;1e3 kb;1e6 mb;1e9 gb;1e12 tb",
        "mass": "1 g gram grams;1000 kg kilos kilograms;1e6 t tons tonnes",
        "share": "1 % percent",
        "dollar": "1 $ dollar dollars usd cad",
        "euro": "1 € euro euros eur",
        "pound": "1 £ gbp",
        "yen": "1 ¥ yen jpy",
    }.items()
    for factor, *names in (unit.split() for unit in units.split(";"))
    for name in names
}
_COUNT_NAMES: Final = "zero one two three four five six seven eight nine ten eleven twelve"
_TENS: Final = {
    "fifteen": 15.0,
    "twenty": 20.0,
    "thirty": 30.0,
    "forty": 40.0,
    "fifty": 50.0,
    "hundred": 100.0,
}
_COUNTS: Final = (
    {name: float(number) for number, name in enumerate(_COUNT_NAMES.split())} | _TENS | {"dozen": 12.0}
)
_HOURS: Final = {"noon": 720, "midnight": 0}
_NO_COUNTS: Final = {("one", "day"), ("one", "of"), ("one", "another")}
_NUMBER: Final = re.compile(r"(\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)([^\W\d_]*)$")
_ISO: Final = re.compile(r"(\d{4})-(\d\d?)(?:-(\d\d?))?$")
_CLOCK: Final = re.compile(r"(\d{1,2})[:h.](\d\d)(am|pm)?$")
_QUARTER: Final = re.compile(r"q([1-4])$")
_SCALES: Final = {"k": 1e3, "mio": 1e6, "million": 1e6, "thousand": 1e3, "bn": 1e9, "billion": 1e9}
_BEFORE_A_YEAR: Final = "in since until of before by after from early late mid the"
_YEAR_AFTER: Final = frozenset(_BEFORE_A_YEAR.split()) | frozenset(_MONTHS)
_CALENDAR: Final = frozenset({"year", "month", "day", "quarter"})
_CURRENCY: Final = frozenset("$€£¥")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in the base measure of its dimension; an empty dimension counts what its noun says."""

    dimension: str
    value: float
    text: str


@dataclass(frozen=True, slots=True)
class Quantities:
    """What one clause says in figures.

    Attributes:
        numbers: in the order of the text.
        dates: parts (`year`, `month`, `day`, `weekday`, `quarter`, `minute` of the day) and their values.
        date_text: the dates as they were written.
        rest: the tokens that were neither; a number that names a thing is glued to it (`issue#42`).
    """

    numbers: tuple[Quantity, ...]
    dates: dict[str, tuple[int, ...]]
    date_text: str
    rest: list[str]


def split_quantities(tokens: Sequence[str]) -> Quantities:
    """Take numbers and dates out of lowercase tokens."""
    parser = _QuantityParser(tokens)
    while parser.at < len(tokens):
        parser.step()
    dates = {part: tuple(sorted(values)) for part, values in parser.dates.items()}
    return Quantities(tuple(parser.numbers), dates, " ".join(parser.said), parser.rest)


def other_number(old: Sequence[Quantity], new: Sequence[Quantity]) -> str:
    """The one figure that is another one, or nothing; several, or of different measures, tell of different things."""
    if len(old) != len(new):
        return ""
    changed = []
    for a, b in zip(old, new, strict=True):
        if a.dimension != b.dimension:
            return ""
        near = abs(a.value - b.value) <= 1e-9 * max(abs(a.value), abs(b.value))
        if not near or (a.dimension == "label" and a.text != b.text):
            changed.append(f"{a.text} → {b.text}")
    return changed[0] if len(changed) == 1 else ""


def other_date(old: Mapping[str, tuple[int, ...]], new: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether two dates differ in the parts that both name, and in one respect: calendar, weekday or time of day."""
    different = [part for part in old.keys() & new.keys() if not _meet(set(old[part]), set(new[part]))]
    return len({"calendar" if part in _CALENDAR else part for part in different}) == 1


def _meet(one: set[int], other: set[int]) -> bool:
    return one <= other or other <= one


class _QuantityParser:
    """Walks over the tokens once."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.numbers: list[Quantity] = []
        self.dates: dict[str, set[int]] = {}
        self.said: list[str] = []
        self.rest: list[str] = []

    def step(self) -> None:
        token = self.tokens[self.at]
        self.at += 1
        if token[0].isdigit():
            self._digits(token)
        elif token in _MONTHS and self._is_month(token):
            self._date(token, month=_MONTHS[token])
        elif token in _WEEKDAYS:
            self._date(token, weekday=_WEEKDAYS[token])
        elif token[0] == "q" and (match := _QUARTER.match(token)):
            self._date(token, quarter=int(match[1]))
        elif token in _HOURS:
            self._date(token, minute=_HOURS[token])
        elif token in _COUNTS and (token, self._peek()) not in _NO_COUNTS:
            self._number(_COUNTS[token], "", token)
        elif token in _CURRENCY and self._peek()[:1].isdigit():
            pass  # the number looks back for it
        else:
            self.rest.append(token)

    def _peek(self, ahead: int = 0) -> str:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def _before(self) -> str:
        return self.tokens[self.at - 2] if self.at > 1 else ""

    def _is_month(self, token: str) -> bool:
        """`may` and `march` are months only beside a number or after a preposition."""
        if token not in {"may", "march", "mar"}:
            return True
        return (
            self._peek()[:1].isdigit()
            or self._before()[:1].isdigit()
            or self._before() in {"in", "of", "until", "by"}
        )

    def _digits(self, token: str) -> None:
        if match := _ISO.match(token):
            parts = {"year": int(match[1]), "month": int(match[2])}
            self._date(token, **parts, **({"day": int(match[3])} if match[3] else {}))
        elif (match := _CLOCK.match(token)) and (":" in token or self._peek() in {"am", "pm"} or match[3]):
            self._time(token, int(match[1]), int(match[2]), match[3])
        elif match := _NUMBER.match(token):
            self._figure(token, float(match[1].replace(",", "")), match[2])
        elif any(sign.isalpha() for sign in token):
            self.rest.append(token)
        else:  # a telephone number, an address, a version of three parts
            self.numbers.append(Quantity("label", 0.0, token))

    def _figure(self, token: str, value: float, suffix: str) -> None:
        nearby, before = self._peek(), self._before()
        whole = value.is_integer() and not suffix
        if suffix in {"st", "nd", "rd", "th"}:
            self._date(token, day=int(value))
        elif suffix in {"am", "pm"}:
            self._time(token, int(value), 0, suffix)
        elif whole and value < 13 and nearby in {"am", "pm"}:
            self._time(token, int(value), 0, None)
        elif whole and 1 <= value <= 31 and (nearby in _MONTHS or before in _MONTHS):
            self._date(token, day=int(value))
        elif whole and 1900 <= value <= 2100 and (before in _YEAR_AFTER or self._after_day()):
            self._date(token, year=int(value))
        elif whole and before in IDENTIFYING and self.rest:
            self.rest[-1] = f"{self.rest[-1]}#{token}"
        elif whole and before == "at" and value <= 24 and nearby not in _UNITS and nearby != "%":
            self._time(token, int(value), 0, None)
        else:
            self._number(value, suffix, token)

    def _after_day(self) -> bool:
        return (
            self.at > 2 and self.tokens[self.at - 3] in _MONTHS and self._before().rstrip("thsndr").isdigit()
        )

    def _number(self, value: float, suffix: str, token: str) -> None:
        before = self._before()
        if before in IDENTIFYING and self.rest and self.rest[-1] == before:
            self.rest[-1] = f"{before}#{value:g}"
            return
        suffix, value = self._scaled(suffix, value, token)
        unit = suffix
        text = token
        if not unit and before in _CURRENCY:
            unit, text = before, before + token
        elif not unit and self._peek() in _UNITS:
            unit = self._peek()
            text = f"{token} {unit}"
            self.at += 1
        if not unit and self._names_subject(before):
            self.rest[-1] = f"{before}#{value:g}"
            return
        dimension, factor = _UNITS.get(unit, ("", "1"))
        if unit and not dimension:
            self.rest.append(stem(unit))
        self.numbers.append(Quantity(dimension, value * float(factor), text))

    def _names_subject(self, before: str) -> bool:
        """`Lamp 3 is …`: a number right behind the first noun tells which one."""
        return self.at <= 3 and before not in STOP and self.rest[-1:] == [before] and self._peek() in BE

    def _scaled(self, suffix: str, value: float, token: str) -> tuple[str, float]:
        if suffix == "m" and self._peek() in {"tokens", "users", "events", "rows"}:
            return "", value * 1e6
        if suffix in _SCALES:
            return "", value * _SCALES[suffix]
        if not suffix and self._peek() in _SCALES and token:
            self.at += 1
            return "", value * _SCALES[self.tokens[self.at - 1]]
        return suffix, value

    def _time(self, token: str, hour: int, minute: int, half: str | None) -> None:
        if half is None and self._peek() in {"am", "pm"}:
            half = self._peek()
            self.at += 1
            token = f"{token} {half}"
        if half == "pm" and hour < 12:
            hour += 12
        elif half == "am" and hour == 12:
            hour = 0
        self._date(token, minute=hour * 60 + minute)

    def _date(self, text: str, **parts: int) -> None:
        self.said.append(text)
        for part, value in parts.items():
            self.dates.setdefault(part, set()).add(value)
