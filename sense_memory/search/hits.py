"""The results of a search over everything: memories of every kind, each with the reasons why it was found."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, SupportsIndex, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field

from sense_memory.errors import InvalidInput
from sense_memory.models import State
from sense_memory.search.confidence import LOW_CONFIDENCE, of_answer
from sense_memory.search.tokens import fold


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.models import PersonaMemory


_H = TypeVar("_H")

NOT_QUOTED: Final = "no memory has all that is quoted"  # in the reasons of hits that were found all the same


class Kind(StrEnum):
    """The kind of memory that a hit is."""

    PALACE = "palace"  # a palace memory
    JOURNAL = "journal"  # a journal entry
    FLAT = "flat"  # a v1 memory
    FILE = "file"  # a mirrored file


class Evidence(BaseModel):
    """One summand of a hit's score.

    Attributes:
        kind: "word", "prefix" or "phrase" for text of the memory; "neighbours" or "session" for what was said around
            it; "date" for when it was said; "speaker" for its source; "meaning" where there is an embedder;
            "supersedes", "later" and "newest" for what the hit has from a memory that it passes: one that it
            supersedes, one that it may contradict, or an older one where the question asks for what holds now; "named"
            for a memory that has a rare name of the first hit, and ranks after the direct hits.
        detail: the word as the query has it, in lower case and without accents ("photo*" for a beginning); the
            day (and how long after the days asked for), the source, the path of the superseded memory; empty where there
            is nothing to say.
        fields: the fields that contain the word: "key", "themes", "value".
        contribution: what this evidence adds to the score; the score is the sum of all contributions.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)  # a command builds those that it uses

    kind: str
    detail: str = Field(default="", repr=False)
    fields: tuple[str, ...] = ()
    contribution: float


class Explanation(BaseModel):
    """Why a memory was found.

    Attributes:
        evidence: the contributions to the score, largest first.
        relevance: 0 to 1, or somewhat more with connections; 1 for a memory that does not age.
        factor: the factor of the score for that relevance; the contributions include the factor.
        text: the reasons as a sentence.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)  # a command builds those that it uses

    evidence: tuple[Evidence, ...]
    relevance: float
    factor: float
    text: str = Field(repr=False)

    @classmethod
    def of(cls, evidence: Sequence[Evidence], relevance: float, factor: float) -> Explanation:
        """An explanation from evidence, with the reasons as a sentence."""
        listed = ", ".join(map(told, evidence)) or "nothing but its age"
        text = f"{listed}; relevance {relevance:.2f}"
        return cls(evidence=tuple(evidence), relevance=relevance, factor=factor, text=text)

    def noting(self, note: str) -> Self:
        """This explanation with a note at the end of its sentence."""
        return self.model_copy(update={"text": f"{self.text}; {note}"}) if note else self


class Hit(BaseModel):
    """A memory that was found.

    Attributes:
        kind: palace, journal, flat or file.
        path: `domain/facet/key` in the palace, the key of a flat memory, the event's id of a journal entry, and
            `project:name` of a mirrored file.
        key: the last part of the path.
        domain, facet, themes, state: of a palace memory, its state at the time of the search; else None, or empty.
        value: the text; of a long mirrored file the lines around the best match.
        created_at: when it was first written, seconds since 1970.
        written_at: when its text was written, which is later where the text of a palace memory was changed.
        event_id: the event that holds it, 64 hex digits.
        source: where a palace memory or a flat one came from; else empty.
        session, derived_from, sources: as of the memory: its session, what it was made of, and the sources of that.
        superseded_by: the path of the memory that replaced a palace memory; else None.
        suspected_by: the paths of later memories that may contradict a palace memory, the latest first.
        conflict_of: the path at which a concurrent edit lost, if a palace memory keeps that edit; else None.
        score: higher is better; comparable within one search only.
        answer_confidence: the estimated probability that it answers the query, 0 to 1; comparable across searches and
            stores. (`confidence` of a palace memory is how certain that memory is, whatever is asked.)
        why: what the score is made of.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)  # a command builds those that it uses

    kind: Kind
    path: str
    key: str
    domain: str | None = None
    facet: str | None = None
    themes: tuple[str, ...] = Field(default=(), repr=False)
    state: State | None = None
    value: str = Field(repr=False)
    created_at: float
    written_at: float
    event_id: str
    source: str = ""
    session: str = Field(default="", repr=False)
    derived_from: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    superseded_by: str | None = None
    suspected_by: tuple[str, ...] = ()
    conflict_of: str | None = None
    score: float
    answer_confidence: float = 0.0
    why: Explanation = Field(repr=False)

    def __str__(self) -> str:
        """The text alone; `repr` shows everything else."""
        return self.value

    @classmethod
    def of(
        cls,
        memory: PersonaMemory,
        state: State,
        score: float,
        why: Explanation,
        answer_confidence: float = 0.0,
    ) -> Self:
        """The hit of a palace memory that is in this state now."""
        return cls(
            kind=Kind.PALACE,
            path=memory.path,
            key=memory.key,
            domain=memory.domain,
            facet=memory.facet,
            themes=tuple(memory.themes),
            state=state,
            value=memory.value,
            created_at=memory.created_at,
            written_at=memory.written_at,
            event_id=memory.event_id,
            source=memory.source,
            session=memory.session,
            derived_from=memory.derived_from,
            sources=memory.sources,
            superseded_by=memory.superseded_by,
            conflict_of=memory.conflict_of,
            score=score,
            answer_confidence=answer_confidence,
            why=why,
        )


class Hits(list[_H]):
    """The hits of one search, the best first: a list that also knows what it leaves out.

    It compares and prints as the list that it is. A slice knows the same; a sum or a sorted copy is a plain list.

    Attributes:
        forgotten: how many forgotten or dissolved palace memories the query directly means and the hits leave out; 0
            where the search was for one state.
        confidence: the estimated probability that any of the hits answers the query, 0 to 1: that of the surest hit.
        is_doubtful: whether there are hits, and probably none of them answers the query.
    """

    def __init__(self, hits: Iterable[_H] = (), *, forgotten: int = 0) -> None:
        super().__init__(hits)
        self.forgotten = forgotten

    @overload
    def __getitem__(self, at: SupportsIndex, /) -> _H: ...
    @overload
    def __getitem__(self, at: slice, /) -> Hits[_H]: ...
    def __getitem__(self, at: SupportsIndex | slice, /) -> _H | Hits[_H]:
        return self.replaced(super().__getitem__(at)) if isinstance(at, slice) else super().__getitem__(at)

    @property
    def confidence(self) -> float:
        """The estimated probability that any of the hits answers the query, 0 to 1; 0 without hits."""
        return of_answer(getattr(hit, "answer_confidence", 0.0) for hit in self)

    @property
    def is_doubtful(self) -> bool:
        """Whether there are hits, and probably none of them answers the query."""
        return bool(self) and self.confidence < LOW_CONFIDENCE

    def replaced(self, hits: Iterable[_H]) -> Hits[_H]:
        """Other hits of the same search, such as the same ones with more fields."""
        return Hits(hits, forgotten=self.forgotten)


def told(item: Evidence) -> str:
    """A piece of evidence in words."""
    match item.kind:
        case "named":
            return item.detail
        case "word" | "prefix":
            return f"{item.detail} in {' and '.join(item.fields)}"
        case "phrase":
            return f'"{item.detail}" in {" and ".join(item.fields)}'
        case "neighbours":
            return "what was said just before and after"
        case "session":
            return "what else was said that day"
        case "date":
            return f"told on {item.detail}" if item.detail[:1].isdigit() else item.detail
        case "speaker":
            return f"from {item.detail}"
        case "meaning":
            return "what it means"
        case "supersedes":
            return f"supersedes {item.detail}"
        case "later":
            return f"later than {item.detail}, and may contradict it"
        case "newest":
            return f"newer than {item.detail}, and the question asks for what holds now"
    return item.kind


# ── The scope of a search ───────────────────────────────────────────────────────────────


class Scope(NamedTuple):
    """The memories that a search may find.

    Attributes:
        within: the kinds of memories.
        since: only memories first written at this time or later, seconds since 1970; None for all.
        source: only palace memories from this source; None for all.
        domain, facet, theme: only palace memories of it; None for all.
        state: only palace memories in this state, with "forgotten" dissolved ones too; None for active ones, and
            fading ones that the query directly means.
        forgotten: without a state: forgotten and dissolved ones that the query directly means follow the others.
        without: the names of memories that a rule keeps back: paths, and keys of flat memories.
    """

    within: frozenset[Kind]
    since: float | None = None
    source: str | None = None
    domain: str | None = None
    facet: str | None = None
    theme: str | None = None
    state: State | None = None
    forgotten: bool = False
    without: frozenset[str] = frozenset()

    @property
    def is_all(self) -> bool:
        """Whether a search may find every memory."""
        return not self.narrows and self.state is None and len(self.within) == len(Kind)

    @property
    def narrows(self) -> bool:
        """Whether some memories of a kind are excluded by another property than the kind."""
        parts = self.since, self.source, self.domain, self.facet, self.theme
        return bool(self.without) or any(part is not None for part in parts)

    def holds(self, memory: PersonaMemory) -> bool:
        """Whether a palace memory may be found, apart from its state."""
        if memory.path in self.without or (self.since is not None and memory.created_at < self.since):
            return False
        if self.domain not in {None, memory.domain} or self.facet not in {None, memory.facet}:
            return False
        if self.theme is not None and fold(self.theme) not in map(fold, memory.themes):
            return False
        return self.is_from(memory.source)

    def is_from(self, source: str) -> bool:
        """Whether a palace memory from a source may be found; the scope `tool` includes every `tool:<name>`."""
        return self.source is None or source == self.source or source.startswith(f"{self.source}:")


PALACE: Final = Scope(frozenset({Kind.PALACE}))  # every palace memory


def scope(
    within: Any, since: Any, source: Any, *, state: Any = None, forgotten: bool = False, **parts: Any
) -> Scope:
    """The scope of a search, checked. Only palace memories have a domain, facet, theme and state.

    Raises:
        InvalidInput: there is no such kind or state, or `since` is not a time, or another argument is not a text.
    """
    names = (within,) if isinstance(within, str) else within
    try:
        kinds = frozenset(Kind(name) for name in names)
    except (TypeError, ValueError):
        kinds = frozenset()
    if not kinds:
        raise InvalidInput(f"within must name one or more of {', '.join(Kind)}")
    if since is not None and (type(since) not in {int, float} or math.isnan(since)):
        raise InvalidInput("since must be a time, in seconds since 1970")
    if not isinstance(forgotten, bool):
        raise InvalidInput("include_forgotten must be True, False or None")
    for name, part in {"source": source, **parts}.items():
        if part is not None and not isinstance(part, str):
            raise InvalidInput(f"a {name} must be text")
    if state is not None and state not in list(State):
        raise InvalidInput(f"state must be one of {', '.join(State)}")
    if state is not None or any(part is not None for part in parts.values()):
        kinds &= {Kind.PALACE}
        if not kinds:
            raise InvalidInput("only the palace has domains, facets, themes and states: search within it")
    known = None if state is None else State(state)
    return Scope(kinds, since, source, state=known, forgotten=forgotten, **parts)
