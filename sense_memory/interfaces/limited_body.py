"""Requests whose body is read before anything is done with them, and refused where it is too large or its end is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class LimitedBody:
    """An ASGI application before another one, which gets whole bodies only.

    Args:
        app: answers requests.
        max_bytes: of a body.
        refusal: answers a request whose body has more.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, refusal: ASGIApp) -> None:
        self._app, self._max_bytes, self._refusal = app, max_bytes, refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; a client that has gone gets nothing."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if len(body) > self._max_bytes:
                await self._refusal(scope, receive, send)
                return
            if not message.get("more_body"):
                break
        whole: list[Any] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, again, send)
