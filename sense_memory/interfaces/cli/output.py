"""The output of memories for every command, and the warnings on stderr about lists that may be incomplete."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from sense_memory.interfaces.cli.invocation import echo_all, note
from sense_memory.interfaces.cli.json_output import memory_data, palace_data
from sense_memory.interfaces.cli.text import as_json, as_json_list, iso, one_line, quantity, safe


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.interfaces.cli.palace.shapes import Insight
    from sense_memory.memories.embedding_jobs import Gaps
    from sense_memory.models import Memory, PersonaMemory
    from sense_memory.store import MemoryStore


def show_memory(invocation: Invocation, memory: Memory | PersonaMemory, then: float | None = None) -> None:
    """One memory: as JSON, escaped for a terminal, or byte for byte in a pipe.

    Args:
        invocation: of the command.
        memory: flat, or of the palace; stderr names the memory that superseded it.
        then: the time of its state, in seconds since 1970; None for now.
    """
    superseded_by = getattr(memory, "superseded_by", None)
    if invocation.as_json:
        typer.echo(as_json(any_memory_data(memory, then)))
    elif sys.stdout.isatty():
        typer.echo(safe(memory.value), nl=not memory.value.endswith("\n"))
    else:
        typer.echo(memory.value.encode(), nl=False)
    if superseded_by is not None and not invocation.as_json:
        typer.echo(f"superseded by {one_line(superseded_by)}", err=True)


def any_memory_data(memory: Memory | PersonaMemory, then: float | None = None) -> dict[str, object]:
    """A flat memory or one of the palace for JSON, each in its own shape."""
    from sense_memory.models import PersonaMemory

    return palace_data(memory, then) if isinstance(memory, PersonaMemory) else memory_data(memory)


def show_memories(invocation: Invocation, memories: Sequence[Memory], *, none: str) -> None:
    """Flat memories as JSON, as a table for a terminal, or one line each in a pipe; `none` if there are none."""
    if invocation.as_json:
        echo_all(as_json_list(memory_data(memory) for memory in memories), "")
    elif not memories:
        typer.echo(none, err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.tables import print_memories

        print_memories(memories, time.time())
    else:
        echo_all(
            f"{one_line(memory.key)}\t{iso(memory.created_at)}\t{one_line(memory.value)}"
            for memory in memories
        )


def show_insights(invocation: Invocation, insights: Sequence[Insight], then: float, *, none: str) -> None:
    """Memories of the palace as they are at a time: JSON, a table for a terminal, or one line each in a pipe."""
    if invocation.as_json:
        typer.echo(as_json([palace_data(insight.memory, then) for insight in insights]))
    elif not insights:
        typer.echo(safe(none), err=True)
    elif sys.stdout.isatty():
        from sense_memory.interfaces.cli.palace.picture import print_list

        print_list(insights)
    else:
        print_lines(insights)


def print_lines(insights: Sequence[Insight]) -> None:
    """One line for each memory: path, state, relevance and text, and what superseded it, with tabs between them."""
    typer.echo("".join(map(_piped, insights)), nl=False)


def _piped(insight: Insight) -> str:
    memory = insight.memory
    by = f"\tsuperseded by {one_line(memory.superseded_by)}" if memory.superseded_by else ""
    return f"{one_line(memory.path)}\t{memory.state.value}\t{insight.relevance:.3f}\t{one_line(memory.value)}{by}\n"


def warn_if_incomplete(store: MemoryStore) -> None:
    """Warn on stderr that a list may lack memories that relays hold."""
    if not store.relays and not store.status().counts["heads"]:
        note("to restore memories from relays, run `sense-memory relays add URL`, then `sense-memory sync`")
    if not store.is_complete():
        note("incomplete: no relay has shown everything yet, so there may be more; run `sense-memory sync`")


def warn_of_gaps(gaps: Gaps) -> None:
    """Warn on stderr that memories were searched by words only, although there is an embedder."""
    if gaps.trouble is not None:
        note(f"searched by words only: {gaps.trouble}")
    elif gaps.count:
        count = quantity(gaps.count, "memory was", "memories were")
        note(f"{count} searched by words only, not embedded yet; run `sense-memory embed`")
