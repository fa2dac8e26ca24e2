"""F rows: fresh devices, dead relays at the start, and new relays."""

from __future__ import annotations

import asyncio

import pytest

from relays.faults import Fault, FaultyRelay, NoNegentropy, Pause, Record, Stall
from sense_memory import NotSynced
from tests.inside import ledger_of


@pytest.mark.virtual_time
async def test_f01_fresh_device_never_overwrites(stage):
    """New ledger, slow relay, edits at once: they wait, and what the relay held is intact."""
    events = {key: await stage.event(key, "theirs", at=-60) for key in ("a", "b", "c")}
    record, slow = Record(), Stall(after=0)
    async with stage.liar(record, slow) as liar, stage.store(liar, timeouts=stage.quick) as store:
        await stage.put(liar.upstream, *events.values())
        ours = await store.remember("a", f"{stage.plaintext} ours")
        (line,) = (await stage.sync(store)).relays
        assert line.held_back
        assert record.published == []
        with pytest.raises(NotSynced):
            await store.recall("b")

        slow.on = False
        assert (await stage.sync(store)).in_step
        assert record.published == [ours]
        stored = {event["tags"][0][1]: event["id"] for event in await stage.stored(liar.upstream)}
        assert stored == {
            "sense-memory/a": ours,
            "sense-memory/b": events["b"]["id"],
            "sense-memory/c": events["c"]["id"],
        }
        assert (await store.recall("b")).event_id == events["b"]["id"]
        versions = [version.id.hex() for version in ledger_of(store).versions("sense-memory/a")]
        assert versions == [ours, events["a"]["id"]]


async def test_f01_a_read_on_a_fresh_device_asks_the_relays_first(stage):
    event = await stage.event("k", "there", at=-60)
    async with stage.relay() as relay:
        await stage.put(relay.url, event)
        for background in (False, True):
            async with stage.store(relay, background=background) as store:
                assert (await store.recall("k")).event_id == event["id"]
                assert await store.recall("never") is None


@pytest.mark.virtual_time
async def test_f01_a_read_waits_for_a_silent_relay_no_longer_than_it_was_told_to(stage):
    async with stage.liar(Stall(after=0)) as liar:
        for seconds in (0, 0.5, None):
            loop = asyncio.get_running_loop()
            async with stage.store(liar, background=True, read_timeout=seconds) as store:
                begun = loop.time()
                for read in (store.recall("k"), store.persona_recall("people"), store.recent()):
                    with pytest.raises(NotSynced):
                        await read
                waited = loop.time() - begun
            assert waited >= 5 if seconds is None else waited <= 3 * seconds + 0.5


async def test_f01_a_deletion_that_is_held_without_its_tombstone_is_an_answer(stage):
    """No relay ever answered; but whoever forgot it said so, and nothing newer is known: it is not there."""
    async with stage.store(ledger="other.db") as other:
        await other.remember("k", stage.plaintext)
        stage.clock.advance(1)
        await other.forget("k")
        other.export(stage.folder / "all.jsonl")
    lines = (stage.folder / "all.jsonl").read_text().splitlines()
    (stage.folder / "kind5.jsonl").write_text(next(line for line in lines if '"kind":5' in line))
    async with stage.store("ws://127.0.0.1:1", ledger="k.db") as store:
        with pytest.raises(NotSynced):
            await store.recall("k")
        await store.import_(stage.folder / "kind5.jsonl")
        assert await store.recall("k") is None
        with pytest.raises(NotSynced):
            await store.recall("l")
        stage.clock.advance(1)
        await store.remember("k", f"{stage.plaintext} again")
        assert (await store.recall("k")).value == f"{stage.plaintext} again"


async def test_f02_all_relays_down_at_start(stage):
    down = [FaultyRelay("ws://127.0.0.1:1"), FaultyRelay("ws://127.0.0.1:1")]
    for relay in down:
        async with relay:
            pass  # its port is known now, and closed
    for background in (False, True):
        async with stage.store(*down, ledger="k.db", background=background) as store:
            await store.remember("k", f"{stage.plaintext} one")
            await store.remember("k", f"{stage.plaintext} two")
            await store.remember("gone", stage.plaintext)
            await store.forget("gone")
            await store.journal(f"{stage.plaintext} entry")

            assert (await store.recall("k")).value == f"{stage.plaintext} two"
            assert await store.recall("gone") is None
            assert [memory.key for memory in await store.recall_all()] == ["k"]
            assert await store.recent()
            with pytest.raises(NotSynced, match="refused the connection"):
                await store.recall("elsewhere")

            report = await stage.sync(store)
            assert not report.complete
            assert [line.problem for line in report.relays] == ["refused the connection"] * 2
            status = store.status()
            assert [relay.problem for relay in status.relays] == ["refused the connection"] * 2
            assert [relay.last_complete for relay in status.relays] == [None, None]
            assert not status.is_replicated
            waiting = [relay.events["queued"] for relay in status.relays]
    assert waiting == [
        6,
        6,
    ]  # the last version, the last tombstone, and of each run its kind 5 and its journal


async def test_f03_new_relay_gets_backfill_not_authority(stage):
    """An empty relay says "nothing here" completely: it is filled, and nothing is taken for deleted."""
    async with stage.relay() as old, stage.relay() as new:
        async with stage.store(old, ledger="k.db") as store:
            await store.remember_many((f"k{number}", f"{stage.plaintext} 1") for number in range(20))
            await store.remember_many((f"k{number}", f"{stage.plaintext} 2") for number in range(10))
            await store.remember("gone", stage.plaintext)
            await stage.sync(store)
            await store.forget("gone")
            entry = await store.journal(stage.plaintext)
            await stage.sync(store)
            memories = await store.recall_all()

        async with stage.store(old, new, ledger="k.db") as store:
            line = (await stage.sync(store)).relays[1]
            assert line.pulled.received == 0
            assert await store.recall_all() == memories
            assert len(memories) == 20
            held = await stage.stored(new.url)
            expected = {memory.event_id for memory in memories} | {entry}
            assert expected <= {event["id"] for event in held}
            assert {event["kind"] for event in held if event["id"] not in expected} <= {5, 30078}
            assert "sense-memory/gone" not in {
                tag[1] for event in held for tag in event["tags"] if tag[0] == "d"
            }
        async with stage.store(new) as store:
            await stage.sync(store)
            assert await store.recall_all() == memories


async def test_more_than_a_thousand_memories_written_at_once_are_restored_whole(stage):
    pairs = {f"k{number}": f"{stage.plaintext} {number}" for number in range(1_250)}
    async with stage.relay() as relay:
        async with stage.store(relay) as store:
            await store.remember_many(pairs.items())
            assert (await stage.sync(store)).in_step
        async with stage.store(relay, ledger="restored.db") as store:
            report = await stage.sync(store)
            assert report.in_step
            assert (
                report.relays[0].served["new"] == 1_255
            )  # with the manifest, of four events, and the list of relays
            assert {memory.key: memory.value for memory in await store.recall_all()} == pairs


@pytest.mark.parametrize("compares", [True, False])
async def test_f04_relay_comes_back_empty(stage, compares):
    """A wiped relay: said how much is gone, filled again from the ledger, nothing here is taken for deleted."""
    record, plain = Record(), NoNegentropy()
    plain.on = not compares
    async with stage.relay() as wiped, stage.liar(record, plain) as liar, stage.relay() as honest:
        stage.honest.discard(wiped.url)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await store.remember_many((f"k{number}", f"{stage.plaintext} {number}") for number in range(30))
            await store.remember("gone", stage.plaintext)
            await store.forget("gone")
            entry = await store.journal(stage.plaintext)
            await stage.sync(store)
            await stage.sync(store)
            memories = await store.recall_all()
            before = {event["id"] for event in await stage.stored(liar.upstream)}

        liar.upstream = wiped.url
        stage.clock.advance(3_601)
        record.frames.clear()
        async with stage.store(liar, honest, ledger="k.db") as store:
            line, _ = (await stage.sync(store, full=True)).relays
            assert line.pulled.missing == len(before) == 32
            assert line.sent == {"accepted": 32}
            assert not line.in_step  # its word was worth nothing once; the next pull shows whether it is now
            assert await store.recall_all() == memories
            assert await store.recall("gone") is None
            stage.clock.advance(60)
            line, _ = (await stage.sync(store, full=True)).relays
            assert line.pulled.missing == 0
            assert line.sent == {}
            assert line.in_step
        assert {event["id"] for event in await stage.stored(wiped.url)} == before
        assert entry in before


class Slow(Fault):
    """Each message of the relay takes a second."""

    def from_relay(self, frame, talk):
        yield Pause(1.0)
        yield frame


@pytest.mark.virtual_time
@pytest.mark.parametrize("after", [0.0, 1.0])
async def test_f05_a_fast_empty_relay_does_not_speak_for_a_slow_one(stage, after):
    event = await stage.event("k", "there", at=-60)
    async with stage.relay() as empty, stage.liar(Slow()) as slow:
        await stage.put(slow.upstream, event)
        async with stage.store(empty, slow, background=True) as store:
            await stage.passes(after)
            assert (await store.recall("k")).event_id == event["id"]
            # It need not wait for the end of the slow one's answers.
            assert asyncio.get_running_loop().time() < 10


@pytest.mark.virtual_time
async def test_f05_a_read_waits_a_few_seconds_for_a_silent_relay_and_the_status_names_it(stage):
    time = asyncio.get_running_loop().time
    async with (
        stage.relay() as empty,
        stage.liar(Stall(after=0)) as silent,
        stage.store(empty, silent, background=True) as store,
    ):
        assert store.relays.were_ever_complete() is store.status().was_ever_complete is False
        assert await store.recall("k") is None
        assert 4 < time() < 6
        assert store.relays.were_ever_complete() is store.status().was_ever_complete is True
        assert store.status().never_complete == (silent.url,)
        begun = time()
        assert await store.recall("l") is None  # that was enough waiting
        assert time() == begun


@pytest.mark.virtual_time
async def test_f05_a_relay_that_talks_for_ever_is_not_waited_for_as_long(stage):
    """One event a second without an end: a read goes on after twenty, from the relay that is empty."""
    async with stage.relay() as empty, stage.liar(Slow()) as talks:
        await stage.put(
            talks.upstream, *[await stage.event(f"k{number}", at=-number) for number in range(60)]
        )
        async with stage.store(empty, talks, background=True) as store:
            assert await store.recall("elsewhere") is None
            assert 19 < asyncio.get_running_loop().time() < 22
            assert store.status().never_complete == (talks.url,)
