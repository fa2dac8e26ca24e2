"""The process that gets killed: it plays a scenario and ends itself with SIGKILL at the N-th step.

A step is a moment at which a crash could matter: before and after a commit, after a dial, before and after a
message. A step that leaves behind what the step before it left counts twice, and no more: what is written and not
committed, received and not kept, a checkpoint. Nothing in the package knows of steps; this script wraps the functions
at its edges. The order is its argument, as JSON. What the scenario was told is done goes to a log file, line by line,
as it outlives the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

from sense_memory import LocalSigner, MemoryStore
from sense_memory.ledger import Ledger, database
from sense_memory.ledger import database as pages
from sense_memory.ledger.database import Database
from sense_memory.ledger.outbox import Outbox
from sense_memory.ledger.relays import RelayRecords
from sense_memory.memories import backup
from sense_memory.records import reader
from sense_memory.relay.client import websocket
from sense_memory.relay.client.websocket import RelaySocket


SAME = ("written", "received", "checkpoint")
# Fewer memories than really, which take seconds to write and to check after each death.
TOLD_EACH = 100  # lines of an export, after which it tells of its progress
NEW_COUNT = 20  # memories that are new since a snapshot, when another is due


class Steps:
    """Counts steps, and ends the process at one of them.

    Args:
        last: the step to die at, from 1; 0 survives.
        log: where to say so, and what was done.
    """

    def __init__(self, last: int, log: str) -> None:
        self.last, self.taken = last, 0
        self._times: Counter[str] = Counter()
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, name: str) -> None:
        self._times[name] += 1
        if name.endswith(SAME) and self._times[name] > 2:
            return
        self.taken += 1
        if self.taken == self.last:
            self.say(killed=name)
            os.kill(os.getpid(), signal.SIGKILL)

    def say(self, **what: object) -> None:
        os.write(self._log, json.dumps(what).encode() + b"\n")


# ── Where the steps are ─────────────────────────────────────────────────────────────────


def wrap_transactions(step: Steps) -> None:
    """`… written` lies before COMMIT, `… committed` after it; the names say whose transaction it is."""
    begin, whose = Database.transaction, ["ledger"]

    @contextmanager
    def transaction(db):
        name = whose[-1]
        with begin(db):
            yield
            step(f"{name} written")
        step(f"{name} committed")

    Database.transaction = transaction
    for owner, method, name in (
        (Ledger, "append_versions", "event"),
        (Ledger, "file_events", "page"),
        (Outbox, "record_verdicts", "OK"),
        (RelayRecords, "record_pull", "cursor"),
    ):
        setattr(owner, method, named(getattr(owner, method), name, whose))
    fold = Database.checkpoint

    def checkpoint(db):
        fold(db)
        step("checkpoint")

    Database.checkpoint = checkpoint


def named(call, name, whose):
    def wrapper(*args, **options):
        whose.append(name)
        try:
            return call(*args, **options)
        finally:
            whose.pop()

    return wrapper


def wrap_sockets(step: Steps, *answers: str) -> None:
    """After the dial, after each EVENT of ours, and after each frame of these kinds.

    The events of a page are no steps: they are not kept before the page is.
    """
    dial, put, take = websocket.open_socket, RelaySocket.send_text, RelaySocket.receive

    async def open_socket(*args):
        found = await dial(*args)
        step("connected")
        return found

    async def send(socket, text, seconds):
        await put(socket, text, seconds)
        if text.startswith('["EVENT"'):
            step("EVENT sent")

    async def receive(socket):
        data = await take(socket)
        kind = json.loads(data)[0]
        if kind in answers:
            step(f"{kind} received")
        return data

    websocket.open_socket, RelaySocket.send_text, RelaySocket.receive = open_socket, send, receive


SETTINGS = "trusted_schema|foreign_keys|synchronous|secure_delete|wal_autocheckpoint|mmap_size|temp_store"
CHANGES_NO_FILE = re.compile(
    rf"SELECT |CREATE TEMP |PRAGMA ({SETTINGS}|page_size|application_id$|user_version$)"
).match


def wrap_statements(step: Steps) -> None:
    """Before every SQL statement of the ledger that may change a file, and around its making."""
    connect, link = sqlite3.connect, os.link

    def traced(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(lambda sql: CHANGES_NO_FILE(sql) or step("statement"))
        return connection

    def linked(*args, **options):
        step("to be linked")
        link(*args, **options)
        step("linked")

    sqlite3.connect, os.link = traced, linked


def wrap_files(step: Steps) -> None:
    """Around what makes a file appear under its name."""
    flush, replace = os.fsync, Path.replace

    def fsync(descriptor):
        flush(descriptor)
        step("fsync")

    def moved(path, target):
        step("to be moved")
        found = replace(path, target)
        step("moved")
        return found

    os.fsync, Path.replace = fsync, moved


# ── Scenarios ───────────────────────────────────────────────────────────────────────────


def store_of(order) -> MemoryStore:
    return MemoryStore(
        LocalSigner.from_hex(order["key"]),
        order.get("relays", ()),
        ledger=order["ledger"],
        background=False,
        clock=lambda: order["now"],
    )


async def publish(order, step: Steps) -> None:
    """Two memories and a journal entry, sent; then one of them forgotten and one edited, sent."""
    wrap_transactions(step)
    wrap_sockets(step, "OK")
    async with store_of(order) as store:
        for key in ("a", "b"):
            step.say(remember=key, id=await store.remember(key, f"{key} one"))
        step.say(journal="dear", id=await store.journal("dear"))
        step.say(synced=(await store.sync()).in_step)
        step.say(forget="b", id=await store.forget("b"))
        step.say(remember="a", id=await store.remember("a", "a two"))
        step.say(synced=(await store.sync()).in_step)


async def pull(order, step: Steps) -> None:
    """A fresh device that already wrote something brings everything in, page by page."""
    wrap_transactions(step)
    wrap_sockets(step, "EOSE")
    async with store_of(order) as store:
        step.say(remember=order["mine"], id=await store.remember(order["mine"], "mine"))
        step.say(synced=(await store.sync()).in_step)


async def restore(order, step: Steps) -> None:
    """A fresh device brings everything in, over more than one connection."""
    wrap_transactions(step)
    async with store_of(order) as store:
        step.say(synced=(await store.sync()).in_step)


async def heal(order, step: Steps) -> None:
    """One sync, with a relay that has lost what it had accepted."""
    wrap_transactions(step)
    wrap_sockets(step, "EOSE", "NEG-MSG", "OK")
    async with store_of(order) as store:
        step.say(synced=(await store.sync()).in_step)


async def export(order, step: Steps) -> None:
    backup.APPLY_BATCH_COUNT = TOLD_EACH
    wrap_files(step)
    async with store_of(order) as store:
        step.say(count=store.export(order["to"], overwrite=True, progress=lambda _: step("progress")))


async def old(order, step: Steps) -> None:
    """A ledger of the first schema, with the memory of one that is written now; no steps."""
    now = {**order, "ledger": f"{order['ledger']}.now"}
    async with store_of(now) as store:
        step.say(id=await store.remember("old", "from before"))
    database.MIGRATIONS, database.VERSION = database.MIGRATIONS[:1], 1
    db = Database(order["ledger"], store.public_key)
    db.execute("ATTACH ? AS now", now["ledger"])
    for (table,) in db.rows("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name <> 'meta'"):
        columns = ", ".join(name for (name,) in db.rows("SELECT name FROM pragma_table_info(?)", table))
        db.execute(f"INSERT OR REPLACE INTO main.{table} ({columns}) SELECT {columns} FROM now.{table}")
    db.execute("DETACH now")
    db.close()


async def migrate(order, step: Steps) -> None:
    """Open the ledger: migrate the one that is there, or make a new one."""
    wrap_statements(step)
    Ledger(order["ledger"], LocalSigner.from_hex(order["key"]).public_key).close()


async def small_pages(order, step: Steps) -> None:
    """A ledger as earlier versions made it, with pages of 4 KB; no steps."""
    database.PAGE_BYTES = pages.PAGE_BYTES = 4_096
    async with store_of(order) as store:
        await store.remember_many((f"k{number}", "from before " * 90) for number in range(20))


async def enlarge(order, step: Steps) -> None:
    """Open that ledger, which gives it larger pages; each four pages that are copied are a step too."""
    wrap_statements(step)
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, **options, factory=Paged)
    Paged.step = step
    Ledger(order["ledger"], LocalSigner.from_hex(order["key"]).public_key).close()


class Paged(sqlite3.Connection):
    """A connection whose backups stop after each four pages."""

    step: Steps

    def backup(self, target, **options):
        super().backup(target, pages=4, progress=lambda *_: self.step("page"), **options)


async def snapshot(order, step: Steps) -> None:
    """A ledger with a snapshot gets new memories, enough for another; then one goes."""
    reader.SNAPSHOT_NEW_COUNT = NEW_COUNT
    wrap_transactions(step)
    wrap_files(step)
    async with store_of(order) as store:
        await store.remember_many((f"k{number}", "new") for number in range(NEW_COUNT))
        step.say(remembered="k1", value="new")
    async with store_of(order) as store:
        await store.recall_all()
        await store.forget("k0")
        step.say(forgot="k0")
    step("closed")


async def index(order, step: Steps) -> None:
    """The first index of a ledger that has none, and how it is kept."""
    wrap_files(step)
    async with store_of(order) as store:
        step.say(count=await store.index(progress=lambda *_: step("read")))
    step("closed")


_ALL = (publish, pull, restore, heal, export, old, migrate, small_pages, enlarge, snapshot, index)
SCENARIOS = {call.__name__: call for call in _ALL}


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    step = Steps(order["step"], order["log"])
    asyncio.run(SCENARIOS[order["scenario"]](order, step))
    step.say(finished=step.taken)
