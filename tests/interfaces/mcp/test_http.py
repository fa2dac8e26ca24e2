"""`sense-memory mcp --listen`: who is let in, and what they get. The real program, real sockets, the SDK's own client."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from sense_memory import EmbeddedRelay, InvalidInput, LocalSigner, SyncMemoryStore
from sense_memory.errors import UnsafeFile
from sense_memory.interfaces.loopback import listener_at
from sense_memory.interfaces.mcp.http import MAX_BODY_BYTES, TOKEN_VARIABLE, bearer_token
from sense_memory.nostr.keys import parse_secret
from tests.interfaces.mcp.conftest import http_client, http_server, in_thread
from tests.time_unit import SECOND


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
TOO_LARGE = bytes(MAX_BODY_BYTES + 1)
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def relay():
    with in_thread(EmbeddedRelay) as (_, relay):
        yield relay


@pytest.fixture(scope="module")
def served(tmp_path_factory, relay):
    """At the end it gets SIGTERM, and what was written and not yet sent reaches the relay: another device finds it."""
    home = tmp_path_factory.mktemp("home")
    with http_server(home, "--create-key", "--allow-destructive", SENSE_MEMORY_RELAYS=relay.url) as found:
        yield found
        with http_client(found.url, found.token) as client:
            client.call("remember", path="people/facts/last", value="written at the end")
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(10 * SECOND) == 0
        assert found.token not in found.process.stderr.read()
    key = parse_secret((home / "keys" / "default.key").read_text().strip())
    with SyncMemoryStore(LocalSigner(key), [relay.url], ledger=":memory:") as other:
        assert other.persona_recall("people", "facts", "last")[0].value == "written at the end"


def ask(served, *, path="/mcp", method="POST", body=None, **headers):
    """The status of an answer; a header that is None is left out, and one with a list is sent several times."""
    port = urlsplit(served.url).port
    given = {**HEADERS, "host": f"127.0.0.1:{port}", "authorization": f"Bearer {served.token}"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10 * SECOND)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        content = json.dumps(HELLO).encode() if body is None else body
        for name, value in given.items():
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    connection.putheader(name, one.format(port=port))
        connection.putheader("content-length", str(len(content)))
        connection.endheaders()
        with suppress(ConnectionError):  # it was refused before it was read
            connection.send(content)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:{port}"}, 200),
        ({"origin": "http://127.0.0.1:{port}"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"host": "evil.com"}, 421),
        ({"host": "evil.com:{port}"}, 421),
        ({"host": "127.0.0.1:evil.com"}, 421),
        ({"host": "127.0.0.1:{port}.evil.com"}, 421),
        ({"host": "127.0.0.1:{port}:evil.com"}, 421),
        ({"host": "localhost.evil.com:{port}"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:1"}, 421),
        ({"host": "LOCALHOST:{port}"}, 421),
        ({"host": None}, 400),  # uvicorn itself refuses HTTP/1.1 without one
        ({"host": ["127.0.0.1:{port}", "evil.com"]}, 400),  # and with two
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.com"}, 403),
        ({"origin": "http://127.0.0.1:{port}.evil.com"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"origin": "https://127.0.0.1:{port}"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic dXNlcjpwYXNz"}, 401),
        ({"path": "/"}, 404),
        ({"path": "/mcp/../mcp"}, 404),
        ({"method": "OPTIONS", "origin": "https://evil.com"}, 403),
        ({"method": "PUT"}, 405),
        ({"content_type": "text/plain"}, 400),
        ({"body": b"{"}, 400),
        pytest.param({"body": TOO_LARGE}, 413, id="too large"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_only_this_machines_clients_with_the_token_are_let_in(served, headers, status):
    assert ask(served, **headers) == status


def test_no_session_ends_so_a_client_may_be_idle_or_older_than_the_server(served):
    """The SDK's own sessions end after 30 minutes, and with the server; then every call is answered with 404."""
    recall = {"name": "recall", "arguments": {}}
    call = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": recall}).encode()

    assert ask(served, body=call, mcp_session_id="5d3323b7ee954dc58dc76de53b0ef573") == 200
    assert ask(served, body=call) == 200


def test_a_name_that_somebody_points_to_this_machine_is_refused_before_anything_else(served):
    """HTTP/1.0 needs no Host, and so uvicorn lets it pass: the guard does not."""
    with socket.create_connection(("127.0.0.1", urlsplit(served.url).port), timeout=10 * SECOND) as raw:
        raw.sendall(f"POST /mcp HTTP/1.0\r\nAuthorization: Bearer {served.token}\r\n\r\n".encode())
        assert b" 421 " in raw.makefile("rb").readline()


def test_the_token_is_in_a_file_for_its_owner_only_and_not_on_the_screen(served):
    assert served.token not in served.said
    assert "mcp-token" in served.said
    assert len(served.token) >= 32


def test_a_memory_is_written_over_http_and_an_export_stays_in_its_folder(served):
    with http_client(served.url, served.token) as client:
        assert {"forget", "prune", "export"} <= {tool.name for tool in client.list_tools().tools}
        assert client.call("remember", path="people/facts/lisa", value="Lisa paints")["remembered"]
        assert client.call("export", name="../escape.jsonl").startswith("this is not a plain file name")
        assert client.call("export", name="backup.jsonl")["events"] >= 1
        assert client.call("forget", path="people/facts/nobody").startswith("there is no memory")
        found = client.call("recall", path="people/facts/lisa")["memories"]

    assert found[0]["value"] == "Lisa paints"
    assert (served.home / "exports" / "backup.jsonl").exists()


# ── Without a server ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "listen",
    [
        "0.0.0.0:0",
        "example.com:80",
        "192.168.1.1:0",
        "127.0.0.1",
        "127.0.0.1:http",
        "127.0.0.1:70000",
        ":-1",
        "[::]:0",
    ],
)
def test_it_listens_on_this_machine_only(listen):
    with pytest.raises(InvalidInput, match="this machine only"):
        listener_at(listen)


def test_a_port_in_use_is_named():
    with listener_at("localhost:0") as first:
        port = first.getsockname()[1]
        with pytest.raises(
            InvalidInput, match=f"127.0.0.1:{port} cannot be used .*; choose another port for --listen"
        ):
            listener_at(f"127.0.0.1:{port}")


def test_the_token_is_made_once_and_the_environments_comes_first(tmp_path):
    first, place = bearer_token(tmp_path, {})

    assert bearer_token(tmp_path, {}) == (first, place)
    assert place == str(tmp_path / "mcp-token")
    assert (tmp_path / "mcp-token").stat().st_mode & 0o777 == 0o600
    assert bearer_token(tmp_path, {TOKEN_VARIABLE: "t" * 32})[0] == "t" * 32
    for weak in ("short", "with space " * 4, "ü" * 40):
        with pytest.raises(InvalidInput, match="32 or more"):
            bearer_token(tmp_path, {TOKEN_VARIABLE: weak})


def test_a_token_that_others_can_read_or_redirect_is_refused(tmp_path):
    bearer_token(tmp_path, {})
    (tmp_path / "mcp-token").chmod(0o640)
    with pytest.raises(UnsafeFile, match="delete"):
        bearer_token(tmp_path, {})
    (tmp_path / "mcp-token").rename(tmp_path / "elsewhere")
    (tmp_path / "mcp-token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile, match="cannot be opened"):
        bearer_token(tmp_path, {})
