"""The seam to meaning: an embedder turns texts into vectors, and the index keeps one for every piece.

Any object with these three members will do: a static table (`search.static`), a small model, a service that
was asked beforehand. Vectors are compared by cosine; the index rounds them to half precision when they come,
so that an index that was dumped and loaded answers exactly as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from sense_memory.search.context import pooled


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


class Embedder(Protocol):
    """Texts to vectors.

    Attributes:
        name: of the model, with its version: vectors of different names are never compared.
        dimensions: of every vector.
    """

    @property
    def name(self) -> str:
        """Of the model."""

    @property
    def dimensions(self) -> int:
        """Of every vector."""

    def memories(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row for each text; zeros for one without words."""

    def query(self, text: str) -> NDArray[np.float32]:
        """The vector of what a question asks for: its words, without names and without those that ask."""


class Vectors:
    """The vectors of the pieces of all memories, in their order.

    Args:
        dimensions: of every vector.
        values: to begin with.
    """

    def __init__(self, dimensions: int, values: NDArray[np.float16] | None = None) -> None:
        start = np.empty((0, dimensions)) if values is None else values
        self._matrix, self._count = start.astype(np.float32), len(start)

    def __len__(self) -> int:
        return self._count

    @property
    def view(self) -> NDArray[np.float32]:
        """One row per piece; not for keeping."""
        return self._matrix[: self._count]

    def extend(self, values: NDArray[np.float32]) -> None:
        """Add some rows; their lengths do not matter."""
        lengths = np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-9)
        needed = self._count + len(values)
        if needed > len(self._matrix):
            room = np.empty((max(needed, len(self._matrix) * 5 // 4, 64), self._matrix.shape[1]), np.float32)
            room[: self._count] = self.view
            self._matrix = room
        self._matrix[self._count : needed] = (values / lengths).astype(np.float16)
        self._count = needed

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some rows, in this order."""
        self._matrix, self._count = self._matrix[rows], len(rows)

    def similar(
        self, query: NDArray[np.float32], first_pieces: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """The cosine of each memory's best piece to a query; None if the query has no direction."""
        length = float(np.linalg.norm(query))
        if not length > 0 or not self._count:
            return None
        return pooled(self.view @ (query / np.float32(length)).astype(np.float32), first_pieces)

    def dump(self) -> dict[str, NDArray[np.float16]]:
        """All rows."""
        return {"vectors": self.view.astype(np.float16)}
