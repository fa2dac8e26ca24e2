"""How age lowers the scores of a search over everything, and the reasons that its hits give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.palace.catalog import STATES, relevances_at, states_at
from sense_memory.palace.search import is_open
from sense_memory.search.hits import Evidence, Explanation, Kind
from sense_memory.search.query import Fields


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.models import State
    from sense_memory.search.index import SearchIndex
    from sense_memory.search.ranking import SearchHit

_WORDS: Final = frozenset({"word", "prefix", "phrase"})


class Weigher:
    """Weighs the memories of one search by age, by their names in the index.

    Args:
        index: the index that is searched.
        query: the question.
        now: seconds since 1970.
        floor: the lowest factor of a memory that is shown.
        state: of the only memories that are shown; by default active ones, and fading ones directly meant.
    """

    def __init__(
        self, index: SearchIndex, *, query: str, now: float, floor: float, state: State | None = None
    ) -> None:
        self._state = state
        self._index, self._query, self._now, self._floor = index, query, now, floor
        self._is_fadable = index.documents.of_kind(Kind.PALACE)
        self._is_meant: NDArray[np.bool_] | None = None
        self._known: dict[str, tuple[float, float]] = {}  # by name, what age has left, and the factor

    def factors(self, names: Sequence[str]) -> list[float]:
        """The factors of the scores; 0 for forgotten memories, and for fading ones not directly meant."""
        left, factors = self._weighed(names)
        self._known.update(zip(names, zip(left, factors, strict=True), strict=True))
        return factors

    def explain(self, hit: SearchHit, texts: Mapping[str, str]) -> Explanation:
        """The reasons of a hit, with those of its fields (texts by name) that contain words of the query.

        The index may have changed since the search.
        """
        fields = Fields(texts, self._index.vocabulary)
        evidence = [
            Evidence(
                kind=reason.kind,
                detail=reason.detail,
                fields=fields.having(reason.detail) if reason.kind in _WORDS else (),
                contribution=reason.share,
            )
            for reason in hit.why
        ]
        return Explanation.of(evidence, *self._known[hit.id])

    def _weighed(self, names: Sequence[str]) -> tuple[list[float], list[float]]:
        """What age has left of each memory, and its factor."""
        documents = self._index.documents
        rows = np.array([documents.rows[name] for name in names], np.int64)
        left = relevances_at(self._now, documents.ages(rows))
        if self._state is None:
            is_shown = ~self._is_fadable[rows] | is_open(left, lambda: self._meant()[rows])
        else:
            is_shown = states_at(left) == STATES.index(self._state)
        factors = (self._floor + (1 - self._floor) * np.minimum(1.0, left)) * is_shown
        return left.tolist(), factors.tolist()

    def _meant(self) -> NDArray[np.bool_]:
        if self._is_meant is None:
            self._is_meant = self._index.meant(self._query)
        return self._is_meant
