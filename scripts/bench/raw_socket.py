"""The floor of the wire: a blocking socket that speaks just enough WebSocket and Nostr.

No timeouts, no verification, no answer to anything but pings: the other side is a relay of this machine that is known
to be honest. Frames are masked with zeros, which is legal and costs nothing.
"""

from __future__ import annotations

import socket
import struct
from itertools import islice
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PING = 0x89


class RawSocket:
    """One connection to a relay; use it as a context manager.

    Args:
        url: `ws://127.0.0.1:PORT`.
    """

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname or "", place.port or 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(
            f"GET / HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._buffer = b""
        while b"\r\n\r\n" not in self._buffer:
            self._buffer += self._read()
        self._buffer = self._buffer.partition(b"\r\n\r\n")[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, texts: Iterable[bytes]) -> None:
        """Write messages, with one system call."""
        self._socket.sendall(b"".join(_head(len(text)) + text for text in texts))

    def frames(self) -> list[bytes]:
        """The next messages: at least one, and all that have arrived."""
        found: list[bytes] = []
        while not found:
            data = self._buffer + self._read() if self._buffer else self._read()
            place = 0
            while (end := _end(data, place)) is not None:
                start, stop = end
                if data[place] == _PING:
                    self._socket.sendall(
                        b"\x8a" + bytes((0x80 | stop - start, 0, 0, 0, 0)) + data[start:stop]
                    )
                else:
                    found.append(data[start:stop])
                place = stop
            self._buffer = data[place:]
        return found

    def publish(self, bodies: Iterable[bytes], window: int = 500) -> int:
        """Send events with at most `window` in flight; returns how many were accepted."""
        waiting = accepted = 0
        rest = iter(bodies)
        while True:
            batch = [b'["EVENT",' + body + b"]" for body in islice(rest, window - waiting)]
            if batch:
                self.send(batch)
                waiting += len(batch)
            if not waiting:
                return accepted
            for frame in self.frames():
                if frame.startswith(b'["OK"'):
                    waiting -= 1
                    accepted += b",true," in frame

    def request(self, filters: Sequence[dict[str, Any]]) -> list[bytes]:
        """The frames of the stored events that match, without the EOSE."""
        self.send([orjson.dumps(["REQ", "raw", *filters])])
        found: list[bytes] = []
        while not found or not found[-1].startswith(b'["EOSE"'):
            found += [frame for frame in self.frames() if not frame.startswith(b'["AUTH"')]
        self.send([b'["CLOSE","raw"]'])
        return found[:-1]

    def walk(self, author: str, page: int = 500) -> list[dict[str, Any]]:
        """Every event of an author, parsed, page by page from the newest down."""
        events: dict[str, dict[str, Any]] = {}
        wanted: dict[str, Any] = {"authors": [author], "kinds": [30078], "limit": page}
        while True:
            fresh = [orjson.loads(frame)[2] for frame in self.request([wanted])]
            before = len(events)
            events.update((event["id"], event) for event in fresh)
            if len(events) == before:
                return list(events.values())
            wanted["until"] = fresh[-1]["created_at"]

    def _read(self) -> bytes:
        data = self._socket.recv(262_144)
        if not data:
            raise ConnectionError("the other side hung up")
        return data


def _head(length: int) -> bytes:
    """The head of a masked text frame, mask included (RFC 6455, 5.2)."""
    if length < 126:
        return struct.pack(">BBxxxx", 0x81, 0x80 | length)
    if length < 65_536:
        return struct.pack(">BBHxxxx", 0x81, 0xFE, length)
    return struct.pack(">BBQxxxx", 0x81, 0xFF, length)


def _end(data: bytes, place: int) -> tuple[int, int] | None:
    """Where the payload of the unmasked frame at a place begins and ends; None while the frame is not complete."""
    have = len(data) - place
    if have < 2:
        return None
    length, start = data[place + 1], place + 2
    if length >= 126:
        size = 2 if length == 126 else 8
        if have < 2 + size:
            return None
        length = int.from_bytes(data[start : start + size], "big")
        start += size
    return (start, start + length) if have >= start - place + length else None
