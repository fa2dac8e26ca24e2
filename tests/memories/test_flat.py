"""Flat memories with the dates of an import."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sense_memory import InvalidInput, LocalSigner, MemoryStore
from tests.inside import ledger_of


YEAR = 365 * 86_400


@pytest.fixture
def store(clock):
    return MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=clock, background=False)


async def test_a_memory_keeps_the_date_of_an_import(store, clock):
    then = clock() - YEAR
    async with store:
        ident = await store.remember("editor", "helix", created_at=then)
        await store.remember_many(
            [("a", "1", datetime(2020, 1, 1, tzinfo=UTC)), ("b", "2")], created_at=then - 1
        )

        found = await store.recall_many(["editor", "a", "b"])
        assert [memory.created_at for memory in found.values()] == [then, 1_577_836_800, then - 1]
        assert found["editor"].event_id == ident
        assert [memory.key for memory in await store.as_of(1_577_836_800)] == ["a"]
        assert [memory.key for memory in await store.as_of(datetime(2020, 1, 2, tzinfo=UTC))] == ["a"]
        assert await store.persona_as_of(datetime(2020, 1, 2, tzinfo=UTC)) == []
        assert ledger_of(store).by_id(ident).created_at == int(clock())  # relays and other devices go by this


async def test_what_is_written_last_counts_whatever_its_date(store, clock):
    async with store:
        await store.remember("editor", "helix")
        await store.remember("editor", "vim", created_at=clock() - YEAR)

        memory = await store.recall("editor")
        assert (memory.value, memory.created_at) == ("vim", clock() - YEAR)
        assert [version.value for version in await store.history("editor")] == ["vim", "helix"]


@pytest.mark.parametrize(
    "at",
    [-1, float("nan"), float("inf"), True, "2020-01-01", 4e9, datetime, datetime.min],  # noqa: DTZ901 - it has no local time
)
async def test_a_date_that_cannot_be_is_refused(store, at):
    async with store:
        with pytest.raises(InvalidInput, match="created_at must be a datetime or a number"):
            await store.remember("k", "v", created_at=at)
        with pytest.raises(InvalidInput, match=r"entry 1 \('k'\): created_at must"):
            await store.remember_many([("k", "v", at)])

        assert await store.recall("k") is None
