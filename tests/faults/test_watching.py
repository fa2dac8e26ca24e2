"""Watching in virtual time: how often a flapping relay is dialled, and an hour in which nothing happens."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise

import pytest

from relays.faults import CloseEvery, Fault, FaultyRelay, NoEose, Record
from sense_memory.memories import watch as watching_module
from sense_memory.relay.client.connection import RelayConnection
from tests.inside import ledger_of


@pytest.fixture(autouse=True)
def _seldom_looks(monkeypatch):
    monkeypatch.setattr(watching_module, "WATCH_SECONDS", 30.0)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("n", "works", "watches"),
    [
        (1, False, False),
        (1, True, True),
        (2, False, True),
        (2, True, False),
        (3, True, True),
        (6, True, False),
    ],
)
async def test_r18_a_relay_that_keeps_hanging_up_is_not_stormed(stage, n, works, watches, monkeypatch):
    """An hour of a relay that hangs up after every n messages: 80 dials at most, whoever watches and writes.

    With nothing to do, no minute is a hurried one; with much to fetch and to send, work is done all the same.
    """
    dials = []
    dial = RelayConnection.open

    async def noted(connection):
        dials.append(asyncio.get_running_loop().time())
        return await dial(connection)

    monkeypatch.setattr(RelayConnection, "open", noted)
    async with stage.relay() as behind, FaultyRelay(behind.url, CloseEvery(n)) as relay:
        stage.honest.clear()
        if works:
            await stage.put(
                behind.url, *[await stage.event(f"t{number}", at=-number) for number in range(30)]
            )
        async with stage.store(relay, background=True) as store:
            watch = asyncio.create_task(anext(store.watch())) if watches else None
            for minute in range(60):
                if works and minute < 30:
                    await store.remember(f"k{minute}", stage.plaintext)
                await stage.passes(60)
            if watch is not None:
                watch.cancel()
                await asyncio.wait([watch])
            held = len(list(ledger_of(store).bodies()))
        delivered = len(await stage.stored(behind.url))
    minutes = [sum(start <= one < start + 60 for one in dials) for start in range(0, 3_600, 60)]
    assert len(dials) <= 80
    assert max(later - sooner for sooner, later in pairwise([*dials, 3_600])) <= 600 * 1.2 + 1
    if works:
        assert (held, delivered) == (60, 60) or n == 1
    else:
        assert max(minutes) <= 10


def is_live(frame):
    """Whether a REQ opens a live subscription, apart from its second REQ, for the journal."""
    return frame[2].get("limit") == 1 and 30078 in frame[2]["kinds"]


@pytest.mark.virtual_time
async def test_a_quiet_hour_of_watching_asks_for_a_subscription_once(stage):
    record = Record()
    async with stage.relay() as behind, FaultyRelay(behind.url, record) as relay, stage.store(relay) as store:
        watch = asyncio.create_task(anext(store.watch()))
        await stage.passes(3_600)
        live = [frame for frame in record.said("REQ") if is_live(frame)]
        async with stage.store(behind) as other:
            await other.remember("k", stage.plaintext)
            await other.sync()
        assert (await watch).value == stage.plaintext
    assert (len(live), len(relay.upgrades)) == (1, 1)


BURST = 300


class RefusesToBeWatched(Fault):
    """Opens no live subscription."""

    def from_client(self, frame, talk):
        if frame[0] == "REQ" and is_live(frame):
            talk.answer(["CLOSED", frame[1], "blocked: no live subscriptions"])
        else:
            yield frame


@pytest.mark.virtual_time
async def test_a_relay_that_refuses_the_subscription_is_not_asked_for_it_again_and_pulled_instead(stage):
    record = Record()
    async with (
        stage.relay() as behind,
        FaultyRelay(behind.url, record, RefusesToBeWatched()) as relay,
        stage.store(relay) as store,
    ):
        stage.honest.clear()
        watch = asyncio.create_task(anext(store.watch()))
        await stage.passes(600)
        live = [frame for frame in record.said("REQ") if is_live(frame)]
        assert (len(live), len(relay.upgrades)) == (1, 1)
        async with stage.store(behind) as other:
            await other.remember("k", stage.plaintext)
            await other.sync()
        assert (await watch).value == stage.plaintext


@pytest.mark.virtual_time
async def test_a_quiet_hour_after_a_burst_compares_it_and_fetches_a_sample_of_five(stage):
    """What is dated within the overlap is fetched with every pull, unless the relay compares (NIP-77)."""
    async with (
        stage.relay() as behind,
        FaultyRelay(behind.url, record := Record(), negentropy=True) as relay,
        stage.store(relay, background=True) as store,
        stage.store(behind) as other,
    ):
        await store.remember_many((f"k{number}", stage.plaintext) for number in range(BURST))
        await stage.passes(60)
        record.frames.clear()
        await stage.passes(3_600)
        cursor = ledger_of(store).relays.state(relay.url).cursor
        asked = record.said("NEG-OPEN")
        assert 100 <= len(asked) <= 121
        assert {frame[2]["since"] for frame in asked} == {cursor}
        asked = [frame[2] for frame in record.said("REQ") if frame[2]["kinds"] != [4]]
        assert [len(wanted["ids"]) for wanted in asked] == [5]
        assert len(record.heard("EVENT")) == 5

        record.frames.clear()
        theirs = await other.remember("theirs", stage.plaintext)
        await other.sync()
        await stage.passes(31)
        assert (await store.recall("theirs")).event_id == theirs
        asked = [frame[2] for frame in record.said("REQ") if frame[2]["kinds"] != [4]]
        assert [wanted["ids"] for wanted in asked] == [[theirs]]
        await stage.passes(31)
        assert ledger_of(store).relays.state(relay.url).cursor > cursor


@pytest.mark.virtual_time
async def test_a_quiet_hour_after_a_burst_fetches_it_seldom_where_the_relay_does_not_compare(stage):
    """What is dated after it, and what is written here, goes its way within half a minute all the same."""
    async with (
        stage.relay() as behind,
        FaultyRelay(behind.url, record := Record()) as relay,
        stage.store(relay, background=True) as store,
        stage.store(behind) as other,
    ):
        await store.remember_many((f"k{number}", stage.plaintext) for number in range(BURST))
        await stage.passes(60)
        record.frames.clear()
        await stage.passes(3_600)
        assert 8 * BURST <= len(record.heard("EVENT")) <= 20 * 2 * BURST  # some pages overlap by a second
        assert sum(len(json.dumps(frame)) for frame in record.heard("EVENT")) < 8_000_000

        await _until_fetched(stage, record)
        await other.remember("theirs", stage.plaintext)
        await other.sync()
        await stage.passes(31)
        assert (await store.recall("theirs")) is not None
        assert len(record.heard("EVENT")) < BURST
        ident = await store.remember("mine", stage.plaintext)
        await stage.passes(3)
        assert record.published == [ident]


@pytest.mark.virtual_time
async def test_what_comes_two_hours_late_is_found_though_newer_events_came_first(stage):
    """The next whole pull begins where the one before it set the cursor, not below what came since."""
    async with (
        stage.relay() as behind,
        FaultyRelay(behind.url, record := Record()) as relay,
        stage.store(relay, background=True) as store,
    ):
        await store.remember_many((f"k{number}", stage.plaintext) for number in range(BURST))
        await stage.passes(600)
        await _until_fetched(stage, record)
        await stage.put(behind.url, await stage.event("late", at=-7_195))
        for number in range(4):
            await stage.passes(30)
            await stage.put(behind.url, await stage.event(f"new {number}"))
        await stage.passes(31)
        assert (await store.recall("new 3")) is not None
        assert (await store.recall("late")) is None
        await stage.passes(300)
        assert (await store.recall("late")) is not None


async def _until_fetched(stage, record):
    """Let time pass until the burst was fetched once more, and forget what was said."""
    record.frames.clear()
    while len(record.heard("EVENT")) < BURST:
        await stage.passes(3)
    await stage.passes(3)
    record.frames.clear()


@pytest.mark.virtual_time
async def test_r03_a_relay_that_never_ends_its_answer_is_asked_again_with_each_round_only(stage):
    states = []
    async with stage.relay() as behind, FaultyRelay(behind.url, NoEose(), record := Record()) as relay:
        stage.honest.clear()
        async with stage.store(relay) as store:
            watch = asyncio.create_task(
                anext(store.watch(on_relay=lambda _, problem: states.append(problem)))
            )
            await stage.passes(3_600)
            watch.cancel()
            await asyncio.wait([watch])
    live = [frame for frame in record.said("REQ") if is_live(frame)]
    assert len(live) <= 60
    assert states == ["went silent; asked every 30 s"]
