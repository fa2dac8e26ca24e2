"""Which fields of a hit (key, themes, value) contain a word of the question, for the reasons of the hit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.search.postings import KEY, THEMES, VALUE
from sense_memory.search.query import MAX_QUERY_CHARS, Fields
from sense_memory.search.tokens import asides, words


if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sense_memory.search.index import SearchIndex

_BITS: Final = {"key": 1 << KEY, "themes": 1 << THEMES, "value": 1 << VALUE}


class FoundFields:
    """The fields of the hits of one search: from the index, or from a text where the index does not know the word.

    Args:
        index: the index that was searched; if it has changed meanwhile, the fields are those of now.
        query: the question.
    """

    def __init__(self, index: SearchIndex, query: str) -> None:
        self._index = index
        self._asides = frozenset(
            asides(query[:MAX_QUERY_CHARS])
        )  # "fourday" for "four-day", which is no word
        self._listed: dict[str, list[tuple[NDArray[np.int32], NDArray[np.uint8]]]] = {}

    def having(self, ident: str, term: str, texts: Mapping[str, str]) -> tuple[str, ...]:
        """The fields of a hit that contain a term, as `query.Fields.having`.

        Args:
            ident: the hit.
            term: a word, a phrase, or a beginning.
            texts: the texts of the hit by field.
        """
        row = None if term in self._asides else self._index.documents.rows.get(ident)
        bits = 0 if row is None else self._bits(row, term)
        found = tuple(name for name in texts if bits & _BITS[name])
        return found or Fields(texts, self._index.vocabulary).having(term)

    def _bits(self, row: int, term: str) -> int:
        """The fields of a row that have all words of a term; 0 if none has."""
        if term not in self._listed:
            known = (self._index.vocabulary.find(word) for word in words(term))
            self._listed[term] = [self._index.with_term(one) for one in set(known) if one is not None]
        bits = sum(_BITS.values()) if self._listed[term] else 0
        for rows, fields in self._listed[term]:
            start, stop = rows.searchsorted(np.array((row, row + 1), np.int32)).tolist()
            own = 0
            for field in fields[start:stop].tolist():  # one for each of its pieces
                own |= field
            bits &= own
        return bits
