"""`history`, `as-of` and `undo`, from the versions that the ledger keeps; `drafts` and `refresh`.

Drafts are texts on this machine that are in no memory; `refresh` is for relays that refuse a memory as too old.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.contradictions import marks_in, print_contradictions, print_marks
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    JsonOption,
    NameArgument,
    PalaceOption,
    WhenArgument,
)
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, Invocation, of, program, unknown
from sense_memory.interfaces.cli.names import (
    events_of,
    everything,
    file_named,
    find,
    parts,
    path_of,
    place,
    sync_folders_of,
    unknown_name,
)
from sense_memory.interfaces.cli.operations import Write, operation
from sense_memory.interfaces.cli.output import show_insights, show_memories, show_memory, warn_if_incomplete
from sense_memory.interfaces.cli.palace.group import insights_of
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes import names_of, shape_of, shown_path
from sense_memory.interfaces.text import age, as_json, local_time, one_line, quantity, quoted, safe


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.delivery import Written
    from sense_memory.memories.history import Version
    from sense_memory.memories.status import Status
    from sense_memory.models import Draft, Memory, PersonaMemory
    from sense_memory.store import MemoryStore


@dataclass(frozen=True, slots=True)
class _Versions:
    """All versions of a memory that this ledger has seen, newest first, and how many of them are shown."""

    path: str
    versions: list[Version]
    limit: int

    def data(self) -> list[dict[str, Any]]:
        return [shape_of(version, path=self.path) for version in self.versions[: self.limit]]


def _show_versions(found: _Versions, _: Any) -> None:
    from sense_memory.interfaces.cli.tables import print_history

    count, limit = len(found.versions), found.limit
    print_history(found.versions[: limit + 1], time.time(), first_seen=count <= limit)


def _name_older(found: _Versions) -> int:
    """Tell people and programs alike that there are older versions."""
    count, limit = len(found.versions), found.limit
    if count > limit:
        older = quantity(count - limit, "older version")
        typer.echo(f"{older} not shown; --limit {count} shows all", err=True)
    return 0


@operation(
    app,
    "history",
    "sense-memory history user_timezone",
    "sense-memory history user_timezone -n 1 --json",
    codes={4: "no memory ever had that name here"},
    panel=MEMORIES,
    json=_Versions.data,
    shows=_show_versions,
    ends_with=_name_older,
)
async def history(
    store: MemoryStore,
    *,
    name: NameArgument,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="Show at most N versions.")
    ] = 20,
) -> _Versions:
    """Show the versions of a memory, newest first, and what each version changed.

    Only versions that this ledger has seen are shown; a relay holds only the newest. A forgotten memory leaves at
    most the time at which it was forgotten.
    """
    return _Versions(*await _versions(store, name), limit)


@app.command(
    "as-of",
    rich_help_panel=MEMORIES,
    epilog=ends(
        'sense-memory as-of "2 days ago"',
        "sense-memory as-of 2025-01-15",
        'sense-memory as-of "1 min ago" user_timezone',
        "sense-memory as-of yesterday people/facts/lisa",
        "sense-memory as-of yesterday --palace people",
        codes={
            1: "an error, such as: the memory is not here, and no relay ever showed everything",
            4: "there was no such memory at that time",
        },
    ),
)
def as_of(
    context: typer.Context,
    *,
    when: WhenArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="Only this memory: a flat key or a path. Or only this place: DOMAIN/FACET, or with --palace DOMAIN.",
        ),
    ] = None,
    palace: PalaceOption = False,
    _json: JsonOption = False,
) -> None:
    """Show memories as they were at a time.

    Without a NAME, list all flat memories, as `list` does. With a NAME, print one value, as `recall` does. With
    --palace, list palace memories with the state and the relevance that they had at that time. Nothing is revived.
    Only versions that this ledger has seen are shown, and no memories that were forgotten since.
    """
    invocation = of(context)
    if palace or (name is not None and _is_place(name)):
        palace_as_of(invocation, when, name)
        return
    now = time.time()
    then = inputs.moment(when, now)
    shown = _shown(then, now)
    if name is not None:
        _show_one(invocation, name, then)
        return

    async def work(store: MemoryStore) -> list[Memory]:
        found = await store.as_of(then)
        if not found and not store.relays.were_ever_complete():
            raise unknown(f"what was kept at {shown} is")
        warn_if_incomplete(store)
        return found

    memories = invocation.run(work)
    show_memories(invocation, memories, none=f"There were no memories here at {shown}.")
    _count(invocation, len(memories), shown)


def palace_as_of(invocation: Invocation, when: str, where: str | None) -> None:
    """Show the palace memories as they were at a time: all, or those of a DOMAIN or DOMAIN/FACET."""
    now = time.time()
    then = inputs.moment(when, now)
    shown = _shown(then, now)

    async def work(store: MemoryStore) -> list[PersonaMemory]:
        found = await store.persona_as_of(then, *place(where))
        if not found and not store.relays.were_ever_complete():
            raise unknown(f"what was kept at {shown} is")
        warn_if_incomplete(store)
        return found

    insights = insights_of(invocation.run(work), then)
    show_insights(invocation, insights, then, none=f"There were no memories here at {shown}.")
    _count(invocation, len(insights), shown)


def _is_place(name: str) -> bool:
    """Whether a name is that of a domain or a facet, `DOMAIN/` or `DOMAIN/FACET`: no memory has such a name."""
    return "/" in name and len(shown_path(name).rstrip("/").split("/")) < 3


def _shown(then: float, now: float) -> str:
    return f"{local_time(then)} ({age(then, now)})"


def _count(invocation: Invocation, count: int, shown: str) -> None:
    if count and not invocation.as_json:
        typer.echo(f"{quantity(count, 'memory', 'memories')} as of {shown}", err=True)


def _show_one(invocation: Invocation, name: str, then: float) -> None:
    """The value of one memory at a time."""

    async def work(store: MemoryStore) -> tuple[Memory | PersonaMemory | None, Status]:
        if (file := await file_named(store, name)) is not None:
            return _flat_at(file, await store.mind.files.history(file), then), store.status()
        versions = [] if "/" in name else await store.history(name)
        if versions:
            return _flat_at(name, versions, then), store.status()
        path = await path_of(store, name)
        if path is None:
            return None, store.status()
        domain, facet, _ = parts(path)
        return find(await store.persona_as_of(then, domain, facet), path), store.status()

    memory, status = invocation.run(work)
    shown = _shown(then, time.time())
    if memory is None and not status.was_ever_complete:
        raise unknown(f"what {name!r} was at {shown} is")
    if memory is None:
        raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"no memory under {name!r} was here at {shown}")
    show_memory(invocation, memory, then)


def _flat_at(key: str, versions: list[Version], then: float) -> Memory | None:
    """A flat memory at a time, from its versions; None where it did not exist."""
    from sense_memory.memories.history import version_at
    from sense_memory.models import Memory

    version = version_at(versions, then)
    if version is None or version.value is None:
        return None
    return Memory(key=key, value=version.value, created_at=version.created_at, event_id=version.event_id)


def _show_text(found: Write, _: Any) -> None:
    text = found.data["value"]
    typer.echo(safe(text), nl=not text.endswith("\n"))


@operation(
    app,
    "undo",
    "sense-memory undo user_timezone",
    codes={
        3: "brought back here, but fewer relays than --require-acks accepted it",
        4: "this ledger has no older text, or the memory was forgotten, which is final",
    },
    panel=MEMORIES,
    writes=True,
    with_acks=True,
    creates=False,
    shows=_show_text,
)
async def undo(store: MemoryStore, *, name: NameArgument) -> Write:
    """Bring back the previous text of a memory, and print it.

    Undo again to go further back. To take an undo back, `remember` the text that `history` shows. Nothing is lost: the
    old text becomes a new version, and `history` keeps the text that was replaced. Links are not part of the text:
    `palace disconnect` takes a connection back, and `palace reconcile` a mark of contradiction.
    """
    if (file := await file_named(store, name)) is not None:
        return await _undo_file(store, file)
    path, versions = await _versions(store, name)
    memories = await everything(store) if "/" in path else []
    before = marks_in(memories)
    memory = await store.undo(path)
    if memory is None:
        raise _nothing_to_undo(path, versions, find(memories, path))
    after = marks_in(await everything(store)) if "/" in path else set()
    tells = partial(print_marks, before - after, after - before)
    return Write([memory.event_id], "brought back", shape_of(memory), tells=tells)


async def _undo_file(store: MemoryStore, name: str) -> Write:
    """Bring back the previous text of a mirrored file, in memory and in the folders of this machine."""
    await sync_folders_of(store, name)
    file = await store.mind.files.undo(name)
    if file is None:
        raise _nothing_to_undo(name, await store.mind.files.history(name), None)
    await sync_folders_of(store, name)
    return Write([file.event_id], "brought back", shape_of(file))


async def _versions(store: MemoryStore, name: str) -> tuple[str, list[Version]]:
    """The flat key or the path that a name means, and the versions of that memory, newest first.

    Raises:
        CommandFailed: no memory ever had that name here.
        InvalidInput: several palace memories have the key.
    """
    if (file := await file_named(store, name)) is not None:
        return file, await store.mind.files.history(file)
    found = await store.history(name)
    if not any(version.value is not None for version in found):  # forgotten, or never here
        path = await path_of(store, name)
        if path not in {None, name}:
            return path, await store.history(path)
        if not found:
            raise await unknown_name(store, name)
    return name, found


def _nothing_to_undo(name: str, versions: Sequence[Version], memory: PersonaMemory | None) -> CommandFailed:
    """The error of an undo without an older text: the memory was forgotten, was never edited, or is undone already.

    Args:
        name: of the memory.
        versions: of the memory, newest first.
        memory: as it is now; None for a flat memory, or if there is none.
    """
    texts = {version.value for version in versions} - {None}
    if not texts:
        problem = (
            f"{name!r} was forgotten, which erased its text for good, so nothing was undone; remember it anew"
        )
    elif len(texts) > 1:
        problem = (
            f"{name!r} has no older text here, so nothing was undone; `{program()} history {quoted(name)}` shows its "
            "versions, and `remember` writes the text that you want"
        )
    elif any(version.value is None for version in versions):
        problem = (
            f"an earlier text of {name!r} was forgotten, which erased it for good, and {name!r} has had one text since, so "
            "nothing was undone"
        )
    elif memory is not None and (memory.connections or marks_in([memory])):
        problem = (
            f"{name!r} never had another text here, so nothing was undone; `{program()} palace disconnect` takes a "
            f"connection back, and `{program()} palace reconcile` a mark of contradiction"
        )
    else:
        problem = f"{name!r} never had another text here, so nothing was undone"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory drafts",
        "sense-memory drafts --publish 1",
        "sense-memory drafts --discard 1",
        codes={4: "no draft with that number"},
    ),
)
def drafts(
    context: typer.Context,
    *,
    publish: Annotated[
        int | None, typer.Option(metavar="N", help="Write draft N as the newest version.", show_default=False)
    ] = None,
    discard: Annotated[
        int | None, typer.Option(metavar="N", help="Remove draft N for good.", show_default=False)
    ] = None,
    _json: JsonOption = False,
) -> None:
    """List the drafts: texts on this machine that are in no memory. Publish a draft, or discard it.

    A text becomes a draft if this machine's clock is so far behind that the text could not become the newest version,
    or if another device forgot the memory without having seen the text. Drafts are encrypted and never leave this
    machine.
    """
    if publish is not None and discard is not None:
        context.fail("give either --publish or --discard, not both")
    invocation = of(context)
    if publish is None and discard is None:
        _list(invocation)
        return

    if publish is not None:
        _publish(invocation, publish)
    else:
        _discard(invocation, discard)


async def _draft(store: MemoryStore, number: int | None) -> Draft:
    for draft in await store.drafts():
        if draft.number == number:
            return draft
    raise CommandFailed(
        ExitCode.NOT_FOUND,
        "NotFound",
        f"there is no draft {number}; see `{program()} drafts` for the numbers",
    )


def _publish(invocation: Invocation, number: int) -> None:
    """Write a draft; say by what its memory is superseded, and what it contradicts."""

    async def work(store: MemoryStore) -> tuple[str, Written, str, str | None]:
        draft = await _draft(store, number)
        told = await store.publish_draft(number)
        names = getattr(told, "superseded", ())
        marked = await events_of(store, names) if names else {}
        written = await delivery.send(store, [told, *marked.values()], WAIT_SECONDS)
        memory = find(await everything(store), draft.key) if "/" in draft.key else None
        return draft.key, written, told, None if memory is None else memory.superseded_by

    name, written, told, above = invocation.run(work)
    result = {**names_of(name), "event_id": written.ids[0]}
    delivery.report_write(invocation, written, f"published draft {number}", result, 0)
    if invocation.as_json:
        return
    if above is not None:
        typer.echo(f"It is marked as superseded by {one_line(above)}.")
        typer.echo(f"If both are right: {program()} palace reconcile {quoted(name, above)}")
    print_contradictions(told, name)


def _discard(invocation: Invocation, number: int | None) -> None:
    async def work(store: MemoryStore) -> None:
        store.discard_draft((await _draft(store, number)).number)

    invocation.run(work)
    typer.echo(as_json({"discarded": number}) if invocation.as_json else f"discarded draft {number}")


def _list(invocation: Invocation) -> None:
    async def work(store: MemoryStore) -> list[Draft]:
        return await store.drafts()

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(shape_of(found)))
        return
    for draft in found:
        written = age(draft.created_at, time.time())
        why = f", {draft.reason}" if draft.reason else ""
        typer.echo(
            f"draft {draft.number}, for {safe(draft.key)}, written {written}{why}:\n{safe(draft.value)}"
        )
    if found:
        typer.echo(
            f"\nPublish a draft with `{program()} drafts --publish N`, or discard it with "
            f"`{program()} drafts --discard N`."
        )
    else:
        typer.echo("There are no drafts.", err=True)


@operation(
    app,
    "refresh",
    "sense-memory refresh user_timezone",
    codes={3: "signed here, but fewer relays than --require-acks accepted it", 4: "no such memory"},
    panel=MEMORIES,
    writes=True,
    with_acks=True,
    creates=False,
)
async def refresh(store: MemoryStore, *, name: NameArgument) -> Write:
    """Sign a memory anew, for relays that refuse it as too old. Its text and its own time do not change."""
    ident, path = await store.refresh(name), name
    if ident is None:
        path = await path_of(store, name) or name
        ident = None if path == name else await store.refresh(path)
    if ident is None:
        raise await unknown_name(store, name)
    return Write([ident], f"refreshed {safe(path)}", {**names_of(path), "event_id": ident})
