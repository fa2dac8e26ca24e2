"""The program `sense-memory`: its global options, its exit codes, its handling of errors, and its help pages.

Every error of the package becomes one sentence and an exit code here, as does wrong usage. Any other exception is a
bug and keeps its plain traceback: no locals are ever printed, because a key could be among them.

A help page says what a command does, lists its options and exit codes, and gives examples to copy. It is plain text,
80 columns wide, or up to 100 if the terminal has room. Exit codes and examples come from the command's epilog, which
`ends` writes. Only headings are styled, and only on a terminal.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import shutil
import textwrap
from difflib import get_close_matches
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from sense_memory import __version__
from sense_memory.errors import InvalidInput, SenseMemoryError
from sense_memory.interfaces.cli.inputs import JsonOption
from sense_memory.interfaces.cli.invocation import (
    CommandFailed,
    ExitCode,
    Invocation,
    known_to_program,
    of,
    say,
    with_options,
)
from sense_memory.interfaces.text import as_json, one_line


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn

    from typer.models import CommandFunctionType

MEMORIES = "Memories"
PALACE = "Palace"
RELAYS = "Relays"
BACKUP = "Backup"
SETUP = "Key and health"
AGENTS = "Agents"

_ORDER = (  # of `--help`: what a new user needs comes first
    *("init", "agents", "doctor"),
    *(
        "remember",
        "recall",
        "search",
        "embed",
        "forget",
        "list",
        "history",
        "as-of",
        "undo",
        "journal",
        "recent",
    ),
    *("drafts", "refresh"),
    *("palace", "mind", "web", "mcp"),
    *("sync", "watch", "status", "relays", "relay"),
    *("backup", "export", "import"),
    *("install", "uninstall", "hook"),
    *("completion", "help"),
)

SHARED: Final = ("agent", "relay", "ledger", "env_file")  # global options that may stand after a command too

_FOR_PROGRAMS: Final = "sense_memory.for_programs"  # --json is on the line, even after an error

_WORDS: Final = (  # typer repeats pydantic's messages, which are written for programmers
    (": Value error, ", ": "),
    (": Input should be ", ": it must be "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    (", unable to parse string as a number", ""),
    (", unable to parse string as an integer", ""),
)

_TEXTS: Final = ("VALUE", "TEXT")  # arguments that may have several words

_UsageError: Any = typer.BadParameter.__mro__[1]  # not exported, and its module has changed
_is_dashed = re.compile(r"No such option: -(?!-)").match
_is_secret = re.compile(r"\s*n(?:crypt)?sec1[02-9ac-hj-np-z]{20,}\s*", re.IGNORECASE).fullmatch


class HelpPage:
    """The parts common to every command and group: the help page, and the global options in any place."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, and the global options."""
        found = list(super().get_params(ctx))  # type: ignore[misc]
        root = ctx.find_root().command
        return found if root is self else [*found, *getattr(root, "shared", ())]

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
    """A typer program with our help pages."""

    def command(
        self, name: str | None = None, **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """As typer's."""
        return super().command(name, **{"cls": Command, **options})


class Commands(Group):
    """All commands; expected errors leave in one place, and secret keys are refused as arguments."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.shared = [_as_shared(param) for param in self.params if param.name in SHARED]

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of `--help`."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Refuse a secret key among the arguments before anything could repeat it."""
        options = args[: args.index("--")] if "--" in args else args
        for_programs = "--json" in options
        if any(_is_secret(arg) for arg in args):
            problem = (
                "pass a secret key on stdin, or paste it where "
                "`sense-memory init --import` asks for it: other programs and the shell's history see arguments, so this one was refused"
            )
            _end(ExitCode.USAGE, "UsageError", problem, for_programs=for_programs)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except _UsageError as error:
            _end_of_usage(error, for_programs=for_programs)
        context.meta[_FOR_PROGRAMS] = for_programs
        context.with_resource(known_to_program(context))
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of the package becomes its sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except CommandFailed as stop:
            _end(stop.code, stop.name, stop.message, for_programs=_wants_json(ctx))
        except SenseMemoryError as error:
            code = ExitCode.USAGE if isinstance(error, InvalidInput) else ExitCode.ERROR
            _end(code, type(error).__name__, with_options(error), for_programs=_wants_json(ctx))
        except _UsageError as error:
            _end_of_usage(error, for_programs=_wants_json(ctx) or ctx.meta[_FOR_PROGRAMS])
        except OSError as error:
            where = f"{error.filename}: " if error.filename is not None else ""
            problem = f"{where}{error.strerror or error}"
            _end(ExitCode.ERROR, "OSError", problem, for_programs=_wants_json(ctx))
        except (typer.Abort, EOFError):
            # Ctrl-C or Ctrl-D at a question, which is asked before anything is done
            typer.echo(err=True)
            problem = "nothing was changed, because the question was not answered"
            _end(ExitCode.INTERRUPTED, "Interrupted", problem, for_programs=_wants_json(ctx))


def _as_shared(option: Any) -> Any:
    """A global option after a command, where it overrides the same option before the command."""
    shared = copy.copy(option)
    shared.expose_value, shared.hidden, shared.callback = False, True, _take
    return shared


def _take(context: Any, option: Any, value: Any) -> Any:
    if value:
        setattr(of(context), "relays" if option.name == "relay" else option.name, _plain(value))
    return value


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _wants_json(ctx: typer.Context) -> bool:
    """Whether JSON was asked for, even where no command could be found."""
    return of(ctx).as_json if ctx.obj is not None else bool(ctx.params.get("as_json"))


def _end_of_usage(error: Any, *, for_programs: bool) -> NoReturn:
    """Report what is wrong with a command line, with the right usage."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error  # typer shows the page
    message = error.format_message()
    if message.startswith("Got unexpected extra argument"):
        message = _too_many(error.ctx)
    if _is_dashed(message) and {*_TEXTS, "QUERY..."}.intersection(_arguments(error.ctx)):
        message = f"write `--` before a text that begins with a dash: {message[0].lower()}{message[1:]}"
    if message.startswith("Option '--preset' requires"):
        from sense_memory.config.relays import presets

        message = f"--preset must be one of {', '.join(preset.name for preset in presets())}"
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    _end(ExitCode.USAGE, "UsageError", message, for_programs=for_programs, ctx=error.ctx)


def _arguments(ctx: Any) -> list[str]:
    """The names of a command's arguments; none if the command is not known yet."""
    return (
        [_name(param) for param in ctx.command.params if param.param_type_name == "argument"] if ctx else []
    )


def _too_many(ctx: Any) -> str:
    """The error for more arguments than a command takes: usually a text without quotes."""
    names = _arguments(ctx)
    if "WHEN" in names:
        return 'put the time in quotes, such as "2 days ago": several words were given'
    if names and names[-1] in _TEXTS:
        return f"put the text in quotes: {names[-1]} is one argument, and several words were given"
    taken = f"only {' and '.join(names)}" if names else "no arguments"
    return f"`{ctx.command_path}` takes {taken}"


def _end(code: ExitCode, name: str, message: str, *, for_programs: bool, ctx: Any = None) -> NoReturn:
    if for_programs:
        typer.echo(as_json({"error": {"type": name, "message": message}}))
    else:
        say("error", message)
        if ctx is not None:
            typer.echo(f"{ctx.get_usage()}\nHelp: {ctx.command_path} --help", err=True)
    raise typer.Exit(code) from None


app = Program(
    name="sense-memory",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\
Exit codes:
  0  done
  1  an error, which is explained
  2  wrong usage or input; nothing was changed
  3  not replicated as asked: `sync`, and writes with --require-acks
  4  not found
  130  interrupted with Ctrl-C

Environment:
  SENSE_MEMORY_HOME      The data folder, for keys, ledgers, config.toml and .env. Default on Linux: ~/.local/share/sense-memory.
  SENSE_MEMORY_AGENT     The agent to use if --agent is not given.
  SENSE_MEMORY_KEY_FILE  The file with the secret key. Default: the agent's own key file.
  SENSE_MEMORY_RELAYS    Relay URLs, separated by commas or spaces; they replace those in the config files.
  SENSE_MEMORY_EMBEDDER  The embedder, which finds memories by meaning; see `embed --help`.
  NOSTR_NSEC             The secret key itself. A file that only you can read is safer.

Files, in the data folder:
  keys/NAME.key     An agent's secret key; keys/NAME.ncryptsec if a password encrypts the key.
  ledgers/NPUB.db   The agent's memories, signed and encrypted.
  agents/NAME.toml  An agent's own relays, written by `relays add`.
  config.toml       The relays of all agents, written by `relays add --all-agents`.
  .env              The variables above, if the environment does not set them.

Examples:
  sense-memory init
  sense-memory remember user_timezone America/Vancouver
  sense-memory recall user_timezone
  # Another agent on this machine, and another relay for this command only:
  sense-memory list --agent bob --relay wss://relay.example
""",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sense-memory {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Use this agent. Each agent on this machine has its own key. Default: default.",
        ),
    ] = None,
    relay: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Use this relay instead of the configured ones. May be repeated."),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Use this ledger instead of the agent's own. Commands that write, and sync, make a missing ledger.",
        ),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Read this file instead of the .env in the data folder. The file must exist."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print JSON instead of text, for programs.", show_default=False, metavar=""
        ),
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Show the version.",
            callback=_version,
            is_eager=True,
            show_default=False,
            metavar="",
        ),
    ] = False,
) -> None:
    """A memory that belongs to an agent's key: kept on this machine, signed and encrypted, copied to relays.

    Make a key with `init`, then write a memory with `remember`. For copies on other machines, run `relays add`, then
    `sync`. A memory is kept once it is in the local ledger; relays get their copies at once or later.

    A memory has a flat key, such as user_timezone, or a path in the palace, such as people/facts/lisa. A flat memory
    never fades. A palace memory fades unless you recall it, and can be connected with other palace memories or
    contradicted by them.

    Global options may stand before the command or after it.
    """
    context.obj = Invocation(agent, tuple(relay) if relay else None, ledger, env_file, as_json)


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


# ── Help pages ──────────────────────────────────────────────────────────────────────────

_MAX_WIDTH: Final = 100
_MIN_WIDTH: Final = 50
_MAX_TERM_CHARS: Final = 26  # a longer term gets a line of its own
_CODES: Final = {0: "done", 1: "an error, which is explained", 2: "wrong usage or input; nothing was changed"}
_SHARED_OPTIONS: Final = (
    "Options of every command: --agent NAME, --relay URL, --ledger FILE, --env-file FILE. "
    "See sense-memory --help, also for the environment."
)
_EXAMPLES: Final = "Examples"

_sentence = re.compile(r"(.+?[.:])(?:\s|$)", re.DOTALL).match

Row = tuple[str, str]  # a term and its explanation


def ends(*examples: str, codes: Mapping[int, str] | None = None) -> str:
    """The end of a help page, as an epilog.

    Args:
        examples: shell commands of one line each; a line that begins with `#` is a remark on the next line.
        codes: exit codes with a meaning of their own for this command.
    """
    meanings = sorted({**_CODES, **(codes or {})}.items())
    rows = [f"  {code}  {meaning}" for code, meaning in meanings]
    return "\n".join(("Exit codes:", *rows, "", f"{_EXAMPLES}:", *(f"  {example}" for example in examples)))


def page(command: Any, ctx: Any) -> str:
    """The help page of a command or a group of commands."""
    width = max(_MIN_WIDTH, min(shutil.get_terminal_size().columns, _MAX_WIDTH)) - 1
    blocks = [command.get_usage(ctx), *_paragraphs(inspect.cleandoc(command.help or ""), width)]
    if hasattr(command, "commands"):
        panels = list(_panels(command, ctx))
        column = max(len(name) for _, rows in panels for name, _ in rows)
        blocks += [_block(heading, rows, width, column) for heading, rows in panels]
    options = [param for param in (*command.params, command.get_help_option(ctx)) if param is not None]
    arguments = [param for param in options if param.param_type_name == "argument"]
    blocks.append(_block("Arguments", [(_name(param), param.help or "") for param in arguments], width))
    rows = [_option(param) for param in options if param not in arguments and not param.hidden]
    blocks.append(_block("Options", rows, width))
    if ctx.parent is not None:
        blocks.append(textwrap.fill(_SHARED_OPTIONS, width, break_on_hyphens=False))
    for heading, lines in _sections(command.epilog or ""):
        listed = [tuple(re.split(r"\s{2,}", line, maxsplit=1)) for line in lines]
        is_list = heading != _EXAMPLES and all(len(row) == 2 for row in listed)
        blocks.append(_block(heading, listed, width) if is_list else _verbatim(heading, lines))
    return "\n\n".join(filter(None, blocks)) + "\n"


def usage(command: Any) -> list[str]:
    """The arguments after a command's name, for the usage line."""
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    pieces = [_name(param) if param.required else f"[{_name(param)}]" for param in arguments]
    if hasattr(command, "commands"):
        pieces.append("[COMMAND ...]" if command.invoke_without_command else "COMMAND ...")
    return ["[OPTIONS]", *pieces]


def first_sentence(text: str) -> str:
    """The description of a command, for lists of commands."""
    whole = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    found = _sentence(whole)
    return found[1].rstrip(".:") if found else whole


def _panels(group: Any, ctx: Any) -> Iterator[tuple[str, list[Row]]]:
    """The commands of a group, by the panels they belong to."""
    panels: dict[str, list[Row]] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            panel = getattr(command, "rich_help_panel", None)
            rows = panels.setdefault(panel if isinstance(panel, str) else "Commands", [])
            rows.append((name, first_sentence(command.help or "")))
    yield from panels.items()


def _name(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _option(param: Any) -> Row:
    """An option as on the command line, and its meaning with its default."""
    names = ", ".join((*sorted(param.opts, key=len), *param.secondary_opts))
    shown = names if param.is_flag else f"{names} {_name(param)}"
    text = param.help or ""
    default = None if param.is_flag or param.show_default is False else param.default
    if isinstance(default, int | float | str) and default != "":
        text += f" Default: {default:g}." if isinstance(default, int | float) else f" Default: {default}."
    return shown, text


def _paragraphs(text: str, width: int) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n\n")):
        yield textwrap.fill(
            " ".join(paragraph.split()), width, break_on_hyphens=False, break_long_words=False
        )


def _sections(epilog: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of an epilog: a heading with a colon, and indented lines. `Example: …` is a section too."""
    text = re.sub(r"^Example: (.*)$", rf"{_EXAMPLES}:\n  \1", inspect.cleandoc(epilog), flags=re.MULTILINE)
    for section in filter(None, text.split("\n\n")):
        heading, *lines = section.split("\n")
        yield heading.rstrip(":"), [line.removeprefix("  ") for line in lines]


def _block(heading: str, rows: Iterable[Any], width: int, least: int = 0) -> str:
    """A heading, and a list of terms with explanations; empty where there are no rows.

    Args:
        heading: without a colon.
        rows: pairs of name and explanation.
        width: characters of a line.
        least: characters of the longest name in other lists, to align this list with them.
    """
    listed = list(rows)
    if not listed:
        return ""
    column = min(_MAX_TERM_CHARS, max(least, *(len(name) for name, _ in listed))) + 4
    lines = []
    for name, text in listed:
        beside = len(name) + 4 <= column
        begin = f"  {name}".ljust(column) if beside else " " * column
        lines += [] if beside else [f"  {name}"]
        lines.append(
            textwrap.fill(
                text, width, initial_indent=begin, subsequent_indent=" " * column, break_on_hyphens=False
            )
            or begin.rstrip()
        )
    return "\n".join((_heading(heading), *lines))


def _verbatim(heading: str, lines: Iterable[str]) -> str:
    return "\n".join((_heading(heading), *(f"  {line}".rstrip() for line in lines)))


def _heading(text: str) -> str:
    return f"{text}:" if "NO_COLOR" in os.environ else typer.style(f"{text}:", bold=True)


@app.command(
    "help",
    rich_help_panel=SETUP,
    epilog=ends("sense-memory help remember", "sense-memory help palace show"),
)
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND...", show_default=False, help="A command. Without it, show the main page."
        ),
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Show the help page of a command, or of the program. `COMMAND --help` shows the same page."""
    shown: Any = context.find_root()
    for word in words or ():
        command = shown.command.get_command(shown, word) if isinstance(shown.command, Group) else None
        if command is None:
            context.fail(no_command(word, shown))
        shown = type(shown)(command, info_name=word, parent=shown)
    text = shown.get_help()
    typer.echo(as_json({"command": shown.command_path, "help": text}) if of(context).as_json else text)
