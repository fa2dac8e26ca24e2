"""Postings: the rows that contain each term, how often, in which fields, and in which order of words.

The text of a row has a *value* and may have *themes*, a *key*, and *names*: whole keys and themes as terms, which add
nothing to scores. The count of a term is the sum over the fields; occurrences in themes count twice, in the key three
times (`FIELD_WEIGHTS`). `Listing.fields` says which fields of a row contain the term, and in which forms, so one list
serves both a ranking that adds counts and a ranking that weighs fields. Rows are added as codes, a term and its form in
one number (`search.vocabulary`), and looked up by terms.

Rows are only appended: a changed memory gets a new row, and its old row stays empty. Rows that were added together or
loaded are in flat sorted arrays; rows that were added one by one are in a list for each term. `sort_in` merges the two.
Only calls that take long anyway call it, so adding one row never waits for all others. A search costs the lists of its
terms, and nothing for memories without these terms. A posting takes 6 bytes, and 4 more for the order of words, which
stay packed until a phrase is searched.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sense_memory.search.column import Column, PackedColumn
from sense_memory.search.tokens import PAST, PLAIN
from sense_memory.search.vocabulary import FORM_BITS


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MAX_COUNT: Final = 255  # the highest count of a term in one row
_PART_TERMS: Final = 2**18  # sorted at a time, so that they fit into a processor's cache
_GAP: Final = -1  # before a field's asides; a field but the value begins with this less its number

VALUE, THEMES, KEY, NAME = range(4)  # the fields of a row; in `Listing.fields`, 1 << field
FIELD_WEIGHTS: Final = (1, 2, 3, 0)  # sense-memory v2, "Semantic Search": by field, what a count adds
_WEIGHTS: Final = np.array(FIELD_WEIGHTS, np.uint8)
_BITS: Final = np.array([1 << field for field in range(4)], np.uint8)
_FIELD_BITS: Final = 2
_FIRST_FORM: Final = 4  # in `Listing.fields`, 1 << (_FIRST_FORM + form)
_FORMS: Final = (1 << FORM_BITS) - 1
# By field and form, as one number of four bits: what a count adds, and the bits in `Listing.fields`.
_PLACE_WEIGHTS: Final = np.repeat(_WEIGHTS, _FORMS + 1)
_PLACES: Final = [
    1 << field | (field != NAME) << (_FIRST_FORM + form) for field in range(4) for form in range(_FORMS + 1)
]  # a name has no form
_PLACE_BITS: Final = np.array(_PLACES, np.uint8)


_OFTEN_ANOTHER: Final = {PLAIN: PAST, PAST: PLAIN}
OTHER_FORM_WEIGHT: Final = 0.999  # of "lived" for "live": among equals the word itself comes first


class FieldTerms(NamedTuple):
    """The codes of one field of a row, in order, and the asides: codes of other terms that find the row."""

    field: int
    terms: Sequence[int]
    asides: Sequence[int] = ()


class Listing(NamedTuple):
    """The rows that contain one term.

    Attributes:
        rows: each once, ascending.
        counts: occurrences in each row, weighed by field.
        fields: of each row, one bit for each field that contains the term, then one for each form that it has there.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.float32]
    fields: NDArray[np.uint8]


def fits(fields: NDArray[np.uint8], form: int, far: float) -> NDArray[np.float32] | np.float32:
    """How well rows with these `Listing.fields` fit a word of a form.

    A row that has the word in this form fits 1, in another form `OTHER_FORM_WEIGHT`; but `far` if all that it has is
    the past of a plain word or the reverse, such as "tired" for "tires", which often are two words. Where no row has
    the word itself, every form of it fits.
    """
    if not (fields & (1 << (_FIRST_FORM + form))).any():
        return np.float32(1)
    found: NDArray[np.float32] = _form_weights(form, far)[fields >> _FIRST_FORM]
    return found


@lru_cache(64)
def _form_weights(form: int, far: float) -> NDArray[np.float32]:
    """The fits of `fits`, by the forms that a row has."""
    held = np.arange(1 << (_FORMS + 1))
    weights = np.full(len(held), OTHER_FORM_WEIGHT, np.float32)
    if form in _OFTEN_ANOTHER:
        weights[held == 1 << _OFTEN_ANOTHER[form]] = far
    weights[held >> form & 1 > 0] = 1
    return weights


class SortedPostings(NamedTuple):
    """The rows of all terms, sorted.

    Attributes:
        offsets: where the rows of each term begin; one more at the end.
        rows, counts, fields: as in `Listing`.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]
    fields: NDArray[np.uint8]


class Postings:
    """The postings of all rows."""

    def __init__(self) -> None:
        self._tokens = PackedColumn()  # which only phrases and sorting need
        self._ends = Column(np.int64)
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._rows: NDArray[np.int32] = np.empty(0, np.int32)
        self._counts: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._fields: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._late, self._is_sorted = _Late(), True
        self.lengths = Column(np.float32)
        self.total, self.live = 0, 0

    def __len__(self) -> int:
        return len(self._ends)

    def append(
        self, terms: Sequence[int], asides: Sequence[int] = (), fields: Sequence[FieldTerms] = ()
    ) -> None:
        """Add the next row: the codes of its value in order, the asides, and other fields."""
        row, self._is_sorted = len(self._ends), False
        flat: list[int] = []
        length = _flatten(flat, terms, asides, fields)
        self._tokens.extend(flat)
        self._ends.append(len(self._tokens))
        self.lengths.append(length)
        self.total += length
        self.live += bool(length)
        counts: dict[int, int] = {}
        bits: dict[int, int] = {}
        for field, own, others in (FieldTerms(VALUE, terms, asides), *fields):
            weight, first = FIELD_WEIGHTS[field], field << FORM_BITS
            for code in (*own, *others):
                term = code >> FORM_BITS
                counts[term] = counts.get(term, 0) + weight
                bits[term] = bits.get(term, 0) | _PLACES[first | code & _FORMS]
        self._late.append(row, counts, bits)

    def extend(self, rows: Sequence[tuple[Sequence[int], Sequence[int], Sequence[FieldTerms]]]) -> None:
        """Add many rows, which searches find only after `sort_in`; a row costs less than with `append`."""
        flat: list[int] = []
        ends, lengths, at = [], [], len(self._tokens)
        for terms, asides, fields in rows:
            lengths.append(_flatten(flat, terms, asides, fields))
            ends.append(at + len(flat))
        self._is_sorted = False
        self._tokens.extend(flat)
        self._ends.extend(ends)
        self.lengths.extend(lengths)
        self.total += sum(lengths)
        self.live += sum(map(bool, lengths))

    def drop(self, row: int) -> None:
        """Empty a row: its terms no longer count."""
        self._is_sorted = False
        self.total -= int(self.lengths[row])
        self.live -= bool(self.lengths[row])
        self.lengths[row] = 0

    def listing(self, term: int) -> Listing:
        """The rows that contain a term."""
        if term + 1 < len(self._offsets):
            part = slice(int(self._offsets[term]), int(self._offsets[term + 1]))
            found = Listing(self._rows[part], self._counts[part].astype(np.float32), self._fields[part])
        else:
            found = Listing(self._rows[:0], np.empty(0, np.float32), self._fields[:0])
        late = self._late.listing(term)
        if late is not None:
            found = Listing(
                np.concatenate([found.rows, late.rows]),
                np.concatenate([found.counts, late.counts]),
                np.concatenate([found.fields, late.fields]),
            )
        if self.live < len(self):
            alive = self.lengths.view[found.rows] > 0
            found = Listing(found.rows[alive], found.counts[alive], found.fields[alive])
        return found

    def has(self, term: int) -> bool:
        """Whether any row contains a term."""
        known = self._offsets[term : term + 2]
        if self.live == len(self) and len(known) == 2 and known[0] < known[1]:
            return True
        return len(self.listing(term).rows) > 0

    def phrase(self, terms: Sequence[int]) -> Listing:
        """The rows that contain some terms one after another, in one field."""
        nowhere = Listing(np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.uint8))
        listings = sorted((self.listing(term).rows for term in set(terms)), key=len)
        rows = listings[0]
        for other in listings[1:]:
            rows = np.intersect1d(rows, other, assume_unique=True)
        if not len(rows):
            return nowhere
        ends = self._ends.view
        starts = np.where(rows > 0, ends[rows - 1], 0)
        sizes = ends[rows] - starts
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
        tokens, owners = self._tokens.view[places], np.repeat(rows, sizes)
        last = len(tokens) - len(terms) + 1
        if last <= 0:
            return nowhere
        fields = _fields_of(tokens, before)
        found = owners[:last] == owners[len(terms) - 1 :]
        for number, term in enumerate(terms):
            found &= tokens[number : number + last] >> FORM_BITS == term
        found &= fields[:last] != NAME
        fields = fields[:last][found]
        rows, at = np.unique(owners[:last][found], return_inverse=True)
        bits = np.zeros(len(rows), np.uint8)
        np.bitwise_or.at(bits, at, _BITS[fields])
        counts = np.bincount(at, _WEIGHTS[fields], len(rows))
        return Listing(rows, counts.astype(np.float32), bits)

    def sort_in(self) -> None:
        """Sort all rows into the flat arrays; dropped rows fall out."""
        self.use(self.sorted_postings())

    def sorted_postings(self) -> SortedPostings:
        """The sorted arrays, for `use`; changes nothing, so another thread can call it while rows are looked up.

        Rows are sorted in parts, and each part is appended term by term: this takes a third of the time and memory of
        sorting all rows at once.
        """
        parts = [self._counted(first, last) for first, last in self._parts()]
        height = max((int(terms[-1]) + 1 for terms, *_ in parts if len(terms)), default=0)
        sizes = np.zeros(height, np.int64)
        for terms, *_ in parts:
            sizes += np.bincount(terms, minlength=height)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.empty(int(offsets[-1]), np.int32)
        counts, fields = np.empty(len(rows), np.uint8), np.empty(len(rows), np.uint8)
        free = offsets[:-1].copy()
        for terms, own_rows, own_counts, own_fields in parts:
            begins = np.flatnonzero(np.diff(terms, prepend=-1))
            lengths = np.diff(begins, append=len(terms))
            places = np.arange(len(terms)) + np.repeat(free[terms[begins]] - begins, lengths)
            rows[places], counts[places], fields[places] = own_rows, own_counts, own_fields
            free[terms[begins]] += lengths
        return SortedPostings(offsets, rows, counts, fields)

    def _parts(self) -> Iterator[tuple[int, int]]:
        """The first row of each part and the row after its last, for parts of about `_PART_TERMS` terms."""
        ends, first = self._ends.view, 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, start + _PART_TERMS, "right")))
            yield first, last
            first = last

    def _counted(
        self, first: int, last: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
        """The terms of some rows in order, each with its row, count and fields."""
        ends = self._ends.view
        start, stop = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        sizes = np.diff(ends[first:last], prepend=start)
        tokens = self._tokens.view[start:stop]
        codes = tokens.astype(np.int64)
        keys = codes >> FORM_BITS
        alive = np.repeat(self.lengths.view[first:last] > 0, sizes)
        alive &= keys >= 0
        keys *= last
        keys += np.repeat(np.arange(first, last, dtype=np.int32), sizes)
        keys <<= _FIELD_BITS
        keys += _fields_of(tokens, np.cumsum(sizes) - sizes)
        keys <<= FORM_BITS
        keys += codes & _FORMS
        keys = keys[alive]
        keys.sort()
        within = keys & ((1 << (_FIELD_BITS + FORM_BITS)) - 1)
        keys >>= _FIELD_BITS + FORM_BITS
        is_first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        if not within.any():
            counts = np.diff(firsts, append=len(keys))
            fields = np.full(len(firsts), _PLACE_BITS[VALUE])
        else:
            counts = np.add.reduceat(_PLACE_WEIGHTS[within], firsts, dtype=np.int64)
            fields = np.bitwise_or.reduceat(_PLACE_BITS[within], firsts)
        terms, rows = np.divmod(keys[firsts], last)
        counts = np.minimum(counts, MAX_COUNT).astype(np.uint8)
        return terms.astype(np.int32), rows.astype(np.int32), counts, fields

    def use(self, found: SortedPostings) -> None:
        """Use the arrays of `sorted_postings`; nothing may have been added in between."""
        self._offsets, self._rows, self._counts, self._fields = found
        self._late, self._is_sorted = _Late(), True

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, which are renumbered in this order."""
        ends = self._ends.view
        starts = np.where(rows > 0, ends[rows - 1], 0)
        sizes = ends[rows] - starts
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
        tokens, self._tokens = self._tokens.view[places], PackedColumn()
        self._tokens.extend(tokens)
        self._ends = Column(np.int64, np.cumsum(sizes))
        self.lengths = Column(np.float32, self.lengths.view[rows])
        self.sort_in()

    def dump(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, sorted."""
        if not self._is_sorted:
            self.sort_in()
        return {
            "tokens": self._tokens.packed(),
            "ends": self._ends.view,
            "lengths": self.lengths.view,
            "offsets": self._offsets,
            "rows": self._rows,
            "counts": self._counts,
            "fields": self._fields,
        }

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]]) -> Postings:
        """Postings from the arrays of `dump`, which may be read-only."""
        self = cls()
        self._ends = Column(np.int64, arrays["ends"])
        self._tokens = PackedColumn(arrays["tokens"], int(self._ends[-1]) if len(self._ends) else 0)
        self.lengths = Column(np.float32, arrays["lengths"])
        self._offsets, self._rows = arrays["offsets"], arrays["rows"]
        self._counts, self._fields = arrays["counts"], arrays["fields"]
        self.total = int(self.lengths.view.sum(dtype=np.float64))
        self.live = int(np.count_nonzero(self.lengths.view))
        return self


def _flatten(
    flat: list[int], terms: Sequence[int], asides: Sequence[int], fields: Sequence[FieldTerms]
) -> int:
    """Append the terms of a row in the stored form; returns the row's length."""
    flat += terms
    if asides:
        flat.append(_GAP)
        flat += asides
    length = len(terms)
    for field, own, others in fields:
        flat.append(_GAP - field)
        flat += own
        if others:
            flat.append(_GAP)
            flat += others
        length += FIELD_WEIGHTS[field] * len(own)
    return length


def _fields_of(tokens: NDArray[np.int32], starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The field of each token of rows that begin at these places."""
    marks = np.flatnonzero(tokens < _GAP)
    if not len(marks):
        return np.zeros(len(tokens), np.uint8)
    places = np.concatenate([starts, marks])
    fields = np.concatenate([np.zeros(len(starts), np.uint8), (_GAP - tokens[marks]).astype(np.uint8)])
    order = np.argsort(places, kind="stable")  # a mark at the beginning of a row counts after the beginning
    return np.repeat(fields[order], np.diff(places[order], append=len(tokens)))


class _Late:
    """The rows that were added one by one, listed by term.

    All lists share one array. A list that fills its block moves to a block of twice the size. The length of a list
    tells whether its block is full, because blocks hold 1, 2, 4, 8 rows and so on.
    """

    def __init__(self) -> None:
        self._begins, self._sizes = array("q"), array("i")  # of the list of each term
        self._rows = array("i")  # not numpy's, which copy all of it to grow
        self._counts, self._fields = array("B"), array("B")
        self._left: dict[int, list[int]] = {}  # by size, the starts of free blocks, which lists have left

    def append(self, row: int, counts: Mapping[int, int], fields: Mapping[int, int]) -> None:
        """Add a row to the lists of its terms, each with its count and its fields."""
        missing = max(counts, default=-1) + 1 - len(self._sizes)
        if missing > 0:
            _grow(self._begins, missing)
            _grow(self._sizes, missing)
        for term, count in counts.items():
            size = self._sizes[term]
            if not size & (size - 1):
                self._move(term, size)
            place = self._begins[term] + size
            self._rows[place], self._counts[place] = row, min(count, MAX_COUNT)
            self._fields[place] = fields[term]
            self._sizes[term] = size + 1

    def listing(self, term: int) -> Listing | None:
        """The rows among these that contain a term."""
        size = self._sizes[term] if term < len(self._sizes) else 0
        if not size:
            return None
        part = slice(self._begins[term], self._begins[term] + size)
        counts = np.frombuffer(self._counts[part], np.uint8)
        fields = np.frombuffer(self._fields[part], np.uint8)
        return Listing(np.frombuffer(self._rows[part], np.int32), counts.astype(np.float32), fields)

    def _move(self, term: int, size: int) -> None:
        """Move the list of a term to a block of twice the size."""
        room, old = 2 * size or 1, self._begins[term]
        if self._left.get(room):
            begin = self._left[room].pop()
        else:
            begin = len(self._rows)
            _grow(self._rows, room)
            _grow(self._counts, room)
            _grow(self._fields, room)
        if size:
            self._rows[begin : begin + size] = self._rows[old : old + size]
            self._counts[begin : begin + size] = self._counts[old : old + size]
            self._fields[begin : begin + size] = self._fields[old : old + size]
            self._left.setdefault(size, []).append(old)
        self._begins[term] = begin


def _grow(values: array[int], more: int) -> None:
    values.frombytes(bytes(more * values.itemsize))
