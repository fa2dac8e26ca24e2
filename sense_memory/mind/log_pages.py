"""The pages of the log: the union of a page's versions, and the rows inside a page. Pure.

Inside a page, an entry is a row: id, time, kind, actor, turn, conversation, payload, and in a shared log its author's
public key and signature.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.limits import LOG_PAGE_BYTES, MAX_PLAINTEXT_BYTES
from sense_memory.mind.fields import texts_in
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

PAGE_OVERHEAD_BYTES: Final = 200  # the JSON of a page without its entries
NUMBERS: Final = frozenset({int, float})
_MAX_ID_CHARS: Final = 64
_NUMBER_CHARS: Final = 12  # of a page's number; a member of a scene could use up any range of numbers
_AHEAD_COUNT: Final = 8  # pages dated ahead whose entries are always written again


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
        is_held = self.entries.keys() <= held and self.removed.issubset(texts_in(fields, "removed"))
        return is_held and held.isdisjoint(self.moved)

    def fields(self) -> dict[str, Any]:
        """The fields of the page's record."""
        moved = {"moved": sorted(self.moved)} if self.moved else {}
        return {"entries": list(self.entries.values()), "removed": sorted(self.removed), **moved}


class LogPages:
    """The pages of a log that this process has read.

    Attributes:
        by_slot: the pages.
        removed: the ids that any page lists as removed; no page shows them, because several pages may hold one entry.
    """

    def __init__(self) -> None:
        self.by_slot: dict[str, LogPage] = {}
        self.removed: set[str] = set()

    def at(self, slot: str) -> LogPage:
        """The page at a slot, which is made if it is new."""
        return self.by_slot.setdefault(slot, LogPage())

    def entries(self, without: Collection[str] = ()) -> set[str]:
        """The keys of the entries in all pages, or in all but some."""
        return {key for slot, page in self.by_slot.items() if slot not in without for key in page.entries}

    def holding(self, entry_id: str) -> set[str]:
        """The slots of the pages that hold an entry: two processes may have put it into two pages."""
        return {slot for slot, page in self.by_slot.items() if entry_id in page.entries}

    def only_in(self, slots: Collection[str]) -> list[list[Any]]:
        """The rows that only these pages hold."""
        held = self.entries(without=slots)
        found = {key: row for slot in slots for key, row in self.by_slot[slot].entries.items()}
        return [row for key, row in found.items() if key not in held]

    def remove_from(self, slots: Iterable[str]) -> list[str]:
        """Remove the removed entries from some pages, which are then behind; returns their ids."""
        gone: list[str] = []
        for page in [self.by_slot[slot] for slot in slots if slot in self.by_slot]:
            if found := self.removed & page.entries.keys():
                gone += page.unite([], found, set())
                page.is_behind = True
        return gone

    def close(self, slots: Iterable[str]) -> list[str]:
        """Drop pages that were deleted; returns the keys of the entries that no other page holds."""
        closed = [self.by_slot.pop(slot) for slot in slots if slot in self.by_slot]
        held = self.entries() if closed else set[str]()
        return [key for page in closed for key in page.entries if key not in held]

    def overflow(self, slots: Iterable[str]) -> list[list[Any]]:
        """Take out of some pages the rows that do not fit an event, and return those that no page holds now."""
        over = [row for slot in slots for row in self.by_slot[slot].overflow()]
        held = self.entries() if over else set[str]()
        return [row for row in over if entry_key(row) not in held]

    def place(
        self, rows: Iterable[list[Any]], device: str, ahead: Collection[str], removed: Collection[str] = ()
    ) -> list[str]:
        """Put rows into the last page of a device, and into new pages when it is full; returns the changed slots.

        Args:
            rows: the entries.
            device: the device id.
            ahead: the slots of pages to leave alone.
            removed: ids that the last page is to list as removed.
        """
        prefix = f"{address.LOG_PAGES}{device}-"
        ends = [slot.removeprefix(prefix) for slot in (*self.by_slot, *ahead) if slot.startswith(prefix)]
        numbers = [int(end) for end in ends if end.isascii() and end.isdigit() and len(end) <= _NUMBER_CHARS]
        number, taken = max(numbers, default=0), {*ends}
        page = None if f"{prefix}{number}" in ahead else self.by_slot.get(f"{prefix}{number}")
        size = page.size() if page else LOG_PAGE_BYTES
        changed = []
        for row in rows:
            length = len(orjson.dumps(row)) + 1
            if page is None or size + length > LOG_PAGE_BYTES:
                number, size = _free_after(number, taken), PAGE_OVERHEAD_BYTES
                page = self.by_slot[f"{prefix}{number}"] = LogPage()
            page.entries[entry_key(row)] = row
            page.is_behind = True  # until the page is written: after a failed flush, the next one writes it
            size += length
            changed.append(f"{prefix}{number}")
        if removed:
            changed.append(f"{prefix}{number if page else _free_after(number, taken)}")
            self.at(changed[-1]).removed.update(removed)
        return changed

    def stranded(
        self, ahead: Collection[str], is_own: Callable[[str], bool], untaken: Callable[[], Collection[str]]
    ) -> list[list[Any]]:
        """The rows that only pages dated ahead hold, so that others would not read them before that date.

        If most pages are dated ahead, the clock may be behind rather than the pages ahead. Then relays have taken the
        pages, and only rows of pages that no relay has taken are stranded.

        Args:
            ahead: the slots of pages that are dated too far ahead of the clock to be written.
            is_own: whether a page is of this ledger; another ledger takes care of its own pages.
            untaken: the slots of the pages that wait for relays, and that no relay has taken.
        """
        pages = self.by_slot
        if not ahead:
            return []
        kept = ahead if len(ahead) <= max(_AHEAD_COUNT, len(pages) // 2) else {*ahead} & {*untaken()}
        left = [slot for slot in kept if slot in pages and (pages[slot].is_behind or is_own(slot))]
        held = self.entries(without=ahead)
        found = {key: row for slot in left for key, row in pages[slot].entries.items() if key not in held}
        return list(found.values())


def _free_after(number: int, taken: Collection[str]) -> int:
    """The first number after a number that no page has."""
    number += 1
    while str(number) in taken:
        number += 1
    return number


def entry_key(row: Sequence[Any]) -> str:
    """The key of an entry: its id, and in a shared log also its author, so that no author can take another's id."""
    return str(row[0]) if len(row) == 7 else f"{row[0]}{row[7]}"


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
