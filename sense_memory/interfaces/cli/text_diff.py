"""The changes between two texts, as lines marked `-` and `+`, with the words that differ. Pure.

Every step is bounded, because a memory may hold anything: texts that differ too much for a close look
are shown as replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTEXT: Final = 1  # unchanged lines shown before and after a change
_MAX_PAIRS: Final = 250_000  # the time of difflib grows with the product of both sides
_KEEP_CHARS: Final = 40  # kept on each side of a longer unchanged stretch
_MAX_CHARS: Final = 400  # kept of a changed stretch

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
    hidden = len(text) - _MAX_CHARS
    return text if hidden <= 0 else f"{text[:_MAX_CHARS]}… ({hidden:,} more characters)"
