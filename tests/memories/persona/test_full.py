"""A memory whose text fills an event leaves no room for what is noted of it later; that holds up no other."""

from __future__ import annotations

import logging

import pytest

from sense_memory import EmbeddedRelay
from sense_memory.errors import TooLargeError


DAY = 86_400
BIG, SMALL = ("people", "facts", "big"), ("people", "facts", "small")


async def remember_full(store):
    """A memory with as long a text as there can be."""
    with pytest.raises(TooLargeError) as refused:
        await store.persona_remember(*BIG, "x" * 41_000)
    await store.persona_remember(*BIG, "x" * (41_000 - (refused.value.size - refused.value.limit)))


async def by_key(store):
    return {memory.key: memory for memory in await store.persona_recall(include_forgotten=True)}


async def test_its_accesses_stay_here_and_are_named_and_those_of_others_travel(open_on_disk, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with open_on_disk(relays=[relay.url], background=False) as store:
            await remember_full(store)
            await store.persona_remember(*SMALL, "artist")
            await store.remember("k", "v")
            for place in (BIG, SMALL):
                await store.persona_recall(*place)

            report = await store.flush()
            assert (report.in_step, report.unfit) == (True, ("people/facts/big",))
            assert {key: memory.access_count for key, memory in (await by_key(store)).items()} == {
                "big": 1,
                "small": 1,
            }
        async with open_on_disk(
            relays=[relay.url], background=False
        ) as store:  # what stays here is not lost here
            assert (await by_key(store))["big"].access_count == 1
        async with open_on_disk(ledger=":memory:", relays=[relay.url], background=False) as elsewhere:
            await elsewhere.sync()
            assert {key: memory.access_count for key, memory in (await by_key(elsewhere)).items()} == {
                "big": 0,
                "small": 1,
            }


async def test_pruning_names_it_and_writes_the_states_of_all_others(open_store, clock):
    async with open_store() as store:
        await remember_full(store)
        for number in range(5):
            await store.persona_remember("people", "facts", f"n{number}", f"text {number}")
        await store.persona_recall(*BIG)
        clock.advance(200 * DAY)

        pruned = await store.persona_prune()
        assert int(pruned) == 5
        assert [(line.path, "shorten the text" in line.reason) for line in pruned.report.refused] == [
            ("people/facts/big", True)
        ]
        clock.advance(31 * DAY)
        await store.persona_prune()
        assert set(await by_key(store)) == {"big"}
        await store.persona_forget(*BIG)
        assert await by_key(store) == {}


async def test_a_link_for_which_it_has_no_room_does_not_keep_the_other_memory_from_being_written(
    open_store, caplog
):
    async with open_store() as store:
        await remember_full(store)
        await store.persona_remember(*SMALL, "artist")
        await store.persona_remember("people", "facts", "new", "sculptor", connections=["big", "small"])

        found = await by_key(store)
        assert found["new"].connections == ("people/facts/big", "people/facts/small")
        assert (found["big"].connections, found["small"].connections) == ((), ("people/facts/new",))
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "no room for a link to people/facts/new in people/facts/big"
    ]


async def test_a_link_that_was_asked_for_by_name_is_an_error_and_changes_neither(open_store):
    async with open_store() as store:
        await remember_full(store)
        await store.persona_remember(*SMALL, "artist")
        with pytest.raises(TooLargeError, match="nothing was written"):
            await store.persona_connect("small", "big")

        assert {memory.connections for memory in (await by_key(store)).values()} == {()}
