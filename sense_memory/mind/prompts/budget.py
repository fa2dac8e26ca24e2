"""How a part of a prompt is fitted into its share of a budget of tokens. Pure.

A part is whole lines between a head and a tail. Of lines that do not all fit, either the first or the last ones stay; a
line is never cut, except the only one of a part, which loses its middle. A part without lines is nothing, not even a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BREAK_TOKENS: Final = 1  # of a line break
_LEAST_CUT_TOKENS: Final = 24  # less of a text than this says nothing


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a part, or several that belong together.

    Attributes:
        text: the line.
        ident: what the line shows, such as the id of an entry or the path of a memory; may be empty.
    """

    text: str
    ident: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a prompt.

    Attributes:
        name: such as `identity`.
        lines: in the order of the prompt.
        head, tail: what stands before and after the lines.
        keeps_last: of lines that do not all fit, the last ones stay; otherwise the first.
    """

    name: str
    lines: tuple[Line, ...]
    head: str = ""
    tail: str = ""
    keeps_last: bool = False

    @property
    def text(self) -> str:
        """The part as text; empty without lines."""
        if not self.lines:
            return ""
        return "\n".join(filter(None, (self.head, *(line.text for line in self.lines), self.tail)))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A part that fits its room.

    Attributes:
        part: with the lines that are left.
        tokens: the cost of its text.
        left_out: the lines that did not fit, in their order.
        cut_count: the number of characters that were cut from the middle of its only line.
    """

    part: Part
    tokens: int
    left_out: tuple[Line, ...] = ()
    cut_count: int = 0


def fitted(part: Part, room: int, count: Callable[[str], int]) -> Fitted:
    """A part with as many of its lines as fit.

    Args:
        part: the part.
        room: the largest number of tokens.
        count: counts the tokens of a text.
    """
    kept = _fitting(part, room, count)
    while True:
        found = replace(part, lines=tuple(part.lines[place] for place in kept))
        tokens = count(found.text)
        if not kept or tokens <= room:
            break
        kept.pop(0 if part.keeps_last else -1)  # a whole text may cost more than its parts
    if not kept and len(part.lines) == 1:
        return _cut(part, room, count)
    chosen = set(kept)
    left_out = tuple(line for place, line in enumerate(part.lines) if place not in chosen)
    return Fitted(found, tokens, left_out)


def _fitting(part: Part, room: int, count: Callable[[str], int]) -> list[int]:
    """The places of the lines that fit, in their order."""
    left = room - count(part.head) - count(part.tail) - 2 * BREAK_TOKENS
    places: Sequence[int] = range(len(part.lines))
    kept = []
    for place in reversed(places) if part.keeps_last else places:
        cost = count(part.lines[place].text) + BREAK_TOKENS
        if cost > left:
            if part.keeps_last:
                break  # what is shown has no gap
            continue
        left -= cost
        kept.append(place)
    return sorted(kept)


def _cut(part: Part, room: int, count: Callable[[str], int]) -> Fitted:
    """A part whose only line loses its middle; without lines if only a few words would be left."""
    (line,) = part.lines
    rest = room - count(part.head) - count(part.tail) - 2 * BREAK_TOKENS
    text = without_middle(line.text, rest, count) if rest >= _LEAST_CUT_TOKENS else ""
    found = replace(part, lines=(replace(line, text=text),) if text else ())
    if not text or count(found.text) > room:
        return Fitted(replace(part, lines=()), 0, part.lines)
    return Fitted(found, count(found.text), cut_count=len(line.text) - len(text))


def without_middle(text: str, room: int, count: Callable[[str], int]) -> str:
    """The beginning and the end of a text, between them how much is missing; empty if even that is too much.

    >>> without_middle("one two three four five six seven", 6, lambda text: len(text.split()))
    'one[… 29 characters left out …]n'
    """
    if count(text) <= room:
        return text
    low, high = 0, len(text)  # how many characters stay: `low` fits, `high` does not
    best = ""
    while low <= high:
        middle = (low + high) // 2
        first = middle - middle // 3
        last = len(text) - (middle - first)
        shown = f"{text[:first]}[… {last - first:,} characters left out …]{text[last:]}"
        if count(shown) <= room:
            best, low = shown, middle + 1
        else:
            high = middle - 1
    return best
