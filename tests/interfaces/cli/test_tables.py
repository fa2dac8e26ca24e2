from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.interfaces.cli.tables import changes


def shown(old, new):
    """A comparison as text, with what differs in brackets."""
    return [
        line.mark + "".join(f"[{text}]" if differs else text for text, differs in line.parts)
        for line in changes(old, new)
    ]


def test_a_value_that_was_replaced_is_a_line_that_went_and_one_that_came():
    assert shown("America/Vancouver", "Europe/Lisbon") == ["-[America/Vancouver]", "+[Europe/Lisbon]"]


def test_the_words_that_differ_are_told_apart_from_those_that_stayed():
    assert shown("she teaches painting in Lisbon", "she teaches printmaking in Lisbon") == [
        "-she teaches [painting ]in Lisbon",
        "+she teaches [printmaking ]in Lisbon",
    ]
    assert shown("a b c", "a c") == ["-a [b ]c", "+a c"]


def test_a_change_stands_between_its_neighbours_and_the_rest_is_counted():
    old = [f"line {number}" for number in range(9)]

    assert shown("\n".join(old), "\n".join([*old[:4], "line four", *old[5:]])) == [
        "…3 lines unchanged",
        " line 3",
        "-line [4]",
        "+line [four]",
        " line 5",
        "…3 lines unchanged",
    ]


def test_lines_between_two_changes_are_shown_where_counting_them_would_take_as_much_room():
    assert shown("a\nb\nc\nd\ne", "A\nb\nc\nd\nE") == ["-[a]", "+[A]", " b", " c", " d", "-[e]", "+[E]"]


def test_lines_that_came_or_went_alone():
    assert shown("a\nc", "a\nb\nc") == [" a", "+[b]", " c"]
    assert shown("a\nb\nc", "a\nc") == [" a", "-[b]", " c"]
    assert shown("a", "a\n") == [" a", "+[]"]
    assert shown(None, "a\nb") == ["+[a]", "+[b]"]


def test_nothing_changed():
    assert shown("a\nb", "a\nb") == []


def test_long_stretches_are_cut_around_what_changed():
    words = " ".join(f"word{number}" for number in range(200))
    (gone, came) = shown(f"{words} old {words}", f"{words} new {words}")

    assert "[old ]" in gone
    assert "[new ]" in came
    assert max(len(gone), len(came)) < 100
    assert "(600 more characters)" in shown(None, "x" * 1_000)[0]


@given(st.text("ab \n", max_size=40), st.text("ab \n", max_size=40))
def test_both_texts_can_be_read_from_a_comparison(old, new):
    """Where nothing is left out: short texts that differ in every line."""
    before = "\n".join(f"{line}-" for line in old.split("\n"))
    after = "\n".join(f"{line}+" for line in new.split("\n"))
    lines = [(line.mark, "".join(text for text, _ in line.parts)) for line in changes(before, after)]

    assert [text for mark, text in lines if mark in "- "] == before.split("\n")
    assert [text for mark, text in lines if mark in "+ "] == after.split("\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\n" * 20_000, "b\na\n" * 10_000),
        ("a " * 20_000, "b a " * 10_000),
        ("a\n" * 499, "b\na\n" * 249),
        ("\n".join(str(n % 90) for n in range(500)), "\n".join(str(n * 7 % 90) for n in range(499))),
    ],
    ids=["lines", "words", "just within", "repeating"],
)
def test_the_largest_and_worst_texts_take_no_time(old, new):
    begun = time.process_time()

    assert list(changes(old, new))
    assert time.process_time() - begun < 3
