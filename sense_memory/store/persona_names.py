"""The specification's names of the calls on palace memories, which it calls persona memories.

Each is one call of `store.palace`, whose docstrings say the rest; a domain, a facet and a key are a path there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from sense_memory.arguments import ContradictionMode, MemoryFields, StateName
    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.memories.persona.reviews import IntrospectionSchedule, Pruned
    from sense_memory.models import IntrospectionReport, PersonaMemory
    from sense_memory.palace.compression import Compressed
    from sense_memory.palace.extraction import Extractor, Proposal
    from sense_memory.palace.prompt_style import StyleName
    from sense_memory.palace.search import PersonaHit
    from sense_memory.search.hits import Hits
    from sense_memory.store.palace import StorePalace


class PersonaNames:
    """`persona_…`: the specification's names, of `store.palace`."""

    _palace: StorePalace

    @property
    def palace(self) -> StorePalace:
        """The palace: the memories that fade, each under a path `domain/facet/key`."""
        return self._palace

    async def persona_remember(  # noqa: PLR0917 - the spec's signature
        self,
        domain: str,
        facet: str,
        key: str,
        value: str,
        themes: Sequence[str] = (),
        connections: Sequence[str] = (),
        *,
        halflife_days: float | None = None,
        source: str | None = None,
        session: str | None = None,
        observed_at: datetime | float | None = None,
        derived_from: Sequence[str] = (),
        confidence: float | None = None,
        contradictions: ContradictionMode | None = None,
        created_at: datetime | float | None = None,
    ) -> Remembered:
        """As `palace.remember`, for the path `domain/facet/key`."""
        path = address.persona_path(domain, facet, key).removeprefix(address.PERSONA)
        return await self.palace.remember(
            path,
            value,
            themes,
            connections,
            halflife_days=halflife_days,
            source=source,
            session=session,
            observed_at=observed_at,
            derived_from=derived_from,
            confidence=confidence,
            contradictions=contradictions,
            created_at=created_at,
        )

    async def persona_remember_many(
        self,
        memories: Iterable[MemoryFields],
        *,
        contradictions: ContradictionMode | None = None,
        created_at: datetime | float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[Remembered]:
        """As `palace.remember_many`."""
        return await self.palace.remember_many(
            memories, contradictions=contradictions, created_at=created_at, progress=progress
        )

    async def persona_extract(self, text: str, *, extractor: Extractor | None = None) -> list[Proposal]:
        """As `palace.extract`."""
        return await self.palace.extract(text, extractor=extractor)

    async def persona_recall(
        self,
        domain: str | None = None,
        facet: str | None = None,
        key: str | None = None,
        *,
        include_forgotten: bool = False,
        revive: bool = True,
    ) -> list[PersonaMemory]:
        """With a domain, a facet and a key as `palace.recall`, in a list; without a key as `palace.memories`."""
        return await self.palace.memories(
            domain, facet, key, include_forgotten=include_forgotten, revive=revive
        )

    async def persona_forget(self, domain: str, facet: str, key: str) -> str:
        """As `palace.forget`."""
        path = address.persona_path(domain, facet, key).removeprefix(address.PERSONA)
        return await self.palace.forget(path)

    async def persona_forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """As `palace.forget_many`."""
        return await self.palace.forget_many(paths, progress=progress)

    async def persona_connect(self, key1: str, key2: str) -> None:
        """As `palace.connect`."""
        await self.palace.connect(key1, key2)

    async def persona_disconnect(self, key1: str, key2: str) -> None:
        """As `palace.disconnect`."""
        await self.palace.disconnect(key1, key2)

    async def persona_reconcile(self, old_key: str, new_key: str) -> None:
        """As `palace.reconcile`."""
        await self.palace.reconcile(old_key, new_key)

    async def persona_contradict(self, old_key: str, new_key: str) -> None:
        """As `palace.contradict`."""
        await self.palace.contradict(old_key, new_key)

    async def persona_domains(self) -> list[str]:
        """As `palace.domains`."""
        return await self.palace.domains()

    async def persona_facets(self, domain: str) -> list[str]:
        """As `palace.facets`."""
        return await self.palace.facets(domain)

    async def persona_stats(self) -> dict[str, Any]:
        """As `palace.stats`."""
        return await self.palace.stats()

    async def persona_search(
        self,
        query: str,
        limit: int = 10,
        *,
        domain: str | None = None,
        facet: str | None = None,
        state: StateName | None = None,
        theme: str | None = None,
        since: float | None = None,
        source: str | None = None,
        include_forgotten: bool | None = None,
        relevance_floor: float = 0.0,
    ) -> Hits[PersonaHit]:
        """As `palace.search`."""
        return await self.palace.search(
            query,
            limit,
            domain=domain,
            facet=facet,
            state=state,
            theme=theme,
            since=since,
            source=source,
            include_forgotten=include_forgotten,
            relevance_floor=relevance_floor,
        )

    async def persona_compress(
        self,
        domain: str | None = None,
        *,
        question: str | None = None,
        max_tokens: int = 500,
        style: StyleName = "bracketed",
        count: Callable[[str], int] | None = None,
        include_untrusted: bool = False,
    ) -> Compressed:
        """As `palace.compress`."""
        return await self.palace.compress(
            domain,
            question=question,
            max_tokens=max_tokens,
            style=style,
            count=count,
            include_untrusted=include_untrusted,
        )

    async def persona_pin(self, key: str) -> None:
        """As `palace.pin`."""
        await self.palace.pin(key)

    async def persona_unpin(self, key: str) -> None:
        """As `palace.unpin`."""
        await self.palace.unpin(key)

    async def persona_introspect(self, *, dry_run: bool = False) -> IntrospectionReport:
        """As `palace.introspect`."""
        return await self.palace.introspect(dry_run=dry_run)

    def persona_introspections(self, every: float) -> IntrospectionSchedule:
        """As `palace.introspections`."""
        return self.palace.introspections(every)

    async def persona_prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
        """As `palace.prune`."""
        return await self.palace.prune(dry_run=dry_run, without=without)

    async def persona_as_of(
        self, time: datetime | float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """As `palace.as_of`."""
        return await self.palace.as_of(time, domain, facet)
