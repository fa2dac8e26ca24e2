"""Dates in questions, and the calendar under them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.search.calendar_days import (
    DAY_SECONDS,
    Span,
    date,
    days_in,
    month_span,
    number,
    weekday,
    year_span,
)
from sense_memory.search.date_words import mentions_date
from sense_memory.search.dates import read_dates


EPOCH = dt.date(1970, 1, 1)
TODAY = number(2023, 7, 12)  # a Wednesday
COVERED = Span(number(2022, 3, 1), TODAY)


def day(text):
    return (dt.date.fromisoformat(text) - EPOCH).days


def meant(query, *, today=TODAY, covered=COVERED):
    found = read_dates(query, today * DAY_SECONDS, covered).periods
    ends = [(period.start // DAY_SECONDS, period.end // DAY_SECONDS - 1) for period in found]
    return [tuple(str(EPOCH + dt.timedelta(end)) for end in pair) for pair in ends]


@given(st.dates(dt.date(1, 3, 1)))
def test_days_have_the_numbers_and_names_of_the_standard_library(when):
    at = (when - EPOCH).days
    assert number(when.year, when.month, when.day) == at
    assert date(at) == (when.year, when.month, when.day)
    assert weekday(at) == when.weekday()


def test_months_know_their_length():
    assert [days_in(2023, 2), days_in(2024, 2), days_in(1900, 2), days_in(2000, 2)] == [28, 29, 28, 29]
    assert month_span(2023, 14) == Span(day("2024-02-01"), day("2024-02-29"))
    assert year_span(2023) == Span(day("2023-01-01"), day("2023-12-31"))


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("what happened last may", "2023-05-01", "2023-05-31"),
        ("last august", "2022-08-01", "2022-08-31"),
        ("this july", "2023-07-01", "2023-07-31"),
        ("next may", "2024-05-01", "2024-05-31"),
        ("next august", "2023-08-01", "2023-08-31"),
        ("on may 3rd, 2023", "2023-05-03", "2023-05-03"),
        ("on the 3rd of may 2023", "2023-05-03", "2023-05-03"),
        ("march 15-20, 2023", "2023-03-15", "2023-03-20"),
        ("between august 11 and august 15 2022", "2022-08-11", "2022-08-15"),
        ("from may 30, 2022 to june 2, 2022", "2022-05-30", "2022-06-02"),
        ("in may 2023", "2023-05-01", "2023-05-31"),
        ("im mai 2023", "2023-05-01", "2023-05-31"),
        ("em marco de 2023", "2023-03-01", "2023-03-31"),
        ("on 2023-05-03", "2023-05-03", "2023-05-03"),
        ("am 15.03.2023", "2023-03-15", "2023-03-15"),
        ("in 2022", "2022-01-01", "2022-12-31"),
        ("yesterday", "2023-07-11", "2023-07-11"),
        ("the day before yesterday", "2023-07-10", "2023-07-10"),
        ("today", "2023-07-12", "2023-07-12"),
        ("two weeks ago", "2023-06-25", "2023-07-01"),
        ("3 days ago", "2023-07-09", "2023-07-09"),
        ("last week", "2023-07-03", "2023-07-09"),
        ("last weekend", "2023-07-07", "2023-07-09"),
        ("last month", "2023-06-01", "2023-06-30"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("last friday", "2023-07-07", "2023-07-07"),
        ("on monday", "2023-07-10", "2023-07-10"),
        ("last night", "2023-07-11", "2023-07-11"),
        ("last summer", "2022-06-01", "2022-08-31"),
        ("last winter", "2022-12-01", "2023-02-28"),
        ("summer of 2022", "2022-06-01", "2022-08-31"),
    ],
)
def test_an_expression_means_its_days(query, first, last):
    assert meant(query) == [(first, last)]


def test_what_leaves_the_year_or_the_month_open_means_each_that_is_covered():
    assert [first for first, _ in meant("may 3")] == ["2022-05-03", "2023-05-03"]
    assert [first for first, _ in meant("in march")] == ["2022-03-01", "2023-03-01"]
    assert [first[:7] for first, _ in meant("on the 3rd")][:2] == ["2022-03", "2022-04"]
    assert len(meant("on the 3rd")) == 17


def test_a_slash_may_put_the_month_first_or_second():
    assert meant("3/5/2023") == [("2023-03-05", "2023-03-05"), ("2023-05-03", "2023-05-03")]
    assert meant("3/25/2023") == [("2023-03-25", "2023-03-25")]


@pytest.mark.parametrize(
    "query",
    ["you may go", "they march on", "at 5pm", "the third option", "room 12", "99/99/2023", "", "2023-13-45"],
)
def test_what_is_no_date_means_no_days(query):
    assert meant(query) == []


def test_a_day_that_a_month_lacks_is_its_last():
    assert meant("february 31, 2023") == [("2023-02-28", "2023-02-28")]


@given(st.text(alphabet="0123456789/.- aegilmnostuvwy", max_size=60))
def test_any_text_has_sound_spans(query):
    found = read_dates(query, TODAY * DAY_SECONDS, COVERED)
    for period in found.periods:
        assert period.start < period.end
    if found.periods:
        assert mentions_date(query)
