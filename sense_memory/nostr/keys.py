"""Keys: a `Secret` that no repr or pickle shows, and NIP-19's nsec and npub.

Errors of the decoders contain no part of the input; they state its length at most.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, Final, NoReturn, Self

from coincurve import PublicKeyXOnly
from pynostr import bech32

from sense_memory.errors import BadKey
from sense_memory.nostr.event import is_hex64


if TYPE_CHECKING:
    from types import TracebackType

_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of secp256k1
_CHARS: Final = 63  # of an nsec or npub


class Secret:
    """A secret key of 32 bytes. `str` and `repr` do not show the key, and it cannot be pickled or copied.

    `close()` overwrites the bytes. Python and the signing library may hold copies, so the key may stay in memory longer
    (SECURITY.md).

    Raises:
        BadKey: not a scalar between 1 and the curve's order.
    """

    __slots__ = ("_bytes",)

    def __init__(self, raw: bytes) -> None:
        self._bytes = bytearray()
        if not isinstance(raw, bytes | bytearray) or len(raw) != 32:
            raise BadKey("not a valid secret key: it must have 32 bytes")
        if not 0 < int.from_bytes(raw, "big") < _ORDER:
            raise BadKey("not a valid secret key: out of range for the curve")
        self._bytes = bytearray(raw)

    @classmethod
    def generate(cls) -> Secret:
        """A fresh random key from the operating system's source."""
        while True:
            raw = secrets.token_bytes(32)
            if 0 < int.from_bytes(raw, "big") < _ORDER:
                return cls(raw)

    def reveal(self) -> bytes:
        """The 32 bytes, which a caller keeps no longer than one call. Raises BadKey after `close`."""
        if not self._bytes:
            raise BadKey("this secret key was closed")
        return bytes(self._bytes)

    @property
    def public_key(self) -> str:
        """The x-only public key (BIP-340), 64 hex digits."""
        return PublicKeyXOnly.from_secret(self.reveal()).format().hex()

    def nsec(self) -> str:
        """The key as NIP-19 text, for a key file or for its owner to see. Never log it."""
        return _encode("nsec", self.reveal())

    def close(self) -> None:
        """Overwrite the bytes; every later use raises BadKey."""
        for index in range(len(self._bytes)):
            self._bytes[index] = 0
        self._bytes = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._bytes, other._bytes)

    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint

    def __repr__(self) -> str:
        return f"Secret(nsec, {len(self._bytes)} bytes)"

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")


def parse_secret(text: str, *, forms: str = "nsec1… or 64 hex digits") -> Secret:
    """A secret key from an nsec or 64 hex digits; surrounding blanks and a final newline are ignored.

    Args:
        text: the key.
        forms: which texts the caller takes as a key, for the error.

    Raises:
        BadKey: anything else; the error says whether the text is an npub or a mistyped nsec, and repeats no part of it.
    """
    if not isinstance(text, str):
        raise BadKey(f"not a valid secret key (not text); give {forms}")
    bare = text.strip()
    if is_hex64(bare.lower()):
        return Secret(bytes.fromhex(bare))
    raw = _decode("nsec", bare)
    if raw is None:
        remedy = typing_error(bare, "nsec", _CHARS) or f"give {forms}"
        given = f"{len(bare)} characters given" if bare else "nothing was given"
        raise BadKey(f"not a valid secret key ({given}); {remedy}{npub_hint(bare)}")
    return Secret(raw)


def typing_error(text: str, prefix: str, chars: int) -> str:
    """What to do about a bech32 text that cannot be decoded; empty if it does not begin like one.

    Args:
        text: without blanks around it.
        prefix: such as nsec.
        chars: of every valid text with this prefix.
    """
    if not text.lower().startswith(f"{prefix}1"):
        return ""
    if len(text) != chars:
        return f"an {prefix} has {chars} characters: compare it with your copy"
    return f"the checksum of this {prefix} is wrong: look for a typing error"


def npub_hint(text: object) -> str:
    """The end of an error about a secret key, if the text is an npub; otherwise empty."""
    is_npub = isinstance(text, str) and _decode("npub", text.strip()) is not None
    return ": this is an npub, the public half of a key; the secret half begins with nsec1" if is_npub else ""


def parse_public(text: str) -> str:
    """A public key from an npub or 64 hex digits, as 64 lower-case hex digits.

    Raises:
        BadKey: anything else, or not a point of the curve.
    """
    bare = text.strip() if isinstance(text, str) else ""
    raw = bytes.fromhex(bare) if is_hex64(bare) else _decode("npub", bare)
    if raw is None:
        raise BadKey(f"not a valid public key ({len(bare)} characters given); give npub1… or 64 hex digits")
    try:
        PublicKeyXOnly(raw)
    except ValueError:
        raise BadKey("not a valid public key: not a point on the curve") from None
    return raw.hex()


def npub(public_key: str) -> str:
    """The NIP-19 text of a public key given as 64 hex digits; raises BadKey for anything else."""
    if not is_hex64(public_key):
        raise BadKey("not a public key of 64 lower-case hex digits")
    return _encode("npub", bytes.fromhex(public_key))


def _encode(prefix: str, raw: bytes) -> str:
    words = bech32.convertbits(raw, 8, 5)
    return str(bech32.bech32_encode(prefix, words, bech32.Encoding.BECH32))


def _decode(prefix: str, text: str) -> bytes | None:
    """The 32 bytes in a bech32 text of that prefix, or None. Checks prefix, checksum kind and length."""
    if len(text) != _CHARS or not text.isascii():
        return None
    try:
        found, words, spec = bech32.bech32_decode(text)
        if found != prefix or spec != bech32.Encoding.BECH32:
            return None
        raw = bech32.convertbits(words, 5, 8, pad=False)
    except (ValueError, TypeError, IndexError):
        return None
    return bytes(raw) if raw is not None and len(raw) == 32 else None
