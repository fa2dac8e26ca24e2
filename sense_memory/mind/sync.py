"""Sync a store that has a mind: the order of the steps.

The log is flushed before the relays are asked, so that its newest entries are sent too. After a pull, the log may have to
be flushed again, because this ledger was set back or another process wrote the same page; then the relays are asked once
more. Scenes and shares come last, because they read what the pull brought. A `Mind` is made only if the ledger holds
records of one.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from sense_memory.memories import drafts
from sense_memory.mind.records import MindRecords
from sense_memory.mind.relay_list import RelayList
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.mind import Mind
    from sense_memory.relay.sync.reports import SyncReport


async def sync(
    store: OpenStore, mind: Callable[[], Mind], *, full: bool = False, retry_refused: bool = False
) -> SyncReport:
    """As `MemoryStore.sync`; `mind` returns the mind of the store."""
    await _flush_log(store, mind)
    report = await store.replication.sync(full=full, retry_refused=retry_refused)
    store.check()
    if await _flush_log(store, mind):
        report = report.continued_by(await store.replication.sync())
        store.check()
    if store.ledger.heads.uncovered_under(f"{address.PREFIX}{address.MIND}scene/"):
        await mind().scenes.sync()
        await mind().shares.refresh()
    others = await _relays_listed(store, report)
    found = await drafts.edit_notices(store.ledger, store.reader, store.options.signer)
    return replace(report, **asdict(found), found=tuple(others))


async def _relays_listed(store: OpenStore, report: SyncReport) -> list[str]:
    """Add the store's relays to the list of the agent's relays, and send it; returns the others of the list.

    Without a complete answer the list is left as it is, because relays may have a newer one.
    """
    listed = RelayList(MindRecords(store))
    urls = store.options.urls
    has_answer = any(relay.complete for relay in report.relays)
    if has_answer and await listed.add(urls, store.options.clock()):
        await store.replication.flush()
        store.check()
    return await listed.others(urls)


async def flush(store: OpenStore, mind: Callable[[], Mind]) -> SyncReport:
    """As `MemoryStore.flush`; `mind` returns the mind of the store."""
    await _flush_log(store, mind)
    return await store.replication.flush()


async def _flush_log(store: OpenStore, mind: Callable[[], Mind]) -> bool:
    """Flush the log if it has rows, crowded pages (such as after a kill) or pages dated ahead; returns whether it wrote."""
    heads, now = store.ledger.heads, store.options.clock()
    is_due = store.ledger.log_rows or heads.crowded_beneath(address.LOG_PAGES)
    if not is_due and not heads.dated_ahead(address.LOG_PAGES, now):
        return False
    return await mind().flush() > 0
