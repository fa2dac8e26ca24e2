"""Publishing accesses: when and how often memories were recalled, so that they fade alike on every device.

`Palace.touch` counts an access. It is published with the next version of its memory, or without one by these functions.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sense_memory.errors import ClockSkewError, NeedsNewerVersion
from sense_memory.ledger import retry_while_moved
from sense_memory.limits import MAX_BATCH_COUNT
from sense_memory.memories.bulk import batches, write_batches
from sense_memory.memories.persona.edit import Edit


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.memories.persona.palace import Palace


async def publish_accesses(palace: Palace, *, due: bool = False) -> list[str]:
    """Publish the accesses of memories; returns the paths of memories whose accesses do not fit an event.

    A text near the size limit may leave no room for the fields that an access adds. Accesses of a memory with such a text
    stay on this machine.

    Args:
        palace: the memories.
        due: publish only accesses that are due, see `SlotState.access_is_due`.
    """
    if not palace.unpublished_accesses():
        return []
    await palace.refresh()
    slots = palace.unpublished_accesses()
    if due:
        return list(filter(None, [await _publish_if_due(palace, slot) for slot in slots]))

    async def publish(part: Sequence[str]) -> list[str]:
        slot_states = [await palace.slot_state(slot) for slot in part]
        edits = [Edit(slot_state, slot_state.memory) for slot_state in slot_states if slot_state.memory]
        ids = await palace.write(edits, skip_unfit=lambda _: True)
        return [edit.memory.path for edit, ident in zip(edits, ids, strict=True) if not ident]

    parts = batches(slots, MAX_BATCH_COUNT)
    return await write_batches(parts, lambda part: retry_while_moved(partial(publish, part)))


async def _publish_if_due(palace: Palace, slot: str) -> str:
    """Publish the accesses of one memory if they are due; returns its path if they do not fit an event, or ""."""

    async def attempt() -> str:
        slot_state = await palace.slot_state(slot)
        if slot_state.memory is None or not slot_state.access_is_due(palace.now()):
            return ""
        (ident,) = await palace.write([Edit(slot_state, slot_state.memory)], skip_unfit=lambda _: True)
        return "" if ident else slot_state.memory.path

    with suppress(ClockSkewError, NeedsNewerVersion):
        return await retry_while_moved(attempt)
    return ""
