"""Frames (NIP-01, NIP-42, NIP-45, NIP-77): text to typed frames and back, of relays and of clients. No I/O.

`orjson` refuses NaN, lone surrogates, and nesting deeper than 1,024 (without recursion). It reads an integer beyond 64
bits as a float, which the checks of events and filters then refuse. The repr of a frame shows no text that its sender
chose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from sense_memory.errors import InvalidEvent, MalformedFrame
from sense_memory.limits import (
    MAX_FRAME_BYTES,
    MAX_NEGENTROPY_BYTES,
    MAX_SAFE_INTEGER,
    MAX_SUBSCRIPTION_ID_CHARS,
)
from sense_memory.nostr.event import RawEvent, is_hex64
from sense_memory.nostr.filters import Filter


if TYPE_CHECKING:
    from collections.abc import Iterable

_hex_digits = re.compile(r"[0-9a-f]*").fullmatch  # `bytes.fromhex` takes spaces and capitals as well


@dataclass(frozen=True, slots=True)
class EventFrame:
    """`["EVENT", sub, event]`: an event for a subscription; its JSON is not checked yet."""

    subscription: str = field(repr=False)
    value: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class OkFrame:
    """`["OK", id, accepted, text]`: the relay's answer to an event that was sent."""

    id: str
    accepted: bool
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class EoseFrame:
    """`["EOSE", sub]`: all stored events were sent."""

    subscription: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClosedFrame:
    """`["CLOSED", sub, text]`: the relay ended a subscription."""

    subscription: str = field(repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoticeFrame:
    """`["NOTICE", text]`: text for a human, which is never acted on."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AuthFrame:
    """`["AUTH", challenge]` (NIP-42)."""

    challenge: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CountFrame:
    """`["COUNT", sub, {"count": number}]` (NIP-45): how many events match."""

    subscription: str = field(repr=False)
    count: int


@dataclass(frozen=True, slots=True)
class NegMessage:
    """`["NEG-MSG", sub, hex]` (NIP-77), in both directions: the next message of a comparison."""

    subscription: str = field(repr=False)
    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NegError:
    """`["NEG-ERR", sub, text]` (NIP-77): the relay ended a comparison."""

    subscription: str = field(repr=False)
    text: str = field(repr=False)


RelayFrame: TypeAlias = (
    EventFrame
    | OkFrame
    | EoseFrame
    | ClosedFrame
    | NoticeFrame
    | AuthFrame
    | CountFrame
    | NegMessage
    | NegError
)


@dataclass(frozen=True, slots=True)
class Publish:
    """`["EVENT", event]` from a client."""

    event: RawEvent


@dataclass(frozen=True, slots=True)
class Request:
    """`["REQ", sub, filter, …]` from a client."""

    subscription: str
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """`["CLOSE", sub]` from a client."""

    subscription: str


@dataclass(frozen=True, slots=True)
class Authenticate:
    """`["AUTH", event]` from a client (NIP-42)."""

    event: RawEvent


@dataclass(frozen=True, slots=True)
class Count:
    """`["COUNT", sub, filter, …]` from a client (NIP-45)."""

    subscription: str
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class NegOpen:
    """`["NEG-OPEN", sub, filter, hex]` from a client (NIP-77): begins a comparison."""

    subscription: str
    wanted: Filter
    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class NegClose:
    """`["NEG-CLOSE", sub]` from a client (NIP-77)."""

    subscription: str


ClientFrame: TypeAlias = Publish | Request | Close | Authenticate | Count | NegOpen | NegMessage | NegClose


def parse_relay_frame(data: str | bytes) -> RelayFrame:
    """Read one message of a relay.

    Raises:
        MalformedFrame: too long, not JSON, or none of the nine frames above; contains no part of the text.
    """
    match _array(data):
        case ["EVENT", str(sub), value]:
            return EventFrame(sub, value)
        case ["OK", str(ident), bool(accepted), str(text)] if is_hex64(ident):
            return OkFrame(ident, accepted, text)
        case ["OK", str(ident), bool(accepted)] if is_hex64(ident):
            return OkFrame(ident, accepted, "")
        case ["EOSE", str(sub)]:
            return EoseFrame(sub)
        case ["CLOSED", str(sub), str(text)]:
            return ClosedFrame(sub, text)
        case ["CLOSED", str(sub)]:
            return ClosedFrame(sub, "")
        case ["NOTICE", str(text)]:
            return NoticeFrame(text)
        case ["AUTH", str(challenge)]:
            return AuthFrame(challenge)
        case ["COUNT", str(sub), {"count": count}] if type(count) is int and 0 <= count <= MAX_SAFE_INTEGER:
            return CountFrame(sub, count)
        case ["NEG-MSG", str(sub), str(message)] if _is_hex(message):
            return NegMessage(sub, bytes.fromhex(message))
        case ["NEG-ERR", str(sub), str(text), *_]:  # strfry adds the limit that was exceeded
            return NegError(sub, text)
    raise MalformedFrame("not a frame that a relay sends")


def parse_client_frame(data: str | bytes) -> ClientFrame:
    """Read one message of a client, for the embedded relay.

    Raises:
        MalformedFrame: not one of the eight frames above, or a bad filter.
        InvalidEvent: an EVENT or AUTH whose event has the wrong shape.
    """
    match _array(data):
        case ["EVENT", value]:
            return Publish(RawEvent.parse(value))
        case ["REQ", str(sub), *filters] if filters and _is_subscription(sub):
            return Request(sub, tuple(map(Filter.parse, filters)))
        case ["CLOSE", str(sub)]:
            return Close(sub)
        case ["AUTH", value]:
            return Authenticate(RawEvent.parse(value))
        case ["COUNT", str(sub), *filters] if filters and _is_subscription(sub):
            return Count(sub, tuple(map(Filter.parse, filters)))
        case ["NEG-OPEN", str(sub), wanted, str(message)] if _is_subscription(sub) and _is_hex(message):
            return NegOpen(sub, Filter.parse(wanted), bytes.fromhex(message))
        case ["NEG-MSG", str(sub), str(message)] if _is_hex(message):
            return NegMessage(sub, bytes.fromhex(message))
        case ["NEG-CLOSE", str(sub)]:
            return NegClose(sub)
    raise MalformedFrame("not a frame that a client sends")


def publish(body: bytes) -> str:
    """The client frame that publishes an event given as its canonical JSON bytes."""
    return '["EVENT",' + body.decode() + "]"


def request(subscription: str, filters: Iterable[Filter]) -> str:
    """The client frame that opens a subscription."""
    return frame("REQ", subscription, *(item.as_json() for item in filters))


def close(subscription: str) -> str:
    """The client frame that ends a subscription."""
    return frame("CLOSE", subscription)


def count(subscription: str, filters: Iterable[Filter]) -> str:
    """The client frame that asks how many events match (NIP-45)."""
    return frame("COUNT", subscription, *(item.as_json() for item in filters))


def neg_open(subscription: str, wanted: Filter, message: bytes) -> str:
    """The client frame that begins a comparison (NIP-77)."""
    return frame("NEG-OPEN", subscription, wanted.as_json(), message.hex())


def neg_message(subscription: str, message: bytes) -> str:
    """The frame of either side that continues a comparison (NIP-77)."""
    return frame("NEG-MSG", subscription, message.hex())


def neg_close(subscription: str) -> str:
    """The client frame that ends a comparison (NIP-77)."""
    return frame("NEG-CLOSE", subscription)


def frame(*parts: Any) -> str:
    """Any frame as its JSON text.

    Raises:
        InvalidEvent: a string is not valid Unicode.
    """
    try:
        return orjson.dumps(parts).decode()
    except orjson.JSONEncodeError:
        raise InvalidEvent("a string in the frame is not valid Unicode") from None


def _array(data: str | bytes) -> list[Any]:
    if len(data) > (MAX_NEGENTROPY_BYTES if _is_comparison(data) else MAX_FRAME_BYTES):
        raise MalformedFrame(f"a frame of {len(data):,} bytes is too long")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise MalformedFrame("not JSON") from None
    if not isinstance(value, list):
        raise MalformedFrame("not a JSON array")
    return value


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and _hex_digits(text) is not None


def _is_comparison(data: str | bytes) -> bool:
    return data[:10] in {'["NEG-MSG"', b'["NEG-MSG"'}


def _is_subscription(text: str) -> bool:
    return 0 < len(text) <= MAX_SUBSCRIPTION_ID_CHARS
