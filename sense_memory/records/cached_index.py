"""Indexes that outlive the process: read from the snapshot at a cold start, written into it when a store closes.

An index is a cache like everything there: one of another format is made anew, and one that may hold a word
of what was forgotten is not kept. That cannot be seen in the index itself (its vocabulary outlives the
memories), so the ledger tells whether anything was forgotten since it was made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import orjson
import Stemmer

from sense_memory.__about__ import __version__


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.records.reader import Reader


_WORD_BYTES: Final = 8
_MARK_BYTES: Final = 8


def made_of(*parts: object) -> str:
    """What an index depends on besides the memories: this version of the package, its stemmer, and more."""
    return " ".join(map(str, (__version__, Stemmer.version(), *parts)))


def mark_of(event_id: bytes) -> int:
    """Enough of an event's id to tell it from others at the same address: all of them are the owner's."""
    return int.from_bytes(event_id[:_MARK_BYTES], "big")


class CachedIndex(ABC):
    """An index that is kept in the snapshot.

    Args:
        name: of it there.
        made: what it depends on; see `made_of`.
        ledger: whose memories are indexed.
        reader: has the snapshot.

    Attributes:
        made_of: as given.
        unsaved: how many memories went into it that it lacked in the snapshot.
    """

    def __init__(self, name: str, made: str, ledger: Ledger, reader: Reader) -> None:
        self.made_of, self.unsaved = made, 0
        self._name, self._ledger, self._reader = name, ledger, reader
        self._era, self._removed = "", 0

    async def saved(self) -> memoryview | None:
        """The index of the last time, to be asked for once; from now on this one is kept instead.

        Nothing waits in here for another process that writes.
        """
        # First: what is forgotten from here on is noticed.
        self._era = self._ledger.write_now(self._ledger.snapshot.begin_era)
        self._removed = 0 if self._era else self._ledger.snapshot.removed()
        found = await self._reader.saved_extra(self._name, self.made_of)
        self._reader.extras[self._name] = self
        return found

    @abstractmethod
    def __len__(self) -> int: ...

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """The index as of now, in pieces; None where something was forgotten since it was made."""
        await self.catch_up()
        file = self._ledger.snapshot
        is_clean = file.era() == self._era if self._era else file.removed() == self._removed
        return self.dumped() if is_clean else None

    @abstractmethod
    async def catch_up(self) -> None:
        """Bring the index up to date."""

    @abstractmethod
    def dumped(self) -> Sequence[bytes | memoryview]:
        """The index as bytes, in pieces."""


def with_head(known: object, index: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """The pieces of an index behind what it was made from, as JSON."""
    head = orjson.dumps(known)
    head += b" " * (-len(head) % _WORD_BYTES)  # arrays are read fastest where they begin at a whole word
    return [len(head).to_bytes(_WORD_BYTES, "big"), head, *index]


def without_head(saved: memoryview) -> tuple[Any, memoryview]:
    """What an index was made from, and the index.

    Raises:
        ValueError: `with_head` did not make it.
    """
    end = _WORD_BYTES + int.from_bytes(saved[:_WORD_BYTES], "big")
    return orjson.loads(saved[_WORD_BYTES:end]), saved[end:]
