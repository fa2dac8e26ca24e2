"""R rows: relays that can not be reached, fall silent, or refuse without saying so."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager

from websockets.asyncio.server import serve

from relays.faults import NoEose, NoticeOnly, Record, Stall


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
                "the host name was not found",
                "refused the connection",
                "TLS could not be negotiated",
                "answered HTTP 403 instead of opening a relay connection",
            ]
            assert [line.waiting for line in bad] == [1, 1, 1, 1]
            assert [line.problem for line in bad] == [relay.problem for relay in store.status().relays[:4]]
            assert good.in_step
            assert store.holders(ident)[honest.url] == "acked"


async def test_r02_accepts_socket_then_silent(stage):
    async with stage.relay() as honest, silent_host() as port:
        url = f"ws://127.0.0.1:{port}"
        async with stage.store(url, honest, timeouts=stage.quick) as store:
            await store.remember("k", stage.plaintext)
            bad, good = (await stage.sync(store)).relays

            assert bad.problem == "did not answer within 1 s"
            assert bad.waiting == 1
            assert good.in_step


async def test_r02_is_tried_again_later(stage):
    async with silent_host() as port:
        url = f"ws://127.0.0.1:{port}"
        store = stage.store(url, ledger="k.db", timeouts=stage.quick)
        async with store:
            await store.remember("k", stage.plaintext)
            assert not (await stage.sync(store)).complete
    async with stage.relay(port=port), stage.store(url, ledger="k.db") as store:
        assert (await stage.sync(store)).in_step


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
