"""Programs and groups: their commands are imported and built when somebody asks for them.

To build all of them takes longer than most commands run. So a table of names says which module has which command.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from sense_memory.interfaces.cli.help_pages import page, usage
from sense_memory.interfaces.text import one_line


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typer.models import CommandFunctionType, CommandInfo


class HelpPage:
    """The parts common to every command and group: the help page, and the global options in any place."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, and the global options that are not among them."""
        found = list(super().get_params(ctx))  # type: ignore[misc]
        root = ctx.find_root().command
        own = {name for option in found for name in option.opts}
        shared = () if root is self else getattr(root, "shared", ())
        return [*found, *(option for option in shared if own.isdisjoint(option.opts))]

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """The words after the name in the usage line."""
        return usage(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help page."""
        formatter.write(page(self, ctx))


class Command(HelpPage, TyperCommand):
    """A command."""


class Group(HelpPage, TyperGroup):
    """A group of commands."""

    program: Program

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = _Built(self.program)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - typer's signature
        """The names of the commands, in the order of the help page."""
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments of a group; without the name of a command, those of its default command."""
        is_bare = not args or (args[0].startswith("-") and not set(args) & {*self.commands, "-h", "--help"})
        if is_bare and self.program.default and not ctx.resilient_parsing:
            args = [self.program.default, *args]
        return list(super().parse_args(ctx, args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command with a name; for an unknown name, an error that suggests a command."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(no_command(args[0], ctx))
        return super().resolve_command(ctx, args)


def visible(ctx: Any) -> list[str]:
    """The commands of a group that its help page lists; none for a command."""
    group: Any = ctx.command
    if not hasattr(group, "commands"):
        return []
    return [name for name in group.list_commands(ctx) if not group.get_command(ctx, name).hidden]


class Program(typer.Typer):
    """A typer program whose commands are built when they are needed, with our help pages.

    Args:
        package: in which the modules are.
        modules: by the name of each command, in the order of the help page, the module that registers it; the module is
            imported when somebody asks for the command. Without this, commands stand in the order in which they are
            registered, and all of them are registered already.
        cls: the class of the group.
        default: the command that a group runs without the name of one; None shows the help page.
        options: as typer's.
    """

    def __init__(
        self,
        package: str = "",
        modules: Mapping[str, str] | None = None,
        *,
        cls: type[Group] = Group,
        default: str | None = None,
        **options: Any,
    ) -> None:
        self.default = default
        self.registered: dict[str, CommandInfo | Program] = {}
        self.package, self.modules = package, modules or {}
        options = {"rich_markup_mode": None, "add_completion": False, **options}
        super().__init__(cls=type(cls.__name__, (cls,), {"program": self}), **options)

    def command(
        self, name: str | None = None, **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """As typer's."""
        register = super().command(name, **{"cls": Command, **options})

        def registered(function: CommandFunctionType) -> CommandFunctionType:
            register(function)
            own = name or typer.main.get_command_name(function.__name__)
            self.registered[own] = self.registered_commands.pop()  # or typer would build it with the group
            return function

        return registered

    def group(
        self, name: str, package: str = "", modules: Mapping[str, str] | None = None, **options: Any
    ) -> Program:
        """A group of commands within this one; arguments as for a program."""
        made = self.registered[name] = Program(package, modules, name=name, **options)
        return made

    def names(self) -> list[str]:
        """The names of all commands, in the order of the help page."""
        return list(self.modules or self.registered)

    def built(self, name: str) -> Any:
        """The command or group with that name, newly built.

        Raises:
            KeyError: there is none.
        """
        if name in self.modules:
            importlib.import_module(f"{self.package}.{self.modules[name]}")
        found = self.registered[name]
        if isinstance(found, Program):
            group = typer.main.get_group(found)
            group.rich_help_panel = found.rich_help_panel
            return group
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.registered_commands.append(found)
        return typer.main.get_command(alone)


class _Built(Mapping[str, Any]):
    """The commands of a program by name, each built when it is first looked at."""

    def __init__(self, program: Program) -> None:
        self._program, self._built = program, dict[str, Any]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.names())

    def __len__(self) -> int:
        return len(self._program.names())

    def __contains__(self, name: object) -> bool:
        return name in self._program.names()

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = self._program.built(name)
        return self._built[name]


_DESTRUCTIVE: Final = frozenset({"forget", "prune", "remove"})
_ALIKE: Final = 0.7  # the least similarity of a suggested command, 0 to 1
_MAX_NAME_CHARS: Final = 40  # of the typed name, in the error
_FOREIGN_WORDS: Final = {  # words of other programs, by our command; of several commands, the first that the group has
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
    ("refresh",): "distil distill",
    ("disconnect",): "unlink",
    ("palace",): "persona",
}
_MEANT: Final = {word: commands for commands, words in _FOREIGN_WORDS.items() for word in words.split()}


def no_command(typed: str, ctx: Any) -> str:
    """The error for an unknown command, with a suggestion: of the group, of a group in it, or of the group around it.

    Args:
        typed: the word in the place of a command.
        ctx: of the program or the group, or of a command, which has no commands of its own.
    """
    problem = f"no command {one_line(typed, _MAX_NAME_CHARS)!r}"
    word, own = typed.lower(), visible(ctx)
    inner = [type(ctx)(ctx.command.get_command(ctx, name), info_name=name, parent=ctx) for name in own]
    places = [(ctx.command_path, _meant(word, own))]
    places += [(group.command_path, word) for group in inner if word in visible(group)]
    if ctx.parent:
        places.append((ctx.parent.command_path, _meant(word, visible(ctx.parent))))
    for place, meant in places:
        if meant in _DESTRUCTIVE:
            return f"{problem}; see: {place} {meant} --help"
        if meant is not None:
            return f"{problem}; did you mean: {place} {meant}"
    return problem


def _meant(word: str, commands: Sequence[str]) -> str | None:
    """The command that a word of another program, or a typing error, may mean."""
    known = next((name for name in _MEANT.get(word, ()) if name in commands), None)
    harmless = [name for name in commands if name not in _DESTRUCTIVE]
    return known or next(iter(get_close_matches(word, harmless, 1, _ALIKE)), None)
