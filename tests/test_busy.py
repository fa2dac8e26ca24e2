"""Another process that writes to the ledger holds up nobody but whoever has to write, and an event loop never."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import sys
import time
from contextlib import asynccontextmanager, closing

import pytest

from sense_memory import EmbeddedRelay, LedgerError, LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError, LedgerBusy
from sense_memory.ledger import database
from tests.inside import database_of, ledger_of
from tests.time_unit import SECOND


BOB, LISA = ("people", "facts", "bob"), ("people", "facts", "lisa")
BEATS = 10  # of 5 ms each, mostly of virtual time: so long is the ledger held
GAP_SECONDS = 3 * SECOND  # real ones between two beats; a loop that waits for SQLite stands still for 30


class Held:
    """The write lock of a ledger file, as another process has it."""

    def __init__(self, path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("BEGIN IMMEDIATE")

    async def while_others_go_on(self) -> None:
        """Let some time pass, in which every task has its turn."""
        gaps = []
        for _ in range(BEATS):
            before = time.monotonic()
            await asyncio.get_running_loop().passes(0.005)
            gaps.append(time.monotonic() - before)
        assert max(gaps) < GAP_SECONDS

    def release(self) -> None:
        self._connection.execute("ROLLBACK")
        self._connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def signer():
    return LocalSigner.generate()


@asynccontextmanager
async def prepared(signer, path, relays=(), **options):
    """A store with something of everything in it, and nothing that waits to be written."""
    async with MemoryStore(signer, relays, ledger=path, close_timeout=0, **options) as store:
        await store.remember("k", "one")
        await store.remember("k", "two")
        await store.persona_remember(*BOB, "plumber")
        await store.persona_remember(*LISA, "artist")
        yield store


async def recalled_and_flushed(store):
    await store.persona_recall(*BOB)
    await store.flush()
    (bob,) = [memory for memory in await store.persona_recall(BOB[0]) if memory.key == "bob"]
    assert bob.access_count == 1


WRITES = {
    "remember": lambda store: store.remember("new", "v"),
    "remember_many": lambda store: store.remember_many([("a", "1"), ("b", "2")]),
    "refresh": lambda store: store.refresh("k"),
    "forget": lambda store: store.forget("k"),
    "undo": lambda store: store.undo("k"),
    "journal": lambda store: store.journal("entry"),
    "persona_remember": lambda store: store.persona_remember(*BOB, "gardener"),
    "persona_connect": lambda store: store.persona_connect("bob", "lisa"),
    "persona_contradict": lambda store: store.persona_contradict("bob", "lisa"),
    "persona_forget": lambda store: store.persona_forget(*BOB),
    "persona_introspect": lambda store: store.persona_introspect(),
    "accesses": recalled_and_flushed,
    "embed": lambda store: store.embed(share=True),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
async def test_while_another_process_writes_every_task_goes_on_and_the_write_is_made_afterwards(
    call, signer, path
):
    async with prepared(signer, path, embedder="static") as store:
        events = store.status().counts["events"]
        held = Held(path)
        writing = asyncio.create_task(call(store))

        await held.while_others_go_on()
        assert not writing.done()
        assert store.status().counts["events"] == events
        assert (await store.recall("k")).value == "two"

        held.release()
        await writing
        assert store.integrity() == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)
async def test_a_write_that_is_cancelled_while_it_waits_leaves_nothing_behind(call, signer, path):
    async with prepared(signer, path, embedder="static") as store:
        bodies = list(ledger_of(store).bodies())
        held = Held(path)
        writing = asyncio.create_task(call(store))
        await held.while_others_go_on()
        writing.cancel()
        held.release()
        with pytest.raises(asyncio.CancelledError):
            await writing

        assert list(ledger_of(store).bodies()) == bodies
        await store.remember("after", "v")
        assert (await store.recall("after")).value == "v"


@pytest.mark.virtual_time
async def test_the_first_memory_of_a_ledger_waits_for_another_process_too(signer, path):
    async with MemoryStore(signer, ledger=path) as store:
        held = Held(path)
        writing = asyncio.create_task(store.remember("first", "v"))
        await held.while_others_go_on()
        held.release()
        await writing


@pytest.mark.virtual_time
async def test_a_store_opens_and_closes_while_another_process_writes(signer, path):
    async with MemoryStore(signer, ledger=path) as store:
        await store.persona_remember(*BOB, "plumber")
    held = Held(path)
    store = MemoryStore(signer, ledger=path)
    await store.__aenter__()
    await store.persona_recall(*BOB)
    closing_store = asyncio.create_task(store.close())
    await held.while_others_go_on()
    held.release()
    await closing_store

    async with MemoryStore(signer, ledger=path) as store:
        (bob,) = await store.persona_recall()
        assert bob.access_count == 1


@pytest.mark.virtual_time
async def test_a_store_whose_ledger_has_to_be_migrated_waits_without_blocking(signer, path, monkeypatch):
    with monkeypatch.context() as past:
        past.setattr(database, "MIGRATIONS", database.MIGRATIONS[:1])
        past.setattr(database, "VERSION", 1)
        database.Database(path, signer.public_key).close()
    held = Held(path)
    store = MemoryStore(signer, ledger=path)
    opening = asyncio.create_task(store.__aenter__())
    await held.while_others_go_on()
    assert not opening.done()
    held.release()
    await opening
    await store.remember("k", "v")
    await store.close()


@pytest.mark.virtual_time
async def test_relays_are_followed_without_blocking_while_another_process_writes(signer, path):
    async with EmbeddedRelay() as relay:
        async with MemoryStore(signer, [relay.url], ledger=":memory:") as other:
            await other.remember_many((f"k{number}", "v") for number in range(20))
        async with prepared(signer, path, [relay.url], background=False) as store:
            held = Held(path)
            syncing = asyncio.create_task(store.sync())
            await held.while_others_go_on()
            assert not syncing.done()
            held.release()
            report = await syncing

            assert report.in_step
            assert len(await store.recall_all()) == 21


async def test_a_real_process_that_writes_for_long_is_waited_for(signer, path):
    program = (
        "import sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('BEGIN IMMEDIATE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    async with prepared(signer, path) as store:
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, path, **pipes)
        assert await process.stdout.readline() == b"held\n"
        writing = asyncio.create_task(store.remember("new", "v"))
        done, _ = await asyncio.wait({writing}, timeout=BEATS * 0.005)
        assert not done
        process.stdin.close()
        await process.wait()
        await writing
        assert (await store.recall("new")).value == "v"


async def test_a_call_that_can_not_await_says_at_once_that_the_ledger_is_held(signer, path):
    async with prepared(signer, path) as store:
        held = Held(path)
        with pytest.raises(LedgerBusy, match="nothing was changed"):
            store.relays.drop("wss://relay.example")
        held.release()
        assert store.relays.drop("wss://relay.example") == 0


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_ledger_file_that_is_gone_is_noticed_at_the_next_write(is_replaced, signer, path):
    async with prepared(signer, path) as store:
        path.rename(path.with_name("elsewhere"))
        if is_replaced:
            with closing(sqlite3.connect(path)) as other:
                other.execute("CREATE TABLE t (x)")
        with pytest.raises(LedgerError, match="deleted or replaced"):
            await store.remember("k", "three")
        assert (await store.recall("k")).value == "two"
        path.with_name("elsewhere").replace(path)
        await store.remember("k", "three")


async def test_a_draft_that_was_published_is_no_error_where_it_can_not_be_discarded(signer, path, clock):
    """What was written is never said to be not written; the draft is there to be discarded another time."""
    async with MemoryStore(signer, ledger=path, clock=clock) as store:
        await store.remember("k", "one")
        clock.advance(-86_400)
        with pytest.raises(ClockSkewError):
            await store.remember("k", "two")
        clock.advance(2 * 86_400)
        database_of(ledger_of(store)).execute(
            "CREATE TEMP TRIGGER t BEFORE DELETE ON main.drafts BEGIN SELECT raise(ABORT, 'no'); END"
        )
        ident = await store.publish_draft(1)
        assert (await store.recall("k")).event_id == ident
        assert [draft.number for draft in await store.drafts()] == [1]


# ── Tasks of one loop ───────────────────────────────────────────────────────────────────


WRITES = {
    "flat": lambda store, number: store.remember("k", str(number)),
    "palace": lambda store, number: store.persona_remember(*BOB, str(number)),
    "journal": lambda store, number: store.journal(str(number)),
    "forgotten": lambda store, number: store.forget(f"k{number}"),
}


@pytest.mark.parametrize("what", WRITES)
async def test_whoever_writes_in_a_loop_leaves_other_tasks_their_turn(signer, what):
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with MemoryStore(signer, ledger=":memory:") as store:
        task = asyncio.create_task(other())
        for number in range(2_000):
            await WRITES[what](store, number)
            if turns >= 5:
                break
        assert turns >= 5
        task.cancel()


async def test_what_several_tasks_write_is_written_in_the_order_of_their_calls(signer):
    async with MemoryStore(signer, ledger=":memory:") as store:
        calls = itertools.count()

        async def several(what):
            for _ in range(100):
                await WRITES[what](store, next(calls))

        await asyncio.gather(*map(several, ("flat", "journal", "flat", "journal")))
        written = [int(version.value) for version in reversed(await store.history("k"))]
        entries = [int(entry.content) for entry in reversed(await store.recent(300))]
        assert (written, entries) == (sorted(written), sorted(entries))
        assert sorted(written + entries) == list(range(400))
