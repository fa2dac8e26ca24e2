"""Vectors in rows, compared with a query all at once: exactly, or by their signs first.

Rows are numbered from 0 without gaps; who they belong to is known to `search.vectors` and `search.embedding`.
Vectors are brought to length 1 and rounded to half precision when they come (a cosine changes by some 0.0001,
less than any model can tell), so what was dumped and loaded answers exactly as before. They lie in blocks: one
more row never moves the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from sense_memory.search.embedders.embedder import normalised


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

RESCORED_COUNT: Final = 2_000  # rows whose signs agree best, and which are then compared exactly
OVERSAMPLED: Final = 50  # or so many for each row that was asked for
_PART_ROWS: Final = 8_192  # computed at a time, so that a part stays in the processor's cache
_BLOCK_BYTES: Final = 2**26  # asked for at a time; the system gives what is filled, and takes back all of it
_SLACK: Final = 1e-5  # single precision is off by less; whoever is so near the last place is looked at again
_WORD_BITS: Final = 64
_SHRUNK: Final = 2.0**112  # by how much the exponents of single and of half precision are apart


class Nearest(NamedTuple):
    """Rows near a query, in no order, at least as many as asked for where there are, all ties included."""

    rows: NDArray[np.int64]
    similarities: NDArray[np.float64]


class Rows(Protocol):
    """What both kinds do.

    Attributes:
        exactness: how far its answers can be trusted.
        dimension: of every vector.
    """

    exactness: ClassVar[str]
    dimension: int

    def __len__(self) -> int: ...

    def extend(self, vectors: NDArray[Any]) -> None:
        """Add some rows."""

    def replace(self, rows: Sequence[int], vectors: NDArray[Any]) -> None:
        """Give some rows other vectors."""

    def drop(self, row: int) -> None:
        """Take a row out; the last one takes its place."""

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1."""

    def nearest(self, query: NDArray[np.float32], count: int) -> Nearest:
        """The rows with the highest cosines to a query of length 1."""

    def halves(self) -> NDArray[np.float16]:
        """All rows, for keeping."""


def rounded(vectors: NDArray[Any]) -> NDArray[np.float16]:
    """Vectors of any length as they are kept."""
    return normalised(vectors).astype(np.float16)


class _Blocks:
    """Rows in blocks, and what both kinds make of them alike."""

    dtype: ClassVar[type[np.floating[Any]]]

    def __init__(self, dimension: int, halves: NDArray[np.float16] | None = None) -> None:
        self.dimension = dimension
        self._blocks: list[NDArray[Any]] = []
        part_bytes = max(1, dimension) * _PART_ROWS * np.dtype(self.dtype).itemsize
        self._room = max(1, _BLOCK_BYTES // part_bytes) * _PART_ROWS  # rows of a block
        self._count = 0
        if halves is not None:
            self._append(halves)

    def __len__(self) -> int:
        return self._count

    def extend(self, vectors: NDArray[Any]) -> None:
        """Add some rows."""
        self._append(rounded(vectors))

    def replace(self, rows: Sequence[int], vectors: NDArray[Any]) -> None:
        """Give some rows other vectors."""
        halves, start = rounded(vectors), 0
        for end in range(1, len(rows) + 1):  # what stands together is written together
            if end == len(rows) or rows[end] != rows[end - 1] + 1 or rows[end] % self._room == 0:
                self._write(rows[start], halves[start:end])
                start = end

    def drop(self, row: int) -> None:
        """Take a row out; the last one takes its place."""
        self._count -= 1
        block, place = divmod(self._count, self._room)
        self._write(row, self._blocks[block][place : place + 1].astype(np.float16))

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""
        kept = self.halves()[rows]
        self._clear()
        self._append(kept)

    def halves(self) -> NDArray[np.float16]:
        """All rows, for keeping."""
        found = np.empty((self._count, self.dimension), np.float16)
        for begin, part in self._parts():
            found[begin : begin + len(part)] = part
        return found

    def _clear(self) -> None:
        self._blocks, self._count = [], 0

    def _append(self, halves: NDArray[np.float16]) -> None:
        begin = 0
        while begin < len(halves):
            if self._count == len(self._blocks) * self._room:
                self._add_block()
            part = halves[begin : begin + self._room - self._count % self._room]
            self._write(self._count, part)
            self._count += len(part)
            begin += len(part)

    def _add_block(self) -> None:
        self._blocks.append(np.empty((self._room, self.dimension), self.dtype))

    def _write(self, row: int, halves: NDArray[np.float16]) -> None:
        """Put vectors into the rows from one on, all of the same block."""
        block, place = divmod(row, self._room)
        self._blocks[block][place : place + len(halves)] = halves

    def _parts(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """All rows, some at a time, and the number of the first of them."""
        for begin in range(0, self._count, _PART_ROWS):
            block, place = divmod(begin, self._room)
            yield begin, self._blocks[block][place : place + min(_PART_ROWS, self._count - begin)]

    def _chosen(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Some rows, in ascending order, part by part; and which of them they are."""
        for begin, part in self._parts():
            which = slice(*np.searchsorted(rows, (begin, begin + len(part))))
            yield which, part[rows[which] - begin]

    def _cosines(self, rows: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float64]:
        """The same number for the same vector wherever its row stands, which BLAS does not promise."""
        found, wide = np.empty(len(rows)), query.astype(np.float64)
        for which, vectors in self._chosen(rows):
            found[which] = (vectors * wide).sum(1)
        return found


class ExactRows(_Blocks):
    """Every row is compared, in single precision: some 7 ms for 100,000 rows.

    Args:
        dimension: of every vector.
        halves: what another's `halves` gave, to begin with.
    """

    exactness: ClassVar[str] = "exact: every vector is compared; cosines are right to about 0.0002"
    dtype = np.float32

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1."""
        found = np.empty(self._count, np.float32)
        for begin, part in self._parts():
            # row by row: a product of matrices would start threads, which wait for each other on a busy machine
            np.vecdot(part, query, out=found[begin : begin + len(part)])
        return found

    def nearest(self, query: NDArray[np.float32], count: int) -> Nearest:
        """The rows with the highest cosines to a query of length 1."""
        found = self.similarities(query)
        rows = np.arange(self._count)
        if count < self._count:
            last = np.partition(found, self._count - count)[self._count - count]
            rows = np.flatnonzero(found >= last - np.float32(_SLACK))
        return Nearest(rows, self._cosines(rows, query))


class BitRows(_Blocks):
    """Signs are compared first, then the rows that agree best, exactly: 2 ms for 100,000 rows, 20 for 1,000,000.

    It needs an eighth of a byte and two bytes for each number, where `ExactRows` needs four.

    Args:
        dimension: of every vector.
        halves: what another's `halves` gave, to begin with.
    """

    exactness: ClassVar[str] = (
        "nearly exact: signs select 2,000 vectors, which are compared; of the 10 nearest it finds 99 % on "
        "texts embedded by the models that come with the package"
    )
    dtype = np.float16

    def __init__(self, dimension: int, halves: NDArray[np.float16] | None = None) -> None:
        self._words = -(-dimension // _WORD_BITS)
        self._signs: list[NDArray[np.uint64]] = []  # of each block, one line per 64 numbers
        super().__init__(dimension, halves)

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1: exact for the nearest, else guessed from signs.

        Where the signs differ in a share s, the angle is about s · 180°.
        """
        distances = self._distances(query)
        guesses = np.cos(np.pi * np.arange(self.dimension + 1) / self.dimension).astype(np.float32)
        found = guesses.take(distances)
        rows, large = self._closest(distances, RESCORED_COUNT), query * np.float32(_SHRUNK)
        for which, vectors in self._chosen(rows):
            found[rows[which]] = np.vecdot(_shrunk(vectors), large)
        return found

    def nearest(self, query: NDArray[np.float32], count: int) -> Nearest:
        """The rows with the highest cosines to a query of length 1, as far as signs can tell."""
        rows = self._closest(self._distances(query), max(RESCORED_COUNT, OVERSAMPLED * count))
        return Nearest(rows, self._cosines(rows, query))

    def _clear(self) -> None:
        super()._clear()
        self._signs = []

    def _add_block(self) -> None:
        super()._add_block()
        self._signs.append(np.empty((self._words, self._room), np.uint64))

    def _write(self, row: int, halves: NDArray[np.float16]) -> None:
        super()._write(row, halves)
        block, place = divmod(row, self._room)
        # half precision is compared slowly; as whole numbers its values have the same signs
        self._signs[block][:, place : place + len(halves)] = _signs(halves.view(np.int16), self._words).T

    def _distances(self, query: NDArray[np.float32]) -> NDArray[np.uint16]:
        """In how many signs every row differs from a query."""
        total = np.empty(self._count, np.uint16)
        asked = _signs(query[None], self._words).T
        for begin in range(0, self._count, _PART_ROWS):
            end = min(begin + _PART_ROWS, self._count)
            block, place = divmod(begin, self._room)
            signs = self._signs[block][:, place : place + end - begin]
            np.bitwise_count(signs ^ asked).sum(0, np.uint16, total[begin:end])
        return total

    def _closest(self, distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
        """The rows with the lowest distances, at least so many where there are, all ties included."""
        if count >= len(distances):
            return np.arange(len(distances))
        upto = np.cumsum(np.bincount(distances))  # by distance; there are few, so counting beats sorting
        return np.flatnonzero(distances <= np.searchsorted(upto, count))


def _signs(vectors: NDArray[Any], words: int) -> NDArray[np.uint64]:
    """One bit for each number, filled up to whole words."""
    packed = np.packbits(vectors > 0, axis=1)
    filled = np.zeros((len(vectors), words * 8), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return filled.view(np.uint64)


def _shrunk(halves: NDArray[np.float16]) -> NDArray[np.float32]:
    """Vectors in single precision, each number divided by `_SHRUNK`, which leaves the bits of half precision.

    That is a third of what the conversion takes that numpy does, one number after another.
    """
    bits = halves.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= ~(0b111 << 28)  # what the sign left behind when the number became longer
    return bits.view(np.float32)
