"""The results of a search over everything: memories of every kind, each with the reasons why it was found."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(StrEnum):
    """The kind of memory that a hit is."""

    PALACE = "palace"  # a persona memory
    JOURNAL = "journal"  # a journal entry
    FLAT = "flat"  # a v1 memory


class Evidence(BaseModel):
    """One summand of a hit's score.

    Attributes:
        kind: "word", "prefix" or "phrase" for text of the memory; "neighbours" or "session" for what was said around
            it; "date" for when it was said; "speaker" for its source; "meaning" where there is an embedder.
        detail: the word as the query has it, in lower case and without accents ("photo*" for a beginning); the
            day (and how long after the days asked for), the source; empty where there is nothing to say.
        fields: the fields that contain the word: "key", "themes", "value".
        contribution: what this evidence adds to the score; the score is the sum of all contributions.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    detail: str = Field(default="", repr=False)
    fields: tuple[str, ...] = ()
    contribution: float


class Explanation(BaseModel):
    """Why a memory was found.

    Attributes:
        evidence: the largest contribution first.
        relevance: 0 to 1, or somewhat more where connections raise it; 1 for a memory that does not age.
        factor: the factor of the score for that relevance; the contributions include the factor.
        text: the reasons as a sentence.
    """

    model_config = ConfigDict(frozen=True)

    evidence: tuple[Evidence, ...]
    relevance: float
    factor: float
    text: str = Field(repr=False)

    @classmethod
    def of(cls, evidence: Sequence[Evidence], relevance: float, factor: float) -> Explanation:
        """An explanation from evidence, with its sentence."""
        listed = ", ".join(map(told, evidence)) or "nothing but its age"
        text = f"{listed}; relevance {relevance:.2f}"
        return cls(evidence=tuple(evidence), relevance=relevance, factor=factor, text=text)


class Hit(BaseModel):
    """A memory that was found.

    Attributes:
        kind: palace, journal or flat.
        path: `domain/facet/key` in the palace, the key of a flat memory, the event's id of a journal entry.
        value: the text.
        created_at: when it was first written, seconds since 1970.
        event_id: the event that holds it, 64 hex digits.
        source: where a persona memory came from; else empty.
        superseded_by: the path of the memory that replaced a persona memory; else None.
        score: higher is better; comparable within one search only.
        why: what the score is made of.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    path: str
    value: str = Field(repr=False)
    created_at: float
    event_id: str
    source: str = ""
    superseded_by: str | None = None
    score: float
    why: Explanation = Field(repr=False)


def told(item: Evidence) -> str:
    """A reason in words."""
    match item.kind:
        case "word" | "prefix":
            return f"{item.detail} in {' and '.join(item.fields)}"
        case "phrase":
            return f'"{item.detail}" in {" and ".join(item.fields)}'
        case "neighbours":
            return "what was said just before and after"
        case "session":
            return "what else was said that day"
        case "date":
            return f"told on {item.detail}"
        case "speaker":
            return f"from {item.detail}"
        case "meaning":
            return "what it means"
    return item.kind


# ── Where a search over everything may find something ───────────────────────────────────
# Where a search over everything may find something.


class Scope(NamedTuple):
    """What a search may find.

    Attributes:
        within: kinds.
        since: only memories first written then or later, seconds since 1970; None for all.
        source: only persona memories from this source; None for all.
    """

    within: frozenset[Kind]
    since: float | None = None
    source: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.since is None and self.source is None and len(self.within) == len(Kind)

    def is_from(self, source: str) -> bool:
        """Whether a persona memory of this source may be found; `tool` stands for every `tool:<name>`."""
        return self.source is None or source == self.source or source.startswith(f"{self.source}:")


def scope(within: Any, since: Any, source: Any) -> Scope:
    """The scope of a search, checked.

    Raises:
        InvalidInput: there is no such kind, or `since` is not a time, or `source` is not a text.
    """
    names = (within,) if isinstance(within, str) else within
    try:
        kinds = frozenset(Kind(name) for name in names)
    except (TypeError, ValueError):
        kinds = frozenset()
    if not kinds:
        raise InvalidInput(f"within must name some of {', '.join(Kind)}")
    if since is not None and (type(since) not in {int, float} or math.isnan(since)):
        raise InvalidInput("since must be a time, in seconds since 1970")
    if source is not None and not isinstance(source, str):
        raise InvalidInput("a source must be text")
    return Scope(kinds, since, source)
