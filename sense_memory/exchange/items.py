"""The results of readers: items and problems, each with the file and line where it was found.

A reader gets bytes and returns a `ReaderResult`, without I/O of its own. Nothing in this module knows a store;
`import_plan` compares items with a store.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import orjson

from sense_memory.limits import MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_THEMES_COUNT
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

MAX_TEXT_BYTES: Final = 36_000  # of one text as JSON; the rest of 40,960 is for the memory's other fields
_MAX_SOURCE_CHARS: Final = 180  # of the 200 that a source may have after its kind
_SLUG_CHARS: Final = 48
_FIELD_CHARS: Final = 40  # of the name of a field that is left out, and
_MAX_REASONS: Final = (
    60  # with so many reasons, further fields are counted together: the names come from the file
)
_NO_VALUES: Final[tuple[Any, ...]] = (None, "", 0, False, [], {})
_KEY_WORDS: Final = 6  # words in the key of a text that has no name


class ItemKind(StrEnum):
    """What an item becomes in a store."""

    PALACE = "palace"
    FLAT = "flat"
    JOURNAL = "journal"
    LOG = "log"  # an entry of the mind's log, such as a message of a conversation
    MIND = "mind"  # a record that names its path: a block, a passage, a topic, the identity, an objective


@dataclass(frozen=True, slots=True)
class Item:
    """One memory, entry or record to import.

    Attributes:
        kind: what the item becomes.
        path: `domain/facet/key`, a flat key, the id of a conversation or the path of a record; empty for a journal entry.
        text: the text, word for word.
        file: the file's name for people.
        line: the item's first line in the file, from 1; in JSON that is not in lines, the number of the object.
        at: when the text was written, seconds since 1970; None if unknown.
        origin: how later imports recognise the item, such as `document:notes/MEMORY.md#L12` or `tool:mem0/ID`; empty if
            they cannot.
        fields: further fields, as `persona_remember_many`, `NewEntry` or the record names them.
        exported: the state of the memory when it was exported (see `edited_state`), or the id of a journal entry; empty
            for other programs' formats.
        has_name: whether the file gives the name, so that the same name means the same memory.
    """

    kind: ItemKind
    path: str
    text: str = field(repr=False)
    file: str
    line: int
    at: float | None = None
    origin: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    exported: str = ""
    has_name: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that cannot be imported.

    Attributes:
        file: the file's name for people.
        line: the line, or the number of the object; 0 for the whole file.
        reason: why it cannot be imported, in our words.
    """

    file: str
    line: int
    reason: str


@dataclass(slots=True)
class ReaderResult:
    """What a reader found in files.

    Attributes:
        format: the name of the format, for people.
        items: the items, in the order of the files.
        problems: what cannot be imported, each with the reason.
        left_out: what is not a memory, counted by reason.
        notes: further sentences for people, such as an unusual encoding.
    """

    format: str
    items: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, other: ReaderResult) -> None:
        """Add the result of another reader; the format stays."""
        self.items += other.items
        self.problems += other.problems
        self.left_out.update(other.left_out)
        self.notes += [note for note in other.notes if note not in self.notes]

    def count_unused(self, what: str, found: Mapping[str, Any], used: Container[str]) -> None:
        """Count the fields of an object that hold a value and become nothing here, such as `hall of drawers`.

        Args:
            what: the objects, in the plural.
            found: the object.
            used: the names of the fields that become something.
        """
        for name, value in found.items():
            if name not in used and value not in _NO_VALUES:
                reason = f"{name[:_FIELD_CHARS]} of {what}"
                is_counted = reason in self.left_out or len(self.left_out) < _MAX_REASONS
                self.left_out[reason if is_counted else f"other fields of {what}"] += 1


def fingerprint(text: str) -> str:
    """A hash of a text, 16 hex digits, which shows whether the text changed since an export."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def document_origin(file: str, line: int) -> str:
    """The origin of a line of a file, as a memory's `source`: `document:notes/MEMORY.md#L12`."""
    name = quote(file, safe="/._-~+@()!',=")
    if len(name) > _MAX_SOURCE_CHARS:
        name = f"~{hashlib.sha256(name.encode()).hexdigest()[:16]}/{name[-100:]}"
    return f"document:{name}#L{line}"


def document_of(origin: str) -> str:
    """The origin of a whole file, from the origin of one of its lines; empty if the origin is not a file."""
    return origin.partition("#L")[0] if origin.startswith("document:") else ""


def tool_origin(name: str, ident: str) -> str:
    """The origin of an object of another program: `tool:mem0/ID`."""
    plain = quote(ident, safe="/._-:@")
    if len(plain) > _MAX_SOURCE_CHARS - len(name):
        plain = hashlib.sha256(plain.encode()).hexdigest()[:32]
    return f"tool:{name}/{plain}"


# ── Names ───────────────────────────────────────────────────────────────────────────────

_words = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*").findall
_unfit = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+").sub


def slug(text: str, max_size: int = _SLUG_CHARS) -> str:
    """A text as a name: lower case, words joined by hyphens; a hash if the text has no words.

    >>> slug("Préférences & habits!")
    'préférences-habits'
    """
    found = "-".join(_words(unicodedata.normalize("NFC", text).lower()))
    if len(found) > max_size:
        cut = found[: max_size + 1].rpartition("-")[0]
        found = cut if len(cut) > max_size // 2 else found[:max_size]
    return found or f"note-{fingerprint(text)[:8]}"


def key_of(text: str) -> str:
    """The key of a text without a name: its first six words."""
    return slug(" ".join(_words(text)[:_KEY_WORDS]) or text)


def name_of(text: str, max_size: int = MAX_KEY_CHARS) -> str:
    """A given name, without the characters that an address must not contain."""
    found = _unfit("-", unicodedata.normalize("NFC", text)).replace("..", "…").strip().lstrip("~").strip()
    return found[:max_size].strip() or f"note-{fingerprint(text)[:8]}"


def place_of(text: str) -> str:
    """A name of another program as a domain or a facet."""
    found = slug(text, MAX_NAME_CHARS)
    return "notes" if found == address.RESERVED_DOMAIN else found


def themes_of(names: Iterable[str]) -> tuple[str, ...]:
    """Names as themes, each once; long names are cut, and only the first 64 are used."""
    found = dict.fromkeys(name.strip()[:MAX_NAME_CHARS].strip() for name in names)
    return tuple(name for name in found if name)[:MAX_THEMES_COUNT]


def unfit_themes(names: Sequence[str]) -> list[str]:
    """The names that `themes_of` cuts or leaves out, because they are too long or too many."""
    fitting = {"", *themes_of(names)}
    return [name for name in dict.fromkeys(name.strip() for name in names) if name not in fitting]


class UniquePaths:
    """Assigns a path of its own to each text of a reading, and to equal texts with other themes."""

    def __init__(self) -> None:
        self._texts: set[tuple[str, str, tuple[str, ...]]] = set()
        self._assigned: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last number appended, by path

    def assign(self, path: str, text: str, themes: tuple[str, ...] = ()) -> str:
        """The path, with a number appended if it is taken; empty if the same text with the same themes has it."""
        if (path.casefold(), text, themes) in self._texts:
            return ""
        self._texts.add((path.casefold(), text, themes))
        number, wanted = self._numbers.get(path.casefold(), 1), path
        while wanted.casefold() in self._assigned:
            number += 1
            wanted = f"{path}-{number}"
        self._numbers[path.casefold()] = number
        self._assigned.add(wanted.casefold())
        return wanted


# ── Times ───────────────────────────────────────────────────────────────────────────────

_MILLISECONDS: Final = 1e11  # a larger number is in milliseconds
_day = re.compile(r"(?<!\d)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?!\d)").search
_NOON: Final = 12 * 3_600


def time_of(given: object) -> float | None:
    """Seconds since 1970 of a number (seconds or milliseconds) or an ISO 8601 text; None if the value is not a time.

    A date without a time means noon, and a time without a zone means UTC, so that every machine reads the same time.
    """
    if isinstance(given, str) and re.fullmatch(r"\d{9,13}(?:\.\d+)?", given.strip()):
        given = float(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given) / 1_000 if abs(given) > _MILLISECONDS else float(given)
        return seconds if 0 < seconds < _MILLISECONDS else None
    if not isinstance(given, str):
        return None
    text = given.strip().replace("/", "-") if given[:4].isdigit() else given.strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    seconds = moment.timestamp() + (_NOON if len(text) <= len("2026-01-01") else 0)
    return seconds if seconds > 0 else None


def day_in(name: str) -> float | None:
    """Noon (UTC) of the day in a file name, such as `2026-11-20-standup.md`; None if the name has no day."""
    found = _day(name)
    return None if found is None else time_of("-".join(found.groups()))


# ── Long texts ──────────────────────────────────────────────────────────────────────────


def parts_of(text: str, max_size: int = MAX_TEXT_BYTES) -> list[str]:
    """Split a text into parts that each fit into an event; joined, they are the text word for word.

    A part ends after a paragraph if possible, otherwise after a line, a word, or any character.
    """
    parts, start = list[str](), 0
    while len(text) - start > max_size or _size(text[start:]) > max_size:
        head = text[start : start + _fitting(text[start : start + max_size], max_size)]
        for end in ("\n\n", "\n", " "):
            place = head.rfind(end)
            if place > len(head) // 2:
                head = head[: place + len(end)]
                break
        parts.append(head)
        start += len(head)
    parts.append(text[start:])
    return _not_blank(parts)


def _fitting(text: str, max_size: int) -> int:
    """The largest number of characters whose JSON fits, found by binary search."""
    low, high = 1, min(len(text), max_size)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= max_size else (low, middle - 1)
    return low


def _size(text: str) -> int:
    try:
        return len(orjson.dumps(text))
    except orjson.JSONEncodeError:
        return 6 * len(text)  # a lone surrogate, for which the plan refuses the text


def _not_blank(parts: Sequence[str]) -> list[str]:
    """The parts, with every blank part joined to its neighbour, because a memory must not be blank."""
    found: list[str] = []
    for part in parts:
        if found and (not part.strip() or not found[-1].strip()):
            found[-1] += part
        else:
            found.append(part)
    return found


def split_long_texts(found: Sequence[Item]) -> list[Item]:
    """The items, with texts that are too long for an event split into parts, which are linked to the first part."""
    whole: list[Item] = []
    for item in found:
        parts = (
            parts_of(item.text)
            if not item.exported and item.kind in {ItemKind.PALACE, ItemKind.FLAT}
            else [item.text]
        )
        whole.append(replace(item, text=parts[0]) if len(parts) > 1 else item)
        for number, part in enumerate(parts[1:], 2):
            path, fields = f"{item.path} part {number}", {**item.fields, "connections": (item.path,)}
            whole.append(
                replace(item, path=path, text=part, fields=fields if item.kind is ItemKind.PALACE else {})
            )
    return whole
