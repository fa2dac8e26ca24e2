"""How well palace memories match the parts of a query, by field: key, themes and value, meaning and time.

Each match has the weight of its field. `palace.search` ranks by the sum, times relevance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from sense_memory.search import evidence
from sense_memory.search.postings import FIELD_WEIGHTS, KEY, OTHER_FORM_WEIGHT, THEMES, VALUE, fits
from sense_memory.search.query import FAR_WEIGHT


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.date_evidence import DateEvidence
    from sense_memory.search.index import SearchIndex
    from sense_memory.search.query import Wanted


FIELDS: Final = ("key", "themes", "value")
MEANING: Final = "meaning"  # the field of a match by meaning
DATE: Final = "date"  # the field of a match by a time
DATE_WEIGHT: Final = 3.0  # of a memory of the time that is asked for: a word in its key
MEANING_WEIGHT: Final = 18.0  # of a memory that means exactly the question: three words in all fields
_SEARCHED: Final = (KEY, THEMES, VALUE)  # the index's fields, in the order of `FIELDS`
PLACES: Final = (*FIELDS, MEANING, DATE)

_Parts: TypeAlias = (
    "Sequence[tuple[NDArray[Any], NDArray[np.float32]]]"  # rows and fits, by field of `FIELDS`
)


class FieldMatch(NamedTuple):
    """One part of a query in one field, with the score that it adds to each matching row."""

    field: int  # in `PLACES`
    kind: str  # as of `Evidence`
    label: str  # empty for a time, which `_why` names
    values: NDArray[np.float32]


class FieldMatches:
    """One search: the places of its terms among palace memories, each term looked up once.

    Args:
        index: the index that is searched.
        is_there: which documents of the index are palace memories.
    """

    def __init__(self, index: SearchIndex, is_there: NDArray[np.bool_]) -> None:
        self._index, self.is_there = index, is_there
        self._count = int(np.count_nonzero(is_there))
        self._found: dict[int, tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}

    def is_used(self, term: int) -> bool:
        """Whether a palace memory has a term."""
        return len(self._with_term(term)[0]) > 0

    def matched(
        self,
        wanted: Sequence[Wanted],
        meant: Mapping[int, float],
        is_sentence: bool,
        dated: DateEvidence | None,
    ) -> tuple[NDArray[np.int64], list[FieldMatch]]:
        """The documents that match any part of a query, and the score that each match adds."""
        by_parts = [self._fits(item) for item in wanted]
        anywhere = np.zeros(len(self.is_there), np.bool_)
        anywhere[list(meant)] = True
        fits = None if dated is None else dated.fits() * self.is_there
        if fits is not None:
            anywhere |= fits > 0
        holders = [self._holders(by_field) for by_field in by_parts]
        for found in holders:
            anywhere[found] = True
        rarities = [self._rarity(len(found)) for found in holders]
        present = [rarity for rarity in rarities if rarity]
        mean = sum(present) / len(present) if present else 1.0
        rows = np.flatnonzero(anywhere)
        matches = list[FieldMatch]()
        dense = np.zeros(len(self.is_there), np.float32)
        credit = self._credit(rows, rarities, by_parts)
        for item, rarity, by_field in zip(wanted, rarities, by_parts, strict=True):
            for place, (found, strengths) in enumerate(by_field):
                if len(found):
                    weight = FIELD_WEIGHTS[_SEARCHED[place]] * rarity / mean
                    dense[found] = strengths * np.float32(weight)
                    matches.append(FieldMatch(place, item.kind, item.label, dense[rows] * credit))
                    dense[found] = 0
        if meant:
            only = evidence.only_words(holders, len(dense))
            near = self._near(rows, meant, only, matches if is_sentence else ())
            for number, item in enumerate(wanted):
                if item.other < OTHER_FORM_WEIGHT:
                    itself = self._has_itself(by_parts[number])[rows]
                    evidence.lower_others(near, (only[rows] == number) & ~itself, itself)
            matches.append(FieldMatch(len(FIELDS), MEANING, MEANING, near))
        if fits is not None:
            weighed = fits[rows] * np.float32(DATE_WEIGHT)
            matches.append(FieldMatch(PLACES.index(DATE), DATE, "", weighed))
        return rows, matches

    def _near(
        self,
        rows: NDArray[np.int64],
        meant: Mapping[int, float],
        only: NDArray[np.int16],
        matches: Sequence[FieldMatch],
    ) -> NDArray[np.float32]:
        """What meaning adds to each row beside the matches of a question's words; as in `search.ranking`."""
        near = np.zeros(len(self.is_there), np.float32)
        near[list(meant)] = np.fromiter(meant.values(), np.float32) * np.float32(MEANING_WEIGHT)
        if not matches:
            return near[rows]
        words = sum((match.values for match in matches), np.zeros(len(rows), np.float32))
        found: NDArray[np.float32] = np.maximum(near[rows] - words, evidence.beyond_words(near, only)[rows])
        return np.maximum(found, np.float32(0), out=found)

    def _has_itself(self, by_field: _Parts) -> NDArray[np.bool_]:
        """Whether documents match a part of the query by more than a form that is another word more often."""
        there = np.zeros(len(self.is_there), np.bool_)
        for found, strengths in by_field:
            there[found[strengths > FAR_WEIGHT]] = True
        return there

    def _holders(self, by_field: _Parts) -> NDArray[np.int64]:
        """The documents that match a part of the query in any field."""
        there = np.zeros(len(self.is_there), np.bool_)
        for found, _ in by_field:
            there[found] = True
        return np.flatnonzero(there)

    def _credit(
        self, rows: NDArray[np.int64], rarities: Sequence[float], by_parts: Sequence[_Parts]
    ) -> NDArray[np.float32]:
        """How much of the score of each row its words earn: the share of the question that it covers, squared."""
        present = [(rarity, by_field) for rarity, by_field in zip(rarities, by_parts, strict=True) if rarity]
        if len(present) < 2:
            return np.ones(len(rows), np.float32)
        shares, there = np.zeros(len(rows), np.float32), np.zeros(len(self.is_there), np.float32)
        for rarity, by_field in present:
            share = np.float32(rarity / sum(rarities))
            for found, _ in by_field:
                there[found] = share
            shares += there[rows]
            for found, _ in by_field:
                there[found] = 0
        return shares * shares

    def _rarity(self, count: int) -> float:
        """The rarity of a part that so many documents contain."""
        return float(np.log1p((self._count - count + 0.5) / (count + 0.5))) if count else 0.0

    def _fits(self, wanted: Wanted) -> _Parts:
        """By field of `FIELDS`, the documents that contain a part of the query, and the fit of its best term there."""
        if wanted.kind == "phrase" or len(wanted.terms) == 1:
            if wanted.kind == "phrase":
                rows, fields = self._among(*self._index.with_phrase(wanted.terms))
            else:
                rows, fields = self._with_term(wanted.terms[0])
            strengths = np.full(len(rows), wanted.weights[0], np.float32)
            if wanted.form is not None:
                strengths *= fits(fields, wanted.form, wanted.other)
            places = [fields & (1 << field) > 0 for field in _SEARCHED]
            return [(rows[place], strengths[place]) for place in places]
        found: list[tuple[NDArray[Any], NDArray[np.float32]]] = []
        listed = [self._with_term(term) for term in wanted.terms]
        for field in _SEARCHED:
            strongest = np.zeros(len(self.is_there), np.float32)
            for place, ((rows, fields), weight) in enumerate(zip(listed, wanted.weights, strict=True)):
                fit = np.full(len(rows), weight, np.float32)
                if not place and wanted.form is not None:
                    fit *= fits(fields, wanted.form, wanted.other)
                is_own = fields & (1 << field) > 0
                own = rows[is_own]
                strongest[own] = np.maximum(strongest[own], fit[is_own])
            there = np.flatnonzero(strongest)
            found.append((there, strongest[there]))
        return found

    def _with_term(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        if term not in self._found:
            self._found[term] = self._among(*self._index.with_term(term))
        return self._found[term]

    def _among(
        self, rows: NDArray[np.int32], fields: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        there = self.is_there[rows]
        return rows[there], fields[there]
