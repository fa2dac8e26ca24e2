"""`palace show`, `connect`, `disconnect`, `dismiss` and `contradict`: one memory, and its links with others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli import delivery
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    AcksOption,
    JsonOption,
    PalaceNameArgument,
    WaitOption,
)
from sense_memory.interfaces.cli.invocation import of
from sense_memory.interfaces.cli.names import events_of, find, no_memory, similar_to
from sense_memory.interfaces.cli.output import copy_data, palace_data, relay_data, version_data
from sense_memory.interfaces.cli.palace.group import INSIGHTS, LINKS, command
from sense_memory.interfaces.cli.palace.shapes import Life, MemoryProfile, links_of
from sense_memory.interfaces.cli.text import as_json, iso, one_line, quoted


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
    path: PalaceNameArgument,
    *,
    versions: Annotated[
        int, typer.Option("--versions", min=0, metavar="N", help="Show at most N versions of the text.")
    ] = 3,
    _json: JsonOption = False,
) -> None:
    """Show one memory with its life, its versions, its links, and the relays that hold it.

    Showing a memory does not revive it; `recall` does. The curve begins at the last access. Below the curve stand the
    bounds that make a memory fading (0.3), forgotten (0.1) and dissolved (0.01), each where the curve reaches it, and
    now.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> MemoryProfile:
        everything = await store.persona_recall(include_forgotten=True)
        memory = find(everything, path)
        if memory is None:
            raise no_memory(path, store.status(), similar_to(path, everything))
        try:
            history = await store.history(memory.path)
        except InvalidAddress:  # a name that another program wrote
            history = []
        known = store.holders(memory.event_id)
        holders = {url: known.get(url, "queued") for url in store.relays}
        links = tuple(links_of(memory, everything))
        return MemoryProfile(memory, tuple(history), links, holders)

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(_data(found)))
        return
    from sense_memory.interfaces.cli.palace.picture import print_life

    print_life(found, time.time(), versions)


def _data(found: MemoryProfile) -> dict[str, Any]:

    life = Life.of(found.memory)
    return {
        **palace_data(found.memory),
        "begins": {state: iso(at) for state, at in life.begins.items()},
        "links": [
            {"kind": link.kind, "path": link.path, "is_here": link.memory is not None} for link in found.links
        ],
        "versions": [version_data(found.memory.path, version) for version in found.versions],
        "relays": [
            relay_data(url, copy=copy_data({state: 1}, int(state in _HELD)))
            for url, state in found.holders.items()
        ],
    }


_WHICH = "DOMAIN/FACET/KEY, or a KEY that no other memory has."
FirstArgument = Annotated[str, typer.Argument(metavar="A", show_default=False, help=f"A memory: {_WHICH}")]
SecondArgument = Annotated[str, typer.Argument(metavar="B", show_default=False, help="Another one.")]
_FEWER = {3: "linked here, but fewer relays than --require-acks accepted it"}


@command(LINKS, "sense-memory palace connect people/facts/lisa projects/facts/workshop", codes=_FEWER)
def connect(
    context: typer.Context,
    *,
    one: FirstArgument,
    other: SecondArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Connect two memories, both ways. Each connection adds a tenth to the relevance of both."""

    async def change(store: MemoryStore) -> None:
        await store.persona_connect(one, other)

    _link(context, (one, other), change, ("connected", "connected"), (wait, require_acks))


@command(LINKS, "sense-memory palace disconnect people/facts/lisa projects/facts/workshop", codes=_FEWER)
def disconnect(
    context: typer.Context,
    *,
    one: FirstArgument,
    other: SecondArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Remove the connection between two memories. If they are not connected, nothing changes."""

    async def change(store: MemoryStore) -> None:
        await store.persona_disconnect(one, other)

    _link(context, (one, other), change, ("disconnected", "not connected"), (wait, require_acks))


@command(LINKS, "sense-memory palace dismiss people/facts/lisa projects/facts/workshop", codes=_FEWER)
def dismiss(
    context: typer.Context,
    *,
    one: FirstArgument,
    other: SecondArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Decline a connection or a contradiction that `introspect` suggested, for good."""

    async def change(store: MemoryStore) -> None:
        await store.persona_dismiss(one, other)

    _link(context, (one, other), change, ("dismissed", "not suggested again"), (wait, require_acks))


@command(
    LINKS,
    "# Lisa has moved:",
    "sense-memory palace contradict people/facts/lisa-home people/facts/lisa-moved",
    codes={3: "marked here, but fewer relays than --require-acks accepted it"},
)
def contradict(
    context: typer.Context,
    *,
    old: Annotated[
        str, typer.Argument(metavar="OLD", show_default=False, help=f"The memory that is wrong: {_WHICH}")
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", show_default=False, help="The memory that is right.")],
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Mark a memory as contradicted and superseded by another: it loses half its relevance and fades four times faster.

    `remember` does this by itself if the contradiction is plain. Both memories stay readable; `undo` of the old one
    takes the mark away.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[str]]:
        await store.persona_contradict(old, new)
        first, second = await events_of(store, (old, new))
        return await delivery.send(store, [(await events_of(store, [first]))[first]], wait), [first, second]

    written, (first, second) = invocation.run(work)
    result = {"link": "contradicted", "paths": [first, second]}
    try:
        done = f"superseded by {one_line(second)}: {one_line(first)}"
        delivery.end(invocation, written, done, result, require_acks)
    finally:
        if not invocation.as_json:
            typer.echo(f"To take that back: sense-memory undo {quoted(first)}")


def _link(
    context: typer.Context,
    pair: tuple[str, str],
    change: Callable[[MemoryStore], Awaitable[None]],
    words: tuple[str, str],
    ending: tuple[float, int],
) -> None:
    """Change the link between two memories, and report the change."""
    wait, require_acks = ending
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)
    name, done = words

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[str]]:
        await change(store)
        events = await events_of(store, pair)
        return await delivery.send(store, list(events.values()), wait), list(events)

    written, paths = invocation.run(work)
    shown = " and ".join(one_line(path) for path in paths)
    delivery.end(invocation, written, f"{done}: {shown}", {"link": name, "paths": paths}, require_acks)
