"""JSON and JSON lines: objects with a text under any usual field name, mem0, and MemPalace's JSON. Pure.

An object with only a key and a value, as `remember --many` reads them, becomes a flat memory. Any other object with a text
becomes a palace memory; its domain, facet, key, themes and date are read from the usual field names.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import items
from sense_memory.exchange.front_matter import texts
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.limits import MAX_HALFLIFE_DAYS, MAX_LINKS_COUNT, MIN_HALFLIFE_DAYS


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TEXTS: Final = ("value", "memory", "content", "text", "fact", "note", "body", "document", "summary", "data")
_KEYS: Final = ("key", "name", "title", "id", "uuid", "slug")
_DOMAINS: Final = ("domain", "wing", "namespace", "collection", "area", "scope")
_FACETS: Final = ("facet", "room", "type", "kind", "category", "section", "topic")
_THEMES: Final = ("themes", "tags", "categories", "labels", "keywords", "topics")
_LINKS: Final = ("connections", "links", "related")
TIMES: Final = (
    "created_at",
    "created",
    "createdAt",
    "filed_at",
    "date",
    "timestamp",
    "time",
    "ts",
    "updated_at",
)
_LISTS: Final = ("memories", "results", "items", "entries", "drawers", "notes", "records", "data", "facts")
_MAX_DEPTH: Final = 3  # of objects around the list of memories

_oddity = re.compile(rb"\bNaN\b|\bInfinity\b|\\u[dD][89a-fA-F]").search


def parsed(raw: bytes) -> tuple[list[tuple[int, Any]], list[tuple[int, str]]]:
    """The objects of JSON or JSON lines, each with its number (line, or place in the list); and the bad lines.

    Raises:
        InvalidInput: the file is a single JSON text that cannot be read.
    """
    bare = raw.strip()
    try:
        whole = _loads(bare)
    except orjson.JSONDecodeError as error:
        if bare[:1] == b"[" or b"\n" not in bare:
            raise InvalidInput(f"is not JSON ({_problem(error)})") from None
    else:
        listed = _listed(whole, 0)
        return list(enumerate(listed if listed is not None else [whole], 1)), []
    return lines_of(raw)


def lines_of(raw: bytes) -> tuple[list[tuple[int, Any]], list[tuple[int, str]]]:
    """The objects of JSON lines, each with its line; and the bad lines, each with the reason."""
    found, bad = list[tuple[int, Any]](), list[tuple[int, str]]()
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found.append((number, _loads(line)))
        except orjson.JSONDecodeError as error:
            bad.append((number, f"is not JSON ({_problem(error)})"))
    return found, bad


def _loads(raw: bytes) -> Any:
    """Parse JSON, and accept two errors of other writers: NaN becomes null, and a lone surrogate becomes U+FFFD.

    Raises:
        orjson.JSONDecodeError: the bytes are not JSON.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if not _oddity(raw):
            raise
        try:
            text = json.dumps(json.loads(raw, parse_constant=lambda _: None), ensure_ascii=False)
        except (ValueError, RecursionError):
            raise error from None
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _problem(error: orjson.JSONDecodeError) -> str:
    """What is wrong, without any of the text."""
    return str(error).partition(":")[0]


def _listed(whole: Any, depth: int) -> list[Any] | None:
    """The list of memories in a file: the file itself, a list under a usual name, or an object of keys and texts."""
    if isinstance(whole, list):
        return whole
    if not isinstance(whole, dict):
        return None
    for name in _LISTS:
        found = whole.get(name)
        if isinstance(found, list) or (isinstance(found, dict) and depth < _MAX_DEPTH):
            inner = _listed(found, depth + 1)
            if inner is not None:
                return inner
    if whole and all(isinstance(value, str) for value in whole.values()) and not _has(whole, TEXTS):
        return [{"key": key, "value": value} for key, value in whole.items()]
    return None


def _has(found: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any(isinstance(found.get(name), str) and found[name].strip() for name in names)


def is_mem0(found: Any) -> bool:
    """Whether an object is a memory in the shape of mem0's `get_all`."""
    return isinstance(found, dict) and isinstance(found.get("memory"), str) and "id" in found


def objects(
    found: list[tuple[int, Any]], bad: list[tuple[int, str]], file: str, format_: str = "JSON"
) -> ReaderResult:
    """Turn objects into items; objects without a text become problems, as do bad lines."""
    reading = ReaderResult(format_, problems=[Problem(file, number, reason) for number, reason in bad])
    names = UniquePaths()
    for number, value in found:
        if isinstance(value, dict) and _has(value, TEXTS):
            for item in _mem0(value, file, number) if is_mem0(value) else _object(value, file, number):
                path = names.assign(item.path, item.text)
                if path:
                    reading.items.append(replace(item, path=path))
                else:
                    reading.left_out["duplicates"] += 1
            continue
        if isinstance(value, str) and value.strip():
            path = names.assign(f"notes/facts/{items.key_of(value)}", value)
            origin = items.document_origin(file, number)
            if path:
                reading.items.append(Item(ItemKind.PALACE, path, value, file, number, None, origin))
            continue
        reading.problems.append(Problem(file, number, "is not an object with a text"))
    return reading


def _mem0(found: Mapping[str, Any], file: str, number: int) -> Iterator[Item]:
    """A memory of mem0. With a user id or without an agent id its domain is `people`, otherwise `self`."""
    given = found.get("metadata")
    metadata: dict[str, Any] = given if isinstance(given, dict) else {}
    kinds = [*texts(found.get("categories")), *_strings(metadata, "category", "type", "topic")]
    domain = "people" if found.get("user_id") or not found.get("agent_id") else "self"
    facet = items.place_of(kinds[0]) if kinds else "facts"
    text = found["memory"]
    extra = [
        f"{name}: {found[name]}" for name in ("user_id", "agent_id", "run_id", "app_id") if found.get(name)
    ]
    extra += [value for value in metadata.values() if isinstance(value, str)]
    times = (time_in(found), time_in(metadata))
    at = next((time for time in times if time is not None), None)
    fields = {"themes": items.themes_of((*kinds, *extra))}
    origin = items.tool_origin("mem0", str(found["id"]))
    yield Item(
        ItemKind.PALACE, f"{domain}/{facet}/{items.key_of(text)}", text, file, number, at, origin, fields
    )


def _object(found: Mapping[str, Any], file: str, number: int) -> Iterator[Item]:
    metadata = found.get("metadata")
    both = {**(metadata if isinstance(metadata, dict) else {}), **found}
    name = next(name for name in TEXTS if isinstance(both.get(name), str) and both[name].strip())
    text, key = both[name], _string(both, *(key for key in _KEYS if key != name))
    domain, facet = _string(both, *_DOMAINS), _string(both, *(what for what in _FACETS if what != name))
    path = both.get("path")
    origin = items.document_origin(file, number)
    if isinstance(path, str) and path.count("/") == 2 and all(part.strip() for part in path.split("/")):
        domain, facet, key = path.split("/")
    elif key and name == "value" and not domain and not facet:
        yield Item(
            ItemKind.FLAT, items.name_of(key), text, file, number, time_in(both), origin, has_name=True
        )
        return
    place = f"{items.place_of(domain or 'notes')}/{items.place_of(facet or 'facts')}"
    fields = _fields(both)
    at = time_in(both)
    full = f"{place}/{items.name_of(key or items.key_of(text))}"
    yield Item(ItemKind.PALACE, full, text, file, number, at, origin, fields, has_name=bool(key))


def _fields(found: Mapping[str, Any]) -> dict[str, Any]:
    themes = [theme for name in _THEMES for theme in texts(found.get(name))]
    links = [link for name in _LINKS for link in texts(found.get(name)) if link.count("/") == 2]
    fields: dict[str, Any] = {
        "themes": items.themes_of(themes),
        "connections": tuple(dict.fromkeys(links))[:MAX_LINKS_COUNT],
    }
    half, sure = found.get("halflife_days"), found.get("confidence")
    if _is_between(half, MIN_HALFLIFE_DAYS, MAX_HALFLIFE_DAYS):
        fields["halflife_days"] = half
    if _is_between(sure, 0, 1):
        fields["confidence"] = sure
    return fields


def _is_between(given: object, low: float, high: float) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and low <= given <= high


def time_in(found: Mapping[str, Any]) -> float | None:
    """The time of an object under any usual name, seconds since 1970; None if there is none."""
    times = (items.time_of(found[name]) for name in TIMES if found.get(name) is not None)
    return next((at for at in times if at is not None), None)


def _string(found: Mapping[str, Any], *names: str) -> str:
    return next(iter(_strings(found, *names)), "")


def _strings(found: Mapping[str, Any], *names: str) -> list[str]:
    values = (found.get(name) for name in names)
    return [
        str(value)
        for value in values
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip()
    ]
