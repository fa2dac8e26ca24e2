"""The HTTP transport: the streamable HTTP of MCP, on a loopback address, for clients that have the token.

With a public URL, a reverse proxy passes on what clients elsewhere send; they have tokens of OAuth (`interfaces.mcp.oauth`).

Each request is checked before the SDK sees it: the request names this server, no page of another origin made it
(`interfaces.loopback`), and it has the token. No session is kept between requests: tools need none, an idle client is never
forgotten, one that was connected before the server restarted goes on, and clients that come and go cost no memory.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.bearer_token import has_token, server_token
from sense_memory.interfaces.loopback import refusal


if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, MutableMapping
    from pathlib import Path

    from sense_memory.interfaces.mcp.oauth.access_file import AccessFile
    from sense_memory.interfaces.mcp.oauth.application import RemoteApplication

TOKEN_VARIABLE: Final = "SENSE_MEMORY_MCP_TOKEN"  # noqa: S105 - its name
PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 16 * 2**20
_PORTS: Final = {"https": 443, "http": 80}
_GRACE_SECONDS: Final = 1  # for requests in progress when the server ends

_is_host = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|::1").fullmatch


def bearer_token(home: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The token of clients on this machine, and in words its place; see `interfaces.bearer_token`."""
    return server_token(home / "mcp-token", environ, TOKEN_VARIABLE)


def public_origin(url: str) -> str:
    """The origin of a public URL, such as https://memory.example.org.

    Raises:
        InvalidInput: it is neither https nor http on this machine, or it is more than an origin.
    """
    parts = urlsplit(url.strip())
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    is_here = parts.scheme == "http" and host in {"127.0.0.1", "localhost", "::1"}
    is_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if not (parts.scheme == "https" or is_here) or is_more or not _is_host(host):
        raise InvalidInput(
            "--public-url takes https://HOST or https://HOST:PORT without a path, such as https://memory.example.org: the "
            "address at which a reverse proxy on this machine takes requests"
        )
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{'' if port in {None, _PORTS[parts.scheme]} else f':{port}'}"


async def serve_http(
    server: Any,
    listener: socket.socket,
    token: str,
    *,
    remote: RemoteAccess | None = None,
    stop: asyncio.Event,
    ready: Callable[[str], None],
) -> None:
    """Serve clients until `stop` is set.

    Args:
        server: the SDK's low-level server.
        listener: from `listener_at`.
        token: what clients on this machine must send as bearer token.
        remote: who else may reach the memory, and where; None for nobody.
        stop: ends the server.
        ready: called with the URL once the server accepts requests.
    """
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    host, port = listener.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    manager = StreamableHTTPSessionManager(server, max_request_body_size=MAX_BODY_BYTES, stateless=True)
    config = uvicorn.Config(
        TokenGuard(manager.handle_request, port, token, remote),
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


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """Access from elsewhere, through a reverse proxy.

    Attributes:
        origin: from `public_origin`.
        file: who may reach the memory.
        agent: whose memory it is.
        is_read_only: whether only tools that read are offered.
    """

    origin: str
    file: AccessFile
    agent: str
    is_read_only: bool

    def application(self, mcp: Callable[..., Any]) -> RemoteApplication:
        """What answers the requests that name the public URL; `mcp` is the SDK's."""
        from sense_memory.interfaces.mcp.oauth.application import RemoteApplication

        return RemoteApplication(
            mcp, self.origin, PATH, self.file, agent=self.agent, is_read_only=self.is_read_only
        )


class TokenGuard:
    """Answers every request that must not reach the SDK, and passes the others on. An ASGI application.

    A request that names the public URL in its `Host` is answered by OAuth's rules; the token of this machine is worth
    nothing there.

    Args:
        app: the SDK's.
        port: of this server.
        token: of clients on this machine.
        remote: access from elsewhere; None for none.
    """

    def __init__(
        self, app: Callable[..., Any], port: int, token: str, remote: RemoteAccess | None = None
    ) -> None:
        self._app, self._token = app, token
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        self._remote = None if remote is None else remote.application(app)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] == "http" and self._remote is not None and self._remote.is_named(scope["headers"]):
            await self._remote(scope, receive, send)
            return
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
        if not has_token(scope["headers"], self._token):
            return 401, "send the token: Authorization: Bearer …"
        return None
