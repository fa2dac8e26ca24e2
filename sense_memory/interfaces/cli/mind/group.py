"""What the commands of the mind share: options, sending, tables, and ids by their first characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import argument, option
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode
from sense_memory.interfaces.cli.mind import commands
from sense_memory.limits import MAX_SAFE_INTEGER


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.groups import Program

SetLimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=100_000, metavar="N", help="Show at most N of them.")
]
TEXT: Final = argument(
    "TEXT", "The text. If it is missing or `-`, read all of stdin, without the line break at the end."
)
IdArgument = Annotated[str, argument("ID", "The id, or its first characters.")]
KindOption = Annotated[
    str,
    typer.Option(
        "--kind", metavar="KIND", help="The kind of the event, such as agent.spoke or world.observed."
    ),
]
OnlyKindOption = Annotated[str | None, option("KIND", "Only entries of this kind.", "--kind")]
TurnOption = Annotated[int | None, option("N", "The number of the turn.", min=0, max=MAX_SAFE_INTEGER)]
ConversationOption = Annotated[str | None, option("ID", "The conversation.")]
OnlyConversationOption = Annotated[
    str | None, option("ID", "Only messages and entries of this conversation.", "--conversation")
]
OnlyTopicOption = Annotated[str | None, option("TOPIC", "Only passages of this topic.", "--topic")]


def group(name: str, help_text: str, *examples: str, default: str = "list") -> Program:
    """A group of commands of the mind; without the name of a command it runs `default`."""
    return commands.group(name, default=default, help=help_text, epilog=ends(*examples))


def not_found(problem: str) -> CommandFailed:
    """The error of a command that names something that does not exist."""
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)


def only(given: str, found: Sequence[str], what: str) -> str:
    """The only id that begins with what was typed.

    Args:
        given: an id, or its first characters.
        found: the ids to choose from.
        what: a noun for what has the id, for errors.

    Raises:
        CommandFailed: no id begins so, or several do.
    """
    matching = [ident for ident in found if ident.startswith(given)] if given else []
    if given in matching:
        return given
    if not matching:
        raise not_found(f"there is no {what} whose id begins with {given!r}")
    if len(matching) > 1:
        many = f"{len(matching)} ids begin with {given!r}"
        raise not_found(f"{many}; give more characters of the {what}'s id")
    return matching[0]
