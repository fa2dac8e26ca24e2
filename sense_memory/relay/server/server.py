"""The embedded relay: a small Nostr relay for this machine, with NIPs 01, 09, 11, 40, 42, 45, 70 and 77, in this process.

What is guaranteed: an OK is sent only after the event is durable in the data file. Every stored event is well formed and
has a valid signature. The relay listens on 127.0.0.1 only; to serve other machines, run strfry (see `relays/`).

Why it is safe: everything that a client can make the relay store in memory is bounded by `RelayLimits`, and a client
that does not read is disconnected. A request must name a loopback host, and web pages of other origins are refused.

What it costs: storing blocks the event loop until the disk has written a batch. A client that does not read holds at most
`max_backlog_bytes` of memory, and an open comparison about 230 bytes for each compared event.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import time
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import orjson
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.http11 import Response

from sense_memory import arguments
from sense_memory.errors import InvalidSetting, RelayError
from sense_memory.limits import MAX_FRAME_BYTES
from sense_memory.relay.server.client_handler import BATCH_COUNT, ClientHandler
from sense_memory.relay.server.event_store import EventStore
from sense_memory.relay.server.session import (
    MAX_AHEAD_SECONDS,
    MAX_BACKLOG_BYTES,
    MAX_LIMIT_COUNT,
    MAX_SUBSCRIPTIONS_COUNT,
    RelayLimits,
    ServerSession,
    information,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request

    from sense_memory.nostr.event import Event


# ── HTTP: who may connect, and the information document (NIP-11) ────────────────────────
# Listening on loopback only does not keep web pages out: a page in a local browser can dial the relay, directly or
# after rebinding the page's own host name to 127.0.0.1. So every request must name a loopback host exactly, and a
# request with an `Origin` header must come from a page of this machine. Programs that send no `Origin` may connect.

_LOOPBACK = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
_host = re.compile(_LOOPBACK, re.ASCII | re.IGNORECASE).fullmatch
_origin = re.compile(r"https?://" + _LOOPBACK, re.ASCII | re.IGNORECASE).fullmatch


def http_answer(request: Request, limits: RelayLimits) -> Response | None:
    """The answer to an HTTP request, or None if the WebSocket handshake may proceed."""
    headers = request.headers
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    if len(hosts) != 1 or not _host(hosts[0]):
        return _response(HTTPStatus.FORBIDDEN, "Connect to this relay as 127.0.0.1 or localhost.\n")
    if not all(map(_origin, origins)):
        return _response(HTTPStatus.FORBIDDEN, "Web pages of other origins may not connect to this relay.\n")
    if "websocket" in ",".join(headers.get_all("Upgrade")).lower():
        return None
    if "application/nostr+json" in ",".join(headers.get_all("Accept")).lower():
        return _response(HTTPStatus.OK, orjson.dumps(information(limits)), "application/nostr+json")
    return _response(HTTPStatus.OK, "A Nostr relay for this machine. Please use a Nostr client to connect.\n")


def _response(
    status: HTTPStatus, body: str | bytes, content_type: str = "text/plain; charset=utf-8"
) -> Response:
    data = body.encode() if isinstance(body, str) else body
    headers = Headers(
        {
            "Content-Type": content_type,
            "Content-Length": str(len(data)),
            "Connection": "close",
            "X-Content-Type-Options": "nosniff",
        }
    )
    if status is HTTPStatus.OK:  # NIP-11: web clients of this machine may read the document
        for name, value in (("Origin", "*"), ("Headers", "*"), ("Methods", "GET")):
            headers[f"Access-Control-Allow-{name}"] = value
    return Response(status.value, status.phrase, headers, data)


HOST: Final = "127.0.0.1"
CLOSING_SECONDS: Final = 2.0  # for connections to close, before they are aborted

# websockets logs frames at DEBUG and handshakes at INFO and ERROR; text of clients must not enter our logs
_silent = logging.getLogger(f"{__name__}.websockets")
_silent.setLevel(logging.CRITICAL)


class EmbeddedRelay:
    """A relay on the loopback interface: `async with EmbeddedRelay() as relay: … relay.url …`.

    After `async with` ends, the same object can be entered again, with the same URL and the same data. Storing blocks
    the event loop until the disk has made a batch durable.

    Args:
        path: the data file (mode 0600, created with its folder if missing); None or ":memory:" keeps the data
            in memory for the lifetime of this object.
        port: TCP port; 0 chooses a free port.
        require_auth: whether clients have to authenticate before anything else (NIP-42).
        clock: seconds since 1970.
        max_message_bytes: maximum size of a message; a longer message closes the connection with code 1009.
        max_limit: maximum number of stored events in the answer to one filter, and the default limit of a filter.
        max_subscriptions: maximum number of open subscriptions of one connection.
        max_future_seconds: how many seconds an event may be dated ahead of the relay's clock.
        max_backlog_bytes: maximum bytes that wait for a client that does not read; with more, the connection is
            aborted.

    Raises:
        InvalidSetting: a limit or the port is out of range.
        InvalidInput: the path is invalid.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        port: int = 0,
        *,
        require_auth: bool = False,
        clock: Callable[[], float] = time.time,
        # Limits
        max_message_bytes: int = MAX_FRAME_BYTES,
        max_limit: int = MAX_LIMIT_COUNT,
        max_subscriptions: int = MAX_SUBSCRIPTIONS_COUNT,
        max_future_seconds: int = MAX_AHEAD_SECONDS,
        max_backlog_bytes: int = MAX_BACKLOG_BYTES,
    ) -> None:
        self._limits = RelayLimits(
            require_auth=require_auth,
            max_message_bytes=max_message_bytes,
            max_limit=max_limit,
            max_subscriptions=max_subscriptions,
            max_future_seconds=max_future_seconds,
            max_backlog_bytes=max_backlog_bytes,
        )
        named = arguments.ledger(path)
        self._path = named if isinstance(named, Path) else None
        if type(port) is not int or not 0 <= port < 65_536:
            raise InvalidSetting("port", "argument", "must be a number from 0 to 65535")
        self._port, self._clock = port, arguments.function(clock, "clock")
        self._event_store: EventStore | None = None
        self._server: Server | None = None
        self._handlers: set[ClientHandler] = set()

    @property
    def url(self) -> str:
        """The URL to dial, such as `ws://127.0.0.1:7447`.

        Raises:
            RelayError: no port was given, and the relay has not been started.
        """
        if not self._port:
            raise RelayError(f"ws://{HOST}", "enter `async with` first; the relay has no port before it runs")
        return f"ws://{HOST}:{self._port}"

    async def serve_forever(self) -> None:
        """Wait until this task is cancelled, while the relay serves; call this inside `async with`."""
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> Self:
        if self._server is not None:
            raise RelayError(self.url, "this relay is running already")
        if self._event_store is None:
            self._event_store = EventStore(self._path)
        try:
            self._server = await self._listen(self._event_store)
        except OSError as problem:
            self._close_file()
            raise RelayError(f"ws://{HOST}:{self._port}", f"cannot listen ({_reason(problem)})") from problem
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await server.wait_closed()
        except TimeoutError:
            for handler in self._handlers:
                handler.abort()
            await server.wait_closed()
        finally:
            self._close_file()

    def __repr__(self) -> str:
        state = "running" if self._server is not None else "stopped"
        return f"EmbeddedRelay(ws://{HOST}:{self._port}, {state})"

    async def _listen(self, event_store: EventStore) -> Server:
        return await serve(
            partial(self._serve_client, event_store),
            HOST,
            self._port,
            compression=None,  # ciphertext does not shrink
            process_request=lambda _, request: http_answer(request, self._limits),
            server_header=None,
            close_timeout=CLOSING_SECONDS,
            max_size=self._limits.max_message_bytes,
            max_queue=BATCH_COUNT,
            logger=_silent,
        )

    async def _serve_client(self, event_store: EventStore, connection: ServerConnection) -> None:
        session = ServerSession(
            self._limits, (self.url, f"ws://localhost:{self._port}"), secrets.token_hex(16)
        )
        handler = ClientHandler(
            connection, session, event_store, limits=self._limits, clock=self._clock, announce=self._announce
        )
        self._handlers.add(handler)
        try:
            await handler.serve()
        finally:
            self._handlers.discard(handler)

    def _announce(self, events: Sequence[Event]) -> None:
        for handler in tuple(self._handlers):
            handler.deliver(events)

    def _close_file(self) -> None:
        """Close the data file; data in memory stays for the next `async with`."""
        if self._path is not None and self._event_store is not None:
            self._event_store.close()
            self._event_store = None


def _reason(problem: OSError) -> str:
    """The operating system's words for a failure, without the address that asyncio adds."""
    return os.strerror(problem.errno) if problem.errno else str(problem)
