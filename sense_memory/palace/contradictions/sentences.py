"""How near two notes are in meaning, as an embedder has it.

Cosines of different models cannot be compared, so nearness is told in standard deviations above what is usual between two
sentences about one person. A note is embedded as one sentence, by the caller: one without a known vector is queued. Pure.
"""

from __future__ import annotations

from itertools import combinations
from math import isfinite
from statistics import mean, pstdev
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from numpy.typing import NDArray

    Near: TypeAlias = Callable[[str, str], float | None]  # see `Sentences.near`

# Sentences that are queued at a time, besides the sample: a call of an endpoint, half a second of a small model.
MAX_ASKED_COUNT: Final = 64
MAX_KNOWN_COUNT: Final = 10_000  # sentences remembered: some 10 MB
_TOLD: Final = """lives in Graz, works at a bakery, plays the violin, is allergic to nuts, has two brothers,
likes hiking, drives an old van, speaks Polish, was born in May, is learning to swim, prefers short answers,
sold the house, reads novels at night, pays 900 euros of rent, is married to Tom, wants a dog"""
_SAMPLE: Final = tuple(f"Nora {told}." for told in _TOLD.replace("\n", " ").split(", "))


class Sentences:
    """What sentences mean, as far as an embedder has said."""

    def __init__(self) -> None:
        self._rows: dict[str, NDArray[Any]] = {}
        self._asked: dict[str, None] = {}
        self._usual: tuple[float, float] | None = None  # mean and spread of the cosines of the sample

    def asked(self) -> list[str]:
        """The sentences whose vectors `near` lacked, and the sample if it is unknown; empties the queue."""
        found, self._asked = list(self._asked), {}
        return found if self._usual or not found else [*found, *_SAMPLE]

    def learn(self, sentences: Sequence[str], rows: NDArray[Any]) -> None:
        """What some sentences mean: for each a row of length 1, all of one model. A row that is not finite says nothing."""
        if len(self._rows) > MAX_KNOWN_COUNT:
            self._rows = {}
        self._rows |= ((text, row) for text, row in zip(sentences, rows, strict=True) if isfinite(row @ row))
        if self._usual is None and self._rows.keys() >= set(_SAMPLE):
            cosines = [float(self._rows[a] @ self._rows[b]) for a, b in combinations(_SAMPLE, 2)]
            self._usual = mean(cosines), max(pstdev(cosines), 1e-6)

    def near(self, one: str, other: str) -> float | None:
        """By how many standard deviations two notes are nearer than two sentences about one person usually are; None where a
        vector is missing, which is then queued if there is room.
        """
        pair = [f"{' '.join(text.split()).rstrip('. ')}." for text in (one, other)]
        missing = [sentence for sentence in pair if sentence not in self._rows]
        if missing or self._usual is None:
            if len(self._asked) + len(missing) <= MAX_ASKED_COUNT:
                self._asked |= dict.fromkeys(missing or pair[:1])
            return None
        mean_, spread = self._usual
        return (float(self._rows[pair[0]] @ self._rows[pair[1]]) - mean_) / spread
