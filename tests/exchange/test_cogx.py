"""COGX: archives in the layout of version 0.1, as the writer and the exporter of cognee 1.6 make them."""

from __future__ import annotations

import json

import pytest

from sense_memory.errors import InvalidInput
from sense_memory.exchange import ItemKind, read


def record(kind, ident, **more):
    return {
        "kind": kind,
        "external_system": "cognee",
        "external_id": ident,
        "scope": {},
        "metadata": {},
        **more,
    }


FILES = {
    "entities.jsonl": [
        record("entity", "e1", name="maria", description="maria deploys", aliases=[], attributes={"city": "Porto"}),
        record("entity", "e2", name="harbour", created_at="2026-01-01T00:00:00Z", aliases=["port"], attributes={}),
    ],
    "documents.jsonl": [record("document", "c1", content="Maria deploys Harbour.", title="notes")],
    "nodes.jsonl": [
        {"id": "t1", "type": "EntityType", "name": "person"},
        {"id": "s1", "type": "TextSummary", "text": "x"},
    ],
    "facts.jsonl": [
        record("fact", "f1", subject_ref="e1", predicate="is_a", object_ref="t1"),
        record("fact", "f2", subject_ref="e1", predicate="deploys", object_ref="e2", valid_at="2026-01-01T00:00:00Z"),
        record("fact", "f3", subject_ref="c1", predicate="contains", object_ref="e1"),
        record("fact", "f4", subject_ref="s1", predicate="made_from", object_ref="c1"),
        record(
            "fact", "f5", subject_ref="e2", predicate="x", object_ref="Acme", fact_text="Harbour left Acme",
            invalid_at="2025-01-01T00:00:00Z", confidence=0.8, provenance=["ep-1"],
        ),
    ],
    "memories.jsonl": [
        {**record("memory", "m-1", content="Prefers tea", categories=["drinks"]), "external_system": "mem0",
         "created_at": "2025-05-01T10:00:00Z", "scope": {"user_id": "alex"}}
    ],
    "memory_blocks.jsonl": [record("memory_block", "b-1", label="human", value="The user is Alex.", limit=5000)],
    "episodes.jsonl": [
        record(
            "episode", "ep-1", title="Hello",
            turns=[
                {"role": "user", "content": "Hi", "occurred_at": "2025-05-01T10:00:00Z"},
                {"role": "nobody", "content": "?"},
            ],
        )
    ],
}  # fmt: skip


@pytest.fixture
def archive(tmp_path):
    """Makes an archive; returns its folder."""

    def archive(files=FILES, version="0.1"):
        folder = tmp_path / "main_cogx"
        folder.mkdir()
        (folder / "manifest.json").write_text(
            json.dumps({"cogx_version": version, "notes": ["x"], "counts": {}})
        )
        for name, records in files.items():
            lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
            (folder / name).write_text("\n".join(lines) + "\n")
        return folder

    return archive


def test_every_kind_of_record_has_a_place_or_is_counted(archive):
    found = read(archive())
    items = {item.path: item for item in found.items if item.kind is not ItemKind.LOG}

    assert (found.format, found.problems) == ("an archive of cognee (COGX)", [])
    assert items["people/person/maria"].text == (
        "maria (person)\n- maria deploys\n- city: Porto\n- deploys harbour (since 2026-01-01)"
    )
    assert items["people/person/maria"].fields["connections"] == ("world/entity/harbour",)
    assert items["world/entity/harbour"].text == (
        "harbour\n- also called port\n- Harbour left Acme (until 2025-01-01) (confidence 0.8)"
    )
    memory = items["people/drinks/prefers-tea"]
    assert (memory.at, memory.origin) == (1_746_093_600.0, "tool:mem0/m-1")
    assert memory.fields["themes"] == ("drinks", "user_id: alex")
    assert items["mind/block/human"].text == "The user is Alex."
    assert [item.text for item in found.items if item.path.startswith("mind/archive/")] == [
        "Maria deploys Harbour."
    ]
    assert [item.text for item in found.items if item.kind is ItemKind.LOG] == ["Hello", "Hi"]
    assert found.left_out == {
        "raw nodes of cognee's graph: EntityType": 1,
        "raw nodes of cognee's graph: TextSummary": 1,
        "facts about a document or a part of one": 2,
        "provenance of facts": 1,
        "turns without a known role or text": 1,
    }


async def test_a_second_import_changes_nothing(archive, open_store, bring, fates):
    folder = archive()
    async with open_store() as store:
        assert fates(await bring(store, folder)) == {"new": 7}
        assert fates(await bring(store, folder)) == {"known": 7}


def test_broken_lines_are_named_and_the_rest_is_read(archive):
    lines = [
        '{"kind": "memory"',
        record("memory", "m", content=""),
        {"kind": "dream"},
        7,
        FILES["memories.jsonl"][0],
    ]
    found = read(archive({"memories.jsonl": lines}))

    assert [item.text for item in found.items] == ["Prefers tea"]
    assert [(problem.line, problem.reason) for problem in found.problems] == [
        (1, "is not JSON (unexpected end of data)"),
        (2, "the memory has no content"),
        (3, "is a record of an unknown kind"),
        (4, "is not an object"),
    ]


@pytest.mark.parametrize("version", ["1.0", "none", None])
def test_an_archive_of_a_newer_or_unknown_version_is_refused(archive, version):
    with pytest.raises(InvalidInput, match=r"update sense-memory first|names no version of COGX"):
        read(archive(version=version))


def test_a_newer_minor_version_is_read(archive):
    assert read(archive(version="0.7")).problems == []
