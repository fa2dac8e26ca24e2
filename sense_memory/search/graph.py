"""Vectors in a graph of neighbours (HNSW), by the library usearch: among very many, the fastest and least exact.

Searching a million vectors takes about a millisecond; building takes minutes, and a vector that hardly any
other is near to may be missed. What is found is compared again exactly, so similarities are always right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from sense_memory.errors import MissingExtra
from sense_memory.search.embedder import normalised
from sense_memory.search.rows import Nearest, rounded
from sense_memory.search.vectors import Found, checked, ordered, packed


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

_EXPANSION: Final = 128  # nodes kept in view while searching: more finds more and takes longer
_OVERSAMPLED: Final = 4
_BULK_ROWS: Final = 1_000  # from so many on, all cores build


class UsearchIndex:
    """Approximate.

    Args:
        dimension: of every vector.

    Raises:
        MissingExtra: `usearch` is not installed.
    """

    kind: ClassVar[str] = "usearch"

    def __init__(self, dimension: int) -> None:
        try:
            from usearch.index import Index
        except ImportError:
            raise MissingExtra("usearch", "sense-memory[usearch]") from None
        self.dimension = dimension
        self._graph: Any = Index(ndim=dimension, metric="ip", dtype="f16", expansion_search=_EXPANSION)
        self._keys: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._next = 0

    @property
    def exactness(self) -> str:
        """What its answers are worth."""
        return "approximate: a graph is followed; of the 10 nearest it finds about 97 %, the same ones not always"

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, ident: str) -> bool:
        return ident in self._keys

    def put(self, ident: str, vector: ArrayLike) -> None:
        """Add a vector, or replace the one of this id."""
        self.put_many((ident,), vector)

    def put_many(self, idents: Sequence[str], vectors: ArrayLike) -> None:
        """Add or replace many, one row each."""
        values = checked(vectors, self.dimension, len(idents))
        latest = {ident: at for at, ident in enumerate(idents)}
        for ident in latest:
            self.drop(ident)
        if not latest:
            return
        keys = np.arange(self._next, self._next + len(latest), dtype=np.uint64)
        self._next += len(latest)
        threads = 0 if len(latest) >= _BULK_ROWS else 1
        self._graph.add(keys, rounded(values[list(latest.values())]), threads=threads)
        for ident, key in zip(latest, keys.tolist(), strict=True):
            self._keys[ident], self._ids[key] = key, ident

    def drop(self, ident: str) -> bool:
        """Take a vector out; whether it was there."""
        key = self._keys.pop(ident, None)
        if key is None:
            return False
        del self._ids[key]
        self._graph.remove(key)
        return True

    def search(self, query: ArrayLike, k: int = 10) -> Found:
        """The nearest vectors that the graph leads to, at most `k`."""
        (direction,) = normalised(checked(query, self.dimension, 1))
        if k <= 0 or not self._keys:
            return Found([], np.empty(0, np.float32))
        count = min(len(self._keys), max(k * _OVERSAMPLED, _EXPANSION // 4))
        keys = self._graph.search(direction.astype(np.float16), count).keys
        kept = np.asarray(self._graph.get(keys), np.float64)
        near = Nearest(keys.astype(np.int64), (kept * direction).sum(1))
        return ordered(near, [self._ids[key] for key in keys.tolist()], k)

    def dump(self) -> bytes:
        """Everything as bytes; for encrypted places only."""
        graph = np.frombuffer(self._graph.save(), np.uint8)
        keys = np.fromiter(self._ids, np.uint64, len(self._ids))
        return packed(self.kind, self.dimension, list(self._ids.values()), {"graph": graph, "keys": keys})

    @classmethod
    def restore(cls, dimension: int, ids: list[str], arrays: Mapping[str, NDArray[Any]]) -> UsearchIndex:
        """What `dump` gave, taken apart."""
        self = cls(dimension)
        keys = arrays["keys"].tolist()
        self._graph.load(bytearray(arrays["graph"].tobytes()))
        if len(self._graph) != len(ids):
            raise ValueError("not a vector for each id")
        self._ids = dict(zip(keys, ids, strict=True))
        self._keys = {ident: key for key, ident in self._ids.items()}
        self._next = max(keys, default=-1) + 1
        return self
