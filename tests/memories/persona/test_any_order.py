"""V-08 for persona memories: whatever three devices do to a palace, in whatever order they meet two relays.

Devices of one key edit, link, contradict, recall, undo, forget and prune, with clocks that differ; relays are
out of reach, or hang up. Then all sync until it is quiet. Every device has to show the same memories with the
same fields, head for head, and both relays serve these heads and nothing else. Nothing is lost: beside the
devices a dumb oracle notes which event was written by whom and what that device had in its ledger then. A
value that nobody replaced knowingly, and that no later forgetting covers, is there: as a memory, or as a
sibling of it. `make soak` plays longer games.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from relays.proxy import HANGUP, Fault, FaultyRelay
from sense_memory import EmbeddedRelay, InvalidInput, LocalSigner, MemoryStore
from sense_memory.nostr import nip44
from tests.in_step import is_busy
from tests.inside import ledger_of, name_device, signer_of, sleep_with
from tests.time_unit import SECOND


KEYS = ("a", "b", "c")
FACT = ("people", "facts")
PERSONA = "sense-memory/persona/"
DAY = 86_400
TOPOLOGIES = (((0, 1),) * 3, ((0,), (0, 1), (1,)))  # which relays each device knows


# ── Moves ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Do:
    """One device does something to one memory, or to two."""

    what: str
    device: int
    key: str
    other: str


@dataclass(frozen=True)
class Sync:
    """Some devices sync, one after the other; each relay hangs up after so many frames: 0 is out of reach, None is never."""

    devices: tuple[int, ...]
    lines: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True)
class Wait:
    """Time goes by for everybody."""

    seconds: int


WHATS = (
    *("edit",) * 5,
    *("edit with links", "link", "unlink", "contradict", "dismiss", "recall", "recall", "flush"),
    *("undo", "forget", "prune"),
)
WAITS = (1, 1, 5, 100, 400, 9_000, 40 * DAY, 250 * DAY)
LINES = (None, None, None, 0, 2, 5)
SKEWS = (-100, 0, 0, 100)

numbers = st.integers(0, 2)
deeds = st.builds(Do, st.sampled_from(WHATS), numbers, st.sampled_from(KEYS), st.sampled_from(KEYS))
syncs = st.builds(
    Sync,
    st.lists(numbers, min_size=1, max_size=3, unique=True).map(tuple),
    st.tuples(*[st.sampled_from(LINES)] * 2),
)
moves = st.lists(
    st.one_of(deeds, deeds, deeds, syncs, syncs, st.builds(Wait, st.sampled_from(WAITS))), max_size=30
)


def dealt(seed, count):
    """Moves from a seed, for games that are too long to be shrunk."""
    chance = random.Random(seed)
    deal = []
    for _ in range(count):
        match chance.choice("dddddssw"):
            case "d":
                deal.append(Do(chance.choice(WHATS), chance.randrange(3), *chance.choices(KEYS, k=2)))
            case "s":
                devices = tuple(chance.sample(range(3), chance.randint(1, 3)))
                deal.append(Sync(devices, tuple(chance.choices(LINES, k=2))))
            case "w":
                deal.append(Wait(chance.choice(WAITS)))
    return tuple(chance.choices(SKEWS, k=3)), chance.choice(TOPOLOGIES), deal


# ── The oracle ──────────────────────────────────────────────────────────────────────────


class Oracle:
    """Every value that was ever said, who replaced it, and what was forgotten."""

    def __init__(self):
        self.said: dict[str, tuple[str, str, int]] = {}  # event id: key, value, second
        self.replaced: set[str] = set()  # event ids
        self.forgotten: dict[str, int] = {}  # key: second
        self.deleted: set[str] = set()  # values that were deleted where they lay as siblings

    def wrote(self, ident, key, value, second, known):
        """A device said a value, and had these values in its ledger."""
        self.replaced |= {
            other for other, (where, old, _) in self.said.items() if where == key and old in known
        }
        self.said[ident] = key, value, second

    def forgot(self, key, second):
        self.forgotten[key] = max(second, self.forgotten.get(key, 0))

    def is_covered(self, key, second):
        return second <= self.forgotten.get(key, -1)

    def standing(self):
        """The values that have to be there."""
        return {
            value
            for ident, (key, value, second) in self.said.items()
            if ident not in self.replaced and not self.is_covered(key, second)
        } - self.deleted


# ── The world ───────────────────────────────────────────────────────────────────────────


class SeededSigner:
    """A signer whose nonces come from a seed: event ids, and so who wins a tie, are the same in every run."""

    def __init__(self):
        self._signer = LocalSigner.from_hex("2a" * 32)
        self._chance = random.Random(7)
        self.public_key, self.decrypt = self._signer.public_key, self._signer.decrypt
        self.sign = self._signer.sign

    async def encrypt(self, plaintext, reader):
        nonce = self._chance.randbytes(32)
        return nip44.encrypt(plaintext, self._signer._conversation(reader), nonce=nonce)


class Line(Fault):
    """The way to one relay, which is cut after so many frames."""

    left = None

    def on_connect(self, talk):
        return () if self.left is None or self.left > 0 else (HANGUP,)

    def from_client(self, frame, talk):
        return self._pass(frame)

    def from_relay(self, frame, talk):
        return self._pass(frame)

    def _pass(self, frame):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                yield HANGUP
                return
        yield frame


class World:
    """Three devices and two relays on one clock."""

    def __init__(self, skews, topology):
        self.now, self._skews, self._topology = 1_800_000_000, skews, topology
        self.oracle = Oracle()
        self.count = 0

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            signer = SeededSigner()
            self.relays = [await enter(EmbeddedRelay(clock=lambda: self.now)) for _ in range(2)]
            self.lines = [Line() for _ in self.relays]
            self._ways = [
                await enter(FaultyRelay(relay.url, line))
                for relay, line in zip(self.relays, self.lines, strict=True)
            ]
            self.stores = [await enter(self._store(signer, number)) for number in range(3)]
            for number, store in enumerate(self.stores):
                name_device(store, f"device {number}")  # else drawn at random, and in every `seen`
                sleep_with(store, self._sleep)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self._stack.aclose()

    def _store(self, signer, number):
        urls = [self._ways[relay].url for relay in self._topology[number]]
        clock = lambda: self.now + self._skews[number]  # noqa: E731
        return MemoryStore(signer, urls, ledger=":memory:", background=False, clock=clock)

    async def _sleep(self, seconds):
        self.now += int(seconds) + 1

    # ── Playing ─────────────────────────────────────────────────────────────────────────

    async def play(self, move):
        match move:
            case Wait(seconds):
                self.now += seconds
            case Sync(devices, lines):
                for line, left in zip(self.lines, lines, strict=True):
                    line.left = left
                for number in devices:
                    await self.stores[number].sync()
            case Do(what, device, key, other):
                await getattr(self, what.replace(" ", "_"))(self.stores[device], key, other)

    async def edit(self, store, key, other, links=()):
        self.count += 1
        value, known = f"note {self.count}", await held(store, key)
        ident = await store.persona_remember(*FACT, key, value, [f"theme {self.count % 3}"], links)
        self.oracle.wrote(ident, key, value, second(store, ident), known)

    async def edit_with_links(self, store, key, other):
        if key != other:
            await self.edit(store, key, other, [f"people/facts/{other}"])

    async def link(self, store, key, other):
        with suppress(InvalidInput, LookupError):
            await store.persona_connect(*paths(key, other))

    async def unlink(self, store, key, other):
        with suppress(InvalidInput):
            await store.persona_disconnect(*paths(key, other))

    async def contradict(self, store, key, other):
        with suppress(InvalidInput):
            await store.persona_contradict(*paths(key, other))

    async def dismiss(self, store, key, other):
        with suppress(InvalidInput):
            await store.palace.reconcile(*paths(key, other))

    async def recall(self, store, key, other):
        await store.persona_recall(*FACT, key)

    async def flush(self, store, key, other):
        for line in self.lines:
            line.left = None
        await store.flush()

    async def undo(self, store, key, other):
        known = await held(store, key)
        memory = await store.undo(f"people/facts/{key}")
        if memory is not None:
            self.oracle.wrote(memory.event_id, key, memory.value, second(store, memory.event_id), known)

    async def forget(self, store, key, other):
        await store.persona_forget(*FACT, key)
        self.oracle.forgot(key, ledger_of(store).mark(f"{PERSONA}people/facts/{key}"))

    async def prune(self, store, key, other):
        for line in self.lines:
            line.left = None
        there = {memory.path: memory for memory in await listed(store)}
        done = await store.persona_prune()
        for line in done.report.lines:
            if (line.action, line.outcome) == ("delete", "done"):
                key = line.path.rpartition("/")[2]
                self.oracle.forgot(key, ledger_of(store).mark(PERSONA + line.path))
                if key not in KEYS and line.path in there:
                    self.oracle.deleted.add(there[line.path].value)

    # ── The end ─────────────────────────────────────────────────────────────────────────

    async def settle(self):
        """Everybody says what was recalled, then all sync until nobody has anything new."""
        for line in self.lines:
            line.left = None
        self.now += 1_000
        for store in self.stores:
            await store.flush()
        for _ in range(8):
            self.now += DAY + 1
            reports = [await store.sync() for store in self.stores]
            if all(report.in_step for report in reports) and not any(map(is_busy, reports)):
                return
        raise AssertionError(f"not quiet: {reports}")

    async def check(self):
        self._skews = (0, 0, 0)  # who looks at different times sees different relevances
        shown = [
            {memory.path: memory.model_dump(mode="json", exclude={"seen"}) for memory in await listed(store)}
            for store in self.stores
        ]  # `seen` may say more where a device holds versions that the head does not name and makes no use of
        assert differences(shown) == {}
        heads = {f"{PERSONA}{path}": fields["event_id"] for path, fields in shown[0].items()}
        for relay in self.relays:
            assert await served(relay.url, self.stores[0]) == heads
        values = {fields["value"] for fields in shown[0].values()}
        assert self.oracle.standing() <= values
        assert values <= {value for _, value, _ in self.oracle.said.values()}
        for path, fields in shown[0].items():
            key = path.rpartition("/")[2]
            if key in KEYS:
                assert fields["conflict_of"] is None
                at = second(self.stores[0], fields["event_id"])
                assert not self.oracle.is_covered(key, at), "what was forgotten is back"
            else:
                assert fields["conflict_of"] == f"people/facts/{key.partition('~')[0]}"
        for store in self.stores:
            assert store.integrity() == []
            for key in KEYS:
                told = {version.value for version in await store.history(f"people/facts/{key}")}
                assert told - {None} <= {
                    value for where, value, _ in self.oracle.said.values() if where == key
                }
        views = [
            (
                await store.persona_stats(),
                await store.persona_compress(),
                [(hit.path, hit.score) for hit in await store.persona_search("note theme")],
            )
            for store in self.stores
        ]
        assert views[0] == views[1] == views[2]


def differences(shown):
    """By path and field what devices show, where they do not show the same."""
    found = {}
    for path in set().union(*shown):
        each = [fields.get(path, {}) for fields in shown]
        for name in set().union(*each):
            told = [fields.get(name) for fields in each]
            if told.count(told[0]) < len(told):
                found[path, name] = told
    return found


def paths(key, other):
    return f"people/facts/{key}", f"people/facts/{other}"


async def held(store, key):
    """The values of all events in a ledger that are about a memory."""
    found = set()
    for stored in ledger_of(store).versions(f"{PERSONA}people/facts/{key}"):
        plaintext = await signer_of(store).decrypt(stored.event().content, store.public_key)
        found.add(json.loads(plaintext)["value"])
    return found


def second(store, ident):
    return ledger_of(store).by_id(ident).created_at


async def listed(store):
    return await store.persona_recall(include_forgotten=True)


async def served(url, store):
    """By d-tag the ids of the memories that a relay serves, without strays (`memories.persona.forks`)."""
    async with connect(url, compression=None) as socket:
        await socket.send('["REQ","all",{"kinds":[30078]}]')
        found = {}
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT":
                fields = json.loads(await signer_of(store).decrypt(frame[2]["content"], store.public_key))
                is_stray = fields.get("value") == ""  # forgotten, then touched by who did not know; emptied
                if not is_stray:
                    found[frame[2]["tags"][0][1]] = frame[2]["id"]
        return found


async def game(skews, topology, deal):
    async with asyncio.timeout((60 + len(deal)) * SECOND), World(skews, topology) as world:
        await world.play(Sync((0, 1, 2)))  # each knows that there is nothing yet
        for move in deal:
            await world.play(move)
        await world.settle()
        await world.check()


# ── The rows ────────────────────────────────────────────────────────────────────────────


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.tuples(*[st.sampled_from(SKEWS)] * 3), st.sampled_from(TOPOLOGIES), moves)
def test_v08_any_order_converges_for_persona_memories(skews, topology, deal):
    asyncio.run(game(skews, topology, deal))


def test_v08_a_hundred_moves_converge_for_persona_memories():
    asyncio.run(game(*dealt(1, 100)))
