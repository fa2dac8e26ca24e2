"""The program `sense-memory`: its global options, its exit codes, its handling of errors, and its help pages.

Every error of the package becomes one sentence and an exit code here, as does wrong usage. Any other exception is a
bug and keeps its plain traceback: no locals are ever printed, because a key could be among them.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sense_memory import __version__
from sense_memory.errors import InvalidInput, KeyMissing, SenseMemoryError
from sense_memory.interfaces.cli.groups import Group, Program, no_command
from sense_memory.interfaces.cli.help_pages import ends, name_of
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
from sense_memory.interfaces.text import as_json, safe


if TYPE_CHECKING:
    from typing import NoReturn

MEMORIES = "Memories"
PALACE = "Palace"
RELAYS = "Relays"
BACKUP = "Backup"
SETUP = "Key and health"
AGENTS = "Agents"

_MODULES: Final = {  # by command, in the order of `--help`: what a new user needs comes first
    **dict.fromkeys(("init", "agents"), "keys"),
    "rotate": "rotate",
    "doctor": "doctor",
    **dict.fromkeys(("remember", "recall"), "memories"),
    **dict.fromkeys(("search", "embed"), "search"),
    "forget": "memories",
    "list": "search",
    **dict.fromkeys(("history", "as-of", "undo"), "history"),
    **dict.fromkeys(("journal", "recent"), "journal"),
    **dict.fromkeys(("drafts", "refresh"), "history"),
    **dict.fromkeys(("trust", "quarantine", "revoke"), "trust"),
    **dict.fromkeys(("check", "bisect"), "checks"),
    "palace": "palace.group",
    **{name: name for name in ("mind", "web", "mcp", "access", "api")},
    **dict.fromkeys(("sync", "watch", "status"), "sync"),
    "audit": "audit",
    **dict.fromkeys(("relays", "relay"), "relays"),
    "addresses": "addresses",
    "backup": "backup",
    **dict.fromkeys(("export", "import"), "exchange"),
    "mirror": "mirror",
    **dict.fromkeys(("install", "uninstall"), "harness"),
    "hook": "hook",
    "completion": "completion",
    "help": "program",
}

SHARED: Final = (
    "agent",
    "relay",
    "ledger",
    "env_file",
    "as_json",
)  # may stand after a command or a group too

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

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # not exported, and its module has changed
_is_dashed = re.compile(r"No such option: -(?!-)").match
_is_secret = re.compile(r"\s*n(?:crypt)?sec1[02-9ac-hj-np-z]{20,}\s*", re.IGNORECASE).fullmatch


class Commands(Group):
    """All commands; expected errors leave in one place, and secret keys are refused as arguments."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.shared = [_as_shared(param) for param in self.params if param.name in SHARED]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Refuse a secret key among the arguments before anything could repeat it."""
        options = args[: args.index("--")] if "--" in args else args
        for_programs = "--json" in options
        if any(_is_secret(arg) for arg in args):
            problem = "a secret key was given as an argument, which other programs and the shell's history see, so it was refused; pass it on stdin, or paste it where `sense-memory init --import` asks for it"
            _end(ExitCode.USAGE, "UsageError", problem, for_programs=for_programs)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except USAGE_ERROR as error:
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
        except KeyMissing as error:
            _end_without_key(error, for_programs=_wants_json(ctx))
        except SenseMemoryError as error:
            code = ExitCode.USAGE if isinstance(error, InvalidInput) else ExitCode.ERROR
            _end(code, type(error).__name__, with_options(error), for_programs=_wants_json(ctx))
        except USAGE_ERROR as error:
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
    if value not in (None, False, [], ()):
        setattr(of(context), "relays" if option.name == "relay" else option.name, _plain(value))
    return value


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else value


def _wants_json(ctx: typer.Context) -> bool:
    """Whether JSON was asked for, even where no command could be found."""
    return of(ctx).as_json if ctx.obj is not None else bool(ctx.params.get("as_json"))


def _end_of_usage(error: Any, *, for_programs: bool) -> NoReturn:
    """Report what is wrong with a command line, with the right usage."""
    is_page = type(error).__name__ == "NoArgsIsHelpError"
    if is_page and not for_programs:
        raise error  # typer shows the page
    message = error.format_message()
    if is_page or message == "Missing command.":
        message = f"a command is missing; `{error.ctx.command_path} --help` lists them"
    if message.startswith("Got unexpected extra argument"):
        message = _too_many(error.ctx)
    if _is_dashed(message) and {*_TEXTS, "QUERY..."}.intersection(_arguments(error.ctx)):
        message = f"{message[0].lower()}{message[1:]}; write `--` before a text that begins with a dash"
    if message.startswith("Option '--preset' requires"):
        from sense_memory.config.relays import presets

        message = f"--preset must be one of {', '.join(preset.name for preset in presets())}"
    for theirs, ours in _WORDS:
        message = message.replace(theirs, ours)
    _end(ExitCode.USAGE, "UsageError", message, for_programs=for_programs, ctx=error.ctx)


def _end_without_key(error: KeyMissing, *, for_programs: bool) -> NoReturn:
    """Report that there is no key; for people, each place that was looked in stands on a line of its own."""
    message = with_options(error)
    places = f" (looked in: {', '.join(error.looked)})"
    if for_programs or places not in message:
        _end(ExitCode.ERROR, type(error).__name__, message, for_programs=for_programs)
    say("error", message.replace(places, ""))
    typer.echo("\n".join(["Looked in:", *(f"  {safe(place)}" for place in error.looked)]), err=True)
    raise typer.Exit(ExitCode.ERROR) from None


def _arguments(ctx: Any) -> list[str]:
    """The names of a command's arguments; none if the command is not known yet."""
    return (
        [name_of(param) for param in ctx.command.params if param.param_type_name == "argument"] if ctx else []
    )


def _too_many(ctx: Any) -> str:
    """The error for more arguments than a command takes: usually a text without quotes."""
    names = _arguments(ctx)
    if "WHEN" in names:
        return 'put the time in quotes, such as "2 days ago": several words were given'
    if names and names[-1] in _TEXTS:
        return f"{names[-1]} is one argument, and several words were given; put the text in quotes"
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
    "sense_memory.interfaces.cli",
    _MODULES,
    name="sense-memory",
    cls=Commands,
    no_args_is_help=True,
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
