"""How sure a search is that a memory answers the question."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import LocalSigner, MemoryStore
from sense_memory.search import SearchIndex, SearchItem
from sense_memory.search.answers import AnswerKind, asked_for, has_answer
from sense_memory.search.confidence import LOW_CONFIDENCE, Clues, confidence, confidence_in, of_answer
from tests.memories.topics import DIMENSION, vectors_of
from tests.search.fit_confidence import area, asked


NOTES = {
    "mira-job": "Mira is a speech therapist in Graz and works four days a week.",
    "mira-cat": "Mira's cat is called Herr Nilsson.",
    "rent": "The rent to Noemi is 910 euros, due on the third of the month.",
    "heron-battery": "A Heron lasts fourteen months on two lithium cells.",
    "choir": "The choir rehearses on Tuesdays in the parish hall.",
}


@pytest.fixture(scope="module")
def held():
    """Questions that no weight was fitted to, asked of 1,000 memories."""
    return asked("held", 1_000)


# ── Told apart ──────────────────────────────────────────────────────────────────────────


def test_questions_with_an_answer_are_surer_than_those_about_the_same_people_without_one(held):
    assert area(held) > 0.84


def test_what_is_called_probable_is_right_and_what_is_called_improbable_is_not(held):
    sure = [one.is_right for one in held if one.confidence >= 0.8]
    doubtful = [one.is_right for one in held if one.confidence < LOW_CONFIDENCE]
    assert len(sure) >= 10
    assert np.mean(sure) > 0.8
    assert len(doubtful) > len(held) / 2
    assert np.mean(doubtful) < 0.13


@pytest.mark.parametrize("size", [30])
def test_a_confidence_means_the_same_in_small_palaces(size):
    found = asked("held", size)
    assert area(found) > 0.84
    likely = [one.is_right for one in found if one.confidence >= 0.6]
    assert np.mean(likely) > 0.6


async def test_an_answer_knows_how_sure_it_is():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        for key, value in NOTES.items():
            await store.persona_remember("people", "facts", key, value)
        for ask in (store.search, store.persona_search):
            there = await ask("What is the name of Mira's cat?")
            assert there[0].key == "mira-cat"
            assert there.confidence == max(hit.answer_confidence for hit in there) > 0.5
            assert not there.is_doubtful
            missing = await ask("Which perfume does Mira wear?")
            assert missing.confidence < LOW_CONFIDENCE
            assert missing.is_doubtful
            nothing = await ask("zeppelin")
            assert (nothing.confidence, nothing.is_doubtful) == (0.0, False)


async def test_a_memory_that_replaced_an_answer_is_as_sure_as_the_answer():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        await store.persona_remember("people", "facts", "rent", NOTES["rent"])
        await store.persona_remember("people", "facts", "landlady", "Noemi wants more from now on: 990.")
        await store.persona_contradict("people/facts/rent", "people/facts/landlady")
        first, second, *_ = await store.search("How much is the rent to Noemi?")
        assert [first.key, second.key] == ["landlady", "rent"]
        assert first.answer_confidence >= second.answer_confidence > 0.5


async def test_an_entry_of_the_day_that_is_asked_for_may_well_be_the_answer():
    now = 1_800_000_000.0
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=lambda: now) as store:
        await store.journal("The ferry was late, and we walked along the quay.")
        hits = await store.search("What did I write today?", within="journal")
        assert not hits.is_doubtful


@pytest.mark.parametrize(
    "query", ["tea", "Darjeeling tea", "What do you know about tea?", "tell me about the tea"]
)
def test_what_has_all_the_words_that_are_looked_up_is_no_doubtful_hit(query):
    index = SearchIndex()
    index.put_many(SearchItem(str(number), f"Darjeeling tea of the {number}th flush") for number in range(30))
    assert all(confidence(hit.clues) >= 0.9 for hit in index.search(query))


def test_some_of_the_words_that_are_looked_up_are_no_find():
    index = SearchIndex()
    index.put_many(SearchItem(str(number), f"the {number}th tea") for number in range(30))
    assert all(confidence(hit.clues) < LOW_CONFIDENCE for hit in index.search("tea zeppelin harbour"))


@pytest.mark.parametrize("include_forgotten", [False, True])
async def test_a_hit_is_as_sure_in_a_short_list_as_in_a_long_one(include_forgotten):
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        for number in range(12):
            await store.persona_remember(
                "people", "facts", f"mira-{number}", f"Mira has the key number {number}."
            )
        for call in (store.search, store.persona_search):
            search, question = (
                partial(call, include_forgotten=include_forgotten),
                "Which perfume does Mira wear?",
            )
            whole = [hit.answer_confidence for hit in await search(question, 10)]
            assert max(whole) == whole[0]
            for limit in (1, 2, 5):
                assert [hit.answer_confidence for hit in await search(question, limit)] == whole[:limit]


def test_what_is_beyond_the_names_of_a_question_decides_by_meaning():
    class Topics:
        name, dimension = "topics", DIMENSION

        def embed(self, texts):
            return vectors_of(texts)

    index = SearchIndex(embedder=Topics())
    index.put_many(
        SearchItem(str(number), text)
        for number, text in enumerate(
            ["Eva keeps a kitten", "Eva sold her engine", "Eva collects stamps", *(["Bo sings"] * 30)]
        )
    )
    question = "Does Eva have a cat?"
    assert index.asks_beyond_names(question) == "Does have a cat"
    beyond = vectors_of([index.asks_beyond_names(question)])[0]
    clues = {hit.id: hit.clues for hit in index.search(question, beyond_names=beyond)}
    assert clues["0"].meaning > 3 > clues["1"].meaning
    assert confidence(clues["0"]) > 0.5 > LOW_CONFIDENCE > confidence(clues["1"])


# ── The kind of answer ──────────────────────────────────────────────────────────────────

KINDS = [
    ("What does Mira earn?", AnswerKind.PRICE, "Mira earns 3,100 euros.", "Mira works four days a week."),
    ("How old is Idris?", AnswerKind.AGE, "Idris is seven.", "Idris likes the number 7."),
    (
        "When is the market open?",
        AnswerKind.TIME,
        "The market is open on Fridays.",
        "The market is on Lindenplatz.",
    ),
    (
        "Who is Dov's apprentice?",
        AnswerKind.PERSON,
        "Dov took on Sanne.",
        "Dov has an apprentice from Ghent.",
    ),
    (
        "What is the dinghy called?",
        AnswerKind.NAME,
        "The dinghy is called Alma.",
        "The dinghy lies in Leipzig.",
    ),
    ("What colour is the car?", AnswerKind.COLOUR, "The car is red.", "The car is fast."),
    (
        "What is Amparo's phone number?",
        AnswerKind.DIGITS,
        "Call Amparo on 0341 5522.",
        "Amparo hates the phone.",
    ),
    (
        "What is Resi's email address?",
        AnswerKind.EMAIL,
        "Resi reads resi@example.com.",
        "Resi reads few mails.",
    ),
    (
        "How many people work there?",
        AnswerKind.NUMBER,
        "Nine people work there.",
        "People like to work there.",
    ),
    ("Where does Ilse live?", AnswerKind.PLACE, "Ilse lives by the lake at Werbellin.", "Ilse lives alone."),
    (
        "Why was it dropped?",
        AnswerKind.REASON,
        "It was dropped because of the cost.",
        "It was dropped yesterday.",
    ),
]


@pytest.mark.parametrize(("question", "kind", "answer", "other"), KINDS, ids=[row[1] for row in KINDS])
def test_a_text_has_the_kind_of_answer_that_is_asked_for_or_lacks_it(question, kind, answer, other):
    assert asked_for(question) == kind
    assert has_answer(kind, question, answer)
    assert has_answer(kind, question, other) is False
    clues = Clues(covered=0.6, named=1.0, apart=0.3)
    assert confidence_in(answer, question, clues) > confidence_in(other, question, clues)


def test_a_number_that_the_question_says_itself_is_no_answer():
    assert has_answer(AnswerKind.NUMBER, "How big was the fleet in 2026?", "The fleet grew in 2026.") is False
    assert has_answer(AnswerKind.NUMBER, "How big was the fleet in 2026?", "In 2026 it had 14 trucks.")


@pytest.mark.parametrize("question", ["Does Tide have an app?", "Wo wohnt Ilse?", "cat", ""])
def test_a_question_of_another_kind_or_language_asks_for_nothing_that_could_be_missing(question):
    assert asked_for(question) is None
    assert has_answer(None, question, "any text") is None


# ── Laws ────────────────────────────────────────────────────────────────────────────────

shares = st.floats(0, 1)
all_clues = st.builds(
    Clues,
    shares,
    shares,
    shares,
    shares,
    st.integers(0, 3),
    st.none() | st.floats(-20, 40),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(all_clues, st.sampled_from([name for name in Clues._fields if name != "looked_up"]), st.floats(0, 5))
def test_more_of_a_clue_never_makes_a_memory_less_likely(clues, name, more):
    before = getattr(clues, name)
    surer = clues._replace(**{name: None if before is None else before + more})
    assert 0 <= confidence(clues) <= confidence(surer) <= 1
    assert confidence(clues, False) <= confidence(clues) <= confidence(clues, True)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(shares, max_size=5))
def test_an_answer_is_as_sure_as_its_surest_hit(found):
    assert of_answer(found) == max([0.0, *found])


def test_a_long_text_of_numbers_without_a_price_is_read_in_no_time():
    numbers = " ".join(f"word{number}" for number in range(4_000))
    began = time.process_time()
    assert not has_answer(AnswerKind.PRICE, "What does the press cost?", numbers)
    assert has_answer(AnswerKind.PRICE, "What does the press cost?", f"{numbers}\nIt costs 40 new euros.")
    assert not has_answer(AnswerKind.PRICE, "What does the press cost?", "It lost 4 screws.\neuro")
    assert time.process_time() - began < 1
