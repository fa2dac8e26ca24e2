"""Encryption of rows that never leave this machine: a random key, itself encrypted to the owner (NIP-44).

One symmetric key seals a row in microseconds; NIP-44 would derive a key, pad and encode each row. A row is bound to the
slot or model that it belongs to, so a row that was moved does not open.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sense_memory.errors import BadPayload


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.nostr.signer import Signer

LOG_KEY_NAME: Final = "sense-memory:log-key"  # what the key of the log's rows is for
_NONCE_BYTES: Final = 12


class KeyPlace(Protocol):
    """Where a ledger keeps one sealed key."""

    @property
    def key(self) -> str | None:
        """The sealed key, or None before a key is saved."""

    def save_key(self, sealed: str) -> str:
        """Save a sealed key, unless another process has saved one; returns the saved key."""


class LocalCipher:
    """Seals and opens rows with one key.

    Args:
        key: the opened key.
        group: what every row is bound to, such as the model that made the rows.
    """

    def __init__(self, key: bytes, group: str) -> None:
        self._cipher, self._group = ChaCha20Poly1305(key), group

    def seal(self, text: bytes, bound: str = "") -> bytes:
        """Encrypt a text into a row, which opens only with the same `bound`."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text, self._bound(bound))

    def open(self, row: bytes, bound: str = "") -> bytes:
        """The text of a row.

        Raises:
            BadPayload: the row was altered or moved, or sealed under another key.
        """
        try:
            return self._cipher.decrypt(row[:_NONCE_BYTES], row[_NONCE_BYTES:], self._bound(bound))
        except (InvalidTag, ValueError):
            raise BadPayload("the row was altered, or sealed under another key") from None

    def _bound(self, bound: str) -> bytes:
        return f"{self._group}\0{bound}".encode()


async def local_cipher(
    signer: Signer,
    place: KeyPlace,
    name: str,
    write: Callable[[Callable[[str], str], str], Awaitable[str]],
    group: str | None = None,
) -> LocalCipher:
    """The cipher of a place; the first use generates and saves its key.

    Args:
        signer: the owner, who seals the key.
        place: where the sealed key is kept.
        name: what the key is for, such as `sense-memory:log-key`; a key that was sealed for something else is refused.
        write: writes to the ledger, as `Ledger.write` does.
        group: what every row is bound to, in addition to its own `bound`; by default `name`.

    Raises:
        BadPayload: the saved key does not open with this signer, or is not a key for `name`.
    """
    sealed = place.key
    if sealed is None:
        text = orjson.dumps({"type": name, "key": ChaCha20Poly1305.generate_key().hex()})
        sealed = await write(place.save_key, await signer.encrypt(text, signer.public_key))
    return await opened_cipher(signer, sealed, name, group)


async def opened_cipher(signer: Signer, sealed: str, name: str, group: str | None = None) -> LocalCipher:
    """The cipher of a sealed key; arguments and errors as `local_cipher`."""
    text = await signer.decrypt(sealed, signer.public_key)
    try:
        fields = orjson.loads(text)
        if fields["type"] == name:
            return LocalCipher(bytes.fromhex(fields["key"]), name if group is None else group)
    except (ValueError, KeyError, TypeError):
        raise BadPayload("the sealed key is malformed") from None
    raise BadPayload("the sealed key is for something else")
