"""The d-tags that a store writes, and the keys from which private d-tags are made.

A d-tag is readable or private (`nostr.address`). A store writes one of both, and reads both. A key is 32 random bytes in a
record of its own, which lies at its own private d-tag. Devices that each made a key before they met have several: all use
the oldest.

Guaranteed: the same keys give the same d-tags on every device, and a private d-tag is written only after the record of its
key is durable in the ledger. Every event can be read without its key, because its d-tag is inside the ciphertext too.

Cost: one query for each call; a key is decrypted once for each store. A private d-tag costs one HMAC.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import SenseMemoryError
from sense_memory.nostr import address
from sense_memory.records import envelope


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.arguments import AddressMode
    from sense_memory.ledger import Ledger
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record

_KEY_BYTES: Final = 32
_KEYS: Final = address.PREFIX + address.ADDRESS_KEY  # prefix of their slots


class Addresses:
    """The d-tags of a store.

    Args:
        signer: opens the keys.
        ledger: holds the keys.
        mode: the d-tags that are written.
        pads: whether texts are padded to one of `envelope.SIZES` before they are encrypted.
    """

    def __init__(
        self, signer: Signer, ledger: Ledger, mode: AddressMode = "readable", *, pads: bool = False
    ) -> None:
        self._signer, self._ledger, self.mode, self.pads = signer, ledger, mode, pads
        self._opened: dict[int, tuple[float, bytes] | None] = {}  # by seq of the head; None: not a key

    @property
    def is_private(self) -> bool:
        """Whether private d-tags are written."""
        return self.mode == "private"

    async def keys(self) -> tuple[bytes, ...]:
        """The keys that this ledger holds, the oldest first: that one is used."""
        heads = [seq for _, seq in self._ledger.heads.live_beneath(_KEYS)]
        for stored in self._ledger.read([seq for seq in heads if seq not in self._opened]):
            self._opened[stored.seq] = await self._key_in(stored.event())
        found = [key for seq in heads if (key := self._opened.get(seq)) is not None]
        return tuple(key for _, key in sorted(found))

    async def tag(self, record: Record, mode: AddressMode) -> str:
        """The d-tag to write a record at, in a mode; empty for a journal entry."""
        if not record.type.has_address:
            return ""
        if record.type.is_key:
            return address.private_d_tag(key_in(record.fields)[1], record.path)
        return await self.tag_at(record.path, mode)

    async def tag_at(self, path: str, mode: AddressMode) -> str:
        """The d-tag of a path in a mode; readable where there is no key yet."""
        keys = await self.keys() if mode == "private" else ()
        return address.private_d_tag(keys[0], path) if keys else address.d_tag(path)

    async def new_key(self, now: float) -> Record | None:
        """The record of a new key, to be written before anything with a private d-tag; None if there is a key."""
        if await self.keys():
            return None
        ident = os.urandom(16).hex()
        return envelope.record_at(
            address.ADDRESS_KEY + ident, {"key": os.urandom(_KEY_BYTES).hex(), "ts": now}
        )

    async def _key_in(self, event: Any) -> tuple[float, bytes] | None:
        try:
            record = await envelope.open_event(self._signer, event)
            return key_in(record.fields)
        except (SenseMemoryError, ValueError, TypeError):
            return None


def key_in(fields: Mapping[str, Any]) -> tuple[float, bytes]:
    """When a key was made, in seconds since 1970, and the key.

    Raises:
        ValueError, TypeError: the fields are not those of a key.
    """
    key = bytes.fromhex(fields["key"])
    if len(key) != _KEY_BYTES:
        raise ValueError("a key of private addresses has 32 bytes")
    ts = fields.get("ts")
    return (float(ts) if isinstance(ts, int | float) and not isinstance(ts, bool) else 0.0), key
