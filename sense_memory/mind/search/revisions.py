"""How strongly a later statement speaks against an earlier one that it does not repeat: "Ignore Wednesday." Pure.

Evidence is a word that both statements share, a word that says that something was wrong or is new ("misread", "all along",
"recounted"), a denial of something that the earlier statement names ("don't touch the red wheel"), and another value of the
same kind ("12 cm" for "5 cm", "2009" for "2011"). Each counts some points. A sure revision has enough points for a mark; a
suspected one only ranks before the earlier statement. What is told as an event ("rotated the password today") revises
nothing. The cost is some 0.2 ms for each text that is read for the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences, tells_of_past
from sense_memory.mind.sentence_values import MONTH, WEEKDAY
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_CHARS: Final = 160  # longer texts are not compared: they say too much to revise, or to be revised, as a whole
_MOST_SENTENCES: Final = 3
_FACTS: Final = frozenset(
    {SentenceKind.STATEMENT, SentenceKind.DATE, SentenceKind.DECISION, SentenceKind.INSTRUCTION, SentenceKind.COMMAND}
)
_SURE: Final = 4.0
_SUSPECTED: Final = 2.5
_LANGUAGES: Final = ("english", "german", "french")
_HOLDING: Final = frozenset({SentenceKind.STATEMENT, SentenceKind.DATE, SentenceKind.CORRECTION})


class Revision(IntEnum):
    """What a later statement does to an earlier one."""

    NONE = 0
    SUSPECTED = 1
    SURE = 2


_NUMBERS: Final = {
    **{word: str(number) for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)},
    **{word: str(number) for number, word in enumerate("first second third fourth fifth sixth seventh eighth ninth tenth".split(), 1)},
    **{word: str(number) for number, word in enumerate("zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split(), 2)},
}  # fmt: skip
_STOPS: Final = frozenset().union(*(STOP_WORDS[language] for language in _LANGUAGES)) | frozenset(
    "one it's he's she's they're that's there's i'm we're says said say called get got go goes use used".split()
)
_ORDINAL_WORD: Final = "first|second|third|fourth|fifth|sixth|seventh|ground|top|ersten|zweiten|dritten|vierten|fünften"
_NUMBER_WORD: Final = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
_VALUES: Final = (
    ("weekday", rf"\b(?:{WEEKDAY})\b"),
    ("month", rf"\b(?:{MONTH})\b(?<!\bmay)"),
    ("time", r"\b\d{1,2}[:.]\d{2}\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b"
             rf"|\b(?:half|quarter) (?:past |to )?(?:{_NUMBER_WORD})\b|\b(?:at|um) (?:{_NUMBER_WORD})\b(?! \w+s\b)"),
    ("year", r"\b(?:19|20)\d{2}\b(?!:)"),
    ("place in order", rf"\b\d{{1,2}}(?:st|nd|rd|th)\b|\b(?:{_ORDINAL_WORD})\b"),
    ("number", rf"(?<![\w.,])\d[\d,.]*(?![\w])|\b(?:{_NUMBER_WORD})\b"),
)  # fmt: skip
_values = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _VALUES)
_unit = re.compile(r"\s*([a-zäöü%€$]+)", re.IGNORECASE).match
_name = re.compile(r"(?<=[^.!?:,\s] )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+|(?<=, )[A-ZÄÖÜÉ][\w-]+(?= )").findall
_chats = re.compile(
    r"^\W*(?:thanks?|thank you|wow|hey|hi|hello|yeah|yep|yup|yes|aw+|awesome|great|cool|nice|definitely|absolutely|totally|sounds|way to go"
    r"|congrat\w*|glad|haha|danke|merci|bye|sure|ok(?:ay)?|you're right|exactly|good (?:luck|to))\b",
    re.IGNORECASE,
).match
_quoted = re.compile(r"[\"“„«]([^\"”“»]+)[\"”“»]").findall

# That something was wrong, or is otherwise than it was said.
_says_wrong = re.compile(
    r"\b(?:wrong|mistake|mistaken|incorrect|muddled|mixed (?:\w+ )?up|confus\w+|mis(?:read|heard|remember\w+|took|spoke|counted|typed)|typo"
    r"|(?:put|set) (?:me|us) (?:right|straight)|(?:corrected|rectified) (?:me|us|it|that)|stand corrected|(?:all|right) along|after all"
    r"|(?:re-?)(?:counted|measured|checked|read)|(?:counted|measured|looked|checked|asked) (?:\w+ )?(?:again|twice|properly)|double-checked"
    r"|my (?:earlier|first|old|last)|what i (?:said|wrote|told)|turns out|turned out to be|no longer|any ?more|these days|nowadays"
    r"|outdated|out of date|actually|i (?:was|had) (?:\w+ ){0,2}(?:off|old)|hasn't \w+(?: \w+){0,3} (?:for|in) (?:\w+ )?(?:years|months|ages)"
    r"|falsch|vertan|verwechselt|geirrt|stimmt nicht|doch (?:nicht|am|um|im|erst)|nicht mehr|eigentlich"
    r"|finalement|en fait|trompée?|erreur|ne \w+ plus|plutôt)\b"
    r"|^\W*(?:no,? no|nope|sorry(?! to\b| for\b| about\b| i )|correction|oops|whoops|scrap|scratch|swap)\b|\b(?:ignore|disregard|scratch|scrap) (?:that|my|what)\b",
    re.IGNORECASE,
).search
# That somebody knows better now.
_says_known = re.compile(
    r"\b(?:(?:he|she|it|they|the \w+|\w+'s) says?|says? (?:he|she|it|they|the \w+)|laughed at me|mortified|embarrassed|too (?:shallow|deep|short|long|early"
    r"|late|small|big|few|many|much|strong|weak|hot|cold)|just (?:announced|confirmed|told|heard|saw|texted|called)|texted|told me"
    r"|never more than|found the|read the|walked by|stood in front|(?:letter|email|mail) (?:came|says)|on the phone|confirmed|apparently"
    r"|(?:the|an?) (?:\w+ )?other (?:one|direction|way|side)|for nothing|now|instead)\b",
    re.IGNORECASE,
).search
# A denial, before what it denies.
_denies_next = re.compile(
    r"\b(?:ignore|disregard|forget|scratch|strike|scrap|skip|not|never|nothing|don't \w+|do not \w+|cancel|vergiss|nicht|kein\w*|pas|oublie\w*"
    r"|the (?:other|old|wrong)|it's the other)\b(?P<next>[^.!?;]{0,60})",
    re.IGNORECASE,
).finditer
# What is denied, before the denial.
_denies_last = re.compile(
    r"(?P<last>[^.!?;,]{0,50}?)(?<!that)(?: (?:is|are|was|were|'s)|'s) (?:\w+ )?(?:wrong|old|empty|gone|closed|shut|open|cancelled|dead|out|off|history|a typo"
    r"|no good|fine|too strong|last (?:year|week|month|season)\w*(?:'s)?|(?:the|an?) \w+'s|\w+'s(?= *[.!?,]|$))"
    r"|(?P<last2>[^.!?;,]{0,50}?) (?:stopped working|can't do|fällt (?:weg|aus)|(?:is|does|was|will)n't|hasn't|won't|burnt|falls through)\b",
    re.IGNORECASE,
).finditer
_is_of_it = re.compile(
    r"^\W*(?:it|he|she|they|there|es|er|sie|c)(?:'s|'re| is| are| ist| sind|'est)\b|[,:] (?:it|he|she|they)(?:'s|'re| is| are)\b"
    r"|\b(?:friday|monday|tuesday|wednesday|thursday|saturday|sunday) it is\b",
    re.IGNORECASE,
).search


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement for the comparison.

    Attributes:
        terms: the stems of its words, numbers as digits.
        values: its values by kind; a number with a unit has a kind of its own.
        denied: the stems of what it denies.
        wrong, known: whether it says that something was wrong, or that somebody knows better now.
        bare: whether one of its sentences is hardly more than a value.
        of_it: whether it says how things are with something named before.
        holds: whether one of its sentences says what holds, and not what happened.
        past: whether it only tells what happened.
    """

    terms: frozenset[str]
    values: Mapping[str, frozenset[str]]
    denied: frozenset[str]
    wrong: bool
    known: bool
    bare: bool
    of_it: bool
    holds: bool
    past: bool

    @property
    def may_revise(self) -> bool:
        """Whether it has any sign of a revision."""
        return self.wrong or self.known or self.bare or self.of_it or self.holds or bool(self.denied)


def revision(new: str, old: str) -> Revision:
    """What a statement does to an earlier one of the same speaker with which it shares a word.

    >>> revision("Ignore Wednesday. The call's on Tuesday.", "The conference call is on Wednesday.").name
    'SURE'
    >>> revision("The call was short today.", "The conference call is on Wednesday.").name
    'NONE'
    """
    points = _points(new, old, is_near=False)
    return _graded(points)


def revised(new: str, before: Sequence[str]) -> tuple[int, Revision] | None:
    """The place of what a statement revises among what its speaker said before it, and how surely; None if it revises nothing.

    Unlike `revision` it finds a statement that shares no word with the new one, such as "She laughed at me. 2009, she says."

    Args:
        new: the statement.
        before: what was said before, oldest first, by the same speaker or by an assistant.
    """
    later = _said(new)
    if later is None or not later.may_revise:
        return None
    best = max(
        ((_points(new, old, is_near=True), place) for place, old in enumerate(before)), default=(0.0, 0)
    )
    grade = _graded(best[0])
    return (best[1], grade) if grade else None


def _graded(points: float) -> Revision:
    return Revision.SURE if points >= _SURE else Revision.SUSPECTED if points >= _SUSPECTED else Revision.NONE


@lru_cache(8_192)
def _points(new: str, old: str, *, is_near: bool) -> float:
    """The evidence that a statement revises an earlier one; with `is_near`, also of one that shares no word with it."""
    later, earlier = _said(new), _said(_facts_of(old))
    if later is None or earlier is None or not later.may_revise:
        return 0.0
    shared = later.terms & earlier.terms
    changed = _changed(later.values, earlier.values)
    if not shared and not (is_near and changed):
        return 0.0
    denied = later.denied & earlier.terms
    points = min(len(shared), 2) * 0.75 + changed
    points += 1.5 * bool(denied) + 2.0 * later.wrong + 1.0 * later.known
    points += 0.5 * (later.holds and changed > 1.0)
    points += 1.0 * later.bare * bool(changed) + 0.75 * later.of_it
    told = later.past and not (later.wrong or later.bare or later.of_it)
    return points - 2.0 * told


def _changed(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> float:
    """The points of the other value that a statement gives for one of an earlier statement; 0 if it gives none."""
    points = 0.0
    for kind in new.keys() & old.keys():
        if new[kind] - old[kind]:
            points = max(points, 0.75 if kind == "name" else 1.25 if kind == "number" else 1.5)
    return points


@lru_cache(4_096)
def _said(text: str) -> _Said | None:
    """A text for the comparison; None for a question, and for a text of more than `MAX_CHARS`."""
    plain = text.replace("\u2019", "'")
    if not text or len(text) > MAX_CHARS or text.rstrip().endswith("?") or _chats(text):
        return None
    sentences = split_sentences(plain) or [plain]
    if len(sentences) > _MOST_SENTENCES:
        return None
    denied = [match["next"] for match in _denies_next(plain)]
    denied += [match["last"] or match["last2"] or "" for match in _denies_last(plain)]
    return _Said(
        terms=_terms(plain),
        values=_values_in(plain),
        denied=frozenset().union(*map(_terms, denied)) if denied else frozenset(),
        wrong=bool(_says_wrong(plain)),
        known=bool(_says_known(plain)),
        bare=any(_is_bare(sentence) for sentence in sentences),
        of_it=any(_is_of_it(sentence) for sentence in sentences),
        holds=any(
            kind_of(sentence) in _HOLDING and not tells_of_past(sentence) for sentence in sentences
        ),
        past=all(tells_of_past(sentence) for sentence in sentences),
    )


@lru_cache(4_096)
def _facts_of(text: str) -> str:
    """The sentences of an earlier statement that may be revised: those that state something that holds."""
    if len(text) > MAX_CHARS:
        return ""
    return " ".join(sentence for sentence in split_sentences(text) if not _chats(sentence) and _states(sentence))


def _states(sentence: str) -> bool:
    kind = kind_of(sentence)
    return kind in _FACTS or (kind is SentenceKind.FRAGMENT and bool(_values_in(sentence)))


def _is_bare(sentence: str) -> bool:
    """Whether a sentence is hardly more than a value: "Two." """
    found = words(sentence)
    content = [word for word in found if word not in _STOPS or word in _NUMBERS]
    return len(found) <= 4 and len(content) <= 3 and bool(_values_in(sentence))


def _terms(text: str) -> frozenset[str]:
    stem = stemmer("english")
    found = (_NUMBERS.get(word, word) for word in words(text) if word not in _STOPS)
    return frozenset(re.sub(r"^(\d+)(?:st|nd|rd|th)$", r"\1", stem(word)) for word in found)


def _values_in(text: str) -> dict[str, frozenset[str]]:
    """The values in a text by kind; a number with a unit is of the kind of its unit."""
    found = dict[str, set[str]]()
    rest = text
    for kind, pattern in _values:
        for match in pattern.finditer(rest):
            value = match[0].lower()
            found.setdefault(kind, set()).add(_NUMBERS.get(value, value))
            if kind == "number" and (unit := _unit(rest[match.end() :])) and unit[1].lower() not in _STOPS:
                found.setdefault(f"number of {unit[1].lower().rstrip('s')}", set()).add(_NUMBERS.get(value, value))
        rest = pattern.sub(lambda match: "_" * len(match[0]), rest)
    for kind, held in (("name", _name(rest)), ("quoted", _quoted(text))):
        if held:
            found[kind] = {value.lower() for value in held}
    return {kind: frozenset(held) for kind, held in found.items()}
