"""The words of a key that the text of a memory does not say, which a prompt has to add as a label. Pure.

A key costs tokens, and mostly repeats its text: "Lisa teaches workshops" needs no `lisa-teaches-workshops`. What a text
does not say stays: the subject of `voxrelay-latency` in "Median latency is 420 ms", all of `hana-birthday` in "14
September 1988". A word behind the subject that only names the topic, such as `timezone`, is left out where the text is
a sentence about the subject. A word that could change what the text says (`old`, `plan`, `not`, a number) keeps the
whole key, and so does a command or another fragment, which only its key explains.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sense_memory.search.tokens import fold


if TYPE_CHECKING:
    from collections.abc import Iterator


_WORD: Final = re.compile(r"[^\W_]+")
_ENDING: Final = 3  # letters by which two words of one root may differ: allergy, allergic
_ROOT: Final = 4  # letters that they share at least
_SMALL: Final = frozenset(
    "a an and as at by detail details fact facts for from her his in info is it its my note notes of on or our the their "  # noqa: SIM905 - reads best as words
    "to with your".split()
)
_NEGATIONS: Final = frozenset(("no", "not", "never", "non", "without"))
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|none|nor|nothing|nobody|neither|without|cannot)\b|n['\u2019]t\b", re.IGNORECASE
)
# Beside a text that does not say these words, they can make it past, untrue, uncertain or somebody else's.
_QUALIFIERS: Final = frozenset(
    (  # noqa: SIM905 - reads best as words
        "after alleged almost alt alte alternative alternatively ancien ancienne antes antigua antiguo archive archived backup before "
        "bisher bisherige broken cancelled canceled character claim claims conditional damals demo deprecated derzeit draft "
        "dream ehemalig ehemalige ehemaliger else entwurf ex example except expired fake false fiction fictional former formerly "
        "frueher früher future geplant goal guess hearsay historic historical hope hypothesis hypothetical idea if imagined initial "
        "instead intended joke kein keine last later legacy maybe mock next nicht nie novel obsolete old older once only opinion "
        "optional or original other outdated past pending perhaps plan planned plans possible potential prevu previous prior "
        "proposal proposed provisional quote rejected replaced retired role-play rumor rumour said sans secret sin story superseded "
        "supposed temp temporary test tentative theory todo unconfirmed unless until unverified viejo vieja vieux was were when "
        "wish wishes without wrong yesterday"
    ).split()
)
_VERB: Final = re.compile(
    r"\b(?:is|are|was|were|am|be|been|has|have|had|do|does|did|will|would|can|cannot|could|may|might|must|shall|should)\b"
    r"|n['\u2019]t\b"
)


_OWN: Final = re.compile(r"(?:I|I['\u2019](?:m|ve|d|ll)|My) ")


def label_of(key: str, text: str, *, is_sentence: bool = False, is_own: bool = False) -> str:
    """The words of a key that a reader needs beside a text: none, some joined by `-`, or the whole key.

    Args:
        key: the key of a memory.
        text: its text.
        is_sentence: whether the text is known to be a sentence about the first word of the key.
        is_own: whether the memory is about the agent itself, so that "I" and "my" name its subject.
    """
    names = [match[0] for match in _WORD.finditer(key)]
    if not names:
        return key
    words = [match[0] for match in _WORD.finditer(fold(text))]
    spoken = {*words, *(first + second for first, second in pairwise(words))}
    unsaid = [
        name for place, name in enumerate(names) if not _says(text, spoken, fold(name), exact=not place)
    ]
    if not [name for name in unsaid if name.lower() not in _SMALL]:
        begins = words and any(_says(text, {words[0]}, fold(name), exact=False) for name in names)
        return "" if begins or is_sentence or not text[:1].islower() or _VERB.search(text) else key
    if any(_qualifies(name.lower()) for name in unsaid):
        return key
    if is_own and _OWN.match(text):
        return ""
    if unsaid[0] != names[0] and (is_sentence or _VERB.search(text)):
        return ""
    return key if len(unsaid) == len(names) else "-".join(unsaid)


def _says(text: str, spoken: set[str], name: str, *, exact: bool) -> bool:
    """Whether a text, whose folded words and pairs of words are `spoken`, says a folded word of the key."""
    if any(form in spoken for form in _forms(name)):
        return True
    if name in _NEGATIONS:
        return _NEGATED.search(text) is not None
    return not (exact or _qualifies(name)) and any(_are_kin(name, word) for word in spoken)


def _forms(name: str) -> Iterator[str]:
    """A word and its regular English forms, which name the same thing."""
    yield from (name, f"{name}s", f"{name}ing")
    if len(name) > _ROOT:
        yield name.removesuffix("s")
    if len(name) > _ROOT + 2 and name.endswith("ing"):
        yield from (name.removesuffix("ing") + ending for ending in ("", "s", "e", "es"))


def _are_kin(first: str, second: str) -> bool:
    """Whether two words seem to have one root: they differ by endings of at most three letters."""
    shared = next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    return shared >= _ROOT and max(len(first), len(second)) - shared <= _ENDING


def _qualifies(name: str) -> bool:
    return name in _QUALIFIERS or name in _NEGATIONS or any(sign.isdigit() for sign in name)
