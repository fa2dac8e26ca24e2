"""Forks: versions of one memory that devices wrote without knowing of each other are merged into one head.

Guaranteed: no value is lost, because values that lose are kept as siblings beside the memory; and a forgotten text stays
forgotten. Safe, because the merge depends only on the set of versions: devices with the same versions write the same
memory, so two devices may settle a fork at the same time, and a device that finds the merged memory writes nothing.
Forks are settled only after every reachable relay has shown everything, because a relay may hold the deletion of a
text. The cost is one write for each forked slot.

* If one device pruned a memory, and another edited, linked or recalled it without knowing that, the memory is written
  again, above the deletion.
* If a text is forgotten, its siblings are forgotten too, whichever device wrote them.
* If a device linked, recalled or refreshed a memory without knowing that it had been forgotten, the new version is a
  *stray*. It is never shown, and a new tombstone removes it. The new tombstone covers no more versions than the first
  one, so an edit of a third device stays.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from sense_memory.errors import ClockSkewError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import retry_while_moved
from sense_memory.memories.persona.edit import Edit


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory


async def settle_forks(ledger: Ledger, palace: Palace, *, complete: bool = True) -> int:
    """Merge the versions of every forked slot; returns how many memories were written.

    A fork stays as it is if the clock, the version of this program or the size of an event does not allow the write.

    Args:
        ledger: holds the versions.
        palace: reads and writes the memories.
        complete: whether every reachable relay has shown everything; if not, only forgotten copies are removed.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    written = 0
    for slot in ledger.edits.forked_slots() if complete else ledger.edits.forked_copies():
        with suppress(ClockSkewError, NeedsNewerVersion, TooLargeError):
            written += await retry_while_moved(partial(_settle, ledger, palace, slot, complete=complete))
    return written


async def _settle(ledger: Ledger, palace: Palace, slot: str, *, complete: bool) -> bool:
    """Settle the fork at one slot; returns whether anything was written."""
    if await palace.remove_flat_again(slot):
        return True
    slot_state = await palace.slot_state(slot)
    if (
        slot_state.joined is None
        and slot_state.stray is not None
        and (complete or slot_state.stray.memory.conflict_of)
    ):
        await palace.remove_again(slot_state)
        return True
    memory = _memory_to_write(slot_state) if complete else None
    if memory is None:
        if complete and slot_state.known:
            await ledger.write(ledger.edits.remove_forks, slot, slot_state.known)
        return False
    await palace.write([Edit(slot_state, memory, settles=not slot_state.is_revived)])
    return True


def _memory_to_write(slot_state: SlotState) -> PersonaMemory | None:
    """The memory that settles a slot; None if nothing has to be written."""
    current = slot_state.joined
    if current is None:
        return None
    if slot_state.is_revived:
        return slot_state.memory
    if current.settled and not current.losers and not slot_state.is_covered:
        return None
    return current.version.memory
