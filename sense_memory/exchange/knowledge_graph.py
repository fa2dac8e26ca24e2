"""Knowledge graphs: entities with observations, and relations between entities. Pure.

`@modelcontextprotocol/server-memory` stores one as JSON lines (`read`). The readers of MemPalace and cognee build theirs
with `Graph` too, so that every graph becomes the same:

* An entity becomes one palace memory. The text is the name with the type, then one line for each observation, then one
  line for each relation in the words of the graph (`- maintains Harbour`).
* A relation is also a connection from the memory of its subject to the memory of its object. If the object is no entity of
  the file, only the line says so. If the subject is none, it becomes an entity without observations.
* An entity of which only the name is known becomes no memory, and is counted: the lines of others have its name.
* The type is the facet. The domain is people, projects or skills if the type says so, and world otherwise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sense_memory.exchange import items
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.exchange.structured import TIMES, time_in
from sense_memory.limits import MAX_LINKS_COUNT


if TYPE_CHECKING:
    from collections.abc import Mapping

_DOMAINS: Final = {  # of the types that say where an entity belongs
    **dict.fromkeys(
        ("person", "people", "user", "human", "contact", "friend", "colleague", "customer", "team"), "people"
    ),
    **dict.fromkeys(("project", "repository", "repo", "codebase", "product", "task", "goal"), "projects"),
    **dict.fromkeys(("skill", "technique", "procedure", "workflow"), "skills"),
    **dict.fromkeys(("self", "assistant", "agent"), "self"),
}
_UNTYPED: Final = "entity"  # the facet of an entity without a type
_RECORDS: Final = {"entity": ("name", "entityType"), "relation": ("from", "to", "relationType")}
_RECORD_FIELDS: Final = {*TIMES, "type", "name", "entityType", "observations", "from", "to", "relationType"}


@dataclass(slots=True)
class Entity:
    """An entity of a graph, while its graph is read.

    Attributes:
        name: its name for people.
        kind: its type; may be empty.
        file: the file's name for people.
        line: the line or number of the object from which it comes.
        origin: how later imports recognise it, such as `tool:server-memory/Maria`.
        at: when it was written, seconds since 1970; None if unknown.
        observations: what is known about it, word for word.
        relations: its relations in words.
        targets: the keys of the entities that its relations lead to, as `Graph` knows them.
    """

    name: str
    kind: str
    file: str
    line: int
    origin: str
    at: float | None = None
    observations: dict[str, None] = field(default_factory=dict, repr=False)
    relations: dict[str, None] = field(default_factory=dict, repr=False)
    targets: dict[str, None] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> str:
        """Its path in the palace, before other memories are considered."""
        kind = self.kind.strip()
        domain = _DOMAINS.get(kind.casefold(), "world")
        return f"{domain}/{items.place_of(kind or _UNTYPED)}/{items.name_of(self.name)}"

    @property
    def tells_something(self) -> bool:
        """Whether more than the name is known; names stand in the relations of other entities anyway."""
        return bool(self.kind.strip() or self.observations or self.relations)

    @property
    def text(self) -> str:
        """Its text in the palace."""
        kind = self.kind.strip()
        lines = (_point(line) for line in (*self.observations, *self.relations))
        return "\n".join((f"{self.name} ({kind})" if kind else self.name, *lines))


def _point(text: str) -> str:
    return "- " + text.strip("\r\n").replace("\n", "\n  ")


class Graph:
    """Collects entities and relations in any order; `items` gives the memories.

    Args:
        tool: the name of the program, for origins.
        file: the file's name for people.
    """

    def __init__(self, tool: str, file: str) -> None:
        self._tool, self._file = tool, file
        self._entities: dict[str, Entity] = {}
        self._relations: list[tuple[str, str, str, int, float | None]] = []

    def add(
        self,
        key: str,
        *,
        name: str,
        kind: str = "",
        observations: Mapping[str, None] | None = None,
        line: int,
        at: float | None = None,
    ) -> None:
        """Add an entity, or observations to the entity that has the key.

        Args:
            key: how relations name the entity.
            name: its name for people.
            kind: its type.
            observations: what is known about it, each text once.
            line: the line or number of the object.
            at: when it was written, seconds since 1970.
        """
        new = Entity(name, kind, self._file, line, items.tool_origin(self._tool, key), at)
        entity = self._entities.setdefault(key, new)
        entity.kind = entity.kind or kind
        if kind != entity.kind:
            entity.observations[f"type: {kind}"] = None
        entity.observations.update({text: None for text in observations or () if text.strip()})

    def relate(self, subject: str, words: str, target: str, line: int, at: float | None = None) -> None:
        """Add a relation; its text is the words, followed by the name of the target.

        Args:
            subject: the key of the entity where it begins.
            words: what relates the two, with `{}` where the name of the target belongs.
            target: the key of the entity where it ends, or a name that no entity has.
            line: the line or number of the object.
            at: when it was written, seconds since 1970.
        """
        self._relations.append((subject, words, target, line, at))

    def type_of(self, key: str, kind: str) -> None:
        """Give an entity a type, if it has none."""
        if key in self._entities:
            self._entities[key].kind = self._entities[key].kind or kind

    def __contains__(self, key: object) -> bool:
        """Whether an entity has the key."""
        return key in self._entities

    def add_to(self, reading: ReaderResult) -> None:
        """Add the memories of all entities to a reading, and a note about connections that do not fit."""
        for subject, words, target, line, at in self._relations:
            if subject not in self._entities:
                self.add(subject, name=subject, line=line, at=at)
            entity = self._entities[subject]
            known = self._entities.get(target)
            entity.relations[words.replace("{}", known.name if known else target)] = None
            if known is not None and target != subject:
                entity.targets[target] = None
        names = UniquePaths()
        told = {key: entity for key, entity in self._entities.items() if entity.tells_something}
        reading.left_out["entities of which only the name is known"] += len(self._entities) - len(told)
        paths = {key: names.assign(entity.path, key) for key, entity in told.items()}
        too_many = 0
        for key, entity in told.items():
            links = tuple(paths[target] for target in entity.targets if target in paths)
            too_many += len(links[MAX_LINKS_COUNT:])
            fields = {"connections": links[:MAX_LINKS_COUNT]}
            place = (paths[key], entity.text, entity.file, entity.line, entity.at, entity.origin, fields)
            reading.items.append(Item(ItemKind.PALACE, *place, has_name=True))
        reading.left_out += Counter[str]()  # drops zeros
        if too_many:
            reading.notes.append(
                f"{self._file}: a memory has at most {MAX_LINKS_COUNT} connections; "
                f"{too_many:,} more relations are only in the texts"
            )


def validity(since: Any, until: Any) -> str:
    """When a relation holds, in brackets for the end of a line; empty if nothing says so."""
    if since and until:
        return f" ({since} to {until})"
    return f" (since {since})" if since else f" (until {until})" if until else ""


# ── The file of @modelcontextprotocol/server-memory ─────────────────────────────────────


def is_record(found: Any) -> bool:
    """Whether an object is a line of the file, or the whole graph as `read_graph` answers it."""
    if not isinstance(found, dict):
        return False
    named = _RECORDS.get(found["type"], ()) if isinstance(found.get("type"), str) else ()
    if named and all(isinstance(found.get(name), str) for name in named):
        return True
    return is_graph(found)


def is_graph(found: Any) -> bool:
    """Whether an object is a whole graph: lists of entities and of relations."""
    both = (found.get("entities"), found.get("relations")) if isinstance(found, dict) else (None,)
    return all(isinstance(some, list) for some in both)


def read(found: list[tuple[int, Any]], bad: list[tuple[int, str]], file: str) -> ReaderResult:
    """Read the entities and relations of the file; anything else in it becomes a problem.

    Args:
        found: the objects, each with its line.
        bad: the lines that are not JSON, each with the reason.
        file: the file's name for people.
    """
    reading = ReaderResult(
        "a knowledge graph of server-memory", problems=[Problem(file, line, reason) for line, reason in bad]
    )
    graph = Graph("server-memory", file)
    for line, value in _records(found):
        reason = _add_record(graph, value, line, reading) if isinstance(value, dict) else "is not an object"
        if reason:
            reading.problems.append(Problem(file, line, reason))
    graph.add_to(reading)
    return reading


def _records(found: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The records of lines, or of the lists of a whole graph."""
    if len(found) != 1 or not is_graph(found[0][1]):
        return found
    whole = found[0][1]
    listed = [("entity", value) for value in whole["entities"]]
    listed += [("relation", value) for value in whole["relations"]]
    return [
        (number, {**value, "type": kind} if isinstance(value, dict) else value)
        for number, (kind, value) in enumerate(listed, 1)
    ]


def _add_record(graph: Graph, found: Mapping[str, Any], line: int, reading: ReaderResult) -> str:
    """Add a line to the graph; returns why it is a problem, or an empty text."""
    kind = found.get("type")
    needed = _RECORDS.get(kind, ()) if isinstance(kind, str) else ()
    if not needed:
        return "is neither an entity nor a relation"
    missing = [name for name in needed if not isinstance(found.get(name), str)]
    if missing or not found[needed[0]].strip():
        return f"the {kind} has no {missing[0] if missing else needed[0]}"
    reading.count_unused("entities" if kind == "entity" else "relations", found, _RECORD_FIELDS)
    if kind == "relation":
        graph.relate(
            found["from"], f"{found['relationType']} {{}}".strip(), found["to"], line, time_in(found)
        )
        return ""
    given = found.get("observations", [])
    texts = [given] if isinstance(given, str) else given if isinstance(given, list) else [None]
    words = {text: None for text in texts if isinstance(text, str)}
    graph.add(
        found["name"],
        name=found["name"],
        kind=found["entityType"],
        observations=words,
        line=line,
        at=time_in(found),
    )
    return "an observation is not a text" if any(not isinstance(text, str) for text in texts) else ""
