"""Versioned records: values that are edited from the version that counts, whoever writes in between."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory.errors import InvalidAddress
from sense_memory.mind.versioned import VersionedRecords
from tests.mind.test_log import opened


PREFIX = "mind/block/"


def numbers(store):
    """Records with one number each, under the prefix of blocks."""
    return VersionedRecords(
        store.mind.records, PREFIX, lambda record: record.whole("limit"), lambda number: {"limit": number}
    )


async def add(found):
    await asyncio.sleep(0)  # lets another edit go first
    return (found or 0) + 1


async def test_edits_at_once_all_count_and_each_is_a_version():
    async with opened() as store:
        values = numbers(store)

        made = await asyncio.gather(*(values.change("one", add) for _ in range(4)))

        assert sorted(made) == [1, 2, 3, 4]
        assert await values.get("one") == 4
        assert await values.history("one") == [4, 3, 2, 1]
        assert await values.all() == {"one": 4}


async def test_an_edit_that_has_nothing_to_write_writes_nothing():
    async with opened() as store:
        values = numbers(store)

        async def keep(found):
            return None if found is None else found + 1

        assert await values.change("one", keep) is None
        assert store.status().counts["events"] == 0
        await values.change("one", add)
        assert await values.change("one", keep) == 2


async def test_an_edit_that_fails_writes_nothing():
    async with opened() as store:
        values = numbers(store)

        async def fail(found):
            raise KeyError

        with pytest.raises(KeyError):
            await values.change("one", fail)
        assert await values.get("one") is None


async def test_what_was_forgotten_is_gone_and_an_edit_starts_anew():
    async with opened() as store:
        values = numbers(store)
        await values.change("one", add)
        await values.change("one", add)

        await values.forget("one")

        assert await values.get("one") is None
        assert await values.change("one", add) == 1


async def test_a_name_that_no_address_can_hold_is_refused():
    async with opened() as store:
        with pytest.raises(InvalidAddress):
            await numbers(store).change("a/b", add)
