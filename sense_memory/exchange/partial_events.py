"""A part of the encrypted export: the events of the memories that fulfil a filter.

`MemoryStore.export` and `backup` always write everything. A part has the newest event of each memory, with all events that
hold the text of a long block. It has no earlier versions, deletions and drafts, and no log: one event of the log holds many
entries, so that a part of them cannot be given out. `Exported.notes` says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange.readable import BLOCKS, Exported, entries
from sense_memory.memories.backup import write_export
from sense_memory.mind.blocks import event_ids_of_block


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sense_memory.exchange.export_filter import ExportFilter
    from sense_memory.store import MemoryStore


async def write_part(
    store: MemoryStore,
    target: Path | BinaryIO,
    only: ExportFilter,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> tuple[int, Exported]:
    """Write the events of some memories as JSON lines, signed and encrypted; returns how many, and what they hold.

    Args:
        store: an open store.
        target: a new file, or an open binary file.
        only: which memories; see `ExportFilter`.
        overwrite: whether to replace an existing file.
        progress: called with the number of events written so far.

    Raises:
        InvalidInput: the file exists or cannot be written, or no event fulfils the filter; nothing was changed.
    """
    exported = Exported(str(target))
    found = await entries(store, exported, only)
    wanted = {entry.event_id for entry in found if entry.event_id}
    for entry in found:
        if entry.path.startswith(BLOCKS):
            wanted |= await event_ids_of_block(store.mind.records, entry.name)
    if exported.counts.pop("log", 0):
        exported.notes.append(
            "the log is left out: its events cannot be divided; --readable writes a part of it"
        )
    if not wanted:
        raise InvalidInput(f"{exported.notes[-1]}; nothing was written")
    bodies = (body for body in store.mind.store.ledger.handed_out() if orjson.loads(body)["id"] in wanted)
    return write_export(target, bodies, overwrite=overwrite, progress=progress), exported
