from __future__ import annotations

import json

import pytest

from sense_memory.interfaces.text import (
    age,
    as_json,
    iso,
    local_time,
    one_line,
    quantity,
    quoted,
    safe,
    some,
    wrap,
)
from sense_memory.plain_text import escaped


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"),
        (0.9, "just now"),
        (1, "1 s ago"),
        (59.9, "59 s ago"),
        (60, "1 min ago"),
        (3_599, "59 min ago"),
        (3_600, "1 h ago"),
        (86_399, "23 h ago"),
        (86_400, "1 day ago"),
        (59 * 86_400, "59 days ago"),
        (60 * 86_400, "2 months ago"),
        (729 * 86_400, "24 months ago"),
        (730 * 86_400, "2 years ago"),
        (-90, "in 1 min"),
        (-172_800, "in 2 days"),
    ],
)
def test_an_age_is_told_in_the_largest_unit_that_fits(seconds, expected):
    assert expected == age(1_000_000_000 - seconds, 1_000_000_000)


def test_times_are_iso_8601_in_utc_and_impossible_ones_are_none():
    assert iso(1_800_000_000.1239) == "2027-01-15T08:00:00.123Z"
    assert iso(None) is None
    assert iso(1e20) is None
    assert iso(float("nan")) is None
    assert local_time(1e20) == "at no known time"


def test_a_quantity_agrees_with_its_noun():
    assert [quantity(n, "relay") for n in (0, 1, 1_200)] == ["0 relays", "1 relay", "1,200 relays"]
    assert quantity(2, "memory", "memories") == "2 memories"


def test_only_line_breaks_tabs_and_spaces_stay_among_what_is_not_printable():
    assert safe("a\nb\tc\u00a0d\u3000e 東京 é") == "a\nb\tc\u00a0d\u3000e 東京 é"
    assert safe("\x1b[0m\r\x00\x7f\x85\u200b\u202e\u2028\u2066\ud800\U000e0001") == (
        "\\u001b[0m\\u000d\\u0000\\u007f\\u0085\\u200b\\u202e\\u2028\\u2066\\ud800\\U000e0001"
    )


def test_one_line_has_no_line_break_and_is_cut():
    assert one_line("a\nb\r\nc\td\re") == "a↵ b↵ c d\\u000de"
    assert one_line("abcdef", 3) == "abc"


def test_a_text_is_one_word_of_a_shell_that_has_no_invisible_character():
    assert quoted("people/facts/lisa", "a b") == "people/facts/lisa 'a b'"
    assert quoted("a", "-b", "-c") == "-- a -b -c"
    assert quoted("-\u202e'\\\t") == "-- $'-\\xe2\\x80\\xae\\x27\\x5c\\x09'"


def test_lines_are_folded_at_spaces_and_after_the_folders_of_a_path():
    wrapped = wrap("ledger  /home/lisa/.local/share/sense-memory/ledgers/npub1.db\nshort", 32, indent=8)

    assert wrapped.split("\n") == [
        "ledger  /home/lisa/.local/share/",
        "        sense-memory/ledgers/",
        "        npub1.db",
        "short",
    ]
    assert wrap("ask wss://relay.example/a", 24) == "ask wss://relay.example/\n  a"


def test_of_many_names_some_are_listed_and_the_others_counted():
    assert some(["a", "b\n"], 2) == "a, b↵ "
    assert some([str(n) for n in range(1_205)], 3) == "0, 1, 2 and 1,202 more"


def test_json_is_printable_and_means_the_same():
    value = {"text": '東京 \x1b \x7f \x85 \u202e \u2028 \U000e0001 \n " \\', "n": [1, None, True]}

    shown = as_json(value)

    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "東京" in shown
    assert json.loads(shown) == value


@pytest.mark.parametrize(
    "char", ["\u3164", "\uffa0", "\ufe01", "\U000e0101", "\u200d", "\u202e", "\U000e0041"]
)
def test_what_no_font_shows_is_seen_on_a_terminal(char):
    assert safe(f"a{char}b") == one_line(f"a{char}b") == f"a{escaped(char)}b"


def test_an_emoji_keeps_its_colour_on_a_terminal():
    assert safe("❤\ufe0f") == "❤\ufe0f"
