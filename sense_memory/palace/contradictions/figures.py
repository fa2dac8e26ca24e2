"""The words of a clause, and its figures among them: numbers with their units, dates, weekdays, times of day.

Units of one dimension are brought to one measure (10 minutes and 1 hour compare); a date has the parts that it names (a
month and a day compare with a month, a day and a year). Nothing is relative to a clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.vocabulary import stem, words


def _numbers(text: str) -> dict[str, float]:
    """Words for numbers from 1 up, those of one number between two slashes."""
    rows = enumerate(text.replace("\n", "").split("/"), 1)
    return {name: float(number) for number, names in rows for name in names.split()}


_MONTHS: Final = _numbers("""january jan januar janvier enero janeiro/february feb februar février febrero fevereiro/
march mar märz mars marzo março/april apr avril abril/may mai mayo maio/june jun juni juin junio junho/
july jul juli juillet julio julho/august aug août agosto/september sept sep septembre septiembre setembro/
october oct oktober octobre octubre outubro/november nov novembre noviembre novembro/december dec dezember décembre diciembre dezembro""")
_WEEKDAYS: Final = _numbers("""monday mondays montag lundi lunes segunda/tuesday tuesdays dienstag mardi martes/wednesday wednesdays mittwoch mercredi miércoles/
thursday thursdays donnerstag jeudi jueves/friday fridays freitag vendredi viernes/saturday saturdays samstag samedi sábado/sunday sundays sonntag dimanche domingo""")
_UNITS_TEXT: Final = """
time: 1 s sec second seconds, 60 min mins minute minutes, 3600 h hour hours, 86400 day days, 604800 week weeks,
2592000 month months, 31557600 year years, 0.001 ms; length: 1 m metre metres meter meters, 0.01 cm, 0.001 mm,
1000 km kilometres kilometers, 1609.34 mile miles; bytes: 1 b bytes byte, 1e3 kb, 1e6 mb, 1e9 gb, 1e12 tb;
mass: 1 g gram grams, 1000 kg kilos kilograms, 1e6 tons tonnes; share: 1 % percent; dollar: 1 $ dollar dollars usd; canadian: 1 cad;
euro: 1 € euro euros eur; pound: 1 £ gbp; yen: 1 ¥ yen jpy"""
_UNITS: Final = {
    name: (dimension.strip(), float(factor))
    for dimension, units in (line.split(":") for line in _UNITS_TEXT.split(";"))
    for factor, *names in (unit.split() for unit in units.split(","))
    for name in names
}
_COUNTS: Final = _numbers("one/two/three/four/five/six/seven/eight/nine/ten/eleven/twelve")
_COUNTS.update(zero=0.0, fifteen=15.0, twenty=20.0, thirty=30.0, forty=40.0, fifty=50.0, hundred=100.0)
_SCALES: Final = {"k": 1e3, "million": 1e6, "thousand": 1e3, "bn": 1e9, "billion": 1e9, "mio": 1e6}


def _any(names: object) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))  # type: ignore[call-overload]


MONTH: Final = _any(_MONTHS)
_WORD: Final = re.compile(r"[^\W_]\w*(?:['./_&+\#@-]+\w+)*[+\#]*|:(?=[ ])")
_DIGIT: Final = re.compile(r"\d")
_FIGURE_WORDS: Final = frozenset((*_MONTHS, *_WEEKDAYS, *_COUNTS, "noon", "midnight"))
_TOKEN: Final = re.compile(
    rf"""(?!(?:{_any(_FIGURE_WORDS)})\b)(?!\d){_WORD.pattern}
|(?P<iso>(?P<iy>\d{{4}})-(?P<im>\d\d?)(?:-(?P<id>\d\d?))?(?![\w-]))
|(?P<clock>(?P<h>\d{{1,2}})(?:[:h.](?P<min>\d\d))?\ ?(?P<half>[ap])\.?m\b|(?P<h2>\d{{1,2}})(?::|h)(?P<min2>\d\d)(?![\d:])
  |(?:(?<=\bat\ )|(?<=\bum\ ))(?P<h3>\d{{1,2}})(?=\ o'clock|\ uhr|\ *$|[,;](?!\d))|\b(?P<noon>noon|midnight)\b)
|(?P<dm>(?P<dd>\d{{1,2}})(?:st|nd|rd|th|\.|er|º)?\ (?:of\ |de\ )?(?P<mm>{MONTH})\b(?:,?\ (?:de\ )?(?P<yy>\d{{4}}))?)
|(?P<md>\b(?P<mm2>{MONTH})\ (?P<dd2>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:])(?:,?\ (?P<yy2>\d{{4}}))?)
|(?P<my>\b(?P<mm3>{MONTH})\ (?P<yy3>\d{{4}})(?!\d))
|(?P<month>(?:(?<=\bin\ )|(?<=\bof\ )|(?<=\bby\ )|(?<=\bim\ )|(?<=\ben\ )|(?<=\bem\ ))(?P<mm4>{MONTH})\b)
|(?P<day>(?<=the\ )(?P<dd3>\d{{1,2}})(?:st|nd|rd|th)\b)
|(?P<year>(?:(?<=in\ )|(?<=since\ )|(?<=until\ )|(?<=of\ )|(?<=by\ )|(?<=from\ )|(?<=before\ )|(?<=after\ ))(?P<yy4>(?:19|20)\d\d)(?!\d|[.,]\d|\ ?[$€£¥%]))
|(?P<weekday>\b(?P<wd>{_any(_WEEKDAYS)})\b)
|(?P<label>\+?\d+(?:[.:/-]\d+){{2,}}|\d{{3,}}(?:[-\ ]\d{{3,}})+)
|(?P<number>(?:(?P<sign>[$€£¥])\ ?)?(?P<digits>\d{{1,3}}(?:[,.]\d{{3}})+(?!\d)|\d+(?:,\d\d?(?!\d)|\.\d+)?)(?:\ ?(?P<scale>{_any(_SCALES)})\b)?(?:\ ?(?P<unit>{_any(_UNITS)})(?!\w))?(?![\w-]))
|(?P<count>\b(?P<name>{_any(_COUNTS)})\b(?!\ (?:of|day|another|thing|to)\b|-)(?:\ (?P<unit2>{_any(_UNITS)})\b)?)
|{_WORD.pattern}""",
    re.VERBOSE,
)
# A number behind one of these is a figure; behind another noun it tells which one is meant ("Lamp 3", "User 4711").
_BEFORE_FIGURES: Final = words("""at on to for of in within every most least only by from than exactly with cost costs take takes need needs weigh weighs
    last lasts hold holds own owns keep keeps pay pays earn earns get gets allow allows and about under over up down
    kostet coûte cuesta custa turned""")


_ROUNDED: Final = 0.03  # 8 km and 5 miles
_MAX_NUMBER: Final = 1e300
_MAX_TEXT_CHARS: Final = 40
_GROUPED: Final = re.compile(r"\d{1,3}(?:[,.]\d{3})+")
_FIRST: Final = re.compile(r" +([^\W\d_]+)")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, a date, a weekday or a time of day.

    Attributes:
        kind: `date` (year, month, day), `weekday`, `clock` (minute of the day), `label` (a telephone number, an address),
            a dimension such as `time` or `euro`, or nothing for a bare count.
        value: its parts in the base measure; a part that is not said is None.
        text: as it was written.
        unit: as it was written, or nothing.
    """

    kind: str
    value: tuple[float | str | None, ...]
    text: str
    unit: str = ""

    def differs(self, other: Figure) -> bool:
        """Whether both name a part of one kind, and not the same; in other units, not nearly the same."""
        if self.kind.startswith("~"):
            return False
        one, two = self.value[0], other.value[0]
        if self.unit != other.unit and isinstance(one, float) and isinstance(two, float):
            return self.kind == other.kind and abs(one - two) > _ROUNDED * max(one, two)
        return self.kind == other.kind and any(
            one is not None and two is not None and one != two
            for one, two in zip(self.value, other.value, strict=True)
        )

    @property
    def is_date(self) -> bool:
        """Whether it tells when."""
        return self.kind in {"date", "weekday", "clock"}


Item: TypeAlias = "str | Figure"


def items(text: str) -> list[Item]:
    """The words and figures of a lowercase clause, in order; a number that names a thing is a word of its own.

    >>> items("an evening costs 65 dollars")[-1]
    Figure(kind='dollar', value=(65.0,), text='65 dollars', unit='dollars')
    >>> items("user 4711 likes tea")
    ['user', '#4711', 'likes', 'tea']
    >>> items("the deadline is on march 3")[-1].value
    (None, 3.0, 3.0)
    """
    plain = _WORD.findall(text)
    if not _DIGIT.search(text) and _FIGURE_WORDS.isdisjoint(plain):
        return list(plain)
    found: list[Item] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup is None:  # a word
            found.append(match[0])
            continue
        is_number = match["number"] or match["count"] or match["label"]
        figure = _number(match) if is_number else _date(match)
        if is_number and _names(found, figure, text[match.end() :]):
            found.append(f"#{figure.text}")
        elif found and found[-1] in terms.ROUGHLY:  # of a kind of its own, which no other figure differs from
            found.append(replace(figure, kind=f"~{figure.kind}"))
        else:
            found.append(figure)
    return found


def _names(before: list[Item], figure: Figure, after: str) -> bool:
    """Whether a number tells which one is meant rather than how many."""
    if not before or figure.kind not in {"", "label"} or not isinstance(before[-1], str):
        return False
    last = before[-1]
    if last in terms.IDENTIFYING or len([item for item in before if item not in terms.ARTICLES]) == 1:
        return last not in _BEFORE_FIGURES and last not in terms.AUXILIARIES
    if last in _BEFORE_FIGURES or last in terms.AUXILIARIES or stem(last) in terms.ATTRIBUTES:
        return False
    following = _FIRST.match(after)
    return following is None or following[1] in terms.AUXILIARIES


def _number(match: re.Match[str]) -> Figure:
    text, name, digits = match[0].strip(), match["name"], match["digits"]
    if digits and _GROUPED.fullmatch(digits):
        digits = digits.replace(",", "").replace(".", "")
    value = float(digits.replace(",", ".")) if digits else _COUNTS.get(name, 0.0)
    if match["label"] or value > _MAX_NUMBER:
        return Figure("label", (text,), text[:_MAX_TEXT_CHARS])
    unit = match["unit"] or match["sign"] or match["unit2"] or ""
    dimension, factor = _UNITS.get(unit, ("", 1.0))
    return Figure(dimension, (round(value * _SCALES.get(match["scale"], 1.0) * factor, 9),), text, unit)


def _date(match: re.Match[str]) -> Figure:
    text, said = match[0].strip(), match.groupdict()

    def first(*names: str) -> float | None:
        return next((float(said[name]) for name in names if said[name]), None)

    if said["wd"]:
        return Figure("weekday", (_WEEKDAYS[said["wd"]],), text)
    if said["clock"]:
        hour = first("h", "h2", "h3")
        if hour is None:
            hour = 12.0 if said["noon"] == "noon" else 0.0
        hour += 12 if said["half"] == "p" and hour < 12 else -12 if said["half"] == "a" and hour == 12 else 0
        return Figure("clock", ((hour * 60 + (first("min", "min2") or 0)) % 1_440,), text)
    name = said["mm"] or said["mm2"] or said["mm3"] or said["mm4"]
    month = _MONTHS[name] if name else first("im")
    return Figure(
        "date", (first("iy", "yy", "yy2", "yy3", "yy4"), month, first("id", "dd", "dd2", "dd3")), text
    )
