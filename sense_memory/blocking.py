"""`SyncMemoryStore`: the blocking twin of `MemoryStore`, for scripts without an event loop.

The store lives in a loop of its own in a background thread; each call hands one coroutine over and
waits. Docstrings and errors are those of `MemoryStore`.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sense_memory.errors import StoreClosed
from sense_memory.store import MemoryStore, configured


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType

    from sense_memory.models import JournalEntry, Memory
    from sense_memory.relay.report import SyncReport
    from sense_memory.status import Status

_T = TypeVar("_T")


class SyncMemoryStore:
    """A memory store for code that does not await. Use it as `with SyncMemoryStore(...) as store:`.

    Args:
        signer: as `MemoryStore`.
        relays: as `MemoryStore`.
        options: as `MemoryStore`.
    """

    def __init__(self, signer: Any, relays: Iterable[str] = (), **options: Any) -> None:
        self._store = MemoryStore(signer, relays, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> SyncMemoryStore:
        """As `MemoryStore.from_settings`."""
        signer, options = configured(agent, options)
        return cls(signer, **options)

    def __enter__(self) -> Self:
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
        self.close()

    def close(self) -> None:
        """As `MemoryStore.close`; a second call does nothing."""
        if self._loop is not None:
            try:
                self._wait(self._store.close())
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
        self, pairs: Iterable[tuple[str, str]], *, progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """As `MemoryStore.remember_many`; `progress` is called in the store's thread."""
        return self._wait(self._store.remember_many(pairs, progress=progress))

    def recall(self, key: str) -> Memory | None:
        """As `MemoryStore.recall`."""
        return self._wait(self._store.recall(key))

    def recall_all(self) -> list[Memory]:
        """As `MemoryStore.recall_all`."""
        return self._wait(self._store.recall_all())

    def forget(self, key: str) -> str:
        """As `MemoryStore.forget`."""
        return self._wait(self._store.forget(key))

    def journal(self, content: str) -> str:
        """As `MemoryStore.journal`."""
        return self._wait(self._store.journal(content))

    def recent(self, limit: int = 20) -> list[JournalEntry]:
        """As `MemoryStore.recent`."""
        return self._wait(self._store.recent(limit))

    def sync(self, *, full: bool = False) -> SyncReport:
        """As `MemoryStore.sync`."""
        return self._wait(self._store.sync(full=full))

    def flush(self) -> SyncReport:
        """As `MemoryStore.flush`."""
        return self._wait(self._store.flush())

    def status(self) -> Status:
        """As `MemoryStore.status`."""
        return self._wait(self._called(self._store.status))

    def holders(self, event_id: str) -> dict[str, str]:
        """As `MemoryStore.holders`."""
        return self._wait(self._called(self._store.holders, event_id))

    def integrity(self) -> list[str]:
        """As `MemoryStore.integrity`."""
        return self._wait(self._called(self._store.integrity))

    async def _called(self, function: Callable[..., _T], *values: Any) -> _T:
        """A call that does not wait, made in the store's own thread."""
        return function(*values)

    def _wait(self, call: Coroutine[Any, Any, _T]) -> _T:
        if self._loop is None:
            call.close()
            raise StoreClosed
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
