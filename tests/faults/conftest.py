"""The stage of the fault matrix: honest relays, liars, stores, and the postconditions that every row shares.

A row syncs through `stage.sync`, which asserts that nothing left the ledger, that honest relays finished
in step, and that the report speaks our words. After the test the logs, all at DEBUG, are searched.
Memories hold `PLAINTEXT` and whatever a liar says holds `WORDS`, so that either is found wherever it leaks.

A test marked `virtual_time` runs in a loop whose time passes only while nobody has anything to do, so an
hour takes as long as its work: real timeouts, no waiting.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import selectors
import socket
import termios
import time
import tracemalloc
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from fcntl import ioctl
from struct import unpack_from

import pytest
from websockets.asyncio.client import connect

from relays.faults import FaultyRelay
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore, Timeouts
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.keys import parse_secret
from sense_memory.relay import link
from tests.time_unit import SECOND


_silent = logging.getLogger(f"{__name__}.library")  # the stage's own sockets: their frames are no leak
_silent.setLevel(logging.CRITICAL)

HEX = "5ece7" * 12 + "beef"  # an unmistakable key
PLAINTEXT = "zanzibar"
WORDS = "quokka"
TCP_INFO = getattr(socket, "TCP_INFO", 0)  # Linux
# Of virtual seconds, which no load of the machine makes longer.
QUICK = Timeouts(open=1.0, idle=0.8, total=5.0, notice_settle=0.3, ok=0.8, send=2.0, sign=2.0, close=0.5)


class _Patience(selectors.DefaultSelector):
    """Waits for readiness; where that would take time, moves the loop's time instead.

    Everything of a test happens in one thread on the loopback interface, where what one side sends is there
    at the other's next look. So when nothing is ready nothing will be; a slow kernel gets a moment of grace,
    a longer one on a busy machine while it holds what was not delivered, and a thread that works a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now, self.threads = 0.0, 0
        self._end = time.monotonic() + 60 * SECOND

    def select(self, timeout=None):
        assert time.monotonic() < self._end, "a test in virtual time took a real minute"
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # only another thread can end this
            return super().select(5 * SECOND)
        ready = super().select(SECOND if self.threads else 0.02 * SECOND if self._is_late() else 0.0005)
        if not ready:
            self.now += timeout
        return ready

    def _is_late(self) -> bool:
        """Whether bytes of any socket may not have reached the other side, because others keep the kernel busy."""
        if os.getloadavg()[0] <= (os.cpu_count() or 1):
            return False
        flows = Counter()
        for descriptor in self.get_map():
            with suppress(OSError):  # no socket of that kind
                flows.update(undelivered(descriptor))
        return any(count > 0 for count in flows.values())


def undelivered(descriptor: int) -> dict[object, int]:
    """What a socket sent counts for it, and what it received against its other side: in sum, what is on the way.

    What is merely not acknowledged yet is not on the way. Where the kernel does not count bytes so, it is taken
    for that: a wait too many does no harm.
    """
    with socket.socket(fileno=os.dup(descriptor)) as same:
        if same.family != socket.AF_INET:
            return {}
        here, there = same.getsockname(), same.getpeername()
        counts = same.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 216) if TCP_INFO else b""
    if len(counts) < 216:
        return {here: any(ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))}
    received, sent, again = (unpack_from("Q", counts, at)[0] for at in (128, 200, 208))
    return {(here, there): sent - again, (there, here): -received}


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own, in seconds from 0."""

    def __init__(self) -> None:
        self._patience = _Patience()
        super().__init__(self._patience)

    def time(self) -> float:
        return self._patience.now

    def run_in_executor(self, *work):
        future = super().run_in_executor(*work)
        self._patience.threads += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, _) -> None:
        self._patience.threads -= 1

    async def passes(self, seconds: float) -> None:
        """Let everybody do what they do in so many seconds."""
        over = self.create_future()
        self.call_later(seconds, over.set_result, None)
        await over


class Clock:
    """Seconds since 1970: as told, and in virtual time those that passed."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.elapsed = lambda: 0.0

    def __call__(self) -> float:
        return self.now + self.elapsed()

    def advance(self, seconds: float) -> None:
        self.now += seconds


def pytest_configure(config):
    config.addinivalue_line("markers", "virtual_time: an hour takes as long as its work")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run what is marked `virtual_time` in a `VirtualLoop`, which the stage's clock follows."""
    if pyfuncitem.get_closest_marker("virtual_time") is None:
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        pyfuncitem.funcargs["clock"].elapsed = runner.get_loop().time
        runner.run(pyfuncitem.obj(**wanted))
    return True


def slices(text: str, length: int = 8) -> set[str]:
    return {text[start : start + length] for start in range(len(text) - length + 1)}


class Stage:
    """What a row plays on. Relays and stores run on the fake clock, and all belong to one key."""

    plaintext, words, quick, key_hex = PLAINTEXT, WORDS, QUICK, HEX

    def __init__(self, clock, folder) -> None:
        self.clock, self.folder = clock, folder
        self.signer = LocalSigner.from_hex(HEX)
        self.stranger = LocalSigner.generate()
        self.honest: set[str] = set()

    # ── Relays and stores ───────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def relay(self, **options):
        """An honest relay: every `sync` has to bring it in step."""
        async with EmbeddedRelay(clock=self.clock, **options) as relay:
            self.honest.add(relay.url)
            try:
                yield relay
            finally:
                self.honest.discard(relay.url)

    @asynccontextmanager
    async def liar(self, *faults, seed=7):
        """A faulty relay with an honest one behind it, at `.upstream`."""
        async with (
            EmbeddedRelay(clock=self.clock) as upstream,
            FaultyRelay(upstream.url, *faults, seed=seed) as liar,
        ):
            yield liar

    def store(self, *relays, ledger=":memory:", **options) -> MemoryStore:
        """A device of the key: `ledger` is a name in the test's folder."""
        urls = [relay if isinstance(relay, str) else relay.url for relay in relays]
        path = ledger if ledger == ":memory:" else self.folder / ledger
        signer = options.pop("signer", self.signer)
        options = {"background": False, "close_timeout": 0, "clock": self.clock, **options}
        return MemoryStore(signer, urls, ledger=path, **options)

    async def sync(self, store, *, full=False):
        """Sync a store and assert the common postconditions."""
        before = bodies(store)
        report = await store.sync(full=full)
        assert_unharmed(store, before)
        for line in report.relays:
            if line.url in self.honest:
                assert line.in_step, line
        assert WORDS not in repr(report)
        assert PLAINTEXT not in repr(report)
        return report

    @staticmethod
    async def until(happened, *, seconds=5) -> None:
        """Let the loop run until something is true; 5 s are too long, unless other processes have to do theirs."""
        async with asyncio.timeout(seconds * SECOND):
            while not happened():  # noqa: ASYNC110 - a ledger has no event to wait for
                await asyncio.sleep(0)

    @staticmethod
    @contextmanager
    def traced():
        """A call that says how many bytes more than now were in use at most, by the relays of the test as well.

        The peak of the process would not do: it is what some test before needed.
        """
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        try:
            yield lambda: tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()

    @staticmethod
    async def passes(seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.get_running_loop().passes(seconds)

    # ── Events, made and moved without the store ────────────────────────────────────────

    async def event(self, key, value="", *, at=0, signer=None, kind=30078, tags=None, inside=None):
        """A signed event as JSON: a flat memory at an address, unless told otherwise; `at` counts from now."""
        signer = signer or self.signer
        fields = {"type": "sense-memory:kv", "key": key, "value": f"{PLAINTEXT} {value}", "ts": 1}
        content = await signer.encrypt(json.dumps(fields | (inside or {})).encode(), self.signer.public_key)
        tags = ((("d", f"sense-memory/{key}"),)) if tags is None else tags
        signed = await signer.sign(Unsigned(int(self.clock()) + at, kind, tuple(tags), content))
        return json.loads(signed.body())

    async def put(self, url, *events):
        """Publish events to a relay, each of which it has to accept."""
        async with connect(url, compression=None, logger=_silent) as socket:
            for event in events:
                await socket.send(json.dumps(["EVENT", event]))
            for event in events:
                assert (await self._next(socket))[:3] == ["OK", event["id"], True]

    async def stored(self, url, **wanted):
        """What a relay holds, newest first."""
        async with connect(url, compression=None, logger=_silent) as socket:
            await socket.send(json.dumps(["REQ", "q", {"authors": [self.signer.public_key], **wanted}]))
            found = []
            while (frame := await self._next(socket))[0] == "EVENT":
                found.append(frame[2])
            assert frame == ["EOSE", "q"]
            return found

    async def _next(self, socket):
        async with asyncio.timeout(5 * SECOND):
            while (frame := json.loads(await socket.recv()))[0] == "AUTH":
                pass
            return frame


def bodies(store) -> set[bytes]:
    return set(store._ledger.bodies())


def assert_unharmed(store, before: set[bytes]) -> None:
    """Nothing that was in the ledger is gone or altered, but for memories that were forgotten."""
    ledger = store._ledger
    for event in map(json.loads, before - bodies(store)):
        tags = dict(tag[:2] for tag in event["tags"])
        forgotten = "SELECT until FROM deletions WHERE target = ?1 UNION ALL "
        forgotten += "SELECT created_at FROM events WHERE slot = ?1 AND role = 1"
        assert any(event["created_at"] <= until for (until,) in ledger._db.rows(forgotten, tags.get("d")))
    assert store.integrity() == []
    assert not ledger._db.in_transaction


def assert_no_secret(text: str, *, but: str = "") -> None:
    """No key, no part of a key, no memory and no relay's words, but for what may be there."""
    assert not {part for part in slices(HEX) if part in text.lower()}
    nsec = parse_secret(HEX).nsec()
    assert not {part for part in slices(nsec) if part in text}
    assert PLAINTEXT not in text
    assert but == WORDS or WORDS not in text


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture(autouse=True)
def _seldom_polls(request, monkeypatch):
    """Looking for other processes every two seconds is what an idle hour would mostly consist of."""
    if request.node.get_closest_marker("virtual_time"):
        monkeypatch.setattr(link, "POLL_SECONDS", 30.0)


@pytest.fixture
def stage(clock, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    yield Stage(clock, tmp_path)
    assert_no_secret(
        "\n".join(map(logging.Formatter("%(name)s %(message)s").format, caplog.get_records("call")))
    )


@pytest.fixture
def no_secret():
    return assert_no_secret
