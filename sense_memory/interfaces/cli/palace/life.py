"""How one memory is drawn: its text, the facts about it, its curve, its links and versions.

Imported only when something is drawn. Every text is data, never markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from sense_memory.interfaces.cli.palace.curve import Life, picture
from sense_memory.interfaces.cli.palace.drawing import is_ascii
from sense_memory.interfaces.cli.palace.profile import texts
from sense_memory.interfaces.cli.palace.shapes import STYLES
from sense_memory.interfaces.cli.tables import console, print_history
from sense_memory.interfaces.cli.text import age, local_time, one_line, quantity, safe
from sense_memory.limits import DAY_SECONDS, DISSOLVED_DAYS, MAX_HALFLIFE_DAYS
from sense_memory.models import State
from sense_memory.palace.lifecycle import current_relevance


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from sense_memory.interfaces.cli.palace.profile import MemoryProfile
    from sense_memory.models import PersonaMemory

_MAX_WIDTH: Final = 100  # of the curve
_EXCERPT_CHARS: Final = 200
_HOLDING: Final[Mapping[str, str]] = {
    "queued": "has still to get it",
    "acked": "has it",
    "confirmed": "has it",
    "refused": "refuses it",
    "parked": "did not take it for a week",
    "superseded": "holds a newer version",
}


def print_life(found: MemoryProfile, now: float, versions: int) -> None:
    """One memory with everything that is known of it.

    Args:
        found: the memory, its state that of `now`.
        now: seconds since 1970.
        versions: of its text, how many at most.
    """
    out = console()
    memory = found.memory
    out.print(Text(one_line(memory.path), style="bold"), soft_wrap=True)
    out.print(Text(safe(memory.value).rstrip("\n")), soft_wrap=not out.is_terminal)
    out.print()
    relays = [("relay", f"{url} {_HOLDING.get(state, state)}") for url, state in found.holders.items()]
    _print_rows(out, [*facts(memory, now), *relays])
    out.print()
    for row in picture(memory, now, width=min(out.width - 1, _MAX_WIDTH), is_ascii=is_ascii(out)):
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
    """What is known of a memory beside its text: name and words, without what is empty."""
    times = quantity(memory.access_count, "time")
    recalled = f"{times}, last {age(memory.last_accessed, now)}" if memory.access_count else "never"
    rows = [
        ("state", f"{memory.state.value}, relevance {current_relevance(memory, now):.2f}"),
        ("half-life", _halflife(memory)),
        ("recalled", recalled),
        ("first written", f"{local_time(memory.created_at)} ({age(memory.created_at, now)})"),
        ("confidence", f"{memory.confidence:g}"),
        ("source", one_line(memory.source)),
        ("themes", ", ".join(map(one_line, memory.themes))),
    ]
    return [(name, words) for name, words in rows if words]


def _halflife(memory: PersonaMemory) -> str:
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return "a hundred years: never pruned"
    plain = f"{memory.halflife_days:g} days"
    if memory.superseded_by is None:
        return plain
    return f"{plain}, a quarter of it since it is superseded"


def fate(memory: PersonaMemory, now: float) -> Iterator[tuple[str, str]]:
    """When a memory comes to which state, as long as nobody recalls it; and when it may be deleted."""
    life = Life.of(memory)
    words = {State.FADING: "fading", State.FORGOTTEN: "forgotten", State.DISSOLVED: "dissolved"}
    for state, at in life.begins.items():
        verb = "since" if at <= now else "from"
        yield f"{words[state]} {verb}", f"{local_time(at)} ({age(at, now)})"
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return
    if memory.state is State.DISSOLVED and memory.dissolved_at is not None:
        due = memory.dissolved_at + DISSOLVED_DAYS * DAY_SECONDS
        when = f"{local_time(due)} ({age(due, now)})" if due > now else "the next `prune`"
        yield "deleted by", when
    elif memory.state is State.DISSOLVED:
        yield "deleted by", f"`prune`, {DISSOLVED_DAYS:g} days after it first sees it dissolved"


def _print_rows(out: Console, rows: list[tuple[str, str]]) -> None:
    """Names and words in two columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(Text(name, STYLES.get(name.partition(" ")[0], "")), Text(words))
    if rows:
        out.print(table)
