"""Several devices of one agent, offline and online in any order: nothing that was written is lost, and all agree."""

from __future__ import annotations

import itertools
import json

import pytest

from sense_memory import LocalSigner, MemoryStore
from tests.in_step import sync_until_quiet
from tests.inside import ledger_of, parts_of


FACT = ("people", "facts")


async def texts(store):
    return {memory.path: memory.value for memory in await store.persona_recall(include_forgotten=True)}


async def all_of(store):
    """Everything that a device shows of its palace, but for the events that say so and what they know."""
    found = await store.persona_recall(include_forgotten=True)
    return sorted(
        json.dumps(memory.model_dump(mode="json", exclude={"event_id", "seen"}), sort_keys=True)
        for memory in found
    )


async def in_step(*stores):
    """Sync until no device has anything new to say; bounded, for devices that never agree must not hang."""
    assert await sync_until_quiet(stores, 12)
    shown = [await all_of(store) for store in stores]
    assert shown.count(shown[0]) == len(shown), "the devices do not agree"


# ── V-03 fork_keeps_both_texts ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
async def test_fork_keeps_both_texts_on_both_devices(devices, clock, order):
    async with devices() as stores:
        await stores[0].persona_remember(*FACT, "lisa", "artist")
        await in_step(*stores)
        for number, store in enumerate(stores):
            clock.advance(10)
            await store.persona_remember(*FACT, "lisa", f"text of device {number}")
        await in_step(*(stores[number] for number in order))

        for store in stores:
            found = await texts(store)
            (sibling,) = found.keys() - {"people/facts/lisa"}
            assert found == {
                "people/facts/lisa": "text of device 1",
                sibling: "text of device 0",
            }
            assert sibling.startswith("people/facts/lisa~conflict-")
            (memory,) = await store.persona_recall(*FACT, sibling.rpartition("/")[2])
            assert memory.conflict_of == "people/facts/lisa"


async def test_the_sibling_is_named_after_the_event_that_lost(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        lost = await one.persona_remember(*FACT, "lisa", "painter")
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "sculptor")
        await in_step(one, other)

        assert f"people/facts/lisa~conflict-{lost[:8]}" in await texts(one)


async def test_fresh_device_never_overwrites(devices, clock):
    """F-01: what the relay held and what was written at once are both there."""
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist", themes=["art"])
        await one.sync()
        clock.advance(5)
        await other.persona_remember(*FACT, "lisa", "plumber", themes=["pipes"])
        await in_step(one, other)

        assert set((await texts(one)).values()) == {"artist", "plumber"}
        (head,) = await other.persona_recall(*FACT, "lisa")
        assert (head.value, set(head.themes)) == ("plumber", {"art", "pipes"})


async def test_three_devices_keep_three_texts(devices, clock):
    async with devices(3) as stores:
        await stores[0].persona_remember(*FACT, "lisa", "artist")
        await in_step(*stores)
        for number, store in enumerate(stores):
            clock.advance(1)
            await store.persona_remember(*FACT, "lisa", f"text {number}")
        await in_step(*stores)

        found = await texts(stores[0])
        assert found["people/facts/lisa"] == "text 2"
        assert sorted(found.values()) == ["text 0", "text 1", "text 2"]
        assert len(found) == 3


async def test_a_third_version_that_comes_after_two_were_settled_is_kept_too(devices, clock):
    async with devices(3) as (one, two, three):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, two, three)
        await one.persona_remember(*FACT, "lisa", "text 1")
        clock.advance(1)
        await two.persona_remember(*FACT, "lisa", "text 2")
        clock.advance(1)
        await three.persona_remember(*FACT, "lisa", "text 3")
        await in_step(one, two)
        assert len(await texts(one)) == 2
        await in_step(one, two, three)

        assert sorted((await texts(two)).values()) == ["text 1", "text 2", "text 3"]


async def test_settling_writes_once_and_never_again(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        await one.persona_remember(*FACT, "lisa", "painter")
        await other.persona_remember(*FACT, "lisa", "sculptor")
        await in_step(one, other)
        before = [store.status().counts["events"] for store in (one, other)]
        for _ in range(3):
            clock.advance(100)
            await one.sync(full=True)
            await other.sync(full=True)

        assert [store.status().counts["events"] for store in (one, other)] == before


async def test_what_waits_to_be_settled_is_opened_again_only_when_it_may_have_changed(clock, tmp_path):
    """A relay that cannot be reached keeps forks unsettled; other writes do not open all their versions again."""
    inner, opened = LocalSigner.generate(), 0

    class Counting:
        public_key, sign, encrypt = inner.public_key, inner.sign, inner.encrypt

        async def decrypt(self, payload, author):
            nonlocal opened
            opened += 1
            return await inner.decrypt(payload, author)

    options = {"clock": clock, "background": False, "ledger": ":memory:"}
    async with (
        MemoryStore(Counting(), ["ws://127.0.0.1:9"], **options) as here,
        MemoryStore(inner, **options) as there,
    ):

        async def bring():
            there.export(tmp_path / "there", overwrite=True)
            await here.import_(tmp_path / "there")

        for key in ("ann", "bob", "cleo"):
            await here.persona_remember(*FACT, key, f"{key} here")
            clock.advance(1)
            await there.persona_remember(*FACT, key, f"{key} there")
        await bring()
        assert set((await texts(here)).values()) == {"ann there", "bob there", "cleo there"}

        await here.persona_remember(*FACT, "dan", "new")
        await here.remember("flat", "value")
        before = opened
        assert len(await texts(here)) == 4
        assert opened == before

        clock.advance(1)
        await there.persona_remember(*FACT, "ann", "ann again")
        await there.persona_forget(*FACT, "bob")
        await bring()
        assert set((await texts(here)).values()) == {"ann again", "cleo there", "new"}


async def test_superseded_after_publish_is_said_and_a_sibling_made(devices, clock):
    """V-10: the relay keeps the newer version; the older text is there beside it."""
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "painter")
        clock.advance(10)
        await one.persona_remember(*FACT, "lisa", "sculptor")
        await one.sync()
        report = await other.flush()
        assert report.relays[0].sent["superseded"] == 1
        await in_step(one, other)

        assert sorted((await texts(one)).values()) == ["painter", "sculptor"]


async def test_a_sibling_that_was_forgotten_does_not_come_back(devices, open_store, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        lost = await one.persona_remember(*FACT, "lisa", "painter")
        clock.advance(10)
        won = await other.persona_remember(*FACT, "lisa", "sculptor")
        await in_step(one, other)
        (sibling,) = [memory for memory in await one.persona_recall() if memory.conflict_of]
        clock.advance(10)
        request = await one.persona_forget(*FACT, sibling.key)
        await in_step(one, other)
        assert await texts(other) == {"people/facts/lisa": "sculptor"}

        # A device that meets the deletion first and only then both sides of the conflict.
        holders = ((one, request), (one, lost), (other, won))
        events = [ledger_of(store).by_id(ident).event() for store, ident in holders]
        async with open_store("late") as late:
            for event in events:
                await parts_of(late).replication.admit([event], "wss://relay.example/")
            assert await texts(late) == {"people/facts/lisa": "sculptor"}


# ── V-04 identical_edits_are_not_a_conflict ─────────────────────────────────────────────


async def test_identical_edits_are_not_a_conflict(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        await one.persona_remember(*FACT, "lisa", "painter")
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "painter")
        await in_step(one, other)

        assert await texts(one) == {"people/facts/lisa": "painter"}


# ── What is no edit of the text does not compete with one ───────────────────────────────


@pytest.mark.parametrize("edit_first", [True, False])
async def test_a_link_here_and_an_edit_there_are_both_kept(devices, clock, edit_first):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await one.persona_remember(*FACT, "bob", "painter")
        await in_step(one, other)
        steps = [
            lambda: one.persona_connect("lisa", "bob"),
            lambda: other.persona_remember(*FACT, "lisa", "sculptor"),
        ]
        for step in reversed(steps) if edit_first else steps:
            await step()
            clock.advance(10)
        await in_step(one, other)

        for store in (one, other):
            assert await texts(store) == {"people/facts/lisa": "sculptor", "people/facts/bob": "painter"}
            (lisa,) = await store.persona_recall(*FACT, "lisa")
            assert lisa.connections == ("people/facts/bob",)


@pytest.mark.parametrize("edit_first", [True, False])
async def test_accesses_that_travel_do_not_compete_with_an_edit(devices, clock, edit_first):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)

        async def access():
            for _ in range(3):
                await one.persona_recall(*FACT, "lisa")
            await one.flush()

        async def edit():
            await other.persona_remember(*FACT, "lisa", "sculptor", confidence=0.5)

        for step in (edit, access) if edit_first else (access, edit):
            await step()
            clock.advance(10)
        await in_step(one, other)

        for store in (one, other):
            (lisa,) = await store.persona_recall()
            assert (lisa.value, lisa.access_count, lisa.confidence) == ("sculptor", 3, 0.5)


async def test_settling_leaves_the_accesses_that_nobody_else_knows(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        await one.persona_connect("lisa", await _bob(one))
        for _ in range(2):
            await one.persona_recall(*FACT, "lisa")
        await parts_of(one).persona().palace.save_accesses()
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "sculptor")
        await other.sync()
        await one.sync()
        assert {memory.access_count for memory in await one.persona_recall() if memory.key == "lisa"} == {2}
        await one.flush()
        await other.sync()

        assert {memory.access_count for memory in await other.persona_recall() if memory.key == "lisa"} == {2}


async def _bob(store):
    await store.persona_remember(*FACT, "bob", "painter")
    return "bob"


async def test_a_supersession_here_and_an_edit_there_are_both_kept(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "old", "walks to work")
        await one.persona_remember(*FACT, "new", "takes the train")
        await in_step(one, other)
        await one.persona_contradict("old", "new")
        clock.advance(10)
        await other.persona_connect("old", "new")
        await in_step(one, other)

        for store in (one, other):
            (old,) = await store.persona_recall(*FACT, "old")
            assert old.superseded_by == "people/facts/new"
            assert old.connections == ("people/facts/new",)


async def test_a_rewrite_there_frees_a_memory_from_what_contradicted_its_older_text(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "old", "walks to work")
        await one.persona_remember(*FACT, "new", "takes the train")
        await in_step(one, other)
        await one.persona_contradict("old", "new")
        clock.advance(10)
        await other.persona_remember(*FACT, "old", "swims on Sundays")
        await in_step(one, other)

        for store in (one, other):
            (old,) = await store.persona_recall(*FACT, "old")
            assert (old.value, old.superseded_by, old.contradicts) == ("swims on Sundays", None, ())


# ── D-07 delete_vs_edit_race ────────────────────────────────────────────────────────────


async def test_delete_vs_edit_race_the_later_edit_wins(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        await one.persona_forget(*FACT, "lisa")
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "sculptor")
        await in_step(one, other)

        assert await texts(one) == await texts(other) == {"people/facts/lisa": "sculptor"}


async def test_delete_vs_edit_race_the_later_forgetting_wins(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist")
        await in_step(one, other)
        await other.persona_remember(*FACT, "lisa", "sculptor")
        clock.advance(10)
        await one.persona_forget(*FACT, "lisa")
        await in_step(one, other)

        assert await texts(one) == await texts(other) == {}


async def test_a_link_elsewhere_does_not_bring_back_what_was_forgotten(devices, clock):
    """Nobody shows it, and it is forgotten again for good."""
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "lisa", "artist", ["art"])
        await one.persona_remember(*FACT, "bob", "painter", halflife_days=3_000)
        await in_step(one, other)
        clock.advance(10)
        await one.persona_forget(*FACT, "lisa")
        clock.advance(10)
        await other.persona_connect("lisa", "bob")
        await other.persona_recall(*FACT, "lisa")
        await other.flush()
        await in_step(one, other)

        assert await texts(one) == await texts(other) == {"people/facts/bob": "painter"}
        assert ledger_of(one).edits.forked_slots() == ledger_of(other).edits.forked_slots() == []
        await one.persona_remember(*FACT, "lisa", "begun anew")
        await in_step(one, other)
        assert (await texts(other))["people/facts/lisa"] == "begun anew"


async def test_what_a_third_device_said_outlives_a_stray(devices, clock):
    async with devices(3) as (one, two, three):
        await one.persona_remember(*FACT, "lisa", "artist")
        await one.persona_remember(*FACT, "bob", "painter")
        await in_step(one, two, three)
        clock.advance(10)
        await one.persona_forget(*FACT, "lisa")
        clock.advance(10)
        await three.persona_remember(*FACT, "lisa", "sculptor")
        clock.advance(10)
        await two.persona_connect("lisa", "bob")
        await in_step(one, two)
        assert "people/facts/lisa" not in await texts(two)
        await in_step(three, one, two)

        assert (await texts(one))["people/facts/lisa"] == "sculptor"


async def test_what_is_remembered_anew_after_forgetting_is_not_lost_to_an_older_edit(devices, clock):
    """The other device's edit knows more of the forgotten memory, but nothing of the new one: both texts stay."""
    async with devices() as (one, other):
        for number in range(5):
            await one.persona_remember(*FACT, "lisa", f"text {number}")
        await in_step(one, other)
        clock.advance(10)
        await one.persona_forget(*FACT, "lisa")
        clock.advance(10)
        await one.persona_remember(*FACT, "lisa", "begun anew")
        clock.advance(10)
        await other.persona_remember(*FACT, "lisa", "edited elsewhere")
        await in_step(one, other)

        assert sorted((await texts(one)).values()) == ["begun anew", "edited elsewhere"]


# ── What fits no event ──────────────────────────────────────────────────────────────────


async def test_a_merge_that_grows_too_large_keeps_both_texts_and_loses_ends_of_lists(devices, clock):
    async with devices(3) as stores:
        one, other, _ = stores
        await one.persona_remember(*FACT, "big", "base")
        await in_step(*stores)
        for store, letter in ((one, "a"), (other, "b")):
            clock.advance(10)
            themes = [f"{letter}{number:02d}{'q' * 57}" for number in range(60)]
            await store.persona_remember(*FACT, "big", letter * 35_500, themes)
        await in_step(*stores)

        for store in stores:
            assert sorted(value[0] for value in (await texts(store)).values()) == ["a", "b"]
            (big,) = [memory for memory in await store.persona_recall() if memory.key == "big"]
            assert (big.value[0], len(big.themes) > 60) == ("b", True)
            assert ledger_of(store).edits.forked_slots() == []
        await one.persona_remember(*FACT, "big", "short")
        await in_step(*stores)
        assert (await texts(stores[2]))["people/facts/big"] == "short"


async def test_a_text_that_fits_no_conflict_copy_is_a_draft_where_it_was_written(devices, clock):
    async with devices() as (one, other):
        await one.persona_remember(*FACT, "big", "base")
        await in_step(one, other)
        told = []
        for store, letter in ((one, "a"), (other, "b")):
            clock.advance(10)
            await store.persona_remember(*FACT, "big", letter * 40_460)
        lost_at = int(clock()) - 10
        clock.advance(60)
        for store in (one, other, one, other, one):
            told += (await store.sync()).overruled

        assert {path: value[0] for path, value in (await texts(one)).items()} == {"people/facts/big": "b"}
        assert await texts(one) == await texts(other)
        (draft,) = await one.drafts()
        assert (draft.key, draft.value[0], "too large" in draft.reason) == ("people/facts/big", "a", True)
        assert draft.created_at == lost_at
        assert (await other.drafts(), told) == ([], ["people/facts/big"])


class Moody:
    """A signer that may refuse to sign."""

    def __init__(self, inner):
        self._inner, self.refuses = inner, False
        self.public_key, self.encrypt, self.decrypt = inner.public_key, inner.encrypt, inner.decrypt

    async def sign(self, unsigned):
        if self.refuses:
            raise OSError("not now")
        return await self._inner.sign(unsigned)


async def test_a_text_that_fits_no_conflict_copy_is_a_draft_with_the_merge_and_not_before(
    devices, signer, clock
):
    moody = Moody(signer)
    options = {"ledger": ":memory:", "clock": clock, "background": False}
    async with devices() as (other, _), MemoryStore(moody, other.relays, **options) as one:
        for store, letter in ((one, "a"), (other, "b")):
            clock.advance(10)
            text = letter * 40_430  # what they make together fits an event, and a copy does not
            await store.persona_remember(*FACT, "big", text)
        await other.sync()
        moody.refuses = True
        with pytest.raises(OSError):
            await one.sync()
        assert await one.drafts() == []

        moody.refuses = False
        assert (await one.sync()).overruled == ("people/facts/big",)
        assert [draft.value[0] for draft in await one.drafts()] == ["a"]
