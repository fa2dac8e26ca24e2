"""What to say to somebody who typed a command that does not exist. Pure.

Words of other programs have a table; whatever else is typed is compared with our commands. Nobody is led to a command
that destroys something by a slip of the finger: those are never suggested, and who asks for one by another program's
word gets its help page.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from sense_memory.interfaces.cli.text import one_line


if TYPE_CHECKING:
    from collections.abc import Sequence

_DESTRUCTIVE: Final = frozenset({"forget", "prune", "remove"})
_ALIKE: Final = 0.7  # how alike a command has to be, 0 to 1
_MAX_NAME_CHARS: Final = 40  # of what was typed that is repeated
_WORDS: Final = {  # of other programs, by what they are here; of several the first that the group has
    ("recall", "list"): "get show read cat value fetch load",
    ("remember", "add"): "set put add save store write insert update keep note new create edit",
    ("list",): "ls ll dir keys all dump",
    ("search",): "find grep query ask lookup locate",
    ("remove", "forget"): "rm del delete remove unset erase purge drop clear destroy",
    ("history",): "log versions diff",
    ("undo",): "revert restore rollback",
    ("sync",): "push pull",
    ("status",): "info stat whoami",
    ("doctor",): "check verify test fsck",
    ("journal",): "diary",
    ("export",): "save-all download",
    ("recent",): "tail last",
    ("watch",): "follow",
    ("connect",): "link",
    ("disconnect",): "unlink",
}
_MEANT: Final = {word: commands for commands, words in _WORDS.items() for word in words.split()}


def no_command(typed: str, group: str, commands: Sequence[str]) -> str:
    """That there is no such command, and which one may be meant.

    Args:
        typed: what stands where a command belongs.
        group: the program, or the group of commands, as it is typed.
        commands: those that there are.
    """
    problem = f"no command {one_line(typed, _MAX_NAME_CHARS)!r}"
    word = typed.lower()
    meant = next((name for name in _MEANT.get(word, ()) if name in commands), None)
    if meant in _DESTRUCTIVE:
        return f"{problem}; see: {group} {meant} --help"
    if meant is None:
        harmless = [name for name in commands if name not in _DESTRUCTIVE]
        meant = next(iter(get_close_matches(word, harmless, 1, _ALIKE)), None)
    return f"{problem}; did you mean: {group} {meant}" if meant else problem
