"""Drawings of the palace as plain values: bars, domains and facets, the life of one memory, its links. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from math import log2
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.text import bracketed, caution, one_line, state_mark
from sense_memory.limits import ACTIVE_ABOVE, DAY_SECONDS, FADING_FROM, FORGOTTEN_FROM, SUPERSEDED_FACTOR


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.ledger.copies import MemoryCopies
    from sense_memory.memories.history import Version
    from sense_memory.models import PersonaMemory

BAR_CHARS: Final = 8

MAX_FACETS: Final = 12  # of one domain to draw, unless all are wanted

STYLES: Final[Mapping[str, str]] = {
    "active": "green",
    "fading": "yellow",
    "forgotten": "bright_black",
    "dissolved": "red",
}

BOUNDS: Final = {  # the relevance below which each state begins
    "fading": ACTIVE_ABOVE,
    "forgotten": FADING_FROM,
    "dissolved": FORGOTTEN_FROM,
}


class StateChoice(StrEnum):
    """The states of memories, as on the command line: those of `models.State`, without its import."""

    ACTIVE = "active"
    FADING = "fading"
    FORGOTTEN = "forgotten"
    DISSOLVED = "dissolved"


class StyleChoice(StrEnum):
    """The styles of a prompt, as on the command line."""

    BRACKETED = "bracketed"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Insight:
    """A memory with its current relevance."""

    memory: PersonaMemory
    relevance: float


@dataclass(frozen=True, slots=True)
class DrawnFacet:
    """A facet: its name, how many memories it has, and those to draw, the most relevant first."""

    name: str
    count: int
    insights: tuple[Insight, ...]


@dataclass(frozen=True, slots=True)
class DrawnDomain:
    """A domain: its name, how many memories and facets it has, and the facets to draw."""

    name: str
    count: int
    facet_count: int
    facets: tuple[DrawnFacet, ...]


def arrange(insights: Iterable[Insight], limit: int | None) -> list[DrawnDomain]:
    """Memories by domain and facet, both in order of names.

    Args:
        insights: the most relevant first.
        limit: how many of each facet are drawn; None draws everything.
    """
    by_domain: dict[str, dict[str, list[Insight]]] = {}
    for insight in insights:
        memory = insight.memory
        by_domain.setdefault(memory.domain, {}).setdefault(memory.facet, []).append(insight)
    domains = []
    for name, facets in sorted(by_domain.items()):
        drawn = [
            DrawnFacet(facet, len(found), tuple(found[:limit])) for facet, found in sorted(facets.items())
        ]
        bound = None if limit is None else MAX_FACETS
        domains.append(
            DrawnDomain(name, sum(facet.count for facet in drawn), len(drawn), tuple(drawn[:bound]))
        )
    return domains


def bar(relevance: float, *, width: int = BAR_CHARS, is_ascii: bool = False) -> str:
    """A relevance as a bar; above 1 the bar is full, and above 0 it is never empty."""
    full, empty = ("#", "-") if is_ascii else ("█", "░")
    count = min(width, round(relevance * width))
    if not count and relevance >= 0.01:
        count = 1
    return full * count + empty * (width - count)


def excerpt(memory: PersonaMemory, limit: int | None = None) -> str:
    """A memory's text on one line, after a note why it may not hold, if there is a reason; see `hit_caution`."""
    place = f"{memory.domain}/{memory.facet}/"
    is_hit = hasattr(memory, "why")
    note = "; ".join(filter(None, (state_mark(memory.state) if is_hit else "", caution(memory, place))))
    return bracketed(note) + one_line(memory.value, limit)


def counted(states: Mapping[str, int]) -> str:
    """Counts of states in words, the liveliest first: "11 active, 2 fading"; empty where there are none."""
    return ", ".join(f"{states[state]:,} {state}" for state in StateChoice if states.get(state))


def tally(insights: Sequence[Insight]) -> dict[str, int]:
    """How many memories are in each state, all four named."""
    found = dict.fromkeys((state.value for state in StateChoice), 0)
    for insight in insights:
        found[insight.memory.state.value] += 1
    return found


@dataclass(frozen=True, slots=True)
class Life:
    """When a memory fades, if it is not recalled.

    Attributes:
        start: its last access, seconds since 1970.
        first: its relevance at `start`.
        begins: when fading, forgotten and dissolved begin, seconds since 1970; `start` for a state that it began in.
    """

    start: float
    first: float
    begins: dict[str, float]

    @classmethod
    def of(cls, memory: PersonaMemory) -> Life:
        """The life of a memory from its last access on."""
        from sense_memory.palace.lifecycle import current_relevance

        start = memory.last_accessed
        first = current_relevance(memory, start)
        halving = memory.halflife_days * DAY_SECONDS / (SUPERSEDED_FACTOR if memory.superseded_by else 1)
        begins = {
            state: start + halving * max(0.0, log2(first / bound)) if first > 0 else start
            for state, bound in BOUNDS.items()
        }
        return cls(start, first, begins)


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """A link of a memory with another.

    Attributes:
        kind: in words that begin a sentence, such as "connected with".
        path: the other, as the link names it.
        memory: the other memory, or None where it is not here.
    """

    kind: str
    path: str
    memory: PersonaMemory | None


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """All details to show of one memory. `holders` gives the state of its event at each relay, `copies` counts them."""

    memory: PersonaMemory
    versions: tuple[Version, ...]
    links: tuple[MemoryLink, ...]
    holders: dict[str, str]
    copies: MemoryCopies


def links_of(memory: PersonaMemory, everything: Sequence[PersonaMemory]) -> list[MemoryLink]:
    """The links from a memory and to it, each other memory once for each kind."""
    from sense_memory.palace.connections import Links

    links = Links(everything)
    places = {other.path: other for other in everything}

    def other(kind: str, name: str) -> MemoryLink:
        at = links.place(name)
        path = name if at is None else links.paths[at]
        return MemoryLink(kind, path, places.get(path))

    own = links.place(memory.path)
    found = [other("connected with", name) for name in memory.connections]
    if memory.superseded_by is not None:
        found.append(other("superseded by", memory.superseded_by))
    found += [other("contradicted by", name) for name in memory.contradicts if name != memory.superseded_by]
    found += [other("perhaps contradicted by", path) for path in memory.suspected_by]
    if memory.conflict_of is not None:
        found.append(other("lost a concurrent edit to", memory.conflict_of))
    named = {link.path for link in found}
    naming = {owner for owner, meant in zip(*links.connected, strict=True) if meant == own}
    for at, theirs in enumerate(everything):
        if at == own:
            continue
        if at in naming and theirs.path not in named:
            found.append(MemoryLink("connected from", theirs.path, theirs))
        if own in links.opposed.get(at, ()):
            replaced = theirs.superseded_by is not None and links.place(theirs.superseded_by) == own
            found.append(MemoryLink("supersedes" if replaced else "contradicts", theirs.path, theirs))
        if memory.path in theirs.suspected_by:
            found.append(MemoryLink("perhaps contradicts", theirs.path, theirs))
        if theirs.conflict_of == memory.path:
            found.append(MemoryLink("won a concurrent edit over", theirs.path, theirs))
    found += [other("no suggestions with", name) for name in memory.dismissed]
    return list({(link.kind, link.path): link for link in found}.values())


def texts(versions: Iterable[Version]) -> list[Version]:
    """The versions with a new text, newest first: other versions only counted accesses or changed links."""
    found = []
    for _, same in groupby(versions, key=lambda version: version.value):
        run = list(same)
        found.append(replace(run[-1], is_head=any(version.is_head for version in run)))
    return found
