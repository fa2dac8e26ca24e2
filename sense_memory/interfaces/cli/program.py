"""The program `sense-memory`: its global options, its exit codes, and how errors leave it.

Every error of the package's tree ends here as one sentence and an exit code. Anything else is a bug and
keeps its plain traceback: no locals are ever printed, because a key could be among them.
"""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sense_memory import __version__
from sense_memory.errors import InvalidInput, SenseMemoryError
from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, Stop, of
from sense_memory.interfaces.cli.text import as_json, safe


if TYPE_CHECKING:
    from typing import NoReturn

MEMORIES = "Memories"
RELAYS = "Relays"
BACKUP = "Backup"
SETUP = "Key and health"

_ORDER = (  # of `--help`: what one needs first stands first
    *("init", "doctor"),
    *("remember", "recall", "forget", "list", "history", "as-of", "undo", "journal", "recent"),
    *("drafts", "refresh"),
    *("sync", "status", "relays", "relay"),
    *("backup", "export", "import"),
)

_UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export it, and where it lives has changed
_is_secret = re.compile(r"\s*n(?:crypt)?sec1[02-9ac-hj-np-z]{20,}\s*", re.IGNORECASE).fullmatch


class Commands(TyperGroup):
    """The commands, with one way out for expected errors and none in for secret keys."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of `--help`."""
        return sorted(super().list_commands(ctx), key=_ORDER.index)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Refuse a secret key among the arguments before anything could repeat it."""
        if any(_is_secret(arg) for arg in args):
            raise typer.BadParameter(
                "a secret key must not be an argument: other programs and the shell's history see it. "
                "Pass it on stdin, or paste it where `sense-memory init --import` asks for it."
            )
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error of the tree becomes its sentence and an exit code."""
        try:
            return super().invoke(ctx)
        except Stop as stop:
            _end(ctx, stop.code, stop.name, stop.message)
        except SenseMemoryError as error:
            code = ExitCode.USAGE if isinstance(error, InvalidInput) else ExitCode.ERROR
            _end(ctx, code, type(error).__name__, str(error))
        except _UsageError as error:
            if not _wants_json(ctx):
                raise  # typer shows the usage as well
            _end(ctx, ExitCode.USAGE, "UsageError", error.format_message())
        except OSError as error:
            if error.filename is None:  # a closed pipe, for one: typer knows what to do
                raise
            _end(ctx, ExitCode.ERROR, "OSError", f"{error.filename}: {error.strerror}")


def _wants_json(ctx: typer.Context) -> bool:
    """Whether JSON was asked for, even where no command could be found."""
    return of(ctx).as_json if ctx.obj is not None else bool(ctx.params.get("as_json"))


def _end(ctx: typer.Context, code: ExitCode, name: str, message: str) -> NoReturn:
    if _wants_json(ctx):
        typer.echo(as_json({"error": {"type": name, "message": message}}))
    else:
        typer.echo(f"error: {safe(message)}", err=True)
    raise typer.Exit(code) from None


app = typer.Typer(
    name="sense-memory",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done · 1 error · 2 wrong usage or input · 3 not replicated as asked · 4 not found.\n\n"
        "A memory counts as kept once it is in the local ledger; relays get it then, or later.\n\n"
        "Example: sense-memory remember user_timezone America/Vancouver"
    ),
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
        str | None, typer.Option(metavar="NAME", help="Which agent of this machine. Default: `default`.")
    ] = None,
    relay: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Use this relay instead of the configured ones; repeatable."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use this ledger instead of the agent's own.")
    ] = None,
    env_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read this file instead of the home folder's .env.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of text.", show_default=False, metavar="")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            callback=_version,
            is_eager=True,
            show_default=False,
            metavar="",
        ),
    ] = False,
) -> None:
    """A memory that belongs to an agent's key: kept here, signed and encrypted, copied to relays.

    First make a key: `sense-memory init`. Then keep something: `sense-memory remember`.
    For copies on other machines: `sense-memory relays add`, then `sense-memory sync`.
    """
    context.obj = Invocation(agent, tuple(relay) if relay else None, ledger, env_file, as_json)
