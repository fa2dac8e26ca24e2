"""How sure a search may be that a memory answers the question: a number from 0 to 1, with the same meaning in any palace.

A score orders the memories of one search, and says nothing about whether any of them is an answer: in a palace of 1,000
memories, the best score for a question without an answer is as high as for others. `confidence` estimates the
probability that a memory answers the question, from a few clues (`search.clues` finds them):

* how much of the question the memory has, by rarity: a rare word that the memory lacks counts more than a common one, and
  a word that nothing in the palace has counts most;
* how much rarer it is to have these words than chance gives among so many memories: if words were spread at random, the
  most surprising of N memories would be surprising by ln N nats, so ln N is subtracted;
* whether it has the names of the question;
* how far it stands apart from the next hit;
* whether it has the kind of answer that the question asks for (`search.answers`);
* with an embedder, how near its meaning is to what the question asks *beyond its names* (`query.names_in`): of the
  memories about Mira, "Mira wears size 39" and no other is near to "what is the shoe size".

Guaranteed: the result is between 0 and 1, grows with each clue when the others stay the same, and is the same for the
same clues. An answer is as sure as its surest hit (`of_answer`). The weights are those of a logistic regression, one for
words alone and one for words and meaning, fitted by `tests/search/fit_confidence.py` to questions over palaces of 30 to 10,000
memories; two thirds of them have no answer there, although its memories have their names and topics.

It does not promise that an answer is true, or that a question with a low confidence has none: where the memory says it in
other words, words alone cannot know. Cost: a few operations for each hit, and with an embedder a second text to embed for
questions with names.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.search.answers import asked_for, has_answer


if TYPE_CHECKING:
    from collections.abc import Iterable


LOW_CONFIDENCE: Final = 0.2  # below this, a door says that there is probably nothing about the question
_ON_DAY: Final = 4.0  # not fitted: as much as two thirds of the words, which a question of a day hardly has
UNKNOWN: Final = 0.5  # of `Clues.named`, for a question without a name


class Clues(NamedTuple):
    """What is known about one hit.

    Attributes:
        covered: the share of the question's words that the memory has, by rarity, 0 to 1.
        beyond: how surprising it is that a memory has these words, in nats, less what chance gives.
        named: the share of the question's names that it has; `UNKNOWN` where the question has none.
        apart: the share of its score by which it is before the next hit, 0 to 1.
        on_day: 1 if it was said on the days that the question names, less if soon after them, else 0.
        meaning: by how many standard deviations its meaning is nearer than usual to what the question asks beyond its
            names; None without an embedder.
    """

    covered: float
    beyond: float
    named: float
    apart: float
    on_day: float = 0.0
    meaning: float | None = None


class _Weights(NamedTuple):
    """Of a logistic regression."""

    base: float
    covered: float
    beyond: float
    named: float
    apart: float
    has_answer: float
    lacks_answer: float
    meaning: float = 0.0


_BY_WORDS: Final = _Weights(-6.4, 2.8, 0.34, 2.55, 1.8, 0.8, 2.7)
_BY_MEANING: Final = _Weights(-10.8, 2.4, 0.0, 5.6, 3.75, 0.5, 3.0, 0.45)


def confidence(clues: Clues, is_answered: bool | None = None) -> float:
    """The probability that a memory answers the question, from 0 to 1.

    Args:
        clues: of the memory.
        is_answered: whether it has the kind of answer that is asked for; None if that is not known.
    """
    weights = _BY_WORDS if clues.meaning is None else _BY_MEANING
    evidence = (
        weights.base
        + weights.covered * clues.covered
        + weights.beyond * clues.beyond
        + weights.named * clues.named
        + weights.apart * clues.apart
        + _ON_DAY * clues.on_day
        + weights.meaning * (clues.meaning or 0.0)
    )
    if is_answered is not None:
        evidence += weights.has_answer if is_answered else -weights.lacks_answer
    return 1 / (1 + exp(-max(-30.0, min(30.0, evidence))))


def confidence_in(text: str, question: str, clues: Clues | None) -> float:
    """The probability that a text answers a question, to three decimals; 0 without clues."""
    if clues is None:
        return 0.0
    return round(confidence(clues, has_answer(asked_for(question), question, text)), 3)


def of_answer(confidences: Iterable[float]) -> float:
    """The confidence that any of some hits answers the question: that of the surest; 0 without hits."""
    return max(confidences, default=0.0)
