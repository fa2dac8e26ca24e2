"""D rows: forgetting."""

from __future__ import annotations

import json

import pytest

from relays.faults import Forge, Inject, Record, Rollback
from sense_memory.nostr.event import Unsigned


SLOT = "sense-memory/k"


def frame(event):
    return json.dumps(["EVENT", "$sub", event])


async def deletion(stage, at, *, signer=None):
    """A kind 5 for the address under test, by its owner unless told otherwise."""
    tags = (("a", f"30078:{stage.signer.public_key}:{SLOT}"), ("k", "30078"))
    unsigned = Unsigned(int(stage.clock()) + at, 5, tags, "")
    return json.loads((await (signer or stage.signer).sign(unsigned)).body())


async def test_d01_forgotten_stays_forgotten(stage):
    """The relay was away when the memory was forgotten, and serves it as if nothing had happened."""
    event = await stage.event("k", "secret", at=-60)
    async with stage.relay() as honest, stage.relay() as away:
        async with stage.store(honest, away, ledger="k.db") as store:
            await stage.put(away.url, event)
            await stage.sync(store)
            assert await store.recall("k")
        async with stage.store(honest, ledger="k.db") as store:
            await store.forget("k")
            await stage.sync(store)
            assert event["id"] not in {found["id"] for found in await stage.stored(honest.url)}

        async with stage.store(honest, away, ledger="k.db") as store:
            report = await stage.sync(store)
            assert report.relays[1].served["deleted"] >= 1
            assert await store.recall("k") is None
            assert event["id"] not in {found["id"] for found in await stage.stored(away.url)}
        async with stage.store(away, honest) as fresh:
            assert await fresh.recall("k") is None


async def test_d01_a_relay_that_lost_both_tombstone_and_deletion_is_healed(stage):
    """It said OK to both and came back from an older backup."""
    event = await stage.event("k", "secret", at=-60)
    async with stage.relay() as backup, stage.relay() as honest, stage.liar() as liar:
        current = liar.upstream
        await stage.put(backup.url, event)
        await stage.put(current, event)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)
            await store.forget("k")
            assert (await stage.sync(store)).in_step
        assert event["id"] not in {found["id"] for found in await stage.stored(current)}

        liar.upstream = backup.url
        stage.clock.advance(3_601)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)
            assert await store.recall("k") is None
        assert event["id"] not in {found["id"] for found in await stage.stored(backup.url)}
        assert 5 in {found["kind"] for found in await stage.stored(backup.url)}


async def test_d01_a_relay_that_keeps_serving_it_is_never_believed(stage):
    event = await stage.event("k", "secret", at=-60)
    record, lie = Record(), Rollback([event])
    lie.on = False
    async with (
        stage.liar(record, lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, event)
        await stage.sync(store)
        await store.forget("k")
        lie.on = True
        for _ in range(3):
            await stage.sync(store, full=True)
            stage.clock.advance(60)
            assert await store.recall("k") is None
            assert store.status().counts["heads"] == 0
        assert len(record.published) == 2  # the tombstone and its kind 5; healing waits for an hour
        stage.clock.advance(3_601)
        for _ in range(2):
            await stage.sync(store, full=True)
            assert await store.recall("k") is None
        assert len(record.published) == 4
        assert event["id"] not in {found["id"] for found in await stage.stored(honest.url)}


async def test_d02_unsigned_or_foreign_kind5_is_ignored(stage):
    event = await stage.event("k", "alive", at=-60)
    stranger = await deletion(stage, 0, signer=stage.stranger)
    forge = Forge("sig")
    forge.plant(7)
    unsigned = forge.altered(await deletion(stage, 0))
    claimed = {**stranger, "pubkey": stage.signer.public_key}
    async with (
        stage.liar(Inject(*map(frame, (stranger, unsigned, claimed)), kind=5)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, event, stranger)
        for _ in range(2):
            line = (await stage.sync(store, full=True)).relays[0]
            assert line.pulled.invalid == 2
            assert line.pulled.over_delivered == 1
        assert (await store.recall("k")).event_id == event["id"]
        assert store.status().counts["deletions"] == 0
        assert [found["id"] for found in await stage.stored(honest.url)] == [event["id"]]


async def test_d04_late_older_kind5_does_not_lower_mark(stage):
    """Deleted at T2 and, as is heard later, at T1 before: what was written in between stays deleted."""
    early, late = await deletion(stage, -100), await deletion(stage, -10)
    between = await stage.event("k", "between", at=-50)
    after = await stage.event("k", "after", at=-5)
    lie = Inject(frame(early), kind=5)
    old = Rollback([between], beside=True)
    lie.on = old.on = False
    async with (
        stage.liar(lie, old) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, late)
        await stage.sync(store)

        lie.on = old.on = True
        line = (await stage.sync(store, full=True)).relays[0]
        assert line.served["deleted"] >= 1
        assert await store.recall("k") is None
        assert store._ledger.mark(SLOT) == late["created_at"]

        lie.on = old.on = False
        await stage.put(liar.upstream, after)
        await stage.sync(store)
        assert (await store.recall("k")).event_id == after["id"]


@pytest.mark.parametrize("late", [False, True], ids=["the tombstone comes first", "the memory comes first"])
async def test_d01_a_tombstone_alone_is_enough(stage, late):
    """A relay that lost the kind 5, or never took it: nothing of the memory is kept here, in either order."""
    event = await stage.event("k", "secret", at=-60)
    grave = await stage.event("k", at=-10, inside={"type": "sense-memory:tombstone", "value": ""})
    order = (event, grave) if late else (grave, event)
    async with (
        stage.liar(Inject(*map(frame, order), kind=30078)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.sync(store)
        await stage.sync(store, full=True)
        assert await store.recall("k") is None
        assert {json.loads(body)["id"] for body in store._ledger.bodies()} == {grave["id"]}
        assert [found["id"] for found in await stage.stored(honest.url)] == [grave["id"]]
