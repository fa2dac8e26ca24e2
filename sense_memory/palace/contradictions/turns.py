"""Suspicions that need an embedder: a memory tells, in other words, that an older one holds no longer.

Two memories in like words have been judged by those. This rule judges the others: the later one must tell a turn of things
("retired", "was a mistake"), and both must speak of nearly the same, as an embedder has it, and be short. A linear score of
these decides. It knows no scope beyond that: half of what it finds in pairs that were made to mislead is wrong.

Guaranteed: nothing that is found here acts; without an embedder nothing is found; a pair that cannot reach the bound is
never asked for, so most texts are never embedded for it. The weights are those of a logistic model, fitted on the half
`tune` of the labelled pairs and on half of a natural corpus. It costs two searches of a pattern for most pairs. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions.figures import items
from sense_memory.palace.contradictions.vocabulary import ARTICLES, BE, HINTS, LASTING, PAST, TURNS, stem


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.phrases import Alike

TURN: Final = "turn"  # the kind of such a contradiction
_BIAS: Final = 1.7  # with the bound: a score above 0 is a suspicion
_NEAR: Final = (
    0.56  # for each standard deviation that they are nearer than two sentences about one person usually are
)
_TURN: Final = 5.3
_SLIGHT_TURN: Final = 2.74
_WORD: Final = -0.27  # for each word of both
_NEAREST: Final = 8.0  # standard deviations; nothing is nearer
_MAX_FRAME: Final = (
    0.5  # share of the shorter text's words that the other has in the same order; above, worded alike
)

_TOKEN: Final = re.compile(r"[^\W_]+(?:[.:]\d+)*")
_POSSESSIVE: Final = re.compile(r"['\u2019]s\b")
_NAMING: Final = re.compile(r"[a-z]\d")


def is_turn(old: str, new: str, alike: Alike) -> bool:
    """Whether a later text tells in other words that an earlier one holds no longer.

    Args:
        old: the earlier text.
        new: the later text.
        alike: how near two sentences are, in standard deviations, as `Phrases.alike` has it.

    >>> near = lambda one, other: 3.0
    >>> is_turn("Berenike teaches Latin", "Berenike retired and does not stand before a class any more", near)
    True
    >>> is_turn("Berenike teaches Latin", "Berenike teaches Greek", near)  # worded alike
    False
    >>> is_turn("Yaw is at school in Takoradi", "The office of Yaw is on the second floor", near)  # no turn
    False
    >>> is_turn("Berenike teaches Latin", "Berenike retired and does not stand before a class any more", lambda *_: -9.0)
    False
    """
    before, after = old.lower(), new.lower()
    turn = _TURN if TURNS.search(after) else _SLIGHT_TURN if HINTS.search(after) else 0.0
    score = _BIAS + turn + _WORD * (len(before.split()) + len(after.split()))
    if not turn or score + _NEAR * _NEAREST <= 0 or TURNS.search(before):
        return False
    if PAST.search(before) and not LASTING.search(before):
        return False
    one, other = _named(before), _named(after)
    if (one and other and one != other) or _frame(before, after) > _MAX_FRAME:
        return False
    return score + _NEAR * alike(_sentence(old), _sentence(new)) > 0


def _sentence(text: str) -> str:
    return f"{text.rstrip('. ')}."


def _named(text: str) -> set[str]:
    """What is told apart by a number: `user 4711`, `v2`."""
    return {
        item for item in items(text) if isinstance(item, str) and (item[0] == "#" or _NAMING.search(item))
    }


def _frame(old: str, new: str) -> float:
    """The share of the shorter text's words that the longer one has in the same order."""
    one, other = (
        [
            stem(word)
            for word in _TOKEN.findall(_POSSESSIVE.sub("", text))
            if word not in ARTICLES and word not in BE
        ]
        for text in (old, new)
    )
    row = [0] * (len(other) + 1)
    for word in one:
        last = row
        row = [0]
        for at, with_word in enumerate(other):
            row.append(last[at] + 1 if word == with_word else max(last[at + 1], row[at]))
    return row[-1] / max(1, min(len(one), len(other)))
