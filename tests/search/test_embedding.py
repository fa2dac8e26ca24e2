"""Meaning beside words: the seam for embedders, and the table that one of them reads."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import numpy as np
import orjson
import pytest

from sense_memory.errors import MissingExtra
from sense_memory.search.embedding import Vectors
from sense_memory.search.fusion import Levers
from sense_memory.search.index import MemoryIndex, SearchItem
from sense_memory.search.static import StaticEmbedder


class Pets:
    """An embedder that knows two things: how much a text is about animals, and how much about cars."""

    name = "pets-1"
    dimensions = 2
    _MEANS = ({"dog", "puppy", "cat", "kitten"}, {"car", "engine", "wheel"})

    def memories(self, texts):
        return np.array([self.query(text) for text in texts], np.float32).reshape(-1, 2)

    def query(self, text):
        words = set(text.lower().split())
        return np.array([len(words & meant) for meant in self._MEANS], np.float32)


TEXTS = ("we have a puppy", "the engine broke", "hello", "a dog and a car")


@pytest.fixture
def pets():
    index = MemoryIndex(embedder=Pets())
    index.put_many(SearchItem(str(place), text) for place, text in enumerate(TEXTS))
    return index


def test_a_memory_is_found_by_what_it_means(pets, found):
    assert found(pets, "a kitten") == ["0", "3"]
    assert found(pets, "wheel") == ["1", "3"]
    assert found(pets, "dog") == ["3", "0"]
    assert found(pets, "zebra") == []
    assert [reason.kind for reason in pets.search("kitten")[0].why] == ["meaning"]


def test_meaning_can_be_switched_off(pets, found):
    assert found(pets, "dog", levers=Levers(dense=False)) == ["3"]
    assert found(pets, "kitten", levers=Levers(dense=False)) == []


def test_meaning_follows_changes_and_survives_a_dump(pets, found):
    pets.put(SearchItem("1", "a kitten sleeps"))
    pets.drop("0")
    assert found(pets, "puppy") == ["1", "3"]
    loaded = MemoryIndex.load(pets.dump(), embedder=Pets())
    for query in ("puppy", "wheel", "dog"):
        assert loaded.search(query) == pets.search(query)
    loaded.put(SearchItem("4", "puppy"))
    assert found(loaded, "cat")[0] in {"1", "4"}


def test_an_index_of_another_embedder_is_refused(pets):
    with pytest.raises(ValueError, match="another embedder"):
        MemoryIndex.load(pets.dump())
    with pytest.raises(ValueError, match="another embedder"):
        MemoryIndex.load(MemoryIndex().dump(), embedder=Pets())


def test_vectors_are_compared_by_direction_only():
    vectors = Vectors(2)
    vectors.extend(np.array([[3, 0], [0, 0.1], [1, 1]], np.float32))
    firsts = np.arange(3)
    similar = vectors.similar(np.array([5, 0], np.float32), firsts)
    assert similar == pytest.approx([1, 0, 0.7071], abs=1e-3)
    assert vectors.similar(np.zeros(2, np.float32), firsts) is None
    assert Vectors(2).similar(np.ones(2, np.float32), firsts[:0]) is None


# ── The table ───────────────────────────────────────────────────────────────────────────

PIECES = [
    "<unk>",
    "\u2581",
    "d",
    "o",
    "g",
    "s",
    "do",
    "\u2581do",
    "\u2581dog",
    "c",
    "a",
    "t",
    "ca",
    "\u2581ca",
]
MERGES = ["d o", "\u2581 do", ["\u2581do", "g"], "c a", "\u2581 ca"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A package of the same layout as the real one, with a table of a few pieces."""
    folder = tmp_path / "wordllama"
    for name in ("weights", "tokenizers"):
        (folder / name).mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('its code must not run')")
    values = np.eye(len(PIECES), dtype="<f2")
    spec = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [0, values.nbytes]}
    header = orjson.dumps({"embedding.weight": spec})
    raw = len(header).to_bytes(8, "little") + header + values.tobytes()
    (folder / "weights/l2_supercat_256.safetensors").write_bytes(raw)
    model = {"model": {"vocab": {piece: number for number, piece in enumerate(PIECES)}, "merges": MERGES}}
    (folder / "tokenizers/l2_supercat_tokenizer_config.json").write_bytes(orjson.dumps(model))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    return StaticEmbedder()


def pieces_of(vector):
    return {PIECES[at]: int(count) for at, count in enumerate(vector) if count}


def test_words_are_cut_into_pieces_as_they_were_merged(table):
    assert table.dimensions == len(PIECES)
    assert pieces_of(table.query("dog")) == {"\u2581dog": 1}
    assert pieces_of(table.query("Dogs")) == {"\u2581dog": 1, "s": 1}
    assert pieces_of(table.query("cat dog")) == {"\u2581ca": 1, "t": 1, "\u2581dog": 1}
    assert pieces_of(table.query("x?")) == {"\u2581": 1}


def test_memories_are_their_words_without_stop_words(table):
    rows = table.memories(["the dog and a cat", "", "the"])
    assert pieces_of(rows[0]) == {"\u2581ca": 1, "t": 1, "\u2581dog": 1}
    assert not rows[1].any()


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("sense_memory.search.static.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"sense-memory\[static\]"):
        StaticEmbedder()


@pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra `static` is not installed")
def test_the_real_table_knows_that_a_puppy_is_a_dog(found):
    index = MemoryIndex(embedder=StaticEmbedder())
    texts = ("I adopted a puppy", "My car broke down", "We ate pizza in Rome")
    index.put_many(SearchItem(str(place), text) for place, text in enumerate(texts))
    assert found(index, "dog") == ["0"]
    assert found(index, "vehicle trouble") == ["1"]
    assert found(index, "Italian food") == ["2"]
