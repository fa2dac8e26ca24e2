"""SIGKILL while a file comes into being: an export, a new ledger, a migrated one, a snapshot."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing

from sense_memory import LocalSigner, MemoryStore
from sense_memory.ledger.database import VERSION
from sense_memory.limits import PAGE_BYTES
from tests.crash.victim import NEW_COUNT, TOLD_EACH
from tests.inside import ledger_of


NOW = 1_800_000_000
KEY = "17" * 32
SIGNER = LocalSigner.from_hex(KEY)
COUNT = TOLD_EACH + 10  # so that an export tells of its progress on the way


def store_at(path):
    return MemoryStore(SIGNER, ledger=path, background=False, clock=lambda: NOW)


def copies(folder):
    """Orders that give each run its own copy of the ledger `made.db`, and of its snapshot where it has one."""

    def order(step):
        for path in folder.glob("made.db*"):
            shutil.copy(path, folder / path.name.replace("made", str(step), 1))
        return {"key": KEY, "ledger": str(folder / f"{step}.db"), "now": NOW}

    return order


def version_of(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


async def test_a_killed_export_leaves_the_file_that_was_there_or_the_new_one_whole(kill, folder):
    ledger, target = folder / "a.db", folder / "export.jsonl"
    async with store_at(ledger) as store:
        await store.remember_many((f"k{number}", "v") for number in range(COUNT))
        bodies = set(ledger_of(store).bodies())
    ends, points = set(), set()

    def order(step):
        target.write_bytes(b"what was there\n")
        return {"key": KEY, "ledger": str(ledger), "now": NOW, "to": str(target)}

    async for death in kill.at_every_step("export", order):
        points.add(death.at)
        if death.at != "to be moved" and hasattr(os, "O_TMPFILE"):
            assert not list(folder.glob(".export-*"))
        lines = target.read_bytes().splitlines()
        ends.add(len(lines))
        assert lines == [b"what was there"] or set(lines) == bodies
        async with store_at(ledger) as store:
            assert store.integrity() == []
            assert store.export(folder / "again.jsonl", overwrite=True) == COUNT
        assert not list(folder.glob(".export-*"))
    assert ends == {1, COUNT}
    assert points >= {"progress", "fsync", "to be moved", "moved"}


async def test_a_killed_migration_leaves_the_old_ledger_or_the_new_one(kill, folder):
    versions = set()
    await kill.run("old", key=KEY, ledger=str(folder / "made.db"), now=NOW)
    assert version_of(folder / "made.db") == 1
    async for death in kill.at_every_step("migrate", copies(folder)):
        path = folder / f"{death.step}.db"
        versions.add(version_of(path))
        async with store_at(path) as store:
            assert store.integrity() == []
            assert (await store.recall("old")).value == "from before"
        assert version_of(path) == VERSION
        assert list(folder.glob(f".{path.name}.*")) == []
    assert versions == {1, VERSION}


async def test_a_ledger_that_is_killed_while_its_pages_grow_has_lost_nothing(kill, folder):
    sizes, points = set(), set()
    await kill.run("small_pages", key=KEY, ledger=str(folder / "made.db"), now=NOW)
    async for death in kill.at_every_step("enlarge", copies(folder)):
        path = folder / f"{death.step}.db"
        with closing(sqlite3.connect(path)) as connection:
            sizes.add(connection.execute("PRAGMA page_size").fetchone()[0])
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        async with store_at(path) as store:
            assert store.integrity() == []
            assert {memory.value for memory in await store.recall_all()} == {"from before " * 90}
            assert store.status().counts["heads"] == 20
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA page_size").fetchone()[0] == PAGE_BYTES
        assert list(folder.glob(f".{path.name}.*")) == []
        points.add(death.at)
    assert sizes == {4_096, PAGE_BYTES}
    assert points >= {"statement", "page"}


async def test_a_ledger_that_was_killed_while_it_was_made_is_made_by_the_next_start(kill, folder):
    """And what the dead one left beside it goes."""
    left = 0

    def order(step):
        return {"key": KEY, "ledger": str(folder / f"{step}.db"), "now": NOW}

    async for death in kill.at_every_step("migrate", order):
        path = folder / f"{death.step}.db"
        left += len(list(folder.glob(f".{path.name}.*")))
        assert not path.exists() or version_of(path) == VERSION
        async with store_at(path) as store:
            await store.remember("k", "v")
            assert store.integrity() == []
        assert list(folder.glob(f".{path.name}.*")) == []
    assert left


async def test_a_killed_snapshot_brings_nothing_back_and_hides_nothing(kill, folder, monkeypatch):
    """Closing a store writes a snapshot, forgetting removes it; the ledger is right whatever became of it."""
    ends = set()
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", NEW_COUNT)
    async with store_at(folder / "made.db") as store:
        await store.remember_many((f"k{number}", "v") for number in range(NEW_COUNT))
    assert (folder / "made.db.snapshot").exists()
    async for death in kill.at_every_step("snapshot", copies(folder)):
        path = folder / f"{death.step}.db"
        told = ["v", *death.was_told("value")]
        for _ in range(2):
            async with store_at(path) as store:
                assert store.integrity() == []
                found = {memory.key: memory.value for memory in await store.recall_all()}
            assert found["k1"] in {told[-1], "new"}
            assert set(found.values()) == {found["k1"]}
            assert "k0" in found or told[-1] == "new"
            assert "k0" not in found or not death.was_told("forgot")
        ends.add((folder / f"{death.step}.db.snapshot").exists())
        assert not list(folder.glob(f"{death.step}.db*.part"))
    assert True in ends


async def test_a_first_index_that_is_killed_loses_nothing_and_the_next_start_has_it(kill, folder):
    points, kept = set(), set()
    async with store_at(folder / "made.db") as store:
        await store.remember_many((f"k{number}", "an otter sleeps") for number in range(250))
    (folder / "made.db.snapshot").unlink(missing_ok=True)  # the first index brings one
    async for death in kill.at_every_step("index", copies(folder)):
        points.add(death.at)
        kept.add((folder / f"{death.step}.db.snapshot").exists())
        async with store_at(folder / f"{death.step}.db") as store:
            assert store.integrity() == []
            assert await store.index() == 250
            assert len(await store.search("otters", 1_000)) == 250
    assert points >= {"read", "fsync", "moved", "closed"}
    assert kept == {False, True}
