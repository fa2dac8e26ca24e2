"""Settling: where devices wrote a memory without knowledge of each other, what they make together becomes its head.

Every device that holds the versions writes the same, so two that settle at once do not disagree, and one that
finds it written already writes nothing. Values that lost are kept as siblings beside it.

A memory that was forgotten, and then linked or read by a device that did not know, is a *stray*: nobody shows it,
and its text is taken out. It is not forgotten again at once, because that would reach what a third device said in
the meantime; `prune` does it when there has been time to meet.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sense_memory.errors import ClockSkewError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import HeadMoved
from sense_memory.persona.edit import Edit


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger
    from sense_memory.models import PersonaMemory
    from sense_memory.persona.edit import Standing
    from sense_memory.persona.palace import Palace


async def settle(ledger: Ledger, palace: Palace) -> int:
    """Settle whatever is forked; returns how many memories were written.

    What this clock, this version of the program or the size of an event does not allow stays as it is.

    Raises:
        LedgerError: the ledger could not be used.
    """
    written = 0
    for slot in ledger.edits.forked():
        with suppress(ClockSkewError, NeedsNewerVersion, TooLargeError):
            written += await _settle(ledger, palace, slot)
    return written


async def strays(ledger: Ledger, palace: Palace, until: float) -> list[Standing]:
    """What stands where only a stray is left that was written until a time (seconds since 1970)."""
    found = []
    for slot in ledger.edits.forked():
        with suppress(NeedsNewerVersion):
            standing = await palace.standing(slot)
            if standing.joined is None and standing.stray is not None and standing.stray.at <= until:
                found.append(standing)
    return found


async def _settle(ledger: Ledger, palace: Palace, slot: str) -> bool:
    """Settle one address; whether anything was written."""
    while True:
        standing = await palace.standing(slot)
        memory = _due(standing)
        if memory is None:
            if standing.known:
                await ledger.write(ledger.edits.drop, slot, standing.known)
            return False
        with suppress(HeadMoved):
            await palace.write([Edit(standing, memory, settles=True)])
            return True


def _due(standing: Standing) -> PersonaMemory | None:
    """What has to be written at an address, or None."""
    current, stray = standing.joined, standing.stray
    if current is None:
        return None if stray is None or not stray.memory.value else _emptied(stray.memory)
    if current.settled and not current.losers and stray is None:
        return None
    return current.version.memory


def _emptied(memory: PersonaMemory) -> PersonaMemory:
    """What a stray leaves behind for relays: nothing of what it said or was about."""
    return memory.changed(
        value="", themes=(), connections=(), contradicts=(), superseded_by=None, dismissed=(), source=""
    )
