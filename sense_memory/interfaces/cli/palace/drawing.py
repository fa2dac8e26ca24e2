"""What rich draws of the palace: the tree, lists, hits. Every text is data, never markup.

Imported only when something is drawn. What is shown, and in which order, others have decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from sense_memory.interfaces.cli.palace.shapes import STYLES, bar, counted, excerpt
from sense_memory.interfaces.cli.tables import console
from sense_memory.interfaces.cli.text import one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from sense_memory.interfaces.cli.palace.shapes import Domain, Facet, Insight
    from sense_memory.palace.search import PersonaHit

_GUIDES: Final = 8  # columns that the tree's branches take before a memory
_KEY_SHARE: Final = 3  # a key takes at most a third of the width
_PATH_SHARE: Final = 2  # and a path at most half of it
_LEAST_CHARS: Final = 8
_SHORT_BAR_CHARS: Final = 4  # with the number as wide as its heading


def is_ascii(out: Console) -> bool:
    """Whether a terminal shows nothing but ASCII."""
    return out.options.ascii_only


def print_tree(domains: Sequence[Domain], states: Mapping[str, int]) -> None:
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


def _hang(branch: Tree, facet: Facet, width: int, out: Console) -> None:
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
        (bar(insight.relevance, is_ascii=is_ascii(out)), style),
        f" {insight.relevance:.2f} ",
        (f"{state:<10}", style),
        (excerpt(memory, out.width), "" if state == "" else "dim"),
    )


def _cell(text: str, width: int) -> str:
    """A text of exactly so many columns, cut with an ellipsis where it is longer."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return f"{set_cell_size(text, width - 1)}…"


# ── Lists ───────────────────────────────────────────────────────────────────────────────


def print_list(insights: Sequence[Insight]) -> None:
    """One line for each memory: path, what is left of it, state, the beginning of the text."""
    out = console()
    table = _table(out)
    table.add_column("relevance", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("text", ratio=1, no_wrap=True, overflow="ellipsis")
    for insight in insights:
        memory = insight.memory
        style = STYLES[memory.state]
        left = f"{bar(insight.relevance, width=_SHORT_BAR_CHARS, is_ascii=is_ascii(out))} {insight.relevance:.2f}"
        table.add_row(
            Text(one_line(memory.path)),
            Text(left, style),
            Text(memory.state.value, style),
            Text(excerpt(memory, out.width)),
        )
    out.print(table)


def print_hits(hits: Sequence[PersonaHit], *, explain: bool) -> None:
    """What a search found: path, score, the beginning of the text; and under it why, if that was asked for."""
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
