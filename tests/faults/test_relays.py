"""R rows: relays that cannot be reached, fall silent, or refuse without saying so."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import serve

from relays.faults import (
    HANGUP,
    ClosedOnly,
    Drip,
    EarlyEose,
    ExclusiveUntil,
    Fault,
    FaultyRelay,
    Flood,
    Information,
    Inject,
    NoEose,
    NoNegentropy,
    NoticeOnly,
    Record,
    Stall,
)
from sense_memory import NotSynced
from sense_memory.ledger.relays import Remark, remark_sentence
from sense_memory.limits import MAX_NOISE_COUNT
from sense_memory.relay.client.page import LATE
from sense_memory.relay.client.session import Session
from tests.inside import ledger_of


_silent = logging.getLogger(f"{__name__}.library")  # the raw peer's words are no leak of ours
_silent.setLevel(logging.CRITICAL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@asynccontextmanager
async def silent_host(port=0):
    """A raw peer: takes a TCP connection and never says a word."""
    over = asyncio.Event()

    async def ignore(_, writer):
        await over.wait()
        writer.close()

    server = await asyncio.start_server(ignore, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def forbidding_host():
    """A raw peer: answers every upgrade with HTTP 403."""

    def forbid(connection, request):
        return connection.respond(403, "quokka")

    async def never(_):
        raise AssertionError

    async with serve(never, "127.0.0.1", 0, process_request=forbid, logger=_silent) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def plain_http_host():
    """A raw peer: answers a TLS greeting in plain HTTP, as a web server on the wrong port does."""

    async def answer(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 quokka\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_r01_dead_dns_refused_tls_error_http_403(stage, monkeypatch):
    """The name is unknown to a patched resolver: no test asks a real one."""
    resolve = socket.getaddrinfo

    def unknown(host, *args, **options):
        if host == "relay.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "quokka")
        return resolve(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with stage.relay() as honest, plain_http_host() as plain, forbidding_host() as forbidding:
        dead = ("wss://relay.invalid", f"ws://127.0.0.1:{free_port()}", plain, forbidding)
        async with stage.store(*dead, honest) as store:
            ident = await store.remember("k", stage.plaintext)
            *bad, good = (await stage.sync(store)).relays

            assert [line.problem for line in bad] == [
                "the host name was not found; check its spelling, and whether this machine is online",
                "refused the connection",
                "TLS could not be negotiated; if the relay does not speak TLS, its address begins with ws://",
                "answered HTTP 403 instead of opening a relay connection",
            ]
            assert [line.waiting for line in bad] == [1, 1, 1, 1]
            assert [line.problem for line in bad] == [relay.problem for relay in store.status().relays[:4]]
            assert good.in_step
            assert store.relays.holders(ident)[honest.url] == "confirmed"


@pytest.mark.virtual_time
async def test_r02_accepts_socket_then_silent(stage):
    async with stage.relay() as honest, silent_host() as port:
        url = f"ws://127.0.0.1:{port}"
        async with stage.store(url, honest, timeouts=stage.quick) as store:
            await store.remember("k", stage.plaintext)
            bad, good = (await stage.sync(store)).relays

            assert bad.problem == "did not answer within 1 s"
            assert bad.waiting == 1
            assert good.in_step


@pytest.mark.virtual_time
async def test_r02_is_tried_again_later(stage):
    async with silent_host() as port:
        url = f"ws://127.0.0.1:{port}"
        store = stage.store(url, ledger="k.db", timeouts=stage.quick)
        async with store:
            await store.remember("k", stage.plaintext)
            assert not (await stage.sync(store)).complete
    async with stage.relay(port=port), stage.store(url, ledger="k.db") as store:
        assert (await stage.sync(store)).in_step


@pytest.mark.virtual_time
async def test_r03_never_sends_eose_is_incomplete_and_keeps_events(stage):
    events = [await stage.event(f"k{number}", at=-number) for number in range(5)]
    record, lie = Record(), NoEose()
    async with (
        stage.liar(record, lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        await stage.put(liar.upstream, *events)
        await store.remember("mine", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.pulled.reasons == ("went silent",)
        assert not bad.complete
        assert bad.held_back
        assert record.published == []
        assert {memory.key for memory in await store.recall_all()} == {"mine", *(f"k{n}" for n in range(5))}
        assert good.in_step

        lie.on = False
        assert (await stage.sync(store)).in_step
        assert not any("since" in wanted for request in record.said("REQ") for wanted in request[2:])


@pytest.mark.virtual_time
async def test_r03_a_stall_in_the_middle_of_a_page_keeps_what_came(stage):
    events = [await stage.event(f"k{number}", at=-number) for number in range(5)]
    lie = Stall(after=2)
    async with (
        stage.liar(lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        await stage.put(liar.upstream, *events)
        bad, good = (await stage.sync(store)).relays

        assert bad.pulled.reasons == ("went silent",)
        assert {memory.key for memory in await store.recall_all()} == {"k0", "k1"}
        assert good.in_step

        lie.on = False
        assert (await stage.sync(store)).in_step
        assert len(await store.recall_all()) == len(events)


@pytest.mark.virtual_time
async def test_r05_notice_only_refusal(stage):
    lie = NoticeOnly(f"ERROR: {stage.words} bad req")
    async with (
        stage.liar(lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        await stage.put(liar.upstream, await stage.event("there"))
        await store.remember("mine", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.pulled.reasons == ("answered with a notice only",)
        assert bad.held_back
        assert good.in_step

        lie.on = False
        assert (await stage.sync(store)).in_step
        assert await store.recall("there")


@pytest.mark.virtual_time
async def test_r04_drip_feeds_forever(stage):
    """An event a second without end: after two minutes the page is cut, incomplete, and what came is kept."""
    events = [await stage.event(f"k{number}", at=-number) for number in range(200)]
    record = Record()
    async with (
        stage.liar(record, Drip(1.0)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, *events)
        await store.remember("mine", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert set(bad.pulled.reasons) == {"took too long"}
        assert 115 <= len(await store.recall_all()) - 1 <= 120
        assert 119 < bad.seconds < 125
        assert bad.held_back
        assert record.published == []
        assert good.in_step
        assert len(await stage.stored(honest.url)) == len(await store.recall_all())


@pytest.mark.virtual_time
async def test_r06_early_eose_then_events(stage):
    """Nothing of it is lost, the relay is remarked upon, and it is never again believed to have shown everything."""
    events = [await stage.event(f"k{number}", at=-number) for number in range(20)]
    lie = EarlyEose()
    async with stage.liar(NoNegentropy(), lie) as liar, stage.relay() as honest:
        await stage.put(liar.upstream, *events)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)  # taken in, if the relay is slow enough
            for _ in range(2):
                bad, _ = (await stage.sync(store)).relays
                assert bad.pulled.reasons == (LATE,)
                assert not bad.complete
                assert len(await store.recall_all()) == 20
                assert store.status().relays[0].remarks == (remark_sentence(Remark.LATE),)
        stage.clock.advance(60)
        lie.on = False
        async with stage.store(liar, honest, ledger="k.db") as store:
            assert store.status().relays[0].remarks == (remark_sentence(Remark.LATE),)
            assert (await stage.sync(store)).in_step
            assert store.status().relays[0].remarks == ()


@pytest.mark.virtual_time
async def test_r06_a_relay_that_does_it_at_once_is_noticed_at_once(stage):
    class Behind(Inject):
        def from_relay(self, frame, talk):
            yield from reversed(list(super().from_relay(frame, talk)))  # behind the EOSE

    lie = Behind(json.dumps(["EVENT", "$sub", await stage.event("k")]), kind=30078)
    record = Record()
    async with stage.liar(record, NoNegentropy(), lie) as liar, stage.store(liar) as store:
        (line,) = (await stage.sync(store)).relays
        assert line.pulled.reasons == (LATE,)
        assert line.held_back
        assert len(record.said("REQ")) <= 12
        assert await store.recall_all()
        assert store.status().relays[0].remarks == (remark_sentence(Remark.LATE),)


async def test_r06_what_is_written_while_an_answer_ends_is_no_lie(stage):
    """An honest relay passes on, right after EOSE, what another device wrote at that very moment: once."""

    class OneMoment(Inject):
        def from_relay(self, frame, talk):
            found = list(super().from_relay(frame, talk))
            yield from reversed(found)  # behind the EOSE
            self.on = frame[0] != "EOSE" or not talk.asks_for(frame[1], 30078)

    event = await stage.event("k")
    moment = OneMoment(json.dumps(["EVENT", "$sub", event]), kind=30078)
    async with stage.liar(moment) as liar, stage.store(liar) as store:
        await stage.put(liar.upstream, event)
        (line,) = (await stage.sync(store)).relays
        assert not moment.on
        assert line.useless == {"after_eose": 1}
        assert line.in_step
        assert store.status().relays[0].remarks == ()


REFUSALS = {
    "duplicate: of something": "closed by the relay", "pow: 28 bits": "requires proof of work",
    "blocked: go away": "blocked", "rate-limited: slow down": "rate-limited", "invalid: filter": "called invalid",
    "restricted: members only": "restricted", "mute: no": "muted", "error: database": "relay error",
    "auth-required: who are you": "authentication refused", "unsupported: kind": "unsupported",
    "replaced: have newer event": "closed by the relay", "deleted: user requested": "closed by the relay",
    "quokka: jumping": "unknown answer", "quokka": "unreadable answer", "": "unreadable answer",
    "x" * 2_000: "unreadable answer", "\x1b[31m": "unreadable answer",
}  # fmt: skip


@pytest.mark.virtual_time
@pytest.mark.parametrize(("text", "reason"), REFUSALS.items(), ids=[text[:12] for text in REFUSALS])
async def test_r07_closed_each_prefix(stage, text, reason):
    """Incomplete and said so in our words; the background asks again about once a minute, whatever is written."""
    record = Record()
    async with (
        stage.liar(record, ClosedOnly(text)) as liar,
        stage.store(liar, background=True) as store,
    ):
        for minute in range(10):
            await store.remember(f"k{minute}", stage.plaintext)
            await stage.passes(60)
        status = store.status().relays[0]
        assert status.last_complete is None
        assert 5 <= len(record.said("REQ")) / 3 <= 11
        assert record.published == []
        with pytest.raises(NotSynced) as caught:
            await store.recall("elsewhere")
        assert stage.words not in str(caught.value)
        assert len(liar.upgrades) == 1
        (line,) = (await stage.sync(store)).relays
        assert line.pulled.reasons == (reason,)
        assert (line.problem, line.held_back, line.waiting) == ("", True, 10)


@pytest.mark.virtual_time
@pytest.mark.parametrize("background", [False, True])
async def test_r07_a_relay_that_refuses_to_be_read_holds_up_no_conflict_copy(stage, background):
    lisa = ("people", "facts", "lisa")
    async with (
        stage.relay() as honest,
        stage.liar(ClosedOnly("restricted: members only")) as closed,
        stage.store(honest, closed) as one,
        stage.store(honest, closed, background=background) as other,
    ):
        for store, value in ((one, "artist"), (other, "plumber")):
            stage.clock.advance(60)
            await store.persona_remember(*lisa, f"{stage.plaintext} {value}")
        await stage.sync(one)
        await (stage.passes(120) if background else stage.sync(other))
        found = {memory.key: memory.value for memory in await other.persona_recall()}
        assert found.pop("lisa") == f"{stage.plaintext} plumber"
        assert list(found.values()) == [f"{stage.plaintext} artist"]


@pytest.mark.virtual_time
async def test_r07_a_relay_that_never_shows_everything_holds_up_a_conflict_copy_for_some_hours_only(stage):
    lisa = ("people", "facts", "lisa")
    gives_up = ClosedOnly("error: shutting down")
    async with (
        stage.relay() as honest,
        stage.liar(gives_up) as broken,
        stage.store(honest, broken) as one,
        stage.store(honest, broken) as other,
    ):
        for store, value in ((one, "artist"), (other, "plumber")):
            stage.clock.advance(60)
            await store.persona_remember(*lisa, f"{stage.plaintext} {value}")
        await stage.sync(one)
        found = []
        for _ in range(4):
            await stage.sync(other)
            (line,) = [line for line in other.status().relays if line.url == broken.url]
            found.append((len(await other.persona_recall()), any("copies" in said for said in line.remarks)))
            stage.clock.advance(3_600)
        assert found == [(1, False), (1, False), (2, True), (2, True)]

        gives_up.on = False
        await stage.sync(other)
        assert not any("copies" in said for line in other.status().relays for said in line.remarks)


@pytest.mark.virtual_time
async def test_r11_duplicate_flood(stage, monkeypatch):
    """A valid event a hundred thousand times: one row, little memory, cut; the others are not held up."""
    assert Session.__init__.__kwdefaults__["noise_budget"] == MAX_NOISE_COUNT
    monkeypatch.setitem(Session.__init__.__kwdefaults__, "noise_budget", 4_000)
    event = await stage.event("k")
    async with (
        stage.liar(Flood(100_000)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, event)
        spent = time.process_time()
        with stage.traced() as most:
            bad, good = (await stage.sync(store)).relays
            assert most() < 5 * 1024 * 1024

        assert "sent more than was asked for" in bad.pulled.reasons
        assert bad.misbehaving
        assert bad.useless["duplicates"] <= 550
        assert bad.useless["unasked"] == 4_001
        assert good.in_step
        assert [json.loads(body) for body in ledger_of(store).bodies()] == [event]
        assert time.process_time() - spent < 15  # ten, and the tracing of memory on top


async def test_r20_until_is_exclusive(stage):
    """Three events a second, twenty to a page: a page ends in the middle of a second, and nothing is skipped."""
    async with stage.liar(ExclusiveUntil(), Information({"limitation": {"max_limit": 20}})) as liar:
        async with stage.store(liar) as store:
            for number in range(60):
                stage.clock.advance(number % 3 == 0)
                await store.remember(f"key{number}", stage.plaintext)
            await store.sync()
        async with stage.store(liar) as store:
            assert (await stage.sync(store, full=True)).in_step
            assert len(await store.recall_all()) == 60


class LongRoad(Fault):
    """A minute passes with the twentieth event of a client's first answer; then it hangs up, if it is to."""

    def __init__(self, clock, *, hangs_up) -> None:
        super().__init__()
        self.clock, self.hangs_up = clock, hangs_up

    def from_relay(self, frame, talk):
        yield frame
        if frame[0] == "EVENT" and talk.number == 1 and sum(talk.answered.values()) == 20:
            self.clock.advance(60)
            if self.hangs_up:
                yield HANGUP


@pytest.mark.parametrize("hangs_up", [False, True])
async def test_a_restore_that_takes_a_minute_fetches_nothing_twice(stage, hangs_up):
    """What is dated within the last two hours lies in the overlap; it is asked for again with the next pull."""
    record = Record()
    async with stage.relay() as behind:
        async with stage.store(behind) as store:
            await store.remember_many((f"k{number}", stage.plaintext) for number in range(100))
            await store.sync()
        async with (
            FaultyRelay(behind.url, record, LongRoad(stage.clock, hangs_up=hangs_up)) as relay,
            stage.store(relay) as store,
        ):
            assert (await stage.sync(store)).complete
            assert len(await store.recall_all()) == 100
            shown = {event[2]["id"] for event in record.heard("EVENT")}
            # Each walk shows its oldest second twice; here all are of one second.
            assert len(record.heard("EVENT")) <= 200 + 20 * hangs_up
            assert len(shown) == 100
