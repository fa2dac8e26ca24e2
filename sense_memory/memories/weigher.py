"""How age lowers the scores of a search over everything, and the reasons that its hits give."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.limits import FADING_FROM
from sense_memory.palace.catalog import relevances_at
from sense_memory.palace.search import age_factors, is_in_state, is_open
from sense_memory.search.direct_relevance import DirectRelevance
from sense_memory.search.found_fields import FoundFields
from sense_memory.search.hits import Evidence, Explanation, Kind


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
        near: by row, how near in meaning it is to the question, where there is an embedder.
        zone: the offset from UTC of the clocks that the question means, in seconds east.
    """

    def __init__(
        self,
        index: SearchIndex,
        *,
        query: str,
        now: float,
        floor: float,
        state: State | None = None,
        near: Mapping[int, float] = MappingProxyType({}),
        zone: float = 0.0,
    ) -> None:
        self._state = state
        self._index, self._now, self._floor = index, now, floor
        self._is_fadable = index.documents.of_kind(Kind.PALACE)
        dated = index.dated(query, now, zone)
        self._direct = DirectRelevance(index, query, self._is_fadable, near, dated)
        self._fields = FoundFields(index, query)
        self._known: dict[str, tuple[float, float]] = {}  # by name, what age has left, and the factor

    def factors(self, names: Sequence[str]) -> list[float]:
        """The factors of the scores; 0 for forgotten memories, and for fading ones not directly meant."""
        rows = self._rows(names)
        left = self._left(rows)
        if self._state is None:
            is_shown = ~self._is_fadable[rows] | is_open(left, lambda: self._direct.rows[rows])
        else:
            is_shown = is_in_state(left, self._state)
        return self._noted(names, left, is_shown)

    def forgotten_factors(self, names: Sequence[str]) -> list[float]:
        """As `factors`, for a search among the rows of `forgotten` alone."""
        left = self._left(self._rows(names))
        return self._noted(names, left, np.ones(len(names), np.bool_))

    def forgotten(self) -> list[int]:
        """The rows with a forgotten or dissolved memory that the query directly means."""
        rows = np.flatnonzero(self._direct.rows)
        found: list[int] = rows[self._left(rows) < FADING_FROM].tolist()
        return found

    def explain(self, hit: SearchHit, texts: Mapping[str, str]) -> Explanation:
        """The reasons of a hit, with those of its fields (texts by name) that contain words of the query.

        The index may have changed since the search.
        """
        evidence = [
            Evidence(
                kind=reason.kind,
                detail=reason.detail,
                fields=self._fields.having(hit.id, reason.detail, texts) if reason.kind in _WORDS else (),
                contribution=reason.share,
            )
            for reason in hit.why
        ]
        return Explanation.of(evidence, *self._known[hit.id])

    def _rows(self, names: Sequence[str]) -> NDArray[np.int64]:
        return np.array([self._index.documents.rows[name] for name in names], np.int64)

    def _left(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What age has left of some memories."""
        return relevances_at(self._now, self._index.documents.ages(rows))

    def _noted(
        self, names: Sequence[str], left: NDArray[np.float64], is_shown: NDArray[np.bool_]
    ) -> list[float]:
        """The factors of some memories, kept for their explanations."""
        factors: list[float] = (age_factors(np.minimum(1.0, left), self._floor) * is_shown).tolist()
        self._known.update(zip(names, zip(left.tolist(), factors, strict=True), strict=True))
        return factors
