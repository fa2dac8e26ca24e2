"""`palace show`: one memory with its life, its versions, its links, and the relays that hold it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli.invocation import JsonOption, of
from sense_memory.interfaces.cli.json_output import copy_data, palace_data, relay_data, version_data
from sense_memory.interfaces.cli.not_found import no_memory
from sense_memory.interfaces.cli.palace.group import INSIGHTS, command
from sense_memory.interfaces.cli.palace.naming import NameArgument, find, names
from sense_memory.interfaces.cli.palace.profile import MemoryProfile, links_of
from sense_memory.interfaces.cli.text import as_json, iso


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore

_HELD: Final = ("acked", "confirmed")


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

    async def work(store: MemoryStore) -> MemoryProfile:
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
        return MemoryProfile(memory, tuple(history), links, holders)

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(_data(found)))
        return
    from sense_memory.interfaces.cli.palace.life import print_life

    print_life(found, time.time(), versions)


def _data(found: MemoryProfile) -> dict[str, Any]:
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
