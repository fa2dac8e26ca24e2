"""The embedded relay's own promises: its file, its door, its limits, and what a bad client cannot do.

What it shares with every relay is in `tests/contracts`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sqlite3
import stat
import sys
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from sense_memory.errors import InvalidSetting, RelayError
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.signer import LocalSigner
from sense_memory.relay.server import server as embedded
from sense_memory.relay.server.server import EmbeddedRelay
from tests.relay.server.client import Client, dial
from tests.time_unit import SECOND


SIGNER = LocalSigner.from_hex("07" * 32)
NOW = 1_800_000_000  # the fake clock's start


async def rest(client):
    """The frames that were on their way when the relay ended the connection."""
    frames = []
    with suppress(ConnectionClosed):
        while True:
            frames.append(await client.next())
    return frames


async def sign(kind=1, content="", tags=(), at=NOW, signer=SIGNER):
    event = await signer.sign(Unsigned(at, kind, tuple(map(tuple, tags)), content))
    return json.loads(event.body())


async def sign_in(client, url, *, challenge=None, at=NOW, kind=22242, signer=SIGNER):
    tags = [["relay", url], ["challenge", challenge or client.challenge]]
    await client.send("AUTH", await sign(kind, "", tags, at, signer))
    return (await client.next())[2:]


async def http(url, *headers):
    """Status line, headers and body of the answer to a hand-written HTTP request."""
    reader, writer = await asyncio.open_connection(*url.removeprefix("ws://").split(":"))
    try:
        writer.write("\r\n".join(["GET / HTTP/1.1", *headers, "", ""]).encode())
        async with asyncio.timeout(5 * SECOND):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            body = b"" if " 101 " in head else await reader.read()
    finally:
        writer.close()
    return int(head.split()[1]), head.lower(), body


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)


# ── Its file ────────────────────────────────────────────────────────────────────────────


async def test_data_in_a_file_survives_a_restart(tmp_path, clock):
    path = tmp_path / "new folder" / "relay.db"
    kept, deleted = await sign(1, "kept"), await sign(1, "deleted")
    deletion = await sign(5, "", [["e", deleted["id"]]], NOW + 1)
    async with EmbeddedRelay(path, clock=clock) as relay, dial(relay.url) as client:
        for event in (kept, deleted, deletion):
            assert (await client.publish(event))[0]

    async with EmbeddedRelay(path, clock=clock) as relay, dial(relay.url) as client:
        assert await client.query({}) == [deletion, kept]
        assert await client.publish(deleted) == [False, "deleted: user requested deletion"]


async def test_without_a_path_data_lives_as_long_as_the_object(clock):
    event = await sign()
    relay = EmbeddedRelay(clock=clock)
    async with relay, dial(relay.url) as client:
        url = relay.url
        await client.publish(event)
    async with relay, dial(url) as client:
        assert await client.query({}) == [event]
    async with EmbeddedRelay(clock=clock) as other, dial(other.url) as client:
        assert await client.query({}) == []


async def test_the_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "relay.db"
    path.touch(mode=0o644)
    async with EmbeddedRelay(path):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}


async def test_two_relays_do_not_share_a_file(tmp_path):
    async with EmbeddedRelay(tmp_path / "relay.db"):
        with pytest.raises(RelayError, match="another relay is using the file"):
            await EmbeddedRelay(tmp_path / "relay.db").__aenter__()


async def test_another_programs_file_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "agent.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (memory TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(RelayError, match="not written by this version of the relay"):
        await EmbeddedRelay(path).__aenter__()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my notes, " * 1_000)
    with pytest.raises(RelayError, match="cannot be opened"):
        await EmbeddedRelay(path).__aenter__()
    assert path.read_bytes() == b"my notes, " * 1_000


async def test_nothing_of_a_deleted_event_stays_in_the_file(tmp_path, clock):
    event = await sign(1, "the-content", [["t", "the-tag"]])
    async with EmbeddedRelay(tmp_path / "relay.db", clock=clock) as relay, dial(relay.url) as client:
        await client.publish(event)
        assert await client.query({"#t": ["the-tag"]}) == [event]
        await client.publish(await sign(5, "", [["e", event["id"]]], NOW + 1))

    remains = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert (b"the-content" in remains, b"the-tag" in remains) == (False, False)


async def test_the_file_is_set_to_outlive_a_power_cut(tmp_path):
    """A kill cannot show it: the operating system keeps what was written."""
    async with EmbeddedRelay(tmp_path / "relay.db") as relay:
        settings = [
            relay._event_store._sql.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["wal", 2]


SERVE = """
import asyncio, sys
from sense_memory.relay.server.server import EmbeddedRelay
async def main():
    async with EmbeddedRelay(sys.argv[1]) as relay:
        print(relay.url, flush=True)
        await relay.serve_forever()
asyncio.run(main())
"""


async def test_every_event_with_an_ok_survives_a_kill(tmp_path):
    path = tmp_path / "relay.db"
    events = [await sign(1, str(number), at=1_700_000_000) for number in range(200)]
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, str(path), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(20 * SECOND):
        url = (await program.stdout.readline()).decode().strip()
        async with dial(url) as client:
            for event in events:
                await client.send("EVENT", event)
            acknowledged = [(await client.next())[1] for _ in events[:60]]
            program.send_signal(signal.SIGKILL)
            await program.wait()
            acknowledged += [frame[1] for frame in await rest(client)]

    async with EmbeddedRelay(path) as relay, dial(relay.url) as client:
        assert {event["id"] for event in await client.query({})} >= set(acknowledged)


async def test_a_full_disk_refuses_the_event_and_keeps_the_connection(tmp_path, clock):
    async with EmbeddedRelay(tmp_path / "relay.db", clock=clock) as relay, dial(relay.url) as client:
        pages = relay._event_store._sql.execute("PRAGMA page_count").fetchone()[0]
        relay._event_store._sql.execute(f"PRAGMA max_page_count = {pages}")
        event = await sign(1, "x" * 50_000)
        accepted, text = await client.publish(event)
        assert (accepted, text.startswith("error:")) == (False, True)
        assert await client.query({}) == []

        relay._event_store._sql.execute("PRAGMA max_page_count = 1000000")
        assert await client.publish(event) == [True, ""]


# ── Coming and going ────────────────────────────────────────────────────────────────────


async def test_it_listens_on_the_loopback_interface_only():
    async with EmbeddedRelay() as relay:
        assert relay.url.startswith("ws://127.0.0.1:")
        assert {each.getsockname()[0] for each in relay._server.sockets} == {"127.0.0.1"}


async def test_a_port_that_is_taken_is_an_error_that_names_it():
    async with EmbeddedRelay() as relay:
        port = int(relay.url.rsplit(":", 1)[1])
        with pytest.raises(RelayError, match=f"{port}: cannot listen"):
            await EmbeddedRelay(port=port).__aenter__()


async def test_the_url_is_an_error_before_there_is_one():
    with pytest.raises(RelayError, match="async with"):
        _ = EmbeddedRelay().url
    assert EmbeddedRelay(port=7447).url == "ws://127.0.0.1:7447"


async def test_a_running_relay_is_not_started_twice():
    async with EmbeddedRelay() as relay:
        with pytest.raises(RelayError, match="running already"):
            await relay.__aenter__()


async def test_cancelling_serve_forever_ends_cleanly(tmp_path):
    running = asyncio.Event()
    relay = EmbeddedRelay(tmp_path / "relay.db")

    async def serve():
        async with relay:
            running.set()
            await relay.serve_forever()

    task = asyncio.create_task(serve())
    await running.wait()
    async with dial(relay.url) as client:
        task.cancel()
        with pytest.raises(ConnectionClosed) as closed:
            await client.next()
        assert closed.value.rcvd.code == 1001
    with pytest.raises(asyncio.CancelledError):
        await task
    async with relay:  # neither the port nor the file is held
        pass


@pytest.mark.parametrize(
    "limit", ["max_message_bytes", "max_limit", "max_subscriptions", "max_backlog_bytes"]
)
def test_limits_must_be_positive(limit):
    with pytest.raises(InvalidSetting, match=limit):
        EmbeddedRelay(**{limit: 0})


# ── Its door ────────────────────────────────────────────────────────────────────────────


async def test_the_information_document_tells_the_limits():
    """NIP-11."""
    async with EmbeddedRelay(require_auth=True, max_limit=77) as relay:
        status, head, body = await http(relay.url, "Host: 127.0.0.1", "Accept: application/nostr+json")
    document = json.loads(body)
    assert status == 200
    assert "content-type: application/nostr+json" in head
    assert "access-control-allow-origin: *" in head
    assert document["supported_nips"] == [1, 9, 11, 40, 42, 45, 70, 77]
    assert {"name", "software", "version"} <= set(document)
    assert document["limitation"] == {
        "max_message_length": 262_144,
        "max_subscriptions": 50,
        "max_filters": 50,
        "max_limit": 77,
        "default_limit": 77,
        "max_subid_length": 64,
        "max_event_tags": 2_000,
        "created_at_upper_limit": 900,
        "auth_required": True,
        "payment_required": False,
        "restricted_writes": True,
    }


async def test_a_browser_gets_a_sentence():
    async with EmbeddedRelay() as relay:
        status, _, body = await http(relay.url, "Host: localhost", "Accept: text/html")
    assert (status, b"Nostr" in body) == (200, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:80", "localhost", "LOCALHOST:9999", "[::1]:7447"])
async def test_loopback_names_come_in(host):
    async with EmbeddedRelay() as relay:
        assert (await http(relay.url, f"Host: {host}", *UPGRADE))[0] == 101


@pytest.mark.parametrize(
    "hosts",
    [
        ["evil.com"],
        ["127.0.0.1:evil.com"],
        ["localhost.evil.com"],
        ["127.0.0.1.evil.com:80"],
        ["evil@localhost"],
        ["localhost", "localhost"],
        ["localhost", "evil.com"],
        [""],
        [],
    ],
)
@pytest.mark.parametrize("purpose", [UPGRADE, ("Accept: application/nostr+json",)], ids=["dial", "document"])
async def test_a_rebound_name_stays_outside(hosts, purpose):
    async with EmbeddedRelay() as relay:
        status, head, body = await http(relay.url, *(f"Host: {host}" for host in hosts), *purpose)
    assert status == 403
    assert b"software" not in body
    assert "access-control" not in head


@pytest.mark.parametrize(
    "origin",
    ["https://evil.com", "http://localhost.evil.com", "http://127.0.0.1:80.evil.com", "null", "file://", ""],
)
async def test_a_web_page_of_another_origin_stays_outside(origin):
    async with EmbeddedRelay() as relay:
        assert (await http(relay.url, "Host: localhost", f"Origin: {origin}", *UPGRADE))[0] == 403


async def test_a_page_of_this_machine_comes_in():
    async with EmbeddedRelay() as relay:
        headers = ("Host: localhost", "Origin: http://localhost:3000")
        assert (await http(relay.url, *headers, *UPGRADE))[0] == 101


async def test_compression_is_not_negotiated():
    async with EmbeddedRelay() as relay, connect(relay.url, compression="deflate") as ws:
        assert ws.protocol.extensions == []


async def test_nothing_that_a_client_says_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with EmbeddedRelay() as relay:
        async with dial(relay.url) as client:
            await client.ws.send("a-secret")
            await client.next()
        await http(relay.url, "Host: a-secret.com")
        reader, writer = await asyncio.open_connection(*relay.url.removeprefix("ws://").split(":"))
        writer.write(b"a-secret\r\n\r\n")
        async with asyncio.timeout(5 * SECOND):
            await reader.read()
        writer.close()
    ours = [record for record in caplog.records if not record.name.startswith("websockets.client")]
    assert [record.getMessage() for record in ours if record.name != "asyncio"] == []
    assert "a-secret" not in "".join(record.getMessage() for record in ours)


# ── Authentication ──────────────────────────────────────────────────────────────────────


async def test_strangers_are_asked_to_authenticate_where_it_is_required(clock):
    """NIP-42."""
    event = await sign()
    async with EmbeddedRelay(require_auth=True, clock=clock) as relay, dial(relay.url) as client:
        accepted, text = await client.publish(event)
        assert (accepted, text.startswith("auth-required:")) == (False, True)
        await client.send("REQ", "s", {})
        kind, subscription, text = await client.next()
        assert (kind, subscription, text.startswith("auth-required:")) == ("CLOSED", "s", True)

        assert await sign_in(client, relay.url) == [True, ""]
        assert await client.publish(event) == [True, ""]
        assert await client.query({}) == [event]


async def test_authentication_is_one_connections_own(clock):
    relay = EmbeddedRelay(require_auth=True, clock=clock)
    async with relay, dial(relay.url) as client, dial(relay.url) as other:
        assert client.challenge != other.challenge
        await sign_in(client, relay.url)
        assert not (await other.publish(await sign()))[0]
        assert not (await sign_in(other, relay.url, challenge=client.challenge))[0]


async def test_the_relay_tag_may_name_any_of_its_urls(clock):
    async with EmbeddedRelay(require_auth=True, clock=clock) as relay:
        for url in (relay.url, relay.url + "/", relay.url.replace("127.0.0.1", "localhost")):
            async with dial(relay.url) as client:
                assert await sign_in(client, url) == [True, ""]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"url": "wss://relay.example.com"}, "meant for another relay"),
        ({"challenge": "guessed"}, "not this connection's challenge"),
        ({"kind": 1}, "an AUTH event has kind 22242"),
        ({"at": NOW - 601}, "dated too far"),
        ({"at": NOW + 601}, "dated too far"),
    ],
)
async def test_an_auth_event_that_does_not_fit_is_refused(clock, change, why):
    async with EmbeddedRelay(require_auth=True, clock=clock) as relay, dial(relay.url) as client:
        accepted, text = await sign_in(client, **{"url": relay.url, **change})
        assert (accepted, text.startswith(f"invalid: {why}")) == (False, True)
        assert not (await client.publish(await sign()))[0]


async def test_a_forged_auth_event_is_refused(clock):
    async with EmbeddedRelay(require_auth=True, clock=clock) as relay, dial(relay.url) as client:
        event = await sign(22242, "", [["relay", relay.url], ["challenge", client.challenge]])
        await client.send("AUTH", event | {"sig": "0" * 128})
        assert (await client.next())[2] is False
        assert not (await client.publish(await sign()))[0]


async def test_an_auth_event_is_neither_stored_nor_passed_on(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        assert not (await client.publish(await sign(22242)))[0]


async def test_a_protected_event_is_taken_from_its_author_only(clock):
    """NIP-70."""
    event = await sign(1, "", [["-"]])
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await sign_in(client, relay.url, signer=LocalSigner.generate())
        accepted, text = await client.publish(event)
        assert (accepted, text.startswith("auth-required:")) == (False, True)
        await sign_in(client, relay.url)
        assert await client.publish(event) == [True, ""]


# ── Time ────────────────────────────────────────────────────────────────────────────────


async def test_events_from_the_future_are_refused_until_their_time_is_near(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        assert await client.publish(await sign(at=NOW + 900)) == [True, ""]
        event = await sign(at=NOW + 901)
        assert await client.publish(event) == [False, "invalid: created_at too late"]
        clock.advance(1)
        assert await client.publish(event) == [True, ""]


async def test_a_stored_event_is_gone_when_it_expires(clock):
    """NIP-40."""
    event = await sign(1, "", [["expiration", str(NOW + 10)]])
    lasting = await sign(1, "", [["expiration", "never"]])
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        assert await client.publish(event) == [True, ""]
        assert await client.publish(lasting) == [True, ""]
        clock.advance(9)
        assert {each["id"] for each in await client.query({})} == {event["id"], lasting["id"]}
        clock.advance(1)
        assert await client.query({}) == [lasting]
        assert await client.publish(event) == [False, "invalid: the event has expired"]


async def test_an_expired_event_takes_no_place_in_an_answer(clock):
    lasting, expiring = await sign(1, at=NOW - 1), await sign(1, "", [["expiration", str(NOW + 10)]])
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.publish(lasting)
        await client.publish(expiring)
        clock.advance(10)
        assert await client.query({"limit": 1}) == [lasting]


# ── Deletion marks ──────────────────────────────────────────────────────────────────────


async def test_a_deletion_that_comes_first_keeps_the_event_away(clock):
    memory = await sign(30078, "", [["d", "sense-memory/x"]])
    for tag in (["e", memory["id"]], ["a", f"30078:{SIGNER.public_key}:sense-memory/x"]):
        async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
            await client.publish(await sign(5, "", [tag], NOW + 1))
            assert await client.publish(memory) == [False, "deleted: user requested deletion"]


async def test_a_deletion_mark_is_the_latest_time_ever_asked_for(clock):
    address = ["a", f"30078:{SIGNER.public_key}:x"]
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for at in (NOW + 5, NOW + 9, NOW + 2):
            await client.publish(await sign(5, "", [address], at))
        assert not (await client.publish(await sign(30078, "", [["d", "x"]], NOW + 9)))[0]
        assert (await client.publish(await sign(30078, "", [["d", "x"]], NOW + 10)))[0]


@pytest.mark.parametrize(
    "address", ["30078:{}", "030078:{}:x", "+30078:{}:x", "30078:{}:y", "1:{}:x", ":{}:x", "x"]
)
async def test_only_an_exact_address_deletes(clock, address):
    memory = await sign(30078, "", [["d", "x"]])
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.publish(memory)
        await client.publish(await sign(5, "", [["a", address.format(SIGNER.public_key)]], NOW + 1))
        assert await client.query({"kinds": [30078]}) == [memory]


# ── Limits ──────────────────────────────────────────────────────────────────────────────


async def test_an_oversized_message_ends_only_its_own_connection(clock):
    relay = EmbeddedRelay(clock=clock, max_message_bytes=10_000)
    async with relay, dial(relay.url) as client, dial(relay.url) as other:
        await client.send("EVENT", await sign(1, "x" * 10_000))
        with pytest.raises(ConnectionClosed) as closed:
            await client.next()
        assert closed.value.rcvd.code == 1009
        assert await other.publish(await sign(1, "x" * 9_000)) == [True, ""]


async def test_a_message_as_large_as_advertised_is_taken(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        empty = len(json.dumps(["EVENT", await sign()]))
        event = await sign(1, "x" * (262_144 - empty))
        assert await client.publish(event) == [True, ""]


@pytest.mark.parametrize("limit", [None, 3, 4, 2**53 - 1])
async def test_an_answer_is_cut_at_the_relays_limit(clock, limit):
    events = [await sign(1, str(number), at=NOW - number) for number in range(5)]
    async with EmbeddedRelay(clock=clock, max_limit=3) as relay, dial(relay.url) as client:
        for event in events:
            await client.publish(event)
        assert await client.query({} if limit is None else {"limit": limit}) == events[:3]


async def test_subscriptions_are_limited_and_a_closed_one_makes_room(clock):
    async with EmbeddedRelay(clock=clock, max_subscriptions=2) as relay, dial(relay.url) as client:
        for name in ("a", "b", "a"):  # the third replaces the first
            await client.send("REQ", name, {})
            assert await client.next() == ["EOSE", name]
        await client.send("REQ", "c", {})
        assert await client.next() == ["CLOSED", "c", "error: too many subscriptions"]
        await client.send("CLOSE", "a")
        await client.send("REQ", "c", {})
        assert await client.next() == ["EOSE", "c"]


@pytest.mark.parametrize("filters", [[{}] * 51, [{"kinds": list(range(5_001))}]], ids=["filters", "values"])
async def test_a_request_that_asks_for_too_much_is_refused(filters):
    async with EmbeddedRelay() as relay, dial(relay.url) as client:
        await client.send("REQ", "s", *filters)
        kind, name, text = await client.next()
        assert (kind, name, text.startswith("invalid: more than")) == ("CLOSED", "s", True)


@pytest.mark.parametrize("empty", [{"ids": []}, {"authors": []}, {"kinds": []}, {"#d": []}])
async def test_a_list_that_nothing_can_match_finds_nothing(clock, empty):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.publish(await sign())
        assert await client.query(empty) == []


async def test_an_event_that_matches_a_filter_twice_counts_once(clock):
    both = await sign(1, "", [["d", "a"], ["d", "b"]])
    one = await sign(1, "", [["d", "a"]], NOW - 1)
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.publish(both)
        await client.publish(one)
        assert await client.query({"#d": ["a", "b"], "limit": 2}) == [both, one]


# ── Bad clients ─────────────────────────────────────────────────────────────────────────

NO_FRAME = ["NOTICE", "invalid: not a frame that a client sends"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("hello", ["NOTICE", "invalid: not JSON"]),
        (b"\xff\xfe", ["NOTICE", "invalid: not JSON"]),
        ("[" * 100_000, ["NOTICE", "invalid: not JSON"]),
        ('{"a":1}', ["NOTICE", "invalid: not a JSON array"]),
        ("[]", NO_FRAME),
        ('["COUNT"]', NO_FRAME),
        ('["COUNT","s"]', ["CLOSED", "s", "invalid: not a frame that a client sends"]),
        ('["NEG-OPEN","s",{},"zz"]', ["NEG-ERR", "s", "invalid: not a frame that a client sends"]),
        ('["NEG-OPEN","s",[],"61"]', ["NEG-ERR", "s", "invalid: a filter must be a JSON object"]),
        ('["NEG-MSG","s","6"]', ["NEG-ERR", "s", "invalid: not a frame that a client sends"]),
        ('["NEG-CLOSE"]', NO_FRAME),
        ('["REQ","",{}]', NO_FRAME),
        ('["REQ","' + "s" * 65 + '",{}]', NO_FRAME),
        ('["REQ",1,{}]', NO_FRAME),
        ('["REQ","s"]', ["CLOSED", "s", "invalid: not a frame that a client sends"]),
        ('["REQ","s",1]', ["CLOSED", "s", "invalid: a filter must be a JSON object"]),
        (
            '["REQ","s",{"limit":-1}]',
            ["CLOSED", "s", "invalid: since, until and limit must be plain integers"],
        ),
        (
            '["EVENT",{}]',
            ["NOTICE", "invalid: id, pubkey and sig must be 64, 64 and 128 lower-case hex digits"],
        ),
        ('["EVENT",1]', ["NOTICE", "invalid: an event must be a JSON object"]),
    ],
)
async def test_a_bad_frame_is_answered_and_costs_nobody_else(clock, message, answer):
    event = await sign()
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client, dial(relay.url) as other:
        await client.ws.send(message)
        assert await client.next() == answer
        assert await client.publish(event) == [True, ""]
        assert await other.query({}) == [event]


async def test_a_misshapen_event_gets_an_ok_that_names_it(clock):
    event = await sign()
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for change in ({"kind": "1"}, {"created_at": 1.5}, {"tags": [[1]]}, {"content": None}):
            accepted, text = await client.publish(event | change)
            assert (accepted, text.startswith("invalid: ")) == (False, True)


async def test_an_addressable_event_without_an_address_is_refused(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for tags in ([], [["d", ""]], [["d", "a"], ["d", "b"]]):
            assert await client.publish(await sign(30078, "", tags)) == [
                False,
                "invalid: an addressable event needs exactly one d tag",
            ]


async def test_a_forged_event_among_good_ones_harms_only_itself(clock):
    events = [await sign(1, str(number), at=NOW - number) for number in range(9)]
    sent = [*events[:4], events[4] | {"content": "forged"}, *events[5:]]
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for event in sent:
            await client.send("EVENT", event)
        answers = [(await client.next())[1:3] for _ in sent]
        assert answers == [[event["id"], event is not sent[4]] for event in sent]
        assert await client.query({}) == [*events[:4], *events[5:]]


async def test_one_burst_may_write_rewrite_and_delete_an_address(clock):
    versions = [await sign(30078, str(at), [["d", "x"]], NOW + at) for at in range(4)]
    deletion = await sign(5, "", [["a", f"30078:{SIGNER.public_key}:x"]], NOW + 2)
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for event in (versions[1], versions[0], deletion, versions[2], versions[3]):
            await client.send("EVENT", event)
        assert [(await client.next())[3] for _ in range(5)] == [
            "",
            "replaced: have newer event",
            "",
            "deleted: user requested deletion",
            "",
        ]
        assert await client.query({}) == [versions[3], deletion]


@asynccontextmanager
async def deaf(url, *frames):
    """A client with a small receive buffer that sends frames and does not read; yields a function that reads on."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", int(url.rsplit(":", 1)[1])))
    async with connect(url, sock=raw, compression=None, max_queue=1, close_timeout=0.05) as ws:
        client = Client(ws)
        for frame in frames:
            await client.send(*frame)
        yield client


async def fill(relay, count):
    """Store events of 50 KB each, far more than socket buffers hold."""
    events = [await sign(1, f"{number:4}" + "x" * 50_000, at=NOW - number) for number in range(count)]
    async with dial(relay.url) as client:
        for event in events:
            assert await client.publish(event) == [True, ""]
    return events


async def test_a_stored_answer_waits_for_its_reader(clock):
    async with EmbeddedRelay(clock=clock) as relay:
        events = await fill(relay, 200)
        async with deaf(relay.url, ["REQ", "s", {}]) as client, dial(relay.url) as other:
            for number in range(20):  # the relay had many turns to send all it could
                await other.publish(await sign(1, f"live {number}", at=NOW + 1))
            handlers = list(relay._handlers)
            waiting = max(handler._connection.transport.get_write_buffer_size() for handler in handlers)
            assert 0 < waiting < 1_000_000  # of ten million

            frames = [await client.next() for _ in range(222)]
            assert frames[0][0] == "AUTH"
            assert [frame[2]["id"] for frame in frames[1:201]] == [event["id"] for event in events]
            assert frames[201] == ["EOSE", "s"]
            assert [frame[2]["content"] for frame in frames[202:]] == [
                f"live {number}" for number in range(20)
            ]


@pytest.mark.parametrize("newcomers", [0, 1])
async def test_what_goes_while_an_answer_is_on_its_way_is_not_sent(clock, newcomers):
    """Nor is something else that came to its place."""
    expiring = await sign(1, "", [["expiration", str(NOW + 10)]], NOW - 1_000)
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as other:
        events = await fill(relay, 200)
        assert await other.publish(expiring) == [True, ""]
        async with deaf(relay.url, ["REQ", "s", {}]) as client:
            assert (await client.next())[0] == "AUTH"
            assert (await client.next())[2] == events[0]  # it has begun; the expiring one would be its last
            clock.advance(10)
            for number in range(newcomers):
                assert await other.publish(await sign(1, f"new {number}")) == [True, ""]

            stored = [events[0]["id"]]
            while (frame := await client.next()) != ["EOSE", "s"]:
                stored.append(frame[2]["id"])
            assert stored == [event["id"] for event in events]


async def test_a_close_stops_an_answer_on_its_way(clock):
    async with EmbeddedRelay(clock=clock) as relay:
        await fill(relay, 200)
        frames = (["REQ", "closed", {}], ["CLOSE", "closed"], ["REQ", "open", {}])
        async with deaf(relay.url, *frames) as client:
            got = []
            while (frame := await client.next()) != ["EOSE", "open"]:
                got.append(frame[:2])
            assert got.count(["EVENT", "open"]) == 200
            assert got.count(["EVENT", "closed"]) < 100
            assert ["EOSE", "closed"] not in got


@pytest.mark.parametrize("wanted", [{"limit": 0}, {}], ids=["live only", "while its answer is on its way"])
async def test_a_listener_that_never_reads_is_cut_off(clock, wanted):
    relay = EmbeddedRelay(clock=clock, max_backlog_bytes=1_000_000)
    async with relay:
        await fill(relay, 200)
        async with deaf(relay.url, ["REQ", "s", wanted]) as client, dial(relay.url) as other:
            assert (await client.next())[0] == "AUTH"
            assert (await client.next())[1] == "s"
            number = 0
            while len(relay._handlers) > 1:
                number += 1
                event = await sign(1, f"{number:4}" + "y" * 50_000, at=NOW + number)
                assert await other.publish(event) == [True, ""]
                assert number < 400  # twenty megabytes
            assert len(await rest(client)) < 200 + number


async def test_what_a_client_sent_before_it_vanished_is_stored(clock):
    """Also when the relay was waiting for it to read."""
    late = [await sign(1, f"late {number}", at=NOW + 1 + number) for number in range(2)]
    async with EmbeddedRelay(clock=clock) as relay:
        await fill(relay, 200)
        async with dial(relay.url) as other:
            async with deaf(relay.url, ["REQ", "s", {}]) as client:
                for _ in range(30):
                    await other.query({"limit": 0})  # turns for the relay, to write until nothing is taken
                for event in late:
                    await client.send("EVENT", event)
                for _ in range(30):  # turns for the relay, to read both: abort() drops what it has not read
                    await other.query({"limit": 0})
                client.ws.transport.abort()
            async with asyncio.timeout(5 * SECOND):
                while len(relay._handlers) > 1:
                    await other.query({"limit": 0})
            assert await other.query({"since": NOW + 1}) == late[::-1]


async def test_a_client_that_never_reads_does_not_hold_up_the_end(clock, monkeypatch):
    monkeypatch.setattr(embedded, "CLOSING_SECONDS", 0.05)
    async with asyncio.timeout(5 * SECOND):
        relay = EmbeddedRelay(clock=clock)
        async with relay:
            await fill(relay, 200)
            stuck = deaf(relay.url, ["REQ", "s", {}])
            await stuck.__aenter__()
            async with dial(relay.url) as other:
                await other.query({"limit": 1})
        assert not relay._handlers
        await stuck.__aexit__(None, None, None)
