"""Several memories changed together: each is read once, and all are written in one call or none is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sense_memory.ledger import HeadMoved
from sense_memory.memories.persona.edit import Edit
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sense_memory.memories.persona.edit import SlotState
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.models import PersonaMemory


_T = TypeVar("_T")


async def retry_while_moved(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Await an attempt, again after each `HeadMoved`. It ends, because another writer got on each time."""
    while True:
        with suppress(HeadMoved):
            return await attempt()


class EditBatch:
    """Edits that are written together.

    Args:
        palace: reads and writes the memories.
    """

    def __init__(self, palace: Palace) -> None:
        self._palace = palace
        self._slot_states: dict[str, SlotState] = {}
        self._memories: dict[str, PersonaMemory | None] = {}
        self._changed: dict[str, bool] = {}  # by path: whether the value is new

    async def get(self, path: str) -> PersonaMemory | None:
        """A memory as it is now, with the changes of this batch; None where there is none."""
        if path not in self._slot_states:
            slot_state = await self._palace.slot_state(address.d_tag(address.PERSONA + path))
            self._slot_states[path], self._memories[path] = slot_state, slot_state.memory
        return self._memories[path]

    def change(self, memory: PersonaMemory, *, is_new_value: bool = False) -> None:
        """Change a memory that `get` has read.

        Args:
            memory: the memory to write.
            is_new_value: whether its value is new; otherwise the value keeps its provenance.
        """
        path = memory.path
        self._memories[path] = memory
        self._changed[path] = self._changed.get(path, False) or is_new_value

    async def write(
        self, *, drafts: bool = False, skip_unfit: Callable[[str], bool] = lambda _: False
    ) -> dict[str, str]:
        """Write the changes in the order of their first mention; returns the event ids by path. Errors as `Palace.write`.

        Args:
            drafts: as `Palace.write`.
            skip_unfit: whether a path is left out if its memory does not fit an event; its id is then empty.
        """
        edits = list(self._edits())
        ids = await self._palace.write(
            edits, drafts=drafts, skip_unfit=lambda edit: skip_unfit(edit.memory.path)
        )
        return {edit.memory.path: ident for edit, ident in zip(edits, ids, strict=True)}

    def only(self, *paths: str) -> EditBatch:
        """A batch with the changes of some memories of this batch."""
        alone = EditBatch(self._palace)
        for path in paths:
            alone._slot_states[path] = self._slot_states[path]
            alone._memories[path] = self._memories[path]
            alone._changed[path] = self._changed[path]
        return alone

    def __len__(self) -> int:
        return len(self._changed)

    def _edits(self) -> Iterator[Edit]:
        for path, is_new_value in self._changed.items():
            memory = self._memories[path]
            if memory is not None:
                yield Edit(self._slot_states[path], memory, is_new_value=is_new_value)
