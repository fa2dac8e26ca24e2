"""The pages of the log: the union of a page's versions, and the rows inside a page. Pure.

Inside a page, an entry is a row: id, time, kind, actor, turn, conversation, payload, and in a shared log its author's
public key and signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.limits import MAX_PLAINTEXT_BYTES


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAGE_OVERHEAD_BYTES: Final = 200  # the JSON of a page without its entries
NUMBERS: Final = frozenset({int, float})
_MAX_ID_CHARS: Final = 64


@dataclass(slots=True)
class LogPage:
    """The union of the versions of a page that this process has read: rows of entries by `entry_key`, and removed ids."""

    entries: dict[str, list[Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)  # entries that a later page holds: this one was full
    seqs: set[int] = field(default_factory=set)  # the versions that were read
    is_behind: bool = False  # whether the head lacks a part of the union

    def unite(self, entries: Iterable[list[Any]], removed: set[str], moved: set[str]) -> list[str]:
        """Add the contents of a version; returns the ids of entries that are removed by it."""
        self.removed |= removed
        self.moved |= moved
        gone = [ident for ident in self.removed if ident in self.entries]
        self.entries |= {entry_key(row): row for row in entries if entry_key(row) not in self.entries}
        for ident in (self.removed | self.moved) & self.entries.keys():
            del self.entries[ident]
        return gone

    def overflow(self) -> list[list[Any]]:
        """Remove and return the newest entries that do not fit an event after a union; they go to a later page."""
        rows: list[list[Any]] = []
        while self.size() > MAX_PLAINTEXT_BYTES - PAGE_OVERHEAD_BYTES:
            ident, row = self.entries.popitem()
            self.moved.add(ident)
            rows.append(row)
        return rows[::-1]

    def size(self) -> int:
        """The approximate length of the page's JSON, in bytes."""
        return PAGE_OVERHEAD_BYTES + len(orjson.dumps(self.fields()))

    def is_covered_by(self, rows: Iterable[list[Any]], fields: Mapping[str, Any]) -> bool:
        """Whether one version, with these valid rows, contains the whole union."""
        held = {entry_key(row) for row in rows}
        is_held = self.entries.keys() <= held and self.removed <= ids_in(fields, "removed")
        return is_held and held.isdisjoint(self.moved)

    def fields(self) -> dict[str, Any]:
        """The fields of the page's record."""
        moved = {"moved": sorted(self.moved)} if self.moved else {}
        return {"entries": list(self.entries.values()), "removed": sorted(self.removed), **moved}


def entry_key(row: Sequence[Any]) -> str:
    """The key of an entry: its id, and in a shared log also its author, so that no author can take another's id."""
    return str(row[0]) if len(row) == 7 else f"{row[0]}{row[7]}"


def ids_in(fields: Mapping[str, Any], name: str) -> set[str]:
    """The ids in a list of a page; values of other types are left out."""
    return {ident for ident in list_in(fields, name) if isinstance(ident, str)}


def list_in(fields: Mapping[str, Any], name: str) -> list[Any]:
    """A list in a page; empty if another program wrote a value of another type."""
    found = fields.get(name)
    return found if isinstance(found, list) else []


def is_row(row: object) -> bool:
    """Whether a value is a row as this program writes rows; other values are left out."""
    if not isinstance(row, list) or len(row) < 7:
        return False
    ident, at, kind, actor, turn, conversation, payload = row[:7]
    is_named = isinstance(ident, str) and isinstance(kind, str) and isinstance(actor, str)
    is_timed = type(at) in NUMBERS and isfinite(at) and (turn is None or type(turn) is int)
    return (
        is_named
        and is_timed
        and 0 < len(ident) <= _MAX_ID_CHARS
        and (conversation is None or isinstance(conversation, str))
        and isinstance(payload, dict)
        and (len(row) == 7 or all(isinstance(text, str) for text in row[7:]))
    )
