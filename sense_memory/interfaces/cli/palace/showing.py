"""`palace show`: one memory with its life, its versions, its links, and the relays that hold it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli.invocation import JsonOption, of
from sense_memory.interfaces.cli.json_output import copy_data, palace_data, relay_data, version_data
from sense_memory.interfaces.cli.not_found import no_memory
from sense_memory.interfaces.cli.palace.group import INSIGHTS, command
from sense_memory.interfaces.cli.palace.naming import NameArgument, find, names
from sense_memory.interfaces.cli.text import as_json, iso


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.store import MemoryStore
    from sense_memory.timeline import Version

_HELD: Final = ("acked", "confirmed")


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
class Shown:
    """All that is shown of one memory. `holders` says of each relay what it did with its event."""

    memory: PersonaMemory
    versions: tuple[Version, ...]
    links: tuple[Link, ...]
    holders: dict[str, str]


@command(
    INSIGHTS,
    "sense-memory palace show people/facts/lisa",
    "sense-memory palace show lisa --json",
    codes={4: "no such memory"},
)
def show(
    context: typer.Context,
    path: NameArgument,
    *,
    versions: Annotated[
        int, typer.Option("--versions", min=0, metavar="N", help="How many versions of the text at most.")
    ] = 3,
    _json: JsonOption = False,
) -> None:
    """Show one memory with its life, its versions, its links, and the relays that hold it.

    Looking is no access: it stays as it is, and goes on fading. `recall` is what revives it. The curve begins at the
    last access; below it stand the bounds that make a memory fading (0.3), forgotten (0.1) and dissolved (0.01), each
    where the curve reaches it, and now.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> Shown:
        everything = await store.persona_recall(include_forgotten=True)
        memory = find(everything, path)
        if memory is None:
            raise no_memory(path, store.status(), names(path, everything))
        try:
            history = await store.history(memory.path)
        except InvalidAddress:  # a name that another program gave it
            history = []
        known = store.holders(memory.event_id)
        holders = {url: known.get(url, "queued") for url in store.relays}
        links = tuple(links_of(memory, everything))
        return Shown(memory, tuple(history), links, holders)

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(_data(found)))
        return
    from sense_memory.interfaces.cli.palace.life import print_life

    print_life(found, time.time(), versions)


def links_of(memory: PersonaMemory, everything: Sequence[PersonaMemory]) -> list[Link]:
    """The links of a memory and those that lead to it, each other memory once for each kind."""
    from sense_memory.palace.links import Links

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


def _data(found: Shown) -> dict[str, Any]:
    from sense_memory.interfaces.cli.palace.curve import Life

    life = Life.of(found.memory)
    return {
        **palace_data(found.memory),
        "begins": {state.value: iso(at) for state, at in life.begins.items()},
        "links": [
            {"kind": link.kind, "path": link.path, "is_here": link.memory is not None} for link in found.links
        ],
        "versions": [version_data(found.memory.path, version) for version in found.versions],
        "relays": [
            relay_data(url, copy=copy_data({state: 1}, int(state in _HELD)))
            for url, state in found.holders.items()
        ],
    }
