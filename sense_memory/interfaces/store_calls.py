"""Coroutines on a store, called from wherever a framework happens to be: its event loop, another one, or a thread.

A `MemoryStore` lives in one event loop. Frameworks call tools and stores from worker threads and from loops of their
own, and expect an answer there.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from sense_memory.errors import InvalidInput, StoreClosed
from sense_memory.store import MemoryStore
from sense_memory.sync_store import SyncMemoryStore


if TYPE_CHECKING:
    from collections.abc import Coroutine
    from concurrent.futures import Future

_T = TypeVar("_T")


class StoreCalls:
    """Runs coroutines in the event loop of a store, and gives their results to the caller.

    Args:
        store: an open store. A `MemoryStore` is taken in the event loop in which it was opened.

    Attributes:
        store: its `MemoryStore`, which the coroutines use.

    Raises:
        InvalidInput: not a store, or no event loop runs here.
    """

    def __init__(self, store: MemoryStore | SyncMemoryStore) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        if isinstance(store, SyncMemoryStore):
            self.store, self._thread = store.inner
            return
        if not isinstance(store, MemoryStore):
            raise InvalidInput("give an open MemoryStore or SyncMemoryStore")
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidInput(
                "no event loop runs here; make this inside `async with MemoryStore(…) as store:`, or use a SyncMemoryStore"
            ) from None
        self.store = store

    def wait(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a coroutine, in a thread.

        Raises:
            asyncio.InvalidStateError: this is the thread of the store's event loop, which would wait for itself.
            StoreClosed: the store is not open.
        """
        if self._loop is None:
            return self._thread.wait(call)
        if _running_loop() is self._loop:
            call.close()
            raise asyncio.InvalidStateError(
                "await the asynchronous method instead: a blocking call would stop the event loop of the store"
            )
        future = self._begun(call)
        try:
            return future.result()
        except CancelledError:  # the loop of the store ended meanwhile
            raise StoreClosed from None
        except BaseException:  # Ctrl-C here, or what the call raised
            future.cancel()
            raise

    async def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Wait for a coroutine, in any event loop. Errors as `wait`."""
        if self._loop is None:
            return await asyncio.to_thread(self._thread.wait, call)
        if _running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(self._begun(call))

    def _begun(self, call: Coroutine[Any, Any, _T]) -> Future[_T]:
        if self._loop is None or not self._loop.is_running():
            call.close()
            raise StoreClosed
        return asyncio.run_coroutine_threadsafe(call, self._loop)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
