"""The relay information document (NIP-11): hints for planning, read like any other hostile JSON.

One GET to the relay's own address, bounded in time and size; redirects are not followed. A field of the
wrong type counts as absent, and absent never means unlimited. Nothing here can fail a synchronisation.
"""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import orjson

from sense_memory import limits
from sense_memory.nostr.verdict import printable


if TYPE_CHECKING:
    import socket

_MAX_HEAD_BYTES: Final = 16_384  # status line and headers, and the framing of chunks
_MAX_NIPS_COUNT: Final = 200
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class RelayInformation:
    """What a relay says about itself. None: not said, or not sensibly.

    Attributes:
        name: its name, escaped for a terminal, at most 256 characters; `software` and `version` alike.
        supported_nips: numbers of NIPs, as listed.
        max_message_length: bytes of one message.
        max_limit: events in the answer to one filter.
        max_content_length: characters of an event's content.
        max_subscriptions: open subscriptions of one connection.
        min_pow_difficulty: bits of proof of work (NIP-13).
        created_at_lower_limit: seconds into the past that an event may be dated.
        created_at_upper_limit: seconds into the future.
        auth_required: whether it asks for NIP-42 before anything else.
        payment_required: whether it serves customers only.
    """

    name: str | None = None
    software: str | None = None
    version: str | None = None
    supported_nips: tuple[int, ...] = ()
    max_message_length: int | None = None
    max_limit: int | None = None
    max_content_length: int | None = None
    max_subscriptions: int | None = None
    min_pow_difficulty: int | None = None
    created_at_lower_limit: int | None = None
    created_at_upper_limit: int | None = None
    auth_required: bool | None = None
    payment_required: bool | None = None

    @classmethod
    def parse(cls, body: bytes) -> RelayInformation | None:
        """Read a document; None if it is not a JSON object of at most 64 KiB."""
        if len(body) > limits.MAX_NIP11_BYTES:
            return None
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(document, dict):
            return None
        found = document.get("limitation")
        bounds: dict[str, Any] = found if isinstance(found, dict) else {}
        return cls(
            name=_text(document.get("name")),
            software=_text(document.get("software")),
            version=_text(document.get("version")),
            supported_nips=_nips(document.get("supported_nips")),
            max_message_length=_number(bounds.get("max_message_length"), 1),
            max_limit=_number(bounds.get("max_limit"), 1),
            max_content_length=_number(bounds.get("max_content_length"), 1),
            max_subscriptions=_number(bounds.get("max_subscriptions"), 1),
            min_pow_difficulty=_number(bounds.get("min_pow_difficulty"), 0),
            created_at_lower_limit=_number(bounds.get("created_at_lower_limit"), 0),
            created_at_upper_limit=_number(bounds.get("created_at_upper_limit"), 0),
            auth_required=_flag(bounds.get("auth_required")),
            payment_required=_flag(bounds.get("payment_required")),
        )


async def relay_information(
    url: str,
    timeout: float = limits.NIP11_SECONDS,  # noqa: ASYNC109 - the whole of it, from name to last byte
) -> RelayInformation | None:
    """Ask a relay for its information document.

    Args:
        url: the relay, as `relay_url` spells it.
        timeout: seconds for everything together.

    Returns:
        What it says; None if it can not be reached in time or answers anything but such a document.
    """
    try:
        async with asyncio.timeout(timeout):
            return RelayInformation.parse(_body(await _get(url)))
    except (OSError, ValueError, HTTPException):
        return None


async def _get(url: str) -> bytes:
    """The raw HTTP answer of the relay's address, cut where no honest one ends."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=parts.scheme == "wss" or None)
    try:
        writer.write(_request(parts.path or "/", parts.query, parts.netloc))
        answer = bytearray()
        while len(answer) <= limits.MAX_NIP11_BYTES + _MAX_HEAD_BYTES and (part := await reader.read(65_536)):
            answer += part
        return bytes(answer)
    finally:
        writer.transport.abort()  # whatever else it has to say


def _request(path: str, query: str, host: str) -> bytes:
    target = f"{path}?{query}" if query else path
    lines = (
        f"GET {target} HTTP/1.1",
        f"Host: {host}",
        "Accept: application/nostr+json",
        "Accept-Encoding: identity",
        "User-Agent: sense-memory",
        "Connection: close",
    )
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii")


def _body(answer: bytes) -> bytes:
    """The body of a raw HTTP answer; empty unless its status is 200."""
    with HTTPResponse(cast("socket.socket", _Received(answer))) as response:
        response.begin()
        return response.read(limits.MAX_NIP11_BYTES + 1) if response.status == 200 else b""


class _Received:
    """The one thing that `HTTPResponse` asks of a socket, over bytes that are here already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _text(value: object) -> str | None:
    return printable(value) if isinstance(value, str) else None


def _number(value: object, least: int) -> int | None:
    return value if type(value) is int and least <= value <= limits.MAX_SAFE_INTEGER else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _nips(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    numbers = (_number(item, 0) for item in value[:_MAX_NIPS_COUNT])
    return tuple(number for number in numbers if number is not None)
