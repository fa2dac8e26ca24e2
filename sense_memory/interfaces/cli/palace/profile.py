"""One memory with everything that is known of it: its versions, its links, and the relays that hold it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.memories.history import Version
    from sense_memory.models import PersonaMemory


@dataclass(frozen=True, slots=True)
class Link:
    """What a memory has to do with another.

    Attributes:
        kind: in words that begin a sentence, such as "connected with".
        path: the other, as the link names it.
        memory: the other, or None where it is not here.
    """

    kind: str
    path: str
    memory: PersonaMemory | None


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """All that is shown of one memory. `holders` says of each relay what it did with its event."""

    memory: PersonaMemory
    versions: tuple[Version, ...]
    links: tuple[Link, ...]
    holders: dict[str, str]


def links_of(memory: PersonaMemory, everything: Sequence[PersonaMemory]) -> list[Link]:
    """The links of a memory and those that lead to it, each other memory once for each kind."""
    from sense_memory.palace.connections import Links

    links = Links(everything)
    places = {other.path: other for other in everything}

    def other(kind: str, name: str) -> Link:
        at = links.place(name)
        path = name if at is None else links.paths[at]
        return Link(kind, path, places.get(path))

    own = links.place(memory.path)
    found = [other("connected with", name) for name in memory.connections]
    if memory.superseded_by is not None:
        found.append(other("superseded by", memory.superseded_by))
    found += [other("contradicted by", name) for name in memory.contradicts if name != memory.superseded_by]
    if memory.conflict_of is not None:
        found.append(other("lost a concurrent edit to", memory.conflict_of))
    named = {link.path for link in found}
    naming = {owner for owner, meant in zip(*links.connected, strict=True) if meant == own}
    for at, theirs in enumerate(everything):
        if at == own:
            continue
        if at in naming and theirs.path not in named:
            found.append(Link("connected from", theirs.path, theirs))
        if own in links.opposed.get(at, ()):
            replaced = theirs.superseded_by is not None and links.place(theirs.superseded_by) == own
            found.append(Link("supersedes" if replaced else "contradicts", theirs.path, theirs))
        if theirs.conflict_of == memory.path:
            found.append(Link("won a concurrent edit over", theirs.path, theirs))
    found += [other("not to be connected with", name) for name in memory.dismissed]
    return list({(link.kind, link.path): link for link in found}.values())


def texts(versions: Iterable[Version]) -> list[Version]:
    """The versions that said something new, newest first: others only counted accesses or changed links."""
    found = []
    for _, same in groupby(versions, key=lambda version: version.value):
        run = list(same)
        found.append(replace(run[-1], is_head=any(version.is_head for version in run)))
    return found
