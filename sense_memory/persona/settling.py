"""Settling: where devices wrote a memory without knowledge of each other, what they make together becomes its head.

Every device that holds the versions writes the same, so two that settle at once do not disagree, and one that
finds it written already writes nothing. Values that lost are kept as siblings beside it. Nothing of that happens
before a device has heard everything from its relays: one of them may know that a text was forgotten.

What was pruned without knowledge of an edit, a link or an access is written anew, above the deletion. A sibling of
a text that was forgotten is forgotten too, whoever made it.

A memory that was forgotten, and then linked, read or refreshed by a device that did not know, is a *stray*: nobody
shows it, and it is removed again, above. That reaches no further than the forgetting did, so what a third device said in the
meantime stays.
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


async def settle(ledger: Ledger, palace: Palace, *, heard: bool = True) -> int:
    """Settle whatever is forked; returns how many memories were written.

    Args:
        ledger: where they lie.
        palace: opens and writes them.
        heard: whether relays have told everything; else only what is forgotten for sure is settled.

    What this clock, this version of the program or the size of an event does not allow stays as it is.

    Raises:
        LedgerError: the ledger could not be used.
    """
    written = 0
    for slot in ledger.edits.forked() if heard else ledger.edits.forked_copies():
        with suppress(ClockSkewError, NeedsNewerVersion, TooLargeError):
            written += await _settle(ledger, palace, slot, heard=heard)
    return written


async def _settle(ledger: Ledger, palace: Palace, slot: str, *, heard: bool) -> bool:
    """Settle one address; whether anything was written."""
    while True:
        try:
            if await palace.remove_flat_again(slot):
                return True
        except HeadMoved:
            continue
        standing = await palace.standing(slot)
        if (
            standing.joined is None
            and standing.stray is not None
            and (heard or standing.stray.memory.conflict_of)
        ):
            with suppress(HeadMoved):
                await palace.remove_again(standing)
                return True
            continue
        memory = _due(standing) if heard else None
        if memory is None:
            if heard and standing.known:
                await ledger.write(ledger.edits.drop, slot, standing.known)
            return False
        with suppress(HeadMoved):
            await palace.write([Edit(standing, memory, settles=not standing.is_revived)])
            return True


def _due(standing: Standing) -> PersonaMemory | None:
    """What has to be written at an address, or None."""
    current = standing.joined
    if current is None:
        return None
    if standing.is_revived:
        return standing.memory
    if current.settled and not current.losers and not standing.is_covered:
        return None
    return current.version.memory
