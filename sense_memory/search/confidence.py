"""How sure a search may be that a memory answers the question: a number from 0 to 1, with the same meaning in any palace.

A score orders the memories of one search, and says nothing about whether any of them is an answer: in a palace of 1,000
memories, the best score for a question without an answer is as high as for others. `confidence` estimates the
probability that a memory answers the question, from a few clues (`search.clues` finds them):

* how much it has of what the question asks *beyond its names*, by rarity: a rare word that the memory lacks counts more
  than a common one, and a word that nothing in the palace has counts most. This counts only as far as the memory has the
  names, because a memory of another person's dentist answers nothing;
* whether it has the names of the question;
* how far it stands apart from the next hit;
* whether it has the kind of answer that the question asks for (`search.answers`);
* with an embedder, how near its meaning is to what the question asks *beyond its names* (`query.names_in`): of the
  memories about Mira, "Mira wears size 39" and no other is near to "what is the shoe size".

Bare words ("tea") ask for no answer: what has all of them is what was looked up.

Guaranteed: the result is between 0 and 1, grows with each clue when the others stay the same, and is the same for the
same clues. An answer is as sure as its surest hit (`of_answer`). The weights are those of a logistic regression, one
for words alone and one for words and meaning, fitted to the questions of `tests/search/fit_confidence.py` and to those
of another author, which are not in this repository, then rounded by hand, so that 0.8 is rarely wrong on both. Two
thirds of the first and half of the others have no answer, although the memories have their names and topics.

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
_FOUND: Final = 0.9  # not fitted: who looks words up wants what has them, however many others have them
_FOUND_BY_MEANING: Final = 0.25  # not fitted: a single word that is looked up and only meant
UNKNOWN: Final = 0.5  # of the names of a question without a name, and of what one asks that has only names


class Clues(NamedTuple):
    """What is known about one hit.

    Attributes:
        covered: the share of the question's other words that the memory has, by rarity, times the share of its names; 0
            to 1.
        named: the share of the question's names that it has; `UNKNOWN` where the question has none.
        apart: the share of its score by which it is before the next hit, 0 to 1.
        on_day: 1 if it was said on the days that the question names, less if soon after them, else 0.
        looked_up: how many words are only looked up ("tea", "anything about tea"); 0 for a question with an answer.
        meaning: by how many standard deviations its meaning is nearer than usual to what the question asks beyond its
            names; None without an embedder.
    """

    covered: float
    named: float
    apart: float
    on_day: float = 0.0
    looked_up: int = 0
    meaning: float | None = None


class _Weights(NamedTuple):
    """Of a logistic regression."""

    base: float
    covered: float
    named: float
    apart: float
    has_answer: float
    lacks_answer: float
    meaning: float = 0.0


_BY_WORDS: Final = _Weights(-6.7, 3.7, 3.6, 2.4, 0.9, 2.5)
_BY_MEANING: Final = _Weights(-9.9, 1.0, 4.2, 3.3, 0.3, 3.4, 0.9)


def confidence(clues: Clues, is_answered: bool | None = None) -> float:
    """The probability that a memory answers the question, from 0 to 1.

    Args:
        clues: of the memory.
        is_answered: whether it has the kind of answer that is asked for; None if that is not known.
    """
    weights = _BY_WORDS if clues.meaning is None else _BY_MEANING
    # By words alone, what has the names and nothing else that is asked stands apart by nothing.
    apart = clues.apart if clues.covered > 0 or clues.meaning is not None else 0.0
    evidence = (
        weights.base
        + weights.covered * clues.covered
        + weights.named * clues.named
        + weights.apart * apart
        + _ON_DAY * clues.on_day
        + weights.meaning * (clues.meaning or 0.0)
    )
    if is_answered is not None:
        evidence += weights.has_answer if is_answered else -weights.lacks_answer
    return max(_as_looked_up(clues), 1 / (1 + exp(-max(-30.0, min(30.0, evidence)))))


def _as_looked_up(clues: Clues) -> float:
    """The least confidence in a hit of words that are looked up."""
    if not clues.looked_up:
        return 0.0
    if clues.covered > 0.99:
        return _FOUND
    return _FOUND_BY_MEANING if clues.looked_up == 1 else 0.0


def confidence_in(text: str, question: str, clues: Clues | None) -> float:
    """The probability that a text answers a question, to three decimals; 0 without clues."""
    if clues is None:
        return 0.0
    return round(confidence(clues, has_answer(asked_for(question), question, text)), 3)


def of_answer(confidences: Iterable[float]) -> float:
    """The confidence that any of some hits answers the question: that of the surest; 0 without hits."""
    return max(confidences, default=0.0)
