"""The lexical index: rows of texts with their fields, and BM25 over them.

`search.index` knows the memory behind each row; this module does not. `dump` returns the index as bytes, which the caller
has to encrypt before storage, and loading takes milliseconds. This module never writes to a disk.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson

from sense_memory.search.postings import (
    KEY,
    NAME,
    OTHER_FORM_WEIGHT,
    THEMES,
    FieldTerms,
    Listing,
    Postings,
    fits,
)
from sense_memory.search.vocabulary import Vocabulary


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.query import Wanted

SATURATION: Final = 1.0  # BM25's k1: how much a second occurrence still adds
LENGTH_SHARE: Final = 0.4  # BM25's b: how much the length of a row lowers its scores
BULK_ROWS: Final = 500  # more new rows than this, and than
BULK_SHARE: Final = 0.1  # this share of all rows, are sorted together instead of listed one by one
MAX_NAME_WORDS: Final = 8  # a key or theme of more words is not found as a whole
_HEADER_BYTES: Final = 8


class RowText(NamedTuple):
    """The texts of one row.

    Attributes:
        value: the text itself.
        themes, key: texts whose words count twice and three times.
        names: whole keys and themes, for `Vocabulary.names_in`.
    """

    value: str
    themes: str = ""
    key: str = ""
    names: tuple[str, ...] = ()


class TermRows(NamedTuple):
    """The rows that have one part of a query.

    Attributes:
        wanted: the part of the query.
        rows: the rows that contain the part, ascending.
        counts: how often the part occurs in each row.
        rarity: how surprising it is that a row contains the part at all, in nats.
        fit: how well the form of the word in each row fits.
        is_other: whether a row has only a form that is another word more often ("jammed" for "jam"); None if none has.
    """

    wanted: Wanted
    rows: NDArray[np.int32]
    counts: NDArray[np.float32]
    rarity: float
    fit: NDArray[np.float32] | np.float32
    is_other: NDArray[np.bool_] | None = None


class TermScores(NamedTuple):
    """The scores that one part of a query adds to rows.

    Attributes:
        wanted: the part of the query.
        rows: the rows that contain the part, ascending.
        scores: the score that the part adds to each row, above 0.
        counts: how often the part occurs in each row.
        rarity: how surprising it is that a row contains the part at all, in nats.
        is_other: whether a row has only a form that is another word more often ("jammed" for "jam"); None if none has.
    """

    wanted: Wanted
    rows: NDArray[np.int32]
    scores: NDArray[np.float32]
    counts: NDArray[np.float32]
    rarity: float
    is_other: NDArray[np.bool_] | None = None


class LexicalIndex:
    """Postings over a vocabulary.

    Args:
        language: the language of words in Latin letters, for stemming.
    """

    def __init__(self, language: str = "english") -> None:
        self.vocabulary = Vocabulary(language)
        self.postings = Postings()

    def __len__(self) -> int:
        """The number of rows, dropped ones included."""
        return len(self.postings)

    def append(self, row: RowText) -> int:
        """Add the next row.

        Returns:
            The number of the row.
        """
        self.postings.append(*self._terms(row))
        return len(self) - 1

    def extend(self, rows: Sequence[RowText]) -> None:
        """Add many rows."""
        if self.sorts(len(rows)):
            self.extend_unsorted(rows)
            self.sort_in()
        else:
            for row in rows:
                self.append(row)

    def sorts(self, count: int) -> bool:
        """Whether this many new rows cost less when `sort_in` sorts them together than one by one."""
        return count >= BULK_ROWS + BULK_SHARE * len(self)

    def extend_unsorted(self, rows: Sequence[RowText]) -> None:
        """Add rows that searches find only after `sort_in`."""
        self.postings.extend([self._terms(row) for row in rows])

    def sort_in(self) -> None:
        """Sort the rows that were added unsorted into the index."""
        self.postings.sort_in()

    def drop(self, row: int) -> None:
        """Remove a row; its number is not used again."""
        self.postings.drop(row)

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, which are renumbered in this order."""
        self.postings.select(rows)

    def _terms(self, row: RowText) -> tuple[list[int], list[int], list[FieldTerms]]:
        """The terms of a row for the postings; adds new words to the vocabulary."""
        add, fields = self.vocabulary.add, list[FieldTerms]()
        if row.themes:
            fields.append(FieldTerms(THEMES, *add(row.themes)))
        if row.key:
            fields.append(FieldTerms(KEY, *add(row.key)))
        if row.names:
            terms = (self.vocabulary.add_name(name, MAX_NAME_WORDS) for name in row.names)
            fields.append(FieldTerms(NAME, [term for term in terms if term is not None]))
        return *add(row.value), fields

    def listing(self, wanted: Wanted) -> Listing:
        """The rows that contain a part of a query; counts are weighed by how well the terms fit."""
        postings = self.postings
        if wanted.kind == "phrase":
            return postings.phrase(wanted.terms)
        parts = [postings.listing(term) for term in wanted.terms]
        weighed = [part.counts * np.float32(w) for part, w in zip(parts, wanted.weights, strict=True)]
        if len(parts) == 1:
            return parts[0]._replace(counts=weighed[0])
        every = np.concatenate([part.rows for part in parts])
        rows, places = np.unique(every, return_inverse=True)
        fields = np.zeros(len(rows), np.uint8)
        np.bitwise_or.at(fields, places, np.concatenate([part.fields for part in parts]))
        counts = np.bincount(places, np.concatenate(weighed), len(rows)).astype(np.float32)
        return Listing(rows, counts, fields)

    def found(self, wanted: Iterable[Wanted]) -> Iterator[TermRows]:
        """The rows that have each part of a query; without the parts that none has."""
        live = self.postings.live
        for item in wanted:
            rows, counts, fields = self.listing(item)
            if len(rows):
                rarity = math.log1p((live - len(rows) + 0.5) / (len(rows) + 0.5))
                fit = np.float32(1) if item.form is None else fits(fields, item.form, item.other)
                is_other = None
                if isinstance(fit, np.ndarray) and item.other < OTHER_FORM_WEIGHT:
                    is_other = fit == np.float32(item.other)
                yield TermRows(item, rows, counts, rarity, fit, is_other)

    def scored(self, wanted: Iterable[Wanted]) -> list[TermScores]:
        """The BM25 scores of each part of a query."""
        postings, scored = self.postings, []
        if not postings.live:
            return []
        mean = postings.total / postings.live
        for found in self.found(wanted):
            norms = postings.lengths.view[found.rows] * np.float32(SATURATION * LENGTH_SHARE / mean)
            norms += np.float32(SATURATION * (1 - LENGTH_SHARE))
            scores = found.counts * np.float32(found.rarity * (SATURATION + 1)) / (found.counts + norms)
            if isinstance(found.fit, np.ndarray):
                scores *= found.fit
            scored.append(
                TermScores(found.wanted, found.rows, scores, found.counts, found.rarity, found.is_other)
            )
        return scored

    def totals(self, scored: Iterable[TermScores]) -> NDArray[np.float32]:
        """The sum of the scores of every row; 0 for rows without a hit."""
        sums = np.zeros(len(self), np.float32)
        for item in scored:
            sums[item.rows] += item.scores
        return sums

    def dump(self) -> bytes:
        """The index as bytes. The bytes contain the words of memories: store them only encrypted."""
        return pack(self.vocabulary.dump(), [self.postings.dump()])

    @classmethod
    def load(cls, dumped: bytes) -> LexicalIndex:
        """An index from the bytes of `dump`.

        Raises:
            ValueError: the bytes are not a dump of an index.
        """
        header, arrays = unpack(dumped)
        self = cls(header["language"])
        self.vocabulary = Vocabulary.load(header)
        (postings,) = arrays
        self.postings = Postings.load(postings)
        return self


def pack(header: dict[str, Any], groups: Sequence[dict[str, NDArray[Any]]]) -> bytes:
    """A header of plain values, and named arrays, as bytes."""
    return b"".join(packed(header, groups))


def packed(header: dict[str, Any], groups: Sequence[dict[str, NDArray[Any]]]) -> list[bytes | memoryview]:
    """As `pack`, in pieces; the arrays are not copied, so use the pieces before the arrays change."""
    layout = [[(name, a.dtype.str, a.shape) for name, a in group.items()] for group in groups]
    head = _as_json({**header, "arrays": layout})
    head += b" " * (-(len(head) + _HEADER_BYTES) % 8)
    pieces: list[bytes | memoryview] = [len(head).to_bytes(_HEADER_BYTES, "little"), head]
    for group in groups:
        for values in group.values():
            body = np.ascontiguousarray(values)
            pieces += [body.reshape(-1).view(np.uint8).data, bytes(-body.nbytes % 8)]
    return pieces


def unpack(body: bytes | memoryview) -> tuple[dict[str, Any], list[dict[str, NDArray[Any]]]]:
    """Unpack the bytes of `pack`; the arrays are read-only views of the bytes.

    Raises:
        ValueError: the bytes are not from `pack`.
    """
    at = _HEADER_BYTES + int.from_bytes(body[:_HEADER_BYTES], "little")
    header = _of_json(body[_HEADER_BYTES:at])
    if not isinstance(header, dict) or "arrays" not in header:
        raise ValueError("these bytes are not an index")
    groups: list[dict[str, NDArray[Any]]] = []
    for layout in header.pop("arrays"):
        group = {}
        for name, dtype, shape in layout:
            count = int(np.prod(shape, dtype=np.int64))
            values = np.frombuffer(body, np.dtype(dtype), count, at)
            group[name] = values.reshape(shape)
            at += values.nbytes + -values.nbytes % 8
        groups.append(group)
    return header, groups


def _as_json(header: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(header)
    except TypeError:  # a lone surrogate in a name
        return json.dumps(header).encode()


def _of_json(head: bytes | memoryview) -> Any:
    try:
        return orjson.loads(head)
    except orjson.JSONDecodeError:
        return json.loads(bytes(head))
