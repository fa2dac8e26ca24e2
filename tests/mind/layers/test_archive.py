"""The archive keeps up with every change of its ledger, whoever makes it, and reads nothing twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import EmbeddedRelay
from sense_memory.mind.records import MindRecords
from tests.mind.test_log import opened


@pytest.fixture
def read(monkeypatch):
    """The number of records that were opened by each read."""
    counts, inner = [], MindRecords.opened

    async def counted(self, heads):
        counts.append(len(heads))
        return await inner(self, heads)

    monkeypatch.setattr(MindRecords, "opened", counted)
    return counts


async def test_a_recall_after_an_insert_reads_one_passage_among_however_many(read):
    async with opened() as store:
        for number in range(60):
            await store.mind.archive.insert(f"Passage {number} is about bread.", topics=["baking"])
        assert await store.mind.recall("bread")
        read.clear()
        await store.mind.archive.insert("Rye bread wants a sourdough.", topics=["baking"])
        assert (await store.mind.recall("rye"))[0].text == "Rye bread wants a sourdough."
        assert await store.mind.archive.topics() == {"baking": 61}
        assert sum(read) == 1


async def test_a_thought_reads_as_many_records_after_forty_as_after_ten(read):
    async with opened() as store:
        costs = []
        for number in range(40):
            entry = await store.mind.log.append("agent.output", {"text": f"Bread {number} rose."}, actor="me")
            read.clear()
            await store.mind.store_thought(entry, topics=["baking"] if number % 2 else ())
            costs.append(sum(read))
        assert max(costs[30:]) <= max(costs[10:20]) <= 6


async def test_what_another_device_changes_is_counted_after_the_next_sync():
    async with (
        EmbeddedRelay() as relay,
        opened(relays=[relay.url]) as one,
        opened(relays=[relay.url]) as other,
    ):
        kept = await one.mind.archive.insert("stays", ["a"], topics=["x"])
        gone = await one.mind.archive.insert("goes", ["a"], topics=["x"])
        await one.sync()
        await other.sync()
        assert await other.mind.archive.topics() == {"x": 2}
        await one.mind.archive.delete(gone.id)
        await one.mind.archive.rename_topics(kept.id, {"x": "y"})
        await one.sync()
        await other.sync()
        assert await other.mind.archive.topics() == {"y": 1}
        assert await other.mind.archive.count() == 1
        assert await other.mind.recall("goes") == []


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["insert", "rename", "delete", "look"]), st.integers(0, 4)),
    max_size=12,
)


@settings(max_examples=15)
@given(STEPS)
def test_two_processes_count_what_a_process_that_starts_now_counts(steps):
    async def play(folder):
        ledger = Path(folder) / "a.db"
        async with opened(ledger) as one, opened(ledger) as other:
            for is_one, step, number in steps:
                archive, source = (one if is_one else other).mind.archive, f"source-{number}"
                if step == "insert":
                    await archive.insert(f"text {number}", topics=[f"t{number % 2}"], source=source, at=1.0)
                elif step == "rename":
                    await archive.rename_topics(source, {"t0": "t1", "t1": "t2"})
                elif step == "delete" and await archive.get(source) is not None:
                    await archive.delete(source)
                await archive.topics()
            async with opened(ledger) as fresh:
                expected = await fresh.mind.archive.all()
                counts = Counter(topic for passage in expected for topic in passage.topics)
                found = {hit.id for hit in await fresh.mind.recall("text", 9)}
            for store in (one, other):
                assert await store.mind.archive.all() == expected
                assert await store.mind.archive.topics() == dict(counts)
                assert {hit.id for hit in await store.mind.recall("text", 9)} == found

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(folder))
