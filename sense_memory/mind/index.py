"""`MemoryIndex`: a lens over the log that ranks entries by meaning, and the one that works without a package or network.

An index is derived: it can be wiped and built again from the log, and indexing an entry twice changes nothing. It never
decides which entries an agent may see, because a view filters first, then indexes, then searches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.mind.log import LogEntry
    from sense_memory.search.embedders.embedder import Embedder


@runtime_checkable
class MemoryIndex(Protocol):
    """An index over entries of the log (ADR-0018 of the agent-ledger memory)."""

    def index(self, events: tuple[LogEntry, ...]) -> None:
        """Index entries; an entry that is indexed already (by its id) changes nothing."""

    def search(self, query: str, k: int) -> list[LogEntry]:
        """At most `k` indexed entries, the most relevant first."""


class HybridIndex:
    """The index in this process: the search of sense-memory, by words, and by meaning where there is an embedder.

    Args:
        embedder: to rank by meaning too; see `open_embedder`.
    """

    def __init__(self, embedder: Embedder | None = None) -> None:
        self._index = SearchIndex(embedder=embedder)
        self._entries: dict[str, LogEntry] = {}

    def index(self, events: Sequence[LogEntry]) -> None:
        """Index entries; an entry that is indexed already (by its id) changes nothing."""
        new = {entry.id: entry for entry in events if entry.id not in self._entries}
        self._entries |= new
        self._index.put_many(
            SearchItem(entry.id, entry.text, timestamp=entry.at, speaker=entry.actor)
            for entry in new.values()
        )

    def search(self, query: str, k: int) -> list[LogEntry]:
        """At most `k` indexed entries, the most relevant first."""
        return [self._entries[hit.id] for hit in self._index.search(query, k)] if k > 0 else []
