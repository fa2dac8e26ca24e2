"""Remembering with an embedder: contradictions are found by words alone, nothing waits, and near memories are suggested."""

from __future__ import annotations

import asyncio
import threading
from hashlib import blake2b

import numpy as np
import pytest

from sense_memory.errors import EmbedderError
from sense_memory.memories.persona import contradictions
from tests.time_unit import SECOND


SYNONYMS = ({"jogging", "running"}, {"loves", "gave"}, {"kids", "children"}, {"physician", "doctor"})
JOGGING = ("people", "facts", "ana-jogging", "Ana loves jogging")
RUNNING = ("people", "facts", "ana-sport", "Ana gave up running")


class Synonyms:
    """An embedder for which a text is the sum of its words, and words are unrelated but for synonyms."""

    name, dimension = "synonyms-1", 64

    def __init__(self):
        self.seen, self.problem, self.gate = [], None, None

    def embed(self, texts):
        self.seen.append(list(texts))
        if self.gate is not None:
            assert self.gate.wait(30 * SECOND)
        if self.problem is not None:
            raise self.problem
        rows = np.array([self._row(text) for text in texts], np.float32).reshape(len(texts), -1)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def _row(self, text):
        words = text.lower().replace("-", " ").split()
        return np.sum([self._word(word) for word in words] or [np.zeros(self.dimension)], axis=0)

    def _word(self, word):
        group = next((min(group) for group in SYNONYMS if word in group), word)
        seed = int.from_bytes(blake2b(group.encode(), digest_size=8).digest(), "big")
        return np.random.default_rng(seed).normal(size=self.dimension)


async def suspected(store):
    report = await store.persona_introspect()
    names = [(item.old.key, item.new.key) for item in report.suggested_contradictions]
    return dict(zip(names, report.reasons["suggested_contradictions"], strict=True))


async def superseded(store):
    return {memory.key for memory in await store.persona_recall("people", "facts") if memory.superseded_by}


# ── What is found ───────────────────────────────────────────────────────────────────────


async def test_an_embedder_changes_nothing_of_what_contradicts(open_store):
    async with open_store(embedder=Synonyms()) as store:
        await store.persona_remember(*JOGGING)
        await store.persona_remember(*RUNNING)
        await store.persona_remember("people", "facts", "docs", "The docs are in Confluence")
        await store.persona_remember("people", "facts", "docs-now", "Docs were migrated to Notion")
        await store.embed()
        assert {*await suspected(store)} == {("docs", "docs-now")}


async def test_what_the_words_say_is_acted_on_as_ever(open_store):
    async with open_store(embedder=Synonyms()) as store:
        await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        await store.persona_remember("people", "facts", "lisa-moved", "Lisa lives in Lisbon")
        await store.persona_remember("people", "facts", "lisa-kids", "Lisa has two kids")
        assert await superseded(store) == {"lisa-home"}


async def test_traps_stay_traps(open_store):
    async with open_store(embedder=Synonyms()) as store:
        await store.persona_remember(*JOGGING)
        await store.persona_remember("people", "facts", "ana-runs", "Ana is fond of running")  # the same
        await store.persona_remember("people", "facts", "ben-runs", "Ben no longer runs")
        await store.persona_remember("people", "facts", "ana-swims", "Ana swims on Mondays")
        await store.persona_remember(
            "people", "beliefs", "ana-running", "Ana gave up running"
        )  # another facet
        assert await suspected(store) == {}
        assert await superseded(store) == set()


# ── What it costs ───────────────────────────────────────────────────────────────────────


async def test_a_write_shows_no_memory_to_the_embedder_and_a_search_shows_each_once(open_on_disk):
    embedder = Synonyms()
    async with open_on_disk(embedder=embedder) as store:
        for number in range(6):
            await store.persona_remember("people", "facts", f"k{number}", f"thing number {number}")
        assert embedder.seen == []
        await store.persona_search("thing")
        await store.embed()
    again = Synonyms()
    async with open_on_disk(embedder=again) as store:
        await store.persona_remember("people", "facts", "k9", "thing number 9")
        await store.embed()
    shown = [text for texts in embedder.seen + again.seen for text in texts if "thing number" in text]
    assert sorted(shown) == [f"k{number} \nthing number {number}" for number in (0, 1, 2, 3, 4, 5, 9)]


# ── Where it fails ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("problem", [EmbedderError("synonyms-1", "it sleeps"), RuntimeError("a bug")])
async def test_an_embedder_that_fails_stops_no_memory(open_store, problem):
    embedder = Synonyms()
    embedder.problem = problem
    async with open_store(embedder=embedder) as store:
        await store.persona_remember("people", "facts", "lisa-home", "Lisa lives in Berlin")
        await store.persona_remember("people", "facts", "lisa-moved", "Lisa lives in Lisbon")
        await store.persona_remember(*JOGGING)
        await store.persona_remember(*RUNNING)
        assert await superseded(store) == {"lisa-home"}
        assert await suspected(store) == {}


async def test_an_embedder_that_is_not_installed_stops_no_memory(open_store, monkeypatch):
    monkeypatch.setattr("sense_memory.search.embedders.local_models.package_folder", lambda name: None)
    async with open_store(embedder="static") as store:
        await store.persona_remember(*JOGGING)
        await store.persona_remember(*RUNNING)
        assert len(await store.persona_recall("people", "facts")) == 2
        assert (await store.persona_introspect()).suggested_connections == ()


async def test_a_plan_without_embeddings_compares_words(open_store):
    embedder = Synonyms()
    async with open_store(embedder=embedder, plan="free") as store:
        await store.persona_remember(*JOGGING)
        await store.persona_remember(*RUNNING)
        assert await suspected(store) == {}
        assert [hit.key for hit in await store.search("jogging")] == ["ana-jogging"]
    assert embedder.seen == []


async def test_no_write_waits_for_an_embedder(open_on_disk):
    embedder, gate = Synonyms(), threading.Event()
    embedder.gate = gate
    try:
        async with asyncio.timeout(5 * SECOND):
            async with open_on_disk(embedder=embedder) as store:
                await store.persona_remember(*JOGGING)
                await store.persona_remember(*RUNNING)
        assert embedder.seen == []
    finally:
        gate.set()
    async with open_on_disk() as store:
        assert len(await store.persona_recall("people", "facts")) == 2


async def test_memories_are_compared_in_meaning_again_only_when_some_have_changed(open_store, monkeypatch):
    compared, near_pairs = [], contradictions.near_pairs
    monkeypatch.setattr(
        contradictions,
        "near_pairs",
        lambda paths, rows: compared.append(len(paths)) or near_pairs(paths, rows),
    )
    async with open_store(embedder=Synonyms()) as store:
        await store.persona_remember("people", "facts", "kids", "Omar visits many kids")
        await store.persona_remember("people", "facts", "children", "Omar visits many children")
        await store.search("anything")
        reports = [await store.persona_introspect() for _ in range(2)]
        await store.persona_remember("people", "facts", "children", "fog lifts by noon")
        await store.search("anything")
        reports.append(await store.persona_introspect())

    assert [len(report.suggested_connections) for report in reports] == [1, 1, 0]
    assert compared == [2, 2]


async def test_memories_near_in_meaning_are_suggested_as_connected(open_on_disk):
    async with open_on_disk(embedder=Synonyms()) as store:
        await store.persona_remember("people", "facts", "kids", "Omar visits many kids")
        await store.persona_remember("self", "beliefs", "children", "Omar visits many children")
        await store.persona_remember("self", "beliefs", "weather", "fog lifts by noon")
        await store.embed()
        report = await store.persona_introspect()
    (found,) = report.suggested_connections
    assert {memory.key for memory in found} == {"kids", "children"}
    assert "near in meaning" in report.reasons["suggested_connections"][0]
    async with open_on_disk() as store:
        assert (await store.persona_introspect()).suggested_connections == ()


async def test_of_a_large_facet_the_newest_memories_are_read_first_and_each_write_reads_some_older_ones(
    open_store, monkeypatch
):
    monkeypatch.setattr(contradictions, "FIRST_READ_COUNT", 3)
    monkeypatch.setattr(contradictions, "LATER_READ_COUNT", 1)
    notes = [
        {"domain": "people", "facet": "facts", "key": name, "value": f"Person {name} lives in Graz"}
        | {"created_at": float(day)}
        for day, name in enumerate("ABCDEF")
    ]
    async with open_store() as store:
        await store.persona_remember_many(notes, contradictions="off")
        newest = await store.persona_remember("people", "facts", "f-moved", "Person F lives in Linz")
        oldest = await store.persona_remember("people", "facts", "a-moved", "Person A lives in Linz")
        assert newest.superseded == ("people/facts/F",)
        assert oldest.superseded == ()
        for number in range(3):
            await store.persona_remember("people", "facts", f"other-{number}", "It rains.")
        again = await store.persona_remember("people", "facts", "a-moved-again", "Person A lives in Wien")
        assert "people/facts/A" in again.superseded


async def test_of_two_memories_the_one_whose_text_was_written_last_is_the_newer_one(open_on_disk, clock):
    expected = {("job-baker", "job"): "works as: baker → cook"}
    async with open_on_disk() as store:
        for key, text in (("job", "poet"), ("job-baker", "baker"), ("job", "cook")):
            clock.advance(5)
            await store.persona_remember("people", "facts", key, f"Lisa works as a {text}.")
        assert await suspected(store) == expected
        assert "Lisa works as a baker (compare job, written later)" in await store.persona_compress()
        await store.persona_connect("job", "job-baker")
    async with open_on_disk() as store:
        assert await suspected(store) == expected
        clock.advance(5)
        await store.persona_remember("people", "facts", "job", "Lisa sleeps.")
        assert await suspected(store) == {}
        assert await store.undo("people/facts/job")
        assert await suspected(store) == expected


@pytest.mark.parametrize("many", [False, True])
async def test_an_imported_memory_of_long_ago_supersedes_nothing_newer(open_store, clock, many):
    """It is suspected, because nobody says when the newer one was last true."""
    async with open_store() as store:
        await store.persona_remember("people", "facts", "home", "Mira lives in Oslo.")
        old = {"created_at": clock.now - 86_400 * 900, "halflife_days": 3_650}
        if many:
            fields = {"domain": "people", "facet": "facts", "key": "home-2", "value": "Mira lives in Berlin."}
            (found,) = await store.persona_remember_many([fields | old])
        else:
            found = await store.persona_remember("people", "facts", "home-2", "Mira lives in Berlin.", **old)
        assert (found.superseded, found.suspected) == ((), ("people/facts/home",))
        later = await store.persona_remember("people", "facts", "home-3", "Mira lives in Rome.")
        assert set(later.superseded) == {"people/facts/home", "people/facts/home-2"}


async def test_a_palace_of_numbered_things_keeps_them_all_and_hands_over_the_one_that_is_asked_for(
    open_store,
):
    text = "value number {} of load"
    async with open_store() as store:
        values = {"domain": "load", "facet": "facts"}
        told = await store.persona_remember_many(
            [values | {"key": f"value-{number}", "value": text.format(number)} for number in range(80)]
        )
        assert {(one.superseded, one.suspected) for one in told} == {((), ())}

        report = await store.persona_introspect(dry_run=True)
        assert (report.contradictions, report.suggested_contradictions) == ((), ())
        found = await store.persona_compress("load", question=f"what is {text.format(17)}?")
        assert text.format(17) in str(found).splitlines()[1]
        assert (await store.persona_search(text.format(17)))[0].key == "value-17"


async def test_what_a_tool_found_casts_doubt_on_what_the_user_told_and_supersedes_only_what_a_tool_found(
    open_store,
):
    async with open_store() as store:
        await store.palace.remember("people/facts/home", "Lisa lives in Graz.", source="user")
        told = await store.palace.remember("people/facts/page", "Lisa lives in Vienna.", source="tool:web")
        assert (told.superseded, told.suspected) == ((), ("people/facts/home",))
        told = await store.palace.remember("people/facts/again", "Lisa lives in Linz.", source="document:ab")
        assert told.superseded == ("people/facts/page",)
        assert "people/facts/home" in told.suspected
        told = await store.palace.remember("people/facts/said", "Lisa lives in Bern.", source="user")
        assert "people/facts/home" in told.superseded
