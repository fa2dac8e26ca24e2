"""Vectors in rows, compared with a query all at once: exactly, or by their signs first.

Rows are numbered from 0 without gaps; who they belong to is known to `search.vectors` and `search.embedding`.
Vectors are brought to length 1 and rounded to half precision when they come (a cosine changes by some 0.0001,
less than any model can tell), so what was dumped and loaded answers exactly as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np

from sense_memory.search.embedders import normalised


if TYPE_CHECKING:
    from numpy.typing import NDArray

RESCORED_COUNT: Final = 2_000  # rows whose signs agree best, and which are then compared exactly
OVERSAMPLED: Final = 50  # or so many for each row that was asked for
_BLOCK_ROWS: Final = 8_192  # computed at a time, so that a block stays in the processor's cache
_SLACK: Final = 1e-5  # single precision is off by less; whoever is so near the last place is looked at again
_WORD_BITS: Final = 64


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

    def replace(self, row: int, vector: NDArray[Any]) -> None:
        """Give a row another vector."""

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


class ExactRows:
    """Every row is compared, in single precision: 10 to 15 ms for 100,000 rows.

    Args:
        dimension: of every vector.
        halves: what another's `halves` gave, to begin with.
    """

    exactness: ClassVar[str] = "exact: every vector is compared; cosines are right to about 0.0002"

    def __init__(self, dimension: int, halves: NDArray[np.float16] | None = None) -> None:
        self.dimension = dimension
        start = np.empty((0, dimension)) if halves is None else halves
        self._matrix, self._count = start.astype(np.float32), len(start)

    def __len__(self) -> int:
        return self._count

    def extend(self, vectors: NDArray[Any]) -> None:
        """Add some rows."""
        needed = self._count + len(vectors)
        if needed > len(self._matrix):
            room = np.empty((_capacity(needed), self.dimension), np.float32)
            room[: self._count] = self._matrix[: self._count]
            self._matrix = room
        self._matrix[self._count : needed] = rounded(vectors)
        self._count = needed

    def replace(self, row: int, vector: NDArray[Any]) -> None:
        """Give a row another vector."""
        self._matrix[row] = rounded(vector[None])[0]

    def drop(self, row: int) -> None:
        """Take a row out; the last one takes its place."""
        self._count -= 1
        self._matrix[row] = self._matrix[self._count]

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""
        self._matrix, self._count = self._matrix[rows], len(rows)

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1."""
        found: NDArray[np.float32] = self._matrix[: self._count] @ query
        return found

    def nearest(self, query: NDArray[np.float32], count: int) -> Nearest:
        """The rows with the highest cosines to a query of length 1."""
        found = self.similarities(query)
        rows = np.arange(self._count)
        if count < self._count:
            last = np.partition(found, self._count - count)[self._count - count]
            rows = np.flatnonzero(found >= last - np.float32(_SLACK))
        return Nearest(rows, _cosines(self._matrix, rows, query))

    def halves(self) -> NDArray[np.float16]:
        """All rows, for keeping."""
        return self._matrix[: self._count].astype(np.float16)


class BitRows:
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

    def __init__(self, dimension: int, halves: NDArray[np.float16] | None = None) -> None:
        self.dimension = dimension
        self._halves = np.empty((0, dimension), np.float16)
        self._signs = np.empty((-(-dimension // _WORD_BITS), 0), np.uint64)  # one line per 64 numbers
        self._count = 0
        if halves is not None:
            self._append(halves)

    def __len__(self) -> int:
        return self._count

    def extend(self, vectors: NDArray[Any]) -> None:
        """Add some rows."""
        self._append(rounded(vectors))

    def replace(self, row: int, vector: NDArray[Any]) -> None:
        """Give a row another vector."""
        self._set(row, rounded(vector[None]))

    def drop(self, row: int) -> None:
        """Take a row out; the last one takes its place."""
        self._count -= 1
        self._halves[row] = self._halves[self._count]
        self._signs[:, row] = self._signs[:, self._count]

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""
        self._halves, self._signs = self._halves[rows], np.ascontiguousarray(self._signs[:, rows])
        self._count = len(rows)

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1: exact for the nearest, else guessed from signs.

        Where the signs differ in a share s, the angle is about s · 180°.
        """
        distances = self._distances(query)
        guesses = np.cos(np.pi * np.arange(self.dimension + 1) / self.dimension).astype(np.float32)
        found = guesses[distances]
        rows = self._closest(distances, RESCORED_COUNT)
        found[rows] = _cosines(self._halves, rows, query)
        return found

    def nearest(self, query: NDArray[np.float32], count: int) -> Nearest:
        """The rows with the highest cosines to a query of length 1, as far as signs can tell."""
        rows = self._closest(self._distances(query), max(RESCORED_COUNT, OVERSAMPLED * count))
        return Nearest(rows, _cosines(self._halves, rows, query))

    def halves(self) -> NDArray[np.float16]:
        """All rows, for keeping."""
        return self._halves[: self._count].copy()

    def _append(self, halves: NDArray[np.float16]) -> None:
        needed = self._count + len(halves)
        if needed > len(self._halves):
            room = np.empty((_capacity(needed), self.dimension), np.float16)
            signs = np.empty((len(self._signs), len(room)), np.uint64)
            room[: self._count] = self._halves[: self._count]
            signs[:, : self._count] = self._signs[:, : self._count]
            self._halves, self._signs = room, signs
        self._set(slice(self._count, needed), halves)
        self._count = needed

    def _set(self, rows: Any, halves: NDArray[np.float16]) -> None:
        self._halves[rows] = halves
        self._signs[:, rows] = _signs(halves, len(self._signs)).T.reshape(self._signs[:, rows].shape)

    def _distances(self, query: NDArray[np.float32]) -> NDArray[np.uint16]:
        """In how many signs every row differs from a query."""
        total = np.zeros(self._count, np.uint16)
        asked = _signs(query[None], len(self._signs))[0]
        for begin in range(0, self._count, _BLOCK_ROWS):
            block = slice(begin, min(begin + _BLOCK_ROWS, self._count))
            for line, word in zip(self._signs, asked, strict=True):
                total[block] += np.bitwise_count(line[block] ^ word)
        return total

    def _closest(self, distances: NDArray[np.uint16], count: int) -> NDArray[np.int64]:
        """The rows with the lowest distances, at least so many where there are, all ties included."""
        if count >= len(distances):
            return np.arange(len(distances))
        return np.flatnonzero(distances <= np.partition(distances, count - 1)[count - 1])


def _signs(vectors: NDArray[Any], words: int) -> NDArray[np.uint64]:
    """One bit for each number, filled up to whole words."""
    packed = np.packbits(vectors > 0, axis=1)
    filled = np.zeros((len(vectors), words * 8), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return filled.view(np.uint64)


def _cosines(
    matrix: NDArray[Any], rows: NDArray[np.int64], query: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The same number for the same vector wherever its row stands, which BLAS does not promise."""
    found = np.empty(len(rows))
    wide = query.astype(np.float64)
    for begin in range(0, len(rows), _BLOCK_ROWS):
        block = matrix[rows[begin : begin + _BLOCK_ROWS]]
        found[begin : begin + len(block)] = (block * wide).sum(1)
    return found


def _capacity(needed: int) -> int:
    """Room for a quarter more, so that adding one by one copies seldom."""
    return max(needed * 5 // 4, 64)
