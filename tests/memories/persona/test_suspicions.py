"""A later memory that may contradict a memory is told wherever the memory is shown, in every process, until it is decided."""

from __future__ import annotations

import pytest

from sense_memory.memories.persona.suspicions import RULES_ID
from tests.inside import ledger_of


TABS = ("people", "facts", "ana", "Ana prefers tabs")
SPACES = ("people", "facts", "ana-2", "Ana prefers spaces")
SPACES_PATH = "people/facts/ana-2"


async def told(store):
    """What each door says of the memory "ana"; all of them say the same."""
    listed = await store.persona_recall("people", "facts")
    hits = [*await store.search("Ana prefers"), *await store.persona_search("Ana prefers")]
    recalled = await store.persona_recall("people", "facts", "ana", revive=False)
    named = await store.persona_recall(key="ana", revive=False)
    everything = {memory.path: memory for memory in await store.persona_recall()}
    found = {
        memory.suspected_by
        for memory in (*listed, *hits, *recalled, *named, *everything.values())
        if memory.path == "people/facts/ana"
    }
    others = [memory for memory in (*listed, *hits) if memory.path != "people/facts/ana"]
    assert not any(memory.suspected_by for memory in others)
    (only,) = found
    return only


@pytest.fixture
def both(open_store, clock):
    """A store with both memories, the second written later."""

    async def write(store, **options):
        await store.persona_remember(*TABS)
        clock.advance(5)
        return await store.persona_remember(*SPACES, **options)

    return write


async def test_what_remember_suspects_every_door_tells_in_this_process_and_the_next(open_on_disk, both):
    async with open_on_disk() as store:
        assert (await both(store)).suspected == ("people/facts/ana",)
        assert await told(store) == (SPACES_PATH,)
    async with open_on_disk() as store:
        assert await told(store) == (SPACES_PATH,)


async def test_a_process_that_runs_learns_what_another_one_suspects(open_on_disk, both):
    async with open_on_disk() as reader, open_on_disk() as writer:
        await reader.persona_remember(*TABS)
        assert await told(reader) == ()
        await both(writer)
        assert await told(reader) == (SPACES_PATH,)


async def test_what_a_batch_suspects_is_told_too(open_on_disk, both):
    async with open_on_disk() as store:
        names = ("domain", "facet", "key", "value")
        await store.persona_remember_many([dict(zip(names, one, strict=True)) for one in (TABS, SPACES)])
    async with open_on_disk() as store:
        assert await told(store) == (SPACES_PATH,)


async def test_what_nothing_compared_is_told_once_introspection_found_it(open_on_disk, both):
    async with open_on_disk() as store:
        await both(store, contradictions="off")
        assert await told(store) == ()
        await store.persona_introspect(dry_run=True)
        assert await told(store) == (SPACES_PATH,)
    async with open_on_disk() as store:
        assert await told(store) == (SPACES_PATH,)


async def test_what_suggest_did_not_mark_is_told(open_store, clock):
    async with open_store(contradictions="suggest") as store:
        await store.persona_remember("people", "facts", "ana", "Ana prefers tabs")
        await store.persona_remember("people", "facts", "lisa", "Lisa lives in Berlin")
        clock.advance(5)
        await store.persona_remember("people", "facts", "lisa-2", "Lisa lives in Lisbon")
        (lisa,) = await store.persona_recall("people", "facts", "lisa")
        assert (lisa.superseded_by, lisa.suspected_by) == (None, ("people/facts/lisa-2",))


@pytest.mark.parametrize("decide", ["reconcile", "contradict", "forget"])
async def test_what_was_decided_is_told_no_more(open_on_disk, both, decide):
    async with open_on_disk() as store:
        await both(store)
        if decide == "forget":
            await store.persona_forget(*SPACES[:3])
        else:
            await getattr(store, f"persona_{decide}")("people/facts/ana", SPACES_PATH)
        assert await told(store) == ()
    async with open_on_disk() as store:
        assert await told(store) == ()


async def test_a_superseded_later_memory_suspects_nothing_and_one_that_is_current_again_does(
    open_store, both
):
    async with open_store() as store:
        await both(store)
        await store.persona_remember("people", "facts", "ana-3", "Ana has a red bicycle")
        await store.persona_contradict(SPACES_PATH, "people/facts/ana-3")
        assert await told(store) == ()
        await store.persona_reconcile(SPACES_PATH, "people/facts/ana-3")
        assert await told(store) == (SPACES_PATH,)


async def test_a_new_text_of_either_memory_ends_it_and_links_do_not(open_store, both, clock):
    async with open_store() as store:
        await both(store)
        await store.persona_connect("people/facts/ana", SPACES_PATH)
        await store.persona_pin(SPACES_PATH)
        assert await told(store) == (SPACES_PATH,)
        clock.advance(5)
        await store.persona_remember(*SPACES[:3], "Ana has a red bicycle")
        assert await told(store) == ()
        await store.undo(SPACES_PATH)
        assert await told(store) == (SPACES_PATH,)
        clock.advance(5)
        await store.persona_remember(*TABS[:3], "Ana collects stamps")
        assert await told(store) == ()


async def test_of_what_is_said_again_the_other_memory_is_the_earlier_one(open_store, both, clock):
    async with open_store() as store:
        await both(store)
        clock.advance(5)
        await store.persona_remember(*TABS)
        assert (await store.persona_recall("people", "facts", "ana"))[0].suspected_by == ()
        (spaces,) = await store.persona_recall("people", "facts", "ana-2")
        assert spaces.suspected_by == ("people/facts/ana",)


async def test_forgetting_something_else_keeps_it_and_forgetting_one_of_both_purges_it(open_store, both):
    async with open_store() as store:
        await both(store)
        await store.persona_remember("world", "facts", "weather", "It rained on Monday")
        await store.persona_forget("world", "facts", "weather")
        assert await told(store) == (SPACES_PATH,)
        assert len(rows(store)) == 1
        await store.persona_forget(*SPACES[:3])
        assert rows(store) == []


async def test_several_are_told_the_latest_first_and_a_pair_once(open_store, both, clock):
    async with open_store() as store:
        await both(store)
        clock.advance(5)
        await store.persona_remember(
            "people", "facts", "ana-3", "Ana prefers semicolons", contradictions="suggest"
        )
        for _ in range(2):
            await store.persona_introspect()
        (ana,) = await store.persona_recall("people", "facts", "ana")
        assert ana.suspected_by == ("people/facts/ana-3", SPACES_PATH)
        pairs = [(row.slot, row.later) for row in rows(store)]
        assert len(pairs) == len(set(pairs))


def rows(store):
    return ledger_of(store).suspicions.found_by(RULES_ID)


async def test_a_prompt_without_room_for_the_later_memory_names_it_all_the_same(open_store, clock):
    reason = "because every editor that she knows shows them alike, on paper and on each of her screens"
    async with open_store() as store:
        await store.persona_remember(*TABS)
        clock.advance(5)
        await store.persona_remember("people", "facts", "ana-2", f"Ana prefers spaces, {reason}")
        text = await store.persona_compress(max_tokens=110, count=len)
        assert "tabs (compare ana-2, written later)" in text
        assert "spaces" not in text
