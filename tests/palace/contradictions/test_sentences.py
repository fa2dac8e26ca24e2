"""How near two notes are in meaning, and what an embedder adds to contradictions, and never does."""

import json
from pathlib import Path

import numpy as np
import pytest

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.contradictions.claims import MAX_READ_CHARS
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.contradictions.sentences import MAX_ASKED_COUNT, Sentences


MOPED = "Berenike rides a moped to the vineyard."
SOLD = "Berenike sold hers in July and does not miss the noise any more."


def labelled(name):
    text = (Path(__file__).parents[1] / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


PARAPHRASES, BY_CLASS, QUIET = map(labelled, ("paraphrases", "contradictions_by_class", "quiet"))


def memory(value, key="note", created_at=1.0):
    return PersonaMemory(domain="people", facet="facts", key=key, value=value, created_at=created_at)


def sides(pair):
    return PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)


@pytest.mark.parametrize(("half", "least"), [("tune", 0.1), ("held", 0.06)])
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


def test_rows_that_are_not_finite_leave_a_sentence_unknown_and_spoil_no_other():
    sentences = Sentences()
    for spoiled in (slice(None), slice(1, 2), slice(0)):  # all, one that was asked for, none
        assert sentences.near("Ana jogs", "Ana runs") is None
        asked = sentences.asked()
        rows = np.eye(len(asked), 32, dtype=np.float32)
        rows[spoiled] = np.nan
        sentences.learn(asked, rows)

    assert np.isfinite(sentences.near("Ana jogs", "Ana runs"))


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


def judged(pairs, judge):
    return [(compare(*side), judge(*side)) for side in map(sides, pairs)]


@pytest.mark.parametrize(("half", "least"), [("tune", 0.66), ("held", 0.7)])
def test_of_the_pairs_more_are_found_with_an_embedder_and_the_same_act(half, least, judge):
    pairs = [pair for pair in BY_CLASS if pair["half"] == half and pair["set"] == "pairs"]
    opposed = [pair for pair in pairs if pair["label"] == "contradiction"]
    verdicts = judged(pairs, judge)

    assert all(alone == helped for alone, helped in verdicts if alone is not None and alone.acts)
    assert not any(helped.acts for alone, helped in verdicts if helped and not (alone and alone.acts))
    assert sum(helped is not None for _, helped in judged(opposed, judge)) >= least * len(opposed)


def test_of_the_traps_hardly_more_are_suspected_with_an_embedder(judge):
    verdicts = judged([pair for pair in BY_CLASS if pair["set"] == "traps"], judge)

    assert sum(alone is None and helped is not None for alone, helped in verdicts) <= 3


@pytest.mark.parametrize("half", ["tune", "held"])
def test_in_a_palace_without_contradictions_hardly_anything_is_suspected_with_an_embedder(half, asking):
    claims, found = ClaimIndex(), []
    for number, text in enumerate(text for text in QUIET if text["half"] == half):
        fields = {name: value for name, value in text.items() if name != "half"}
        new = PersonaMemory(**fields, created_at=float(number))
        found += asking(lambda near, new=new: claims.check(new, near))
        claims.put(new)

    assert len(found) <= 2


def test_a_turn_is_suspected_only_where_both_speak_of_the_same():
    old, new = memory(MOPED, "a"), memory(SOLD, "b", created_at=2.0)

    assert compare(old, new) is None
    assert compare(old, new, lambda *_: -100.0) is None
    suspected = compare(old, new, lambda *_: 4.0)
    assert (suspected.kind, suspected.acts) == ("turn", False)
    assert suspected.reason == f"perhaps no longer true: “{MOPED}”"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Berenike rode a moped when she was young.", SOLD),  # it was over before
        (
            "Berenike gave up riding the moped.",
            "Berenike quit the choir of the old school at last.",
        ),  # told already
        ("User 4711 pays by card.", "An invoice is what user 4712 has switched to."),
        ("The Rome office is open.", "The Oslo office was sold."),
    ],
)
def test_what_was_over_or_is_another_is_no_turn(old, new):
    assert compare(memory(old, "a"), memory(new, "b", created_at=2.0), lambda *_: 8.0) is None


def test_one_memory_turns_three_others_at_most():
    claims = ClaimIndex()
    told = (
        MOPED,
        "Berenike takes a ferry to the island.",
        "Berenike walks to the ferry.",
        "Berenike rides a bus.",
    )
    for key, value in zip("abcd", told, strict=True):
        claims.put(memory(value, key))

    found = claims.check(memory(SOLD, "new", created_at=2.0), lambda *_: 8.0)

    assert [item.kind for item in found] == ["turn"] * 3


def test_a_pair_that_tells_no_turn_is_never_asked_for():
    asked = []
    no_turn = memory("Berenike has three grown children.", "b", created_at=2.0)

    compare(memory(MOPED, "a"), no_turn, lambda *pair: asked.append(pair) or 9.0)

    assert not [pair for pair in asked if pair[0].endswith(".")]


def test_no_embedder_sees_more_of_a_memory_than_is_read():
    asked = []
    long = f"Berenike rides a moped. {'The noise is loud. ' * 100}"

    compare(memory(long, "a"), memory("Berenike sold the moped.", "b", 2.0), lambda *pair: asked.append(pair))

    assert [len(text) for text in asked[0]] == [MAX_READ_CHARS, len("Berenike sold the moped.")]
