"""The journal, in batches and with the dates of an import."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sense_memory import InvalidInput, LocalSigner, MemoryStore
from tests.inside import ledger_of


DAY = 86_400


@pytest.fixture
def store(clock):
    return MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=clock, background=False)


async def test_an_entry_keeps_the_date_of_an_import_and_the_newest_by_that_date_come_first(store, clock):
    """An entry of last year has an event of today: otherwise no other device would pull it."""
    now = clock()
    async with store:
        await store.journal("today")
        counts = []
        ids = await store.journal.write_many(
            [(f"day {day}", now - day * DAY) for day in range(1, 40)], progress=counts.append
        )
        await store.journal("in summer", created_at=datetime(2020, 7, 1, tzinfo=UTC))

        assert [entry.content for entry in await store.recent(3)] == ["today", "day 1", "day 2"]
        found = await store.recent(100)
        assert [entry.content for entry in found] == [
            "today",
            *(f"day {day}" for day in range(1, 40)),
            "in summer",
        ]
        assert found[1].event_id == ids[0]
        assert found[1].created_at == now - DAY
        assert counts == [39]
        assert all(int(now) <= stored.created_at for stored in ledger_of(store).journal(100))


async def test_entries_with_one_date_keep_their_order(store, clock):
    async with store:
        await store.journal.write_many(["one", "two", "three"], created_at=clock() - DAY)

        assert [entry.content for entry in await store.recent()] == ["three", "two", "one"]


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["fine", " "], "entry 2: a journal entry must"),
        (["fine", 3], "entry 2"),
        ([("later", 4e9)], "entry 1: created_at must"),
        ([("x" * 50_000, 0)], "entry 1"),
        ("text", "a list"),
    ],
)
async def test_a_bad_entry_is_named_and_nothing_is_written(store, entries, says):
    async with store:
        with pytest.raises(InvalidInput, match=says):
            await store.journal.write_many(entries)

        assert await store.recent() == []
