"""Closing a store: what is queued is sent, what waits ends, and what belongs to another process is left alone."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import threading
import time
import warnings
from contextlib import suppress

import pytest

from relays.faults import Deaf, FaultyRelay, Information
from sense_memory import EmbeddedRelay, InvalidInput, MemoryStore, StoreClosed, SyncMemoryStore
from sense_memory.errors import InvalidSetting, RelayLimitWarning, WrongThreadError
from tests.time_unit import SECOND


DEAD = "ws://127.0.0.1:9"  # the discard port: nobody listens there
SOON = 3 * SECOND  # within which whatever need not wait is over


async def what_arrived(signer, url):
    async with MemoryStore(signer, [url], ledger=":memory:", background=False) as other:
        await other.sync()
        return {memory.key for memory in await other.recall_all()}


async def closed_in(store):
    before = time.monotonic()
    await store.close()
    return time.monotonic() - before


# ── What is queued ──────────────────────────────────────────────────────────────────────


async def test_a_program_of_three_lines_replicates(signer, caplog):
    async with EmbeddedRelay() as relay:
        async with MemoryStore(signer, [relay.url], ledger=":memory:") as store:
            await store.remember("k", "v")

        assert await what_arrived(signer, relay.url) == {"k"}
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_the_blocking_twin_replicates_too(signer):
    def program(url):
        with SyncMemoryStore(signer, [url], ledger=":memory:") as store:
            store.remember("k", "v")

    async with EmbeddedRelay() as relay:
        await asyncio.to_thread(program, relay.url)
        assert await what_arrived(signer, relay.url) == {"k"}


async def test_what_fails_in_the_program_does_not_keep_its_memories_back(signer):
    async with EmbeddedRelay() as relay:
        with suppress(KeyError):
            async with MemoryStore(signer, [relay.url], ledger=":memory:") as store:
                await store.remember("k", "v")
                raise KeyError

        assert await what_arrived(signer, relay.url) == {"k"}


async def test_a_relay_that_can_not_be_reached_is_not_waited_for_and_named(signer, caplog):
    store = MemoryStore(signer, [DEAD], ledger=":memory:", close_timeout=60)
    await store.__aenter__()
    await store.remember("k", "v")

    assert await closed_in(store) < SOON
    (told,) = [record for record in caplog.records if record.name == "sense_memory.store"]
    assert told.getMessage().startswith(f"still queued for {DEAD}: 1 event. ")
    assert told.levelno == logging.WARNING


async def test_a_relay_that_says_nothing_is_waited_for_as_long_as_was_said_and_not_longer(signer, caplog):
    patience = 0.3 * SECOND
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, Deaf(0)) as liar:
        store = MemoryStore(signer, [liar.url, relay.url], ledger=":memory:", close_timeout=patience)
        await store.__aenter__()
        await store.remember("k", "v")

        assert patience <= await closed_in(store) < SOON
        assert await what_arrived(signer, relay.url) == {"k"}
    told = [record.getMessage() for record in caplog.records if record.name == "sense_memory.store"]
    assert [message.split(": ")[0] for message in told] == [f"still queued for {liar.url}"]


@pytest.mark.parametrize("options", [{"close_timeout": 0}, {"background": False}])
async def test_without_patience_or_background_nothing_is_waited_for(options, signer):
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, Deaf(0)) as liar:
        store = MemoryStore(signer, [liar.url], ledger=":memory:", **options)
        await store.__aenter__()
        await store.remember("k", "v")

        assert await closed_in(store) < SOON


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), True, "5", None, 10**30])
def test_a_patience_that_is_none_is_refused(seconds, signer):
    with pytest.raises(InvalidSetting, match="close_timeout"):
        MemoryStore(signer, close_timeout=seconds)
    with pytest.raises(InvalidSetting, match="read_timeout"):
        MemoryStore(signer, read_timeout=-1 if seconds is None else seconds)


async def test_a_program_that_is_cancelled_does_not_wait(signer):
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, Deaf(0)) as liar:

        async def program():
            async with MemoryStore(signer, [liar.url], ledger=":memory:", close_timeout=60) as store:
                await store.remember("k", "v")
                written.set()
                await asyncio.Event().wait()

        written = asyncio.Event()
        task = asyncio.create_task(program())
        await written.wait()
        task.cancel()
        async with asyncio.timeout(SOON):
            with pytest.raises(asyncio.CancelledError):
                await task


# ── What waits ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_background", [False, True])
async def test_whatever_waits_for_relays_ends_when_the_store_closes(is_background, signer):
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, Deaf(0)) as liar:
        store = MemoryStore(signer, [liar.url], ledger=":memory:", background=is_background, close_timeout=0)
        await store.__aenter__()
        await store.remember("k", "v")
        calls = (
            store.sync(),
            store.sync(full=True),
            store.flush(),
            store.relays.holdings(),
            store.recall("nowhere"),
        )
        tasks = [asyncio.create_task(call) for call in calls]
        for _ in range(20):
            await asyncio.sleep(0)

        await store.close()
        async with asyncio.timeout(SOON):
            ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(end) for end in ends] == [StoreClosed] * len(tasks)


async def test_a_call_that_is_cancelled_while_the_store_is_open_is_cancelled(signer):
    async with (
        EmbeddedRelay() as relay,
        FaultyRelay(relay.url, Deaf(0)) as liar,
        MemoryStore(signer, [liar.url], ledger=":memory:", close_timeout=0) as store,
    ):
        task = asyncio.create_task(store.sync())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.remember("k", "v")


# ── Entering again, forks ───────────────────────────────────────────────────────────────


async def test_a_store_that_is_open_is_not_opened_again(signer):
    store = MemoryStore(signer, ledger=":memory:")
    async with store:
        await store.remember("k", "v")
        with pytest.raises(InvalidInput, match="open already"):
            await store.__aenter__()
        assert (await store.recall("k")).value == "v"
    async with store:
        assert await store.recall_all() == []


def test_nor_is_its_blocking_twin(signer):
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        store.remember("k", "v")
        with pytest.raises(InvalidInput, match="open already"):
            store.__enter__()
        assert store.recall("k").value == "v"


def test_a_call_of_another_thread_ends_when_the_store_is_closed_meanwhile(signer):
    ends = []
    writes, is_writing = itertools.count(), threading.Event()

    def writer(store):
        try:
            for number in writes:
                store.remember("k", str(number))
                is_writing.set()
        except StoreClosed as end:
            ends.append(end)

    with SyncMemoryStore(signer, ledger=":memory:") as store:
        threads = [threading.Thread(target=writer, args=(store,), daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert is_writing.wait(SOON)
        closer = threading.Thread(target=store.close, daemon=True)
        closer.start()
        store.close()
        for thread in (*threads, closer):
            thread.join(SOON)
    assert len(ends) == len(threads)


FORK = """
import asyncio, os, signal, sys, warnings
from sense_memory import LocalSigner, MemoryStore, StoreClosed, SyncMemoryStore
from sense_memory.errors import StoreForked
warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads
path = sys.argv[1]

def refused(call):
    try:
        call()
    except StoreForked:
        return True
    return False

def step(coroutine):
    coroutine.send(None)

async def main():
    async with MemoryStore(LocalSigner.generate(), ledger=path) as store:
        await store.remember("k", "v")
        child = os.fork()
        if not child:
            calls = [lambda: step(store.recall("k")), lambda: step(store.remember("k", "w")), store.status]
            ends = [refused(call) for call in calls]
            try:
                step(store.close())
            except StopIteration:
                ends.append(True)
            os._exit(0 if all(ends) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (await store.recall("k")).value == "v"
        await store.remember("k", "x")
        assert store.integrity() == []

asyncio.run(main())
with SyncMemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
    store.remember("k", "v")
    child = os.fork()
    if not child:
        end = refused(lambda: store.recall("k"))
        store.close()
        os._exit(0 if end else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    turn = store._loop._turn
    turn.acquire()  # as if another thread were calling the store at this moment
    child = os.fork()
    if child:
        turn.release()
    else:
        signal.alarm(10)
        store.close()
        try:
            store.recall("k")
        except StoreClosed:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.recall("k").value == "v"
print("as it should be")
"""


def test_a_fork_can_not_use_the_store_and_does_it_no_harm(forks, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(FORK)

    done = forks(program, tmp_path / "a.db")

    assert (done.code, done.stdout, done.stderr) == (0, b"as it should be\n", b"")


# ── Threads ─────────────────────────────────────────────────────────────────────────────


async def test_another_thread_is_told_what_to_use_instead_and_does_the_store_no_harm(signer):
    async def called(call):
        result = call()
        return await result if inspect.isawaitable(result) else result

    async with MemoryStore(signer, ledger=":memory:") as store:
        await store.remember("k", "v")
        for call in (
            lambda: store.remember("k", "w"),
            lambda: store.recall("k"),
            lambda: store.persona_remember("people", "facts", "lisa", "artist"),
            lambda: store.forget_many(["k"]),
            lambda: store.search("v"),
            store.sync,
            store.status,
            store.watch,
            store.close,
        ):
            with pytest.raises(WrongThreadError):
                await asyncio.to_thread(asyncio.run, called(call))

        loop = asyncio.get_running_loop()

        def program():
            return asyncio.run_coroutine_threadsafe(store.recall("k"), loop).result()

        assert (await asyncio.to_thread(program)).value == "v"
        assert await store.recall_all() == [await store.recall("k")]


# ── Warnings ────────────────────────────────────────────────────────────────────────────


def writes(store):
    """What may write something that a relay will not take, each from this file."""
    text = "x" * 12_000
    return {
        "remember": lambda: store.remember("k", text),
        "remember_many": lambda: store.remember_many([("a", text), ("b", "short")]),
        "journal": lambda: store.journal(text),
        "persona_remember": lambda: store.persona_remember("people", "facts", "lisa", text),
    }


async def test_a_limit_of_a_relay_is_told_where_the_call_was_made(signer):
    limits = Information({"limitation": {"max_message_length": 4_096}})
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, limits) as small:
        async with MemoryStore(signer, [small.url], ledger=":memory:", background=False) as store:
            await store.sync()
            for call in writes(store).values():
                with pytest.warns(RelayLimitWarning) as told:
                    await call()
                assert [warning.filename for warning in told] == [__file__]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for call in writes(store).values():
                    assert await call()

        def program():
            with SyncMemoryStore(signer, [small.url], ledger=":memory:", background=False) as store:
                store.sync()
                for call in writes(store).values():
                    with pytest.warns(RelayLimitWarning) as told:
                        call()
                    assert [warning.filename for warning in told] == [__file__]

        await asyncio.to_thread(program)


# ── The embedder ────────────────────────────────────────────────────────────────────────


async def test_two_first_searches_at_once_open_one_embedder(signer):
    from sense_memory.search.embedders.choice import Choice

    opened = []

    def opening():
        opened.append(1)
        return Choice.parse("static").open()

    async with MemoryStore(signer, ledger=":memory:", embedder=opening) as store:
        await store.remember("k", "a kitten")
        await store.persona_remember("pets", "facts", "cat", "a kitten")
        await asyncio.gather(
            store.search("cat"), store.search("dog"), store.persona_search("cat"), store.embed()
        )

    assert len(opened) == 1
