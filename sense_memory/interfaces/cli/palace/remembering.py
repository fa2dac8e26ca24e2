"""`palace remember`, and what a new memory does to others: what it replaces, and what it waits for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli import writing
from sense_memory.interfaces.cli.invocation import JsonOption, named, of, say
from sense_memory.interfaces.cli.json_output import name_data
from sense_memory.interfaces.cli.palace.group import INSIGHTS, command
from sense_memory.interfaces.cli.palace.naming import PathArgument, find, parts
from sense_memory.interfaces.cli.reading import text_or_stdin
from sense_memory.interfaces.cli.text import one_line, quoted
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, AcksOption, WaitOption


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.store import MemoryStore

_Replaced: TypeAlias = "tuple[PersonaMemory, Contradiction | None]"  # what was superseded, and why

_NAMES = {  # what the store calls what the options give
    "themes": "--theme",
    "connections": "--connect",
    "halflife_days": "--halflife",
    "confidence": "--confidence",
}


@command(
    INSIGHTS,
    'sense-memory palace remember people/facts/lisa "artist, teaches" --theme art',
    "# A belief that one is not sure of:",
    'sense-memory palace remember self/beliefs/tea "It helps." --confidence 0.6',
    "sense-memory palace remember skills/procedures/ship --halflife 90 < notes.md",
    codes={3: "kept here, but fewer relays than --require-acks have it"},
)
def remember(
    context: typer.Context,
    *,
    path: PathArgument,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE", show_default=False, help="The text. Missing or `-`: all of stdin, as it is."
        ),
    ] = None,
    theme: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD", help="What it is about, for search. May be repeated.", show_default=False
        ),
    ] = None,
    connect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A memory to connect it with, both ways. May be repeated.",
            show_default=False,
        ),
    ] = None,
    halflife: Annotated[
        float | None,
        typer.Option(
            metavar="DAYS",
            help="After how many days half of its relevance is left; 30 if new.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            help="Where it comes from: user, agent, import, tool:NAME or document:HASH.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="How certain it is, from 0 to 1; 1 if new.", show_default=False),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Keep a memory in the palace, at full relevance; one that says the same already is renewed.

    Over an older text under the same PATH, the options that are not given keep what they were; the older text stays in
    `history`. A memory of the same facet that the new text clearly contradicts is marked as superseded, and fades four
    times faster: that is told, with the reason and the command that takes it back. What only seems to contradict is
    left to `introspect`. A text that begins with a dash needs `--` before it.
    """
    writing.refuse_contradiction(context, wait, require_acks)
    domain, facet, key = parts(path)
    text = text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[writing.Written, list[_Replaced], bool]:
        begun, is_renewed = time.time(), await _says(store, f"{domain}/{facet}/{key}", text)
        options: dict[str, Any] = {"halflife_days": halflife, "source": source, "confidence": confidence}
        with named(**_NAMES):
            ident = await store.persona_remember(
                domain, facet, key, text, theme or (), connect or (), **options
            )
        await _tell_missing(store, connect or ())
        replaced = await _superseded(store, domain, facet, key, begun)
        ids = [ident, *(memory.event_id for memory, _ in replaced)]
        return await writing.send(store, ids, wait), replaced, is_renewed

    written, replaced, is_renewed = invocation.run(work, creates=True)
    result = {
        **name_data(f"{domain}/{facet}/{key}"),
        "event_id": written.ids[0],
        "renewed": is_renewed,
        "superseded": [_verdict_data(memory, verdict) for memory, verdict in replaced],
    }
    try:
        writing.end(invocation, written, "renewed" if is_renewed else "kept", result, require_acks)
    finally:
        for memory, verdict in [] if invocation.as_json else replaced:
            _tell_superseded(memory, verdict)


async def _says(store: MemoryStore, path: str, text: str) -> bool:
    """Whether the memory of that name says just this already, as far as the ledger knows."""
    try:
        versions = await store.history(path)
    except InvalidAddress:  # the store says better what is wrong with it
        return False
    return any(version.is_head and version.value == text for version in versions)


async def _tell_missing(store: MemoryStore, targets: Sequence[str]) -> None:
    """Say which memories that a new one was connected with are still to be written, or misspelt."""
    paths = dict.fromkeys(target for target in targets if "/" in target)  # a bare key was found, or refused
    everything = await store.persona_recall(include_forgotten=True) if paths else []
    for target in paths:
        if find(everything, target) is None:
            say("note", f"{target} is not there (yet); the connection counts once it is")


async def _superseded(store: MemoryStore, domain: str, facet: str, key: str, begun: float) -> list[_Replaced]:
    """The memories that a write which began at a time marked as superseded by what it wrote, and why."""
    from sense_memory.palace.contradictions.detection import compare

    memories = await store.persona_recall(domain, facet, include_forgotten=True)
    new = find(memories, f"{domain}/{facet}/{key}")
    found = []
    for old in memories if new is not None else ():
        if new is None or old.superseded_by != new.path:
            continue
        if (await store.history(old.path))[0].created_at < begun:
            continue  # it was superseded before
        before = old.changed(
            contradicts=tuple(path for path in old.contradicts if path != new.path), superseded_by=None
        )
        found.append((old, compare(before, new.changed(contradicts=(), superseded_by=None))))
    return found


def _verdict_data(memory: PersonaMemory, verdict: Contradiction | None) -> dict[str, Any]:
    return {
        "path": memory.path,
        "reason": verdict.reason if verdict else None,
        "kind": verdict.kind if verdict else None,
        "confidence": round(verdict.confidence, 3) if verdict else None,
    }


def _tell_superseded(memory: PersonaMemory, verdict: Contradiction | None) -> None:
    path = one_line(memory.path)
    why = f" ({one_line(verdict.reason)}; {verdict.confidence:.0%} sure)" if verdict else ""
    typer.echo(f"It contradicts {path}{why}, which is superseded now.")
    typer.echo(f"If both are right: sense-memory undo {quoted(memory.path)}")
