"""L rows: a ledger file that is damaged, cut short, shared, old, or from the future."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise

import pytest

from sense_memory import InvalidInput, SenseMemoryError, StoreClosed
from sense_memory.errors import (
    BadKey,
    InvalidEvent,
    LedgerCorrupt,
    LedgerTooNew,
    StorageFullError,
    WrongKeyError,
)
from sense_memory.ledger import database
from sense_memory.ledger.schema import MIGRATIONS, VERSION
from sense_memory.mind.log import Log, NewEntry
from sense_memory.mind.records import MindRecords
from tests.inside import database_of, ledger_of, parts_of
from tests.time_unit import SECOND


async def written(stage, relay, count=200):
    """A ledger file with memories that a relay has and some that it has not, all in the file itself."""
    async with stage.store(relay, ledger="k.db") as store:
        await store.remember_many((f"k{number}", f"{stage.plaintext} {number}") for number in range(count))
        await store.forget("k0")
        assert (await stage.sync(store)).in_step
        await store.remember_many((f"unsent{number}", stage.plaintext) for number in range(60))
        memories = await store.recall_all()
    return stage.folder / "k.db", memories


def damage(path, part, seed=7):
    """Overwrite some bytes of every tenth page but for the first four, in which the list of tables lies."""
    chance = random.Random(seed)
    size = 4096
    raw = bytearray(path.read_bytes())
    for start in range(4 * size, len(raw), part * size):
        for _ in range(64):
            raw[start + chance.randrange(size)] ^= 0xFF
    path.write_bytes(raw)


async def read_all(store):
    """Read everything; what a look at the whole file finds wrong is an error as well."""
    async with store:
        await store.recall_all()
        if problems := store.integrity():
            raise LedgerCorrupt(problems[0])


@pytest.mark.parametrize("seed", range(4))
async def test_l02_corrupt_page(stage, seed):
    """Detected; the file is kept aside, what can be read is saved, unsent memories too, and the relay has the rest."""
    async with stage.relay() as relay:
        path, memories = await written(stage, relay)
        damage(path, 10, seed)
        damaged = path.read_bytes()
        with pytest.raises(LedgerCorrupt):
            await read_all(stage.store(relay, ledger="k.db"))

        report = await stage.store(relay, ledger="k.db").rescue()
        assert report.aside.read_bytes() == damaged
        assert report.aside.name == "k.db.damaged-1"
        assert 50 < sum(report.counts.values()) < 260
        assert report.unreadable > 0

        async with stage.store(relay, ledger="k.db") as store:
            assert store.integrity() == []
            saved = {memory.key for memory in await store.recall_all()}
            assert "k0" not in saved
            unsent = {key for key in saved if key.startswith("unsent")}
            assert unsent
            assert (await stage.sync(store, full=True)).in_step
            found = {memory.key: memory for memory in await store.recall_all()}
            assert {key for key in found if key.startswith("k")} == {f"k{number}" for number in range(1, 200)}
            assert all(found[memory.key] == memory for memory in memories if memory.key in found)
        held = {event["id"] for event in await stage.stored(relay.url)}
        assert {found[key].event_id for key in unsent} <= held


async def test_l02_a_rescue_of_what_is_sound_or_not_ours_touches_nothing(stage):
    path = stage.folder / "k.db"
    store = stage.store(ledger="k.db")
    with pytest.raises(InvalidInput, match="no such file"):
        await store.rescue()
    assert not path.exists()
    async with store:
        await store.remember("k", stage.plaintext)
        with pytest.raises(InvalidInput, match="is open"):
            await store.rescue()
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="is not damaged"):
        await store.rescue()
    with pytest.raises(WrongKeyError):
        await stage.store(ledger="k.db", signer=stage.stranger).rescue()
    assert path.read_bytes() == before

    other = stage.folder / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(InvalidInput, match="another program"):
        await stage.store(ledger="other.db").rescue()
    assert other.exists()
    assert list(stage.folder.glob("*damaged*")) == []


async def test_a_rescue_saves_drafts_and_entries_of_the_log_that_are_in_no_page(stage):
    """A program that is killed leaves such entries in rows of their own; an altered row is counted, and hides no other."""
    async with stage.store(ledger="k.db") as store:
        await store.remember("k", stage.plaintext)
        head = ledger_of(store).head("sense-memory/k")
        sealed = head.event().content
        ledger_of(store).drafts.add(
            [(head.slot, sealed), (head.slot, f"{sealed[:-8]}AAAAAAA=")], stage.clock()
        )
        log = Log(MindRecords(parts_of(store)))
        await log.append_many(
            [NewEntry("agent.spoke", {"text": f"entry {number}"}, "me") for number in range(3)]
        )
    with closing(sqlite3.connect(stage.folder / "k.db")) as connection, connection:
        connection.execute("UPDATE events SET slot = 'elsewhere'")
        connection.execute("UPDATE log_rows SET body = zeroblob(60) WHERE row = 2")

    report = await stage.store(ledger="k.db").rescue()

    assert (report.drafts, report.unreadable) == (1, 2)
    async with stage.store(ledger="k.db") as store:
        assert [stage.plaintext] == [draft.value for draft in await store.drafts()]
        assert ["entry 0", "entry 2"] == [entry.text for entry in await store.mind.log.entries()]


@pytest.mark.parametrize("step", ["salvage", "_file_events", "move_aside"])
async def test_a_rescue_that_was_stopped_can_be_begun_again(stage, monkeypatch, step):
    async with stage.store(ledger="k.db") as store:
        await store.remember("k", stage.plaintext)
    path = stage.folder / "k.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET slot = 'elsewhere'")
    with monkeypatch.context() as patch:
        patch.setattr(f"sense_memory.memories.backup.{step}", stopped)
        with pytest.raises(KeyboardInterrupt):
            await stage.store(ledger="k.db").rescue()

    report = await stage.store(ledger="k.db").rescue()

    assert {"k.db.rescue"}.isdisjoint(file.name[:11] for file in stage.folder.iterdir())
    assert report.aside == path.with_name("k.db.damaged-1")
    async with stage.store(ledger="k.db") as store:
        assert [stage.plaintext] == [memory.value for memory in await store.recall_all()]


def stopped(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9])
async def test_l03_truncated_or_zero_file(stage, share):
    """A clear error and never a new empty ledger; the rescue saves what is left of it."""
    async with stage.relay() as relay:
        path, memories = await written(stage, relay)
        whole = path.read_bytes()
        path.write_bytes(whole[: int(len(whole) * share)])
        cut = path.read_bytes()
        with pytest.raises(LedgerCorrupt, match="doctor --rescue"):
            await read_all(stage.store(relay, ledger="k.db"))
        if share == 0.0:
            assert path.read_bytes() == cut

        if share == 0.9:  # what is left says whose it is
            with pytest.raises(WrongKeyError):
                await stage.store(ledger="k.db", signer=stage.stranger).rescue()
            assert not list(path.parent.glob("k.db.*d*"))
        report = await stage.store(ledger="k.db").rescue()
        assert report.aside.stat().st_size >= len(cut)
        assert report.unreadable > 0
        assert sum(report.counts.values()) > (100 if share == 0.9 else -1)
        async with stage.store(relay, ledger="k.db") as store:
            assert (await stage.sync(store, full=True)).in_step
            sent = [memory for memory in memories if memory.key.startswith("k")]
            assert [await store.recall(memory.key) for memory in sent] == sent


WRITER = """
import asyncio, json, sys
from sense_memory import LocalSigner, MemoryStore

async def main(nsec, ledger, name, count):
    async with MemoryStore(LocalSigner.from_nsec(nsec), ledger=ledger, background=False) as store:
        print("ready", flush=True)
        for number in range(count):
            if number % 10 == 0:
                sys.stdin.readline()
            await store.remember("shared", f"zanzibar {name} {number}")
            await store.remember(f"{name}{number}", f"zanzibar {number}")
            if number % 10 == 9:
                print("written", flush=True)
        print(json.dumps(store.integrity()))

asyncio.run(main(**json.loads(sys.stdin.readline())))
"""


async def test_l05_two_processes_write(stage, forks):
    """Each writes 100 memories of its own and 100 versions of one they share, at the same time.

    They begin each ten together, because one that is quicker would leave the other no gap to write in.
    """
    async with stage.store(ledger="k.db"):
        pass
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    processes = [await asyncio.create_subprocess_exec(forks.python, "-c", WRITER, **pipes) for _ in range(2)]
    async with asyncio.timeout(30 * SECOND):
        for name, process in zip("ab", processes, strict=True):
            path = str(stage.folder / "k.db")
            task = {"nsec": stage.signer.export_nsec(), "ledger": path, "name": name, "count": 100}
            process.stdin.write(json.dumps(task).encode() + b"\n")
            assert await process.stdout.readline() == b"ready\n"
        for _ in range(10):
            for process in processes:
                process.stdin.write(b"go\n")
            for process in processes:
                assert await process.stdout.readline() == b"written\n"
        answers = await asyncio.gather(*(process.communicate() for process in processes))
    assert [out for out, _ in answers] == [b"[]\n", b"[]\n"]
    assert [process.returncode for process in processes] == [0, 0]

    async with stage.store(ledger="k.db") as store:
        assert {memory.key for memory in await store.recall_all()} == {
            "shared", *(f"{name}{number}" for name in "ab" for number in range(100))
        }  # fmt: skip
        history = await store.history("shared")
        assert sorted(version.value for version in history) == sorted(
            f"{stage.plaintext} {name} {number}" for name in "ab" for number in range(100)
        )
        times = [stored.event().created_at for stored in ledger_of(store).versions("sense-memory/shared")]
        assert times == sorted(times, reverse=True)
        writers = [version.value.split()[1] for version in history]
        assert sum(one != other for one, other in pairwise(writers)) >= 9, "they wrote in turns at least"
        assert store.integrity() == []


class MoodySigner:
    """Fails at the n-th thing that it is asked for."""

    def __init__(self, signer, fails_at) -> None:
        self._signer, self.left = signer, fails_at
        self.public_key = signer.public_key

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise BadKey("not now")

    async def sign(self, unsigned):
        self._count()
        return await self._signer.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        self._count()
        return await self._signer.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        self._count()
        return await self._signer.decrypt(payload, author)


async def prune(store, stage):
    """Some memories have faded meanwhile; the clock is set back for those that come after."""
    stage.clock.advance(60 * 86_400)
    try:
        await store.persona_prune()
    finally:
        stage.clock.advance(-60 * 86_400)


CALLS = {
    "remember": lambda store, stage: store.remember("k", stage.plaintext),
    "remember_many": lambda store, stage: store.remember_many([("k", "1"), ("l", "2")]),
    "recall": lambda store, stage: store.recall("there"),
    "recall_all": lambda store, stage: store.recall_all(),
    "forget": lambda store, stage: store.forget("there"),
    "refresh": lambda store, stage: store.refresh("there"),
    "history": lambda store, stage: store.history("there"),
    "as_of": lambda store, stage: store.as_of(stage.clock()),
    "undo": lambda store, stage: store.undo("there"),
    "journal": lambda store, stage: store.journal(stage.plaintext),
    "recent": lambda store, stage: store.recent(),
    "drafts": lambda store, stage: store.drafts(),
    "publish_draft": lambda store, stage: store.publish_draft(1),
    "sync": lambda store, stage: store.sync(),
    "flush": lambda store, stage: store.flush(),
    "import_": lambda store, stage: store.import_(stage.folder / "export.jsonl"),
    "forget_entry": lambda store, stage: forget_entry(store),
    "watch": lambda store, stage: watched(store),
    "holdings": lambda store, stage: store.relays.holdings(),
    "persona_remember": lambda store, stage: store.persona_remember(*FACT, "there", stage.plaintext),
    "persona_remember, linked": lambda store, stage: store.persona_remember(*FACT, "k", "new", [], ["there"]),
    "persona_remember, superseding": lambda store, stage: store.persona_remember(
        *FACT, "k", "Lisa lives in Rome"
    ),
    "persona_recall": lambda store, stage: store.persona_recall(*FACT, "there"),
    "persona_recall, all": lambda store, stage: store.persona_recall(include_forgotten=True),
    "persona_forget": lambda store, stage: store.persona_forget(*FACT, "there"),
    "persona_connect": lambda store, stage: store.persona_connect("there", "other"),
    "persona_disconnect": lambda store, stage: store.persona_disconnect("other", "third"),
    "persona_dismiss": lambda store, stage: store.palace.reconcile("there", "other"),
    "persona_contradict": lambda store, stage: store.persona_contradict("there", "other"),
    "persona_domains": lambda store, stage: store.persona_domains(),
    "persona_facets": lambda store, stage: store.persona_facets("people"),
    "persona_stats": lambda store, stage: store.persona_stats(),
    "persona_search": lambda store, stage: store.persona_search("there"),
    "persona_compress": lambda store, stage: store.persona_compress(),
    "persona_introspect": lambda store, stage: store.persona_introspect(),
    "persona_prune": prune,
    "persona_as_of": lambda store, stage: store.persona_as_of(stage.clock()),
    "undo, persona": lambda store, stage: store.undo("people/facts/there"),
}


FACT = ("people", "facts")
TOGETHER = {  # events of one transaction
    CALLS["remember_many"]: 2,
    CALLS["forget"]: 2,
    CALLS["persona_remember, linked"]: 2,
    CALLS["persona_remember, superseding"]: 2,
    CALLS["persona_forget"]: 2,
    CALLS["persona_connect"]: 2,
    CALLS["persona_disconnect"]: 2,
    CALLS["persona_dismiss"]: 2,
    CALLS["persona_prune"]: 3,
}


async def furnish(store, stage):
    """A memory twice written, an entry, a draft; a palace of one twice written, two linked, one to contradict."""
    await store.remember("there", f"{stage.plaintext} one")
    await store.remember("there", f"{stage.plaintext} two")
    await store.journal(stage.plaintext)
    await store.persona_remember(*FACT, "there", "walks to work")
    await store.persona_remember(*FACT, "there", "takes the train")
    await store.persona_remember(*FACT, "third", stage.plaintext)
    await store.persona_remember(*FACT, "other", "Lisa lives in Oslo", [], ["third"])
    head = ledger_of(store).head("sense-memory/there")
    ledger_of(store).drafts.add([(head.slot, head.event().content)], stage.clock())


MADE = {}  # what `furnished` made for the first call, by whether it is synced


async def furnished(stage, relay, *, is_synced):
    """The ledger `furnished.db`, which knows the relay and may be in step with it, and another's `export.jsonl`."""
    ledger, export = stage.folder / "furnished.db", stage.folder / "export.jsonl"
    if is_synced not in MADE:
        async with stage.store(ledger="export.db") as store:
            await store.remember("imported", stage.plaintext)
            store.export(export)
        async with stage.store(relay, ledger="furnished.db") as store:
            await furnish(store, stage)
            if is_synced:
                await store.sync()
        MADE[is_synced] = relay.url, ledger.read_bytes(), export.read_bytes(), await stage.stored(relay.url)
        return
    url, content, lines, events = MADE[is_synced]
    ledger.write_bytes(content)
    export.write_bytes(lines)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        connection.execute("UPDATE relays SET url = ? WHERE url = ?", (relay.url, url))
    await stage.put(relay.url, *events)


async def watched(store):
    """A watch that sees the store's own writing, and is told nothing of it."""
    watch = store.watch()
    try:
        await store.remember("seen", "v")
    finally:
        await watch.aclose()


async def forget_entry(store):
    entry, *_ = await store.recent()
    await store.journal.forget(entry.event_id)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_l06_no_open_transaction_is_left(stage, call):
    """Every public method, its signer failing at each step in turn: nothing half written, nothing left open."""
    async with stage.relay() as relay:
        await furnished(stage, relay, is_synced=False)
        await stage.put(relay.url, await stage.event("elsewhere", at=-60))
        for step in range(1, 40):
            shutil.copy(stage.folder / "furnished.db", stage.folder / f"{step}.db")
            signer = MoodySigner(stage.signer, step)
            async with stage.store(relay, ledger=f"{step}.db", signer=signer, snapshot=False) as store:
                before = sorted(ledger_of(store).bodies())
                assert len(before) == 8
                try:
                    await call(store, stage)
                    failed = False
                except SenseMemoryError:
                    failed = True
                assert not database_of(ledger_of(store)).in_transaction
                assert store.integrity() == []
                signer.left = 0
                if failed and call is not CALLS["sync"]:
                    assert set(before) <= set(ledger_of(store).bodies())
                await store.remember("after", stage.plaintext)  # it goes on as if nothing had happened
            if not failed:
                break
        assert not failed


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_l06_a_statement_that_fails_is_rolled_back_with_all_before_it(stage, call, monkeypatch):
    """The ledger fails at each of its statements in turn: what was to be written together is not there in part."""
    left = 0

    def failing(execute):
        def counted(db, sql, *values):
            nonlocal left
            if sql != "ROLLBACK":
                left -= 1
                if left == 0:
                    raise StorageFullError("the disk is full")
            return execute(db, sql, *values)

        return counted

    for method in ("execute", "execute_many"):
        monkeypatch.setattr(database.Database, method, failing(getattr(database.Database, method)))
    async with stage.relay() as relay:
        await furnished(stage, relay, is_synced=True)
        for step in range(1, 200):
            shutil.copy(stage.folder / "furnished.db", stage.folder / f"{step}.db")
            async with stage.store(relay, ledger=f"{step}.db", snapshot=False) as store:
                await store.recall_all()
                await store.persona_stats()
                before, left = set(ledger_of(store).bodies()), step
                with suppress(StorageFullError):
                    await call(store, stage)
                spent, left = left, 0
                assert not database_of(ledger_of(store)).in_transaction
                assert store.integrity() == []
                new = len(set(ledger_of(store).bodies()) - before)
                assert new in {0, TOGETHER.get(call, 1)}
                await store.remember("after", stage.plaintext)
            if spent > 0:
                return
    raise AssertionError("it never came to an end")


async def test_l06_a_call_that_is_refused_leaves_nothing_open(stage):
    refused = [
        (InvalidInput, lambda store: store.remember("a/b", "x")),
        (InvalidInput, lambda store: store.remember_many([("ok", "x"), ("a/b", "x")])),
        (InvalidInput, lambda store: store.remember_many(["ok", "x"])),
        (InvalidInput, lambda store: store.recent(0)),
        (InvalidInput, lambda store: store.journal("")),
        (InvalidInput, lambda store: store.publish_draft(7)),
        (InvalidInput, lambda store: store.journal.forget("0" * 64)),
        (InvalidInput, lambda store: store.import_(stage.folder / "missing.jsonl")),
    ]
    async with stage.store(ledger="k.db") as store:
        for error, call in refused:
            with pytest.raises(error):
                await call(store)
            assert not database_of(ledger_of(store)).in_transaction
        with pytest.raises(InvalidInput):
            store.discard_draft(7)
        assert not database_of(ledger_of(store)).in_transaction
        assert store.status().counts["events"] == 0
    for _, call in refused:
        with pytest.raises((StoreClosed, InvalidInput)):
            await call(store)


async def test_l07_old_and_newer_schema(stage, monkeypatch):
    """An old file is migrated after a copy of it was made; one of the future is not touched."""
    path = stage.folder / "k.db"
    with monkeypatch.context() as past:
        past.setattr(database, "MIGRATIONS", MIGRATIONS[:1])
        past.setattr(database, "VERSION", 1)
        owner = database.Database(path, stage.signer.public_key)
        event = await stage.event("k", "old")
        columns = (bytes.fromhex(event["id"]), "sense-memory/k", 30078, event["created_at"], 0, 0)
        body = json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()
        with owner.transaction():
            owner.execute(
                "INSERT INTO events (id, slot, kind, created_at, role, quarantined, body) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)", *columns, body,
            )  # fmt: skip
            owner.execute("INSERT INTO slots VALUES ('sense-memory/k', ?, 1)", event["created_at"])
        owner.close()

    async with stage.store(ledger="k.db") as store:
        assert (await store.recall("k")).event_id == event["id"]
        assert await store.drafts() == []
        assert store.integrity() == []
    copy = stage.folder / "k.db.schema-1"
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT body FROM events").fetchall() == [(body,)]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        connection.execute("PRAGMA user_version = 99")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    before = path.read_bytes()
    with pytest.raises(LedgerTooNew, match="not touched"):
        await stage.store(ledger="k.db").__aenter__()
    with pytest.raises(LedgerTooNew):
        await stage.store(ledger="k.db").rescue()
    assert path.read_bytes() == before


async def test_a_lying_signer_leaves_nothing_behind(stage):
    """It signs something else than it was given."""

    class Liar(MoodySigner):
        async def sign(self, unsigned):
            return await self._signer.sign(replace(unsigned, content="other"))

    async with stage.store(ledger="k.db", signer=Liar(stage.signer, 0)) as store:
        with pytest.raises(InvalidEvent):
            await store.remember("k", stage.plaintext)
        assert store.status().counts["events"] == 0
        assert not database_of(ledger_of(store)).in_transaction
