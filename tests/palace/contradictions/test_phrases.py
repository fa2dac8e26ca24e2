"""Contradictions in other words: what an embedder adds, and what it never does."""

import json
from pathlib import Path

import numpy as np
import pytest

from sense_memory import open_embedder
from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claim_index import ClaimIndex
from sense_memory.palace.contradictions.detection import compare
from sense_memory.palace.contradictions.phrases import MAX_ASKED_COUNT, Phrases


HERE = Path(__file__).parents[1]


def labelled(name):
    lines = (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


PARAPHRASES = labelled("paraphrases")


def memory(value, key="note", created_at=1.0, **fields):
    return PersonaMemory(
        domain="people", facet="facts", key=key, value=value, created_at=created_at, **fields
    )


def sides(pair):
    return PersonaMemory(**pair["old"], created_at=1.0), PersonaMemory(**pair["new"], created_at=2.0)


@pytest.fixture(scope="module")
def judge():
    """Compares with what the real table of words says."""
    embedder, phrases = open_embedder("static"), Phrases()

    def judged(old, new):
        for _ in range(2):
            compare(old, new, phrases.alike)
            asked = phrases.asked()
            phrases.learn(asked, embedder.embed(asked))
        return compare(old, new, phrases.alike)

    return judged


@pytest.fixture(scope="module")
def verdict(judge):
    return lambda old, new: judge(memory(old, "first-note"), memory(new, "second-note", 2.0))


# ── The labelled pairs ──────────────────────────────────────────────────────────────────


def found(pairs, judge):
    return sum(judge(*sides(pair)) is not None for pair in pairs) / len(pairs)


@pytest.mark.parametrize(("half", "by_words", "by_meaning"), [("tune", 0.15, 0.3), ("held", 0.08, 0.3)])
def test_of_contradictions_in_other_words_more_are_found_with_an_embedder(half, by_words, by_meaning, judge):
    opposed = [pair for pair in PARAPHRASES if (pair["half"], pair["label"]) == (half, "contradiction")]

    assert found(opposed, compare) >= by_words
    assert found(opposed, judge) >= by_meaning


def test_what_acts_without_an_embedder_acts_with_one_and_few_traps_are_suspected(judge):
    suspected = 0
    for pair in [*PARAPHRASES, *labelled("contradictions")]:
        alone, helped = compare(*sides(pair)), judge(*sides(pair))
        if alone is not None:
            assert helped == alone, pair["id"]
        elif helped is not None:
            assert not helped.acts
            assert helped.kind in {"turn", "sentiment"} or " ≈ " in helped.reason
            suspected += pair["label"] == "none"

    assert suspected <= 12


def test_the_pairs_in_other_words_are_many_and_half_of_them_are_traps():
    traps = [pair for pair in PARAPHRASES if pair["label"] == "none"]

    assert len(PARAPHRASES) >= 120
    assert len(traps) >= 0.45 * len(PARAPHRASES)
    assert len({pair["id"] for pair in PARAPHRASES}) == len(PARAPHRASES)
    assert all(pair["half"] == "held" for pair in PARAPHRASES if pair["batch"] > 1)


# ── Kinds ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "old", "new", "reason"),
    [
        ("sentiment", "Ana loves jogging", "Ana hates running", "loves → hates; jogging ≈ running"),
        ("number", "Omar has two kids", "Omar has three children", "two → three; kids ≈ children"),
        (
            "value",
            "The wife of Tom is Ana",
            "Tom is married to Eva",
            "wife: Ana → Eva; wife ≈ married",
        ),
        (
            "value",
            "The physician of Ida is Weiss",
            "The doctor of Ida is Roth",
            "physician: Weiss → Roth; physician ≈ doctor",
        ),
        (
            "number",
            "Elif has two siblings",
            "Elif has three brothers and sisters",
            "two → three; siblings ≈ brothers; siblings ≈ sisters",
        ),
    ],
)
def test_a_contradiction_in_other_words_is_suggested(kind, old, new, reason, verdict):
    assert compare(memory(old, "first-note"), memory(new, "second-note")) is None

    suggested = verdict(old, new)

    assert (suggested.kind, suggested.reason, suggested.acts) == (kind, reason, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ana loves jogging", "Ana is fond of running"),  # the same
        ("Ana loves jogging", "Ana hates swimming"),  # another thing
        ("Paul is afraid of mice", "Paula loves mice"),  # names resemble each other, and are two
        ("Karl drinks wine on weekends", "Karl drinks no wine during the week"),  # of one kind
        ("The brother of Ida is a nurse", "The sister of Ida is no nurse"),
        ("p50 latency is 12 ms", "p99 latency is 140 ms"),  # marks, not words
        ("The wife of Tom is Ana", "The husband of Tom is Karl"),
        ("The physician of Ida is a vet", "The doctor of Ida is a veterinarian"),  # the values agree
        ("Leila adores winter", "Leila's mother detests the cold season"),  # somebody else
        ("Ana loves jogging", "Ana's mother hates running"),
    ],
)
def test_what_is_near_and_no_contradiction_is_not_suggested(old, new, verdict):
    assert verdict(old, new) is None


# ── Phrases ─────────────────────────────────────────────────────────────────────────────


def rows_of(phrases, near=()):
    """Directions of which each is as far from all others as can be, but for those that are to be near."""
    rows = {phrase: np.eye(len(phrases), dtype=np.float32)[place] for place, phrase in enumerate(phrases)}
    for one, other, cosine in near:
        rows[other] = cosine * rows[one] + np.sqrt(1 - cosine**2) * rows[other]
    return np.array(list(rows.values()))


def test_nothing_means_the_same_until_it_was_learned():
    phrases = Phrases()

    assert phrases.alike("jogging", "jogging") > 0
    assert phrases.alike("jogging", "running") < 0
    asked = phrases.asked()
    assert asked[:2] == ["jogging", "running"]
    assert "brother" in asked  # what it is measured by
    assert phrases.asked() == []
    phrases.learn(asked, rows_of(asked, [("jogging", "running", 0.8)]))
    assert phrases.alike("jogging", "running") > 0
    assert phrases.asked() == []
    assert phrases.alike("jogging", "chess") < 0
    assert phrases.asked() == ["chess"]


def test_how_near_is_near_is_measured_by_what_the_embedder_makes_of_things_of_one_kind():
    phrases = Phrases()
    phrases.alike("jogging", "running")
    asked = phrases.asked()
    apart = rows_of(asked, [("jogging", "running", 0.3), ("brother", "sister", 0.2)])
    rows = np.c_[np.sqrt(0.5) * apart, np.full(len(asked), np.sqrt(0.5))]  # any two are near: 0.5 at least
    phrases.learn(asked, rows)

    assert phrases.alike("jogging", "running") > 0  # 0.65
    assert phrases.alike("jogging", "brother") < 0  # 0.5


def test_no_more_is_asked_at_a_time_than_an_embedder_reads_in_a_moment():
    phrases = Phrases()
    for number in range(1_000):
        phrases.alike(f"thing {number}", "other thing")

    sample = len(set(phrases.asked()) - {f"thing {number}" for number in range(1_000)})
    for number in range(1_000):
        phrases.alike(f"thing {number}", "other thing")

    assert sample < 150
    assert len(phrases.asked()) <= MAX_ASKED_COUNT + sample


def test_an_embedder_to_which_everything_is_the_same_never_makes_anything_act():
    phrases = Phrases()
    old, new = memory("Ana loves jogging", "a"), memory("Ana hates swimming", "b", 2.0)
    compare(old, new, phrases.alike)
    asked = phrases.asked()
    phrases.learn(asked, np.tile(np.array([1.0, 0.0], np.float32), (len(asked), 1)))

    suggested = compare(old, new, phrases.alike)

    assert suggested is not None
    assert not suggested.acts


def test_meaning_is_asked_about_those_only_that_share_a_word():
    claims, asked = ClaimIndex(), []
    claims.put(memory("Ana loves jogging", "near"))
    claims.put(memory("The tram is late", "far"))

    def alike(one, other):
        asked.append((one, other))
        return 1.0

    verdicts = claims.check(memory("Ana hates running", "new", 2.0), alike)

    assert [item.old for item in verdicts] == ["people/facts/near"]
    assert set(asked) == {("jogging", "running")}
