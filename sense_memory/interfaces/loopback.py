"""Servers for this machine only: their socket, and the requests that every such server refuses.

Every program on this machine, and every page in its browser, can reach a loopback port. So a request is answered only
if its `Host` is exactly an address of the server (a name that an attacker points to 127.0.0.1 is another), and only if
no page of another origin made it (`Origin`, `Sec-Fetch-Site`). Secrets, such as a token, are checked by each server
itself.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1", "": "127.0.0.1"}


def listening_socket(address: str, port: int) -> socket.socket:
    """A socket that listens on an address of the loopback.

    Args:
        address: 127.0.0.1 or ::1.
        port: 0 chooses a free port.

    Raises:
        OSError: the port is taken, or not allowed.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # Named as TCP, because asyncio sends without delay only then; otherwise an answer takes 40 ms longer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


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
            f"{listen} cannot be used ({error.strerror}); choose another port for --listen"
        ) from None


def refusal(
    headers: Iterable[tuple[bytes, bytes]], hosts: Collection[str], *, scheme: str = "http"
) -> tuple[int, str] | None:
    """The status and the reason of a refusal; None if the request may be answered.

    Args:
        headers: of the request, as ASGI has them.
        hosts: the values of `Host` that name this server, such as 127.0.0.1:8765.
        scheme: of the server's own origin: https, where a reverse proxy stands before the server.
    """
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value)
    names = [host.encode() for host in hosts]
    if given.get(b"host", []) not in ([name] for name in names):
        return 421, "this is not the server that the request names"
    if any(site not in {b"same-origin", b"none"} for site in given.get(b"sec-fetch-site", [])):
        return 403, "another site made this request"
    origins = given.get(b"origin", [])
    if origins and origins not in ([scheme.encode() + b"://" + name] for name in names):
        return 403, "a page of another origin made this request"
    return None
