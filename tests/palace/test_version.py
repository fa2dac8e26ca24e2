"""Memories made of the fields of records: that they share what they can share changes none of them."""

from __future__ import annotations

from sense_memory.models import PersonaMemory
from sense_memory.palace.version import memory_of


FIELDS = {"domain": "people", "facet": "facts", "key": "lisa", "value": "artist", "created_at": 7, "more": 1}


def test_memories_with_the_same_fields_share_the_set_of_their_names_and_changes_stay_apart():
    one, other = memory_of(FIELDS, "1" * 64, 9), memory_of({**FIELDS, "key": "bob"}, "2" * 64, 9)
    assert one.model_fields_set is other.model_fields_set

    changed = one.changed(confidence=0.5)

    assert changed.model_fields_set == one.model_fields_set | {"confidence"}
    assert "confidence" not in other.model_fields_set


def test_a_memory_is_what_validation_makes_of_its_fields():
    made = memory_of({**FIELDS, "confidence": 3, "themes": ["art", 1]}, "1" * 64, 9)
    given = {name: value for name, value in FIELDS.items() if name != "more"}
    expected = PersonaMemory(**given, confidence=1, themes=["art"], event_id="1" * 64)

    assert made == expected
    assert made.model_dump(exclude_unset=True) == expected.model_dump(exclude_unset=True)


def test_what_an_event_says_of_suspicions_and_of_its_relevance_now_is_not_believed():
    told = {"suspected_by": ["no/such/memory"], "current_relevance": 9.0}

    assert memory_of(FIELDS | told, "1" * 64, 9) == memory_of(FIELDS, "1" * 64, 9)


def test_when_a_text_was_written_is_told_by_its_writer_or_by_what_an_older_program_left():
    said, vector = ["one", 3, 40, "2" * 64], {"one": 3, "two": 1}
    for given, expected in {
        (40.5, "one", 3): 40.5,
        (40.5, "one", 2): 40.0,  # an older program carried it on from the text before
        (-1, "one", 3): 40.0,
        (): 40.0,
    }.items():
        fields = FIELDS | {"said": said, "seen": vector, "written_at": list(given), "last_reinforced": 70}
        assert memory_of(fields, "1" * 64, 90).written_at == expected
    for fields, expected in (
        (
            {"said": "one", "seen": vector, "last_reinforced": 20.5},
            20.5,
        ),  # an import of what was written before
        ({"said": said, "seen": vector, "last_reinforced": 40.7}, 40.7),
        ({"last_reinforced": "soon"}, 90.0),
        ({}, FIELDS["created_at"]),
    ):
        assert memory_of(FIELDS | fields, "1" * 64, 90).written_at == expected
