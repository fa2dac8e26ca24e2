"""`search`: one ranking over persona memories, flat memories and the journal, and an index that keeps step with them."""

from __future__ import annotations

import asyncio
import io
import shutil
import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from types import SimpleNamespace

import orjson
import pytest

from sense_memory import (
    EmbeddedRelay,
    InvalidInput,
    LocalSigner,
    MemoryStore,
    NotSynced,
    StoreClosed,
    SyncMemoryStore,
)
from sense_memory.ledger import Ledger
from sense_memory.memories.weigher import Weigher
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, Unsigned
from sense_memory.records import envelope, snapshot
from sense_memory.records import snapshot as blocks
from sense_memory.records.sealed_caches import CachedIndex
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex
from sense_memory.search.lexical import LexicalIndex
from tests.inside import parts_of, signer_of
from tests.time_unit import SECOND


DAY = 86_400.0
RELAY = "wss://relay.example/"


@pytest.fixture
def signer():
    return LocalSigner.from_hex("5e" * 32)


@pytest.fixture
def open_store(signer, clock):
    """A store on a ledger in memory."""

    def make(relays=(), **options):
        options = {"ledger": ":memory:", "clock": clock, "background": False, **options}
        return MemoryStore(signer, relays, **options)

    return make


@pytest.fixture
def open_on_disk(open_store, tmp_path):
    """The same on a file, for what is opened again; each name is a ledger of its own."""
    return lambda name="a", relays=(), **options: open_store(
        relays, **{"ledger": tmp_path / f"{name}.db", **options}
    )


def names(hits):
    return [(hit.kind.value, hit.path if hit.kind != "journal" else hit.value) for hit in hits]


async def fill(store):
    await store.remember("favourite_tea", "Darjeeling, first flush")
    await store.persona_remember(
        "people", "facts", "lisa", "artist, teaches painting workshops", themes=["art"], source="user"
    )
    await store.persona_remember(
        "skills", "procedures", "deploy", "npm run build, then wrangler", source="tool:shell"
    )
    await store.journal("Lisa showed me how to mix green for the painting of the harbour.")


# ── What is outdated, and what is equal ─────────────────────────────────────────────────


async def test_a_hit_says_by_what_it_was_superseded(open_store):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin.")
        await store.persona_remember("people", "facts", "lisa-moved", "Lisa lives in Lisbon.")
        await store.persona_contradict("people/facts/lisa-home", "people/facts/lisa-moved")
        found = {hit.path: hit.superseded_by for hit in await store.search("where does Lisa live")}
    assert found == {"people/facts/lisa-home": "people/facts/lisa-moved", "people/facts/lisa-moved": None}


async def test_of_equal_memories_the_newer_comes_first(open_store, clock):
    async with open_store() as store:
        for key in "bca":
            await store.remember(key, "the otter sleeps")
            clock.advance(5)
        assert [hit.path for hit in await store.search("otter", within=["flat"])] == ["a", "c", "b"]


# ── What another memory supersedes ──────────────────────────────────────────────────────


async def moved(store, *steps):
    """Memories about where Ben lives, each superseded by the next one; only the first one has words of the question."""
    for path, text in steps:
        await store.persona_remember(*path.split("/"), text)
    for (old, _), (new, _) in pairwise(steps):
        await store.persona_contradict(old, new)


BEN = (
    ("people/facts/ben", "Ben lives in Rome."),
    ("people/facts/home", "Oslo since May"),
    ("world/notes/latest", "Cairo by now"),
)


async def test_what_supersedes_a_memory_ranks_before_it_whatever_the_words_say(open_store):
    async with open_store() as store:
        await moved(store, *BEN)
        await store.persona_remember("people", "facts", "dog", "the dog of Ben")
        for search in (store.search, store.persona_search):
            hits = await search("Where does Ben live?")
            assert [hit.key for hit in hits] == ["latest", "home", "ben", "dog"]
            assert [hit.key for hit in await search("Where does Ben live?", 1)] == ["latest"]
            assert hits[0].score == hits[1].score == hits[2].score > hits[3].score
            for hit in hits:
                assert sum(item.contribution for item in hit.why.evidence) == pytest.approx(
                    hit.score, abs=1e-3
                )
            assert [hit.why.evidence[0].detail for hit in hits[:2]] == [
                "people/facts/home",
                "people/facts/ben",
            ]
            assert hits[1].why.text == "supersedes people/facts/ben; relevance 0.50"
            assert [hit.key for hit in await search("Oslo Ben")][:2] == ["latest", "home"]


async def test_what_was_found_lower_moves_up_and_keeps_its_own_reasons(open_store):
    async with open_store() as store:
        await moved(
            store, BEN[0], ("people/facts/home", "Since May he lives in Oslo, with a view of the fjord.")
        )
        for search in (store.search, store.persona_search):
            (new, old) = await search("Ben lives")
            assert (new.key, old.key, new.score) == ("home", "ben", old.score)
            assert {item.kind for item in new.why.evidence} == {"supersedes", "word"}
            assert sum(item.contribution for item in new.why.evidence) == pytest.approx(new.score, abs=1e-3)
            assert [hit.key for hit in await search("Oslo fjord")] == ["home"]


async def test_what_supersedes_a_memory_is_not_shown_where_filters_or_age_leave_it_out(open_store, clock):
    async with open_store() as store:
        await moved(store, *BEN[:2])
        clock.advance(1)
        await store.persona_remember(
            "people", "facts", "home", "Oslo since May", themes=["news"], halflife_days=1
        )
        await moved(store, *BEN[1:])
        for search in (store.search, store.persona_search):
            for narrowed, found in (
                ({"domain": "people"}, ["home", "ben"]),  # the newest is in another domain
                ({"facet": "notes"}, []),
                ({"state": "active"}, ["latest", "home", "ben"]),
                ({"state": "fading"}, []),
            ):
                assert [hit.key for hit in await search("Where does Ben live?", **narrowed)] == found
            assert [hit.key for hit in await search('"Ben lives"')] == ["ben"]
        clock.advance(2 * DAY)  # the one in the middle is forgotten; what supersedes it still comes first
        for search in (store.search, store.persona_search):
            assert [hit.key for hit in await search("Where does Ben live?")] == ["latest", "ben"]
        await store.persona_forget("people", "facts", "home")
        for search in (store.search, store.persona_search):
            assert [hit.key for hit in await search("Where does Ben live?")] == ["ben"]


# ── One ranking ─────────────────────────────────────────────────────────────────────────


async def test_one_question_is_answered_from_every_kind_of_memory(open_store):
    async with open_store() as store:
        await fill(store)

        hits = await store.search("What did Lisa say about painting?")

        assert set(names(hits)) == {
            ("palace", "people/facts/lisa"),
            ("journal", "Lisa showed me how to mix green for the painting of the harbour."),
        }
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert names(await store.search("darjeeling")) == [("flat", "favourite_tea")]
        assert names(await store.search("favourite tea")) == [("flat", "favourite_tea")]


async def test_a_hit_says_where_it_is_when_it_was_written_and_which_event_holds_it(open_store, clock):
    async with open_store() as store:
        await fill(store)
        (entry,) = await store.recent()
        (memory,) = await store.persona_recall(key="lisa")
        flat = await store.recall("favourite_tea")
        hits = {hit.kind.value: hit for hit in await store.search("tea lisa harbour")}

        assert {kind: hit.path for kind, hit in hits.items()} == {
            "journal": entry.event_id,
            "palace": "people/facts/lisa",
            "flat": "favourite_tea",
        }
        assert hits["journal"].value == entry.content
        assert hits["palace"].source == "user"
        assert hits["flat"].value == flat.value
        assert {hit.event_id for hit in hits.values()} == {entry.event_id, memory.event_id, flat.event_id}
        assert {round(hit.created_at) for hit in hits.values()} == {round(clock())}


async def test_contributions_add_up_to_the_score_and_name_words_with_their_fields(open_store, clock):
    async with open_store() as store:
        await fill(store)
        clock.advance(10 * DAY)
        for hit in await store.search("art workshops green lisa favourite"):
            evidence = hit.why.evidence
            assert sum(item.contribution for item in evidence) == pytest.approx(hit.score, abs=1e-3)
            assert [item.contribution for item in evidence] == sorted(
                (item.contribution for item in evidence), reverse=True
            )
        (lisa,) = await store.search("art workshops", within=["palace"])

    fields = {item.detail: item.fields for item in lisa.why.evidence}
    assert fields == {"art": ("themes",), "workshops": ("value",)}
    assert lisa.why.relevance == pytest.approx(0.5 ** (10 / 30))
    assert lisa.why.factor == pytest.approx(0.9 + 0.1 * lisa.why.relevance)
    assert "workshops in value" in lisa.why.text


async def test_what_is_in_a_key_counts_more_than_what_is_in_a_text(open_store):
    async with open_store() as store:
        await store.persona_remember("world", "facts", "harbour", "where the ferries leave from")
        await store.persona_remember("world", "facts", "ferries", "small boats of the harbour")
        first, second = await store.search("harbour")

        assert (first.path, second.path) == ("world/facts/harbour", "world/facts/ferries")


async def test_an_entry_is_found_by_what_was_said_just_before_it(open_store, clock):
    async with open_store() as store:
        for number in range(30):
            await store.journal(f"Nothing of note, number {number}.")
            clock.advance(DAY)
        await store.journal("Which boat did the harbour master recommend?")
        await store.journal("The blue one.")
        await store.remember("boat", "moored at the harbour")

        hits = await store.search("harbour master boat", within=["journal"])

        assert [hit.value for hit in hits][:2] == [
            "Which boat did the harbour master recommend?",
            "The blue one.",
        ]
        assert {item.kind for item in hits[1].why.evidence} >= {"neighbours"}


async def test_a_date_in_the_question_finds_what_was_said_then(open_store, clock):
    async with open_store() as store:
        for number in range(60):
            await store.journal(f"Swam {number} lengths.")
            clock.advance(DAY)
        best = (await store.search("How far did I swim yesterday?"))[0]

        assert best.value == "Swam 59 lengths."
        assert "date" in {item.kind for item in best.why.evidence}


NOON = 1_752_667_200.0  # Wednesday, 16 July 2025, at noon (UTC)


@pytest.fixture
def dated(open_on_disk, clock):
    """A store on a day in July, with memories of the year before it."""
    clock.now = NOON
    return open_on_disk()


async def test_a_palace_memory_is_found_by_when_it_was_written_and_by_what_it_says(dated):
    async with dated as store:
        for key, value, days in (
            ("dorado", "Book club read The Dispossessed", 119),
            ("piranesi", "Book club read Piranesi", 57),
            ("lena", "The wedding of Lena is on 14 June 2026 in Hallstatt", 26),
            ("anna", "The wedding of Anna had a band", 27),
            ("parade", "The march through the old town was long", 200),
        ):
            at = NOON - days * DAY
            await store.persona_remember("life", "facts", key, value, created_at=at, halflife_days=1_000)
        for search in (store.persona_search, store.search):
            (first, *_) = await search("What did the book club read in March?")
            assert (first.key, "written on 2025-03-19" in first.why.text) == ("dorado", True)
            (first, *_) = await search("Which wedding is in June 2026?")
            assert (first.key, "says 2026-06-14" in first.why.text) == ("lena", True)
            assert [hit.key for hit in await search("What happened on 19 March?")] == ["dorado"]


async def fill_with_fading(store):
    """One memory of each fifth day: those from before 23 May are faded, and those from before April gone."""
    for days in range(10, 130, 5):
        at, subject = NOON - days * DAY, "boiler" if days in {55, 60, 65, 70} else "lamp"
        key = time.strftime("%m-%d", time.gmtime(at))
        await store.persona_remember("home", "facts", key, f"Saw to the {subject}", created_at=at)


async def test_a_question_for_a_time_finds_what_faded_since_the_newest_of_equals_first(dated):
    async with dated as store:
        await fill_with_fading(store)
        for search in (store.search, store.persona_search):
            hits = await search("What did I note in May?", 4)
            assert [hit.key for hit in hits] == ["05-27", "05-22", "05-17", "05-12"]
            assert (hits[-1].state, hits.confidence > 0.8) == ("fading", True)


async def test_what_is_forgotten_of_a_time_is_counted(dated):
    async with dated as store:
        await fill_with_fading(store)
        for search in (store.search, store.persona_search):
            hits = await search("What happened in March?")
            assert (hits, hits.forgotten) == ([], 4)


async def test_a_dated_question_about_a_thing_finds_no_other_faded_memories_of_that_time(dated):
    async with dated as store:
        await fill_with_fading(store)
        for search in (store.search, store.persona_search):
            hits = await search("What was wrong with the boiler in May?", 20)
            faded = {hit.key for hit in hits if hit.state == "fading"}
            assert faded == {"05-22", "05-17", "05-12", "05-07"}


async def test_the_journal_knows_holidays_parts_of_the_day_and_directions(dated):
    async with dated as store:
        for days, hour, text in (
            (204, 21, "Sang by candle light."),
            (62, 10, "Mended the roof."),
            (1, 19, "Watched whales on the screen."),
            (0, 7, "Found the key under the mat."),
        ):
            await store.journal(text, created_at=NOON - days * DAY + (hour - 12) * 3_600)
        asked = {
            "What did we do at Christmas?": "Sang by candle light.",
            "What happened before the summer?": "Mended the roof.",
            "Was geschah gestern Abend?": "Watched whales on the screen.",
            "What did I do this morning?": "Found the key under the mat.",
        }
        for question, answer in asked.items():
            assert (await store.search(question, within="journal"))[0].value == answer, question


async def test_this_morning_is_that_of_the_machines_time_zone(dated, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        async with dated as store:  # it is 21:00 in Tokyo
            await store.journal("Had rice.", created_at=NOON - 13 * 3_600)  # 08:00
            await store.journal("Had noodles.", created_at=NOON - 5 * 3_600)  # 16:00
            (only,) = await store.search("What did I have this morning?", within="journal", limit=1)
            assert only.value == "Had rice."
            assert "told on 2025-07-16" in only.why.text
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_a_forgotten_memory_with_a_high_score_raises_no_other(dated):
    async with dated as store:
        year = NOON - 365 * DAY
        await store.persona_remember(
            "home", "facts", "boiler-code", "The boiler code is 4711", created_at=year
        )
        await store.persona_remember("home", "facts", "shed", "The code of the shed is 12")
        hits = await store.search("boiler code", include_forgotten=True)

    assert [hit.key for hit in hits] == ["shed", "boiler-code"]
    assert hits[0].score < hits[1].score
    assert not any(item.kind == "newest" for hit in hits for item in hit.why.evidence)


async def test_a_question_for_what_holds_now_prefers_the_newest(dated):
    async with dated as store:
        for key, place, days in (("old", "Graz near the river", 300), ("new", "Vienna in a small flat", 30)):
            at, text = NOON - days * DAY, f"Mira lives in {place}"
            options = {"created_at": at, "halflife_days": 1_000, "contradictions": "off"}
            await store.persona_remember("people", "facts", f"mira-{key}", text, **options)
        for search in (store.persona_search, store.search):
            first, second = await search("Where does Mira live now?")
            assert (first.key, second.key) == ("mira-new", "mira-old")
            assert first.score >= second.score
            assert first.score == pytest.approx(sum(item.contribution for item in first.why.evidence))


async def test_a_newer_memory_that_is_forgotten_stays_behind_where_a_question_asks_for_now(dated):
    async with dated as store:
        for key, text, days, halflife in (
            ("home", "Mira lives in Graz", 300, 900),
            ("flat", "Mira lives in Linz", 90, 20),
        ):
            options = {"created_at": NOON - days * DAY, "halflife_days": halflife, "contradictions": "off"}
            await store.persona_remember("people", "facts", key, text, **options)
        await store.persona_remember("people", "facts", "boats", "Mira paints boats")
        for search in (store.persona_search, store.search):
            found = await search("Where does Mira live now?", include_forgotten=True)
            assert [hit.key for hit in found] == ["home", "boats", "flat"]


async def test_what_supersedes_by_hand_a_newer_memory_ranks_before_it_where_a_question_asks_for_now(dated):
    async with dated as store:
        for key, place, days in (("home", "Graz", 300), ("wrong", "Vienna", 30)):
            options = {"created_at": NOON - days * DAY, "halflife_days": 1_000, "contradictions": "off"}
            await store.persona_remember("people", "facts", key, f"Mira lives in {place}", **options)
        await store.palace.contradict("people/facts/wrong", "people/facts/home")
        for search in (store.persona_search, store.search):
            assert [hit.key for hit in await search("Where does Mira live now?")] == ["home", "wrong"]


async def test_a_later_memory_ranks_before_what_it_may_contradict(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "ana", "Ana prefers tabs")
        clock.advance(60)
        await store.persona_remember("people", "facts", "note", "Ana prefers spaces")
        for search in (store.persona_search, store.search):
            first, second = await search("Does Ana prefer tabs?")
            assert (first.key, second.key) == ("note", "ana")
            assert second.suspected_by == (first.path,)
            assert "later than people/facts/ana" in first.why.text


# ── Where to look ───────────────────────────────────────────────────────────────────────


async def test_kinds_times_and_sources_narrow_it_down(open_store, clock):
    async with open_store() as store:
        await fill(store)
        clock.advance(DAY)
        later = clock()
        await store.journal("Painting again.")

        assert {kind for kind, _ in names(await store.search("painting", within=["journal"]))} == {"journal"}
        assert {kind for kind, _ in names(await store.search("painting", within="palace"))} == {"palace"}
        assert names(await store.search("painting", since=later)) == [("journal", "Painting again.")]
        assert names(await store.search("lisa painting", source="user")) == [("palace", "people/facts/lisa")]
        assert names(await store.search("deploy build", source="tool")) == [
            ("palace", "skills/procedures/deploy")
        ]
        assert await store.search("painting", source="agent") == []


async def test_a_few_memories_of_a_kind_are_found_among_thousands_of_another(open_store):
    """A kind is chosen before the best are, not after."""
    async with open_store() as store:
        await store.remember_many((f"k{number}", "painting painting") for number in range(2_000))
        await store.persona_remember(
            "people", "facts", "lisa", "once she mentioned, among other things, a painting"
        )

        assert names(await store.search("painting", within=["palace"])) == [("palace", "people/facts/lisa")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": None},
        {"query": 3},
        {"limit": 0},
        {"limit": 1_001},
        {"limit": True},
        {"within": []},
        {"within": ["nonsense"]},
        {"within": 3},
        {"since": "yesterday"},
        {"since": float("nan")},
        {"source": 3},
        {"relevance_floor": -0.1},
        {"relevance_floor": 1.1},
        {"relevance_floor": float("nan")},
        {"relevance_floor": "1"},
    ],
    ids=repr,
)
async def test_what_no_search_can_be_made_with_is_refused(open_store, wrong):
    async with open_store() as store:
        await fill(store)
        with pytest.raises(InvalidInput):
            await store.search(**{"query": "painting", **wrong})


async def test_before_nothing_is_said_relays_are_asked(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        url = relay.url
        async with open_store([url]) as store:
            await store.remember("tea", "Darjeeling")
            await store.sync()
        async with open_store([url]) as store:
            assert names(await store.search("darjeeling")) == [("flat", "tea")]
    async with open_store([url]) as store:
        with pytest.raises(NotSynced):
            await store.search("darjeeling")


# ── In step ─────────────────────────────────────────────────────────────────────────────


async def test_every_write_can_be_found_at_once_and_nothing_that_is_gone(open_store, clock):
    async with open_store() as store:
        await fill(store)
        await store.search("anything")

        await store.remember("favourite_tea", "now it is Assam")
        await store.persona_remember("people", "facts", "lisa", "sculptor")
        await store.journal("Xylophone practice.")
        assert names(await store.search("assam")) == [("flat", "favourite_tea")]
        assert names(await store.search("sculptor")) == [("palace", "people/facts/lisa")]
        assert names(await store.search("xylophone", 1)) == [("journal", "Xylophone practice.")]
        assert await store.search("darjeeling") == []
        assert await store.search("workshops") == []

        (found,) = await store.search("xylophone", 1)
        await store.forget("favourite_tea")
        await store.persona_forget("people", "facts", "lisa")
        await store.journal.forget(found.path)
        assert await store.search("assam sculptor xylophone") == []

        clock.advance(60)
        await store.remember("favourite_tea", "Sencha after all")
        assert names(await store.search("sencha assam")) == [("flat", "favourite_tea")]
        await store.undo("favourite_tea")


async def test_what_another_process_or_device_writes_and_forgets_is_noticed(open_on_disk, clock):
    async with (
        EmbeddedRelay(clock=clock) as relay,
        open_on_disk("a", [relay.url]) as here,
        open_on_disk("a", [relay.url]) as same_ledger,
        open_on_disk("b", [relay.url]) as there,
    ):
        await fill(here)
        await here.sync()
        await here.search("anything")

        await same_ledger.remember("colour", "turquoise")
        assert names(await here.search("turquoise")) == [("flat", "colour")]
        await same_ledger.forget("colour")
        assert await here.search("turquoise") == []

        await there.sync()
        clock.advance(60)
        await there.journal("Zeppelin over the lake.")
        await there.persona_forget("people", "facts", "lisa")
        await there.forget("favourite_tea")
        await there.sync()
        await here.sync()
        assert names(await here.search("zeppelin", 1)) == [("journal", "Zeppelin over the lake.")]
        assert await here.search("workshops darjeeling") == []


async def test_what_another_client_deletes_by_its_id_is_not_found_any_more(open_store, clock):
    async with open_store() as store:
        await fill(store)
        await store.search("anything")
        clock.advance(60)
        event_id = (await store.recall("favourite_tea")).event_id
        request = await signer_of(store).sign(Unsigned(int(clock()), KIND_DELETION, (("e", event_id),), ""))
        await parts_of(store).reader.file_served([request], RELAY)

        assert await store.search("darjeeling") == []


async def test_long_keys_at_hashed_addresses_are_found(open_store):
    key, facet = "k" * 230, "f" * 60
    async with open_store() as store:
        await store.remember(key, "halcyon")
        await store.persona_remember("d" * 60, facet, key, "halcyon too")
        for _ in range(2):
            assert {hit.kind.value for hit in await store.search("halcyon")} == {"flat", "palace"}
            await store.remember("another", "write")
        await store.forget(key)
        assert {hit.kind.value for hit in await store.search("halcyon")} == {"palace"}


async def test_the_journal_of_the_published_package_is_searched_too(open_store, signer, clock):
    fields = {"type": "sense-memory:journal", "content": "Quokka sighting.", "ts": 1_700_000_000.5}
    sealed = await signer.encrypt(orjson.dumps(fields), signer.public_key)
    event = await signer.sign(
        Unsigned(int(clock()), KIND_APP_DATA, (("d", "sense-journal/1700000000.5"),), sealed)
    )
    async with open_store() as store:
        await parts_of(store).reader.file_served([event], RELAY)
        (hit,) = await store.search("quokka")

    assert (hit.kind.value, hit.path, hit.created_at) == ("journal", event.id, 1_700_000_000.5)


# ── Age ─────────────────────────────────────────────────────────────────────────────────


async def test_forgotten_persona_memories_are_left_out_and_fading_ones_too_unless_directly_meant(
    open_store, clock
):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "paints harbours", themes=["watercolour"])
        clock.advance(70 * DAY)  # relevance 0.2
        assert await store.search("harbours of Norway in summer") == []
        assert names(await store.search("does she paint harbours?")) == [("palace", "people/facts/lisa")]
        assert names(await store.search("what about lisa")) == [("palace", "people/facts/lisa")]
        assert names(await store.search("watercolour")) == [("palace", "people/facts/lisa")]
        assert names(await store.search('"paints harbours"')) == [("palace", "people/facts/lisa")]
        clock.advance(100 * DAY)  # 0.02
        assert await store.search("lisa watercolour") == []
        await store.persona_recall("people", "facts", "lisa")
        assert names(await store.search("harbours")) == [("palace", "people/facts/lisa")]


async def test_a_search_tells_how_many_forgotten_memories_it_directly_means(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "paints harbours", themes=["watercolour"])
        await store.persona_remember("people", "notes", "ruca", "a dog", themes=["watercolour"])
        assert (await store.search("watercolour")).forgotten == 0
        clock.advance(120 * DAY)  # relevance 0.06
        await store.journal("a watercolour of the harbour")
        for search in (store.search, store.persona_search):
            assert (await search("watercolour")).forgotten == 2
            assert (await search("watercolour", facet="notes")).forgotten == 1
            assert (await search("the moon")).forgotten == 0
            assert (await search("watercolour", state="active")).forgotten == 0
        hits = await store.search("watercolour")
        assert (hits, repr(hits), len(hits)) == ([*hits], repr([*hits]), 1)
        assert (hits[:3].forgotten, hits[:3].confidence, hits[0]) == (2, hits.confidence, next(iter(hits)))
        assert (await store.search("watercolour", within=("journal",))).forgotten == 0


async def test_age_moves_what_was_said_a_little_and_as_much_as_the_floor_lets_it(open_store, clock):
    async with open_store() as store:
        await store.journal("We ate ramen, ramen and more ramen in the old town.")
        clock.advance(300 * DAY)
        await store.journal(
            "Somebody mentioned ramen in passing while we were talking about the weather there."
        )

        by_floor = {
            floor: [round(hit.why.factor, 3) for hit in await store.search("ramen", relevance_floor=floor)]
            for floor in (0.0, 0.9, 1.0)
        }
        old = (await store.search("ramen"))[0]
        new = (await store.search("ramen", relevance_floor=0.0))[0]

    assert by_floor[1.0] == [1.0, 1.0]
    assert by_floor[0.9] == [0.9, 1.0]
    assert old.value.startswith("We ate")
    assert new.value.startswith("Somebody")


async def test_persona_search_multiplies_by_relevance_unless_told_otherwise(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "paints harbours")
        clock.advance(30 * DAY)
        (plain,) = await store.persona_search("harbours")
        (bounded,) = await store.persona_search("harbours", relevance_floor=0.9)
        (whole,) = await store.persona_search("harbours", relevance_floor=1)

        assert (plain.score, bounded.score, whole.score) == (
            pytest.approx(0.5),
            pytest.approx(0.95),
            pytest.approx(1.0),
        )
        with pytest.raises(InvalidInput):
            await store.persona_search("harbours", relevance_floor=2)


async def test_searching_is_no_access(open_store, clock):
    async with open_store() as store:
        await store.persona_remember("people", "facts", "lisa", "paints harbours")
        clock.advance(10 * DAY)
        await store.search("harbours")
        (memory,) = await store.persona_recall()

    assert (memory.access_count, memory.last_accessed) == (0, clock() - 10 * DAY)


# ── Hostile and foreign ─────────────────────────────────────────────────────────────────

QUERIES = {
    "a hundred thousand words": " ".join(f"word{number}" for number in range(100_000)),
    "one word, very long": "a" * 1_000_000,
    "a pattern": r"(a+)+$ .* [ \d{1,999999} (?P<x>",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x9b\u202e\u2028",
    "lone surrogates": "\ud800 \udfff painting \udc00",
    "quotes": '"' * 5_000,
    "stars": "*" * 5_000 + "a*" * 2_000,
    "SQL": "'; DROP TABLE events; --",
    "nothing": "",
    "blanks": " \n\t",
    "only stop words": "what is the of and",
    "combining marks": "a" + "\u0301" * 20_000,
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
async def test_whatever_is_asked_is_answered(open_store, query):
    async with open_store() as store:
        await fill(store)
        hits = await store.search(query)

        assert len(hits) <= 10
        assert all(hit.score > 0 for hit in hits)
        assert len(await store.persona_search(query)) <= 10
        assert names(await store.search("darjeeling")) == [("flat", "favourite_tea")]


async def test_whatever_is_kept_is_searched(open_store):
    async with open_store() as store:
        for number, text in enumerate(
            query for query in QUERIES.values() if query.strip() and len(query) < 40_000
        ):
            if "\ud800" not in text:
                await store.remember(f"k{number}", text)
                await store.journal(text)
        await store.remember("last", "chrysanthemum")

        assert names(await store.search("chrysanthemum")) == [("flat", "last")]


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        ("京都で抹茶を飲みました", "抹茶"),
        ("Die Geburtstagstorte war köstlich", "Torte"),
        ("Мы ездили на дачу летом", "дача"),
        ("ذهبنا إلى السوق القديم", "سوق"),
        ("우리는 부산에서 회를 먹었다", "부산"),
        ("Ao sábado há feijoada", "sabado"),
        ("Wir waren in Zürich", "zurich"),
        ("Πήγαμε στη θάλασσα", "θαλασσα"),
    ],
)
async def test_every_script_is_found_by_its_own_words(open_store, kept, asked):
    async with open_store() as store:
        await fill(store)
        await store.journal(kept)
        hit = (await store.search(asked))[0]

        assert hit.value == kept
        assert hit.why.evidence[0].fields == ("value",)


def test_a_blocking_store_answers_the_same(signer, tmp_path):
    with SyncMemoryStore(signer, ledger=tmp_path / "a.db") as store:
        store.remember("tea", "Darjeeling")
        store.persona_remember("people", "facts", "lisa", "drinks Darjeeling")

        assert set(names(store.search("darjeeling"))) == {("flat", "tea"), ("palace", "people/facts/lisa")}
        assert names(store.search("darjeeling", 1, within=["flat"])) == [("flat", "tea")]
        assert store.persona_search("darjeeling", relevance_floor=0.5)


def test_a_hit_explains_itself_although_its_memory_was_forgotten_meanwhile():
    index = SearchIndex()
    index.put_many([SearchItem("flat/a", "tea", kind="flat"), SearchItem("palace/b", "tea", kind="palace")])
    weigher = Weigher(index, query="tea", now=0.0, floor=0.5)
    hits = index.search("tea", factors=weigher.factors)
    index.drop("flat/a")
    index.drop("palace/b")

    assert [weigher.explain(hit, {"value": "tea"}).relevance for hit in hits] == [1.0, 1.0]


# ── In the snapshot ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def thrifty(monkeypatch):
    """Every close writes a snapshot that lacks anything."""
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_COUNT", 1)
    monkeypatch.setattr("sense_memory.records.reader.SNAPSHOT_NEW_SHARE", 0)


@pytest.fixture
def made(monkeypatch):
    """How many texts each store put into its indexes: those that its snapshot did not hold."""
    counts = []
    extend = LexicalIndex.extend
    monkeypatch.setattr(
        LexicalIndex, "extend", lambda self, rows: (counts.append(len(rows)), extend(self, rows))[1]
    )
    return counts


async def everything(store):
    hits = await store.search("lisa painting darjeeling deploy harbour", 50)
    persona = await store.persona_search("lisa painting deploy", 50)
    return [(hit.path, hit.score, hit.why) for hit in hits], [(hit.path, hit.score) for hit in persona]


@pytest.mark.usefixtures("thrifty")
async def test_a_cold_start_reads_the_one_index_of_both_searches_instead_of_making_it(open_on_disk, made):
    async with open_on_disk() as store:
        await fill(store)
        before = await everything(store)
    assert sum(made) == 4
    made.clear()
    async with open_on_disk() as store:
        assert await everything(store) == before
        assert sum(made) == 0
        await store.persona_remember("people", "facts", "bob", "paints too")
        await store.journal("And one more painting.")
        assert len((await everything(store))[0]) == len(before[0]) + 2
        assert sum(made) == 2


@pytest.mark.usefixtures("thrifty")
async def test_what_changed_since_is_brought_up_to_date(open_on_disk, clock, made):
    async with open_on_disk() as store:
        await fill(store)
        await everything(store)
    clock.advance(60)
    async with open_on_disk(snapshot=True) as store:
        await store.remember("favourite_tea", "Assam")
        await store.persona_remember("people", "facts", "lisa", "sculptor")
    made.clear()
    async with open_on_disk() as store:
        assert names(await store.search("assam")) == [("flat", "favourite_tea")]
        assert await store.search("darjeeling") == []
        assert [hit.path for hit in await store.persona_search("sculptor")] == ["people/facts/lisa"]
        assert await store.persona_search("painting") == []
        assert sum(made) == 2


@pytest.mark.usefixtures("thrifty")
@pytest.mark.parametrize("asks", [True, False])
async def test_an_index_that_nobody_asked_for_stays_in_the_snapshot(open_on_disk, made, asks):
    async with open_on_disk() as store:
        await fill(store)
        await everything(store)
    async with open_on_disk() as store:
        await store.remember("another", "write")
        if asks:
            await store.search("write")
    made.clear()
    async with open_on_disk() as store:
        await everything(store)
        assert sum(made) == (0 if asks else 1)


@pytest.mark.usefixtures("thrifty")
@pytest.mark.parametrize("kind", ["another package", "another index", "no index", "no snapshot"])
async def test_an_index_that_can_not_be_used_is_made_anew_without_a_word(
    open_on_disk, monkeypatch, made, tmp_path, kind
):
    async with open_on_disk() as store:
        await fill(store)
        before = await everything(store)
    if kind == "another package":
        monkeypatch.setattr("sense_memory.records.sealed_caches.__version__", "9")
    elif kind == "another index":
        monkeypatch.setattr("sense_memory.search.index.FORMAT", 99)
    elif kind == "no index":

        async def nonsense(*_):
            return memoryview(b"\x00nonsense" * 9)

        monkeypatch.setattr("sense_memory.records.snapshot.Snapshot.take_extra", nonsense)
    else:
        (tmp_path / "a.db.snapshot").unlink()
    made.clear()
    async with open_on_disk() as store:
        assert await everything(store) == before
        assert sum(made) == 4


@pytest.mark.usefixtures("thrifty")
async def test_indexes_of_any_length_fit(open_on_disk, monkeypatch, made):
    monkeypatch.setattr("sense_memory.records.snapshot.SNAPSHOT_MESSAGE_BYTES", 400)
    async with open_on_disk() as store:
        await fill(store)
        before = await everything(store)
    made.clear()
    async with open_on_disk() as store:
        assert await everything(store) == before
        assert sum(made) == 0


async def forget_here(store, clock):
    await store.persona_forget("people", "facts", "lisa")


async def forget_flat(store, clock):
    await store.forget("favourite_tea")


async def forget_entry(store, clock):
    await store.journal.forget((await store.recent())[0].event_id)


async def tombstone_from_a_relay(store, clock):
    sealed = await envelope.seal(signer_of(store), envelope.tombstone("persona/people/facts/lisa"))
    event = await signer_of(store).sign(sealed.at(int(clock())))
    assert await parts_of(store).reader.file_served([event], RELAY) == {"new": 1}


async def forget_and_say_something_else(store, clock):
    await store.persona_forget("people", "facts", "lisa")
    await store.forget("favourite_tea")
    clock.advance(60)
    await store.persona_remember("people", "facts", "lisa", "sculptor")
    await store.remember("favourite_tea", "Assam")


WAYS = [forget_here, forget_flat, forget_entry, tombstone_from_a_relay, forget_and_say_something_else]


async def inside(signer, tmp_path):
    """All that the snapshot holds, for whoever has the key to it."""
    ledger = Ledger(tmp_path / "a.db", signer.public_key)
    try:
        sealed = ledger.snapshot.key
        if sealed is None:
            return b""
        cipher = snapshot._cipher_in(await signer.decrypt(sealed, signer.public_key))
        bound = blocks.MAGIC + f"{envelope.SCHEMA_VERSION} {signer.public_key}".encode()
        body = (tmp_path / "a.db.snapshot").read_bytes()
        file = SimpleNamespace(key="", open=lambda: io.BytesIO(body))
        contents = blocks.SnapshotFileReader(file, "", blocks.MessageCipher(cipher, bound))
        pieces = (piece for *_, extra in contents.extras() for piece in extra)
        return b"".join([*(contents._message(place) for _, _, place in contents._blocks), *pieces])
    finally:
        ledger.close()


@pytest.mark.usefixtures("thrifty")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("searched", ["before", "after", "elsewhere"])
async def test_no_word_of_what_was_forgotten_is_in_the_next_snapshot(
    open_on_disk, signer, clock, tmp_path, *, way, searched
):
    """Not in an index that held it once either, whoever forgets and whoever keeps the index."""
    async with open_on_disk() as store:
        await fill(store)
        await everything(store)
    words = {forget_flat: b"darjeeling", forget_entry: b"harbour"}.get(way, b"workshops")
    assert words in await inside(signer, tmp_path)
    clock.advance(60)
    async with open_on_disk() as store:
        if searched != "after":
            await everything(store)
        if searched == "elsewhere":
            async with open_on_disk() as other:
                await way(other, clock)
        else:
            await way(store, clock)
        if searched == "after":
            await everything(store)
        await store.remember("new", "value")
        await store.search("value")

    found = await inside(signer, tmp_path)
    assert words not in found.lower()
    async with open_on_disk() as store:
        assert words.decode() not in str(await everything(store))
        assert names(await store.search("value")) == [("flat", "new")]


@pytest.mark.usefixtures("thrifty")
@pytest.mark.parametrize("way", [None, *WAYS], ids=lambda way: way.__name__ if way else "nothing forgotten")
async def test_a_first_search_does_not_wait_for_another_process_that_writes(
    open_on_disk, signer, clock, tmp_path, *, made, way
):
    """Its index is kept all the same, unless something was forgotten since."""
    async with open_on_disk() as store:
        await fill(store)
        clock.advance(60)
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.timeout(10 * SECOND):
                found = await everything(store)
            other.execute("ROLLBACK")
        if way is not None:
            await way(store, clock)
    words = {forget_flat: b"darjeeling", forget_entry: b"harbour"}.get(way, b"workshops")
    assert (words in await inside(signer, tmp_path)) == (way is None)
    made.clear()
    async with open_on_disk() as store:
        assert (await everything(store) == found) == (way is None)
        assert (sum(made) == 0) == (way is None)


@pytest.mark.usefixtures("thrifty")
async def test_no_plaintext_at_rest(open_on_disk, tmp_path, caplog):
    caplog.set_level("DEBUG")
    async with open_on_disk() as store:
        await store.remember("k", "MARKERONE")
        await store.journal("MARKERTWO")
        await store.persona_remember("people", "facts", "lisa", "MARKERTHREE", themes=["MARKERFOUR"])
        hits = await store.search("markerone markertwo markerthree")
        shown = repr(
            [
                hits,
                vars(store),
                vars(parts_of(store)),
                vars(await parts_of(store).search()),
                vars(parts_of(store).reader),
            ]
        )
        assert len(hits) == 3

    assert (tmp_path / "a.db.snapshot").exists()
    for path in tmp_path.iterdir():
        assert b"marker" not in path.read_bytes().lower(), path
    assert "marker" not in (shown + caplog.text).lower()


@pytest.mark.usefixtures("thrifty")
async def test_a_restored_backup_of_the_ledger_never_believes_a_newer_index(open_on_disk, tmp_path, clock):
    async with open_on_disk() as store:
        await fill(store)
    shutil.copy(tmp_path / "a.db", tmp_path / "backup")
    clock.advance(60)
    async with open_on_disk() as store:
        await store.remember("lost", "ephemeral")
        await store.journal("An ephemeral entry.")
        assert {hit.kind.value for hit in await store.search("ephemeral")} == {"flat", "journal"}
    newer = (tmp_path / "a.db.snapshot").read_bytes()
    shutil.copy(tmp_path / "backup", tmp_path / "a.db")
    (tmp_path / "a.db.snapshot").write_bytes(newer)
    async with open_on_disk() as store:
        assert await store.search("ephemeral") == []
        assert names(await store.search("darjeeling")) == [("flat", "favourite_tea")]


# ── While the index is built ────────────────────────────────────────────────────────────


def notes(count):
    return [(f"note-{number:04}", f"the otter sleeps, day {number}") for number in range(count)]


@pytest.fixture
def hasty(monkeypatch):
    """A search that waits for nothing."""
    monkeypatch.setattr("sense_memory.memories.search.INDEX_SECONDS", 0)


@pytest.mark.usefixtures("hasty")
async def test_a_search_answers_from_what_is_read_by_then_and_says_how_much_is_not(open_store):
    async with open_store() as store:
        await store.remember_many(notes(600))
        found, left = [], []
        while not left or left[-1]:
            found.append(len(await store.search("otter", 1_000)))
            left.append(store.gaps().unread)

        assert left[0] > 0
        assert found == sorted(found)
        assert left == sorted(left, reverse=True)
        assert len(await store.search("otter", 1_000)) == 600
        assert store.gaps().unread == 0


async def test_reading_everything_says_how_far_it_is_and_leaves_others_their_turn(open_store):
    async with open_store() as store:
        await store.remember_many(notes(450))
        for number in range(450):
            await store.persona_remember("self", "facts", f"p{number:03}", "the otter wakes")
        told, turns = [], 0

        async def other():
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.create_task(other())
        assert await store.index(progress=lambda done, total: told.append((done, total, turns))) == 900
        task.cancel()

        assert [done for done, *_ in told] == sorted({done for done, *_ in told})
        assert told[-1][:2] == (900, 900)
        assert len({at for *_, at in told}) >= 4
        assert len(await store.search("otter", 1_000)) == 900


@pytest.mark.parametrize("palace", [False, True])
async def test_a_search_that_waits_while_its_store_closes_says_so_and_is_not_cancelled(
    open_store, monkeypatch, palace
):
    begun = asyncio.Event()

    async def held(_index):
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(CachedIndex, "saved", held)
    async with open_store() as store:
        waiting = asyncio.create_task((store.palace if palace else store).search("otter"))
        async with asyncio.timeout(10 * SECOND):
            await begun.wait()
    with pytest.raises(StoreClosed):
        await waiting


@pytest.mark.usefixtures("hasty")
async def test_a_store_that_is_closed_while_it_reads_leaves_what_it_has_read(open_on_disk):
    """Whoever opens the ledger next goes on there; and nothing is missing."""
    async with open_on_disk() as store:
        await store.remember_many(notes(900))
    async with open_on_disk() as store:
        await store.search("otter")
        while store.gaps().unread > 500:
            await store.search("otter")
        assert store.gaps().unread
    told = []
    async with open_on_disk() as store:
        assert await store.index(progress=lambda *at: told.append(at)) == 900
        assert told[0][0] >= 600
        assert len(await store.search("otter", 1_000)) == 900


@pytest.mark.usefixtures("hasty")
async def test_what_is_written_while_memories_are_read_is_found_once_they_are(open_store):
    async with open_store() as store:
        await store.remember_many(notes(600))
        await store.search("otter")
        await store.remember("note-0001", "a heron instead")
        await store.persona_remember("self", "facts", "heron", "herons wait")
        await store.index()

        assert {hit.path for hit in await store.search("heron")} == {"note-0001", "self/facts/heron"}
        assert "note-0001" not in {hit.path for hit in await store.search("otter", 1_000)}


# ── Narrowing ───────────────────────────────────────────────────────────────────────────


async def test_filters_narrow_both_searches_in_the_same_way_before_the_best_are_cut_off(open_store, clock):
    async with open_store() as store:
        for number in range(12):
            await store.persona_remember("people", "facts", f"otter-{number}", "otters")
        await store.persona_remember("home", "notes", "pond", "otters came", themes=["Wild Life"])
        await store.remember("flat", "otters")
        written = clock()
        for search in (store.search, store.persona_search):
            for narrowed in ({"domain": "home"}, {"facet": "notes"}, {"theme": "wild life"}):
                (hit,) = await search("otters", 1, **narrowed)
                assert (hit.kind, hit.path, hit.key) == ("palace", "home/notes/pond", "pond")
                assert (hit.domain, hit.facet, hit.state, hit.themes) == (
                    "home",
                    "notes",
                    "active",
                    ("Wild Life",),
                )
                assert hit.why.evidence[0].detail == "otters"
            assert await search("otters", domain="work") == await search("otters", since=written + 1) == []
            for wrong in ({"state": "asleep"}, {"theme": 7}):
                with pytest.raises(InvalidInput):
                    await search("otters", **wrong)
        with pytest.raises(InvalidInput, match="only the palace"):
            await store.search("otters", within="flat", domain="home")
        (flat,) = await store.search("otters", within="flat")
        assert (flat.key, flat.domain, flat.state) == ("flat", None, None)


@pytest.mark.parametrize(("days", "state"), [(75, "fading"), (120, "forgotten"), (250, "dissolved")])
async def test_a_state_finds_what_is_left_out_otherwise(open_store, clock, days, state):
    async with open_store() as store:
        await store.persona_remember("home", "notes", "pond", "otters came")
        clock.advance(days * 86_400)
        for search in (store.search, store.persona_search):
            assert await search("otters on a boat") == await search("otters", state="active") == []
            (hit,) = await search("otters on a boat", state=state)
            assert hit.state == state


async def test_what_was_written_in_the_week_after_is_probably_no_answer_to_what_happened_that_week(
    open_store, clock
):
    clock.now = NOON - 2 * 86_400  # a Monday
    async with open_store() as store:
        await store.journal("Rowed to the lighthouse.")
        clock.advance(86_400)
        late = await store.search("What happened last week?")
        assert late
        assert late.is_doubtful
        clock.advance(7 * 86_400)
        assert not (await store.search("What happened last week?")).is_doubtful
