"""What a ledger lists in a manifest, and how another ledger is compared with such a list. No decryption.

A list has one line for each slot that a restore should bring: every head that the user has and that some relay has accepted
or shown (elsewhere, unless every relay is on this machine), and every deletion. Manifests themselves are not listed. A line is a statement that stays true: "at this slot
there was a version (or a deletion) of this second". So an old list is as true as a new one, lists may be joined, and the
pages of two lists may be mixed.

Guaranteed: a ledger that has seen everything that a list names, or anything newer at the same slots, lacks nothing
(no false alarm). A ledger that lacks a listed version and has nothing newer at its slot is told so (no silence).

Why it is safe: a slot's mark never goes back, and every deletion that reaches a slot moves the mark or is in the table of
deletions. Newer edits, moves, conflict copies and later deletions raise the mark; what arrives late is in no list.
A version that no relay ever took is not listed, because nobody could withhold it.

Cost: 14 bytes for each slot; one pass over the slots, with a hash of each.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.ledger.heads import beneath
from sense_memory.ledger.roles import IS_LIVE, IS_TOMBSTONE
from sense_memory.ledger.schema import HELD
from sense_memory.limits import MAX_FUTURE_SECONDS
from sense_memory.nostr import address
from sense_memory.nostr.event import wins_over
from sense_memory.nostr.relay_url import is_local


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sense_memory.ledger.database import Database

MANIFESTS: Final = address.PREFIX + address.DEVICE  # prefix of the slots that are never listed
LINES_COUNT: Final = 400  # lines of a page, on average: few, because one changed line writes the page again
MAX_LINES_COUNT: Final = 540  # of a page; its event then fits into the 16 KiB that the strictest relays take
_LINE: Final = struct.Struct(">6sI4s")
_GONE: Final = b"\xff" * 4  # in place of an id: the slot was deleted
_UNNAMED: Final = b"\0" * 4  # in place of an id: the mark is later than the head, so the id says nothing
_LAST_SECOND: Final = 2**32 - 1

_HEADS: Final = (
    f"SELECT s.slot, s.mark_at, e.created_at, e.id, e.{IS_LIVE}, "
    f"EXISTS (SELECT 1 FROM outbox o WHERE o.event = s.head AND o.state IN {HELD} "
    "AND o.relay IN (SELECT value FROM json_each(?3))) "
    "FROM slots s LEFT JOIN events e ON e.seq = s.head "
    f"WHERE NOT (s.slot >= ?1 AND s.slot < ?2) AND (e.seq IS NULL OR e.{IS_LIVE} OR e.{IS_TOMBSTONE})"
)
_NEVER_LISTED: Final = (MANIFESTS, address.PREFIX + address.EMBEDDING)  # vectors can be made again


class ListedSlot(NamedTuple):
    """One line of a list.

    Attributes:
        key: the slot, as the first 6 bytes of the SHA-256 of its name.
        second: the newest second at the slot, seconds since 1970.
        ident: the first 4 bytes of the head's id, or `_GONE`, or `_UNNAMED`.
    """

    key: bytes
    second: int
    ident: bytes

    @property
    def is_gone(self) -> bool:
        """Whether the slot was deleted."""
        return self.ident == _GONE


class ListedState(NamedTuple):
    """A slot of this ledger.

    Attributes:
        mark: the newest second seen there, deletions included.
        is_live: whether it has a memory.
        created_at: the second of its head; 0 if it has none.
        ident: id of its head, 32 bytes; empty if it has none.
        is_held: whether a relay has accepted or shown the head.
    """

    mark: int
    is_live: bool = False
    created_at: int = 0
    ident: bytes = b""
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class ManifestList:
    """A whole list.

    Attributes:
        lines: one for each slot, in no order.
        heads: how many lines are of memories that are there, not of deletions.
        digest: SHA-256 over the heads: for each, in the order of the slots' names as UTF-8, the name, a zero byte and the
            32 bytes of the event's id. 64 hex digits.
    """

    lines: tuple[ListedSlot, ...]
    heads: int
    digest: str

    def pages(self) -> list[bytes]:
        """The lines as pages of bytes, each in order; a slot's page follows from its key alone."""
        count = 1  # a power of two, so that it seldom changes, and with it every page
        while len(self.lines) > count * LINES_COUNT or max(map(len, self._in_pages(count))) > MAX_LINES_COUNT:
            count *= 2
        return [b"".join(_LINE.pack(*line) for line in sorted(page)) for page in self._in_pages(count)]

    def _in_pages(self, count: int) -> list[list[ListedSlot]]:
        found: list[list[ListedSlot]] = [[] for _ in range(count)]
        for line in self.lines:
            found[int.from_bytes(line.key[:4]) % count].append(line)
        return found


def lines_of(page: bytes) -> Iterator[ListedSlot]:
    """The lines of a page; bytes after the last whole line are ignored."""
    whole = len(page) - len(page) % _LINE.size
    return (ListedSlot(*found) for found in _LINE.iter_unpack(page[:whole]))


def key_of(slot: str) -> bytes:
    """The key of a slot in a list."""
    return hashlib.sha256(slot.encode("utf-8", "surrogatepass")).digest()[:6]


def slot_states(db: Database) -> dict[str, ListedState]:
    """The state of every slot that a list may name, deleted ones included."""
    relays = db.rows("SELECT relay, url FROM relays")
    elsewhere = [relay for relay, url in relays if not is_local(url)] or [relay for relay, _ in relays]
    found = {
        slot: ListedState(mark, bool(live), at or 0, ident or b"", bool(held))
        for slot, mark, at, ident, live, held in db.rows(_HEADS, *beneath(MANIFESTS), json.dumps(elsewhere))
    }
    for slot, until in db.rows("SELECT target, until FROM deletions"):
        known = found.get(slot)
        if known is not None:
            found[slot] = known._replace(mark=max(known.mark, until))
        elif not slot.startswith(_NEVER_LISTED):
            found[slot] = ListedState(until)
    return found


def listing(states: Mapping[str, ListedState]) -> ManifestList:
    """The list of a ledger, from the states of its slots."""
    digest, heads = hashlib.sha256(), 0
    lines: list[ListedSlot] = []
    for slot, state in sorted(states.items(), key=lambda item: item[0].encode("utf-8", "surrogatepass")):
        if state.is_live and not state.is_held:
            continue  # nobody but this ledger has it
        if state.is_live:
            heads += 1
            digest.update(slot.encode("utf-8", "surrogatepass") + b"\0" + state.ident)
        lines.append(_line(slot, state))
    return ManifestList(tuple(lines), heads, digest.hexdigest())


def _line(slot: str, state: ListedState) -> ListedSlot:
    ident = _GONE
    if state.is_live:
        prefix = state.ident[:4]
        named = state.created_at == state.mark and prefix != _GONE
        ident = prefix if named else _UNNAMED
    return ListedSlot(key_of(slot), min(max(state.mark, 0), _LAST_SECOND), ident)


# ── Comparing ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ListComparison:
    """How this ledger compares with the lists of some manifests.

    Attributes:
        expected: the memories that should be here: named by a list, and deleted neither here nor by a later list.
        missing: of these, those of which nothing is here.
        outdated: of these, those of which only an older version is here.
        undeleted: memories that are here although a list says that they were deleted, and no such deletion is here.
        ahead: memories that are dated too far ahead of this clock to be judged.
        slots: the slots of the expected memories that are here as listed or newer.
    """

    expected: int = 0
    missing: int = 0
    outdated: int = 0
    undeleted: int = 0
    ahead: int = 0
    slots: frozenset[str] = frozenset()

    @property
    def here(self) -> int:
        """How many expected memories are here, as listed or newer."""
        return self.expected - self.missing - self.outdated


def joined(lists: Iterable[Iterable[ListedSlot]]) -> dict[bytes, ListedSlot]:
    """By slot, the latest line of several lists; of two with the same second, the deletion, else the lower id."""
    found: dict[bytes, ListedSlot] = {}
    for lines in lists:
        for line in lines:
            known = found.get(line.key)
            if known is None or _is_later(line, known):
                found[line.key] = line
    return found


def _is_later(line: ListedSlot, known: ListedSlot) -> bool:
    if line.second != known.second:
        return line.second > known.second
    return line.is_gone or (not known.is_gone and line.ident < known.ident)


def compared(
    wanted: Mapping[bytes, ListedSlot], states: Mapping[str, ListedState], now: float
) -> ListComparison:
    """Compare a ledger with what some lists name.

    Args:
        wanted: the joined lines of the lists.
        states: the states of all slots of this ledger.
        now: seconds since 1970; what is dated too far ahead of it is not applied here, and so not judged.
    """
    here = {key_of(slot): (slot, state) for slot, state in states.items()}
    counts = dict.fromkeys(("expected", "missing", "outdated", "undeleted", "ahead"), 0)
    slots = set()
    for key, line in wanted.items():
        slot, state = here.get(key, ("", None))
        found = _judged(line, state, now)
        if found in {"missing", "outdated", "here"}:
            counts["expected"] += 1
        if found == "here":
            slots.add(slot)
        elif found:
            counts[found] += 1
    return ListComparison(**counts, slots=frozenset(slots))


def _judged(line: ListedSlot, state: ListedState | None, now: float) -> str:
    """What a line says about a slot: missing, outdated, undeleted, ahead, here; empty if nothing should be here."""
    is_seen = state is not None and state.mark >= line.second
    if line.is_gone:
        return "" if state is None or is_seen or not state.is_live else "undeleted"
    if not is_seen and line.second > now + MAX_FUTURE_SECONDS:
        return "ahead"
    if state is None or not state.is_live:
        return "" if is_seen else "missing"
    if not is_seen or _loses(line, state):
        return "outdated"
    return "here"


def _loses(line: ListedSlot, state: ListedState) -> bool:
    """Whether the head here is another version of the same second, and the listed version wins over it (NIP-01)."""
    if line.ident == _UNNAMED or not line.second == state.mark == state.created_at:
        return False
    ours = state.ident[:4]
    return ours != line.ident and wins_over(line.second, line.ident.hex(), line.second, ours.hex())
