"""`palace connect`, `disconnect`, `dismiss` and `contradict`: what two memories have to do with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli import writing
from sense_memory.interfaces.cli.invocation import JsonOption, of
from sense_memory.interfaces.cli.palace.group import LINKS, command
from sense_memory.interfaces.cli.palace.naming import events_of
from sense_memory.interfaces.cli.text import one_line, quoted
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, AcksOption, WaitOption


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sense_memory.store import MemoryStore

_WHICH = "DOMAIN/FACET/KEY, or a KEY that no other memory has."
FirstArgument = Annotated[str, typer.Argument(metavar="A", show_default=False, help=f"A memory: {_WHICH}")]
SecondArgument = Annotated[str, typer.Argument(metavar="B", show_default=False, help="Another one.")]
_FEWER = {3: "linked here, but fewer relays than --require-acks have it"}


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
    """Take the connection between two memories away. Where there is none, nothing happens."""

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
    codes={3: "marked here, but fewer relays than --require-acks have it"},
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

    `remember` does this by itself where the contradiction is plain. Both memories stay readable; `undo` of the old one
    takes the mark away.
    """
    writing.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[writing.Written, list[str]]:
        await store.persona_contradict(old, new)
        first, second = await events_of(store, (old, new))
        return await writing.send(store, [(await events_of(store, [first]))[first]], wait), [first, second]

    written, (first, second) = invocation.run(work)
    result = {"link": "contradicted", "paths": [first, second]}
    try:
        done = f"superseded by {one_line(second)}: {one_line(first)}"
        writing.end(invocation, written, done, result, require_acks)
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
    """Change what two memories have to do with each other, and say so."""
    wait, require_acks = ending
    writing.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)
    name, done = words

    async def work(store: MemoryStore) -> tuple[writing.Written, list[str]]:
        await change(store)
        events = await events_of(store, pair)
        return await writing.send(store, list(events.values()), wait), list(events)

    written, paths = invocation.run(work)
    shown = " and ".join(one_line(path) for path in paths)
    writing.end(invocation, written, f"{done}: {shown}", {"link": name, "paths": paths}, require_acks)
