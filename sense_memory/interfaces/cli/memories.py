"""The commands on memories and the journal. Writes are durable first and sent second; reads are local."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.errors import InvalidInput, NotSynced
from sense_memory.interfaces.cli import reading, writing
from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, JsonOption, Stop, of
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.cli.text import age, as_json, iso, one_line, quantity, safe
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, AcksOption, WaitOption
from sense_memory.limits import MAX_RECENT_COUNT


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.models import JournalEntry, Memory
    from sense_memory.status import Status
    from sense_memory.store import MemoryStore

KeyArgument = Annotated[
    str, typer.Argument(metavar="KEY", show_default=False, help="The memory's name, 1 to 256 characters.")
]


_is_id = re.compile(r"[0-9a-f]{8,64}").fullmatch


@app.command(
    rich_help_panel=MEMORIES,
    epilog="Example: sense-memory remember user_timezone America/Vancouver",
)
def remember(
    context: typer.Context,
    *,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", show_default=False, help="The memory's name.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE", show_default=False, help="Its text; missing or `-` reads stdin, as it is."
        ),
    ] = None,
    many: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Many at once: JSON lines with key and value, or one object. `-` is stdin."
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Keep a value under a key, replacing the one before.

    Done means: durable in the local ledger. Relays then get a few seconds to take it; what they have
    not got by then is queued, and sent by the next command that talks to them. A value that begins
    with a dash needs `--` before it.
    """
    writing.refuse_contradiction(context, wait, require_acks)
    if many is not None:
        if key is not None:
            context.fail("--many takes its keys from the file; give no KEY with it")
        _remember_many(context, reading.pairs(many), wait, require_acks)
        return
    if key is None:
        context.fail("give a KEY, or a file with --many")
    text = reading.text_or_stdin(value, "value")
    invocation = of(context)

    async def work(store: MemoryStore) -> writing.Written:
        return await writing.send(store, [await store.remember(key, text)], wait)

    written = invocation.run(work)
    writing.end(invocation, written, "kept", {"key": key, "event_id": written.ids[0]}, require_acks)


def _remember_many(
    context: typer.Context, pairs: list[tuple[str, str]], wait: float, require_acks: int
) -> None:
    from sense_memory.interfaces.cli.tables import progress

    invocation = of(context)

    async def work(store: MemoryStore) -> writing.Written:
        with progress("keeping", len(pairs)) as advance:
            ids = await store.remember_many(pairs, progress=advance)
        return await writing.send(store, ids, wait)

    written = invocation.run(work)
    done = f"{quantity(len(pairs), 'memory', 'memories')} kept"
    result = {"count": len(pairs), "event_ids": list(written.ids)}
    writing.end(invocation, written, done, result, require_acks)


@app.command(rich_help_panel=MEMORIES, epilog="Example: sense-memory recall user_timezone")
def recall(context: typer.Context, key: KeyArgument, _json: JsonOption = False) -> None:
    """Print the value under a key, from the local ledger.

    In a pipe the value comes out byte for byte and nothing else; a terminal gets it with everything
    unseen escaped. Exit code 4: there is no such memory.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[Memory | None, Status]:
        return await store.recall(key), store.status()

    memory, status = invocation.run(work)
    if memory is None:
        raise no_memory(key, status)
    show_memory(invocation, memory)


@app.command(rich_help_panel=MEMORIES, epilog="Example: sense-memory forget user_timezone")
def forget(
    context: typer.Context,
    *,
    key: KeyArgument,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Forget a memory: purge it here, and ask every relay to delete it.

    The deletion is sent even where the key is unknown here, because it may exist on relays. Nobody can
    promise that every copy is gone.
    """
    writing.refuse_contradiction(context, wait, require_acks)
    invocation = of(context)

    async def work(store: MemoryStore) -> tuple[writing.Written, bool]:
        try:
            was_here = await store.recall(key) is not None
        except NotSynced:
            was_here = False
        return await writing.send(store, [await store.forget(key)], wait), was_here

    written, was_here = invocation.run(work)
    result = {"key": key, "deletion_id": written.ids[0], "was_here": was_here}
    done = "forgotten here, deletion requested"
    if not was_here:
        done = "nothing was kept here under that name; its deletion is requested all the same"
    writing.end(invocation, written, done, result, require_acks)


@app.command(rich_help_panel=MEMORIES, epilog='Example: sense-memory journal "Lisa moved to Lisbon."')
def journal(
    context: typer.Context,
    *,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT", show_default=False, help="The entry; missing or `-` reads stdin, as it is."
        ),
    ] = None,
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="ID", show_default=False, help="Remove this entry: its id, or at least 8 digits of it."
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Write a journal entry, or remove one. Entries are never replaced.

    With --remove ID the entry is purged here, and every relay is asked to delete it; `recent` shows the
    ids. Nobody can promise that every copy is gone.
    """
    writing.refuse_contradiction(context, wait, require_acks)
    if remove is not None:
        if text is not None:
            context.fail("--remove takes an id and no TEXT")
        _remove_entry(context, remove, wait, require_acks)
        return
    content = reading.text_or_stdin(text, "entry")
    invocation = of(context)

    async def work(store: MemoryStore) -> writing.Written:
        return await writing.send(store, [await store.journal(content)], wait)

    written = invocation.run(work)
    writing.end(invocation, written, "written", {"event_id": written.ids[0]}, require_acks)


def _remove_entry(context: typer.Context, ident: str, wait: float, require_acks: int) -> None:
    invocation = of(context)
    removed = ""

    async def work(store: MemoryStore) -> writing.Written:
        nonlocal removed
        removed = await _entry_id(store, ident)
        return await writing.send(store, [await store.forget_entry(removed)], wait)

    written = invocation.run(work)
    result = {"event_id": removed, "deletion_id": written.ids[0]}
    writing.end(invocation, written, "removed here, deletion requested", result, require_acks)


async def _entry_id(store: MemoryStore, given: str) -> str:
    """The whole id of the one journal entry that is meant."""
    begin = given.strip().lower()
    if not _is_id(begin):
        raise InvalidInput("an id has 64 digits of 0-9 a-f, of which 8 will do; `recent` shows them")
    found = [entry.event_id for entry in await store.recent(MAX_RECENT_COUNT)]
    found = [ident for ident in found if ident.startswith(begin)]
    if not found:
        raise Stop(ExitCode.NOT_FOUND, "NotFound", f"no journal entry {begin!r} (nothing was removed)")
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} entries begin with {begin!r}; give more of the id")
    return found[0]


@app.command(rich_help_panel=MEMORIES, epilog="Example: sense-memory recent --limit 5")
def recent(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many entries at most.")] = 20,
    _json: JsonOption = False,
) -> None:
    """Show the newest journal entries, newest first."""
    invocation = of(context)

    async def work(store: MemoryStore) -> list[JournalEntry]:
        found = await store.recent(limit)
        warn_if_incomplete(store.status())
        return found

    entries = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json([_entry(entry) for entry in entries]))
        return
    if not entries:
        typer.echo("The journal is empty.", err=True)
        return
    from sense_memory.interfaces.cli.tables import print_entries

    print_entries(entries, time.time())


@app.command("list", rich_help_panel=MEMORIES, epilog="Example: sense-memory list")
def list_memories(context: typer.Context, _json: JsonOption = False) -> None:
    """List all memories: key, age, and the value cut to the terminal's width.

    In a pipe: key, time and whole value, separated by tabs, one line each.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> list[Memory]:
        found = await store.recall_all()
        warn_if_incomplete(store.status())
        return found

    memories = invocation.run(work)
    show_memories(invocation, memories, none="There are no memories yet.")


# ── Shown by other commands too ─────────────────────────────────────────────────────────


def show_memory(invocation: Invocation, memory: Memory) -> None:
    """One memory: as JSON, escaped for a terminal, or byte for byte in a pipe."""
    if invocation.as_json:
        typer.echo(as_json(memory_data(memory)))
    elif sys.stdout.isatty():
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    else:
        typer.echo(memory.value.encode(), nl=False)


def show_memories(invocation: Invocation, memories: Sequence[Memory], *, none: str) -> None:
    """Memories as JSON, as a table for a terminal, or one line each in a pipe; `none` where there is none."""
    if invocation.as_json:
        typer.echo(as_json([memory_data(memory) for memory in memories]))
    elif not memories:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_memories

        print_memories(memories, time.time())
    else:
        for memory in memories:
            typer.echo(f"{one_line(memory.key)}\t{iso(memory.created_at)}\t{one_line(memory.value)}")


def memory_data(memory: Memory) -> dict[str, Any]:
    """A memory for JSON."""
    return {**memory.model_dump(), "created_at": iso(memory.created_at)}


def warn_if_incomplete(status: Status) -> None:
    """Say on stderr that a list may lack what relays hold: incomplete is not "everything"."""
    if not status.is_complete:
        typer.echo(
            "incomplete: no relay has shown everything yet, so there may be more; run `sense-memory sync`",
            err=True,
        )


def no_memory(key: str, status: Status) -> Stop:
    """There is nothing under a key, as far as this ledger can know."""
    return Stop(ExitCode.NOT_FOUND, "NotFound", f"no memory under {key!r} ({_asked(status)})")


def _asked(status: Status) -> str:
    """How far a "no" can be trusted."""
    times = [relay.last_complete for relay in status.relays if relay.last_complete is not None]
    if not status.relays:
        return "no relays are configured"
    if not times:
        return "no relay ever showed everything"
    return f"{quantity(len(times), 'relay')} last asked {age(max(times), time.time())}"


def _entry(entry: JournalEntry) -> dict[str, Any]:
    return {**entry.model_dump(), "created_at": iso(entry.created_at)}
