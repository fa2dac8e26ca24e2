"""`search`: one question to everything that is kept, palace, journal and flat memories."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import question
from sense_memory.interfaces.cli.invocation import named, of
from sense_memory.interfaces.cli.json_output import hit_data
from sense_memory.interfaces.cli.names import everything
from sense_memory.interfaces.cli.options import ExplainOption, HitLimitOption, JsonOption, QueryArgument
from sense_memory.interfaces.cli.output import warn_if_incomplete, warn_of_gaps
from sense_memory.interfaces.cli.program import MEMORIES, app
from sense_memory.interfaces.cli.text import as_json, iso, one_line, some, superseded


if TYPE_CHECKING:
    from sense_memory.search.hits import Hit
    from sense_memory.store import MemoryStore

KINDS = "palace,journal,flat"
_MAX_SOURCES = 10  # of memories, in an error
_NOTHING_KEPT = "Nothing is kept yet. `sense-memory remember --help` shows how to begin."

_is_source = re.compile(r"user|agent|import|(?:tool|document)(?::.+)?").fullmatch


@app.command(
    rich_help_panel=MEMORIES,
    epilog=ends(
        "sense-memory search what does Lisa teach",
        'sense-memory search "what happened last week" --in journal',
        'sense-memory search lisbon --since "30 days ago" --limit 3 --explain',
        "# A phrase, and every word that begins so:",
        "sense-memory search '\"teaches workshops\"' 'print*'",
    ),
)
def search(
    context: typer.Context,
    *,
    query: QueryArgument,
    within: Annotated[
        str,
        typer.Option(
            "--in",
            metavar="KINDS",
            help="Where to look: palace, journal and flat, separated by commas.",
        ),
    ] = KINDS,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            show_default=False,
            help="Only memories first written since then: a date, a time, yesterday, or how long ago, such as "
            '"2 days ago".',
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE",
            show_default=False,
            help="Only memories of the palace from this source: user, agent, import, tool:NAME, document:HASH, or tool for "
            "any tool.",
        ),
    ] = None,
    limit: HitLimitOption = 10,
    explain: ExplainOption = False,
    _json: JsonOption = False,
) -> None:
    """Find memories and journal entries by a question, the best first.

    Journal entries also match on the entries just before and after them, and on a day that the question names.
    Forgotten memories are left out. Searching does not revive memories. A pipe gets one line for each hit: kind, name,
    time, score and text, and the reasons with --explain, with tabs between them.
    """
    from sense_memory.interfaces.cli.inputs import moment

    invocation = of(context)
    text = question(query)
    begin = None if since is None else moment(since, time.time(), begins=True)
    kinds = [kind.strip() for kind in within.split(",") if kind.strip()]

    async def work(store: MemoryStore) -> tuple[list[Hit], bool]:
        await _read_all(store)
        with named(within="--in"):
            found = await store.search(text, limit, within=kinds, since=begin, source=source)
        if not found and source is not None:
            await _check_source(store, source)
        warn_if_incomplete(store)
        if not invocation.as_json:
            warn_of_gaps(store.gaps())
        return found, not found and not store.status().counts["heads"]

    hits, is_empty = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json([hit_data(hit) for hit in hits]))
    elif not hits:
        typer.echo(_NOTHING_KEPT if is_empty else "Nothing was found.", err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_hits

        print_hits(hits, time.time(), explain=explain)
    else:
        for hit in hits:
            why = f"\t{one_line(hit.why.text)}" if explain else ""
            name, when = one_line(hit.path), iso(hit.created_at)
            said = superseded(hit.superseded_by) + one_line(hit.value)
            typer.echo(f"{hit.kind}\t{name}\t{when}\t{hit.score:.3f}\t{said}{why}")


async def _read_all(store: MemoryStore) -> None:
    """Let the store index unread memories; with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        await store.index()
        return
    from sense_memory.interfaces.cli.tables import progress

    with progress("reading memories", 0) as advance:
        await store.index(progress=advance)


async def _check_source(store: MemoryStore, source: str) -> None:
    """Check that a source is a valid one, or one that another program has given a memory.

    Raises:
        InvalidInput: the source is neither; lists the sources of memories here.
    """
    if _is_source(source):
        return
    there = sorted({memory.source for memory in await everything(store)} - {""})
    if source not in there:
        known = f"; memories here are from: {some(there, _MAX_SOURCES)}" if there else ""
        raise InvalidInput(
            f"--source must be user, agent, import, tool, tool:NAME or document:HASH, not {source!r}{known}"
        )
