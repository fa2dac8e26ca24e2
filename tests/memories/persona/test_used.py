"""What a model was given counts: a use revives a memory partly, and pruning never deletes what was used."""

from __future__ import annotations

import pytest

from sense_memory import InvalidInput, SyncMemoryStore
from tests.in_step import sync_until_quiet
from tests.inside import ledger_of


FACT = ("people", "facts")
PATH = "people/facts/lisa"
TEXT = "Lisa paints the harbour of Porto every spring"
DAY = 86_400
USED = 0.5**0.5  # the relevance that a use gives


async def listed(store):
    (memory,) = await store.persona_recall(include_forgotten=True)
    return memory


async def used(store, query=TEXT, **options):
    return await store.mark_used(await store.search(query, **options))


async def events(store):
    return len(list(ledger_of(store).handed_out()))


async def test_a_use_raises_the_relevance_partly_and_once_a_day(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        clock.advance(60 * DAY)
        hits = await store.search(TEXT)
        assert (await listed(store)).current_relevance == pytest.approx(
            0.25
        )  # searching alone revives nothing
        assert await store.mark_used(hits) == 1
        assert (await listed(store)).current_relevance == pytest.approx(USED)
        clock.advance(3_600)
        assert await used(store) == 0
        assert (await listed(store)).access_count == 1
        for day in range(30):
            clock.advance(DAY)
            assert await used(store) == 1, day
            assert (await listed(store)).current_relevance == pytest.approx(USED)


async def test_a_use_never_lowers_what_a_recall_left(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        await store.persona_recall(*FACT, "lisa")
        clock.advance(10 * DAY)
        before = await listed(store)
        assert await used(store) == 0
        assert await listed(store) == before


async def test_the_first_use_counts_even_of_a_new_memory(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        assert await used(store) == 1
        memory = await listed(store)
        assert (memory.current_relevance, memory.access_count) == (1, 1)


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_a_used_memory_that_was_forgotten_comes_back(open_store, clock, is_forgotten):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        clock.advance((120 if is_forgotten else 260) * DAY)
        assert await store.search(TEXT) == []
        assert await used(store, state="forgotten") == 1
        (hit,) = await store.search(TEXT)
        assert hit.state == "active"


async def test_a_use_writes_no_event_and_survives_closing(open_on_disk, clock):
    async with open_on_disk() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        clock.advance(60 * DAY)
        before = await events(store)
        await used(store)
        assert await events(store) == before
    async with open_on_disk() as store:
        assert await events(store) == before
        assert (await listed(store)).current_relevance == pytest.approx(USED)


async def test_a_use_reaches_the_other_device_with_a_later_sync(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", TEXT)
        await used(one)
        await sync_until_quiet((one, other), 3)
        assert (await listed(other)).access_count == 0  # the first day, nothing is sent for a use
        clock.advance(60 * DAY)
        await used(other)
        await sync_until_quiet((one, other), 3)
        for store in (one, other):
            memory = await listed(store)
            assert memory.current_relevance == pytest.approx(USED)
            assert memory.access_count >= 1


@pytest.mark.parametrize("is_sent", [True, False])
async def test_what_one_device_used_is_not_pruned_by_the_other(devices, clock, is_sent):
    """Once, long ago, on a device that may not have sent the use before the other one prunes."""
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", TEXT)
        await one.persona_remember(*FACT, "unused", "nobody ever asks for this")
        await sync_until_quiet((one, other), 3)
        clock.advance(DAY)
        await used(other)
        if is_sent:
            await sync_until_quiet((one, other), 3)
        for _ in range(2):
            clock.advance(200 * DAY)
            await one.persona_prune()
        await sync_until_quiet((one, other), 4)
        for store in (one, other):
            assert (await listed(store)).path == PATH


async def test_pruning_says_why_a_used_memory_stays(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        await used(store)
        clock.advance(300 * DAY)
        pruned = await store.persona_prune()
        assert pruned.report.held == {PATH: "it was recalled or used; pruning deletes only what never was"}
        clock.advance(300 * DAY)
        assert (await store.persona_prune()).report.lines == ()


async def test_with_the_strictness_of_the_specification_only_a_recall_revives(open_store, clock):
    async with open_store(revive="recall") as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        clock.advance(60 * DAY)
        assert await used(store) == 0
        assert (await listed(store)).current_relevance == pytest.approx(0.25)
        await store.persona_recall(*FACT, "lisa")
        for _ in range(2):
            clock.advance(300 * DAY)
            await store.persona_prune()
        assert await store.persona_recall(include_forgotten=True) == []


async def test_hits_that_are_far_behind_the_best_are_not_used(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        await store.persona_remember(*FACT, "vera", "Vera mends nets in spring")
        clock.advance(30 * DAY)
        hits = await store.search(TEXT)
        assert [hit.key for hit in hits] == ["lisa", "vera"]
        assert await store.mark_used(hits) == 1
        assert {m.key: m.access_count for m in await store.persona_recall()} == {"lisa": 1, "vera": 0}
        assert await store.mark_used(hits[1:]) == 1


async def test_only_hits_and_memories_can_be_used(open_on_disk):
    async with open_on_disk() as store:
        await store.persona_remember(*FACT, "lisa", TEXT)
        await store.journal("Lisa came by")
        await store.remember("lisa", "a friend")
        hits = await store.search("Lisa")
        assert len(hits) == 3
        assert await store.mark_used(hits) == 1
        assert await store.mark_used(await store.persona_recall("people")) == 0  # the same day
        assert await store.mark_used([]) == 0
        for wrong in (PATH, hits[0], None, [PATH], [None]):
            with pytest.raises(InvalidInput):
                await store.mark_used(wrong)
    with pytest.raises(InvalidInput, match="revive must be 'use' or 'recall'"):
        open_on_disk(revive="never")


def test_the_store_without_an_event_loop_marks_too(signer, clock, tmp_path):
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db", clock=clock, background=False) as store:
        store.persona_remember(*FACT, "lisa", TEXT)
        assert store.mark_used(store.search(TEXT)) == 1


async def test_a_palace_that_is_only_asked_loses_nothing_that_was_used(open_store, clock):
    """400 days with questions only: some memories every month, some twice a year, some never."""
    monthly = {f"often-{n}": f"the {word} is painted red" for n, word in enumerate(("gate", "shed", "fence"))}
    yearly = {
        f"rare-{n}": f"the {word} hangs in the attic" for n, word in enumerate(("sledge", "tent", "kite"))
    }
    never = {
        f"never-{n}": f"the {word} cost two euros" for n, word in enumerate(("candle", "sponge", "comb"))
    }
    async with open_store() as store:
        for key, value in {**monthly, **yearly, **never}.items():
            await store.persona_remember("home", "facts", key, value)
        for day in range(0, 400, 10):
            asked = monthly if day % 30 == 10 else yearly if day in {20, 390} else {}
            for key, value in asked.items():
                hits = await store.search(value)
                if day > 300 and key not in {hit.key for hit in hits}:
                    assert hits.forgotten >= 1
                    hits = await store.search(value, state="forgotten")
                assert key in {hit.key for hit in hits[:5]}, (key, day)
                await store.mark_used(hits)
            await store.persona_prune()
            clock.advance(10 * DAY)
        left = {memory.key for memory in await store.persona_recall(include_forgotten=True)}
    assert left == monthly.keys() | yearly.keys()
