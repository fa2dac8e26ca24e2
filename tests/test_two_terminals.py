"""Two terminals, two devices of one agent, one relay: one of them is killed, and the other misses nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from contextlib import closing

from relays.proxy import Fault, FaultyRelay
from sense_memory import EmbeddedRelay
from tests.time_unit import SECOND


NSEC = "nsec1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqstywftw"
MANY = 8_000  # more than can be written before the kill
BATCH = 1_000


class OnEvent(Fault):
    """No lie: calls somebody when the n-th event comes by."""

    def __init__(self, number, call):
        super().__init__()
        self.left, self.call = number, call

    def from_client(self, frame, talk):
        if frame[0] == "EVENT":
            self.left -= 1
            if self.left == 0:
                self.call()
        yield frame


class Terminal:
    """A device: a data folder of its own, and real processes of the command line in it."""

    def __init__(self, home, relay, forks):
        foreign = ("NOSTR_NSEC", "SENSE_MEMORY_")
        self.home, self.forks = home, forks
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environment |= {"SENSE_MEMORY_HOME": str(home), "SENSE_MEMORY_RELAYS": relay, "NO_COLOR": "1"}

    async def start(self, *arguments):
        """A process that gets killed."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "sense_memory", *map(str, arguments)),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self.environment,
        )

    async def __call__(self, *arguments, stdin=""):
        done = await asyncio.to_thread(  # the relay is in this thread
            self.forks,
            *("-m", "sense_memory", *arguments),
            stdin=stdin.encode(),
            environment=self.environment,
        )
        assert done.code == 0, (arguments, done)
        return done.stdout.decode()

    async def held(self):
        """What this device would tell its user."""
        return {memory["key"]: memory["value"] for memory in json.loads(await self("--json", "list"))}

    def durable(self):
        """How many events its ledger holds, read from the file."""
        found = list(self.home.rglob("*.db"))
        if not found:
            return 0
        with closing(sqlite3.connect(f"file:{found[0]}?mode=ro", uri=True)) as ledger:
            try:
                return ledger.execute("SELECT count(*) FROM events").fetchone()[0]
            except sqlite3.OperationalError:  # it has no tables yet
                return 0


async def kill(process):
    """`kill -9`, while it was busy."""
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    assert process.returncode == -signal.SIGKILL


async def test_one_terminal_is_killed_twice_and_the_other_sees_all_that_was_durable(tmp_path, forks):
    many = tmp_path / "many.jsonl"
    many.write_text("".join(f'{{"key": "k{n}", "value": "value {n}"}}\n' for n in range(MANY)))
    reached = asyncio.Event()
    async with EmbeddedRelay() as relay, FaultyRelay(relay.url, OnEvent(600, reached.set)) as way:
        one, two = Terminal(tmp_path / "one", way.url, forks), Terminal(tmp_path / "two", relay.url, forks)
        for terminal in (one, two):
            await terminal("init", "--import", stdin=NSEC)

        process = await one.start("remember", "--many", many)
        async with asyncio.timeout(30 * SECOND):
            ended = asyncio.create_task(process.wait())
            while not one.durable():  # a file has no event to wait for
                done, _ = await asyncio.wait({ended}, timeout=0.01)
                assert not done, "it ended without having written anything"
        await kill(process)
        durable = one.durable()
        assert durable % BATCH == 0, "a batch is written whole or not at all"
        assert BATCH <= durable < MANY

        process = await one.start("sync")
        async with asyncio.timeout(30 * SECOND):
            await reached.wait()
        await kill(process)

        await two("sync")
        early = await two.held()
        assert 0 < len(early) < durable
        await two("remember", "k0", "edited in between")

        await one("sync")
        await two("sync")
        expected = {f"k{n}": f"value {n}" for n in range(durable)} | {"k0": "edited in between"}
        assert await one.held() == expected
        assert await two.held() == expected
        assert early.items() <= {**expected, "k0": "value 0"}.items()
