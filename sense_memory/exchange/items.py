"""What readers of foreign formats give: items, each with the file and the line that it came from, and problems.

Readers are pure: bytes in, a `ReaderResult` out. Nothing here knows a store; `import_plan.py` compares items with one.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import orjson

from sense_memory.limits import MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_THEMES_COUNT
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TEXT_BYTES: Final = 36_000  # of JSON in one text; the rest of 40,960 is for a memory's other fields
_MAX_SOURCE_CHARS: Final = 180  # of the 200 that a source may have after its kind
_SLUG_CHARS: Final = 48
_KEY_WORDS: Final = 6  # of a text that has no name of its own


class ItemKind(StrEnum):
    """What an item becomes."""

    PALACE = "palace"
    FLAT = "flat"
    JOURNAL = "journal"
    LOG = "log"  # an entry of the mind's log: a message of a conversation, or another
    MIND = "mind"  # a record of the mind: a block, a passage, a topic, the identity, an objective


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to import.

    Attributes:
        kind: what it becomes.
        path: `domain/facet/key`, a flat key, the id of a conversation, the path of a record; empty for a journal entry.
        text: word for word.
        file: where it came from, as people name the file.
        line: the first line there, from 1; the number of the object where lines mean nothing.
        at: when it was written, seconds since 1970; None if unknown.
        origin: names it for later imports, such as `document:notes/MEMORY.md#L12` or `tool:mem0/ID`; empty if none.
        fields: what else belongs to it, by the names of `persona_remember_many`, of `NewEntry`, or of the record.
        seen: `fingerprint` of the text when it was exported from a store; empty for foreign formats.
        has_name: whether the file gives the name itself, so that the same name means the same memory.
    """

    kind: ItemKind
    path: str
    text: str = field(repr=False)
    file: str
    line: int
    at: float | None = None
    origin: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seen: str = ""
    has_name: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was not taken.

    Attributes:
        file: where.
        line: the line, or the number of the object; 0 for the whole file.
        reason: why, in our words.
    """

    file: str
    line: int
    reason: str


@dataclass(slots=True)
class ReaderResult:
    """What a reader found.

    Attributes:
        format: the name of the format, for people.
        items: in the order of the source.
        problems: what could not be taken, although it looks as if it should.
        left_out: what is not a memory, counted by reason.
        notes: sentences for the plan, such as how names were chosen.
    """

    format: str
    items: list[Item] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, other: ReaderResult) -> None:
        """Take over what another reader found."""
        self.items += other.items
        self.problems += other.problems
        self.left_out.update(other.left_out)
        self.notes += [note for note in other.notes if note not in self.notes]


def fingerprint(text: str) -> str:
    """Names a text, to tell whether it changed since an export: 16 hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def document(file: str, line: int) -> str:
    """The origin of a line of a file, as a memory's `source`: `document:notes/MEMORY.md#L12`."""
    name = quote(file, safe="/._-~+@()!',=")
    if len(name) > _MAX_SOURCE_CHARS:
        name = f"~{hashlib.sha256(name.encode()).hexdigest()[:16]}/{name[-100:]}"
    return f"document:{name}#L{line}"


def document_of(origin: str) -> str:
    """The file in an origin, without the line; empty where the origin is not a file."""
    return origin.partition("#L")[0] if origin.startswith("document:") else ""


def tool(name: str, ident: str) -> str:
    """The origin of an object of another program: `tool:mem0/ID`."""
    plain = quote(ident, safe="/._-:@")
    if len(plain) > _MAX_SOURCE_CHARS - len(name):
        plain = hashlib.sha256(plain.encode()).hexdigest()[:32]
    return f"tool:{name}/{plain}"


# ── Names ───────────────────────────────────────────────────────────────────────────────

_words = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*").findall
_unfit = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+").sub


def slug(text: str, most: int = _SLUG_CHARS) -> str:
    """A text as a name: lower case, words joined by hyphens; a hash where the text has no words.

    >>> slug("Préférences & habits!")
    'préférences-habits'
    """
    found = "-".join(_words(unicodedata.normalize("NFC", text).lower()))
    if len(found) > most:
        cut = found[: most + 1].rpartition("-")[0]
        found = cut if len(cut) > most // 2 else found[:most]
    return found or f"note-{fingerprint(text)[:8]}"


def key_of(text: str) -> str:
    """A key for a text without a name: its first words."""
    return slug(" ".join(_words(text)[:_KEY_WORDS]) or text)


def name_of(text: str, most: int = MAX_KEY_CHARS) -> str:
    """A name as it was given, without what no address can hold."""
    found = _unfit("-", unicodedata.normalize("NFC", text)).replace("..", "…").strip().lstrip("~").strip()
    return found[:most].strip() or f"note-{fingerprint(text)[:8]}"


def place_of(text: str) -> str:
    """A domain or a facet from a name of another program."""
    found = slug(text, MAX_NAME_CHARS)
    return "notes" if found == address.RESERVED_DOMAIN else found


def themes_of(names: Iterable[str]) -> tuple[str, ...]:
    """Names as themes, each once; long ones are cut, and at most 64 are kept."""
    found = dict.fromkeys(name.strip()[:MAX_NAME_CHARS].strip() for name in names)
    return tuple(name for name in found if name)[:MAX_THEMES_COUNT]


# ── Times ───────────────────────────────────────────────────────────────────────────────

_MILLISECONDS: Final = 1e11  # a larger number is in milliseconds
_day = re.compile(r"(?<!\d)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?!\d)").search
_NOON: Final = 12 * 3_600


def time_of(given: object) -> float | None:
    """Seconds since 1970 of a time as files have it: a number (also in milliseconds) or ISO 8601; None if it is none.

    A date without a time means noon, and a time without a zone means UTC, so that every machine reads the same.
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
    """Noon of the day in a file's name, such as `2026-11-20-standup.md`; None if there is none."""
    found = _day(name)
    return None if found is None else time_of("-".join(found.groups()))


# ── Texts that are too long ─────────────────────────────────────────────────────────────


def parts_of(text: str, most: int = MAX_TEXT_BYTES) -> list[str]:
    """A text in parts that fit an event each; together they are the text, word for word.

    Parts end after a paragraph where possible, else after a line, else anywhere.
    """
    parts, start = list[str](), 0
    while len(text) - start > most or _size(text[start:]) > most:
        head = text[start : start + _fitting(text[start : start + most], most)]
        for end in ("\n\n", "\n", " "):
            place = head.rfind(end)
            if place > len(head) // 2:
                head = head[: place + len(end)]
                break
        parts.append(head)
        start += len(head)
    parts.append(text[start:])
    return _not_blank(parts)


def _fitting(text: str, most: int) -> int:
    """The largest number of characters whose JSON fits, by halving."""
    low, high = 1, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= most else (low, middle - 1)
    return low


def _size(text: str) -> int:
    try:
        return len(orjson.dumps(text))
    except orjson.JSONEncodeError:
        return 6 * len(text)  # lone surrogates; refused later, with a reason


def _not_blank(parts: Sequence[str]) -> list[str]:
    """The parts, with a blank one joined to its neighbour: a memory must not be blank."""
    found: list[str] = []
    for part in parts:
        if found and (not part.strip() or not found[-1].strip()):
            found[-1] += part
        else:
            found.append(part)
    return found
