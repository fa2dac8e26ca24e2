"""NIP-49: a secret key under a password, as text that begins with `ncryptsec1`.

scrypt derives a key from the password, and XChaCha20-Poly1305 encrypts the 32 bytes with that key. The cost that a text
states is checked before any work is done: log_n 16 to 20, which is 64 MiB to 1 GiB. No error repeats a part of the text
or of the password. Passwords and derived keys are Python objects, which cannot be overwritten.

All primitives are `cryptography`'s. The tests compare with nostr-sdk's NIP-49, which is not used
here because it ends the whole process when scrypt cannot get its memory.
"""

from __future__ import annotations

import secrets
import struct
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from pynostr import bech32

from sense_memory.errors import BadKey, InvalidSetting
from sense_memory.limits import MAX_SCRYPT_LOG_N, MIN_SCRYPT_LOG_N
from sense_memory.nostr.keys import Secret, typing_error


_PREFIX: Final = "ncryptsec"
_CHARS: Final = 162  # of every text of version 2
_BYTES: Final = 91  # version 1, log_n 1, salt 16, nonce 24, key security 1, sealed 48
_VERSION: Final = 2
_NOT_TRACKED: Final = b"\x02"  # the key security byte of a client that does not track how a key was handled
_COSTS: Final = range(MIN_SCRYPT_LOG_N, MAX_SCRYPT_LOG_N + 1)


@dataclass(frozen=True, slots=True)
class _EncryptedKey:
    """The parts of an ncryptsec.

    Attributes:
        log_n: scrypt's cost, checked.
        salt: 16 bytes.
        nonce: 24 bytes.
        security: the key security byte, which is authenticated and otherwise ignored.
        box: the sealed key and its tag, 48 bytes.
    """

    log_n: int
    salt: bytes = field(repr=False)
    nonce: bytes = field(repr=False)
    security: bytes = field(repr=False)
    box: bytes = field(repr=False)


def encrypt_secret(secret: Secret, password: str, *, log_n: int = 18) -> str:
    """Encrypt a secret key with a password; returns NIP-49 text of 162 characters. Blocks: a coroutine needs a thread.

    Args:
        secret: the key.
        password: not empty; NFKC-normalised, so that the same password works on every keyboard.
        log_n: scrypt's cost: 16 (64 MiB, some 0.2 s) to 20 (1 GiB, some 5 s); 18 takes 256 MiB and a second.

    Raises:
        InvalidSetting: the password is empty or not text, log_n is out of range, or there is not enough memory.
    """
    if log_n not in _COSTS:
        raise InvalidSetting("log_n", "argument", f"must be {_COSTS[0]} to {_COSTS[-1]}")
    if not password:
        raise InvalidSetting(
            "password", "argument", "must not be empty, because an empty password protects nothing"
        )
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(24)
    try:
        key = _password_key(password, salt, log_n)
    except MemoryError:
        problem = f"this machine cannot provide {_memory(log_n)} of memory; choose a smaller log_n"
        raise InvalidSetting("log_n", "argument", problem) from None
    cipher, short_nonce = _xchacha20_poly1305(key, nonce)
    box = cipher.encrypt(short_nonce, secret.reveal(), _NOT_TRACKED)
    words = bech32.convertbits(bytes([_VERSION, log_n]) + salt + nonce + _NOT_TRACKED + box, 8, 5)
    return str(bech32.bech32_encode(_PREFIX, words, bech32.Encoding.BECH32))


def decrypt_secret(text: str, password: str) -> Secret:
    """The secret key in a NIP-49 text. Blocks for as long as its log_n requires: a coroutine needs a thread.

    Raises:
        BadKey: not an encrypted key, a cost out of bounds (checked before any work), a wrong password, or not
            enough memory. The error repeats no part of the text or the password.
        InvalidSetting: the password is not text.
    """
    sealed = _parse(text)
    try:
        key = _password_key(password, sealed.salt, sealed.log_n)
    except MemoryError:
        raise BadKey(
            f"this machine cannot provide the {_memory(sealed.log_n)} that the key needs; the key is unchanged; open this encrypted key on a machine with more memory"
        ) from None
    cipher, short_nonce = _xchacha20_poly1305(key, sealed.nonce)
    try:
        return Secret(cipher.decrypt(short_nonce, sealed.box, sealed.security))
    except InvalidTag:
        raise BadKey(
            "the password does not open this encrypted key, or the key was altered; try the password again"
        ) from None


def is_ncryptsec(text: str) -> bool:
    """Whether a text begins like an encrypted key; `log_n_of` and `decrypt_secret` check the rest."""
    return text.strip()[: len(_PREFIX) + 1].lower() == f"{_PREFIX}1"


def log_n_of(text: str) -> int:
    """The scrypt cost of an encrypted key, after every check that needs no password. Fast.

    Raises:
        BadKey: not an encrypted key, or one whose cost is out of bounds.
    """
    return _parse(text).log_n


def _parse(text: str) -> _EncryptedKey:
    bare = text.strip()
    raw = _decode(bare)
    if raw is None:
        remedy = typing_error(bare, _PREFIX, _CHARS) or f"give {_PREFIX}1…"
        raise BadKey(f"not a valid encrypted key (ncryptsec), {len(bare)} characters given; {remedy}")
    if raw[0] != _VERSION:
        raise BadKey(
            f"this encrypted key has version {raw[0]} of NIP-49; only version {_VERSION} is supported"
        )
    if raw[1] not in _COSTS:
        raise BadKey(
            f"encrypt the key again with a cost (log_n) of {_COSTS[0]} to {_COSTS[-1]}: this encrypted key asks for "
            f"{raw[1]}; nothing was computed"
        )
    return _EncryptedKey(raw[1], raw[2:18], raw[18:42], raw[42:43], raw[43:])


def _decode(text: str) -> bytes | None:
    """The 91 bytes in an ncryptsec, or None. Checks length, prefix, checksum kind and padding."""
    if len(text) != _CHARS or not text.isascii():
        return None
    found, words, spec = bech32.bech32_decode(text)
    if found != _PREFIX or spec != bech32.Encoding.BECH32:
        return None
    raw = bech32.convertbits(words, 5, 8, pad=False)
    return bytes(raw) if raw is not None and len(raw) == _BYTES else None


def _password_key(password: str, salt: bytes, log_n: int) -> bytes:
    if any("\ud800" <= char <= "\udfff" for char in password):  # an encoding error would carry the password
        raise InvalidSetting("password", "argument", "must be text; nothing was done")
    normalised = unicodedata.normalize("NFKC", password).encode()
    return Scrypt(salt=salt, length=32, n=1 << log_n, r=8, p=1).derive(normalised)


def _memory(log_n: int) -> str:
    return f"{1 << (log_n - 10):,} MiB"  # 128 · r · n bytes


def _xchacha20_poly1305(key: bytes, nonce: bytes) -> tuple[ChaCha20Poly1305, bytes]:
    """The cipher with the subkey derived from the first 16 bytes of a nonce, and the short nonce for this cipher."""
    return ChaCha20Poly1305(_hchacha20(key, nonce[:16])), bytes(4) + nonce[16:]


def _hchacha20(key: bytes, nonce: bytes) -> bytes:
    """HChaCha20 (draft-irtf-cfrg-xchacha, section 2.2): 32 bytes from a key and 16 bytes.

    HChaCha20 is the ChaCha20 block function without the final addition of the initial state. So eight words of a block
    of `cryptography`'s ChaCha20 are taken, and the constant and the nonce that were added to them are subtracted.
    """
    block = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(64))
    words = struct.unpack("<16I", block)
    start = struct.unpack("<8I", b"expand 32-byte k" + nonce)
    wanted = zip(words[:4] + words[12:], start, strict=True)
    return struct.pack("<8I", *((word - begun) % 2**32 for word, begun in wanted))
