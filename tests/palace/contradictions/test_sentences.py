"""How near two notes are in meaning, and what an embedder adds to contradictions, and never does."""

import json
from pathlib import Path

import numpy as np
import pytest

from sense_memory import open_embedder
from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.contradictions.sentences import MAX_ASKED_COUNT, Sentences


PARAPHRASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
]


def memory(value, key="note", created_at=1.0):
    return PersonaMemory(domain="people", facet="facts", key=key, value=value, created_at=created_at)


def sides(pair):
    return PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)


@pytest.fixture(scope="module")
def judge():
    """Compares with what the real table of words says."""
    embedder, sentences = open_embedder("static"), Sentences()

    def judged(old, new):
        compare(old, new, sentences.near)
        asked = sentences.asked()
        sentences.learn(asked, embedder.embed(asked))
        return compare(old, new, sentences.near)

    return judged


@pytest.mark.parametrize(("half", "least"), [("tune", 0.15), ("held", 0.12)])
def test_of_contradictions_in_other_words_some_are_found_with_an_embedder(half, least, judge):
    opposed = [pair for pair in PARAPHRASES if (pair["half"], pair["label"]) == (half, "contradiction")]

    assert sum(judge(*sides(pair)) is not None for pair in opposed) >= least * len(opposed)


def test_what_acts_without_an_embedder_acts_with_one_and_nothing_else_does(judge):
    for pair in PARAPHRASES:
        alone, helped = compare(*sides(pair)), judge(*sides(pair))
        if alone is not None and alone.acts:
            assert helped == alone, pair["id"]
        else:
            assert helped is None or not helped.acts


def test_nearness_is_unknown_until_it_was_learned_and_is_told_in_standard_deviations():
    sentences = Sentences()

    assert sentences.near("Ana  jogs", "Ana runs.") is None
    asked = sentences.asked()
    assert asked[:2] == ["Ana jogs.", "Ana runs."]
    assert len(asked) > 10  # what it is measured by
    assert sentences.asked() == []

    rows = np.eye(len(asked), dtype=np.float32) * np.sqrt(0.5)
    rows[1] = 0.9 * rows[0] + np.sqrt(1 - 0.9**2) * rows[1]
    sentences.learn(
        asked, np.c_[rows, np.full(len(asked), np.sqrt(0.5), np.float32)]
    )  # any two are near: 0.5
    assert sentences.near("Ana jogs", "Ana runs") > 100
    assert abs(sentences.near("Ana jogs", asked[5])) < 1
    assert sentences.near("Ana jogs", "Ana sings") is None
    assert sentences.asked() == ["Ana sings."]


def test_no_more_is_asked_at_a_time_than_an_embedder_reads_in_a_moment():
    sentences = Sentences()
    for number in range(1_000):
        sentences.near(f"thing {number}", "other thing")

    assert len(sentences.asked()) < MAX_ASKED_COUNT + 20


def test_meaning_is_asked_only_about_those_that_share_a_word_and_only_where_it_can_decide():
    claims, asked = ClaimIndex(), []
    claims.put(memory("Ana loves jogging in the park", "near"))
    claims.put(memory("The tram is late", "far"))

    def near(one, other):
        asked.append((one, other))
        return 1.0

    claims.check(memory("Ana gave up jogging", "acts", 2.0), near)
    claims.check(memory("Ana is happy", "nothing", 2.0), near)

    assert {one for one, _ in asked} <= {"Ana loves jogging in the park"}
