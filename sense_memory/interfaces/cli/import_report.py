"""What an import says: the plan, what was written, and what could not be imported, as sentences, tables and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import program, with_options
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.text import one_line, quantity, some


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sense_memory.exchange import Imported, ImportPlan, Step
    from sense_memory.memories.backup import BadLine


_MAX_SHOWN: Final = 20  # bad lines; JSON lists all of them
_MAX_AUTHORS_SHOWN: Final = 5
_MAX_PLACES: Final = 12
_MAX_PATHS: Final = 5
_FATES: Final = {  # how lines were filed, in the words of the table
    "new": "new",
    "known": "known",
    "stale": "older",
    "deleted": "forgotten",
    "quarantined": "dated ahead",
}


# ── Of events ───────────────────────────────────────────────────────────────────────────


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


def relays_later() -> str:
    """The sentence after an import if there are relays."""
    return f"Relays get the new memories with the next sync: {program()} sync"


@thing("bad line", or_null=("author",))
@dataclass(frozen=True, slots=True)
class BadImportLine:
    """A line, or an object, of a file that was not imported.

    Attributes:
        file: its file.
        number: of the line or the object, from 1; 0 for the whole file.
        problem: why it was left out.
        author: the npub of the key that signed an event; null if that is not known.
    """

    file: str
    number: int
    problem: str
    author: str = ""


@thing("unread file")
@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that could not be read, or not to its end.

    Attributes:
        file: its path.
        problem: why.
    """

    file: str
    problem: str


@thing("import")
@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import found and did.

    Attributes:
        format: of the files; `events` for events of this program, whose fields from `left_out` on are null.
        counts: how many events or items were, or will be, filed in which way.
        bad: what was not imported.
        unread: files that could not be read.
        left_out: what is not a memory, counted by reason.
        notes: further sentences.
        steps: what the import does with each item.
        gone: paths of memories that were imported from these files and are no longer in them; the memories stay.
        written: how many items of each kind were written; null where nothing was to be written.
    """

    format: str
    counts: Mapping[str, int]
    bad: Sequence[BadImportLine]
    unread: Sequence[UnreadFile] = ()
    left_out: Mapping[str, int] | None = None
    notes: Sequence[str] | None = None
    steps: Sequence[Step] | None = None
    gone: Sequence[str] | None = None
    written: Mapping[str, int] | None = None


def events_data(found: ImportedFiles) -> dict[str, Any]:
    """The result of an import of events, for JSON."""
    bad = [BadImportLine(str(file), line.number, line.problem, line.author) for file, line in found.bad]
    unread = [UnreadFile(str(file), problem) for file, problem in found.unread.items()]
    return shape_of(ImportOutcome("events", found.counts, bad, unread))  # type: ignore[no-any-return]


def print_events(found: ImportedFiles, has_relays: bool, owner: str, *, is_one: bool) -> None:
    """Print the result of an import of events.

    Args:
        found: the result.
        has_relays: whether relays are configured.
        owner: the public key of the agent, as npub.
        is_one: whether one file was imported, so that lines need no file.
    """
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
                    f"To import keys and values, run `{program()} remember --many FILE`: no line is an event."
                )
            )
    if counts["new"] and has_relays:
        show(Text(), Text(relays_later()))


# ── Of other formats ────────────────────────────────────────────────────────────────────


def print_plan(made: ImportPlan) -> None:
    """Print a plan: what becomes what, and what does not."""
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
    found += [one_line(with_options(note)) for note in made.notes[:_MAX_SHOWN]]
    found += [f"and {len(made.notes) - _MAX_SHOWN:,} more notes; --json lists them all"] * (
        len(made.notes) > _MAX_SHOWN
    )
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


def print_written(done: Imported) -> None:
    """Print how many entries were written, and what could not be written."""
    typer.echo(f"{quantity(sum(done.written.values()), 'entry', 'entries')} written")
    for line in _problem_lines(done.problems, "could not be written"):
        typer.echo(line)
    if done.session and not done.trusted and any(done.written.values()):
        typer.echo(
            "Search finds them; they enter no prompt by themselves. Let them in with: "
            f"{program()} trust --session {done.session} --yes"
        )


def plan_data(made: ImportPlan, done: Imported | None) -> dict[str, Any]:
    """A plan, and what was written if anything, for JSON."""
    problems = [*made.problems, *(() if done is None else done.problems)]
    outcome = ImportOutcome(
        made.format,
        Counter(step.fate.value for step in made.steps),
        [BadImportLine(problem.file, problem.line, problem.reason) for problem in problems],
        left_out=made.left_out,
        notes=list(map(with_options, made.notes)),
        steps=made.steps,
        gone=made.gone,
        written=None if done is None else {kind.value: count for kind, count in done.written.items()},
    )
    return shape_of(outcome)  # type: ignore[no-any-return]
