"""Where memories are asked for by name: before "nothing" is said, relays have been asked."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.limits import (
    MAX_CANDIDATES_COUNT,
    MAX_HALFLIFE_DAYS,
    MAX_LINKS_COUNT,
    MAX_NAME_CHARS,
    MAX_THEMES_COUNT,
    MIN_HALFLIFE_DAYS,
)
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.memories.persona.palace import Palace
    from sense_memory.palace.catalog import Catalog


# ── What callers give ───────────────────────────────────────────────────────────────────
# What callers give: checked before anything is read or written, each fault with a sentence of its own.

_SOURCE: Final = re.compile(
    r"(?:user|agent|import|(?:tool|document):[^\x00-\x20\x7f-\x9f\ud800-\udfff]{1,200})?"
)


def fields(
    value: object,
    themes: object,
    halflife_days: object,
    source: object,
    confidence: object,
) -> dict[str, Any]:
    """The fields of a memory that were given, checked; those that were not are left out.

    Raises:
        InvalidInput: one that cannot be used.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"a memory's value must be text, not {type(value).__name__}; nothing was written")
    found: dict[str, Any] = {"value": value}
    texts = [] if themes is None else _texts("themes", themes, MAX_THEMES_COUNT)
    if texts:
        found["themes"] = tuple(dict.fromkeys(texts))
    if halflife_days is not None:
        found["halflife_days"] = _number("halflife_days", halflife_days, MIN_HALFLIFE_DAYS, MAX_HALFLIFE_DAYS)
    if confidence is not None:
        found["confidence"] = _number("confidence", confidence, 0, 1)
    if source is not None:
        if not isinstance(source, str) or not _SOURCE.fullmatch(source):
            raise InvalidInput(
                "a source must be user, agent, import, tool:<name>, document:<hash> or empty; nothing was written"
            )
        found["source"] = source
    return found


def links(connections: object) -> list[str]:
    """The names of memories to connect, as given.

    Raises:
        InvalidInput: no list of texts, or too long.
    """
    return [] if connections is None else _texts("connections", connections, MAX_LINKS_COUNT)


def path_in(catalog: Catalog, name: object) -> str | None:
    """The path of a memory that is named by its path or its bare key; None where there is none.

    Raises:
        InvalidAddress: no name at all.
        InvalidInput: a bare key that several memories have.
    """
    if not isinstance(name, str) or not name:
        raise InvalidAddress(
            "a memory is named by domain/facet/key, or by its key alone where that is unique"
        )
    names = dict.fromkeys((name, unicodedata.normalize("NFC", name), name.removeprefix(address.PERSONA)))
    for path in names:
        if path in catalog:
            return path
    candidates = [path for key in list(names)[:2] for path in catalog.named(key)]
    if len(candidates) > 1:
        listed = ", ".join(map(repr, candidates[:MAX_CANDIDATES_COUNT]))
        more = ", …" if len(candidates) > MAX_CANDIDATES_COUNT else ""
        raise InvalidInput(
            f"several memories have the key {quoted(name)}: {listed}{more}. Name one by its path; "
            "nothing was changed."
        )
    return candidates[0] if candidates else None


def path_to(name: str) -> str:
    """The path of a memory that need not exist yet.

    Raises:
        InvalidInput: a bare key, which nobody knows.
        InvalidAddress: a path that breaks the naming rules.
    """
    parts = name.removeprefix(address.PERSONA).split("/")
    if len(parts) != 3:
        raise InvalidInput(f"there is no memory {quoted(name)} to connect with; nothing was written")
    return address.persona_path(*parts).removeprefix(address.PERSONA)


def selection(domain: object, facet: object) -> tuple[str | None, str | None]:
    """A domain and a facet to list, each as it is or None for all.

    Raises:
        InvalidAddress: no name.
    """
    for what, name in (("domain", domain), ("facet", facet)):
        if name is not None and (not isinstance(name, str) or not name):
            raise InvalidAddress(f"a {what} must be a non-empty string, or None for all of them")
    return (
        unicodedata.normalize("NFC", domain) if isinstance(domain, str) else None,
        unicodedata.normalize("NFC", facet) if isinstance(facet, str) else None,
    )


def quoted(given: object) -> str:
    """What was given, as an error may show it: on one line, and not all of it where it is long."""
    return printable(repr(given))


def _texts(what: str, value: object, limit: int) -> list[str]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidInput(f"{what} must be a list of texts; nothing was written")
    texts: Sequence[object] = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    if len(texts) > limit:
        raise InvalidInput(f"{what} may hold {limit} at most, these are {len(texts)}; nothing was written")
    found: list[str] = []
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{what} must be non-empty texts; nothing was written")
        if what == "themes" and len(text) > MAX_NAME_CHARS:
            raise InvalidInput(f"a theme has at most {MAX_NAME_CHARS} characters; nothing was written")
        found.append(text if what == "connections" else text.strip())
    return found


def _number(what: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidInput(f"{what} must lie between {low:g} and {high:g}; nothing was written")
    return float(value)


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
        path = path_in(await self.catalog(lambda catalog: path_in(catalog, name), "this memory is"), name)
        if path is None:
            raise InvalidInput(f"there is no memory {quoted(name)}; nothing was changed")
        return path

    async def both(self, one: str, other: str, what: str) -> tuple[str, str]:
        """The paths of two memories that are there, and are two; `what` says what cannot be done to one alone.

        Raises:
            InvalidInput: as `named`, or both are the same memory.
        """
        first, second = await self.named(one), await self.named(other)
        if first == second:
            raise InvalidInput(f"{first!r} cannot be {what} itself; nothing was changed")
        return first, second
