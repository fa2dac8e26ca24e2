"""V-08 any_order_converges: whatever three devices do, in whatever order they meet relays, they end alike.

Devices of one key write and forget with clocks 400 s apart; relays are out of reach, or hang up; some writes
happen during a sync. Then all sync once a day until it is quiet, and a dumb oracle says what has to be left:
a list of all events, sorted by (later second, lower id), less what a deletion covers (NIP-09: its own second
and before), and less what a device replaced in its own second. `make soak` plays games of 1,000 moves.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from relays.proxy import HANGUP, Fault, FaultyRelay
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore, Timeouts
from sense_memory.nostr import nip44
from tests.in_step import is_busy
from tests.inside import ledger_of, sleep_with
from tests.time_unit import SECOND


KEYS = ("a", "b", "c", "d")
DAY = 86_401
# How long a relay is listened to that went on after its end is not the point.
QUICK = Timeouts(notice_settle=0.2)


# ── Moves ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Write:
    """One device writes something; with `after`, so many frames into the next sync."""

    what: str
    device: int
    key: str
    after: int = 0


@dataclass(frozen=True)
class Sync:
    """Some devices sync at once; each relay hangs up after so many frames: 0 is out of reach, None is never."""

    devices: tuple[int, ...]
    lines: tuple[int | None, ...] = (None, None, None)
    full: bool = False


@dataclass(frozen=True)
class Wait:
    """Time goes by for everybody."""

    seconds: int


@dataclass(frozen=True)
class Restart:
    """A device closes its store and opens another on the same file; only where ledgers are files."""

    device: int


@dataclass(frozen=True)
class Setting:
    """The table of a game.

    Attributes:
        skews: how far each device's clock is off, in seconds.
        ring: whether each device knows two of the three relays only.
        compares: which relays can compare whole sets (NIP-77); the others are walked by pages.
    """

    skews: tuple[int, ...]
    ring: bool
    compares: tuple[bool, ...]


SKEWS = (-200, -100, 0, 100, 200)
WAITS = (1, 1, 5, 100, 200, 400, 4_000, 9_000)
WHATS = ("remember",) * 4 + ("undo", "undo", "forget", "journal", "journal", "remove an entry")
LINES = (None, None, None, None, 0, 0, 1, 2, 3, 5, 8)

numbers = st.integers(0, 2)
writes = st.builds(
    Write, st.sampled_from(WHATS), numbers, st.sampled_from(KEYS), st.sampled_from((0, 0, 1, 6))
)
syncs = st.builds(
    Sync,
    st.lists(numbers, min_size=1, max_size=3, unique=True).map(tuple),
    st.tuples(*[st.sampled_from(LINES)] * 3),
    st.booleans(),
)
waits = st.builds(Wait, st.sampled_from(WAITS))
moves = st.lists(st.one_of(writes, writes, writes, syncs, syncs, waits), max_size=40)
offsets = st.one_of(st.just((0, 0, 0)), st.tuples(*[st.sampled_from(SKEWS)] * 3))
tables = st.builds(Setting, offsets, st.booleans(), st.tuples(*[st.booleans()] * 3))


def dealt(seed, count):
    """A setting and moves from a seed, for games that are too long to be shrunk.

    Odd games have no skew, and end with all devices writing the same keys in the same second.
    """
    chance = random.Random(seed)
    skews = (0, 0, 0) if seed % 2 else tuple(chance.choices(SKEWS, k=3))
    setting = Setting(skews, chance.random() < 0.5, tuple(chance.choices((True, False), k=3)))
    deal = []
    for _ in range(count):
        match chance.choice("wwwwwssr-"):
            case "w":
                after = chance.choice((0, 0, 0, 1, 5, 20))
                deal.append(Write(chance.choice(WHATS), chance.randrange(3), chance.choice(KEYS), after))
            case "s":
                devices = tuple(chance.sample(range(3), chance.randint(1, 3)))
                lines = tuple(chance.choices((*LINES, 20, 50), k=3))
                deal.append(Sync(devices, lines, chance.random() < 0.2))
            case "r":
                deal.append(Restart(chance.randrange(3)))
            case _:
                deal.append(Wait(chance.choice(WAITS)))
    deal.append(Wait(1_000))
    deal += [Write("remember", device, key) for device in range(3) for key in KEYS[:3]]
    deal += [Write("forget" if device == seed % 3 else "remember", device, KEYS[3]) for device in range(3)]
    return setting, deal


# ── The oracle ──────────────────────────────────────────────────────────────────────────


@dataclass
class Oracle:
    """Every event that was ever written, in a list; nothing of the program's own judgement."""

    versions: list[tuple[str, int, str, str]] = field(default_factory=list)  # key, second, id, value
    replaced: list[tuple[str, int, str, str]] = field(default_factory=list)  # likewise: history of one device
    tombstones: list[tuple[str, int, str]] = field(default_factory=list)  # key, second, id
    deletions: set[str] = field(default_factory=set)
    entries: dict[str, str] = field(default_factory=dict)  # id: content
    removed: set[str] = field(default_factory=set)
    last: dict[tuple[int, str], tuple[str, int, str, str]] = field(default_factory=dict)  # by device and key
    last_tombstone: dict[tuple[int, str], tuple[str, int, str]] = field(default_factory=dict)  # likewise

    def forgotten(self, key):
        return max((second for where, second, _ in self.tombstones if where == key), default=-1)

    def living(self):
        return [item for item in self.versions if item[1] > self.forgotten(item[0])]

    def heads(self):
        found = {}
        for key, _, ident, value in sorted(self.living(), key=lambda item: (-item[1], item[2])):
            found.setdefault(key, (ident, value))
        return found

    def dead(self):
        living = {ident for _, _, ident, _ in self.living()}
        written = {ident for _, _, ident, _ in self.versions}
        forgotten = {ident for key, second, ident, _ in self.replaced if second <= self.forgotten(key)}
        return written - living | forgotten | self.removed

    def buried(self, device, tombstone):
        """A device forgot: of its tombstones of one second the last counts, and what it wrote upon an earlier one is gone."""
        key, second, _ = tombstone
        before = self.last_tombstone.get((device, key))
        if before is not None and before[1] == second:
            self.tombstones.remove(before)
        version = self.last.get((device, key))
        if version is not None and version[1] > second and version in self.versions:
            self.versions.remove(version)
            self.removed.add(version[2])
        self.last_tombstone[device, key] = tombstone
        self.tombstones.append(tombstone)

    def wrote(self, device, version):
        """A device wrote a version: of what it wrote in one second at one key, only the last ever leaves it."""
        before = self.last.get((device, version[0]))
        if before is not None and before[1] == version[1] and before in self.versions:
            self.versions.remove(before)
            self.replaced.append(before)
        self.last[device, version[0]] = version
        self.versions.append(version)

    def graves(self):
        """The tombstone that counts, of each key that was ever forgotten."""
        found = {}
        for key, _, ident in sorted(self.tombstones, key=lambda item: (-item[1], item[2])):
            found.setdefault(key, ident)
        return set(found.values())


# ── The world ───────────────────────────────────────────────────────────────────────────


class SeededSigner:
    """A signer whose nonces come from a seed: event ids, and so who wins a tie, are the same in every run.

    Attributes:
        signed: every event that was ever signed, by id.
    """

    def __init__(self):
        self._signer = LocalSigner.from_hex("2a" * 32)
        self._chance = random.Random(7)
        self.public_key, self.decrypt = self._signer.public_key, self._signer.decrypt
        self.signed = {}

    async def sign(self, unsigned):
        event = await self._signer.sign(unsigned)
        self.signed[event.id] = event
        return event

    async def encrypt(self, plaintext, reader):
        nonce = self._chance.randbytes(32)
        return nip44.encrypt(plaintext, self._signer._conversation(reader), nonce=nonce)


class Line(Fault):
    """The way to one relay: counts what passes, and hangs up after so many frames."""

    def __init__(self, passed):
        super().__init__()
        self.left, self._passed = None, passed

    def on_connect(self, talk):
        return () if self.left is None or self.left > 0 else (HANGUP,)

    def from_client(self, frame, talk):
        return self._pass(frame)

    def from_relay(self, frame, talk):
        return self._pass(frame)

    def _pass(self, frame):
        self._passed()
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                yield HANGUP
                return
        yield frame


class World:
    """Three devices and three relays on one clock; ledgers are in memory, or in a folder."""

    def __init__(self, setting, folder=None):
        self.setting, self._folder = setting, folder
        self.now = 1_800_000_000
        self.oracle = Oracle()
        self.waiting: list[Write] = []  # to be done while the next sync is on its way
        self.written = 0
        self._frames = 0
        self._watchers: list[tuple[int, asyncio.Event]] = []

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            self.signer = SeededSigner()
            self.relays = [
                await stack.enter_async_context(EmbeddedRelay(clock=lambda: self.now)) for _ in range(3)
            ]
            self.lines = [Line(self._passed) for _ in self.relays]
            self._ways = [
                await stack.enter_async_context(FaultyRelay(relay.url, line, negentropy=compares))
                for relay, line, compares in zip(self.relays, self.lines, self.setting.compares, strict=True)
            ]
            self.stores = []
            for number in range(3):
                self.stores.append(await self._open(number))
                stack.push_async_callback(self._close, number)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    async def _open(self, number):
        urls = [way.url for way in self._ways]
        if self.setting.ring:
            del urls[number]
        skew = self.setting.skews[number]
        ledger = self._folder / f"{number}.db" if self._folder else ":memory:"
        options = {"background": False, "timeouts": QUICK, "clock": lambda: self.now + skew}
        store = MemoryStore(self.signer, urls, ledger=ledger, **options)
        await store.__aenter__()
        sleep_with(store, self._sleep)
        return store

    async def _close(self, number):
        await self.stores[number].close()

    async def _sleep(self, seconds):
        self.now += int(seconds) + 1

    def _passed(self):
        self._frames += 1
        for at, event in self._watchers:
            if self._frames >= at:
                event.set()

    # ── Playing ─────────────────────────────────────────────────────────────────────────

    async def play(self, move):
        match move:
            case Write(after=0):
                await self.write(move)
            case Write():
                self.waiting.append(move)
            case Wait(seconds):
                self.now += seconds
            case Restart(device):
                await self._close(device)
                self.stores[device] = await self._open(device)
            case Sync(devices, lines, full):
                for line, left in zip(self.lines, lines, strict=True):
                    line.left = left
                await self.sync(devices, full=full)

    async def sync(self, devices, *, full=False):
        """Some devices sync at once, while what was kept for this moment is written."""
        writes, self.waiting = self.waiting, []
        self._watchers = [(self._frames + write.after, asyncio.Event()) for write in writes]

        async def later(write, event):
            await event.wait()
            await self.write(write)

        async with asyncio.TaskGroup() as group:
            for write, (_, event) in zip(writes, self._watchers, strict=True):
                group.create_task(later(write, event))
            reports = await asyncio.gather(*(self.stores[number].sync(full=full) for number in devices))
            for _, event in self._watchers:  # fewer frames passed than they wait for
                event.set()
        return reports

    async def write(self, write):
        """Do it, believe what the store returned, and note the event for the oracle."""
        store, key = self.stores[write.device], write.key
        self.written += 1
        value = f"value {self.written}"
        match write.what:
            case "remember":
                self._wrote(write, await store.remember(key, value), value)
            case "undo":
                earlier = {version.event_id for version in await store.history(key)}
                found = await store.undo(key)
                if found is not None:  # a sync beside may have brought more to go back to
                    assert found.event_id not in earlier
                    past = await store.history(key)
                    assert found.value in {item.value for item in past if item.event_id != found.event_id}
                    self._wrote(write, found.event_id, found.value)
            case "forget":
                event = self.signer.signed[await store.forget(key)]
                self.oracle.deletions.add(event.id)
                self.oracle.buried(write.device, (key, event.created_at, event.tag_values("e")[0]))
                found = await store.recall(key)
                if (
                    found is not None
                ):  # written again meanwhile: another write of this device ran beside this one
                    assert write.after
                    assert self.signer.signed[found.event_id].created_at > event.created_at
            case "journal":
                ident = await store.journal(value)
                self.oracle.entries[ident] = value
            case "remove an entry":
                here = [ident for ident in self.oracle.entries if ledger_of(store).by_id(ident) is not None]
                if here:
                    del self.oracle.entries[here[0]]  # a removal beside this one takes another entry
                    self.oracle.removed.add(here[0])
                    self.oracle.deletions.add(await store.journal.forget(here[0]))

    def _wrote(self, write, ident, value):
        version = write.key, self.signer.signed[ident].created_at, ident, value
        self.oracle.wrote(write.device, version)

    # ── The end ─────────────────────────────────────────────────────────────────────────

    async def settle(self):
        """A sync of every device a day, until a whole day brings nothing new to anybody."""
        for line in self.lines:
            line.left = None
        for day in range(1, 8):
            self.now += DAY
            reports = [(await self.sync([number]))[0] for number in (0, 1, 2)]
            if all(report.in_step for report in reports) and not any(map(is_busy, reports)):
                return day
        raise AssertionError(f"not quiet after {day} days: {reports}")

    async def check(self):
        oracle, heads = self.oracle, self.oracle.heads()
        for store in self.stores:
            found = {memory.key: (memory.event_id, memory.value) for memory in await store.recall_all()}
            assert found == heads
            journal = await store.recent(100_000) if oracle.entries else []
            assert {entry.event_id: entry.content for entry in journal} == oracle.entries
            assert store.integrity() == []
        held = [{json.loads(body)["id"] for body in ledger_of(store).bodies()} for store in self.stores]
        assert {ident for _, _, ident, _ in oracle.living()} <= set().union(*held)
        assert oracle.deletions <= set.intersection(*held)
        assert oracle.graves() <= set().union(*held)
        assert not oracle.dead() & set().union(*held)
        for store in self.stores:
            for key in KEYS:
                past = {version.event_id: version.value for version in await store.history(key)}
                known = oracle.living() + oracle.replaced
                written = {ident: value for at, _, ident, value in known if at == key}
                assert {ident: value for ident, value in past.items() if value is not None}.items() <= (
                    written.items()
                )
        expected = {ident for ident, _ in heads.values()} | oracle.entries.keys() | oracle.deletions
        for relay in self.relays:
            assert await stored(relay.url) == expected


async def stored(url):
    """The ids of everything that a relay serves, but for manifests, which devices write by themselves."""
    async with connect(url, compression=None) as socket:
        await socket.send('["REQ","all",{}]')
        found = set()
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT" and not is_of_manifest(frame[2]):
                found.add(frame[2]["id"])
        return found


def is_of_manifest(event):
    """Whether an event is a manifest, or deletes manifests only."""
    addresses = [tag[1] for tag in event["tags"] if tag[0] in {"a", "d"}]
    return bool(addresses) and all("sense-memory/device/" in one for one in addresses)


async def game(setting, deal, folder=None):
    async with asyncio.timeout((60 + len(deal)) * SECOND), World(setting, folder) as world:
        for move in deal:
            await world.play(move)
        await world.settle()
        for device in range(3) if folder else ():
            await world.play(Restart(device))  # what the files say, and no longer what is open
        await world.check()
        return world


# ── The rows ────────────────────────────────────────────────────────────────────────────


@settings(max_examples=12, deadline=None, derandomize=True)
@given(tables, moves)
def test_v08_any_order_converges(setting, deal):
    asyncio.run(game(setting, deal))


@pytest.fixture
def folder():
    """In memory where the system offers that: these games are about order, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def test_v08_two_hundred_moves_converge(folder):
    asyncio.run(game(*dealt(1, 200), folder))


@pytest.mark.parametrize(
    ("late", "days"), [(7_000, 0), (20_000, 1)], ids=["the next pull", "the daily sweep"]
)
async def test_what_another_device_sends_late_is_found_by(late, days):
    """An event is dated when it was written: a device that was away puts it below where others have read to."""
    async with World(Setting((0, 0, 0), ring=False, compares=(False,) * 3)) as world:
        await world.play(Write("journal", 0, ""))
        world.now += late
        await world.play(Write("remember", 1, "a"))
        await world.sync([1, 2])
        await world.sync([2])
        await world.sync([0])
        world.now += days * DAY
        assert (await world.sync([2]))[0].in_step
        assert len(await world.stores[2].recent()) == 1
