"""What a store gets right against relays that other people wrote: `make test-relays` (see `independent.py`).

They differ from the relay contract in ways that public relays do. So here it is the client that is judged, through
its public API: what was written comes back, what was forgotten stays away, and one event stops no other.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from sense_memory import LocalSigner, MemoryStore
from tests.contracts.independent import ASKED_FOR, RELAYS, nostr_relay_js
from tests.time_unit import SECOND


pytestmark = pytest.mark.skipif(
    not ASKED_FOR, reason="make test-relays runs them: they are processes, and slow"
)
both = pytest.mark.parametrize("start", RELAYS, ids=lambda start: start.__name__)


@pytest.fixture
def device():
    """Opens a device of one agent, with an empty ledger, at a relay."""
    signer = LocalSigner.generate()

    @asynccontextmanager
    async def open_device(url, **options):
        options = {"background": False, **options}
        async with MemoryStore(signer, [url], ledger=":memory:", **options) as store:
            yield store

    return open_device


async def values(store):
    return {memory.key: memory.value for memory in await store.recall_all()}


async def in_step(store, *, full=False):
    """Sync until the relay is in step, three times at most: some are told of what they lack, and then healed."""
    for _ in range(3):
        report = await store.sync(full=full)
        if report.in_step:
            break
    assert report.complete
    return report


@both
async def test_everything_comes_back_on_a_fresh_device(start, device):
    """Three pages, which end within seconds, also where `until` leaves its own second out."""
    written = {f"k{number}": f"v{number}" for number in range(250)}
    now = time.time() - 3_600
    async with start(page=100) as url:
        async with device(url, clock=lambda: now) as one:
            for key, value in written.items():
                now += 1 / 30
                await one.remember(key, value)
            entries = [await one.journal(f"entry {number}") for number in range(3)]
            assert (await one.sync()).in_step
        async with device(url) as two:
            assert (await two.sync()).complete
            assert await values(two) == written
            assert {entry.event_id for entry in await two.recent(10)} == set(entries)


@both
async def test_a_second_sync_sends_nothing(start, device):
    async with start() as url, device(url) as one:
        await one.remember("k", "v")
        assert (await one.sync()).in_step
        again = await one.sync()
    assert again.in_step
    assert not again.relays[0].sent


@both
async def test_the_newest_text_wins_on_every_device(start, device):
    async with start() as url, device(url) as one, device(url) as two:
        await one.remember("k", "first")
        await in_step(one)
        await in_step(two)
        await two.remember("k", "second")
        await in_step(two)
        await in_step(one)
        assert await values(one) == await values(two) == {"k": "second"}


@both
async def test_forgetting_reaches_a_second_device_and_a_fresh_one(start, device):
    """Also where a deletion is honoured and not kept, so that only the tombstone can tell of it."""
    async with start() as url, device(url) as one, device(url) as two:
        await one.remember_many((f"k{number}", "v") for number in range(6))
        await in_step(one)
        await in_step(two)
        for number in range(3):
            await one.forget(f"k{number}")
        await in_step(one)
        left = {f"k{number}": "v" for number in range(3, 6)}
        for store in (two, one):
            await in_step(store, full=True)
            assert await values(store) == left
        async with device(url) as fresh:
            await in_step(fresh)
            assert await values(fresh) == left


@both
async def test_an_old_deletion_does_not_take_a_newer_memory_along(start, device):
    """Also where a deletion is honoured whatever its date."""
    new = {f"k{number}": "new" for number in range(5)} | {"other": "x"}
    async with start() as url, device(url) as one:
        for number in range(5):
            await one.remember(f"k{number}", "old")
            await one.forget(f"k{number}")
        await one.remember_many(new.items())
        await in_step(one)
        for _ in range(2):
            await in_step(one, full=True)
            async with device(url) as fresh:
                await in_step(fresh)
                assert await values(fresh) == new


async def test_an_event_that_is_too_large_for_a_relay_does_not_block_the_others(device):
    """The relay does not say how large is too large, it hangs up (close code 1009)."""
    sizes = (10, 8_000, 20_000, 40_000)
    async with nostr_relay_js(message=16_384) as url, device(url) as one:
        for size in sizes:
            await one.remember(f"size {size}", "x" * size)
        await one.remember_many((f"small {number}", "y") for number in range(20))
        for _ in range(len(sizes)):
            report = await one.sync()
        (relay,) = report.relays
        assert (relay.refused, relay.waiting) == (2, 0)
        async with device(url) as fresh:
            await in_step(fresh)
            assert len(await values(fresh)) == 22


async def test_a_relay_that_asks_who_it_is_is_answered(device):
    async with nostr_relay_js(auth=True) as url, device(url) as one:
        await one.remember("k", "v")
        await one.journal("private")
        await in_step(one)
        async with device(url) as fresh:
            await in_step(fresh)
            assert await values(fresh) == {"k": "v"}
            assert len(await fresh.recent(5)) == 1


@both
async def test_what_another_device_writes_is_seen_at_once(start, device):
    async with (
        asyncio.timeout(60 * SECOND),
        start() as url,
        device(url) as one,
        device(url, background=True) as two,
    ):
        changes = two.watch()
        await one.remember("k", "v")
        await in_step(one)
        change = await anext(aiter(changes))
        assert (change.path, change.value) == ("k", "v")
