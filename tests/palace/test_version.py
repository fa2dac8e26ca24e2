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
