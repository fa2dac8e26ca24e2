"""`store.journal`: dated entries, which are never replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory import arguments
from sense_memory.memories.persona.arguments import checked_source


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.models import JournalEntry


class StoreJournal:
    """The journal of a store. Get it as `store.journal`; `await store.journal(text)` writes an entry, as `write`.

    Args:
        opened: gives the open store, or raises StoreClosed.
    """

    def __init__(self, opened: Callable[[], OpenStore]) -> None:
        self._open = opened

    async def __call__(self, content: str, *, created_at: datetime | float | None = None) -> str:
        """Write a journal entry; see `write`."""
        return await self.write(content, created_at=created_at)

    async def write(
        self,
        content: str,
        *,
        source: str = "",
        session: str = "",
        created_at: datetime | float | None = None,
    ) -> str:
        """Write a journal entry: a direct message to oneself (kind 4, NIP-44), never replaced.

        `source`, `session`, `created_at` and errors as in `remember`. Returns the event's id, once the event is durable
        in the ledger.
        """
        told = {"source": checked_source(source), "session": session}
        async with self._open().writing() as store:
            return await store.journal.write(
                content, created_at, source=told["source"], session=told["session"]
            )

    async def write_many(
        self,
        entries: Iterable[str | tuple[str, datetime | float]],
        *,
        created_at: datetime | float | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """Write many journal entries, in batches of 1,000.

        `entries` are texts, or pairs (text, created_at); `created_at` as in `remember_many`. Returns the ids of the
        events, in order. Raises as `journal`, with the number of the entry, from 1.
        """
        async with self._open().writing() as store:
            arguments.callback(progress, "progress")
            wanted = arguments.several(entries, "entries")
            return await store.journal.write_many(wanted, store.sending(progress), created_at)

    async def recent(self, limit: int = 20) -> list[JournalEntry]:
        """The newest journal entries, newest first; `limit` is 1 to 100,000.

        Raises NotSynced if there is none here and no relay has ever shown its journal entries, for example because all
        relays hide them.
        """
        return await self._open().journal.recent(limit)

    async def forget(self, event_id: str) -> str:
        """Remove a journal entry everywhere: purge it here, and have every relay delete it (NIP-09).

        The ledger keeps the deletion, so that no copy comes back. Returns the id of the deletion request. Raises
        InvalidInput where no journal entry has this id (64 hex digits); other events are never removed.
        """
        async with self._open().writing() as store:
            return await store.journal.forget(event_id)
