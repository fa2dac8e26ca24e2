"""What rich draws: tables, the journal, progress. Every text is data, never markup.

Imported only when something is drawn, because rich costs more than a recall.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sense_memory.interfaces.cli.text import age, local_time, one_line, safe


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from sense_memory.models import JournalEntry, Memory

_KEY_SHARE: Final = 3  # a key takes at most a third of the width


def console(*, err: bool = False) -> Console:
    """A console on stdout or stderr that takes every text literally."""
    return Console(stderr=err, markup=False, emoji=False, highlight=False)


def plain_table(*headers: str, numbers: Sequence[str] = ()) -> Table:
    """An unframed table; the columns in `numbers` are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", overflow="fold")
    return table


def count_table(
    first: str,
    rows: Sequence[tuple[Text, Mapping[str, int], Sequence[str]]],
    last: Sequence[str],
    *,
    always: Sequence[str],
) -> Table:
    """A table of counts between words: columns of zeros are left out, but for those in `always`."""
    names = [name for name in rows[0][1] if name in always or any(row[1][name] for row in rows)]
    table = plain_table(first, *names, *last, numbers=names)
    for label, counts, words in rows:
        table.add_row(label, *(f"{counts[name]:,}" for name in names), *words)
    return table


def print_memories(memories: Sequence[Memory], now: float) -> None:
    """One line for each memory, cut to the width."""
    out = console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    table.add_column("key", max_width=out.width // _KEY_SHARE, no_wrap=True, overflow="ellipsis")
    table.add_column("age", no_wrap=True, style="dim")
    table.add_column("value", ratio=1, no_wrap=True, overflow="ellipsis")
    for memory in memories:
        key, value = one_line(memory.key), one_line(memory.value, out.width)
        table.add_row(Text(key), age(memory.created_at, now), Text(value))
    out.print(table)


def print_entries(entries: Sequence[JournalEntry], now: float) -> None:
    """The journal: a line with the time, then the text."""
    out = console()
    for number, entry in enumerate(entries):
        if number:
            out.print()
        when = f"{age(entry.created_at, now)} · {local_time(entry.created_at)}"
        out.print(Text(when, style="dim"))
        out.print(Text(safe(entry.content).rstrip("\n")), soft_wrap=not out.is_terminal)


def show(*parts: RenderableType) -> None:
    """Print tables and texts."""
    out = console()
    for part in parts:
        out.print(part, soft_wrap=isinstance(part, Text) and not out.is_terminal)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr where that is a terminal; yields what to call with the count so far."""
    err = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, completed=count)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """A spinner on stderr where that is a terminal."""
    err = console(err=True)
    if not err.is_terminal:
        yield
        return
    with err.status(Text(what)):
        yield
