"""What a memory claims, and the keys it is found by."""

import time

import pytest

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions.claims import read


def reading(value, key="a-note", themes=()):
    return read(
        PersonaMemory(domain="people", facet="facts", key=key, value=value, themes=themes, created_at=1.0)
    )


def said(value, key="a-note"):
    """The phrases of the first clause: what leads each, and its words."""
    phrases = {}
    for clause in reading(value, key).clauses[:1]:
        for word in clause.words:
            phrases.setdefault(word.phrase, []).append(word)
    return [(words[0].lead, " ".join(word.key for word in words)) for words in phrases.values()]


@pytest.mark.parametrize(
    ("value", "phrases"),
    [
        ("Nora now works at Bosch", [("start", "nora →works_at"), ("→", "bosch")]),
        ("Nora's employer is Bosch", [("start", "nora →works_at"), ("→", "bosch")]),
        ("My favourite colour is blue", [("start", "me favorit color"), ("be", "blue")]),
        ("The deadline of Quill is on 3 May", [("start", "deadlin"), ("of", "quill")]),
        ("Nora lives in a flat in Oslo", [("start", "nora →lives_in"), ("→", "oslo")]),
        ("Nora moved to Oslo with her son", [("start", "nora →lives_in"), ("→", "oslo"), ("with", "son")]),
        ("Does Nora live in Oslo?", []),
        ('She said "Nora lives in Oslo"', [("start", "said nora →lives_in"), ("→", "oslo")]),
        ("She moved, so Nora lives in Oslo", [("start", "move")]),
    ],
)
def test_a_clause_is_phrases_and_a_relation_is_one_word(value, phrases):
    assert said(value) == phrases


def test_what_is_meant_or_reported_is_no_fact():
    flags = [reading(text).flags for text in ("Nora wants to live in Oslo", "Nora lived in Oslo")]

    assert flags == [{"plan"}, {"past", "event"}]


def test_the_key_names_whom_a_clause_without_a_subject_is_about():
    assert said("Lives in Oslo", "nora-home") == [("start", "nora"), ("be", "→lives_in"), ("→", "oslo")]
    assert said("Europe/Oslo", "user_timezone") == [("start", "user timezon"), ("be", "europe/oslo")]


def test_opposites_are_one_sentence_with_two_sides():
    on, off = reading("Telemetry is enabled").clauses[0], reading("Telemetry is off").clauses[0]

    assert on.keys == off.keys
    assert on.sides["±enabl"] == (True, "enabled")
    assert off.sides["±enabl"] == (False, "off")


def test_a_memory_is_found_by_its_relation_and_subject_and_by_its_words():
    keys = reading("Nora works at Bosch").index_terms

    assert {"→works_at|nora", "nora", "bosch"} <= keys
    assert keys == reading("Nora works at Bosch").index_terms


def test_a_text_is_split_at_signs_and_conjunctions_and_read_up_to_a_bound():
    read_ = reading("Nora works at Bosch, and her aunt, Dr. Weiss, said so because it is true.")

    assert [clause.joint for clause in read_.clauses] == ["", "and", ",", ",", "because"]
    assert read_.whole
    assert not reading("Nora sings. " * 40).whole


def test_a_thousand_memories_are_read_within_a_second():
    began = time.process_time()
    for number in range(1_000):
        reading(f"Person {number} lives in a flat in Oslo with {number} cats, and works at Bosch since 2019.")

    assert time.process_time() - began < 1.0
