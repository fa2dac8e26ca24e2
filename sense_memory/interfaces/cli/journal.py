"""`journal` and `recent`: dated notes that are never replaced."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli import delivery, inputs
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    AcksOption,
    JsonOption,
    WaitOption,
    moment,
    option,
)
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, named, of
from sense_memory.interfaces.cli.output import entry_data, name_data, warn_if_incomplete
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.text import as_json
from sense_memory.limits import MAX_RECENT_COUNT


if TYPE_CHECKING:
    from sense_memory.models import JournalEntry
    from sense_memory.store import MemoryStore

_is_id = re.compile(r"[0-9a-f]{8,64}").fullmatch


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        'sense-memory journal "Lisa moved to Lisbon."',
        "date | sense-memory journal",
        "# Remove an entry; `recent` shows the ids:",
        "sense-memory journal --remove 3f2a90c1",
        codes={
            3: "written here, but fewer relays than --require-acks accepted it",
            4: "no entry with that id",
        },
    ),
)
def journal(
    context: typer.Context,
    *,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="TEXT",
            show_default=False,
            help="The entry. If it is missing or `-`, read all of stdin, without the line break at the end.",
        ),
    ] = None,
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            show_default=False,
            help="Remove the entry with this id; the first 8 digits are enough.",
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    require_acks: AcksOption = 0,
    _json: JsonOption = False,
) -> None:
    """Write a journal entry, or remove one.

    Entries are never replaced. --remove ID purges the entry here and asks every relay to delete its copy; `recent`
    shows the ids. Nobody can promise that every copy is gone.
    """
    delivery.refuse_contradiction(context, wait, require_acks)
    if remove is not None:
        if text is not None:
            context.fail("give either TEXT or --remove ID, not both")
        _remove_entry(context, remove, wait, require_acks)
        return
    content = inputs.text_or_stdin(text, "entry", is_lines=True)
    invocation = of(context)

    async def work(store: MemoryStore) -> delivery.Written:
        return await delivery.send(store, [await store.journal(content)], wait)

    written = invocation.run(work, creates=True)
    result = {**name_data(f"journal/{written.ids[0]}"), "event_id": written.ids[0]}
    delivery.report_write(invocation, written, "written", result, require_acks)


def _remove_entry(context: typer.Context, ident: str, wait: float, require_acks: int) -> None:
    invocation = of(context)
    removed = ""

    async def work(store: MemoryStore) -> delivery.Written:
        nonlocal removed
        removed = await _entry_id(store, ident)
        return await delivery.send(store, [await store.forget_entry(removed)], wait)

    written = invocation.run(work)
    result = {**name_data(f"journal/{removed}"), "was_here": True}
    delivery.report_deletion(invocation, written, "removed", result, require_acks)


async def _entry_id(store: MemoryStore, given: str) -> str:
    """The whole id of the only journal entry whose id begins with these digits."""
    begin = given.strip().lower()
    if not _is_id(begin):
        raise InvalidInput("give at least 8 digits (0-9, a-f) of an id, as `recent` shows it")
    found = [entry.event_id for entry in await store.recent(MAX_RECENT_COUNT)]
    found = [ident for ident in found if ident.startswith(begin)]
    if not found:
        raise CommandFailed(
            ExitCode.NOT_FOUND, "NotFound", f"no journal entry with the id {begin!r}; nothing was removed"
        )
    if len(found) > 1:
        raise InvalidInput(f"give more digits of the id: {len(found)} entries begin with {begin!r}")
    return found[0]


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory recent", "sense-memory recent -n 5 --json", "sense-memory recent --since yesterday"
    ),
)
def recent(
    context: typer.Context,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="Show at most N entries, 1 to 100,000.")
    ] = 20,
    since: Annotated[
        str | None, option("WHEN", "Only entries since this time: a date, a time, yesterday, 3h.")
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Show recent journal entries, newest first."""
    invocation = of(context)
    begin = None if since is None else moment(since, time.time(), begins=True)

    async def work(store: MemoryStore) -> list[JournalEntry]:
        with named(limit="--limit"):
            found = await store.recent(limit)
        warn_if_incomplete(store)
        return found

    found = invocation.run(work)
    entries = [entry for entry in found if begin is None or entry.created_at >= begin]
    if invocation.as_json:
        typer.echo(as_json([entry_data(entry) for entry in entries]))
        return
    if not entries:
        typer.echo("There are no journal entries since then." if found else "The journal is empty.", err=True)
        return
    from sense_memory.interfaces.cli.tables import print_entries

    print_entries(entries, time.time())
