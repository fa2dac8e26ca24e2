"""What commands that write say about contradictions: what was marked, what is suspected, and how to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from sense_memory.interfaces.cli.invocation import program
from sense_memory.interfaces.text import one_line, quantity, quoted


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sense_memory.memories.persona.persona import Remembered
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.detection import Contradiction

_MAX_PAIRS: Final = 10  # that `remember --many` names; `introspect` names all


def contradiction_data(told: Remembered, paths: Collection[str]) -> list[dict[str, Any]]:
    """Some of the contradictions that were found, as JSON shows them."""
    return [
        {
            "path": path,
            "reason": item.reason,
            "kind": item.kind,
            "confidence": round(item.confidence, 3),
        }
        for item in told.contradictions
        for path in (item.old, item.new)
        if path in paths
    ]


def pair_data(found: Contradiction) -> dict[str, Any]:
    """A contradiction between two memories of many, for JSON."""
    confidence = round(found.confidence, 3)
    return {
        "old": found.old,
        "new": found.new,
        "reason": found.reason,
        "kind": found.kind,
        "confidence": confidence,
    }


def print_contradictions(told: str, name: str) -> None:
    """What the text that was written at a path contradicts, with the commands that decide the pairs, and whose marks went.

    Args:
        told: what the store returned for the write; the event id of a flat memory contradicts nothing.
        name: the path.
    """
    from sense_memory.memories.persona.persona import Remembered

    if not isinstance(told, Remembered):
        return
    print_marks(told.unmarked)
    for item in told.contradictions:
        _print_contradiction(item, name)


def _print_contradiction(item: Contradiction, name: str) -> None:
    from sense_memory.palace.contradictions.detection import ACT_BOUND

    old, why = one_line(item.old), f"({one_line(item.reason)}; {item.confidence:.0%} sure)"
    pair = quoted(item.old, item.new)
    if item.acts:
        typer.echo(f"This contradicts {old} {why}, which is superseded now.")
        typer.echo(f"If both are right: {program()} palace reconcile {pair}")
        return
    verb = "contradict" if item.confidence >= ACT_BOUND else "may contradict"
    if item.old == name:
        typer.echo(f"This and {one_line(item.new)}, which was written later, {verb} each other {why}.")
    elif verb == "contradict":
        typer.echo(f"This contradicts {old} {why}; nothing was marked.")
    else:
        typer.echo(f"This may contradict {old} {why}.")
    typer.echo(f"If {old} is wrong now: {program()} palace contradict {pair}")


def print_contradictions_of_many(told: Collection[Remembered]) -> None:
    """As `print_contradictions`, of memories that were written together: the first pairs, marked ones before others."""
    print_marks(mark for one in told for mark in one.unmarked)
    found = sorted((item for one in told for item in one.contradictions), key=lambda item: not item.acts)
    for item in found[:_MAX_PAIRS]:
        old, new = one_line(item.old), one_line(item.new)
        why, pair = (
            f"({one_line(item.reason)}; {item.confidence:.0%} sure)",
            quoted(item.old, item.new),
        )
        if item.acts:
            typer.echo(f"{new} contradicts {old} {why}, which is superseded now.")
            typer.echo(f"If both are right: {program()} palace reconcile {pair}")
        else:
            typer.echo(f"{new} may contradict {old} {why}.")
            typer.echo(f"If {old} is wrong now: {program()} palace contradict {pair}")
    if len(found) > _MAX_PAIRS:
        typer.echo(f"{quantity(len(found) - _MAX_PAIRS, 'more pair')}: {program()} palace introspect --all")


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
