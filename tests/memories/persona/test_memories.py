"""Persona memories on one device: what an agent does with them all day, and what it is told when it is wrong."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from sense_memory import (
    InvalidInput,
    MemoryStore,
    NotSynced,
    Remembered,
    State,
    SyncMemoryStore,
    current_relevance,
)
from sense_memory.errors import (
    ClockSkewError,
    InvalidAddress,
    NeedsNewerVersion,
    PlanLimitError,
    TooLargeError,
)
from tests.inside import parts_of


DAY = 86_400
LISA = ("people", "facts", "lisa")


async def one(store, domain="people", facet="facts", key="lisa"):
    """The memory as listed, so that looking does not revive it."""
    found = await store.persona_recall(domain, facet, include_forgotten=True)
    return next(memory for memory in found if memory.key == key)


# ── Remember and recall ─────────────────────────────────────────────────────────────────


async def test_what_is_remembered_is_recalled_with_all_its_fields(open_store, clock):
    async with open_store() as store:
        ident = await store.persona_remember(
            *LISA, "artist, teaches", ["art"], halflife_days=90, source="tool:chat", confidence=0.8
        )
        (memory,) = await store.persona_recall(*LISA)

        assert (memory.path, memory.value, memory.themes) == (
            "people/facts/lisa",
            "artist, teaches",
            ("art",),
        )
        assert (memory.halflife_days, memory.source, memory.confidence) == (90, "tool:chat", 0.8)
        assert (memory.created_at, memory.event_id, memory.state) == (clock(), ident, State.ACTIVE)
        assert len(memory.seen) == 1


async def test_overwriting_keeps_what_is_not_passed(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", ["art"], halflife_days=90, confidence=0.8)
        await store.persona_remember("people", "facts", "bob", "painter")
        await store.persona_connect("lisa", "bob")
        await store.persona_recall(*LISA)
        clock.advance(DAY)
        await store.persona_remember(*LISA, "sculptor")
        memory = await one(store)

        assert (memory.value, memory.themes, memory.halflife_days) == ("sculptor", ("art",), 90)
        assert (memory.connections, memory.confidence) == (("people/facts/bob",), 0.8)
        assert (memory.access_count, memory.created_at) == (1, clock() - DAY)
        assert (memory.last_accessed, memory.last_reinforced, memory.relevance) == (clock(), clock(), 1.0)


async def test_memories_survive_closing_and_reopening(open_on_disk):
    async with open_on_disk() as store:
        await store.persona_remember(*LISA, "artist", ["art"])
        await store.persona_recall(*LISA)
    async with open_on_disk() as store:
        memory = await one(store)

        assert (memory.value, memory.themes, memory.access_count) == ("artist", ("art",), 1)


async def test_an_unknown_memory_is_an_empty_list(open_store):
    async with open_store() as store:
        assert await store.persona_recall(*LISA) == []
        assert await store.persona_recall() == []
        assert await store.persona_domains() == []


async def test_a_recall_that_only_looks_revives_nothing(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "Teaches printmaking.")
        clock.advance(60 * DAY)
        for name in (LISA, (None, None, "lisa"), ("people", None, "lisa")):
            (looked,) = await store.persona_recall(*name, revive=False)
            assert (0.25, 0) == (looked.current_relevance, looked.access_count)

        assert (await one(store)).access_count == 0
        assert [] == await store.persona_recall("people", "facts", "tom", revive=False)


async def test_recalling_by_the_exact_key_revives_and_listing_does_not(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        clock.advance(60 * DAY)
        (faded,) = await store.persona_recall("people")
        assert (faded.state, faded.access_count) == (State.FADING, 0)
        (revived,) = await store.persona_recall(*LISA)
        assert (revived.state, revived.access_count, revived.last_accessed) == (State.ACTIVE, 1, clock())
        (listed,) = await store.persona_recall("people", "facts")
        assert (listed.state, listed.access_count) == (State.ACTIVE, 1)


async def test_reading_writes_no_event(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        before = store.status().counts["events"]
        await store.persona_recall(*LISA)
        await store.persona_recall("people")
        await store.persona_search("artist")
        await store.persona_compress()

        assert store.status().counts["events"] == before


async def test_accesses_travel_with_the_next_edit(open_store, written_fields):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        for _ in range(3):
            await store.persona_recall(*LISA)
        await store.persona_remember(*LISA, "sculptor")
        fields = await written_fields(store, "people/facts/lisa")

        assert fields["access_count"] == 3
        await store.persona_recall(*LISA)
        assert (await one(store)).access_count == 4


async def test_accesses_are_in_the_ledger_when_another_process_looks(open_on_disk):
    async with open_on_disk() as store, open_on_disk() as other:
        await store.persona_remember(*LISA, "artist")
        assert (await one(other)).access_count == 0
        await store.persona_recall(*LISA)
        await parts_of(store).persona().palace.save_accesses()

        assert (await one(other)).access_count == 1


async def test_accesses_of_what_another_process_forgot_are_not_those_of_what_came_after(open_on_disk):
    async with open_on_disk() as store, open_on_disk() as other:
        await store.persona_remember(*LISA, "artist")
        await store.persona_recall(*LISA)
        await other.persona_forget(*LISA)
        await other.persona_remember(*LISA, "begun anew")

        assert (await one(store)).access_count == 0


async def test_a_listing_shows_active_and_fading_ones_the_most_relevant_first(open_store, clock):
    async with open_store() as store:
        for key, days in {"forgotten": 130, "fading": 60, "old": 10, "new": 0}.items():
            clock.advance(-days * DAY)
            await store.persona_remember("people", "facts", key, "x")
            clock.advance(days * DAY)

        assert [memory.key for memory in await store.persona_recall("people")] == ["new", "old", "fading"]
        everything = await store.persona_recall("people", include_forgotten=True)
        assert [memory.key for memory in everything] == ["new", "old", "fading", "forgotten"]
        assert everything[-1].state is State.FORGOTTEN
        (found,) = await store.persona_recall("people", "facts", "forgotten")
        assert found.state is State.ACTIVE


async def test_a_key_alone_finds_the_memories_that_have_it(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        await store.persona_remember("people", "beliefs", "lisa", "honest")
        await store.persona_remember("world", "facts", "paris", "a city")

        assert {memory.path for memory in await store.persona_recall(key="lisa")} == {
            "people/facts/lisa",
            "people/beliefs/lisa",
        }
        (paris,) = await store.persona_recall(key="paris")
        (lisa,) = await store.persona_recall(facet="beliefs", key="lisa")
        assert (paris.access_count, lisa.access_count, lisa.value) == (1, 1, "honest")


async def test_domains_facets_and_counts(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "artist")
        await store.persona_remember("people", "beliefs", "trust", "is earned", connections=["lisa"])
        clock.advance(60 * DAY)
        await store.persona_remember("world", "facts", "paris", "a city")

        assert await store.persona_domains() == ["people", "world"]
        assert await store.persona_facets("people") == ["beliefs", "facts"]
        assert await store.persona_facets("nothing") == []
        stats = await store.persona_stats()
        assert (stats["total"], stats["domains"]) == (3, {"people": 2, "world": 1})
        assert stats["states"] == {"active": 1, "fading": 2, "forgotten": 0, "dissolved": 0}
        assert stats["facets"] == {"people": {"beliefs": 1, "facts": 1}, "world": {"facts": 1}}
        assert (stats["connections"], stats["superseded"], stats["conflicts"]) == (1, 0, 0)


async def test_flat_memories_and_persona_memories_do_not_mix(open_store):
    async with open_store() as store:
        await store.remember("lisa", "flat")
        await store.persona_remember(*LISA, "artist")

        assert (await store.recall("lisa")).value == "flat"
        assert [memory.key for memory in await store.recall_all()] == ["lisa"]
        assert [memory.value for memory in await store.persona_recall()] == ["artist"]


async def test_long_names_are_kept_under_hashed_addresses(open_on_disk):
    name, key = "d" * 64, "ключ " * 40
    async with open_on_disk() as store:
        await store.persona_remember(name, name, key, "far")
        assert [memory.key for memory in await store.persona_recall(name)] == [key]
    async with open_on_disk() as store:
        (memory,) = await store.persona_recall(name, name, key)
        assert memory.value == "far"
        await store.persona_forget(name, name, key)
        assert await store.persona_recall() == []


async def test_a_forgotten_memory_is_gone_and_can_be_remembered_anew(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", ["art"])
        await store.persona_recall(*LISA)
        await store.persona_forget(*LISA)
        assert await store.persona_recall(*LISA) == []
        await store.persona_remember(*LISA, "begun anew")
        memory = await one(store)

        assert (memory.value, memory.themes, memory.access_count) == ("begun anew", (), 0)


async def test_names_are_normalised_when_written_and_found_as_given(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "zoe\u0308", "artist")

        assert len(await store.persona_recall("people", "facts", "zo\u00eb")) == 1
        assert len(await store.persona_recall("people", "facts", "zoe\u0308")) == 1


# ── Links ───────────────────────────────────────────────────────────────────────────────


async def test_connections_go_both_ways_and_reinforce(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember("people", "facts", "bob", "painter")
        clock.advance(DAY)
        await store.persona_connect("lisa", "people/facts/bob")
        lisa, bob = await one(store), await one(store, key="bob")

        assert (lisa.connections, bob.connections) == (("people/facts/bob",), ("people/facts/lisa",))
        assert lisa.last_reinforced == bob.last_reinforced == clock()
        clock.advance(DAY)
        for pair in (("lisa", "bob"), ("bob", "lisa")):
            await store.persona_connect(*pair)
        again = await one(store), await one(store, key="bob")
        assert [memory.event_id for memory in again] == [lisa.event_id, bob.event_id]
        await store.persona_disconnect("bob", "lisa")
        assert ((await one(store)).connections, (await one(store, key="bob")).connections) == ((), ())


async def test_connections_given_with_a_memory_replace_those_that_were_there(open_store):
    async with open_store() as store:
        for key in ("bob", "eve"):
            await store.persona_remember("people", "facts", key, "x")
        await store.persona_remember(*LISA, "artist", connections=["bob", "world/facts/unwritten"])
        assert (await one(store)).connections == ("people/facts/bob", "world/facts/unwritten")
        assert (await one(store, key="bob")).connections == ("people/facts/lisa",)
        await store.persona_remember(*LISA, "artist", connections=["eve"])

        assert (await one(store)).connections == ("people/facts/eve",)
        assert (await one(store, key="bob")).connections == ()
        assert (await one(store, key="eve")).connections == ("people/facts/lisa",)


async def test_a_declined_connection_stays_declined_after_it_was_made_and_removed(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember("people", "facts", "bob", "painter")
        await store.palace.reconcile("lisa", "bob")
        assert (await one(store)).dismissed == ("people/facts/bob",)
        await store.persona_connect("lisa", "bob")
        await store.persona_disconnect("lisa", "bob")
        assert (await one(store)).dismissed == ("people/facts/bob",)


class Remote:
    """A signer that lets others go first, as one behind a network does."""

    def __init__(self, signer) -> None:
        self.public_key, self._signer = signer.public_key, signer

    async def sign(self, unsigned):
        await asyncio.sleep(0)
        return await self._signer.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        await asyncio.sleep(0)
        return await self._signer.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        await asyncio.sleep(0)
        return await self._signer.decrypt(payload, author)


async def test_many_tasks_that_link_one_memory_lose_no_link(signer, clock, tmp_path):
    async with MemoryStore(Remote(signer), ledger=tmp_path / "a.db", clock=clock) as store:
        await store.persona_remember(*LISA, "artist")
        for number in range(20):
            await store.persona_remember("people", "facts", f"friend {number}", "x")
        await asyncio.gather(*(store.persona_connect("lisa", f"friend {number}") for number in range(20)))

        assert len((await one(store)).connections) == 20


async def test_two_stores_on_one_ledger_lose_no_link(open_on_disk):
    async with open_on_disk() as store, open_on_disk() as other:
        await store.persona_remember(*LISA, "artist")
        for number in range(6):
            await store.persona_remember("people", "facts", f"friend {number}", "x")
        for number in range(6):
            await (store, other)[number % 2].persona_connect("lisa", f"friend {number}")

        assert len((await one(store)).connections) == len((await one(other)).connections) == 6


async def test_superseding_marks_the_old_one_and_reconciling_takes_the_mark_away(open_store):
    async with open_store() as store:
        await store.persona_remember("self", "beliefs", "old", "walks to work")
        await store.persona_remember("self", "beliefs", "new", "takes the train")
        await store.persona_contradict("old", "new")
        old = await one(store, "self", "beliefs", "old")
        assert (old.contradicts, old.superseded_by) == (("self/beliefs/new",), "self/beliefs/new")
        await store.persona_contradict("old", "new")  # changes nothing
        assert await store.undo("self/beliefs/old") is None  # a mark is no text
        await store.persona_reconcile("old", "new")
        old = await one(store, "self", "beliefs", "old")

        assert (old.value, old.contradicts, old.superseded_by) == ("walks to work", (), None)


async def test_a_memory_that_says_something_else_is_not_superseded_any_more(open_store):
    async with open_store() as store:
        await store.persona_remember("self", "beliefs", "old", "walks to work")
        await store.persona_remember("self", "beliefs", "new", "takes the train")
        await store.persona_contradict("old", "new")
        await store.persona_remember("self", "beliefs", "old", "swims on Sundays")
        old = await one(store, "self", "beliefs", "old")

        assert (old.superseded_by, old.contradicts) == (None, ())


async def test_a_clear_contradiction_supersedes_in_the_same_write(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        await store.persona_remember("people", "facts", "lisa-moved", "Lisa lives in Lisbon")
        old, new = await one(store, key="lisa-home"), await one(store, key="lisa-moved")

        assert (old.superseded_by, old.contradicts) == (new.path, (new.path,))
        assert (new.superseded_by, new.contradicts) == (None, ())
        again = await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        old, new = await one(store, key="lisa-home"), await one(store, key="lisa-moved")
        assert (old.superseded_by, new.superseded_by) == (None, None)  # both are said to be true
        assert (again.superseded, again.suspected) == ((), (new.path,))


async def test_remembering_tells_what_it_superseded_and_what_it_suspects(open_store):
    async with open_store() as store:
        first = await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        second = await store.persona_remember("people", "facts", "lisa-moved", "Lisa lives in Lisbon")

        assert (first.superseded, first.suspected, first.contradictions) == ((), (), ())
        assert (second.superseded, second.suspected) == (("people/facts/lisa-home",), ())
        assert "Lisbon" in second.contradictions[0].reason
        assert "Lisbon" not in repr(second) + repr(second.contradictions)
        assert second == (await one(store, key="lisa-moved")).event_id
        assert (pickle.loads(pickle.dumps(second)).superseded, type(second)) == (
            second.superseded,
            Remembered,
        )


@pytest.mark.parametrize(
    ("of_store", "of_call", "superseded", "suspected"),
    [
        ("act", None, True, False),
        ("suggest", None, False, True),
        ("off", None, False, False),
        ("off", "act", True, False),
        ("act", "suggest", False, True),
        ("act", "off", False, False),
    ],
)
async def test_contradictions_act_are_suggested_or_are_not_looked_for(
    open_store, of_store, of_call, superseded, suspected
):
    async with open_store(contradictions=of_store) as store:
        await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        moved = ("people", "facts", "lisa-moved", "Lisa lives in Lisbon")
        told = await store.persona_remember(*moved, contradictions=of_call)
        old = await one(store, key="lisa-home")

        assert (bool(told.superseded), bool(told.suspected)) == (superseded, suspected)
        assert (old.superseded_by is not None) == superseded


async def test_what_to_do_with_contradictions_is_one_of_three_words(open_on_disk):
    with pytest.raises(InvalidInput, match="'act', 'suggest' or 'off', not 'maybe'"):
        open_on_disk(contradictions="maybe")
    async with open_on_disk() as store:
        with pytest.raises(InvalidInput, match="'act', 'suggest' or 'off', not ''"):
            await store.persona_remember(*LISA, "artist", contradictions="")


# ── What is refused ─────────────────────────────────────────────────────────────────────


FAULTS = [  # the call, its error, and words of what it says
    (lambda s: s.persona_remember("", "facts", "k", "v"), InvalidAddress, "domain must be a non-empty"),
    (
        lambda s: s.persona_remember("a/b", "facts", "k", "v"),
        InvalidAddress,
        "domain must not contain '/'",
    ),
    (lambda s: s.persona_remember("d", "f" * 65, "k", "v"), InvalidAddress, "facet may have at most 64"),
    (lambda s: s.persona_remember("d", "f", "k" * 257, "v"), InvalidAddress, "key may have at most 256"),
    (lambda s: s.persona_remember("d", "f", "\ud800", "v"), InvalidAddress, "invalid Unicode"),
    (
        lambda s: s.persona_remember("flat", "f", "k", "v"),
        InvalidAddress,
        "'flat' is reserved .*choose another domain",
    ),
    (lambda s: s.persona_remember("d", "f", "k", 7), InvalidInput, "must be text, not int"),
    (lambda s: s.persona_remember("d", "f", "k", "\ud800"), InvalidInput, "not valid Unicode"),
    (lambda s: s.persona_remember("d", "f", "k", "v" * 41_000), TooLargeError, "40,960"),
    (lambda s: s.persona_remember("d", "f", "k", "v", "art"), InvalidInput, "themes must be a list"),
    (lambda s: s.persona_remember("d", "f", "k", "v", [" "]), InvalidInput, "themes must be non-empty"),
    (lambda s: s.persona_remember("d", "f", "k", "v", ["t" * 65]), InvalidInput, "at most 64 characters"),
    (
        lambda s: s.persona_remember("d", "f", "k", "v", halflife_days=0),
        InvalidInput,
        "halflife_days must be",
    ),
    (lambda s: s.persona_remember("d", "f", "k", "v", confidence=1.1), InvalidInput, "between 0 and 1"),
    (lambda s: s.persona_remember("d", "f", "k", "v", confidence=float("nan")), InvalidInput, "between"),
    (lambda s: s.persona_remember("d", "f", "k", "v", source="me"), InvalidInput, "source must be"),
    (
        lambda s: s.persona_remember("d", "f", "k", "v", [], ["nobody"]),
        InvalidInput,
        "no memory 'nobody'",
    ),
    (
        lambda s: s.persona_remember("d", "f", "k", "v", [], ["d/f/k"]),
        InvalidInput,
        "connected with itself",
    ),
    (lambda s: s.persona_connect("lisa", "nobody"), InvalidInput, "no memory 'nobody'"),
    (lambda s: s.persona_connect("lisa", ""), InvalidAddress, "name a memory by domain/facet/key"),
    (lambda s: s.persona_connect("lisa", "people/facts/lisa"), InvalidInput, "connected with itself"),
    (lambda s: s.persona_connect("twin", "lisa"), InvalidInput, "'people/facts/twin', 'self/facts/twin'"),
    (lambda s: s.persona_contradict("lisa", "lisa"), InvalidInput, "contradicted by itself"),
    (lambda s: s.palace.reconcile("lisa", "lisa"), InvalidInput, "reconciled with itself"),
    (lambda s: s.persona_recall("", "f", "k"), InvalidAddress, "domain must be"),
    (lambda s: s.persona_recall("d", "f", "a/b"), InvalidAddress, "without '/'"),
    (lambda s: s.persona_forget("d", "", "k"), InvalidAddress, "facet must be"),
    (lambda s: s.persona_search(7), InvalidInput, "must be text"),
    (lambda s: s.persona_search("x", 0), InvalidInput, "limit must be"),
    (lambda s: s.persona_compress(max_tokens=1), InvalidInput, "at least 32"),
    (lambda s: s.persona_prune(without=["wss://other.example"]), InvalidInput, "does not use"),
    (lambda s: s.history("people/lisa"), InvalidAddress, "domain/facet/key"),
]


async def test_each_fault_has_a_sentence_of_its_own_and_changes_nothing(open_store):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember("people", "facts", "twin", "x")
        await store.persona_remember("self", "facts", "twin", "x")
        before = store.status().counts["events"]
        for call, error, words in FAULTS:
            with pytest.raises(error, match=words.replace("(", r"\(")):
                await call(store)

            assert store.status().counts["events"] == before, words


async def test_supersession_does_not_run_in_a_circle(open_store):
    async with open_store() as store:
        for key in "abc":
            await store.persona_remember("self", "facts", key, f"text {key}")
        await store.persona_contradict("a", "b")
        await store.persona_contradict("b", "c")
        with pytest.raises(InvalidInput, match="directly or through others"):
            await store.persona_contradict("c", "a")


async def test_before_the_first_complete_pull_nothing_is_called_unknown(open_store):
    async with open_store(relays=["ws://127.0.0.1:9"]) as store:
        for call in (
            store.persona_recall(*LISA),
            store.persona_recall(),
            store.persona_stats(),
            store.persona_connect("a", "b"),
        ):
            with pytest.raises(NotSynced):
                await call


async def test_what_a_newer_version_wrote_is_neither_shown_nor_overwritten(
    open_store, written_elsewhere, clock
):
    async with open_store() as store:
        fields = {"domain": "people", "facet": "facts", "key": "lisa", "value": "?", "v": 99}
        assert await written_elsewhere(store, fields, clock()) == {"new": 1}
        assert await store.persona_recall() == []
        with pytest.raises(NeedsNewerVersion):
            await store.persona_recall(*LISA)
        with pytest.raises(NeedsNewerVersion):
            await store.persona_remember(*LISA, "artist")


async def test_a_text_that_the_clock_forbids_is_kept_as_a_draft(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", ["art"])
        clock.advance(-10 * DAY)
        with pytest.raises(ClockSkewError) as caught:
            await store.persona_remember(*LISA, "sculptor")
        (draft,) = await store.drafts()
        assert (draft.key, draft.value, caught.value.drafts) == (
            "people/facts/lisa",
            "sculptor",
            (draft.number,),
        )
        clock.advance(10 * DAY)
        await store.persona_connect("lisa", (await _other(store)))
        await store.publish_draft(draft.number)
        memory = await one(store)

        assert (memory.value, memory.themes) == ("sculptor", ("art",))
        assert await store.drafts() == []


async def _other(store):
    await store.persona_remember("people", "facts", "bob", "painter")
    return "bob"


async def test_a_plan_bounds_what_is_added_and_loses_nothing(open_store):
    async with open_store(plan="free") as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember(*LISA, "sculptor")
        with pytest.raises(PlanLimitError, match="one domain"):
            await store.persona_remember("world", "facts", "paris", "a city")
        with pytest.raises(PlanLimitError, match="half-life"):
            await store.persona_remember(*LISA, "artist", halflife_days=90)
        await store.remember_many((f"key {number}", "v") for number in range(99))
        with pytest.raises(PlanLimitError, match="100 memories"):
            await store.remember("one more", "v")
        with pytest.raises(PlanLimitError, match="100 memories"):
            await store.persona_remember("people", "facts", "bob", "painter")
        await store.remember("key 1", "rewritten")

        assert (await one(store)).value == "sculptor"


# ── The past ────────────────────────────────────────────────────────────────────────────


async def test_history_undo_and_as_of_know_persona_memories(open_store, clock):
    async with open_store() as store:
        for text in ("artist", "sculptor", "painter"):
            await store.persona_remember(*LISA, text)
            clock.advance(DAY)
        await store.persona_recall(*LISA)
        await store.flush()
        path = "people/facts/lisa"

        assert [version.value for version in await store.history(path)] == [
            "painter",
            "painter",
            "sculptor",
            "artist",
        ]
        (then,) = await store.persona_as_of(clock() - 2 * DAY)
        assert then.value == "sculptor"
        assert (await store.undo(path)).value == "sculptor"
        assert (await store.undo(path)).value == "artist"
        assert await store.undo(path) is None
        assert (await one(store)).access_count == 1
        assert await store.persona_as_of(0) == []


async def _say_again(store):
    await store.persona_remember(*LISA, (await one(store)).value)


OTHER_THAN_THE_TEXT = {
    "connect": lambda store: store.persona_connect("lisa", "bob"),
    "disconnect": lambda store: store.persona_disconnect("lisa", "eva"),
    "contradict": lambda store: store.persona_contradict("lisa", "bob"),
    "reconcile": lambda store: store.persona_reconcile("lisa", "eva"),
    "dismiss": lambda store: store.palace.reconcile("lisa", "bob"),
    "pin": lambda store: store.persona_pin("lisa"),
    "recall": lambda store: store.persona_recall(*LISA),
    "refresh": lambda store: store.refresh("people/facts/lisa"),
    "say it again": _say_again,
}


async def _edited(store, clock):
    """Lisa and her friends; the text of Lisa was edited once."""
    for key in ("bob", "eva"):
        await store.persona_remember("people", "facts", key, f"text of {key}")
    for text in ("artist", "sculptor"):
        await store.persona_remember(*LISA, text, themes=[text])
        await store.persona_connect("lisa", "eva")
        clock.advance(DAY)


@pytest.mark.parametrize("change", OTHER_THAN_THE_TEXT.values(), ids=OTHER_THAN_THE_TEXT)
async def test_undo_passes_over_what_changed_no_text_and_keeps_the_links_of_both_memories(
    open_store, clock, change
):
    async with open_store() as store:
        await _edited(store, clock)
        await change(store)
        clock.advance(DAY)
        await store.flush()
        before = {memory.key: memory for memory in await store.persona_recall("people", "facts")}

        undone = await store.undo("people/facts/lisa")
        await change(store)
        clock.advance(DAY)
        assert await store.undo("people/facts/lisa") is None  # "artist" is the oldest text

        pins = [theme for theme in before["lisa"].themes if theme == "pinned"]
        assert (undone.value, undone.themes) == ("artist", ("artist", *pins))  # a later pin stays
        assert undone.connections == before["lisa"].connections
        assert undone.access_count == before["lisa"].access_count
        after = {memory.key: memory for memory in await store.persona_recall("people", "facts")}
        for key in ("bob", "eva"):
            assert ("people/facts/lisa" in after[key].connections) == (
                f"people/facts/{key}" in after["lisa"].connections
            )


async def test_undo_where_no_other_text_was_ever_there_changes_nothing(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist")
        await store.persona_remember("people", "facts", "bob", "painter")
        clock.advance(30 * DAY)
        await store.persona_connect("lisa", "bob")
        clock.advance(30 * DAY)
        before, versions = await one(store), await store.history("people/facts/lisa")

        assert await store.undo("people/facts/lisa") is None

        assert await one(store) == before
        assert await store.history("people/facts/lisa") == versions


async def test_undo_leaves_the_half_life_and_what_was_dismissed_since_the_edit(open_store, clock):
    async with open_store() as store:
        await _edited(store, clock)
        await store.persona_remember(*LISA, "sculptor", halflife_days=500)
        await store.palace.reconcile("lisa", "bob")

        undone = await store.undo("people/facts/lisa")

        assert (undone.halflife_days, undone.dismissed) == (500, ("people/facts/bob",))


async def test_undo_leaves_the_themes_as_they_were_changed_since_the_edit(open_store, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "artist", themes=["art", "old"])
        await store.persona_remember(*LISA, "sculptor", themes=["stone", "old"])
        await store.palace.pin("lisa")
        await store.edits.retheme("people/facts/lisa", remove=["old"])

        undone = await store.undo("people/facts/lisa")

        assert (undone.value, undone.themes) == ("artist", ("art", "pinned"))


async def test_refreshing_signs_a_persona_memory_anew_with_the_same_inside(open_store, clock):
    async with open_store() as store:
        before = await store.persona_remember(*LISA, "artist")
        clock.advance(DAY)
        after = await store.refresh("people/facts/lisa")
        memory = await one(store)

        assert (memory.event_id, after == before) == (after, False)
        assert (memory.value, memory.last_accessed) == ("artist", clock() - DAY)
        assert await store.refresh("people/facts/nobody") is None


# ── Other writers ───────────────────────────────────────────────────────────────────────

PUBLISHED = {  # what `to_dict` of the published package 0.3.1 gives
    "domain": "people",
    "facet": "facts",
    "key": "lisa",
    "value": "artist",
    "relevance": 1.0,
    "halflife_days": 30.0,
    "last_accessed": 1_799_000_000.5,
    "last_reinforced": 1_799_000_000.5,
    "access_count": 2,
    "connections": ["people/facts/bob"],
    "contradicts": [],
    "superseded_by": None,
    "themes": ["art"],
    "source": "conversation",
    "confidence": 0.9,
    "state": "active",
    "created_at": 1_798_000_000.25,
}


async def test_what_the_published_package_wrote_is_read_and_can_be_edited(
    open_store, written_elsewhere, written_fields
):
    async with open_store() as store:
        assert await written_elsewhere(store, PUBLISHED, 1_799_000_001) == {"new": 1}
        (memory,) = await store.persona_recall(*LISA)
        assert (memory.value, memory.themes, memory.access_count) == ("artist", ("art",), 3)
        assert (memory.source, memory.created_at) == ("conversation", 1_798_000_000.25)
        await store.persona_remember(*LISA, "sculptor")
        fields = await written_fields(store, "people/facts/lisa")

        assert fields.keys() >= PUBLISHED.keys()
        assert fields["created_at"] == 1_798_000_000.25


async def test_of_an_event_without_a_vector_the_later_write_wins(open_store, written_elsewhere, clock):
    async with open_store() as store:
        await store.persona_remember(*LISA, "ours")
        await written_elsewhere(store, {**PUBLISHED, "value": "older"}, clock() - 100)
        assert (await one(store)).value == "ours"
        await written_elsewhere(store, {**PUBLISHED, "value": "newer"}, clock() + 100)
        await parts_of(store).replication.settle_forks()

        assert [memory.value for memory in await store.persona_recall()] == ["newer"]


@pytest.mark.parametrize(
    "strange",
    [
        {"relevance": 7, "confidence": -3, "halflife_days": 0, "access_count": -1},
        {"relevance": "much", "confidence": None, "halflife_days": [], "access_count": {}},
        {"connections": "people/facts/bob", "themes": [1, "art", None], "contradicts": {"a": 1}},
        {"state": "asleep", "superseded_by": 7, "source": 7, "created_at": "today", "last_accessed": -1e300},
        {"seen": [1], "said": {"a": 1}, "dissolved_at": "x", "dismissed": 3, "conflict_of": [], "ts": "x"},
        {"seen": {"device": -1, "other": "x"}, "said": ["a", 1], "last_accessed": True},
        {"last_accessed": 1e18, "last_reinforced": 1e300, "created_at": 9e15},
    ],
)
async def test_strange_fields_are_mended_and_never_break_a_listing(
    open_store, written_elsewhere, clock, strange
):
    async with open_store() as store:
        fields = {**PUBLISHED, **strange}
        assert await written_elsewhere(store, fields, clock()) == {"new": 1}
        (memory,) = await store.persona_recall(include_forgotten=True)
        assert memory.value == "artist"
        await store.persona_remember(*LISA, "sculptor")
        await store.persona_introspect()
        await store.persona_prune()
        assert (await one(store)).value == "sculptor"


@pytest.mark.parametrize("missing", ["domain", "facet", "key", "value"])
async def test_a_record_without_a_name_or_a_text_is_unreadable(open_store, written_elsewhere, clock, missing):
    fields = {name: value for name, value in PUBLISHED.items() if name != missing}
    async with open_store() as store:
        counts = await written_elsewhere(store, fields, clock(), tag="sense-memory/persona/people/facts/lisa")

        assert counts == {"unreadable": 1}


async def test_fields_of_newer_writers_survive_edits_links_and_accesses(
    open_store, written_elsewhere, clock, written_fields
):
    async with open_store() as store:
        await written_elsewhere(store, {**PUBLISHED, "mood": {"joy": 1}}, clock() - 10)
        await store.persona_remember("people", "facts", "bob", "painter")
        await store.persona_connect("lisa", "bob")
        await store.persona_recall(*LISA)
        await store.flush()
        await store.persona_remember(*LISA, "sculptor")
        fields = await written_fields(store, "people/facts/lisa")

        assert fields["mood"] == {"joy": 1}


# ── Cold starts and threads ─────────────────────────────────────────────────────────────


async def test_the_snapshot_carries_persona_memories(open_on_disk, signer, monkeypatch):
    async with open_on_disk() as store:
        for number in range(250):
            await store.persona_remember("people", "facts", f"key {number}", f"value {number}")
        await store.persona_remember("d" * 64, "f" * 64, "k" * 200, "hashed")

    async def decrypt(payload, author):
        opened.append(payload)
        return await type(signer).decrypt(signer, payload, author)

    opened = []
    async with open_on_disk() as store:
        monkeypatch.setattr(parts_of(store).reader, "_signer", _Counting(signer, opened))
        assert len(await store.persona_recall()) == 251
        (hashed,) = await store.persona_recall("d" * 64)
        assert hashed.value == "hashed"
    assert opened == []


class _Counting:
    def __init__(self, signer, opened) -> None:
        self.public_key, self._signer, self._opened = signer.public_key, signer, opened

    async def decrypt(self, payload, author):
        self._opened.append(payload)
        return await self._signer.decrypt(payload, author)


def test_the_blocking_store_knows_persona_memories(signer, clock):
    with SyncMemoryStore(signer, ledger=":memory:", clock=clock) as store:
        store.persona_remember(*LISA, "artist", ["art"])
        store.persona_remember("people", "facts", "bob", "painter", connections=["lisa"])
        assert store.persona_recall(*LISA)[0].connections == ("people/facts/bob",)
        assert [hit.key for hit in store.persona_search("art")] == ["lisa"]
        assert store.persona_domains() == ["people"]
        assert store.persona_introspect().total_memories == 2
        assert store.persona_prune() == 0
        assert "lisa" in store.persona_compress()
        store.persona_contradict("lisa", "bob")
        store.persona_remember(*LISA, "sculptor")
        assert store.undo("people/facts/lisa").value == "artist"


async def test_what_is_recalled_listed_or_found_carries_the_relevance_of_now(
    open_store, clock, written_fields
):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "old", "a plumber", halflife_days=10)
        clock.advance(10 * 86_400)
        await store.persona_remember("people", "facts", "new", "a painter", connections=["old"])

        listed = {memory.key: memory for memory in await store.persona_recall("people")}
        assert {key: memory.current_relevance for key, memory in listed.items()} == {"old": 0.55, "new": 1.1}
        assert {key: memory.relevance for key, memory in listed.items()} == {"old": 1.0, "new": 1.0}
        assert all(
            current_relevance(memory, clock()) == memory.current_relevance for memory in listed.values()
        )
        (hit,) = await store.persona_search("plumber")
        assert hit.current_relevance == hit.why.relevance == pytest.approx(0.55)
        (recalled,) = await store.persona_recall("people", "facts", "old")
        assert recalled.current_relevance == 1.1
        assert "current_relevance" not in await written_fields(store, recalled.path)
