"""Filters: what is asked for, read from hostile JSON, and enforced here as well."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import MalformedFrame
from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.nostr.filters import Filter


seeded = settings(max_examples=30, deadline=None, derandomize=True)

hexes = st.lists(st.binary(min_size=32, max_size=32).map(bytes.hex), max_size=3).map(tuple)
moments = st.none() | st.integers(0, MAX_SAFE_INTEGER)
filters = st.builds(
    Filter,
    ids=st.none() | hexes,
    authors=st.none() | hexes,
    kinds=st.none() | st.lists(st.integers(0, 65_535), max_size=3).map(tuple),
    tags=st.dictionaries(st.sampled_from("adekptADEK"), st.lists(st.text(max_size=9), max_size=3).map(tuple)),
    since=moments,
    until=moments,
    limit=moments,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("ids", "authors", "kinds", "since", "until", "limit", "#d", "#e", "#longer", "search")


@seeded
@given(filters)
def test_a_filter_reads_back_from_its_json(asked):
    assert asked == Filter.parse(asked.as_json()) == Filter.parse(orjson.loads(orjson.dumps(asked.as_json())))


def test_unset_fields_are_absent_and_empty_lists_are_not():
    assert Filter().as_json() == {}
    assert Filter(ids=(), limit=0, tags={"d": ()}).as_json() == {"ids": (), "limit": 0, "#d": ()}


@settings(seeded, max_examples=75)
@given(json_values | st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4))
def test_arbitrary_json_is_a_filter_or_a_malformed_frame(value):
    try:
        asked = Filter.parse(value)
    except MalformedFrame:
        return
    assert asked == Filter.parse(json.loads(orjson.dumps(asked.as_json())))


def test_the_ends_of_a_range_belong_to_it():
    for value in (0, MAX_SAFE_INTEGER):
        assert Filter(since=value, until=value) == Filter.parse({"since": value, "until": value})
    assert Filter(kinds=(0, 65_535)) == Filter.parse({"kinds": [0, 65_535]})


def test_unknown_and_null_fields_are_ignored():
    assert Filter() == Filter.parse(
        {"search": "x", "#longer": 5, "d": ["x"], "#é": 5, "#": 5, "#1": 5, "ids": None}
    )


@pytest.mark.parametrize(
    "value",
    [
        {"ids": "ab" * 32},
        {"ids": ["AB" * 32]},
        {"ids": ["ab"]},
        {"authors": [5]},
        {"authors": ["\uff11" * 64]},
        {"kinds": 1},
        {"kinds": [True]},
        {"kinds": [1.0]},
        {"kinds": [-1]},
        {"kinds": [65_536]},
        {"#d": "x"},
        {"#d": [1]},
        {"#d": None},
        {"since": -1},
        {"since": 1.0},
        {"until": True},
        {"until": 2**53},
        {"limit": "5"},
        [],
        None,
        "x",
        5,
    ],
)
def test_wrong_types_and_alphabets_are_malformed(value):
    with pytest.raises(MalformedFrame):
        Filter.parse(value)


@pytest.fixture(scope="module")
def event(make_event):
    return make_event(tags=(("d", "sense-memory/x"), ("t", "art"), ("t", "music")), at=1_000)


def test_every_condition_alone_decides(event):
    other = "0" * 64
    for asked, expected in [
        (Filter(), True),
        (Filter(ids=(event.id,)), True),
        (Filter(ids=(other, event.id)), True),
        (Filter(ids=(other,)), False),
        (Filter(ids=()), False),
        (Filter(authors=(event.pubkey,)), True),
        (Filter(authors=(other,)), False),
        (Filter(kinds=(5, 30_078)), True),
        (Filter(kinds=(5,)), False),
        (Filter(since=1_000), True),
        (Filter(since=1_001), False),
        (Filter(until=1_000), True),
        (Filter(until=999), False),
        (Filter(tags={"d": ("sense-memory/x",)}), True),
        (Filter(tags={"d": ("sense-memory/",)}), False),
        (Filter(tags={"d": ()}), False),
        (Filter(tags={"t": ("x", "music")}), True),
        (Filter(tags={"p": ("x",)}), False),
        (Filter(limit=0), True),
    ]:
        assert expected is asked.matches(event), asked


@seeded
@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_an_event_must_meet_all_conditions_at_once(event, met):
    other = "0" * 64
    asked = Filter(
        ids=(event.id if met[0] else other,),
        authors=(event.pubkey if met[1] else other,),
        kinds=(30_078 if met[2] else 5,),
        since=1_000 if met[3] else 1_001,
        until=1_000 if met[4] else 999,
        tags={"d": ("sense-memory/x" if met[5] else "sense-memory/y",), "t": ("art",)},
    )
    assert all(met) is asked.matches(event)
