"""R-23: a relay that hides the journal's kind from clients that it does not know, as strfry does since July 2026."""

from __future__ import annotations

import asyncio

import pytest

from relays.faults import Fault, FaultyRelay, HidesKinds, Pause, Record
from sense_memory import NotSynced
from sense_memory.interfaces.harness.hooks import session_start
from sense_memory.limits import BACKGROUND_SECONDS
from sense_memory.relay.sync.reports import RelayReport
from sense_memory.relay.sync.walk import GAP, HIDDEN, PullResult
from tests.inside import parts_of


SIZES = [(1, 0), (1, 1), (30, 20)]
HIDING = ["no challenge", "refused"]


class Strfry:
    """A relay that hides kind 4, with an honest one behind it."""

    def __init__(self, stage, **options) -> None:
        self.stage, self.hides, self.record = stage, HidesKinds(4, **options), Record()

    async def __aenter__(self):
        self._behind = self.stage.relay()
        self.behind = (await self._behind.__aenter__()).url
        self._proxy = FaultyRelay(self.behind, self.record, self.hides, negentropy=True)
        self.url = (await self._proxy.__aenter__()).url
        return self

    async def __aexit__(self, *error) -> None:
        await self._proxy.__aexit__(*error)
        await self._behind.__aexit__(*error)

    async def held(self):
        """How many memories and entries it has."""
        return [len(await self.stage.stored(self.behind, kinds=[kind], limit=5_000)) for kind in (30078, 4)]


async def write(store, memories, entries):
    await store.remember_many((f"key {number}", "value") for number in range(memories))
    for number in range(entries):
        await store.journal(f"entry {number}")


async def contents(store):
    return len(await store.recall_all()), len(await store.recent(100))


@pytest.mark.virtual_time
@pytest.mark.parametrize("auth", HIDING)
@pytest.mark.parametrize(("memories", "entries"), SIZES)
async def test_r23_everything_is_sent_and_nothing_is_called_in_step(stage, auth, memories, entries):
    async with Strfry(stage, auth=auth) as relay:
        async with stage.store(relay) as store:
            await write(store, memories, entries)
            for _ in range(3):
                (line,) = (await stage.sync(store)).relays
                assert (line.held_back, line.waiting, line.pulled.missing) == (False, 0, 0)
                assert (line.pulled.reasons, line.in_step, line.complete) == ((HIDDEN,), False, False)
            (state,) = store.status().relays
            assert [remark for remark in state.remarks if "hides journal entries" in remark]
            assert not [remark for remark in state.remarks if "accepted" in remark]
            assert not state.is_forgetful
        assert await relay.held() == [memories, entries]

        async with stage.store(relay) as bare:
            for _ in range(2):
                assert not (await stage.sync(bare)).in_step
            assert len(await bare.recall_all()) == memories
            assert await bare.recall("no such key") is None  # of memories it has shown everything
            with pytest.raises(NotSynced, match="hides journal entries"):
                await bare.recent()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("memories", "entries"), SIZES)
@pytest.mark.parametrize("compares", [False, True])
async def test_r23_a_relay_that_authenticates_shows_the_journal(stage, compares, memories, entries):
    """strfry authenticates for requests, and leaves the kind out of comparisons all the same."""
    async with Strfry(stage, auth="works", compares=compares) as relay:
        async with stage.store(relay) as store:
            await write(store, memories, entries)
            for _ in range(3):
                (line,) = (await stage.sync(store)).relays
                assert (line.in_step, line.pulled.missing) == (True, 0), line
            assert store.status().relays[0].remarks == ()
            assert relay.record.published == sorted(
                set(relay.record.published), key=relay.record.published.index
            )
        async with stage.store(relay) as bare:
            for _ in range(2):
                assert (await stage.sync(bare)).in_step
            assert await contents(bare) == (memories, entries)


@pytest.mark.virtual_time
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("compares", [True, False])
async def test_r23_an_entry_that_arrives_long_after_its_date_is_fetched_as_a_memory_is(
    stage, counts, compares
):
    hides = {"auth": "works", "compares": compares, "counts": counts}
    async with Strfry(stage, **hides) as relay, stage.store(relay) as store:
        await write(store, 30, 3)
        await stage.sync(store)
        async with stage.store(relay, ledger="late.db") as late:
            await write(late, 1, 1)
        stage.clock.advance(20_000)
        await store.remember("now", stage.plaintext)
        await store.journal(f"{stage.plaintext} now")
        for _ in range(2):
            assert (await stage.sync(store)).in_step
        async with stage.store(relay, ledger="late.db") as late:
            await late.sync()

        assert (await stage.sync(store)).in_step
        assert len(await store.recent()) == 5


@pytest.mark.virtual_time
async def test_r23_entries_of_any_age_arrive_once_the_relay_shows_them(stage):
    """The cursor has moved with the memories meanwhile, far beyond the hidden entries."""
    async with Strfry(stage) as relay, stage.store(relay) as store, stage.store(relay.behind) as other:
        await store.remember("k", stage.plaintext)
        await other.journal("hidden")
        await other.sync()
        for _ in range(3):
            stage.clock.advance(20_000)
            await store.remember("k", f"{stage.plaintext} {stage.clock.now}")
            assert not (await stage.sync(store)).in_step
        relay.hides.on = False
        assert (await stage.sync(store)).in_step
        assert len(await store.recent()) == 1
        assert store.status().relays[0].remarks == ()
        relay.hides.on = True
        assert not (await stage.sync(store)).in_step
        assert len(await store.recent()) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("compares", [True, False])
async def test_r23_entries_that_a_relay_accepted_and_omits_without_a_word_are_not_in_step(stage, compares):
    async with Strfry(stage, says_so=False) as relay, stage.store(relay) as store:
        relay._proxy.negentropy = compares
        await write(store, 30, 5)
        await stage.sync(store)
        for _ in range(3):
            (line,) = (await stage.sync(store)).relays
            assert (line.in_step, line.pulled.missing) == (False, 5)
            stage.clock.advance(3_700)


@pytest.mark.virtual_time
@pytest.mark.parametrize("auth", ["works", "refused"])
async def test_r23_a_watcher_hears_of_memories_and_of_the_journal_where_it_is_shown(stage, auth):
    heard = []

    async def listen(store):
        async for change in store.watch():
            heard.append(change.path)  # noqa: PERF401 - it never ends

    async with (
        Strfry(stage, auth=auth) as relay,
        stage.store(relay.behind) as other,
        stage.store(relay) as store,
    ):
        watcher = asyncio.create_task(listen(store))
        await stage.until(lambda: len(relay.record.said("REQ")) > 4)
        await stage.passes(5)
        await other.journal(f"{stage.plaintext} entry")
        await other.remember("k", stage.plaintext)
        await other.sync()
        await stage.until(lambda: len(heard) == 1 + (auth == "works"))
        watcher.cancel()
    assert "k" in heard


@pytest.mark.virtual_time
async def test_r23_a_hidden_journal_makes_no_relay_wait_or_count_as_incomplete(stage):
    """The background asks as often as elsewhere, and what waits for a complete pull goes on."""
    async with Strfry(stage) as relay, stage.store(relay) as store:
        watcher = asyncio.create_task(anext(store.watch()))
        await stage.passes(600)
        watcher.cancel()
        await asyncio.wait([watcher])
        pulls = [one for one in relay.record.said("REQ") if 30078 in one[2]["kinds"] and one[2]["limit"] > 1]
        assert len(pulls) >= 600 / BACKGROUND_SECONDS - 1
        assert parts_of(store).replication.pool()._links[0].last_pull_complete


class HoldsBackJournal(Fault):
    """Takes a second to open the live subscription of the journal."""

    def from_relay(self, frame, talk):
        if frame[0] == "EOSE" and talk.filters[frame[1]][0]["kinds"] == [4]:
            yield Pause(1)
        yield frame


@pytest.mark.virtual_time
async def test_nothing_is_pulled_before_the_live_subscription_of_the_journal_is_open(stage):
    record = Record()
    async with stage.relay() as behind, FaultyRelay(behind.url, record, HoldsBackJournal()) as relay:
        stage.honest.clear()
        async with stage.store(relay) as store:
            watcher = asyncio.create_task(anext(store.watch()))
            await stage.until(lambda: len(record.said("REQ")) > 2)
            watcher.cancel()
            await asyncio.wait([watcher])
    told = [(who, frame[0]) for who, frame in record.frames if frame[0] in {"REQ", "EOSE"}]
    assert told[:5] == [*[("client", "REQ")] * 2, *[("relay", "EOSE")] * 2, ("client", "REQ")]


@pytest.mark.virtual_time
async def test_r23_a_session_of_a_harness_begins_with_the_palace_although_the_journal_is_hidden(stage):
    async with Strfry(stage) as relay, stage.store(relay) as store:
        await store.persona_remember("world", "facts", "k", stage.plaintext)
        await stage.sync(store)
        assert stage.plaintext in await session_start(store, stage.clock())


@pytest.mark.virtual_time
async def test_r23_what_is_deleted_beside_a_hidden_journal_is_deleted(stage):
    async with Strfry(stage) as relay:
        async with stage.store(relay) as store:
            await write(store, 5, 2)
            await stage.sync(store)
            await store.forget("key 3")
            await stage.sync(store)
        async with stage.store(relay) as bare:
            await stage.sync(bare)
            assert [memory.key for memory in sorted(await bare.recall_all(), key=lambda one: one.key)] == [
                f"key {number}" for number in (0, 1, 2, 4)
            ]


@pytest.mark.virtual_time
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("auth", ["works", "refused"])
async def test_r23_a_relay_that_was_set_back_gets_the_entries_too_although_it_hides_them(stage, auth, full):
    """The loss of an entry cannot be seen there; the loss of memories can, and a relay answers twice sent entries with OK."""
    async with Strfry(stage, auth=auth) as relay, stage.relay() as backup:
        async with stage.store(relay, ledger="k.db") as store:
            await write(store, 5, 3)
            await stage.sync(store)
            await stage.put(backup.url, *await stage.stored(relay.behind, limit=5_000))
            stage.clock.advance(86_400)
            await store.remember("k", stage.plaintext)
            await store.journal(f"{stage.plaintext} since the backup")
            await stage.sync(store)
        stage.clock.advance(3_700)
        relay._proxy.upstream = relay.behind = backup.url

        async with stage.store(relay, ledger="k.db") as store:
            (line,) = (await stage.sync(store, full=full)).relays
            assert (line.pulled.missing, line.waiting) == (1 + (auth == "works"), 0)
            assert await relay.held() == [6, 4]
            sent = len(relay.record.published)
            for _ in range(2):
                stage.clock.advance(3_700)
                (line,) = (await stage.sync(store)).relays
                assert (line.pulled.missing, line.in_step) == (0, auth == "works")
            assert len(relay.record.published) == sent


@pytest.mark.virtual_time
async def test_a_relay_that_refuses_everything_hides_nothing_in_particular(stage):
    async with Strfry(stage) as relay, stage.store(relay) as store:
        relay.hides.kinds = frozenset({4, 5, 30078})
        await store.remember("k", stage.plaintext)
        (line,) = (await stage.sync(store)).relays
        assert HIDDEN not in line.pulled.reasons
        assert line.held_back
        assert await relay.held() == [0, 0]


@pytest.mark.parametrize(
    ("facts", "in_step", "but_hidden"),
    [
        ({}, True, True),
        ({"pulled": PullResult((HIDDEN,))}, False, True),
        ({"pulled": PullResult((HIDDEN,), missing=1)}, False, False),
        ({"pulled": PullResult((HIDDEN, GAP))}, False, False),
        ({"pulled": PullResult((HIDDEN,)), "waiting": 1}, False, False),
        ({"pulled": PullResult((HIDDEN,)), "refused": 1}, False, False),
        ({"pulled": PullResult((HIDDEN,)), "serves_deleted": True}, False, False),
        ({"pulled": PullResult((HIDDEN,)), "problem": "connection lost"}, False, False),
        ({"asked": False}, False, False),
    ],
)
def test_a_report_of_a_relay_that_hides_the_journal(facts, in_step, but_hidden):
    report = RelayReport("wss://relay.example/", **facts)
    assert (report.in_step, report.in_step_but_hidden) == (in_step, but_hidden)
