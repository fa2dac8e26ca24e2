"""What a user holds: frozen, validated, with a JSON schema. Reprs show addresses, never texts."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sense_memory.limits import DEFAULT_HALFLIFE_DAYS, MAX_HALFLIFE_DAYS


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
    """A memory that could not be written because this clock was wrong: kept on this machine only, sealed.

    Attributes:
        number: names it to `publish_draft` and `discard_draft`.
        key: where it was to be written.
        value: its text.
        created_at: when, by the clock of then, seconds since 1970.
    """

    number: int
    key: str
    value: str = Field(repr=False)
    created_at: float


class State(StrEnum):
    """Where a persona memory stands in its life, by its relevance (sense-memory v2, "State Transitions")."""

    ACTIVE = "active"  # above 0.3
    FADING = "fading"  # 0.1 to 0.3
    FORGOTTEN = "forgotten"  # 0.01 to 0.1
    DISSOLVED = "dissolved"  # below 0.01


Timestamp = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


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
        dismissed: memories with which a suggested connection was declined; it is not suggested again.
        conflict_of: the path whose concurrent edit lost and is kept here.
        seen: a version vector: device id to that device's count of edits that this version knows.
        event_id: the event that holds it, 64 hex digits; empty before it is written.
    """

    domain: str
    facet: str
    key: str
    value: str = Field(repr=False)

    relevance: Share = 1.0
    halflife_days: Annotated[float, Field(gt=0, le=MAX_HALFLIFE_DAYS)] = DEFAULT_HALFLIFE_DAYS
    last_accessed: Timestamp
    last_reinforced: Timestamp
    access_count: Annotated[int, Field(ge=0)] = 0

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
    seen: Mapping[str, int] = Field(default_factory=dict, repr=False)
    event_id: str = ""

    @model_validator(mode="before")
    @classmethod
    def _dated(cls, data: Any) -> Any:
        """A memory that nobody has accessed or reinforced counts from when it was written."""
        if isinstance(data, dict) and "created_at" in data:
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
