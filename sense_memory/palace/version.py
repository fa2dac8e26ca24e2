"""One version of a palace memory: a record's fields as a memory, and back. Pure.

The fields are those of the specification and of the published package 0.3.1, and fields of this program: `ts`, `seen`,
`said`, `written_at`, `dissolved_at`, `dismissed`, `marked_by_hand`, `decided`, `conflict_of`, `session`, `observed_at`,
`derived_from`, `sources`. If another program wrote a value of the wrong type or out of range, the value is replaced by
the nearest valid value, or left out. Unknown fields are kept.

`written_at` is `[time, device, count]`. An older sense-memory carries it on from a text to the next, so the time counts
only if device and count are those of the text in `said`. Otherwise the time is when the memory was last reinforced, which
each writing of a text does, but no later than the event that first held the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from sense_memory.limits import MAX_HALFLIFE_DAYS, MAX_SAFE_INTEGER, MIN_HALFLIFE_DAYS
from sense_memory.models import PROVENANCE, PersonaMemory
from sense_memory.palace.lifecycle import without_dismissed


if TYPE_CHECKING:
    from collections.abc import Mapping

_OURS: Final = frozenset({*PersonaMemory.model_fields, "ts", "said", "decided"})
# The store adds these when it shows a memory; what an event says of them is nothing.
_ADDED: Final = frozenset({"suspected_by", "current_relevance"})
_LISTS: Final = frozenset(
    {"connections", "contradicts", "themes", "dismissed", "marked_by_hand", "derived_from", "sources"}
)
_RANGES: Final = {
    "relevance": (0.0, 1.0),
    "confidence": (0.0, 1.0),
    "halflife_days": (MIN_HALFLIFE_DAYS, MAX_HALFLIFE_DAYS),
    "access_count": (0, MAX_SAFE_INTEGER),
}
_GIVEN: Final[dict[frozenset[str], set[str]]] = {}  # one entry for each set of fields that programs write
_OMITTED_IF_EMPTY: Final = (
    *("dissolved_at", "dismissed", "marked_by_hand", "conflict_of"),
    *PROVENANCE[1:],
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The event that first held a value; an edit of other fields keeps the provenance.

    Attributes:
        at: the event's created_at, seconds since 1970.
        id: the event's id, 64 hex digits.
        device: the device that wrote the value; empty if its program writes no version vector.
        count: the count of that device in the version vector.
    """

    at: int
    id: str
    device: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class PersonaVersion:
    """The memory in one event.

    Attributes:
        memory: the memory as written.
        at: the event's created_at, seconds since 1970.
        provenance: where the value comes from; the field `said`.
        ts: when the version was written, by the writer's clock, seconds since 1970.
        rest: fields of a newer sense-memory, which an edit keeps.
        decided: when names were put into `dismissed` or `marked_by_hand`, or taken out, seconds since 1970; the field
            `decided`. An older sense-memory writes no such times, and carries those of others unchanged.
    """

    memory: PersonaMemory
    at: int
    provenance: Provenance
    ts: float
    rest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    decided: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """The event's id, 64 hex digits."""
        return self.memory.event_id


def memory_of(fields: Mapping[str, Any], event_id: str, created_at: int) -> PersonaMemory:
    """The memory in the fields of a record, without dismissed marks.

    Args:
        fields: domain, facet, key and value are texts, which the envelope checks; the others may have any value.
        event_id: the event's id, 64 hex digits.
        created_at: the event's created_at, used if the fields contain no time.
    """
    dated = {**fields, "written_at": _written_at(fields, event_id, created_at)}
    return without_dismissed(_validated(dated, event_id, created_at))


def _written_at(fields: Mapping[str, Any], event_id: str, created_at: int) -> float:
    """When the text in the fields of a record was written, as far as they tell; seconds since 1970."""
    said = provenance_in(fields.get("said"), counts_in(fields.get("seen")), event_id, created_at)
    match fields.get("written_at"):
        case [int() | float() as at, said.device, said.count] if 0 <= at <= MAX_SAFE_INTEGER:
            return float(at)
    reinforced = fields.get("last_reinforced", fields.get("created_at"))
    is_known = isinstance(reinforced, int | float) and 0 <= reinforced < said.at + 1
    return float(reinforced if is_known else said.at)


def _validated(fields: Mapping[str, Any], event_id: str, created_at: int) -> PersonaMemory:
    if not _ADDED.isdisjoint(fields):
        fields = {name: value for name, value in fields.items() if name not in _ADDED}
    try:
        return _lean(PersonaMemory.model_validate({"created_at": created_at, **fields, "event_id": event_id}))
    except ValidationError as error:
        names = {str(problem["loc"][0]) for problem in error.errors(include_url=False, include_input=False)}
    repaired = {
        name: _nearest_valid(name, value) if name in names else value for name, value in fields.items()
    }
    usable = {name: value for name, value in repaired.items() if value is not None}
    return _lean(PersonaMemory.model_validate({"created_at": created_at, **usable, "event_id": event_id}))


def version_of(fields: Mapping[str, Any], event_id: str, created_at: int) -> PersonaVersion:
    """As `memory_of`, with the provenance, the time and the unknown fields that an edit or a merge needs."""
    memory = memory_of(fields, event_id, created_at)
    ts = fields.get("ts")
    return PersonaVersion(
        memory,
        created_at,
        provenance_in(fields.get("said"), memory.seen, event_id, created_at),
        float(ts) if isinstance(ts, int | float) and not isinstance(ts, bool) else float(created_at),
        {name: fields[name] for name in fields.keys() - _OURS},
        counts_in(fields.get("decided")),
    )


def fields_of(
    memory: PersonaMemory,
    said: Provenance | str,
    ts: float,
    rest: Mapping[str, Any],
    decided: Mapping[str, int] = {},
) -> dict[str, Any]:
    """The fields of a record, as JSON values.

    Args:
        memory: the memory to write.
        said: the provenance of the value; or the name of a device, if the device writes the value with this event.
        ts: when the version is written, seconds since 1970.
        rest: fields of a newer sense-memory, to be kept.
        decided: as in `PersonaVersion`.
    """
    device, count = (said, memory.seen.get(said, 0)) if isinstance(said, str) else (said.device, said.count)
    fields: dict[str, Any] = {
        **rest,
        "domain": memory.domain,
        "facet": memory.facet,
        "key": memory.key,
        "value": memory.value,
        "relevance": memory.relevance,
        "halflife_days": memory.halflife_days,
        "last_accessed": memory.last_accessed,
        "last_reinforced": memory.last_reinforced,
        "access_count": memory.access_count,
        "connections": list(memory.connections),
        "contradicts": list(memory.contradicts),
        "superseded_by": memory.superseded_by,
        "themes": list(memory.themes),
        "source": memory.source,
        "confidence": memory.confidence,
        "state": memory.state.value,
        "created_at": memory.created_at,
        "written_at": [memory.written_at, device, count],
        "ts": ts,
        "seen": dict(memory.seen),
        "said": said if isinstance(said, str) else [said.device, said.count, said.at, said.id],
    }
    for name in _OMITTED_IF_EMPTY:
        if value := getattr(memory, name):
            fields[name] = list(value) if isinstance(value, tuple) else value
    if decided:
        fields["decided"] = dict(decided)
    return fields


def _lean(memory: PersonaMemory) -> PersonaMemory:
    """Make memories share their sets of given field names, each of which takes two kilobytes.

    Sharing is safe, because pydantic copies the set before a change.
    """
    given = memory.model_fields_set
    object.__setattr__(memory, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(given), given))
    return memory


def provenance_in(claim: Any, seen: Mapping[str, int], event_id: str, created_at: int) -> Provenance:
    """The provenance of a value; the event itself, if the field `said` is not valid.

    Args:
        claim: the field `said`, of any type.
        seen: the version vector of the same record.
        event_id: the event's id, 64 hex digits.
        created_at: the event's created_at, seconds since 1970.
    """
    match claim:
        case str() if claim in seen:
            return Provenance(created_at, event_id, claim, seen[claim])
        case [str() as device, int() as count, int() as at, str() as ident]:
            return Provenance(at, ident, device, count)
    return Provenance(created_at, event_id)


def counts_in(seen: Any) -> dict[str, int]:
    """The version vector in the field `seen`, or the times in `decided`, of any type; invalid entries are left out."""
    if not isinstance(seen, dict):
        return {}
    return {
        name: count
        for name, count in seen.items()
        if isinstance(name, str) and type(count) is int and 0 <= count <= MAX_SAFE_INTEGER
    }


def copy_key(key: str, said: str) -> str:
    """The key of a sibling: the memory's key, and the first digits of the event that first held the sibling's value."""
    return f"{key}~conflict-{said[:8]}"


def _nearest_valid(name: str, value: Any) -> Any:
    """The valid value of a field that is nearest to an invalid value; None if there is none."""
    if name in _LISTS and isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    if name in _RANGES and isinstance(value, int | float):
        low, high = _RANGES[name]
        return type(high)(min(max(value, low), high))
    if name == "seen" and isinstance(value, dict):
        return counts_in(value)
    return None
