"""Dates as evidence: when a memory was said or written, and the times that its text names."""

from __future__ import annotations

import numpy as np
import pytest

from sense_memory.search.calendar_days import DAY_SECONDS, Period
from sense_memory.search.date_evidence import DateEvidence, named_in, times_said, written_in
from sense_memory.search.dates import DateReading
from sense_memory.search.documents import DocumentTable, SearchItem
from sense_memory.search.index import SearchIndex


def days(first, last, direction=""):
    return Period(first * DAY_SECONDS, (last + 1) * DAY_SECONDS, direction)


@pytest.fixture
def table():
    """Memories of day 10: said then, written then, and one that names day 20."""
    found = DocumentTable()
    at = 10.5 * DAY_SECONDS
    for row, item in enumerate(
        (
            SearchItem("said", "", at),
            SearchItem("written", "", created=2 * DAY_SECONDS, written=at),
            SearchItem("undated", ""),
        )
    ):
        found.add(item, row)
    found.say(2, [days(20, 20)])
    return found


def evidence(table, *periods, zone=0.0):
    return DateEvidence(table, DateReading(periods, frozenset()), zone)


def test_each_time_of_a_memory_counts(table):
    assert evidence(table, days(10, 10)).fits().tolist() == [1, 1, 0]
    assert evidence(table, days(2, 2)).fits()[1] == 1
    assert evidence(table, days(20, 20)).fits()[2] > 0.5


def test_the_evidence_says_which_time_fits(table):
    asked = evidence(table, days(10, 10))
    assert asked.fit_of(0) == "1970-01-11"
    assert asked.fit_of(1) == "written on 1970-01-11"
    assert evidence(table, days(2, 2)).fit_of(1) == "first written on 1970-01-03"
    assert evidence(table, days(20, 20)).fit_of(2) == "says 1970-01-21"


def test_the_zone_moves_the_day(table):
    assert evidence(table, days(11, 11), zone=13 * 3_600.0).fits()[0] == 1


def test_a_removed_memory_fits_nothing(table):
    table.drop("said")
    assert evidence(table, days(10, 10)).fits()[0] == 0


def test_a_direction_means_all_that_lies_on_its_side():
    times = np.array([1.0, 9.0, 10.5, 12.0]) * DAY_SECONDS
    on = {side: written_in(times, [days(10, 11, side)]) > 0 for side in ("before", "after", "since", "until")}
    assert on["before"].tolist() == [True, True, False, False]
    assert on["until"].tolist() == [True, True, True, False]
    assert on["since"].tolist() == [False, False, True, True]
    assert on["after"].tolist() == [False, False, False, True]


def test_before_means_rather_the_months_before_than_the_years():
    near, far = written_in(np.array([900.0, 10.0]) * DAY_SECONDS, [days(1000, 1090, "before")])
    assert near > far > 0


def test_a_text_that_names_a_longer_time_fits_less():
    starts, ends = np.array([10.0, 0.0]) * DAY_SECONDS, np.array([11.0, 365.0]) * DAY_SECONDS
    exact, loose = named_in(starts, ends, [days(10, 10)])
    assert exact == 1
    assert 0 < loose < exact


def test_a_long_text_is_read_sentence_by_sentence():
    text = "Nothing to say here.\nThe fair is on 14. Juni 1971. We go there! Then nothing."
    assert times_said(SearchItem("one", text, 0.0)) == (days(529, 529),)
    assert times_said(SearchItem("one", text)) == ()  # without a time of its own, nothing is near


def test_named_times_survive_a_renumbering_and_a_dump(at):
    index = SearchIndex()
    for number in range(4):
        index.put(SearchItem(f"m{number}", f"The fair is on {number + 1} June 2026", at(2026, 1, 1)))
    index.drop("m0")
    index.put(SearchItem("m2", "The fair was called off", at(2026, 1, 1)))
    again = SearchIndex.load(b"".join(bytes(part) for part in index.dump()))
    for found in (index, again):
        hits = found.search("What is on 4 June 2026?", now=at(2026, 1, 2))
        said = {hit.id: [why.detail for why in hit.why if why.kind == "date"] for hit in hits}
        assert said["m3"] == ["says 2026-06-04"]
        assert not any(said.get("m2", ()))
