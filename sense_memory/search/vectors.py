"""Vectors in rows, and the vectors of the pieces of all memories, with exact comparisons.

Guaranteed: no near vector is missed, because a question is compared with every vector, in single precision. The cost on
two shared cores is some 20 ms for 100,000 vectors of 384 numbers and 55 ms for 300,000, and four bytes of RAM for each
number: 155 MB and 460 MB. That is the limit of this design, which has no approximate index.

Vectors are scaled to length 1 and rounded to half precision when they are added, which changes a cosine by some 0.0001,
less than any model can distinguish. So vectors from the cache give exactly the same answers as new vectors. Vectors are
stored in blocks, and adding a row never moves other rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import EmbedderError
from sense_memory.search.column import Column
from sense_memory.search.embedders.embedder import embedded, normalised
from sense_memory.search.evidence import pooled


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.embedders.embedder import Embedder

_PART_ROWS: Final = 8_192  # compared at a time, so that they stay in the processor's cache
_BLOCK_BYTES: Final = 2**26  # allocated at a time; the system provides pages as they are filled
EMBEDDED_AT_ONCE_COUNT: Final = 512  # bounds the loss by a failure, and the copies in RAM

USUAL_COUNT: Final = 2_000  # vectors that are compared to know how near the usual one is


def rounded(vectors: NDArray[Any]) -> NDArray[np.float16]:
    """Vectors of any length in their stored form: of length 1, in half precision."""
    return normalised(vectors).astype(np.float16)


# ── Rows ────────────────────────────────────────────────────────────────────────────────


class VectorRows:
    """Vectors of one dimension, numbered from 0 without gaps.

    Args:
        dimension: of every vector.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._blocks: list[NDArray[np.float32]] = []
        part_bytes = max(1, dimension) * _PART_ROWS * np.dtype(np.float32).itemsize
        self._room = max(1, _BLOCK_BYTES // part_bytes) * _PART_ROWS  # rows of a block
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, vectors: NDArray[Any]) -> None:
        """Add some rows."""
        self._append(rounded(vectors).astype(np.float32))

    def extend_empty(self, count: int) -> None:
        """Add some rows of zeros."""
        self._append(np.broadcast_to(np.float32(0), (count, self.dimension)))

    def replace(self, rows: Sequence[int], vectors: NDArray[Any]) -> None:
        """Replace the vectors of some rows."""
        values, start = rounded(vectors), 0
        for end in range(1, len(rows) + 1):  # neighbouring rows are written together
            if end == len(rows) or rows[end] != rows[end - 1] + 1 or rows[end] % self._room == 0:
                self._write(rows[start], values[start:end])
                start = end

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""
        selected = self.at(rows)
        self._blocks, self._count = [], 0
        self._append(selected)

    def at(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """A copy of some rows."""
        found = np.empty((len(rows), self.dimension), np.float32)
        blocks = rows // self._room
        for number, block in enumerate(self._blocks):
            there = blocks == number
            found[there] = block[rows[there] - number * self._room]
        return found

    def similarities(self, query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The cosine of every row to a query of length 1."""
        found = np.empty(self._count, np.float32)
        for begin in range(0, self._count, _PART_ROWS):
            block, place = divmod(begin, self._room)
            part = self._blocks[block][place : place + min(_PART_ROWS, self._count - begin)]
            # row by row: a matrix product would start threads, which wait for each other on a busy machine
            np.vecdot(part, query, out=found[begin : begin + len(part)])
        return found

    def _append(self, values: NDArray[np.float32]) -> None:
        begin = 0
        while begin < len(values):
            if self._count == len(self._blocks) * self._room:
                self._blocks.append(np.empty((self._room, self.dimension), np.float32))
            part = values[begin : begin + self._room - self._count % self._room]
            self._write(self._count, part)
            self._count += len(part)
            begin += len(part)

    def _write(self, row: int, values: NDArray[Any]) -> None:
        """Write vectors into consecutive rows of one block."""
        block, place = divmod(row, self._room)
        self._blocks[block][place : place + len(values)] = values


# ── The pieces of memories ──────────────────────────────────────────────────────────────


class PieceVectors:
    """The vectors of the pieces of all memories, in their order; a piece without one is a gap.

    A failing embedder never stops a call: a piece that could not be embedded is a gap, and a question that could not be
        embedded is answered by words.

    Args:
        embedder: makes the vectors.

    Attributes:
        trouble: why the last text could not be embedded; None if it could.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.trouble: EmbedderError | None = None
        self._rows: VectorRows | None = None  # until the dimension is known
        self._is_known = Column(np.bool_)

    def __len__(self) -> int:
        return len(self._is_known)

    def extend(self, texts: Sequence[str]) -> None:
        """Embed some pieces; pieces that cannot be embedded are gaps."""
        has_failed = False
        for first in range(0, len(texts), EMBEDDED_AT_ONCE_COUNT):
            part = texts[first : first + EMBEDDED_AT_ONCE_COUNT]
            vectors = None if has_failed else self._embed(part)
            has_failed = vectors is None  # one failure is enough: every call of a service that is down waits
            is_known = not has_failed
            if vectors is not None and self._rows is None:
                self._rows = self._gap_rows(vectors.shape[1])
            if self._rows is not None:
                self._rows.extend(np.zeros((len(part), self._rows.dimension)) if vectors is None else vectors)
            self._is_known.extend(np.full(len(part), is_known))

    def add_gaps(self, count: int) -> None:
        """Add some pieces without vectors: gaps, for `fill`."""
        if self._rows is not None:
            self._rows.extend_empty(count)
        self._is_known.extend(np.zeros(count, np.bool_))

    def fill(self, places: Sequence[int], vectors: NDArray[Any]) -> bool:
        """Give some pieces their vectors, a row each; returns False, and changes nothing, if the dimension differs."""
        if self._rows is None:
            self._rows = self._gap_rows(vectors.shape[1])
        if vectors.shape[1] != self._rows.dimension:
            return False
        self._rows.replace(places, vectors)
        self._is_known[list(places)] = True
        return True

    def at(self, first: int, end: int) -> NDArray[np.float32] | None:
        """The vectors of consecutive pieces; None if one of them is a gap."""
        if self._rows is None or not self._is_known.view[first:end].all():
            return None
        return self._rows.at(np.arange(first, end))

    def select(self, rows: NDArray[np.int64]) -> None:
        """Keep only some pieces, in this order."""
        self._is_known = Column(np.bool_, self._is_known.view[rows])
        if self._rows is not None:
            self._rows.select(rows)

    def gaps(self) -> NDArray[np.int64]:
        """The pieces that could not be embedded."""
        return np.flatnonzero(~self._is_known.view)

    def direction(self, question: str) -> NDArray[np.float32] | None:
        """The vector of a question (see `query.without_names`); None if there are no vectors, or with `trouble` set."""
        if self._rows is None or not len(self._rows) or not question.strip():
            return None
        vectors = self._embed([question], as_questions=True)
        return None if vectors is None else vectors[0]

    def similar(
        self, direction: NDArray[np.float32], first_pieces: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """The cosine of each memory's best piece to a vector; None without vectors of that dimension.

        Args:
            direction: of any length; a vector of another dimension counts as none.
            first_pieces: where the pieces of each memory begin.
        """
        if self._rows is None or not len(self._rows) or not direction.any():
            return None
        if direction.shape != (self._rows.dimension,):
            return None
        return pooled(self._rows.similarities(normalised(direction[None])[0]), first_pieces)

    def places(self, direction: NDArray[np.float32], pieces: Iterable[tuple[int, int]]) -> list[float | None]:
        """By how many standard deviations the best of some pieces are nearer to a vector than pieces usually are.

        Args:
            direction: of any length.
            pieces: by memory, its first piece and the first after it.

        Returns:
            By memory; None for one without vectors, and for all where the vector has another dimension.
        """
        if self._rows is None or not direction.any() or direction.shape != (self._rows.dimension,):
            return [None for _ in pieces]
        query, known = normalised(direction[None])[0], np.flatnonzero(self._is_known.view)
        sample = np.vecdot(self._rows.at(known[:: -(-len(known) // USUAL_COUNT) or 1]), query)
        usual, spread = (float(sample.mean()), float(sample.std())) if len(sample) else (0.0, 0.0)
        own = [self.at(*span) for span in pieces]
        return [
            None if vectors is None else (float(np.vecdot(vectors, query).max()) - usual) / max(spread, 1e-6)
            for vectors in own
        ]

    def _gap_rows(self, dimension: int) -> VectorRows:
        rows = VectorRows(dimension)
        rows.extend_empty(len(self))
        return rows

    def _embed(self, texts: Sequence[str], *, as_questions: bool = False) -> NDArray[np.float32] | None:
        """A row for each text; None, and `trouble`, if the embedder failed."""
        try:
            dimension = None if self._rows is None else self._rows.dimension
            vectors = embedded(self.embedder, texts, dimension, as_questions=as_questions)
        except EmbedderError as error:
            self.trouble = error
            return None
        self.trouble = None
        return vectors
