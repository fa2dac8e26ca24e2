"""Rewriting one key again and again: nothing is dated more than a second ahead, nothing is lost, one text leaves."""

from __future__ import annotations

import asyncio

import pytest

from relays.faults import Record, SwallowPublish
from sense_memory.limits import MAX_EVENTS_PER_SECOND_COUNT
from tests.inside import ledger_of


async def flat(store, value):
    await store.remember("k", value)


async def palace(store, value):
    await store.persona_remember("people", "facts", "k", value)


async def texts(store):
    """What a device shows at both places."""
    memories = [*await store.recall_all(), *await store.persona_recall(include_forgotten=True)]
    return {memory.value for memory in memories}


EDITS = pytest.mark.parametrize("edit", [flat, palace])


@EDITS
@pytest.mark.parametrize("ends", ["rewritten", "forgotten", "forgotten and written again"])
async def test_what_another_device_says_two_seconds_after_a_hundred_rewrites_counts(stage, edit, ends):
    async with stage.relay() as relay, stage.store(relay) as one, stage.store(relay) as two:
        await edit(one, "to begin with")
        await stage.sync(one)
        await stage.sync(two)
        stage.clock.advance(10)
        for number in range(100):
            await edit(one, f"number {number}")
        if ends != "rewritten":
            await (one.forget("k") if edit is flat else one.persona_forget("people", "facts", "k"))
        if ends == "forgotten and written again":
            await edit(one, "again")
        stage.clock.advance(2)
        await edit(two, "said later")
        for store in (one, two, one):
            await stage.sync(store)

        assert "said later" in await texts(one)
        assert await texts(one) == await texts(two)
        if edit is flat:
            assert await texts(one) == {"said later"}


@EDITS
async def test_what_is_forgotten_and_written_again_all_the_time_does_not_run_ahead_either(stage, edit):
    async with stage.relay() as relay, stage.store(relay) as one, stage.store(relay) as two:
        await edit(one, "to begin with")
        await stage.sync(one)
        await stage.sync(two)
        stage.clock.advance(10)
        for number in range(100):
            await edit(one, f"number {number}")
            await (one.forget("k") if edit is flat else one.persona_forget("people", "facts", "k"))
            assert await texts(one) == set()
        stage.clock.advance(2)
        await edit(two, "said later")
        for store in (one, two, one):
            await stage.sync(store)
        assert await texts(one) == await texts(two) == {"said later"}


async def test_what_is_forgotten_together_can_be_written_and_forgotten_again_at_once(stage, tmp_path):
    """One of them was given away, so its tombstone is dated a second later, and the request for both is too."""
    async with stage.relay() as relay, stage.store(relay) as one, stage.store(relay) as two:
        await one.remember("given", "away")
        one.export(tmp_path / "given")
        for number in range(20):
            await one.remember_many({"given": f"{number}", "kept": f"{number}"})
            await one.forget_many(["kept", "given"])
            await one.remember("kept", "again")
            await one.forget("kept")
            assert await one.recall("kept") is None
        await one.remember("kept", "in the end")
        stage.clock.advance(3)
        await two.remember_many({"given": "later", "kept": "later"})
        for store in (one, two, one):
            await stage.sync(store)
        assert await texts(one) == await texts(two) == {"later"}


async def test_a_full_second_of_memories_is_forgotten_and_written_again_at_once(stage):
    pairs = {f"key {number}": "text" for number in range(MAX_EVENTS_PER_SECOND_COUNT)}
    async with stage.store() as store:
        for _ in range(2):
            await store.remember_many(pairs)
            await asyncio.wait_for(store.forget_many(pairs), 30)
        assert await store.recall_all() == []
        await store.remember_many(pairs)
        assert len(await store.recall_all()) == len(pairs)


@EDITS
async def test_every_text_of_a_second_stays_in_history_and_only_the_last_leaves(stage, edit, tmp_path):
    key = "k" if edit is flat else "people/facts/k"
    async with stage.relay() as first, stage.relay() as second:
        async with stage.store(first, ledger="k.db") as store:
            for number in range(30):
                await edit(store, str(number))
            await stage.sync(store)
            await stage.sync(store, full=True)
            assert [version.value for version in await store.history(key)] == [
                str(n) for n in range(29, -1, -1)
            ]
            count = store.export(tmp_path / "export.jsonl")
        async with stage.store(first, second, ledger="k.db") as store:
            await stage.sync(store, full=True)
            assert len(await store.history(key)) == 30
        async with stage.store(ledger="imported.db") as other:
            await other.import_(tmp_path / "export.jsonl")
            assert await texts(other) == {"29"}

        assert count == 1
        for relay in (first, second):
            (event,) = await stage.stored(relay.url)
            assert event["created_at"] == int(stage.clock())


@pytest.mark.parametrize("way", ["sent without an answer", "exported", "sent by another process"])
async def test_what_was_handed_out_keeps_its_second(stage, tmp_path, way):
    """Whether or not anybody has it: of two of one second relays would keep any."""
    silent = SwallowPublish(stores=False)
    async with stage.liar(silent) as lost, stage.relay() as relay:
        store = stage.store(
            lost if way == "sent without an answer" else relay, ledger="k.db", timeouts=stage.quick
        )
        async with store:
            await store.remember("k", "one")
            if way == "exported":
                store.export(tmp_path / "export.jsonl")
            elif way == "sent by another process":
                async with stage.store(relay, ledger="k.db") as other:
                    await stage.sync(other)
            else:
                await store.sync()
        async with stage.store(relay, ledger="k.db") as store:
            await store.remember("k", "two")
            first, second = reversed(ledger_of(store).versions("sense-memory/k"))
            assert second.created_at == first.created_at + 1
            await store.remember("k", "three")
            assert len({stored.created_at for stored in ledger_of(store).versions("sense-memory/k")}) == 2
            await stage.sync(store)
            assert [event["created_at"] for event in await stage.stored(relay.url)] == [second.created_at]
            assert (await store.recall("k")).value == "three"


@pytest.mark.virtual_time
async def test_a_key_that_is_rewritten_all_the_time_is_sent_once_a_second_and_never_before_it(stage):
    record = Record()
    async with stage.liar(record) as relay, stage.store(relay, background=True) as store:
        for number in range(100):
            await store.remember("counter", str(number))
            now = int(stage.clock())
            assert all(
                stored.created_at <= now + 1 for stored in ledger_of(store).versions("sense-memory/counter")
            )
            await stage.passes(0.1)
        await stage.passes(2)

        seconds = [frame[1]["created_at"] for frame in record.said("EVENT")]
        assert seconds == sorted(set(seconds))
        assert 5 <= len(seconds) <= 13
        assert ledger_of(store).outbox.counts(relay.url).get("queued", 0) == 0


async def test_forgetting_takes_the_texts_of_a_second_along(stage):
    async with stage.relay() as relay, stage.store(relay, ledger="k.db") as store:
        for number in range(5):
            await store.remember("k", f"{stage.plaintext} {number}")
        await store.forget("k")
        await stage.sync(store)

        assert [version.value for version in await store.history("k")] == [None]
        assert ledger_of(store).counts_by_kind()["older"] == 0
        assert store.integrity() == []
