"""`mind prompt`: what a model would be given now, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.inputs import UntrustedOption, argument, option
from sense_memory.interfaces.cli.invocation import note
from sense_memory.interfaces.cli.mind import commands
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.text import quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.prompts.prompt import Prompt
    from sense_memory.store import MemoryStore


def _show(found: Prompt, _: Any) -> None:
    typer.echo(safe(found.text))
    report = found.report
    note(f"{report.tokens:,} of {report.budget:,} tokens")
    for part in report.parts:
        if part.left_out:
            note(f"{quantity(part.left_out, 'item')} of {part.name} left out: {part.why}")
    for problem in report.problems:
        note(safe(problem))


@operation(
    commands,
    "prompt",
    "sense-memory mind prompt how thick is the felt",
    "sense-memory mind prompt --conversation chat --budget 4000",
    "sense-memory mind prompt --conversation chat --json",
    shows=_show,
)
async def prompt(
    store: MemoryStore,
    query: Annotated[
        list[str] | None,
        argument("QUERY...", "What to look for in memory. By default the last message of the user."),
    ] = None,
    *,
    conversation: Annotated[str | None, option("ID", "The conversation that goes on.")] = None,
    budget: Annotated[int, typer.Option(metavar="TOKENS", min=1, help="The largest prompt.")] = 8_000,
    instructions: Annotated[str, option("TEXT", "Your own system prompt, which comes first.")] = "",
    scene: Annotated[str, option("TEXT", "The current scene, in words.")] = "",
    untrusted: UntrustedOption = False,
) -> Prompt:
    """Print what a model should see now: everything that memory knows, in one order and within one budget.

    Blocks, identity, objectives, standing preferences and the summary come first, then the messages with their times, and just
    before the newest one the memories that fit it. Nothing is sent to a model. What was left out stands on stderr.
    """
    return await store.mind.prompt(
        conversation,
        query=" ".join(query) if query else None,
        budget=budget,
        instructions=instructions,
        scene=scene,
        revive=False,
        include_untrusted=untrusted,
    )
