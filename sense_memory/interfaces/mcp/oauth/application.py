"""What requests to the public URL get: the documents that clients look for, OAuth's endpoints, the consent page, and MCP.

Guaranteed: the MCP endpoint answers only to an access token that this server issued for it. A page of another origin gets
no answer, except that a browser may be sent to the consent page, as OAuth needs it; the form there is accepted from that page
alone (`Origin`). The browser is sent to a client only after the user agreed, also where a request is wrong (RFC 9700, 4.11.2).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from sense_memory.interfaces.bearer_token import bearer_of
from sense_memory.interfaces.json_answers import RETRY_SECONDS
from sense_memory.interfaces.limited_body import LimitedBody
from sense_memory.interfaces.loopback import refusal
from sense_memory.interfaces.mcp.oauth.access_file import AccessUnknown
from sense_memory.interfaces.mcp.oauth.consent import ConsentPages, message_page
from sense_memory.interfaces.mcp.oauth.provider import CONSENT_PATH, SCOPE, RemoteProvider
from sense_memory.interfaces.mcp.oauth.sealed_text import Sealer


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sense_memory.interfaces.mcp.oauth.access_file import AccessFile

MAX_FORM_BYTES: Final = 16_384  # of every body but those of MCP
_MAX_URL_BYTES: Final = 8_192
_MAX_REASON_CHARS: Final = 200
_log: Final = logging.getLogger("sense_memory.mcp")
_AUTHORIZE: Final = "/authorize"
_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class RemoteApplication:
    """Answers the requests whose `Host` is that of the public URL. An ASGI application.

    Args:
        mcp: answers requests to MCP that may be answered.
        origin: the public URL, such as https://memory.example.org.
        path: of the MCP endpoint.
        file: who may reach the memory.
        agent: whose memory it is.
        reach: what the tools can do to it, in words.
    """

    def __init__(self, mcp: Any, origin: str, path: str, file: AccessFile, *, agent: str, reach: str) -> None:
        parts = urlsplit(origin)
        self._origin, self._host, self._scheme = origin, parts.netloc, parts.scheme
        self._mcp, self._file, self._path, self._resource = mcp, file, path, f"{origin}{path}"
        self._provider = RemoteProvider(file, Sealer(file.seal_key(), file.clock), origin, self._resource)
        self._pages = ConsentPages(agent, reach)
        self._challenge = f'Bearer resource_metadata="{origin}{_RESOURCE}{path}", scope="{SCOPE}"'
        too_large = PlainTextResponse("the request is too large\n", 413)
        oauth = Starlette(routes=self._routes(), exception_handlers={AccessUnknown: _unknown})
        self._oauth = LimitedBody(oauth, MAX_FORM_BYTES, too_large)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        answer: ASGIApp
        if (refused := self._refusal(request)) is not None:
            answer = refused
        elif scope["path"] == self._path:
            answer = await self._denial(request) or self._mcp
        else:
            answer = self._oauth
        await answer(scope, receive, _with_headers(send))

    def is_named(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request, by its headers as ASGI has them, names the public URL."""
        return [value for name, value in headers if name.lower() == b"host"] == [self._host.encode()]

    # ── Who gets an answer ──────────────────────────────────────────────────────────────

    def _refusal(self, request: Request) -> Response | None:
        problem = refusal(request.headers.raw, [self._host], scheme=self._scheme)
        if problem is not None and problem[0] == 403 and _is_visit(request):
            problem = None
        if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > _MAX_URL_BYTES:
            problem = 414, "the address is too long"
        return None if problem is None else PlainTextResponse(f"{problem[1]}\n", problem[0])

    async def _denial(self, request: Request) -> Response | None:
        """The answer to a request without a good access token, as RFC 6750 and RFC 9728 have it."""
        token = bearer_of(request.headers.raw)
        try:
            if token is not None and await self._provider.load_access_token(token.decode("latin-1")):
                return None
        except AccessUnknown as error:
            return await _unknown(request, error)
        challenge = self._challenge if token is None else f'{self._challenge}, error="invalid_token"'
        return JSONResponse({"error": "invalid_token"}, 401, {"WWW-Authenticate": challenge})

    # ── OAuth ───────────────────────────────────────────────────────────────────────────

    def _routes(self) -> list[Route]:
        registration = ClientRegistrationOptions(enabled=True)
        made = create_auth_routes(
            self._provider,
            AnyHttpUrl(self._origin),
            client_registration_options=registration,
        )
        sdk = {route.path: route for route in made}
        page = f"{self._origin}{CONSENT_PATH}?"
        return [
            Route(f"{_RESOURCE}{self._path}", self._resource_metadata, methods=["GET"]),
            Route(_RESOURCE, self._resource_metadata, methods=["GET"]),  # where some clients look
            Route("/.well-known/oauth-authorization-server", self._server_metadata, methods=["GET"]),
            Route(_AUTHORIZE, AuthorizePage(sdk[_AUTHORIZE].app, page), methods=["GET"]),
            sdk["/token"],
            sdk["/register"],
            Route("/revoke", self._revoke, methods=["POST"]),
            Route(CONSENT_PATH, self._consent, methods=["GET"]),
            Route(CONSENT_PATH, self._answered, methods=["POST"]),
        ]

    async def _resource_metadata(self, _request: Request) -> Response:
        """RFC 9728: which authorization server clients have to ask, this one."""
        return JSONResponse(
            {
                "resource": self._resource,
                "authorization_servers": [self._origin],
                "scopes_supported": [SCOPE],
                "bearer_methods_supported": ["header"],
                "resource_name": "sense-memory",
            }
        )

    async def _server_metadata(self, _request: Request) -> Response:
        """RFC 8414: what this authorization server can do."""
        return JSONResponse(
            {
                "issuer": self._origin,
                "authorization_endpoint": f"{self._origin}{_AUTHORIZE}",
                "token_endpoint": f"{self._origin}/token",
                "registration_endpoint": f"{self._origin}/register",
                "revocation_endpoint": f"{self._origin}/revoke",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "scopes_supported": [SCOPE],
                "token_endpoint_auth_methods_supported": ["none"],
                "revocation_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _revoke(self, request: Request) -> Response:
        """RFC 7009: whoever has a token may end its grant; the answer is the same for an unknown token."""
        await self._file.apart(self._file.revoke_token, (await _form(request)).get("token", ""))
        return Response(status_code=200)

    async def _consent(self, request: Request) -> Response:
        sealed = request.query_params.get("request", "")
        asked = self._provider.consent_request(sealed)
        return _expired_page() if asked is None else self._pages.form(asked, sealed)

    async def _answered(self, request: Request) -> Response:
        """The form of the consent page; the browser says that the page is ours."""
        if request.headers.get("origin") != self._origin:
            return message_page("Not accepted", "The form was not sent by the page of this server.", 403)
        form = await _form(request)
        sealed = form.get("request", "")
        asked = self._provider.consent_request(sealed)
        if asked is None:
            return _expired_page()
        if form.get("answer") != "allow":
            return self._pages.denial(asked, self._provider.deny(asked))
        if not await self._file.apart(self._file.spend_code, form.get("code", "")):
            return self._pages.form(
                asked,
                sealed,
                problem="This is not the code, or it is void by now. The command shows a new one.",
            )
        return RedirectResponse(await self._provider.allow(asked), 303)


async def _unknown(_request: Request, error: Exception) -> Response:
    """The answer where the file does not say who may reach the memory; its reason, which names the file, goes to stderr."""
    _log.warning("%s", error)
    return PlainTextResponse(
        "the server cannot tell who may reach the memory; its terminal says why\n",
        503,
        {"Retry-After": str(RETRY_SECONDS)},
    )


def _is_visit(request: Request) -> bool:
    """Whether a browser comes from another site to the pages of OAuth, in a window of its own."""
    at_pages = request.method == "GET" and request.scope["path"] in {_AUTHORIZE, CONSENT_PATH}
    is_window = (
        request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest") == "document"
    )
    return at_pages and is_window and "origin" not in request.headers


class AuthorizePage:
    """The SDK's authorization endpoint, which redirects to our consent page, and with errors to clients: the latter become a page.

    Args:
        app: the SDK's.
        page: how the only address begins that a browser may be sent to.
    """

    def __init__(self, app: ASGIApp, page: str) -> None:
        self._app, self._page = app, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        await self._app(scope, receive, hold)
        location = MutableHeaders(scope=held[0]).get("location", "")
        if location.startswith(self._page):
            for message in held:
                await send(message)
            return
        await _refusal_page(location, held)(scope, receive, send)


def _refusal_page(location: str, held: Sequence[Message]) -> Response:
    """The page for a request that the SDK refuses, with the reason that it gives in an address or as JSON."""
    reasons = parse_qs(urlsplit(location).query).get("error_description", [])
    with suppress(orjson.JSONDecodeError, KeyError, TypeError):
        reasons = reasons or [
            orjson.loads(b"".join(one.get("body", b"") for one in held))["error_description"]
        ]
    reason = str(reasons[0])[:_MAX_REASON_CHARS] if reasons else "it is not valid"
    return message_page(
        "The request cannot be answered",
        f"A program sent you here with a request that this server cannot answer: {reason}. Connect again in the program; if "
        "that does not help, remove the connection there and add it anew.",
    )


def _expired_page() -> Response:
    return message_page(
        "This page is over",
        "Connect again in your program: the request is older than ten minutes, or not from here.",
    )


async def _form(request: Request) -> Mapping[str, str]:
    """The fields of a form, the first value of each; empty if the body is none."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip()
        != "application/x-www-form-urlencoded"
    ):
        return {}
    fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent
