"""Drawings with rich: tables, the journal, hits, versions, comparisons, progress. Every text is data, never markup.

Imported only when something is drawn, because importing rich costs more than a recall.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sense_memory.interfaces.text import age, bracketed, hit_caution, local_time, one_line, safe
from sense_memory.plain_text import printable
from sense_memory.search.hits import told
from sense_memory.search.query import marked


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from sense_memory.memories.history import Version
    from sense_memory.models import JournalEntry, Memory
    from sense_memory.search.hits import Hit

_KEY_SHARE: Final = 3  # a key takes at most a third of the width
_LABEL_WIDTH: Final = 28  # of the first column of a table of counts, whatever the other columns are
_ID_CHARS: Final = 12  # of an event's id: enough to tell a million apart
_MAX_LINES: Final = 40  # of one comparison
_WHOLE_COLUMNS: Final = 100_000  # of a table in a pipe: no cell is longer
_STYLES: Final = {"-": "red", "+": "green", " ": "dim", "…": "dim"}


class _Plain(Console):
    """A console that writes tables whole, and without blanks at line ends, where there is no terminal.

    Lines that were broken for a width would break what people copy, such as public keys and paths.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich's."""
        tables = [part for part in objects if isinstance(part, Table)]
        if self.is_terminal or not tables:
            super().print(*objects, **options)
            return
        if not any(table.expand for table in tables):  # those are made for a width
            self.width = _WHOLE_COLUMNS
        with self.capture() as drawn:
            super().print(*objects, **options)
        self.out("\n".join(line.rstrip(" ") for line in drawn.get().split("\n")), end="", highlight=False)


def console(*, err: bool = False) -> Console:
    """A console on stdout or stderr that takes every text literally."""
    return _Plain(stderr=err, markup=False, emoji=False, highlight=False)


def plain_table(*headers: str, numbers: Sequence[str] = ()) -> Table:
    """An unframed table; the columns in `numbers` are aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", overflow="fold")
    return table


def count_table(
    first: str,
    rows: Sequence[tuple[Text, Mapping[str, int | None], Sequence[str]]],
    last: Sequence[str],
    *,
    always: Sequence[str],
) -> Table:
    """A table of counts between words: columns of zeros are left out, but for those in `always`; None is a dash."""
    names = [name for name in rows[0][1] if name in always or any(row[1][name] for row in rows)]
    table = plain_table(first, *names, *last, numbers=names)
    table.columns[0].min_width = min(_LABEL_WIDTH, max(len(label) for label, *_ in rows))
    for label, counts, words in rows:
        table.add_row(
            label, *("-" if counts[name] is None else f"{counts[name]:,}" for name in names), *words
        )
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
    """The journal: a line with the time and the beginning of the id, then the text."""
    out = console()
    for number, entry in enumerate(entries):
        if number:
            out.print()
        out.print(Text(_when(entry.created_at, now, entry.event_id), style="dim"))
        out.print(Text(safe(entry.content).rstrip("\n")), soft_wrap=not out.is_terminal)


def print_history(versions: Sequence[Version], now: float, *, first_seen: bool) -> None:
    """Versions of one memory, newest first, each with what it changed.

    Args:
        versions: newest first.
        now: seconds since 1970.
        first_seen: whether the last version is the oldest; otherwise the last version is for comparison only.
    """
    out = console()
    older = [*versions[1:], None] if first_seen else versions[1:]
    for number, (version, before) in enumerate(zip(versions, older, strict=False)):
        if number:
            out.print()
        out.print(_version_heading(version, now))
        if version.value is None:
            continue
        lines = list(islice(changes(before.value if before else None, version.value), _MAX_LINES + 1))
        for line in lines[:_MAX_LINES]:
            _print_line(out, line)
        if len(lines) > _MAX_LINES:
            out.print(Text("  … and more", style="dim"))
        elif not lines and not version.changes:
            out.print(Text("  the same text", style="dim"))
        told = [f"in conflict with {name}" for name in version.conflicts]
        if told or version.changes:
            words = Text(f"  {safe('; '.join((*told, *version.changes)))}", style="dim")
            out.print(words, soft_wrap=not out.is_terminal)


def _version_heading(version: Version, now: float) -> Text:
    heading = Text(_when(version.created_at, now, version.event_id), style="dim")
    if version.is_head:
        heading.append(" · now", "not dim bold")
    if version.value is None:
        heading.append(" · forgotten", "not dim bold")
    if version.restored:
        heading.append(f" · back to {printable(version.restored, _ID_CHARS)}")
    return heading


def _print_line(out: Console, line: DiffLine) -> None:
    """A line of a comparison: wrapped next to its mark on a terminal, whole in a pipe."""
    text = Text(style=_STYLES[line.mark])
    for part, differs in line.parts:
        text.append(safe(part), "bold" if differs and len(line.parts) > 1 else None)
    mark = Text(f"  {line.mark} ", _STYLES[line.mark])
    for piece in text.wrap(out, out.width - len(mark)) if out.is_terminal else [text]:
        out.print(mark + piece, soft_wrap=True)
        mark = Text(" " * len(mark))


def _when(then: float, now: float, event_id: str) -> str:
    return f"{age(then, now)} · {local_time(then)} · {event_id[:_ID_CHARS]}"


def show(*parts: RenderableType) -> None:
    """Print tables and texts."""
    out = console()
    for part in parts:
        out.print(part, soft_wrap=isinstance(part, Text) and not out.is_terminal)


class Advance(Protocol):
    """Advances a progress bar."""

    def __call__(self, count: int, total: int | None = None, /) -> None:
        """Set the count, and the total if it has changed."""


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """A progress bar on stderr if stderr is a terminal; yields a function to call with the count so far.

    Without a total, the bar shows the count only. With a total of 0, the bar is hidden until the total changes.
    """
    err = console(err=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task(what, total=total)

    def advance(count: int, total: int | None = None, /) -> None:
        bar.update(task, completed=count, total=total)
        if total:
            bar.start()

    if total != 0:
        bar.start()
    try:
        yield advance
    finally:
        bar.stop()


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """A spinner on stderr if stderr is a terminal."""
    err = console(err=True)
    if not err.is_terminal:
        yield
        return
    with err.status(Text(what)):
        yield


_LINES: Final = 2  # of a text, at most
_MAX_MARKED_CHARS: Final = 50_000  # of a text that are searched; the longest memory has fewer
_WORDS: Final = ("word", "prefix", "phrase")


def print_hits(hits: Sequence[Hit], now: float, *, explain: bool) -> None:
    """Hits, the best first: a heading, the words in their text, and the reasons if wanted.

    Args:
        hits: as `search` gives them.
        now: seconds since 1970.
        explain: whether to show the reasons.
    """
    out = console()
    for number, hit in enumerate(hits):
        if number:
            out.print()
        out.print(_hit_heading(hit, now), no_wrap=True, overflow="ellipsis", crop=True)
        for line in _hit_excerpt(hit, out, out.width - 2):
            out.print(Text("  ") + line, no_wrap=True, overflow="ellipsis")
        if explain:
            for line in Text(_reasons(hit), "dim").wrap(out, out.width - 4):
                out.print(Text("    ") + line)


def _hit_heading(hit: Hit, now: float) -> Text:
    name = hit.path[:_ID_CHARS] if hit.kind == "journal" else one_line(hit.path)
    details = f" · {hit.kind} · {age(hit.written_at, now)} · {hit.score:.2f}"
    mark = f" {bracketed(hit_caution(hit))}".rstrip()
    return Text.assemble((name, "bold"), (mark, "yellow"), (details, "dim"))


def _hit_excerpt(hit: Hit, out: Console, width: int) -> list[Text]:
    """Lines of the text from shortly before the first found word, with found words marked."""
    terms = [item.detail for item in hit.why.evidence if item.kind in _WORDS]
    whole = one_line(hit.value, _MAX_MARKED_CHARS)
    spans = marked(whole, terms)
    begin = 0
    if spans and spans[0][1] > _LINES * width:
        space = whole.find(" ", spans[0][0] - width // 2, spans[0][0])
        begin = space + 1 if space >= 0 else spans[0][0]
    shown = Text(("…" if begin else "") + whole[begin : begin + _LINES * width])
    offset = begin - bool(begin)
    for start, end in spans:
        if start >= begin:
            shown.stylize("bold green", start - offset, end - offset)
    lines = list(shown.wrap(out, width))
    if len(lines) > _LINES or begin + _LINES * width < len(whole):
        last = lines[min(len(lines), _LINES) - 1]
        last.rstrip()
        last.truncate(width - 1)
        last.append("…")
    return lines[:_LINES]


def _reasons(hit: Hit) -> str:
    parts = " + ".join(f"{one_line(told(item))} {item.contribution:.2f}" for item in hit.why.evidence)
    factor = f"{hit.why.factor:.2f}"
    times = "" if factor == "1.00" else f", so all of it times {factor}"
    return f"{parts}; relevance {hit.why.relevance:.2f}{times}"


# ── Comparisons of two texts ────────────────────────────────────────────────────────────
#
# Every step is bounded, because a memory may hold anything: texts that differ too much for a close look are shown as
# replaced.

CONTEXT: Final = 1  # unchanged lines shown before and after a change
_MAX_PAIRS: Final = 250_000  # the time of difflib grows with the product of both sides
_KEEP_CHARS: Final = 40  # kept on each side of a longer unchanged stretch
_MAX_CHANGED_CHARS: Final = 400  # kept of a changed stretch

_words = re.compile(r"\S+\s*|\s+").findall

Part = tuple[str, bool]  # a stretch of a line, and whether it differs from the other text


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a comparison.

    Attributes:
        mark: "-" for a removed line, "+" for an added one, " " for an unchanged one; "…" for unchanged lines not shown.
        parts: the line, in stretches that differ and stretches that do not.
    """

    mark: str
    parts: tuple[Part, ...]


def changes(old: str | None, new: str | None) -> Iterator[DiffLine]:
    """The changes from one text to another; None means no text. Yields nothing where both are the same.

    Lazy: a caller that stops after some lines does not pay for the rest.
    """
    before, after = _lines(old), _lines(new)
    reached = 0
    for number, step in enumerate(_steps(before, after)):
        yield from _stayed(before[reached : step.start], first=number == 0)
        yield from _replaced(before[step.start : step.end], after[step.new_start : step.new_end])
        reached = step.end
    if before != after:
        yield from _stayed(before[reached:], last=True)


@dataclass(frozen=True, slots=True)
class _DiffStep:
    """Items of one list, from `start` to before `end`, that other items replaced."""

    start: int
    end: int
    new_start: int
    new_end: int


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.split("\n")


def _steps(old: Sequence[str], new: Sequence[str]) -> list[_DiffStep]:
    """Where two lists differ: the result of difflib, or one step where difflib would take too long."""
    if old == new:
        return []
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle_old) * len(middle_new) > _MAX_PAIRS:
        return [_DiffStep(head, len(old) - tail, head, len(new) - tail)]
    found = SequenceMatcher(None, middle_old, middle_new).get_opcodes()
    return [_DiffStep(a + head, b + head, c + head, d + head) for tag, a, b, c, d in found if tag != "equal"]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many items are equal at the beginning of both lists."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _stayed(lines: Sequence[str], *, first: bool = False, last: bool = False) -> Iterator[DiffLine]:
    """Unchanged lines: those next to a change, and how many are left out."""
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    hidden = len(lines) - head - tail
    if hidden <= 1:  # showing one line takes no more room than the note that it is left out
        yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines)
        return
    yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines[:head])
    yield DiffLine("…", ((f"{hidden:,} lines unchanged", False),))
    yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines[len(lines) - tail :])


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Removed lines and added lines; where these correspond, their words are compared."""
    if len(old) != len(new):
        yield from (DiffLine("-", ((_cut(line), True),)) for line in old)
        yield from (DiffLine("+", ((_cut(line), True),)) for line in new)
        return
    for before, after in zip(old, new, strict=True):
        gone, came = _compared(_words(before), _words(after))
        yield DiffLine("-", gone)
        yield DiffLine("+", came)


def _compared(old: list[str], new: list[str]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Two lines in stretches; unchanged stretches are shortened to the surroundings of changes."""
    gone: list[Part] = []
    came: list[Part] = []
    reached = 0
    for number, step in enumerate(_steps(old, new)):
        same = _shortened("".join(old[reached : step.start]), first=number == 0)
        gone += [(same, False), (_cut("".join(old[step.start : step.end])), True)]
        came += [(same, False), (_cut("".join(new[step.new_start : step.new_end])), True)]
        reached = step.end
    rest = _shortened("".join(old[reached:]), last=True)
    return tuple(part for part in (*gone, (rest, False)) if part[0]), tuple(
        part for part in (*came, (rest, False)) if part[0]
    )


def _shortened(text: str, *, first: bool = False, last: bool = False) -> str:
    """An unchanged stretch, cut in its middle, or at the beginning or end of the line."""
    head = 0 if first else _KEEP_CHARS
    tail = 0 if last else _KEEP_CHARS
    if len(text) <= head + tail + 2:
        return text
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _cut(text: str) -> str:
    hidden = len(text) - _MAX_CHANGED_CHARS
    return text if hidden <= 0 else f"{text[:_MAX_CHANGED_CHARS]}… ({hidden:,} more characters)"
