"""Whom a query of LangGraph's store finds, and in which order: as LangGraph's own stores, with an embedder and without."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import EmbedderError


pytest.importorskip("langgraph.store.base", reason="the extra `langgraph` is not installed")

from langgraph.store.base import PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from sense_memory.interfaces.langgraph_store import SenseMemoryStore


KEY = LocalSigner.generate()
DAY = 86_400.0
USER = ("users", "1")


class Letters:
    """How often a text has each letter, as a direction; counts what it is asked."""

    name, dimension = "letters", 32

    def __init__(self):
        self.read, self.is_broken = 0, False

    def embed(self, texts):
        if self.is_broken:
            raise EmbedderError(self.name, "the model is gone")
        self.read += len(texts)
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for char in text:
                row[ord(char) % self.dimension] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def cosine(self, one, other):
        first, second = self.embed([one, other])
        return float(first @ second)


@asynccontextmanager
async def opened(embedder=None, clock=None, **options):
    more = {} if clock is None else {"clock": clock}
    async with MemoryStore(KEY, ledger=":memory:", embedder=embedder, **more) as palace:
        yield SenseMemoryStore(palace, **options), palace


async def scored(store, query, **options):
    return [(item.key, item.score) for item in await store.asearch(USER, query=query, **options)]


# ── The same as LangGraph's own ─────────────────────────────────────────────────────────

TEXT = st.text("abcdé ", min_size=1, max_size=8).filter(str.strip)
INDEX = st.sampled_from([None, False, ["b"], ["a", "b"], ["more[*].c"], ["nowhere"]])


def value_of(texts, number):
    """A value with some texts, each of them once: the store in memory cannot embed two that are the same."""
    more = {"b": texts[1], "more": [{"c": text} for text in texts[2:]]} if texts[1:] else {}
    return {"a": texts[0], "n": number, **more}


VALUE = st.builds(value_of, st.lists(TEXT, min_size=1, max_size=4, unique=True), st.integers(0, 2))
PUTS = st.dictionaries(st.sampled_from("uvwxyz"), st.tuples(VALUE, INDEX), min_size=1)
FILTER = st.none() | st.fixed_dictionaries({"n": st.fixed_dictionaries({"$gte": st.integers(0, 2)})})


@settings(max_examples=12)
@given(PUTS, PUTS, st.lists(st.tuples(TEXT, FILTER, st.integers(1, 8)), min_size=1, max_size=3))
def test_it_ranks_as_the_store_in_memory_does(first, then, questions):
    """Any items, written twice, and any questions: the same items, each with the same score, the best first."""

    async def play():
        letters = Letters()
        config = {
            "dims": letters.dimension,
            "embed": lambda texts: letters.embed(texts).tolist(),
            "fields": ["a"],
        }
        reference = InMemoryStore(index=config)
        async with opened(letters, fields=["a"]) as (store, _):
            for puts in (first, then):
                gone = [
                    PutOp(USER, key, None) for key in puts
                ]  # the one in memory keeps vectors of what was replaced
                ops = [PutOp(USER, key, value, index) for key, (value, index) in puts.items()]
                for op in gone + ops:
                    reference.batch([op])
                await store.abatch(gone)
                await store.abatch(ops)
            for query, wanted, limit in questions:
                op = SearchOp(USER, wanted, limit, query=query)
                (theirs,), (ours,) = reference.batch([op]), await store.abatch([op])
                known = {item.key: item.score for item in reference.batch([op._replace(limit=99)])[0]}
                assert len(theirs) == len(ours) == len({item.key for item in ours})
                for mine, other in zip(ours, theirs, strict=True):
                    assert mine.score == pytest.approx(other.score, abs=1e-5)
                    assert mine.score == pytest.approx(known[mine.key], abs=1e-5)

    asyncio.run(play())


async def test_a_score_is_the_cosine_of_the_nearest_field():
    letters = Letters()
    async with opened(letters, fields=["title", "pages[*].text"]) as (store, _):
        await store.aput(
            USER, "k", {"title": "aab", "pages": [{"text": "bc"}, {"text": "cc"}], "other": "zzz"}
        )

        for query in ("aab", "bcc", "zzz"):
            ((_, score),) = await scored(store, query)
            assert score == pytest.approx(
                max(letters.cosine(query, text) for text in ("aab", "bc", "cc")), abs=1e-5
            )


async def test_a_whole_value_and_a_memory_from_elsewhere_have_a_cosine_too():
    async with opened(Letters()) as (store, palace):
        await palace.persona_remember("users", "1", "b", "kkkk")
        await store.aput(USER, "a", {"content": "mmmm"})

        assert [("a", "b"), ("b", "a")] == [
            tuple(key for key, score in await scored(store, query) if 0 <= score <= 1.001)
            for query in ("mmmm", "kkkk")
        ]


@pytest.mark.parametrize("text", ["这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह रूसी है"])
async def test_a_text_in_any_script_finds_itself(text):
    async with opened(Letters()) as (store, _), opened() as (by_words, _):
        for other in ("这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह रूसी है"):
            for each in (store, by_words):
                await each.aput(
                    USER, str(other == text), {"content": text} if other == text else {"content": other}
                )

        assert "True" == (await scored(store, text))[0][0] == (await scored(by_words, text))[0][0]


async def test_an_item_that_is_written_again_has_another_score():
    async with opened(Letters()) as (store, _):
        await store.aput(USER, "k", {"content": "zany zebra"})
        ((_, before),) = await scored(store, "zany zebra")
        await store.aput(USER, "k", {"content": "about dogs"})
        ((_, after),) = await scored(store, "zany zebra")

        assert after < before
        await store.adelete(USER, "k")
        assert [] == await scored(store, "zany zebra")


# ── Filling up ──────────────────────────────────────────────────────────────────────────


async def put_some(store, clock):
    for key, value, index in (
        ("tea", {"content": "green tea"}, None),
        ("hidden", {"content": "green tea, hidden"}, False),
        ("walls", {"content": "walls"}, None),
        ("never", {"content": "green tea, never"}, False),
    ):
        clock.advance(1)
        await store.aput(USER, key, value, index)


@pytest.mark.parametrize("embedder", [None, Letters])
async def test_the_nearest_come_first_and_the_rest_by_recency_without_a_score(clock, embedder):
    async with opened(embedder and embedder(), clock) as (store, _):
        await put_some(store, clock)
        found = await scored(store, "green tea")

        assert ["tea", "walls"] == [key for key, _ in found if key in {"tea", "walls"}]
        assert found[0][1] > 0
        assert [("never", None), ("hidden", None)] == [one for one in found if one[0] in {"never", "hidden"}]
        assert [score for _, score in found if score is not None] == sorted(
            (score for _, score in found if score is not None), reverse=True
        )
        assert found[:2] == await scored(store, "green tea", limit=2)


@pytest.mark.parametrize("embedder", [None, Letters])
@pytest.mark.parametrize("query", ["green tea", "nothing like it", "!@#$%^&*()", "tea " * 400])
async def test_pages_put_together_are_every_item_once_in_the_order_of_the_whole(clock, query, embedder):
    async with opened(embedder and embedder(), clock) as (store, _):
        await put_some(store, clock)
        for n in range(5):
            await store.aput(USER, f"k{n}", {"content": f"tea number {n}"})
        pages = [await scored(store, query, limit=2, offset=offset) for offset in range(0, 12, 2)]

        assert [2, 2, 2, 2, 1, 0] == [len(page) for page in pages]
        assert await scored(store, query, limit=99) == [one for page in pages for one in page]


async def test_an_empty_query_is_none(clock):
    async with opened(Letters(), clock) as (store, _):
        await put_some(store, clock)
        newest = [(key, None) for key in ("never", "walls", "hidden", "tea")]

        assert newest == await scored(store, "") == await scored(store, None)


@pytest.mark.parametrize("embedder", [None, Letters])
async def test_without_filling_only_what_the_palace_finds_is_there(clock, embedder):
    async with opened(embedder and embedder(), clock, fill=False) as (store, _):
        await put_some(store, clock)

        assert ["tea"] == [key for key, _ in await scored(store, "green tea", limit=1)]
        assert {"hidden", "never"}.isdisjoint(key for key, _ in await scored(store, "green tea"))


async def test_an_embedder_that_fails_leaves_the_words():
    letters = Letters()
    async with opened(letters) as (store, _):
        await store.aput(USER, "walls", {"content": "walls"})
        await store.aput(USER, "tea", {"content": "green tea"})
        letters.is_broken = True

        (best, rest) = await scored(store, "tea")

        assert ("tea", ("walls", None)) == (best[0], rest)


async def test_each_text_is_embedded_once():
    letters = Letters()
    async with opened(letters, fields=["a"]) as (store, _):
        for n in range(20):
            await store.aput(USER, f"k{n}", {"a": f"text {n}"})
        await store.asearch(USER, query="text 1")
        before = letters.read
        await store.asearch(USER, query="text 2")

        assert 1 == letters.read - before  # the question


@pytest.mark.parametrize("embedder", [None, Letters])
async def test_what_only_fills_a_result_does_not_count_as_used(clock, embedder):
    async with opened(embedder and embedder(), clock) as (store, palace):
        await palace.persona_remember("users", "1", "tea", "green tea, green tea")
        await palace.persona_remember("users", "1", "walls", "zzzz xxxx kkkk")
        clock.advance(60 * DAY)
        assert 2 == len(await scored(store, "green tea"))

        relevance = {memory.key: memory.current_relevance for memory in await palace.persona_recall()}

        assert relevance["tea"] == pytest.approx(0.5**0.5)
        assert "walls" not in relevance or relevance["walls"] == pytest.approx(0.25)


# ── Namespaces and filters ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (
            (),
            {
                "foo",
                "foo/child",
                "foo/child/deep",
                "foobar/baz",
                "Foo",
                "user_1",
                "userX1",
                "a%b",
                "axxb",
                "alice\n",
            },
        ),
        (("foo",), {"foo", "foo/child", "foo/child/deep"}),
        (("foo", "child"), {"foo/child", "foo/child/deep"}),
        (("fo",), set()),
        (("Foo",), {"Foo"}),
        (("user_1",), {"user_1"}),
        (("a%b",), {"a%b"}),
        (("alice",), set()),
        (("foobar",), {"foobar/baz"}),
    ],
)
@pytest.mark.parametrize("embedder", [None, Letters])
@pytest.mark.parametrize("query", [None, "v"])
async def test_a_prefix_is_whole_labels_word_for_word(prefix, found, query, embedder):
    names = (
        "foo",
        "foo/child",
        "foo/child/deep",
        "foobar/baz",
        "Foo",
        "user_1",
        "userX1",
        "a%b",
        "axxb",
        "alice\n",
    )
    async with opened(embedder and embedder()) as (store, _):
        await store.abatch([PutOp(tuple(name.split("/")), "k", {"v": 1}) for name in names])

        items = await store.asearch(prefix, query=query, limit=99)

        assert found == {"/".join(item.namespace) for item in items}
        assert found == {"/".join(name) for name in await store.alist_namespaces(prefix=prefix or None)}


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"price": {"$lt": float("inf")}}, 3),
        ({"price": {"$gt": float("-inf")}}, 3),
        ({"price": {"$eq": float("nan")}}, 0),
        ({"price": {"$lt": 10**100}}, 3),
        ({"price": {"$lt": 0}}, 1),
        ({"on": True}, 2),
        ({"on": False}, 1),
        ({"access-level": "public"}, 1),
        ({"access') = 'public' OR '1'='1": "x"}, 0),
        ({"access-level": "public' OR '1'='1"}, 0),
    ],
)
async def test_a_filter_means_values_and_names_and_nothing_else(wanted, count):
    values = [
        {"price": 10, "on": True},
        {"price": 20.5, "on": False},
        {"price": -3, "on": True, "access-level": "public"},
    ]
    async with opened(Letters()) as (store, _):
        await store.abatch([PutOp(USER, str(n), value) for n, value in enumerate(values)])

        assert count == len(await store.asearch(USER, filter=wanted))
        assert count == len(await store.asearch(USER, filter=wanted, query="price"))
