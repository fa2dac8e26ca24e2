"""Questions about what holds now."""

from __future__ import annotations

import pytest

from sense_memory.search.newest import Aged, asks_for_now, newest_first


def hit(said, score, time):
    return Aged(frozenset(said.split()), score, time)


LIVES = [hit("mira live", 9.0, 1.0), hit("mira live", 8.0, 2.0), hit("mira", 7.0, 3.0)]


@pytest.mark.parametrize(
    "question",
    ["Where does Mira live now?", "Wo wohnt Mira derzeit?", "la version actuelle", "¿Dónde vive ahora?"],
)
def test_the_newest_of_those_about_the_same_thing_comes_first(question):
    assert asks_for_now(question)
    assert newest_first(question, LIVES) == [1, 0, 2]


def test_without_such_a_word_the_order_stays():
    assert newest_first("Where did Mira live?", LIVES) == [0, 1, 2]


def test_the_word_itself_need_not_stand_in_the_newer_one():
    hits = [hit("current phone", 9.0, 1.0), hit("phone", 4.0, 2.0)]
    assert newest_first("the current phone", hits) == [1, 0]


def test_a_hit_that_fits_far_worse_is_about_something_else():
    assert newest_first("Where does Mira live now?", [LIVES[0], hit("mira live", 1.0, 2.0)]) == [0, 1]
