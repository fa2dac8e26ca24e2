"""Messages of negentropy, protocol version 1 (NIP-77, appendix): bytes into ranges, and ranges into bytes.

A message is a version byte and adjacent ranges over all (created_at, id) pairs in order, each with its upper
bound and what the sender says about it. What follows the last one is skipped. Reading takes time and memory
in proportion to the message; what breaks the format raises `MalformedFrame`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from sense_memory.errors import MalformedFrame


VERSION: Final = 0x61  # protocol version 1
VERSIONS: Final = range(0x60, 0x70)  # bytes that can be a version
SKIP, FINGERPRINT, IDS = 0, 1, 2  # the modes of a range
ID_BYTES: Final = 32
FINGERPRINT_BYTES: Final = 16
INFINITY: Final = 2**64 - 1  # the time behind every event

Bound: TypeAlias = tuple[int, bytes]  # a time, and a prefix of an id without final zeros
BEGIN: Final[Bound] = (0, b"")
END: Final[Bound] = (INFINITY, b"")

_HEAD_BYTES = 10 + 1 + ID_BYTES + 1  # the longest bound, and a mode
_OVERHEAD_BYTES = (
    3 * _HEAD_BYTES + 3 + FINGERPRINT_BYTES
)  # skip, range, skip, and the fingerprint of the rest


@dataclass(frozen=True, slots=True)
class Range:
    """What a message says about the pairs between the bound before it and its own.

    Attributes:
        upper: where it ends; that pair is not in it.
        mode: SKIP, FINGERPRINT or IDS.
        body: nothing, 16 bytes, or ids of 32 bytes each.
    """

    upper: Bound
    mode: int
    body: bytes = b""

    def ids(self) -> list[bytes]:
        """The ids of an IDS range."""
        return [self.body[at : at + ID_BYTES] for at in range(0, len(self.body), ID_BYTES)]


def read(message: bytes) -> list[Range]:
    """All ranges of a message of version 1.

    Raises:
        MalformedFrame: another version, or not a message.
    """
    if message[:1] != bytes([VERSION]):
        raise MalformedFrame("not a negentropy message of version 1")
    reader, found, lower = _Reader(message), list[Range](), BEGIN
    while reader.at < len(message):
        upper, mode = reader.bound(), reader.number()
        if upper < lower:
            raise MalformedFrame("a negentropy message with ranges out of order")
        if mode not in {SKIP, FINGERPRINT, IDS}:
            raise MalformedFrame("a negentropy message with an unknown mode")
        size = {SKIP: 0, FINGERPRINT: FINGERPRINT_BYTES}.get(mode)
        found.append(Range(upper, mode, reader.take(ID_BYTES * reader.number() if size is None else size)))
        lower = upper
    return found


def encode_number(value: int) -> bytes:
    """An integer in base 128, the most significant digit first; all bytes but the last have the high bit."""
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F | 0x80)
    return bytes(reversed(digits))


class _Reader:
    """Takes a message apart, from behind its version byte."""

    def __init__(self, message: bytes) -> None:
        self._message, self._time = message, 0
        self.at = 1

    def take(self, count: int) -> bytes:
        begin, self.at = self.at, self.at + count
        if self.at > len(self._message):
            raise MalformedFrame("a negentropy message that ends too early")
        return self._message[begin : self.at]

    def number(self) -> int:
        value = 0
        for _ in range(10):
            byte = self.take(1)[0]
            value = value << 7 | byte & 0x7F
            if byte < 0x80 and value <= INFINITY:
                return value
        raise MalformedFrame("a negentropy message with a number beyond 64 bits")

    def bound(self) -> Bound:
        code, length = self.number(), self.number()
        self._time = self._time + code - 1 if code else INFINITY
        if length > ID_BYTES or self._time > INFINITY:
            raise MalformedFrame("a negentropy message with an impossible bound")
        # Omitted bytes mean zeros. Without final zeros equal bounds are equal, and compare as whole ids do.
        prefix = self.take(length).rstrip(b"\0")
        return (self._time, prefix) if self._time < INFINITY else END


class Writer:
    """Puts a message together, and keeps room for the fingerprint of what does not fit.

    Args:
        limit: bytes that the message may have, at least 4,096.

    Attributes:
        at: where the next range begins.
    """

    def __init__(self, limit: int) -> None:
        self._out, self._limit, self._time, self._skipped = bytearray([VERSION]), limit, 0, False
        self.at = BEGIN

    def message(self) -> bytes:
        """What was put so far; a single byte when all was skipped."""
        return bytes(self._out)

    def room_for_ids(self) -> int:
        """How many ids the next range may list."""
        return max(0, self._room() // ID_BYTES - 1)  # less one for the count in front of them

    def skip(self, upper: Bound) -> None:
        """Nothing to say up to here. Adjacent skips become one, and the last goes without saying."""
        self.at, self._skipped = upper, True

    def put_fingerprint(self, upper: Bound, fingerprint: bytes) -> bool:
        """Add a FINGERPRINT range. Whether there was room for it."""
        return self._put(upper, FINGERPRINT, fingerprint)

    def put_ids(self, upper: Bound, idents: list[bytes]) -> bool:
        """Add an IDS range. Whether there was room for it."""
        return self._put(upper, IDS, encode_number(len(idents)) + b"".join(idents))

    def put_rest(self, fingerprint: bytes) -> None:
        """End with a FINGERPRINT range from `at` to the end; there always is room for it."""
        self._write(END, FINGERPRINT, fingerprint)

    def _room(self) -> int:
        return self._limit - _OVERHEAD_BYTES - len(self._out)

    def _put(self, upper: Bound, mode: int, body: bytes) -> bool:
        fits = len(body) <= self._room()
        if fits:
            self._write(upper, mode, body)
        return fits

    def _write(self, upper: Bound, mode: int, body: bytes) -> None:
        if self._skipped:
            self._out += self._bound(self.at) + bytes([SKIP])
        self._out += self._bound(upper) + bytes([mode]) + body
        self.at, self._skipped = upper, False

    def _bound(self, bound: Bound) -> bytes:
        time, prefix = bound
        code = time - self._time + 1 if time < INFINITY else 0
        self._time = time
        return encode_number(code) + bytes([len(prefix)]) + prefix
