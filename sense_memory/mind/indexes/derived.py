"""The base classes of the backends: an index is derived from the log, idempotent by entry id, and can be wiped.

A backend stores each whole entry as JSON, so a hit can be turned into an entry without the log. Unlike the ledger, a
backend stores plaintext, and keeps an entry that was removed from the log until `clear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

import orjson

from sense_memory.errors import InvalidInput, MemoryIndexError, MissingExtra, SenseMemoryError
from sense_memory.mind.index_protocol import by_rank
from sense_memory.mind.log import LogEntry
from sense_memory.search.embedders.choice import open_embedder
from sense_memory.search.embedders.embedder import embedded


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.search.embedders.embedder import Embedder


class DerivedIndex(ABC):
    """An index in a backend. Calls block until the backend has answered; use a thread if that takes too long.

    Attributes:
        name: the name of the backend, for errors.
        batch: the number of entries that are stored with one call.
    """

    name: ClassVar[str]
    batch: ClassVar[int] = 500

    def __init__(self) -> None:
        self._known: set[str] | None = None

    def index(self, events: Sequence[LogEntry]) -> None:
        """Index entries; an entry whose id is already indexed changes nothing.

        Raises:
            MemoryIndexError: the backend failed; some of the entries may be indexed.
        """
        with failures(self.name):
            if self._known is None:
                self._known = set(self._stored_ids())
            new = list({entry.id: entry for entry in events if entry.id not in self._known}.values())
            for start in range(0, len(new), self.batch):
                part = new[start : start + self.batch]
                self._store([entry for entry in part if entry.text.strip()])
                self._known.update(entry.id for entry in part)

    def search(self, query: str, k: int) -> list[LogEntry]:
        """At most `k` indexed entries, most relevant first.

        Raises:
            MemoryIndexError: the backend failed.
        """
        return [entry for entry, _ in self.scored(query, k)]

    def scored(self, query: str, k: int) -> list[tuple[LogEntry, float]]:
        """As `search`, each entry with its similarity to the query, 0 to 1; by rank if the backend gives no usable scores.

        Raises:
            MemoryIndexError: the backend failed.
        """
        if k < 1 or not query.strip():
            return []
        with failures(self.name):
            hits = [(restored(text), score) for text, score in self._hits(query, k)]
        found: dict[str, tuple[LogEntry, float | None]] = {}
        for entry, score in hits:
            if entry is not None:
                found.setdefault(entry.id, (entry, score))
        return _with_scores(list(found.values())[:k])

    def clear(self) -> None:
        """Wipe the index; it can be built again from the log.

        Raises:
            MemoryIndexError: the backend failed.
        """
        with failures(self.name):
            self._wipe()
        self._known = set()

    @abstractmethod
    def _stored_ids(self) -> Iterable[str]:
        """The ids of the stored entries."""

    @abstractmethod
    def _store(self, entries: Sequence[LogEntry]) -> None:
        """Store entries that have words."""

    @abstractmethod
    def _hits(self, query: str, k: int) -> Iterable[tuple[object, float | None]]:
        """The stored JSON of the most relevant entries with their scores, best first; None for a score that is unknown."""

    @abstractmethod
    def _wipe(self) -> None:
        """Remove everything that this index stored."""


class DerivedVectorIndex(DerivedIndex):
    """An index over vectors of an embedder of sense-memory.

    Args:
        embedder: see `open_embedder`; vectors of different embedders are never compared.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self._embedder = embedder

    def _store(self, entries: Sequence[LogEntry]) -> None:
        vectors = embedded(self._embedder, [entry.text for entry in entries])
        # The vector of a text without meaning is zero, and has no cosine.
        rows = [(entry, vector) for entry, vector in zip(entries, vectors, strict=True) if vector.any()]
        if rows:
            self._insert(rows)

    def _hits(self, query: str, k: int) -> Iterable[tuple[object, float | None]]:
        vector = embedded(self._embedder, [query], as_questions=True)[0]
        return self._nearest(vector, k) if vector.any() else ()

    @abstractmethod
    def _insert(self, rows: Sequence[tuple[LogEntry, NDArray[np.float32]]]) -> None:
        """Store entries with their vectors."""

    @abstractmethod
    def _nearest(self, vector: NDArray[np.float32], k: int) -> Iterable[tuple[object, float | None]]:
        """The stored JSON of the entries with the nearest vectors, and their cosines, best first."""


def _with_scores(hits: Sequence[tuple[LogEntry, float | None]]) -> list[tuple[LogEntry, float]]:
    """Hits with scores from 0 to 1; by rank, where a score is missing, no number, or rises along the ranks."""
    scores = [score for _, score in hits if isinstance(score, int | float) and isfinite(score)]
    is_usable = len(scores) == len(hits) and all(one >= other - _EPSILON for one, other in pairwise(scores))
    if not is_usable:
        return by_rank(entry for entry, _ in hits)
    return [(entry, min(1.0, max(0.0, score))) for (entry, _), score in zip(hits, scores, strict=True)]


_EPSILON: Final = 1e-6  # of scores that backends compute in single precision


def stored(entry: LogEntry) -> str:
    """An entry as JSON."""
    return orjson.dumps(asdict(entry)).decode()


def restored(text: object) -> LogEntry | None:
    """The entry that `stored` wrote; None for other values, because other programs may write to a backend."""
    try:
        fields = orjson.loads(text)  # type: ignore[arg-type]
        entry = LogEntry(**fields)
    except (orjson.JSONDecodeError, TypeError):
        return None
    is_entry = isinstance(entry.id, str) and isinstance(entry.payload, dict)
    return entry if is_entry and isinstance(entry.kind, str) and isinstance(entry.actor, str) else None


def local_embedder(setting: object = None) -> Embedder:
    """The embedder that a setting names; by default the best installed embedder: `minilm`, or else `static`.

    Raises:
        InvalidInput: the setting names no embedder.
        MissingExtra: its packages are not installed.
    """
    if setting is None:
        try:
            return _opened("minilm")
        except MissingExtra:
            return _opened("static")
    if not isinstance(setting, str):
        raise InvalidInput("embedder must be a text, such as static")
    return _opened(setting)


def _opened(setting: str) -> Embedder:
    embedder = open_embedder(setting)
    if embedder is None:
        raise InvalidInput("this index needs an embedder; write static or minilm")
    return embedder


def options_of(config: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A configuration as a dict, checked for unknown names.

    Raises:
        InvalidInput: the configuration has an unknown name.
    """
    if unknown := config.keys() - set(names):
        raise InvalidInput(f"remove {len(unknown)} unknown names; known are {', '.join(names)}")
    return dict(config)


def need(package: str, extra: str) -> None:
    """Check that the package of a backend is installed.

    Raises:
        MissingExtra: the package is not installed.
    """
    if find_spec(package) is None:
        raise MissingExtra(extra)


@contextmanager
def failures(name: str) -> Iterator[None]:
    """Turn any error of a backend into a `MemoryIndexError` without its text, which may contain an entry or a password."""
    try:
        yield
    except SenseMemoryError:
        raise
    except ImportError:
        raise MemoryIndexError(name, "a package that it needs is not installed") from None
    except Exception as error:
        raise MemoryIndexError(name, f"it raised {type(error).__name__}") from None
