"""What a memory claims, and the keys it is found by."""

import time

import pytest

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claims import read


def reading(value, key="a-note", themes=()):
    return read(
        PersonaMemory(domain="people", facet="facts", key=key, value=value, themes=themes, created_at=1.0)
    )


def related(value, key="a-note"):
    """The claims of relations: subject, relation, value."""
    return [
        (" ".join(sorted(claim.subject)), claim.relation, claim.value.text)
        for claim in reading(value, key).claims
    ]


@pytest.mark.parametrize(
    ("value", "claims"),
    [
        ("Nora now works at Bosch", [("nora", "works at", "Bosch")]),
        ("Nora's employer is Bosch", [("nora", "works at", "Bosch")]),
        ("My favourite colour is blue", [("color favorit me", "is", "blue")]),
        ("The deadline of Quill is on 3 May", [("deadlin quill", "is", "3 May")]),
        ("Bosch is Nora's employer", [("nora", "works at", "Bosch")]),
        ("Nora lives in a flat in Oslo with Ben", [("nora", "lives in", "Oslo")]),
        ("Ben leads the platform team", [("platform team", "led by", "Ben")]),
        ("Paul said that Nora lives in Oslo", []),
        ("Does Nora live in Oslo?", []),
        ("Nora wants to live in Oslo", []),
    ],
)
def test_a_clause_claims_the_relation_that_it_names(value, claims):
    assert related(value) == claims


def test_the_key_names_whom_a_clause_without_a_subject_is_about():
    assert related("Lives in Oslo", "nora-home") == [("nora", "lives in", "Oslo")]
    assert related("Europe/Oslo", "user_timezone") == [("timezon user", "is", "Europe/Oslo")]


def test_opposites_are_one_sentence_with_two_sides():
    on, off = reading("Telemetry is enabled").clauses[0], reading("Telemetry is off").clauses[0]

    assert on.words == off.words
    assert [side for _, side, _ in on.sides] != [side for _, side, _ in off.sides]


def test_a_memory_is_found_by_its_relation_and_subject_and_by_its_words():
    keys = reading("Nora works at Bosch").keys

    assert {"works at|nora", "nora", "bosch"} <= keys
    assert keys == reading("Nora works at Bosch").keys


def test_two_clauses_may_act_and_a_longer_memory_is_no_single_claim():
    assert reading("Nora works at Bosch. Her aunt said so.").whole
    assert not reading("Nora works at Bosch. She has a son. She likes tea.").whole


def test_a_thousand_memories_are_read_within_a_second():
    began = time.process_time()
    for number in range(1_000):
        reading(f"Person {number} lives in a flat in Oslo with {number} cats, and works at Bosch since 2019.")

    assert time.process_time() - began < 1.0
