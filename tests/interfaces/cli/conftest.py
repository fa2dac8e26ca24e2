"""The command line's stage: a data folder that knows nothing of the machine, an agent, and relays in threads."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import typer
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from typer.testing import CliRunner
from websockets.asyncio.server import serve

from relays.faults import FaultyRelay
from sense_memory import LocalSigner, MemoryStore
from sense_memory.config import settings
from sense_memory.config.key_file import write_secret
from sense_memory.interfaces.cli import app
from sense_memory.nostr import nip49
from sense_memory.nostr.keys import parse_secret
from sense_memory.relay.server.server import EmbeddedRelay
from tests.time_unit import SECOND


NSEC = "nsec1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqstywftw"
HEX = "01" * 32  # the same key
_OURS = (
    *("SENSE_MEMORY_AGENT", "SENSE_MEMORY_KEY_FILE", "SENSE_MEMORY_RELAYS", "NOSTR_NSEC"),
    *("SENSE_MEMORY_EMBEDDER", "SENSE_MEMORY_EMBEDDER_KEY", "SENSE_MEMORY_SHARE_EMBEDDINGS"),
    "SENSE_MEMORY_CONTRADICTIONS",
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in (*_OURS, "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("SENSE_MEMORY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(settings, "_warned", set())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="session", autouse=True)
def _built_once():
    """Of one program typer builds all commands anew with every run, which takes longer than most runs."""
    with pytest.MonkeyPatch.context() as patch:
        build = functools.cache(typer.main.get_command)
        patch.setattr(typer.main, "get_command", build)
        patch.setattr(typer.testing, "_get_command", build)
        yield


class Cli:
    """Runs the command line in this process; `cli.json` parses what `--json` printed."""

    def __call__(self, *args, stdin=None, code=0):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"exit code {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return result

    def json(self, *args, stdin=None, code=0):
        return json.loads(self("--json", *args, stdin=stdin, code=code).stdout)


@pytest.fixture
def cli(home):
    return Cli()


@pytest.fixture
def whole_seconds(monkeypatch):
    """Stores of this process have a clock that stands still for a second: none waits until an edit's own has come."""
    monkeypatch.setitem(MemoryStore.__init__.__kwdefaults__, "clock", lambda: float(math.ceil(time.time())))


@pytest.fixture
def agent(cli):
    """The command line of an agent that has a key, always the same one."""
    write_secret(Path(os.environ["SENSE_MEMORY_HOME"]) / "keys" / "default.key", parse_secret(HEX))
    return cli


@pytest.fixture
def cheap(monkeypatch):
    """Encrypted keys in this process, and in this one only, without the work of scrypt, which has tests of its own."""
    monkeypatch.setattr(nip49, "Scrypt", lambda *, salt, length, n, r, p: Scrypt(salt, length, 2, r, p))


@pytest.fixture
def process(home, forks):
    """Runs `python -m sense_memory …` as a process of its own."""
    return lambda *args, stdin=b"": forks("-m", "sense_memory", *args, stdin=stdin)


@pytest.fixture
def terminal(home, forks, monkeypatch):
    """Runs `python -m sense_memory …` with a terminal as its stdout, and returns what that shows."""
    monkeypatch.setenv("TERM", "xterm-256color")

    def run(*args, columns=80):
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            code, shown = forks.on_terminal("-m", "sense_memory", *args, is_all_there=False)
        assert code == 0
        return shown

    return run


# ── Relays ──────────────────────────────────────────────────────────────────────────────


@contextmanager
def in_background(context):
    """An async context manager, open in the loop of a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(call):
        return asyncio.run_coroutine_threadsafe(call, loop).result(10 * SECOND)

    try:
        yield wait(context.__aenter__())
        wait(context.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10 * SECOND)
        loop.close()


@pytest.fixture
def background():
    """Opens async context managers in threads until the test ends."""
    with ExitStack() as stack:
        yield lambda context: stack.enter_context(in_background(context))


@pytest.fixture
def start_relay(background):
    """Starts an embedded relay; returns its URL."""
    return lambda **options: background(EmbeddedRelay(**options)).url


@pytest.fixture
def relay(start_relay):
    return start_relay()


@asynccontextmanager
async def _faulty(faults):
    async with EmbeddedRelay() as honest, FaultyRelay(honest.url, *faults) as liar:
        yield liar.url


@pytest.fixture
def faulty_relay(background):
    """Starts a relay that lies in some ways; returns its URL."""
    return lambda *faults: background(_faulty(faults))


async def _refuses(connection):
    """Shows an empty world and takes nothing."""
    async for message in connection:
        kind, first, *_ = json.loads(message)
        if kind == "REQ":
            await connection.send(json.dumps(["EOSE", first]))
        elif kind == "EVENT":
            await connection.send(json.dumps(["OK", first["id"], False, "blocked: \x1b[31mnot here"]))


async def _silent(connection):
    """Reads and never answers."""
    async for _ in connection:
        pass


@asynccontextmanager
async def _scripted(script):
    async with serve(script, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def refusing_relay(background):
    return background(_scripted(_refuses))


@pytest.fixture
def silent_relay(background):
    return background(_scripted(_silent))


@pytest.fixture
def dead_relay():
    """The URL of a relay that is not running."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"ws://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def nsec():
    return NSEC


@pytest.fixture
def secrets():
    """Every form of the agent's key that must never be shown."""
    return NSEC, HEX, HEX.upper(), bytes.fromhex(HEX).decode("latin-1")


# ── The palace ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def long_ago(agent):
    """Writes palace memories as the agent did so many days ago: pairs of days and what to do with a store."""

    return lambda *steps: write_long_ago(ledger_at(settings.Settings.load().home), steps)


def ledger_at(home):
    return settings.ledger_path(home, LocalSigner.from_hex(HEX).public_key)


def write_long_ago(ledger, steps):
    now, clock = time.time(), [0.0]

    async def run():
        options = {"ledger": ledger, "background": False, "clock": lambda: clock[0]}
        async with MemoryStore(LocalSigner.from_hex(HEX), **options) as store:
            for days, step in steps:
                clock[0] = now - days * 86_400
                await step(store)

    asyncio.run(run())


def kept(path, value="text", *themes, **options):
    """A step of `long_ago`: a memory is remembered."""
    return lambda store: store.persona_remember(*path.split("/"), value, themes, **options)


@pytest.fixture
def remembers():
    return kept


@pytest.fixture(scope="session")
def palace_home(tmp_path_factory):
    """The home of `palace`, without its key: each test gets a copy."""
    home = tmp_path_factory.mktemp("palace")
    steps = (
        (400, kept("world/facts/old-news", "The fair was cancelled.", halflife_days=20)),
        (120, kept("world/facts/tram", "Tram 28 runs every ten minutes.", "lisbon")),
        (60, kept("people/facts/lisa-home", "Lisa lives in Berlin.", "lisa", "home")),
        (25, kept("projects/decisions/voice", "We chose Orpheus over Kokoro.", "voice", "tts")),
        (20, kept("projects/facts/voxrelay", "VoxRelay has a synthetic voice.", "voice", "tts")),
        (5, kept("people/facts/lisa", "artist", "art", source="user")),
        (3, kept("people/facts/lisa", "artist, teaches workshops", "art", "teaching")),
        (2, kept("people/emotions/studio", "The studio felt like home.", "art")),
        (1, lambda store: store.persona_connect("lisa", "studio")),
    )
    write_long_ago(ledger_at(home), steps)
    return home


@pytest.fixture
def palace(agent, palace_home, home):
    """An agent with memories in every state: one superseded, two connected, one recalled."""
    shutil.copytree(palace_home, home, dirs_exist_ok=True)
    return agent


@pytest.fixture
def terminal_with_keys(home, forks):
    """Runs `python -m sense_memory …` on a terminal on which something is typed; returns exit code and what it shows."""
    return lambda keys, *args: forks.on_terminal("-m", "sense_memory", *args, keys=keys)


@pytest.fixture
def started(forks):
    """Runs a command as a process with pipes, which is killed in the end if it has not ended."""

    @contextmanager
    def run(*arguments):
        with subprocess.Popen(
            [forks.program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return run
