"""`export` and `import`: the ledger's events as a file of JSON lines, and back with every line verified."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.invocation import ExitCode, JsonOption, of, say
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.program import BACKUP, app
from sense_memory.interfaces.cli.text import as_json, one_line, quantity, size


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.memories.portable import BadLine
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


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the files of an import.

    Attributes:
        counts: how the good lines of all of them were filed.
        bad: the lines that were not taken, each with its file.
        unread: the files that could not be read, or not to their end, each with the reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[Path, BadLine]] = field(default_factory=list)
    unread: dict[Path, str] = field(default_factory=dict)


@app.command(
    "import",
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory import memories.jsonl",
        "sense-memory import /media/usb/sense-memory/*.jsonl",
        "gunzip < memories.jsonl.gz | sense-memory import -",
        codes={0: "every line was taken", 1: "some were not, each with its reason; the others were"},
    ),
)
def import_events(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", show_default=False, help="JSON lines of events, in any order. `-` is stdin."
        ),
    ],
    _json: JsonOption = False,
) -> None:
    """Take events from files, such as exports, and verify each.

    Nothing newer is overwritten, and repeating it changes nothing. Lines that cannot be taken are listed with
    their numbers and reasons, and so are files that cannot be read; the others are taken. Relays get what is new
    with the next sync.
    """
    invocation = of(context)
    found = Imported()
    counted = _counted(files, found)
    has_relays = False
    if counted:

        async def work(store: MemoryStore) -> bool:
            await _import(store, counted, found)
            return bool(store.relays)

        has_relays = invocation.run(work, creates=True)
    if invocation.as_json:
        typer.echo(as_json(_data(found)))
    else:
        if counted:
            _print(found, has_relays, is_one=len(files) == 1)
        for file, problem in found.unread.items():
            say("error", f"{file}: {problem}")
    if found.bad or found.unread:
        raise typer.Exit(ExitCode.ERROR)


def _counted(files: Sequence[Path], found: Imported) -> dict[Path, int | None]:
    """How many lines each file has, for the progress bar; of stdin, pipes and devices nobody knows. Says which cannot be read.

    Raises:
        OSError: the only one cannot be read.
    """
    counted: dict[Path, int | None] = {}
    for file in files:
        try:
            counted[file] = (
                None if str(file) == "-" or file.is_fifo() or file.is_char_device() else _count_lines(file)
            )
        except OSError as error:
            if len(files) == 1:
                raise
            found.unread[file] = error.strerror or "cannot be read"
    return counted


async def _import(store: MemoryStore, counted: Mapping[Path, int | None], found: Imported) -> None:
    from sense_memory.interfaces.cli.tables import progress

    numbers = list(counted.values())
    total = None if None in numbers else sum(number or 0 for number in numbers)
    done = 0
    with progress("verifying", total) as advance:
        for file, number in counted.items():
            source = typer.get_binary_stream("stdin") if str(file) == "-" else file

            def moved(count: int, before: int = done) -> None:
                advance(before + count)

            try:
                report = await store.import_(source, progress=moved)
            except InvalidInput as error:
                if len(counted) == 1 and not found.unread:
                    raise
                found.unread[file] = str(error).removeprefix(f"{file} ")
                continue
            finally:
                done += number or 0
            found.counts.update(report.counts)
            found.bad.extend((file, line) for line in report.bad)


def _count_lines(path: Path) -> int:
    """The lines of a file, for the progress bar."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


def _data(found: Imported) -> dict[str, Any]:
    return {
        "counts": dict(found.counts),
        "bad": [{"file": str(file), **asdict(line)} for file, line in found.bad],
        "unread": [{"file": str(file), "problem": problem} for file, problem in found.unread.items()],
    }


def _print(found: Imported, has_relays: bool, *, is_one: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    counts = {"new": 0, "known": 0, **found.counts}
    names = [_FATES[fate] for fate in counts]
    table = plain_table(*names, numbers=names)
    table.add_row(*(f"{count:,}" for count in counts.values()))
    show(table)
    if found.bad:
        show(Text(), Text(f"{quantity(len(found.bad), 'line')} not taken:"))
        for file, line in found.bad[:_MAX_SHOWN]:
            where = "" if is_one else f"{one_line(str(file))}, "
            show(Text(f"  {where}line {line.number:,}: {line.problem}"))
        if len(found.bad) > _MAX_SHOWN:
            show(Text(f"  and {len(found.bad) - _MAX_SHOWN:,} more; --json lists them all"))
        if not found.counts:
            show(
                Text(
                    "None of it is an event. Keys and values are taken by `sense-memory remember --many FILE`."
                )
            )
    if counts["new"] and has_relays:
        show(Text(), Text("Relays get what is new with the next sync: sense-memory sync"))
