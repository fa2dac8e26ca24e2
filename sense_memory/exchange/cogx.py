"""COGX, the exchange format of cognee: a folder with `manifest.json` and one file of JSON lines for each kind of record. Pure.

* A memory becomes a palace memory, as one of mem0 does; a memory block a block of the mind.
* A document becomes passages of the archive, an episode a conversation.
* Entities and facts are a graph, see `knowledge_graph`; a fact says when it holds, if the archive does.
* Raw nodes of cognee's graph (`nodes.jsonl`) name what facts mention, and give entities their types; they are counted.

An archive of a newer major version is refused, as cognee refuses it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import orjson

from sense_memory.errors import InvalidInput
from sense_memory.exchange import items, structured
from sense_memory.exchange.conversations import ROLES, Chat, ExportedMessage, add_chat, passages
from sense_memory.exchange.import_files import read_source, utf8_of
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.exchange.knowledge_graph import Graph, validity
from sense_memory.exchange.letta import BlockRecords


if TYPE_CHECKING:
    from collections.abc import Mapping

    from sense_memory.exchange.import_files import Source, SourceFiles

MANIFEST: Final = "manifest.json"
_MAJOR: Final = 0  # of the version that is read; the first version is 0.1
_NODES: Final = "nodes.jsonl"
_FILES: Final = (  # entities before the facts about them
    "documents.jsonl",
    "episodes.jsonl",
    "memories.jsonl",
    "memory_blocks.jsonl",
    "entities.jsonl",
    _NODES,
    "facts.jsonl",
)
_BASE: Final = frozenset({"kind", "external_system", "external_id", "created_at", "scope", "updated_at"})
_USED: Final = {  # the fields of each kind that become something
    "document": _BASE | {"content", "title"},
    "episode": _BASE | {"turns", "title"},
    "memory": _BASE | {"content", "categories"},
    "memory_block": _BASE | {"label", "value", "limit"},
    "entity": _BASE | {"name", "entity_type", "description", "aliases", "attributes"},
    "fact": _BASE
    | {"subject_ref", "predicate", "object_ref", "fact_text", "valid_at", "invalid_at", "confidence"},
}
_PLURALS: Final = {"memory": "memories", "entity": "entities"}
_TYPE_WORDS: Final = frozenset({"is_a", "instance_of"})  # facts that give an entity its type


def is_archive(files: SourceFiles, head: bytes) -> bool:
    """Whether a folder is an archive.

    Args:
        files: the files of the folder.
        head: the first bytes of its manifest.
    """
    return bool(files.named(MANIFEST)) and b'"cogx_version"' in head


def read(files: SourceFiles) -> ReaderResult:
    """Read an archive.

    Raises:
        InvalidInput: a newer version of cognee made the archive, or its manifest cannot be read.
    """
    reading = ReaderResult(
        "an archive of cognee (COGX)", problems=list(files.problems), left_out=Counter(files.left_out)
    )
    archive = _Archive(files.label, reading)
    for manifest in files.named(MANIFEST):
        _check_version(manifest)
    for name in _FILES:
        for source in files.named(name):
            archive.add_file(source)
    others = {MANIFEST, *_FILES}
    reading.left_out["other files"] += sum(source.name not in others for source in files.sources)
    archive.finish()
    reading.left_out += Counter[str]()  # drops zeros
    return reading


def _check_version(manifest: Source) -> None:
    try:
        found = orjson.loads(read_source(manifest))
    except orjson.JSONDecodeError:
        raise InvalidInput("the manifest of the archive is not JSON; nothing was written") from None
    version = str(found.get("cogx_version") if isinstance(found, dict) else None)
    major = version.partition(".")[0]
    if not major.isdecimal():
        raise InvalidInput("the manifest of the archive names no version of COGX; nothing was written")
    if int(major) > _MAJOR:
        raise InvalidInput(
            f"update sense-memory first: the archive has COGX {version[:20]}, and this version reads {_MAJOR}.x"
        )


class _Archive:
    """Collects the records of an archive.

    Args:
        label: the name of the folder, for people.
        reading: what was found.
    """

    def __init__(self, label: str, reading: ReaderResult) -> None:
        self._reading, self._names = reading, UniquePaths()
        self._graph, self._blocks = Graph("cogx", label), BlockRecords(reading, label, None)
        self._nodes: dict[str, tuple[str, str]] = {}  # name and type of each raw node, by id
        self._documents = set[str]()
        self._facts: list[tuple[Mapping[str, Any], str, int]] = []
        self._kinds: dict[str, str] = {}  # the types that facts give entities

    def add_file(self, source: Source) -> None:
        """Add the records of a file; lines that are none become problems."""
        try:
            raw = read_source(source)
            found, bad = structured.lines_of(utf8_of(raw))
        except InvalidInput as error:
            self._reading.problems.append(Problem(source.shown, 0, str(error)))
            return
        self._reading.problems += [Problem(source.shown, line, reason) for line, reason in bad]
        for line, value in found:
            reason = self._add(value, source, line) if isinstance(value, dict) else "is not an object"
            if reason:
                self._reading.problems.append(Problem(source.shown, line, reason))

    def _add(self, found: dict[str, Any], source: Source, line: int) -> str:
        """Add a record; returns why it is a problem, or an empty text."""
        if source.name == _NODES:
            self._add_node(found)
            return ""
        kind = _text(found.get("kind"))
        adders = {
            "document": self._add_document,
            "episode": self._add_episode,
            "memory": self._add_memory,
            "memory_block": self._add_block,
            "entity": self._add_entity,
            "fact": self._add_fact,
        }
        if kind not in adders:
            return "is a record of an unknown kind"
        self._reading.count_unused(_PLURALS.get(kind, f"{kind}s".replace("_", " ")), found, _USED[kind])
        return adders[kind](found, source.shown, line)

    def _add_node(self, found: Mapping[str, Any]) -> None:
        ident, kind = str(found.get("id")), _text(found.get("type")) or "unknown"
        self._nodes[ident] = (_text(found.get("name")), kind)
        self._reading.left_out[f"raw nodes of cognee's graph: {kind[:40]}"] += 1

    def _add_document(self, found: Mapping[str, Any], file: str, line: int) -> str:
        text = _text(found.get("content"))
        if not text.strip():
            return "the document has no content"
        self._documents.add(str(found.get("external_id")))
        self._reading.items += passages(
            f"cogx/{_system(found)}/{found.get('external_id')}",
            text,
            title=_text(found.get("title")),
            tags=[_system(found)],
            at=_at(found),
            place=(file, line),
        )
        return ""

    def _add_episode(self, found: Mapping[str, Any], file: str, line: int) -> str:
        turns = found.get("turns")
        messages = []
        for number, turn in enumerate(turns if isinstance(turns, list) else (), 1):
            role = ROLES.get(_text(turn.get("role")).lower()) if isinstance(turn, dict) else None
            text = _text(turn.get("content")) if isinstance(turn, dict) else ""
            if role and text.strip():
                at = items.time_of(turn.get("occurred_at"))
                messages.append(ExportedMessage(str(number), role, text, at))
            else:
                self._reading.left_out["turns without a known role or text"] += 1
        chat = Chat(str(found.get("external_id")), _text(found.get("title")), _at(found), tuple(messages))
        add_chat(self._reading, chat, _system(found), file, line)
        return ""

    def _add_memory(self, found: Mapping[str, Any], file: str, line: int) -> str:
        text = _text(found.get("content"))
        if not text.strip():
            return "the memory has no content"
        given = found.get("categories")
        categories = [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
        scope = found.get("scope")
        owners = [f"{name}: {who}" for name, who in scope.items() if who] if isinstance(scope, dict) else []
        facet = items.place_of(categories[0]) if categories else "facts"
        origin = items.tool_origin(_system(found), str(found.get("external_id")))
        path = self._names.assign(f"people/{facet}/{items.key_of(text)}", origin)
        fields = {"themes": items.themes_of([*categories, *owners])}
        if path:
            self._reading.items.append(
                Item(ItemKind.PALACE, path, text, file, line, _at(found), origin, fields)
            )
        else:
            self._reading.left_out["duplicates"] += 1
        return ""

    def _add_block(self, found: Mapping[str, Any], _file: str, line: int) -> str:
        if not _text(found.get("value")).strip():
            return "the block has no value"
        scope = found.get("scope")
        agent = _text(scope.get("agent_id")) if isinstance(scope, dict) else ""
        self._blocks.add(found, agent or _system(found), line)
        return ""

    def _add_entity(self, found: Mapping[str, Any], _file: str, line: int) -> str:
        name = _text(found.get("name"))
        if not name.strip():
            return "the entity has no name"
        aliases, attributes = found.get("aliases"), found.get("attributes")
        known = {_text(found.get("description")): None}
        if isinstance(aliases, list) and aliases:
            known[f"also called {', '.join(map(str, aliases))}"] = None
        for key, value in attributes.items() if isinstance(attributes, dict) else ():
            known[f"{key}: {value}"] = None
        kind = _text(found.get("entity_type"))
        self._graph.add(
            str(found.get("external_id")), name=name, kind=kind, observations=known, line=line, at=_at(found)
        )
        return ""

    def _add_fact(self, found: Mapping[str, Any], file: str, line: int) -> str:
        if not all(_text(found.get(name)).strip() for name in ("subject_ref", "predicate", "object_ref")):
            return "the fact has no subject, predicate or object"
        self._facts.append((found, file, line))
        return ""

    def finish(self) -> None:
        """Add the graph, after all of its entities and nodes are known."""
        for found, _, line in self._facts:
            subject, target = found["subject_ref"], found["object_ref"]
            if subject in self._documents or target in self._documents:
                self._reading.left_out["facts about a document or a part of one"] += 1
                continue
            name, kind = self._nodes.get(subject, ("", ""))
            if subject in self._nodes and subject not in self._graph:
                if not name:
                    self._reading.left_out[f"facts about raw nodes: {kind[:40]}"] += 1
                    continue
                self._graph.add(subject, name=name, kind=kind, line=line)
            self._relate(found, subject, target, line)
        self._graph.add_to(self._reading)

    def _relate(self, found: Mapping[str, Any], subject: str, target: str, line: int) -> None:
        name, kind = self._nodes.get(target, ("", ""))
        if found["predicate"] in _TYPE_WORDS and kind == "EntityType" and name:
            self._graph.type_of(subject, name)
            return
        sure, told = found.get("confidence"), _text(found.get("fact_text"))
        doubt = f" (confidence {sure:g})" if isinstance(sure, float | int) and sure != 1 else ""
        holds = validity(*(_day(found.get(when)) for when in ("valid_at", "invalid_at")))
        words = told or f"{found['predicate']} {{}}"
        shown = target if target in self._graph or not name else name
        self._graph.relate(subject, f"{words}{holds}{doubt}", shown, line, _at(found))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _day(value: object) -> str:
    """The day of a time in ISO 8601."""
    return _text(value).partition("T")[0]


def _system(found: Mapping[str, Any]) -> str:
    """The program that a record came from first, as a name."""
    return items.slug(_text(found.get("external_system")) or "cogx")


def _at(found: Mapping[str, Any]) -> float | None:
    return items.time_of(found.get("created_at"))
