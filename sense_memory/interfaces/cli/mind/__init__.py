"""`mind`: the log, conversations, blocks, archive, topics, identity and scenes of an agent.

The commands are built when one of them is first needed, because building them would slow down every other command.
"""

from __future__ import annotations

from typing import Any, Final

import typer

from sense_memory.interfaces.cli.program import Group, Program, app, ends


MIND: Final = "Mind"


class MindGroup(Group):
    """The commands of the mind, built when they are first looked at."""

    _built: Any = None

    @property
    def commands(self) -> Any:
        """The commands by name."""
        if self._built is None:
            from sense_memory.interfaces.cli.mind import archive, blocks, identity, log, prompt, scenes  # noqa: F401 - they register theirs
            from sense_memory.interfaces.cli.mind.group import commands

            self._built = typer.main.get_group(commands).commands
        return self._built

    @commands.setter
    def commands(self, value: Any) -> None:
        """Ignore what Typer sets: it knows of no commands here."""


app.add_typer(
    Program(cls=MindGroup, no_args_is_help=True),
    name="mind",
    rich_help_panel=MIND,
    help="Read and write the agent's mind: blocks, log, conversations, archive, topics, identity and scenes.\n\n"
    "Blocks are part of every prompt. The log records everything that happened, including the messages of conversations. The "
    "archive stores passages to look up, grouped by topics; the identity is distilled from the topics. A scene is a log that "
    "several agents share. Everything is signed, encrypted and copied to relays like any memory. Without a language model, "
    "rules write the summaries.",
    epilog=ends(
        'sense-memory mind blocks append human "Name: Lisa."',
        'sense-memory mind archive add "Lisa paints with oil on wood." --tag art',
        "sense-memory mind search what does Lisa paint",
        "sense-memory mind prompt what does Lisa paint",
    ),
)
