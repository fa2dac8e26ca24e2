"""Whether a question directly means a memory: the measure by which searches find memories that fade. Pure.

A memory is directly relevant to a question that

* contains its whole key or one of its themes, or quotes a phrase of it; or
* shares most of its content words with the memory, weighed by how rare they are, and with words so rare that few
  memories can have them by chance; or
* is near to it in meaning, where there is an embedder, as few other memories are.

Costs one look at the postings of each word of the question, and some vector operations over all rows.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.search.lexical import MAX_NAME_WORDS
from sense_memory.search.postings import NAME, fits
from sense_memory.search.query import MAX_QUERY_CHARS, parse, resolve


if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sense_memory.search.index import SearchIndex
    from sense_memory.search.query import Wanted

WORD_SHARE: Final = 0.6  # of the question's words, weighed by rarity, that a memory must share
UNKNOWN_SHARE: Final = 0.5  # of the rarity of a word that no memory has
CHANCE_COUNT: Final = 10  # memories that may share as much by chance
MEANING_SHARE: Final = 0.5  # of `SearchIndex.near_rows`: how far a meaning must stand above the usual


class DirectRelevance:
    """Which rows of an index one question directly means; found when first asked for, and only once.

    Args:
        index: the index that is searched; it must not change meanwhile.
        query: the question.
        among: the rows that count; rarity is counted among them.
        near: by row, how near in meaning it is to the question, as of `SearchIndex.near_rows`.
    """

    def __init__(
        self,
        index: SearchIndex,
        query: str,
        among: NDArray[np.bool_],
        near: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        self._index, self._query, self._among, self._near = index, query, among, near

    @cached_property
    def rows(self) -> NDArray[np.bool_]:
        """Whether the question directly means each row."""
        found = named_rows(self._index, self._query) | _shares_most_words(
            self._index, self._query, self._among
        )
        found[[row for row, share in self._near.items() if share >= MEANING_SHARE]] = True
        return found & self._among


def named_rows(index: SearchIndex, query: str) -> NDArray[np.bool_]:
    """Rows whose key or theme a question contains, or of which it quotes a phrase."""
    found = np.zeros(len(index.documents), np.bool_)
    for name in index.vocabulary.names_in(query[:MAX_QUERY_CHARS], MAX_NAME_WORDS):
        rows, fields = index.with_term(name)
        found[rows[fields & (1 << NAME) > 0]] = True
    for phrase in parse(query).phrases:
        terms = [term for word in phrase if (term := index.vocabulary.find(word)) is not None]
        if len(terms) == len(phrase):
            found[index.with_phrase(terms)[0]] = True
    return found


def _shares_most_words(index: SearchIndex, query: str, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows that share most words of a question, by rarity, with words that are rare enough."""
    ask, count = parse(query), int(np.count_nonzero(among))
    wanted = resolve(ask, index.vocabulary)
    words = [item for item in wanted if item.kind != "phrase"]
    unknown = len(ask.words) + len(ask.beginnings) - len(words)
    shared = np.zeros(len(among), np.float32)
    total = unknown * UNKNOWN_SHARE * _rarity(0, count)
    for item in words:
        strengths = _strengths(index, item) * among
        rarity = _rarity(int(np.count_nonzero(strengths)), count)
        shared += strengths * np.float32(rarity)
        total += rarity
    found: NDArray[np.bool_] = shared > max(WORD_SHARE * total, math.log(max(count, 1) / CHANCE_COUNT), 0.0)
    return found


def _rarity(holders: int, count: int) -> float:
    """How surprising it is that a memory has a word that so many of all have, in nats."""
    return math.log1p((count - holders + 0.5) / (holders + 0.5))


def _strengths(index: SearchIndex, wanted: Wanted) -> NDArray[np.float32]:
    """How well each row has a part of a question, 0 to 1."""
    found = np.zeros(len(index.documents), np.float32)
    for number, (term, weight) in enumerate(zip(wanted.terms, wanted.weights, strict=True)):
        rows, fields = index.with_term(term)
        fit: Any = np.float32(weight)
        if not number and wanted.form is not None:
            fit = fit * fits(fields, wanted.form, wanted.other)
        found[rows] = np.maximum(found[rows], fit)
    return found
