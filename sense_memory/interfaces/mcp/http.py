"""The HTTP transport: the streamable HTTP of MCP, on a loopback address, for clients that have the token.

Each request is checked before the SDK sees it: the request names this server, no page of another origin made it
(`interfaces.loopback`), and it has the token. No session is kept between requests: tools need none, an idle client is never
forgotten, one that was connected before the server restarted goes on, and clients that come and go cost no memory.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import stat
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from sense_memory.config.key_file import private_folder
from sense_memory.errors import InvalidInput, UnsafeFile
from sense_memory.interfaces.loopback import listening_socket, refusal
from sense_memory.operating_system import create_private, open_plain, open_to_others, user_number


if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from pathlib import Path

TOKEN_VARIABLE: Final = "SENSE_MEMORY_MCP_TOKEN"  # noqa: S105 - its name
PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 16 * 2**20
_MIN_TOKEN_CHARS: Final = 32
_MAX_TOKEN_BYTES: Final = 1_024
_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1", "": "127.0.0.1"}
_GRACE_SECONDS: Final = 1  # for requests in progress when the server ends


def listener_at(listen: str) -> socket.socket:
    """A socket that listens at HOST:PORT; port 0 chooses a free port.

    Raises:
        InvalidInput: the address is not one of this machine's loopback, or is in use.
    """
    host, _, port = listen.rpartition(":")
    address = _HOSTS.get(host.strip("[]").lower())
    if address is None or not port.isdecimal() or int(port) > 0xFFFF:
        raise InvalidInput(
            "--listen takes HOST:PORT with the host 127.0.0.1, ::1 or localhost, such as 127.0.0.1:8765: the memory is "
            "served to this machine only"
        )
    try:
        return listening_socket(address, int(port))
    except OSError as error:
        raise InvalidInput(
            f"choose another port for --listen: {listen} cannot be used ({error.strerror})"
        ) from None


def bearer_token(home: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The token that clients must send, and in words its place: the environment, or a file that is made once.

    Raises:
        UnsafeFile: others can read the file, or it is not a plain file.
        InvalidInput: the token is too short.
    """
    given = environ.get(TOKEN_VARIABLE, "").strip()
    place = f"{TOKEN_VARIABLE} in the environment"
    if not given:
        path = home / "mcp-token"
        given, place = _stored_token(path), str(path)
    if len(given) < _MIN_TOKEN_CHARS or not given.isascii() or not given.isprintable() or " " in given:
        raise InvalidInput(f"the token in {place} must have {_MIN_TOKEN_CHARS} or more letters and digits")
    return given, place


def _stored_token(path: Path) -> str:
    private_folder(path.parent)
    with suppress(FileExistsError):
        descriptor = create_private(path)
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 - a descriptor, not a path
            token = secrets.token_urlsafe()
            file.write(f"{token}\n")
        return token
    try:
        descriptor = open_plain(path)
    except OSError as error:
        raise UnsafeFile(f"the token file {path} cannot be opened ({error.strerror})") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - as above
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or open_to_others(status) or status.st_uid != user_number():
            raise UnsafeFile(
                f"delete {path}, and a new token is made: others can read or replace this file; it was not used"
            )
        return file.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()


async def serve_http(
    server: Any, listener: socket.socket, token: str, *, stop: asyncio.Event, ready: Callable[[str], None]
) -> None:
    """Serve clients until `stop` is set.

    Args:
        server: the SDK's low-level server.
        listener: from `listener_at`.
        token: what clients must send as bearer token.
        stop: ends the server.
        ready: called with the URL once the server accepts requests.
    """
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    manager = StreamableHTTPSessionManager(server, max_request_body_size=MAX_BODY_BYTES, stateless=True)
    guard = TokenGuard(manager.handle_request, port, token)
    config = uvicorn.Config(
        guard,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    http = uvicorn.Server(config)
    http.capture_signals = nullcontext  # type: ignore[method-assign, assignment]  # the program handles signals
    async with manager.run():
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        ready(f"http://{name}:{port}{PATH}")
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        http.should_exit = True
        await serving


class TokenGuard:
    """Answers every request that must not reach the SDK, and passes the others on. An ASGI application.

    Args:
        app: the SDK's.
        port: of this server.
        token: of its clients.
    """

    def __init__(self, app: Callable[..., Any], port: int, token: str) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Handle one request."""
        problem = self._problem(scope) if scope["type"] == "http" else (404, "not here")
        if problem is None:
            await self._app(scope, receive, send)
            return
        code, text = problem
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
        if code == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})

    def _problem(self, scope: Mapping[str, Any]) -> tuple[int, str] | None:
        problem = refusal(scope["headers"], self._hosts)
        if problem is not None:
            return problem
        if scope["path"] != PATH:
            return 404, f"the server is at {PATH}"
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token, self._token):
            return 401, "send the token: Authorization: Bearer …"
        return None
