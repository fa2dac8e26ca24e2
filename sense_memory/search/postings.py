"""One field of all memories: which terms stand in which row, how often, and in what order.

Rows only ever grow: a memory that changes gets a new row and leaves an empty one behind. What came at once or
was loaded lies in flat sorted arrays, what came one by one in a list per term; `fold` joins the two, and only
what takes long anyway asks for it, so that no single row ever waits for all others. Scores are sums over the
lists of the terms asked for, so the cost of a search does not depend on the memories that have none of them.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sense_memory.search.column import Column, PackedColumn


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

MAX_COUNT: Final = 255  # a term that stands more often in one row counts as so many
_PART_TERMS: Final = 2**18  # sorted at a time: they fit into a processor's cache
_GAP: Final = -1  # between a row's words and its asides: no phrase reaches across


class Listing(NamedTuple):
    """Where one term stands.

    Attributes:
        rows: each once, ascending.
        counts: how often in each.
    """

    rows: NDArray[np.int32]
    counts: NDArray[np.float32]


class Folded(NamedTuple):
    """The rows of all terms, sorted.

    Attributes:
        offsets: where the rows of each term begin; one more at the end.
        rows, counts: as in `Listing`.
    """

    offsets: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.uint8]


class Postings:
    """The postings of one field."""

    def __init__(self) -> None:
        self._tokens = PackedColumn()  # which only phrases and folding need
        self._ends = Column(np.int64)
        self._offsets: NDArray[np.int64] = np.zeros(1, np.int64)
        self._rows: NDArray[np.int32] = np.empty(0, np.int32)
        self._counts: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._late, self._is_folded = _Late(), True
        self.lengths = Column(np.float32)
        self.total, self.live = 0, 0

    def __len__(self) -> int:
        return len(self._ends)

    def append(self, terms: Sequence[int], asides: Sequence[int] = ()) -> None:
        """Add the next row: its terms in order, and those it can be found by besides."""
        row, self._is_folded = len(self._ends), False
        self._tokens.extend([*terms, _GAP, *asides] if asides else terms)
        self._ends.append(len(self._tokens))
        self.lengths.append(len(terms))
        self.total += len(terms)
        self.live += bool(terms)
        counts: dict[int, int] = {}
        for term in (*terms, *asides) if asides else terms:
            counts[term] = counts.get(term, 0) + 1
        self._late.append(row, counts)

    def extend(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> None:
        """Add many rows, which nobody finds before `fold` sorts them in: that costs less each than one by one."""
        flat: list[int] = []
        ends, lengths, at = [], [], len(self._tokens)
        for terms, asides in rows:
            flat += terms
            if asides:
                flat.append(_GAP)
                flat += asides
            ends.append(at + len(flat))
            lengths.append(len(terms))
        self._is_folded = False
        self._tokens.extend(flat)
        self._ends.extend(ends)
        self.lengths.extend(lengths)
        self.total += sum(lengths)
        self.live += sum(map(bool, lengths))

    def drop(self, row: int) -> None:
        """Empty a row: its terms no longer count."""
        self._is_folded = False
        self.total -= int(self.lengths[row])
        self.live -= bool(self.lengths[row])
        self.lengths[row] = 0

    def sequence(self, row: int) -> NDArray[np.int32]:
        """The terms of a row in order; -1 before its asides."""
        start = int(self._ends[row - 1]) if row else 0
        return self._tokens.view[start : int(self._ends[row])]

    def listing(self, term: int) -> Listing:
        """Where a term stands."""
        if term + 1 < len(self._offsets):
            part = slice(int(self._offsets[term]), int(self._offsets[term + 1]))
            rows, counts = self._rows[part], self._counts[part].astype(np.float32)
        else:
            rows, counts = self._rows[:0], np.empty(0, np.float32)
        late = self._late.listing(term)
        if late is not None:
            rows, counts = np.concatenate([rows, late.rows]), np.concatenate([counts, late.counts])
        if self.live < len(self):
            kept = self.lengths.view[rows] > 0
            rows, counts = rows[kept], counts[kept]
        return Listing(rows, counts)

    def phrase(self, terms: Sequence[int]) -> Listing:
        """Where some terms stand one after another."""
        listings = sorted((self.listing(term).rows for term in set(terms)), key=len)
        rows = listings[0]
        for other in listings[1:]:
            rows = np.intersect1d(rows, other, assume_unique=True)
        if not len(rows):
            return Listing(rows, np.empty(0, np.float32))
        ends = self._ends.view
        starts = np.where(rows > 0, ends[rows - 1], 0)
        sizes = ends[rows] - starts
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
        tokens, owners = self._tokens.view[places], np.repeat(rows, sizes)
        last = len(tokens) - len(terms) + 1
        if last <= 0:
            return Listing(rows[:0], np.empty(0, np.float32))
        found = owners[:last] == owners[len(terms) - 1 :]
        for number, term in enumerate(terms):
            found &= tokens[number : number + last] == term
        rows, counts = np.unique(owners[:last][found], return_counts=True)
        return Listing(rows, counts.astype(np.float32))

    def fold(self) -> None:
        """Sort all rows into the flat arrays; dropped rows fall out."""
        self.use(self.folded())

    def folded(self) -> Folded:
        """What `fold` makes, for `use`: nothing is changed, so another thread can do it while rows are looked up.

        Some rows are sorted at a time and then put behind those before them, term by term: that takes a third of
        the time and of the memory that sorting all at once takes.
        """
        parts = [self._counted(first, last) for first, last in self._parts()]
        height = max((int(terms[-1]) + 1 for terms, _, _ in parts if len(terms)), default=0)
        sizes = np.zeros(height, np.int64)
        for terms, _, _ in parts:
            sizes += np.bincount(terms, minlength=height)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows, counts = np.empty(int(offsets[-1]), np.int32), np.empty(int(offsets[-1]), np.uint8)
        free = offsets[:-1].copy()
        for terms, own_rows, own_counts in parts:
            begins = np.flatnonzero(np.diff(terms, prepend=-1))
            lengths = np.diff(begins, append=len(terms))
            places = np.arange(len(terms)) + np.repeat(free[terms[begins]] - begins, lengths)
            rows[places], counts[places] = own_rows, own_counts
            free[terms[begins]] += lengths
        return Folded(offsets, rows, counts)

    def _parts(self) -> Iterator[tuple[int, int]]:
        """The first row and the one behind the last of parts that have some terms each."""
        ends, first = self._ends.view, 0
        while first < len(ends):
            start = int(ends[first - 1]) if first else 0
            last = max(first + 1, int(np.searchsorted(ends, start + _PART_TERMS, "right")))
            yield first, last
            first = last

    def _counted(
        self, first: int, last: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
        """The terms of some rows in their order, each with its row and how often it stands there."""
        ends = self._ends.view
        start, stop = int(ends[first - 1]) if first else 0, int(ends[last - 1])
        sizes = np.diff(ends[first:last], prepend=start)
        keys = self._tokens.view[start:stop].astype(np.int64)
        kept = np.repeat(self.lengths.view[first:last] > 0, sizes)
        kept &= keys >= 0
        keys *= last
        keys += np.repeat(np.arange(first, last, dtype=np.int32), sizes)
        keys = keys[kept]
        keys.sort()
        is_first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        counts = np.minimum(np.diff(firsts, append=len(keys)), MAX_COUNT).astype(np.uint8)
        terms, rows = np.divmod(keys[firsts], last)
        return terms.astype(np.int32), rows.astype(np.int32), counts

    def use(self, folded: Folded) -> None:
        """Take over what `folded` made; nothing may have been added in between."""
        self._offsets, self._rows, self._counts = folded
        self._late, self._is_folded = _Late(), True

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, numbered anew in this order."""
        ends = self._ends.view
        starts = np.where(rows > 0, ends[rows - 1], 0)
        sizes = ends[rows] - starts
        before = np.cumsum(sizes) - sizes
        places = np.arange(int(sizes.sum())) + np.repeat(starts - before, sizes)
        tokens, self._tokens = self._tokens.view[places], PackedColumn()
        self._tokens.extend(tokens)
        self._ends = Column(np.int64, np.cumsum(sizes))
        self.lengths = Column(np.float32, self.lengths.view[rows])
        self.fold()

    def dump(self) -> dict[str, NDArray[Any]]:
        """Everything as flat arrays, folded."""
        if not self._is_folded:
            self.fold()
        return {
            "tokens": self._tokens.packed(),
            "ends": self._ends.view,
            "lengths": self.lengths.view,
            "offsets": self._offsets,
            "rows": self._rows,
            "counts": self._counts,
        }

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]]) -> Postings:
        """What `dump` gave; the arrays may be read-only."""
        self = cls()
        self._ends = Column(np.int64, arrays["ends"])
        self._tokens = PackedColumn(arrays["tokens"], int(self._ends[-1]) if len(self._ends) else 0)
        self.lengths = Column(np.float32, arrays["lengths"])
        self._offsets, self._rows, self._counts = arrays["offsets"], arrays["rows"], arrays["counts"]
        self.total = int(self.lengths.view.sum(dtype=np.float64))
        self.live = int(np.count_nonzero(self.lengths.view))
        return self


class _Late:
    """The rows that came one by one, listed by term.

    Each list has a room of its own in one array, and moves to one of twice the size when it is full. Its size
    alone tells whether it is: rooms hold 1, 2, 4, 8 rows and so on.
    """

    def __init__(self) -> None:
        self._begins, self._sizes = array("q"), array("i")  # of the list of each term
        self._rows, self._counts = array("i"), array("B")  # not numpy's, which copy all of it to grow
        self._left: dict[int, list[int]] = {}  # where rooms begin that lists moved out of, by their size

    def append(self, row: int, counts: Mapping[int, int]) -> None:
        """Add a row to the lists of its terms."""
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
            self._sizes[term] = size + 1

    def listing(self, term: int) -> Listing | None:
        """Where a term stands among these rows."""
        size = self._sizes[term] if term < len(self._sizes) else 0
        if not size:
            return None
        part = slice(self._begins[term], self._begins[term] + size)
        counts = np.frombuffer(self._counts[part], np.uint8)
        return Listing(np.frombuffer(self._rows[part], np.int32), counts.astype(np.float32))

    def _move(self, term: int, size: int) -> None:
        """Give the list of a term room for as much again."""
        room, old = 2 * size or 1, self._begins[term]
        if self._left.get(room):
            begin = self._left[room].pop()
        else:
            begin = len(self._rows)
            _grow(self._rows, room)
            _grow(self._counts, room)
        if size:
            self._rows[begin : begin + size] = self._rows[old : old + size]
            self._counts[begin : begin + size] = self._counts[old : old + size]
            self._left.setdefault(size, []).append(old)
        self._begins[term] = begin


def _grow(values: array[int], more: int) -> None:
    values.frombytes(bytes(more * values.itemsize))
