"""What a memory index does, with scores and without, and the scores of one that only ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.mind.log import LogEntry


@runtime_checkable
class MemoryIndex(Protocol):
    """An index over entries of the log (ADR-0018 of the agent-ledger memory)."""

    def index(self, events: tuple[LogEntry, ...]) -> None:
        """Index entries; an entry whose id is already indexed changes nothing."""

    def search(self, query: str, k: int) -> list[LogEntry]:
        """At most `k` indexed entries, most relevant first."""


@runtime_checkable
class ScoredMemoryIndex(MemoryIndex, Protocol):
    """An index that also says how relevant each entry is. `SalienceMemory` uses the scores, and without them the ranks."""

    def scored(self, query: str, k: int) -> list[tuple[LogEntry, float]]:
        """As `search`, each entry with its score: 1 for what says the same as the query, 0 for what has nothing of it."""


def by_rank(entries: Iterable[LogEntry]) -> list[tuple[LogEntry, float]]:
    """Entries with scores by their rank alone: 1, 1/2, 1/3, … So the first one stands out, however many there are."""
    return [(entry, 1 / (1 + rank)) for rank, entry in enumerate(entries)]
