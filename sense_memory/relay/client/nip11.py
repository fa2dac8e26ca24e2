"""The relay information document (NIP-11): hints for planning, parsed as untrusted JSON.

One GET to the relay's own address, bounded in time and size; redirects are not followed. The answer ends where
HTTP says (a length, chunks, or the end of the stream), because relays may keep the connection open. A field
of the wrong type counts as absent, and for an absent limit our own default applies. A relay without a document is
synchronised all the same.
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
from sense_memory.limits import MIN_PAGE_COUNT, PAGE_COUNT
from sense_memory.nostr.negentropy import FRAME_BYTES, MIN_FRAME_BYTES
from sense_memory.nostr.wire import publish
from sense_memory.plain_text import printable


if TYPE_CHECKING:
    import socket


_MAX_HEAD_BYTES: Final = 16_384  # status line and headers
_MAX_NIPS_COUNT: Final = 200
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class RelayInformation:
    """What a relay says about itself. A field is None if the document has no valid value for the field.

    Attributes:
        name: the relay's name, escaped for a terminal, at most 256 characters.
        software: the relay's program, escaped and cut like `name`.
        version: the program's version, escaped and cut like `name`.
        supported_nips: the first 200 NIP numbers that the relay lists.
        max_message_length: bytes of the longest message that the relay reads.
        max_limit: maximum number of events in the answer to one filter.
        max_content_length: maximum number of characters in an event's content.
        min_pow_difficulty: minimum bits of proof of work (NIP-13).
        auth_required: whether the relay asks for NIP-42 before anything else.
        payment_required: whether the relay serves only paying clients.
    """

    name: str | None = None
    software: str | None = None
    version: str | None = None
    supported_nips: tuple[int, ...] = ()
    max_message_length: int | None = None
    max_limit: int | None = None
    max_content_length: int | None = None
    min_pow_difficulty: int | None = None
    auth_required: bool | None = None
    payment_required: bool | None = None

    @classmethod
    def parse(cls, body: bytes) -> RelayInformation | None:
        """Read a document; None if `body` is not a JSON object of at most 64 KiB."""
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
            min_pow_difficulty=_number(bounds.get("min_pow_difficulty"), 0),
            auth_required=_flag(bounds.get("auth_required")),
            payment_required=_flag(bounds.get("payment_required")),
        )


async def relay_information(
    url: str,
    timeout: float = limits.NIP11_SECONDS,  # noqa: ASYNC109 - from name lookup to the last byte
) -> RelayInformation | None:
    """Ask a relay for its information document.

    Args:
        url: the relay's canonical URL, as `relay_url` returns it.
        timeout: seconds, from name lookup to the last byte.

    Returns:
        The document; None if the relay cannot be reached in time, or answers with something else.
    """
    try:
        async with asyncio.timeout(timeout):
            return RelayInformation.parse(await _get(url))
    except (OSError, EOFError, ValueError, HTTPException, asyncio.LimitOverrunError):
        return None


async def _get(url: str) -> bytes:
    """The document at the relay's address; empty unless the status is 200."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    reader, writer = await asyncio.open_connection(
        parts.hostname, port, ssl=parts.scheme == "wss" or None, limit=_MAX_HEAD_BYTES
    )
    try:
        writer.write(_request(parts.path or "/", parts.query, parts.netloc))
        with HTTPResponse(cast("socket.socket", _Received(await reader.readuntil(b"\r\n\r\n")))) as head:
            head.begin()
            return await _body(reader, head) if head.status == 200 else b""
    finally:
        writer.transport.abort()  # the relay may have more to send


async def _body(reader: asyncio.StreamReader, head: HTTPResponse) -> bytes:
    """The body of an answer, whose end RFC 9112, 6.3 defines.

    Raises:
        ValueError: the body is longer than `MAX_NIP11_BYTES`.
    """
    if head.chunked:
        return await _chunks(reader)
    if head.length is not None:
        _check_size(head.length)
        return await reader.readexactly(head.length)
    body = bytearray()
    while part := await reader.read(_MAX_HEAD_BYTES):
        body += part
        _check_size(len(body))
    return bytes(body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body (RFC 9112, 7.1). The total size of chunk headers is bounded too; trailers are ignored."""
    body, framing = bytearray(), 0
    while size := int((line := await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        framing += len(line)
        _check_size(framing)
        _check_size(size if size < 0 else len(body) + size)
        body += (await reader.readexactly(size + len(b"\r\n")))[:size]
    return bytes(body)


def _check_size(size: int) -> None:
    if not 0 <= size <= limits.MAX_NIP11_BYTES:
        raise ValueError("the document is too large, or its length is negative")


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


class _Received:
    """Received bytes with the only method of a socket that `HTTPResponse` calls."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _text(value: object) -> str | None:
    return printable(value) if isinstance(value, str) else None


def _number(value: object, minimum: int) -> int | None:
    return value if type(value) is int and minimum <= value <= limits.MAX_SAFE_INTEGER else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _nips(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    numbers = (_number(item, 0) for item in value[:_MAX_NIPS_COUNT])
    return tuple(number for number in numbers if number is not None)


# ── Hints ───────────────────────────────────────────────────────────────────────────────
# What a document means for planning. Without a document, or without the field, the defaults apply. A document may be
# wrong, so no guarantee depends on these functions.

_FRAME_OVERHEAD_BYTES: Final = 1_024  # of a frame, without the hex or the ids that it carries


def page_size(information: RelayInformation | None) -> int:
    """How many events to ask for in one REQ: `PAGE_COUNT`, or the relay's lower limit of at least `MIN_PAGE_COUNT`."""
    limit = information.max_limit if information is not None else None
    return PAGE_COUNT if limit is None or limit < MIN_PAGE_COUNT else min(limit, PAGE_COUNT)


def may_compare(information: RelayInformation | None) -> bool:
    """Whether to try a comparison: the relay's document lists NIP-77, or the relay has no document."""
    return information is None or 77 in information.supported_nips


def may_count(information: RelayInformation | None) -> bool:
    """Whether to try a count: the relay's document lists NIP-45, or the relay has no document."""
    return information is None or 45 in information.supported_nips


def frame_bytes(information: RelayInformation | None) -> int:
    """Maximum bytes of one of our messages in a comparison; hex doubles the bytes on the wire."""
    limit = information.max_message_length if information is not None else None
    if limit is None:
        return FRAME_BYTES
    return max(MIN_FRAME_BYTES, min(FRAME_BYTES, (limit - _FRAME_OVERHEAD_BYTES) // 2))


def ids_count(information: RelayInformation | None) -> int:
    """How many events to ask for by id in one REQ."""
    limit = information.max_message_length if information is not None else None
    fit = PAGE_COUNT if limit is None else (limit - _FRAME_OVERHEAD_BYTES) // len(f'"{"0" * 64}",')
    return max(1, min(page_size(information), fit))


def is_too_large(body: bytes, information: RelayInformation | None) -> bool:
    """Whether a relay's document says that the relay accepts no event of this size.

    Args:
        body: the event as canonical JSON.
        information: the relay's document, or None.
    """
    if information is None:
        return False
    if broken_limit(len(body), 0, information):
        return True
    content = information.max_content_length
    return content is not None and len(body) > content and len(orjson.loads(body)["content"]) > content


def broken_limit(event_bytes: int, content_chars: int, information: RelayInformation) -> str:
    """The limit of the relay that an event of this size breaks, in words; empty if the event breaks no limit."""
    message, content = information.max_message_length, information.max_content_length
    if message is not None and event_bytes + len(publish(b"")) > message:
        return (
            f"messages of at most {message:,} bytes, and this message has {event_bytes + len(publish(b'')):,}"
        )
    if content is not None and content_chars > content:
        return f"contents of at most {content:,} characters, and this content has {content_chars:,}"
    return ""
