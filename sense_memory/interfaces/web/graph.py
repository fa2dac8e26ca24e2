"""Which memories the page draws as a graph, and their links: pure, and never more than a page can draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sense_memory.palace import current_relevance


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.models import PersonaMemory

MAX_NODES: Final = 160


@dataclass(frozen=True, slots=True)
class LinkedMemories:
    """The memories of one drawing.

    Attributes:
        paths: of the memories, at most `MAX_NODES`.
        edges: the links between them: two places in `paths`, and "connection" or "contradiction".
        reachable: how many memories the drawing would have without the limit.
        domains: all domains with linked memories, those with the most linked memories first.
    """

    paths: list[str]
    edges: list[tuple[int, int, str]]
    reachable: int
    domains: list[str]


def linked(
    memories: Mapping[str, PersonaMemory], now: float, *, around: str | None, domain: str | None
) -> LinkedMemories:
    """The memories to draw.

    Args:
        memories: all, by path.
        now: seconds since 1970.
        around: a path: this memory, its linked memories, and theirs, the nearest first. None for the most linked
            memories, each with its linked memories.
        domain: only the most linked memories of this domain, with their linked memories of any domain.
    """
    links = _links(memories.values(), memories)
    degrees = {path: len(others) for path, others in links.items() if others}
    if around is not None:
        found = _neighbourhood(around, links)
    else:
        wanted = [path for path in degrees if domain in {None, memories[path].domain}]
        hubs = sorted(
            wanted, key=lambda path: (-degrees[path], -current_relevance(memories[path], now), path)
        )
        found = _with_neighbours(hubs, links)
    paths = found[:MAX_NODES]
    places = {path: place for place, path in enumerate(paths)}
    edges = {
        (min(places[one], places[other]), max(places[one], places[other]), kind)
        for one in paths
        for other, kind in links[one].items()
        if other in places
    }
    domains = Counter(memories[path].domain for path in degrees)
    return LinkedMemories(
        paths, sorted(edges), len(found), sorted(domains, key=lambda name: (-domains[name], name))
    )


def _links(memories: Iterable[PersonaMemory], known: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """By path, the linked memories, both ways, with the kind of link; a contradiction hides a connection."""
    links: dict[str, dict[str, str]] = {path: {} for path in known}
    for memory in memories:
        kinds = dict.fromkeys(memory.connections, "connection")
        kinds |= dict.fromkeys(memory.contradicts, "contradiction")
        if memory.superseded_by is not None:
            kinds[memory.superseded_by] = "contradiction"
        for other, kind in kinds.items():
            if other in links and links[memory.path].get(other) != "contradiction":
                links[memory.path][other] = links[other][memory.path] = kind
    return links


def _with_neighbours(hubs: Iterable[str], links: Mapping[str, Iterable[str]]) -> list[str]:
    """The hubs, each followed by the memories that are linked with it."""
    found: dict[str, None] = {}
    for hub in hubs:
        found |= dict.fromkeys((hub, *links[hub]))
    return list(found)


def _neighbourhood(path: str, links: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A memory, its linked memories, and theirs, the nearest first."""
    found = dict.fromkeys([path] if path in links else [])
    for _ in range(2):
        for one in list(found):
            found |= dict.fromkeys(links[one])
    return list(found)
