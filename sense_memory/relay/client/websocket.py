"""The websocket of a relay connection. Dialling, writing and hanging up are bounded in time.

No other client module imports websockets, so the library is loaded only when the first relay is dialled. Every failure
becomes one short sentence of ours. Redirects are never followed, compression is never offered, no proxy is used, and the
library's own log, which would quote frames, is off.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import broadcast
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)

from sense_memory import limits
from sense_memory.errors import RelayError
from sense_memory.relay.client.actions import CONNECTION_LOST, ConnectionLost


_QUEUE_COUNT: Final = 64  # frames read ahead of the session
_TOO_BIG: Final = 1009  # RFC 6455, 7.4.1
_BROKEN: Final = frozenset({1002, 1007})  # RFC 6455: protocol error, text that is not UTF-8
_QUIET_CODES: Final = frozenset({1000, 1001})  # RFC 6455: normal, going away

_silent = logging.getLogger(f"{__name__}.library")
_silent.setLevel(logging.CRITICAL + 1)


class _OtherStatus(InvalidHandshake):
    """An HTTP answer that is not an upgrade. websockets does not know this class, so it follows no redirect."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"HTTP {status}")


class RelaySocket(ClientConnection):
    """A websocket to a relay, opened by `open_socket`."""

    async def handshake(self, *args: Any, **kwargs: Any) -> None:
        """Upgrade; called by websockets."""
        try:
            await super().handshake(*args, **kwargs)
        except InvalidStatus as error:
            raise _OtherStatus(error.response.status_code) from None

    def data_received(self, data: bytes) -> None:
        """Read, and end the connection after the relay's close frame; called by websockets.

        Some relays keep the TCP connection open after their close frame, and events in flight would wait for answers
        that never arrive.
        """
        super().data_received(data)
        if self.protocol.close_rcvd is None:
            return
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # the relay may never read what is still in the buffer
        else:
            self.transport.close()

    async def send_text(self, text: str, seconds: float) -> None:
        """Write a text message, and wait while the relay is slow to read.

        If the connection is closed, nothing happens here: `receive` reports the end after all earlier messages.

        Raises:
            ConnectionLost: the relay did not read for `seconds`.
        """
        if self.transport.is_closing():
            return
        broadcast([self], text)  # writes at once and skips a closed connection; `send` costs twice as much
        if self.paused:
            try:
                async with asyncio.timeout(seconds):
                    await self.drain()
            except TimeoutError:
                raise ConnectionLost("does not read what we send") from None
            except OSError:
                return

    async def receive(self) -> str | bytes:
        """The next message.

        Raises:
            ConnectionLost: the connection has ended.
        """
        try:
            return await self.recv()
        except ConnectionClosed as error:
            raise _lost(error) from None

    async def hang_up(self, seconds: float) -> None:
        """Send the close frame; end the connection anyway if the relay does not answer within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.close()
        except TimeoutError:
            self.transport.abort()
            await self.wait_closed()
        except asyncio.CancelledError:
            self.transport.abort()
            raise


async def open_socket(url: str, open_seconds: float, close_seconds: float) -> RelaySocket:
    """Dial a relay.

    Raises:
        RelayError: the relay could not be dialled.
    """
    try:
        found = await connect(
            url,
            create_connection=RelaySocket,
            compression=None,
            proxy=None,
            user_agent_header="sense-memory",
            open_timeout=open_seconds,
            close_timeout=close_seconds,
            max_size=limits.MAX_NEGENTROPY_BYTES,
            max_queue=_QUEUE_COUNT,
            logger=_silent,
        )
    except (OSError, WebSocketException, ValueError) as error:
        raise RelayError(url, _why_not(error, open_seconds) + _scheme_hint(url, error)) from None
    assert isinstance(found, RelaySocket)  # noqa: S101 - the type that create_connection made
    return found


def _why_not(error: Exception, seconds: float) -> str:
    """One sentence for a failed dial. The order of the cases matters, because some of the classes are subclasses."""
    match error:
        case TimeoutError():
            return f"did not answer within {seconds:g} s"
        case _OtherStatus() if 300 <= error.status < 400:
            return "configure the address to which it redirects; redirects are not followed"
        case _OtherStatus():
            return f"answered HTTP {error.status} instead of opening a relay connection"
        case InvalidHandshake():
            return "does not speak the WebSocket protocol"
        case ssl.SSLCertVerificationError():
            return "its TLS certificate is not valid for this address"
        case ssl.SSLError():
            return "TLS could not be negotiated"
        case socket.gaierror() | UnicodeError():
            return "the host name was not found; check its spelling, and whether this machine is online"
        case ConnectionRefusedError():
            return "refused the connection"
        case ConnectionError():
            return "hung up at once"
        case OSError():
            return "could not be reached"
    return "is not a URL that can be dialled"


def _scheme_hint(url: str, error: Exception) -> str:
    """The other scheme as a remedy, if the failure suggests that only one side uses TLS; otherwise empty."""
    is_tls = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError)
    is_reset = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
    if url.startswith("wss://") and (is_tls or is_reset):
        return "; if the relay does not speak TLS, its address begins with ws://"
    is_garbled = isinstance(error, InvalidMessage) or (
        isinstance(error, _OtherStatus) and error.status == 400
    )
    if is_garbled and url.startswith("ws://"):
        return "; if the relay speaks TLS, its address begins with wss://"
    return ""


def _lost(error: ConnectionClosed) -> ConnectionLost:
    """Who ended the connection and why, without the relay's own text."""
    sent = error.sent.code if error.sent is not None and not error.rcvd_then_sent else None
    if sent == _TOO_BIG:
        return ConnectionLost(
            f"sent a message of more than {limits.MAX_NEGENTROPY_BYTES:,} bytes", misbehaving=True
        )
    if sent in _BROKEN:
        return ConnectionLost("broke the WebSocket protocol", misbehaving=True)
    if error.rcvd is not None and error.rcvd.code not in _QUIET_CODES:
        return ConnectionLost(f"{CONNECTION_LOST} (code {error.rcvd.code})")
    return ConnectionLost(CONNECTION_LOST)
