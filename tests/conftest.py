"""What every test may ask for: coroutine tests, a clock that only moves when told, and programs without their start."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from shutil import disk_usage

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tests.time_unit import SECOND
from tests.virtual_time import VirtualLoop


FORKS = Path(__file__).with_name("forks.py")

# Each process reads what another has compiled, also where the environment forbids to keep it, as images of containers do:
# to compile all tests takes three times as long as to collect them, and programs that tests start would compile as well.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ledgers are synced to disks, which is not what tests are about: they lie in memory where the system offers enough.
_MEMORY = Path("/dev/shm")
if _MEMORY.is_dir() and disk_usage(_MEMORY).free > 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# While tests are collected most of what there is stays: garbage is collected seldom.
gc.set_threshold(50_000, 20)

# A shell has what runs in the background ignore Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does.
settings.register_profile(
    "suite", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# No test asks the keyring of whoever runs it: this backend holds nothing and keeps nothing.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"


TESTS = Path(__file__).parent
# What takes long stands in files beside the folders: it comes first, and is not what all wait for in the end.
PLACES = sorted(
    {TESTS / path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")},
    key=lambda place: (place.is_dir(), place),
)


def _is_part_of_all(config) -> bool:
    """Whether this is one of the processes that share the whole suite."""
    return hasattr(config, "workerinput") and [Path(name).resolve() for name in config.args] == [TESTS]


def _take_turns(config) -> None:
    """Each process begins to collect elsewhere: what one has compiled the others read, and none compiles it again."""
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    begin = number * len(PLACES) // count
    config.args[:] = map(str, PLACES[begin:] + PLACES[:begin])


def pytest_collection_modifyitems(config, items):
    """The order that all processes agree on."""
    if len(config.args) == len(PLACES):
        items.sort(key=lambda item: PLACES.index(TESTS / item.path.relative_to(TESTS).parts[0]))


def pytest_collection_finish():
    """Modules and tests stay until the end: leave them out of each collection of garbage.

    What examples throw away goes while it is still in the processor's cache: after 50,000 objects it takes four times as long.
    """
    gc.freeze()
    gc.set_threshold(2_000, 20, 50)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what commands say now into tests/interfaces/cli/golden",
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "virtual_time: an hour takes as long as its work")
    if _is_part_of_all(config):
        _take_turns(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Of a test that passed, a process reports nothing but that: six messages a test keep all processes busy."""
    if not hasattr(item.config, "workerinput") or item.config.option.durations is not None:
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run `async def` tests, each in a loop of its own, bounded at 60 s; what is marked so in virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    if pyfuncitem.get_closest_marker("virtual_time") is not None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            if "clock" in pyfuncitem.funcargs:
                pyfuncitem.funcargs["clock"].elapsed = runner.get_loop().time
            runner.run(pyfuncitem.obj(**wanted))
        return True

    async def bounded() -> None:
        async with asyncio.timeout(60 * SECOND):
            await pyfuncitem.obj(**wanted)

    asyncio.run(bounded())
    return True


class FakeClock:
    """Seconds since 1970 that move only by `advance`; and in virtual time by those that passed."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.elapsed = lambda: 0.0

    def __call__(self) -> float:
        return self.now + self.elapsed()

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


# ── Programs ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Done:
    """What a process left behind."""

    code: int
    stdout: bytes
    stderr: bytes


# What stands for `sense-memory`, or for `python`: it hands itself over to a fork, passes on the signals that a program
# can hear, and ends as that does.
CALLER = """#!{python} -IS
import json, os, signal, socket, sys
order = {{"arguments": [*{first}, *sys.argv[1:]], "environment": dict(os.environ), "folder": os.getcwd()}}
passed_on = signal.SIGINT, signal.SIGTERM
signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
line = socket.socket(socket.AF_UNIX)
line.connect("{line}")
socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2])
answers = line.makefile()
fork = int(answers.readline())
for number in passed_on:
    signal.signal(number, lambda number, _: os.kill(fork, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
code = int(answers.readline())
if code < 0:
    if -code in passed_on:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class Forks:
    """Runs Python programs as processes that need not import anything first: some 50 ms each, and not 300.

    Whatever is about the start of an interpreter has to start its own.
    """

    def __init__(self, folder) -> None:
        self._streams = [folder / name for name in ("stdin", "stdout", "stderr")]
        self._place = tempfile.TemporaryDirectory(prefix="forks-")  # short enough for the name of a socket
        self._line = Path(self._place.name) / "line"
        # For those who start a program themselves, with pipes, or to end it by a signal.
        self.program = self._standing_for("sense-memory", "-m", "sense_memory")
        self.python = self._standing_for("python")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self._line))
        listening.listen()
        self._server = subprocess.Popen(
            [sys.executable, "-W", "error", FORKS, str(listening.fileno())],
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads do not outlive a fork
            start_new_session=True,
        )
        listening.close()

    def _standing_for(self, name, *arguments) -> str:
        path = Path(self._place.name) / name
        path.write_text(CALLER.format(python=sys.executable, line=self._line, first=list(arguments)))
        path.chmod(0o755)
        return str(path)

    def __call__(self, *arguments, stdin=b"", folder=None, streams=(), environment=None) -> Done:
        """Run what would follow `python`, in the environment of now or another; `streams` are others, by number."""
        for path, content in zip(self._streams, (stdin, b"", b""), strict=True):
            path.write_bytes(content)
        others = dict(streams)
        self._order(
            arguments, [others.get(at, path) for at, path in enumerate(self._streams)], folder, environment
        )
        code = self._answer()
        return Done(code, *(path.read_bytes() for path in self._streams[1:]))

    def in_shell(self, command, *arguments, folder=None) -> Done:
        """Run a line of bash; `sense-memory` in it is this environment's, played by a fork."""
        done = subprocess.run(
            ["bash", "-c", command, "bash", *arguments],
            cwd=folder,
            env={**os.environ, "PATH": f"{self._place.name}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30 * SECOND,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def on_terminal(self, *arguments, keys="", is_all_there=True) -> tuple[int, str]:
        """Run it with a terminal as its stdout, or as all three: the exit code, and what is shown there."""
        ours, theirs = pty.openpty()
        name, (*_, errors) = os.ttyname(theirs), self._streams
        errors.write_bytes(b"")
        os.write(ours, keys.encode())
        self._order(arguments, [name] * 3 if is_all_there else [os.devnull, name, errors])
        shown = b""
        while ours in self._ready(ours, self._server.stdout):
            shown += os.read(ours, 65_536)
        os.close(theirs)
        os.close(ours)
        return self._answer(), shown.decode().replace("\r\n", "\n")

    def _order(self, arguments, streams, folder=None, environment=None) -> None:
        order = {
            "arguments": list(map(str, arguments)),
            "environment": dict(environment or os.environ),
            "folder": str(folder or Path.cwd()),
            "streams": list(map(str, streams)),
        }
        self._server.stdin.write(json.dumps(order).encode() + b"\n")

    def _answer(self) -> int:
        self._ready(self._server.stdout)
        return int(self._server.stdout.readline())

    def _ready(self, *readers):
        ready, _, _ = select(readers, [], [], 30 * SECOND)
        if not ready:
            os.killpg(self._server.pid, signal.SIGKILL)
            raise AssertionError("a program did not end within 30 s")
        return ready

    def close(self) -> None:
        self._server.stdin.close()
        self._server.wait(5 * SECOND)
        with suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGKILL)  # what a test that failed has left running
        self._server.stdout.close()
        self._place.cleanup()


def read_until(terminal: int, wanted: bytes) -> bytes:
    """What a terminal shows until something is there; all that comes with it too."""
    shown = b""
    while wanted not in shown:
        ready, _, _ = select([terminal], [], [], 30 * SECOND)
        assert ready, f"{wanted!r} was never shown: {shown!r}"
        shown += os.read(terminal, 65_536)
    return shown


@pytest.fixture(scope="session")
def forks(tmp_path_factory):
    forks = Forks(tmp_path_factory.mktemp("forks"))
    yield forks
    forks.close()
