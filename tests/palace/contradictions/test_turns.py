"""Later memories that tell in other words that an older one holds no longer: suspected with an embedder, never acting."""

import doctest
import json
from pathlib import Path

import pytest

from sense_memory import PersonaMemory, open_embedder
from sense_memory.palace import ClaimIndex, Phrases, compare
from sense_memory.palace.contradictions import turns


CORPORA = Path(__file__).parents[1]
BY_CLASS = [json.loads(line) for line in (CORPORA / "contradictions_by_class.jsonl").read_text().splitlines()]
QUIET = [json.loads(line) for line in (CORPORA / "quiet.jsonl").read_text().splitlines()]
LATIN = "Berenike teaches Latin at the grammar school."
RETIRED = "Berenike retired in July and does not stand in front of a class any more."


def memory(value, key, created_at=1.0):
    return PersonaMemory(domain="people", facet="facts", key=key, value=value, created_at=created_at)


@pytest.fixture(scope="module")
def asking():
    """Calls with what the real table of words says, until it knows enough."""
    embedder, phrases = open_embedder("static"), Phrases()

    def answered(call):
        for _ in range(2):
            call(phrases.alike)
            asked = phrases.asked()
            phrases.learn(asked, embedder.embed(asked))
        return call(phrases.alike)

    return answered


@pytest.fixture(scope="module")
def judge(asking):
    return lambda old, new: asking(lambda alike: compare(old, new, alike))


def judged(pairs, judge):
    sides = [
        (PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0))
        for pair in pairs
    ]
    return [(compare(*side), judge(*side)) for side in sides]


def test_the_examples_hold():
    results = doctest.testmod(turns)

    assert results.attempted > 4
    assert results.failed == 0


@pytest.mark.parametrize(("half", "least"), [("tune", 0.85), ("held", 0.7)])
def test_of_the_pairs_more_are_found_with_an_embedder_and_the_same_act(half, least, judge):
    pairs = [pair for pair in BY_CLASS if pair["half"] == half and pair["set"] == "pairs"]
    opposed = [pair for pair in pairs if pair["label"] == "contradiction"]
    verdicts = judged(pairs, judge)

    assert all(alone == helped for alone, helped in verdicts if alone is not None)
    assert not any(helped.acts for alone, helped in verdicts if alone is None and helped is not None)
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
        found += asking(lambda alike, new=new: claims.check(new, alike))
        claims.put(new)

    assert len(found) <= 1


def test_a_turn_is_suspected_only_where_both_speak_of_the_same():
    old, new = memory(LATIN, "a"), memory(RETIRED, "b", 2.0)

    assert compare(old, new) is None
    assert compare(old, new, lambda *_: -100.0) is None
    suspected = compare(old, new, lambda *_: 3.0)
    assert (suspected.kind, suspected.acts) == ("turn", False)
    assert suspected.reason == f"perhaps no longer true: {LATIN}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Berenike taught Latin when she was young.", RETIRED),  # it was over before
        (
            "Berenike retired from teaching.",
            "Berenike quit the choir of the old school at last.",
        ),  # told already
        ("User 4711 pays by card.", "An invoice is what user 4712 has switched to."),
        (LATIN, "Berenike no longer teaches Latin at the girls' grammar school."),  # in like words
    ],
)
def test_what_was_over_or_is_another_or_is_in_like_words_is_no_turn(old, new):
    assert not turns.is_turn(old, new, lambda *_: 8.0)


def test_one_memory_turns_one_other():
    claims = ClaimIndex()
    for key, value in [("a", LATIN), ("b", "The pupils of Berenike learn Latin verbs by heart.")]:
        claims.put(memory(value, key))

    found = claims.check(memory(RETIRED, "new", 2.0), lambda *_: 6.0)

    assert [item.kind for item in found] == ["turn"]


def test_a_pair_that_tells_no_turn_is_never_asked_for():
    asked = []

    turns.is_turn(LATIN, "Berenike has three grown children.", lambda *pair: asked.append(pair) or 9.0)

    assert asked == []
