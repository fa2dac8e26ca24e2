"""Connection discovery: what is found, what is not, in which order, and that the work is bounded."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.limits import SCORED_PAIRS_COUNT, SUGGESTED_PAIRS_COUNT, THEME_PAIRS_COUNT
from sense_memory.models import PersonaMemory
from sense_memory.palace import connections
from sense_memory.palace.connections import PER_MEMORY_COUNT, folded, near_pairs, suggest


NOW = 1_775_000_000.0
seeded = settings(max_examples=30, deadline=None, derandomize=True)


def memory(key, *themes, domain="people", facet="facts", **fields):
    return PersonaMemory(
        domain=domain, facet=facet, key=key, value="text", themes=themes, created_at=NOW, **fields
    )


def pairs_of(found):
    return [(pair.first.key, pair.second.key) for pair in found.pairs]


def suggested(*memories, **options):
    return suggest(memories, [1.0] * len(memories), **options)


# ── Which pairs ─────────────────────────────────────────────────────────────────────────


def by_brute_force(memories, relevances):
    """Every pair, by the definition."""

    def meant(links):
        by_key = {link: [item.path for item in memories if item.key == link] for link in links}
        return {
            link if "/" in link else by_key[link][0]
            for link in links
            if "/" in link or len(by_key[link]) == 1
        }

    def settled(one, other):
        links = {*one.connections, *one.contradicts, *one.dismissed, one.superseded_by, one.conflict_of} - {
            None
        }
        return other.path in meant(links)

    alive = [item for item, relevance in zip(memories, relevances, strict=True) if relevance >= 0.1]
    return {
        frozenset((one.path, other.path))
        for one, other in combinations(alive, 2)
        if len({folded(theme) for theme in one.themes} & {folded(theme) for theme in other.themes} - {""})
        >= 2
        and not settled(one, other)
        and not settled(other, one)
    }


PATHS = ["people/facts/a", "people/facts/b", "self/facts/a", "world/facts/c", "world/facts/d", "gone/facts/x"]
links = st.lists(st.sampled_from([*PATHS, "a", "b", "c"]), max_size=2)
single = st.none() | st.sampled_from([*PATHS, "b"])


@st.composite
def palaces(draw):
    return [
        PersonaMemory(
            domain=path.split("/")[0],
            facet="facts",
            key=path.split("/")[2],
            value="",
            created_at=NOW,
            themes=draw(
                st.lists(st.sampled_from(["art", "Árt", "music", "MUSIC ", "café", "sea", " "]), max_size=5)
            ),
            connections=draw(links),
            contradicts=draw(links),
            dismissed=draw(links),
            superseded_by=draw(single),
            conflict_of=draw(single),
        )
        for path in PATHS[: draw(st.integers(0, 5))]
    ]


@seeded
@given(palaces(), st.lists(st.sampled_from([1.0, 0.2, 0.1, 0.0999, 0.0]), min_size=5, max_size=5))
def test_exactly_the_pairs_that_share_two_themes_and_are_not_settled_are_found(palace, values):
    relevances = values[: len(palace)]
    found = suggest(palace, relevances)
    assert {frozenset((pair.first.path, pair.second.path)) for pair in found.pairs} == by_brute_force(
        palace, relevances
    )
    assert found.bounded == ()
    assert all(pair.first.path < pair.second.path and pair.score > 0 for pair in found.pairs)


@seeded
@given(st.integers(0, 1_000))
def test_larger_palaces_are_searched_completely_too(seed):
    dice = random.Random(seed)
    palace = [
        memory(f"m{number}", *dice.choices([f"t{n}" for n in range(15)], k=dice.randrange(8)))
        for number in range(40)
    ]
    found = suggested(*palace, count=10_000)
    assert {frozenset((pair.first.path, pair.second.path)) for pair in found.pairs} == by_brute_force(
        palace, [1.0] * 40
    )
    assert found.bounded == ()


@seeded
@given(palaces(), st.randoms())
def test_the_order_of_the_memories_does_not_matter(palace, dice):
    shuffled = list(palace)
    dice.shuffle(shuffled)
    assert suggested(*shuffled) == suggested(*palace)


def test_memories_that_are_about_to_be_forgotten_are_suggested_to_the_very_bound_of_fading():
    pair = [memory("a", "art", "sea"), memory("b", "art", "sea")]
    assert len(suggest(pair, [0.1, 0.1]).pairs) == 1
    assert suggest(pair, [1.0, 0.0999999]).pairs == ()


def test_case_accents_and_blanks_do_not_tell_themes_apart():
    found = suggested(memory("a", "Café", "live  coding"), memory("b", "CAFE", " Live Coding "))
    assert pairs_of(found) == [("a", "b")]


def test_the_same_theme_spelled_twice_is_one_theme():
    assert suggested(memory("a", "art", "Art"), memory("b", "ART", "art")).pairs == ()


@pytest.mark.parametrize(
    "link",
    [
        {"connections": ["people/facts/b"]},
        {"connections": ["b"]},
        {"contradicts": ["people/facts/b"]},
        {"superseded_by": "people/facts/b"},
        {"dismissed": ["people/facts/b"]},
        {"conflict_of": "people/facts/b"},
    ],
    ids=lambda link: next(iter(link)),
)
def test_a_settled_pair_is_not_suggested_whichever_side_says_so(link):
    other = memory("b", "art", "music")
    assert pairs_of(suggested(memory("a", "art", "music"), other)) == [("a", "b")]
    assert suggested(memory("a", "art", "music", **link), other).pairs == ()
    assert suggested(other, memory("a", "art", "music", **link)).pairs == ()


def test_a_bare_key_that_two_memories_have_settles_nothing():
    one = memory("a", "art", "music", connections=["b"])
    found = suggested(one, memory("b", "art", "music"), memory("b", domain="world"))
    assert pairs_of(found) == [("a", "b")]


# ── Ranking and reasons ─────────────────────────────────────────────────────────────────


def test_rare_themes_and_more_of_them_come_first():
    common = [memory(f"c{number}", "daily", "log") for number in range(5)]
    rare = [memory("r1", "orpheus", "voice"), memory("r2", "orpheus", "voice")]
    rich = [memory("x1", "ink", "paper", "print"), memory("x2", "ink", "paper", "print")]
    found = suggested(*common, *rare, *rich)
    assert pairs_of(found)[:2] == [("x1", "x2"), ("r1", "r2")]
    assert len(found.pairs) == 2 + 10


def test_a_little_rarer_is_better_whatever_the_paths_are():
    common = [memory(key, "art", "sea") for key in ("a1", "a2", "a3")]
    rare = [memory(key, "art", "ink") for key in ("z1", "z2")]
    others = [memory(f"m{number}") for number in range(20)]
    assert pairs_of(suggested(*common, *rare, *others))[0] == ("z1", "z2")


def test_of_equal_pairs_those_of_one_domain_come_first_and_then_paths_decide():
    found = suggested(
        memory("a", "art", "sea", domain="people"),
        memory("b", "art", "sea", domain="world"),
        memory("c", "art", "sea", domain="world"),
    )
    assert pairs_of(found) == [("b", "c"), ("a", "b"), ("a", "c")]


def test_a_reason_names_what_is_shared_as_it_was_written():
    (pair,) = suggested(
        memory("a", "Music", "Live-Coding", "x"), memory("b", "music", "live-coding", "y")
    ).pairs
    assert pair.reason == "share: Live-Coding, Music"
    many = [f"t{number}" for number in range(8)]
    (pair,) = suggested(memory("a", *many), memory("b", *many)).pairs
    assert pair.reason == "share: t0, t1, t2, t3, t4 and 3 more"


# ── Pairs that are near in meaning ──────────────────────────────────────────────────────


def test_pairs_near_in_meaning_join_the_ranking():
    one, other, third = memory("a", "art"), memory("b", "art"), memory("c")
    near = [(third.path, one.path, 0.9), (one.path, other.path, 0.95), (other.path, one.path, 0.5)]
    found = suggested(one, other, third, near=near)
    assert pairs_of(found) == [("a", "b"), ("a", "c")]
    assert found.pairs[0].reason == "share: art; near in meaning (0.95)"
    assert found.pairs[1].reason == "near in meaning (0.90)"


def test_a_pair_that_is_alike_and_near_is_suggested_once_with_both_reasons():
    one, other = memory("a", "art", "sea"), memory("b", "art", "sea")
    alone = suggested(one, other).pairs[0]
    (both,) = suggested(one, other, near=[(one.path, other.path, 0.8)]).pairs
    assert both.reason == "share: art, sea; near in meaning (0.80)"
    assert both.score > alone.score


@pytest.mark.parametrize("similarity", [0.0, -1.0, float("nan"), float("inf")])
def test_a_similarity_that_is_none_suggests_nothing(similarity):
    one, other = memory("a"), memory("b")
    assert suggested(one, other, near=[(one.path, other.path, similarity)]).pairs == ()


def test_near_pairs_that_are_settled_forgotten_unknown_or_one_memory_are_left_out():
    one, other = memory("a", dismissed=["people/facts/b"]), memory("b")
    near = [(one.path, other.path, 0.9), (one.path, one.path, 1.0), (one.path, "x/y/z", 0.9)]
    assert suggested(one, other, near=near).pairs == ()
    fresh, faded = memory("a"), memory("b")
    assert suggest([fresh, faded], [1.0, 0.05], near=[(fresh.path, faded.path, 0.9)]).pairs == ()


# ── Bounds ──────────────────────────────────────────────────────────────────────────────


def test_only_the_best_are_listed_and_it_says_so():
    palace = [memory(f"m{number:03}", "art", "sea") for number in range(20)]
    found = suggested(*palace)
    assert len(found.pairs) == SUGGESTED_PAIRS_COUNT
    assert found.bounded == (f"only the best {SUGGESTED_PAIRS_COUNT} pairs are listed",)
    assert suggested(*palace, count=190).bounded == ()


def test_a_few_memories_that_say_the_same_do_not_fill_the_list():
    same = [memory(f"same-{number:02}", "rare", "rarer") for number in range(20)]
    others = [memory(f"other-{number:02}", f"t{number // 2}", "common") for number in range(60)]

    found = suggested(*same, *others)

    assert len(found.pairs) == SUGGESTED_PAIRS_COUNT
    assert sum(pair.first.key.startswith("other") for pair in found.pairs) == 30
    assert len(suggested(*same[:8]).pairs) == 28  # all are listed where all fit


def test_of_a_large_group_the_most_relevant_are_compared(monkeypatch):
    monkeypatch.setattr(connections, "THEME_GROUP_COUNT", 3)
    palace = [memory(f"m{number}", "art", "sea") for number in range(10)]
    found = suggest(palace, np.linspace(0.2, 1.0, 10))
    assert {key for pair in pairs_of(found) for key in pair} == {"m7", "m8", "m9"}
    assert found.bounded == ("of memories that share two themes, only the 3 most relevant are compared",)


def test_where_there_are_too_many_pairs_the_rarest_themes_are_compared(monkeypatch):
    monkeypatch.setattr(connections, "THEME_PAIRS_COUNT", 2)
    rare = [memory("r1", "ink", "print"), memory("r2", "ink", "print")]
    found = suggested(*[memory(f"c{number}", "art", "sea") for number in range(4)], *rare)
    assert pairs_of(found) == [("r1", "r2")]
    assert found.bounded == ("themes that many memories share were not all compared",)


def test_scoring_is_bounded_and_says_of_how_many(monkeypatch):
    monkeypatch.setattr(connections, "SCORED_PAIRS_COUNT", 1)
    rare = [memory("r1", "ink", "print"), memory("r2", "ink", "print")]
    found = suggested(*[memory(f"c{number}", "art", "sea") for number in range(3)], *rare)
    assert pairs_of(found) == [("r1", "r2")]
    assert found.bounded == ("1 of 4 pairs were scored, those with rare themes first",)


def test_of_a_memory_with_hundreds_of_themes_the_rarest_count():
    many = [f"t{number:03}" for number in range(300)]
    palace = [memory("a", *many), memory("b", *many), memory("c", *many[100:]), memory("d", *many[200:])]
    found = suggested(*palace)
    assert ("a", "b") in pairs_of(found)
    assert found.bounded == ("of 4 memories only the 12 rarest themes count",)


def test_ten_thousand_memories_with_the_same_themes_cost_a_bounded_number_of_pairs(monkeypatch):
    base = memory("m", "art", "sea", "ink")
    palace = [base.changed(key=f"m{number:06}") for number in range(10_000)]  # 50 million pairs
    looked_at = []
    joined, shared = connections._joined, connections._Themes.shared
    monkeypatch.setattr(
        connections, "_joined", lambda *given: looked_at.append(len(found := joined(*given))) or found
    )
    monkeypatch.setattr(
        connections._Themes, "shared", lambda *given: looked_at.append(len(found := shared(*given))) or found
    )
    found = suggest(palace, np.ones(len(palace)))
    assert looked_at[0] <= THEME_PAIRS_COUNT
    assert looked_at[1] <= SCORED_PAIRS_COUNT
    assert len(found.pairs) == SUGGESTED_PAIRS_COUNT
    assert found.bounded


def test_an_empty_palace_suggests_nothing():
    assert suggested() == connections.Suggestions()
    assert suggested(memory("a", "art", "sea")) == connections.Suggestions()


# ── Near in meaning ───────────────────────────────────────────────────────────────────────────────


def directions(*rows):
    found = np.array(rows, np.float32)
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)


def test_memories_near_in_meaning_are_paired_the_nearest_first():
    rows = directions([1, 0, 0, 0], [1, 0.2, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0.6], [0, 1, 0, -1], [0, 0, 0, 0])

    pairs = near_pairs(["a", "b", "c", "d", "e", "zero"], rows)

    assert [(one, other) for one, other, _ in pairs] == [("a", "b"), ("c", "d")]
    assert all(0.55 <= similarity <= 1 for _, _, similarity in pairs)
    assert near_pairs(["a"], rows[:1]) == near_pairs([], rows[:0]) == []


def test_what_is_usual_in_a_palace_pairs_nobody():
    """Of a model whose vectors are all alike, only the more alike are near."""
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(40, 64))
    rows[1] = rows[0] + 0.3 * rows[1]
    rows = directions(*(rows / np.linalg.norm(rows, axis=1, keepdims=True) + 3 * np.eye(64)[0]))

    pairs = near_pairs([f"{number:02}" for number in range(40)], rows)

    assert [(one, other) for one, other, _ in pairs] == [("00", "01")]


def test_many_alike_are_paired_with_a_few_each():
    rows = directions(*[[1, 0]] * 600, *[[0, 1]] * 600)

    pairs = near_pairs([f"{number:04}" for number in range(1_200)], rows)

    assert 600 <= len(pairs) <= 1_200 * PER_MEMORY_COUNT
    assert all((one < "0600") == (other < "0600") for one, other, _ in pairs)
    assert pairs == near_pairs([f"{number:04}" for number in range(1_200)], rows)
