"""The vector cache: an embedder's vectors of memories, sealed in the ledger, so that no memory is embedded twice.

Vectors reveal much of a text, so they are sealed under a random key, which is itself sealed to the owner; each row is
bound to its slot and its model. Forgetting a memory removes its row. Each row names the state of the memory that it was
made from, so vectors of an older text are never used. Vectors that cannot be opened are made anew.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory.errors import BadPayload
from sense_memory.nostr import address
from sense_memory.search.vectors import rounded


if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sense_memory.ledger.vectors import Vectors
    from sense_memory.nostr.signer import Signer

_KEY_TYPE: Final = "sense-memory:vectors-key"  # what a signer sealed for anything else is no key
_NONCE_BYTES: Final = 12
_HEAD: Final = struct.Struct("<16sHI")  # a stamp, the dimension, how many pieces


class VectorSource(NamedTuple):
    """The memory that vectors were made of, and its state.

    Attributes:
        path: the memory's path, as in `envelope.Record`; for a journal entry `journal/` and its event's id.
        slot: the memory's slot in the ledger.
        stamp: tells the states of the memory apart; at most 16 characters.
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
        self._opened: ChaCha20Poly1305 | None = None

    async def find(self, stamps: Mapping[str, str]) -> dict[str, MemoryVectors]:
        """By slot, the vectors of some memories (slot and stamp) in exactly these states."""
        if self._vectors.key is None:
            return {}
        cipher = await self._cipher()
        found = {}
        for slot, body in self._vectors.of(self.model, stamps.keys()):
            try:
                text = cipher.decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], self._bound(slot))
                read = _read(text)
            except (InvalidTag, ValueError, struct.error):
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
        rows = []
        for slot, read in reads.items():
            nonce = os.urandom(_NONCE_BYTES)
            rows.append((slot, nonce + cipher.encrypt(nonce, _written(read), self._bound(slot))))
        await self._vectors.write(self._vectors.save, self.model, rows)

    async def _cipher(self) -> ChaCha20Poly1305:
        if self._opened is None:
            sealed = self._vectors.key
            self._opened = None if sealed is None else await self._unsealed(sealed)
        if self._opened is None:
            if sealed is not None:
                await self._vectors.write(self._vectors.clear)  # nobody can open them any more
            text = orjson.dumps({"type": _KEY_TYPE, "key": ChaCha20Poly1305.generate_key().hex()})
            sealed = await self._signer.encrypt(text, self._signer.public_key)
            self._opened = await self._unsealed(await self._vectors.write(self._vectors.save_key, sealed))
        if self._opened is None:
            raise BadPayload("the signer does not open what it has just sealed")
        return self._opened

    async def _unsealed(self, sealed: str) -> ChaCha20Poly1305 | None:
        """The cipher of a sealed key; None if the sealed text is not a key."""
        try:
            fields = orjson.loads(await self._signer.decrypt(sealed, self._signer.public_key))
            is_key = isinstance(fields, dict) and fields.get("type") == _KEY_TYPE
            return ChaCha20Poly1305(bytes.fromhex(fields["key"])) if is_key else None
        except (BadPayload, ValueError, KeyError, TypeError):
            return None

    def _bound(self, slot: str) -> bytes:
        return f"{self.model}\0{slot}".encode()


def _written(read: MemoryVectors) -> bytes:
    count, dimension = read.rows.shape
    head = _HEAD.pack(read.stamp.encode(), dimension, count)
    return head + rounded(read.rows).astype("<f2").tobytes()


def _read(text: bytes) -> MemoryVectors:
    stamp, dimension, count = _HEAD.unpack_from(text)
    rows = np.frombuffer(text, "<f2", offset=_HEAD.size).reshape(count, dimension)
    return MemoryVectors(stamp.rstrip(b"\0").decode(), rows)
