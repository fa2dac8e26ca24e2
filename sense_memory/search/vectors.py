"""Vectors by id: the nearest of them to a query. One interface; which kind depends on how many there are.

    FlatIndex      exact; numpy, single precision             up to about 100,000 vectors
    BitIndex       nearly exact; signs, then rescoring        beyond

Each states in `exactness` what its answers are worth. They live in RAM; `dump` gives bytes for a place that
encrypts them, since vectors tell much about the texts they stand for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.lexical import pack, unpack
from sense_memory.search.rows import BitRows, ExactRows


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from sense_memory.search.rows import Nearest, Rows

FORMAT: Final = 1  # of a dump; another layout has another number
FLAT_COUNT: Final = 100_000  # beyond, comparing with every vector takes longer than everything else


class Found(NamedTuple):
    """The nearest vectors, nearest first, ties by id.

    Attributes:
        ids: as they were put in.
        similarities: the cosine of each to the query, -1 to 1.
    """

    ids: list[str]
    similarities: NDArray[np.float32]


@runtime_checkable
class VectorIndex(Protocol):
    """What every kind does.

    Attributes:
        kind: "flat" or "bits".
        exactness: what its answers are worth, in a sentence.
    """

    kind: ClassVar[str]

    @property
    def exactness(self) -> str:
        """What its answers are worth."""

    @property
    def dimension(self) -> int:
        """Of every vector."""

    def __len__(self) -> int: ...

    def __contains__(self, ident: str) -> bool: ...

    def put(self, ident: str, vector: ArrayLike) -> None:
        """Add a vector, or replace the one of this id. Its length does not matter, only its direction.

        Raises:
            InvalidInput: another dimension, or numbers that are none.
        """

    def put_many(self, idents: Sequence[str], vectors: ArrayLike) -> None:
        """Add or replace many, one row each; of an id that stands there twice the last one stays.

        Raises:
            InvalidInput: another dimension, numbers that are none, or not one row for each id; nothing changed.
        """

    def drop(self, ident: str) -> bool:
        """Take a vector out; whether it was there."""

    def search(self, query: ArrayLike, k: int = 10) -> Found:
        """The nearest vectors, at most `k`.

        Raises:
            InvalidInput: another dimension, or numbers that are none.
        """

    def dump(self) -> bytes:
        """Everything as bytes; for encrypted places only."""


class _OverRows:
    """Ids over rows."""

    kind: ClassVar[str]
    rows_type: ClassVar[type[ExactRows | BitRows]]

    def __init__(self, dimension: int) -> None:
        self._rows: Rows = self.rows_type(dimension)
        self._ids: list[str] = []
        self._places: dict[str, int] = {}

    @property
    def exactness(self) -> str:
        """What its answers are worth."""
        return self._rows.exactness

    @property
    def dimension(self) -> int:
        """Of every vector."""
        return self._rows.dimension

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, ident: str) -> bool:
        return ident in self._places

    def put(self, ident: str, vector: ArrayLike) -> None:
        """Add a vector, or replace the one of this id."""
        self.put_many((ident,), vector)

    def put_many(self, idents: Sequence[str], vectors: ArrayLike) -> None:
        """Add or replace many, one row each."""
        values = checked(vectors, self.dimension, len(idents))
        fresh: dict[str, int] = {}
        for at, ident in enumerate(idents):
            if ident in self._places:
                self._rows.replace([self._places[ident]], values[at : at + 1])
            else:
                fresh[ident] = at
        self._rows.extend(values[list(fresh.values())])
        for ident in fresh:
            self._places[ident] = len(self._ids)
            self._ids.append(ident)

    def drop(self, ident: str) -> bool:
        """Take a vector out; whether it was there."""
        place = self._places.pop(ident, None)
        if place is None:
            return False
        self._rows.drop(place)
        last = self._ids.pop()
        if last != ident:
            self._ids[place], self._places[last] = last, place
        return True

    def search(self, query: ArrayLike, k: int = 10) -> Found:
        """The nearest vectors, at most `k`."""
        (direction,) = normalised(checked(query, self.dimension, 1))
        if k <= 0 or not self._ids:
            return Found([], np.empty(0, np.float32))
        near = self._rows.nearest(direction, k)
        return ordered(near, [self._ids[row] for row in near.rows.tolist()], k)

    def dump(self) -> bytes:
        """Everything as bytes; for encrypted places only."""
        return packed(self.kind, self.dimension, self._ids, {"halves": self._rows.halves()})

    @classmethod
    def restore(cls, dimension: int, ids: list[str], arrays: Mapping[str, NDArray[Any]]) -> _OverRows:
        """What `dump` gave, taken apart."""
        self = cls(dimension)
        self._rows = cls.rows_type(dimension, arrays["halves"])
        self._ids, self._places = ids, {ident: place for place, ident in enumerate(ids)}
        if len(self._rows) != len(ids) or arrays["halves"].shape[1] != dimension:
            raise ValueError("not a vector for each id")
        return self


class FlatIndex(_OverRows):
    """Exact: a query is compared with every vector.

    Args:
        dimension: of every vector.
    """

    kind = "flat"
    rows_type = ExactRows


class BitIndex(_OverRows):
    """Nearly exact: signs select the vectors that a query is compared with.

    Args:
        dimension: of every vector.
    """

    kind = "bits"
    rows_type = BitRows


def choose(count: int, dimension: int) -> VectorIndex:
    """An empty index of the kind that suits a number of vectors.

    Args:
        count: how many are expected.
        dimension: of every vector.
    """
    return FlatIndex(dimension) if count <= FLAT_COUNT else BitIndex(dimension)


def load(dumped: bytes) -> VectorIndex:
    """What any kind's `dump` gave.

    Raises:
        ValueError: no dump of this format; build the index anew.
    """
    try:
        header, groups = unpack(dumped)
        kind, dimension, ids = header["kind"], int(header["dimension"]), list(header["ids"])
        if header["format"] != FORMAT or kind not in {"flat", "bits"}:
            raise ValueError("another format")
        return (FlatIndex if kind == "flat" else BitIndex).restore(dimension, ids, groups[0])
    except (ValueError, KeyError, TypeError, IndexError):
        raise ValueError("these bytes are no vectors of this format; build the index anew") from None


# ── What all kinds share ────────────────────────────────────────────────────────────────


def checked(vectors: ArrayLike, dimension: int, count: int) -> NDArray[np.float64]:
    """Vectors as numbers, one row each.

    Raises:
        InvalidInput: they are not.
    """
    try:
        values = np.atleast_2d(np.asarray(vectors, np.float64)) if count else np.empty((0, dimension))
    except (ValueError, TypeError):
        values = np.empty(0)
    if values.ndim != 2 or len(values) != count:
        raise InvalidInput(f"not {count} vectors; nothing was changed")
    if values.shape[1] != dimension:
        raise InvalidInput(
            f"a vector has {values.shape[1]} numbers where this index holds {dimension}; nothing was changed"
        )
    if not np.isfinite(values).all():
        raise InvalidInput("a vector holds numbers that are none; nothing was changed")
    return values


def ordered(near: Nearest, ids: Sequence[str], k: int) -> Found:
    """Candidates, nearest first, ties by id."""
    keyed = sorted(zip((-near.similarities).tolist(), ids, strict=True))[:k]
    return Found([ident for _, ident in keyed], np.array([-value for value, _ in keyed], np.float32))


def packed(kind: str, dimension: int, ids: Sequence[str], arrays: dict[str, NDArray[Any]]) -> bytes:
    """A dump of any kind."""
    return pack({"format": FORMAT, "kind": kind, "dimension": dimension, "ids": list(ids)}, [arrays])
