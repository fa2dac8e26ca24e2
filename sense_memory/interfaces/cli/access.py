"""`access`: which programs elsewhere may reach the memory, the code that allows one, and the end of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, Invocation, of, program
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.cli.program import AGENTS, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import age, as_json, iso, one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.interfaces.mcp.oauth.access_file import AccessFile

commands = app.group(
    "access",
    rich_help_panel=AGENTS,
    epilog=ends("sense-memory access", "sense-memory access code", "sense-memory access revoke 1"),
)


@commands.callback(invoke_without_command=True)
def access(context: typer.Context, *, _json: JsonOption = False) -> None:
    """Show which programs elsewhere may reach the memory of this agent.

    Programs such as claude.ai reach it through `mcp --listen … --public-url …`, after you allowed it with a code that `access code`
    shows. An access ends when it is revoked, or was not used for 60 days.
    """
    if context.invoked_subcommand is not None:
        return
    invocation = of(context)
    with _file(invocation) as file:
        grants, now = file.grants(), file.clock()
    if invocation.as_json:
        typer.echo(as_json({"grants": shape_of(grants)}))
        return
    rows = [
        (
            str(grant.number),
            one_line(grant.name),
            grant.place,
            age(grant.created_at, now),
            "never" if grant.used_at is None else age(grant.used_at, now),
        )
        for grant in grants
    ]
    show_rows(
        ("number", "program", "host", "allowed", "last used"), rows, none="No program elsewhere has access."
    )


@commands.command(
    "code",
    epilog=ends("sense-memory access code", "sense-memory --agent bob access code"),
)
def show_code(context: typer.Context, *, _json: JsonOption = False) -> None:
    """Show a code that allows one program elsewhere to reach the memory.

    The page that the program opens asks for the code. The code is valid for ten minutes and for one program, and replaces the code
    before it. Type it only into the page of your own public URL, and only when you asked for it.
    """
    from sense_memory.interfaces.mcp.oauth.access_file import CODE_SECONDS

    invocation = of(context)
    with _file(invocation) as file:
        code, until = file.new_code(), file.clock() + CODE_SECONDS
    if invocation.as_json:
        typer.echo(as_json({"code": code, "expires_at": iso(until)}))
        return
    typer.echo(code)
    typer.echo("Type it into the page that asks for it, within ten minutes.", err=True)


@commands.command(
    "revoke",
    epilog=ends(
        "sense-memory access revoke 1",
        "sense-memory access revoke --all",
        codes={4: "there is no access of this number"},
    ),
)
def revoke(
    context: typer.Context,
    number: Annotated[
        int | None,
        typer.Argument(metavar="NUMBER", show_default=False, help="The number in the list of `access`."),
    ] = None,
    *,
    every: Annotated[bool, flag("--all", text="End the access of every program.")] = False,
    _json: JsonOption = False,
) -> None:
    """End the access of a program: its next request is refused, and it has to ask again."""
    if (number is None) is not every:
        context.fail("give either a number or --all")
    invocation = of(context)
    with _file(invocation) as file:
        numbers = [grant.number for grant in file.grants()] if number is None else [number]
        revoked = [one for one in numbers if file.revoke(one)]
    if number is not None and not revoked:
        problem = f"there is no access with the number {number}; `{program()} access` lists them"
        raise CommandFailed(ExitCode.NOT_FOUND, "NotFound", problem)
    if invocation.as_json:
        typer.echo(as_json({"revoked": revoked}))
        return
    typer.echo(f"revoked: {quantity(len(revoked), 'program')}")


@contextmanager
def _file(invocation: Invocation) -> Iterator[AccessFile]:
    from sense_memory.interfaces.mcp.oauth.access_file import AccessFile

    settings = invocation.settings()
    file = AccessFile(settings.home, settings.agent)
    try:
        yield file
    finally:
        file.close()
