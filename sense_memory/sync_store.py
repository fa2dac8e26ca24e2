"""`SyncMemoryStore`: the blocking twin of `MemoryStore`, for code without an event loop.

The store lives in an event loop of its own in a background thread, see `loop_thread`. Its calls are those of
`MemoryStore`, taken from there; sync_store.pyi, which type checkers and editors read, is generated (`make sync-store`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Self, cast

from sense_memory.loop_thread import BlockingView, LoopThread
from sense_memory.store import MemoryStore
from sense_memory.store.configuration import configured


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.embedding_jobs import Gaps


class SyncMemoryStore:
    """An agent's memory for code without an event loop: `with SyncMemoryStore(...) as store:`.

    Arguments, calls and errors are those of `MemoryStore`; a call waits until it is done, and `async for` is `for`. Any
    thread may call; processes open their own. An iterator that is an argument is read in the caller's thread, and
    `progress` of a call that waits is called there; other callbacks are called in the store's thread, and cannot call
    the store.
    """

    def __init__(self, *values: Any, **options: Any) -> None:
        self._store = MemoryStore(*values, **options)
        self._loop = LoopThread()
        self._store._tell = self._loop.warnings.append  # noqa: SLF001 - its twin
        self._view = BlockingView(self._loop, self._store)

    @classmethod
    def from_settings(cls, *, agent: str | None = None, **options: Any) -> SyncMemoryStore:
        """A store from the environment, the `.env` file and the config file; as `MemoryStore.from_settings`."""
        signer, options = configured(agent, options)
        return cls(signer, **options)

    def __enter__(self) -> Self:
        self._loop.begin(self._store.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its twin's private name: nobody else is in a fork what it is there.
        self._loop.end(lambda: self._store.__aexit__(kind, error, trace), self._store._abandon)  # noqa: SLF001

    def close(self) -> None:
        """Close the store, as `MemoryStore.close`, and end its thread."""
        self._loop.end(self._store.close, self._store._abandon)  # noqa: SLF001 - as above

    def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one; as `MemoryStore.rescue`."""
        return asyncio.run(self._store.rescue())  # the store is closed, and so is its loop

    def gaps(self) -> Gaps:
        """How many memories the last search knew by words only; as `MemoryStore.gaps`."""
        return self._store.gaps()  # also of a closed store

    def __repr__(self) -> str:
        return f"Sync{self._store!r}"

    @property
    def mind(self) -> BlockingView:
        """The agent's mind, whose calls wait as well."""
        return BlockingView(self._loop, self._loop.call(lambda: self._store.mind))

    @property
    def inner(self) -> tuple[MemoryStore, LoopThread]:
        """The store inside, and the thread with its event loop: for adapters that await calls of the store there."""
        return self._store, self._loop


def _blocking(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that calls the one of the same name through the view."""

    @functools.wraps(function)
    def blocking(self: SyncMemoryStore, *values: Any, **options: Any) -> Any:
        return getattr(self._view, name)(*values, **options)

    return blocking


def _viewed(name: str, found: property) -> property:
    """A property that shows the one of the same name through the view."""
    return property(lambda self: getattr(self._view, name), doc=found.__doc__)


def _take_calls() -> None:
    """Give the twin every call and property of `MemoryStore` that it does not define itself."""
    for name, member in inspect.getmembers_static(MemoryStore):
        if name.startswith("_") or name in vars(SyncMemoryStore):
            continue
        if isinstance(member, property):
            setattr(SyncMemoryStore, name, _viewed(name, member))
        elif inspect.isfunction(member):
            setattr(SyncMemoryStore, name, _blocking(name, cast("Callable[..., Any]", member)))


_take_calls()
