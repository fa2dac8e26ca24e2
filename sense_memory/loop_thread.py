"""An event loop in a thread of its own, for code that does not await: each call hands one coroutine over and waits.

No call outlives its loop: a call is handed over before the loop ends or is refused, and the loop ends only after every
accepted call has. Ctrl-C in the caller's thread cancels the coroutine that the thread waits for.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, cast

from sense_memory import arguments
from sense_memory.errors import InvalidInput, StoreClosed, StoreForked, warn_of_limit


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from types import TracebackType


_T = TypeVar("_T")
_P = ParamSpec("_P")
_END_SECONDS: Final = 1.0  # how long calls of other threads have to notice that the store is closed


class LoopThread:
    """The loop, from `begin` to `end`.

    Attributes:
        warnings: sentences to warn with; the next call that returns warns, in its own thread.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._process = os.getpid()
        self._turn = threading.Lock()  # a call is handed to the loop before its end, or not at all
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self, opening: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Start the thread, and wait for the coroutine that opens the store.

        Raises:
            InvalidInput: the loop runs already.
        """
        with self._turn:  # of two threads that open, one gets the error
            if self._loop is not None:
                raise InvalidInput(
                    "this store is open already; nothing was changed. Close it first, or open another."
                )
            self._process = os.getpid()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="sense-memory", daemon=True)
            self._thread.start()
        try:
            self.wait(opening())
        except BaseException:
            self._stop()
            raise

    def end(self, closing: Callable[[], Coroutine[Any, Any, None]], abandon: Callable[[], None]) -> None:
        """Wait for the coroutine that closes the store, and end the thread. A second call does nothing.

        Args:
            closing: closes the store.
            abandon: called instead in a fork, where the thread does not exist.
        """
        if os.getpid() != self._process:
            abandon()
            self._loop = self._thread = None
            self._turn = threading.Lock()  # a thread of the parent process may have held it at the fork
        if self._loop is not None:
            self._refuse_own_thread()
            try:
                with suppress(StoreClosed):  # by another thread, in between
                    self.wait(closing())
            finally:
                self._stop()

    def wait(
        self, call: Coroutine[Any, Any, _T], meanwhile: Callable[[Future[Any]], None] | None = None
    ) -> _T:
        """Run a coroutine in the loop and return its result.

        Args:
            call: the coroutine.
            meanwhile: called in this thread while the coroutine runs.

        Raises:
            StoreClosed: the loop does not run, or another thread ended it meanwhile.
            StoreForked: this process is a fork of the one that started the loop.
            InvalidInput: this is the loop's own thread.
        """
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
            while self.warnings:
                warn_of_limit(self.warnings.pop(0))

    def call(self, function: Callable[_P, _T], /, *values: _P.args, **options: _P.kwargs) -> _T:
        """Call a plain function in the loop's thread. Errors as `wait`."""

        async def called() -> _T:
            return function(*values, **options)

        return self.wait(called())

    def wait_counting(
        self,
        call: Callable[[Callable[..., None]], Coroutine[Any, Any, _T]],
        progress: Callable[..., None],
    ) -> _T:
        """As `wait`, for a call that is given a callback: `progress` gets the same numbers in the caller's thread."""
        arguments.callback(progress, "progress")
        counts: SimpleQueue[tuple[int, ...] | None] = SimpleQueue()

        def meanwhile(future: Future[Any]) -> None:
            future.add_done_callback(lambda _: counts.put(None))
            while (count := counts.get()) is not None:
                progress(*count)

        return self.wait(call(lambda *count: counts.put(count)), meanwhile)

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
            try:
                asyncio.run_coroutine_threadsafe(_ended(), loop).result()
            finally:  # Ctrl-C while waiting leaves no idle thread behind
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                loop.close()


async def _ended() -> None:
    """Wait until the calls of other threads have ended; cancel those that take too long."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        _, late = await asyncio.wait(tasks, timeout=_END_SECONDS)
        for task in late:
            task.cancel()


class BlockingIterator(Generic[_T]):
    """An iterator that waits for each item; it ends with the store, or with `close` in another thread.

    Args:
        loop: the store's thread.
        following: the next item, or None at the end.
        closing: ends the iterator inside; None where nothing has to be ended.
    """

    def __init__(
        self,
        loop: LoopThread,
        following: Callable[[], Coroutine[Any, Any, _T | None]],
        closing: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._loop, self._following, self._closing = loop, following, closing

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        try:
            item = self._loop.wait(self._following())
        except StoreClosed:
            raise StopIteration from None
        if item is None:
            raise StopIteration
        return item

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End this iterator; others go on."""
        if self._closing is not None:
            with suppress(StoreClosed):
                self._loop.wait(self._closing())


class BlockingContext(Generic[_T]):
    """What an asynchronous context manager does around a block, for `with`: its beginning and its end wait.

    Args:
        loop: the store's thread.
        inside: the asynchronous context manager.
        seen: makes of what it gives what the block gets.
    """

    def __init__(
        self, loop: LoopThread, inside: AbstractAsyncContextManager[Any], seen: Callable[[Any], _T]
    ) -> None:
        self._loop, self._inside, self._seen = loop, inside, seen

    def __enter__(self) -> _T:
        async def begun() -> Any:
            return await self._inside.__aenter__()

        return self._seen(self._loop.wait(begun()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        async def ended() -> bool | None:
            return await self._inside.__aexit__(kind, error, trace)

        with suppress(StoreClosed):  # what the block used was closed with the store
            return self._loop.wait(ended())
        return None


class BlockingView:
    """An object whose coroutine methods wait: they run in the store's thread, and so do its other methods.

    Attributes are those of the object; a view can be called if the object can, and is a tuple if the object is one. What a
    method or an attribute gives is viewed in the same way if it has coroutine methods itself, alone or in a list, and is
    a `BlockingIterator` or a `BlockingContext` if it is an asynchronous one; everything else is given as it is. A view may be an argument of
    another's method. An argument that is an iterator is read in the caller's thread, and `progress` of a call that waits
    is called there.

    Args:
        loop: the store's thread.
        viewed: the object.
    """

    def __init__(self, loop: LoopThread, viewed: object) -> None:
        object.__setattr__(self, "_loop", loop)
        object.__setattr__(self, "_viewed", viewed)

    def __repr__(self) -> str:
        return f"BlockingView({self._viewed!r})"

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._viewed) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._seen(getattr(self._viewed, name))

    def __setattr__(self, name: str, value: object) -> None:
        # Only a property: a method in the object's own dictionary would hide that of the class.
        is_settable = isinstance(inspect.getattr_static(self._viewed, name, None), property)
        if name.startswith("_") or not is_settable:
            raise AttributeError(f"{type(self._viewed).__name__} has no attribute {name!r} to set")
        setattr(self._viewed, name, _unviewed(value))

    def _seen(self, found: Any) -> Any:
        kind: Any = type(found)
        if kind is list:
            return [self._seen(item) for item in found]
        if inspect.isroutine(found):
            return self._blocking(found)
        if hasattr(kind, "__anext__"):
            return BlockingIterator(self._loop, lambda: _next_of(found), getattr(found, "aclose", None))
        if not _has_coroutines(kind):
            is_context = issubclass(kind, AbstractAsyncContextManager)
            return BlockingContext(self._loop, found, self._seen) if is_context else found
        view = _TupleView if issubclass(kind, tuple) else _CallableView if callable(found) else BlockingView
        return view(self._loop, found)

    def _blocking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that waits in the caller's thread while the one inside runs in the store's."""
        # A function that does not wait would go on after an error in `progress`.
        waits = inspect.iscoroutinefunction(function)

        @functools.wraps(function)
        def blocking(*values: Any, **options: Any) -> Any:
            given = [_unviewed(collected(value)) for value in values]
            named = {name: _unviewed(collected(value)) for name, value in options.items()}

            async def called(**also: Any) -> Any:
                result = function(*given, **named | also)
                return await result if inspect.isawaitable(result) else result

            if waits and callable(progress := named.get("progress")):
                return self._seen(self._loop.wait_counting(lambda count: called(progress=count), progress))
            return self._seen(self._loop.wait(called()))

        return blocking


class _CallableView(BlockingView):
    """A view of an object that can be called."""

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._viewed.__call__)

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self._blocking(self._viewed.__call__)(*values, **options)


class _TupleView(BlockingView, tuple[Any, ...]):  # noqa: SLOT001 - it has attributes
    """A view of a tuple: a tuple itself, for whatever takes one."""

    def __new__(cls, loop: LoopThread, viewed: tuple[Any, ...]) -> Self:  # noqa: ARG004 - as `__init__`
        return super().__new__(cls, viewed)

    def __repr__(self) -> str:
        return tuple.__repr__(self)

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[tuple[Any, ...]]]:
        return tuple, (tuple(self),)  # a copy is a plain tuple


@functools.cache
def _has_coroutines(kind: Any) -> bool:
    """Whether instances of a class are shown by a `BlockingView`: it has public coroutine methods."""
    members = inspect.getmembers_static(kind, inspect.iscoroutinefunction)
    return any(not name.startswith("_") for name, _ in members)


async def _next_of(found: Any) -> Any:
    """The next item of an asynchronous iterator; None at its end."""
    return await anext(found, None)


def _unviewed(given: Any) -> Any:
    return given._viewed if isinstance(given, BlockingView) else given  # noqa: SLF001 - its own class


def collected(given: _T) -> _T:
    """What an iterator gives, taken in the caller's thread; anything else, an open file too, stays what it is."""
    is_file = hasattr(given, "read") or hasattr(given, "write")
    return cast("_T", list(given)) if isinstance(given, Iterator) and not is_file else given
