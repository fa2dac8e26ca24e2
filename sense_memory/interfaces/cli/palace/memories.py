"""`palace recall`, `list`, `search` and `forget`. Writes are durable first and sent second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.cli import delivery
from sense_memory.interfaces.cli.delivery import WAIT_SECONDS, AcksOption, AnywayOption, WaitOption
from sense_memory.interfaces.cli.inputs import question, text_or_stdin
from sense_memory.interfaces.cli.invocation import JsonOption, named, of, say
from sense_memory.interfaces.cli.json_output import name_data, palace_data
from sense_memory.interfaces.cli.memories import (
    warn_if_incomplete,
    warn_of_gaps,
)
from sense_memory.interfaces.cli.names import (
    NameArgument,
    PathArgument,
    PlaceArgument,
    ask_relays,
    everything,
    find,
    names,
    no_memory,
    nothing_forgotten,
    only_one,
    parts,
    place,
)
from sense_memory.interfaces.cli.palace.group import INSIGHTS, NONE, command, look, print_lines
from sense_memory.interfaces.cli.palace.shapes import excerpt
from sense_memory.interfaces.cli.text import as_json, one_line, quoted, safe


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction
    from sense_memory.palace.search import PersonaHit
    from sense_memory.store import MemoryStore


@command(
    INSIGHTS,
    "sense-memory palace recall people/facts/lisa",
    "sense-memory palace recall lisa --json",
    codes={1: "an error, such as: it is not here, and no relay could be asked", 4: "no such memory"},
)
def recall(context: typer.Context, path: NameArgument, _json: JsonOption = False) -> None:
    """Print the text of a memory, and revive it: its relevance is 1 again, and it fades anew from now.

    This is the one command that counts as an access; `show` looks at a memory and leaves it as it is. In a pipe the
    text comes out byte for byte and nothing else. What has to be known about it, such as that it is superseded, is
    told on stderr.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> PersonaMemory:
        if "/" in path:
            found = await store.persona_recall(*parts(path))
        else:
            found = await store.persona_recall(key=path)
        memory = only_one(found, path)
        if memory is None:
            raise no_memory(path, store.status(), names(path, await everything(store)))
        return memory

    memory = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(palace_data(memory)))
        return
    if sys.stdout.isatty():
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    else:
        typer.echo(memory.value.encode(), nl=False)
    if memory.superseded_by is not None:
        typer.echo(f"superseded by {one_line(memory.superseded_by)}", err=True)


@command(
    INSIGHTS,
    "sense-memory palace list",
    "sense-memory palace list people/facts --include-forgotten",
    name="list",
    codes={4: "there is no such domain or facet"},
)
def list_memories(
    context: typer.Context,
    *,
    where: PlaceArgument = None,
    include_forgotten: Annotated[
        bool,
        typer.Option(
            "--include-forgotten", help="Forgotten and dissolved ones too.", show_default=False, metavar=""
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """List active and fading memories, the most relevant first.

    That is no access: it revives nothing. On a terminal a text is cut to the width. In a pipe there is one line each:
    path, state, relevance and whole text, with tabs between them.
    """
    invocation = of(context)
    insights = look(invocation, *place(where), include_forgotten=include_forgotten, needs_place=True)
    if invocation.as_json:
        now = time.time()
        typer.echo(as_json([palace_data(insight.memory, now) for insight in insights]))
    elif not insights:
        there = (
            f"There is no active or fading memory in {where}; --include-forgotten lists the others."
            if where
            else NONE
        )
        typer.echo(safe(there), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_list

        print_list(insights)
    else:
        print_lines(insights)


@command(
    INSIGHTS,
    "sense-memory palace search who teaches",
    'sense-memory palace search "vanilla js" --limit 3 --explain',
    "# A phrase, and every word that begins so:",
    "sense-memory palace search '\"teaches workshops\"' 'print*'",
)
def search(
    context: typer.Context,
    *,
    query: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD...", help='Some words; "in quotes" a phrase; photo* is every word that begins so.'
        ),
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1_000, metavar="N", help="How many memories at most.")
    ] = 10,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say what each was found by, and what each match adds.",
            show_default=False,
            metavar="",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Find memories by words, the best and most relevant first.

    A word in the key weighs 3, in a theme 2, in the text 1, and the sum is multiplied by the relevance of the memory.
    Active memories are found, and fading ones whose key, theme or quoted phrase is meant. Being found is no access. In
    a pipe there is one line each: path, score and text, and why with --explain, with tabs between them.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[list[PersonaHit], bool]:
        found = await store.persona_search(question(query), limit)
        warn_if_incomplete(store)
        if not invocation.as_json:
            warn_of_gaps(store.gaps())
        return found, bool(found or await everything(store))

    hits, has_memories = invocation.run(work)
    if invocation.as_json:
        now = time.time()
        typer.echo(as_json([palace_data(hit, now) for hit in hits]))
    elif not hits:
        found_nothing = "Nothing was found. Forgotten memories are not searched; `palace list` lists them."
        typer.echo(found_nothing if has_memories else NONE, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_hits

        print_hits(hits, explain=explain)
    else:
        for hit in hits:
            why = f"\t{one_line(hit.why.text)}" if explain else ""
            typer.echo(f"{one_line(hit.path)}\t{hit.score:.3f}\t{excerpt(hit)}{why}")


@command(
    INSIGHTS,
    "sense-memory palace forget people/facts/lisa",
    codes={
        3: "forgotten here, but fewer relays than --require-acks took the deletion",
        4: "nothing is kept under that name, here or on any relay; nothing was written",
    },
)
def forget(
    context: typer.Context,
    *,
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            show_default=False,
            help="DOMAIN/FACET/KEY of each memory, or its KEY alone where no other memory has it.",
        ),
    ],
    anyway: AnywayOption = False,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Purge memories here, for good, and ask every relay to delete them.

    Nothing brings them back, unlike what has only faded. Links to them are ignored from then on. Where nothing is kept
    under a name here, relays are asked for it first. If all of them answer and none has it, nothing at all is written;
    if one cannot be asked, or with --anyway, the deletion of a DOMAIN/FACET/KEY is requested all the same.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    for path in paths:
        if "/" in path:
            parts(path)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[delivery.Forgotten]]:
        there, unsure = await everything(store), ""
        if not anyway and any(find(there, path) is None for path in paths):
            unsure = await ask_relays(store, wait)
            there = await everything(store)
        whole: dict[str, str | None] = {}
        absent = [path for path in paths if find(there, path) is None]
        for path in paths:
            memory = find(there, path)
            is_wanted = "/" in path and (unsure or anyway)  # the path of a bare KEY is unknown
            if memory is None and not is_wanted:
                raise nothing_forgotten(no_memory(path, store.status(), names(path, there)), absent, paths)
            place = "/".join(parts(path if memory is None else memory.path))
            whole[place] = unsure if memory is None else None
        ids = await store.persona_forget_many(whole)
        forgotten = [
            delivery.Forgotten(name_data(place), ident, whole[place])
            for place, ident in zip(whole, ids, strict=True)
        ]
        return await delivery.send(store, list(dict.fromkeys(ids)), wait), forgotten

    written, forgotten = invocation.run(work, creates=True)
    delivery.end_forgetting(invocation, written, forgotten, require_acks)


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
    delivery.refuse_contradiction(context, wait, require_acks)
    domain, facet, key = parts(path)
    text = text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[_Replaced], bool]:
        begun, is_renewed = time.time(), await _says(store, f"{domain}/{facet}/{key}", text)
        options: dict[str, Any] = {"halflife_days": halflife, "source": source, "confidence": confidence}
        with named(**_NAMES):
            ident = await store.persona_remember(
                domain, facet, key, text, theme or (), connect or (), **options
            )
        await _tell_missing(store, connect or ())
        replaced = await _superseded(store, domain, facet, key, begun)
        ids = [ident, *(memory.event_id for memory, _ in replaced)]
        return await delivery.send(store, ids, wait), replaced, is_renewed

    written, replaced, is_renewed = invocation.run(work, creates=True)
    result = {
        **name_data(f"{domain}/{facet}/{key}"),
        "event_id": written.ids[0],
        "renewed": is_renewed,
        "superseded": [_verdict_data(memory, verdict) for memory, verdict in replaced],
    }
    try:
        delivery.end(invocation, written, "renewed" if is_renewed else "kept", result, require_acks)
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
