"""The seam to `palace.contradiction`: what a new memory contradicts, facet by facet, as facets are asked for.

Reading a memory for its claims costs far more than keeping it, so only facets that are written to are read,
and only once: an access or a link changes no claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import MAX_SUSPICIONS_COUNT
from sense_memory.palace.contradiction import Claims


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.catalog import Catalog
    from sense_memory.palace.contradiction import Verdict
    from sense_memory.persona.nearness import Nearness


class Contradictions:
    """Follows a palace.

    Args:
        catalog: its memories.
        nearness: what they mean; by default only their words count.
    """

    def __init__(self, catalog: Catalog, nearness: Nearness | None = None) -> None:
        self._catalog, self._nearness = catalog, nearness
        self._facets: dict[tuple[str, str], Claims] = {}
        self._read: dict[str, PersonaMemory] = {}  # by path, as read for their claims
        self._suspicions: dict[tuple[str, str], Verdict] = {}

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""
        if self._nearness is not None:
            self._nearness.put(memory)
        claims = self._facets.get((memory.domain, memory.facet))
        if claims is not None and not _says_the_same(self._read.get(memory.path), memory):
            claims.put(memory)
            self._read[memory.path] = memory

    def drop(self, path: str) -> None:
        """A memory is gone."""
        if self._nearness is not None:
            self._nearness.drop(path)
        known = self._read.pop(path, None)
        if known is not None:
            self._facets[known.domain, known.facet].drop(path)

    async def look(self, memory: PersonaMemory) -> list[str]:
        """The memories that mean nearly what a new one means, for `check`; none where there is no embedder."""
        facet = memory.domain, memory.facet
        claims = self._claims(memory)
        if self._nearness is None or len(claims) <= (memory.path in claims):
            return []  # nothing to compare it with
        return await self._nearness.look(memory, lambda: self._catalog.of(*facet), claims)

    def check(self, memory: PersonaMemory, near: Sequence[str] = ()) -> list[Verdict]:
        """What a memory contradicts among those of its facet, surest first.

        Args:
            memory: the new one.
            near: what `look` gave for it.
        """
        alike = None if self._nearness is None or not near else self._nearness.phrases.alike
        return self._claims(memory).check(memory, near, alike)

    async def written(self, path: str) -> None:
        """A memory for which `look` was asked is in the ledger now."""
        if self._nearness is not None:
            await self._nearness.keep(path)

    def _claims(self, memory: PersonaMemory) -> Claims:
        facet = memory.domain, memory.facet
        if facet not in self._facets:
            self._facets[facet] = Claims()
            for other in self._catalog.of(*facet):
                self.put(other)
        return self._facets[facet]

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
