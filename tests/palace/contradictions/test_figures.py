"""Words and figures of a clause."""

import doctest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.palace.contradictions import figures
from sense_memory.palace.contradictions.figures import Figure, items


def only(text):
    (figure,) = [item for item in items(text) if isinstance(item, Figure)]
    return figure


def test_the_examples_hold():
    results = doctest.testmod(figures)

    assert results.attempted > 2
    assert results.failed == 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("takes 60 minutes", "takes 1 hour"),
        ("has 10k rows", "has 10,000 rows"),
        ("is at 3 pm", "is at 15:00"),
        ("on 3 march", "on march 3, 2026"),
        ("on 2026-03-03", "on 3 march 2026"),
        ("is 8 km long", "is 5 miles long"),
        ("am 3. mai", "le 3 mai"),
        ("has three dogs", "has 3 dogs"),
        ("has two thousand rows", "has 2,000 rows"),
        ("costs €5", "costs 5 euros"),
        ("at half past nine", "at 9:30"),
        ("um halb sieben", "um 6:30"),
        ("a las nueve", "at nine"),
        ("zwei wochen", "deux semaines"),
        ("in autumn", "im herbst"),
    ],
)
def test_the_same_figure_said_otherwise_does_not_differ(one, other):
    assert only(one).kind == only(other).kind
    assert not only(one).differs(only(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("takes 10 minutes", "takes 1 hour"),
        ("on 3 march", "on 4 march"),
        ("on monday", "on tuesday"),
        ("is at 9:30", "is at 9:31"),
        ("um halb sieben", "um sieben"),
        ("in spring", "in autumn"),
        ("costs 5 euros", "costs 6 euros"),
        ("phone is 604-555-0101", "phone is 604-555-0133"),
    ],
)
def test_another_figure_differs(one, other):
    assert only(one).differs(only(other))


@pytest.mark.parametrize("text", ["user 4711", "house 1 is red", "agent one is ready", "room 204 is quiet"])
def test_a_number_behind_a_noun_tells_which_one_is_meant(text):
    assert not [item for item in items(text) if isinstance(item, Figure)]


@settings(max_examples=75, deadline=None)
@given(st.text(max_size=120))
def test_any_text_is_cut_into_words_and_figures(text):
    assert all(isinstance(item, Figure) or item for item in items(text.lower()))
