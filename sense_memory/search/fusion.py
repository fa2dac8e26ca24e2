"""How evidence becomes one ranking: every kind on one scale, then a weighted sum.

Lexical, session and dense scores are measured in their standard deviations among the candidates, so that none
drowns the others whatever its unit and however many memories there are; a speaker or a date that fits adds a
fixed step on that scale. The weights were set on LoCoMo conversations and BEAM chats, on a coarse grid and
where it is flat, and are round on purpose. A lever that is off adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np


if TYPE_CHECKING:
    from numpy.typing import NDArray

CANDIDATES: Final = 1_000  # memories that the words select, and that everything else then orders
SPEAKER_WEIGHT: Final = 1.5
DATE_WEIGHT: Final = 2.0
SESSION_WEIGHT: Final = 0.5
SESSION_MEMORIES: Final = 25  # a longer session says less about each of its memories
DENSE_WEIGHT: Final = 0.5
_SAMPLED: Final = 16  # of so many scores one tells where the highest of all may be
MIN_SIMILAR: Final = 0.2  # the cosine from which a memory without any of the words is still worth a look


@dataclass(frozen=True, slots=True)
class Levers:
    """What a search takes into account besides the words of each memory; all of it unless switched off.

    Attributes:
        neighbours: memories said just before and after in the same session or on the same day.
        speaker: who said it, where the query names somebody or says "I" or "you".
        dates: when it was said, where the query names a date.
        session: how well the whole session fits.
        spread: compounds, and words that resemble one that nobody wrote.
        pieces: long memories are searched piece by piece; decided when an index is made.
        dense: meaning, where the index has an embedder.
    """

    neighbours: bool = True
    speaker: bool = True
    dates: bool = True
    session: bool = True
    spread: bool = True
    pieces: bool = True
    dense: bool = True


def scale(scores: NDArray[Any], among: int) -> float:
    """The standard deviation of some scores and as many zeros as make up a number; 1 if there is none.

    Args:
        scores: of the candidates.
        among: how many there would be if every memory were a candidate.
    """
    count = max(among, len(scores), 1)
    wide = scores.astype(np.float64)
    mean = float(wide.sum()) / count
    deviation = max(0.0, float((wide * wide).sum()) / count - mean * mean) ** 0.5
    return deviation if deviation > 1e-9 else 1.0


def best(scores: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The places of the highest scores above 0, at most so many, in no order; all ties at the end."""
    places = np.flatnonzero(scores > 0)
    if len(places) <= count:
        return places
    found = scores[places]
    if len(places) > _SAMPLED * _SAMPLED:
        likely = found >= _last_of(found[::_SAMPLED], 2 * count // _SAMPLED + 1)  # of all about twice as many
        if np.count_nonzero(likely) >= count:
            places, found = places[likely], found[likely]
    chosen: NDArray[np.int64] = places[found >= _last_of(found, count)]
    return chosen


def _last_of(scores: NDArray[Any], count: int) -> Any:
    """The lowest of the highest."""
    place = max(0, len(scores) - count)
    return np.partition(scores, place)[place]
