"""What rich draws of the hits of a search: each with the part of its text that has the words, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from sense_memory.interfaces.cli.tables import console
from sense_memory.interfaces.cli.text import age, one_line, superseded
from sense_memory.search.hits import told
from sense_memory.search.query import marked


if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from sense_memory.search.hits import Hit

_LINES: Final = 2  # of a text, at most
_MAX_CHARS: Final = 50_000  # of a text that are looked through; the longest memory has fewer
_ID_CHARS: Final = 12  # of a journal entry's id: enough to tell a million apart
_WORDS: Final = ("word", "prefix", "phrase")


def print_hits(hits: Sequence[Hit], now: float, *, explain: bool) -> None:
    """Hits, the best first: a heading, the words in their text, and the reasons if those were asked for.

    Args:
        hits: as `search` gives them.
        now: seconds since 1970.
        explain: whether to say why.
    """
    out = console()
    for number, hit in enumerate(hits):
        if number:
            out.print()
        out.print(_heading(hit, now), no_wrap=True, overflow="ellipsis", crop=True)
        for line in _excerpt(hit, out, out.width - 2):
            out.print(Text("  ") + line, no_wrap=True, overflow="ellipsis")
        if explain:
            for line in Text(_reasons(hit), "dim").wrap(out, out.width - 4):
                out.print(Text("    ") + line)


def _heading(hit: Hit, now: float) -> Text:
    name = hit.path[:_ID_CHARS] if hit.kind == "journal" else one_line(hit.path)
    details = f" · {hit.kind} · {age(hit.created_at, now)} · {hit.score:.2f}"
    mark = f" {superseded(hit.superseded_by)}".rstrip()
    return Text.assemble((name, "bold"), (mark, "yellow"), (details, "dim"))


def _excerpt(hit: Hit, out: Console, width: int) -> list[Text]:
    """Lines of the text from shortly before the first word that was found, with such words marked."""
    terms = [item.detail for item in hit.why.evidence if item.kind in _WORDS]
    whole = one_line(hit.value, _MAX_CHARS)
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
