"""Decay and states: the spec's formula, and the two ways of computing it. And the rules of marks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import STATES, Columns, states_at
from sense_memory.palace.lifecycle import (
    current_relevance,
    current_state,
    is_by_hand,
    is_undecided,
    opponents,
    reconciled,
    revived,
    state_at,
    superseded,
    unopposed,
    unusual_in,
    without,
    without_dismissed,
)


NOW = 1_775_000_000.0
DAY = 86_400.0
N = "people/facts/n"


def memory(**fields):
    return PersonaMemory(
        **{"domain": "people", "facet": "facts", "key": "lisa", "value": "artist", "created_at": NOW} | fields
    )


def as_the_spec_has_it(m, now):
    """The function of sense-memory v2, "Decay Function", for ages that are not negative."""
    days_since_access = (now - m.last_accessed) / 86400
    decay = 0.5 ** (days_since_access / m.halflife_days)
    connection_boost = 1.0 + (len(m.connections) * 0.1)
    contradiction_penalty = 0.5 ** len(m.contradicts)
    if m.superseded_by:
        decay = decay**4
    return m.relevance * decay * connection_boost * contradiction_penalty


paths = st.lists(st.sampled_from(["a/b/c", "a/b/d", "a/b/e", "x/y/z"]), max_size=4, unique=True)
memories = st.builds(
    memory,
    relevance=st.floats(0, 1),
    halflife_days=st.floats(0.01, 36_500),
    last_accessed=st.floats(NOW - 4_000 * DAY, NOW + DAY),
    connections=paths,
    contradicts=paths,
    superseded_by=st.sampled_from([None, "a/b/c"]),
)


@given(memories, st.floats(0, 4_000))
def test_relevance_is_what_the_specification_computes(item, days):
    now = item.last_accessed + days * DAY
    assert current_relevance(item, now) == pytest.approx(as_the_spec_has_it(item, now), rel=1e-6, abs=1e-300)


@given(st.lists(memories, max_size=20))
def test_the_columns_of_a_palace_agree_with_each_memory_alone(items):
    columns = Columns.of(items)
    alone = [current_relevance(item, NOW) for item in items]
    assert columns.relevances(NOW) == pytest.approx(alone, rel=1e-9, abs=1e-300)
    clear = [
        index for index, value in enumerate(alone) if all(abs(value - at) > 1e-9 for at in (0.3, 0.1, 0.01))
    ]
    assert [STATES[columns.states(NOW)[i]] for i in clear] == [current_state(items[i], NOW) for i in clear]


def test_the_bounds_of_the_states_are_the_specs():
    bounds = [1.2, 0.3001, 0.3, 0.1, 0.0999, 0.01, 0.00999, 0.0]
    states = [*[State.ACTIVE] * 2, *[State.FADING] * 2, *[State.FORGOTTEN] * 2, *[State.DISSOLVED] * 2]
    assert [state_at(bound) for bound in bounds] == states
    assert [STATES[number] for number in states_at(np.array(bounds))] == states


def test_a_memory_halves_every_thirty_days_and_four_times_as_fast_when_it_is_superseded():
    assert current_relevance(memory(), NOW + 30 * DAY) == pytest.approx(0.5)
    assert current_relevance(memory(superseded_by="people/facts/new"), NOW + 30 * DAY) == pytest.approx(
        0.5**4
    )
    assert current_relevance(memory(halflife_days=60.0), NOW + 30 * DAY) == pytest.approx(0.5**0.5)


def test_connections_lift_the_score_and_contradictions_halve_it():
    assert current_relevance(memory(connections=["a/b/c", "a/b/d"]), NOW) == pytest.approx(1.2)
    assert current_relevance(memory(contradicts=["a/b/c"]), NOW) == pytest.approx(0.5)


def test_an_access_in_the_future_counts_as_now():
    assert current_relevance(memory(last_accessed=NOW + 5 * DAY), NOW) == 1.0


def test_an_access_revives_and_counts():
    faded = memory(last_accessed=NOW - 300 * DAY, dissolved_at=NOW - DAY, access_count=2)
    assert current_state(faded, NOW) is State.DISSOLVED
    again = revived(faded, NOW)
    assert (again.relevance, again.last_accessed, again.access_count) == (1.0, NOW, 3)
    assert (again.state, again.dissolved_at, current_state(again, NOW)) == (State.ACTIVE, None, State.ACTIVE)


def test_an_access_by_a_clock_behind_takes_no_time_back_and_the_count_has_a_bound():
    later = memory(last_accessed=NOW + DAY, access_count=MAX_SAFE_INTEGER)
    again = revived(later, NOW, 2)
    assert (again.last_accessed, again.access_count) == (NOW + DAY, MAX_SAFE_INTEGER)


def test_an_access_revives_a_memory_no_further_than_its_contradictions_allow():
    opposed = memory(contradicts=["a/b/c", "a/b/d", "a/b/e"])
    assert revived(opposed, NOW).state is State.FADING


@pytest.mark.parametrize(
    "wrong",
    [
        {"relevance": 1.1},
        {"relevance": float("nan")},
        {"halflife_days": 0},
        {"halflife_days": -1},
        {"halflife_days": float("inf")},
        {"confidence": -0.1},
        {"access_count": -1},
        {"state": "asleep"},
        {"created_at": float("inf")},
    ],
)
def test_a_memory_with_impossible_fields_is_refused(wrong):
    with pytest.raises(ValidationError):
        memory(**wrong)


def test_the_repr_of_a_memory_shows_where_it_lies_and_not_what_it_says():
    shown = repr(memory(value="secret words", themes=["hidden"], source="tool:spy"))
    assert "lisa" in shown
    assert not any(word in shown for word in ("secret", "hidden", "spy"))


# ── Marks ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({}, ()),
        ({"contradicts": [N, "a/b/c"], "superseded_by": N}, (N, "a/b/c")),
        ({"contradicts": [N, "a/b/c"], "superseded_by": N, "dismissed": [N]}, ("a/b/c",)),
        ({"superseded_by": N, "dismissed": ["a/b/c"]}, (N,)),
        ({"contradicts": ["n"], "dismissed": [N]}, ()),  # the bare key of another writer
    ],
)
def test_what_is_dismissed_is_no_mark(fields, left):
    assert opponents(without_dismissed(memory(**fields))) == left


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"contradicts": ["a/b/c", N]}, ("a/b/c", N)),
        ({"superseded_by": N}, (N,)),
        ({"contradicts": ["a/b/c", N], "superseded_by": "x/y/z"}, ("a/b/c", N, "x/y/z")),
        ({"contradicts": [N, "a/b/c"], "superseded_by": N}, (N, "a/b/c")),
    ],
)
def test_the_opponents_of_a_memory_are_named_once_each_superseded_or_not(fields, named):
    assert opponents(memory(**fields)) == named


def test_the_last_word_counts():
    marked = superseded(memory(dismissed=[N]), N)
    assert (marked.contradicts, marked.superseded_by, marked.dismissed) == ((N,), N, ())
    assert superseded(marked, N) == marked
    freed = reconciled(marked, [N])
    assert (freed.contradicts, freed.superseded_by, freed.dismissed) == ((), None, (N,))
    assert reconciled(freed, [N]) == freed


def test_void_names_are_left_out_and_others_stay():
    marked = superseded(superseded(memory(), "a/b/c"), N)
    assert opponents(without(marked, N.__eq__)) == ("a/b/c",)
    assert without(marked, "z/z/z".__eq__) is marked


def test_a_mark_by_hand_on_either_side_is_a_decision():
    one, other = memory(), memory(key="n")
    marked = superseded(one, N, by_hand=True)
    assert marked.marked_by_hand == (N,)
    assert superseded(one, N).marked_by_hand == ()
    assert [is_by_hand(*pair) for pair in ((marked, other), (other, marked), (one, other))] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "decided", [{"superseded_by": "a/b/c"}, {"contradicts": [N]}, {"dismissed": [N]}, {"superseded_by": N}]
)
def test_two_memories_are_undecided_while_neither_is_superseded_marks_or_dismisses_the_other(decided):
    other = memory(key="n")
    assert is_undecided(memory(), other)
    assert not is_undecided(memory(**decided), other)
    assert not is_undecided(other, memory(**decided))


def test_what_is_unusual_in_a_mark_is_said_in_words():
    old = memory(written_at=NOW, contradicts=["a/b/c", "a/b/d", N])
    assert unusual_in(memory(written_at=NOW, contradicts=[N]), memory(key="n", written_at=NOW)) == []
    assert unusual_in(old, memory(key="n", domain="world", written_at=NOW - 1)) == [
        "they are of different domains, people and world",
        "people/facts/lisa was written later than world/facts/n",
        "people/facts/lisa was already contradicted by people/facts/n",
    ]
    assert unusual_in(old, memory(key="n", written_at=NOW)) == [
        "people/facts/lisa was already contradicted by a/b/d"
    ]


def test_what_is_dismissed_stays_dismissed_with_what_is_dismissed_later():
    assert reconciled(memory(dismissed=["a/b/c"]), [N, N]).dismissed == ("a/b/c", N)


def test_a_memory_without_its_marks_has_none_by_hand_either():
    marked = superseded(memory(), N, by_hand=True)
    assert unopposed(marked) == memory()


def test_where_the_superseding_mark_goes_the_latest_of_the_others_supersedes_and_marks_by_hand_go_too():
    marked = memory()
    for name in ("a/b/c", "a/b/d", N):
        marked = superseded(marked, name, by_hand=True)
    left = without(marked, N.__eq__)
    assert (left.contradicts, left.superseded_by) == (("a/b/c", "a/b/d"), "a/b/d")
    assert left.marked_by_hand == ("a/b/c", "a/b/d")
    assert without(left, "a/b/c".__eq__).superseded_by == "a/b/d"
    stray = memory(marked_by_hand=[N])  # of a writer that dropped the mark and kept the hand's
    assert without(stray, N.__eq__).marked_by_hand == ()
