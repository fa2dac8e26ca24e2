"""`palace show`, `connect`, `disconnect`, `dismiss`, `contradict` and `reconcile`: one memory, and its links with
others.

At the end stand the spellings of 2.0.0a1, hidden: `palace remember`, `recall`, `search`, `list`, `as-of` and `forget`.
"""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    RawOption,
    SourceOption,
    ThemeOption,
    ValueArgument,
    WaitOption,
    WhenArgument,
    argument,
    question,
)
from sense_memory.interfaces.cli.invocation import echo_all, note, of, program, say
from sense_memory.interfaces.cli.memories import (
    PalaceDetails,
    check_names,
    forget_names,
    recall_in_palace,
    remember_in_palace,
)
from sense_memory.interfaces.cli.names import absent_in_palace, events_of, everything, find
from sense_memory.interfaces.cli.operations import Write, operation
from sense_memory.interfaces.cli.output import as_value, relay_data, warn_if_incomplete, warn_of_gaps
from sense_memory.interfaces.cli.palace.group import INSIGHTS, LINKS, commands, no_palace
from sense_memory.interfaces.cli.palace.shapes import Life, MemoryProfile, excerpt, links_of
from sense_memory.interfaces.cli.search import list_palace
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import PROBABLY_NOTHING, as_json, forgotten_note, iso, one_line, quoted


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from sense_memory.models import PersonaMemory
    from sense_memory.palace.search import PersonaHit
    from sense_memory.search.hits import Hits
    from sense_memory.store import MemoryStore


def _data(found: MemoryProfile) -> dict[str, Any]:
    life = Life.of(found.memory)
    return {
        **shape_of(found.memory),
        "begins": {state: iso(at) for state, at in life.begins.items()},
        "links": [
            {"kind": link.kind, "path": link.path, "is_here": link.memory is not None} for link in found.links
        ],
        "versions": [shape_of(version, path=found.memory.path) for version in found.versions],
        "relays": [
            relay_data(url, copy={"held": int(delivery.is_held(state)), "states": {state: 1}})
            for url, state in found.holders.items()
        ],
        "copies": shape_of(found.copies),
    }


def _show_profile(found: MemoryProfile, given: Any) -> None:
    from sense_memory.interfaces.cli.palace.picture import print_life

    print_life(found, time.time(), given.versions)


@operation(
    commands,
    "show",
    "sense-memory palace show people/facts/lisa",
    "sense-memory palace show lisa --json",
    codes={4: "no such memory"},
    panel=INSIGHTS,
    json=_data,
    shows=_show_profile,
)
async def show(
    store: MemoryStore,
    path: PalaceNameArgument,
    *,
    versions: Annotated[  # noqa: ARG001 - how it is shown
        int, typer.Option("--versions", min=0, metavar="N", help="Show at most N versions of the text.")
    ] = 3,
) -> MemoryProfile:
    """Show one memory: how it fades, its versions, its links, and the relays that hold it.

    Showing a memory does not revive it; `recall` does. The curve of the relevance begins at the last access. Marks
    below the curve show when the memory becomes fading (0.3), forgotten (0.1) and dissolved (0.01), and the present.
    """
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
    copies = store.relays.copies(memory.event_id)
    return MemoryProfile(memory, tuple(history), tuple(links_of(memory, everything)), holders, copies)


_WHICH = "DOMAIN/FACET/KEY, or a KEY that no other memory has."
FirstArgument = Annotated[str, argument("A", f"A memory: {_WHICH}")]
SecondArgument = Annotated[str, argument("B", "The other memory.")]
_ABSENT = {4: "no such memory; nothing was changed"}
_FEWER = {3: "changed here, but fewer relays than --require-acks accepted the change", **_ABSENT}


_NO_MARK: Final = (
    "There was no mark between them to remove; from now on, `introspect` suggests nothing about the two."
)
_links = partial(operation, commands, panel=LINKS, codes=_FEWER, writes=True, with_acks=True, creates=False)


@_links("connect", "sense-memory palace connect people/facts/lisa projects/facts/workshop")
async def connect(store: MemoryStore, *, one: FirstArgument, other: SecondArgument) -> Write:
    """Connect two memories, both ways. Each connection adds a tenth to the relevance of both. If they are connected
    already, nothing is written.
    """
    async with _of_palace(store, one, other):
        before = await events_of(store, (one, other))
        await store.persona_connect(one, other)
    is_same = await events_of(store, (one, other)) == before
    return await _linked(store, (one, other), "connected", "already connected" if is_same else "connected")


@_links("disconnect", "sense-memory palace disconnect people/facts/lisa projects/facts/workshop")
async def disconnect(store: MemoryStore, *, one: FirstArgument, other: SecondArgument) -> Write:
    """Remove the connection between two memories. If they are not connected, nothing changes."""
    async with _of_palace(store, one, other):
        await store.persona_disconnect(one, other)
    return await _linked(store, (one, other), "disconnected", "not connected")


@_links("dismiss", "sense-memory palace dismiss people/facts/lisa projects/facts/workshop")
async def dismiss(store: MemoryStore, *, one: FirstArgument, other: SecondArgument) -> Write:
    """Decline a suggestion of `introspect`, a connection or a contradiction, for good. If one memory is marked as
    superseded by the other, the mark is removed.
    """
    async with _of_palace(store, one, other):
        was_marked = await _is_marked(store, one, other)
        await store.palace.reconcile(one, other)
    told = ["The mark between them was removed: both are right."] if was_marked else []
    return await _linked(store, (one, other), "dismissed", "dismissed", told)


async def _is_marked(store: MemoryStore, one: str, other: str) -> bool:
    """Whether one of two memories carries a mark of the other."""
    memories = await store.persona_recall(include_forgotten=True)
    pair = [memory for name in (one, other) if (memory := find(memories, name)) is not None]
    paths = {memory.path for memory in pair}
    return any(not paths.isdisjoint((memory.superseded_by, *memory.contradicts)) for memory in pair)


@_links(
    "contradict",
    "# Lisa has moved:",
    "sense-memory palace contradict people/facts/lisa-home people/facts/lisa-moved",
    codes={3: "marked here, but fewer relays than --require-acks accepted the mark", **_ABSENT},
)
async def contradict(
    store: MemoryStore,
    *,
    old: Annotated[str, argument("OLD", f"The memory that is wrong: {_WHICH}")],
    new: Annotated[str, argument("NEW", "The memory that is right.")],
) -> Write:
    """Mark a memory as contradicted and superseded by another: the old one loses half its relevance and fades four
    times faster.

    `remember` does this by itself if the contradiction is clear. Both memories stay readable; `reconcile` removes the
    mark. If the two are of different domains, OLD was written later than NEW, or OLD has another mark, stderr says so.
    """
    from sense_memory.palace.lifecycle import unusual_in

    async with _of_palace(store, old, new):
        await store.persona_contradict(old, new)
    memories = await store.persona_recall(include_forgotten=True)
    pair = [memory for name in (old, new) if (memory := find(memories, name)) is not None]
    (first, second), unusual = [memory.path for memory in pair], unusual_in(*pair)

    def tell() -> None:
        for reason in unusual:
            say("note", f"this is unusual: {reason}")
        typer.echo(f"To undo this: {program()} palace reconcile {quoted(first, second)}")

    done = f"superseded by {one_line(second)}: {one_line(first)}"
    data = {"link": "contradicted", "paths": [first, second], "unusual": unusual}
    return Write([pair[0].event_id], done, data, tells=tell)


@_links(
    "reconcile",
    "# Lisa has two homes:",
    "sense-memory palace reconcile people/facts/lisa-home people/facts/lisa-moved",
)
async def reconcile(
    store: MemoryStore,
    *,
    old: Annotated[str, argument("OLD", f"The superseded memory: {_WHICH}")],
    new: Annotated[str, argument("NEW", "The memory that superseded it.")],
) -> Write:
    """Remove the mark of a contradiction, on every device: both memories are right.

    The mark does not come back when one of them is written again, unless the new text makes another claim.
    """
    async with _of_palace(store, old, new):
        was_marked = await _is_marked(store, old, new)
        await store.persona_reconcile(old, new)
    told = [] if was_marked else [_NO_MARK]
    return await _linked(store, (old, new), "reconciled", "both are right", told)


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


async def _linked(
    store: MemoryStore, names: Sequence[str], link: str, done: str, told: Sequence[str] = ()
) -> Write:
    """The result of a change of links.

    Args:
        store: with the memories.
        names: of the memories.
        link: what the memories are now, for JSON.
        done: what happened.
        told: lines for a person.
    """
    events = await events_of(store, names)
    shown = " and ".join(map(one_line, events))
    data = {"link": link, "paths": list(events)}
    tells = partial(echo_all, told)
    return Write(list(events.values()), f"{done}: {shown}", data, tells=tells)


@_links(
    "pin",
    "# Always in the prompt:",
    "sense-memory palace pin self/facts/name",
    codes={3: "pinned here, but fewer relays than --require-acks accepted it", **_ABSENT},
)
async def pin(store: MemoryStore, *, path: PalaceNameArgument) -> Write:
    """Pin a memory: `compress` puts it first while it is active. A pinned memory has the theme `pinned` and fades as
    before.
    """
    async with _of_palace(store, path):
        await store.persona_pin(path)
        memory = find(await store.persona_recall(include_forgotten=True), path)
    pinned = await _linked(store, [path], "pinned", "pinned")
    notes = [] if memory is None else list(_why_hidden(memory))
    if memory is not None and not await store.mind.store.trust().may_speak(memory):
        notes.append(
            f"it enters no prompt yet, because it is from {one_line(memory.source or 'elsewhere')}. To vouch for it: "
            f"{program()} trust {quoted(memory.path)} --yes"
        )
    return replace(pinned, notes=notes)


@_links("unpin", "sense-memory palace unpin self/facts/name")
async def unpin(store: MemoryStore, *, path: PalaceNameArgument) -> Write:
    """Unpin a memory. If it is not pinned, nothing changes."""
    async with _of_palace(store, path):
        await store.persona_unpin(path)
    return await _linked(store, [path], "not pinned", "not pinned")


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


@operation(commands, "recall", hidden=True, shows=as_value)
async def recall(store: MemoryStore, path: PalaceNameArgument, *, raw: RawOption = False) -> PersonaMemory:
    """As `sense-memory recall`, of palace memories only."""
    del raw  # for `as_value`
    return await recall_in_palace(store, path)


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


@operation(commands, "forget", hidden=True, writes=True, with_acks=True, refuses=check_names)
async def forget(
    store: MemoryStore,
    *,
    names: _PathsArgument,
    anyway: AnywayOption = False,
    wait: WaitOption = WAIT_SECONDS,
) -> Write:
    """As `sense-memory forget`; a KEY alone means the one palace memory that has it."""
    return await forget_names(store, names, wait, anyway=anyway, is_palace_only=True)


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
        shown = [shape_of(hit, now) for hit in hits]
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
