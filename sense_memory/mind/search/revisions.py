"""How strongly a later statement speaks against an earlier one that it does not repeat: "Ignore Wednesday." Pure.

Evidence is a word that both statements share, a word that says that something was wrong or is new ("misread", "all
along", "recounted"), a denial of something that the earlier statement names ("don't touch the red wheel"), and another
value of the same kind ("12 cm" for "5 cm", "2009" for "2011"). Each counts some points. A sure revision has enough
points for a mark; a suspected one only ranks before the earlier statement. What is told as an event ("rotated
the password today") revises nothing. What says in words that it corrects is found by `corrections`, which asks this
module where it finds nothing. The cost is some 0.2 ms for each text that is read for the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.mind import sentence_patterns as of
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences, subject_of, tells_of_past
from sense_memory.mind.sentence_values import MONTH, WEEKDAY
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_CHARS: Final = (
    160  # longer texts are not compared: they say too much to revise, or to be revised, as a whole
)
_MOST_SENTENCES: Final = 3  # in a text that is compared
_SHORT: Final = 10  # words of a remark that may state a fact
_FACTS: Final = frozenset(
    {
        SentenceKind.STATEMENT,
        SentenceKind.DATE,
        SentenceKind.DECISION,
        SentenceKind.INSTRUCTION,
        SentenceKind.COMMAND,
    }
)
_CHANGE: Final = {
    "name": 0.75,
    "number": 1.25,
}  # the points of another value of a kind; 1.5 for the other kinds
_SURE: Final = 4.0  # points for a mark
_SUSPECTED: Final = 2.5  # points for the place before the earlier statement
_LANGUAGES: Final = ("english", "german", "french")


class Revision(IntEnum):
    """What a later statement does to an earlier one."""

    NONE = 0
    SUSPECTED = 1
    SURE = 2


_ENGLISH_NUMBERS: Final = "one two three four five six seven eight nine ten eleven twelve"
_ENGLISH_ORDINALS: Final = "first second third fourth fifth sixth seventh eighth ninth tenth"
_GERMAN_NUMBERS: Final = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
_NUMBERS: Final = {
    word: str(number)
    for row in (_ENGLISH_NUMBERS, _ENGLISH_ORDINALS, _GERMAN_NUMBERS)
    for number, word in enumerate(row.split(), 1)
}
_NO_TERMS: Final = """
one it's he's she's they're that's there's i'm we're don't doesn't isn't can't won't wasn't didn't says said say called get got go
goes use used
"""
_STOPS: Final = frozenset(_NO_TERMS.split()).union(*(STOP_WORDS[language] for language in _LANGUAGES))
_ORDINAL_WORD: Final = (
    "first|second|third|fourth|fifth|sixth|seventh|ground|top|ersten|zweiten|dritten|vierten|fünften"
)
_NUMBER_WORD: Final = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf"
_CLOCK: Final = (
    r"\b\d{1,2}[:.]\d{2}\b|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b|\b(?:at|until|till|um|bis) \d{1,2}\b(?![:.]?\d| \w+s\b)"
    rf"|\b(?:half|quarter) (?:past |to )?(?:{_NUMBER_WORD})\b|\b(?:at|um) (?:{_NUMBER_WORD})\b(?! \w+s\b)"
)
_VALUES: Final = (
    ("weekday", rf"\b(?:{WEEKDAY})\b"),
    ("day", rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?(?= (?:of |de )?(?:{MONTH})\b)"),
    ("month", rf"\b(?:{MONTH})\b(?<!\bmay)"),
    ("time", _CLOCK),
    ("year", r"\b(?:19|20)\d{2}\b(?!:)"),
    ("place in order", rf"\b\d{{1,2}}(?:st|nd|rd|th)\b|\b(?:{_ORDINAL_WORD})\b"),
    ("letter", r"(?<=\w )(?-i:[A-HJ-Z])(?![\w'])|^(?-i:[B-HJ-Z])(?= )"),
    ("code", r"\b(?=\w*[a-z])(?=\w*\d)[a-z]\w{3,}\b"),
    ("number", rf"(?<![\w.,])\d(?:[\d,.]*\d)?(?![\w])|\b(?:{_NUMBER_WORD})\b|\bone(?= \w{{4,}})"),
)  # fmt: skip
_values = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _VALUES)
# "Part 11 of the recipe", "step 3": the number says which one is meant.
_numbered = re.compile(
    r"\b(?:part|step|chapter|section|page|line|item|task|point|rule|question|note|message|room|floor|house|box|track|level|lesson|unit"
    r"|week|day|phase|round|lap|test|run|batch|draft|option|case|row|number|no\.|teil|kapitel|seite|zimmer|schritt|punkt|nummer"
    r"|partie|chapitre|numéro) #?\d+\b",
    re.IGNORECASE,
).sub
_unit = re.compile(r"\s*([a-zäöü%€$]+)", re.IGNORECASE).match
_name = re.compile(
    r"(?<=[^.!?:,\s] )(?<!says )(?<!said )(?!I\b|I')[A-ZÄÖÜÉ][\w-]+|(?<=, )[A-ZÄÖÜÉ][\w-]+(?= )"
).findall
_chats = re.compile(
    r"^\W*(?:thanks?|thank you|wow|hey|hi|hello|yeah|yep|yup|yes|aw+|awesome|great|cool|nice|definitely|absolutely|totally|sounds|way to go"
    r"|congrat\w*|glad|haha|danke|merci|bye|sure|ok(?:ay)?|you're right|exactly|good (?:luck|to))\b",
    re.IGNORECASE,
).match
_quoted = re.compile(r"[\"“„«]([^\"”“»]+)[\"”“»]").findall

# That something was wrong, or is otherwise than it was said.
_says_wrong = re.compile(
    r"\b(?:wrong(?! about)|mistake|mistaken|incorrect|muddled|mixed (?:\w+ )?up|confus\w+|mis(?:read|heard|remember\w+|took|spoke|counted|typed)|typo"
    r"|(?:put|set) (?:me|us) (?:right|straight)|(?:corrected|rectified) (?:me|us|it|that)|stand corrected|(?:all|right) along|after all"
    r"|(?:re-?)(?:counted|measured|checked|read)|(?:counted|measured|looked|checked|asked) (?:\w+ )?(?:again|twice|properly)|double-checked"
    r"|my (?:earlier|first|old|last)|what i (?:said|wrote|told)|turns out|turned out to be|no longer|any ?more|these days|nowadays"
    r"|outdated|out of date|i (?:was|had) (?:\w+ ){0,2}(?:off|old)|hasn't \w+(?: \w+){0,3} (?:for|in) (?:\w+ )?(?:years|months|ages)"
    r"|falsch|vertan|verwechselt|geirrt|stimmt nicht|doch (?:nicht|am|um|im|erst)|nicht mehr|eigentlich"
    r"|finalement|en fait|trompée?|erreur|ne \w+ plus|plutôt)\b"
    r"|^\W*(?:no,? no|nope|sorry(?!,? (?:to|for|about|i|i'm|we|we're)\b)|correction|oops|whoops|scrap|scratch|swap)\b|\b(?:ignore|disregard|scratch|scrap) (?:that|my|what)\b"
    r"|^\W*actually\b|\bactually\W*(?:$|[.!])|\bmake (?:it|that) (?:\d|[a-z]+(?=[,.]))|\bi(?:'d| had| should have) (?:looked|read|only|been|got)\b|\bfrom (?:this|next) \w+\b",
    re.IGNORECASE,
).search
# That somebody knows better now.
_says_known = re.compile(
    r"\b(?:says?|actually|was clear|according to|laughed at me|mortified|embarrassed|too (?:shallow|deep|short|long|early"
    r"|late|small|big|few|many|much|strong|weak|hot|cold)|just (?:announced|confirmed|told|heard|saw|texted|called)|texted|told me"
    r"|never more than|i saw|i could see|found the|read the|walked by|stood in front|(?:letter|email|mail) (?:came|says)|on the phone|confirmed|apparently"
    r"|(?:the|an?) (?:\w+ )?other (?:one|direction|way|side)|for nothing|now|instead)\b",
    re.IGNORECASE,
).search
# A denial, before what it denies.
_denies_next = re.compile(
    r"\b(?:ignore|disregard|forget|scratch|strike|scrap|skip|not|never|nothing|(?:\w+n't|cannot|do not)(?: \w+)?|cancel|vergiss|nicht|kein\w*|pas|oublie\w*"
    r"|the other)\b(?P<next>[^.!?;]{0,60})",
    re.IGNORECASE,
).finditer
# A denial, just before what it denies.
_denies_word = re.compile(
    r"\b(?:no|left|quit|outgrew|gave up|leaves)(?: (?:the|his|her|its|their))?(?P<next> \w+)|\bthe (?:old|wrong)(?P<other> \w+)",
    re.IGNORECASE,
).finditer
# What is denied, before the denial.
_denies_last = re.compile(
    r"(?P<last>[^.!?;,]{0,50}?)(?<!that)(?: (?:is|are|was|were|'s)|'s) (?:\w+ )?(?:wrong|old|empty|gone|closed|shut|open|cancelled|dead|out|off|history|a typo"
    r"|no good|fine|too strong|last (?:year|week|month|season)\w*(?:'s)?|(?:the|an?) \w+'s|\w+'s(?= *[.!?,]|$))"
    r"|(?P<last2>[^.!?;,]{0,50}?) (?:stopped working|gets refused|has no such|can't do|fällt (?:weg|aus)|(?:is|does|was|will)n't|hasn't|won't|burnt|falls through)\b",
    re.IGNORECASE,
).finditer
_is_of_it = re.compile(
    r"^\W*(?:it|he|she|they|there|es|er|sie|c)(?:'s|'re| is| are| ist| sind|'est)\b|[,:] (?:it|he|she|they)(?:'s|'re| is| are)\b"
    r"|\b(?:friday|monday|tuesday|wednesday|thursday|saturday|sunday) it is\b",
    re.IGNORECASE,
).search


_was = re.compile(
    r"\b(?:était|étaient|fut|a été|ont été|war|waren|wurde|wurden|hatte|hatten)\b", re.IGNORECASE
).search


@dataclass(frozen=True, slots=True)
class _Signs:
    """A statement for the comparison.

    Attributes:
        terms: the stems of its words, numbers as digits.
        told: the stems of what it tells of its subject.
        values: its values by kind; a number with a unit has a kind of its own.
        denied: the stems of what it denies.
        wrong, known: whether it says that something was wrong, or that somebody knows better now.
        bare: whether one of its sentences is hardly more than a value.
        of_it: whether it says how things are with something named before.
        past: whether it only tells what happened.
    """

    terms: frozenset[str]
    told: frozenset[str]
    values: Mapping[str, frozenset[str]]
    denied: frozenset[str]
    wrong: bool
    known: bool
    bare: bool
    of_it: bool
    past: bool

    @property
    def may_revise(self) -> bool:
        """Whether it has any sign of a revision."""
        return self.wrong or self.known or self.bare or self.of_it or bool(self.denied)

    def may_change(self, changed: float) -> bool:
        """Whether another value of that many points revises what shares no word; another name alone does not."""
        return self.may_revise and (changed >= 1.0 or self.wrong or self.known)


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
    """The place of what a statement revises among those before it, and how surely; None if it revises nothing.

    Unlike `revision` it finds a statement that shares no word with the new one, such as "She laughed at me. 2009, she
    says." Another value alone is no sign here.

    Args:
        new: the statement.
        before: what was said before, oldest first, by the same speaker or by an assistant.
    """
    later = _signs(new)
    if later is None or not later.may_revise:
        return None
    best = max(
        ((_points(new, old, is_near=True), place) for place, old in enumerate(before)), default=(0.0, 0)
    )
    grade = _graded(best[0])
    return (best[1], grade) if grade else None


def best_revisions(new: str, before: Sequence[str]) -> dict[int, Revision]:
    """The places of what a statement revises among earlier ones that share a word with it, and how surely.

    It revises the one that it speaks against most, and those that say the same: "Ignore Wednesday. The call's on Tuesday."
    does not revise "The dentist comes on Wednesday." where the earlier word on the call is there too.
    """
    points = [_points(new, old, is_near=False) for old in before]
    best = max(points, default=0.0)
    grade = _graded(best)
    return {place: grade for place, found in enumerate(points) if grade and found == best}


def _graded(points: float) -> Revision:
    return Revision.SURE if points >= _SURE else Revision.SUSPECTED if points >= _SUSPECTED else Revision.NONE


@lru_cache(8_192)
def _points(new: str, old: str, *, is_near: bool) -> float:
    """The evidence that a statement revises an earlier one; with `is_near`, also of one that shares no word with it."""
    later, earlier = _signs(new), _signs(_facts_of(old))
    if later is None or earlier is None:
        return 0.0
    shared = {term for term in later.terms & earlier.terms if not term.isdigit()}  # a number is no subject
    changed = _changed(later, earlier)
    if not shared and not (is_near and changed and later.may_change(changed)):
        return 0.0
    named = shared & earlier.told
    denied = (later.denied & earlier.told) - earlier.denied
    is_sign = later.wrong or later.known or later.of_it or (later.bare and not shared)
    if not (denied or is_sign) and kind_of(old) is SentenceKind.FRAGMENT:
        return 0.0  # rows of one form, such as "Mark 3: red." and "Mark 4: blue."
    points = min(len(shared), 2) * 0.75 + 0.5 * bool(named) + changed
    points += 1.5 * bool(denied) + (2.0 if shared or changed else 1.0) * later.wrong
    points += (1.0 if changed or later.of_it else 0.25) * later.known
    points += 1.0 * later.bare * bool(changed) + 0.75 * later.of_it
    points += 0.5 * (changed > 1.0 and not later.past)
    told = later.past and not (later.wrong or later.bare or later.of_it)
    return points - 2.0 * told


def _changed(later: _Signs, earlier: _Signs) -> float:
    """The points of the other value that a statement gives for one of an earlier statement; 0 if it gives none."""
    new, old = later.values, earlier.values
    points = 0.0
    for kind in new.keys() & old.keys():
        if new[kind] - old[kind]:
            points = max(points, _CHANGE.get(kind, 1.5))
    if _units(new) and _units(old) and not _units(new) & _units(old):
        points = points if points != _CHANGE["number"] else 0.25
    if not points and "time" in old and "number" in new and later.wrong:
        points = 1.0
    return points


def _units(values: Mapping[str, frozenset[str]]) -> set[str]:
    return {kind for kind in values if kind.startswith("number of ")}


@lru_cache(4_096)
def _signs(text: str) -> _Signs | None:
    """A text for the comparison; None for a question, and for a text of more than `MAX_CHARS`."""
    plain = text.replace("\u2019", "'")
    if not text or len(text) > MAX_CHARS or text.rstrip().endswith("?") or _chats(text):
        return None
    sentences = split_sentences(plain) or [plain]
    if len(sentences) > _MOST_SENTENCES:
        return None
    denied = [match["next"] for match in _denies_next(plain)]
    denied += [match["next"] or match["other"] for match in _denies_word(plain)]
    denied += [match["last"] or match["last2"] or "" for match in _denies_last(plain)]
    return _Signs(
        terms=_terms(plain),
        told=_terms(plain) - _terms(" ".join(subject_of(plain))),
        values=_values_in(plain),
        denied=frozenset().union(*map(_terms, denied)) if denied else frozenset(),
        wrong=bool(_says_wrong(plain)),
        known=bool(_says_known(plain)),
        bare=any(_is_bare(sentence) for sentence in sentences),
        of_it=any(_is_of_it(sentence) for sentence in sentences),
        past=all(is_event(sentence) for sentence in sentences),
    )


@lru_cache(4_096)
def _facts_of(text: str) -> str:
    """The sentences of an earlier statement that may be revised: those that state something that holds."""
    if len(text) > MAX_CHARS:
        return ""
    return " ".join(
        sentence for sentence in split_sentences(text) if not _chats(sentence) and _states(sentence)
    )


def _states(sentence: str) -> bool:
    kind = kind_of(sentence)
    if kind in _FACTS:
        return True
    is_short = len(words(sentence)) <= _SHORT
    return is_short and kind in {SentenceKind.REMARK, SentenceKind.FRAGMENT} and bool(_values_in(sentence))


def is_event(sentence: str) -> bool:
    """Whether a sentence tells what happened, also one without its subject: "Went to the museum".

    >>> is_event("Went to the museum."), is_event("Der Zug war voll."), is_event("The museum is free on Mondays.")
    (True, True, False)
    """
    first = words(sentence)[:1]
    return tells_of_past(sentence) or bool(
        _was(sentence) or (first and (first[0] in of.PAST or first[0].endswith("ed")))
    )


def _is_bare(sentence: str) -> bool:
    """Whether a sentence is hardly more than a value: "Two", for example."""
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
    rest = text = _numbered(lambda match: "_" * len(match[0]), text)
    for kind, pattern in _values:
        for match in pattern.finditer(rest):
            value = match[0].lower()
            found.setdefault(kind, set()).add(_NUMBERS.get(value, value))
            if kind == "number" and (unit := _unit(rest[match.end() :])) and unit[1].lower() not in _STOPS:
                found.setdefault(f"number of {unit[1].lower().rstrip('s')}", set()).add(
                    _NUMBERS.get(value, value)
                )
        rest = pattern.sub(lambda match: "_" * len(match[0]), rest)
    for kind, held in (("name", _name(rest)), ("quoted", _quoted(text))):
        if held:
            found[kind] = {value.lower() for value in held}
    return {kind: frozenset(held) for kind, held in found.items()}
