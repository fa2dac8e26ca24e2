"""`export` and `import`: encrypted events as JSON lines, a readable export, and what other programs keep.

An import of events verifies every line. For any other format, a plan is shown first, and written after a yes.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.backup import write_events
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, confirm, of, say
from sense_memory.interfaces.cli.program import BACKUP, app, ends
from sense_memory.interfaces.text import as_json, one_line, quantity, size, some


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.exchange import Exported, Imported, ImportPlan, ReaderResult, Step
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.memories.backup import BadLine
    from sense_memory.store import MemoryStore


_MAX_SHOWN: Final = 20  # bad lines; JSON lists all of them
_MAX_AUTHORS_SHOWN: Final = 5
_MAX_PLACES: Final = 12
_MAX_PATHS: Final = 5
_CHUNK_BYTES: Final = 1 << 20
_RELAYS_LATER: Final = "Relays get the new memories with the next sync: sense-memory sync"
_FATES: Final = {  # how lines were filed, in the words of the table
    "new": "new",
    "known": "known",
    "stale": "older",
    "deleted": "forgotten",
    "quarantined": "dated ahead",
}
_KINDS: Final = {  # in the words of tables and sentences
    "palace": "in the palace",
    "flat": "flat",
    "journal": "in the journal",
    "log": "in the log",
    "mind": "of the mind",
}


@app.command(
    rich_help_panel=BACKUP,
    epilog=ends(
        "sense-memory export memories.jsonl --force",
        "sense-memory export --readable notes",
        "sense-memory export - | gzip > memories.jsonl.gz",
        codes={2: "wrong usage, or the file exists; nothing was changed"},
    ),
)
def export(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="The file, or `-` for stdout.")
    ],
    force: Annotated[bool, flag("--force", text="Replace an existing file.")] = False,
    readable: Annotated[
        bool,
        flag(
            "--readable",
            text="Write plain text that people can read and edit: Markdown into a new folder, or JSON lines into a file whose name ends in .jsonl.",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Write everything in the ledger into a file, one signed and encrypted event on each line.

    Without the key the file is useless, so keep the key too, elsewhere; `backup` writes both. Any Nostr tool can read
    the lines, and `import` restores them. An existing file is replaced only with --force.

    With --readable, write the palace, the journal, the flat memories and the mind as plain text, which `import`
    restores word for word. Earlier versions and drafts are left out.
    """
    invocation = of(context)
    if readable:
        _export_readable(context, file, force=force)
        return
    to_stdout = str(file) == "-"
    if to_stdout and (invocation.as_json or sys.stdout.isatty()):
        context.fail("give a FILE, or redirect stdout and leave out --json: the events go to stdout")
    if not to_stdout and not force and file.exists():
        raise InvalidInput(
            f"give another name, or --force to replace the file: {file} exists, and was not touched"
        )

    async def work(store: MemoryStore) -> int:
        return write_events(store, typer.get_binary_stream("stdout") if to_stdout else file)

    count = invocation.run(work)
    if to_stdout:
        return
    if invocation.as_json:
        told = {"file": str(file), "events": count, "bytes": file.stat().st_size, "memories": None}
        typer.echo(as_json(told))
    else:
        typer.echo(
            f"{quantity(count, 'event')} in {file}, {size(file.stat().st_size)}, useless without the key"
        )


def _export_readable(context: typer.Context, target: Path, *, force: bool) -> None:
    from sense_memory.exchange import write_readable
    from sense_memory.interfaces.cli.tables import progress

    invocation = of(context)
    if str(target) == "-":
        context.fail(
            "give a folder, or a file whose name ends in .jsonl: a readable export does not go to stdout"
        )

    async def work(store: MemoryStore) -> Exported:
        with progress("exporting", None) as advance:
            return await write_readable(store, target, overwrite=force, progress=advance)

    done = invocation.run(work)
    counts = dict(done.counts)
    files = [path for path in target.rglob("*") if path.is_file()] if target.is_dir() else [target]
    total = sum(path.stat().st_size for path in files)
    if invocation.as_json:
        typer.echo(as_json({"file": str(target), "events": None, "bytes": total, "memories": counts}))
    else:
        told = ", ".join(f"{count:,} {_KINDS[kind]}" for kind, count in counts.items()) or "nothing"
        typer.echo(f"{told} in {target}, {size(total)}")
        typer.echo("This is plain text: whoever can read these files can read the memories.")
    for note in done.notes:
        say("warning", note)


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The result of importing files.

    Attributes:
        counts: how the good lines of all files were filed.
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
        "sense-memory import ~/.openclaw/workspace --plan",
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
            help="Use this format instead of recognising it: readable, openclaw, markdown, notes, daily, json, mem0, mempalace, chats or events.",
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
    plan: Annotated[bool, flag("--plan", text="Show what would be written, and write nothing.")] = False,
    yes: Annotated[bool, flag("--yes", "-y", text="Write without asking.")] = False,
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
    _json: JsonOption = False,
) -> None:
    """Import the memories of other programs, or an export; the format is recognised.

    Known formats: MEMORY.md with daily notes (OpenClaw), CLAUDE.md and other notes, folders of Markdown (Obsidian),
    JSON and JSON lines, exports of mem0, MemPalace, ChatGPT and Claude, our own readable export, and encrypted events.
    docs/exchange.md says what becomes what.

    The plan is shown first, and nothing is written before you confirm. Dates and origins are kept, memories are
    overwritten only with --replace, and repeating an import changes nothing. What cannot be imported is listed with
    its line and reason. Events (from `export` or `backup`) are verified and imported without a plan. Relays get the
    new memories with the next sync.
    """
    if _are_events(files, format_):
        _verify_and_import(of(context), files)
    else:
        _import_others(context, files, format_, _Wishes(into, plan, yes, replace, halflife_days))


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
        typer.echo(as_json(_data(found)))
    else:
        if counted:
            _print(found, has_relays, owner, is_one=len(files) == 1)
        for file, problem in found.unread.items():
            say("error", f"{file}: {problem}")
    if found.bad or found.unread:
        raise typer.Exit(ExitCode.ERROR)


def _counted(files: Sequence[Path], found: ImportedFiles) -> dict[Path, int | None]:
    """How many lines each file has, for the progress bar; None for stdin, pipes and devices. Records the files that
    cannot be read.

    Raises:
        OSError: the only file cannot be read.
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


def _data(found: ImportedFiles) -> dict[str, Any]:
    return {
        "format": "events",
        "counts": dict(found.counts),
        "bad": [
            {"file": str(file), **asdict(line), "author": line.author or None} for file, line in found.bad
        ],
        "unread": [{"file": str(file), "problem": problem} for file, problem in found.unread.items()],
        **dict.fromkeys(("left_out", "notes", "steps", "gone", "written")),
    }


def _print(found: ImportedFiles, has_relays: bool, owner: str, *, is_one: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    counts = {"new": 0, "known": 0, **found.counts}
    names = [_FATES[fate] for fate in counts]
    table = plain_table(*names, numbers=names)
    table.add_row(*(f"{count:,}" for count in counts.values()))
    show(table)
    if found.bad:
        show(Text(), Text(f"{quantity(len(found.bad), 'line')} not imported:"))
        for file, line in found.bad[:_MAX_SHOWN]:
            where = "" if is_one else f"{one_line(str(file))}, "
            show(Text(f"  {where}line {line.number:,}: {line.problem}"))
        if len(found.bad) > _MAX_SHOWN:
            show(Text(f"  and {len(found.bad) - _MAX_SHOWN:,} more; --json lists them all"))
        others = Counter(line.author for _, line in found.bad if line.author not in {"", owner})
        for author, count in others.most_common(_MAX_AUTHORS_SHOWN):
            verb = "is" if count == 1 else "are"
            show(Text(f"{quantity(count, 'event')} {verb} signed by {author}; this key is {owner}."))
        if others:
            show(Text("To import them, use the agent with that key: sense-memory --agent NAME import FILE"))
        elif not found.counts and not any(line.author for _, line in found.bad):
            show(
                Text(
                    "To import keys and values, run `sense-memory remember --many FILE`: no line is an event."
                )
            )
    if counts["new"] and has_relays:
        show(Text(), Text(_RELAYS_LATER))


# ── Other formats ───────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Wishes:
    """The options of an import of anything but events."""

    into: str
    plan: bool
    yes: bool
    replace: bool
    halflife_days: float | None


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
    if not (wishes.plan or wishes.yes or is_terminal):
        context.fail(
            "add --yes to write, or --plan to see what would be written: there is no terminal to ask on"
        )
    with spinner("reading"):
        reading = _read(files, format_)
    made, done, note = _plan_and_write(invocation, reading, wishes)
    if invocation.as_json:
        typer.echo(as_json(_plan_data(made, done)))
    else:
        if done is not None:
            _print_done(done)
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
            _print_plan(made)
        if wishes.plan or not made.to_write:
            return made, None, ""
        if not wishes.yes and not confirm(f"Write {quantity(len(made.to_write), 'entry', 'entries')}?"):
            return made, None, "Nothing was written."
        total = len(made.to_write)
        with progress("importing", total) as advance:

            def count(written: int) -> None:
                nonlocal kept
                kept = written
                advance(written)

            done = await carry_out(store, made, progress=count)
        return made, done, _RELAYS_LATER if store.relays and any(done.written.values()) else ""

    try:
        return invocation.run(work, creates=not wishes.plan)
    except KeyboardInterrupt:
        if total:
            say(
                "interrupted",
                f"{kept:,} of {quantity(total, 'entry', 'entries')} written; run the command again for the rest",
            )
        raise typer.Exit(ExitCode.INTERRUPTED) from None


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
        raise CommandFailed(
            ExitCode.ERROR, "UnreadableFile", f"{file} cannot be read ({error.strerror}); nothing was written"
        ) from None


def _print_plan(made: ImportPlan) -> None:
    """What becomes what, and what does not."""
    from rich.text import Text

    from sense_memory.exchange import Fate
    from sense_memory.interfaces.cli.tables import plain_table, show

    counts, fates = made.counts(), [fate for fate in Fate if any(step.fate is fate for step in made.steps)]
    lines = [Text(f"Found: {made.format}" if made.steps else f"Found: {made.format}, with nothing to import")]
    if made.steps:
        table = plain_table("becomes", *fates, numbers=fates)
        for kind in dict.fromkeys(step.item.kind for step in made.steps):
            table.add_row(_TITLES[kind], *(f"{counts[kind, fate]:,}" for fate in fates))
        show(lines.pop(), table)
    lines += map(Text, _sentences(made))
    show(*lines)


_TITLES: Final = {
    "palace": "palace memories",
    "flat": "flat memories",
    "journal": "journal entries",
    "log": "entries of the log",
    "mind": "records of the mind",
}


def _sentences(made: ImportPlan) -> list[str]:
    """The rest of a plan, line by line."""
    from sense_memory.exchange import Fate, ItemKind

    places = Counter(
        step.item.path.rpartition("/")[0]
        for step in made.steps
        if step.item.kind is ItemKind.PALACE and step.fate in {Fate.NEW, Fate.CHANGED}
    )
    chats = {
        step.item.path for step in made.steps if step.item.kind is ItemKind.LOG and step.fate is Fate.NEW
    } - {""}
    found = []
    if places:
        told = [f"{place} {count:,}" for place, count in places.most_common(_MAX_PLACES)]
        rest = f" and {len(places) - _MAX_PLACES:,} more" if len(places) > _MAX_PLACES else ""
        found.append(f"places: {', '.join(map(one_line, told))}{rest}")
    if chats:
        found.append(f"conversations: {some(sorted(chats), _MAX_PATHS)}")
    if made.left_out:
        told = [f"{reason} ({count:,})" for reason, count in made.left_out.most_common()]
        found.append(f"left out: {one_line(', '.join(told))}")
    kept = [step for step in made.steps if step.fate is Fate.KEPT]
    found += _first("kept as it is here", kept, _MAX_SHOWN)
    renamed = [step for step in made.steps if step.fate is Fate.NEW and step.reason]
    found += _first("gets another name", renamed, _MAX_PATHS)
    if made.gone:
        found.append(f"no longer in the files, but kept here: {some(made.gone, _MAX_PATHS)}")
    found += [one_line(note) for note in made.notes[:_MAX_SHOWN]]
    return [*found, *_problem_lines(made.problems, "cannot be imported")]


def _first(what: str, steps: Sequence[Step], limit: int) -> list[str]:
    """A line for each of the first steps, and how many more there are."""
    lines = [f"{what}: {one_line(step.item.path)} ({one_line(step.reason)})" for step in steps[:limit]]
    rest = [f"and {len(steps) - limit:,} more; --json lists them all"] * (len(steps) > limit)
    return lines + rest


def _problem_lines(problems: Sequence[Any], what: str) -> list[str]:
    if not problems:
        return []
    lines = [
        f"  {one_line(problem.file)}{f', line {problem.line:,}' if problem.line else ''}: {one_line(problem.reason)}"
        for problem in problems[:_MAX_SHOWN]
    ]
    rest = [f"  and {len(problems) - _MAX_SHOWN:,} more; --json lists them all"] * (
        len(problems) > _MAX_SHOWN
    )
    return [f"{len(problems):,} {what}:", *lines, *rest]


def _print_done(done: Imported) -> None:
    typer.echo(f"{quantity(sum(done.written.values()), 'entry', 'entries')} written")
    for line in _problem_lines(done.problems, "could not be written"):
        typer.echo(line)


def _plan_data(made: ImportPlan, done: Imported | None) -> dict[str, Any]:
    problems = [*made.problems, *(() if done is None else done.problems)]
    return {
        "format": made.format,
        "counts": dict(Counter(step.fate.value for step in made.steps)),
        "bad": [
            {"file": problem.file, "number": problem.line, "problem": problem.reason, "author": None}
            for problem in problems
        ],
        "unread": [],
        "left_out": dict(made.left_out),
        "notes": made.notes,
        "steps": [
            {
                "kind": step.item.kind.value,
                "path": step.item.path or None,
                "fate": step.fate.value,
                "reason": step.reason or None,
                "file": step.item.file,
                "number": step.item.line,
            }
            for step in made.steps
        ],
        "gone": made.gone,
        "written": None if done is None else {kind.value: count for kind, count in done.written.items()},
    }
