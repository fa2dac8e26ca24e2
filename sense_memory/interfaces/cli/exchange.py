"""`export` and `import`: encrypted events as JSON lines, a readable export, and what other programs keep.

An import of events verifies every line. For any other format, a plan is shown first, and written after a yes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.backup import write_events
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.import_report import (
    ImportedFiles,
    events_data,
    plan_data,
    print_events,
    print_plan,
    print_written,
    relays_later,
)
from sense_memory.interfaces.cli.inputs import (
    DryRunOption,
    JsonOption,
    SinceOption,
    YesOption,
    flag,
    moment,
    option,
)
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, confirm, of, say, with_options
from sense_memory.interfaces.cli.program import BACKUP, app
from sense_memory.interfaces.text import as_json, quantity, size
from sense_memory.plain_text import one_line


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.exchange import Exported, ExportFilter, Imported, ImportPlan, ReaderResult
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.store import MemoryStore


_CHUNK_BYTES: Final = 1 << 20
_KINDS: Final = {  # in the words of tables and sentences
    "palace": "in the palace",
    "flat": "flat",
    "journal": "in the journal",
    "log": "in the log",
    "mind": "of the mind",
}


_UntilOption = Annotated[
    str | None, option("WHEN", "Only memories of this time or earlier; a day counts to its end.")
]
_ThemeOption = Annotated[
    str | None, option("THEME", "Only memories with this theme; for the archive: tag or topic.")
]
_PrefixOption = Annotated[
    str | None,
    option(
        "TEXT",
        "Only memories whose name begins with this: a path in the palace, a key, journal/ or mind/block/.",
    ),
]


@app.command(
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory export memories.jsonl --force",
        "sense-memory export --readable notes",
        "sense-memory export - | gzip > memories.jsonl.gz",
        'sense-memory export --readable week --since "7 days ago" --prefix projects/',
        codes={2: "wrong usage, or the file exists; nothing was changed"},
    ),
)
def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The file, or `-` for stdout.")
    ],
    *,
    force: Annotated[bool, flag("--force", text="Replace an existing file.")] = False,
    readable: Annotated[
        bool,
        flag(
            "--readable",
            text="Write plain text that people can read and edit: Markdown into a new folder, or JSON lines into a file whose name ends in .jsonl.",
        ),
    ] = False,
    since: SinceOption = None,
    until: _UntilOption = None,
    theme: _ThemeOption = None,
    prefix: _PrefixOption = None,
    _json: JsonOption = False,
) -> None:
    """Write everything in the ledger into a file, one signed and encrypted event on each line.

    Without the key the file is useless, so keep the key too, elsewhere; `backup` writes both. Any Nostr tool can read
    the lines, and `import` restores them. An existing file is replaced only with --force.

    With --readable, write the palace, the journal, the flat memories and the mind as plain text, which `import`
    restores word for word. Earlier versions and drafts are left out.

    With --since, --until, --theme or --prefix, write only the memories that fulfil all of them. Such a part is no backup:
    it has only the newest version of each memory, and without --readable no log.
    """
    invocation = of(context)
    only = _filter(since, until, theme, prefix)
    if readable:
        _export_readable(context, file, only, force=force)
        return
    to_stdout = str(file) == "-"
    if to_stdout and (invocation.as_json or sys.stdout.isatty()):
        context.fail(
            "the events would go to a terminal; give a FILE, or redirect stdout and leave out --json"
        )
    if not to_stdout and not force and file.exists():
        raise InvalidInput(
            f"{file} exists, and was not touched; give another name, or --force to replace the file"
        )

    async def work(store: MemoryStore) -> tuple[int, Exported | None]:
        target = typer.get_binary_stream("stdout") if to_stdout else file
        if only:
            from sense_memory.exchange import write_part

            return await write_part(store, target, only, overwrite=force)
        return write_events(store, target), None

    count, part = invocation.run(work)
    if to_stdout:
        _note_part(part)
        return
    if invocation.as_json:
        typer.echo(as_json(_export_data(file, part, events=count, size_bytes=file.stat().st_size)))
    else:
        typer.echo(
            f"{quantity(count, 'event')} in {file}, {size(file.stat().st_size)}, useless without the key"
        )
    _note_part(part)


def _filter(since: str | None, until: str | None, theme: str | None, prefix: str | None) -> ExportFilter:
    """The filter of the options.

    Raises:
        InvalidInput: an option is no time, or the times are in the wrong order.
    """
    from sense_memory.exchange import ExportFilter

    now = time.time()
    begin = None if since is None else moment(since, now, begins=True)
    return ExportFilter(begin, None if until is None else moment(until, now), theme, prefix)


def _export_data(
    file: Path, part: Exported | None, *, events: int | None, size_bytes: int, is_plain: bool = False
) -> dict[str, Any]:
    """The result of an export, for JSON."""
    is_part = part is not None and bool(part.conditions)
    return {
        "file": str(file),
        "events": events,
        "bytes": size_bytes,
        "memories": dict(part.counts) if part is not None and is_plain else None,
        "filter": part.conditions if part is not None and is_part else None,
        "left_out": part.left_out if part is not None and is_part else None,
    }


def _note_part(part: Exported | None) -> None:
    """Say on stderr what an export does not have."""
    if part is None:
        return
    if part.conditions:
        told = ", ".join(f"{name} {value}" for name, value in part.conditions.items())
        say(
            "partial",
            f"this is only a part ({one_line(told)}), and no backup: {quantity(part.left_out, 'memory', 'memories')} left out",
        )
    for note in part.notes:
        say("warning", note)


def _export_readable(context: typer.Context, target: Path, only: ExportFilter, *, force: bool) -> None:
    from sense_memory.exchange import write_readable
    from sense_memory.interfaces.cli.tables import progress

    invocation = of(context)
    if str(target) == "-":
        context.fail(
            "a readable export does not go to stdout; give a folder, or a file whose name ends in .jsonl"
        )

    async def work(store: MemoryStore) -> Exported:
        with progress("exporting", None) as advance:
            return await write_readable(store, target, only=only, overwrite=force, progress=advance)

    done = invocation.run(work)
    counts = dict(done.counts)
    files = [path for path in target.rglob("*") if path.is_file()] if target.is_dir() else [target]
    total = sum(path.stat().st_size for path in files)
    if invocation.as_json:
        typer.echo(as_json(_export_data(target, done, events=None, size_bytes=total, is_plain=True)))
    else:
        told = ", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in counts.items()) or "nothing"
        typer.echo(f"{told} in {target}, {size(total)}")
        typer.echo("This is plain text: whoever can read these files can read the memories.")
    _note_part(done)


@app.command(
    "import",
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory import memories.jsonl",
        "sense-memory import /media/usb/sense-memory/*.jsonl",
        "sense-memory import ~/.openclaw/workspace --dry-run",
        "sense-memory import chatgpt-export.zip --yes",
        "sense-memory import CLAUDE.md --into projects/website",
        "gunzip < memories.jsonl.gz | sense-memory import -",
        codes={
            0: "everything was imported",
            1: "something was not imported, and is listed with its line and reason; the rest was imported",
        },
    ),
)
def import_events(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            show_default=False,
            help="Files, folders or zip archives. `-` reads events from stdin.",
        ),
    ],
    *,
    format_: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="FORMAT",
            show_default=False,
            help="Use this format instead of recognising it: readable, openclaw, markdown, notes, daily, json, mem0, server-memory, letta, mempalace, basic-memory, cogx, chats or events.",
        ),
    ] = "",
    into: Annotated[
        str,
        typer.Option(
            metavar="DOMAIN[/FACET]",
            show_default=False,
            help="Put all palace memories here, instead of where the rules put them.",
        ),
    ] = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    replace: Annotated[
        bool,
        flag(
            "--replace",
            text="Replace memories that differ under the same name; `undo` brings the old values back.",
        ),
    ] = False,
    halflife_days: Annotated[
        float | None,
        typer.Option(
            "--halflife",
            metavar="DAYS",
            show_default=False,
            help="Half-life of memories without one of their own; 30 by default. Also changes memories of an earlier import.",
        ),
    ] = None,
    trusted: Annotated[
        bool,
        flag("--trusted", text="You vouch for the text: it may enter prompts by itself. A terminal asks."),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Import the memories of other programs, or an export; the format is recognised.

    Known formats: MEMORY.md with daily notes (OpenClaw), CLAUDE.md and other notes, folders of Markdown (Obsidian),
    basic-memory, JSON and JSON lines, mem0, the graph of server-memory, agent files of Letta, MemPalace (its store or its
    export), cognee (COGX), exports of ChatGPT and Claude, our own readable export, and encrypted events.
    docs/exchange.md says what becomes what.

    The plan is shown first, and nothing is written before you confirm. Dates and origins are kept, memories are
    overwritten only with --replace, and repeating an import changes nothing. What others wrote is found by search, and
    enters no prompt by itself, unless you vouch for it: a terminal asks, --trusted says so, `trust` says so later. What cannot be imported is listed with
    its line and reason. Events (from `export` or `backup`) are verified and imported without a plan. Relays get the
    new memories with the next sync.
    """
    if _are_events(files, format_):
        _verify_and_import(of(context), files)
    else:
        _import_others(context, files, format_, _Wishes(into, dry_run, yes, replace, halflife_days, trusted))


def _verify_and_import(invocation: Invocation, files: Sequence[Path]) -> None:
    """Import files of events; exits with 1 if a line or a file could not be imported."""
    found = ImportedFiles()
    counted = _counted(files, found)
    has_relays, owner = False, ""
    if counted:

        async def work(store: MemoryStore) -> tuple[bool, str]:
            await _import(store, counted, found)
            return bool(store.relays), store.npub

        has_relays, owner = invocation.run(work, creates=True)
    if invocation.as_json:
        typer.echo(as_json(events_data(found)))
    else:
        if counted:
            print_events(found, has_relays, owner, is_one=len(files) == 1)
        for file, problem in found.unread.items():
            say("error", f"{file}: {problem}")
    if found.bad or found.unread:
        raise typer.Exit(ExitCode.ERROR)


def _counted(files: Sequence[Path], found: ImportedFiles) -> dict[Path, int | None]:
    """How many lines each file has, for the progress bar; None for stdin, pipes and devices. Records the files that
    cannot be read.

    Raises:
        CommandFailed: the only file cannot be read.
    """
    counted: dict[Path, int | None] = {}
    for file in files:
        try:
            counted[file] = (
                None if str(file) == "-" or file.is_fifo() or file.is_char_device() else _count_lines(file)
            )
        except OSError as error:
            if len(files) == 1:
                raise _unreadable(file, error) from None
            found.unread[file] = error.strerror or "cannot be read"
    return counted


async def _import(store: MemoryStore, counted: Mapping[Path, int | None], found: ImportedFiles) -> None:
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
                found.unread[file] = with_options(error).removeprefix(f"{file} ")
                continue
            finally:
                done += number or 0
            found.counts.update(report.counts)
            found.bad.extend((file, line) for line in report.bad)


def _count_lines(path: Path) -> int:
    """The lines of a file, for the progress bar."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""))


# ── Other formats ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The options of an import of anything but events."""

    into: str
    dry_run: bool
    yes: bool
    replace: bool
    halflife_days: float | None
    trusted: bool


def _are_events(files: Sequence[Path], format_: str) -> bool:
    """Whether the files are events; events are not imported together with other formats.

    Raises:
        InvalidInput: some files are events, and another has a format that is not read line by line.
    """
    from sense_memory.exchange import check_name

    check_name(format_)
    if format_:
        return format_ == "events"
    named = {file: _format(file, is_only=len(files) == 1) for file in files}
    if "events" not in named.values():
        return False
    others = [file for file, name in named.items() if name not in {"events", "file"}]
    if others:
        raise InvalidInput(
            f"import {others[0]} by itself, because the other files are events; nothing was written"
        )
    return True


def _format(file: Path, *, is_only: bool) -> str:
    from sense_memory.exchange import recognise

    if str(file) == "-" or file.is_fifo() or file.is_char_device():
        return "events"
    try:
        return recognise(file)[0]
    except OSError:
        return "events"  # the import of events says why the file cannot be read
    except InvalidInput:
        if is_only:
            raise
        return "events"


def _import_others(context: typer.Context, files: Sequence[Path], format_: str, wishes: _Wishes) -> None:
    """Read, plan, show the plan, ask, and write."""
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty() and not invocation.as_json
    if not (wishes.dry_run or wishes.yes or is_terminal):
        context.fail(
            "there is no terminal to ask on; add --yes to write, or --dry-run to see what would be written"
        )
    with spinner("reading"):
        reading = _read(files, format_)
    made, done, note = _plan_and_write(invocation, reading, wishes)
    if invocation.as_json:
        typer.echo(as_json(plan_data(made, done)))
    else:
        if done is not None:
            print_written(done)
        if note:
            typer.echo(note)
    if made.problems or (done is not None and done.problems):
        raise typer.Exit(ExitCode.ERROR)


def _plan_and_write(
    invocation: Invocation, reading: ReaderResult, wishes: _Wishes
) -> tuple[ImportPlan, Imported | None, str]:
    """Plan, show the plan, ask, and write; the plan, what was written if anything, and a closing sentence."""
    kept = total = 0

    async def work(store: MemoryStore) -> tuple[ImportPlan, Imported | None, str]:
        nonlocal total
        from sense_memory.exchange import carry_out, plan_import
        from sense_memory.interfaces.cli.tables import progress

        made = await plan_import(
            store, reading, into=wishes.into, replaces=wishes.replace, halflife_days=wishes.halflife_days
        )
        if not invocation.as_json:
            print_plan(made)
        if wishes.dry_run or not made.to_write:
            return made, None, ""
        if not wishes.yes and not confirm(f"Write {quantity(len(made.to_write), 'entry', 'entries')}?"):
            return made, None, "Nothing was written."
        vouches = wishes.trusted or (not wishes.yes and not _is_own(made) and confirm(_ASKS_FOR_TRUST))
        total = len(made.to_write)
        with progress("importing", total) as advance:

            def count(written: int) -> None:
                nonlocal kept
                kept = written
                advance(written)

            done = await carry_out(store, made, trusted=vouches, progress=count)
        return made, done, relays_later() if store.relays and any(done.written.values()) else ""

    try:
        return invocation.run(work, creates=not wishes.dry_run)
    except KeyboardInterrupt:
        if total:
            say(
                "interrupted",
                f"{kept:,} of {quantity(total, 'entry', 'entries')} written; run the command again for the rest",
            )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


_ASKS_FOR_TRUST: Final = (
    "May they enter prompts by themselves? Say no where others may have written the text."
)


def _is_own(made: ImportPlan) -> bool:
    """Whether everything comes from our own readable export, which says where its memories came from."""
    from sense_memory.exchange import OWN_FORMATS

    return set(made.format.split(", ")) <= OWN_FORMATS


def _read(files: Sequence[Path], format_: str) -> ReaderResult:
    first, *others = [_read_one(file, format_) for file in files]
    formats = dict.fromkeys(reading.format for reading in (first, *others))
    for other in others:
        first.add(other)
    first.format = ", ".join(formats)
    return first


def _read_one(file: Path, format_: str) -> ReaderResult:
    from sense_memory.exchange import read

    try:
        return read(file, format_)
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> CommandFailed:
    problem = f"{file} cannot be read ({error.strerror}); check the path"
    return CommandFailed(ExitCode.USAGE, "UnreadableFile", problem)
