"""`palace show`, `connect`, `disconnect`, `dismiss`, `contradict` and `reconcile`: one memory, and its links with
others.

At the end stand the spellings of 2.0.0a1, hidden: `palace remember`, `recall`, `search`, `list`, `as-of` and `forget`.
"""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.errors import InvalidAddress, InvalidInput
from sense_memory.interfaces.cli import delivery
from sense_memory.interfaces.cli.history import palace_as_of
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    AcksOption,
    AnywayOption,
    ConfidenceOption,
    ConnectOption,
    ExplainOption,
    HalflifeOption,
    HitLimitOption,
    IncludeForgottenOption,
    JsonOption,
    PalaceNameArgument,
    PlaceArgument,
    QueryArgument,
    SourceOption,
    ThemeOption,
    ValueArgument,
    WaitOption,
    WhenArgument,
    question,
)
from sense_memory.interfaces.cli.invocation import note, of, program, say
from sense_memory.interfaces.cli.memories import (
    PalaceDetails,
    forget_names,
    recall_in_palace,
    remember_in_palace,
)
from sense_memory.interfaces.cli.names import absent_in_palace, events_of, everything, find
from sense_memory.interfaces.cli.output import (
    copy_data,
    palace_data,
    relay_data,
    show_memory,
    version_data,
    warn_if_incomplete,
    warn_of_gaps,
)
from sense_memory.interfaces.cli.palace.group import INSIGHTS, LINKS, command, commands, no_palace
from sense_memory.interfaces.cli.palace.shapes import Life, MemoryProfile, excerpt, links_of
from sense_memory.interfaces.cli.search import list_palace
from sense_memory.interfaces.text import PROBABLY_NOTHING, as_json, forgotten_note, iso, one_line, quoted


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.search import PersonaHit
    from sense_memory.search.hits import Hits
    from sense_memory.store import MemoryStore


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
    """Show one memory: how it fades, its versions, its links, and the relays that hold it.

    Showing a memory does not revive it; `recall` does. The curve of the relevance begins at the last access. Marks
    below the curve show when the memory becomes fading (0.3), forgotten (0.1) and dissolved (0.01), and the present.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> MemoryProfile:
        everything = await store.persona_recall(include_forgotten=True)
        memory = find(everything, path)
        if memory is None:
            raise await absent_in_palace(store, path, "recall")
        try:
            history = await store.history(memory.path)
        except InvalidAddress:  # a name that another program wrote
            history = []
        known = store.relays.holders(memory.event_id)
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
            relay_data(url, copy=copy_data({state: 1}, int(delivery.is_held(state))))
            for url, state in found.holders.items()
        ],
    }


_WHICH = "DOMAIN/FACET/KEY, or a KEY that no other memory has."
FirstArgument = Annotated[str, typer.Argument(metavar="A", show_default=False, help=f"A memory: {_WHICH}")]
SecondArgument = Annotated[str, typer.Argument(metavar="B", show_default=False, help="The other memory.")]
_ABSENT = {4: "no such memory; nothing was changed"}
_FEWER = {3: "changed here, but fewer relays than --require-acks accepted the change", **_ABSENT}


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
    """Connect two memories, both ways. Each connection adds a tenth to the relevance of both. If they are connected
    already, nothing is written.
    """

    async def change(store: MemoryStore) -> str | None:
        before = await events_of(store, (one, other))
        await store.persona_connect(one, other)
        return "already connected" if await events_of(store, (one, other)) == before else None

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
    """Decline a suggestion of `introspect`, a connection or a contradiction, for good. If one memory is marked as
    superseded by the other, the mark is removed.
    """
    marked: list[bool] = []

    async def change(store: MemoryStore) -> None:
        marked.append(await _is_marked(store, one, other))
        await store.palace.reconcile(one, other)

    _link(context, (one, other), change, ("dismissed", "dismissed"), (wait, require_acks))
    if any(marked) and not of(context).as_json:
        typer.echo("The mark between them was removed: both are right.")


async def _is_marked(store: MemoryStore, one: str, other: str) -> bool:
    """Whether one of two memories carries a mark of the other."""
    memories = await store.persona_recall(include_forgotten=True)
    pair = [memory for name in (one, other) if (memory := find(memories, name)) is not None]
    paths = {memory.path for memory in pair}
    return any(not paths.isdisjoint((memory.superseded_by, *memory.contradicts)) for memory in pair)


@command(
    LINKS,
    "# Lisa has moved:",
    "sense-memory palace contradict people/facts/lisa-home people/facts/lisa-moved",
    codes={3: "marked here, but fewer relays than --require-acks accepted the mark", **_ABSENT},
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
    """Mark a memory as contradicted and superseded by another: the old one loses half its relevance and fades four
    times faster.

    `remember` does this by itself if the contradiction is clear. Both memories stay readable; `reconcile` removes the
    mark. If the two are of different domains, OLD was written later than NEW, or OLD has another mark, stderr says so.
    """
    from sense_memory.palace.lifecycle import unusual_in

    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[PersonaMemory]]:
        async with _of_palace(store, old, new):
            await store.persona_contradict(old, new)
        memories = await store.persona_recall(include_forgotten=True)
        pair = [memory for name in (old, new) if (memory := find(memories, name)) is not None]
        return await delivery.send(store, [pair[0].event_id], wait), pair

    written, pair = invocation.run(work)
    (first, second), unusual = [memory.path for memory in pair], unusual_in(*pair)
    result = {"link": "contradicted", "paths": [first, second], "unusual": unusual}
    try:
        done = f"superseded by {one_line(second)}: {one_line(first)}"
        delivery.report_write(invocation, written, done, result, require_acks)
    finally:
        if not invocation.as_json:
            for reason in unusual:
                say("note", f"this is unusual: {reason}")
            typer.echo(f"To undo this: {program()} palace reconcile {quoted(first, second)}")


@command(
    LINKS,
    "# Lisa has two homes:",
    "sense-memory palace reconcile people/facts/lisa-home people/facts/lisa-moved",
    codes=_FEWER,
)
def reconcile(
    context: typer.Context,
    *,
    old: Annotated[
        str, typer.Argument(metavar="OLD", show_default=False, help=f"The superseded memory: {_WHICH}")
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", show_default=False, help="The memory that superseded it.")
    ],
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Remove the mark of a contradiction, on every device: both memories are right.

    The mark does not come back when one of them is written again, unless the new text makes another claim.
    """
    marked: list[bool] = []

    async def change(store: MemoryStore) -> None:
        marked.append(await _is_marked(store, old, new))
        await store.persona_reconcile(old, new)

    _link(context, (old, new), change, ("reconciled", "both are right"), (wait, require_acks))
    if not any(marked) and not of(context).as_json:
        typer.echo(
            "There was no mark between them to remove; from now on, `introspect` suggests nothing about the two."
        )


@asynccontextmanager
async def _of_palace(store: MemoryStore, *names: str) -> AsyncIterator[None]:
    """Turn the store's refusal of a name without a memory into the error of `show`, which suggests similar names."""
    try:
        yield
    except InvalidInput:
        memories = await everything(store)
        for name in names:
            if find(memories, name) is None:
                raise await absent_in_palace(store, name, "recall") from None
        raise


def _link(
    context: typer.Context,
    names: tuple[str, ...],
    change: Callable[[MemoryStore], Awaitable[str | None]],
    words: tuple[str, str],
    ending: tuple[float, int],
) -> None:
    """Change the links of memories, or pin one, and report the change.

    Args:
        context: of the command.
        names: the memories.
        change: makes the change; may return what happened, in words, instead of the second of `words`.
        words: what the memories are now, for JSON, and what happened.
        ending: the seconds to wait for relays, and the relays that must accept the change.
    """
    wait, require_acks = ending
    delivery.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)
    name, done = words

    async def work(store: MemoryStore) -> tuple[delivery.Written, list[str], str]:
        async with _of_palace(store, *names):
            happened = await change(store) or done
        events = await events_of(store, names)
        return await delivery.send(store, list(events.values()), wait), list(events), happened

    written, paths, happened = invocation.run(work)
    shown = " and ".join(one_line(path) for path in paths)
    delivery.report_write(
        invocation, written, f"{happened}: {shown}", {"link": name, "paths": paths}, require_acks
    )


@command(
    LINKS,
    "# Always in the prompt:",
    "sense-memory palace pin self/facts/name",
    codes={3: "pinned here, but fewer relays than --require-acks accepted it", **_ABSENT},
)
def pin(
    context: typer.Context,
    *,
    path: PalaceNameArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Pin a memory: `compress` puts it first while it is active. A pinned memory has the theme `pinned` and fades as
    before.
    """
    _pin(context, path, (wait, require_acks), is_pinned=True)


@command(LINKS, "sense-memory palace unpin self/facts/name", codes=_FEWER)
def unpin(
    context: typer.Context,
    *,
    path: PalaceNameArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Unpin a memory. If it is not pinned, nothing changes."""
    _pin(context, path, (wait, require_acks), is_pinned=False)


def _pin(context: typer.Context, path: str, ending: tuple[float, int], *, is_pinned: bool) -> None:
    hidden: list[str] = []

    async def change(store: MemoryStore) -> None:
        await (store.persona_pin(path) if is_pinned else store.persona_unpin(path))
        memory = find(await store.persona_recall(include_forgotten=True), path) if is_pinned else None
        if memory is not None:
            hidden.extend(_why_hidden(memory))

    word = "pinned" if is_pinned else "not pinned"
    _link(context, (path,), change, (word, word), ending)
    for reason in hidden:
        typer.echo(reason, err=True)


def _why_hidden(memory: PersonaMemory) -> Iterator[str]:
    """Why `compress` does not show a memory, although it is pinned, and the remedy."""
    from sense_memory.limits import ACTIVE_ABOVE
    from sense_memory.palace.lifecycle import current_relevance

    if memory.superseded_by:
        new = memory.superseded_by
        yield (
            f"compress leaves this memory out while {one_line(new)}, which superseded it, is active. "
            f"If both are right: {program()} palace reconcile {quoted(memory.path, new)}"
        )
    elif current_relevance(memory, time.time()) <= ACTIVE_ABOVE:
        yield f"compress leaves this memory out until it is active again: {program()} recall {quoted(memory.path)}"


# ── The spellings of 2.0.0a1, hidden ────────────────────────────────────────────────────
#
# The commands of the same name outside the group do the same with a path. The next version removes these spellings.

_PathsArgument = Annotated[
    list[str], typer.Argument(metavar="PATH...", show_default=False, help="The memories.")
]


@commands.command("remember", hidden=True)
def remember(
    context: typer.Context,
    *,
    path: PalaceNameArgument,
    value: ValueArgument = None,
    theme: ThemeOption = None,
    connect: ConnectOption = None,
    halflife: HalflifeOption = None,
    source: SourceOption = None,
    confidence: ConfidenceOption = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory remember` with a path."""
    details = PalaceDetails(theme or [], connect or [], halflife, source, confidence)
    remember_in_palace(context, path, value, details, wait=wait, require_acks=require_acks)


@commands.command("recall", hidden=True)
def recall(context: typer.Context, path: PalaceNameArgument, _json: JsonOption = False) -> None:
    """As `sense-memory recall`, of palace memories only."""

    async def work(store: MemoryStore) -> PersonaMemory:
        return await recall_in_palace(store, path)

    show_memory(of(context), of(context).run(work))


@commands.command("list", hidden=True)
def list_memories(
    context: typer.Context,
    *,
    where: PlaceArgument = None,
    include_forgotten: IncludeForgottenOption = False,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory list --palace`."""
    list_palace(of(context), where, include_forgotten=include_forgotten)


@commands.command("as-of", hidden=True)
def as_of(
    context: typer.Context, when: WhenArgument, where: PlaceArgument = None, _json: JsonOption = False
) -> None:
    """As `sense-memory as-of --palace`."""
    palace_as_of(of(context), when, where)


@commands.command("forget", hidden=True)
def forget(
    context: typer.Context,
    *,
    paths: _PathsArgument,
    anyway: AnywayOption = False,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory forget`; a KEY alone means the one palace memory that has it."""
    forget_names(context, paths, wait, require_acks, anyway=anyway, is_palace_only=True)


@commands.command("search", hidden=True)
def search(
    context: typer.Context,
    *,
    query: QueryArgument,
    limit: HitLimitOption = 10,
    explain: ExplainOption = False,
    _json: JsonOption = False,
) -> None:
    """As `sense-memory search --in palace`, by words alone, with the weights of the specification.

    A word in the key weighs 3, in a theme 2, in the text 1, and the sum is multiplied by the relevance of the memory.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[Hits[PersonaHit], bool]:
        found = await store.persona_search(question(query), limit)
        warn_if_incomplete(store)
        if not invocation.as_json:
            warn_of_gaps(store.gaps())
        return found, bool(found or await everything(store))

    hits, has_memories = invocation.run(work)
    if invocation.as_json:
        now = time.time()
        shown = [palace_data(hit, now) for hit in hits]
        typer.echo(as_json({"hits": shown, "forgotten": hits.forgotten, "confidence": hits.confidence}))
        return
    if hits.is_doubtful:
        note(PROBABLY_NOTHING)
    if not hits:
        typer.echo("Nothing was found." if has_memories else no_palace(), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_hits

        print_hits(hits, explain=explain)
    else:
        for hit in hits:
            why = f"\t{one_line(hit.why.text)}" if explain else ""
            typer.echo(f"{one_line(hit.path)}\t{hit.score:.3f}\t{excerpt(hit)}{why}")
    if hits.forgotten:
        note(forgotten_note(hits.forgotten, "`search --state forgotten`"))
