from __future__ import annotations

import time

import pytest

from sense_memory import InvalidInput
from sense_memory.interfaces.cli.inputs import duration, moment
from sense_memory.interfaces.text import age, iso


NOW = 1_800_000_000.5  # 2027-01-15 08:00:00.5 UTC


@pytest.fixture
def vancouver(monkeypatch):
    """A machine eight hours behind UTC."""
    monkeypatch.setenv("TZ", "PST8")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ago"),
    [
        ("3h", 3 * 3_600),
        ("3 h ago", 3 * 3_600),
        ("2 days ago", 2 * 86_400),
        ("1 day", 86_400),
        ("1d", 86_400),
        ("90s", 90),
        ("90 seconds ago", 90),
        ("5 sec", 5),
        ("7m", 420),
        ("7 min ago", 420),
        ("7 mins", 420),
        ("1 Minute Ago", 60),
        (" 2 weeks ago ", 14 * 86_400),
        ("3w", 21 * 86_400),
        ("1 month ago", 30 * 86_400),
        ("2 years ago", 730 * 86_400),
        ("1y", 365 * 86_400),
        ("0 s", 0),
        ("now", 0),
        ("just now", 0),
    ],
)
def test_a_moment_may_be_told_by_how_long_ago_it_was(text, ago):
    assert NOW - ago == moment(text, NOW)


@pytest.mark.parametrize("seconds", [1, 61, 7_300, 90_000, 70 * 86_400, 800 * 86_400])
def test_every_age_that_is_shown_can_be_given_back(seconds):
    shown = age(NOW - seconds, NOW)

    assert age(moment(shown, NOW), NOW) == shown


@pytest.mark.parametrize(
    ("text", "begin", "seconds"),
    [
        ("2027-01-15T07:00:00Z", 1_799_996_400, 1),
        ("2027-01-15T07:00:00.123Z", 1_799_996_400.123, 0.001),
        ("2027-01-15T07:00:00,5+00:00", 1_799_996_400.5, 0.1),
        ("2027-01-15 08:00+01:00", 1_799_996_400, 60),
        ("2027-01-14", 1_799_913_600, 86_400),
        ("2027-W02-4", 1_799_913_600, 86_400),
        ("2027-01-14 22", 1_799_992_800, 3_600),
        ("2027-01-14 22:30", 1_799_994_600, 60),
        ("20270114T2230", 1_799_994_600, 60),
        ("2027-01-14 22:30:59", 1_799_994_659, 1),
    ],
)
def test_a_date_means_its_end_and_without_an_offset_it_is_local(vancouver, text, begin, seconds):
    found = moment(text, NOW)

    assert found < begin + seconds
    assert found == pytest.approx(begin + seconds, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "begin"), [("yesterday", 1_799_913_600), (" Yesterday", 1_799_913_600), ("today", 1_800_000_000)]
)
def test_a_day_that_is_named_is_a_day_of_this_machine(vancouver, text, begin):
    now = 1_800_000_000.5 + 3_600  # an hour into the day in Vancouver

    assert moment(text, now, begins=True) == begin
    assert moment(text, now) == pytest.approx(min(begin + 86_400, now), abs=1e-6)


def test_the_day_that_is_not_over_ends_now(vancouver):
    assert moment("2027-01-15", NOW) == NOW
    assert moment("2027-01-15 00:00", NOW) == NOW


def test_a_day_may_be_an_hour_shorter(monkeypatch):
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert moment("2027-03-28", 1_900_000_000) == pytest.approx(1_806_188_400 + 23 * 3_600, abs=1e-6)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("created_at", [1_799_999_999.12345, 1_799_999_999.9999999, 1_799_999_999.0])
def test_a_time_that_json_shows_brings_back_what_was_written_then(created_at):
    assert moment(iso(created_at), NOW) >= created_at


@pytest.mark.parametrize(
    "text",
    ["", "3", "days", "3 parsecs", "-3h", "3.5h", "2027-13-01", "tomorrow", "٣h", "1 h 30 min", "9" * 400],
)
def test_what_is_no_time_is_refused_with_examples(text):
    with pytest.raises(InvalidInput, match=r'is not a time; try 2027-01-15, "2027-01-15 08:00"'):
        moment(text, NOW)


@pytest.mark.parametrize("text", ["2027-01-17", "2072-01-15 08:00", "9999-12-31"])
def test_a_time_to_come_is_refused(text):
    with pytest.raises(InvalidInput, match=r"is in the future|is not a time"):
        moment(text, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"), [("6h", 21_600), ("30 min", 1_800), ("1 day", 86_400), (" 2 Weeks ", 14 * 86_400)]
)
def test_a_length_of_time(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0h", "6", "h", "6h ago", "-6h", "2027-01-15", "soon"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(InvalidInput, match="is not a length of time"):
        duration(text)
