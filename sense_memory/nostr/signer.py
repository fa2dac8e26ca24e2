"""Signers: they sign events, encrypt and decrypt for a store.

The protocol is asynchronous, so that a signer may be remote (NIP-46). `LocalSigner` holds the key in this process. A
signer returns an `Event`, which only verification and local signing can produce.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from sense_memory.errors import BadKey
from sense_memory.nostr import nip44
from sense_memory.nostr.event import Event, Unsigned, event_id
from sense_memory.nostr.keys import Secret, npub, npub_hint, parse_secret


if TYPE_CHECKING:
    from pynostr.key import PrivateKey


@runtime_checkable
class Signer(Protocol):
    """What a store does with a key. The store never sees the key itself."""

    @property
    def public_key(self) -> str:
        """The author of everything this signer signs, 64 hex digits."""

    async def sign(self, unsigned: Unsigned) -> Event:
        """Sign exactly these fields. A remote signer verifies (`verify`) what it returns."""

    async def encrypt(self, plaintext: bytes, reader: str) -> str:
        """Encrypt UTF-8 bytes to a reader's public key (hex) with NIP-44; returns the payload."""

    async def decrypt(self, payload: str, author: str) -> bytes:
        """Decrypt a NIP-44 payload from an author's public key (hex); raises BadPayload."""


class LocalSigner:
    """A signer whose key lives in this process.

    Args:
        secret: the key; the signer owns it from now on and closes it with `close()`.
    """

    __slots__ = ("_conversations", "_keypair", "_public_key", "_secret")  # no __dict__ for vars() to show

    def __init__(self, secret: Secret) -> None:
        self._secret = secret
        self._conversations: dict[str, bytes] = {}
        self._keypair: Any = ffi.new("secp256k1_keypair *")
        if not lib.secp256k1_keypair_create(GLOBAL_CONTEXT.ctx, self._keypair, secret.reveal()):
            raise BadKey("not a valid secret key")
        self._public_key = secret.public_key

    @classmethod
    def generate(cls) -> LocalSigner:
        """A signer with a new random key. Save its `export_nsec()`: without the key, nobody can read its memories."""
        return cls(Secret.generate())

    @classmethod
    def from_nsec(cls, text: str) -> LocalSigner:
        """A signer from NIP-19 text. Raises BadKey, which says if the text is an npub, and repeats no part of it."""
        if not _looks_like_nsec(text):
            raise BadKey(f"not an nsec ({len(str(text).strip())} characters given){npub_hint(text)}")
        return cls(parse_secret(text))

    @classmethod
    def from_hex(cls, text: str) -> LocalSigner:
        """A signer from 64 hex digits. Raises BadKey, which repeats no part of the text."""
        if _looks_like_nsec(text):
            raise BadKey("this looks like an nsec, not hex; use from_nsec")
        return cls(parse_secret(text))

    @classmethod
    def from_pynostr(cls, key: PrivateKey) -> LocalSigner:
        """A signer from a `pynostr.key.PrivateKey`; raises BadKey for anything else."""
        if not isinstance(getattr(key, "raw_secret", None), bytes):
            raise BadKey("give a pynostr PrivateKey")
        return cls(Secret(key.raw_secret))

    @property
    def public_key(self) -> str:
        """64 hex digits."""
        return self._public_key

    @property
    def npub(self) -> str:
        """The public key as NIP-19 text, safe to show."""
        return npub(self._public_key)

    def export_nsec(self) -> str:
        """The secret key as NIP-19 text, for a backup. Whoever has it owns the memories."""
        return self._secret.nsec()

    async def sign(self, unsigned: Unsigned) -> Event:
        """Sign with BIP-340 and fresh auxiliary randomness; about 25 µs."""
        ident = event_id(
            self._public_key, unsigned.created_at, unsigned.kind, unsigned.tags, unsigned.content
        )
        return Event.signed(self._public_key, unsigned, ident, self._schnorr(bytes.fromhex(ident)).hex())

    async def encrypt(self, plaintext: bytes, reader: str) -> str:
        """NIP-44 with a cached conversation key; raises TooLargeError above 65,535 bytes."""
        return nip44.encrypt(plaintext, self._conversation(reader))

    async def decrypt(self, payload: str, author: str) -> bytes:
        """NIP-44 with a cached conversation key; raises BadPayload."""
        return nip44.decrypt(payload, self._conversation(author))

    def close(self) -> None:
        """Overwrite the key, and drop the keys that were derived from it."""
        self._secret.close()
        self._conversations.clear()
        ffi.memmove(self._keypair, bytes(ffi.sizeof("secp256k1_keypair")), ffi.sizeof("secp256k1_keypair"))

    def __repr__(self) -> str:
        return f"LocalSigner({self.npub})"

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a LocalSigner cannot be pickled or copied")

    def _conversation(self, other: str) -> bytes:
        key = self._conversations.get(other)
        if key is None:
            key = self._conversations[other] = nip44.conversation_key(self._secret.reveal(), other)
        return key

    def _schnorr(self, digest: bytes) -> bytes:
        """BIP-340 with the prepared keypair; coincurve's own call rebuilds the keypair and verifies every signature."""
        self._secret.reveal()  # a closed key signs nothing
        signature = ffi.new("unsigned char[64]")
        if not lib.secp256k1_schnorrsig_sign32(
            GLOBAL_CONTEXT.ctx, signature, digest, self._keypair, secrets.token_bytes(32)
        ):
            raise BadKey("signing failed")
        return bytes(ffi.buffer(signature))


def is_remote(signer: Signer) -> bool:
    """Whether each call of a signer waits for another machine, so that many are best made at once."""
    return getattr(signer, "is_remote", False) is True


class PynostrKey(Protocol):
    """A `pynostr.key.PrivateKey`, as far as a signer needs it: pynostr ships no types."""

    raw_secret: bytes


def as_signer(key: Any) -> Signer:
    """A signer from a `Signer` or a `pynostr.key.PrivateKey`.

    Raises:
        BadKey: neither.
    """
    if isinstance(key, Signer) and not isinstance(key, type):
        return key
    if type(key).__module__.startswith("pynostr.") and hasattr(key, "raw_secret"):
        return LocalSigner.from_pynostr(key)
    raise BadKey("give a Signer (LocalSigner.from_nsec, .from_hex, .generate) or a pynostr PrivateKey")


def _looks_like_nsec(text: object) -> bool:
    return isinstance(text, str) and text.strip().lower().startswith("nsec")
