"""The store of MemPalace: SQLite files in the layout that version 3.11 and ChromaDB 1.5 write, made here by hand."""

from __future__ import annotations

import json
import shutil
import sqlite3

import pytest

from sense_memory.exchange import ItemKind, read


CHROMA = """
CREATE TABLE "collections" (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT NOT NULL);
CREATE TABLE "segments" (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT NOT NULL);
CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (segment_id, embedding_id));
CREATE TABLE embedding_metadata (id INTEGER REFERENCES embeddings(id), key TEXT NOT NULL, string_value TEXT,
    int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));
CREATE VIRTUAL TABLE embedding_fulltext_search USING fts5(string_value, tokenize='trigram');
INSERT INTO collections VALUES ('c1', 'mempalace_drawers', 64, 'd'), ('c2', 'mempalace_closets', 64, 'd');
INSERT INTO segments VALUES ('v1', 'urn:chroma:segment/vector/hnsw-local-persisted', 'VECTOR', 'c1'),
    ('s1', 'urn:chroma:segment/metadata/sqlite', 'METADATA', 'c1'),
    ('s2', 'urn:chroma:segment/metadata/sqlite', 'METADATA', 'c2');
"""
EXACT = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE collections (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, dimension INTEGER, created_at TEXT NOT NULL);
CREATE TABLE documents (collection_id INTEGER NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL, metadata_json TEXT NOT NULL,
    embedding BLOB NOT NULL, dim INTEGER NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL, PRIMARY KEY (collection_id, id));
CREATE INDEX idx_documents_coll_wing_room_hall ON documents(collection_id, json_extract(metadata_json, '$.wing'));
INSERT INTO collections VALUES (1, 'mempalace_drawers', 64, '2026-11-24');
"""
GRAPH = """
CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT, properties TEXT, created_at TEXT);
CREATE TABLE triples (id TEXT PRIMARY KEY, subject TEXT NOT NULL, predicate TEXT NOT NULL, object TEXT NOT NULL,
    valid_from TEXT, valid_to TEXT, confidence REAL DEFAULT 1.0);
INSERT INTO entities VALUES ('maria', 'Maria', 'unknown', '{"city": "Porto"}', '2026-03-01 10:00:00'),
    ('harbour', 'Harbour', 'project', '{}', '2026-03-01 10:00:00'), ('mysql', 'MySQL', 'unknown', '{}', '2026-03-01 10:00:00');
INSERT INTO triples VALUES ('t1', 'maria', 'owns', 'harbour', '2026-03-01', NULL, 1.0),
    ('t2', 'harbour', 'uses', 'mysql', '2025-03-01', '2026-01-01', 1.0);
"""
DRAWER = {
    "wing": "Proj",
    "room": "decisions",
    "filed_at": "2026-11-10T15:04:06.885315",
    "content_date": "2026-10-01",
    "source_file": "/home/me/proj/NOTES.md",
    "entities": "Maria;Harbour",
    "hall": "technical",
    "chunk_index": 0,
    "added_by": "mempalace",
}


def add(connection, number, ident, text, values, *, segment="s1"):
    """Add a record as ChromaDB does: a row for each field, by its type."""
    connection.execute(
        "INSERT INTO embeddings (id, segment_id, embedding_id, seq_id) VALUES (?, ?, ?, 1)",
        (number, segment, ident),
    )
    for name, value in {**values, "chroma:document": text}.items():
        column = "int_value" if isinstance(value, int) else "string_value"
        connection.execute(
            f"INSERT INTO embedding_metadata (id, key, {column}) VALUES (?, ?, ?)", (number, name, value)
        )


@pytest.fixture
def palace(tmp_path):
    """Makes a palace; returns its folder."""

    def palace(*drawers, script=""):
        folder = tmp_path / "mempalace" / "palace"
        folder.mkdir(parents=True)
        with sqlite3.connect(folder / "chroma.sqlite3") as connection:
            connection.executescript(CHROMA + script)
            for number, (ident, text, values) in enumerate(drawers, 1):
                add(connection, number, ident, text, values)
            add(
                connection,
                900,
                "closet_1",
                "notes|Maria|->d1",
                {"wing": "Proj", "room": "decisions"},
                segment="s2",
            )
        connection.close()
        return folder

    return palace


def test_a_drawer_is_a_memory_with_its_wing_room_id_and_dates(palace):
    found = read(palace(("drawer_proj_1", "We chose PostgreSQL.\nIt survives.", DRAWER)))

    (item,) = found.items
    assert (found.format, found.problems) == ("a store of MemPalace", [])
    assert (item.kind, item.path) == (ItemKind.PALACE, "proj/decisions/drawer_proj_1")
    assert item.text == "We chose PostgreSQL.\nIt survives."
    assert item.origin == "tool:mempalace/drawer_proj_1"
    assert item.at == 1_790_856_000.0  # noon of the day of the content
    assert item.fields["last_accessed"] == 1_794_323_046.885315  # filed, and fading from then on
    assert item.fields["themes"] == ("NOTES.md", "Maria", "Harbour")
    assert found.left_out == {"closets (an index of the drawers)": 1, "hall of drawers": 1}


async def test_a_second_import_changes_nothing_and_the_exporter_gives_the_same_memories(
    palace, tmp_path, open_store, bring, fates
):
    folder = palace(("drawer_1", "We chose PostgreSQL.", DRAWER), ("drawer_2", "Staging moved.", DRAWER))
    exported = tmp_path / "export" / "Proj"
    exported.mkdir(parents=True)
    (exported.parent / "index.md").write_text("# Palace Export\n")
    (exported / "decisions.md").write_text(
        "# Proj / decisions\n\n## drawer_1\n\n> We chose PostgreSQL.\n\n| Field | Value |\n|---|---|\n"
        "| Source | NOTES.md |\n| Filed | 2026-11-10T15:04:06.885315 |\n| Added by | mempalace |\n\n---\n"
    )
    async with open_store() as store:
        assert fates(await bring(store, folder)) == {"new": 2}
        assert fates(await bring(store, folder)) == {"known": 2}
        assert fates(await bring(store, folder / "chroma.sqlite3")) == {"known": 2}
        assert fates(await bring(store, exported.parent)) == {"known": 1}


def test_the_folder_above_has_tunnels_and_the_other_files_are_counted(palace):
    folder = palace(("d1", "one", DRAWER), ("d2", "two", DRAWER))
    ends = {"source": {"wing": "Proj", "room": "x"}, "target": {"wing": "Proj", "room": "y"}}
    joined = {"source": {"drawer_id": "d1"}, "target": {"drawer_id": "d2"}}
    gone = {"source": {"drawer_id": "d1"}, "target": {"drawer_id": "d9"}}
    (folder.parent / "tunnels.json").write_text(json.dumps([ends, joined, gone, 7]))
    (folder.parent / "config.json").write_text("{}")
    found = read(folder.parent)

    assert [item.fields.get("connections") for item in found.items] == [("proj/decisions/d2",), None]
    assert found.left_out["tunnels between rooms"] == 2
    assert found.left_out["tunnels to a drawer that is not there"] == 1
    assert found.left_out["other files of MemPalace"] == 1


def test_the_knowledge_graph_says_what_held_and_when(tmp_path):
    with sqlite3.connect(tmp_path / "knowledge_graph.sqlite3") as connection:
        connection.executescript(GRAPH)
    connection.close()
    found = read(tmp_path / "knowledge_graph.sqlite3")

    assert {item.path: item.text for item in found.items} == {
        "world/entity/Maria": "Maria\n- city: Porto\n- owns Harbour (since 2026-03-01)",
        "projects/project/Harbour": "Harbour (project)\n- uses MySQL (2025-03-01 to 2026-01-01)",
    }
    assert found.left_out == {"entities of which only the name is known": 1}


def test_what_is_only_in_the_write_ahead_log_of_the_other_backend_is_read(tmp_path):
    live = tmp_path / "live.sqlite3"
    connection = sqlite3.connect(live)
    connection.executescript("PRAGMA journal_mode = WAL;" + EXACT)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    values = json.dumps(DRAWER)
    connection.execute(
        "INSERT INTO documents VALUES (1, 'd1', 'Only in the log', ?, x'00', 1, '', '')", (values,)
    )
    connection.commit()
    folder = tmp_path / "palace"
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{live}{suffix}", folder / f"sqlite_exact.sqlite3{suffix}")
    connection.close()

    for path in (folder, folder / "sqlite_exact.sqlite3"):
        assert [item.text for item in read(path).items] == ["Only in the log"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "sqlite_exact.sqlite3",
        "sqlite_exact.sqlite3-wal",
    ]


def test_broken_drawers_are_named_and_the_rest_is_read(palace):
    folder = palace(
        ("d1", "  ", DRAWER), ("d2", "sound", DRAWER), ("d3", "of another program", {"topic": "x"})
    )
    found = read(folder)

    assert [item.text for item in found.items] == ["sound"]
    assert [(problem.line, problem.reason) for problem in found.problems] == [(1, "the drawer is empty")]
    assert found.left_out["records of the collection 'mempalace_drawers', which are no drawers"] == 1


@pytest.mark.parametrize("damage", ["cut", "noise", "other tables", "view"])
def test_a_damaged_or_hostile_file_is_a_problem_and_not_a_failure(palace, damage):
    folder = palace(("d1", "text " * 5_000, DRAWER))
    path = folder / "chroma.sqlite3"
    raw = path.read_bytes()
    if damage == "cut":
        path.write_bytes(raw[: len(raw) // 3])
    elif damage == "noise":
        path.write_bytes(raw[:4_096] + b"\xff" * (len(raw) - 4_096))
    else:
        path.unlink()
        with sqlite3.connect(path) as connection:
            endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id FROM n"
            script = CHROMA.replace("CREATE TABLE embeddings", "CREATE TABLE unused")
            connection.executescript(
                f"{script}CREATE VIEW embeddings AS {endless};" if damage == "view" else "CREATE TABLE x (y)"
            )
        connection.close()
    found = read(folder)

    assert found.items == []
    (problem,) = found.problems
    assert problem.reason.startswith(("cannot be read as SQLite", "is not a store of MemPalace"))


def test_a_query_that_never_ends_is_ended(palace, monkeypatch):
    monkeypatch.setattr("sense_memory.exchange.sqlite_files.MAX_STEPS", 5)
    monkeypatch.setattr("sense_memory.exchange.sqlite_files._STEPS", 1)
    found = read(palace(("d1", "one", DRAWER)))

    assert [problem.reason for problem in found.problems] == ["takes more than 5 steps of SQLite to read"]
