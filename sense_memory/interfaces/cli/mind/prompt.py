"""`mind prompt`: what a model would be given now, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, option
from sense_memory.interfaces.cli.invocation import note, of
from sense_memory.interfaces.cli.mind.group import commands
from sense_memory.interfaces.cli.mind.log import message_data
from sense_memory.interfaces.text import as_json, quantity, safe


if TYPE_CHECKING:
    from sense_memory.mind.prompts.prompt import Prompt
    from sense_memory.store import MemoryStore


@commands.command(
    epilog=ends(
        "sense-memory mind prompt how thick is the felt",
        "sense-memory mind prompt --conversation chat --budget 4000",
        "sense-memory mind prompt --conversation chat --json",
    )
)
def prompt(
    context: typer.Context,
    query: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUERY...",
            help="What to look for in memory. By default the last message of the user.",
            show_default=False,
        ),
    ] = None,
    *,
    conversation: Annotated[str | None, option("ID", "The conversation that goes on.")] = None,
    budget: Annotated[int, typer.Option(metavar="TOKENS", min=1, help="The largest prompt.")] = 8_000,
    instructions: Annotated[str, option("TEXT", "Your own system prompt, which comes first.")] = "",
    scene: Annotated[str, option("TEXT", "The current scene, in words.")] = "",
    _json: JsonOption = False,
) -> None:
    """Print what a model should see now: everything that memory knows, in one order and within one budget.

    Blocks, identity, objectives, standing preferences and the summary come first, then the messages with their times, and just
    before the newest one the memories that fit it. Nothing is sent to a model. What was left out stands on stderr.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> Prompt:
        return await store.mind.prompt(
            conversation,
            query=" ".join(query) if query else None,
            budget=budget,
            instructions=instructions,
            scene=scene,
            revive=False,
        )

    found = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(prompt_data(found)))
        return
    typer.echo(safe(found.text))
    report = found.report
    note(f"{report.tokens:,} of {report.budget:,} tokens")
    for part in report.parts:
        if part.left_out:
            note(f"{quantity(part.left_out, 'item')} of {part.name} left out: {part.why}")
    for problem in report.problems:
        note(safe(problem))


def prompt_data(found: Prompt) -> dict[str, Any]:
    """A prompt for JSON."""
    return {
        "system": found.system,
        "messages": [message_data(message) for message in found.messages],
        "report": found.report.model_dump(mode="json"),
    }
