"""Who gets an answer of the HTTP API: a program of this machine with the token, and no page of another origin.

Every check is made before a call sees the request: `Host` and origin (`interfaces.loopback`), the token, and the sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.bearer_token import has_token
from sense_memory.interfaces.http_api.calls import ApiCalls
from sense_memory.interfaces.http_api.openapi import DOCUMENT_PATH, EVENTS_PATH, document
from sense_memory.interfaces.http_api.routes import routes_of
from sense_memory.interfaces.json_answers import error_answer, json_answer
from sense_memory.interfaces.limited_body import LimitedBody
from sense_memory.interfaces.loopback import refusal
from sense_memory.mind.agent_tool import Access


if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sense_memory.interfaces.http_api.routes import ApiRoute
    from sense_memory.interfaces.live import LiveChanges
    from sense_memory.store import MemoryStore

TOKEN_VARIABLE: Final = "SENSE_MEMORY_API_TOKEN"  # noqa: S105 - its name
TOKEN_FILE: Final = "api-token"  # noqa: S105 - in the data folder
MAX_BODY_BYTES: Final = 262_144  # a memory has 40,960 bytes at most; JSON may write each as six
_MAX_URL_BYTES: Final = 16_384
_WRONG_METHOD: Final = "this method is not for this address"


def application(
    store: MemoryStore,
    token: str,
    port: int,
    live: LiveChanges,
    *,
    read_only: bool = False,
    allow_destructive: bool = False,
) -> ASGIApp:
    """The API, guarded.

    Args:
        store: is open.
        token: what a request has to carry.
        port: of the server.
        live: gives the streams of changes; whoever stops the server closes it first.
        read_only: only calls that read, and nothing is noted as used.
        allow_destructive: also `forget`.
    """
    found = document()
    rights = {Access.READ} if read_only else {Access.READ, Access.WRITE, Access.SETTLE}
    rights |= {Access.DESTRUCTIVE} if allow_destructive else set()

    async def described(_request: Request) -> Response:
        return json_answer(found)

    async def changes(_request: Request) -> Response:
        try:
            return StreamingResponse(live.open(), 200, {"Cache-Control": "no-store"}, "text/event-stream")
        except InvalidInput as error:  # too many are open
            return error_answer(503, type(error).__name__, str(error))

    routes = routes_of(ApiCalls(store, live, is_read_only=read_only))
    paths = dict.fromkeys(one.path for one in routes)
    calls = [Route(path, _MethodsAt(routes, path, rights)) for path in paths]
    others = [Route(DOCUMENT_PATH, described, methods=["GET"]), Route(EVENTS_PATH, changes, methods=["GET"])]
    api = Starlette(routes=[*others, *calls], exception_handlers={HTTPException: _nothing_there})
    api.router.redirect_slashes = False
    return ApiGuard(api, token, port)


async def _nothing_there(_request: Request, error: Exception) -> Response:
    """The answer to an address that is no call's, or a method that is not for it: an error as any other."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    reasons = {
        404: f"there is nothing at this address; {DOCUMENT_PATH} says what there is",
        405: _WRONG_METHOD,
    }
    headers = error.headers if isinstance(error, HTTPException) else None
    return error_answer(status, "Refused", reasons.get(status, "this cannot be answered"), headers)


class _MethodsAt:
    """The calls at one path, each under its method. An ASGI application."""

    def __init__(self, routes: Sequence[ApiRoute], path: str, rights: set[Access]) -> None:
        self._routes = {one.method: one for one in routes if one.path == path}
        self._rights = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        one = self._routes.get(scope["method"])
        if one is None:
            answer = refused(405, _WRONG_METHOD, {"Allow": ", ".join(self._routes)})
        elif one.access not in self._rights:
            how = "--allow-destructive" if one.access is Access.DESTRUCTIVE else "no --read-only"
            answer = refused(403, f"the server has to be started with {how} for this; nothing was done")
        else:
            answer = await one.handler()(Request(scope, receive))
        await answer(scope, receive, send)


class ApiGuard:
    """Refuses requests that must not be answered. An ASGI application.

    Args:
        app: answers all other requests.
        token: what a request has to carry; the OpenAPI document needs none.
        port: of this server.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = LimitedBody(app, MAX_BODY_BYTES, refused(413, "the body is too large"))
        self._token = token
        self._hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        answer: ASGIApp = self._refusal(scope) or self._app
        await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if (found := refusal(scope["headers"], self._hosts)) is not None:
            return refused(*found)
        if len(scope["raw_path"]) + len(scope["query_string"]) > _MAX_URL_BYTES:
            return refused(414, "the address is too long")
        if scope["path"] != DOCUMENT_PATH and not has_token(scope["headers"], self._token):
            return refused(401, "send the token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
        return None


def refused(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    """The answer to a request that reaches no call."""
    return error_answer(status, "Refused", reason, headers)
