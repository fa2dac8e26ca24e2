"""The clues that an index has about the hits of a search, for `search.confidence`: which parts of a question each has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from sense_memory.search.confidence import UNKNOWN, Clues
from sense_memory.search.date_evidence import WITHIN_FIT
from sense_memory.search.query import bare


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.lexical import TermRows, TermScores


# The share of its rarity with which a word counts that asks, and hardly ever stands in the answer.
_GENERAL: Final = 0.4
_GENERAL_WORDS_TEXT: Final = """
name names called kind type much long old big many often far tall deep hot early late colour color favourite
favorite number full last first work live job high large size cost date day time thing person someone next still
take get got give go put keep use want need make come happen happens
"""
_GENERAL_WORDS: Final = frozenset(_GENERAL_WORDS_TEXT.split())


class QuestionPart(NamedTuple):
    """One word of a question, or a beginning.

    Attributes:
        rarity: how surprising it is that a memory has it, in nats, lowered for words that only ask.
        is_name: whether it is a name.
        found: the pieces of memories that have it; None for a word that is unknown here.
    """

    rarity: float
    is_name: bool
    found: TermRows | TermScores | None

    def fits(self, spans: NDArray[np.int32]) -> list[float]:
        """How well each of some memories has it, 0 to 1, in its best piece; see `clues_of`."""
        if self.found is None:
            return [0.0] * len(spans)
        counts, is_other = self.found.counts, self.found.is_other
        best = []
        for start, stop in self.found.rows.searchsorted(spans).tolist():
            fit = 0.0
            if start < stop:
                one = counts[start] if stop == start + 1 else counts[start:stop].max()
                fit = min(1.0, float(one))
                if is_other is not None and is_other[start:stop].all():
                    fit *= self.found.wanted.other
            best.append(fit)
        return best


def parts_of(
    found: Iterable[TermRows | TermScores], missing: Iterable[str], names: Collection[str], count: int
) -> list[QuestionPart]:
    """The parts of a question.

    Args:
        found: its words, beginnings and phrases, with the pieces that have them.
        missing: its words and beginnings that nothing has.
        names: its names.
        count: of all memories.
    """
    rarest = float(np.log1p((count + 0.5) / 0.5))
    known = [(item.wanted.label, item.rarity, item) for item in found if item.wanted.kind != "phrase"]
    return [
        QuestionPart(rarity * (_GENERAL if label in _GENERAL_WORDS else 1), bare(label) in names, item)
        for label, rarity, item in (*known, *((word, rarest, None) for word in missing))
    ]


def clues_of(
    spans: Sequence[tuple[int, int]],
    found: Sequence[tuple[str, float, float]],
    parts: Sequence[QuestionPart],
    *,
    is_lookup: bool,
) -> list[Clues]:
    """The clues that words and times give about some hits.

    Args:
        spans: the first piece of each hit and the first after it, the best hit first.
        found: the ids of the hits, their scores, and how well they fit the times of the question.
        parts: of the question.
        is_lookup: whether its words are only looked up.
    """
    looked_up = len(parts) if is_lookup else 0
    by_words = _by_words(spans, [score for _, score, _ in found], parts, looked_up)
    return [
        _on_days(clues, share, is_all=not parts) if share else clues
        for clues, (_, _, share) in zip(by_words, found, strict=True)
    ]


def _by_words(
    spans: Sequence[tuple[int, int]],
    scores: Sequence[float],
    parts: Sequence[QuestionPart],
    looked_up: int,
) -> list[Clues]:
    of_names = sum(part.rarity for part in parts if part.is_name)
    of_others = sum(part.rarity for part in parts if not part.is_name)
    places = np.array(spans, np.int32).reshape(
        -1, 2
    )  # of the type of the pieces: another one would be converted
    fits = [part.fits(places) for part in parts]
    found = []
    rarities = [part.rarity for part in parts]
    are_names = [number for number, part in enumerate(parts) if part.is_name]
    last = 0.0 if len(scores) < 2 else scores[-1]  # the last of several is not apart: it only ends the list
    for number, (score, after) in enumerate(zip(scores, (*scores, last)[1:], strict=True)):
        had = [rarity * fit[number] for rarity, fit in zip(rarities, fits, strict=True)]
        names = sum(had[place] for place in are_names)
        named = names / of_names if of_names else 1.0
        others = (sum(had) - names) / of_others if of_others else UNKNOWN
        found.append(
            Clues(
                covered=named * others if parts else 0.0,
                named=named if of_names else UNKNOWN,
                apart=max(0.0, 1 - after / score) if score > 0 else 0.0,
                looked_up=looked_up,
            )
        )
    return found


def _on_days(clues: Clues, share: float, *, is_all: bool) -> Clues:
    """The clues of a hit of the days that a question names.

    Args:
        clues: without that.
        share: 1 on these days, less soon after them.
        is_all: whether the question asks for the days alone, so that a memory of these days has all of it, and one of
            the week after has nothing of it.
    """
    if is_all:
        return clues._replace(on_day=share, covered=share) if share >= WITHIN_FIT else clues
    return clues._replace(on_day=share)
