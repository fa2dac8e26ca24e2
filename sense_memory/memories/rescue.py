"""Replace a damaged ledger by a new one that holds everything that can still be read."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidEvent, InvalidInput, LedgerCorrupt
from sense_memory.ledger import Ledger
from sense_memory.ledger.rescue import RescueReport, Salvage, move_aside, salvage
from sense_memory.limits import APPLY_BATCH_COUNT
from sense_memory.nostr.event import RawEvent, verify
from sense_memory.records.reader import Reader


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer


def integrity(ledger: Ledger) -> list[str]:
    """What is wrong with a ledger: SQLite's findings, and events that no longer verify."""
    problems = ledger.integrity()
    for body in ledger.bodies():
        try:
            verify(RawEvent.loads(body))
        except InvalidEvent as error:
            problems.append(f"a stored event does not verify: {error}")
    return problems


async def rescue(path: Path, signer: Signer, clock: Callable[[], float]) -> RescueReport:
    """Move a damaged ledger aside, and file what can be read of it in a new one; no process may have the ledger open.

    Args:
        path: the ledger's file.
        signer: whose ledger it is.
        clock: seconds since 1970.

    Raises: as `MemoryStore.rescue`.
    """
    if not await asyncio.to_thread(path.is_file):
        raise InvalidInput(f"there is no such file: {path}; nothing was changed")
    if await _is_sound(path, signer, clock):
        raise InvalidInput(f"{path} is not damaged; the file was not touched")
    aside = move_aside(path)
    saved = await asyncio.to_thread(salvage, aside)
    ledger = await Ledger.opened(path, signer.public_key)
    try:
        await ledger.write_if_due(ledger.snapshot.discard)
        return await _filed(aside, saved, ledger, Reader(signer, ledger, clock), clock)
    finally:
        ledger.close()


async def _is_sound(path: Path, signer: Signer, clock: Callable[[], float]) -> bool:
    with suppress(LedgerCorrupt):
        ledger = await Ledger.opened(path, signer.public_key)
        try:
            await Reader(signer, ledger, clock).file_quarantined()
            return not integrity(ledger)
        finally:
            ledger.close()
    return False


async def _filed(
    aside: Path, saved: Salvage, ledger: Ledger, reader: Reader, clock: Callable[[], float]
) -> RescueReport:
    """Verify, open and file the events that were saved."""
    counts: Counter[str] = Counter()
    unreadable, rest = saved.unreadable, iter(saved.bodies)
    while batch := list(itertools.islice(rest, APPLY_BATCH_COUNT)):
        events = [event for body in batch if (event := _verified(body)) is not None]
        filed, left_out = await reader.file_events(events, None)
        unreadable += len(batch) - len(events) + len(left_out)
        counts.update({fate: filed[fate] for fate in filed.keys() - set(left_out.values())})
    drafts = ledger.drafts.add(saved.drafts, clock())
    return RescueReport(aside, dict(counts), len(drafts), unreadable)


def _verified(body: bytes) -> Event | None:
    try:
        return verify(RawEvent.loads(body))
    except InvalidEvent:
        return None
