"""Forks: versions of one memory that devices wrote without knowing of each other are merged into one head.

Every device that holds the same versions writes the same merged memory, so two devices that settle a fork at once
do not disagree, and a device that finds the merged memory already written writes nothing. Values that lost are kept
as siblings beside the memory. Forks are settled only after every relay has told everything that it holds: a relay
may know that a text was forgotten.

* A memory that one device pruned, and another edited, linked or recalled without knowing, is written anew, above
  the deletion.
* A sibling of a text that was forgotten is forgotten too, whoever made the sibling.
* A memory that was forgotten, and then linked, read or refreshed by a device that did not know, is a *stray*. It is
  never shown, and a new tombstone removes it. The new tombstone reaches no further than the first one did, so an
  edit of a third device in the meantime stays.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sense_memory.errors import ClockSkewError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import HeadMoved
from sense_memory.memories.persona.edit import Edit


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory


async def settle_forks(ledger: Ledger, palace: Palace, *, heard: bool = True) -> int:
    """Merge the versions of every forked slot; returns how many memories were written.

    Args:
        ledger: where the versions are stored.
        palace: opens and writes the memories.
        heard: whether every relay that can be reached has shown everything; if not, only forgotten copies are removed.

    A fork stays as it is where this clock, the version of this program or the size of an event forbids to write.

    Raises:
        LedgerError: the ledger cannot be used.
    """
    written = 0
    for slot in ledger.edits.forked_slots() if heard else ledger.edits.forked_copies():
        with suppress(ClockSkewError, NeedsNewerVersion, TooLargeError):
            written += await _settle(ledger, palace, slot, heard=heard)
    return written


async def _settle(ledger: Ledger, palace: Palace, slot: str, *, heard: bool) -> bool:
    """Settle one slot; returns whether anything was written."""
    while True:
        try:
            if await palace.remove_flat_again(slot):
                return True
        except HeadMoved:
            continue
        slot_state = await palace.slot_state(slot)
        if (
            slot_state.joined is None
            and slot_state.stray is not None
            and (heard or slot_state.stray.memory.conflict_of)
        ):
            with suppress(HeadMoved):
                await palace.remove_again(slot_state)
                return True
            continue
        memory = _due(slot_state) if heard else None
        if memory is None:
            if heard and slot_state.known:
                await ledger.write(ledger.edits.remove_forks, slot, slot_state.known)
            return False
        with suppress(HeadMoved):
            await palace.write([Edit(slot_state, memory, settles=not slot_state.is_revived)])
            return True


def _due(slot_state: SlotState) -> PersonaMemory | None:
    """The memory that has to be written at a slot, or None."""
    current = slot_state.joined
    if current is None:
        return None
    if slot_state.is_revived:
        return slot_state.memory
    if current.settled and not current.losers and not slot_state.is_covered:
        return None
    return current.version.memory
