"""NIP-44 version 2: padded ChaCha20 with HMAC-SHA256, keyed by the unhashed x coordinate of ECDH.

The extension of 2026-06-28, the long form with a six-byte prefix for plaintexts of 65,536 bytes and more, is read and
not written. The checks are those of the NIP, in its order: size, version, base64, MAC in constant time, padding. The
MAC authenticates the nonce; the signature of the event authenticates the author, and is checked before this module is
called.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
import struct
from functools import lru_cache
from typing import Final

from coincurve import PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from sense_memory.errors import BadKey, BadPayload, TooLargeError, UnsupportedVersion
from sense_memory.limits import MAX_READ_PLAINTEXT_BYTES


MAX_SHORT_BYTES: Final = 65_535  # the longest plaintext that a two-byte length can state
_SALT: Final = b"nip44-v2"
_HASH: Final = SHA256()
_MIN_PAYLOAD_CHARS: Final = 132
_MIN_DECODED_BYTES: Final = 99


def conversation_key(secret: bytes, public_key: str) -> bytes:
    """The 32-byte key that two key pairs share, the same from both sides. Cache the result.

    The ECDH result is the bare x coordinate: coincurve's `ecdh()` hashes it and must not be used.

    Raises:
        BadKey: the public key is not a point on secp256k1, or the secret is out of range.
    """
    try:
        point = PublicKey(b"\x02" + bytes.fromhex(public_key)).multiply(secret)
    except ValueError:
        raise BadKey("no conversation key: one of the two keys is not valid on secp256k1") from None
    return hmac.digest(_SALT, point.format()[1:33], "sha256")


def padded_length(length: int) -> int:
    """The padded length of a plaintext of `length` bytes (at least 1), without the length prefix; in bytes."""
    if length < 1:
        raise ValueError("a plaintext must have at least one byte")
    power = 1 << (length - 1).bit_length()
    chunk = 32 if power <= 256 else power // 8
    return chunk * ((length - 1) // chunk + 1)


def encrypt(plaintext: bytes, key: bytes, *, nonce: bytes | None = None) -> str:
    """Seal bytes under a conversation key; returns the base64 payload.

    Args:
        plaintext: 1 … 65,535 bytes of UTF-8.
        key: from `conversation_key`.
        nonce: 32 bytes, for test vectors only; fresh from the operating system by default.

    Raises:
        TooLargeError: longer than 65,535 bytes; the long form is not written.
        BadPayload: empty.
    """
    if not plaintext:
        raise BadPayload("an empty text cannot be sealed")
    if len(plaintext) > MAX_SHORT_BYTES:
        raise TooLargeError(len(plaintext), MAX_SHORT_BYTES)
    nonce = secrets.token_bytes(32) if nonce is None else nonce
    chacha_key, chacha_nonce, mac_key = message_keys(key, nonce)
    padded = struct.pack(">H", len(plaintext)) + plaintext.ljust(padded_length(len(plaintext)), b"\x00")
    sealed = _chacha20(chacha_key, chacha_nonce, padded)
    mac = hmac.digest(mac_key, nonce + sealed, "sha256")
    return binascii.b2a_base64(b"\x02" + nonce + sealed + mac, newline=False).decode("ascii")


def decrypt(payload: str, key: bytes, *, max_bytes: int = MAX_READ_PLAINTEXT_BYTES) -> bytes:
    """Open a payload under a conversation key; returns the plaintext bytes.

    Args:
        payload: base64 text.
        key: from `conversation_key`.
        max_bytes: the longest plaintext to accept; a longer payload is refused before it is decoded.

    Raises:
        UnsupportedVersion: another version than 2, or a future encoding (`#`).
        BadPayload: too short, too long, not canonical base64, wrong MAC, wrong padding.
    """
    data = _decode(payload, max_bytes)
    chacha_key, chacha_nonce, mac_key = message_keys(key, data[1:33])
    if not hmac.compare_digest(hmac.digest(mac_key, data[1:-32], "sha256"), data[-32:]):
        raise BadPayload("the payload was altered, or sealed for another key")
    return _unpad(_chacha20(chacha_key, chacha_nonce, data[33:-32]), max_bytes)


def check_form(payload: str, *, max_bytes: int = MAX_READ_PLAINTEXT_BYTES) -> None:
    """Check all that a payload shows without its key: length, encoding and version. Raises as `decrypt`."""
    _decode(payload, max_bytes)


def message_keys(key: bytes, nonce: bytes) -> tuple[bytes, bytes, bytes]:
    """ChaCha20 key (32), ChaCha20 nonce (12) and MAC key (32) of one message: HKDF-expand of 76 bytes.

    Raises:
        BadPayload: key or nonce are not 32 bytes.
    """
    if len(key) != 32 or len(nonce) != 32:
        raise BadPayload("the conversation key and the nonce must have 32 bytes each")
    stream = HKDFExpand(_HASH, 76, nonce).derive(key)
    return stream[:32], stream[32:44], stream[44:]


def _chacha20(key: bytes, nonce: bytes, data: bytes) -> bytes:
    """RFC 8439 ChaCha20 from block 0; `cryptography` wants the 4-byte counter before the nonce."""
    return Cipher(algorithms.ChaCha20(key, bytes(4) + nonce), mode=None).encryptor().update(data)


def _decode(payload: str, max_bytes: int) -> bytes:
    if not payload or payload[0] == "#":
        raise UnsupportedVersion("the payload is empty or uses a future encoding")
    longest = _longest_payload(max_bytes)
    if not _MIN_PAYLOAD_CHARS <= len(payload) <= longest:
        raise BadPayload(f"a payload must have 132 to {longest:,} characters, not {len(payload):,}")
    try:
        data = binascii.a2b_base64(payload, strict_mode=True)
    except (binascii.Error, ValueError):
        raise BadPayload("the payload is not base64") from None
    if binascii.b2a_base64(data[-((len(data) - 1) % 3 + 1) :], newline=False) != payload[-4:].encode():
        raise BadPayload("the payload is not canonical base64")
    if len(data) < _MIN_DECODED_BYTES:
        raise BadPayload("the payload is too short")
    if data[0] != 2:
        raise UnsupportedVersion(f"NIP-44 version {data[0]} is not supported")
    return data


@lru_cache(maxsize=8)
def _longest_payload(max_bytes: int) -> int:
    """The length, in characters, of the payload of a plaintext of `max_bytes` bytes."""
    return 4 * ((1 + 32 + 6 + padded_length(max_bytes) + 32 + 2) // 3)


def _unpad(padded: bytes, max_bytes: int) -> bytes:
    length, start = int.from_bytes(padded[:2], "big"), 2
    if length == 0:
        length, start = int.from_bytes(padded[2:6], "big"), 6
        if length <= MAX_SHORT_BYTES:
            raise BadPayload("the padding is wrong")
    if length > max_bytes or len(padded) != start + padded_length(length):
        raise BadPayload("the padding is wrong or the text too long")
    return padded[start : start + length]
