"""Who gets an answer: rows I-04 to I-06 of the matrix, on raw sockets, against the real program."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress

import pytest

from sense_memory.interfaces.live import MAX_STREAMS
from tests.interfaces.web.conftest import running, written
from tests.time_unit import SECOND


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECRET = "the plum cake is for Emil"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web")

    async def work(store):
        await store.persona_remember("people", "facts", "emil", SECRET)
        await store.persona_remember("people", "facts", "emil", f"{SECRET}, without hazelnuts")
        await store.remember("cake", SECRET)

    written(folder, work)
    return folder


@pytest.fixture(scope="module")
def page(home):
    with running(home, "--edit") as page:
        yield page


@pytest.fixture(scope="module")
def cookie(page, signed_in):
    answer = ask(page, "GET /api/session", f"X-Sense-Memory-Token: {page.token}")
    return signed_in(answer)


@pytest.fixture(scope="module")
def edit_token(page, cookie):
    return body(ask(page, "GET /api/session", cookie))["edit"]


def send(page, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", page.port), 10 * SECOND) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
    return answer


def ask(page, line, *headers, host=None, data=b"") -> bytes:
    """The whole answer to one request."""
    lines = [f"{line} HTTP/1.1", f"Host: {host or f'127.0.0.1:{page.port}'}", "Connection: close", *headers]
    return send(page, "\r\n".join([*lines, "", ""]).encode() + data)


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def body(answer: bytes):
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def post(page, *headers, action="undo", names=("people/facts/emil",)) -> bytes:
    data = json.dumps({"action": action, "names": names}).encode()
    return ask(page, "POST /api/act", f"Content-Length: {len(data)}", *headers, data=data)


# ── I-04 ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "127.0.0.1:evil.com",
        "localhost.evil.com:{port}",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:{port}.evil.com",
        "127.0.0.1:0{port}",
        "[::1]:{port}",
        "127.0.0.2:{port}",
        "user@127.0.0.1:{port}",
        "127.0.0.1:{port}, evil.com",
    ],
)
def test_a_host_that_is_not_exactly_this_server_gets_421_and_nothing_else(page, cookie, host):
    for path in ("/", "/api/palace", "/js/app.js"):
        answer = ask(page, f"GET {path}", cookie, host=host.format(port=page.port))

        assert 421 == status(answer)
        assert SECRET.encode() not in answer
        assert b"<script" not in answer


@pytest.mark.parametrize("lines", [[], ["Host: 127.0.0.1:{port}", "Host: evil.com"]])
def test_no_host_or_two_are_refused_by_the_parser(page, cookie, lines):
    """RFC 9112 3.2 asks for 400."""
    head = "\r\n".join(["GET /api/palace HTTP/1.1", *lines, cookie, "Connection: close", "", ""])

    assert 400 == status(send(page, head.format(port=page.port).encode()))


def test_an_old_request_without_a_host_gets_421(page, cookie):
    assert 421 == status(send(page, f"GET /api/palace HTTP/1.0\r\n{cookie}\r\n\r\n".encode()))


def test_localhost_with_the_port_is_this_server(page, cookie):
    assert 200 == status(ask(page, "GET /api/palace", cookie, host=f"localhost:{page.port}"))


# ── I-05 ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "header",
    [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",  # another port of this machine
        "Origin: null",
        "Origin: http://evil.com",
        "Origin: http://127.0.0.1:1",
        "Origin: https://127.0.0.1:{port}",
        "Origin: http://127.0.0.1:{port}.evil.com",
    ],
)
def test_what_another_site_asks_is_refused(page, cookie, edit_token, header):
    """Even with the cookie and the token, which no other site has."""
    other = header.format(port=page.port)
    headers = (cookie, f"X-Sense-Memory-Edit: {edit_token}", "Content-Type: application/json", other)

    assert 403 == status(ask(page, "GET /api/palace", cookie, other))
    assert 403 == status(ask(page, "GET /", other))
    assert 403 == status(post(page, *headers))


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"])
def test_a_preflight_and_every_other_method_get_405(page, cookie, method):
    answer = ask(
        page, f"{method} /api/act", cookie, "Origin: http://evil.com", "Access-Control-Request-Method: POST"
    )

    assert 405 == status(answer)
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    ("kind", "token"),
    [
        ("application/x-www-form-urlencoded", True),
        ("multipart/form-data", True),
        ("text/plain", True),
        ("application/json", False),
    ],
)
def test_a_form_and_a_post_without_the_token_of_editing_change_nothing(page, cookie, edit_token, kind, token):
    headers = [cookie, f"Content-Type: {kind}", f"Origin: http://127.0.0.1:{page.port}"]
    headers += [f"X-Sense-Memory-Edit: {edit_token}"] if token else ["X-Sense-Memory-Edit: guess"]

    assert 403 == status(post(page, *headers))
    told = body(ask(page, "GET /api/memory?path=people/facts/emil", cookie))
    assert f"{SECRET}, without hazelnuts" == told["memory"]["value"]


# ── I-06 ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    [
        *("palace", "search?q=cake", "memory?path=cake", "journal", "mind", "relays"),
        *("events", "edits", "log", "journal-days"),
    ],
)
@pytest.mark.parametrize("header", ["X-No: cookie", "Cookie: sense-memory-{port}=guess", "Referer: {url}"])
def test_without_the_cookie_there_is_no_memory(page, path, header):
    answer = ask(page, f"GET /api/{path}", header.format(port=page.port, url=page.url))

    assert 401 == status(answer)
    assert SECRET.encode() not in answer


@pytest.mark.parametrize("path", ["palace", "session"])
def test_the_cookie_alone_opens_nothing(page, cookie, path):
    """A browser sends it to every port of this machine, where a server of somebody else may listen."""
    alone, _, header = cookie.partition("\r\n")
    for headers in ((alone,), (header,), (alone, "X-Sense-Memory-Page: guess")):
        answer = ask(page, f"GET /api/{path}", *headers)

        assert 401 == status(answer)
        assert SECRET.encode() not in answer


def test_the_token_works_once(page, cookie):
    assert page.token not in cookie
    for header in (f"X-Sense-Memory-Token: {page.token}", "X-Sense-Memory-Token: guess"):
        answer = ask(page, "GET /api/session", header)

        assert 401 == status(answer)
        assert b"set-cookie" not in answer.lower()


def test_the_cookie_is_for_this_server_alone(home, signed_in):
    with running(home) as page:
        answer = ask(page, "GET /api/session", f"X-Sense-Memory-Token: {page.token}")
        head = answer.partition(b"\r\n\r\n")[0].decode().lower()
        cookie = signed_in(answer)

        assert "httponly" in head
        assert "samesite=strict" in head
        assert "domain=" not in head
        assert body(answer)["edit"] is None
        assert 405 == status(post(page, cookie, "Content-Type: application/json"))  # read-only: GET alone
        assert 405 == status(ask(page, "POST /", cookie))


# ── Every answer ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["/", "/js/app.js", "/style.css", "/vendor/uplot.min.js", "/api/palace", "/nothing"]
)
def test_every_answer_carries_the_headers_of_safety(page, cookie, path):
    answer = ask(page, f"GET {path}", cookie)
    head = answer.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")

    assert f"content-security-policy: {POLICY}" in head
    assert {"x-content-type-options: nosniff", "referrer-policy: no-referrer"} <= set(head)
    assert not any(line.startswith(("server:", "access-control")) for line in head)
    assert any(line.startswith("cache-control: no-") for line in head)


def test_a_refusal_carries_them_too(page):
    assert POLICY.encode() in ask(page, "GET /api/palace")


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/%2e%2e/server.py",
        "/js/../../server.py",
        "//etc/passwd",
        "/js/",
        "/static/index.html",
    ],
)
def test_a_path_never_becomes_a_file(page, cookie, path):
    assert 404 == status(ask(page, f"GET {path}", cookie))


def test_long_addresses_and_bodies_are_refused(page, cookie, edit_token):
    headers = (cookie, f"X-Sense-Memory-Edit: {edit_token}", "Content-Type: application/json")

    assert 414 == status(ask(page, f"GET /api/search?q={'a' * 5_000}", cookie))
    assert status(ask(page, f"GET /api/search?q={'a' * 70_000}", cookie)) in {400, 414}
    assert 413 == status(ask(page, "POST /api/act", *headers, "Content-Length: 99999999"))
    assert 413 == status(ask(page, "GET /api/palace", cookie, "Content-Length: 10", data=b"0123456789"))
    chunk = b"8000\r\n" + b"a" * 0x8000 + b"\r\n0\r\n\r\n"
    assert 400 == status(ask(page, "POST /api/act", *headers, "Transfer-Encoding: chunked", data=chunk))


def test_idle_connections_give_way_to_new_ones_the_oldest_first(page, cookie):
    """Whether they sent nothing, or the beginning of a request; a browser keeps the connections it has just used."""
    idle = [socket.create_connection(("127.0.0.1", page.port), 10 * SECOND) for _ in range(70)]
    try:
        for connection in idle[::2]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert 200 == status(ask(page, "GET /api/palace", cookie))
        closed = [is_closed(connection) for connection in idle]
        assert closed == sorted(closed, reverse=True)
        assert 1 <= sum(closed) <= 10
    finally:
        for connection in idle:
            connection.close()


def is_closed(connection) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


# ── Streams of changes ──────────────────────────────────────────────────────────────────


def streaming(page, cookie):
    """A connection whose stream of changes has begun."""
    connection = socket.create_connection(("127.0.0.1", page.port), 10 * SECOND)
    head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n{cookie}\r\n\r\n"
    connection.sendall(head.encode())
    answer = b""
    while b"event: hello" not in answer:
        answer += connection.recv(4_096)
    assert 200 == status(answer)
    assert b"content-type: text/event-stream" in answer.lower()
    return connection


def test_a_stream_ends_with_its_connection_and_leaves_its_place_to_others(page, cookie):
    for _ in range(MAX_STREAMS + 4):
        streaming(page, cookie).close()
    streams = [streaming(page, cookie) for _ in range(2)]
    assert 200 == status(ask(page, "GET /api/palace", cookie))
    assert 200 == status(ask(page, "HEAD /api/events", cookie))  # without the stream
    for stream in streams:
        stream.close()


def test_the_program_ends_at_once_while_streams_are_open(home, signed_in):
    with running(home) as page:
        answer = ask(page, "GET /api/session", f"X-Sense-Memory-Token: {page.token}")
        stream, begun = streaming(page, signed_in(answer)), time.monotonic()

    assert time.monotonic() - begun < 5 * SECOND
    with stream:
        assert rest_of(stream).endswith(b"0\r\n\r\n")  # the whole answer: the stream was ended, not cut off


def rest_of(connection) -> bytes:
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(4_096):
            found += piece
    return found


def test_it_listens_on_the_loopback_address_only(page):
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((other_address(), page.port), 5 * SECOND)


def other_address() -> str:
    """An address of this machine that is not the one the server is bound to."""
    return "127.0.0.2"
