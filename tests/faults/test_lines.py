"""R rows: connections that are cut, that nobody reads, or that lead elsewhere; and how often one dials."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from websockets.asyncio.server import serve

from relays.faults import CloseEvery, Deaf, FaultyRelay, Information, Record
from sense_memory.errors import InvalidRelayUrl
from sense_memory.relay.client.connection import RelayConnection
from tests.inside import ledger_of


_silent = logging.getLogger(f"{__name__}.library")  # the raw peer's words are no leak of ours
_silent.setLevel(logging.CRITICAL)


@pytest.mark.parametrize("n", [2, 3, 5, 20, 200])
async def test_r14_disconnect_every_n_messages(stage, n):
    """Each store is a process of its own: it goes on where the one before was cut off.

    One message at a time is too few for that: the first of an answer is the one that is known (`relay.sync.walk`).
    """
    theirs = [await stage.event(f"theirs{number}", at=-2 * number) for number in range(30)]
    async with stage.liar(CloseEvery(n)) as liar, stage.relay() as honest:
        await stage.put(liar.upstream, *theirs)
        async with stage.store(honest, ledger="k.db") as store:
            for number in range(30):
                stage.clock.advance(1)
                await store.remember(f"ours{number}", stage.plaintext)
            await store.journal(stage.plaintext)
        rounds, in_step = 0, False
        while not in_step:
            async with stage.store(liar, honest, ledger="k.db") as store:
                in_step = (await stage.sync(store)).in_step
                memories = {memory.event_id for memory in await store.recall_all()}
                journal = {entry.event_id for entry in await store.recent()}
            rounds += 1
            assert rounds <= 4
        assert len(liar.upgrades) <= rounds * 41

        assert len(memories) == 60
        assert memories > {event["id"] for event in theirs}
        for url in (liar.upstream, honest.url):
            stored = [event["id"] for event in await stage.stored(url)]
            assert len(stored) == len(set(stored)) == 61
            assert memories | journal == set(stored)


@pytest.mark.parametrize("n", [1, 2, 7])
async def test_r14_a_second_that_can_not_be_walked_past_holds_up_no_sending(stage, n):
    """Thirty events of one second, and a relay that hangs up before it has sent them: incomplete, said so."""
    record = Record()
    async with stage.liar(record, CloseEvery(n)) as liar:
        async with stage.store(liar, ledger="k.db") as store:
            await stage.sync(store)
            assert store.status().relays[0].last_complete is not None
        await stage.put(liar.upstream, *[await stage.event(f"theirs{number}") for number in range(30)])
        async with stage.store(liar, ledger="k.db") as store:
            ident = await store.remember("ours", stage.plaintext)
            (line,) = (await stage.sync(store)).relays
            assert not line.complete
            assert line.waiting == 0
            assert store.relays.holders(ident) == {liar.url: "acked"}
    assert len(liar.upgrades) < 20


# Where the system has room for all that may be in flight, nobody waits for the relay to read, but for its OKs.
NOT_READING = {"does not read what we send", ""}


@pytest.mark.virtual_time
async def test_r15_slow_reader_backpressure(stage):
    """A relay that stops reading: given up on after ten seconds or twenty, everything stays queued, nothing piles up."""
    text = f"{stage.plaintext} " * 4_000
    lie = Deaf(after=30)
    async with (
        stage.liar(lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, ledger="k.db") as store,
    ):
        await store.remember_many((f"k{number}", text) for number in range(400))  # some 20 MB
        bad, good = (await stage.sync(store)).relays

        assert bad.problem in NOT_READING
        assert bad.sent.get("accepted", 0) <= 30
        assert bad.waiting == 400 - bad.sent.get("accepted", 0)
        assert 9 < bad.seconds < 30
        assert good.in_step

        lie.on = False
        await stage.passes(60)  # a connection that gives no sign of life is not kept
        assert (await stage.sync(store)).in_step


SENDER = """
import asyncio, gc, json, sys, tracemalloc
import sense_memory.relay.sync.pool, sense_memory.relay.client.websocket
from sense_memory import LocalSigner, MemoryStore, Timeouts

async def main(nsec, relay, ledger, now):
    signer, patience = LocalSigner.from_nsec(nsec), Timeouts(idle=1.0, ok=1.0, send=0.2, close=0.2)
    options = {"background": False, "snapshot": False, "clock": lambda: now, "timeouts": patience}
    async with MemoryStore(signer, [relay], ledger=":memory:", **options) as store:
        await store.sync()  # whatever is imported for it
    tracemalloc.start()
    async with MemoryStore(signer, [relay], ledger=ledger, **options) as store:
        peaks, left = [], []
        for _ in range(3):
            tracemalloc.reset_peak()
            (line,) = (await store.sync()).relays
            gc.collect()
            held, peak = tracemalloc.get_traced_memory()
            peaks.append(peak), left.append(held)
        print(json.dumps({"problem": line.problem, "waiting": line.waiting, "peaks": peaks, "left": left}))

asyncio.run(main(**json.load(sys.stdin)))
"""


async def test_r15_what_a_slow_reader_leaves_waits_in_the_ledger(stage, forks):
    """Fifty megabytes for a relay that reads nothing: the sender holds a part of that, and nothing of it afterwards.

    The sender is a process of its own: no relay, no proxy, no other test. What its objects take is counted, not
    what the system gave it, which depends on who else is at work.
    """
    async with stage.liar(Deaf(after=20)) as liar:
        async with stage.store(ledger="k.db") as store:
            text = f"{stage.plaintext} " * 4_000
            await store.remember_many((f"k{number}", text) for number in range(1_000))
            waiting = sum(map(len, ledger_of(store).bodies()))
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(forks.python, "-c", SENDER, **pipes)
        order = {"nsec": stage.signer.export_nsec(), "relay": liar.url, "now": stage.clock()}
        order["ledger"] = str(stage.folder / "k.db")
        out, _ = await process.communicate(json.dumps(order).encode())

    told = json.loads(out)
    assert told["problem"] in NOT_READING
    assert 900 < told["waiting"] <= 1_000
    assert waiting > 50_000_000
    assert max(told["peaks"]) < waiting / 2  # whatever the system is ready to buffer
    assert max(told["left"]) < waiting / 10  # nothing piles up with each try


HOSTILE = {
    "a hundred megabytes": lambda: b'{"name":"' + b"x" * 100_000_000 + b'"}',
    "html": b"<html><body>quokka</body></html>",
    "nothing": b"",
    "a list": [1, 2, 3],
    "deep": b"[" * 60_000,
    "not utf-8": b'{"name":"\xff\xfe"}',
    "wrong types": {
        "name": 7,
        "supported_nips": "77",
        "limitation": {"max_message_length": "16", "max_limit": None, "max_content_length": [1], "x": {}},
    },
    "negative and huge": {
        "supported_nips": [-1, 1e300, True, None, "77", 2**70],
        "limitation": {"max_message_length": -5, "max_limit": 0, "max_content_length": 2**80},
    },
    "no object": {"limitation": "none"},
    "one event a page": {"limitation": {"max_limit": 1}},
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
async def test_r16_nip11_is_hostile_json(stage, document):
    """Whatever a relay says of itself, it is synced with the usual numbers."""
    record, document = Record(), document() if callable(document) else document
    async with (
        stage.liar(record, Information(document)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, *[await stage.event(f"k{number}", at=-number) for number in range(20)])
        await store.remember("mine", stage.plaintext)
        report = await stage.sync(store)
        await stage.sync(store)

        assert report.in_step
        assert liar.inquiries == 1
        walked = [frame[2] for frame in record.said("REQ") if frame[2]["kinds"] != [4]]
        assert {wanted["limit"] for wanted in walked} == {500}
        assert len(await store.recall_all()) == 21


async def test_r16_a_page_is_no_larger_than_the_relay_says(stage):
    record = Record()
    async with (
        stage.liar(record, Information({"limitation": {"max_limit": 25}})) as liar,
        stage.store(liar) as store,
    ):
        await stage.put(liar.upstream, *[await stage.event(f"k{number}", at=-number) for number in range(60)])
        assert (await stage.sync(store)).in_step
        assert len(await store.recall_all()) == 60
        assert {wanted["limit"] for request in record.said("REQ") for wanted in request[2:]} == {25}


@pytest.mark.parametrize(
    "url",
    ["ws://relay.example.com", "ws://192.168.1.7:7777", "ws://10.0.0.1", "http://localhost", "file:///etc/passwd",
     "wss://user:word@relay.example.com", "ws://127.0.0.1.example.com"],
)  # fmt: skip
def test_r17_redirect_and_plain_ws(stage, url):
    """Unencrypted only on this machine, unless one says so; anything else is no relay at all."""
    with pytest.raises(InvalidRelayUrl):
        stage.store(url)
    if url.startswith("ws://"):
        assert stage.store(url, allow_plain=True).relays == (f"{url}/".rstrip("/"),)


@asynccontextmanager
async def redirecting(place):
    """A raw peer: answers every upgrade with a redirect."""

    def redirect(connection, request):
        response = connection.respond(302, "quokka")
        response.headers["Location"] = place
        return response

    async def never(_):
        raise AssertionError

    async with serve(never, "127.0.0.1", 0, process_request=redirect, logger=_silent) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "http://169.254.169.254/latest", "ws://127.0.0.1:1", None]
)
async def test_r17_redirects_are_not_followed(stage, place):
    async with (
        stage.liar() as target,
        stage.relay() as honest,
        redirecting(place or target.url) as url,
        stage.store(url, honest) as store,
    ):
        await store.remember("k", stage.plaintext)
        bad, good = (await stage.sync(store)).relays
        assert bad.problem.startswith(
            "configure the address to which it redirects; redirects are not followed"
        )
        assert bad.waiting == 1
        assert good.in_step
        assert target.upgrades == []
        assert target.inquiries == 0


@pytest.mark.virtual_time
@pytest.mark.parametrize("flaps", ["refuses", "hangs up at once", "hangs up in the middle"])
async def test_r18_reconnect_backoff_is_jittered_and_capped(stage, flaps, monkeypatch):
    """An hour of a relay that comes and goes, and an agent that writes every minute: at most 80 dials."""
    dials = []
    dial = RelayConnection.open

    async def noted(connection):
        dials.append(asyncio.get_running_loop().time())
        return await dial(connection)

    monkeypatch.setattr(RelayConnection, "open", noted)
    async with stage.relay() as behind:
        stage.honest.clear()
        await stage.put(behind.url, *[await stage.event(f"t{number}", at=-number) for number in range(400)])
        lie = CloseEvery({"hangs up at once": 1, "hangs up in the middle": 6}.get(flaps, 10_000))
        relay = FaultyRelay(behind.url, lie)
        async with relay:
            pass
        async with stage.store(relay, background=True) as store:
            if flaps == "refuses":
                for minute in range(60):
                    await store.remember(f"k{minute}", stage.plaintext)
                    await stage.passes(60)
            else:
                async with relay:
                    for minute in range(60):
                        await store.remember(f"k{minute}", stage.plaintext)
                        await stage.passes(60)
        assert 8 <= len(dials) <= 80
        pauses = [later - sooner for sooner, later in pairwise(dials)]
        assert max(pauses) <= 600 * 1.2 + 1
        if flaps == "refuses":
            assert all(later > sooner for sooner, later in pairwise(pauses[:9]))
            assert len({round(pause, 3) for pause in pauses}) == len(pauses)  # no two relays' clients in step
