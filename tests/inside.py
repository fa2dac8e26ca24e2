"""The way behind the public face, in one place: what a test needs that no user can ask for.

A test holds on to the public API. Where a property shows only inside (the rows of the ledger, the only copy of a
plaintext, an event that a relay might have served), the test takes the part from here, so that moving the part means
changing this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory import MemoryStore
    from sense_memory.ledger import Ledger
    from sense_memory.ledger.database import Database
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.nostr.signer import Signer


def parts_of(store: MemoryStore) -> OpenStore:
    """The parts of an open store: reader, writer, replication and so on."""
    return store._open


def ledger_of(store: MemoryStore) -> Ledger:
    """The ledger of an open store."""
    return parts_of(store).ledger


def signer_of(store: MemoryStore) -> Signer:
    """The signer of a store, open or not."""
    return store._options.signer


def database_of(ledger: Ledger) -> Database:
    """The SQLite connection of a ledger."""
    return ledger._db


def sleep_with(store: MemoryStore, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Have the writer of an open store wait by this function instead of `asyncio.sleep`."""
    parts_of(store).writer._sleep = sleep


def name_device(store: MemoryStore, name: str) -> None:
    """Name the device of an open ledger; otherwise the name is drawn at random."""
    device = ledger_of(store).edits.device_id
    device.get()
    device._id = name
