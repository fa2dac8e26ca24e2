"""The life of one memory as a curve of characters: what is left of it, from its last access until it dissolves.

Pure: no terminal, no clock. A picture is rows of stretches, each with a style; drawing them is `life`'s part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import ceil, log2
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.cli.palace.shapes import STYLES
from sense_memory.limits import ACTIVE_ABOVE, DAY_SECONDS, FADING_FROM, FORGOTTEN_FROM, SUPERSEDED_FACTOR
from sense_memory.models import State
from sense_memory.palace.lifecycle import current_relevance, state_at


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory

BOUNDS: Final = {  # below which relevance a state begins
    State.FADING: ACTIVE_ABOVE,
    State.FORGOTTEN: FADING_FROM,
    State.DISSOLVED: FORGOTTEN_FROM,
}
_MARGIN: Final = 1.03  # of the time until it dissolves: the end stands inside the picture
_LABEL_CHARS: Final = 5
_EIGHTHS: Final = 8

Stretch = tuple[str, str]  # a text and its style


@dataclass(frozen=True, slots=True)
class Glyphs:
    """What a picture is made of: `levels` are the fillings of one character, from none to full."""

    levels: str
    bound: str
    side: str
    corner: str
    floor: str
    tick: str
    now: str


UNICODE: Final = Glyphs(" ▁▂▃▄▅▆▇█", "┄", "┤", "└", "─", "┴", "▲")
ASCII: Final = Glyphs(" ...::::#", "-", "|", "+", "-", "+", "^")


@dataclass(frozen=True, slots=True)
class Life:
    """When a memory comes down, if nobody recalls it.

    Attributes:
        start: its last access, seconds since 1970.
        first: its relevance then.
        begins: when fading, forgotten and dissolved begin, seconds since 1970; `start` where it began so.
    """

    start: float
    first: float
    begins: dict[State, float]

    @classmethod
    def of(cls, memory: PersonaMemory) -> Life:
        """The life of a memory from its last access on."""
        start = memory.last_accessed
        first = current_relevance(memory, start)
        halving = memory.halflife_days * DAY_SECONDS / (SUPERSEDED_FACTOR if memory.superseded_by else 1)
        begins = {
            state: start + halving * max(0.0, log2(first / bound)) if first > 0 else start
            for state, bound in BOUNDS.items()
        }
        return cls(start, first, begins)


def picture(
    memory: PersonaMemory, now: float, *, width: int, height: int = 8, is_ascii: bool = False
) -> list[list[Stretch]]:
    """The curve with its axes: `height` rows, the axis, the bounds under it, and where now is.

    Args:
        memory: whose life.
        now: seconds since 1970.
        width: characters of a whole row; at least 30.
        height: rows of the curve itself.
        is_ascii: for terminals that show nothing else.
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
    """What stands beside a row: its upper end on the highest, and a bound on the row that it lies in."""
    if row == height - 1:
        return f"{top:.1f}"
    inside = [bound for bound in (ACTIVE_ABOVE, FADING_FROM) if int(bound / top * height) == row]
    return f"{max(inside):g}" if inside else ""


def _column(seconds: float, span: float, columns: int) -> int:
    return min(columns - 1, max(0, int(seconds / span * columns)))


def _written(labels: dict[int, str], columns: int) -> str:
    """Labels under their columns, from the left; what would touch the one before is left out."""
    line = ""
    for column, label in sorted(labels.items()):
        at = min(column, columns - len(label))
        if at > len(line) or not line:
            line = line.ljust(at) + label
    return line


def _marked(column: int, mark: str, columns: int) -> str:
    """A mark whose sign stands under its column, its words to the right or, at the end, to the left."""
    sign, _, words = mark.partition(" ")
    if column + len(mark) <= columns:
        return " " * column + mark
    return f"{words} {sign}".rjust(column + 1)
