"""An embedder in a store: memories are found by what they mean, and by their words where it cannot be asked."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest

from sense_memory import InvalidInput, LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.errors import EmbedderError, MissingExtra, PlanLimitError, StorageFullError
from tests.inside import ledger_of
from tests.memories.topics import DIMENSION, vectors_of
from tests.time_unit import SECOND


class Topics:
    """An embedder that knows three topics, counts what it is asked and can be switched off."""

    dimension = DIMENSION

    def __init__(self, name="topics-1"):
        self.name, self.seen, self.threads, self.problem = name, [], set(), ""

    def embed(self, texts):
        self.threads.add(threading.current_thread())
        if self.problem:
            raise EmbedderError(self.name, self.problem)
        self.seen += texts
        return vectors_of(texts)


@pytest.fixture
def open_store(clock, tmp_path):
    def make(embedder, **options):
        options = {"ledger": tmp_path / "a.db", "clock": clock, "background": False, **options}
        return MemoryStore(LocalSigner.from_hex("5e" * 32), embedder=embedder, **options)

    return make


async def fill(store):
    await store.remember("pet", "a purring kitten, striped")
    await store.persona_remember("home", "facts", "vehicle", "engine rebuilt in the garage")
    await store.journal("Bought darjeeling at the market.")
    for number in range(12):
        await store.remember(f"note{number}", f"nothing of interest, number {number}")


async def paths(store, query, **options):
    return [hit.path for hit in await store.search(query, **options)]


async def test_a_memory_without_any_word_of_the_question_is_found_by_its_meaning(open_store):
    async with open_store(None) as store:
        await fill(store)
        assert await store.search("feline") == []
    async with open_store(Topics()) as store:
        assert (await paths(store, "feline"))[0] == "pet"
        assert (await paths(store, "automobile"))[0] == "home/facts/vehicle"
        (hit, *_) = await store.search("beverage")
        assert hit.value.startswith("Bought darjeeling")
        assert {item.kind for item in hit.why.evidence} >= {"meaning"}


async def test_the_palace_finds_by_meaning_too_and_says_so(open_store):
    async with open_store(Topics()) as store:
        await fill(store)
        (hit,) = await store.persona_search("automobile")
        assert hit.path == "home/facts/vehicle"
        assert [match.field for match in hit.why.matches] == ["meaning"]
        assert sum(match.contribution for match in hit.why.matches) == pytest.approx(hit.score)
        assert hit.why.text.startswith("close in meaning; relevance 1.00")
        assert await store.persona_search("gardening") == []


async def test_words_weigh_as_much_in_the_palace_as_without_an_embedder(open_store):
    async with open_store(None) as store:
        await fill(store)
        (bare,) = await store.persona_search("rebuilt vehicle")
    async with open_store(Topics()) as store:
        (hit,) = await store.persona_search("rebuilt vehicle")
    words = [match.contribution for match in hit.why.matches if match.field != "meaning"]
    assert sum(words) == pytest.approx(bare.score)


async def test_a_memory_is_shown_once_and_in_no_thread_of_the_loop(open_store):
    topics = Topics()
    async with open_store(topics) as store:
        await fill(store)
        await store.search("feline")
        shown = len(topics.seen)
        await store.search("feline")
        assert len(topics.seen) == shown + 1  # the question
    assert threading.current_thread() not in topics.threads
    assert "vehicle \nengine rebuilt in the garage" in topics.seen  # each line once, however much it weighs
    again = Topics()
    async with open_store(again) as store:  # out of the snapshot
        assert (await paths(store, "feline"))[0] == "pet"
    assert again.seen == ["feline"]


async def test_a_changed_memory_is_found_by_what_it_says_now(open_store):
    async with open_store(Topics()) as store:
        await fill(store)
        await store.search("feline")
        await store.remember("pet", "an old automobile")
        assert "pet" not in await paths(store, "feline")
        assert "pet" in await paths(store, "engine")
        await store.forget("pet")
        assert "pet" not in await paths(store, "engine")


async def test_where_the_embedder_fails_words_find_and_the_store_says_why(open_store):
    topics = Topics()
    topics.problem = "it sleeps"
    async with open_store(topics) as store:
        await fill(store)
        assert (await paths(store, "kitten"))[0] == "pet"
        assert await store.search("feline") == []
        gaps = store.gaps()
        assert gaps.count == 15
        assert gaps.trouble.problem == "it sleeps"
        asked = len(topics.threads)
        topics.problem = ""
        assert await store.search("feline") == []  # it is left alone for a while
        assert len(topics.threads) == asked
        done = []
        gaps = await store.embed(progress=lambda *counts: done.append(counts))
        assert (gaps.count, gaps.trouble) == (0, None)
        assert (done[0], done[-1]) == ((0, 15), (15, 15))
        assert (await paths(store, "feline"))[0] == "pet"


async def test_embedding_that_is_interrupted_goes_on_where_it_was(open_store):
    topics = Topics()

    def stop(done, _):
        if done:
            topics.problem = "the power is out"

    async with open_store(topics) as store:
        await store.remember_many((f"k{number}", f"note {number}") for number in range(200))
        assert (await store.embed(progress=stop)).count == 136
    topics.problem, topics.seen = "", []
    async with open_store(topics) as store:
        assert (await store.embed()).count == 0
    assert len(topics.seen) == 136


async def test_another_embedder_begins_anew(open_store):
    async with open_store(Topics()) as store:
        await fill(store)
        await store.search("feline")
    other = Topics("topics-2")
    async with open_store(other) as store:
        assert (await paths(store, "feline"))[0] == "pet"
    assert len(other.seen) == 16


async def test_an_embedder_that_changes_its_mind_about_dimensions_is_an_embedder_that_fails(open_store):
    topics = Topics()
    async with open_store(topics) as store:
        await fill(store)
        await store.search("feline")
        topics.embed = lambda texts: np.ones((len(texts), 7), np.float32)
        await store.remember("new", "kitten")
        assert set(await paths(store, "kitten")) >= {"new"}


async def test_an_embedder_is_named_opened_late_or_given(open_store, monkeypatch):
    with pytest.raises(InvalidInput, match="not an embedder; write one of"):
        open_store("magic")
    opened = []

    def opening():
        opened.append(1)
        return Topics()

    async with open_store(opening) as store:
        await fill(store)
        await store.recall("pet")
        assert opened == []
        assert (await paths(store, "feline"))[0] == "pet"
        await store.search("feline")
        assert opened == [1]
    monkeypatch.setattr("sense_memory.search.embedders.local_models.package_folder", lambda name: None)
    async with open_store("static") as store:
        with pytest.raises(MissingExtra, match=r"pip install '\.\[static\]'"):
            await store.search("feline")


def test_the_twin_for_threads_embeds_too(clock, tmp_path):
    options = {"ledger": tmp_path / "a.db", "clock": clock, "background": False}
    with SyncMemoryStore(LocalSigner.from_hex("5e" * 32), embedder=Topics(), **options) as store:
        store.remember("pet", "kitten")
        assert store.embed().count == 0
        assert store.gaps().count == 0
        assert [hit.path for hit in store.search("feline")] == ["pet"]


async def test_a_plan_without_embeddings_searches_by_words_and_says_so(open_store):
    topics = Topics()
    async with open_store(topics, plan="free") as store:
        await store.remember("pet", "kitten")
        await store.persona_remember("home", "facts", "pet", "a kitten")
        for search in (store.search, store.persona_search):
            assert await search("feline") == []
            for hit in await search("kitten"):
                assert hit.why.text.endswith("by words only, as the plan free has no embeddings")
        assert "the plan free has no embeddings" in str(store.gaps().trouble)
        with pytest.raises(PlanLimitError, match="leave the embedder out"):
            await store.embed()
    assert topics.seen == []


# ── What is kept ────────────────────────────────────────────────────────────────────────


def shown(topics):
    """What an embedder was shown besides questions."""
    return [text for text in topics.seen if " " in text]


async def test_forgetting_one_memory_shows_no_other_one_again(open_store):
    """The index is thrown away with a forgotten memory, whose words it may hold; the vectors of others are not."""
    async with open_store(Topics()) as store:
        await fill(store)
        await store.search("feline")
    async with open_store(None) as store:
        await store.forget("note3")
    topics = Topics()
    async with open_store(topics) as store:
        assert (await paths(store, "feline"))[0] == "pet"
    assert shown(topics) == []


async def test_a_forgotten_memory_leaves_no_vector_behind(open_store, tmp_path):
    async with open_store(Topics()) as store:
        await fill(store)
        await store.search("feline")
        (entry,) = await store.recent()

    def rows():
        with closing(sqlite3.connect(tmp_path / "a.db")) as ledger:
            return {slot for (slot,) in ledger.execute("SELECT slot FROM vectors")}

    assert len(rows()) == 15
    async with open_store(None) as store:
        await store.forget("pet")
        await store.persona_forget("home", "facts", "vehicle")
        await store.journal.forget(entry.event_id)
    assert rows() == {f"sense-memory/note{number}" for number in range(12)}


async def test_a_memory_that_is_forgotten_while_it_is_read_leaves_no_vector_either(open_store, tmp_path):
    topics = Topics()
    async with open_store(topics) as store:
        await store.remember("pet", "kitten one")
        loop = asyncio.get_running_loop()

        def forgetting(texts, embed=topics.embed):
            asyncio.run_coroutine_threadsafe(store.forget("pet"), loop).result(5 * SECOND)
            return embed(texts)

        topics.embed = forgetting
        assert await store.search("feline") == []
    with closing(sqlite3.connect(tmp_path / "a.db")) as ledger:
        assert ledger.execute("SELECT count(*) FROM vectors").fetchone() == (0,)


async def test_vectors_at_rest_say_nothing(open_store, tmp_path):
    """Neither a word nor a number of them stands in any file."""
    topics = Topics()
    async with open_store(topics) as store:
        await store.remember("pet", "kitten kitten kitten")
        await store.search("feline")
        row = topics.embed(["pet \nkitten kitten kitten"])[0]
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for kind in ("<f2", "<f4"):
        assert row.astype(kind).tobytes() not in stored
    assert b"kitten" not in stored


async def test_vectors_that_were_tampered_with_or_moved_are_made_anew(open_store, tmp_path):
    async with open_store(Topics()) as store:
        await store.remember("pet", "kitten one")
        await store.remember("vehicle", "engine two")
        await store.search("feline")
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as ledger:
        bodies = dict(ledger.execute("SELECT slot, body FROM vectors"))
        for slot, other in zip(bodies, reversed(bodies), strict=True):
            ledger.execute("UPDATE vectors SET body = ? WHERE slot = ?", (bodies[other], slot))
    topics = Topics()
    async with open_store(topics) as store:
        assert (await paths(store, "feline"))[0] == "pet"
    assert len(shown(topics)) == 2
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as ledger:
        ledger.execute("UPDATE meta SET value = 'no key' WHERE name = 'vectors_key'")
    topics = Topics()
    async with open_store(topics) as store:
        assert (await paths(store, "feline"))[0] == "pet"
    assert len(shown(topics)) == 2


async def test_what_one_process_had_read_another_need_not(open_store):
    first, second = Topics(), Topics()
    async with open_store(first) as one, open_store(second) as other:
        await fill(one)
        await one.search("feline")
        assert (await paths(other, "feline"))[0] == "pet"
        await one.remember("pet", "an automobile now")
        await one.search("feline")
        assert "pet" in await paths(other, "engine")
    assert shown(second) == []


async def test_without_the_snapshot_vectors_are_kept_as_well(open_store):
    async with open_store(Topics(), snapshot=False) as store:
        await fill(store)
        await store.search("feline")
    topics = Topics()
    async with open_store(topics, snapshot=False) as store:
        assert (await paths(store, "feline"))[0] == "pet"
    assert shown(topics) == []


async def test_a_ledger_that_can_not_be_written_stops_no_search(open_store, monkeypatch):
    def full(*_):
        raise StorageFullError("disk")

    async with open_store(Topics()) as store:
        await fill(store)
        monkeypatch.setattr(ledger_of(store).vectors, "save", full)
        assert (await paths(store, "feline"))[0] == "pet"
