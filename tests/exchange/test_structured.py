"""JSON and JSON lines, by the names that programs give their fields."""

from __future__ import annotations

import json

import pytest

from sense_memory.exchange import ItemKind, read


@pytest.fixture
def objects(tmp_path):
    """Reads a value as JSON, or a text as it is."""

    def objects(value, name="x.json", format_=""):
        path = tmp_path / name
        raw = (
            value
            if isinstance(value, bytes)
            else value.encode()
            if isinstance(value, str)
            else json.dumps(value).encode()
        )
        path.write_bytes(raw)
        return read(path, format_)

    return objects


@pytest.mark.parametrize(
    ("value", "kind", "path", "text"),
    [
        ([{"key": "city", "value": "Lisbon"}], ItemKind.FLAT, "city", "Lisbon"),
        ({"city": "Lisbon"}, ItemKind.FLAT, "city", "Lisbon"),
        ([{"content": "Lives in Lisbon"}], ItemKind.PALACE, "notes/facts/lives-in-lisbon", "Lives in Lisbon"),
        ([{"text": "x", "type": "Decision", "name": "db"}], ItemKind.PALACE, "notes/decision/db", "x"),
        ({"memories": [{"fact": "x", "domain": "People", "id": 7}]}, ItemKind.PALACE, "people/facts/7", "x"),
        ({"data": {"items": [{"note": "x y"}]}}, ItemKind.PALACE, "notes/facts/x-y", "x y"),
        (["just text"], ItemKind.PALACE, "notes/facts/just-text", "just text"),
        ([{"path": "people/facts/lisa", "value": "x"}], ItemKind.PALACE, "people/facts/lisa", "x"),
        (
            {"drawers": [{"id": "d/1", "wing": "W", "room": "R", "content": "x"}]},
            ItemKind.PALACE,
            "w/r/d-1",
            "x",
        ),
    ],
)
def test_an_object_with_a_text_is_a_memory(objects, value, kind, path, text):
    (item,) = objects(value).items

    assert (item.kind, item.path, item.text) == (kind, path, text)


def test_nan_and_half_a_character_do_not_cost_the_file(objects):
    python = '[{"text": "Likes tea", "score": NaN}, {"text": "Has NaN \\ud83d\\ude00", "to": -Infinity}]'
    javascript = '{"text": "Cut: \\ud83d"}\n{"text": "whole"}\n{"text": "broken \\ud83d}'

    assert [item.text for item in objects(python).items] == ["Likes tea", "Has NaN \U0001f600"]
    found = objects(javascript, "x.jsonl")
    assert [item.text for item in found.items] == ["Cut: \ufffd", "whole"]
    assert [problem.line for problem in found.problems] == [3]


def test_dates_tags_and_numbers_are_kept(objects):
    given = {
        "content": "x",
        "created_at": "2024-01-15T10:30:00Z",
        "tags": "a, b",
        "categories": ["c"],
        "confidence": 0.5,
        "halflife_days": 90,
        "connections": ["people/facts/lisa", "not a path"],
    }
    (item,) = objects([given]).items

    assert item.at == 1_705_314_600.0
    assert item.fields == {
        "themes": ("a", "b", "c"),
        "connections": ("people/facts/lisa",),
        "confidence": 0.5,
        "halflife_days": 90,
    }


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(1_700_000_000, 1.7e9), (1_700_000_000_000, 1.7e9), ("1700000000", 1.7e9), ("2023-11-14T22:13:20+00:00", 1.7e9),
     ("2023-11-14", 1.6999632e9), ("yesterday", None), (-5, None), (True, None), (None, None), ({}, None)],
)  # fmt: skip
def test_a_time_is_read_however_it_is_written(objects, given, seconds):
    assert objects([{"content": "x", "timestamp": given}]).items[0].at == seconds


def test_lines_that_cannot_be_taken_are_named_by_their_number(objects):
    lines = '{"content": "one"}\n\n{broken\n[1]\n{"nothing": 1}\n{"content": "two"}\n'
    reading = objects(lines, "x.jsonl")

    assert [item.text for item in reading.items] == ["one", "two"]
    assert [problem.line for problem in reading.problems] == [3, 4, 5]
    assert "nothing" not in str(reading.problems)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000, '[{"content": "x"},', "[1, 2", '{"a": 1'])
def test_damaged_or_endless_json_is_an_error_and_no_crash(objects, text):
    reading = objects(text)

    assert reading.items == []
    assert len(reading.problems) == 1


def test_memories_of_mem0_keep_their_ids(objects):
    memory = {
        "id": "bf4d4092",
        "memory": "Lives in Lisbon",
        "hash": "h",
        "metadata": {"source": "chat"},
        "created_at": "2024-07-20T01:30:36.275141-07:00",
        "updated_at": None,
        "user_id": "alex",
        "categories": ["personal details"],
    }
    reading = objects(
        {
            "count": 1,
            "next": None,
            "results": [memory, memory | {"id": "2", "user_id": None, "agent_id": "a"}],
        }
    )

    one, other = reading.items
    assert reading.format == "memories of mem0"
    assert (one.path, one.origin, one.at) == (
        "people/personal-details/lives-in-lisbon",
        "tool:mem0/bf4d4092",
        1_721_464_236.275141,
    )
    assert one.fields["themes"] == ("personal details", "user_id: alex", "chat")
    assert other.path == "self/personal-details/lives-in-lisbon"


def test_json_in_utf_16_is_read(objects):
    assert objects('[{"content": "Grüße"}]'.encode("utf-16")).items[0].text == "Grüße"


@pytest.mark.parametrize("size", range(3))
def test_a_file_is_recognised_where_its_beginning_ends_within_a_character(objects, size):
    text = "x" * size + "\u3042" * 200
    (item,) = objects(json.dumps([{"text": text}], ensure_ascii=False)).items

    assert item.text == text
