"""A palace that was opened before: what a cold start reads of it, and that it finds what one without a past would."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from contextlib import suppress

import pytest

from sense_memory import InvalidInput
from sense_memory.memories.persona import palace as palaces
from sense_memory.memories.persona import reviews
from tests.time_unit import SECOND


KEYS = [("people", "facts", name) for name in ("ann", "bob", "cleo", "dan", "eve")]
WORDS = ("harbour", "invoice", "violin", "kitchen", "ferry")
DAY = 86_400


@pytest.fixture
def thrifty(monkeypatch):
    """Every close writes a snapshot that lacks anything."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)


@pytest.fixture
def read(monkeypatch):
    """The keys of the memories that were made of their events since."""
    keys = []
    make = palaces.memory_of
    monkeypatch.setattr(
        palaces, "memory_of", lambda fields, *rest: (keys.append(fields["key"]), make(fields, *rest))[1]
    )
    return keys


async def fill(store):
    for place, word in zip(KEYS, WORDS, strict=True):
        await store.persona_remember(*place, f"likes the {word}", [word])


async def found(store):
    """What every question finds, and why."""
    return {
        word: [(hit.path, hit.score, hit.why) for hit in await store.persona_search(word)] for word in WORDS
    }


@pytest.mark.usefixtures("thrifty")
async def test_a_search_after_a_cold_start_reads_what_it_finds_and_nothing_else(open_on_disk, read):
    async with open_on_disk() as store:
        await fill(store)
        await store.persona_search("harbour")
    read.clear()
    async with open_on_disk() as store:
        assert [hit.key for hit in await store.persona_search("harbour")] == ["ann"]
        assert read == ["ann"]
        assert (await store.persona_stats())["total"] == len(KEYS)
        assert sorted(read) == sorted(key for _, _, key in KEYS)


@pytest.mark.usefixtures("thrifty")
async def test_memories_that_were_recalled_or_replaced_since_are_read_again(open_on_disk, read, clock):
    async with open_on_disk() as store:
        await fill(store)
        await store.persona_search("harbour")
    clock.advance(20 * DAY)
    async with open_on_disk() as store:
        await store.persona_recall(*KEYS[1])
        await store.persona_remember(*KEYS[2], "plays the harbour organ")
    read.clear()
    async with open_on_disk() as store:
        assert [hit.key for hit in await store.persona_search("harbour")] == ["ann", "cleo"]
        (bob,) = await store.persona_search("invoice")
        assert (bob.last_accessed, bob.why.relevance) == (clock(), 1.0)
        assert set(read) == {"ann", "bob", "cleo"}


@pytest.mark.usefixtures("thrifty")
async def test_a_memory_that_is_recalled_again_and_again_is_as_relevant_as_it_was_then(open_on_disk, clock):
    async with open_on_disk() as store:
        await fill(store)
        await store.persona_recall(*KEYS[1])
        await store.persona_search("invoice")
    clock.advance(40 * DAY)
    async with open_on_disk() as store:
        await store.persona_recall(*KEYS[1])
    async with open_on_disk() as store:
        (bob,) = await store.persona_search("invoice")
        assert bob.why.relevance == 1.0


@pytest.mark.usefixtures("thrifty")
async def test_what_a_newer_version_has_taken_over_takes_nobodys_place_among_the_best(
    open_on_disk, written_elsewhere, clock
):
    async with open_on_disk() as store:
        await fill(store)
        await store.persona_remember("people", "facts", "harbour", "harbour", ["harbour"])
        assert [hit.key for hit in await store.persona_search("harbour", 1)] == ["harbour"]
    clock.advance(60)
    async with open_on_disk() as store:
        fields = {"domain": "people", "facet": "facts", "key": "harbour", "value": "", "v": 99}
        await written_elsewhere(store, fields, clock())
    async with open_on_disk() as store:
        assert [hit.key for hit in await store.persona_search("harbour", 1)] == ["ann"]


@pytest.mark.usefixtures("thrifty")
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happened_meanwhile_a_cold_start_finds_what_a_new_index_does(
    devices_on_disk, open_on_disk, tmp_path, clock, seed
):
    dice = random.Random(seed)
    async with devices_on_disk as (one, other):
        await fill(one)
        for _ in range(6):
            for store in (other, one):
                await something(store, dice, clock)
            if dice.random() < 0.7:
                for store in dice.sample([one, other], 2):
                    await store.sync()
            await one.__aexit__(None, None, None)
            for file in tmp_path.glob("device 0.db*"):
                if "snapshot" not in file.name:
                    shutil.copy(file, tmp_path / file.name.replace("device 0", "anew"))
            async with open_on_disk("anew", snapshot=False) as anew:
                expected = await found(anew)
            await one.__aenter__()

            assert await found(one) == expected


async def something(store, dice, clock):
    """A few changes to a palace; what is refused is no change."""
    for _ in range(dice.randrange(4)):
        clock.advance(dice.choice((1, 60, 10 * DAY)))
        place, other = dice.sample(KEYS, 2)
        names = "/".join(place), "/".join(other)
        what = dice.choice(("say", "say", "read", "read", "link", "link", "oppose", "forget"))
        with suppress(InvalidInput):
            if what == "say":
                await store.persona_remember(*place, f"likes the {dice.choice(WORDS)}", [dice.choice(WORDS)])
            elif what == "read":
                await store.persona_recall(*place)
            elif what == "link":
                await store.persona_connect(*names)
            elif what == "oppose":
                await store.persona_contradict(*names)
            else:
                await store.persona_forget(*place)


# ── Introspection beside other work ─────────────────────────────────────────────────────


async def test_whatever_else_the_process_does_goes_on_while_a_palace_is_looked_over(open_store, monkeypatch):
    begun, done = asyncio.Event(), threading.Event()
    loop, look = asyncio.get_running_loop(), reviews.introspect

    def slowly(*given, **named):
        loop.call_soon_threadsafe(begun.set)
        assert done.wait(5 * SECOND), "nothing else was done meanwhile"
        return look(*given, **named)

    monkeypatch.setattr(reviews, "introspect", slowly)
    async with open_store() as store, asyncio.timeout(10 * SECOND):
        await fill(store)
        looking = asyncio.create_task(store.persona_introspect())
        await begun.wait()
        await store.persona_forget(*KEYS[0])
        await store.persona_remember("people", "facts", "new", "came meanwhile")
        done.set()
        report = await looking

        assert {memory.key for memory in report.orphaned} == {key for _, _, key in KEYS}
        assert (await store.persona_introspect()).changes.gone == ("people/facts/ann",)
