"""Whether a question directly means a memory: the measure by which searches find memories that fade. Pure.

A memory is directly relevant to a question that

* contains its whole key or one of its themes, or quotes a phrase of it; or
* shares most of its content words with the memory, weighed by how rare they are, and with words so rare that few
  memories can have them by chance; or
* names the time of the memory, which counts as a word that few memories have, and shares one of its other words; if it
  has no other words ("What did I note in March?"), the time alone is what is asked for; or
* is near to it in meaning, where there is an embedder, as few other memories are.

Costs one look at the postings of each word of the question, and some vector operations over all rows.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from sense_memory.search.date_evidence import WITHIN_FIT
from sense_memory.search.lexical import MAX_NAME_WORDS
from sense_memory.search.postings import NAME, OTHER_FORM_WEIGHT, fits
from sense_memory.search.query import MAX_QUERY_CHARS, parse, resolve


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.date_evidence import DateEvidence
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
        dated: the times that the question names; None if it names none.
    """

    def __init__(
        self,
        index: SearchIndex,
        query: str,
        among: NDArray[np.bool_],
        near: Mapping[int, float] = MappingProxyType({}),
        dated: DateEvidence | None = None,
    ) -> None:
        self._index, self._query, self._among, self._near = index, query, among, near
        self._dated = dated
        self._ask = parse(query)
        self._found: dict[int, tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}

    @cached_property
    def rows(self) -> NDArray[np.bool_]:
        """Whether the question directly means each row."""
        found = self.named()
        found[self._sharing()] = True
        if self._dated is not None:
            found |= self._on_days(self._dated)
        found[[row for row, share in self._near.items() if share >= MEANING_SHARE]] = True
        found &= self._among
        return found

    def named(self) -> NDArray[np.bool_]:
        """Whether the question contains the key or a theme of each row, or quotes a phrase of it."""
        index = self._index
        found = np.zeros(len(index.documents), np.bool_)
        for name in index.vocabulary.names_in(self._query[:MAX_QUERY_CHARS], MAX_NAME_WORDS):
            rows, fields = self._with_term(name)
            found[rows[fields & (1 << NAME) > 0]] = True
        for phrase in self._ask.phrases:
            terms = [term for word in phrase if (term := index.vocabulary.find(word)) is not None]
            if len(terms) == len(phrase):
                found[index.with_phrase(terms)[0]] = True
        return found

    def _sharing(self) -> NDArray[np.intp]:
        """The rows that share most words of the question, by rarity, with words that are rare enough."""
        ask, words = self._ask, self._words
        missing_count = len(ask.words) + len(ask.beginnings) - len(words)
        shared, total = self._shared(words, missing_count)
        return np.flatnonzero(shared > self._least(total))

    def _on_days(self, dated: DateEvidence) -> NDArray[np.bool_]:
        """The rows of the times that the question names, if they also share one of its other words, or it has none."""
        within = self._among & (dated.fits() >= WITHIN_FIT)
        others = [word for word in self._words if word[0] not in dated.words]
        asked = {*self._ask.words, *(f"{beginning}*" for beginning in self._ask.beginnings)} - dated.words
        if not asked:
            return within
        shared, total = self._shared(others, len(asked - {label for label, _, _ in others}))
        rarity = _rarity(int(np.count_nonzero(within)), self._count)
        found: NDArray[np.bool_] = within & (shared > 0) & (shared + rarity > self._least(total + rarity))
        return found

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(self._among))

    @cached_property
    def _words(self) -> list[tuple[str, NDArray[np.int32], float]]:
        """The known words of the question, the rows that have each, and how rare it is.

        Only the words themselves, in any form: to look for compounds and similar words costs as much as the search.
        """
        found = []
        for item in resolve(self._ask, self._index.vocabulary, is_spread=False):
            if item.kind != "phrase":
                rows = self._holders(item)
                held = rows[self._among[rows]]
                holders = int(np.count_nonzero(held[1:] != held[:-1])) + bool(len(held))
                rarity = _rarity(holders, self._count) * (1.0 if holders else UNKNOWN_SHARE)
                found.append((item.label, rows, rarity))
        return found

    def _shared(
        self, words: Sequence[tuple[str, NDArray[np.int32], float]], missing_count: int
    ) -> tuple[NDArray[np.float32], float]:
        """The rarity of the words that each row has, and that of all words, so many unknown ones included."""
        shared = np.zeros(len(self._among), np.float32)
        total = missing_count * UNKNOWN_SHARE * _rarity(0, self._count)
        for _, rows, rarity in words:
            shared[rows] += np.float32(rarity)  # once where a row is listed twice
            total += rarity
        return shared, total

    def _least(self, total: float) -> float:
        """What a row must share more than."""
        return max(WORD_SHARE * total, math.log(max(self._count, 1) / CHANCE_COUNT), 0.0)

    def _holders(self, wanted: Wanted) -> NDArray[np.int32]:
        """The rows that have a part of the question, and not only a form that often is another word.

        They ascend, and some are repeated.
        """
        parts = []
        for number, term in enumerate(wanted.terms):
            rows, fields = self._with_term(term)
            if not number and wanted.form is not None and wanted.other < OTHER_FORM_WEIGHT:
                fit = fits(fields, wanted.form, wanted.other)
                rows = rows[fit > wanted.other] if isinstance(fit, np.ndarray) else rows
            parts.append(rows)
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def _with_term(self, term: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        if term not in self._found:
            self._found[term] = self._index.with_term(term)
        return self._found[term]


def _rarity(holders: int, count: int) -> float:
    """How surprising it is that a memory has a word that so many of all have, in nats."""
    return math.log1p((count - holders + 0.5) / (holders + 0.5))
