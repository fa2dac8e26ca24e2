"""How a store is opened and closed: once at a time, in one process, with its mind; and how a damaged ledger is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from sense_memory.errors import InvalidInput, StoreClosed, warn_of_limit
from sense_memory.memories.open_store import OpenStore


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from sense_memory.ledger.rescue import RescueReport
    from sense_memory.memories.goodbye import Goodbye
    from sense_memory.memories.open_store import StoreOptions
    from sense_memory.mind.mind import Mind


class StoreLifetime:
    """What a store is while it is open, and how it begins and ends.

    Args:
        options: of the store.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._tell: Callable[[str], None] = warn_of_limit
        self._is_opening = False
        self._opened: OpenStore | None = None
        self._mind: Mind | None = None

    async def __aenter__(self) -> Self:
        if self._opened is not None or self._is_opening:
            raise InvalidInput(
                "this store is open already; nothing was changed. Close it first, or open another."
            )
        self._is_opening = True
        try:
            self._opened = await OpenStore.opened(self._options, self._tell)
        finally:
            self._is_opening = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_cut_short = kind is not None and not issubclass(kind, Exception)  # cancelled, or Ctrl-C
        await self._close_within(0.0 if is_cut_short else self._options.close_timeout)

    async def close(self) -> None:
        """Close connections and ledger, after waiting until relays have taken what is queued; see `close_timeout`.

        Calls that wait for relays end with StoreClosed. A second call, while the first waits, closes at once.
        """
        await self._close_within(self._options.close_timeout)

    async def _close_within(self, seconds: float) -> None:
        opened = self._opened
        if opened is None:
            return
        if opened.is_of_another_process:
            self._abandon()
            return
        opened.check_thread()
        try:
            if self._mind is not None:
                mind, self._mind = self._mind, None
                await mind.close()
            await opened.drain(seconds)
        finally:
            if self._opened is opened:  # another call may have closed it meanwhile
                self._opened = None
                await opened.close()

    def _abandon(self) -> None:
        """In a fork: what belongs to the parent process is neither used nor closed."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.abandon()

    @property
    def _open(self) -> OpenStore:
        if self._opened is None:
            raise StoreClosed
        self._opened.check()
        return self._opened

    def _now_open(self) -> OpenStore:
        return self._open

    @property
    def mind(self) -> Mind:
        """The agent's mind: log, conversations, blocks, archive, topics and identity, on the same ledger.

        Raises:
            StoreClosed: the store is not open.
        """
        store = self._open
        if self._mind is None or self._mind.store is not store:
            from sense_memory.mind.mind import Mind

            self._mind = Mind(store)
        return self._mind

    def count_everything(self) -> int:
        """How many memories, records, journal entries and drafts `forget_everything` would forget, as far as known here."""
        from sense_memory.memories.goodbye import count

        return count(self._open)

    async def forget_everything(
        self, *, vanish: bool = False, progress: Callable[[int], None] | None = None
    ) -> Goodbye:
        """Forget everything of this key, here and at its relays, and ask each relay what it still shows.

        Relays are asked first what they hold, so that nothing stays that only they have. Deletions are sent in requests
        of at most 100 addresses. A call that was interrupted is finished by another call. Nobody can promise that every
        copy is gone: the result says what each relay still shows, and what could not be asked.

        Args:
            vanish: also ask relays that support it to delete everything of the key for good (NIP-62). They then drop the
                deletions too, so a device that still has memories sends them again: forget there first. Events of other
                programs with this key vanish as well.
            progress: called with the number forgotten so far.

        Raises:
            LedgerError, SignerError: what was forgotten before stays forgotten; call again.
        """
        from sense_memory.memories.goodbye import erase

        async with self._open.writing() as store:
            return await erase(store, vanish=vanish, progress=progress)

    async def rescue(self) -> RescueReport:
        """Replace a damaged ledger by a new one, while neither this store nor another process has the ledger open.

        The damaged file is moved aside and kept. Every event and draft that can still be read is verified, opened and
        filed in the new ledger, unsent events included; `sync` restores the rest. A forgotten memory stays forgotten
        if its tombstone can be read, in the ledger or on a relay. Raises InvalidInput where the ledger is sound or
        missing, or is not a ledger, and WrongKeyError where it belongs to another key; the file was not touched.
        """
        from sense_memory.memories.backup import rescue

        if self._opened is not None:
            raise InvalidInput("this store is open; close it first. Nothing was changed.")
        return await rescue(Path(self._options.path), self._options.signer, self._options.clock)
