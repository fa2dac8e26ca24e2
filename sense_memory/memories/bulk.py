"""Bulk writes: many items, checked all, then written in batches, each whole or not at all.

Every call that takes many memories writes them with `write_batches`: flat and palace memories, the journal, forgetting, and
the accesses of memories. If an item cannot be written, the error names it by its number before anything is written.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sense_memory import arguments
from sense_memory.errors import ClockSkewError, InvalidInput, NeedsNewerVersion, TooLargeError
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FUTURE_SECONDS, MAX_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.plain_text import printable
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from sense_memory.records.envelope import Record

_T = TypeVar("_T")
_Made = TypeVar("_Made")
_KEY_CHARS: Final = 80  # of a key in an error


def batches(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """The items in batches of a size; the last one may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))


async def write_batches(
    given: Iterable[Sequence[_T]],
    write: Callable[[Sequence[_T]], Awaitable[Iterable[_Made]]],
    written: Callable[[int], None] | None = None,
) -> list[_Made]:
    """Write batches one after the other; returns what was made of all items, in order.

    Batches before one that fails stay written.

    Args:
        given: the batches.
        write: writes one batch whole or not at all, and returns what it made of each item.
        written: called after each batch with the number of results so far.
    """
    made: list[_Made] = []
    for batch in given:
        made += await write(batch)
        if written is not None:
            written(len(made))
        await asyncio.sleep(0)  # a local signer never awaits, and other tasks need a turn
    return made


@dataclass(slots=True)
class BulkEntry:
    """One memory of a bulk write.

    Attributes:
        number: the number of the last pair with its key, counted from 1.
        record: the record to write.
    """

    number: int
    record: Record


class BulkWrite:
    """The pairs of one bulk write, and the record for each key.

    Args:
        now: seconds since 1970.
        created_at: the time of values that are given without a time.
    """

    def __init__(self, now: float, created_at: float) -> None:
        self._now, self._created_at = now, created_at
        self._entries: dict[str, BulkEntry] = {}  # by path, in the order in which the keys were first given
        self._paths: list[str] = []  # the path of each pair

    def add(self, item: object) -> None:
        """Add a pair.

        Raises:
            InvalidInput: `item` is not a pair, its key breaks the naming rules, or its value is blank or not a text.
        """
        number = len(self._paths) + 1
        with numbered_errors(number, item):
            key, value, *times = _pair(item)
            at = arguments.written_at(times[0], self._now) if times else self._created_at
            record = envelope.flat(key, arguments.value(value), at)
        self._paths.append(record.path)
        self._entries[record.path] = BulkEntry(number, record)  # an existing entry keeps its place

    async def prepare(self, carry_over: Callable[[Record], Awaitable[Record]]) -> None:
        """Complete each record with `carry_over`, and check that the record fits an event.

        Raises:
            TooLargeError: a record does not fit an event.
            NeedsNewerVersion: a newer sense-memory wrote the head of a key.
        """
        for entry in self._entries.values():
            with numbered_errors(entry.number, (entry.record.path,)):
                entry.record = await carry_over(entry.record)
                if (size := envelope.plaintext_bytes(entry.record)) > MAX_PLAINTEXT_BYTES:
                    raise TooLargeError(size, MAX_PLAINTEXT_BYTES)

    @property
    def records(self) -> list[Record]:
        """The records to write."""
        return [entry.record for entry in self._entries.values()]

    def batches(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[Sequence[BulkEntry]]:
        """The memories in batches; each batch is written whole or not at all.

        If the clock does not allow one of the memories to be written, all memories are one batch: its write fails, and
        keeps all texts as drafts.

        Args:
            marks: gives the newest second ever seen at each of some slots.
        """
        entries = list(self._entries.values())
        return batches(entries, max(len(entries), 1) if self._ahead(marks) else APPLY_BATCH_COUNT)

    @contextmanager
    def name_entry_in_error(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[None]:
        """Name the entry in a `ClockSkewError`."""
        try:
            yield
        except ClockSkewError as error:
            if (entry := self._ahead(marks)) is not None:
                error.args = (_of_entry(entry.number, entry.record.path, str(error)),)
            raise

    def ids(self, written: Sequence[str]) -> list[str]:
        """For each pair, the id of the event that holds its key, from the ids of all memories in their order."""
        ids = dict(zip(self._entries, written, strict=True))
        return [ids[path] for path in self._paths]

    def _ahead(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> BulkEntry | None:
        """The first memory whose newest version is further in the future than any clock may be wrong."""
        latest = int(self._now) + MAX_FUTURE_SECONDS
        slots = {address.d_tag(path): path for path in self._entries}
        ahead = {slots[slot] for slot, mark in marks(slots).items() if mark > latest}
        return next((entry for path, entry in self._entries.items() if path in ahead), None)


def _pair(item: object) -> Sequence[Any]:
    """Check that an item is a key and a value, with or without a time. A text of two characters is not a pair."""
    if not isinstance(item, tuple | list) or len(item) not in {2, 3}:
        raise InvalidInput("it must be a pair of key and value, or key, value and a time")
    return item


@contextmanager
def numbered_errors(number: int, item: object) -> Iterator[None]:
    """Name an entry of a bulk write in its error, by number (counted from 1) and key, the first part of `item`."""
    try:
        yield
    except (InvalidInput, NeedsNewerVersion) as error:
        key = item[0] if isinstance(item, tuple | list) and item else None
        error.args = (_of_entry(number, key, str(error)),)
        raise


def _of_entry(number: int, key: object, problem: str) -> str:
    name = f" ({printable(repr(key), _KEY_CHARS)})" if isinstance(key, str) else ""
    sentence = problem if "nothing was" in problem else f"{problem}; nothing was written"
    return f"entry {number}{name}: {sentence}"
