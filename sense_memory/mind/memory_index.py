"""`MemoryIndex` ranks entries of the log by meaning; `HybridIndex` does so without another package or the network.

An index is derived: it can be wiped and built again from the log, and indexing an entry twice changes nothing. An index
never decides which entries an agent may see: a view filters entries first, then indexes them, then searches.

`memory_index_from_env` opens the index that the environment names: `HybridIndex`, or a backend in `mind.indexes`.
"""

from __future__ import annotations

import os
from math import log1p
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput, InvalidSetting
from sense_memory.mind.index_protocol import MemoryIndex, ScoredMemoryIndex
from sense_memory.search.documents import SearchItem
from sense_memory.search.embedders.choice import open_embedder
from sense_memory.search.index import SearchIndex
from sense_memory.search.tokens import STOP_WORDS, words


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.search.embedders.embedder import Embedder
    from sense_memory.search.ranking import SearchHit

__all__ = ["BACKENDS", "HybridIndex", "MemoryIndex", "ScoredMemoryIndex", "memory_index_from_env"]

BACKENDS: Final = ("hybrid", "mem0", "cloud", "pgvector", "chroma")
_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"", "0", "false", "no", "off"})


class HybridIndex:
    """An index in this process, with the search of sense-memory: by words, and with an embedder also by meaning.

    Args:
        embedder: ranks by meaning, see `open_embedder`; None for words only.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder
        self._index = SearchIndex(embedder=embedder)
        self._entries: dict[str, LogEntry] = {}

    def index(self, events: Sequence[LogEntry]) -> None:
        """Index entries; an entry whose id is already indexed changes nothing."""
        new = {entry.id: entry for entry in events if entry.id not in self._entries}
        self._entries |= new
        self._index.put_many(
            SearchItem(entry.id, entry.text, timestamp=entry.at, speaker=entry.actor)
            for entry in new.values()
        )

    def search(self, query: str, k: int) -> list[LogEntry]:
        """At most `k` indexed entries, most relevant first."""
        return [entry for entry, _ in self.scored(query, k)]

    def scored(self, query: str, k: int) -> list[tuple[LogEntry, float]]:
        """As `search`, with the share of the evidence that an entry can have for the query at most.

        What stands beside a match is ranked after it, and has no evidence of its own.
        """
        asked = sum(word not in STOP_WORDS["english"] for word in words(query))
        most = max(1, asked) * log1p(len(self._entries))
        hits = self._index.search(query, k) if k > 0 else []
        return [(self._entries[hit.id], min(1.0, _own_evidence(hit) / most)) for hit in hits]

    def clear(self) -> None:
        """Wipe the index; it can be built again from the log."""
        self._index = SearchIndex(embedder=self._embedder)
        self._entries.clear()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> HybridIndex:
        """An index from its only option, `embedder` (a setting such as "static"); without it, by words only.

        Raises:
            InvalidInput: there is another option, or the setting names no embedder.
            MissingExtra: the packages of the embedder are not installed.
        """
        if config.keys() - {"embedder"} or not isinstance(setting := config.get("embedder", "none"), str):
            raise InvalidInput("the only option is `embedder`, a text such as static")
        return cls(open_embedder(setting))


def _own_evidence(hit: SearchHit) -> float:
    return max(0.0, sum(reason.share for reason in hit.why if reason.kind not in _BESIDE))


_BESIDE: Final = frozenset({"neighbours", "session"})  # reasons of a hit that are other entries


def memory_index_from_env(environ: Mapping[str, str] | None = None) -> MemoryIndex | None:
    """The memory index that the environment names; None unless MEMORY_INDEX is 1, true, yes, on, or cloud.

    MEMORY_INDEX_BACKEND is `hybrid`, `mem0` (the default), `cloud`, `pgvector` or `chroma`. MEMORY_INDEX_CONFIG is a JSON
    object for the backend's `from_config`. `cloud`, in either variable, sends the text of entries to mem0's servers.

    Args:
        environ: the variables; by default the environment of this process.

    Raises:
        InvalidSetting: a value is not valid. The error repeats nothing of the value.
        MissingExtra: the packages of the backend are not installed.
        MemoryIndexError: the backend cannot be reached, or refuses its configuration.
    """
    environ = os.environ if environ is None else environ
    backend = _backend_of(environ)
    if backend is None:
        return None
    try:
        config = orjson.loads(environ.get("MEMORY_INDEX_CONFIG", "").strip() or "{}")
    except orjson.JSONDecodeError:
        config = None
    if not isinstance(config, dict):
        raise InvalidSetting("MEMORY_INDEX_CONFIG", "environment", "it must be a JSON object")
    try:
        return _opened(backend, config, environ)
    except InvalidSetting:
        raise
    except InvalidInput as error:
        raise InvalidSetting("MEMORY_INDEX_CONFIG", "environment", str(error)) from None


def _backend_of(environ: Mapping[str, str]) -> str | None:
    switch = environ.get("MEMORY_INDEX", "").strip().lower()
    backend = environ.get("MEMORY_INDEX_BACKEND", "").strip().lower()
    if switch in _NO:
        return None
    if switch not in _YES | {"cloud"}:
        raise InvalidSetting("MEMORY_INDEX", "environment", "it must be 1, 0 or cloud")
    if backend and backend not in BACKENDS:
        raise InvalidSetting(
            "MEMORY_INDEX_BACKEND", "environment", f"it must be one of {', '.join(BACKENDS)}"
        )
    if switch == "cloud" and backend not in {"", "cloud"}:
        raise InvalidSetting(
            "MEMORY_INDEX_BACKEND",
            "environment",
            "MEMORY_INDEX says cloud; write 1 there to use another backend",
        )
    return "cloud" if switch == "cloud" else backend or "mem0"


def _opened(backend: str, config: Mapping[str, Any], environ: Mapping[str, str]) -> MemoryIndex:
    """Open a backend; only its module is imported."""
    if backend == "cloud":
        from sense_memory.mind.indexes.mem0 import Mem0CloudIndex

        if not environ.get("MEM0_API_KEY", "").strip():
            raise InvalidSetting("MEM0_API_KEY", "environment", "set it to the key of mem0's service")
        return Mem0CloudIndex.from_config(config, environ)
    if backend == "mem0":
        from sense_memory.mind.indexes.mem0 import Mem0MemoryIndex

        return Mem0MemoryIndex.from_config(config)
    if backend == "pgvector":
        from sense_memory.mind.indexes.pgvector import PgvectorIndex

        return PgvectorIndex.from_config(config)
    if backend == "chroma":
        from sense_memory.mind.indexes.chroma import ChromaIndex

        return ChromaIndex.from_config(config)
    return HybridIndex.from_config(config)
