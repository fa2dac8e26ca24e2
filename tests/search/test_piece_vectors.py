"""Meaning beside words: the seam for embedders, and what happens where one fails."""

from __future__ import annotations

import numpy as np
import pytest

from sense_memory.errors import EmbedderError
from sense_memory.search.documents import SearchItem
from sense_memory.search.index import SearchIndex
from sense_memory.search.query import without_names
from sense_memory.search.ranking import SearchOptions


class Pets:
    """An embedder that knows two things: how much a text is about animals, and how much about cars."""

    name = "pets-1"
    dimension = 2
    _MEANS = ({"dog", "puppy", "cat", "kitten"}, {"car", "engine", "wheel"})

    def embed(self, texts):
        said = [set(text.lower().split()) for text in texts]
        return np.array([[len(words & meant) for meant in self._MEANS] for words in said], np.float32)


TEXTS = ("we have a puppy", "the engine broke", "hello", "a dog and a car")


@pytest.fixture
def pets():
    index = SearchIndex(embedder=Pets())
    index.put_many(SearchItem(str(place), text) for place, text in enumerate(TEXTS))
    return index


def test_a_memory_is_found_by_what_it_means(pets, found):
    assert found(pets, "a kitten") == ["0", "3"]
    assert found(pets, "wheel") == ["1", "3"]
    assert found(pets, "dog") == ["3", "0"]
    assert found(pets, "zebra") == []
    assert [reason.kind for reason in pets.search("kitten")[0].why] == ["meaning"]


class Told:
    """An embedder that is told how near each text lies to the question, the same whatever the question."""

    name = "told-1"
    dimension = 2

    def __init__(self, cosines):
        self._cosines = cosines

    def embed(self, texts):
        cosines = np.array([self._cosines.get(text, 1.0) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Who is her manager?", "Ana reports to Kaja"),
        ("Is the password manager Bitwarden?", "The password manager is Bitwarden"),  # three rare words do
    ],
)
def test_one_word_in_common_does_not_outvote_a_meaning_that_fits_far_better(question, best):
    usual = np.random.default_rng(5).normal(0.1, 0.08, 300)
    near = {f"note {number}": cosine for number, cosine in enumerate(usual)}
    near |= {"Ana reports to Kaja": 0.5, "The password manager is Bitwarden": 0.35}
    index = SearchIndex(embedder=Told(near))
    index.put_many(SearchItem(text, text) for text in near)

    assert index.search(question)[0].id == best


def test_meaning_can_be_switched_off(pets, found):
    assert found(pets, "dog", options=SearchOptions(dense=False)) == ["3"]
    assert found(pets, "kitten", options=SearchOptions(dense=False)) == []


def test_meaning_follows_changes(pets, found):
    pets.put(SearchItem("1", "a kitten sleeps"))
    pets.drop("0")
    assert found(pets, "puppy") == ["1", "3"]
    pets.put(SearchItem("4", "puppy"))
    assert found(pets, "cat")[0] in {"1", "4"}


def test_meaning_weighs_the_same_however_often_memories_changed(pets):
    before = [(hit.id, hit.score) for hit in pets.search("the cat and the car")]
    for number in range(100):
        pets.put(SearchItem("draft", f"a dog that is called {number}"))
    pets.drop("draft")
    assert [(hit.id, hit.score) for hit in pets.search("the cat and the car")] == before


def test_a_loaded_index_takes_any_embedder_and_waits_for_vectors(pets, found):
    loaded = SearchIndex.load(b"".join(pets.dump()), embedder=Pets())

    assert loaded.without_meaning() == ["0", "1", "2", "3"]
    assert found(loaded, "kitten") == []
    assert loaded.fill({"1": np.ones((2, 2)), "nobody": np.ones((1, 2))}) == 0  # other pieces, and nobody's
    rows = {str(place): Pets().embed([text]) for place, text in enumerate(TEXTS)}
    assert loaded.fill(rows) == 4
    assert loaded.without_meaning() == []
    assert found(loaded, "kitten") == found(pets, "kitten") == ["0", "3"]


# ── An embedder that fails, many pieces, and what a question is embedded as ─────────────


class Moody(Pets):
    """Works until it is told not to."""

    def __init__(self):
        self.answer, self.asked = None, []

    def embed(self, texts):
        self.asked += texts
        if isinstance(self.answer, Exception):
            raise self.answer
        return super().embed(texts) if self.answer is None else self.answer


@pytest.fixture
def moody():
    return Moody()


@pytest.mark.parametrize(
    "answer",
    [
        EmbedderError("pets-1", "it sleeps"),
        RuntimeError("zanzibar"),
        [["a", "b"]],
        [[1.0], [2.0, 3.0]],
        np.full((1, 2), np.nan, np.float32),
        np.ones((1, 3), np.float32),
        np.ones((7, 2), np.float32),
        np.ones(2, np.float32),
    ],
)
def test_what_can_not_be_embedded_is_found_by_its_words(moody, found, answer):
    index = SearchIndex(embedder=moody)
    index.put(SearchItem("0", "we have a puppy"))
    moody.answer = answer
    index.put(SearchItem("1", "a kitten sleeps"))
    assert index.trouble is not None
    assert index.without_meaning() == ["1"]
    assert found(index, "sleeps") == ["1"]
    moody.answer = None
    assert found(index, "dog") == ["0"]
    assert index.trouble is None
    index.put(SearchItem("1", "a kitten sleeps"))
    assert index.without_meaning() == []
    assert sorted(found(index, "dog")) == ["0", "1"]


def test_what_an_embedder_of_ones_own_raises_is_told_without_its_words(moody):
    index = SearchIndex(embedder=moody)
    moody.answer = RuntimeError("zanzibar")
    index.put(SearchItem("0", "we have a puppy"))
    told = str(index.trouble)
    assert "it raised RuntimeError (test_piece_vectors.py, line " in told
    assert "zanzibar" not in told


def test_an_embedder_that_can_not_even_say_its_dimension_fails_like_any_other(found):
    class Shy(Pets):
        @property
        def dimension(self):
            raise RuntimeError("zanzibar")

    index = SearchIndex(embedder=Shy())
    index.put(SearchItem("0", "we have a puppy"))
    assert "it raised RuntimeError" in str(index.trouble)
    assert found(index, "puppy") == ["0"]


def test_plain_lists_of_numbers_are_vectors_too_but_only_of_the_dimension_that_is_said(moody, found):
    index = SearchIndex(embedder=moody)
    moody.answer = [[1.0, 0.0]]
    index.put(SearchItem("0", "we have a puppy"))
    assert index.without_meaning() == []
    moody.dimension = 3
    other = SearchIndex(embedder=moody)
    other.put(SearchItem("0", "we have a puppy"))
    assert other.without_meaning() == ["0"]
    assert "(1, 2) instead of (1, 3)" in str(other.trouble)


def test_who_fails_is_not_asked_again_for_every_part_of_many(moody, monkeypatch):
    monkeypatch.setattr("sense_memory.search.index.READ_AT_ONCE", 2)
    index = SearchIndex(embedder=moody)
    moody.answer = EmbedderError("pets-1", "it sleeps")
    index.put_many(SearchItem(str(place), text) for place, text in enumerate(TEXTS))
    assert moody.asked == [*TEXTS[:2]]
    assert index.without_meaning() == ["0", "1", "2", "3"]


def test_gaps_survive_clearing_away(moody, found, monkeypatch):
    monkeypatch.setattr("sense_memory.search.index.SPARE_ROWS", 0)
    index = SearchIndex(embedder=moody)
    moody.answer = EmbedderError("pets-1", "it sleeps")
    index.put_many(SearchItem(str(place), text) for place, text in enumerate(TEXTS))
    index.drop("1")
    moody.answer = None
    for _ in range(9):
        index.put(SearchItem("4", "my kitten"))
    assert index.without_meaning() == ["0", "2", "3"]
    assert found(index, "cat") == ["4"]


def test_a_question_is_embedded_as_asked_without_the_names_matched_elsewhere(moody):
    index = SearchIndex(embedder=moody)
    index.put(SearchItem("0", "we have a puppy", speaker="Lisa"))
    moody.asked.clear()
    index.search("What is the name of Lisa's dog?")
    index.search("Lisa")
    index.search("  ")
    assert moody.asked == ["What is the name of dog"]
    assert without_names("Is that what Lisa said?", {"lisa"}) == "Is that what said"
    assert without_names("As it stands?!", ()) == "As it stands?!"
    assert without_names("¿Qué? 何ですか\uff1f", ()) == "¿Qué? 何ですか"
