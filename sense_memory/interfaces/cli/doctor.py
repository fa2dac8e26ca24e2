"""`doctor`: one table of what is well, what is doubtful, and what is broken."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sense_memory.interfaces.cli.invocation import ExitCode, JsonOption, of
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.cli.text import as_json, one_line


if TYPE_CHECKING:
    from sense_memory.interfaces.cli.checks import Check


@app.command(rich_help_panel=SETUP, epilog="Example: sense-memory doctor")
def doctor(context: typer.Context, _json: JsonOption = False) -> None:
    """Check key, ledger, relays and clock, and say what to do. Exit code 1 if anything is broken."""
    from sense_memory.interfaces.cli.checks import State, examine
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)
    with spinner("checking"):
        checks = asyncio.run(examine(invocation))
    if invocation.as_json:
        ok = all(check.state is not State.FAIL for check in checks)
        typer.echo(as_json({"ok": ok, "checks": [asdict(check) for check in checks]}))
    else:
        _print(checks)
    if any(check.state is State.FAIL for check in checks):
        raise typer.Exit(ExitCode.ERROR)


def _print(checks: list[Check]) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.checks import State
    from sense_memory.interfaces.cli.tables import plain_table, show

    styles = {State.OK: "green", State.WARN: "yellow", State.FAIL: "bold red"}
    table = plain_table("check", "", "finding")
    for check in checks:
        table.add_row(
            Text(check.name), Text(check.state.value, styles[check.state]), Text(one_line(check.finding))
        )
    show(table)
