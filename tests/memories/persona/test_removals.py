"""What one device deletes and another did not know, or the other way round: nothing is lost unsaid, nothing comes back.

Explicit forgetting goes by date, and a text that the forgetter never saw is a draft where it was written. Pruning
goes by knowledge: what it did not know lives. A forgotten text does not return as a conflict copy. And whoever loses
an edit to somebody who did not know it is told, once.
"""

from __future__ import annotations

import itertools
import json

import pytest

from sense_memory import EmbeddedRelay
from sense_memory.errors import TooLargeError
from tests.in_step import sync_until_quiet
from tests.inside import ledger_of, parts_of


FACT = ("people", "facts")
PATH = "people/facts/k"
DAY = 86_400
REASON = "another device forgot the memory before it saw this text"


async def write(store, kind, value):
    if kind == "flat":
        return await store.remember("k", value)
    return await store.persona_remember(*FACT, "k", value)


async def forget(store, kind):
    return await (store.forget("k") if kind == "flat" else store.persona_forget(*FACT, "k"))


async def shown(store, kind="palace"):
    if kind == "flat":
        return {memory.key: memory.value for memory in await store.recall_all()}
    return {memory.path: memory.value for memory in await store.persona_recall(include_forgotten=True)}


async def meet(*stores, rounds=3):
    await sync_until_quiet(stores, rounds)


NAMES = {"flat": "k", "palace": PATH}


# ── D-07 What is forgotten unseen ───────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("edit_first", [True, False])
async def test_an_edit_that_the_forgetter_never_saw_is_a_draft_where_it_was_written(
    devices, clock, kind, edit_first
):
    async with devices() as (one, other):
        await write(one, kind, "old")
        await meet(one, other)
        clock.advance(60)
        await write(other, kind, "unseen")
        written_at = int(clock())
        clock.advance(60)
        await forget(one, kind)
        told = []
        for store in [other, one, other, other] if edit_first else [one, other, other]:
            found = (await store.sync()).overruled
            told += found if store is other else ()
            clock.advance(60)

        assert told == [NAMES[kind]]
        (draft,) = await other.drafts()
        assert (draft.key, draft.value, draft.reason) == (NAMES[kind], "unseen", REASON)
        assert draft.created_at == written_at  # not when the draft was made
        assert await one.drafts() == []
        await meet(one, other)
        assert await shown(one, kind) == await shown(other, kind) == {}
        assert len(await other.drafts()) == 1

        await other.publish_draft(draft.number)
        await meet(other, one)
        assert await shown(one, kind) == await shown(other, kind) == {NAMES[kind]: "unseen"}
        assert await other.drafts() == []


@pytest.mark.parametrize("kind", NAMES)
async def test_what_was_forgotten_knowingly_is_no_draft(devices, clock, kind):
    async with devices() as (one, other):
        await write(other, kind, "seen")
        await meet(other, one)
        clock.advance(60)
        await forget(one, kind)
        await one.sync()

        assert (await other.sync()).overruled == ()
        assert await other.drafts() == []


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("looks_first", [True, False])
async def test_a_new_device_has_seen_what_its_first_look_at_the_relays_showed_and_nothing_before(
    devices, clock, kind, looks_first
):
    async with devices() as (one, new):
        await write(one, kind, "the text")
        await one.sync()
        clock.advance(60)
        assert not looks_first or await shown(new, kind) == {NAMES[kind]: "the text"}
        await forget(new, kind)
        clock.advance(60)
        await new.sync()
        told = (await one.sync()).overruled

        assert await shown(one, kind) == {}
        drafts = [draft.value for draft in await one.drafts()]
        assert (drafts, told) == (([], ()) if looks_first else (["the text"], (NAMES[kind],)))


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_forgotten_memory_comes_back_from_its_draft_as_it_was(devices, clock, by_hand):
    home, moved, born = (*FACT, "home"), (*FACT, "moved"), (*FACT, "born")
    paths = ["/".join(name) for name in (home, moved, born)]
    async with devices() as (one, new):
        await one.persona_remember(*born, "Orla lives in Berlin.")
        clock.advance(60)
        given = {"connections": [paths[2]], "halflife_days": 90, "confidence": 0.5, "source": "user"}
        await one.persona_remember(*home, "Orla lives in Lisbon.", ["homes"], **given)
        clock.advance(60)
        text = "Orla keeps goats." if by_hand else "Orla lives in Rome."
        await one.persona_remember(*moved, text)
        if by_hand:
            await one.persona_contradict(paths[0], paths[1])
        before = {memory.path: memory for memory in await one.persona_recall()}
        assert (before[paths[2]].superseded_by, before[paths[0]].superseded_by) == (paths[0], paths[1])
        clock.advance(60)
        await new.persona_forget(*home)
        await meet(new, one)
        (draft,) = await one.drafts()
        clock.advance(60)
        told = await one.publish_draft(draft.number)
        await meet(one, new)

        for store in (one, new):
            after = {memory.path: memory for memory in await store.persona_recall()}
            assert set(after) == set(paths)
            for name in ("themes", "halflife_days", "confidence", "source", "connections", "created_at"):
                assert getattr(after[paths[0]], name) == getattr(before[paths[0]], name), name
            for path in paths:
                marks = (after[path].superseded_by, after[path].contradicts, after[path].marked_by_hand)
                was = (before[path].superseded_by, before[path].contradicts, before[path].marked_by_hand)
                assert marks == was, path
        assert (told.superseded, told.suspected) == ((paths[2],), ())


@pytest.mark.parametrize("kind", NAMES)
async def test_a_draft_of_a_forgotten_text_is_kept_and_told_though_the_store_closes_in_between(
    open_on_disk, clock, kind
):
    async with EmbeddedRelay(clock=clock) as relay, open_on_disk("one", [relay.url]) as one:
        await write(one, kind, "old")
        await one.sync()
        async with open_on_disk("other", [relay.url]) as other:
            await other.sync()
            clock.advance(60)
            await write(other, kind, "unseen")
            clock.advance(60)
            await forget(one, kind)
            await one.sync()
            events = [stored.event() for stored in map(ledger_of(one).by_id, _ids(one)) if stored is not None]
            await parts_of(other).replication.admit(events, relay.url)
        async with open_on_disk("other", [relay.url]) as other:
            assert [draft.value for draft in await other.drafts()] == ["unseen"]
            assert (await other.sync()).overruled == (NAMES[kind],)
            assert len(await other.drafts()) == 1
            other.discard_draft((await other.drafts())[0].number)
            assert (await other.sync()).overruled == ()


def _ids(store):
    return [json.loads(body)["id"] for body in ledger_of(store).bodies()]


# ── D-11 What is pruned unseen ──────────────────────────────────────────────────────────


async def _edit(store):
    await store.persona_remember(*FACT, "k", "edited")


async def _link(store):
    await store.persona_connect(PATH, "people/facts/bob")


async def _recall(store):
    await store.persona_recall(*FACT, "k")


UNKNOWN = {"edit": _edit, "link": _link, "recall": _recall}


@pytest.mark.parametrize("what", UNKNOWN)
@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize("unknown_first", [True, False])
async def test_pruning_does_not_win_over_what_it_did_not_know(devices, clock, what, later, unknown_first):
    async with devices(3) as (one, other, third):
        await one.persona_remember(*FACT, "k", "old")
        await one.persona_remember(*FACT, "bob", "painter", halflife_days=36_000)
        await meet(one, other, third)
        clock.advance(250 * DAY)
        await one.persona_prune()
        await meet(one, other, third)
        clock.advance(31 * DAY)
        steps = [lambda: UNKNOWN[what](other), one.persona_prune]
        for step in reversed(steps) if later else steps:
            await step()
            clock.advance(600)
        assert PATH not in await shown(one)
        for store in (other, one) if unknown_first else (one, other):
            await store.sync()
        await meet(one, other, third)

        expected = "edited" if what == "edit" else "old"
        for store in (one, other, third):
            assert (await shown(store)).get(PATH) == expected


# Longer than a memory that nobody recalls would be there: it would go on the 84th day, and on the 238th.
@pytest.mark.parametrize(("halflife", "weeks"), [(7, 15), (30, 37)])
async def test_what_is_recalled_every_week_on_one_device_is_not_pruned_by_the_other(
    devices, clock, halflife, weeks
):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "k", "kept", halflife_days=halflife)
        await one.persona_remember(*FACT, "never read", "goes", halflife_days=7)
        await meet(one, other)
        for _ in range(weeks):
            clock.advance(7 * DAY)
            await other.persona_recall(*FACT, "k")
            await other.sync()
            await one.persona_prune()
            await one.sync()
        await meet(one, other)

        assert await shown(one) == await shown(other) == {PATH: "kept"}
        assert other.status().counts["events"] < weeks * 3


async def test_an_access_travels_once_a_day_and_reading_sends_nothing(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "k", "read often")
        await meet(one, other)
        clock.advance(2 * DAY)
        before = other.status().counts["events"]
        for _ in range(20):
            await other.persona_recall(*FACT, "k")
            assert other.status().counts["events"] <= before + 1
            await other.sync()
            clock.advance(600)

        assert other.status().counts["events"] == before + 1
        await one.sync()
        (memory,) = await one.persona_recall()
        assert memory.access_count == 1
        clock.advance(DAY)
        await other.persona_recall(*FACT, "k")
        await other.sync()
        await one.sync()
        (memory,) = await one.persona_recall()
        assert memory.access_count == 21


# ── D-10 Conflict copies ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("copied_first", [True, False])
async def test_a_forgotten_text_does_not_return_as_a_conflict_copy(devices, clock, order, copied_first):
    async with devices(3) as stores:
        one, other, _ = stores
        await one.persona_remember(*FACT, "k", "base")
        await meet(*stores)
        clock.advance(60)
        await one.persona_remember(*FACT, "k", "forgotten text")
        await one.sync()
        clock.advance(60)
        await other.persona_remember(*FACT, "k", "text of the other")
        clock.advance(60)
        if copied_first:
            await other.sync()
            assert "forgotten text" in (await shown(other)).values()
            clock.advance(60)
        await one.persona_forget(*FACT, "k")
        await meet(*(stores[number] for number in order))

        for store in stores:
            assert "forgotten text" not in (await shown(store)).values()
            assert await store.search("forgotten") == []
        assert [draft.value for draft in await other.drafts()] == ["text of the other"]


async def test_a_copy_that_stood_beside_what_is_forgotten_stays(devices, clock):
    """Nobody forgot it: who forgot saw both."""
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "k", "base")
        await meet(one, other)
        clock.advance(60)
        await one.persona_remember(*FACT, "k", "text of one")
        clock.advance(60)
        await other.persona_remember(*FACT, "k", "text of the other")
        await meet(one, other)
        assert len(await shown(one)) == 2
        clock.advance(60)
        await one.persona_forget(*FACT, "k")
        await meet(one, other)

        assert list((await shown(one)).values()) == list((await shown(other)).values()) == ["text of one"]
        assert await one.drafts() == await other.drafts() == []


async def test_no_copy_is_made_before_every_relay_that_can_be_asked_has_told_everything(open_store, clock):
    async with (
        EmbeddedRelay(clock=clock) as near,
        EmbeddedRelay(clock=clock) as far,
        open_store("one", [near.url, far.url]) as one,
        open_store("other", [near.url]) as other,
    ):
        await one.persona_remember(*FACT, "k", "base")
        await meet(one, other)
        clock.advance(60)
        await one.persona_remember(*FACT, "k", "text of one")
        await one.sync()
        clock.advance(60)
        await other.persona_remember(*FACT, "k", "text of the other")
        events = [stored.event() for stored in map(ledger_of(one).by_id, _ids(one)) if stored is not None]
        await parts_of(other).replication.admit(events, near.url)

        assert await shown(other) == {PATH: "text of the other"}
        await other.sync()
        assert sorted((await shown(other)).values()) == ["text of one", "text of the other"]


# ── Who lost is told ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("first", [0, 1])
async def test_who_loses_an_edit_to_one_that_did_not_know_it_is_told_once(devices, clock, kind, first):
    async with devices() as (one, other):
        await write(one, kind, "base")
        await meet(one, other)
        clock.advance(60)
        await write(one, kind, "loses")
        clock.advance(60)
        await write(other, kind, "wins")
        told = {one: [], other: []}
        for store in [(one, other), (other, one)][first] * 3:
            told[store] += (await store.sync()).overruled
            clock.advance(60)

        assert told[one] == [NAMES[kind]]
        assert told[other] == []


@pytest.mark.parametrize("kind", NAMES)
async def test_a_draft_of_a_text_that_somebody_who_saw_it_forgets_too_goes(devices, clock, kind):
    async with devices(3) as (writer, blind, reader):
        await meet(writer, blind, reader, rounds=1)
        await write(writer, kind, "text")
        await meet(writer, reader, rounds=1)
        clock.advance(60)
        await forget(blind, kind)
        clock.advance(60)
        await forget(reader, kind)
        await meet(blind, writer, rounds=1)
        assert [draft.value for draft in await writer.drafts()] == ["text"]
        await meet(reader, writer, rounds=1)

        assert await writer.drafts() == []


@pytest.mark.parametrize("kind", NAMES)
async def test_a_refreshed_memory_that_was_forgotten_unseen_is_a_draft(devices, clock, kind):
    async with devices() as (one, other):
        await meet(one, other, rounds=1)
        await write(one, kind, "text")
        clock.advance(60)
        await one.refresh(NAMES[kind])
        clock.advance(60)
        await forget(other, kind)
        await other.sync()

        assert (await one.sync()).overruled == (NAMES[kind],)
        assert [draft.value for draft in await one.drafts()] == ["text"]


@pytest.mark.parametrize("kind", NAMES)
async def test_a_forgotten_text_is_no_draft_because_its_writer_had_refreshed_it(devices, clock, kind):
    async with devices() as (one, other):
        await write(one, kind, "text")
        await meet(one, other)
        clock.advance(60)
        await one.refresh(NAMES[kind])
        clock.advance(60)
        await forget(other, kind)
        await meet(other, one)

        assert await shown(one, kind) == await shown(other, kind) == {}
        assert await one.drafts() == await other.drafts() == []


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("forgetter_first", [True, False])
async def test_a_forgotten_text_does_not_return_because_another_device_refreshed_it(
    devices, clock, kind, forgetter_first
):
    async with devices(3) as (one, other, third):
        await write(one, kind, "text")
        await meet(one, other)
        clock.advance(60)
        await forget(one, kind)
        clock.advance(60)
        await other.refresh(NAMES[kind])
        if forgetter_first:
            await one.sync()
        told = (await other.sync()).overruled
        await meet(one, other, third)

        assert [await shown(store, kind) for store in (one, other, third)] == [{}, {}, {}]
        assert [await store.drafts() for store in (one, other)] == [[], []]
        assert told == ()


@pytest.mark.parametrize("kind", NAMES)
async def test_what_is_written_anew_after_it_was_forgotten_stays(devices, clock, kind):
    async with devices() as (one, other):
        await write(one, kind, "text")
        await meet(one, other)
        clock.advance(60)
        await forget(one, kind)
        clock.advance(60)
        await write(other, kind, "text")
        await other.refresh(NAMES[kind])
        await meet(other, one)

        assert await shown(one, kind) == await shown(other, kind) == {NAMES[kind]: "text"}


# ── What older programs write: they say nothing of what they knew ───────────────────────

OLD_TOMBSTONE = {"type": "sense-memory:tombstone", "value": ""}


def by_an_older_program(kind, value):
    if kind == "flat":
        return {"type": "sense-memory:kv", "key": "k", "value": value}, "sense-memory/k"
    fields = dict(zip(("domain", "facet", "key"), PATH.split("/"), strict=True), value=value)
    return fields, f"sense-memory/persona/{PATH}"


@pytest.mark.parametrize("kind", NAMES)
async def test_an_edit_that_no_relay_had_is_named_where_an_older_program_wrote_over_it(
    open_store, clock, written_elsewhere, kind
):
    async with open_store() as store:
        await write(store, kind, "unsent")
        fields, tag = by_an_older_program(kind, "of 0.3.1")
        await written_elsewhere(store, fields, clock() + 60, tag)

        assert (await shown(store, kind)).popitem() == (NAMES[kind], "of 0.3.1")
        assert (await store.sync()).overruled == (NAMES[kind],)
        assert "unsent" in [version.value for version in await store.history(NAMES[kind])]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("is_sent", [False, True])
async def test_an_edit_that_no_relay_had_is_a_draft_where_an_older_program_forgot_it(
    devices, clock, written_elsewhere, kind, is_sent
):
    async with devices(1) as (store,):
        await store.sync()
        await write(store, kind, "text")
        if is_sent:
            await store.sync()
        _, tag = by_an_older_program(kind, "")
        await written_elsewhere(
            store, {**OLD_TOMBSTONE, "key": tag.removeprefix("sense-memory/")}, clock() + 60, tag
        )

        assert await shown(store, kind) == {}
        assert (await store.sync()).overruled == (() if is_sent else (NAMES[kind],))
        assert [draft.value for draft in await store.drafts()] == ([] if is_sent else ["text"])


async def test_the_largest_memory_can_be_refreshed_by_every_device(devices, clock):
    async with devices() as (one, other):
        with pytest.raises(TooLargeError) as caught:
            await one.remember("k", "x" * 50_000)
        await one.remember("k", "x" * (50_000 - caught.value.size + caught.value.limit))
        await meet(one, other, rounds=1)
        for store in (other, one):
            clock.advance(60)
            assert await store.refresh("k")
            await meet(store, one, other, rounds=1)

        assert await shown(one, "flat") == await shown(other, "flat") != {}


async def test_an_edit_that_lost_is_told_by_a_sync_although_a_prune_asked_the_relays_before(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "old", "text", halflife_days=1)
        await meet(one, other)
        clock.advance(60 * DAY)
        await one.persona_prune()
        clock.advance(60 * DAY)
        await one.remember("k", "loses")
        await one.sync()
        clock.advance(60)
        await other.remember("k", "wins")
        await other.sync()
        assert (await one.persona_prune()).report.lines

        assert (await one.sync()).overruled == ("k",)


@pytest.mark.parametrize("kind", NAMES)
async def test_who_is_overwritten_knowingly_is_not_told(devices, clock, kind):
    async with devices() as (one, other):
        await write(one, kind, "base")
        await meet(one, other)
        for number in range(3):
            clock.advance(60)
            await write(other if number % 2 else one, kind, f"text {number}")
            await meet(one, other, rounds=1)
            await meet(one, other, rounds=1)
        reports = [await store.sync() for store in (one, other)]

        assert [report.overruled for report in reports] == [(), ()]


@pytest.mark.parametrize("key", ["k", "k" * 200], ids=["plain", "hashed"])
async def test_a_flat_edit_that_was_synced_long_before_is_named_after_a_restart(open_on_disk, clock, key):
    async with EmbeddedRelay(clock=clock) as relay, open_on_disk("other", [relay.url]) as other:
        async with open_on_disk("one", [relay.url]) as one:
            await one.remember(key, "base")
            await meet(one, other)
            clock.advance(60)
            await one.remember(key, "loses")
            await one.sync()
        clock.advance(60)
        await other.remember(key, "wins")
        await other.sync()
        async with open_on_disk("one", [relay.url]) as one:
            assert (await one.sync()).overruled == (key,)
        async with open_on_disk("one", [relay.url]) as one:
            assert (await one.sync()).overruled == ()
