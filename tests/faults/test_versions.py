"""V rows: versions, races and rollback."""

from __future__ import annotations

import json

import pytest

from relays.faults import NoNegentropy, Record, Rollback, SplitView, Withhold
from tests.inside import ledger_of


def slot(key):
    return f"sense-memory/{key}"


def versions(store, key):
    return [stored.event() for stored in ledger_of(store).versions(slot(key))]


async def test_v01_old_version_never_replaces_newer(stage):
    """Within the run, after a restart, and on a device that never saw the old version; healed once an hour."""
    first = await stage.event("k", "one", at=-120)
    record, lie = Record(), Rollback([first])
    lie.on = False
    async with stage.liar(record, lie) as liar, stage.relay() as honest:
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.put(liar.upstream, first)
            await stage.sync(store)
            await store.remember("k", f"{stage.plaintext} two")
            newest = await store.remember("k", f"{stage.plaintext} three")
            assert (await stage.sync(store)).in_step
            assert record.published == [newest]

            lie.on = True
            stage.clock.advance(3_601)
            for _ in range(2):
                await stage.sync(store, full=True)
                assert (await store.recall("k")).event_id == newest
            assert record.published == [newest] * 2

        async with stage.store(liar, honest, ledger="k.db") as store:
            stage.clock.advance(60)
            await stage.sync(store, full=True)
            assert (await store.recall("k")).event_id == newest
            assert len(versions(store, "k")) == 3
        assert record.published == [newest] * 2

        async with stage.store(honest, liar) as fresh:
            await stage.sync(fresh)
            assert (await fresh.recall("k")).event_id == newest
            line = (await stage.sync(fresh, full=True)).relays[1]
            assert line.served["known"] >= 1


async def test_v01_a_relay_that_is_behind_is_healed(stage):
    """A relay restored from a backup really has the old version only; it is given the new one."""
    async with stage.relay() as backup, stage.liar() as liar:
        current, liar.upstream = liar.upstream, backup.url
        async with stage.store(liar) as store:
            old = await store.remember("k", f"{stage.plaintext} one")
            await stage.sync(store)
        liar.upstream = current
        async with stage.store(liar, ledger="k.db") as store:
            await stage.put(current, *(await stage.stored(backup.url)))
            await stage.sync(store)
            new = await store.remember("k", f"{stage.plaintext} two")
            await stage.sync(store)
        assert [event["id"] for event in await stage.stored(current)] == [new]
        assert [event["id"] for event in await stage.stored(backup.url)] == [old]

        liar.upstream = backup.url
        stage.clock.advance(3_601)
        async with stage.store(liar, ledger="k.db") as store:
            line = (await stage.sync(store)).relays[0]
            assert line.served["known"] >= 1
            assert (await store.recall("k")).event_id == new
        assert [event["id"] for event in await stage.stored(backup.url)] == [new]


@pytest.mark.parametrize("first", [0, 1], ids=["a syncs first", "b syncs first"])
async def test_v02_same_second_lowest_id_wins_everywhere(stage, first):
    """Eight keys, so that either device loses some; the losing version stays with its writer."""
    keys = [f"k{number}" for number in range(8)]
    async with stage.relay() as relay:
        async with stage.store(relay) as a, stage.store(relay) as b:
            written = {}
            for key in keys:
                written[key] = [await store.remember(key, stage.plaintext) for store in (a, b)]
                ours, theirs = (versions(store, key)[0] for store in (a, b))
                assert ours.created_at == theirs.created_at
            order = (a, b) if first == 0 else (b, a)
            for store in (*order, *order):
                await stage.sync(store)

            for key in keys:
                winner = min(written[key])
                for store, own in zip((a, b), written[key], strict=True):
                    assert (await store.recall(key)).event_id == winner
                    assert {winner, own} <= {version.id for version in versions(store, key)}
            assert {event["id"] for event in await stage.stored(relay.url)} == {
                min(pair) for pair in written.values()
            }
        async with stage.store(relay) as third:
            await stage.sync(third)
            assert {memory.event_id for memory in await third.recall_all()} == {
                min(pair) for pair in written.values()
            }


async def test_v09_lost_ledger_restores(stage):
    """Three relays, each of which lacks another third: together they still hold everything."""
    names = {f"k{number}": number % 3 for number in range(30)}
    thirds = [
        Withhold(lambda event, third=third: names[event["tags"][0][1].removeprefix(slot(""))] == third)
        for third in range(3)
    ]
    records = [Record() for _ in range(3)]
    async with (
        stage.liar(records[0], thirds[0]) as one,
        stage.liar(records[1], thirds[1]) as two,
        stage.liar(records[2], thirds[2]) as three,
    ):
        async with stage.store(one, two, three) as store:
            await store.remember_many((name, f"{stage.plaintext} {name}") for name in names)
            assert (await stage.sync(store)).in_step
            marks = {name: ledger_of(store).mark(slot(name)) for name in names}

        async with stage.store(one, two, three, ledger="restored.db") as store:
            report = await stage.sync(store)
            assert [len(third.withheld) for third in thirds] == [10, 10, 10]
            assert {memory.key: memory.value for memory in await store.recall_all()} == {
                name: f"{stage.plaintext} {name}" for name in names
            }
            assert report.in_step
            assert [line.waiting for line in report.relays] == [0, 0, 0]
            assert {name: ledger_of(store).mark(slot(name)) for name in names} == marks


async def test_thirty_edits_in_a_second_then_forget_and_remember_leave_the_truth(stage):
    """Another device that follows along, and one that comes late, see the last word and nothing else."""
    async with (
        stage.relay() as relay,
        stage.store(relay) as writer,
        stage.store(relay) as follower,
    ):
        for number in range(30):
            await writer.remember("k", f"{stage.plaintext} {number}")
            if number % 10 == 0:
                await stage.sync(writer)
                await stage.sync(follower)
        await writer.forget("k")
        last = await writer.remember("k", f"{stage.plaintext} again")
        await stage.sync(writer)
        await stage.sync(follower)

        for store in (writer, follower):
            assert [memory.event_id for memory in await store.recall_all()] == [last]
        async with stage.store(relay) as late:
            assert (await late.recall("k")).value == f"{stage.plaintext} again"
        stored = await stage.stored(relay.url, kinds=[30078])
        assert [event["id"] for event in stored] == [last]
        assert stored[0]["created_at"] - stage.clock() <= 31


async def test_a_memory_forgotten_and_remembered_in_one_second_stays_forgotten_in_between(stage):
    """The version from before the deletion is served late: it stays deleted, the later one lives."""
    async with stage.relay() as relay, stage.store(relay) as writer:
        await writer.remember("k", f"{stage.plaintext} before")
        before = json.loads(versions(writer, "k")[0].body())
        await writer.forget("k")
        last = await writer.remember("k", f"{stage.plaintext} after")
        await stage.sync(writer)
        async with (
            stage.liar(Rollback([before], beside=True)) as liar,
            stage.store(relay, liar) as store,
        ):
            await stage.sync(store)
            await stage.sync(store)
            assert [version.id for version in versions(store, "k")] == [last]


async def test_v05_split_view(stage):
    """A relay that shows each connection another half: what a device has seen stays, and the rest comes."""
    events = [await stage.event(f"k{number}", at=-number) for number in range(10)]
    halves = {event["id"]: number % 2 for number, event in enumerate(events)}
    split = SplitView(lambda connection, event: halves.get(event["id"]) == connection % 2)
    async with stage.liar(split, NoNegentropy()) as liar, stage.relay() as honest:
        await stage.put(liar.upstream, *events)
        for device in ("a.db", "b.db"):
            async with stage.store(liar, ledger=device) as store:
                await stage.sync(store)
                assert len(await store.recall_all()) == 5
        for device in ("a.db", "b.db"):
            async with stage.store(liar, honest, ledger=device) as store:
                await stage.sync(store)
                await stage.sync(store)
        async with stage.store(honest, ledger="c.db") as store:
            assert {memory.event_id for memory in await store.recall_all()} == set(halves)
