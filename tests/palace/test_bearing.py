"""Which standing memories bear on a request: by topic, person, word and meaning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sense_memory import LocalSigner, MemoryStore, PersonaMemory
from sense_memory.palace.bearing import bearings
from sense_memory.palace.candidates import first_by_bearing


ROWS = [
    json.loads(line) for line in Path(__file__).with_name("bearing.jsonl").read_text("utf-8").splitlines()
]
OTHERS = [
    row
    for row in map(json.loads, Path(__file__).with_name("standing.jsonl").read_text("utf-8").splitlines())
    if row["is_standing"]
]


def memory(value, path="people/preferences/note", **fields):
    domain, facet, key = path.split("/")
    given = {"relevance": 1.0, "halflife_days": 30.0, "last_accessed": 0.0, "created_at": 0.0, "event_id": ""}
    return PersonaMemory(domain=domain, facet=facet, key=key, value=value, **given | fields)


def first(request, *values):
    ordered = first_by_bearing(
        [memory(value, f"people/preferences/{n}") for n, value in enumerate(values)], asks(request)
    )
    return next(ordered).value


def asks(request):
    return lambda memories: bearings(request, memories)


@pytest.mark.parametrize(("half", "least"), [("tune", 13), ("held", 13)])
def test_of_eighty_standing_memories_those_that_bear_on_a_request_are_among_the_first_fifteen(half, least):
    standing = [memory(row["value"], row["path"], themes=row["themes"]) for row in ROWS]
    standing += [memory(row["value"], row["path"], themes=row["themes"]) for row in OTHERS]
    assert len(standing) == 80
    found = 0
    for row in (row for row in ROWS if row["half"] == half):
        ordered = list(first_by_bearing(standing, asks(row["request"])))
        found += row["path"] in [one.path for one in ordered[:15]]
    assert found >= least


def test_a_topic_in_common_counts_although_no_word_is():
    table = "Book me a table for Friday."
    assert (
        first(table, "Mira hates long meetings.", "Mira eats no meat.", "Tabs, not spaces.")
        == "Mira eats no meat."
    )
    bound = "Write a function that reads the file."
    assert first(bound, "Caleb is a vegan.", "Python with type hints only.") == "Python with type hints only."


def test_of_two_persons_the_one_who_is_named_comes_first():
    both = "Ruth takes the window seat on trains.", "On planes Jonas takes the aisle seat."
    assert first("Reserve a seat to Leeds for Jonas", *both) == both[1]
    assert first("Reserve a seat to Leeds for Ruth", *both) == both[0]


def test_a_day_of_the_week_is_no_person():
    both = "Friday is a holiday of the firm.", "Caleb is a vegan."
    assert first("Where shall we eat on Friday?", *both) == both[1]


def test_meaning_adds_to_words():
    memories = [memory("Oats at dawn."), memory("Wool itches.")]
    assert bearings("zzz", memories) == [0, 0]
    low, high = bearings("zzz", memories, [0.1, 0.6])
    assert low < 0 < high


def test_equal_ones_stay_in_their_order_and_pinned_ones_come_first():
    memories = [memory("a", f"p/preferences/{n}", themes=["pinned"] if n == 3 else []) for n in range(6)]
    ordered = first_by_bearing(iter([*memories, memories[0]]), lambda some: np.zeros(len(some)))
    assert [one.key for one in ordered] == ["3", "0", "1", "2", "4", "5"]
    assert list(first_by_bearing([], lambda some: [])) == []


async def test_a_context_for_a_request_has_the_preference_that_no_word_finds():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        notes = [
            {
                "domain": "work",
                "facet": "facts",
                "key": f"n{n}",
                "value": f"The table of Friday number {n} is for the board.",
            }
            for n in range(60)
        ]
        rules = [
            {
                "domain": "preferences",
                "facet": f"f{n}",
                "key": f"k{n}",
                "value": f"House rule {n}: no dancing with the chairs of hall {n}.",
            }
            for n in range(60)
        ]
        diet = {"domain": "zoe", "facet": "preferences", "key": "diet", "value": "Zoe is a vegetarian."}
        await store.persona_remember_many([*notes, *rules, diet], contradictions="off")
        shown = await store.persona_compress(
            question="Book me a table for Friday", max_tokens=500, style="plain"
        )
        assert "zoe/preferences/diet" in shown.included
        assert sum(path.startswith("work/") for path in shown.included) > 5
