"""MemPalace: the store that its program writes, and the Markdown that its exporter writes. Pure, but for a copy of SQLite files.

The store (`read_store`) is a folder with `chroma.sqlite3` or, with the other local backend, `sqlite_exact.sqlite3`; the
folder above may hold `tunnels.json`, and another one the knowledge graph. Both files are read with SQLite alone: ChromaDB
keeps each drawer's text and metadata in two tables, and the vectors elsewhere.

* A wing is a domain, a room a facet, and a drawer a memory with the drawer's id as key, whether it comes from the store or
  from an export: an import of one knows again what the other gave.
* The date of a drawer is that of its content, and it fades from the day on which it was filed.
* A tunnel between two drawers is a connection. Closets, an index of the drawers, are counted.
* The knowledge graph becomes memories of its entities, see `knowledge_graph`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import items
from sense_memory.exchange.import_files import read_source, text_of
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.exchange.knowledge_graph import Graph, validity
from sense_memory.exchange.markdown import read_note
from sense_memory.exchange.sqlite_files import opened
from sense_memory.limits import MAX_LINKS_COUNT


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sense_memory.exchange.import_files import Source, SourceFiles
    from sense_memory.exchange.sqlite_files import SqliteFile

STORES: Final = ("chroma.sqlite3", "sqlite_exact.sqlite3")
_GRAPH: Final = "knowledge_graph.sqlite3"
_TUNNELS: Final = "tunnels.json"
_IDENTITY: Final = (
    "identity.txt"  # what the user wrote about the agent; every prompt of MemPalace begins with it
)
_NEAR_DEPTH: Final = 2  # parts of a store's path within the folder that is given: `palace/chroma.sqlite3`
_TOOL: Final = "mempalace"
_INDEXES: Final = {  # collections that are made from the drawers
    "mempalace_closets": "closets (an index of the drawers)",
    "mempalace_compressed": "compressed drawers",
}
_DRAWER_FIELDS: Final = {  # of a drawer that become something
    "wing",
    "room",
    "filed_at",
    "content_date",
    "last_modified",
    "source_file",
    "entities",
    "topic",
    "agent",
    "date",
    "type",
    "chroma:document",
}
_BOOKKEEPING: Final = {  # of a drawer; MemPalace needs them to mine the same file again
    "added_by",
    "chunk_index",
    "chunk_total",
    "content_date_source",
    "id_recipe",
    "line_end",
    "line_start",
    "normalize_version",
    "parent_drawer_id",
    "source_dir_ino",
    "source_mtime",
}
_EXACT: Final = (
    "SELECT c.name, d.id, d.document, d.metadata_json FROM collections c JOIN documents d ON d.collection_id = c.id "
    "ORDER BY d.rowid"
)
_CHROMA: Final = (
    "SELECT c.name, e.embedding_id, e.id, m.key, m.string_value, m.int_value, m.float_value, m.bool_value "
    "FROM collections c JOIN segments s ON s.collection = c.id AND s.scope = 'METADATA' "
    "JOIN embeddings e ON e.segment_id = s.id LEFT JOIN embedding_metadata m ON m.id = e.id ORDER BY e.id"
)


# ── The store ───────────────────────────────────────────────────────────────────────────


def is_store(files: SourceFiles) -> bool:
    """Whether the files are those of a store, or of the folder above one."""
    near = (source.path for source in files.sources if len(source.path.parts) <= _NEAR_DEPTH)
    return any(path.name in {*STORES, _GRAPH} for path in near)


def read(files: SourceFiles) -> ReaderResult:
    """Read a store, or an export."""
    return read_store(files) if is_store(files) else read_export(files)


def read_store(files: SourceFiles) -> ReaderResult:
    """Read the drawers, tunnels and knowledge graphs of a store; other files are counted."""
    reading = ReaderResult(
        "a store of MemPalace", problems=list(files.problems), left_out=Counter(files.left_out)
    )
    names, tunnels = UniquePaths(), list[tuple[str, str]]()
    for source in files.sources:
        name = source.path.name
        try:
            if name in STORES:
                with opened(source, files) as file:
                    _add_drawers(file, source.shown, reading, names)
            elif name == _GRAPH:
                with opened(source, files) as file:
                    _add_graph(file, source.shown, reading)
            elif name == _TUNNELS:
                tunnels += _tunnels(source, reading)
            elif name == _IDENTITY:
                reading.items += _identity(source)
            elif not name.endswith(("-wal", "-shm", "-journal")):
                reading.left_out["other files of MemPalace"] += 1
        except InvalidInput as error:
            reading.problems.append(Problem(source.shown, 0, str(error)))
    reading.items = _connected(reading, tunnels)
    return reading


def _add_drawers(file: SqliteFile, shown: str, reading: ReaderResult, names: UniquePaths) -> None:
    if file.has("collections", "segments", "embeddings", "embedding_metadata"):
        found = _chroma_records(file)
    elif file.has("collections", "documents"):
        found = _exact_records(file)
    else:
        raise InvalidInput("is not a store of MemPalace: it has no table of drawers")
    for number, (collection, ident, text, values) in enumerate(found, 1):
        if collection in _INDEXES:
            reading.left_out[_INDEXES[collection]] += 1
        elif not isinstance(values.get("wing"), str):
            reading.left_out[f"records of the collection {collection[:40]!r}, which are no drawers"] += 1
        elif not text.strip():
            reading.problems.append(Problem(shown, number, "the drawer is empty"))
        else:
            item = _drawer(ident, text, values, (shown, number), names)
            if item.path:
                reading.items.append(item)
            else:
                reading.left_out["duplicates"] += 1
            reading.count_unused("drawers", values, _DRAWER_FIELDS | _BOOKKEEPING)


def _exact_records(file: SqliteFile) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The collection, id, text and metadata of each record of the backend `sqlite_exact`."""
    for collection, ident, text, metadata in file.rows(_EXACT):
        yield str(collection), str(ident), str(text or ""), _object(metadata)


def _chroma_records(file: SqliteFile) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """The collection, id, text and metadata of each record of ChromaDB, which has a row for each field."""
    current: tuple[str, str, int] | None = None
    values: dict[str, Any] = {}
    for collection, ident, number, key, *typed in file.rows(_CHROMA):
        record = (str(collection), str(ident), number)
        if record != current:
            if current is not None:
                yield current[0], current[1], str(values.get("chroma:document") or ""), values
            current, values = record, {}
        if key is not None:
            values[str(key)] = next((value for value in typed if value is not None), None)
    if current is not None:
        yield current[0], current[1], str(values.get("chroma:document") or ""), values


def _object(raw: Any) -> dict[str, Any]:
    """The object in a JSON text; empty if the text is none."""
    with suppress(orjson.JSONDecodeError, TypeError):
        found = orjson.loads(raw)
        return found if isinstance(found, dict) else {}
    return {}


def _drawer(
    ident: str, text: str, values: Mapping[str, Any], place: tuple[str, int], names: UniquePaths
) -> Item:
    filed = items.time_of(values.get("filed_at"))
    content = items.time_of(values.get("content_date"))
    at = filed if content is None else content if filed is None else min(filed, content)
    used = dict.fromkeys(("last_accessed", "last_reinforced", "written_at"), filed) if filed != at else {}
    entities = str(values.get("entities") or "").split(";")
    themes = items.themes_of(
        [*_file_name(values.get("source_file")), *entities, str(values.get("topic") or "")]
    )
    path = _path(str(values["wing"]), str(values.get("room") or "general"), ident)
    origin = items.tool_origin(_TOOL, ident)
    fields = {"themes": themes, **used}
    return Item(ItemKind.PALACE, names.assign(path, text), text, *place, at, origin, fields, has_name=True)


def _path(wing: str, room: str, ident: str) -> str:
    return f"{items.place_of(wing)}/{items.place_of(room)}/{items.name_of(ident)}"


def _file_name(path: Any) -> list[str]:
    name = str(path or "").replace("\\", "/").rpartition("/")[2]
    return [] if name in {"", "unknown"} else [name]


def _identity(source: Source) -> Iterator[Item]:
    text = text_of(read_source(source))[0].strip("\r\n").rstrip()
    if text.strip():
        place = ("self/identity/mempalace", text, source.shown, 1, None)
        yield Item(ItemKind.PALACE, *place, items.tool_origin(_TOOL, _IDENTITY))


def _tunnels(source: Source, reading: ReaderResult) -> list[tuple[str, str]]:
    """The drawers that tunnels connect; tunnels between rooms are counted."""
    try:
        listed = orjson.loads(read_source(source))
    except orjson.JSONDecodeError:
        raise InvalidInput("is not JSON") from None
    found = list[tuple[str, str]]()
    for tunnel in listed if isinstance(listed, list) else ():
        ends = [tunnel.get(name) for name in ("source", "target")] if isinstance(tunnel, dict) else []
        drawers = [end.get("drawer_id") for end in ends if isinstance(end, dict)]
        if len(drawers) == len(ends) == 2 and all(isinstance(drawer, str) for drawer in drawers):
            found.append((str(drawers[0]), str(drawers[1])))
        else:
            reading.left_out["tunnels between rooms"] += 1
    return found


def _connected(reading: ReaderResult, tunnels: list[tuple[str, str]]) -> list[Item]:
    """The items with the connections of tunnels; a tunnel of which a drawer is missing is counted."""
    paths = {item.origin: item.path for item in reading.items}
    links = defaultdict[str, dict[str, None]](dict)
    for begin, end in tunnels:
        origins = items.tool_origin(_TOOL, begin), items.tool_origin(_TOOL, end)
        if origins[0] in paths and origins[1] in paths and begin != end:
            links[origins[0]][paths[origins[1]]] = None
        else:
            reading.left_out["tunnels to a drawer that is not there"] += 1
    return [
        replace(item, fields={**item.fields, "connections": tuple(links[item.origin])[:MAX_LINKS_COUNT]})
        if item.origin in links
        else item
        for item in reading.items
    ]


# ── The knowledge graph ─────────────────────────────────────────────────────────────────


def _add_graph(file: SqliteFile, shown: str, reading: ReaderResult) -> None:
    if not file.has("entities", "triples"):
        raise InvalidInput("is not a knowledge graph of MemPalace: it has no entities and triples")
    graph = Graph("mempalace-graph", shown)
    rows = file.rows("SELECT id, name, type, properties, created_at FROM entities ORDER BY rowid")
    for number, (ident, name, kind, properties, created) in enumerate(rows, 1):
        known = {f"{key}: {value}": None for key, value in _object(properties).items() if value}
        typed = "" if kind in {None, "unknown"} else str(kind)
        graph.add(
            str(ident),
            name=str(name),
            kind=typed,
            observations=known,
            line=number,
            at=items.time_of(created),
        )
    rows = file.rows("SELECT subject, predicate, object, valid_from, valid_to FROM triples ORDER BY rowid")
    for number, (subject, predicate, target, since, until) in enumerate(rows, 1):
        graph.relate(str(subject), f"{predicate} {{}}{validity(since, until)}", str(target), number)
    graph.add_to(reading)


# ── The export ──────────────────────────────────────────────────────────────────────────

_drawer_field = re.compile(r"\| (Source|Filed|Added by) \| (.*) \|").fullmatch


def read_export(files: SourceFiles) -> ReaderResult:
    """Read an export of MemPalace: a folder for each wing, a file for each room, a heading for each drawer.

    A wing becomes a domain, a room a facet, and a drawer a memory whose key is the id of the drawer.
    """
    reading = ReaderResult(
        "an export of MemPalace", problems=list(files.problems), left_out=Counter(files.left_out)
    )
    for source in files.sources:
        if source.path.name in {"index.md", "overview.md", "manifest.json"}:
            reading.left_out["indexes of the export"] += 1
        elif (note := read_note(source, reading)) is not None:
            reading.items += _drawers(source, note.body, reading)
    return reading


def _drawers(source: Source, text: str, reading: ReaderResult) -> Iterator[Item]:
    lines = text.split("\n")
    first = re.fullmatch(r"# (.+) / (.+)", lines[0].rstrip()) if lines else None
    wing, room = (first[1], first[2]) if first else (source.path.parent.name, source.path.stem)
    starts = [
        place
        for place, line in enumerate(lines)
        if line.startswith("## ") and lines[place + 1 : place + 2] == [""] and _quotes(lines, place + 2)
    ]
    if not starts:
        reading.problems.append(Problem(source.shown, 1, "has no drawers"))
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        quoted, place = [], start + 2
        while place < end and lines[place].startswith(">"):
            quoted.append(lines[place].removeprefix(">").removeprefix(" "))
            place += 1
        values = {found[1]: found[2] for line in lines[place:end] if (found := _drawer_field(line))}
        ident, content = lines[start][3:].strip(), "\n".join(quoted).rstrip()
        if not content.strip():
            reading.problems.append(Problem(source.shown, start + 1, "the drawer is empty"))
            continue
        path = _path(wing, room, ident)
        fields = {"themes": items.themes_of(_file_name(values.get("Source")))}
        at, origin = items.time_of(values.get("Filed", "")), items.tool_origin(_TOOL, ident)
        yield Item(ItemKind.PALACE, path, content, source.shown, start + 1, at, origin, fields, has_name=True)


def _quotes(lines: Sequence[str], place: int) -> bool:
    return place < len(lines) and lines[place].startswith(">")
