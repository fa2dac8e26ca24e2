"""Where memories are asked for by name: before "nothing" is said, relays have been asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import InvalidInput
from sense_memory.persona import given


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.palace.catalog import Catalog
    from sense_memory.persona.palace import Palace


class Desk:
    """The names of a palace.

    Args:
        palace: whose.
        ask: makes sure that a relay was asked before "nothing" is said; whether one was.
    """

    def __init__(self, palace: Palace, ask: Callable[[str], Awaitable[bool]]) -> None:
        self._palace, self._ask = palace, ask

    async def catalog(self, found: Callable[[Catalog], object] = len, what: str = "memories are") -> Catalog:
        """The memories as they are now; where nothing is found among them, after a relay was asked.

        Args:
            found: what is looked for; false where there is none.
            what: how to speak of it.

        Raises:
            NotSynced: there is none, and no relay ever answered completely.
        """
        catalog = await self._palace.refresh()
        if not found(catalog) and await self._ask(what):
            catalog = await self._palace.refresh()
        return catalog

    async def named(self, name: str) -> str:
        """The path of a memory that is named by its path or its bare key.

        Raises:
            InvalidInput: there is none, or several have that key.
            NotSynced: there is none, and no relay ever answered completely.
        """
        path = given.path_in(
            await self.catalog(lambda catalog: given.path_in(catalog, name), "this memory is"), name
        )
        if path is None:
            raise InvalidInput(f"there is no memory {given.quoted(name)}; nothing was changed")
        return path

    async def both(self, one: str, other: str, what: str) -> tuple[str, str]:
        """The paths of two memories that are there, and are two; `what` says what can not be done to one alone.

        Raises:
            InvalidInput: as `named`, or both are the same memory.
        """
        first, second = await self.named(one), await self.named(other)
        if first == second:
            raise InvalidInput(f"{first!r} cannot be {what} itself; nothing was changed")
        return first, second
