"""What commands that write say about contradictions: what was marked, what is suspected, and how to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import program
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.text import one_line, quantity, quoted


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sense_memory.memories.persona.remembered import Remembered
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction

_MAX_PAIRS: Final = 10  # that `remember --many` names; `introspect` names all


@thing("contradiction")
@dataclass(frozen=True, slots=True)
class FoundContradiction:
    """A memory that the text just written contradicts, or seems to.

    Attributes:
        path: of the other memory.
        reason: a fragment to read, which quotes the memories.
        kind: what differs: negation, antonym, sentiment, value, number, date or turn.
        confidence: how sure it is, 0 to 1.
    """

    path: str
    reason: str
    kind: str
    confidence: float


def contradiction_data(told: Remembered, paths: Collection[str]) -> list[dict[str, Any]]:
    """The contradictions with the memories at some paths, for JSON."""
    found = [
        FoundContradiction(path, item.reason, item.kind, item.confidence)
        for item in told.contradictions
        for path in (item.old, item.new)
        if path in paths
    ]
    return shape_of(found)  # type: ignore[no-any-return]


def data_of_many(told: Collection[Remembered]) -> dict[str, Any]:
    """The contradictions and the lost marks of memories that were written together, for JSON."""
    pairs = shape_of([item for one in told for item in one.contradictions])
    return {
        "superseded": [pair for pair in pairs if pair["acts"]],
        "suspected": [pair for pair in pairs if not pair["acts"]],
        "unmarked": [list(mark) for one in told for mark in one.unmarked],
    }


def print_contradictions(told: str, name: str) -> None:
    """What the text that was written at a path contradicts, with the commands that decide the pairs, and whose marks went.

    Args:
        told: what the store returned for the write; the event id of a flat memory contradicts nothing.
        name: the path.
    """
    from sense_memory.memories.persona.remembered import Remembered

    if not isinstance(told, Remembered):
        return
    print_marks(told.unmarked)
    for item in told.contradictions:
        _print_pair(item, name)


def print_contradictions_of_many(told: Collection[Remembered]) -> None:
    """As `print_contradictions`, of memories that were written together: the first pairs, marked ones before others."""
    print_marks(mark for one in told for mark in one.unmarked)
    found = sorted((item for one in told for item in one.contradictions), key=lambda item: not item.acts)
    for item in found[:_MAX_PAIRS]:
        _print_pair(item)
    if len(found) > _MAX_PAIRS:
        typer.echo(f"{quantity(len(found) - _MAX_PAIRS, 'more pair')}: {program()} palace introspect --all")


def _print_pair(item: Contradiction, name: str | None = None) -> None:
    """What is said of a contradiction, and the command that decides it; the memory at `name` is called "this"."""
    from sense_memory.palace.contradictions.detection import ACT_BOUND

    old, new, pair = one_line(item.old), one_line(item.new), quoted(item.old, item.new)
    this, is_sure = "This" if item.new == name else new, item.confidence >= ACT_BOUND
    why = f"({one_line(item.reason)}; {item.confidence:.0%} sure)"
    if item.acts:
        typer.echo(f"{this} contradicts {old} {why}, which is superseded now.")
        typer.echo(f"If both are right: {program()} palace reconcile {pair}")
        return
    if item.old == name:
        verb = "contradict" if is_sure else "may contradict"
        typer.echo(f"This and {new}, which was written later, {verb} each other {why}.")
    elif is_sure:
        typer.echo(f"{this} contradicts {old} {why}; nothing was marked.")
    else:
        typer.echo(f"{this} may contradict {old} {why}.")
    typer.echo(f"If {old} is wrong now: {program()} palace contradict {pair}")


def marks_in(memories: Iterable[PersonaMemory]) -> set[tuple[str, str]]:
    """The marks of some memories: each as the path that has the mark, and the path or key that it names."""
    return {
        (memory.path, name)
        for memory in memories
        for name in (*memory.contradicts, memory.superseded_by)
        if name is not None
    }


def print_marks(removed: Iterable[tuple[str, str]], restored: Iterable[tuple[str, str]] = ()) -> None:
    """One line for each mark that a command removed or set again, as `marks_in` has them."""
    for path, by in sorted(removed):
        typer.echo(f"{one_line(path)} is no longer marked as superseded by {one_line(by)}.")
    for path, by in sorted(restored):
        typer.echo(f"{one_line(path)} is marked as superseded by {one_line(by)} again.")
