"""What kind of answer a question asks for, and whether a text has one: a price, an age, a time, a person, a place.

"What does Mira earn?" is not answered by "Mira works four days a week", although both are about Mira and work: no amount
of money stands there. The kinds are those whose answers have a form that a pattern can see, in English. A question of
another kind, or in another language, asks for nothing that `has_answer` could miss.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from sense_memory.search.tokens import fold, words


class Answer(StrEnum):
    """A kind of answer that has a form."""

    COLOUR = "colour"
    EMAIL = "email"
    DIGITS = "digits"  # of a telephone, an account, a postcode
    AGE = "age"
    PRICE = "price"
    NUMBER = "number"
    TIME = "time"
    PERSON = "person"
    NAME = "name"
    PLACE = "place"
    REASON = "reason"


# The first that fits a question counts.
_ASKED: Final = (
    (Answer.COLOUR, r"\bcolou?r\b"),
    (Answer.EMAIL, r"\be-?mail address\b"),
    (
        Answer.DIGITS,
        r"\b(?:(?:tele)?phone|account|tax|serial) number\b|\bpostcode\b|\bzip code\b|\baddress\b",
    ),
    (
        Answer.TIME,
        (
            r"^(?:when|what time|at what time|until when|since when|(?:on )?(?:which|what) (?:day|date|evening)s?)\b"
            r"|\bbirthday\b|\bdate of\b"
        ),
    ),
    (Answer.AGE, r"\bhow old\b|\bage\b"),
    (
        Answer.PRICE,
        (
            r"^(?:what|how much|how big|how high)\b.*\b(?:costs?|price|earns?|salary|charges?|fee|fine|deposit|turnover|budget"
            r"|owes?|hourly rate|money|rent)\b|^how much (?:is|are|did we get)\b"
        ),
    ),
    (
        Answer.NUMBER,
        (
            r"\bhow (?:many|much|tall|long|far|big|deep|heavy|hot|often|early|late|large|high|wide|fast)\b"
            r"|\b(?:size|rate|number of|percentage|weight|height)\b"
        ),
    ),
    (Answer.PERSON, r"^(?:with )?(?:who|whose|whom)\b"),
    (
        Answer.NAME,
        (
            r"\b(?:called|name|surname)\b|^(?:which|what) (?:airline|bank|book|brand|car|city|company|country|database|doctor|editor"
            r"|film|framework|hotel|licen[cs]e|magazine|model|movie|newspaper|phone|publisher|restaurant|school|shop|software|store"
            r"|street|team|tool|university)\b"
        ),
    ),
    (Answer.PLACE, r"^(?:from )?where\b|^in (?:which|what) (?:city|town|country)\b"),
    (Answer.REASON, r"^why\b"),
)
_KINDS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _ASKED)

_NUMERALS_TEXT: Final = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand half
twice once both pair twin twins dozen first second third only youngest
"""
_NUMERALS: Final = frozenset(_NUMERALS_TEXT.split())
_COLOURS_TEXT: Final = """
black white red green blue yellow brown grey gray pink purple orange beige turquoise violet silver gold
dark light
"""
_COLOURS: Final = frozenset(_COLOURS_TEXT.split())
_TIMES_TEXT: Final = """
january february march april may june july august september october november december jan feb mar apr jun
jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays
wednesdays thursdays fridays saturdays sundays morning evening afternoon noon night midnight day days
week weeks weekend weekends month months year years spring summer autumn winter easter christmas today
tomorrow yesterday daily weekly hour hours minute minutes until before after since while o'clock
"""
_TIMES: Final = frozenset(_TIMES_TEXT.split())
_OF: Final = "'s"
_DIGITS: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_NEAR: Final = re.compile(r"\b(?:in|at|from|to|near|above|behind|by|of|on|under|beside)\b")
_MONEY: Final = re.compile(
    r"\d.*?(?:€|\$|£|eur|pound|dollar|cent|chf|franc|usd)|[€$£]\s?\d|percent|\d ?%|\bfree\b"
)
_AGED: Final = re.compile(
    r"years? old|-year-old|\baged\b|\bturn(?:s|ed|ing)? \d|\bborn\b|birthday"
    rf"|\b(?:is|was) (?:\d+|{'|'.join(sorted(_NUMERALS))})\b(?! (?:days|weeks|months|hours|minutes|euros|people))"
)
_BECAUSE: Final = re.compile(r"\b(?:because|since|so that|due|for|as|so)\b")
_CAPITAL: Final = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w'-]+")
_IN_PLACE: Final = re.compile(
    r"\b(?:in|at|from|to|near|into) (?:the )?[A-Z][\w'-]+"
)  # where, and not what or who
_FIRST: Final = re.compile(r"[A-Z][\w-]+")
_NO_NAMES: Final = frozenset(
    {"the", "a", "an", "on", "in", "to", "we", "there", "it", "never", "always", "i"}
)


def asked_for(question: str) -> Answer | None:
    """The kind of answer that a question asks for; None for a kind without a form, or another language."""
    folded = fold(question).strip()
    return next((kind for kind, pattern in _KINDS if pattern.search(folded)), None)


def has_answer(kind: Answer | None, question: str, text: str) -> bool | None:
    """Whether a text has something of the kind that a question asks for, which the question does not say itself.

    Returns:
        None if that cannot be told: without a kind, and for a place after a preposition that is no name.
    """
    if kind is None:
        return None
    folded = fold(text)
    match kind:
        case Answer.COLOUR:
            return not _COLOURS.isdisjoint(words(text))
        case Answer.EMAIL:
            return "@" in text
        case Answer.DIGITS:
            return sum(map(str.isdigit, text)) > 2
        case Answer.AGE:
            return bool(_AGED.search(folded))
        case Answer.PRICE:
            return bool(_MONEY.search(folded))
        case Answer.NUMBER:
            return _has_number(question, text) or not (_NUMERALS - {*words(question)}).isdisjoint(words(text))
        case Answer.TIME:
            return _has_number(question, text) or not _TIMES.isdisjoint(words(text))
        case Answer.PERSON:
            return _names_another(question, _IN_PLACE.sub("", text)) or _begins_with_name(question, text)
        case Answer.NAME:
            return _names_another(question, _IN_PLACE.sub("", text))
        case Answer.PLACE:
            return _has_place(question, text)
        case Answer.REASON:
            return bool(_BECAUSE.search(folded))


def _has_number(question: str, text: str) -> bool:
    return not set(_DIGITS.findall(text)) <= set(_DIGITS.findall(question))


def _names_another(question: str, text: str) -> bool:
    asked = {word.removesuffix(_OF) for word in words(question)} | {"i"} | _TIMES
    return any(fold(name).removesuffix(_OF) not in asked for name in _CAPITAL.findall(text))


def _begins_with_name(question: str, text: str) -> bool:
    first = _FIRST.match(text)
    asked = {word.removesuffix(_OF) for word in words(question)} | _NO_NAMES
    return first is not None and fold(first[0]).removesuffix(_OF) not in asked


def _has_place(question: str, text: str) -> bool | None:
    if not _NEAR.search(text):
        return False
    return True if _names_another(question, text) else None
