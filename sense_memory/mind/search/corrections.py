"""Whether a statement corrects an earlier one: "Correction: the dentist is on Thursday", "No, it's the 14th." Pure.

A later statement corrects an earlier one about the same subject if it contradicts the earlier one by the rules of the
palace, or says that something has changed or was wrong ("actually", "no longer", "instead of", "nicht Dienstag, sondern
…"). One that names no subject of its own ("I meant the 21st", "scratch that") corrects what its speaker said just
before: the last statement with a value of the same kind, such as a date for a date. A question corrects nothing. Where
none of this is said, `revisions` weighs weaker signs.

A search ranks a corrected statement behind its correction and hides nothing, so a wrong guess costs only ranks. The cost
is some 0.3 ms for each text that is read for the first time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.mind.beliefs import as_memory
from sense_memory.mind.search.revisions import Revision, is_event, revision
from sense_memory.mind.sentence_kinds import SentenceKind, kind_of, split_sentences
from sense_memory.mind.sentence_values import values_of
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.claims import Reading

MAX_CHARS: Final = 200  # longer texts are not compared: they say too much to be corrected as a whole
_SHARE: Final = 0.5  # the share of the shorter statement's words that both statements must have
_OWN_COUNT: Final = 2  # a correction with more words of its own names its subject
_LANGUAGES: Final = ("english", "german", "french", "spanish")
_says_so = re.compile(
    r"\b(?:correction|corrected|i meant|i mean|was wrong|were wrong|mistaken|no longer|not \w+(?: \w+){0,5} any ?more|instead"
    r"|rather than|(?:was|is|been|has|have|had|were) (?:now )?(?:moved|changed|rescheduled|postponed|extended|replaced|switched)"
    r"|(?:moved|changed|switched|rescheduled|postponed|extended|renamed) (?:\w+ ){0,6}(?:to|from|by)|from now on)\b"
    r"|^\W*(?:actually|sorry|wait|update)\b",
    re.IGNORECASE,
).search
_says_now = re.compile(r"\b(?:now|these days|nowadays|by now|currently)\b", re.IGNORECASE).search
_takes_back = re.compile(
    r"^\W*(?:(?:no|wait|sorry|oops|actually),? )*(?:(?:scratch|forget|ignore|strike) (?:that|what i (?:just )?said)|that (?:was|is) wrong"
    r"|vergiss (?:das|es)|oublie(?:z)? ça|olvida eso)\W*$",
    re.IGNORECASE,
).search
_CUES: Final = """
correct correction mean meant wrong mistaken longer more instead move moved change changed reschedule postpone extend replace
switch now day these actually sorry wait update not scratch forget mistake make mixed looked oops misspoke nein nicht sondern
korrektur eigentlich meinte doch stattdessen mehr wurde verschoben non pas mais plutôt fait voulais dire plus no sino quise
decir realidad mejor dicho ya corrección one two it call say said tell told get got go use
"""


@dataclass(frozen=True, slots=True)
class _Statement:
    """A text for the comparison.

    Attributes:
        terms: the stems of its words.
        own: the stems that are neither values nor words of a correction.
        values: its values by kind.
        opening: its first words.
        says_so: whether it says that something changed.
        says_now: whether it says how things are now.
    """

    terms: frozenset[str]
    own: frozenset[str]
    opening: tuple[str, ...]
    says_so: bool
    says_now: bool
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def corrects(new: str, old: str) -> bool:
    """Whether a statement corrects an earlier one of the same speaker, by the words that both have.

    >>> corrects("Correction: the dentist is on Thursday.", "My dentist is on Monday at nine.")
    True
    >>> corrects("Is the dentist on Thursday now?", "My dentist is on Monday at nine.")
    False
    """
    return corrects_in_words(new, old) or revision(new, old) is Revision.SURE


def corrects_in_words(new: str, old: str) -> bool:
    """Whether a statement contradicts an earlier one, or says in the words of a correction that it changed."""
    later, earlier = _statement(new), _statement(old)
    if later is None or earlier is None:
        return False
    if later.says_so and later.own and not later.values.keys().isdisjoint(earlier.values):
        return len(later.own & earlier.own) >= _SHARE * min(len(later.own), len(earlier.own)) > 0
    least = min(len(later.terms), len(earlier.terms))
    if not least or len(later.terms & earlier.terms) < _SHARE * least:
        return False
    if later.says_so:
        return True
    is_alike = later.opening == earlier.opening and (later.says_now or _contradicts(new, old))
    return is_alike and not (is_event(new) and not is_event(old))


def corrected(new: str, before: Sequence[str]) -> int | None:
    """The place of what a sentence corrects among the last statements before it; None if it corrects none of them.

    Args:
        new: the sentence.
        before: what was said just before, oldest first, by the same speaker or by an assistant.

    >>> corrected("No, it's the 14th.", ["The meeting is on the 12th.", "It will be in Linz."])
    0
    """
    found = _statement(new)
    if found is None or not found.says_so:
        return None
    for place in range(len(before) - 1, -1, -1):
        if corrects(new, before[place]):
            return place
    if not is_elliptic(new):
        return None
    if not found.values:
        return len(before) - 1 if before else None
    ended = _ended(new)
    for place in range(len(before) - 1, -1, -1):
        earlier = _statement(before[place])
        is_meant = not ended or not ended.isdisjoint(words(before[place]))
        if is_meant and earlier is not None and not earlier.values.keys().isdisjoint(found.values):
            return place
    return None


_not_but = re.compile(
    r"^\W*(?:(?:no|nein|non),? )?(?:it's )?(?:not|nicht|pas|no) (?P<old>.+?),? (?:but|sondern|mais|sino) (?P<new>.+)$",
    re.IGNORECASE,
).match
_but_not = re.compile(
    r"^(?P<new>.+?),? (?:(?:and )?(?:not|nicht|pas|no)(?= (?:(?:at|on|in|the|my|am|um|im|le|la|el) )*[\w:]+$)|instead of|statt|au lieu de|en vez de) "
    r"(?P<old>.+)$",
    re.IGNORECASE,
).match


def in_contrast(text: str) -> tuple[str, str]:
    """A correction without what it ends, and what it ends: "Thursday" and "Monday" of "not Monday but Thursday"."""
    plain = text.rstrip(".!… ")
    match = _not_but(plain) or _but_not(plain)
    return (match["new"], match["old"]) if match else (plain, "")


_changed_from = re.compile(
    r"\b(?:moved|changed|switched|went|converted|migrated|upgraded) (?:[\w']+ ){0,4}?from (.+?) to ",
    re.IGNORECASE,
).search


def _ended(text: str) -> frozenset[str]:
    """The words of what a correction names as ended: Monday of "not Monday but Thursday", and of "from Monday to Thursday"."""
    match = _changed_from(text)
    found = words(in_contrast(text)[1] or (match[1] if match else ""))
    return frozenset(found) - _stops(found)


def is_elliptic(text: str) -> bool:
    """Whether a correction names no subject of its own, and so means what was said just before it."""
    found = _statement(text)
    if found is None or not found.says_so:
        return False
    is_said = any(kind_of(sentence) is SentenceKind.CORRECTION for sentence in split_sentences(text))
    return bool(_takes_back(text)) or (is_said and bool(found.values) and len(found.own) < _OWN_COUNT)


@lru_cache(4_096)
def _statement(text: str) -> _Statement | None:
    """A text for the comparison; None for a question, and for a text of more than `MAX_CHARS`."""
    if len(text) > MAX_CHARS or text.rstrip().endswith("?"):
        return None
    found, stem = words(text), stemmer("english")
    stops, values = _stops(found), values_of(text)
    terms = frozenset(stem(word) for word in found if word not in stops) - _CUE_STEMS
    valued = {stem(word) for held in values.values() for value in held for word in words(value)}
    said = any(kind_of(sentence) is SentenceKind.CORRECTION for sentence in split_sentences(text))
    return _Statement(
        terms, terms - valued, tuple(found[:2]), said or bool(_says_so(text)), bool(_says_now(text)), values
    )


def _stops(found: Sequence[str]) -> frozenset[str]:
    """The stop words of the language of some words, as far as their stop words tell."""
    counts = [sum(word in STOP_WORDS[language] for word in found) for language in _LANGUAGES]
    return frozenset(STOP_WORDS[_LANGUAGES[counts.index(max(counts))]])


@lru_cache(4_096)
def _contradicts(new: str, old: str) -> bool:
    from sense_memory.palace.contradictions.detection import compare_readings  # slow to import

    found = compare_readings(*_claims("old", old), *_claims("new", new))
    return found is not None and found.kind != "turn"  # that says only that something may have changed


@lru_cache(4_096)  # a text is compared with many others
def _claims(key: str, text: str) -> tuple[PersonaMemory, Reading]:
    """A statement as a memory, the new one as the later one, and what it claims."""
    from sense_memory.palace.contradictions.claims import read  # as above

    memory = as_memory(key, text, float(key == "new"))
    return memory, read(memory)


_CUE_STEMS: Final = frozenset(map(stemmer("english"), _CUES.split()))
