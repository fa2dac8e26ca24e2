"""Several memories changed together: each read once, all written in one call or none."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sense_memory.errors import ClockSkewError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import HeadMoved
from sense_memory.memories.persona.edit import Edit
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sense_memory.ledger import Ledger
    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory


# ── Settling ────────────────────────────────────────────────────────────────────────────
# Settling: where devices wrote a memory without knowledge of each other, what they make together becomes its head.
#
# Every device that holds the versions writes the same, so two that settle at once do not disagree, and one that
# finds it written already writes nothing. Values that lost are kept as siblings beside it. Nothing of that happens
# before a device has heard everything from its relays: one of them may know that a text was forgotten.
#
# What was pruned without knowledge of an edit, a link or an access is written anew, above the deletion. A sibling of
# a text that was forgotten is forgotten too, whoever made it.
#
# A memory that was forgotten, and then linked, read or refreshed by a device that did not know, is a *stray*: nobody
# shows it, and it is removed again, above. That reaches no further than the forgetting did, so what a third device said in the
# meantime stays.


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
                await ledger.write(ledger.edits.drop, slot, slot_state.known)
            return False
        with suppress(HeadMoved):
            await palace.write([Edit(slot_state, memory, settles=not slot_state.is_revived)])
            return True


def _due(slot_state: SlotState) -> PersonaMemory | None:
    """What has to be written at an address, or None."""
    current = slot_state.joined
    if current is None:
        return None
    if slot_state.is_revived:
        return slot_state.memory
    if current.settled and not current.losers and not slot_state.is_covered:
        return None
    return current.version.memory


_T = TypeVar("_T")


async def until_done(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Try as often as somebody else was faster; each time somebody else has got on."""
    while True:
        with suppress(HeadMoved):
            return await attempt()


class EditBatch:
    """Edits that belong together.

    Args:
        palace: where the memories are.
    """

    def __init__(self, palace: Palace) -> None:
        self._palace = palace
        self._slot_states: dict[str, SlotState] = {}
        self._memories: dict[str, PersonaMemory | None] = {}
        self._changed: dict[str, bool] = {}  # by path: whether the value is new

    async def get(self, path: str) -> PersonaMemory | None:
        """A memory as it stands, with what this batch has changed; None where there is none."""
        if path not in self._slot_states:
            slot_state = await self._palace.slot_state(address.d_tag(address.PERSONA + path))
            self._slot_states[path], self._memories[path] = slot_state, slot_state.memory
        return self._memories[path]

    def put(self, memory: PersonaMemory, *, says: bool = False) -> None:
        """Change a memory that was read before.

        Args:
            memory: how it is to be.
            says: whether its value is new.
        """
        path = memory.path
        self._memories[path] = memory
        self._changed[path] = self._changed.get(path, False) or says

    async def write(
        self, *, drafts: bool = False, spare: Callable[[str], bool] = lambda _: False
    ) -> dict[str, str]:
        """Write what was changed, in the order in which it was; returns the event ids by path. Errors as `Palace.write`.

        Args:
            drafts: as `Palace.write`.
            spare: which paths are left out where a memory does not fit an event; their ids are empty.
        """
        edits = list(self._edits())
        ids = await self._palace.write(edits, drafts=drafts, spare=lambda edit: spare(edit.memory.path))
        return {edit.memory.path: ident for edit, ident in zip(edits, ids, strict=True)}

    def only(self, path: str) -> EditBatch:
        """Of this batch what concerns one memory."""
        alone = EditBatch(self._palace)
        alone._slot_states[path] = self._slot_states[path]
        alone._memories[path] = self._memories[path]
        alone._changed[path] = self._changed[path]
        return alone

    def __len__(self) -> int:
        return len(self._changed)

    def _edits(self) -> Iterator[Edit]:
        for path, says in self._changed.items():
            memory = self._memories[path]
            if memory is not None:
                yield Edit(self._slot_states[path], memory, says=says)
