"""The words of a clause, and its figures among them: numbers with their units, dates, weekdays, times of day.

Units of one dimension are brought to one measure (10 minutes and 1 hour compare); a date has the parts that it names (a
month and a day compare with a month, a day and a year). Nothing is relative to a clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.vocabulary import stem, words


def _numbers(text: str) -> dict[str, float]:
    """Words for numbers from 1 up, those of one number between two slashes."""
    rows = enumerate(text.replace("\n", "").split("/"), 1)
    return {name: float(number) for number, names in rows for name in names.split()}


# ── Names ───────────────────────────────────────────────────────────────────────────────

_MONTHS: Final = _numbers("""
january jan januar janvier enero janeiro/february feb februar février febrero fevereiro/march mar märz mars marzo março/
april apr avril abril/may mai mayo maio/june jun juni juin junio junho/july jul juli juillet julio julho/
august aug août agosto/september sept sep septembre septiembre setembro/october oct oktober octobre octubre outubro/
november nov novembre noviembre novembro/december dec dezember décembre diciembre dezembro""")
_SEASONS: Final = _numbers(
    20 * "/"
    + """spring frühling frühjahr printemps primavera/summer sommer été verano/
autumn fall herbst automne otoño/winter hiver invierno"""
)  # months 21 to 24 of a date, apart from all others
_WEEKDAYS: Final = _numbers("""
monday montag lundi lunes segunda/tuesday dienstag mardi martes/wednesday mittwoch mercredi miércoles/
thursday donnerstag jeudi jueves/friday freitag vendredi viernes/saturday samstag samedi sábado/
sunday sonntag dimanche domingo""")
_COUNTS: Final = _numbers("""one/two zwei deux/three drei trois tres/four vier quatre cuatro/five fünf cinq cinco/six sechs seis/
seven sieben siete/eight acht huit ocho/nine neun nueve/ten zehn dix diez/eleven elf onze/twelve zwölf douze doce""")
_COUNTS.update(zero=0.0, fifteen=15.0, twenty=20.0, thirty=30.0, forty=40.0, fifty=50.0, hundred=100.0)
_SCALES: Final = {"k": 1e3, "million": 1e6, "thousand": 1e3, "bn": 1e9, "billion": 1e9, "mio": 1e6}
_UNITS_TEXT: Final = """
time 1 s sec second, time 60 min minute, time 3600 h hour, time 86400 day, time 604800 week, time 2592000 month,
time 31557600 year, time 60 minuten, time 3600 stunde stunden heure hora, time 86400 tag tage jour día dia,
time 604800 woche wochen semaine semana, time 2592000 monat monate mois mes meses, time 31557600 jahr jahre ans año ano,
time 0.001 ms, length 1 m metre meter, length 0.01 cm, length 0.001 mm, length 1609.34 mile,
length 1000 km kilometre kilometer, bytes 1 b byte, bytes 1e3 kb, bytes 1e6 mb, bytes 1e9 gb, bytes 1e12 tb,
mass 1 g gram, mass 1000 kg kilo kilogram, mass 1e6 ton tonne, share 1 % percent prozent, dollar 1 $ dollar usd,
canadian 1 cad, euro 1 € euro eur, pound 1 £ gbp, yen 1 ¥ yen jpy"""
_UNITS: Final = {
    name: (dimension, float(factor))
    for dimension, factor, *names in map(str.split, _UNITS_TEXT.split(","))
    for name in names
}
_WHEN: Final = _MONTHS | _SEASONS
MONTH: Final = "|".join(_MONTHS)
WHEN: Final = rf"{MONTH}|\w+day|spring|summer|autumn|winter"
# A number behind one of these is a figure; behind another noun it tells which one is meant ("Lamp 3", "User 4711").
BEFORE_FIGURES: Final = words("""within every most least only exactly and up down cost take need weigh last hold own
keep pay earn get allow turn kostet coût cuesta custa""").union(terms.LEADS, terms.AUXILIARIES, terms.ADVERBS)

# ── Forms ───────────────────────────────────────────────────────────────────────────────

WORD: Final = re.compile(r"[^\W_]\w*(?:['./_&+\#@-]+\w+)*[+\#]*|:(?=[ ])")
_HOURS: Final = "|".join(name for name, count in _COUNTS.items() if 1 <= count <= 12)
_FORMS: Final = {
    "iso": r"\d{4}-\d\d?(?:-\d\d?)?(?![\w-])",
    "clock": r"\d\d?(?:[:h.]\d\d)? ?[ap]\.?m\b|\d\d?[:h]\d\d(?![\d:])|\b(?:noon|midnight)\b|"
    rf"(?:\b(?:half past|halb) |(?<=\b(?:at|um) )|(?<=\ba las ))(?:\d\d?|{_HOURS})"
    r"(?= o'clock| uhr| (?:from|in|on|every)\b| *$|[,;.](?!\d))",
    "date": rf"\d\d?(?:st|nd|rd|th|\.|er|º)? (?:of |de )?(?:{MONTH})\b(?:,? (?:de )?\d{{4}})?|"
    rf"\b(?:{MONTH}) (?:\d\d?(?:st|nd|rd|th)?(?![\w:])(?:,? \d{{4}})?|\d{{4}}(?!\d))",
    "month": rf"(?<=\b(?:in|of|by|im|en|em) )(?:{MONTH})\b"
    rf"|(?<=\b(?:in|im|en|au) )(?:(?:the|el) )?(?:{'|'.join(_SEASONS)})\b",
    "year": r"(?:(?<=\b(?:in|of|by) )|(?<=\bfrom )|(?<=\b(?:since|until|after) ))(?:19|20)\d\d(?!\d|[.,]\d| ?[$€£¥%])",
    "day": r"(?<=the )\d\d?(?:st|nd|rd|th)\b",
    "weekday": rf"\b(?:{'|'.join(_WEEKDAYS)})s?\b",
    "label": r"\+?\d+(?:[.:/-]\d+){2,}|\d{3,}(?:[- ]\d{3,})+|\d[\d.,]{20,}",
    "number": rf"(?:(?P<sign>[$€£¥]) ?)?(?:(?P<digits>\d{{1,3}}(?:[,.]\d{{3}})+(?!\d)|\d+(?:,\d\d?(?!\d)|\.\d+)?)|"
    rf"\b(?P<name>{'|'.join(_COUNTS)})\b(?! (?:of|day|another|thing|to)\b))"
    rf"(?: ?(?P<scale>{'|'.join(_SCALES)})\b)?(?: ?(?P<unit>{'|'.join(map(re.escape, _UNITS))})s?(?!\w))?(?![\w-]|\.[^\W\d])",
}
_DAYS: Final = {day + end for day in _WEEKDAYS for end in ("", "s", "'s")}
_SPELLED: Final = {*_WHEN, *_COUNTS, *_DAYS, "noon", "midnight"}
_FIGURES: Final = "|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items())
_TOKEN: Final = re.compile(f"{_FIGURES}|{WORD.pattern}")
_ROUNDED: Final = 0.08  # 8 km and 5 miles, 3 months and 12 weeks
_MIN_YEAR: Final = 100


DATES: Final = frozenset({"date", "weekday", "weekdays", "clock"})  # kinds of figures that tell when


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, a date, a weekday or a time of day. Two are equal if they mean the same, however they are written.

    Attributes:
        kind: `date` (year, month, day), `weekday`, `weekdays` (recurring), `clock` (minute of the day), `label` (a
            telephone number, an address), a dimension such as `time` or `euro`, or nothing for a bare count.
        value: its parts in the base measure; a part that is not said is None.
        text: as it was written.
        unit: as it was written, in the singular, or nothing.
    """

    kind: str
    value: tuple[float | str | None, ...]
    text: str = field(compare=False)
    unit: str = field(default="", compare=False)

    def differs(self, other: Figure) -> bool:
        """Whether both are of one kind and give a part of it differently; in two units, if they are not nearly equal."""
        if self.kind != other.kind or self.kind.startswith("~"):
            return False
        one, two = self.value[0], other.value[0]
        if self.unit != other.unit and isinstance(one, float) and isinstance(two, float):
            return abs(one - two) > _ROUNDED * max(one, two)
        parts = zip(self.value, other.value, strict=True)
        return any(one != two for one, two in parts if None not in {one, two})


Item: TypeAlias = "str | Figure"  # a word or a figure


def items(text: str) -> list[Item]:
    """The words and figures of a lowercase clause, in order; a number that names a thing is a word of its own.

    >>> items("an evening costs 65 dollars")[-1]
    Figure(kind='dollar', value=(65.0,), text='65 dollars', unit='dollar')
    >>> items("user 4711 likes tea")
    ['user', '#4711', 'likes', 'tea']
    >>> items("the deadline is on march 3")[-1].value
    (None, 3.0, 3.0)
    """
    spelled = WORD.findall(text)
    if not re.search(r"\d", text) and _SPELLED.isdisjoint(spelled):  # as most texts are
        return list(spelled)
    found: list[Item] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup is None:  # a word
            found.append(match[0])
            continue
        figure = _figure(match)
        if figure.kind in {"", "label"} and _is_name(found, text[match.end() :]):
            found.append(f"#{figure.text}")
        elif found and found[-1] in terms.ROUGHLY:  # of a kind of its own, which no other figure differs from
            found.append(replace(figure, kind=f"~{figure.kind}"))
        else:
            found.append(figure)
    return found


def _is_name(before: list[Item], after: str) -> bool:
    """Whether a number tells which one is meant rather than how many."""
    if not before or not isinstance(before[-1], str) or {before[-1], stem(before[-1])} & BEFORE_FIGURES:
        return False
    if before[-1] in terms.IDENTIFYING or len([item for item in before if item not in terms.ARTICLES]) == 1:
        return True
    following = re.match(r" +([^\W\d_]+)", after)
    is_last = following is None or following[1] in terms.AUXILIARIES
    return is_last and stem(before[-1]) not in terms.ATTRIBUTES


def _figure(match: re.Match[str]) -> Figure:
    """The figure that a match spells."""
    text, form = match[0], match.lastgroup or ""
    if form == "number":
        return _number(match)
    if form == "label":
        return Figure(form, (text,), text)
    if form == "weekday":
        one = text if text in _WEEKDAYS else text[:-1]
        return Figure(form if one == text else "weekdays", (_WEEKDAYS[one],), text)
    numbers = [float(number) for number in re.findall(r"\d+", text)]
    if form == "clock":
        numbers = numbers or [_COUNTS[name] for name in text.split() if name in _COUNTS]
        hour, minute = (*numbers, 0.0)[:2] if numbers else (12.0 * (text == "noon"), 0.0)
        if noon := re.search(r"\d ?([ap])", text):
            hour = hour % 12 + 12 * (noon[1] == "p")
        minute += 30 * text.startswith("half") - 30 * text.startswith("halb")
        return Figure(form, ((hour * 60 + minute) % 1_440,), text)
    months = [_WHEN[name] for name in re.findall(r"[^\W\d_]+", text) if name in _WHEN]
    parts = [*months, *(number for number in numbers if number < _MIN_YEAR), None, None]
    year = next((number for number in numbers if number >= _MIN_YEAR), None)
    return Figure("date", (None, None, *numbers) if form == "day" else (year, *parts[:2]), text)


def _number(match: re.Match[str]) -> Figure:
    digits, unit = match["digits"] or "", match["unit"] or match["sign"] or ""
    if re.fullmatch(r"\d{1,3}(?:[,.]\d{3})+", digits):
        digits = re.sub("[,.]", "", digits)
    value = float(digits.replace(",", ".")) if digits else _COUNTS[match["name"]]
    dimension, factor = _UNITS.get(unit, ("", 1.0))
    return Figure(dimension, (round(value * _SCALES.get(match["scale"], 1.0) * factor, 9),), match[0], unit)
