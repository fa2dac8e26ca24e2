"""`doctor`: one table of what is well, what is doubtful, and what is broken."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, JsonOption, of, signer_of
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.cli.text import as_json, one_line, quantity


if TYPE_CHECKING:
    from sense_memory.interfaces.cli.checks import Check
    from sense_memory.ledger.rescue import RescueReport


@app.command(rich_help_panel=SETUP, epilog="Example: sense-memory doctor")
def doctor(
    context: typer.Context,
    rescue: Annotated[
        bool,
        typer.Option(
            "--rescue",
            help="Replace a damaged ledger by what can still be read of it; the damaged file is moved aside and kept.",
            show_default=False,
            metavar="",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Check key, ledger, relays and clock, and say what to do. Exit code 1 if anything is broken."""
    from sense_memory.interfaces.cli.checks import State, examine
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)
    rescued = asyncio.run(_rescue(invocation)) if rescue else None
    with spinner("checking"):
        checks = asyncio.run(examine(invocation))
    if invocation.as_json:
        ok = all(check.state is not State.FAIL for check in checks)
        found = {"ok": ok, "checks": [asdict(check) for check in checks]}
        if rescued is not None:
            found["rescued"] = {**asdict(rescued), "aside": str(rescued.aside)}
        typer.echo(as_json(found))
    else:
        if rescued is not None:
            typer.echo(_summary(rescued))
        _print(checks)
    if any(check.state is State.FAIL for check in checks):
        raise typer.Exit(ExitCode.ERROR)


async def _rescue(invocation: Invocation) -> RescueReport:
    from sense_memory.settings import ledger_path
    from sense_memory.store import MemoryStore

    settings = invocation.settings()
    signer = signer_of(settings)
    path = settings.ledger or ledger_path(settings.home, signer.public_key)
    return await MemoryStore(signer, ledger=path).rescue()


def _summary(rescued: RescueReport) -> str:
    saved = quantity(sum(rescued.counts.values()), "event")
    drafts = f" and {quantity(rescued.drafts, 'draft')}" if rescued.drafts else ""
    return (
        f"Saved {saved}{drafts}; {rescued.unreadable:,} could not be read. "
        f"The damaged file is kept: {rescued.aside}\n"
        "Run `sense-memory sync --full`: relays give back what they have.\n"
    )


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
