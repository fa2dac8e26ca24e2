"""How memories look in a prompt: the specification's bracketed notation, or plain sentences under short headers. Pure.

    [domain:people/facet:facts]                        # people facts
    vergel: vanilla-js, conventional-commits           Vergel prefers vanilla JS over React.
    lisa-birthday: 12 May 1984                         lisa birthday: 12 May 1984

Both leave out what of a key the text says (`palace.labels`), and mark memories that may be wrong. In the notation,
memories about one subject share a line, and words on which nothing depends are dropped (`palace.shorthand`); each of
these saves tokens. A plain line is the text as it was written, with a date where the text speaks of "today" or "next
week".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from sense_memory.errors import InvalidInput
from sense_memory.palace.labels import label_of
from sense_memory.palace.shorthand import WORD, Piece, cleaned, head_of, header, plain, shorthand, subject_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sense_memory.models import PersonaMemory


StyleName = Literal["bracketed", "plain"]


@dataclass(frozen=True, slots=True)
class Style:
    """A way to write memories.

    Attributes:
        piece: what a memory becomes.
        header: the line above the memories of a domain and facet.
        joins: whether memories with the same head share a line.
        suffix: what follows a memory without a mark.
        later: the mark of a memory that a later one, whose key is `{key}`, may contradict. Here and below, `{date}` is the
            day when the memory was written.
        named: the mark of that later memory.
        lost: the mark of an edit that lost to a concurrent edit.
        replaced: the mark of a memory that another one superseded.
        faded: the mark of a memory that is fading.
        rest: the last line, if `{count}` memories are left out; `{memories}` is the noun.
    """

    piece: Callable[[PersonaMemory], Piece]
    header: Callable[[str, str], str]
    joins: bool
    suffix: Callable[[PersonaMemory], str]
    later: str
    named: str
    lost: str
    replaced: str
    faded: str
    rest: str

    def marked(self, mark: str, memory: PersonaMemory, key: str = "") -> str:
        """One of the marks for a memory."""
        return mark.format(key=head_of(key), date=day_of(memory))

    def notice(self, count: int) -> str:
        """The line that says how many memories are left out."""
        return self.rest.format(count=count, memories="memory" if count == 1 else "memories")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A memory of a text."""

    path: str
    domain: str
    facet: str
    piece: Piece


def style_of(name: str, *, is_full: bool = True) -> Style:
    """A style by its name, `bracketed` or `plain`; `bracketed` word for word, as the basic plan has it, unless `is_full`.

    Raises:
        InvalidInput: there is no such style.
    """
    if not isinstance(name, str) or name not in _STYLES:  # a list cannot be looked up
        raise InvalidInput(f"style must be one of {', '.join(_STYLES)}")
    return _STYLES[name] if is_full or name != "bracketed" else _BASIC


def day_of(memory: PersonaMemory) -> str:
    """The day in UTC when the text of a memory was written: `2026-03-28`."""
    return str(np.datetime64(int(memory.written_at), "s").astype("datetime64[D]"))


def with_key(piece: Piece, memory: PersonaMemory) -> Piece:
    """A piece whose line begins with the whole key, so that another line can name it."""
    return Piece(
        head_of(memory.key), piece.text if piece.head == head_of(memory.key) else piece.alone or piece.text
    )


def text_of(style: Style, chosen: Iterable[Chosen], left_out: int, *, is_sorted: bool) -> str:
    """The text of some memories: sections by name if `is_sorted`, else in the order of their first memory."""
    sections: dict[tuple[str, str], list[Piece]] = {}
    for item in chosen:
        sections.setdefault((item.domain, item.facet), []).append(item.piece)
    ordered = sorted(sections.items()) if is_sorted else sections.items()
    blocks = ["\n".join([style.header(*section), *_lines(style, pieces)]) for section, pieces in ordered]
    return "\n\n".join([*blocks, style.notice(left_out)] if left_out else blocks)


def _lines(style: Style, pieces: Sequence[Piece]) -> Iterable[str]:
    """The lines of a section, each once."""
    if not style.joins:
        return dict.fromkeys(piece.line for piece in pieces)
    groups: dict[tuple[str, str], dict[str, Piece]] = {}
    for piece in pieces:
        groups.setdefault((piece.head, "" if piece.head else piece.text), {}).setdefault(piece.text, piece)
    return [_line(head, list(group.values())) for (head, _), group in groups.items()]


def _line(head: str, pieces: Sequence[Piece]) -> str:
    """`head: a, b`, or `head: a b; c, d` where a comma could be misread; a piece on its own as it costs least."""
    if len(pieces) == 1:
        return pieces[0].line
    is_list = all(" " not in piece.text and "," not in piece.text for piece in pieces)
    return f"{head}: {(', ' if is_list else '; ').join(piece.text for piece in pieces)}"


# ── Plain sentences ─────────────────────────────────────────────────────────────────────

# Words whose meaning depends on the day on which they were written.
_RELATIVE: Final = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|now|currently|nowadays|recently|lately|soon|ago|at the moment|so far|not yet|"
    r"(?:this|next|last|past|coming) (?:week|weekend|month|quarter|year|spring|summer|autumn|fall|winter|night|morning|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|september|october|"
    r"november|december)|in (?:a|two|three|four|\d+) (?:day|week|month|year)s?|(?:years?|months?) old|"
    r"heute|gestern|derzeit|aktuell|demn\u00e4chst|(?:n\u00e4chste|letzte|diese|kommende)[nrms]? (?:Woche|Monat|Jahr)|"
    r"hoy|ayer|ma\u00f1ana|ahora|actualmente|aujourd['\u2019]hui|hier|demain|actuellement|en ce moment)\b",
    re.IGNORECASE,
)


def sentence(memory: PersonaMemory) -> Piece:
    """A memory as it was written, with the words of its key that the text does not say, if any."""
    text = cleaned(memory.value) or plain(memory).text
    key = (memory.conflict_of or memory.key).rpartition("/")[2]
    names = [word[0].lower() for word in WORD.finditer(key)]
    is_sentence = subject_of(names, text) != (0, 0)
    label = label_of(key, text, is_sentence=is_sentence, is_own=memory.domain == "self")
    head = head_of(label.replace("-", " ").replace("_", " ")).lstrip("#\uff03 ") if label else ""
    return Piece(head, f"- {text}" if not head and text.startswith(("#", "\uff03")) else text)


def _section(domain: str, facet: str) -> str:
    return f"# {cleaned(domain)} {cleaned(facet)}"


def _dated(memory: PersonaMemory) -> str:
    """The day of a text whose meaning depends on it, or nothing."""
    return f" ({day_of(memory)})" if _RELATIVE.search(memory.value) else ""


_BRACKETED: Final = Style(
    piece=shorthand,
    header=header,
    joins=True,
    suffix=lambda _: "",
    later=" (compare {key}, written later)",
    named="",
    lost=" (an edit that lost; may be wrong)",
    replaced=" (replaced later by {key})",
    faded="",
    rest="(+{count} active {memories} left out)",
)
_BASIC: Final = replace(_BRACKETED, piece=plain)
_PLAIN: Final = Style(
    piece=sentence,
    header=_section,
    joins=False,
    suffix=_dated,
    later=" ({date}; {key}, written later, may say otherwise)",
    named=" ({date})",
    lost=" ({date}; an edit that lost; may be wrong)",
    replaced=" ({date}; replaced later by {key})",
    faded=" ({date})",
    rest="({count} more {memories} left out)",
)
_STYLES: Final = {"bracketed": _BRACKETED, "plain": _PLAIN}
