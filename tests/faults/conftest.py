"""The stage of the fault matrix: honest relays, liars, stores, and the postconditions that every row shares.

A row syncs through `stage.sync`, which asserts that nothing left the ledger, that honest relays finished
in step, and that the report speaks our words. After the test the logs, all at DEBUG, are searched.
Memories hold `PLAINTEXT` and whatever a liar says holds `WORDS`, so that either is found wherever it leaks.

Tests of time are marked `virtual_time` (`tests.virtual_time`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import tracemalloc
from contextlib import asynccontextmanager, contextmanager

import pytest
from websockets.asyncio.client import connect

from relays.faults import FaultyRelay
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore, Timeouts
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.keys import parse_secret
from sense_memory.relay.sync import agenda
from tests.inside import database_of, ledger_of
from tests.time_unit import SECOND


_silent = logging.getLogger(f"{__name__}.library")  # the stage's own sockets: their frames are no leak
_silent.setLevel(logging.CRITICAL)

HEX = "5ece7" * 12 + "beef"  # an unmistakable key
PLAINTEXT = "zanzibar"
WORDS = "quokka"
# Of virtual seconds, which no load of the machine makes longer.
QUICK = Timeouts(open=1.0, idle=0.8, total=5.0, notice_settle=0.3, ok=0.8, send=2.0, sign=2.0, close=0.5)


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
                await asyncio.sleep(0.002)

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
    return set(ledger_of(store).bodies())


def assert_unharmed(store, before: set[bytes]) -> None:
    """Nothing that was in the ledger is gone or altered, but for memories that were forgotten."""
    ledger = ledger_of(store)
    for event in map(json.loads, before - bodies(store)):
        tags = dict(tag[:2] for tag in event["tags"])
        forgotten = "SELECT until FROM deletions WHERE target = ?1 UNION ALL "
        forgotten += "SELECT created_at FROM events WHERE slot = ?1 AND role = 1"
        assert any(
            event["created_at"] <= until for (until,) in database_of(ledger).rows(forgotten, tags.get("d"))
        )
    assert store.integrity() == []
    assert not database_of(ledger).in_transaction


def assert_no_secret(text: str, *, but: str = "") -> None:
    """No key, no part of a key, no memory and no relay's words, but for what may be there."""
    assert not {part for part in slices(HEX) if part in text.lower()}
    nsec = parse_secret(HEX).nsec()
    assert not {part for part in slices(nsec) if part in text}
    assert PLAINTEXT not in text
    assert but == WORDS or WORDS not in text


@pytest.fixture(autouse=True)
def _seldom_polls(request, monkeypatch):
    """Looking for other processes every two seconds is what an idle hour would mostly consist of."""
    if request.node.get_closest_marker("virtual_time"):
        monkeypatch.setattr(agenda, "POLL_SECONDS", 30.0)


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
