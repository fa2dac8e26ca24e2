"""Sections: the parts of a text file that belong together, word for word.

In Markdown a section is a field of the front matter, a heading, a list item, a row of a table, a block of code, a comment,
or a paragraph; in any other text it is a line. The blank lines after a section belong to it. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Sequence

_MARKDOWN: Final = frozenset({"", "md", "mdc", "mdx", "markdown", "txt"})
_lines = re.compile(r"[^\n]*\n|[^\n]+").findall
_fence = re.compile(r" {0,3}(`{3,}|~{3,})").match
_heading = re.compile(r" {0,3}#{1,6}(\s|$)").match
_item = re.compile(r"\s*([-*+]|\d{1,9}[.)])(\s|$)").match
_field = re.compile(r"[^\s#].*").match


class SectionKind(StrEnum):
    """What a section is."""

    FIELD = "field"  # of the front matter, or one of its two edges
    HEADING = "heading"
    ITEM = "item"
    ROW = "row"
    BLOCK = "block"  # of code, or a comment
    PARAGRAPH = "paragraph"
    LINE = "line"  # of a file that is not Markdown


@dataclass(frozen=True, slots=True)
class TextSection:
    """A section of a text.

    Attributes:
        kind: what it is.
        text: the section with the blank lines after it, word for word.
        words: the section without line ends at its end and carriage returns, by which sections are compared.
    """

    kind: SectionKind
    text: str
    words: str


def is_markdown(name: str) -> bool:
    """Whether the name of a file says Markdown or plain text."""
    return suffix_of(name) in _MARKDOWN


def suffix_of(name: str) -> str:
    """The suffix of a file's name, in lower case and without its dot; empty if there is none."""
    last = name.rpartition("/")[2].lstrip(".")
    return last.rpartition(".")[2].lower() if "." in last else ""


def sections_of(text: str, name: str) -> list[TextSection]:
    """The sections of a text; their texts, one after the other, are the text.

    Args:
        text: without a byte order mark.
        name: of the file, whose suffix says the format.
    """
    lines = _lines(text)
    if not is_markdown(name):
        return _grouped(SectionKind.LINE, [[line] for line in lines])
    count = _front_matter(lines)
    fields = _grouped(SectionKind.FIELD, _fields(lines[:count]))
    return fields + _body(lines[count:])


def _section(kind: SectionKind, lines: Sequence[str]) -> TextSection:
    text = "".join(lines)
    return TextSection(kind, text, text.replace("\r\n", "\n").rstrip("\n"))


def _is_blank(line: str) -> bool:
    return not line.strip()


def _grouped(kind: SectionKind, groups: Sequence[list[str]]) -> list[TextSection]:
    """A section of each group of lines; groups of blank lines belong to the section before them."""
    joined: list[list[str]] = []
    for group in groups:
        if joined and all(map(_is_blank, group)):
            joined[-1] += group
        else:
            joined.append(list(group))
    return [_section(kind, group) for group in joined]


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines the front matter has, its two edges included; 0 without one."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    edges = (place for place, line in enumerate(lines) if place and line.rstrip() in {"---", "..."})
    return next(edges, -1) + 1


def _fields(lines: Sequence[str]) -> list[list[str]]:
    """The lines of each field: a line that is not indented, and those that continue it."""
    groups: list[list[str]] = []
    for line in lines:
        starts = _field(line) and not line.startswith("- ")
        if starts or not groups or groups[-1][0].rstrip() == "---":
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups


def _body(lines: Sequence[str]) -> list[TextSection]:
    found: list[TextSection] = []
    place = 0
    while place < len(lines):
        kind, end = _one(lines, place)
        while end < len(lines) and _is_blank(lines[end]):
            end += 1
        found.append(_section(kind, lines[place:end]))
        place = end
    return found


def _one(lines: Sequence[str], place: int) -> tuple[SectionKind, int]:
    """The kind of the section that begins at a line, and where the section ends."""
    line = lines[place]
    if opened := _fence(line):
        return SectionKind.BLOCK, _closing(lines, place, opened[1])
    if line.lstrip().startswith("<!--"):
        ends = (at + 1 for at in range(place, len(lines)) if "-->" in lines[at])
        return SectionKind.BLOCK, next(ends, place + 1)
    if _heading(line):
        return SectionKind.HEADING, place + 1
    if line.lstrip().startswith("|"):
        return SectionKind.ROW, place + 1
    kind = SectionKind.ITEM if _item(line) else SectionKind.PARAGRAPH
    end = place + 1
    while end < len(lines) and _continues(lines[end]):
        end += 1
    return kind, end


def _continues(line: str) -> bool:
    """Whether a line continues the item or the paragraph before it."""
    is_start = _fence(line) or _heading(line) or _item(line) or line.lstrip().startswith(("|", "<!--"))
    return not (is_start or _is_blank(line))


def _closing(lines: Sequence[str], place: int, fence: str) -> int:
    """Where a block of code ends: after its closing fence, or else at the end of the text."""
    for at in range(place + 1, len(lines)):
        closed = _fence(lines[at])
        if closed and closed[1].startswith(fence) and not lines[at].strip().strip(fence[0]):
            return at + 1
    return len(lines)
