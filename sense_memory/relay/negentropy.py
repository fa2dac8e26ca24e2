"""Negentropy, protocol version 1 (NIP-77): which events does only one of two sides have?

Each side keeps its events as (created_at, id) pairs in order, and says something about every range of that
order: a fingerprint of the ids in it, or the ids themselves, or nothing. Ranges whose fingerprints differ
are cut into smaller ones, until few ids are left and are listed.

Bytes in, bytes out: no frames, no hex, no I/O, no clock. Whatever a peer sends raises `MalformedFrame` at
worst; a message costs time and memory in proportion to its length and the own items, and the rounds are counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, islice
from math import inf
from operator import eq
from typing import TYPE_CHECKING, Final

from sense_memory.errors import MalformedFrame
from sense_memory.relay import ranges
from sense_memory.relay.ranges import FINGERPRINT_BYTES, ID_BYTES, INFINITY, encode_number


if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from sense_memory.relay.ranges import Bound, Range, Writer

FRAME_BYTES: Final = 60_000  # twice that in hex stays below the 131,072 that strfry takes
MIN_FRAME_BYTES: Final = 4_096  # below it a range of 31 ids might not fit, and no round would get further
MAX_ROUNDS_COUNT: Final = 1_000  # 50,000 differences scattered over 100,000 events take 106
MAX_NEED_COUNT: Final = 250_000  # ids that a relay may claim to have; some 40 MB

_BUCKETS_COUNT: Final = 16  # a range that differs is cut into this many, as the reference does
_FEW_COUNT: Final = 2 * _BUCKETS_COUNT  # and listed below this many
# Our initiator differs from the reference, which any responder understands, to send less: it begins with fewer
# fingerprints, because sets tend to be in step; it cuts the last ranges so that ids and fingerprints weigh the
# same; and it never lists ids, because a responder whose range differs lists its own anyway. On 10,000 a sync
# in step costs 250 bytes less, and 100 scattered differences 83 KB in hex instead of 94.
_FIRST_COUNT: Final = 10
_LAST_COUNT: Final = 100  # a range of at most so many items is cut for the last time
_LEAF_COUNT: Final = 6  # into pieces of so many


class Items:
    """One side's events, in the order of the protocol; never changes.

    Args:
        pairs: (created_at in seconds, id of 32 bytes), in any order; the same pair may come twice.

    Raises:
        ValueError: an id of another length, or a time outside 0 … 2^64 - 2.
    """

    def __init__(self, pairs: Iterable[tuple[int, bytes]]) -> None:
        ordered = sorted(pairs)  # first: pairs from an index are nearly in order, and a set would undo that
        if any(map(eq, ordered, islice(ordered, 1, None))):
            ordered = list(dict.fromkeys(ordered))
        if not {len(ident) for _, ident in ordered} <= {ID_BYTES}:
            raise ValueError(f"an event id has {ID_BYTES} bytes")
        if ordered and not 0 <= ordered[0][0] <= ordered[-1][0] < INFINITY:
            raise ValueError("a time has 64 bits")
        self._pairs = ordered
        # Sums from the start make the sum of any range one subtraction.
        self._sums = [0, *accumulate(int.from_bytes(ident, "little") for _, ident in self._pairs)]

    def __len__(self) -> int:
        return len(self._pairs)

    def latest(self, but: Container[bytes] = (), *, until: float = inf) -> int:
        """The time of the last item that is not among some ids, nor later than `until`; 0 where there is none."""
        return next((time for time, ident in reversed(self._pairs) if time <= until and ident not in but), 0)

    def index(self, bound: Bound, start: int = 0) -> int:
        """How many items lie before a bound, given that the first `start` do."""
        return bisect_left(self._pairs, bound, start)

    def ids(self, start: int, end: int) -> list[bytes]:
        """The ids of a range of items."""
        return [ident for _, ident in self._pairs[start:end]]

    def ids_but(self, but: Container[bytes]) -> list[bytes]:
        """The ids of all items that are not among some."""
        return [ident for _, ident in self._pairs if ident not in but]

    def fingerprint(self, start: int, end: int) -> bytes:
        """The 16 bytes that stand for a range of items."""
        total = (self._sums[end] - self._sums[start]) % 2**256
        return sha256(total.to_bytes(32, "little") + encode_number(end - start)).digest()[:FINGERPRINT_BYTES]

    def bound_before(self, index: int) -> Bound:
        """The shortest bound between an item and the one before it."""
        (earlier, before), (time, ident) = self._pairs[index - 1], self._pairs[index]
        if earlier != time:
            return time, b""
        common = next(at for at, (one, other) in enumerate(zip(before, ident, strict=True)) if one != other)
        return time, ident[: common + 1]


@dataclass(frozen=True, slots=True)
class Step:
    """What the initiator learned from one answer, and what it says next.

    Attributes:
        message: to send to the responder; None when nothing is left to compare.
        have: ids that only this side has; each is told once, in one of the steps.
        need: ids that the other side says only it has; each is told once. They may be lies.
    """

    message: bytes | None
    have: tuple[bytes, ...]
    need: tuple[bytes, ...]


class _Side(ABC):
    """What both sides do with a message: answer it range by range, as far as the frame goes.

    Args:
        items: this side's events.
        frame_bytes: no message of ours gets longer, at least 4,096; hex on the wire doubles it.

    Raises:
        ValueError: too small a frame.
    """

    def __init__(self, items: Items, frame_bytes: int = FRAME_BYTES) -> None:
        if frame_bytes < MIN_FRAME_BYTES:
            raise ValueError(f"a negentropy message needs room for {MIN_FRAME_BYTES:,} bytes")
        self._items, self._frame_bytes = items, frame_bytes

    def _answer(self, message: bytes) -> bytes:
        items, out, start = self._items, ranges.Writer(self._frame_bytes), 0
        for part in ranges.read(message):
            end, fits = items.index(part.upper, start), True
            if part.mode == ranges.IDS:
                fits = self._compare(part, start, end, out)
            elif part.mode == ranges.FINGERPRINT and part.body != items.fingerprint(start, end):
                fits = self._split(part.upper, start, end, out)
            else:
                out.skip(part.upper)
            if not fits:
                # The next round goes on from here: this fingerprint covers exactly what was not answered.
                out.put_rest(items.fingerprint(items.index(out.at), len(items)))
                break
            start = end
        return out.message()

    def _cut(self, upper: Bound, start: int, end: int, pieces: int, out: Writer) -> bool:
        """Describe a range by the fingerprints of its pieces. Whether all of that found room."""
        begin, count = start, end - start
        for piece in range(1, pieces + 1):
            stop = start + count * piece // pieces
            bound = upper if stop == end else self._items.bound_before(stop)
            if not out.put_fingerprint(bound, self._items.fingerprint(begin, stop)):
                return False
            begin = stop
        return True

    @abstractmethod
    def _split(self, upper: Bound, start: int, end: int, out: Writer) -> bool:
        """Describe a range that differs more closely. Whether all of that found room."""

    @abstractmethod
    def _compare(self, part: Range, start: int, end: int, out: Writer) -> bool:
        """React to the other side's ids in a range. Whether the whole answer found room."""


class Initiator(_Side):
    """The side that asks, and learns the differences (a client, towards a relay).

    Send `first()`, hand each answer to `reconcile`, send the message of its step, until that is None.

    Args:
        items: this side's events.
        frame_bytes: no message of ours gets longer, at least 4,096; the responder has its own limit.
        max_rounds: answers that are read; an honest responder needs two or three per frame full of ids.
        max_need: ids that the responder may claim to have, in all.

    Raises:
        ValueError: too small a frame.
    """

    def __init__(
        self,
        items: Items,
        frame_bytes: int = FRAME_BYTES,
        *,
        max_rounds: int = MAX_ROUNDS_COUNT,
        max_need: int = MAX_NEED_COUNT,
    ) -> None:
        super().__init__(items, frame_bytes)
        self._rounds_left, self._max_need = max_rounds, max_need
        # Dicts as sets in order, over all steps: a frame that was cut short makes ranges come up again.
        self._have: dict[bytes, None] = {}
        self._need: dict[bytes, None] = {}

    def first(self) -> bytes:
        """The message that opens the conversation."""
        out, count = ranges.Writer(self._frame_bytes), len(self._items)
        if count < _FEW_COUNT:
            self._split(ranges.END, 0, count, out)
        else:
            self._cut(ranges.END, 0, count, _FIRST_COUNT, out)
        return out.message()

    def reconcile(self, message: bytes) -> Step:
        """Read one answer.

        Raises:
            MalformedFrame: not a message of version 1, or more rounds or ids than allowed. What earlier
                steps told stands; this conversation is over.
        """
        if self._rounds_left == 0:
            raise MalformedFrame("a negentropy conversation that does not come to an end")
        self._rounds_left -= 1
        had, needed = len(self._have), len(self._need)
        answer = self._answer(message)
        return Step(
            message=answer if len(answer) > 1 else None,
            have=tuple(self._have)[had:],
            need=tuple(self._need)[needed:],
        )

    def _split(self, upper: Bound, start: int, end: int, out: Writer) -> bool:
        count = end - start
        if not count:
            return out.put_ids(upper, [])
        if count < _FEW_COUNT:
            return out.put_fingerprint(upper, self._items.fingerprint(start, end))
        pieces = _BUCKETS_COUNT if count > _LAST_COUNT else count // _LEAF_COUNT
        return self._cut(upper, start, end, pieces, out)

    def _compare(self, part: Range, start: int, end: int, out: Writer) -> bool:
        ours, theirs = dict.fromkeys(self._items.ids(start, end)), dict.fromkeys(part.ids())
        self._have.update((ident, None) for ident in ours if ident not in theirs)
        self._need.update((ident, None) for ident in theirs if ident not in ours)
        if len(self._need) > self._max_need:
            raise MalformedFrame(f"a relay that claims more than {self._max_need:,} unknown events")
        out.skip(part.upper)
        return True


class Responder(_Side):
    """The side that answers, and learns nothing (a relay). It keeps no state between messages.

    Args:
        items: this side's events that match the filter.
        frame_bytes: no answer gets longer, at least 4,096.

    Raises:
        ValueError: too small a frame.
    """

    def reply(self, message: bytes) -> bytes:
        """The answer to one message; to one of another version, the byte of the version we speak.

        Raises:
            MalformedFrame: not a message of the protocol.
        """
        if message and message[0] != ranges.VERSION and message[0] in ranges.VERSIONS:
            return bytes([ranges.VERSION])
        return self._answer(message)

    def _split(self, upper: Bound, start: int, end: int, out: Writer) -> bool:
        if end - start < _FEW_COUNT:
            return out.put_ids(upper, self._items.ids(start, end))
        return self._cut(upper, start, end, _BUCKETS_COUNT, out)

    def _compare(self, part: Range, start: int, end: int, out: Writer) -> bool:
        stop = min(end, start + out.room_for_ids())
        if stop == end:
            return out.put_ids(part.upper, self._items.ids(start, end))
        if stop > start:
            out.put_ids(self._items.bound_before(stop), self._items.ids(start, stop))
        return False
