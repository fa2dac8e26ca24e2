"""The seam to meaning: the vector of every piece of every memory, and how near each is to a question.

An embedder that fails never stops anything: what could not be embedded is remembered as a gap, a question that
could not be is answered by words, and `trouble` says why. Beyond `EXACT_COUNT` pieces only the 2,000 whose signs
agree best are compared exactly: fused with words, that finds as much (within about 0.015 of recall, both benchmarks).
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import EmbedderError
from sense_memory.search.column import Column
from sense_memory.search.context import pooled
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.query import bare
from sense_memory.search.rows import BitRows, ExactRows
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.rows import Rows

EXACT_COUNT: Final = 50_000  # pieces that are all compared exactly; with more it would be most of a search
_LINE: Final = " \n"  # between the key, the themes and the text of a memory
EMBEDDED_AT_ONCE_COUNT: Final = 512  # pieces: bounds what a failure costs, and what stands in memory twice


class Meaning:
    """The vectors of the pieces of all memories, in their order; those without one are gaps.

    Args:
        embedder: makes them.
        dumped: what `dump` gave, to begin with.

    Attributes:
        trouble: why the last text could not be embedded; None if it could.
    """

    def __init__(self, embedder: Embedder, dumped: Mapping[str, NDArray[Any]] | None = None) -> None:
        self.embedder = embedder
        self.trouble: EmbedderError | None = None
        self._rows: Rows | None = None  # until the dimension is known
        self._is_known = Column(np.bool_, () if dumped is None else dumped["known"])
        if dumped is not None and dumped["vectors"].shape[1]:
            self._rows = _kind(len(self))(dumped["vectors"].shape[1], dumped["vectors"])

    def __len__(self) -> int:
        return len(self._is_known)

    def extend(self, texts: Sequence[str]) -> None:
        """Embed some pieces; those that cannot be are gaps."""
        has_failed = False
        for first in range(0, len(texts), EMBEDDED_AT_ONCE_COUNT):
            part = texts[first : first + EMBEDDED_AT_ONCE_COUNT]
            vectors = None if has_failed else self._embed(part)
            has_failed = vectors is None  # a service that is down is not waited for again and again
            is_known = not has_failed
            if vectors is not None and self._rows is None:
                self._rows = self._gap_rows(vectors.shape[1])
            if self._rows is not None:
                self._rows.extend(np.zeros((len(part), self._rows.dimension)) if vectors is None else vectors)
            self._is_known.extend(np.full(len(part), is_known))
            self._fit()

    def leave(self, count: int) -> None:
        """Take in some pieces without their vectors: gaps, for `fill`."""
        if self._rows is not None:
            self._rows.extend(np.zeros((count, self._rows.dimension)))
        self._is_known.extend(np.zeros(count, np.bool_))
        self._fit()

    def fill(self, places: Sequence[int], vectors: NDArray[Any]) -> bool:
        """Give some pieces their vectors, a row each; not such as others cannot be compared with."""
        if self._rows is None:
            self._rows = self._gap_rows(vectors.shape[1])
        if vectors.shape[1] != self._rows.dimension:
            return False
        self._rows.replace(places, vectors)
        self._is_known[list(places)] = True
        return True

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only some pieces, in this order."""
        self._is_known = Column(np.bool_, self._is_known.view[rows])
        if self._rows is not None:
            self._rows.keep(rows)
            self._fit()

    def gaps(self) -> NDArray[np.int64]:
        """The pieces that could not be embedded."""
        return np.flatnonzero(~self._is_known.view)

    def direction(self, question: str) -> NDArray[np.float32] | None:
        """The vector of a question (see `unnamed`); None, and perhaps `trouble`, where there is none."""
        if self._rows is None or not len(self._rows) or not question.strip():
            return None
        vectors = self._embed([question])
        return None if vectors is None else vectors[0]

    def similar(
        self, direction: NDArray[np.float32], first_pieces: NDArray[np.int64]
    ) -> NDArray[np.float32] | None:
        """The cosine of each memory's best piece to a vector; None where that cannot be said.

        Args:
            direction: of any length; one of other numbers than the pieces have is like none.
            first_pieces: where the pieces of each memory begin.
        """
        if self._rows is None or not len(self._rows) or not direction.any():
            return None
        if direction.shape != (self._rows.dimension,):
            return None
        return pooled(self._rows.similarities(normalised(direction[None])[0]), first_pieces)

    def dump(self) -> dict[str, NDArray[Any]]:
        """All rows."""
        empty = np.empty((len(self), 0), np.float16)
        return {
            "vectors": empty if self._rows is None else self._rows.halves(),
            "known": self._is_known.view,
        }

    def _gap_rows(self, dimension: int) -> Rows:
        return _kind(len(self))(dimension, np.zeros((len(self), dimension), np.float16))

    def _fit(self) -> None:
        """Rows of the kind that suits their number."""
        kind = _kind(len(self))
        if self._rows is not None and not isinstance(self._rows, kind):
            self._rows = kind(self._rows.dimension, self._rows.halves())

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """A row for each text; None, and `trouble`, if the embedder failed."""
        try:
            dimension = None if self._rows is None else self._rows.dimension
            vectors = embedded(self.embedder, texts, dimension)
        except EmbedderError as error:
            self.trouble = error
            return None
        self.trouble = None
        return vectors


def _kind(count: int) -> type[ExactRows | BitRows]:
    return ExactRows if count <= EXACT_COUNT else BitRows


def embedded(embedder: Embedder, texts: Sequence[str], dimension: int | None = None) -> NDArray[np.float32]:
    """What an embedder, which is anybody's code, makes of some texts, if it is a row of numbers for each.

    Args:
        embedder: to be asked.
        texts: to embed.
        dimension: that the rows have to have; by default the embedder's.

    Raises:
        EmbedderError: it failed, whatever it raised, or gave something else.
    """
    with _anybodys(embedder):
        vectors = np.asarray(embedder.embed(texts), np.float32)
    expected = len(texts), dimension or dimension_of(embedder)
    if vectors.shape != expected or not np.isfinite(vectors).all():
        problem = f"it gave {vectors.shape} numbers for {expected}, or some that are none"
        raise EmbedderError(embedder.name, problem)
    return vectors


def dimension_of(embedder: Embedder) -> int:
    """The dimension of an embedder, which may have to be asked for it.

    Raises:
        EmbedderError: it failed, whatever it raised.
    """
    with _anybodys(embedder):
        return embedder.dimension


@contextmanager
def _anybodys(embedder: Embedder) -> Iterator[None]:
    """Whatever an embedder raises is an `EmbedderError`."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:  # its words may hold a text, so only where it happened is told
        raise EmbedderError(embedder.name, f"it raised {type(error).__name__}{_place(error)}") from None


def _place(error: Exception) -> str:
    """The file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    )


def spoken(pieces: Iterable[str]) -> list[str]:
    """The pieces of a memory as they are embedded: a line that stands there twice, to count twice, once."""
    return [_LINE.join(dict.fromkeys(piece.split(_LINE))) for piece in pieces]


def unnamed(query: str, names: Collection[str]) -> str:
    """A question as it is embedded: as it was asked, without the names that are matched elsewhere.

    A name draws every memory near that mentions it, and a question mark every question. The rest stays: models
    of whole sentences lose without its small words, and tables of single words leave them out themselves.

    Args:
        query: any text.
        names: folded words.
    """
    parts = [(part, words(part)) for part in query.split()]
    kept = [part for part, said in parts if not said or not all(bare(word) in names for word in said)]
    return " ".join(kept).rstrip("?\uff1f ")
