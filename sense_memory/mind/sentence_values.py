"""The values in a text: weekdays, dates, times, months, numbers and names. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Mapping


WEEKDAY: Final = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonntags?|lundi"
    r"|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
)
MONTH: Final = (
    r"january|february|march|april|may|june|july|august|september|october|november|december|jänner|januar|februar|märz|mai|juni|juli"
    r"|oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril"
    r"|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
_ORDINAL: Final = (
    rf"\b(?:{MONTH}) \d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th|er|\.)?(?: of| de)? (?:{MONTH})\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)\b|(?<=\bder )\d{1,2}\.(?!\d)|(?<=\b[ad]en )\d{1,2}\.(?!\d)|(?<=\bam )\d{1,2}\.(?!\d)|\b\d{4}-\d{2}-\d{2}\b"
)
_CLOCK: Final = (
    r"(?:\b\d{1,2}[:.]\d{2}(?: ?(?:am|pm|uhr|h))?\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b"
    r"|\b(?:at|um|till|until|to) (?:half past )?(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon"
    r"|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf)\b(?! \w+s\b))"
)
_NUMBER: Final = r"(?<![\w.,])\d[\d,.]*\d(?![\w])|(?<![\w.,])\d(?![\w])|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty)\b"
_NAME: Final = r"(?<=[^.!?:\s] )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+|(?<=\()[A-Z]\w+"
_VALUES: Final = (
    ("weekday", re.compile(rf"\b(?:{WEEKDAY}|tomorrow|today|tonight)\b", re.IGNORECASE)),
    ("date", re.compile(_ORDINAL, re.IGNORECASE)),
    ("time", re.compile(_CLOCK, re.IGNORECASE)),
    ("month", re.compile(rf"\b(?:{MONTH})\b(?<!\bmay)", re.IGNORECASE)),
    ("number", re.compile(_NUMBER, re.IGNORECASE)),
    ("name", re.compile(_NAME)),
)


@lru_cache(4_096)
def values_of(text: str) -> Mapping[str, tuple[str, ...]]:
    """The values in a text by kind: weekday, date, time, month, number, name. What is part of a date is no number.

    >>> values_of("On Friday the 14th at 19:00 Anna brings 12 glasses.")
    {'weekday': ('Friday',), 'date': ('14th',), 'time': ('19:00',), 'number': ('12',), 'name': ('Anna',)}
    """
    found = dict[str, tuple[str, ...]]()
    for kind, pattern in _VALUES:
        held = tuple(match[0] for match in pattern.finditer(text))
        if held:
            found[kind] = held
            text = pattern.sub(lambda match: "_" * len(match[0]), text) if kind != "name" else text
    return found
