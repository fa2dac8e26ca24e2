"""Indexes that outlive the process: read from the snapshot at a cold start, written into it when a store closes.

An index is a cache like everything in the snapshot: an index of another format is built anew, and an index that may
hold a forgotten word is not kept. The index itself does not show this (its vocabulary outlives the memories), so the
ledger says whether anything was forgotten since the index was built.
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
    """What an index depends on, apart from the memories: this version of the package, its stemmer, and more."""
    return " ".join(map(str, (__version__, Stemmer.version(), *parts)))


def mark_of(event_id: bytes) -> int:
    """A part of an event's id that tells it from other events at its address, all of which are the owner's."""
    return int.from_bytes(event_id[:_MARK_BYTES], "big")


class CachedIndex(ABC):
    """An index that is kept in the snapshot.

    Args:
        name: the name of the index in the snapshot.
        made: what the index depends on; see `made_of`.
        ledger: the ledger whose memories are indexed.
        reader: the reader, which has the snapshot.

    Attributes:
        made_of: as `made`.
        unsaved: how many indexed memories were not in the snapshot's index.
    """

    def __init__(self, name: str, made: str, ledger: Ledger, reader: Reader) -> None:
        self.made_of, self.unsaved = made, 0
        self._name, self._ledger, self._reader = name, ledger, reader
        self._era, self._removed = "", 0

    async def saved(self) -> memoryview | None:
        """The saved index; call this once, because this object is saved instead from now on.

        The call never waits for another process that writes.
        """
        # First, so that anything forgotten from here on is noticed.
        self._era = self._ledger.write_now(self._ledger.snapshot.begin_era)
        self._removed = 0 if self._era else self._ledger.snapshot.removed()
        found = await self._reader.saved_extra(self._name, self.made_of)
        self._reader.extras[self._name] = self
        return found

    @abstractmethod
    def __len__(self) -> int: ...

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """The index as of now, in pieces; None if something was forgotten since it was built."""
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
    """The pieces of an index, after a head that says as JSON what the index was made from."""
    head = orjson.dumps(known)
    head += b" " * (-len(head) % _WORD_BYTES)  # arrays are read fastest if they begin at a whole word
    return [len(head).to_bytes(_WORD_BYTES, "big"), head, *index]


def without_head(saved: memoryview) -> tuple[Any, memoryview]:
    """What an index was made from, and the index itself.

    Raises:
        ValueError: `with_head` did not write these bytes.
    """
    end = _WORD_BYTES + int.from_bytes(saved[:_WORD_BYTES], "big")
    return orjson.loads(saved[_WORD_BYTES:end]), saved[end:]
