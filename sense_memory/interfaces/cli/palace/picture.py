"""Drawings of the palace with rich: the tree, lists, hits, and one memory with the curve of its life.

Imported only when something is drawn. Every text is data, never markup. Callers decide what is shown, and in which
order. The curve itself uses no terminal and no clock: it consists of rows of stretches, each with a style.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sense_memory.interfaces.cli.palace.shapes import BOUNDS, STYLES, Life, bar, counted, excerpt, texts
from sense_memory.interfaces.cli.tables import console, print_history
from sense_memory.interfaces.text import age, local_time, one_line, quantity, safe
from sense_memory.limits import (
    ACTIVE_ABOVE,
    DAY_SECONDS,
    DISSOLVED_DAYS,
    FADING_FROM,
    MAX_HALFLIFE_DAYS,
)
from sense_memory.models import State
from sense_memory.nostr.relay_url import is_local
from sense_memory.palace.lifecycle import current_relevance, state_at


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from sense_memory.interfaces.cli.palace.shapes import DrawnDomain, DrawnFacet, Insight, MemoryProfile
    from sense_memory.ledger.copies import MemoryCopies
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.search import PersonaHit

_GUIDES: Final = 8  # columns that the tree's branches take before a memory
_KEY_SHARE: Final = 3  # a key takes at most a third of the width
_PATH_SHARE: Final = 2  # a path takes at most half of the width
_LEAST_CHARS: Final = 8
_SHORT_BAR_CHARS: Final = 4  # bar and number together are as wide as their heading


def shows_ascii_only(out: Console) -> bool:
    """Whether a terminal shows only ASCII."""
    return out.options.ascii_only


def print_tree(domains: Sequence[DrawnDomain], states: Mapping[str, int]) -> None:
    """The palace: domains, facets, and the memories in them with state, bar and the beginning of the text."""
    out = console()
    keys = [
        cell_len(one_line(insight.memory.key))
        for domain in domains
        for facet in domain.facets
        for insight in facet.insights
    ]
    width = min(max(keys, default=0), max(_LEAST_CHARS, out.width // _KEY_SHARE))
    total = quantity(sum(states.values()), "memory", "memories")
    out.print(Text(f"{total}: {counted(states)}", style="bold"))
    tree = Tree("", guide_style="dim", hide_root=True)
    for domain in domains:
        branch = tree.add(Text.assemble((one_line(domain.name), "bold"), (f"  {domain.count:,}", "dim")))
        for facet in domain.facets:
            label = Text.assemble(one_line(facet.name), (f"  {facet.count:,}", "dim"))
            _hang(branch.add(label), facet, width, out)
        if domain.facet_count > len(domain.facets):
            rest = quantity(domain.facet_count - len(domain.facets), "more facet")
            branch.add(Text(f"… and {rest}; all with --all", style="dim"))
    out.print(tree, no_wrap=True, overflow="ellipsis", crop=True)


def _hang(branch: Tree, facet: DrawnFacet, width: int, out: Console) -> None:
    for insight in facet.insights:
        text = _insight(insight, width, out)
        text.truncate(max(20, out.width - _GUIDES), overflow="ellipsis")
        branch.add(text)
    if facet.count > len(facet.insights):
        branch.add(Text(f"… and {facet.count - len(facet.insights):,} more", style="dim"))


def _insight(insight: Insight, width: int, out: Console) -> Text:
    """Key, bar, relevance and state, and the beginning of the text, in columns."""
    memory = insight.memory
    style = STYLES[memory.state]
    state = "" if memory.state.value == "active" else memory.state.value
    return Text.assemble(
        (_cell(one_line(memory.key), width), style),
        "  ",
        (bar(insight.relevance, is_ascii=shows_ascii_only(out)), style),
        f" {insight.relevance:.2f} ",
        (f"{state:<10}", style),
        (excerpt(memory, out.width), "" if state == "" else "dim"),
    )


def _cell(text: str, width: int) -> str:
    """A text of exactly `width` columns; a longer text is cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return f"{set_cell_size(text, width - 1)}…"


# ── Lists ───────────────────────────────────────────────────────────────────────────────


def print_list(insights: Sequence[Insight]) -> None:
    """One line for each memory: path, relevance, state, the beginning of the text."""
    out = console()
    table = _table(out)
    table.add_column("relevance", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("text", ratio=1, no_wrap=True, overflow="ellipsis")
    for insight in insights:
        memory = insight.memory
        style = STYLES[memory.state]
        left = f"{bar(insight.relevance, width=_SHORT_BAR_CHARS, is_ascii=shows_ascii_only(out))} {insight.relevance:.2f}"
        table.add_row(
            Text(one_line(memory.path)),
            Text(left, style),
            Text(memory.state.value, style),
            Text(excerpt(memory, out.width)),
        )
    out.print(table)


def print_hits(hits: Sequence[PersonaHit], *, explain: bool) -> None:
    """The hits of a search: path, score, the beginning of the text; and below the text the reasons, if wanted."""
    out = console()
    table = _table(out)
    table.add_column("score", no_wrap=True, justify="right")
    table.add_column("text", ratio=1, no_wrap=not explain, overflow="fold" if explain else "ellipsis")
    for hit in hits:
        text = Text(excerpt(hit, out.width))
        if explain:
            text.truncate(out.width, overflow="ellipsis")
            text = Text.assemble(text, "\n", (_why(hit), "dim"))
        style = "" if hit.state.value == "active" else STYLES[hit.state]
        table.add_row(Text(one_line(hit.path), style), f"{hit.score:.2f}", text)
    out.print(table)


def _why(hit: PersonaHit) -> str:
    parts = " + ".join(f"{one_line(str(match))} {match.contribution:.2f}" for match in hit.why.matches)
    return f"{parts}; relevance {hit.why.relevance:.2f}"


def _table(out: Console) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", expand=True)
    table.add_column("memory", max_width=out.width // _PATH_SHARE, no_wrap=True, overflow="ellipsis")
    return table


_MAX_WIDTH: Final = 100  # of the curve
_EXCERPT_CHARS: Final = 200
_HOLDING: Final[Mapping[str, str]] = {
    "queued": "has not accepted it yet",
    "acked": "accepted it",
    "confirmed": "showed it",
    "refused": "refuses it",
    "parked": "did not take it for a week",
    "superseded": "holds a newer version",
}


def _copies(copies: MemoryCopies) -> list[tuple[str, str]]:
    """Whether enough relays elsewhere have it; nothing where none of its relays is elsewhere."""
    if all(map(is_local, copies.states)):
        return []
    words = "replicated" if copies.is_replicated else "not replicated"
    read = "durable" if copies.is_durable else f"read back from {copies.shown}"
    return [("copies", f"{words}: {copies.acks} of {copies.min_acks} relays elsewhere needed; {read}")]


def print_life(found: MemoryProfile, now: float, versions: int) -> None:
    """One memory with all its details.

    Args:
        found: the memory, with its state at `now`.
        now: seconds since 1970.
        versions: the most versions of its text to show.
    """
    out = console()
    memory = found.memory
    out.print(Text(one_line(memory.path), style="bold"), soft_wrap=True)
    out.print(Text(safe(memory.value).rstrip("\n")), soft_wrap=not out.is_terminal)
    out.print()
    relays = [("relay", f"{url} {_HOLDING.get(state, state)}") for url, state in found.holders.items()]
    _print_rows(out, [*facts(memory, now), *relays, *_copies(found.copies)])
    out.print()
    for row in picture(memory, now, width=min(out.width - 1, _MAX_WIDTH), is_ascii=shows_ascii_only(out)):
        line = Text.assemble(*row)
        line.rstrip()
        out.print(line, soft_wrap=True)
    _print_rows(out, list(fate(memory, now)))
    if found.links:
        out.print(Text("\nlinks", style="bold"))
        for link in found.links:
            text = "not here" if link.memory is None else one_line(link.memory.value, _EXCERPT_CHARS)
            line = Text.assemble(f"  {link.kind} {one_line(link.path)}  ", (text, "dim"))
            if out.is_terminal:
                line.truncate(out.width, overflow="ellipsis")
            out.print(line, soft_wrap=True)
    said = texts(found.versions)
    if said and versions:
        out.print(Text("\nversions", style="bold"))
        print_history(said[: versions + 1], now, first_seen=len(said) <= versions)
        if len(said) > versions:
            out.print(Text(f"… and {quantity(len(said) - versions, 'older one')}: `history`", style="dim"))


def facts(memory: PersonaMemory, now: float) -> list[tuple[str, str]]:
    """The details of a memory other than its text: name and words; empty details are left out."""
    times = quantity(memory.access_count, "time")
    recalled = f"{times}, last {age(memory.last_accessed, now)}" if memory.access_count else "never"
    rows = [
        ("state", f"{memory.state.value}, relevance {current_relevance(memory, now):.2f}"),
        ("half-life", _halflife(memory)),
        ("recalled", recalled),
        ("first written", _moment(memory.created_at, now)),
        ("text written", _moment(memory.written_at, now) if memory.written_at > memory.created_at else ""),
        ("confidence", f"{memory.confidence:g}"),
        ("source", one_line(memory.source)),
        ("themes", ", ".join(map(one_line, memory.themes))),
    ]
    return [(name, words) for name, words in rows if words]


def _moment(at: float, now: float) -> str:
    return f"{local_time(at)} ({age(at, now)})"


def _halflife(memory: PersonaMemory) -> str:
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return "a hundred years: never pruned"
    plain = f"{memory.halflife_days:g} days"
    if memory.superseded_by is None:
        return plain
    return f"{plain}, quartered because the memory is superseded"


def fate(memory: PersonaMemory, now: float) -> Iterator[tuple[str, str]]:
    """When a memory reaches each state if it is not recalled, and when it may be deleted."""
    life = Life.of(memory)
    for state, at in life.begins.items():
        verb = "since" if at <= now else "from"
        yield f"{state} {verb}", f"{local_time(at)} ({age(at, now)})"
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return
    if memory.state is State.DISSOLVED and memory.dissolved_at is not None:
        due = memory.dissolved_at + DISSOLVED_DAYS * DAY_SECONDS
        when = f"{local_time(due)} ({age(due, now)})" if due > now else "the next `prune`"
        yield "deleted by", when
    elif memory.state is State.DISSOLVED:
        yield (
            "deleted by",
            f"`prune`, {DISSOLVED_DAYS:g} days after a `prune` first sees the memory dissolved",
        )


def _print_rows(out: Console, rows: list[tuple[str, str]]) -> None:
    """Names and words in two columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(Text(name, STYLES.get(name.partition(" ")[0], "")), Text(words))
    if rows:
        out.print(table)


_MARGIN: Final = 1.03  # of the time until the memory dissolves, so that the end is inside the picture
_LABEL_CHARS: Final = 5
_EIGHTHS: Final = 8

Stretch = tuple[str, str]  # a text and its style


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a picture: `levels` are the fillings of one character, from empty to full."""

    levels: str
    bound: str
    side: str
    corner: str
    floor: str
    tick: str
    now: str


UNICODE: Final = Glyphs(" ▁▂▃▄▅▆▇█", "┄", "┤", "└", "─", "┴", "▲")
ASCII: Final = Glyphs(" ...::::#", "-", "|", "+", "-", "+", "^")


def picture(
    memory: PersonaMemory, now: float, *, width: int, height: int = 8, is_ascii: bool = False
) -> list[list[Stretch]]:
    """The curve with its axes: `height` rows, the axis, the bounds below the axis, and the mark of now.

    Args:
        memory: the memory of the curve.
        now: seconds since 1970.
        width: characters of a whole row; at least 30.
        height: rows of the curve itself.
        is_ascii: for terminals that show only ASCII.
    """
    glyphs = ASCII if is_ascii else UNICODE
    life = Life.of(memory)
    columns = max(30, width) - _LABEL_CHARS - 2
    span = max((max(life.begins[State.DISSOLVED], now) - life.start) * _MARGIN, 1.0)
    curve = [current_relevance(memory, life.start + span * (at + 0.5) / columns) for at in range(columns)]
    top = max(1.0, life.first)
    rows = [_row(curve, row, height, top, glyphs) for row in range(height - 1, -1, -1)]
    ticks = {state: _column(at - life.start, span, columns) for state, at in life.begins.items()}
    floor = [glyphs.floor] * columns
    for tick in ticks.values():
        floor[tick] = glyphs.tick
    rows.append([(f"{'0':>{_LABEL_CHARS}} {glyphs.corner}{''.join(floor)}", "dim")])
    under = _written({tick: f"{BOUNDS[state]:g}" for state, tick in ticks.items()}, columns)
    rows.append([(" " * (_LABEL_CHARS + 2) + under, "dim")])
    mark = _marked(_column(now - life.start, span, columns), f"{glyphs.now} now", columns)
    rows.append([(" " * (_LABEL_CHARS + 2) + mark, "bold")])
    return rows


def _row(curve: list[float], row: int, height: int, top: float, glyphs: Glyphs) -> list[Stretch]:
    """One row of the curve, from below; equal styles in one stretch."""
    label = _label(row, height, top)
    cells = []
    for relevance in curve:
        eighths = ceil(relevance / top * height * _EIGHTHS - 1e-9) - row * _EIGHTHS
        filled = glyphs.levels[min(max(eighths, 0), _EIGHTHS)]
        if filled == " " and label and row < height - 1:
            cells.append((glyphs.bound, "dim"))
        else:
            cells.append((filled, STYLES[state_at(relevance)]))
    parts = [
        ("".join(text for text, _ in group), style)
        for style, group in groupby(cells, key=lambda cell: cell[1])
    ]
    return [(f"{label:>{_LABEL_CHARS}} {glyphs.side}", "dim"), *parts]


def _label(row: int, height: int, top: float) -> str:
    """The label of a row: the upper end at the highest row, and each bound at the row that contains it."""
    if row == height - 1:
        return f"{top:.1f}"
    inside = [bound for bound in (ACTIVE_ABOVE, FADING_FROM) if int(bound / top * height) == row]
    return f"{max(inside):g}" if inside else ""


def _column(seconds: float, span: float, columns: int) -> int:
    return min(columns - 1, max(0, int(seconds / span * columns)))


def _written(labels: dict[int, str], columns: int) -> str:
    """Labels under their columns, from the left; a label that would touch the one before is left out."""
    line = ""
    for column, label in sorted(labels.items()):
        at = min(column, columns - len(label))
        if at > len(line) or not line:
            line = line.ljust(at) + label
    return line


def _marked(column: int, mark: str, columns: int) -> str:
    """A mark with its sign under its column, and its words to the right or, near the end, to the left."""
    sign, _, words = mark.partition(" ")
    if column + len(mark) <= columns:
        return " " * column + mark
    return f"{words} {sign}".rjust(column + 1)
