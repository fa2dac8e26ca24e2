"""Several memories changed together: each read once, all written in one call or none."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from sense_memory.ledger import HeadMoved
from sense_memory.nostr import address
from sense_memory.persona.edit import Edit


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sense_memory.models import PersonaMemory
    from sense_memory.persona.edit import Standing
    from sense_memory.persona.palace import Palace

_T = TypeVar("_T")


async def until_done(attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Try as often as somebody else was faster; each time somebody else has got on."""
    while True:
        with suppress(HeadMoved):
            return await attempt()


class Batch:
    """Edits that belong together.

    Args:
        palace: where the memories are.
    """

    def __init__(self, palace: Palace) -> None:
        self._palace = palace
        self._standings: dict[str, Standing] = {}
        self._memories: dict[str, PersonaMemory | None] = {}
        self._changed: dict[str, bool] = {}  # by path: whether the value is new

    async def get(self, path: str) -> PersonaMemory | None:
        """A memory as it stands, with what this batch has changed; None where there is none."""
        if path not in self._standings:
            standing = await self._palace.standing(address.d_tag(address.PERSONA + path))
            self._standings[path], self._memories[path] = standing, standing.memory
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

    def only(self, path: str) -> Batch:
        """Of this batch what concerns one memory."""
        alone = Batch(self._palace)
        alone._standings[path] = self._standings[path]
        alone._memories[path] = self._memories[path]
        alone._changed[path] = self._changed[path]
        return alone

    def __len__(self) -> int:
        return len(self._changed)

    def _edits(self) -> Iterator[Edit]:
        for path, says in self._changed.items():
            memory = self._memories[path]
            if memory is not None:
                yield Edit(self._standings[path], memory, says=says)
