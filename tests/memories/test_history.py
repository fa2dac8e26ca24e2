"""The time machine: its pure part, and through the store with several devices of one key."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory import EmbeddedRelay, MemoryStore, Version
from sense_memory.memories.history import undo_target, version, version_at
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType
from tests.inside import ledger_of, parts_of


# ── The pure part ───────────────────────────────────────────────────────────────────────


def versions(*items):
    """Versions newest first, one second apart, from (value, what it restored) or a value; the first counts."""
    pairs = [item if isinstance(item, tuple) else (item, "") for item in items]
    count = len(pairs)
    return [
        Version(value, float(count - index), f"id{count - index}", index == 0, restored)
        for index, (value, restored) in enumerate(pairs)
    ]


def test_a_record_becomes_a_version():
    flat = Record(RecordType.FLAT, "k", {"key": "k", "value": "v", "ts": 1, "restored": "ab"})
    grave = Record(RecordType.TOMBSTONE, "k", {"key": "k", "value": ""})
    odd = Record(RecordType.FLAT, "k", {"key": "k", "value": "v", "restored": {"not": "text"}})

    assert version(flat, "id", 2.5, is_head=True) == Version("v", 2.5, "id", True, "ab")
    assert version(grave, "id", 2.5, is_head=False) == Version(None, 2.5, "id", False, "")
    assert version(odd, "id", 2.5, is_head=True).restored == ""


def test_a_version_does_not_show_its_text():
    assert "MARKER" not in repr(versions("MARKER"))


def test_what_counted_at_a_time_is_the_newest_version_up_to_it():
    three = versions("three", "two", "one")

    assert [
        found and found.value for found in (version_at(three, t) for t in (0.9, 1.0, 1.9, 2.0, 99.0))
    ] == [
        None,
        "one",
        "one",
        "two",
        "three",
    ]
    assert version_at([], 1.0) is None
    assert version_at(versions(None, "one"), 5.0).value is None


def test_before_the_last_edit_was_the_version_before_it():
    assert undo_target(versions("b", "a")).value == "a"
    assert undo_target(versions("a")) is None
    assert undo_target([]) is None


def test_before_an_undo_was_what_it_went_back_behind():
    assert undo_target(versions(("b", "id2"), "c", "b", "a")).value == "a"
    assert undo_target(versions(("a", "id1"), ("b", "id2"), "c", "b", "a")) is None


def test_an_undo_of_what_this_ledger_never_saw_goes_one_version_back():
    assert undo_target(versions(("x", "elsewhere"), "b", "a")).value == "b"


def test_what_was_forgotten_is_nothing_to_go_back_to():
    assert undo_target(versions("b", None, "a")).value == "a"
    assert undo_target(versions("b", None)) is None


def test_the_same_text_written_again_is_no_step_of_an_undo():
    assert undo_target(versions("b", "b", "a")).value == "a"
    assert undo_target(versions("b", "b")) is None


def test_only_a_head_can_be_undone():
    found = versions("b", "a")

    assert undo_target([Version("b", 2.0, "id2", False), *found[1:]]) is None


histories = st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=3)), st.integers(0, 8)), max_size=8).map(
    lambda items: versions(*((value, f"id{back}" if back else "") for value, back in items))
)


@given(histories, st.floats(0, 10))
def test_at_agrees_with_the_definition(history, time):
    known = [item for item in history if item.created_at <= time]

    assert version_at(history, time) == (max(known, key=lambda item: item.created_at) if known else None)


@given(histories)
def test_before_is_older_has_a_text_and_ends_when_repeated(history):
    """Undoing again and again, as the store does it, visits older and older versions and then stops."""
    originals = len(history)
    reached = originals + 1
    for _ in range(originals + 2):
        found = undo_target(history)
        if found is None:
            return
        assert found in history[1:]
        assert found.value is not None
        place = originals - [item.event_id for item in history[-originals:]].index(found.event_id)
        assert place < reached
        reached = place
        newest = Version(found.value, len(history) + 1.0, f"id{len(history) + 1}", True, found.event_id)
        history = [newest, *history]
    raise AssertionError("undoing never ends")


# ── Through the store ───────────────────────────────────────────────────────────────────


@pytest.fixture
def device(signer, clock, tmp_path):
    """A device of the key: a store on a ledger of its own."""
    return lambda name="a", *relays: MemoryStore(
        signer, relays, ledger=tmp_path / f"{name}.db", clock=clock, background=False
    )


@pytest.fixture
def edit(clock):
    """Writes values under "k", a minute apart; returns the event ids."""

    async def edit(store, *values):
        ids = []
        for value in values:
            clock.advance(60)
            ids.append(await store.remember("k", value))
        return ids

    return edit


async def values(store, key="k"):
    return [item.value for item in await store.history(key)]


async def test_a_history_is_every_version_newest_first(device, edit, clock):
    async with device() as store:
        start = clock.now
        ids = await edit(store, "one", "two", "three")

        found = await store.history("k")

        assert [item.value for item in found] == ["three", "two", "one"]
        assert [item.event_id for item in found] == ids[::-1]
        assert [item.created_at for item in found] == [start + 180, start + 120, start + 60]
        assert [item.is_head for item in found] == [True, False, False]
        assert await store.history("unknown") == []


async def test_a_history_survives_closing_and_leaves_what_counts_alone(device, edit):
    async with device() as store:
        await edit(store, "one", "two")
    async with device() as store:
        assert await values(store) == ["two", "one"]
        assert (await store.recall("k")).value == "two"
        assert await values(store) == ["two", "one"]


async def test_memories_are_shown_as_they_were(device, edit, clock):
    async with device() as store:
        start = clock.now
        await store.remember("other", "x")
        await edit(store, "one", "two")
        await store.journal("not a memory")

        async def then(seconds):
            return {memory.key: memory.value for memory in await store.as_of(start + seconds)}

        assert await then(-1) == {}
        assert await then(0) == {"other": "x"}
        assert await then(60) == await then(119) == {"other": "x", "k": "one"}
        assert await then(120) == await then(10_000) == {"other": "x", "k": "two"}
        assert await store.as_of(clock.now) == await store.recall_all()


async def test_a_forgotten_memory_has_no_past(device, edit, clock):
    async with device() as store:
        await edit(store, "one", "two")
        clock.advance(60)
        await store.forget("k")

        assert await values(store) == [None]
        assert await store.as_of(clock.now - 90) == []
        assert await store.undo("k") is None
        assert await store.recall("k") is None
        assert await values(store) == [None]


async def test_a_memory_that_was_written_again_has_a_past_since_then(device, edit, clock):
    async with device() as store:
        await edit(store, "secret")
        clock.advance(60)
        await store.forget("k")
        await edit(store, "new")

        assert await values(store) == ["new", None]
        assert await store.undo("k") is None
        await edit(store, "newer")
        assert (await store.undo("k")).value == "new"
        assert await store.undo("k") is None


async def test_undo_brings_the_value_back_as_a_new_version(device, edit, clock):
    async with device() as store:
        one, two = await edit(store, "one", "two")
        clock.advance(60)

        memory = await store.undo("k")

        assert memory == await store.recall("k")
        assert (memory.value, memory.created_at) == ("one", clock.now)
        assert memory.event_id not in {one, two}
        head, *rest = await store.history("k")
        assert (head.value, head.is_head, head.restored) == ("one", True, one)
        assert [item.value for item in rest] == ["two", "one"]


async def test_undoing_again_goes_further_back_until_there_is_nothing(device, edit):
    async with device() as store:
        await edit(store, "one", "two", "three")

        undone = [await store.undo("k") for _ in range(4)]

        assert [memory and memory.value for memory in undone] == ["two", "one", None, None]
        assert (await store.recall("k")).value == "one"
        assert await values(store) == ["one", "two", "three", "two", "one"]


async def test_an_edit_after_an_undo_is_undone_first(device, edit):
    """Every state that ever was can be reached: what was undone comes back by undoing further."""
    async with device() as store:
        await edit(store, "one", "two")
        await store.undo("k")
        await edit(store, "three")

        undone = [await store.undo("k") for _ in range(4)]

        assert [memory and memory.value for memory in undone] == ["one", "two", "one", None]


async def test_undo_needs_an_older_value(device, edit):
    async with device() as store:
        assert await store.undo("k") is None
        await edit(store, "one")
        assert await store.undo("k") is None
        assert await values(store) == ["one"]


async def test_an_edit_right_after_an_undo_is_no_undo_any_more(device, edit):
    async with device() as store:
        await edit(store, "one", "two")
        await store.undo("k")
        await edit(store, "three")

        assert [item.restored != "" for item in await store.history("k")] == [False, True, False, False]


async def test_fields_of_a_newer_writer_survive_undo_and_edit(device, edit, signer, clock):
    async with device() as store:
        await edit(store, "one")
        clock.advance(60)
        inside = {"type": "sense-memory:kv", "key": "k", "value": "two", "ts": clock.now, "mood": "calm"}
        content = await signer.encrypt(json.dumps(inside).encode(), signer.public_key)
        unsigned = Unsigned(int(clock.now), KIND_APP_DATA, (("d", "sense-memory/k"),), content)
        await parts_of(store).reader.file_served([await signer.sign(unsigned)], None)
        clock.advance(60)

        await store.undo("k")
        undone = await parts_of(store).reader.record(ledger_of(store).head("sense-memory/k"))
        await edit(store, "three")
        edited = await parts_of(store).reader.record(ledger_of(store).head("sense-memory/k"))

        assert (undone.fields["value"], undone.fields["mood"]) == ("one", "calm")
        assert (edited.fields["value"], edited.fields["mood"]) == ("three", "calm")
        assert "restored" not in edited.fields


async def test_two_spellings_of_a_key_have_one_past_in_the_order_of_time(device, signer, clock):
    """Another writer does not normalise names: its versions stand between ours; what counts is what recall shows."""
    ours, theirs = "caf\u00e9", "cafe\u0301"

    async def written_elsewhere(store, value):
        clock.advance(60)
        inside = {"type": "sense-memory:kv", "key": theirs, "value": value, "ts": clock.now}
        content = await signer.encrypt(json.dumps(inside).encode(), signer.public_key)
        unsigned = Unsigned(int(clock.now), KIND_APP_DATA, (("d", f"sense-memory/{theirs}"),), content)
        await parts_of(store).reader.file_served([await signer.sign(unsigned)], None)

    async with device() as store:
        for number in range(3):
            clock.advance(60)
            await store.remember(ours, f"ours {number}")
            await written_elsewhere(store, f"theirs {number}")

        past = await store.history(theirs)
        assert [item.value for item in past] == [
            "theirs 2", "ours 2", "theirs 1", "ours 1", "theirs 0", "ours 0"
        ]  # fmt: skip
        times = [item.created_at for item in past]
        assert times == sorted(times, reverse=True)
        assert (
            [item.value for item in past if item.is_head]
            == [(await store.recall(theirs)).value]
            == ["ours 2"]
        )
        assert await values(store, ours) == ["ours 2", "ours 1", "ours 0"]  # theirs cannot be told from this

        assert (await store.undo(theirs)).value == "theirs 1"
        assert (await store.recall(theirs)).value == "theirs 1"
        assert [item.value for item in await store.history(theirs) if item.is_head] == ["theirs 1"]


# ── Several devices ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def relay(clock):
    """Opens a relay on the test's clock; gives its URL."""

    @asynccontextmanager
    async def relay():
        async with EmbeddedRelay(clock=clock) as running:
            yield running.url

    return relay


async def test_versions_of_another_device_stand_in_their_place_in_time(device, edit, relay):
    async with relay() as url, device("a", url) as here, device("b", url) as there:
        await edit(here, "one")
        await edit(there, "two, elsewhere")
        await edit(here, "three")
        await there.flush()
        await here.sync()

        assert await values(here) == ["three", "two, elsewhere", "one"]
        assert (await here.undo("k")).value == "two, elsewhere"
        assert (await here.undo("k")).value == "one"


async def test_a_version_that_another_device_wrote_after_an_undo_is_undone_first(device, edit, relay):
    async with relay() as url, device("a", url) as here, device("b", url) as there:
        await edit(here, "one", "two")
        await here.undo("k")
        await here.sync()
        await there.sync()
        await edit(there, "three, elsewhere")
        await there.sync()
        await here.sync()

        assert (await here.undo("k")).value == "one"


async def test_what_was_undone_here_is_undone_everywhere(device, edit, relay):
    async with relay() as url, device("a", url) as here, device("b", url) as there:
        await edit(here, "one", "two")
        await here.sync()
        await there.sync()
        await here.undo("k")
        await here.sync()
        await there.sync()

        assert (await there.recall("k")).value == "one"
        assert await values(there) == ["one", "two"]
        assert (await there.undo("k")).value == "two"


async def test_a_new_device_knows_no_more_of_the_past_than_relays_kept(device, edit, relay):
    async with relay() as url:
        async with device("a", url) as here:
            await edit(here, "one", "two")
            await here.sync()
        async with device("new", url) as there:
            await there.sync()
            assert await values(there) == ["two"]
            assert await there.undo("k") is None


async def test_versions_dated_ahead_are_not_in_the_past_yet(device, edit, relay, clock):
    async with relay() as url, device("a", url) as here:
        await edit(here, "one")
        async with device("b", url) as there:
            clock.advance(800)
            await there.remember("k", "from the future")
            await there.sync()
        clock.advance(-800)
        await here.sync()

        assert await values(here) == ["one"]
        clock.advance(900)
        await here.sync()
        assert await values(here) == ["from the future", "one"]
