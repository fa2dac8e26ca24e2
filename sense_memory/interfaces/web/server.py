"""The server of the page: who may ask for what, and which headers an answer has. It knows nothing about memories.

Guaranteed: an answer goes only to a request that names this server exactly (`Host`, so that no other name can be bound
to its address), that no page of another origin made (`Sec-Fetch-Site`, `Origin`), and, under `/api/`, that carries the
cookie and the page token of the one browser that exchanged the token. Browsers send a cookie to every port of a
machine, but keep the page token for this port alone (`localStorage`); scripts cannot read the cookie. The token is in
the fragment of the address, which browsers do not send, and works once. A page that ran hostile text could not load or
send anything, because its policy allows this origin alone. Why it is safe: `Guard` makes every check before any other
code sees the request; `Host` and origin are checked in `interfaces.loopback`, as for every server of this machine. It
costs some microseconds for each request. Programs of the same user are not kept out: they can read the ledger and its
key anyway.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from sense_memory.interfaces.loopback import refusal


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK: Final = "127.0.0.1"
TOKEN_HEADER: Final = "x-sense-memory-token"  # of the one exchange  # noqa: S105 - the name of a header
PAGE_HEADER: Final = "x-sense-memory-page"  # of every request to the API after it
EDIT_HEADER: Final = "x-sense-memory-edit"  # of every POST
MAX_URL_BYTES: Final = 4_096  # a path of a memory has 400 characters at most, a question some hundreds
MAX_BODY_BYTES: Final = 262_144  # the largest memory, of 40,960 bytes, as JSON with escapes
_CONCURRENCY: Final = 64  # connections; a browser opens six
_TYPES: Final = {
    ".svg": "image/svg+xml",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".LICENSE": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_STATIC: Final = Path(__file__).with_name("static")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


# ── Who may ask ─────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class ServerSecrets:
    """The secrets of one run of the server.

    Attributes:
        port: where the server listens.
        may_edit: whether the page may change memories.
        token: exchanged once for the cookie and the page token.
        page_token: what a request to the API has to carry beside the cookie.
        edit_token: what a POST has to carry.
    """

    port: int
    may_edit: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    page_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    edit_token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _session: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """The address to open, with the token in its fragment."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.token}"

    @property
    def hosts(self) -> tuple[str, str]:
        """The values of `Host` that name this server."""
        return f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers share cookies between ports, so the port is in it."""
        return f"sense-memory-{self.port}"

    def exchange(self, token: str) -> str:
        """The value of the cookie in exchange for the token, once; empty for another token, or a second time."""
        if self._session or not _is_same(token, self.token):
            return ""
        self._session = secrets.token_urlsafe(32)
        return self._session

    def admits(self, request: Request) -> bool:
        """Whether a request carries the cookie and the page token of the session."""
        session, page = request.cookies.get(self.cookie, ""), request.headers.get(PAGE_HEADER, "")
        return bool(self._session) and _is_same(session, self._session) and _is_same(page, self.page_token)

    def may_post(self, token: str) -> bool:
        """Whether a POST with this token may change memories."""
        return self.may_edit and _is_same(token, self.edit_token)


def _is_same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


class Guard:
    """Refuses requests that this server must not answer, and adds security headers to every answer.

    Args:
        app: answers all other requests.
        access: the secrets of this run.
    """

    def __init__(self, app: ASGIApp, access: ServerSecrets) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(Request(scope))
        answer: ASGIApp = self._app if refused is None else refused
        await answer(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that is refused; None for an allowed request."""
        access, method = self._access, request.method
        methods = ("GET", "HEAD", "POST") if access.may_edit else ("GET", "HEAD")
        if method not in methods:
            return _refused(405, "this method is not allowed here", {"Allow": ", ".join(methods)})
        if (problem := refusal(request.headers.raw, access.hosts)) is not None:
            return _refused(*problem)
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > MAX_URL_BYTES:
            return _refused(414, "the address is too long")
        if _body_bytes(request) > (MAX_BODY_BYTES if method == "POST" else 0):
            return _refused(413, "the request has a body that is too large")
        if method == "POST" and not self._is_post_of_the_page(request):
            return _refused(403, "only the page itself may change memories")
        if self._needs_session(request) and not access.admits(request):
            return _refused(401, "open the address that `sense-memory web` printed")
        return None

    def _needs_session(self, request: Request) -> bool:
        return request.url.path.startswith("/api/") and request.url.path != "/api/session"

    def _is_post_of_the_page(self, request: Request) -> bool:
        is_json = request.headers.get("content-type") == "application/json"
        return is_json and self._access.may_post(request.headers.get(EDIT_HEADER, ""))


def _body_bytes(request: Request) -> int:
    """The length of a request's body by its header; too long if the header is not a number."""
    said = request.headers.get("content-length", "0")
    return int(said) if said.isdecimal() and len(said) < 10 else MAX_BODY_BYTES + 1


def _refused(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{reason}\n", status, {"Connection": "close", **(headers or {})})


# ── The application ─────────────────────────────────────────────────────────────────────


def application(access: ServerSecrets, routes: Sequence[Route]) -> ASGIApp:
    """The page and its API, guarded.

    Args:
        access: the secrets of this run.
        routes: the API's, all under `/api/`.
    """
    return Guard(Starlette(routes=[*routes, *_pages()]), access)


def _pages() -> Iterator[Route]:
    """The files of the page, read once, so that no part of a request ever becomes a path."""
    for file in sorted(_STATIC.rglob("*")):
        if file.suffix in _TYPES:
            path = "/" if file.name == "index.html" else f"/{file.relative_to(_STATIC).as_posix()}"
            yield Route(path, _page(file.read_bytes(), _TYPES[file.suffix]), methods=["GET"])


def _page(body: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    tag = f'"{sha256(body).hexdigest()[:32]}"'

    async def answer(request: Request) -> Response:
        is_known = request.headers.get("if-none-match") == tag
        kept = {"Cache-Control": "no-cache", "ETag": tag}
        return Response(b"" if is_known else body, 304 if is_known else 200, kept, media_type)

    return answer


class _Connection(H11Protocol):
    """A connection to the page. At the limit, a new one closes the one that has waited longest for a whole request.

    Attributes:
        waits_since: since when the connection has no request to answer, on the clock of the event loop.
    """

    waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the place of an idle connection, if all places are taken."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        others = (one for one in self.connections if isinstance(one, _Connection) and one is not self)
        idle = [one for one in others if one.cycle is None or one.cycle.response_complete]
        if idle and len(self.connections) >= _CONCURRENCY:
            oldest = min(idle, key=lambda one: one.waits_since)
            self.connections.discard(oldest)  # now: several may be accepted before its end is reported
            oldest.transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since = self.loop.time()
        super().on_response_complete()


class WebServer(uvicorn.Server):
    """A server on a socket of this machine that leaves signals to its caller, and logs nothing.

    Args:
        app: what answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=_CONCURRENCY,
                timeout_graceful_shutdown=1,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield

    def stop(self) -> None:
        """Let `serve` finish the answers that it has begun, and return."""
        self.should_exit = True
