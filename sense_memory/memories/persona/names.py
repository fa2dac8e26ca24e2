"""Which memory a name means: a path (`domain/facet/key`) or a bare key; relays are asked before "there is none"."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.limits import MAX_CANDIDATES_COUNT
from sense_memory.memories.persona.arguments import quoted
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.memories.persona.palace import Palace
    from sense_memory.palace.catalog import Catalog


def path_in(catalog: Catalog, name: object) -> str | None:
    """The path of the memory with this path or bare key; None where there is none.

    Raises:
        InvalidAddress: the name is empty, or not a text.
        InvalidInput: several memories have this key.
    """
    if not isinstance(name, str) or not name:
        raise InvalidAddress(
            "name a memory by domain/facet/key, or by its key alone where only one memory has that key"
        )
    names = dict.fromkeys((name, unicodedata.normalize("NFC", name), address.persona_name(name)))
    for path in names:
        if path in catalog:
            return path
    candidates = [path for key in list(names)[:2] for path in catalog.named(key)]
    if len(candidates) > 1:
        raise several_memories(name, candidates)
    return candidates[0] if candidates else None


def several_memories(key: str, paths: Sequence[str]) -> InvalidInput:
    """The error for a key that several memories have; lists their paths, or the first ones of many."""
    listed = ", ".join(map(repr, sorted(paths)[:MAX_CANDIDATES_COUNT]))
    more = ", …" if len(paths) > MAX_CANDIDATES_COUNT else ""
    return InvalidInput(
        f"give the path, because several memories have the key {quoted(key)}: {listed}{more}; nothing was changed"
    )


def path_to(name: str) -> str:
    """The path that a name gives for a memory that need not exist yet.

    Raises:
        InvalidInput: a bare key, which no memory has.
        InvalidAddress: a path that breaks the naming rules.
    """
    parts = address.persona_name(name).split("/")
    if len(parts) != 3:
        raise InvalidInput(f"there is no memory {quoted(name)} to connect with; nothing was written")
    return address.persona_path(*parts).removeprefix(address.PERSONA)


class NameResolver:
    """Resolves the names of memories to paths.

    Args:
        palace: the memories.
        ask: asks a relay, if none was asked yet; gives whether one was asked. Its argument begins the sentence of
            `NotSynced`, such as "this memory is".
    """

    def __init__(self, palace: Palace, ask: Callable[[str], Awaitable[bool]]) -> None:
        self._palace, self._ask = palace, ask

    async def catalog(self, found: Callable[[Catalog], object] = len, what: str = "memories are") -> Catalog:
        """The memories as they are now; a relay is asked first where the ledger does not have what is wanted.

        Args:
            found: gives what is wanted from a catalog; a false value means that nothing was found.
            what: the beginning of the sentence of `NotSynced`.

        Raises:
            NotSynced: nothing was found, and no relay ever answered completely.
        """
        catalog = await self._palace.refresh()
        if not found(catalog) and await self._ask(what):
            catalog = await self._palace.refresh()
        return catalog

    async def path_of(self, name: str) -> str:
        """The path of the memory with this path or bare key.

        Raises:
            InvalidInput: no memory has this name, or several have this key.
            NotSynced: no memory has this name, and no relay ever answered completely.
        """
        path = path_in(await self.catalog(lambda catalog: path_in(catalog, name), "this memory is"), name)
        if path is None:
            raise InvalidInput(f"there is no memory {quoted(name)}; nothing was changed")
        return path

    async def pair(self, one: str, other: str, verb: str) -> tuple[str, str]:
        """The paths of two different memories.

        Args:
            one: the name of the first.
            other: the name of the second.
            verb: for the error, such as "connected with".

        Raises:
            InvalidInput: as `path_of`, or both names mean the same memory.
        """
        first, second = await self.path_of(one), await self.path_of(other)
        if first == second:
            raise InvalidInput(f"{first!r} cannot be {verb} itself; nothing was changed")
        return first, second
