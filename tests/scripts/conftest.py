"""The scripts' stage: a data folder with a key, relays in the test's own loop, and scripts as processes."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.config.key_file import write_secret
from sense_memory.nostr.keys import Secret
from tests.time_unit import SECOND


SCRIPTS = Path(__file__).parents[2] / "scripts"


@dataclass
class Done:
    """What a process left behind."""

    code: int
    out: str
    err: str


class Agent:
    """An agent of this machine, and what its owner runs."""

    def __init__(self, home: Path, secret: Secret, forks) -> None:
        self.home, self.signer, self._forks = home, LocalSigner(secret), forks
        self.nsec = secret.nsec()

    def store(self, *relays, **options) -> MemoryStore:
        """A new device of the key."""
        return MemoryStore(self.signer, relays, ledger=":memory:", background=False, **options)

    async def run(self, script, *arguments, stdin="") -> Done:
        """Run a script as a process of its own, outside its folder; what it shows never holds the key."""
        done = await asyncio.to_thread(
            self._forks, SCRIPTS / script, *arguments, stdin=stdin.encode(), folder=self.home
        )
        return self._checked(done.code, done.stdout, done.stderr)

    async def start(self, script, *arguments) -> Done:
        """The same in an interpreter of its own, so that it imports what it needs itself."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", SCRIPTS / script, *arguments),
            cwd=self.home,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(30 * SECOND):
            out, err = await process.communicate()
        return self._checked(process.returncode, out, err)

    def _checked(self, code, out, err) -> Done:
        assert self.nsec.encode() not in out + err
        return Done(code, out.decode(), err.decode())


@pytest.fixture
def agent(tmp_path, monkeypatch, forks):
    for name in ("NOSTR_NSEC", "SENSE_MEMORY_KEY_FILE", "SENSE_MEMORY_RELAYS", "SENSE_MEMORY_AGENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    secret = Secret.generate()
    write_secret(tmp_path / "keys" / "default.key", secret)
    return Agent(tmp_path, secret, forks)


@pytest.fixture
def relays():
    """Opens so many relays; gives their URLs."""

    @asynccontextmanager
    async def relays(count):
        async with EmbeddedRelay() as one:
            if count == 1:
                yield (one.url,)
                return
            async with relays(count - 1) as others:
                yield (one.url, *others)

    return relays
