"""The embedded relay's HTTP side: who may come in, and the information document (NIP-11).

Loopback only is not enough of a wall: a web page in a local browser can dial it too, directly or after
rebinding its own name to 127.0.0.1. So every request has to name a loopback host, exactly, and must
not come from a page of another origin. Programs that send no `Origin` pass.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

import orjson
from websockets.datastructures import Headers
from websockets.http11 import Response

from sense_memory.relay.terms import information


if TYPE_CHECKING:
    from websockets.http11 import Request

    from sense_memory.relay.terms import Terms


_LOOPBACK = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?"
_host = re.compile(_LOOPBACK, re.ASCII | re.IGNORECASE).fullmatch
_origin = re.compile(r"https?://" + _LOOPBACK, re.ASCII | re.IGNORECASE).fullmatch


def answer(request: Request, terms: Terms) -> Response | None:
    """The answer to an HTTP request, or None where the WebSocket handshake may go on."""
    headers = request.headers
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    if len(hosts) != 1 or not _host(hosts[0]):
        return _response(HTTPStatus.FORBIDDEN, "This relay is dialled as 127.0.0.1 or localhost only.\n")
    if not all(map(_origin, origins)):
        return _response(HTTPStatus.FORBIDDEN, "This relay is not open to web pages of other origins.\n")
    if "websocket" in ",".join(headers.get_all("Upgrade")).lower():
        return None
    if "application/nostr+json" in ",".join(headers.get_all("Accept")).lower():
        return _response(HTTPStatus.OK, orjson.dumps(information(terms)), "application/nostr+json")
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
    if status is HTTPStatus.OK:  # NIP-11: the document may be read by web clients, here those of this machine
        for name, value in (("Origin", "*"), ("Headers", "*"), ("Methods", "GET")):
            headers[f"Access-Control-Allow-{name}"] = value
    return Response(status.value, status.phrase, headers, data)
