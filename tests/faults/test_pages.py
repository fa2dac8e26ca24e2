"""Relays whose pages hold less than a second: nothing stays behind where sets are compared, or bulk writes spread."""

from __future__ import annotations

import pytest

from relays.faults import FaultyRelay, NoNegentropy, Record
from sense_memory.relay.sync.walk import CROWDED


def pairs(stage, count):
    return {f"key {number}": f"{stage.plaintext} {number}" for number in range(count)}


async def in_one_second(stage, relay, count):
    """Memories as earlier checkouts and other programs wrote them: all of one second."""
    await stage.put(relay, *[await stage.event(f"key {number}") for number in range(count)])


async def test_r24_page_smaller_than_a_second(stage):
    """A thousand memories written at once come back whole from a relay with a page of 100, without NIP-77 too."""
    async with (
        stage.relay(max_limit=100) as behind,
        FaultyRelay(behind.url, NoNegentropy()) as relay,
        stage.store(behind) as one,
        stage.store(relay) as fresh,
    ):
        await one.remember_many(pairs(stage, 1_000))
        await stage.sync(one)

        report = await stage.sync(fresh)

        assert report.in_step
        assert len(await fresh.recall_all()) == 1_000


@pytest.mark.parametrize("full", [False, True])
async def test_r24_a_second_that_fits_no_page_is_compared_and_fetched_by_id(stage, full):
    async with stage.relay(max_limit=100) as relay:
        await in_one_second(stage, relay.url, 300)
        async with (
            FaultyRelay(relay.url, record := Record(), negentropy=True) as heard,
            stage.store(heard) as fresh,
        ):
            report = await stage.sync(fresh, full=full)

            assert report.in_step
            assert len(await fresh.recall_all()) == 300
            assert len(record.said("NEG-OPEN")) == 1
            asked = len(record.said("REQ"))

            assert (await stage.sync(fresh, full=True)).in_step
            assert len(record.said("REQ")) - asked < 20  # not one for each known address


async def test_r24_a_relay_that_compares_nothing_stays_honestly_incomplete(stage):
    async with (
        stage.relay(max_limit=100) as behind,
        FaultyRelay(behind.url, NoNegentropy()) as relay,
        stage.store(relay, ledger="fresh.db") as fresh,
    ):
        await in_one_second(stage, behind.url, 300)
        for _ in range(2):
            report = await stage.sync(fresh)

            assert report.relays[0].pulled.reasons == (CROWDED,)
            assert not report.complete
        assert len(await fresh.recall_all()) == 100
