"""The driver, against peers on loopback that play the literal conversation, and against no peer at all."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import itertools
import json
import logging
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from sense_memory import limits
from sense_memory.errors import RelayError
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from sense_memory.relay.client.actions import Timeouts
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.server.server import EmbeddedRelay
from tests.time_unit import SECOND


ACCEPTED = RelayVerdict(RelayOutcome.ACCEPTED)
EVERYTHING = [Filter(limit=500)]


class Peer:
    """The relay's end of one connection."""

    def __init__(self, socket) -> None:
        self.socket = socket

    async def hear(self):
        return json.loads(await self.socket.recv())

    async def say(self, *frame) -> None:
        await self.socket.send(json.dumps(frame))

    async def serve_page(self, *events):
        """Answer the next REQ with these events, and take the CLOSE."""
        name, sub, *_ = await self.hear()
        assert name == "REQ"
        for event in events:
            await self.say("EVENT", sub, event.as_json())
        await self.say("EOSE", sub)
        assert await self.hear() == ["CLOSE", sub]


@asynccontextmanager
async def relay_that(conversation, **options):
    """A websocket server that plays one conversation per connection; its failures fail the test."""
    failures = []

    async def play(socket):
        try:
            await conversation(Peer(socket))
            await socket.wait_closed()
        except ConnectionClosed:
            pass
        except BaseException as error:
            failures.append(error)
            raise

    quiet = logging.getLogger("tests.relay.peer")
    quiet.setLevel(logging.CRITICAL + 1)
    async with serve(play, "127.0.0.1", 0, **{"compression": None, "logger": quiet, **options}) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for failure in failures:
        if not isinstance(failure, asyncio.CancelledError):
            raise failure


@asynccontextmanager
async def tcp_server(serve_one):
    """A bare TCP server; every conversation is over before it is gone."""
    begun = []

    async def serve(reader, writer):
        begun.append(asyncio.current_task())
        try:
            await serve_one(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*begun)


@pytest.fixture
def dial(signer):
    """Dial with our key."""

    def connect(url, **options):
        clock = asyncio.get_running_loop().time  # virtual where the test's time is
        ours = {"public_key": signer.public_key, "sign": signer.sign, "clock": clock}
        return RelayConnection(url, **{**ours, **options})

    return connect


async def problem_of(connection):
    """The sentence with which dialling fails."""
    with pytest.raises(RelayError) as caught:
        async with asyncio.timeout(5 * SECOND), connection:
            pass
    assert caught.value.url == connection.url
    assert not connection.is_open
    return caught.value.problem


def bodies(events):
    return [(event.id, event.body()) for event in events]


# ── A good conversation ─────────────────────────────────────────────────────────────────


async def test_memories_come_back_from_a_real_relay(dial, make_event, signer):
    events = [make_event(number) for number in range(20)]
    async with EmbeddedRelay(clock=lambda: 1_800_000_100.0) as relay, dial(relay.url) as connection:
        verdicts = {ident: verdict async for ident, verdict in connection.publish(bodies(events))}
        page = await connection.fetch([Filter(authors=(signer.public_key,), limit=100)])
    assert verdicts == {event.id: ACCEPTED for event in events}
    assert page.complete
    assert set(page.events) == set(events)
    assert not connection.misbehaving


async def test_two_fetches_run_at_once_and_end_in_any_order(dial, make_event):
    first, second = make_event(1), make_event(2)

    async def conversation(peer):
        _, one, asked = await peer.hear()
        assert asked["#d"] == ["sense-memory/1"]
        _, two, _ = await peer.hear()
        await peer.say("EVENT", two, second.as_json())
        await peer.say("EVENT", one, first.as_json())
        await peer.say("EOSE", two)
        await peer.say("EOSE", one)

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        pages = await asyncio.gather(
            *(relay.fetch([Filter(tags={"d": (f"sense-memory/{n}",)}, limit=1)]) for n in (1, 2))
        )
    assert [page.events for page in pages] == [(first,), (second,)]
    assert all(page.complete for page in pages)


async def test_two_thousand_events_are_pipelined_in_windows(dial, make_event):
    template = make_event().as_json()
    items = [
        (f"{number:064x}", json.dumps({**template, "id": f"{number:064x}"}).encode())
        for number in range(2_000)
    ]

    async def conversation(peer):
        for _ in range(4):  # no OK before a whole window has arrived
            window = [(await peer.hear())[1]["id"] for _ in range(500)]
            for ident in reversed(window):
                await peer.say("OK", ident, True, "")

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(10 * SECOND):
        verdicts = [item async for item in relay.publish(items)]
    assert len(verdicts) == 2_000
    assert dict(verdicts) == dict.fromkeys((ident for ident, _ in items), ACCEPTED)


async def test_no_more_than_the_window_is_in_flight(dial, make_event):
    async def conversation(peer):
        flying = [(await peer.hear())[1]["id"] for _ in range(3)]
        await (await peer.socket.ping())  # what was written before the pong would be here by now
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await peer.hear()
        for _ in range(2):  # one answered, one more comes
            await peer.say("OK", flying.pop(0), True, "")
            flying.append((await peer.hear())[1]["id"])
        for ident in flying:
            await peer.say("OK", ident, True, "")

    events = [make_event(number) for number in range(5)]
    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        verdicts = [item async for item in relay.publish(bodies(events), window=3)]
    assert len(verdicts) == 5


async def test_events_may_come_from_an_async_source_that_waits_for_verdicts(dial, make_event):
    first, second = make_event(1), make_event(2)
    judged = asyncio.Event()

    async def source():
        yield first.id, first.body()
        await judged.wait()
        yield second.id, second.body()

    async def conversation(peer):
        for _ in range(2):
            await peer.say("OK", (await peer.hear())[1]["id"], True, "")

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        seen = []
        async for ident, _ in relay.publish(source()):
            seen.append(ident)
            judged.set()
    assert seen == [first.id, second.id]


async def test_an_error_of_the_source_reaches_the_caller_after_the_verdicts(dial, make_event):
    event = make_event()

    def source():
        yield event.id, event.body()
        raise LookupError("the ledger is gone")

    async def conversation(peer):
        await peer.say("OK", (await peer.hear())[1]["id"], True, "")
        await peer.serve_page()

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        publishing = relay.publish(source())
        assert await anext(publishing) == (event.id, ACCEPTED)
        with pytest.raises(LookupError):
            await anext(publishing)
        assert (await relay.fetch(EVERYTHING)).complete


async def test_an_id_given_twice_is_sent_and_judged_once(dial, make_event):
    event = make_event()

    async def conversation(peer):
        assert (await peer.hear())[0] == "EVENT"
        await peer.say("OK", event.id, True, "")
        await peer.serve_page()

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        assert [item async for item in relay.publish(bodies([event, event]))] == [(event.id, ACCEPTED)]
        assert (await relay.fetch(EVERYTHING)).complete


async def test_leaving_a_publish_early_leaves_the_connection_usable(dial, make_event):
    async def conversation(peer):
        await peer.say("OK", (await peer.hear())[1]["id"], True, "")
        assert (await peer.hear())[0] == "EVENT"
        await peer.serve_page()

    events = [make_event(number) for number in range(5)]
    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        publishing = relay.publish(bodies(events), window=2)
        assert (await anext(publishing))[1] == ACCEPTED
        await publishing.aclose()
        assert (await relay.fetch(EVERYTHING)).complete


async def test_an_event_left_in_flight_is_judged_for_whoever_publishes_it_again(dial, make_event):
    event, asked = make_event(), asyncio.Event()

    async def conversation(peer):
        await peer.hear()
        await asked.wait()
        await peer.say("OK", event.id, True, "")

    async def source():
        yield event.id, event.body()
        asked.set()

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await anext(relay.publish(bodies([event])))
        assert [item async for item in relay.publish(source())] == [(event.id, ACCEPTED)]


async def test_the_same_event_in_two_publishes_is_judged_in_the_first(dial, make_event):
    event, asked = make_event(), asyncio.Event()

    async def conversation(peer):
        await peer.hear()
        await asked.wait()
        await peer.say("OK", event.id, True, "")

    async def first_of_all(publishing):
        return [item async for item in publishing]

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        first = asyncio.create_task(first_of_all(relay.publish(bodies([event]))))
        second = asyncio.create_task(first_of_all(relay.publish(bodies([event]))))
        assert await second == []
        asked.set()
        assert await first == [(event.id, ACCEPTED)]


async def test_sending_goes_on_while_the_caller_handles_a_verdict(dial, make_event):
    events, all_sent = [make_event(number) for number in range(5)], asyncio.Event()

    async def conversation(peer):
        for _ in range(3):
            await peer.hear()
        for event in events[:2]:  # each OK makes room for one more
            await peer.say("OK", event.id, True, "")
            await peer.hear()
        all_sent.set()
        for event in events[2:]:
            await peer.say("OK", event.id, True, "")

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        seen = []
        async for ident, _ in relay.publish(bodies(events), window=3):
            seen.append(ident)
            await all_sent.wait()
    assert seen == [event.id for event in events]


async def test_verdicts_do_not_pile_up_before_a_caller_who_does_not_read_them(dial, make_event):
    async def conversation(peer):
        while True:
            name, *rest = await peer.hear()
            if name == "EVENT":
                await peer.say("OK", rest[0]["id"], True, "")
            elif name == "REQ":
                await peer.say("EOSE", rest[0])

    events, pulled = [make_event(number) for number in range(100)], []

    def source():
        for item in bodies(events):
            pulled.append(item)
            yield item

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        publishing = relay.publish(source(), window=5)
        first = await anext(publishing)
        for _ in range(20):  # each is answered after everything that was sent before it
            assert (await relay.fetch(EVERYTHING)).complete
        assert len(pulled) < 20
        assert len([first] + [item async for item in publishing]) == 100


# ── Dialling that fails ─────────────────────────────────────────────────────────────────


async def test_r02_accepts_socket_then_silent(dial):
    async def silent(reader, writer):
        await reader.read()

    async with tcp_server(silent) as port:
        problem = await problem_of(dial(f"ws://127.0.0.1:{port}", timeouts=Timeouts(open=0.05)))
    assert problem == "did not answer within 0.05 s"


async def test_r01_a_dead_name_is_a_relay_error(dial):
    problem = await problem_of(dial("wss://does-not-exist.invalid", timeouts=Timeouts(open=3)))
    assert problem in {
        "the host name was not found; check its spelling, and whether this machine is online",
        "did not answer within 3 s",
    }


async def test_r01_a_refused_connection_is_a_relay_error(dial):
    async with tcp_server(lambda reader, writer: None) as port:
        pass
    assert await problem_of(dial(f"ws://127.0.0.1:{port}")) == "refused the connection"


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500, 503, 200])
async def test_r01_another_http_status_is_a_relay_error(dial, status):
    def refuse(connection, request):
        return connection.respond(status, "<script>words of the relay</script>")

    async with relay_that(None, process_request=refuse) as url:
        problem = await problem_of(dial(url))
    hint = "; if the relay speaks TLS, its address begins with wss://" if status == 400 else ""
    assert problem == f"answered HTTP {status} instead of opening a relay connection{hint}"


@pytest.mark.parametrize("place", ["elsewhere", "here"])
async def test_r17_redirects_are_refused(dial, place):
    dialled = []

    async def conversation(peer):
        dialled.append(peer)

    async with relay_that(conversation) as elsewhere:

        def redirect(connection, request):
            if request.path == "/moved":
                return None
            response = connection.respond(302, "")
            response.headers["Location"] = elsewhere if place == "elsewhere" else "/moved"
            return response

        async with relay_that(conversation, process_request=redirect) as url:
            problem = await problem_of(dial(url))
    assert problem.startswith("configure the address to which it redirects")
    assert dialled == []


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 101 Switching\r\n\r\n"])
async def test_a_peer_that_speaks_something_else_is_a_relay_error(dial, answer):
    async def speak(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async with tcp_server(speak) as port:
        problem = await problem_of(dial(f"ws://127.0.0.1:{port}"))
    hint = "" if answer.startswith(b"HTTP") else "; if the relay speaks TLS, its address begins with wss://"
    assert problem == f"does not speak the WebSocket protocol{hint}"


def self_signed(folder):
    """A server context for 127.0.0.1 whose certificate nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(today - dt.timedelta(days=1))
        .not_valid_after(today + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_r01_an_unknown_certificate_is_a_relay_error(dial, tmp_path):
    async with relay_that(None, ssl=self_signed(tmp_path)) as url:
        problem = await problem_of(dial(url.replace("ws://", "wss://")))
    assert problem == "its TLS certificate is not valid for this address"


async def test_r01_tls_to_a_plain_port_is_a_relay_error(dial):
    async with relay_that(None) as url:
        problem = await problem_of(dial(url.replace("ws://", "wss://")))
    what, hint = problem.split("; ")
    assert what in {"TLS could not be negotiated", "hung up at once"}
    assert hint == "if the relay does not speak TLS, its address begins with ws://"


async def test_a_plain_dial_to_a_tls_port_names_the_other_scheme(dial, tmp_path):
    async with relay_that(None, ssl=self_signed(tmp_path)) as url:
        problem = await problem_of(dial(url.replace("wss://", "ws://")))
    assert problem.endswith("; if the relay speaks TLS, its address begins with wss://")


async def test_dialling_can_be_cancelled(dial):
    reached = asyncio.Event()
    left = asyncio.Event()

    async def silent(reader, writer):
        reached.set()
        await reader.read()
        left.set()

    async with tcp_server(silent) as port, asyncio.timeout(5 * SECOND):
        dialling = asyncio.create_task(dial(f"ws://127.0.0.1:{port}").__aenter__())
        await reached.wait()
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
        await left.wait()


# ── Relays that misbehave ───────────────────────────────────────────────────────────────


async def test_w02_oversized_frame_closes_that_relay_only(dial):
    closed_with = []

    async def conversation(peer):
        await peer.hear()
        await peer.socket.send("x" * (limits.MAX_NEGENTROPY_BYTES + 1))
        await peer.socket.wait_closed()
        closed_with.append(peer.socket.close_code)

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        page = await relay.fetch(EVERYTHING)
        with pytest.raises(RelayError, match="more than 1,048,576 bytes"):
            await relay.fetch(EVERYTHING)
    assert not page.complete
    assert page.reason == relay.problem == "sent a message of more than 1,048,576 bytes"
    assert relay.misbehaving
    assert closed_with == [1009]


async def test_w03_compression_is_not_offered(dial):
    offers = []

    async def conversation(peer):
        offers.append(peer.socket.request.headers.get("Sec-WebSocket-Extensions"))
        await peer.serve_page()

    async with (
        relay_that(conversation, compression="deflate") as url,
        dial(url) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        assert (await relay.fetch(EVERYTHING)).complete
    assert offers == [None]


@pytest.mark.virtual_time
async def test_r03_silence_after_a_req_ends_in_an_incomplete_page(dial, make_event):
    event, closed = make_event(), asyncio.Event()

    async def conversation(peer):
        _, sub, _ = await peer.hear()
        await peer.say("EVENT", sub, event.as_json())
        assert await peer.hear() == ["CLOSE", sub]
        closed.set()

    async with (
        relay_that(conversation) as url,
        dial(url, timeouts=Timeouts(idle=0.05)) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        page = await relay.fetch(EVERYTHING)
        await closed.wait()
        assert relay.is_open
    assert (page.complete, page.reason, page.events) == (False, "went silent", (event,))


@pytest.mark.virtual_time
async def test_what_arrived_while_this_process_stood_still_is_in_time(dial, make_event):
    """A busy machine stops this process for a minute; the relay answers meanwhile, within its time."""
    event, loop = make_event(), asyncio.get_running_loop()

    async def conversation(peer):
        _, sub, _ = await peer.hear()
        await peer.say("EVENT", sub, event.as_json())
        await peer.say("EOSE", sub)
        loop.stand_still(60)
        await peer.hear()
        await peer.hear()
        await peer.say("OK", event.id, True, "")
        loop.stand_still(60)

    async with relay_that(conversation) as url, dial(url) as relay:
        page = await relay.fetch(EVERYTHING)
        assert (page.complete, page.reason, page.events) == (True, "", (event,))
        assert [item async for item in relay.publish(bodies([event]))] == [(event.id, ACCEPTED)]


@pytest.mark.virtual_time
async def test_p05_no_ok_ever(dial, make_event):
    event = make_event()

    async def conversation(peer):
        await peer.hear()

    async with (
        relay_that(conversation) as url,
        dial(url, timeouts=Timeouts(ok=0.05)) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        verdicts = [item async for item in relay.publish(bodies([event]))]
    assert verdicts == [(event.id, RelayVerdict(RelayOutcome.RETRY, "no answer"))]


async def test_r12_a_forger_is_hung_up_on(dial, make_event):
    event, left = make_event(), asyncio.Event()

    async def conversation(peer):
        _, sub, _ = await peer.hear()
        try:
            for number in itertools.count():
                await peer.say("EVENT", sub, {**event.as_json(), "sig": f"{number:0128x}"})
        finally:
            left.set()

    async with (
        relay_that(conversation) as url,
        dial(url, timeouts=Timeouts(close=0.1)) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        page = await relay.fetch(EVERYTHING)
        await left.wait()
    assert (page.complete, page.events, page.invalid) == (False, (), 50)
    assert relay.misbehaving
    assert relay.counts.invalid == 50
    assert relay.problem == "disconnected: it sent too many invalid events"


async def test_r15_slow_reader_backpressure(dial, make_event):
    stopped = asyncio.Event()

    async def conversation(peer):
        peer.socket.transport.pause_reading()
        await stopped.wait()
        peer.socket.transport.abort()

    event, pulled = make_event(content="c" * 60_000), 0

    def endless():
        nonlocal pulled
        for pulled in itertools.count(1):
            yield f"{pulled:064x}", event.body()

    async with relay_that(conversation) as url, asyncio.timeout(10 * SECOND):
        async with dial(url, timeouts=Timeouts(send=0.1, close=0.1)) as relay:
            verdicts = [verdict async for _, verdict in relay.publish(endless(), window=10_000)]
            assert not relay.is_open
        stopped.set()
    assert set(verdicts) == {RelayVerdict(RelayOutcome.RETRY, "does not read what we send")}
    assert len(verdicts) in {pulled, pulled - 1}
    assert pulled < 1_000  # what the kernel's buffers hold, and not the source


async def test_a_lost_connection_returns_what_was_in_flight_and_sends_no_more(dial, make_event):
    async def conversation(peer):
        first, _ = [(await peer.hear())[1]["id"] for _ in range(2)]
        await peer.say("OK", first, True, "")
        await peer.hear()
        peer.socket.transport.abort()

    events, pulled = [make_event(number) for number in range(9)], []

    def source():
        for item in bodies(events):
            pulled.append(item)
            yield item

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        verdicts = dict([item async for item in relay.publish(source(), window=2)])
        assert not relay.is_open
        with pytest.raises(RelayError, match="connection lost"):
            await relay.fetch(EVERYTHING)
        with pytest.raises(RelayError, match="connection lost"):
            await anext(relay.publish([]))
    lost = RelayVerdict(RelayOutcome.RETRY, "connection lost")
    assert verdicts == {events[0].id: ACCEPTED, events[1].id: lost, events[2].id: lost}
    assert len(pulled) <= 4


async def test_a_lost_connection_does_not_wait_for_a_source_that_waits(dial):
    waiting = asyncio.Event()

    async def source():
        waiting.set()
        await asyncio.Event().wait()
        yield

    async def conversation(peer):
        await waiting.wait()
        peer.socket.transport.abort()

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        assert [item async for item in relay.publish(source())] == []


async def test_what_came_before_the_relay_hung_up_still_counts(dial, make_event):
    events = [make_event(number) for number in range(3)]

    async def conversation(peer):
        for _ in events:
            await peer.hear()
        for event in events[:2]:
            await peer.say("OK", event.id, True, "")
        await peer.socket.close(1013, "words of the relay")

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        verdicts = dict([item async for item in relay.publish(bodies(events))])
    assert [verdicts[event.id].outcome for event in events] == ["accepted", "accepted", "retry"]
    assert verdicts[events[2].id].reason == relay.problem == "connection lost (code 1013)"


async def test_a_relay_that_closes_with_too_big_is_not_misbehaving_itself(dial):
    async def conversation(peer):
        await peer.hear()
        await peer.socket.close(1009)

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        page = await relay.fetch(EVERYTHING)
    assert page.reason == "connection lost (code 1009)"
    assert not relay.misbehaving


async def test_a_relay_that_takes_its_leave_and_keeps_the_line_open_is_gone(dial, make_event):
    event, over = make_event(), asyncio.Event()

    async def conversation(peer):
        await peer.hear()
        peer.socket.transport.pause_reading()
        peer.socket.protocol.send_close(1009)
        peer.socket.transport.write(b"".join(peer.socket.protocol.data_to_send()))
        await over.wait()
        peer.socket.transport.resume_reading()

    async with relay_that(conversation) as url, dial(url) as relay:
        try:
            async with asyncio.timeout(5 * SECOND):
                ((_, verdict),) = [item async for item in relay.publish(bodies([event]))]
        finally:
            over.set()
    assert verdict == RelayVerdict(RelayOutcome.RETRY, "connection lost (code 1009)")


async def test_p10_a_rate_limit_stops_the_sending(dial, make_event):
    events = [make_event(number) for number in range(10)]

    async def conversation(peer):
        first, second = [(await peer.hear())[1]["id"] for _ in range(2)]
        await peer.say("OK", first, False, "rate-limited: slow down")
        await peer.say("OK", second, True, "")
        await peer.serve_page()  # and no further EVENT

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        verdicts = [item async for item in relay.publish(bodies(events), window=2)]
        assert (await relay.fetch(EVERYTHING)).complete
    assert verdicts == [
        (events[0].id, RelayVerdict(RelayOutcome.RATE_LIMITED, "rate-limited")),
        (events[1].id, ACCEPTED),
    ]


async def test_p10_a_rate_limit_does_not_wait_for_a_source_that_waits(dial, make_event):
    event = make_event()

    async def source():
        yield event.id, event.body()
        await asyncio.Event().wait()

    async def conversation(peer):
        await peer.hear()
        await peer.say("OK", event.id, False, "rate-limited: slow down")

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        verdicts = [verdict.outcome async for _, verdict in relay.publish(source())]
    assert verdicts == [RelayOutcome.RATE_LIMITED]


# ── NIP-42 ──────────────────────────────────────────────────────────────────────────────


async def test_r09_the_auth_event_names_the_dialled_url_and_our_time(dial, make_event, signer):
    event, seen = make_event(), {}

    async def conversation(peer):
        await peer.say("AUTH", "a challenge")
        await peer.hear()
        await peer.say("OK", event.id, False, "auth-required: who are you")
        name, auth = await peer.hear()
        seen[name] = auth
        await peer.say("OK", auth["id"], True, "")
        assert (await peer.hear())[1]["id"] == event.id
        await peer.say("OK", event.id, True, "")

    async with (
        relay_that(conversation) as url,
        dial(f"{url}/inbox", now=lambda: 1_800_000_007.9) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        assert [item async for item in relay.publish(bodies([event]))] == [(event.id, ACCEPTED)]
    auth = seen["AUTH"]
    assert (auth["kind"], auth["pubkey"], auth["created_at"]) == (22242, signer.public_key, 1_800_000_007)
    assert auth["tags"] == [["relay", f"{url}/inbox"], ["challenge", "a challenge"]]
    assert auth["content"] == ""


async def test_auth_works_with_a_real_relay(dial, make_event, signer):
    event = make_event()
    async with (
        EmbeddedRelay(require_auth=True, clock=lambda: 1_800_000_100.0) as embedded,
        dial(embedded.url, now=lambda: 1_800_000_100.0) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        assert [item async for item in relay.publish(bodies([event]))] == [(event.id, ACCEPTED)]
        page = await relay.fetch([Filter(authors=(signer.public_key,), limit=10)])
    assert page.events == (event,)


async def demand_auth(peer):
    await peer.say("AUTH", "a challenge")
    await peer.say("OK", (await peer.hear())[1]["id"], False, "auth-required: who are you")


async def refuses_to_sign(unsigned):
    raise ZeroDivisionError


async def never_signs(unsigned):
    await asyncio.Event().wait()


@pytest.mark.parametrize(("answer", "seconds"), [(refuses_to_sign, 60), (never_signs, 0.05)])
async def test_a_signer_that_fails_or_hangs_ends_nothing_else(dial, make_event, answer, seconds):
    async def conversation(peer):
        await demand_auth(peer)
        await peer.serve_page()

    event = make_event()
    async with (
        relay_that(conversation) as url,
        dial(url, sign=answer, timeouts=Timeouts(sign=seconds)) as relay,
        asyncio.timeout(5 * SECOND),
    ):
        verdicts = [item async for item in relay.publish(bodies([event]))]
        assert (await relay.fetch(EVERYTHING)).complete
    assert verdicts == [(event.id, RelayVerdict(RelayOutcome.RETRY, "the signer did not answer"))]


async def test_without_a_signer_nothing_is_signed(dial, make_event):
    event = make_event()
    async with relay_that(demand_auth) as url, dial(url, sign=None) as relay, asyncio.timeout(5 * SECOND):
        verdicts = [item async for item in relay.publish(bodies([event]))]
    assert verdicts == [(event.id, RelayVerdict(RelayOutcome.REFUSED, "auth-required"))]


# ── Closing and cleanliness ─────────────────────────────────────────────────────────────


async def test_closing_ends_an_open_fetch_as_incomplete(dial):
    asked = asyncio.Event()

    async def conversation(peer):
        await peer.hear()
        asked.set()

    async with relay_that(conversation) as url, asyncio.timeout(5 * SECOND):
        relay = dial(url)
        await relay.__aenter__()
        fetching = asyncio.create_task(relay.fetch(EVERYTHING))
        await asked.wait()
        await relay.close()
        await relay.close()
        page = await fetching
    assert (page.complete, page.reason) == (False, "closed by us")
    with pytest.raises(RelayError, match="closed by us"):
        await relay.fetch(EVERYTHING)


async def test_a_connection_is_used_once(dial):
    async with relay_that(Peer.serve_page) as url, asyncio.timeout(5 * SECOND):
        relay = dial(url)
        async with relay:
            assert (await relay.fetch(EVERYTHING)).complete
        with pytest.raises(RelayError, match="used already"):
            await relay.__aenter__()


async def test_a_cancelled_fetch_closes_its_subscription(dial):
    asked, closed = asyncio.Event(), asyncio.Event()

    async def conversation(peer):
        _, sub, _ = await peer.hear()
        asked.set()
        assert await peer.hear() == ["CLOSE", sub]
        closed.set()

    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        fetching = asyncio.create_task(relay.fetch(EVERYTHING))
        await asked.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await closed.wait()
        assert relay.is_open


async def test_nothing_runs_on_after_closing(dial, make_event):
    heard = asyncio.Event()

    async def conversation(peer):
        await demand_auth(peer)
        assert (await peer.hear())[0] == "REQ"
        heard.set()

    async with relay_that(conversation) as url, asyncio.timeout(5 * SECOND):
        async with dial(url, sign=never_signs) as relay:
            publishing = relay.publish(bodies([make_event(1)]))
            verdict = asyncio.create_task(anext(publishing))
            await asyncio.sleep(0)
            page = asyncio.create_task(relay.fetch(EVERYTHING))
            await heard.wait()
        assert (await verdict)[1] == RelayVerdict(RelayOutcome.RETRY, "closed by us")
        assert not (await page).complete
        await publishing.aclose()
        assert [task for task in asyncio.all_tasks() if "relay/connection.py" in repr(task)] == []


@asynccontextmanager
async def deaf_relay():
    """A relay that completes the handshake and reads, but never says a word; `.left` when its peer is gone."""
    said, left = asyncio.Event(), asyncio.Event()

    async def deaf(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.startswith("Sec-WebSocket-Key"))
        accept = base64.b64encode(
            hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        )
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        try:
            while await reader.read(65_536):
                said.set()
        except ConnectionError:
            pass
        left.set()

    async with tcp_server(deaf) as port:
        yield f"ws://127.0.0.1:{port}", said, left


async def test_a_relay_that_does_not_say_goodbye_is_cut_off(dial):
    async with deaf_relay() as (url, _, left), asyncio.timeout(5 * SECOND):
        async with dial(url, timeouts=Timeouts(close=0.05)):
            pass
        await left.wait()


async def test_a_close_that_is_cancelled_still_cuts_the_line(dial):
    async with deaf_relay() as (url, said, left), asyncio.timeout(5 * SECOND):
        relay = await dial(url, timeouts=Timeouts(close=60)).__aenter__()
        closing = asyncio.create_task(relay.close())
        await said.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await left.wait()


async def test_the_log_never_quotes_a_relay(dial, caplog):
    async def conversation(peer):
        await peer.say("NOTICE", "words of the relay")
        await peer.socket.send("garbage words of the relay")
        await peer.serve_page()
        await peer.socket.close(1011, "words of the relay")

    caplog.set_level(logging.DEBUG)
    async with relay_that(conversation) as url, dial(url) as relay, asyncio.timeout(5 * SECOND):
        assert (await relay.fetch(EVERYTHING)).complete
    assert "words of the relay" not in caplog.text
    assert relay.notices == ("words of the relay",)
    assert relay.counts.malformed == 1


def test_websockets_is_imported_when_the_first_relay_is_dialled():
    check = "import sys, sense_memory.relay.client.connection; sys.exit('websockets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
