"""`journal` and `recent`: dated notes that are never replaced."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.inputs import argument, moment, option
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, named
from sense_memory.interfaces.cli.operations import FromStdin, Write, deletion, operation
from sense_memory.interfaces.cli.output import warn_if_incomplete
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.shapes import names_of, shape_of
from sense_memory.limits import MAX_RECENT_COUNT


if TYPE_CHECKING:
    from sense_memory.models import JournalEntry
    from sense_memory.store import MemoryStore

_is_id = re.compile(r"[0-9a-f]{8,64}").fullmatch


def _gives_both(given: Any) -> str:
    is_both = given.text is not None and given.remove is not None
    return "give either TEXT or --remove ID, not both" if is_both else ""


@operation(
    app,
    "journal",
    'sense-memory journal "Lisa moved to Lisbon."',
    "date | sense-memory journal",
    "# Remove an entry; `recent` shows the ids:",
    "sense-memory journal --remove 3f2a90c1",
    codes={3: "written here, but fewer relays than --require-acks accepted it", 4: "no entry with that id"},
    panel=MEMORIES,
    writes=True,
    with_acks=True,
    creates=lambda given: given.remove is None,
    refuses=_gives_both,
)
async def journal(
    store: MemoryStore,
    *,
    text: Annotated[
        str | None,
        argument(
            "TEXT",
            "The entry. If it is missing or `-`, read all of stdin, without the line break at the end.",
        ),
        FromStdin("entry", unless=("remove",)),
    ] = None,
    remove: Annotated[
        str | None, option("ID", "Remove the entry with this id; the first 8 digits are enough.")
    ] = None,
) -> Write:
    """Write a journal entry, or remove one.

    Entries are never replaced. --remove ID purges the entry here and asks every relay to delete its copy; `recent`
    shows the ids. Nobody can promise that every copy is gone.
    """
    if remove is not None:
        removed = await _entry_id(store, remove)
        request = await store.journal.forget(removed)
        return deletion(request, "removed", **names_of(f"journal/{removed}"), was_here=True)
    written = await store.journal(text or "")
    return Write([written], "written", {**names_of(f"journal/{written}"), "event_id": written})


async def _entry_id(store: MemoryStore, given: str) -> str:
    """The whole id of the only journal entry whose id begins with these digits."""
    begin = given.strip().lower()
    if not _is_id(begin):
        raise InvalidInput(
            "this is not the id of an entry; give at least 8 of its digits (0-9, a-f), as `recent` shows them"
        )
    found = [entry.event_id for entry in await store.recent(MAX_RECENT_COUNT)]
    found = [ident for ident in found if ident.startswith(begin)]
    if not found:
        raise CommandFailed(
            ExitCode.NOT_FOUND, "NotFound", f"no journal entry with the id {begin!r}; nothing was removed"
        )
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} entries begin with {begin!r}; give more digits of the id")
    return found[0]


@dataclass(frozen=True, slots=True)
class _Recent:
    """Journal entries, newest first, and whether the journal has no others either."""

    entries: list[JournalEntry]
    is_all_empty: bool

    def data(self) -> Any:
        return shape_of(self.entries)


def _show_recent(found: _Recent, _: Any) -> None:
    if not found.entries:
        none = "The journal is empty." if found.is_all_empty else "There are no journal entries since then."
        typer.echo(none, err=True)
        return
    from sense_memory.interfaces.cli.tables import print_entries

    print_entries(found.entries, time.time())


@operation(
    app,
    "recent",
    "sense-memory recent",
    "sense-memory recent -n 5 --json",
    "sense-memory recent --since yesterday",
    panel=MEMORIES,
    json=_Recent.data,
    shows=_show_recent,
)
async def recent(
    store: MemoryStore,
    *,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="Show at most N entries, 1 to 100,000.")
    ] = 20,
    since: Annotated[
        str | None, option("WHEN", "Only entries since this time: a date, a time, yesterday, 3h.")
    ] = None,
) -> _Recent:
    """Show recent journal entries, newest first."""
    begin = None if since is None else moment(since, time.time(), begins=True)
    with named(limit="--limit"):
        found = await store.recent(limit)
    warn_if_incomplete(store)
    entries = [entry for entry in found if begin is None or entry.created_at >= begin]
    return _Recent(entries, not found)
