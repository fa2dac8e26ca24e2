"""The seam to `palace.contradiction`: what a new memory contradicts, facet by facet, as facets are asked for.

Reading a memory for its claims costs far more than keeping it, so only facets that are written to are read,
and only once: an access or a link changes no claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import MAX_SUSPICIONS_COUNT
from sense_memory.palace.contradiction import Claims


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradiction import Verdict


class Contradictions:
    """Follows a palace.

    Args:
        catalog: its memories.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._facets: dict[tuple[str, str], Claims] = {}
        self._read: dict[str, PersonaMemory] = {}  # by path, as read for their claims
        self._suspicions: dict[tuple[str, str], Verdict] = {}

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        claims = self._facets.get((memory.domain, memory.facet))
        if claims is not None and not _says_the_same(self._read.get(memory.path), memory):
            claims.put(memory)
            self._read[memory.path] = memory

    def drop(self, path: str) -> None:
        """A memory is gone."""
        known = self._read.pop(path, None)
        if known is not None:
            self._facets[known.domain, known.facet].drop(path)

    def check(self, memory: PersonaMemory) -> list[Verdict]:
        """What a memory contradicts among those of its facet, surest first."""
        facet = memory.domain, memory.facet
        if facet not in self._facets:
            self._facets[facet] = Claims()
            for other in self._catalog.of(*facet):
                self.put(other)
        return self._facets[facet].check(memory)

    def suspect(self, verdicts: Iterable[Verdict]) -> None:
        """Keep what is too doubtful to act on, for the next introspection."""
        for verdict in verdicts:
            self._suspicions[verdict.old, verdict.new] = verdict
        while len(self._suspicions) > MAX_SUSPICIONS_COUNT:
            del self._suspicions[next(iter(self._suspicions))]

    def suspicions(self) -> list[Verdict]:
        """What was suspected since this store was opened, surest first."""
        return sorted(self._suspicions.values(), key=lambda verdict: (-verdict.confidence, verdict.old))


def _says_the_same(known: PersonaMemory | None, memory: PersonaMemory) -> bool:
    return known is not None and all(
        getattr(known, name) == getattr(memory, name)
        for name in ("value", "themes", "contradicts", "superseded_by", "conflict_of", "dismissed")
    )
