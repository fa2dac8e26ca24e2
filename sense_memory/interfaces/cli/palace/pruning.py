"""`palace prune`: what time has done, as a plan first; and before anything goes for good, a question."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import ExitCode, JsonOption, Stop, of, say
from sense_memory.interfaces.cli.memories import warn_if_incomplete
from sense_memory.interfaces.cli.palace.group import REVIEWS, command
from sense_memory.interfaces.cli.streams import OutputFailed
from sense_memory.interfaces.cli.text import as_json, iso, one_line, quantity
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, WaitOption, send, sentence


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.writing import Written
    from sense_memory.memories.persona.reviews import Pruned
    from sense_memory.palace.pruning import PruneLine, PruneReport
    from sense_memory.store import MemoryStore

_MAX_NAMED: Final = 10  # memories of one kind of step; deletions are all named
_DELETE: Final = "delete"
_WORDS: Final = {_DELETE: "delete for good", "mark": "dissolved, counting from now", "clear": "back to life"}


@command(
    REVIEWS,
    "sense-memory palace prune --dry-run",
    "sense-memory palace prune --yes",
    "# A relay that is gone need not be asked before something is deleted:",
    "sense-memory palace prune --yes --without wss://relay.example",
    codes={
        1: "an error, or the question was answered with no",
        3: "something was held back; the report says why",
    },
)
def prune(
    context: typer.Context,
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what would be done.", show_default=False, metavar=""),
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Delete without asking this relay what it holds. May be repeated.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Delete without a question.", show_default=False, metavar=""),
    ] = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Write what time has done to memories, and delete those that have been dissolved for 30 days.

    The plan is shown first. What it deletes is gone for good, here and on relays, so on a terminal it asks before that;
    elsewhere, and with --json, it does what it is told. Before a deletion every relay is asked for what it holds,
    because the memory may have been used on another device: while one does not answer, nothing is deleted.
    """
    invocation = of(context)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not (yes or invocation.as_json)

    async def work(store: MemoryStore) -> tuple[PruneReport, Pruned | None, Written | None]:
        plan = await store.persona_prune(dry_run=True, without=without or ())
        warn_if_incomplete(store)
        if not invocation.as_json:
            _show(plan.report, dry_run=dry_run)
        deletions = sum(line.action.value == _DELETE for line in plan.report.lines)
        if dry_run or not plan.report.lines:
            return plan.report, None, None
        if (
            asks
            and deletions
            and not typer.confirm(f"Delete {quantity(deletions, 'memory', 'memories')} for good?", err=True)
        ):
            raise Stop(ExitCode.ERROR, "Declined", "nothing was pruned; all memories are as they were")
        done = await store.persona_prune(without=without or ())
        return plan.report, done, await send(store, [], wait)

    plan, done, written = invocation.run(work)
    report = plan if done is None else done.report
    if invocation.as_json:
        typer.echo(as_json(_data(report, dry_run=dry_run)))
    elif done is not None and written is not None:
        typer.echo(f"{quantity(int(done), 'memory', 'memories')} pruned · {sentence(written.copies)}")
    if report.refused:
        if not invocation.as_json:
            _tell_refused(report.refused)
        raise typer.Exit(ExitCode.NOT_REPLICATED)


def steps(report: PruneReport) -> list[tuple[str, list[PruneLine]]]:
    """What becomes of memories, in words, and of which; what cannot be undone comes last."""
    found: dict[tuple[bool, str], list[PruneLine]] = {}
    for line in report.lines:
        words = _WORDS.get(line.action.value, f"{line.before.value} → {line.after.value}")
        found.setdefault((line.action.value == _DELETE, words), []).append(line)
    return [(words, lines) for (_, words), lines in sorted(found.items(), key=lambda item: item[0])]


def _show(report: PruneReport, *, dry_run: bool) -> None:
    """Show a plan. What nobody has seen is not carried out, and that is an error, although `| head` is none."""
    try:
        _print(report)
    except OutputFailed as error:
        if dry_run:
            raise
        problem = error.problem or "its reader has left"
        raise Stop(
            ExitCode.ERROR, "Declined", f"the plan could not be printed ({problem}); nothing was pruned"
        ) from None


def _print(report: PruneReport) -> None:
    """A plan: a table on a terminal; in a pipe a line for each step."""
    if report.lines and not sys.stdout.isatty():
        for line in report.lines:
            fields = (
                one_line(line.path),
                line.action.value,
                line.before.value,
                line.after.value,
                line.reason,
            )
            typer.echo("\t".join(fields))
        return
    if not report.lines:
        nothing = "Nothing is to be pruned: every memory is in the state that its relevance means."
        typer.echo(nothing, err=not sys.stdout.isatty())
    else:
        _print_table(report)
    if report.held:
        kept = quantity(len(report.held), "dissolved memory is", "dissolved memories are")
        typer.echo(f"{kept} kept: {_names(list(report.held), _MAX_NAMED)}")


def _print_table(report: PruneReport) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    table = plain_table("change", "memories", "which", numbers=["memories"])
    for words, lines in steps(report):
        is_final = lines[0].action.value == _DELETE
        names = _names([line.path for line in lines], None if is_final else _MAX_NAMED)
        table.add_row(Text(words, "red" if is_final else ""), f"{len(lines):,}", Text(names))
    show(table)


def _names(paths: Sequence[str], limit: int | None) -> str:
    more = "" if limit is None or len(paths) <= limit else f", … and {len(paths) - limit:,} more"
    return ", ".join(map(one_line, paths[:limit])) + more


def _tell_refused(refused: Sequence[PruneLine]) -> None:
    for reason, count in Counter(line.reason for line in refused).items():
        say("held back", f"{quantity(count, 'memory', 'memories')}, because {reason}")


def _data(report: PruneReport, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "created_at": iso(report.created_at),
        "count": report.count,
        "lines": [asdict(line) for line in report.lines],
        "held": dict(report.held),
    }
