"""Introspection on a schedule: the first at once, others in time, until the store is closed."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory import InvalidInput, SyncMemoryStore
from sense_memory.errors import PlanLimitError
from sense_memory.memories.persona.reviews import IntrospectionSchedule
from tests.time_unit import SECOND


async def test_the_first_report_comes_at_once_and_the_end_with_the_store(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        reports = store.persona_introspections(3_600)
        async with asyncio.timeout(5 * SECOND):
            assert (await anext(reports)).total_memories == 1
        others = store.persona_introspections(3_600)

    async with asyncio.timeout(5 * SECOND):
        assert [report async for report in others] == []


async def test_reports_come_again_and_again_with_the_time_between_them(monkeypatch):
    waited, looked = [], []

    async def wait(seconds):
        waited.append(round(seconds))

    async def look():
        looked.append(len(waited))
        return len(looked)

    monkeypatch.setattr(asyncio, "sleep", wait)
    reports = IntrospectionSchedule(look, 60)

    assert [await anext(reports) for _ in range(3)] == [1, 2, 3]
    assert waited == [0, 60, 60]
    assert looked == [1, 2, 3]


@pytest.mark.parametrize("every", [0, -1, 0.5, float("inf"), float("nan"), True, "6h", None])
async def test_less_than_a_second_between_two_is_refused(open_store, every):
    async with open_store() as store:
        with pytest.raises(InvalidInput, match="a number of seconds, 1 or more"):
            store.persona_introspections(every)


async def test_a_plan_may_have_none(open_store):
    async with open_store(plan="free") as store:
        with pytest.raises(PlanLimitError):
            store.persona_introspections(60)


def test_the_blocking_store_waits_for_each(signer):
    with SyncMemoryStore(signer, ledger=":memory:") as store:
        store.persona_remember("people", "facts", "lisa", "artist")
        reports = store.persona_introspections(60)
        assert next(reports).total_memories == 1
        others = store.persona_introspections(60)

    assert list(others) == []
