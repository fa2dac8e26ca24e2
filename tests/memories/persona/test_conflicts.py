"""A conflict is told to the devices of both texts: by `sync`, by `watch` and by `history`."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from tests.memories.test_watch import watching


LISA = ("people", "facts", "lisa")
NAME = "people/facts/lisa"


async def conflict(stores, clock, order, texts=("loser", "winner", "bystander")):
    """Two devices edit a memory that all have, and get in step in an order; returns the copy's path and what was told."""
    await stores[-1].persona_remember(*LISA, "both know this")
    for store in (stores[-1], *stores):
        await store.sync()
    for store, text in zip(stores[:2], texts, strict=False):
        clock.advance(10)
        await store.persona_remember(*LISA, text)
    told = [{"overruled": [], "conflicts": []} for _ in stores]
    for number in order * 3:
        report = await stores[number].sync()
        told[number]["overruled"] += report.overruled
        told[number]["conflicts"] += report.conflicts
    (copy,) = [memory.path for memory in await stores[0].persona_recall() if memory.conflict_of]
    return copy, told


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
async def test_whoever_settles_a_conflict_both_devices_are_told_once_and_no_other(devices, clock, order):
    async with devices(3) as stores:
        copy, told = await conflict(stores, clock, order)

        assert told == [
            {"overruled": [NAME], "conflicts": []},
            {"overruled": [], "conflicts": [copy]},
            {"overruled": [], "conflicts": []},
        ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
async def test_the_histories_of_a_memory_and_its_conflict_copy_name_each_other_on_every_device(
    devices, clock, order
):
    async with devices(3) as stores:
        copy, _ = await conflict(stores, clock, order)
        for store in stores:
            await store.sync()

        for store in stores:
            versions = await store.history(NAME)
            marked = {version.value: version.conflicts for version in versions if version.conflicts}
            assert marked == {"winner": (copy,)}
            assert {version.conflicts for version in await store.history(copy)} == {(NAME,)}
        assert "loser" in {version.value for version in await stores[0].history(NAME)}


async def test_of_three_edits_only_the_device_whose_edit_counts_is_told_so(devices, clock):
    async with devices(3) as stores:
        await stores[0].persona_remember(*LISA, "all know this")
        for store in stores:
            await store.sync()
        for number, store in enumerate(stores):
            clock.advance(10)
            await store.persona_remember(*LISA, f"of {number}")
        told = [{"overruled": set(), "conflicts": set()} for _ in stores]
        for number in (2, 1, 0) * 4:
            report = await stores[number].sync()
            told[number]["overruled"] |= {*report.overruled}
            told[number]["conflicts"] |= {*report.conflicts}

        copies = {memory.path for memory in await stores[0].persona_recall() if memory.conflict_of}
        assert len(copies) == 2
        assert told == [
            {"overruled": {NAME}, "conflicts": set()},
            {"overruled": {NAME}, "conflicts": set()},
            {"overruled": set(), "conflicts": copies},
        ]


async def test_a_conflict_is_settled_by_an_edit_of_the_memory_and_forgetting_the_copy(devices, clock):
    async with devices() as stores:
        copy, _ = await conflict(stores, clock, (0, 1))
        clock.advance(10)
        await stores[0].persona_remember(*LISA, "what is right in both")
        await stores[0].persona_forget(*copy.split("/"))
        for store in stores * 2:
            clock.advance(10)
            report = await store.sync()
            assert report.overruled + report.conflicts + report.prevailed == ()

        for store in stores:
            assert [memory.value for memory in await store.persona_recall()] == ["what is right in both"]


async def test_versions_in_knowledge_of_each_other_are_in_no_conflict(devices, clock):
    async with devices() as stores:
        await conflict(stores, clock, (0, 1))
        clock.advance(10)
        await stores[0].persona_remember(*LISA, "in knowledge of both")
        await stores[1].persona_remember("people", "facts", "bob", "painter")
        for store in stores:
            await store.sync()

        for store in stores:
            versions = {version.value: version for version in await store.history(NAME)}
            assert versions["in knowledge of both"].conflicts == ()
            assert [version.conflicts for version in await store.history("people/facts/bob")] in ([()], [])
            assert (await store.sync()).conflicts == ()


async def test_an_edit_of_a_conflict_copy_is_no_conflict(devices, clock):
    async with devices() as stores:
        copy, _ = await conflict(stores, clock, (0, 1))
        key = copy.rpartition("/")[2]
        clock.advance(10)
        async with watching(stores[1]) as watcher, watching(stores[0]) as elsewhere:
            await stores[1].persona_remember("people", "facts", key, "edited by hand")
            await stores[1].persona_connect(copy, NAME)
            await stores[0].remember("k", "v")
            await stores[0].sync()
            await stores[1].sync()
            await watcher.gets(("remembered", "k", "v"))
            await stores[1].persona_disconnect(copy, NAME)
            await stores[1].sync()
            await stores[0].sync()
            await elsewhere.until(lambda: any(change.kind == "linked" for change in elsewhere.changes))
            assert {change.conflict_of for change in elsewhere.changes if change.kind == "linked"} == {None}
        assert (await stores[0].sync()).conflicts == ()


def _has_copy(watcher):
    return any(change.conflict_of for change in watcher.changes)


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
async def test_a_watch_on_either_device_names_the_memory_of_a_new_conflict_copy(devices, clock, order):
    async with devices() as stores, watching(stores[1]) as winner, watching(stores[0]) as loser:
        copy, _ = await conflict(stores, clock, order)

        for watcher in (winner, loser):
            await watcher.until(partial(_has_copy, watcher))
            (change,) = [change for change in watcher.changes if change.conflict_of]
            assert (change.path, change.value) == (f"persona/{copy}", "loser")
            assert change.conflict_of == NAME
