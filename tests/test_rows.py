"""Every row of the matrix of named cases is held by a test that exists, and tests/README.md says by which."""

from __future__ import annotations

from itertools import groupby

from tests.rows import AREAS, BY_HAND, PLANNED, README, every_test, held_by, rows, written


def test_no_row_is_missing():
    """The rows of an area are numbered without a gap, and no test is named after a row that there is not."""
    for letter, ids in groupby(rows(), key=lambda row: row[0]):
        assert letter in AREAS
        numbers = [int(row[2:]) for row in ids]
        assert numbers == list(range(1, len(numbers) + 1))
    assert held_by().keys() == rows().keys()


def test_every_row_has_a_test_or_is_planned():
    without = {row for row, tests in held_by().items() if not tests}

    assert without == PLANNED.keys()


def test_what_is_planned_or_named_by_hand_is_a_row():
    assert {*PLANNED, *BY_HAND} <= rows().keys()


def test_every_test_that_is_named_by_hand_exists():
    assert {test for tests in BY_HAND.values() for test in tests} <= every_test()


def test_the_table_is_the_one_that_would_be_written():
    """If this fails: `python -m tests.rows`."""
    page = README.read_text()

    assert written(page) == page
