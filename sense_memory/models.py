"""What a user holds: frozen, validated, with a JSON schema. Reprs show addresses, never texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping  # noqa: TC003 - pydantic reads the annotations
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sense_memory.limits import (
    DEFAULT_HALFLIFE_DAYS,
    MAX_HALFLIFE_DAYS,
    MAX_SAFE_INTEGER,
    MIN_HALFLIFE_DAYS,
)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class Memory(_Frozen):
    """A v1 flat memory: one value under one key; writing the key again replaces it.

    Attributes:
        key: 1 to 256 characters.
        value: any text; sealed together with the key it must fit 40,960 bytes.
        created_at: when this value was written, seconds since 1970.
        event_id: the event that holds it, 64 hex digits.
    """

    key: str
    value: str = Field(repr=False)
    created_at: float
    event_id: str


class JournalEntry(_Frozen):
    """One entry of the journal, a direct message to oneself; never replaced.

    Attributes:
        content: any non-empty text.
        created_at: when it was written, seconds since 1970.
        event_id: the event that holds it, 64 hex digits.
    """

    content: str = Field(repr=False)
    created_at: float
    event_id: str


class Draft(_Frozen):
    """A text that is in no memory, because this clock was wrong or another device forgot it unseen: kept on this
    machine only, sealed.

    Attributes:
        number: names it to `publish_draft` and `discard_draft`.
        key: where it was to be written.
        value: its text.
        created_at: when, by the clock of then, seconds since 1970.
        reason: why it is a draft; empty where the clock did not allow to write it.
    """

    number: int
    key: str
    value: str = Field(repr=False)
    created_at: float
    reason: str = ""


class ChangeKind(StrEnum):
    """What happened."""

    REMEMBERED = "remembered"
    LINKED = "linked"  # a persona memory, with its text as it was: connected, contradicted, superseded, …
    CHANGED = "changed"  # anything else of a persona memory, such as that it was recalled
    FORGOTTEN = "forgotten"
    JOURNAL = "journal"  # an entry was written


class Change(_Frozen):
    """Something that another device, or another process on this machine, did to the memory; see `watch`.

    Attributes:
        kind: remembered, forgotten, or journal for a new entry; linked or changed where the text stayed.
        path: where: `user_timezone`, `persona/people/facts/lisa`, or `journal/` and the entry's id.
        key: the last part of the path.
        value: the text, or None where it was forgotten.
        created_at: when it was written or forgotten, seconds since 1970.
        event_id: the event that did it, 64 hex digits.
        relay: the relay that brought it, or None.
    """

    kind: ChangeKind
    path: str
    key: str
    value: str | None = Field(default=None, repr=False)
    created_at: float
    event_id: str
    relay: str | None = None


class State(StrEnum):
    """Where a persona memory stands in its life, by its relevance (sense-memory v2, "State Transitions")."""

    ACTIVE = "active"  # above 0.3
    FADING = "fading"  # 0.1 to 0.3
    FORGOTTEN = "forgotten"  # 0.01 to 0.1
    DISSOLVED = "dissolved"  # below 0.01


Timestamp = Annotated[float, Field(ge=0, le=MAX_SAFE_INTEGER, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


_DATED = frozenset({"last_accessed", "last_reinforced"})


class PersonaMemory(_Frozen):
    """A v2 memory: an insight under a domain and a facet, with a life of its own (sense-memory v2).

    Links (`connections`, `contradicts`, `superseded_by`) are paths, `domain/facet/key`. Times are seconds
    since 1970. `relevance` is what the last access left; `palace.lifecycle` says what it has decayed to.

    Attributes:
        domain: a broad area: self, people, projects, world, skills, or any other name.
        facet: a type of knowledge: facts, beliefs, decisions, procedures, emotions, or any other name.
        key: names the insight within its facet.
        value: its text; sealed with everything else it must fit 40,960 bytes.
        relevance: 0 to 1, at `last_accessed`.
        halflife_days: days after which relevance has halved.
        last_accessed: when it was last recalled by its exact key, or written.
        last_reinforced: when it was last connected or referred to.
        access_count: how often it was recalled by its exact key.
        connections: related memories.
        contradicts: memories that say the opposite.
        superseded_by: the memory that replaced it; it decays four times faster.
        themes: what it is about, for search.
        source: where it came from: user, agent, import, `tool:<name>`, `document:<hash>`, or empty.
        confidence: how certain it is, 0 to 1.
        state: when this version was written or read; it changes with time alone.
        created_at: when the memory first was written.
        dissolved_at: when it was first seen dissolved; 30 days later it may be pruned.
        dismissed: memories with which a suggested link was declined, a connection or a contradiction.
        conflict_of: the path whose concurrent edit lost and is kept here.
        seen: a version vector: device id to that device's count of edits that this version knows.
        event_id: the event that holds it, 64 hex digits; empty before it is written.
        current_relevance: what `relevance` had become when the store recalled, listed or found it, 0 or more;
            None where nobody asked. `current_relevance(memory, now)` says it for any time.
    """

    domain: str
    facet: str
    key: str
    value: str = Field(repr=False)

    relevance: Share = 1.0
    halflife_days: Annotated[float, Field(ge=MIN_HALFLIFE_DAYS, le=MAX_HALFLIFE_DAYS)] = DEFAULT_HALFLIFE_DAYS
    last_accessed: Timestamp
    last_reinforced: Timestamp
    access_count: Count = 0

    connections: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    superseded_by: str | None = None

    themes: tuple[str, ...] = Field(default=(), repr=False)
    source: str = Field(default="", repr=False)
    confidence: Share = 1.0
    state: State = State.ACTIVE

    created_at: Timestamp
    dissolved_at: Timestamp | None = None
    dismissed: tuple[str, ...] = ()
    conflict_of: str | None = None
    seen: Mapping[str, Count] = Field(default_factory=dict, repr=False)
    event_id: str = ""
    current_relevance: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _dated(cls, data: Any) -> Any:
        """A memory that nobody has accessed or reinforced counts from when it was written."""
        if isinstance(data, dict) and "created_at" in data and not data.keys() >= _DATED:
            written = data["created_at"]
            return {"last_accessed": written, "last_reinforced": written, **data}
        return data

    @property
    def path(self) -> str:
        """`domain/facet/key`: how other memories name it."""
        return f"{self.domain}/{self.facet}/{self.key}"

    def changed(self, **fields: Any) -> Self:
        """The same memory with some fields replaced, unchecked: for values that are known to be valid."""
        return self.model_copy(update=fields)


class SuggestedContradiction(_Frozen):
    """Two memories that seem to say the opposite and are not linked as such.

    Attributes:
        old: the older one, which `persona_contradict` would mark.
        new: the newer one.
        confidence: how certain the suggestion is, 0 to 1.
        reason: what was seen in them.
    """

    old: PersonaMemory
    new: PersonaMemory
    confidence: Share
    reason: str = Field(repr=False)


class PalaceChanges(_Frozen):
    """What became of a palace since its last introspection. Memories are named by path, sorted.

    Attributes:
        since: of the last introspection, seconds since 1970.
        before: memories in each state then.
        new: were not there.
        gone: are not there any more: forgotten on purpose, pruned, or moved.
        faded: came down to fading.
        forgotten: came down to forgotten.
        dissolved: came down to dissolved.
        revived: rose to a higher state.
        contradicted: pairs that contradict each other and did not, in the order of `contradictions`.
        exact: whether this is all, and all of it is certain.
        untold: where it is not, in words: what could not be told, and why.
    """

    since: Timestamp
    before: Mapping[State, int]
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    faded: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    dissolved: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    contradicted: tuple[tuple[str, str], ...] = ()
    exact: bool = True
    untold: tuple[str, ...] = ()


class IntrospectionReport(_Frozen):
    """What a palace holds and what in it needs attention (sense-memory v2, "Introspection").

    `palace.introspection` says what each list means. The most relevant memories come first.

    Attributes:
        created_at: the moment that it describes, seconds since 1970.
        total_memories: all of them, whatever their state.
        active: how many are active; as `fading`, `forgotten` and `dissolved`.
        contradictions: pairs that are linked as contradicting, or one as replaced by the other.
        conflicts: memories that lost a concurrent edit and were kept; `conflict_of` names the other.
        stale_beliefs: beliefs with low confidence and low relevance.
        orphaned: active and fading memories that are connected to no other.
        overloaded_facets: `domain/facet` with too many active memories.
        suggested_connections: pairs that could be connected.
        suggested_contradictions: pairs that seem to contradict each other.
        suggested_revisions: memories that may need updating.
        suggested_compressions: domains whose active memories fill a prompt.
        reasons: for each of these lists, why its items are in it: one sentence each, in their order.
        bounded: lists that may not be complete, and in words why.
        changes: since the introspection before; None where there was none to compare with.
        log: what `to_log` gives.
    """

    created_at: Timestamp
    total_memories: int = 0
    active: int = 0
    fading: int = 0
    forgotten: int = 0
    dissolved: int = 0

    contradictions: tuple[tuple[PersonaMemory, PersonaMemory], ...] = ()
    conflicts: tuple[PersonaMemory, ...] = ()
    stale_beliefs: tuple[PersonaMemory, ...] = ()
    orphaned: tuple[PersonaMemory, ...] = ()
    overloaded_facets: tuple[str, ...] = ()

    suggested_connections: tuple[tuple[PersonaMemory, PersonaMemory], ...] = ()
    suggested_contradictions: tuple[SuggestedContradiction, ...] = ()
    suggested_revisions: tuple[PersonaMemory, ...] = ()
    suggested_compressions: tuple[str, ...] = ()

    reasons: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    bounded: Mapping[str, str] = Field(default_factory=dict)
    changes: PalaceChanges | None = None
    log: Mapping[str, Any] = Field(default_factory=dict, exclude=True)

    def to_log(self) -> dict[str, Any]:
        """The compact form for an introspection log: keys and counts, no texts; fits one event.

        The next run takes it as `previous`, through `palace.introspection_log.from_log`.
        """
        return dict(self.log)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Counts: a list of a large palace would fill the screen, and reasons quote themes."""
        for name, value in self:
            if name not in {"reasons", "log"}:
                yield name, len(value) if isinstance(value, tuple) else value
