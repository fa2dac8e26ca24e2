"""Synchronisation by comparison (NIP-77): exact, small, and never the only way.

Through `MemoryStore`, against our relay and against nostr-sdk's, mostly with a witness in between that
sees every frame.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect

from relays.faults import ClaimsEquality, Fault, FaultyRelay, ForgetAfterAck, Pause, Record, Withhold
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.nostr.event import Unsigned
from sense_memory.relay.server import client_handler
from sense_memory.relay.server import session as relay_limits
from sense_memory.relay.sync.agenda import RelayQuestion, SyncPlan
from sense_memory.relay.sync.reconcile import InventoryCache
from tests.inside import ledger_of, parts_of
from tests.local_relays import PATIENT, embedded, nostr_sdk
from tests.time_unit import SECOND


IN_STEP = "61"


class CountingProxy:
    """Carries bytes to a relay and back, and counts them: everything but TCP itself."""

    def __init__(self, upstream) -> None:
        self._upstream = int(upstream.rsplit(":", 1)[1])
        self.bytes = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _carry(self, reader, writer) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._upstream)
        await asyncio.gather(self._pump(reader, ours), self._pump(theirs, writer))

    async def _pump(self, source, target) -> None:
        try:
            while part := await source.read(65_536):
                self.bytes += len(part)
                target.write(part)
        except ConnectionError:
            return
        finally:
            target.close()


class Stage:
    """Devices of one key, and the relays between them."""

    def __init__(self, clock, start) -> None:
        self.clock, self.start = clock, start
        self.signer = LocalSigner.from_hex("19" * 32)
        self.stranger = LocalSigner.from_hex("1a" * 32)

    def relay(self):
        return self.start(self.clock)

    @asynccontextmanager
    async def witness(self, *faults):
        """A relay that compares, and a record of what is said to it."""
        record = Record()
        async with self.relay() as url, FaultyRelay(url, record, *faults, negentropy=True) as proxy:
            record.url, record.upstream, record.proxy = proxy.url, url, proxy
            yield record

    def device(self, *relays, ledger=":memory:"):
        return MemoryStore(
            self.signer, relays, ledger=ledger, background=False, clock=self.clock, timeouts=PATIENT
        )

    async def event(self, kind=30078, tags=(), content="another program's", *, at=0, signer=None):
        unsigned = Unsigned(int(self.clock()) + at, kind, tuple(tags), content)
        return json.loads((await (signer or self.signer).sign(unsigned)).body())

    async def memory(self, key, value, *, at=0):
        """A flat memory as another device would write it."""
        inside = json.dumps({"type": "sense-memory:kv", "key": key, "value": value, "ts": 1}).encode()
        content = await self.signer.encrypt(inside, self.signer.public_key)
        return await self.event(tags=[("d", f"sense-memory/{key}")], content=content, at=at)

    async def put(self, url, *events):
        async with connect(url, compression=None) as socket, asyncio.timeout(10 * SECOND):
            for event in events:
                await socket.send(json.dumps(["EVENT", event]))
            for _ in events:
                while (frame := json.loads(await socket.recv()))[0] != "OK":
                    pass
                assert frame[2] is True, frame

    async def stored(self, url, **wanted):
        """What a relay holds, newest first."""
        async with connect(url, compression=None) as socket, asyncio.timeout(10 * SECOND):
            await socket.send(json.dumps(["REQ", "q", {"authors": [self.signer.public_key], **wanted}]))
            found = []
            while (frame := json.loads(await socket.recv()))[0] != "EOSE":
                found += frame[2:] if frame[0] == "EVENT" else []
            return found


@pytest.fixture
def clock(clock):
    clock.now = float(int(time.time()) - 1_000_000)  # nostr-sdk's relay reads the real clock
    return clock


@pytest.fixture(params=[embedded, nostr_sdk], ids=lambda start: start.__name__)
def stage(request, clock):
    """Our relay, and nostr-sdk's."""
    return Stage(clock, request.param)


@pytest.fixture
def ours(clock):
    """Our relay only."""
    return Stage(clock, embedded)


def forget_frames(record):
    record.frames.clear()


def requests(record):
    """The filters of the REQs, apart from the question whether the relay has an entry of a journal that is empty here."""
    wanted = [frame[2] for frame in record.said("REQ")]
    return [one for one in wanted if (one["kinds"], one.get("limit"), "ids" in one) != ([4], 1, False)]


def asked_by_id(record):
    """The ids that were fetched. Otherwise only what a relay said is newer may have been asked for, by address."""
    wanted = requests(record)
    assert all("ids" in one or "#d" in one for one in wanted), wanted
    return [ident for one in wanted for ident in one.get("ids", ())]


async def contents(store):
    memories = {(memory.key, memory.value) for memory in await store.recall_all()}
    return memories, {entry.content for entry in await store.recent(1_000)}


# ── In step ─────────────────────────────────────────────────────────────────────────────


async def test_in_step_nothing_is_asked_for_and_nothing_is_sent(stage):
    async with stage.witness() as record, stage.device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(300))
        await store.journal("dear diary")
        await store.forget("key 7")
        await store.sync()
        await store.sync()  # that one fetches an event, see below
        for _ in range(3):
            forget_frames(record)
            report = await store.sync()
            assert report.in_step
            assert report.relays[0].sent == {}
            said = [frame[0] for who, frame in record.frames if who == "client"]
            assert sorted(said) == ["NEG-CLOSE", "NEG-CLOSE", "NEG-OPEN", "NEG-OPEN"]  # the journal apart
            assert [frame[2] for frame in record.heard("NEG-MSG")] == [IN_STEP, IN_STEP]


async def test_in_step_a_sync_costs_less_than_2_kb(stage):
    async with stage.relay() as url, CountingProxy(url) as proxy, stage.device(proxy.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(1_000))
        await store.sync()
        await store.sync()
        before = proxy.bytes
        assert (await store.sync()).in_step
        assert 0 < proxy.bytes - before < 2_000


async def test_a_hundred_scattered_differences_cost_less_than_100_kb_plus_the_events(stage):
    async with (
        stage.relay() as url,
        CountingProxy(url) as proxy,
        stage.device(proxy.url) as store,
        stage.device(url) as other,
    ):
        await store.remember_many((f"key {number}", "value") for number in range(1_000))
        await store.sync()
        await other.sync()
        stage.clock.advance(100)
        for number in random.Random(1).sample(range(1_000), 100):
            await other.remember(f"key {number}", "changed")
        await other.sync()
        before = proxy.bytes
        report = await store.sync()
        events = sum(len(body) for body in list(ledger_of(store).bodies())[-100:])
        assert report.relays[0].served == {"new": 100}
        assert (await store.sync()).in_step
        assert proxy.bytes - before < 100_000 + events


async def test_a_comparison_counts_as_a_complete_pull(ours):
    async with ours.witness() as record, ours.device(record.url) as store:
        await store.remember("a", "1")
        await store.sync()
        forget_frames(record)
        first = ledger_of(store).relays.state(record.url)
        ours.clock.advance(5 * 86_400)
        await ours.put(record.upstream, await ours.memory("b", "2", at=-86_400))
        assert (await store.sync()).complete
        state = ledger_of(store).relays.state(record.url)
        assert len(asked_by_id(record)) == 2  # the new event, and the proof
        assert (first.cursor, state.cursor) == (
            None,
            int(ours.clock()) - 86_400 - 7_200,
        )  # not beyond what came
        assert state.completed_at == state.swept_at == ours.clock()


# ── Exactness ───────────────────────────────────────────────────────────────────────────


async def live_through(store, rng, name):
    """Some edits, entries and forgetting of one device."""
    for number in rng.sample(range(60), 12):
        await store.remember(f"key {number}", f"{name} {rng.random()}")
    for number in rng.sample(range(60), 4):
        await store.forget(f"key {number}")
    for _ in range(3):
        await store.journal(f"{name} {rng.random()}")


async def test_random_differences_both_ways_end_with_identical_sets(stage):
    rng = random.Random(0)
    async with stage.witness() as record, stage.device(record.url) as one, stage.device(record.url) as two:
        await one.remember_many((f"key {number}", "first") for number in range(60))
        await one.sync()
        await two.sync()
        forget_frames(record)
        for _ in range(3):
            stage.clock.advance(rng.randrange(100, 10_000))
            await live_through(one, rng, "one")
            stage.clock.advance(rng.randrange(100))
            await live_through(two, rng, "two")
            for store in (*rng.sample([one, two, one, two], 4), one, two, one):
                report = await store.sync()
                assert report.in_step, report
            assert await contents(one) == await contents(two)
        asked_by_id(record)  # nothing was walked
        forget_frames(record)
        for store in (one, two):
            assert (await store.sync()).in_step
        assert record.said("EVENT") == requests(record) == []

        async with stage.device(record.upstream) as fresh:
            await fresh.sync()
            assert await contents(fresh) == await contents(one)


async def test_a_relay_that_has_it_all_already_is_sent_nothing(ours, tmp_path):
    """Another device filled the second relay; this one learns of that from a comparison and a sample."""
    ledger = tmp_path / "a.db"
    async with ours.witness() as first, ours.witness() as second:
        async with ours.device(first.upstream, second.upstream) as other:
            await other.remember_many((f"key {number}", "value") for number in range(520))
            await other.sync()
        async with ours.device(first.url, ledger=ledger) as store:
            await store.sync()
        async with ours.device(first.url, second.url, ledger=ledger) as store:
            assert (await store.sync()).in_step
            assert second.said("EVENT") == []
            assert len(asked_by_id(second)) == 20
            assert store.status().relays[1].events == {
                "confirmed": 523
            }  # with the other's manifest, of two events, and the list of relays


async def test_what_a_relay_lost_is_sent_again(ours, tmp_path):
    ledger = tmp_path / "a.db"
    async with ours.witness() as record, ours.relay() as emptied:
        async with ours.device(record.url, ledger=ledger) as store:
            await store.remember_many((f"key {number}", "value") for number in range(50))
            await store.sync()
            assert (await store.sync()).in_step
        ours.clock.advance(3_700)
        record.proxy.upstream = emptied  # the relay comes back without its data
        async with ours.device(record.url, ledger=ledger) as store:
            report = await store.sync()
            assert report.relays[0].sent == {"accepted": 50}
            assert len(await ours.stored(emptied)) == 50
            forget_frames(record)
            assert (await store.sync()).in_step
            assert record.said("EVENT") == []


async def test_a_crowd_that_pages_can_not_show_is_compared(ours, tmp_path):
    """Another writer put more into one second than a page holds."""
    crowd = [await ours.event(4, [("p", ours.signer.public_key)], f"not ours {n}") for n in range(600)]
    async with ours.witness() as record, ours.device(record.url) as store:
        await ours.put(record.upstream, *crowd, await ours.memory("old", "and small", at=-60))
        await store.remember_many((f"key {number}", "value") for number in range(520))
        report = await store.sync()
        assert report.in_step
        assert (await store.recall("old")).value == "and small"
        assert report.relays[0].served["foreign"] == 600


@pytest.mark.parametrize("most", [5_000, 100], ids=["as many as we like", "a hundred at a time"])
async def test_what_is_needed_is_fetched_as_many_at_once_as_the_relay_serves(clock, most):
    async with EmbeddedRelay(clock=clock, max_limit=most) as relay:
        stage, record = Stage(clock, embedded), Record()
        async with (
            FaultyRelay(relay.url, record, negentropy=True) as proxy,
            stage.device(proxy.url) as asked,
            stage.device(relay.url) as told,
            stage.device(relay.url) as other,
        ):
            for store in (asked, told):
                await store.journal("hello")
                await store.sync()
            await other.remember_many((f"key {number}", "value") for number in range(620))
            await other.sync()
            forget_frames(record)
            for store in (asked, told):
                assert (await store.sync()).in_step
                assert len((await contents(store))[0]) == 620
            batches = [len(one["ids"]) for one in requests(record)]
            # With a manifest of two events and the list of relays; the last ones are the proof, of the memories and of the
            # journal.
            assert batches == ([500, 123, 1, 1] if most > 500 else [100] * 6 + [23, 1, 1])


# ── What must not come back, and what is none of ours ───────────────────────────────────


async def test_what_was_forgotten_is_not_brought_back_by_a_relay_that_was_away(stage, tmp_path):
    ledger = tmp_path / "a.db"
    async with stage.witness() as home, stage.witness() as away:
        async with stage.device(home.url, away.url, ledger=ledger) as store:
            await store.remember_many((f"key {number}", "value") for number in range(10))
            entry = await store.journal("a secret")
            await store.sync()
        async with stage.device(home.url, ledger=ledger) as store:
            stage.clock.advance(100)
            await store.forget("key 3")
            await store.journal.forget(entry)
            await store.sync()
        stage.clock.advance(3_700)
        async with stage.device(home.url, away.url, ledger=ledger) as store:
            for _ in range(3):
                forget_frames(away)
                report = await store.sync()
                assert await store.recall("key 3") is None
                assert await store.recent() == []
            assert report.in_step
            assert requests(away) == away.said("EVENT") == []
        assert "key 3" not in {key_of(event) for event in await stage.stored(away.upstream, kinds=[30078])}
        assert await stage.stored(away.upstream, kinds=[4]) == []


class NeverForgets(Fault):
    """Says that it took deletions and tombstones, and takes none."""

    def __init__(self, tag) -> None:
        super().__init__()
        self.tag = tag

    def from_client(self, frame, talk):
        if frame[0] == "EVENT" and (frame[1]["kind"] == 5 or ["d", self.tag] in frame[1]["tags"]):
            talk.answer(["OK", frame[1]["id"], True, ""])
        else:
            yield frame


async def test_a_relay_that_never_forgets_is_not_believed_and_not_asked_each_time(ours):
    fault = NeverForgets("sense-memory/key 3")
    async with ours.witness(fault) as record, ours.device(record.url) as store:
        fault.on = False
        await store.remember_many((f"key {number}", "value") for number in range(10))
        await store.sync()
        fault.on = True
        ours.clock.advance(100)
        await store.forget("key 3")
        for _ in range(4):
            forget_frames(record)
            await store.sync()
            assert await store.recall("key 3") is None
        assert requests(record) == record.said("EVENT") == []
        assert len(await ours.stored(record.upstream, kinds=[30078])) == 10


def key_of(event):
    return event["tags"][0][1].removeprefix("sense-memory/")


async def strangers(stage):
    """Events of our key that are none of ours, and the kinds of trouble they mean."""
    return {
        "foreign": [
            await stage.event(tags=[("d", "other-app/settings")]),
            await stage.event(4, [("p", stage.signer.public_key)], "a note to oneself"),
            await stage.event(5, [("k", "1"), ("e", "ab" * 32)], ""),
        ],
        "unreadable": [await stage.event(tags=[("d", "sense-memory/garbage")])],
        "misfiled": [
            {**await moved(stage, await stage.memory("here", "x"), "there")},
        ],
    }


async def moved(stage, event, key):
    """The ciphertext of an event at another address."""
    return await stage.event(tags=[("d", f"sense-memory/{key}")], content=event["content"])


async def test_other_programs_events_of_the_same_key_are_fetched_once(stage):
    by_fate = await strangers(stage)
    events = [event for group in by_fate.values() for event in group]
    async with stage.witness() as record, stage.device(record.url) as store:
        await store.remember("mine", "value")
        await store.sync()
        await store.sync()
        await stage.put(record.upstream, *events)
        forget_frames(record)
        report = await store.sync()
        assert report.in_step
        assert report.relays[0].served == {fate: len(group) for fate, group in by_fate.items()}
        assert sorted(asked_by_id(record)) == sorted(event["id"] for event in events)

        forget_frames(record)
        assert (await store.sync()).in_step
        assert requests(record) == record.said("EVENT") == []
        assert await contents(store) == ({("mine", "value")}, set())


async def test_a_newer_version_of_another_programs_event_takes_its_place(stage):
    old = await stage.event(tags=[("d", "other-app/settings")])
    async with stage.witness() as record, stage.device(record.url) as store:
        await store.remember("mine", "value")
        await store.sync()
        await store.sync()
        for number in range(4):
            newer = await stage.event(tags=[("d", "other-app/settings")], at=number + 1)
            await stage.put(record.upstream, newer if number else old)
            forget_frames(record)
            assert (await store.sync()).in_step
            assert asked_by_id(record) == [(newer if number else old)["id"]]
        assert len(ledger_of(store).inventory.version(record.url).aside) == 1


async def test_an_older_version_at_a_relay_is_replaced_and_not_fetched(ours, tmp_path):
    """The relay was restored from a backup: it holds what we replaced."""
    ledger = tmp_path / "a.db"
    async with ours.witness() as record, ours.relay() as backup:
        async with ours.device(record.url, ledger=ledger) as store:
            await store.remember("key", "old")
            await store.remember("other", "value")
            await store.sync()
            before = await ours.stored(record.upstream)
            ours.clock.advance(3_700)
            await store.remember("key", "new")
            await store.sync()
        await ours.put(backup, *before)
        record.proxy.upstream = backup
        ours.clock.advance(3_700)
        async with ours.device(record.url, ledger=ledger) as store:
            forget_frames(record)
            report = await store.sync()
            assert len(asked_by_id(record)) == 1  # whether it has what it says to have
            assert report.relays[0].sent == {"accepted": 1}
            forget_frames(record)
            assert (await store.sync()).in_step
            assert len(asked_by_id(record)) == 1  # what was sent is read back
            assert record.said("EVENT") == []


# ── Relays that do not compare ──────────────────────────────────────────────────────────


class Answers(Fault):
    """Answers a NEG-OPEN like this, whoever asks."""

    def __init__(self, *answer) -> None:
        super().__init__()
        self.answer = list(answer)

    def from_client(self, frame, talk):
        if frame[0] == "NEG-OPEN":
            if self.answer:
                talk.answer([part.replace("$sub", frame[1]) for part in self.answer])
        elif frame[0] not in {"NEG-MSG", "NEG-CLOSE"}:
            yield frame


EVASIONS = {
    "blocked": ["NEG-ERR", "$sub", "blocked: too many query results"],
    "error": ["NEG-ERR", "$sub", "PROTOCOL-ERROR"],
    "auth": ["NEG-ERR", "$sub", "auth-required: we only compare for friends"],
    "closed": ["CLOSED", "$sub", "unsupported: what is that?"],
    "notice": ["NOTICE", "ERROR: bad msg: unknown cmd"],
    "silence": [],
    "old version": ["NEG-MSG", "$sub", "60"],
    "garbage": ["NEG-MSG", "$sub", "61000002ff"],
    "no hex": ["NEG-MSG", "$sub", "quokka"],
    "endless": ["NEG-MSG", "$sub", "61000001" + "00" * 16],
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("answer", EVASIONS.values(), ids=EVASIONS)
async def test_a_relay_that_does_not_compare_is_walked_and_not_asked_again(ours, answer):
    async with ours.witness(Answers(*answer)) as record, ours.device(record.url) as store:
        await store.remember("mine", "value")
        assert (await store.sync()).in_step
        await ours.put(record.upstream, await ours.memory("theirs", "value"))
        for full in (False, True, False):
            assert (await store.sync(full=full)).in_step
        assert await contents(store) == ({("mine", "value"), ("theirs", "value")}, set())
        assert len(record.said("NEG-OPEN")) == 1
        assert "quokka" not in repr(store.status())

        ours.clock.advance(86_400)
        assert (await store.sync()).in_step
        assert len(record.said("NEG-OPEN")) == 2  # it may have learned


async def test_a_relay_that_says_what_it_can_is_taken_at_its_word(ours, monkeypatch):
    monkeypatch.setattr(relay_limits, "SUPPORTED_NIPS", (1, 9, 11))
    monkeypatch.setattr(
        client_handler.ServerComparisons, "open", lambda *_: pytest.fail("it was asked to compare")
    )
    async with ours.relay() as url, ours.device(url) as store:
        await store.remember("mine", "value")
        for _ in range(2):
            assert (await store.sync()).in_step


class Slow(Fault):
    """Has no document, and takes its time to compare."""

    seconds = 0.0

    def information(self, document):
        return b""

    def from_relay(self, frame, talk):
        if frame[0] == "NEG-MSG":
            yield Pause(self.seconds)
        yield frame


@pytest.mark.virtual_time
async def test_a_relay_that_has_compared_may_take_its_time(ours):
    """Without a document, nobody knows whether it compares: its first answer is not waited for as long as others."""
    slow = Slow()
    async with ours.witness(slow) as record, ours.device(record.url) as store:
        await store.remember("mine", "value")
        await store.sync()
        await store.sync()
        forget_frames(record)
        slow.seconds = (PATIENT.notice_settle + PATIENT.idle) / 2
        assert (await store.sync()).in_step
        assert [frame[2] for frame in record.heard("NEG-MSG")] == [IN_STEP]
        assert requests(record) == []


class Claims(Fault):
    """Claims to have events that nobody has, besides those that it has."""

    def __init__(self, count) -> None:
        super().__init__()
        self.count = count

    def from_relay(self, frame, talk):
        if frame[0] == "NEG-MSG":
            ids = "".join(self.random.randbytes(32).hex() for _ in range(self.count))
            yield ["NEG-MSG", frame[1], f"61000002{self.count:02x}{ids}"]
        else:
            yield frame


async def test_what_a_relay_claims_and_does_not_serve_is_looked_for_page_by_page(ours):
    async with ours.witness(Claims(5)) as record, ours.device(record.url) as store:
        await store.remember("mine", "value")
        await store.sync()
        await ours.put(record.upstream, await ours.memory("theirs", "value"))
        forget_frames(record)
        assert (await store.sync()).in_step
        assert await contents(store) == ({("mine", "value"), ("theirs", "value")}, set())
        wanted = [frame[2] for frame in record.said("REQ")]
        assert [len(one["ids"]) for one in wanted if "ids" in one] == [5]
        assert any("ids" not in one for one in wanted)
        assert ledger_of(store).inventory.version(record.url).aside == frozenset()


async def test_a_relay_that_keeps_nothing_and_says_that_nothing_differs_is_not_in_step(ours):
    """What it says to have is a claim: until it has served one such event, one of them is asked for."""
    lie, keeps_nothing = Answers("NEG-MSG", "$sub", IN_STEP), ForgetAfterAck()
    async with ours.witness(lie, keeps_nothing) as record, ours.device(record.url) as store:
        await store.remember("k", "value")
        await store.sync()
        line = (await store.sync()).relays[0]
        assert (line.in_step, line.pulled.missing) == (False, 1)
        assert store.status().relays[0].memories == 0

        keeps_nothing.on = False
        ours.clock.advance(3_700)
        await store.sync()
        forget_frames(record)
        assert (await store.sync()).in_step
        assert len(asked_by_id(record)) == 1
        assert (await store.sync()).in_step
        assert len(asked_by_id(record)) == 1


def is_in_the_half(event):
    return int(event["id"], 16) % 2 == 1


async def test_a_relay_that_holds_half_and_claims_everything_is_found_out_and_sent_the_rest(ours, tmp_path):
    forgets, ledger = ForgetAfterAck(is_in_the_half), tmp_path / "a.db"
    async with ours.witness(ClaimsEquality(), forgets) as record:
        async with ours.device(record.url, ledger=ledger) as store:
            await store.remember_many((f"key {number}", "value") for number in range(60))
            await store.sync()
            lost = 60 - len(await ours.stored(record.upstream))
            for state in ("acked", "queued"):  # sent again at once, and then once an hour
                line = (await store.sync()).relays[0]
                assert (line.in_step, line.pulled.missing) == (False, lost)
                relay = store.status().relays[0]
                assert relay.events == {"confirmed": 60 - lost, state: lost}
                assert "had lost accepted events when it was last asked" in relay.remarks

        forgets.on = False
        ours.clock.advance(3_700)
        async with ours.device(record.url, ledger=ledger) as store:
            assert (await store.sync()).relays[0].sent == {"accepted": lost}
            assert (await store.sync()).in_step
            assert store.status().relays[0].remarks == ()
            assert len(await ours.stored(record.upstream)) == 60


async def test_what_a_relay_claims_to_hold_is_proved_by_a_sample_in_one_request(ours, tmp_path):
    """Of what it was not known to hold, in each comparison; of all, once in a process and once an hour."""
    ledger = tmp_path / "a.db"
    async with ours.witness() as record:

        async def sample(store):
            forget_frames(record)
            assert (await store.sync()).in_step
            return [len(one["ids"]) for one in requests(record)]

        async with ours.device(record.url, ledger=ledger) as store:
            await store.remember_many((f"key {number}", "value") for number in range(50))
            await store.sync()
            assert [await sample(store) for _ in range(2)] == [[20], []]
            await store.remember("another", "value")
            await store.remember("one more", "value")
            assert [await sample(store) for _ in range(3)] == [[], [2], []]
            ours.clock.advance(3_600)
            assert [await sample(store) for _ in range(2)] == [[20], []]
        async with ours.device(record.url, ledger=ledger) as store:
            assert [await sample(store) for _ in range(2)] == [[20], []]


@pytest.mark.parametrize("asked", ["a comparison of all", "what is new", "a relay without NIP-77"])
async def test_a_relay_that_loses_half_after_its_proof_is_found_out_within_the_hour(ours, asked):
    """By a sample of what it was found to hold, once an hour: 20 of a comparison, 5 of other pulls."""
    plan = FROM_CURSOR if asked == "what is new" else SyncPlan()
    lie = Answers("NEG-ERR", "$sub", "invalid") if "without" in asked else ClaimsEquality()
    recent = ours.clock() + 8_000
    loses = Withhold(lambda event: is_in_the_half(event) and event["created_at"] < recent)
    loses.on = False
    async with ours.witness(lie, loses) as record, ours.device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(60))
        ours.clock.advance(8_000)
        await store.remember("another", "value")
        for _ in range(3):
            assert (await store.sync()).in_step
        loses.on = True
        pool = parts_of(store).replication.pool()
        ours.clock.advance(3_590)
        forget_frames(record)
        (line,) = (await pool.sync(plan)).relays
        assert line.in_step  # a sample is due once an hour
        assert not [frame for frame in record.said("REQ") if "ids" in frame[2]]
        for _ in range(8):
            ours.clock.advance(3_601)
            (line,) = (await pool.sync(plan)).relays
            if line.pulled.missing:
                break
        assert line.pulled.missing == len(loses.withheld) > 10
        assert not line.in_step
        ours.clock.advance(3_601)
        loses.on = False
        assert (await pool.sync(plan)).in_step


async def test_a_full_sync_looks_at_every_event_whatever_the_relay_claims(ours):
    """Here after the proof: no sample is due, so only the walk can find what the relay lost."""
    lie, hides = ClaimsEquality(), Withhold(is_in_the_half)
    lie.on = hides.on = False
    async with ours.witness(lie, hides) as record, ours.device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(60))
        for _ in range(2):
            assert (await store.sync()).complete
        lie.on = hides.on = True
        ours.clock.advance(10)
        line = (await store.sync(full=True)).relays[0]
        assert not line.in_step
        assert line.pulled.missing == len(hides.withheld) > 0
        assert record.said("EVENT")[60:] != []


async def test_a_lie_about_what_it_lacks_costs_bytes_and_no_more(ours):
    """It claims to lack everything: that is sent again, at most once an hour, and refused as a duplicate."""
    lie = Answers("NEG-MSG", "$sub", "6100000200")
    async with ours.witness(lie) as record, ours.device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(20))
        await store.sync()
        ours.clock.advance(3_700)
        for expected in (20, 0, 0):
            forget_frames(record)
            await store.sync()
            assert len(record.said("EVENT")) == expected
        assert len((await contents(store))[0]) == 20


async def test_a_first_meeting_with_little_in_hand_walks(ours):
    """A fresh device asks for pages: naming every event to fetch would cost more than fetching them."""
    async with ours.witness() as record:
        async with ours.device(record.upstream) as other:
            await other.remember_many((f"key {number}", "value") for number in range(50))
            await other.sync()
        async with ours.device(record.url) as store:
            await store.remember("mine", "value")
            assert (await store.sync()).in_step
            assert record.said("NEG-OPEN") == []
            assert len((await contents(store))[0]) == 51


async def test_the_background_asks_for_what_is_new_once_it_has_compared(ours):
    async with ours.witness() as record, ours.device(record.url) as store:
        await store.remember("mine", "value")
        await store.sync()
        await store.sync()
        forget_frames(record)
        await parts_of(store).replication.pool().sync(SyncPlan(RelayQuestion.RECENT))
        assert record.said("NEG-OPEN") == []
        assert {frame[2].get("since") for frame in record.said("REQ")} == {
            ledger_of(store).relays.state(record.url).cursor
        }


# ── The overlap ─────────────────────────────────────────────────────────────────────────

FROM_CURSOR = SyncPlan(RelayQuestion.RECENT)  # as the background pulls


async def test_what_is_dated_since_the_cursor_is_compared_where_that_is_much(stage):
    """What is older is neither asked for nor sent again, and nothing is said of it."""
    async with (
        stage.witness() as record,
        stage.device(record.url) as store,
        stage.device(record.upstream) as other,
    ):
        await store.remember_many((f"old {number}", "value") for number in range(50))
        await store.sync()
        stage.clock.advance(9_000)
        await store.remember_many((f"key {number}", "value") for number in range(150))
        await store.sync()
        await store.sync()
        cursor = ledger_of(store).relays.state(record.url).cursor
        await other.sync()
        await other.remember("theirs", "value")
        await other.remember("key 7", "theirs")
        await other.sync()
        stage.clock.advance(10)
        mine = await store.remember("mine", "value")
        forget_frames(record)

        report = await parts_of(store).replication.pool().sync(FROM_CURSOR)
        assert report.in_step
        assert report.relays[0].served == {"new": 2}
        assert [frame[2]["since"] for frame in record.said("NEG-OPEN")] == [cursor]
        assert len(asked_by_id(record)) == 2
        assert record.published == [mine]
        forget_frames(record)
        assert (await parts_of(store).replication.pool().sync(FROM_CURSOR)).in_step
        assert [frame[2] for frame in record.heard("NEG-MSG")] == [IN_STEP]
        assert asked_by_id(record) == [mine]  # it is read back


async def test_what_the_relay_lost_of_the_overlap_shows_that_it_may_have_lost_everything(ours):
    """So all of it is compared and sent again, though only what is new was asked for: at once, and then once an hour."""
    async with ours.witness() as record, ours.device(record.url) as store:
        await store.remember_many((f"old {number}", "value") for number in range(50))
        ours.clock.advance(9_000)
        await store.remember_many((f"key {number}", "value") for number in range(150))
        await store.sync()
        for missing, held in ((200, 200), (150, 0)):
            async with ours.relay() as empty:
                record.proxy.upstream = empty
                await parts_of(store).replication.pool()._links[0]._hang_up()
                ours.clock.advance(60)
                (line,) = (await parts_of(store).replication.pool().sync(FROM_CURSOR)).relays
                assert not line.in_step
                assert line.pulled.missing == missing
                assert len(await ours.stored(empty)) == held
                if not held:
                    ours.clock.advance(3_700)
                    await store.sync()
                    assert len(await ours.stored(empty)) == 200
                assert (await store.sync()).in_step


async def test_what_another_program_wrote_into_the_overlap_is_fetched_once(ours):
    async with ours.witness() as record, ours.device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(150))
        await store.sync()
        await store.sync()
        await ours.put(record.upstream, await ours.event(tags=[("d", "another program's")]))
        for expected in (1, 0):
            forget_frames(record)
            assert (await parts_of(store).replication.pool().sync(FROM_CURSOR)).in_step
            assert len(asked_by_id(record)) == expected


async def test_a_relay_that_asks_for_authentication_compares_with_the_author(clock):
    async with EmbeddedRelay(clock=clock, require_auth=True) as relay:
        stage = Stage(clock, embedded)
        async with stage.device(relay.url) as store, stage.device(relay.url) as other:
            await store.remember("mine", "value")
            assert (await store.sync()).in_step
            await other.sync()
            await other.remember("theirs", "value")
            assert (await other.sync()).in_step
            report = await store.sync()
            assert report.in_step
            assert report.relays[0].served == {"new": 1}


# ── What is kept for the next time ──────────────────────────────────────────────────────


async def test_what_is_compared_is_kept_while_nothing_changes_and_shared_by_relays_alike(ours):
    async with ours.relay() as one, ours.relay() as two, ours.device(one, two) as store:
        await store.remember_many((f"key {number}", "value") for number in range(40))
        await store.sync()
        inventories = InventoryCache(ledger_of(store))
        _, kept = await inventories.items_for(one)
        assert [len(items) for items in kept.values()] == [40, 0]
        assert (await inventories.items_for(two))[1] is (await inventories.items_for(one))[1] is kept
        await store.remember("another", "value")
        fresh = (await inventories.items_for(one))[1]
        assert [len(items) for items in fresh.values()] == [41, 0]
        assert (await inventories.items_for(two))[1] is fresh
        assert len(inventories._items) == 1
