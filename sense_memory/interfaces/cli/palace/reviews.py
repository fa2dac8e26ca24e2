"""`palace introspect` and `prune`: the palace memories that need attention, and the effects of time.

An introspection becomes lines with a style; every text of a memory is escaped there. A pruning is shown as a plan
first, and on a terminal the user is asked before anything is deleted for good.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory.interfaces.cli.delivery import deleted, send, sentence
from sense_memory.interfaces.cli.inputs import (
    WAIT_SECONDS,
    DryRunOption,
    JsonOption,
    WaitOption,
    YesOption,
    flag,
)
from sense_memory.interfaces.cli.invocation import (
    CommandFailed,
    ExitCode,
    Invocation,
    confirm,
    of,
    program,
    say,
)
from sense_memory.interfaces.cli.output import warn_if_incomplete
from sense_memory.interfaces.cli.palace.group import REVIEWS, command
from sense_memory.interfaces.cli.streams import OutputFailed
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.shapes.introspection import first_findings
from sense_memory.interfaces.text import (
    age,
    as_json,
    local_time,
    one_line,
    quantity,
    quoted,
)
from sense_memory.operating_system import on_end
from sense_memory.palace.lifecycle import is_by_hand


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.interfaces.cli.delivery import Written
    from sense_memory.memories.persona.reviews import Pruned
    from sense_memory.models import IntrospectionReport, PalaceChanges, PersonaMemory, SuggestedContradiction
    from sense_memory.palace.pruning import PruneLine, PruneReport
    from sense_memory.store import MemoryStore


@command(
    REVIEWS,
    "sense-memory palace introspect",
    "# Every six hours, until Ctrl-C:",
    "sense-memory palace introspect --schedule 6h",
    "sense-memory palace introspect --json",
)
def introspect(
    context: typer.Context,
    *,
    everything: Annotated[
        bool,
        flag("--all", text="Show all findings, not only the first few; also with --json."),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help='Repeat the report at this interval, such as 6h or "1 day".',
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="End after N reports; needs --schedule.", show_default=False),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Report what has changed in the palace, what needs attention, and which memories could be connected.

    No memory is changed: each finding is followed by the command that acts on it. An encrypted log of names and
    counts, without texts, lets the next report on any device say what has changed. With --schedule, the command keeps
    running and fetches what other devices wrote before each report; with --json, each report is then one line.
    """
    if count is not None and schedule is None:
        context.fail("--count says how often the report is repeated; give --schedule too")
    invocation = of(context)
    if schedule is not None:
        from sense_memory.interfaces.cli.inputs import duration

        _stay(invocation, duration(schedule), count, wait, everything=everything)
        return

    async def work(store: MemoryStore) -> IntrospectionReport:
        report = await store.persona_introspect()
        warn_if_incomplete(store)
        await send(store, [], wait)
        return report

    report = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(report_data(report, None if everything else MAX_ITEMS)))
    else:
        _print_report(report, everything=everything)


def _stay(invocation: Invocation, every: float, count: int | None, wait: float, *, everything: bool) -> None:
    """Introspect repeatedly, until there were enough reports or a signal arrives."""

    async def rounds(store: MemoryStore) -> None:
        left = count
        async for report in store.persona_introspections(every):
            if invocation.as_json:
                typer.echo(as_json(report_data(report, None if everything else MAX_ITEMS), indent=None))
            else:
                typer.echo(f"── {local_time(report.created_at)} ──")
                _print_report(report, everything=everything)
            await send(store, [], wait)
            left = None if left is None else left - 1
            if left == 0:
                return

    async def work(store: MemoryStore) -> None:
        running = asyncio.create_task(rounds(store))
        on_end(asyncio.get_running_loop(), running.cancel)
        with suppress(asyncio.CancelledError):
            await running

    invocation.run(work, creates=True)


def _print_report(report: IntrospectionReport, *, everything: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import console

    out = console()
    for line in report_lines(report, time.time(), None if everything else MAX_ITEMS):
        whole = line.style == COMMAND or not out.is_terminal
        indent = len(line.text) - len(line.text.lstrip())
        if whole or len(line.text) <= out.width:
            out.print(Text(line.text, line.style), soft_wrap=True)
            continue
        for number, piece in enumerate(
            Text(line.text.lstrip(), line.style).wrap(out, out.width - indent - 2)
        ):
            out.print(Text(" " * (indent + 2 * bool(number))) + piece, soft_wrap=True)


MAX_ITEMS: Final = 5  # of one section
_EXCERPT_CHARS: Final = 70
_MAX_NAMES: Final = 8  # memories named in one line of changes
_MOVES: Final = ("new", "gone", "rewritten", "revived", "faded", "forgotten", "dissolved")

HEADING: Final = "bold"
COMMAND: Final = "cyan"
PLAIN: Final = ""
FAINT: Final = "dim"


@dataclass(frozen=True, slots=True)
class Section:
    """A list of the report.

    Attributes:
        name: the name of the list.
        title: its heading.
        advice: what to do about its items.
    """

    name: str
    title: str
    advice: str


SECTIONS: Final = (
    Section("suggested_contradictions", "These seem to contradict each other", "If the second one is right:"),
    Section("contradictions", "Contradicted or superseded", "If both are right, remove the mark:"),
    Section("conflicts", "Written on two devices at once", "Keep what is right in the other, then:"),
    Section("suggested_revisions", "May be outdated", "Look at it, then write it anew or forget it:"),
    Section("stale_beliefs", "Weak beliefs that are hardly ever recalled", "Revive it with `recall`, or:"),
    Section("suggested_connections", "Could be connected", "Accept or decline:"),
    Section("forgotten_memories", "Forgotten, but not dissolved yet", "To keep it:"),
    Section("orphaned", "Not connected with anything", ""),
    Section("overloaded_facets", "Large facets", "Some of these memories may need a facet of their own."),
    Section("suggested_compressions", "Too much text for a prompt", "In shorthand, the most relevant first:"),
)


@dataclass(frozen=True, slots=True)
class ReportLine:
    """A line and its style. A `COMMAND` is to be copied, and must not be broken."""

    text: str
    style: str = PLAIN


def report_lines(
    report: IntrospectionReport, now: float, limit: int | None = MAX_ITEMS
) -> Iterator[ReportLine]:
    """A report, line by line.

    Args:
        report: what introspection found.
        now: seconds since 1970.
        limit: how many items of each list are shown; None shows all.
    """
    for number, line in enumerate(report.digest):
        yield ReportLine(one_line(line), PLAIN if number else HEADING)
    if report.changes is not None:
        yield from _changes(report.changes, now, _MAX_NAMES if limit is not None else None)
    found = [section for section in SECTIONS if _items(section, report, limit)]
    for section in found:
        yield ReportLine("")
        yield from _section(section, report, limit)
    if not found:
        yield ReportLine("")
        yield ReportLine("Nothing needs attention.")


def _changes(changes: PalaceChanges, now: float, limit: int | None) -> Iterator[ReportLine]:
    moved = [(name, getattr(changes, name)) for name in _MOVES]
    moved.append(("contradicted", [f"{one} by {other}" for one, other in changes.contradicted]))
    moved.append(("settled", [f"{one} and {other}" for one, other in changes.settled]))
    if not any(found for _, found in moved) and changes.exact:
        return
    yield ReportLine("")
    yield ReportLine(f"Since {local_time(changes.since)}, {age(changes.since, now)}", HEADING)
    for name, found in moved:
        if found:
            yield ReportLine(f"  {name} {len(found):,}: {_names(found, limit)}")
    for words in changes.untold:
        yield ReportLine(f"  not known: {words}", FAINT)


def _items(section: Section, report: IntrospectionReport, limit: int | None) -> tuple[Any, ...]:
    """The items of a list; without those that need no decision, unless everything is shown."""
    items: tuple[Any, ...] = getattr(report, section.name)
    if limit is not None and section.name == "orphaned":
        return ()  # a count is in the digest
    if limit is not None and section.name == "contradictions":
        return tuple(pair for pair in items if not is_by_hand(*pair))  # the others come after these
    return items


def _section(section: Section, report: IntrospectionReport, limit: int | None) -> Iterator[ReportLine]:
    items = _items(section, report, limit)
    reasons = report.reasons.get(section.name, ())
    yield ReportLine(f"{section.title} · {len(items):,}", HEADING)
    if section.name == "orphaned":
        for reason in dict.fromkeys(reasons):
            names = ", ".join(
                one_line(item.path) for item, why in zip(items, reasons, strict=True) if why == reason
            )
            yield ReportLine(f"  {one_line(reason)}: {names}")
        return
    for number, item in enumerate(items[:limit]):
        reason = reasons[number] if number < len(reasons) else ""
        yield from _item(section, item, one_line(reason))
    if limit is not None and len(items) > limit:
        yield ReportLine(f"  … and {len(items) - limit:,} more; --all shows all", FAINT)
    if section.name in report.bounded:
        yield ReportLine(f"  not complete: {report.bounded[section.name]}", FAINT)


def _item(section: Section, item: Any, reason: str) -> Iterator[ReportLine]:
    """One finding, with its reason and the command that acts on it."""
    match section.name:
        case "contradictions":
            old, new = item
            yield ReportLine(f"  {reason}")
            yield from _texts(old, new)
            if not is_by_hand(old, new):
                pair = quoted(old.path, new.path)
                yield from _do("If the mark is right:", f"palace contradict {pair}")
                yield from _do(section.advice, f"palace reconcile {pair}")
        case "suggested_contradictions":
            suggestion: SuggestedContradiction = item
            yield ReportLine(f"  {reason} ({suggestion.confidence:.0%} sure)")
            yield from _texts(suggestion.old, suggestion.new)
            pair = quoted(suggestion.old.path, suggestion.new.path)
            yield from _do(section.advice, f"palace contradict {pair}")
            yield from _do("If both are:", f"palace dismiss {pair}")
        case "suggested_connections":
            one, other = item
            yield ReportLine(f"  {one_line(one.path)} and {one_line(other.path)}: {reason}")
            pair = quoted(one.path, other.path)
            yield from _do("", f"palace connect {pair}", f"palace dismiss {pair}")
        case "conflicts" | "stale_beliefs" | "suggested_revisions":
            yield ReportLine(f"  {one_line(item.path)}: {reason}")
            yield ReportLine(f"    {_excerpt(item)}", FAINT)
            verb = "palace show" if section.name == "suggested_revisions" else "forget"
            yield from _do(section.advice, f"{verb} {quoted(item.path)}")
        case "forgotten_memories":
            yield ReportLine(f"  {one_line(item.path)}: {reason}")
            yield ReportLine(f"    {_excerpt(item)}", FAINT)
            yield from _do("", f"recall {quoted(item.path)}")
        case "overloaded_facets":
            yield ReportLine(f"  {one_line(item)}: {reason}")
        case _:
            yield ReportLine(f"  {one_line(item)}: {reason}")
            yield from _do("", f"palace compress {quoted(item)}")


def _texts(old: PersonaMemory, new: PersonaMemory) -> Iterator[ReportLine]:
    for memory in (old, new):
        yield ReportLine(f"    {one_line(memory.path)}: {_excerpt(memory)}", FAINT)


def _excerpt(memory: PersonaMemory) -> str:
    cut = "…" if len(memory.value) > _EXCERPT_CHARS else ""
    return one_line(memory.value, _EXCERPT_CHARS) + cut


def _do(advice: str, *commands: str) -> Iterator[ReportLine]:
    if advice:
        yield ReportLine(f"    {advice}", FAINT)
    for words in commands:
        yield ReportLine(f"    {program()} {words}", COMMAND)


# ── For programs ────────────────────────────────────────────────────────────────────────


_MAX_CHANGED: Final = 20  # memories in a list of changes


def report_data(report: IntrospectionReport, limit: int | None = MAX_ITEMS) -> dict[str, Any]:
    """A report for JSON: the digest, counts, changes, and each list with paths and reasons.

    Args:
        report: what introspection found.
        limit: how many items of each list are given, and of what is not connected none; None gives all.
    """
    if limit is None:
        return shape_of(report)  # type: ignore[no-any-return]
    found = first_findings(report, limit, orphaned=0)
    if (changes := found["changes"]) is not None:
        changes |= {name: changes[name][:_MAX_CHANGED] for name in changes["counts"]}
    return found


_MAX_NAMED: Final = 10  # of one kind of step; all deletions are named
_DELETE: Final = "delete"
_WORDS: Final = {_DELETE: "delete for good", "mark": "dissolved, counting from now", "clear": "back to life"}


@command(
    REVIEWS,
    "sense-memory palace prune --dry-run",
    "sense-memory palace prune --yes",
    "# Delete without asking a relay that is gone for good:",
    "sense-memory palace prune --yes --without wss://relay.example",
    codes={
        1: "an error, or the question was answered with no",
        3: "some deletions were held back; the report says why",
    },
)
def prune(
    context: typer.Context,
    *,
    dry_run: DryRunOption = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Delete without asking this relay what it holds. May be repeated.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Record the states that memories have faded to, and delete memories that have been dissolved for 30 days.

    The plan is shown first. Deletions are final, here and on relays: on a terminal you are asked first; in a script or
    with --json you are not. Before a deletion, every relay is asked what it holds, because another device may have
    used the memory; as long as a relay does not answer, nothing is deleted.
    """
    invocation = of(context)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not (yes or invocation.as_json)

    async def work(store: MemoryStore) -> tuple[PruneReport, Pruned | None, Written | None]:
        plan = await store.persona_prune(dry_run=True, without=without or ())
        warn_if_incomplete(store)
        if not invocation.as_json:
            _show_plan(plan.report, dry_run=dry_run)
        deletions = sum(line.action.value == _DELETE for line in plan.report.lines)
        if dry_run or not plan.report.lines:
            return plan.report, None, None
        if (
            asks
            and deletions
            and not confirm(f"Delete {quantity(deletions, 'memory', 'memories')} for good?")
        ):
            raise CommandFailed(
                ExitCode.ERROR, "Declined", "nothing was pruned; all memories are as they were"
            )
        done = await store.persona_prune(without=without or ())
        return plan.report, done, await send(store, done.event_ids, wait)

    plan, done, written = invocation.run(work)
    report = plan if done is None else done.report
    if invocation.as_json:
        typer.echo(as_json(_prune_data(report, dry_run=dry_run)))
    elif done is not None and written is not None:
        typer.echo(_pruned(done, written))
    if report.refused:
        if not invocation.as_json:
            _tell_refused(report.refused)
        raise typer.Exit(ExitCode.NOT_REPLICATED)


def _pruned(done: Pruned, written: Written) -> str:
    """How many memories were pruned here, and what the relays know of it."""
    words = f"{quantity(int(done), 'memory', 'memories')} pruned"
    if not written.ids:
        return words
    lines = done.report.lines
    is_deletion = any(line.action.value == _DELETE and line.outcome.value == "done" for line in lines)
    words = deleted(words, written) if is_deletion else f"{words} here"
    return f"{words} · {sentence(written.copies, is_deletion=is_deletion)}"


def prune_steps(report: PruneReport) -> list[tuple[str, list[PruneLine]]]:
    """The steps in words, each with its memories; steps that cannot be undone come last."""
    found: dict[tuple[bool, str], list[PruneLine]] = {}
    for line in report.lines:
        words = _WORDS.get(line.action.value, f"{line.before.value} → {line.after.value}")
        found.setdefault((line.action.value == _DELETE, words), []).append(line)
    return [(words, lines) for (_, words), lines in sorted(found.items(), key=lambda item: item[0])]


def _show_plan(report: PruneReport, *, dry_run: bool) -> None:
    """Show a plan. A plan that was not printed whole is not carried out; this is an error even for `| head`."""
    try:
        _print_plan(report)
    except OutputFailed as error:
        if dry_run:
            raise
        problem = error.problem or "its reader has left"
        raise CommandFailed(
            ExitCode.ERROR, "Declined", f"the plan could not be printed ({problem}); nothing was pruned"
        ) from None


def _print_plan(report: PruneReport) -> None:
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
        nothing = "There is nothing to prune: every memory is in the state that its relevance means."
        typer.echo(nothing, err=not sys.stdout.isatty())
    else:
        _print_steps(report)
    if report.held:
        kept = quantity(len(report.held), "dissolved memory is", "dissolved memories are")
        typer.echo(f"{kept} kept: {_names(list(report.held), _MAX_NAMED)}")


def _print_steps(report: PruneReport) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.tables import plain_table, show

    table = plain_table("change", "memories", "which", numbers=["memories"])
    for words, lines in prune_steps(report):
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


def _prune_data(report: PruneReport, *, dry_run: bool) -> dict[str, Any]:
    return {**shape_of(report), "dry_run": dry_run}
