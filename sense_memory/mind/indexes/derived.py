"""What the backends share: an index is derived from the log, idempotent by entry id, and can be wiped.

A backend stores each entry whole, as JSON, beside what it needs to find it, so a hit is an entry again without the log.
What it stores is plaintext, unlike the ledger, and an entry that was removed from the log stays in it until `clear`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from sense_memory.errors import InvalidInput, MemoryIndexError, MissingExtra, SenseMemoryError
from sense_memory.mind.log import LogEntry
from sense_memory.search.embedders.choice import open_embedder
from sense_memory.search.embedders.embedder import embedded


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.search.embedders.embedder import Embedder


class DerivedIndex(ABC):
    """An index that a backend keeps. Every call waits for the backend: call it in a thread where that is too long.

    Attributes:
        name: of the backend, for errors.
        batch: how many entries are stored at once.
    """

    name: ClassVar[str]
    batch: ClassVar[int] = 500

    def __init__(self) -> None:
        self._known: set[str] | None = None

    def index(self, events: Sequence[LogEntry]) -> None:
        """Index entries; an entry that is indexed already (by its id) changes nothing.

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
        """At most `k` indexed entries, the most relevant first.

        Raises:
            MemoryIndexError: the backend failed.
        """
        if k < 1 or not query.strip():
            return []
        with failures(self.name):
            found = [entry for text in self._hits(query, k) if (entry := restored(text)) is not None]
        return list({entry.id: entry for entry in found}.values())[:k]

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
        """The ids of the entries that are stored already."""

    @abstractmethod
    def _store(self, entries: Sequence[LogEntry]) -> None:
        """Store entries that have words."""

    @abstractmethod
    def _hits(self, query: str, k: int) -> Iterable[object]:
        """The stored JSON of the most relevant entries, the best first."""

    @abstractmethod
    def _wipe(self) -> None:
        """Remove everything that this index stored."""


class DerivedVectorIndex(DerivedIndex):
    """An index whose vectors an embedder of sense-memory makes.

    Args:
        embedder: as `open_embedder` returns; vectors of different embedders are never compared.
    """

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self._embedder = embedder

    def _store(self, entries: Sequence[LogEntry]) -> None:
        vectors = embedded(self._embedder, [entry.text for entry in entries])
        # A text without meaning has no direction, and is like nothing.
        rows = [(entry, vector) for entry, vector in zip(entries, vectors, strict=True) if vector.any()]
        if rows:
            self._insert(rows)

    def _hits(self, query: str, k: int) -> Iterable[object]:
        vector = embedded(self._embedder, [query])[0]
        return self._nearest(vector, k) if vector.any() else ()

    @abstractmethod
    def _insert(self, rows: Sequence[tuple[LogEntry, NDArray[np.float32]]]) -> None:
        """Store entries with their vectors."""

    @abstractmethod
    def _nearest(self, vector: NDArray[np.float32], k: int) -> Iterable[object]:
        """The stored JSON of the entries whose vectors are nearest by cosine, the best first."""


def stored(entry: LogEntry) -> str:
    """An entry as JSON."""
    return orjson.dumps(asdict(entry)).decode()


def restored(text: object) -> LogEntry | None:
    """The entry that `stored` wrote; None for anything else, because others may write to a backend too."""
    try:
        fields = orjson.loads(text)  # type: ignore[arg-type]
        entry = LogEntry(**fields)
    except (orjson.JSONDecodeError, TypeError):
        return None
    is_entry = isinstance(entry.id, str) and isinstance(entry.payload, dict)
    return entry if is_entry and isinstance(entry.kind, str) and isinstance(entry.actor, str) else None


def local_embedder(setting: object = None) -> Embedder:
    """The embedder that a setting names; by default the best that is installed here: `minilm`, or else `static`.

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
    """A configuration that has only known names.

    Raises:
        InvalidInput: it has another name.
    """
    if unknown := config.keys() - set(names):
        raise InvalidInput(f"remove {len(unknown)} unknown names; known are {', '.join(names)}")
    return dict(config)


def need(package: str, extra: str) -> None:
    """Check that the package of a backend is installed.

    Raises:
        MissingExtra: it is not.
    """
    if find_spec(package) is None:
        raise MissingExtra(extra)


@contextmanager
def failures(name: str) -> Iterator[None]:
    """Turn any error of a backend into a `MemoryIndexError`, without its text, which may hold an entry or a password."""
    try:
        yield
    except SenseMemoryError:
        raise
    except ImportError:
        raise MemoryIndexError(name, "a package that it needs is not installed") from None
    except Exception as error:
        raise MemoryIndexError(name, f"it raised {type(error).__name__}") from None
