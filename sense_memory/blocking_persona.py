"""The persona half of `SyncMemoryStore`. Docstrings and errors are those of `MemoryStore`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sense_memory.errors import StoreClosed


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from sense_memory.models import IntrospectionReport, PersonaMemory
    from sense_memory.palace.hits import PersonaHit
    from sense_memory.persona import schedule
    from sense_memory.persona.reviews import Pruned
    from sense_memory.store import MemoryStore

_T = TypeVar("_T")
_Item = TypeVar("_Item")


class Introspections:
    """An iterator of reports that waits for each; ends with the store.

    Args:
        wait: runs a coroutine in the store's thread.
        reports: those of the store inside.
    """

    def __init__(
        self, wait: Callable[[Coroutine[Any, Any, Any]], Any], reports: schedule.Introspections
    ) -> None:
        self._wait, self._reports = wait, reports

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> IntrospectionReport:
        async def following() -> IntrospectionReport | None:
            return await anext(self._reports, None)

        try:
            report: IntrospectionReport | None = self._wait(following())
        except StoreClosed:
            report = None
        if report is None:
            raise StopIteration
        return report


class BlockingPersona(ABC):
    """What a blocking store does with persona memories."""

    _store: MemoryStore

    @abstractmethod
    def _wait(self, call: Coroutine[Any, Any, _T]) -> _T: ...

    @abstractmethod
    def _counted(
        self,
        call: Callable[[Callable[[int], None]], Coroutine[Any, Any, _T]],
        progress: Callable[[int], None] | None,
    ) -> _T: ...

    def persona_remember(  # noqa: PLR0917 - the spec's signature
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
        confidence: float | None = None,
    ) -> str:
        """As `MemoryStore.persona_remember`."""
        options: dict[str, Any] = {"halflife_days": halflife_days, "source": source, "confidence": confidence}
        return self._wait(
            self._store.persona_remember(domain, facet, key, value, themes, connections, **options)
        )

    def persona_recall(
        self,
        domain: str | None = None,
        facet: str | None = None,
        key: str | None = None,
        *,
        include_forgotten: bool = False,
    ) -> list[PersonaMemory]:
        """As `MemoryStore.persona_recall`."""
        return self._wait(self._store.persona_recall(domain, facet, key, include_forgotten=include_forgotten))

    def persona_forget(self, domain: str, facet: str, key: str) -> str:
        """As `MemoryStore.persona_forget`."""
        return self._wait(self._store.persona_forget(domain, facet, key))

    def persona_forget_many(
        self, paths: Iterable[str], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """As `MemoryStore.persona_forget_many`; `paths` and `progress` run in the caller's thread."""
        given = collected(paths)
        return self._counted(lambda told: self._store.persona_forget_many(given, progress=told), progress)

    def persona_connect(self, key1: str, key2: str) -> None:
        """As `MemoryStore.persona_connect`."""
        self._wait(self._store.persona_connect(key1, key2))

    def persona_disconnect(self, key1: str, key2: str) -> None:
        """As `MemoryStore.persona_disconnect`."""
        self._wait(self._store.persona_disconnect(key1, key2))

    def persona_dismiss(self, key1: str, key2: str) -> None:
        """As `MemoryStore.persona_dismiss`."""
        self._wait(self._store.persona_dismiss(key1, key2))

    def persona_contradict(self, old_key: str, new_key: str) -> None:
        """As `MemoryStore.persona_contradict`."""
        self._wait(self._store.persona_contradict(old_key, new_key))

    def persona_domains(self) -> list[str]:
        """As `MemoryStore.persona_domains`."""
        return self._wait(self._store.persona_domains())

    def persona_facets(self, domain: str) -> list[str]:
        """As `MemoryStore.persona_facets`."""
        return self._wait(self._store.persona_facets(domain))

    def persona_stats(self) -> dict[str, Any]:
        """As `MemoryStore.persona_stats`."""
        return self._wait(self._store.persona_stats())

    def persona_as_of(
        self, time: float, domain: str | None = None, facet: str | None = None
    ) -> list[PersonaMemory]:
        """As `MemoryStore.persona_as_of`."""
        return self._wait(self._store.persona_as_of(time, domain, facet))

    def persona_search(
        self, query: str, limit: int = 10, *, relevance_floor: float = 0.0
    ) -> list[PersonaHit]:
        """As `MemoryStore.persona_search`."""
        return self._wait(self._store.persona_search(query, limit, relevance_floor=relevance_floor))

    def persona_compress(self, domain: str | None = None, *, max_tokens: int = 500) -> str:
        """As `MemoryStore.persona_compress`."""
        return self._wait(self._store.persona_compress(domain, max_tokens=max_tokens))

    def persona_introspect(self) -> IntrospectionReport:
        """As `MemoryStore.persona_introspect`."""
        return self._wait(self._store.persona_introspect())

    def persona_introspections(self, every: float) -> Introspections:
        """As `MemoryStore.persona_introspections`: `for report in store.persona_introspections(every): …`."""
        return Introspections(self._wait, self._store.persona_introspections(every))

    def persona_prune(self, *, dry_run: bool = False, without: Iterable[str] = ()) -> Pruned:
        """As `MemoryStore.persona_prune`."""
        return self._wait(self._store.persona_prune(dry_run=dry_run, without=without))


def collected(given: Iterable[_Item]) -> Iterable[_Item]:
    """What an iterator gives, taken in the caller's thread; anything else stays what it is."""
    return list(given) if isinstance(given, Iterator) else given
