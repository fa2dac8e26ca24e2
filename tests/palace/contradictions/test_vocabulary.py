"""The words that the rules know: the examples in their docstrings, and what must hold of every table."""

import doctest

from sense_memory.palace.contradictions import vocabulary


def test_the_examples_hold():
    results = doctest.testmod(vocabulary)

    assert results.attempted > 4
    assert results.failed == 0


def test_a_word_and_its_opposite_stand_on_one_axis_and_on_two_sides():
    for one, other in [("likes", "hates"), ("enabled", "disabled"), ("paid", "unpaid"), ("open", "closed")]:
        (name, side), (other_name, other_side) = vocabulary.axis(one), vocabulary.axis(other)
        assert name.lstrip("±") in {other_name.lstrip("±"), "", vocabulary.stem(one)}
        assert other_name
        assert side != other_side or not name


def test_every_pattern_of_a_relation_is_found_where_it_stands():
    for text, name in [
        ("nora lives in oslo", "lives_in"),
        ("nora has just moved to oslo", "lives_in"),
        ("nora works for bosch", "works_at"),
        ("nora wohnt in kiel", "lives_in"),
        ("nora se llama ana", "called"),
    ]:
        assert name in vocabulary.in_one_word(text).split(), text
        assert name in vocabulary.RELATIONS
