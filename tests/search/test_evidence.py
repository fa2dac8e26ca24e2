"""The arithmetic of a search, in arrays, against the same in loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search import date_evidence, evidence, ranking
from sense_memory.search.calendar_days import DAY_SECONDS, Period


def scores_of(seed, count, share):
    """Scores, of which a share is above 0; some are alike."""
    dice = np.random.default_rng(seed)
    return np.where(dice.random(count) < share, dice.random(count).round(3), 0).astype(np.float32)


@given(st.integers(0, 99), st.integers(0, 2_000), st.integers(1, 300), st.sampled_from([0.0, 0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_the_best_are_the_highest_and_all_that_tie_with_the_last_of_them(seed, size, count, share):
    scores = scores_of(seed, size, share)
    above = sorted(scores[scores > 0].tolist(), reverse=True)
    least = above[min(count, len(above)) - 1] if above else 1
    assert sorted(ranking.highest_rows(scores, count).tolist()) == np.flatnonzero(scores >= least).tolist()


def test_the_best_are_found_where_a_sample_misses_them():
    scores = np.linspace(0.1, 0.2, 4_096, dtype=np.float32)
    scores[:: ranking._SAMPLED] = 1  # the sample sees nothing else, and takes that for the usual
    assert len(ranking.highest_rows(scores, 1_000)) == 1_000
    scores[:: ranking._SAMPLED] = 0.05
    assert sorted(ranking.highest_rows(scores, 10)) == [*range(4_086, 4_096)]


def test_what_a_word_explains_is_learnt_from_the_others_that_hold_it_and_no_other_word():
    only = evidence.only_words([np.array([0, 0, 1, 2]), np.array([2, 3])], 5)
    assert only.tolist() == [0, 0, -1, 1, -1]

    meaning = np.array([4, 2, 5, 3, 1], np.float32)
    assert evidence.beyond_words(meaning, only).tolist() == [3, 0, 5, 3, 1]
    assert evidence.beyond_words(-meaning, only).tolist() == [-4, -2, -5, -3, -1]  # none is lifted


@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(0, 99))
def test_a_memory_is_as_near_as_its_best_piece(sizes, seed):
    scores = scores_of(seed, sum(sizes), 0.7)
    ends = np.cumsum(sizes)
    expected = [scores[end - size : end].max() for size, end in zip(sizes, ends, strict=True)]
    assert evidence.pooled(scores, ends - sizes).tolist() == expected


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
def test_memories_lend_to_those_beside_them(share):
    count = 400
    scores, lengths = scores_of(3, count, share), scores_of(4, count, 1.0) * 100
    order = np.random.default_rng(5).permutation(count).astype(np.int32)
    before, after = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    linked = np.arange(count - 1) % 50 != 49  # so many in a session
    after[order[:-1][linked]] = order[1:][linked]
    before[order[1:][linked]] = order[:-1][linked]

    expected = []
    for row in range(count):
        lent = scores[before[row]] * evidence.BEFORE_SHARE if before[row] >= 0 else 0
        lent += scores[after[row]] * evidence.AFTER_SHARE if after[row] >= 0 else 0
        lean = evidence.LEAN_FULLY * evidence.LEAN_WORDS / (evidence.LEAN_WORDS + lengths[row])
        expected.append(lent * min(1, lean))
    assert evidence.lent(scores, lengths, before, after) == pytest.approx(expected, abs=1e-6)


def test_days_that_are_meant_count_and_a_little_those_after():
    days = np.array([np.nan, 9, 10, 12, 13, 19, 20, 30])
    meant = [Period(first * DAY_SECONDS, (last + 1) * DAY_SECONDS) for first, last in ((10, 12), (30, 30))]
    found = date_evidence.written_in(days * DAY_SECONDS, meant)
    assert found.tolist() == pytest.approx([0, 0, 1, 1, 0.75 - 0.55 / 7, 0.2, 0, 1], abs=1e-6)
