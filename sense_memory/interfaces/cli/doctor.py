"""`doctor`: one table of what is well, what is doubtful, and what is broken."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sense_memory.interfaces.cli.invocation import ExitCode, Invocation, JsonOption, of, signer_of
from sense_memory.interfaces.cli.json_output import holding_data, relay_data
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.program import SETUP, app
from sense_memory.interfaces.cli.text import as_json, one_line, quantity


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.interfaces.cli.checks import Check, RelayFindings
    from sense_memory.ledger.rescue import RescueReport


@app.command(
    rich_help_panel=SETUP,
    epilog=ends(
        "sense-memory doctor",
        "# For one relay, before it is configured:",
        "sense-memory doctor --relay wss://relay.example",
        codes={0: "nothing is broken; look at the warnings", 1: "something is broken"},
    ),
)
def doctor(
    context: typer.Context,
    rescue: Annotated[
        bool,
        typer.Option(
            "--rescue",
            help="Replace a damaged ledger by what can still be read of it. The damaged file is kept, beside it.",
            show_default=False,
            metavar="",
        ),
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Check key, ledger, embedder, relays and clock, and what each relay holds, and say what to do.

    Each relay is asked what it holds, and that is compared with the ledger: exactly, or by numbers, or not at
    all, as far as it can (NIP-77, NIP-45). Without --rescue nothing is fetched, sent or changed.
    """
    from sense_memory.interfaces.cli.checks import State, examine
    from sense_memory.interfaces.cli.tables import spinner

    invocation = of(context)
    rescued = asyncio.run(_rescue(invocation)) if rescue else None
    with spinner("checking"):
        found = asyncio.run(examine(invocation))
    ok = all(check.state is not State.FAIL for check in found.checks)
    if invocation.as_json:
        result = {
            "ok": ok,
            "checks": [asdict(check) for check in found.checks],
            "relays": [_relay(relay) for relay in found.relays],
            "embedder": None if found.embedder is None else asdict(found.embedder),
            "rescued": None if rescued is None else {**asdict(rescued), "aside": str(rescued.aside)},
        }
        typer.echo(as_json(result))
    else:
        if rescued is not None:
            typer.echo(_summary(rescued))
        _print(found.checks)
    if not ok:
        raise typer.Exit(ExitCode.ERROR)


def _relay(found: RelayFindings) -> dict[str, Any]:
    holding = None if found.holding is None else holding_data(found.holding)
    return relay_data(found.url, found.status, problem=found.problem, holding=holding)


async def _rescue(invocation: Invocation) -> RescueReport:
    from sense_memory.config.settings import ledger_path
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


def _print(checks: Sequence[Check]) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.checks import HOLDS, State
    from sense_memory.interfaces.cli.tables import plain_table, show

    styles = {State.OK: "green", State.WARN: "yellow", State.FAIL: "bold red"}
    table = plain_table("check", "", "finding")
    for check in checks:
        table.add_row(
            Text(f"  {HOLDS}" if check.name.startswith(HOLDS) else check.name),
            Text(check.state.value, styles[check.state]),
            Text(one_line(check.finding)),
        )
    show(table)
