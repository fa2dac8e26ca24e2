"""What commands print: memories for every command, and warnings that a list may be incomplete.

What `--json` prints is `shape_of` a thing (`sense_memory/interfaces/shapes/`).
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import echo_all, note, program
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import (
    as_json,
    as_json_list,
    caution,
    iso,
    one_line,
    quantity,
    quoted,
    safe,
    some,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.interfaces.cli.palace.shapes import Insight
    from sense_memory.memories.embedding_jobs import Gaps
    from sense_memory.memories.status import RelayStatus
    from sense_memory.models import Draft, Memory, PersonaMemory
    from sense_memory.relay.sync.reports import SyncReport
    from sense_memory.store import MemoryStore


def relay_data(
    url: str, state: RelayStatus | None = None, *, problem: str = "", **parts: Any
) -> dict[str, Any]:
    """A relay, see `RelayFacts.of`."""
    from sense_memory.interfaces.shapes.views import RelayFacts

    return shape_of(RelayFacts.of(url, state, problem=problem, **parts))  # type: ignore[no-any-return]


# ── Tables ──────────────────────────────────────────────────────────────────────────────

_CELL_CHARS: Final = 200  # of a text in a table on a terminal


def show_rows(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, none: str = "", numbers: Sequence[str] = ()
) -> None:
    """Rows as a table on a terminal, or one line each with tabs in a pipe.

    Args:
        headers: of the table.
        rows: the cells of each row.
        none: said on stderr if there are no rows.
        numbers: the columns that a terminal aligns to the right.
    """
    if not rows:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from rich.text import Text

        from sense_memory.interfaces.cli.tables import console, plain_table

        table = plain_table(*headers, numbers=numbers)
        for row in rows:
            table.add_row(*(Text(one_line(cell, _CELL_CHARS)) for cell in row))
        console().print(table)
    else:
        echo_all("\t".join(map(one_line, row)) for row in rows)


# ── Memories ────────────────────────────────────────────────────────────────────────────


def show_memory(invocation: Invocation, memory: Memory | PersonaMemory, then: float | None = None) -> None:
    """One memory: as JSON, or as `as_value` prints it.

    Args:
        invocation: of the command.
        memory: flat, or of the palace.
        then: the time of its state, in seconds since 1970; None for now.
    """
    if invocation.as_json:
        typer.echo(as_json(shape_of(memory, then)))
    else:
        as_value(memory)


def as_value(memory: Memory | PersonaMemory, given: Any = None) -> None:
    """The text of a memory, escaped for a terminal, and a line break if it has none at its end; with `--raw` its bytes.

    stderr says why the text may not hold.
    """
    if getattr(given, "raw", False):
        typer.echo(memory.value.encode(), nl=False)
    else:
        text = safe(memory.value) if sys.stdout.isatty() else memory.value
        typer.echo(text.encode(), nl=not text.endswith("\n"))
    for line in _caution_lines(memory):
        typer.echo(line, err=True)


def _caution_lines(memory: Memory | PersonaMemory) -> Iterator[str]:
    """The memory to which this one lost as an edit, that superseded it, and the later ones that may contradict it, with the
    commands that decide.
    """
    path = getattr(memory, "path", "")
    if (original := getattr(memory, "conflict_of", None)) is not None:
        yield f"an edit that lost to {one_line(original)} on another device"
        yield f"If it is not needed: {program()} forget {quoted(path)}"
    if (by := getattr(memory, "superseded_by", None)) is not None:
        yield f"superseded by {one_line(by)}"
    for later in getattr(memory, "suspected_by", ()):
        pair = quoted(path, later)
        yield f"A later memory may contradict this: {one_line(later)}."
        yield f"If this is wrong now: {program()} palace contradict {pair}"
        yield f"If both are right: {program()} palace dismiss {pair}"


def show_memories(invocation: Invocation, memories: Sequence[Memory], *, none: str) -> None:
    """Flat memories as JSON, as a table for a terminal, or one line each in a pipe; `none` if there are none."""
    if invocation.as_json:
        echo_all(as_json_list(shape_of(memory) for memory in memories), "")
    elif not memories:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_memories

        print_memories(memories, time.time())
    else:
        echo_all(
            f"{one_line(memory.key)}\t{iso(memory.created_at)}\t{one_line(memory.value)}"
            for memory in memories
        )


def show_insights(invocation: Invocation, insights: Sequence[Insight], then: float, *, none: str) -> None:
    """Palace memories as they are at a time: JSON, a table for a terminal, or one line each in a pipe."""
    if invocation.as_json:
        typer.echo(as_json([shape_of(insight.memory, then) for insight in insights]))
    elif not insights:
        typer.echo(safe(none), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_list

        print_list(insights)
    else:
        print_lines(insights)


def print_lines(insights: Sequence[Insight]) -> None:
    """One line for each memory: path, state, relevance, text, and why it may not hold, with tabs between; see `caution`."""
    typer.echo("".join(map(_piped, insights)), nl=False)


def _piped(insight: Insight) -> str:
    memory = insight.memory
    line = f"{one_line(memory.path)}\t{memory.state.value}\t{insight.relevance:.3f}\t{one_line(memory.value)}"
    return "\t".join(filter(None, (line, caution(memory)))) + "\n"


def warn_if_incomplete(store: MemoryStore) -> None:
    """Warn on stderr if a list may lack memories that relays hold."""
    if not store.relays and not store.status().counts["heads"]:
        note(f"to restore memories from relays, run `{program()} relays add URL`, then `{program()} sync`")
    if not store.relays.were_ever_complete():
        note(f"incomplete: no relay has shown everything yet, so there may be more; run `{program()} sync`")


def warn_of_gaps(gaps: Gaps) -> None:
    """Warn on stderr if memories were searched by words only although there is an embedder."""
    if gaps.trouble is not None:
        note(f"searched by words only: {gaps.trouble}")
    elif gaps.count:
        count = quantity(gaps.count, "memory was", "memories were")
        note(f"{count} searched by words only, not embedded yet; run `{program()} embed`")


async def told_by(store: MemoryStore, report: SyncReport) -> str:
    """What a synchronisation has to tell about memories: edits that lost, and forgotten memories that are there again.

    It names all of them, because the store reports them only once.
    """
    told = [lost_edits(report.overruled, await store.drafts())] if report.overruled else []
    if again := report.written_again:
        told.append(
            f"{_counted(again)} written again on another device after being forgotten: {_all(again)}. "
            f"To forget it again: `{program()} forget NAME`."
        )
    if copies := report.conflicts:
        told.append(
            f"{_counted(copies)} edited on another device too, and the edit made here is the current text. The text of the other device is "
            f"kept: {_all(copies)}."
        )
    if won := report.prevailed:
        told.append(
            f"{_counted(won)} edited on another device too, and the edit made here is the current text: {_all(won)}.{_other_text(won)}"
        )
    if names := report.unclaimed:
        told.append(
            f"Of {quantity(len(names), 'memory', 'memories')}, another text was written under an id of this ledger, here before "
            f"it was set back or on a copy of it: {_all(names)}.{_other_text(names)}"
        )
    return " ".join(told)


def lost_edits(names: Sequence[str], drafts: Sequence[Draft]) -> str:
    """The memories whose edits lost, and where the text that was written here is kept.

    Args:
        names: of the memories, as `SyncReport.overruled` has them.
        drafts: of the store. A text that another device forgot unseen is a draft, and its memory has no history.
    """
    from sense_memory.ledger.removals import TOO_LARGE

    reasons = {draft.key: draft.reason for draft in drafts}
    forgotten = [name for name in names if reasons.get(name, "") not in {"", TOO_LARGE}]
    edited = [name for name in names if name not in forgotten]
    drafts_shown = f"`{program()} drafts`"
    ways = _histories(edited)
    if reasons.keys() & set(edited):
        ways.append(drafts_shown)
    told = []
    if edited:
        lost = f"{_counted(edited)} edited on another device too, and the edit made there is the current text"
        told.append(f"{lost}: {_all(edited)}.{_kept(ways)}")
    if forgotten:
        lost = f"{_counted(forgotten)} forgotten by another device, which had not seen the text of this one"
        told.append(f"{lost}: {_all(forgotten)}.{_kept([drafts_shown])}")
    return " ".join(told)


_BLOCK: Final = "mind/block/"


def _histories(names: Sequence[str]) -> list[str]:
    """The commands that show the histories of memories; those of objectives have no command."""
    labels = [name.removeprefix(_BLOCK) for name in names if name.startswith(_BLOCK)]
    memories = [name for name in names if not name.startswith((_BLOCK, "mind/objective/"))]
    commands = {f"{program()} history": memories, f"{program()} mind blocks history": labels}
    return [
        f"`{command} {quoted(found[0])}`{' (and so on)' if found[1:] else ''}"
        for command, found in commands.items()
        if found
    ]


def _other_text(names: Sequence[str]) -> str:
    ways = _histories(names)
    return f" The other text is in {' and '.join(ways)}." if ways else ""


def _counted(names: Sequence[str]) -> str:
    return quantity(len(names), "memory was", "memories were")


def _all(names: Sequence[str]) -> str:
    return some(names, len(names))


def _kept(ways: Sequence[str]) -> str:
    return f" What was written here is kept: see {' and '.join(ways)}." if ways else ""
