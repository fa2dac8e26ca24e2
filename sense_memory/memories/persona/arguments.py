"""The arguments of calls on palace memories, checked before anything is written, and the resolution of names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from sense_memory import arguments
from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.limits import (
    MAX_CANDIDATES_COUNT,
    MAX_HALFLIFE_DAYS,
    MAX_LINKS_COUNT,
    MAX_NAME_CHARS,
    MAX_SAFE_INTEGER,
    MAX_THEMES_COUNT,
    MIN_HALFLIFE_DAYS,
    USED_SCORE_SHARE,
)
from sense_memory.memories.bulk import numbered_errors
from sense_memory.models import PROVENANCE, PersonaMemory
from sense_memory.nostr import address
from sense_memory.palace.sources import least_trusted_last
from sense_memory.plain_text import has_hidden, printable


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.arguments import ContradictionMode
    from sense_memory.memories.persona.palace import Palace
    from sense_memory.palace.catalog import Catalog


_SOURCE: Final = re.compile(
    r"(?:user|agent|import|(?:tool|document|import|scene):[^\x00-\x20\x7f-\x9f\ud800-\udfff]{1,200})?"
)
_MAX_SESSION_CHARS: Final = 200
_MAX_PARTS_COUNT: Final = 100  # that a memory may name as what it was made of


def mode(contradictions: object) -> ContradictionMode | None:
    """The checked `contradictions` argument; None means the mode of the store."""
    return None if contradictions is None else arguments.contradictions(contradictions)


def conversation(text: object, extractor: object) -> None:
    """Check a conversation and the extractor that proposes memories from it; None means the built-in rules."""
    if not isinstance(text, str):
        raise InvalidInput("a conversation must be a text; nothing was read")
    if extractor is not None and (
        not callable(getattr(extractor, "propose", None)) or isinstance(extractor, type)
    ):
        raise InvalidInput("`extractor` must be an `Extractor`: something with `propose`; nothing was read")


def path(name: object) -> str:
    """The path of a memory to write, checked.

    Raises:
        InvalidAddress: it is no `domain/facet/key`, or a part breaks the naming rules.
    """
    if not isinstance(name, str) or name.count("/") != 2:
        raise InvalidAddress(
            "give a key without a slash, or a path domain/facet/key such as people/facts/lisa; nothing was written"
        )
    return address.persona_path(*name.split("/")).removeprefix(address.PERSONA)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """The checked arguments of a memory to write.

    Attributes:
        path: `domain/facet/key`.
        fields: the fields that were given, which may include `created_at`.
        connections: the names of memories to connect with.
        is_restored: whether this is the memory that was forgotten at the path, so that marks in other memories that
            name it count again.
    """

    path: str
    fields: dict[str, Any]
    connections: tuple[str, ...] = ()
    is_restored: bool = False

    def then(self, later: NewMemory) -> NewMemory:
        """This memory combined with a later one for the same path, whose fields win."""
        links = dict.fromkeys((*self.connections, *later.connections))
        return NewMemory(self.path, {**self.fields, **later.fields}, tuple(links))


# The history of a memory that is moved from another program or store; used only if no memory has its path.
PAST: Final = (
    "relevance",
    "last_accessed",
    "last_reinforced",
    "written_at",
    "access_count",
    "contradicts",
    "superseded_by",
    "marked_by_hand",
    "dismissed",
)
_PARTS: Final = frozenset({"domain", "facet", "key"})
_NAMES: Final = frozenset(
    (
        *PAST,
        "domain",
        "facet",
        "key",
        "value",
        "themes",
        "connections",
        "halflife_days",
        *PROVENANCE,
        "confidence",
        "created_at",
    )
)


def new_memories(given: object, now: float, created_at: object = None) -> list[NewMemory]:
    """Memories from mappings with the arguments of `persona_remember`; an error names the memory by number and key.

    Args:
        given: the mappings.
        now: seconds since 1970.
        created_at: the time of memories that are given without a time; None for now.

    Raises:
        InvalidInput: an item is not such a mapping, or a field is not valid.
    """
    found = []
    for number, item in enumerate(arguments.several(given, "memories"), 1):
        with numbered_errors(number, (item.get("key"),) if isinstance(item, Mapping) else ()):
            found.append(_new_memory(item, now, created_at))
    return found


def _new_memory(given: object, now: float, created_at: object) -> NewMemory:
    if isinstance(given, Mapping) and "path" in given and _PARTS.isdisjoint(given):
        parts = zip(("domain", "facet", "key"), path(given["path"]).split("/"), strict=True)
        given = dict(parts) | {name: value for name, value in given.items() if name != "path"}
    if not isinstance(given, Mapping) or not {*_PARTS, "value"} <= given.keys():
        raise InvalidInput(
            "it must be a mapping with a path and a value, or with domain, facet, key and value; nothing was written"
        )
    if unknown := [name for name in given if name not in _NAMES]:
        raise InvalidInput(f"a memory has no field {quoted(unknown[0])}; nothing was written")
    place = address.persona_path(given["domain"], given["facet"], given["key"])
    names = ("value", "themes", "halflife_days", "source", "confidence")
    found = fields(*(given.get(name) for name in names))
    found |= provenance(*(given.get(name) for name in PROVENANCE))
    at = given.get("created_at", created_at)
    if at is not None:
        found["created_at"] = arguments.written_at(at, now)
    found |= _past(given, now)
    return NewMemory(place.removeprefix(address.PERSONA), found, tuple(links(given.get("connections"))))


def _past(given: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The fields of `PAST` that were given, checked; fields that are None are left out."""
    found: dict[str, Any] = {}
    for name in PAST:
        value = given.get(name)
        if value is None:
            continue
        if name in {"last_accessed", "last_reinforced", "written_at"}:
            found[name] = arguments.written_at(value, now)
        elif name == "relevance":
            found[name] = _number(name, value, 0, 1)
        elif name == "access_count":
            found[name] = int(_number(name, value, 0, MAX_SAFE_INTEGER))
        elif name == "superseded_by":
            (found[name],) = _texts(name, [value], 1)
        else:
            found[name] = tuple(_texts(name, value, MAX_LINKS_COUNT))
    return found


def themes_of(themes: object) -> list[str]:
    """The themes that were given, checked, each once.

    Raises:
        InvalidInput: they are no texts, or too long or too many.
    """
    return list(dict.fromkeys(_texts("themes", themes, MAX_THEMES_COUNT)))


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
    texts = [] if themes is None else themes_of(themes)
    if texts:
        found["themes"] = tuple(texts)
    if halflife_days is not None:
        found["halflife_days"] = _number("halflife_days", halflife_days, MIN_HALFLIFE_DAYS, MAX_HALFLIFE_DAYS)
    if confidence is not None:
        found["confidence"] = _number("confidence", confidence, 0, 1)
    return found | provenance(source)


def provenance(
    source: object,
    session: object = None,
    observed_at: object = None,
    derived_from: object = None,
    sources: object = None,
) -> dict[str, Any]:
    """The fields that say where a text came from, checked. They belong together: whoever gives one replaces them all.

    Returns nothing if none is given: the memory then keeps what it says.

    Raises:
        InvalidInput: one has the wrong type, or no source has that form.
    """
    given = source, session, observed_at, derived_from, sources
    if all(item is None for item in given):
        return {}
    if session is not None and (not isinstance(session, str) or len(session) > _MAX_SESSION_CHARS):
        raise InvalidInput(
            f"a session must be text of at most {_MAX_SESSION_CHARS} characters; nothing was written"
        )
    if isinstance(session, str) and has_hidden(session):
        raise InvalidInput("a session must not have hidden characters; nothing was written")
    parts = () if derived_from is None else _texts("derived_from", derived_from, _MAX_PARTS_COUNT)
    named = () if sources is None else _texts("sources", sources, _MAX_PARTS_COUNT)
    return {
        "source": checked_source("" if source is None else source),
        "session": session or "",
        "observed_at": None if observed_at is None else _observed(observed_at),
        "derived_from": tuple(dict.fromkeys(parts)),
        "sources": least_trusted_last(map(checked_source, named)),
    }


def _observed(given: object) -> float:
    at = arguments.moment(given)
    if not 0 <= at <= MAX_SAFE_INTEGER:
        raise InvalidInput(
            "observed_at must be a datetime or a number of seconds since 1970; nothing was written"
        )
    return at


def checked_source(source: object) -> str:
    """A source of the documented form, without characters that are not seen.

    Raises:
        InvalidInput: it has another form.
    """
    if not isinstance(source, str) or not _SOURCE.fullmatch(source) or has_hidden(source):
        raise InvalidInput(
            "source must be user, agent, import, tool:<name>, document:<hash>, import:<name>, scene:<name> or empty; "
            "nothing was written"
        )
    return source


def links(connections: object) -> list[str]:
    """The names of memories to connect with, checked but not resolved.

    Raises:
        InvalidInput: `connections` is not a list of texts, or too long.
    """
    return [] if connections is None else _texts("connections", connections, MAX_LINKS_COUNT)


def used_paths(found: object) -> list[str]:
    """The paths of the palace memories among hits and memories, without hits that are far behind the best of them.

    Raises:
        InvalidInput: these are not hits or memories.
    """
    if isinstance(found, str | bytes | BaseModel) or not isinstance(found, Iterable):
        raise InvalidInput("hits or memories must be a list")
    given = list(found)
    if not all(isinstance(item, BaseModel) and hasattr(item, "key") for item in given):
        raise InvalidInput("only hits and memories can be marked as used")
    least = USED_SCORE_SHARE * max((getattr(item, "score", 0.0) for item in given), default=0.0)
    persona = (
        item for item in given if isinstance(item, PersonaMemory) or getattr(item, "kind", "") == "palace"
    )
    return [item.path for item in persona if getattr(item, "score", least) >= least]


def selection(domain: object, facet: object) -> tuple[str | None, str | None]:
    """A domain and a facet to list, in NFC; None means all.

    Raises:
        InvalidAddress: a name is empty or not a text.
    """
    for what, name in (("domain", domain), ("facet", facet)):
        if name is not None and (not isinstance(name, str) or not name):
            raise InvalidAddress(f"a {what} must be a non-empty string, or None for all")
    return (
        unicodedata.normalize("NFC", domain) if isinstance(domain, str) else None,
        unicodedata.normalize("NFC", facet) if isinstance(facet, str) else None,
    )


def quoted(given: object) -> str:
    """A given value for an error message: on one line, and shortened if it is long."""
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
        raise InvalidInput(f"{what} must be between {low:g} and {high:,g}; nothing was written")
    return float(value)


# ── Names ───────────────────────────────────────────────────────────────────────────────
# A name is a path (`domain/facet/key`) or a bare key. Relays are asked before the answer is "there is no memory".


def path_in(catalog: Catalog, name: object) -> str | None:
    """The path of the memory with this path or bare key; None if there is no such memory.

    Raises:
        InvalidAddress: the name is empty or not a text.
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
    """The error for a key that several memories have. It lists their paths, or the first `MAX_CANDIDATES_COUNT`."""
    listed = ", ".join(map(repr, sorted(paths)[:MAX_CANDIDATES_COUNT]))
    more = ", …" if len(paths) > MAX_CANDIDATES_COUNT else ""
    return InvalidInput(f"several memories have the key {quoted(key)}; give the path: {listed}{more}")


def path_to(name: str) -> str:
    """The path that a name means, for a memory that need not exist yet.

    Raises:
        InvalidInput: the name is a bare key, which no memory has.
        InvalidAddress: the name is a path that breaks the naming rules.
    """
    parts = address.persona_name(name).split("/")
    if len(parts) != 3:
        raise InvalidInput(f"there is no memory {quoted(name)} to connect with; nothing was written")
    return address.persona_path(*parts).removeprefix(address.PERSONA)


class NameResolver:
    """Resolves the names of memories to paths.

    Args:
        palace: the memories.
        ask: asks the relays, see `Replication.ask`; returns whether a relay was asked. Its argument is the beginning of
            the sentence of `NotSynced`, such as "this memory is".
    """

    def __init__(self, palace: Palace, ask: Callable[[str], Awaitable[bool]]) -> None:
        self._palace, self._ask = palace, ask

    async def catalog(self, found: Callable[[Catalog], object] = len, what: str = "memories are") -> Catalog:
        """The current catalog; relays are asked if the ledger does not hold what the caller looks for.

        Args:
            found: looks in a catalog; a false value means that nothing was found.
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
