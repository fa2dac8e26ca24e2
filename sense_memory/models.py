"""The memories and reports that callers get: frozen, validated, with a JSON schema. Reprs show addresses, never texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping  # noqa: TC003 - pydantic reads the annotations
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sense_memory.limits import (
    DEFAULT_HALFLIFE_DAYS,
    MAX_HALFLIFE_DAYS,
    MAX_SAFE_INTEGER,
    MIN_HALFLIFE_DAYS,
)


# The source of items that LangGraph's store writes. Their time to live ends them, however often they were read.
LANGGRAPH: Final = "tool:langgraph"
PINNED: Final = "pinned"  # the theme of memories that are always in the prompt


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, defer_build=True)  # a command builds those that it uses


class Memory(_Frozen):
    """A flat memory (sense-memory v1): one value under one key; writing the key again replaces the value.

    Attributes:
        key: 1 to 256 characters.
        value: any text; key and value together must fit 40,960 bytes.
        created_at: when this value was written, seconds since 1970.
        event_id: the event that holds the memory, 64 hex digits.
        source, session, derived_from, sources: where the value came from, as of a palace memory; empty if unknown.
    """

    key: str
    value: str = Field(repr=False)
    created_at: float
    event_id: str
    source: str = Field(default="", repr=False)
    session: str = Field(default="", repr=False)
    derived_from: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text alone; `repr` shows everything else."""
        return self.value


class JournalEntry(_Frozen):
    """One entry of the journal: a direct message to oneself, which is never replaced.

    Attributes:
        content: any non-empty text.
        created_at: when the entry was written, seconds since 1970.
        event_id: the event that holds the entry, 64 hex digits.
        source, session: where the entry came from, as of a palace memory; empty for the agent's own.
    """

    content: str = Field(repr=False)
    created_at: float
    event_id: str
    source: str = Field(default="", repr=False)
    session: str = Field(default="", repr=False)

    def __str__(self) -> str:
        """The text alone; `repr` shows everything else."""
        return self.content


class Draft(_Frozen):
    """A text that did not become a memory: the clock was wrong, or another device had forgotten the memory meanwhile.

    A draft is kept encrypted, on this machine only.

    Attributes:
        number: identifies the draft in `publish_draft` and `discard_draft`.
        key: the key of the memory, or the path `domain/facet/key`.
        value: the text.
        created_at: when the draft was saved, by the clock of that moment, seconds since 1970.
        reason: why the text is a draft; empty if the reason is the clock.
    """

    number: int
    key: str
    value: str = Field(repr=False)
    created_at: float
    reason: str = ""


class ChangeKind(StrEnum):
    """What happened to a memory."""

    REMEMBERED = "remembered"
    LINKED = "linked"  # a palace memory was connected, contradicted, superseded, …; its value stayed
    CHANGED = "changed"  # anything else of a palace memory changed, such as its accesses
    FORGOTTEN = "forgotten"
    JOURNAL = "journal"  # an entry was written


class Change(_Frozen):
    """A change that another device, or another process on this machine, made to a memory; see `watch`.

    Attributes:
        kind: remembered, forgotten, or journal for a new entry; linked or changed where the value stayed.
        path: of the memory: `user_timezone`, `persona/people/facts/lisa`, or `journal/` and the entry's id.
        key: the last part of the path.
        value: the text, or None where the memory was forgotten.
        created_at: when the memory was written or forgotten, seconds since 1970.
        event_id: the event that made the change, 64 hex digits.
        relay: the relay that brought the event, or None for another process on this machine.
        superseded_by: the path of the successor, if this change marked a palace memory as superseded; else None.
        conflict_of: if this is a new conflict copy, the path of the memory in which its text lost; else None.
    """

    kind: ChangeKind
    path: str
    key: str
    value: str | None = Field(default=None, repr=False)
    created_at: float
    event_id: str
    relay: str | None = None
    superseded_by: str | None = None
    conflict_of: str | None = None


class State(StrEnum):
    """The state of a palace memory, by its relevance (sense-memory v2, "State Transitions")."""

    ACTIVE = "active"  # above 0.3
    FADING = "fading"  # 0.1 to 0.3
    FORGOTTEN = "forgotten"  # 0.01 to 0.1
    DISSOLVED = "dissolved"  # below 0.01


Timestamp = Annotated[float, Field(ge=0, le=MAX_SAFE_INTEGER, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


# The fields that say where a text came from; giving the source gives them all.
PROVENANCE: Final = ("source", "session", "observed_at", "derived_from", "sources")
_DATED = frozenset({"last_accessed", "last_reinforced", "written_at"})


class PersonaMemory(_Frozen):
    """A palace memory (a persona memory in sense-memory v2): an insight under a domain, a facet and a key, which fades with time.

    Links (`connections`, `contradicts`, `superseded_by`) are paths, `domain/facet/key`. Times are seconds
    since 1970. `relevance` is the relevance at the last access; `palace.lifecycle` computes its present value.

    Attributes:
        domain: a broad area: self, people, projects, world, skills, or any other name.
        facet: a type of knowledge: facts, beliefs, decisions, procedures, emotions, or any other name.
        key: names the insight within its facet.
        value: the text; the whole memory must fit 40,960 bytes.
        relevance: 0 to 1, at `last_accessed`.
        halflife_days: days after which relevance has halved.
        last_accessed: when the memory was last recalled by its exact key, or written.
        last_reinforced: when the memory was last connected or referred to.
        access_count: how often the memory was recalled by its exact key.
        connections: related memories.
        contradicts: memories that say the opposite.
        superseded_by: the memory that replaced this one, which then decays four times faster.
        marked_by_hand: those of `contradicts` that `persona_contradict` named; other texts do not remove these marks.
        themes: what the memory is about, for search.
        source: where the memory came from: user, agent, `import:<name>`, `tool:<name>`, `document:<hash>`,
            `scene:<name>`, or empty.
        session: in which session, conversation or import the text was written; empty if unknown.
        observed_at: when what the text says was observed, seconds since 1970; None if that is when it was written.
        derived_from: what the text was made of: paths, flat keys, `archive:ID`, `block:LABEL`, `log:CONVERSATION/ID`.
        sources: the sources of all that, each once, the least trusted last; they bound the trust in the memory.
        confidence: how certain the insight is, 0 to 1.
        state: the state when this version was written or read; it changes with time alone.
        created_at: when the memory was first written.
        written_at: when its text was written: now or, if `created_at` was given with the text, then. Of two memories
            that contradict each other, the one with the later text is the newer one.
        dissolved_at: when the memory was first seen dissolved; 30 days later it may be pruned.
        dismissed: memories with which a suggested connection or contradiction was declined.
        conflict_of: the path at which a concurrent edit lost; this memory keeps that edit.
        seen: a version vector: device id to the number of that device's edits that this version knows.
        event_id: the event that holds the memory, 64 hex digits; empty before the memory is written.
        current_relevance: the relevance when the store recalled, listed or found the memory, 0 or more; otherwise
            None. `current_relevance(memory, now)` computes it for any time.
        suspected_by: at most three later memories that may contradict this one, undecided, the latest first, as far as
            known when the store recalled, listed or found the memory; otherwise empty.
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
    marked_by_hand: tuple[str, ...] = ()

    themes: tuple[str, ...] = Field(default=(), repr=False)
    source: str = Field(default="", repr=False)
    session: str = Field(default="", repr=False)
    observed_at: Timestamp | None = None
    derived_from: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    confidence: Share = 1.0
    state: State = State.ACTIVE

    created_at: Timestamp
    written_at: Timestamp = 0.0  # if it is not given, `_dated` takes `created_at`
    dissolved_at: Timestamp | None = None
    dismissed: tuple[str, ...] = ()
    conflict_of: str | None = None
    seen: Mapping[str, Count] = Field(default_factory=dict, repr=False)
    event_id: str = ""
    current_relevance: float | None = None
    suspected_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text alone; `repr` shows everything else."""
        return self.value

    @model_validator(mode="before")
    @classmethod
    def _dated(cls, data: Any) -> Any:
        """By default, a memory was last accessed and reinforced, and got its text, when it was first written."""
        if isinstance(data, dict) and "created_at" in data and not data.keys() >= _DATED:
            written = data["created_at"]
            return {"last_accessed": written, "last_reinforced": written, "written_at": written, **data}
        return data

    @property
    def path(self) -> str:
        """`domain/facet/key`: how other memories name this one."""
        return f"{self.domain}/{self.facet}/{self.key}"

    def changed(self, **fields: Any) -> Self:
        """A copy of this memory with some fields replaced. The values are not validated."""
        return self.model_copy(update=fields)


class SuggestedContradiction(_Frozen):
    """Two memories that seem to contradict each other, and are not linked as a contradiction.

    Attributes:
        old: the older one, which `persona_contradict` would mark.
        new: the newer one.
        confidence: how certain the suggestion is, 0 to 1.
        reason: the words or values that contradict each other.
    """

    old: PersonaMemory
    new: PersonaMemory
    confidence: Share
    reason: str = Field(repr=False)


class PalaceChanges(_Frozen):
    """What changed in a palace since its last introspection. Memories are named by path, sorted.

    Attributes:
        since: the time of the last introspection, seconds since 1970.
        before: how many memories were in each state at that time.
        new: memories that did not exist then.
        gone: memories that no longer exist: forgotten on purpose, pruned, or moved.
        rewritten: memories whose text was written since: mostly another text, or the same text again, or an undo.
        faded: memories that became fading.
        forgotten: memories that became forgotten.
        dissolved: memories that became dissolved.
        revived: memories that rose to a higher state.
        contradicted: pairs that now contradict each other and did not, the contradicted memory first.
        settled: pairs that contradicted each other, still exist, and no longer do: reconciled, dismissed or rewritten.
        relinked: whether memories were connected or disconnected, or suggestions about them were declined; not known,
            and false, if memories are new or gone.
        exact: whether the lists are complete and certain.
        untold: if they are not, a sentence for each part that is missing or uncertain, with the reason.
    """

    since: Timestamp
    before: Mapping[State, int]
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()
    faded: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    dissolved: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    contradicted: tuple[tuple[str, str], ...] = ()
    settled: tuple[tuple[str, str], ...] = ()
    relinked: bool = False
    exact: bool = True
    untold: tuple[str, ...] = ()


class IntrospectionReport(_Frozen):
    """What a palace holds, and what needs attention (sense-memory v2, "Introspection").

    `palace.introspection` defines each list. The most relevant memories come first.

    Attributes:
        created_at: the moment that the report describes, seconds since 1970.
        total_memories: the number of memories in any state.
        active, fading, forgotten, dissolved: the number of memories in this state.
        contradictions: pairs that are linked as contradicting, or of which one supersedes the other.
        conflicts: memories that keep an edit that lost against a concurrent one at `conflict_of`.
        stale_beliefs: beliefs with low confidence and low relevance.
        orphaned: active and fading memories without a connection.
        overloaded_facets: `domain/facet` with too many active memories.
        suggested_connections: pairs that could be connected.
        suggested_contradictions: pairs that seem to contradict each other.
        suggested_revisions: memories that may need updating.
        suggested_compressions: domains whose active memories fill a prompt.
        forgotten_memories: forgotten memories that an exact recall revives; those that dissolve first come first.
        reasons: by the name of a list above, a sentence for each of its items, in order: why the item is listed.
        bounded: lists that may be incomplete, each with the reason.
        changes: what changed since the last introspection; None if there was none.
        digest: the report in at most ten lines: the counts, the changes, the decisions to make, and the rest, the
            certain before the uncertain. The lines quote paths and reasons.
        log: the result of `to_log`.
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
    forgotten_memories: tuple[PersonaMemory, ...] = ()

    reasons: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    bounded: Mapping[str, str] = Field(default_factory=dict)
    changes: PalaceChanges | None = None
    digest: tuple[str, ...] = Field(default=(), repr=False)
    log: Mapping[str, Any] = Field(default_factory=dict, exclude=True)

    def to_log(self) -> dict[str, Any]:
        """The report for an introspection log: keys and counts, no texts; it fits one event.

        The next introspection takes the log as `previous`, see `palace.introspection_log.from_log`.
        """
        return dict(self.log)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Lists show as counts, because they would fill the screen; reasons are left out, because they quote themes."""
        for name, value in self:
            if name not in {"reasons", "log"}:
                yield name, len(value) if isinstance(value, tuple) else value
