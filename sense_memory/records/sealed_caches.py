"""Caches encrypted to the agent's own key: search indexes, and the vectors of an embedder."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
import Stemmer

from sense_memory.__about__ import __version__
from sense_memory.errors import BadPayload
from sense_memory.nostr import address
from sense_memory.records.local_cipher import LocalCipher, local_cipher
from sense_memory.search.vectors import rounded


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.caches import Vectors
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.reader import Reader


# ── Indexes ─────────────────────────────────────────────────────────────────────────────
# Indexes that outlive the process: read from the snapshot at a cold start, written to the snapshot when a store closes.
#
# An index is only a cache: an index of another format is rebuilt, and an index that may contain a forgotten word is not
# saved. The index itself does not show this (its vocabulary outlives the memories), so the ledger says whether anything
# was forgotten since the index was built.


_WORD_BYTES: Final = 8
_MARK_BYTES: Final = 8


def made_of(*parts: object) -> str:
    """What an index depends on, apart from the memories: the versions of this package and the stemmer, and `parts`."""
    return " ".join(map(str, (__version__, Stemmer.version(), *parts)))


def mark_of(event_id: bytes) -> int:
    """A short form of an event's id, which distinguishes the events at one address: all are the owner's own."""
    return int.from_bytes(event_id[:_MARK_BYTES], "big")


class CachedIndex(ABC):
    """An index that is kept in the snapshot.

    Args:
        name: the name of the index in the snapshot.
        made: what the index depends on, from the function `made_of`.
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
        """The saved index. Call this once: from now on, the snapshot saves this object instead.

        The call never waits for another process that writes.
        """
        # Before reading, so that whatever is forgotten from here on is noticed.
        self._era = self._ledger.write_now(self._ledger.snapshot.begin_era)
        self._removed = 0 if self._era else self._ledger.snapshot.removed()
        found = await self._reader.saved_extra(self._name, self.made_of)
        self._reader.extras[self._name] = self
        return found

    @abstractmethod
    def __len__(self) -> int: ...

    async def dump(self) -> Sequence[bytes | memoryview] | None:
        """The current index, in pieces; None if something was forgotten since the index was built."""
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


def with_header(known: object, index: Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """An index in pieces, the first of which is a header: as JSON, what the index was made from."""
    header = orjson.dumps(known)
    header += b" " * (-len(header) % _WORD_BYTES)  # arrays are read fastest if they begin at a whole word
    return [len(header).to_bytes(_WORD_BYTES, "big"), header, *index]


def without_header(saved: memoryview) -> tuple[Any, memoryview]:
    """What an index was made from, and the index itself.

    Raises:
        ValueError: `with_header` did not write these bytes.
    """
    end = _WORD_BYTES + int.from_bytes(saved[:_WORD_BYTES], "big")
    return orjson.loads(saved[_WORD_BYTES:end]), saved[end:]


# ── Vectors ─────────────────────────────────────────────────────────────────────────────
# The vector cache: an embedder's vectors of memories, sealed in the ledger, so that no memory is embedded twice.
#
# Vectors reveal much of a text, so they are sealed with a random key, which is itself encrypted to the owner. Each
# row is bound to its slot and its model. Forgetting a memory removes its row. Each row states which version of the
# memory it was made from, so vectors of an older text are never used. Vectors that cannot be opened are computed
# again.


_KEY_TYPE: Final = "sense-memory:vectors-key"
_HEAD: Final = struct.Struct("<16sHI")  # a stamp, the dimension, how many pieces


class VectorSource(NamedTuple):
    """The memory that vectors were made of, and its state at that time.

    Attributes:
        path: the memory's path, as in `envelope.Record`; for a journal entry `journal/` and its event's id.
        slot: the memory's slot in the ledger.
        stamp: identifies the state of the memory; at most 16 characters.
    """

    path: str
    slot: str
    stamp: str

    @property
    def embedding(self) -> str:
        """The slot of the embedding of the memory."""
        return address.d_tag(address.EMBEDDING + self.path)


class MemoryVectors(NamedTuple):
    """An embedder's vectors of one memory.

    Attributes:
        stamp: the stamp of the state that the embedder read; at most 16 characters.
        rows: a vector for each piece of its text.
    """

    stamp: str
    rows: NDArray[Any]


class VectorCache:
    """The vectors that one model made of the memories of a ledger.

    Args:
        signer: the owner, who seals the key.
        vectors: the sealed vectors of the ledger.
        model: the model's name; vectors of different models are never mixed.

    Attributes:
        model: as given.
    """

    def __init__(self, signer: Signer, vectors: Vectors, model: str) -> None:
        self.model = model
        self._signer, self._vectors = signer, vectors
        self._opened: LocalCipher | None = None

    async def find(self, stamps: Mapping[str, str]) -> dict[str, MemoryVectors]:
        """By slot, the vectors of some memories, if they were made of the state with the given stamp."""
        if self._vectors.key is None:
            return {}
        cipher = await self._cipher()
        found = {}
        for slot, body in self._vectors.of(self.model, stamps.keys()):
            try:
                read = _decode(cipher.open(body, slot))
            except (BadPayload, ValueError, struct.error):
                continue
            if read.stamp == stamps[slot]:
                found[slot] = read
        return found

    async def store(self, reads: Mapping[str, MemoryVectors]) -> None:
        """Write the vectors of some memories, by slot.

        Raises:
            LedgerError: the vectors cannot be written; nothing was written.
        """
        cipher = await self._cipher()
        rows = [(slot, cipher.seal(_encode(read), slot)) for slot, read in reads.items()]
        await self._vectors.write(self._vectors.save, self.model, rows)

    async def _cipher(self) -> LocalCipher:
        if self._opened is None:
            try:
                self._opened = await self._load_cipher()
            except BadPayload:
                await self._vectors.write(self._vectors.clear)  # nobody can open the vectors any more
                self._opened = await self._load_cipher()
        return self._opened

    async def _load_cipher(self) -> LocalCipher:
        return await local_cipher(self._signer, self._vectors, _KEY_TYPE, self._vectors.write, self.model)


def _encode(read: MemoryVectors) -> bytes:
    count, dimension = read.rows.shape
    head = _HEAD.pack(read.stamp.encode(), dimension, count)
    return head + rounded(read.rows).astype("<f2").tobytes()


def _decode(text: bytes) -> MemoryVectors:
    stamp, dimension, count = _HEAD.unpack_from(text)
    rows = np.frombuffer(text, "<f2", offset=_HEAD.size).reshape(count, dimension)
    return MemoryVectors(stamp.rstrip(b"\0").decode(), rows)
