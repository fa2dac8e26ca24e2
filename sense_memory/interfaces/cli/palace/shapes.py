"""The palace as shapes to draw: bars, and memories in the order of domains and facets, so many of each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.cli.text import one_line, superseded


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sense_memory.models import PersonaMemory

BAR_CHARS: Final = 8
MAX_FACETS: Final = 12  # of one domain that are drawn, unless all are wanted


class Shown(StrEnum):
    """The states of memories, as on the command line: those of `models.State`, without its import."""

    ACTIVE = "active"
    FADING = "fading"
    FORGOTTEN = "forgotten"
    DISSOLVED = "dissolved"


STYLES: Final[Mapping[str, str]] = {
    "active": "green",
    "fading": "yellow",
    "forgotten": "bright_black",
    "dissolved": "red",
}


@dataclass(frozen=True, slots=True)
class Insight:
    """A memory with what time has left of it."""

    memory: PersonaMemory
    relevance: float


@dataclass(frozen=True, slots=True)
class Facet:
    """A facet: its name, how many memories it has, and those to draw, the most relevant first."""

    name: str
    count: int
    insights: tuple[Insight, ...]


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain: its name, how many memories and facets it has, and the facets to draw."""

    name: str
    count: int
    facet_count: int
    facets: tuple[Facet, ...]


def arrange(insights: Iterable[Insight], limit: int | None) -> list[Domain]:
    """Memories by domain and facet, both in order of names.

    Args:
        insights: the most relevant first.
        limit: how many of each facet are drawn; None draws everything.
    """
    shelves: dict[str, dict[str, list[Insight]]] = {}
    for insight in insights:
        memory = insight.memory
        shelves.setdefault(memory.domain, {}).setdefault(memory.facet, []).append(insight)
    domains = []
    for name, facets in sorted(shelves.items()):
        drawn = [Facet(facet, len(found), tuple(found[:limit])) for facet, found in sorted(facets.items())]
        bound = None if limit is None else MAX_FACETS
        domains.append(Domain(name, sum(facet.count for facet in drawn), len(drawn), tuple(drawn[:bound])))
    return domains


def bar(relevance: float, *, width: int = BAR_CHARS, is_ascii: bool = False) -> str:
    """How much is left, as a bar; what is above 1 is full, and what is left at all is never empty."""
    full, empty = ("#", "-") if is_ascii else ("█", "░")
    count = min(width, round(relevance * width))
    if not count and relevance >= 0.01:
        count = 1
    return full * count + empty * (width - count)


def excerpt(memory: PersonaMemory, limit: int | None = None) -> str:
    """A memory's text on one line, and before it that another has replaced it, if one has."""
    by = memory.superseded_by and memory.superseded_by.removeprefix(f"{memory.domain}/{memory.facet}/")
    return superseded(by) + one_line(memory.value, limit)


def counted(states: Mapping[str, int]) -> str:
    """Counts of states in words, the liveliest first: "11 active, 2 fading"; empty where there are none."""
    return ", ".join(f"{states[state]:,} {state}" for state in Shown if states.get(state))


def tally(insights: Sequence[Insight]) -> dict[str, int]:
    """How many memories are in each state, all four named."""
    found = dict.fromkeys((state.value for state in Shown), 0)
    for insight in insights:
        found[insight.memory.state.value] += 1
    return found
