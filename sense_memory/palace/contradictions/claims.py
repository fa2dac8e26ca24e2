"""What a memory claims, clause by clause: content words, polarity, time, figures, status and slot.

A light and deterministic reading of short English notes; nothing is understood that is not in the tables of
`words`, `slots`, `quantities` and `opposites`. Long texts are read up to a bound. No I/O, no clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.antonyms import STATUS, polarity
from sense_memory.palace.contradictions.quantities import Quantity, split_quantities
from sense_memory.palace.contradictions.slots import ATTRIBUTES, Slot, contents, needs_key, slot_of
from sense_memory.palace.contradictions.words import (
    BE,
    CHANGES,
    FORMERLY,
    FUZZY,
    HYPOTHETICAL,
    KEY_NOISE,
    NEGATORS,
    NOT_EVENTS,
    PAST,
    PRONOUNS,
    RELATIVE,
    REPORTED,
    STOP,
    plain,
    stem,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.models import PersonaMemory

MAX_READ_CHARS: Final = 2_000  # of a value; notes are far shorter, and a clause beyond counts as not said
MAX_CLAIMS_COUNT: Final = 8  # clauses read of one memory
MAX_CLAUSE_TOKENS: Final = 40  # a longer clause is no short note, and no minimal pair of anything
_MAX_KEY_CHARS: Final = 256

_CLAUSE: Final = re.compile(
    r"(?<=[^\d\W])[.](?=\s|$)|(?<=\d)[.](?=\s+[A-Z]|$)|[!;\n\r()\u2014\u2013]+|(?<=\?)|,? but "
)
_TOKEN: Final = re.compile(
    r"\d+(?:[.,:/-]\d+)*[^\W\d_]*|[^\W\d_][\w]*(?:['./_&+#-]+\w+)*|[$€£¥%?\"]|:(?=\s|$)"
)
_POSSESSIVE: Final = re.compile(r"'s\b|(?<=s)'(?=\s)")
_AGE: Final = re.compile(r"(\w+)-(year|month|week)s?-old\b")
_REASON: Final = re.compile(r",? (?:because|so that|as every)\b.*$")
_KEY_WORD: Final = re.compile(r"[^\W_]+")
_QUOTES: Final = str.maketrans("\u2019\u2018\u201c\u201d\u201e\u00ab\u00bb", "''" + '"' * 5)


@dataclass(frozen=True, slots=True)
class Claim:
    """One clause of a memory.

    Attributes:
        words: stems of its content words; with those of the key where the clause names no subject.
        negated: whether an odd number of negations governs it.
        past: whether it speaks of a finished time; `formerly` whether it says outright that it is over.
        unreal: questions, hypotheses, wishes and what others are quoted with: no claim of this memory.
        changed: whether it says that something is new or has moved.
        numbers: its figures in order.
        dates: parts of dates and their values, see `Quantities.dates`.
        date_text: the dates as written.
        occasional: whether its date tells which occasion it speaks of ("On Monday the call is at nine").
        vague: whether its figures are rough or relative to a day nobody knows.
        status: name of the status that it ends in, and the word for it.
        mood: 1, -1 or 0: how it feels about what it speaks of.
        order: stems left and right of a comparison ("than", "over"), or nothing.
        slot: what it fills.
        spoken: stem to the word as it was written, for reasons.
        keyed: whether the subject comes from the key.
    """

    words: frozenset[str]
    negated: bool
    past: bool
    formerly: bool
    unreal: bool
    changed: bool
    numbers: tuple[Quantity, ...]
    dates: dict[str, tuple[int, ...]]
    date_text: str
    occasional: bool
    vague: bool
    status: tuple[str, str] | None
    mood: int
    order: tuple[frozenset[str], frozenset[str]] | None
    slot: Slot | None
    spoken: dict[str, str]
    keyed: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """A memory as claims.

    Attributes:
        claims: at most `MAX_CLAIMS_COUNT`.
        context: stems of the key and the themes: what a clause may leave unsaid.
        whole: whether everything was read.
        keys: what the memory is found by. Two memories that contradict each other without the help of meaning
            have a key in common; they depend on nothing but the memory's key, themes and value.
    """

    claims: tuple[Claim, ...]
    context: frozenset[str]
    whole: bool
    keys: frozenset[str]


def read(memory: PersonaMemory) -> Reading:
    """The claims of a memory."""
    key = key_words(memory.key)
    themes = frozenset(word for theme in memory.themes[:16] for word in key_words(theme[:_MAX_KEY_CHARS]))
    text = memory.value[:MAX_READ_CHARS].translate(_QUOTES)
    claims: list[Claim] = []
    whole = len(memory.value) <= MAX_READ_CHARS
    subject: frozenset[str] = frozenset()
    for clause in _clauses(text):
        if len(claims) == MAX_CLAIMS_COUNT:
            whole = False
            break
        tokens = _TOKEN.findall(clause)
        if len(tokens) > MAX_CLAUSE_TOKENS:
            whole = False
        elif tokens:
            claim = _claim(tokens, key, subject)
            subject = subject or (claim.slot.subject if claim.slot else frozenset())
            claims.append(claim)
    return Reading(tuple(claims), key | themes, whole, _keys(claims, key | themes))


def _keys(claims: Sequence[Claim], context: frozenset[str]) -> frozenset[str]:
    """The words of all claims, and each slot with the words of its subject."""
    slots = [claim.slot for claim in claims if claim.slot is not None]
    filled = (f"{slot.predicate}|{word}" for slot in slots for word in slot.subject)
    return context.union(filled, *(claim.words for claim in claims))


def key_words(text: str) -> frozenset[str]:
    """The stems of the words of a key or a theme."""
    return frozenset(
        stem(word) for word in _KEY_WORD.findall(text[:_MAX_KEY_CHARS].lower()) if word not in STOP
    )


def _clauses(text: str) -> Iterator[str]:
    for clause in _CLAUSE.split(text):
        if clause and not clause.isspace():
            yield plain(_REASON.sub("", _POSSESSIVE.sub("", _AGE.sub(r"\1 \2s old", clause.lower()))))


def _claim(tokens: list[str], key: frozenset[str], before: frozenset[str]) -> Claim:
    question = tokens[-1] == "?" or '"' in tokens
    bare = [token for token in tokens if token not in {"?", '"'}]
    seen = set(bare)
    negations = sum(token in NEGATORS or token.endswith("n't") for token in bare)
    status = _status(bare)
    kept = [
        token
        for place, token in enumerate(bare)
        if token not in NEGATORS and token not in FUZZY and not token.endswith("n't")
    ]
    figures = split_quantities(kept)
    rest = figures.rest
    slot = slot_of(rest)
    words = contents(rest)
    if status is not None:
        beside = bare[
            len(bare) - bare[::-1].index(status[1]) :
        ]  # what it waits for is no part of the subject
        words = words - contents(beside) - {stem(status[1])} | {f"~{status[0]}"}
    keyed = (slot is not None and needs_key(slot, rest)) or (
        _is_bare(bare, slot, status) and words.isdisjoint(key)
    )
    if keyed:
        own = slot.value if slot else frozenset()
        named = before if before and rest and rest[0] in PRONOUNS else key - KEY_NOISE - own
        words |= named
        slot = _about(named, slot, rest)
    moods = {polarity(word) for word in words} - {0}
    return Claim(
        words=words - _FORMERLY_STEMS,
        negated=negations % 2 == 1,
        past=_is_past(bare, status),
        formerly=not seen.isdisjoint(FORMERLY),
        unreal=question or not seen.isdisjoint(HYPOTHETICAL) or not seen.isdisjoint(REPORTED),
        changed=not seen.isdisjoint(CHANGES),
        numbers=figures.numbers,
        dates=figures.dates,
        date_text=figures.date_text,
        occasional=bool(figures.dates) and _is_occasional(kept),
        vague=not seen.isdisjoint(FUZZY) or not seen.isdisjoint(RELATIVE),
        status=status,
        mood=moods.pop() if len(moods) == 1 else 0,
        order=_order(rest),
        slot=slot,
        spoken={stem(token): token for token in rest},
        keyed=keyed,
    )


_VERBS_TO_BE: Final = BE - {"am"}
_VERBS: Final = BE | {"has", "have", "does", "do", "doesn't", "don't", "cannot", "can", "will", "must", "may"}
_FORMERLY_STEMS: Final = frozenset(map(stem, FORMERLY))


def _is_bare(tokens: Sequence[str], slot: Slot | None, status: tuple[str, str] | None) -> bool:
    """A few words without any verb of the tables: a value whose subject is the key."""
    return slot is None and len(contents(tokens)) <= (1 if status else 2) and _VERBS.isdisjoint(tokens)


def _about(named: frozenset[str], slot: Slot | None, tokens: Sequence[str]) -> Slot | None:
    """The slot with the subject that the key names; a bare value fills the key's own attribute."""
    if slot is not None:
        return Slot(
            named, slot.predicate, slot.value, slot.text, slot.scope, slot.over, slot.article, slot.person
        )
    if named.isdisjoint(ATTRIBUTES) or not tokens:
        return None
    value = contents(tokens)
    return Slot(named - value, "is", value, " ".join(tokens), frozenset(), frozenset(), "", False)


def _status(tokens: Sequence[str]) -> tuple[str, str] | None:
    """The last status word that is said of the subject, not one that merely adorns a noun."""
    last = len(tokens) - 1
    for place in range(last, -1, -1):
        name = STATUS.get(tokens[place])
        if name is None:
            continue
        near = tokens[max(0, place - 3) : place]
        if place == last or any(token in BE or token in {"been", "has", "have"} for token in near):
            return name, tokens[place]
    return None


def _is_past(tokens: Sequence[str], status: tuple[str, str] | None) -> bool:
    seen = set(tokens)
    if not seen.isdisjoint(FORMERLY):
        return True
    if status is not None:
        return False
    if not seen.isdisjoint(PAST):
        return seen.isdisjoint({"born", "founded", "established"})
    if "until" in seen and "the" not in seen:
        return True
    return any(_is_event(tokens, place) for place in range(1, len(tokens)))


def _is_occasional(tokens: Sequence[str]) -> bool:
    """Whether a date stands before the verb, or opens the clause."""
    verb = next((place for place, word in enumerate(tokens) if word in _VERBS_TO_BE), 0)
    opening = tokens[:verb] if verb else tokens[:3] if tokens[0] in {"on", "in", "at", "since"} else ()
    return bool(opening and split_quantities(opening).dates)


def _is_event(tokens: Sequence[str], place: int) -> bool:
    token = tokens[place]
    if len(token) < 5 or not token.endswith("ed") or token in NOT_EVENTS or token in STATUS:
        return False
    near = tokens[max(0, place - 2) : place]
    return not any(word in BE or word in {"has", "have", "the", "a", "an", "get", "gets"} for word in near)


def _order(tokens: Sequence[str]) -> tuple[frozenset[str], frozenset[str]] | None:
    for place, token in enumerate(tokens):
        if token in {"than", "over"} and 0 < place < len(tokens) - 1:
            return contents(tokens[:place]), contents(tokens[place + 1 :])
    return None
