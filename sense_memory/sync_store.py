"""`SyncMemoryStore`: the blocking twin of `MemoryStore`, for scripts without an event loop.

The store lives in a loop of its own in a background thread; each call hands one coroutine over and
waits. Docstrings and errors are those of `MemoryStore`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from sense_memory import arguments
from sense_memory.errors import InvalidInput, StoreClosed, StoreForked, warn_of_limit
from sense_memory.store import MemoryStore, configured


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from concurrent.futures import Future
    from pathlib import Path
    from types import TracebackType
    from typing import BinaryIO

    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories import watch as watching
    from sense_memory.memories.embedding_jobs import EmbedReport, Gaps
    from sense_memory.memories.history import Version
    from sense_memory.memories.persona import reviews as schedule
    from sense_memory.memories.persona.reviews import Pruned
    from sense_memory.memories.portable import ImportReport
    from sense_memory.memories.status import Status
    from sense_memory.models import Change, Draft, IntrospectionReport, JournalEntry, Memory, PersonaMemory
    from sense_memory.palace.search import PersonaHit
    from sense_memory.relay.sync.holdings import Holding
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.search.hits import Hit


# ── Blocking_persona ────────────────────────────────────────────────────────────────────
# The persona half of `SyncMemoryStore`. Docstrings and errors are those of `MemoryStore`.

_P = TypeVar("_P")
_Item = TypeVar("_Item")


class Introspections:
    """An iterator of reports that waits for each; ends with the store.

    Args:
        wait: runs a coroutine in the store's thread.
        reports: those of the store inside.
    """

    def __init__(
        self, wait: Callable[[Coroutine[Any, Any, Any]], Any], reports: schedule.IntrospectionSchedule
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
    def _wait(self, call: Coroutine[Any, Any, _P]) -> _P: ...

    @abstractmethod
    def _counted(
        self,
        call: Callable[[Callable[[int], None]], Coroutine[Any, Any, _P]],
        progress: Callable[[int], None] | None,
    ) -> _P: ...

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


_T = TypeVar("_T")
_END_SECONDS: Final = 1.0  # that calls of other threads have to notice that the store is closed


class Watch:
    """An iterator of changes that waits for each; ends with the store, or with `close` in another thread.

    Args:
        wait: runs a coroutine in the store's thread.
        watch: the watch of the store inside.
    """

    def __init__(self, wait: Callable[[Coroutine[Any, Any, Any]], Any], watch: watching.Watch) -> None:
        self._wait, self._watch = wait, watch

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        try:
            change: Change | None = self._wait(self._watch.next())
        except StoreClosed:
            raise StopIteration from None
        if change is None:
            raise StopIteration
        return change

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End this watch; others go on."""
        with suppress(StoreClosed):
            self._wait(self._watch.aclose())


class SyncMemoryStore(BlockingPersona):
    """A memory store for code that does not await. Use it as `with SyncMemoryStore(...) as store:`.

    Args:
        signer: as `MemoryStore`.
        relays: as `MemoryStore`.
        options: as `MemoryStore`.
    """

    def __init__(self, signer: Any, relays: Iterable[str] = (), **options: Any) -> None:
        self._store = MemoryStore(signer, relays, **options)
        self._limits: list[str] = []  # what there is to warn of, in the caller's thread
        self._store._tell = self._limits.append  # noqa: SLF001 - its twin
        self._process = os.getpid()
        self._turn = threading.Lock()  # a call is handed to the loop before its end, or not at all
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> SyncMemoryStore:
        """As `MemoryStore.from_settings`."""
        signer, options = configured(agent, options)
        return cls(signer, **options)

    def __enter__(self) -> Self:
        if self._loop is not None:
            raise InvalidInput(
                "this store is open already; nothing was changed. Close it first, or open another."
            )
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sense-memory", daemon=True)
        self._thread.start()
        try:
            self._wait(self._store.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(lambda: self._store.__aexit__(kind, error, trace))

    def close(self) -> None:
        """As `MemoryStore.close`; a second call does nothing."""
        self._close(self._store.close)

    def _close(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if os.getpid() != self._process:
            self._store._abandon()  # noqa: SLF001 - its twin
            self._loop = self._thread = None
        if self._loop is not None:
            self._refuse_own_thread()
            try:
                with suppress(StoreClosed):  # by another thread, in between
                    self._wait(closing())
            finally:
                self._stop()

    @property
    def public_key(self) -> str:
        """Whose memory this is, 64 hex digits."""
        return self._store.public_key

    @property
    def npub(self) -> str:
        """Whose memory this is, as NIP-19 text."""
        return self._store.npub

    @property
    def relays(self) -> tuple[str, ...]:
        """The configured relays."""
        return self._store.relays

    def __repr__(self) -> str:
        return f"Sync{self._store!r}"

    def remember(self, key: str, value: str) -> str:
        """As `MemoryStore.remember`."""
        return self._wait(self._store.remember(key, value))

    def remember_many(
        self,
        pairs: Mapping[str, str] | Iterable[tuple[str, str]],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """As `MemoryStore.remember_many`; `pairs` and `progress` run in the caller's thread."""
        given = pairs if isinstance(pairs, Mapping) else collected(pairs)
        return self._counted(lambda told: self._store.remember_many(given, progress=told), progress)

    def recall(self, key: str) -> Memory | None:
        """As `MemoryStore.recall`."""
        return self._wait(self._store.recall(key))

    def recall_many(self, keys: Iterable[str]) -> dict[str, Memory]:
        """As `MemoryStore.recall_many`."""
        return self._wait(self._store.recall_many(collected(keys)))

    def recall_all(self) -> list[Memory]:
        """As `MemoryStore.recall_all`."""
        return self._wait(self._store.recall_all())

    def forget(self, key: str) -> str:
        """As `MemoryStore.forget`."""
        return self._wait(self._store.forget(key))

    def forget_many(self, keys: Iterable[str], *, progress: Callable[[int], None] | None = None) -> list[str]:
        """As `MemoryStore.forget_many`; `keys` and `progress` run in the caller's thread."""
        given = collected(keys)
        return self._counted(lambda told: self._store.forget_many(given, progress=told), progress)

    def refresh(self, key: str) -> str | None:
        """As `MemoryStore.refresh`."""
        return self._wait(self._store.refresh(key))

    def drafts(self) -> list[Draft]:
        """As `MemoryStore.drafts`."""
        return self._wait(self._store.drafts())

    def publish_draft(self, number: int) -> str:
        """As `MemoryStore.publish_draft`."""
        return self._wait(self._store.publish_draft(number))

    def discard_draft(self, number: int) -> None:
        """As `MemoryStore.discard_draft`."""
        self._wait(self._called(self._store.discard_draft, number))

    def history(self, key: str) -> list[Version]:
        """As `MemoryStore.history`."""
        return self._wait(self._store.history(key))

    def as_of(self, time: float) -> list[Memory]:
        """As `MemoryStore.as_of`."""
        return self._wait(self._store.as_of(time))

    def undo(self, key: str) -> Memory | PersonaMemory | None:
        """As `MemoryStore.undo`."""
        return self._wait(self._store.undo(key))

    def journal(self, content: str) -> str:
        """As `MemoryStore.journal`."""
        return self._wait(self._store.journal(content))

    def recent(self, limit: int = 20) -> list[JournalEntry]:
        """As `MemoryStore.recent`."""
        return self._wait(self._store.recent(limit))

    def forget_entry(self, event_id: str) -> str:
        """As `MemoryStore.forget_entry`."""
        return self._wait(self._store.forget_entry(event_id))

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        within: Iterable[str] = ("palace", "journal", "flat"),
        since: float | None = None,
        source: str | None = None,
        relevance_floor: float = 0.9,
    ) -> list[Hit]:
        """As `MemoryStore.search`."""
        options: dict[str, Any] = {"within": within, "since": since, "source": source}
        return self._wait(self._store.search(query, limit, relevance_floor=relevance_floor, **options))

    def index(self, *, progress: Callable[[int, int], None] | None = None) -> int:
        """As `MemoryStore.index`; `progress` is called in the store's thread."""
        return self._wait(self._store.index(progress=progress))

    def embed(
        self,
        *,
        share: bool | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedReport:
        """As `MemoryStore.embed`; `progress` is called in the store's thread."""
        return self._wait(self._store.embed(share=share, dry_run=dry_run, progress=progress))

    def gaps(self) -> Gaps:
        """As `MemoryStore.gaps`."""
        return self._store.gaps()

    def sync(self, *, full: bool = False, retry_refused: bool = False) -> SyncReport:
        """As `MemoryStore.sync`."""
        return self._wait(self._store.sync(full=full, retry_refused=retry_refused))

    def flush(self) -> SyncReport:
        """As `MemoryStore.flush`."""
        return self._wait(self._store.flush())

    def holdings(self) -> list[Holding]:
        """As `MemoryStore.holdings`."""
        return self._wait(self._store.holdings())

    def watch(self, *, on_relay: Callable[[str, str], None] | None = None) -> Watch:
        """As `MemoryStore.watch`: `for change in store.watch(): …`; `on_relay` is called in the store's thread."""
        return Watch(self._wait, self._wait(self._called(self._store.watch, on_relay=on_relay)))

    def drop_relay(self, url: str) -> int:
        """As `MemoryStore.drop_relay`."""
        return self._wait(self._called(self._store.drop_relay, url))

    def export(
        self,
        path: str | Path | BinaryIO,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """As `MemoryStore.export`; `progress` is called in the store's thread."""
        return self._wait(self._called(self._store.export, path, overwrite=overwrite, progress=progress))

    def import_(
        self, path: str | Path | BinaryIO, *, progress: Callable[[int], None] | None = None
    ) -> ImportReport:
        """As `MemoryStore.import_`; `progress` is called in the store's thread."""
        return self._wait(self._store.import_(path, progress=progress))

    def status(self) -> Status:
        """As `MemoryStore.status`."""
        return self._wait(self._called(self._store.status))

    def is_complete(self) -> bool:
        """As `MemoryStore.is_complete`."""
        return self._wait(self._called(self._store.is_complete))

    def holders(self, event_id: str) -> dict[str, str]:
        """As `MemoryStore.holders`."""
        return self._wait(self._called(self._store.holders, event_id))

    def rescue(self) -> RescueReport:
        """As `MemoryStore.rescue`: for a store that is not open."""
        return asyncio.run(self._store.rescue())

    def integrity(self) -> list[str]:
        """As `MemoryStore.integrity`."""
        return self._wait(self._called(self._store.integrity))

    async def _called(self, function: Callable[..., _T], *values: Any, **options: Any) -> _T:
        """A call that does not wait, made in the store's own thread."""
        return function(*values, **options)

    def _counted(
        self,
        call: Callable[[Callable[[int], None]], Coroutine[Any, Any, _T]],
        progress: Callable[[int], None] | None,
    ) -> _T:
        """As `_wait`, for a call that is given a callback: what it is told, `progress` is told in the caller's thread."""
        arguments.callback(progress, "progress")
        counts: SimpleQueue[int | None] = SimpleQueue()

        def meanwhile(future: Future[Any]) -> None:
            future.add_done_callback(lambda _: counts.put(None))
            while (count := counts.get()) is not None:
                if progress is not None:
                    progress(count)

        return self._wait(call(counts.put), meanwhile)

    def _wait(
        self, call: Coroutine[Any, Any, _T], meanwhile: Callable[[Future[Any]], None] | None = None
    ) -> _T:
        try:
            future = self._begun(call)
        except BaseException:
            call.close()
            raise
        try:
            if meanwhile is not None:
                meanwhile(future)
            return future.result()
        except CancelledError:  # another thread closed the store meanwhile
            raise StoreClosed from None
        except BaseException:  # Ctrl-C, or what a callback raised
            future.cancel()
            raise
        finally:
            while self._limits:
                warn_of_limit(self._limits.pop(0))

    def _begun(self, call: Coroutine[Any, Any, _T]) -> Future[_T]:
        if self._loop is not None and os.getpid() != self._process:
            raise StoreForked
        self._refuse_own_thread()
        with self._turn:
            if self._loop is None:
                raise StoreClosed
            return asyncio.run_coroutine_threadsafe(call, self._loop)

    def _refuse_own_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise InvalidInput("a callback of this store cannot call the store: it would wait for itself")

    def _stop(self) -> None:
        with self._turn:
            loop, self._loop = self._loop, None
            thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_ended(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _ended() -> None:
    """What other threads still wait for has ended: no call outlives its loop."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        _, late = await asyncio.wait(tasks, timeout=_END_SECONDS)
        for task in late:
            task.cancel()
