"""Many flat memories that are kept with one call: checked as a whole, then written batch by batch.

What cannot be written is named, by its number and its key, before anything is. A key that is given twice means
the last, so each memory gets one version.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import ClockSkewError, InvalidInput, NeedsNewerVersion, TooLargeError
from sense_memory.limits import APPLY_BATCH_COUNT, MAX_FUTURE_SECONDS, MAX_PLAINTEXT_BYTES
from sense_memory.nostr import address
from sense_memory.nostr.verdict import printable
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from sense_memory.records.envelope import Record

_KEY_CHARS: Final = 80  # of a key in an error


@dataclass(slots=True)
class Entry:
    """One memory of many.

    Attributes:
        number: of the last pair with its key, from 1.
        record: what is written.
    """

    number: int
    record: Record


class Bulk:
    """Pairs of key and value, and the memories that they make.

    Args:
        now: seconds since 1970.
    """

    def __init__(self, now: float) -> None:
        self._now = now
        self._entries: dict[str, Entry] = {}  # by path, in the order in which the keys first came
        self._paths: list[str] = []  # of each pair
        self._ids: dict[str, str] = {}  # by path

    def add(self, item: object) -> None:
        """One more pair.

        Raises:
            InvalidInput: it is none, its key breaks the naming rules, or its value is no text.
        """
        number = len(self._paths) + 1
        with _naming(number, item):
            key, value = _pair(item)
            record = envelope.flat(key, value, self._now)
        self._paths.append(record.path)
        self._entries[record.path] = Entry(number, record)  # where it is there, its place stays

    async def prepare(self, carry_over: Callable[[Record], Awaitable[Record]]) -> None:
        """Complete the records with what the versions before hold, and check that they fit.

        Raises:
            TooLargeError: one does not.
            NeedsNewerVersion: a newer sense-memory wrote what is there.
        """
        for entry in self._entries.values():
            with _naming(entry.number, (entry.record.path,)):
                entry.record = await carry_over(entry.record)
                if (size := envelope.plaintext_bytes(entry.record)) > MAX_PLAINTEXT_BYTES:
                    raise TooLargeError(size, MAX_PLAINTEXT_BYTES)

    @property
    def records(self) -> list[Record]:
        """What is written."""
        return [entry.record for entry in self._entries.values()]

    def batches(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[list[Entry]]:
        """The memories in parts that are written whole.

        That is one part where the clock forbids some of it: writing that fails, and keeps all texts as drafts.

        Args:
            marks: of slots, the newest second ever seen at each.
        """
        entries = list(self._entries.values())
        step = max(len(entries), 1) if self._ahead(marks) else APPLY_BATCH_COUNT
        yield from (entries[start : start + step] for start in range(0, len(entries), step))

    @contextmanager
    def naming_what_is_ahead(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Iterator[None]:
        """Have a ClockSkewError say of which entry it is."""
        try:
            yield
        except ClockSkewError as error:
            if (entry := self._ahead(marks)) is not None:
                error.args = (_of_entry(entry.number, entry.record.path, str(error)),)
            raise

    def written(self, entries: Sequence[Entry], ids: Sequence[str]) -> None:
        """Some of them were, as these events."""
        self._ids.update((entry.record.path, ident) for entry, ident in zip(entries, ids, strict=True))

    def ids(self) -> list[str]:
        """For each pair the event that holds its key."""
        return [self._ids[path] for path in self._paths]

    def _ahead(self, marks: Callable[[Iterable[str]], Mapping[str, int]]) -> Entry | None:
        """The first memory of which the newest version is dated further ahead than a clock may be wrong."""
        latest = int(self._now) + MAX_FUTURE_SECONDS
        slots = {address.d_tag(path): path for path in self._entries}
        ahead = {slots[slot] for slot, mark in marks(slots).items() if mark > latest}
        return next((entry for path, entry in self._entries.items() if path in ahead), None)


def _pair(item: object) -> tuple[Any, Any]:
    """A key and a value. A text of two characters is none."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InvalidInput("it must be a pair of key and value")
    return item[0], item[1]


@contextmanager
def _naming(number: int, item: object) -> Iterator[None]:
    """Have an error say of which entry it is."""
    try:
        yield
    except (InvalidInput, NeedsNewerVersion) as error:
        key = item[0] if isinstance(item, tuple | list) and item else None
        error.args = (_of_entry(number, key, str(error)),)
        raise


def _of_entry(number: int, key: object, problem: str) -> str:
    name = f" ({printable(repr(key), _KEY_CHARS)})" if isinstance(key, str) else ""
    told = problem if "nothing was" in problem else f"{problem}; nothing was written"
    return f"entry {number}{name}: {told}"
