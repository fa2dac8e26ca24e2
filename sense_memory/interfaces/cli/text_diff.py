"""What changed between two texts, as lines marked `-` and `+`, with the words that differ. Pure.

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
_MAX_PAIRS: Final = 250_000  # difflib needs time by the product of both sides
_KEEP_CHARS: Final = 40  # of a longer unchanged stretch, on each side of it
_MAX_CHARS: Final = 400  # of a stretch that changed

_words = re.compile(r"\S+\s*|\s+").findall

Part = tuple[str, bool]  # a stretch of a line, and whether it differs from the other text


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a comparison.

    Attributes:
        mark: "-" is gone, "+" came, " " stayed; "…" stands for lines that stayed and are not shown.
        parts: the line, in stretches that differ or do not.
    """

    mark: str
    parts: tuple[Part, ...]


def changes(old: str | None, new: str | None) -> Iterator[DiffLine]:
    """How one text became another; None is no text at all. Nothing comes where both are the same.

    Lazy: whoever stops after some lines does not pay for the rest.
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
    """Items of one list, from `start` to before `end`, that others took the place of."""

    start: int
    end: int
    new_start: int
    new_end: int


def _lines(text: str | None) -> list[str]:
    return [] if text is None else text.split("\n")


def _steps(old: Sequence[str], new: Sequence[str]) -> list[_DiffStep]:
    """Where two lists differ: difflib's word, or one step where that would take too long."""
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
    """How many items both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _stayed(lines: Sequence[str], *, first: bool = False, last: bool = False) -> Iterator[DiffLine]:
    """Unchanged lines: those next to a change, and how many are left out."""
    head = 0 if first else CONTEXT
    tail = 0 if last else CONTEXT
    hidden = len(lines) - head - tail
    if hidden <= 1:  # one line costs no more than saying that it is left out
        yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines)
        return
    yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines[:head])
    yield DiffLine("…", ((f"{hidden:,} lines unchanged", False),))
    yield from (DiffLine(" ", ((_cut(line), False),)) for line in lines[len(lines) - tail :])


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Lines that went and lines that came; where they correspond, the words in them are compared."""
    if len(old) != len(new):
        yield from (DiffLine("-", ((_cut(line), True),)) for line in old)
        yield from (DiffLine("+", ((_cut(line), True),)) for line in new)
        return
    for before, after in zip(old, new, strict=True):
        gone, came = _compared(_words(before), _words(after))
        yield DiffLine("-", gone)
        yield DiffLine("+", came)


def _compared(old: list[str], new: list[str]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Two lines in stretches; what did not change is shortened to what surrounds a change."""
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
    """A stretch that stayed, cut in its middle, or where the line begins or ends."""
    head = 0 if first else _KEEP_CHARS
    tail = 0 if last else _KEEP_CHARS
    if len(text) <= head + tail + 2:
        return text
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _cut(text: str) -> str:
    hidden = len(text) - _MAX_CHARS
    return text if hidden <= 0 else f"{text[:_MAX_CHARS]}… ({hidden:,} more characters)"
