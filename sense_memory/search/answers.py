"""What kind of answer a question asks for, and whether a text has one: a price, an age, a time, a person, a place.

"What does Mira earn?" is not answered by "Mira works four days a week", although both are about Mira and work: no amount
of money stands there. The kinds are those whose answers have a form that a pattern can see, in English. A question of
another kind, or in another language, asks for nothing that `has_answer` could miss.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.search.tokens import fold, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Sequence


class AnswerKind(StrEnum):
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
    WHICH = "which"  # of several: "which orchestra"


# The first that fits a question counts.
_ASKED: Final = (
    (AnswerKind.COLOUR, r"\bcolou?r\b"),
    (AnswerKind.EMAIL, r"\be-?mail address\b"),
    (
        AnswerKind.DIGITS,
        r"\b(?:(?:tele)?phone|account|tax|serial) number\b|\bpostcode\b|\bzip code\b|\baddress\b",
    ),
    (
        AnswerKind.TIME,
        (
            r"^(?:when|what time|at what time|until when|since when|(?:on |by )?(?:which|what) (?:day|date|evening)s?(?! rate))\b"
            r"|\bbirthday\b|\bdate of\b"
        ),
    ),
    (AnswerKind.AGE, r"\bhow old\b|\bage\b"),
    (
        AnswerKind.PRICE,
        (
            r"^(?:what|how much|how big|how high)\b.*\b(?:costs?|price|earns?|salary|charges?|fee|fine|deposit|turnover|budget"
            r"|owes?|hourly rate|money|rent)\b|^how much (?:is|are|did we get)\b"
        ),
    ),
    (
        AnswerKind.NUMBER,
        (
            r"\bhow (?:many|much|tall|long|far|big|deep|heavy|hot|often|early|late|large|high|wide|fast)\b"
            r"|\b(?:size|rate|dose|number of|percentage|weight|height)\b"
        ),
    ),
    (AnswerKind.PERSON, r"^(?:with )?(?:who|whose|whom)\b"),
    (
        AnswerKind.NAME,
        (
            r"\b(?:called|names?|surname)\b|^(?:which|what) (?:airline|bank|book|brand|car|city|company|country|database|doctor|editor"
            r"|film|framework|hotel|licen[cs]e|magazine|model|movie|newspaper|phone|publisher|restaurant|school|shop|software|store"
            r"|street|team|tool|university)\b"
        ),
    ),
    (AnswerKind.PLACE, r"^(?:from )?where\b|^in (?:which|what) (?:city|town|country)\b"),
    (AnswerKind.REASON, r"^why\b"),
    (
        AnswerKind.WHICH,
        r"^(?:in |on |at |from |for |with |by )?(?:which|what) (?!is\b|are\b|was\b|were\b|do\b|does\b|did\b|kind\b|type\b)[a-z]+",
    ),
)
_KINDS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _ASKED)

_NUMERALS_TEXT: Final = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand half
twice once both pair twin twins dozen first second third only youngest
"""
_NUMERALS: Final = frozenset(_NUMERALS_TEXT.split())
_CLOCK: Final = _NUMERALS_TEXT.split()[:12]
_COLOURS_TEXT: Final = """
black white red green blue yellow brown grey gray pink purple orange beige turquoise violet silver gold
dark light
"""
_COLOURS: Final = frozenset(_COLOURS_TEXT.split())
_TIMES_TEXT: Final = """
january february march april may june july august september october november december jan feb mar apr jun
jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mondays tuesdays
wednesdays thursdays fridays saturdays sundays morning mornings evening evenings afternoon afternoons noon night
midnight weekend weekends spring summer autumn winter easter christmas today tomorrow yesterday daily weekly
monthly yearly o'clock
"""
_TIMES: Final = frozenset(_TIMES_TEXT.split())
_OF: Final = "'s"
# A number that is a time: a year, a clock, a date; "day" and "since" alone are none ("since school").
_WHEN: Final = re.compile(
    r"\b(?:1[89]|20)\d\d\b|\b\d{1,2}[:.]\d\d\b|\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2} ?(?:am|pm)\b"
    rf"|\b(?:at|until|till|before|after|by|from|since|in) (?:half past |the )?(?:\d{{1,2}}|{'|'.join(_CLOCK)})\b(?! ?%)"
    r"|\b(?:\d+|an?|one|two|three|four|five|six|ten) (?:days?|weeks?|months?|years?|hours?) (?:ago|later|before|after)\b"
)
_COUNTED: Final = re.compile(r"\bhow many ([a-z]+)")
_NAMED: Final = re.compile(r"\b(?:called|named|known as|answers to|name is)\b")
_APART: Final = 3  # words at most between a number and what it counts
_DIGITS: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_NEAR: Final = re.compile(r"\b(?:in|at|from|to|near|above|behind|by|of|on|under|beside)\b")
# A number and, later on its line, a currency: from the first number, or a long line of numbers takes time by its square.
_MONEY: Final = re.compile(
    r"^[^\d\n]*\d.*?(?:€|\$|£|eur|pound|dollar|cent|chf|franc|usd)|[€$£]\s?\d|percent|\d ?%|\bfree\b",
    re.MULTILINE,
)
_AGED: Final = re.compile(
    r"years? old|-year-old|\baged\b|\bturn(?:s|ed|ing)? \d|\bborn\b|birthday"
    rf"|\b(?:is|was) (?:\d+|{'|'.join(sorted(_NUMERALS))})\b(?! (?:days|weeks|months|hours|minutes|euros|people))"
)
_BECAUSE: Final = re.compile(r"\b(?:because|since|so that|due|for|as|so)\b")
_NAME: Final = r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)*"
_CAPITAL: Final = re.compile(rf"(?<![.!?]\s)(?<!^)\b{_NAME}")
_IN_PLACE: Final = re.compile(
    rf"\b(?:in|at|from|to|near|into) (?:the )?{_NAME}"
)  # where, and not what or who
_NO_PERSON: Final = re.compile(rf"{_IN_PLACE.pattern}|\b[A-Z]{{2,}}\b")
_WORD: Final = re.compile(r"[\w'-]+")
_FIRST: Final = re.compile(_NAME)
_KIND: Final = re.compile(r"\b(?:which|what) ([a-z]+)")
_DETERMINERS_TEXT: Final = "the a an this that my your his her its our their"
_KNOWN: Final = frozenset(_DETERMINERS_TEXT.split())
_NO_NAMES: Final = frozenset(
    {"the", "a", "an", "on", "in", "to", "we", "there", "it", "never", "always", "i"}
)


@lru_cache(64)  # asked for each hit of a search
def asked_for(question: str) -> AnswerKind | None:
    """The kind of answer that a question asks for; None for a kind without a form, or another language."""
    folded = fold(question).strip()
    return next((kind for kind, pattern in _KINDS if pattern.search(folded)), None)


def has_answer(kind: AnswerKind | None, question: str, text: str) -> bool | None:
    """Whether a text has something of the kind that a question asks for, which the question does not say itself.

    Returns:
        None if that cannot be told: without a kind, and for a place after a preposition that is no name.
    """
    if kind is None:
        return None
    folded = fold(text)
    match kind:
        case AnswerKind.COLOUR:
            return not _COLOURS.isdisjoint(words(text))
        case AnswerKind.EMAIL:
            return "@" in text
        case AnswerKind.DIGITS:
            return sum(map(str.isdigit, text)) > 2
        case AnswerKind.AGE:
            return bool(_AGED.search(folded))
        case AnswerKind.PRICE:
            return bool(_MONEY.search(folded))
        case AnswerKind.NUMBER:
            return _has_count(question, text)
        case AnswerKind.TIME:
            return bool(_WHEN.search(folded)) or not (_TIMES - {*words(question)}).isdisjoint(words(text))
        case AnswerKind.PERSON:
            without = _NO_PERSON.sub("", text)
            return _names_another(question, without) or _begins_with_name(question, without)
        case AnswerKind.NAME if _only_mentions(question, text):
            return False
        case AnswerKind.NAME:
            return bool(_NAMED.search(folded)) or _names_another(question, _IN_PLACE.sub("", text))
        case AnswerKind.PLACE:
            return _has_place(question, text)
        case AnswerKind.REASON:
            return bool(_BECAUSE.search(folded))
        case AnswerKind.WHICH:
            return False if _only_mentions(question, text) else None


def _has_count(question: str, text: str) -> bool | None:
    """Whether a text has a number, and of what is counted if it has that; None if it has it of something else."""
    said, asked = words(text), {*words(question)}
    places = [
        at for at, word in enumerate(said) if (word in _NUMERALS or word[0].isdigit()) and word not in asked
    ]
    if not places:
        return False
    counted = _COUNTED.search(fold(question))
    if counted is None:
        return True
    stem = stemmer("english")
    of = [at for at, word in enumerate(said) if stem(word) == stem(counted[1])]
    if not of:
        return None
    return any(0 < it - at <= _APART for at in places for it in of)


def _only_mentions(question: str, text: str) -> bool:
    """Whether a text speaks of "the orchestra" without a word about which one, where the question asks for that."""
    kind = _KIND.search(fold(question))
    if kind is None:
        return False
    said = _WORD.findall(text)
    places = [at for at, word in enumerate(said) if fold(word) == kind[1]]
    return bool(places) and all(_is_mentioned(said, at) for at in places)


def _is_mentioned(said: Sequence[str], at: int) -> bool:
    before, after = said[at - 1 : at], said[at + 1 : at + 2]
    is_named = any(word[0].isupper() or word in {"is", "called", "named"} for word in after)
    return any(fold(word) in _KNOWN for word in before) and not is_named


def _names_another(question: str, text: str) -> bool:
    """Whether a text has a name of which the question has no part: "Jonas Weidmann" is no other than Jonas."""
    asked = _asked(question) | {"i"} | _TIMES
    return any(asked.isdisjoint(_parts(name)) for name in _CAPITAL.findall(text))


def _begins_with_name(question: str, text: str) -> bool:
    first = _FIRST.match(text)
    return first is not None and (_asked(question) | _NO_NAMES).isdisjoint(_parts(first[0]))


def _asked(question: str) -> set[str]:
    return {word.removesuffix(_OF) for word in words(question)}


def _parts(name: str) -> set[str]:
    return {word.removesuffix(_OF) for word in fold(name).split()}


def _has_place(question: str, text: str) -> bool | None:
    if not _NEAR.search(text):
        return False
    return True if _names_another(question, text) else None
