"""Which memories belong into every prompt, whatever is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sense_memory import PersonaMemory
from sense_memory.palace.standing import has_standing_kind, is_standing


ROWS = [
    json.loads(line) for line in Path(__file__).with_name("standing.jsonl").read_text("utf-8").splitlines()
]


def memory(value, path="people/facts/note", **fields):
    domain, facet, key = path.split("/")
    given = {"relevance": 1.0, "halflife_days": 30.0, "last_accessed": 0.0, "created_at": 0.0, "event_id": ""}
    return PersonaMemory(domain=domain, facet=facet, key=key, value=value, **given | fields)


@pytest.mark.parametrize(("half", "least"), [("tune", 0.95), ("held", 0.9)])
def test_most_standing_memories_are_told_from_facts_tastes_and_procedures(half, least):
    rows = [row for row in ROWS if row["half"] == half]
    taken = [row for row in rows if is_standing(memory(row["value"], row["path"], themes=row["themes"]))]
    right = [row for row in taken if row["is_standing"]]
    assert len(right) >= least * sum(row["is_standing"] for row in rows)
    assert len(right) >= 0.95 * len(taken)


def test_few_notes_about_everything_else_are_taken():
    notes = [
        json.loads(line)
        for line in Path(__file__).with_name("observations.jsonl").read_text("utf-8").splitlines()
    ]
    assert sum(is_standing(memory(row["text"])) for row in notes) <= len(notes) / 200


@pytest.mark.parametrize(
    "text",
    [
        "Antworte immer auf Deutsch.",
        "Bitte keine Emojis.",
        "Nunca uses emojis.",
        "Réponds en français.",
        "Lisa is allergic to peanuts.",
    ],
)
def test_commands_of_other_languages_and_allergies_belong_into_every_prompt(text):
    assert is_standing(memory(text))


def test_the_place_of_a_memory_decides_without_a_look_at_its_text():
    note = memory("Metric.", "people/preferences/units")
    assert has_standing_kind(note)
    assert has_standing_kind(memory("Metric.", themes=["Preferences"]))
    assert not has_standing_kind(memory("Always answer in German."))


def test_what_no_longer_holds_is_no_instruction():
    rule = "Never use emoji."
    assert is_standing(memory(rule))
    assert not is_standing(memory("Lisa paints."))
    assert not is_standing(memory(rule, superseded_by="people/facts/new"))
    assert not is_standing(memory(rule, conflict_of="people/facts/old"))
