"""Which items of an index have what a question quotes: `"petty cash"` finds only items with these words, if any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from sense_memory.search.postings import NAME
from sense_memory.search.query import parse, quotes


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sense_memory.search.documents import DocumentTable
    from sense_memory.search.vocabulary import Vocabulary


class QuotableIndex(Protocol):
    """What is needed of a `SearchIndex`, which this module cannot import."""

    @property
    def documents(self) -> DocumentTable:
        """The columns of all items."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of all items."""

    def with_term(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """The rows that have a term, and the fields of each occurrence."""

    def with_phrase(self, terms: Sequence[int]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """As `with_term`, for consecutive terms."""


def quoting(index: QuotableIndex, query: str) -> NDArray[np.bool_] | None:
    """Whether each item contains all quotations of a query; None if the query has none."""
    if not (quotes(query) and (quoted := parse(query).quoted)):
        return None
    found: NDArray[np.bool_] = index.documents.column("alive").copy()
    for phrase in quoted:
        terms = [term for word in phrase if (term := index.vocabulary.find(word)) is not None]
        there = np.zeros(len(index.documents), np.bool_)
        if len(terms) == len(phrase):
            there[index.with_phrase(terms)[0] if len(terms) > 1 else _with_word(index, terms[0])] = True
        found &= there
    return found


def quotes_like(index: QuotableIndex, query: str, first: str, other: str) -> bool:
    """Whether an item, by its id, has all that a query quotes; also true if the first hit of the search has not."""
    has_quoted, rows = quoting(index, query), index.documents.rows
    if has_quoted is None or first not in rows or not has_quoted[rows[first]]:
        return True
    return other in rows and bool(has_quoted[rows[other]])


def _with_word(index: QuotableIndex, term: int) -> NDArray[np.int32]:
    """The items that have a term, without those that contain it only in a name of several words."""
    rows, fields = index.with_term(term)
    return rows[fields & ((1 << NAME) - 1) > 0]
