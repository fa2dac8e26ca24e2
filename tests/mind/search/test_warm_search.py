"""In a store with `background`, nobody waits for the index or the embedder: a search answers by words meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager

import pytest

from sense_memory.errors import MissingExtra, StoreClosed
from sense_memory.memories import index_keeper
from sense_memory.mind.search import search, text_scan
from sense_memory.mind.search.hits import Place
from sense_memory.mind.search.text_scan import best_texts
from sense_memory.search.index import SearchIndex
from tests.memories.test_embedding_jobs import Topics
from tests.mind.search.test_search import MEANT, say_and_keep, texts, told
from tests.mind.test_log import opened
from tests.time_unit import SECOND


class Barrier:
    """Holds threads until it is opened, and knows whether one has come."""

    def __init__(self):
        self._come, self._open = threading.Event(), threading.Event()

    def wait(self):
        self._come.set()
        self._open.wait(10 * SECOND)

    def open(self):
        self._open.set()

    async def reached(self):
        assert await asyncio.to_thread(self._come.wait, 10 * SECOND)


@pytest.fixture
def barrier():
    held = Barrier()
    yield held
    held.open()


@pytest.fixture
def warming(barrier, monkeypatch):
    """A store whose index is held while it is made: where words are sorted, or where the embedder is opened."""
    for name in ("SNAPSHOT_NEW_COUNT", "SNAPSHOT_NEW_SHARE"):  # each close writes a snapshot
        monkeypatch.setattr(f"sense_memory.records.reader.{name}", 0)
    inner = SearchIndex.sorted_postings
    monkeypatch.setattr(search, "_WORDS_SECONDS", 0.02)
    monkeypatch.setattr(index_keeper, "_THREAD_COUNT", 0)  # words are sorted in a thread

    def sort(index):
        barrier.wait()
        return inner(index)

    @asynccontextmanager
    async def store(place, *, ledger=":memory:", **options):
        if place == "index":
            monkeypatch.setattr(SearchIndex, "sorted_postings", sort)
        else:
            options["embedder"] = lambda: barrier.wait() or Topics()
        async with opened(ledger, background=True, **options) as opened_store:
            await told(opened_store)
            for number in range(150):
                await opened_store.mind.log.append("agent.spoke", {"text": f"Line {number}."}, actor="me")
            yield opened_store
        monkeypatch.setattr(SearchIndex, "sorted_postings", inner)

    return store


@pytest.mark.parametrize("place", ["index", "embedder"])
async def test_a_search_by_words_answers_while_the_warm_up_is_held(warming, barrier, place):
    async with warming(place) as store:
        assert (await texts(store, "moving to Graz"))[0] == "My sister Kaja moved to Graz last spring."
        await barrier.reached()
        assert {hit.place for hit in await store.mind.search("Kaja Graz", 10)} == set(Place)
        narrowed = [
            ({"within": ["archive"]}, ["Kaja restores old violins."]),
            ({"within": ["log"], "limit": 1}, ["A storm closed the road to Graz."]),
            ({"tags": ["music"]}, ["Kaja restores old violins."]),
            ({"tags": ["keys"]}, []),
            ({"topic": "family"}, ["Kaja restores old violins."]),
            ({"conversation": "elsewhere"}, []),
        ]
        for options, expected in narrowed:
            assert await texts(store, "Kaja in Graz", **options) == expected
        await store.mind.log.append("agent.spoke", {"text": "A zither arrived."}, actor="me")
        assert await texts(store, "zither", limit=1) == ["A zither arrived."]
        by_words = await texts(store, "Kaja Graz", limit=3)

        barrier.open()
        await store.mind.warm()
        assert await texts(store, "zither", limit=1) == ["A zither arrived."]
        assert set(await texts(store, "Kaja Graz", limit=3)) == set(by_words)


@pytest.mark.parametrize("place", ["index", "embedder"])
async def test_a_store_that_closes_during_the_warm_up_ends_it_and_the_next_one_finds_everything(
    warming, barrier, tmp_path, caplog, place
):
    before = asyncio.all_tasks()
    async with asyncio.timeout(5 * SECOND), warming(place, ledger=tmp_path / "a.db", snapshot=True) as store:
        await store.mind.search("Graz")
        await barrier.reached()
    assert asyncio.all_tasks() == before
    assert not caplog.records
    barrier.open()
    async with opened(tmp_path / "a.db", snapshot=True) as store:
        assert {hit.place for hit in await store.mind.search("Kaja Graz", 10)} == set(Place)
        assert await texts(store, "line 149", limit=1) == ["Line 149."]


async def test_a_search_that_waits_while_the_store_closes_says_so(warming, barrier, monkeypatch):
    async with warming("index") as store:
        monkeypatch.setattr(search, "_WORDS_SECONDS", 10 * SECOND)
        waiting = [asyncio.create_task(work) for work in (store.mind.search("Graz"), store.mind.warm())]
        await barrier.reached()
    for task in waiting:
        with pytest.raises(StoreClosed):
            await task
    barrier.open()


async def test_a_caller_of_warm_that_is_cancelled_leaves_the_warm_up_to_the_others(warming, barrier):
    async with warming("index") as store:
        gone, waiting = (asyncio.create_task(store.mind.warm()) for _ in range(2))
        await barrier.reached()
        gone.cancel()
        await asyncio.wait({gone})
        barrier.open()
        await waiting
        assert gone.cancelled()
        assert (await texts(store, "Graz"))[0]


async def test_a_warm_up_that_fails_is_told_and_words_still_answer(barrier, caplog):
    def failing():
        barrier.wait()
        raise MissingExtra("static")

    async with opened(background=True, embedder=failing) as store:
        await told(store)
        assert (await texts(store, "violins"))[0] == "Kaja restores old violins."
        await barrier.reached()
        barrier.open()
        with pytest.raises(MissingExtra):
            await store.mind.warm()
        await asyncio.sleep(0)
        with pytest.raises(MissingExtra):
            await store.mind.search("violins")
    assert {(record.levelno, "MissingExtra" in record.message) for record in caplog.records} == {
        (logging.WARNING, True)
    }
    assert "violins" not in caplog.text


async def test_what_is_said_while_the_warm_up_runs_is_found_right_after_it(warming, barrier):
    async with warming("index") as store:
        await store.mind.search("Graz")
        await barrier.reached()
        await store.mind.log.append("agent.spoke", {"text": "A zither arrived."}, actor="me")
        late = asyncio.create_task(store.mind.search("zither", 1))
        await asyncio.sleep(0)
        barrier.open()
        assert [hit.text for hit in await late] == ["A zither arrived."]


async def test_an_embedder_that_is_busy_with_a_thousand_items_keeps_no_search_waiting(barrier):
    sizes = []

    class Busy(Topics):
        def embed(self, texts):
            sizes.append(len(texts))
            if len(texts) > 1:
                barrier.wait()
            return super().embed(texts)

    embedder = Busy()
    async with opened(background=True, embedder=lambda: embedder) as store:
        await say_and_keep(store)
        await store.mind.search("engine")
        await barrier.reached()
        for _ in range(3):
            assert (await texts(store, "engine"))[0] == "The engine is in pieces again."
        barrier.open()
        async with asyncio.timeout(10 * SECOND):
            while {hit.text for hit in await store.mind.search("automobile", 2)} != MEANT:
                pass
    assert max(sizes) <= search._FILL_COUNT  # so that a question is soon the next call


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("cities", "A city by the sea"),
        ("moving house", "He moved last year"),
        ("hoped", "hoping for rain"),
        ("running", "she runs"),
        ("müller", "Herr MULLER called"),
        ("photo*", "Two photographs"),
        ("京都", "明日は京都に行く"),
        ('"hide glue"', "a pot of hide glue"),
    ],
)
async def test_reading_the_texts_finds_each_regular_form_of_a_word(monkeypatch, query, text):
    monkeypatch.setattr(text_scan, "MAX_CHOSEN_COUNT", 1)
    others = [f"Nothing much, {number}." for number in range(20)]
    assert await best_texts(query, [text, *others], str) == [text]


async def test_of_many_texts_those_with_most_and_rare_words_are_read_and_of_equal_ones_the_latest(
    monkeypatch,
):
    monkeypatch.setattr(text_scan, "MAX_CHOSEN_COUNT", 3)
    said = ["old violin", *[f"violin {number}" for number in range(5)], "glue", "excluded violin glue"]
    chosen = await best_texts("violin glue", said, lambda text: None if "excluded" in text else text)
    assert chosen == ["violin 3", "violin 4", "glue"]
    assert await best_texts("violin", [], str) == []
    assert await best_texts("", said[:2], str) == said[:2]
