"""`export` and `import`: the ledger's events as a file of JSON lines, and back with every line verified."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.invocation import ExitCode, JsonOption, of
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.program import BACKUP, app
from sense_memory.interfaces.cli.text import as_json, quantity, size


if TYPE_CHECKING:
    from sense_memory.portable import ImportReport
    from sense_memory.store import MemoryStore

_MAX_SHOWN: Final = 20  # bad lines; JSON has them all
_CHUNK_BYTES: Final = 1 << 20
_FATES: Final = {  # how lines were filed, in the words of the table
    "new": "new",
    "known": "known",
    "stale": "older",
    "deleted": "forgotten",
    "quarantined": "dated ahead",
}


@app.command(
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory export memories.jsonl --force",
        "sense-memory export - | gzip > memories.jsonl.gz",
        codes={2: "wrong usage, or the file exists; nothing was changed"},
    ),
)
def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="Where to. `-` is stdout.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that exists.", show_default=False, metavar="")
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Write everything the ledger holds into a file, one signed and encrypted event a line.

    Without the key it is useless, so keep the key too, elsewhere: `backup` does both. Any Nostr tool can read the
    lines, and `import` takes them back. A file that exists is only replaced with --force.
    """
    invocation = of(context)
    to_stdout = str(file) == "-"
    if to_stdout and (invocation.as_json or sys.stdout.isatty()):
        context.fail("stdout is for the events here: give a FILE, or redirect it and leave out --json")
    if not to_stdout and not force and file.exists():
        raise InvalidInput(f"{file} exists; it was not touched. Give another name, or --force to replace it.")

    async def work(store: MemoryStore) -> int:
        return write_events(store, typer.get_binary_stream("stdout") if to_stdout else file)

    count = invocation.run(work)
    if to_stdout:
        return
    if invocation.as_json:
        typer.echo(as_json({"file": str(file), "events": count, "bytes": file.stat().st_size}))
    else:
        typer.echo(
            f"{quantity(count, 'event')} in {file}, {size(file.stat().st_size)}, useless without the key"
        )


def write_events(store: MemoryStore, target: Path | BinaryIO) -> int:
    """Export with a progress bar; an existing file is replaced. Returns how many events."""
    from sense_memory.interfaces.cli.tables import progress

    with progress("exporting", store.status().counts["events"]) as advance:
        return store.export(target, overwrite=True, progress=advance)


@app.command(
    "import",
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory import memories.jsonl",
        "gunzip < memories.jsonl.gz | sense-memory import -",
        codes={0: "every line was taken", 1: "some were not, each with its reason; the others were"},
    ),
)
def import_events(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="JSON lines of events. `-` is stdin.")
    ],
    _json: JsonOption = False,
) -> None:
    """Take events from a file, such as an export, and verify each.

    Nothing newer is overwritten, and repeating it changes nothing. Lines that can not be taken are listed with
    their numbers and reasons. Relays get what is new with the next sync.
    """
    from sense_memory.interfaces.cli.tables import progress

    invocation = of(context)
    from_stdin = str(file) == "-"
    total = None if from_stdin else _count_lines(file)

    async def work(store: MemoryStore) -> tuple[ImportReport, bool]:
        source = typer.get_binary_stream("stdin") if from_stdin else file
        with progress("verifying", total) as advance:
            return await store.import_(source, progress=advance), bool(store.relays)

    report, has_relays = invocation.run(work, creates=True)
    if invocation.as_json:
        typer.echo(as_json({"counts": dict(report.counts), "bad": [asdict(line) for line in report.bad]}))
    else:
        _print(report, has_relays)
    if report.bad:
        raise typer.Exit(ExitCode.ERROR)


def _count_lines(path: Path) -> int:
    """The lines of a file, for the progress bar."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _print(report: ImportReport, has_relays: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    counts = {"new": 0, "known": 0, **report.counts}
    names = [_FATES[fate] for fate in counts]
    table = plain_table(*names, numbers=names)
    table.add_row(*(f"{count:,}" for count in counts.values()))
    show(table)
    if report.bad:
        show(Text(), Text(f"{quantity(len(report.bad), 'line')} not taken:"))
        show(*(Text(f"  line {line.number:,}: {line.problem}") for line in report.bad[:_MAX_SHOWN]))
        if len(report.bad) > _MAX_SHOWN:
            show(Text(f"  and {len(report.bad) - _MAX_SHOWN:,} more; --json lists them all"))
    if counts["new"] and has_relays:
        show(Text(), Text("Relays get what is new with the next sync: sense-memory sync"))
