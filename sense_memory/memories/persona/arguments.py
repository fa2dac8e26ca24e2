"""What callers give for a persona memory, checked before anything is read or written."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sense_memory import arguments
from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.limits import (
    MAX_HALFLIFE_DAYS,
    MAX_LINKS_COUNT,
    MAX_NAME_CHARS,
    MAX_THEMES_COUNT,
    MIN_HALFLIFE_DAYS,
)
from sense_memory.memories.flat import numbered_errors
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable


if TYPE_CHECKING:
    from collections.abc import Sequence


_SOURCE: Final = re.compile(
    r"(?:user|agent|import|(?:tool|document):[^\x00-\x20\x7f-\x9f\ud800-\udfff]{1,200})?"
)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory that is to be written, checked.

    Attributes:
        path: `domain/facet/key`.
        fields: the fields that were given, `created_at` among them where it was.
        connections: names of memories to connect with.
    """

    path: str
    fields: dict[str, Any]
    connections: tuple[str, ...] = ()

    def then(self, later: NewMemory) -> NewMemory:
        """This memory and another that is given for the same path later, as one."""
        links = dict.fromkeys((*self.connections, *later.connections))
        return NewMemory(self.path, {**self.fields, **later.fields}, tuple(links))


_NAMES: Final = frozenset(
    (
        "domain",
        "facet",
        "key",
        "value",
        "themes",
        "connections",
        "halflife_days",
        "source",
        "confidence",
        "created_at",
    )
)


def new_memories(given: object, now: float, created_at: object = None) -> list[NewMemory]:
    """Memories from mappings of the arguments of `persona_remember`; an error names the memory by its number and key.

    Args:
        given: the mappings.
        now: seconds since 1970.
        created_at: when memories without a time of their own were written; None for now.

    Raises:
        InvalidInput: not such a mapping, or a field cannot be used.
    """
    found = []
    for number, item in enumerate(arguments.several(given, "memories"), 1):
        with numbered_errors(number, (item.get("key"),) if isinstance(item, Mapping) else ()):
            found.append(_new_memory(item, now, created_at))
    return found


def _new_memory(given: object, now: float, created_at: object) -> NewMemory:
    if not isinstance(given, Mapping) or not {"domain", "facet", "key", "value"} <= given.keys():
        raise InvalidInput("it must be a mapping with domain, facet, key and value; nothing was written")
    if unknown := [name for name in given if name not in _NAMES]:
        raise InvalidInput(f"persona_remember has no argument {quoted(unknown[0])}; nothing was written")
    path = address.persona_path(given["domain"], given["facet"], given["key"])
    names = ("value", "themes", "halflife_days", "source", "confidence")
    found = fields(*(given.get(name) for name in names))
    at = given.get("created_at", created_at)
    if at is not None:
        found["created_at"] = arguments.written_at(at, now)
    return NewMemory(path.removeprefix(address.PERSONA), found, tuple(links(given.get("connections"))))


def fields(
    value: object,
    themes: object,
    halflife_days: object,
    source: object,
    confidence: object,
) -> dict[str, Any]:
    """The given fields of a memory, checked; fields that are None are left out.

    Raises:
        InvalidInput: a field has the wrong type, or is out of its range.
    """
    found: dict[str, Any] = {"value": arguments.value(value)}
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
                "source must be user, agent, import, tool:<name>, document:<hash> or empty; nothing was written"
            )
        found["source"] = source
    return found


def links(connections: object) -> list[str]:
    """The names of memories to connect with, as given.

    Raises:
        InvalidInput: not a list of texts, or too many of them.
    """
    return [] if connections is None else _texts("connections", connections, MAX_LINKS_COUNT)


def selection(domain: object, facet: object) -> tuple[str | None, str | None]:
    """A domain and a facet to list, in NFC; None means all.

    Raises:
        InvalidAddress: a name is empty, or not a text.
    """
    for what, name in (("domain", domain), ("facet", facet)):
        if name is not None and (not isinstance(name, str) or not name):
            raise InvalidAddress(f"a {what} must be a non-empty string, or None for all")
    return (
        unicodedata.normalize("NFC", domain) if isinstance(domain, str) else None,
        unicodedata.normalize("NFC", facet) if isinstance(facet, str) else None,
    )


def quoted(given: object) -> str:
    """What was given, as an error may show it: on one line, cut where it is long."""
    return printable(repr(given))


def _texts(what: str, value: object, limit: int) -> list[str]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidInput(f"{what} must be a list of texts; nothing was written")
    texts: Sequence[object] = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
    if len(texts) > limit:
        raise InvalidInput(f"{what} may be at most {limit}, and {len(texts)} were given; nothing was written")
    found: list[str] = []
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise InvalidInput(f"{what} must be non-empty texts; nothing was written")
        if what == "themes" and len(text) > MAX_NAME_CHARS:
            raise InvalidInput(f"a theme may have at most {MAX_NAME_CHARS} characters; nothing was written")
        found.append(text if what == "connections" else text.strip())
    return found


def _number(what: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidInput(f"{what} must lie between {low:g} and {high:g}; nothing was written")
    return float(value)
