"""Front matter: lines of `name: value` between two lines `---` at the beginning of a Markdown file. Pure.

The parser reads the part of YAML that notes use: texts, quoted or not, lists on one line or several, and JSON. It also
returns the lines of every name, so that nothing is lost. The writer writes each value as JSON, which is valid YAML.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.exchange.items import time_of


if TYPE_CHECKING:
    from collections.abc import Mapping

DATES: Final = ("created", "created_at", "date created", "date", "creation date", "timestamp")
CHANGED: Final = ("updated", "updated_at", "modified", "date modified", "last_modified", "last updated")
_MAX_LINES: Final = 2_000  # of front matter; longer text between two lines `---` is no front matter
_FENCE: Final = "---"
_entry = re.compile(r"([A-Za-z_][\w .-]{0,80}?)\s*:(?:[ \t]+(.*))?").fullmatch
_item = re.compile(r"\s*-\s+(.*)").fullmatch


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The front matter of a note, and its text.

    Attributes:
        values: the values by name, in lower case: a text, a list of texts, or any JSON value.
        lines: the unchanged lines of each name.
        body: the text after the front matter, word for word.
        body_line: the line of the file on which the text begins, from 1.
    """

    values: Mapping[str, Any] = field(repr=False)
    lines: Mapping[str, str] = field(repr=False)
    body: str = field(repr=False)
    body_line: int


def split(text: str) -> FrontMatter:
    """Split a note into front matter and text; a note without front matter is all text."""
    first, break_, _ = text.partition("\n")
    if not break_ or first.rstrip() != _FENCE:
        return FrontMatter({}, {}, text, 1)
    place, lines = len(first) + 1, list[str]()
    while len(lines) < _MAX_LINES and place < len(text):
        end = text.find("\n", place)
        line = text[place:] if end < 0 else text[place:end]
        place = len(text) if end < 0 else end + 1
        if line.rstrip() in {_FENCE, "..."}:
            found = _parsed(lines)
            if found is None:
                break
            return FrontMatter(*found, text[place:], len(lines) + 3)
        lines.append(line.removesuffix("\r"))
    return FrontMatter({}, {}, text, 1)


def _parsed(lines: list[str]) -> tuple[dict[str, Any], dict[str, str]] | None:
    """Values and lines by name; None if the lines are text between two rules and no front matter."""
    groups: list[tuple[str, str, list[str]]] = []
    for line in lines:
        found = _entry(line)
        if found is not None:
            groups.append((found[1].strip().lower(), (found[2] or "").strip(), [line]))
        elif groups:
            groups[-1][2].append(line)
        elif line.strip() and not line.startswith("#"):
            return None
    values = {name: _value(first, rest[1:]) for name, first, rest in groups}
    return values, {name: "\n".join(rest) for name, _, rest in groups}


def _value(first: str, rest: list[str]) -> Any:
    if first in {"|", ">", "|-", ">-", "|+", ">+"}:
        return "\n".join(line.strip() for line in rest).strip()
    if not first:
        items = [_item(line) for line in rest]
        return [_scalar(found[1]) for found in items if found] if any(items) else ""
    if first[0] in '["{':
        try:
            return orjson.loads(first)
        except orjson.JSONDecodeError:
            pass
    if first.startswith("[") and first.endswith("]"):
        return [_scalar(part) for part in first[1:-1].split(",") if part.strip()]
    return _scalar(first)


def _scalar(text: str) -> str:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'":
        return bare[1:-1]
    return bare.partition(" #")[0].rstrip()


def texts(value: object) -> list[str]:
    """A value as a list of texts: a list, or a text that is split at commas, or if it has none at blanks."""
    if isinstance(value, str):
        parts = value.split(",") if "," in value else value.split()
        return [part.strip() for part in parts if part.strip()]
    return (
        [str(item) for item in value if isinstance(item, str | int | float)]
        if isinstance(value, list)
        else []
    )


def joined(values: Mapping[str, Any], body: str) -> str:
    """Join front matter and text to a note. `split` returns the text word for word, with one more line break."""
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return "\n".join((_FENCE, *lines, _FENCE, body)) + "\n"


def date_of(values: Mapping[str, Any]) -> float | None:
    """The time when a note was written; None if no value names it."""
    found = (time_of(values[name]) for name in DATES if name in values)
    return next((at for at in found if at is not None), None)


def changed_of(values: Mapping[str, Any]) -> dict[str, float]:
    """The time when a note was last changed, which counts as the last use of its memory."""
    found = (time_of(values[name]) for name in CHANGED if name in values)
    at = next((at for at in found if at is not None), None)
    return {} if at is None else dict.fromkeys(("last_accessed", "last_reinforced", "written_at"), at)
