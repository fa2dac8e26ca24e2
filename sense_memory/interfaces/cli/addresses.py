"""`addresses`: what relays see of the names of memories, and how an existing memory is switched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.config.sources import ENV_FILE, ENVIRONMENT
from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import DryRunOption, JsonOption, YesOption
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, confirm, note, of
from sense_memory.interfaces.cli.program import RELAYS, app
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, quantity


if TYPE_CHECKING:
    from sense_memory.arguments import AddressMode
    from sense_memory.config.settings import Settings
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.memories.address_moves import AddressPlan
    from sense_memory.store import MemoryStore

_WARNING: Final = (
    "Devices that read private addresses go on as they are. The published package 0.3.x, and this program from before "
    "private addresses, take what moves to them for forgotten."
)


@app.command(
    "addresses",
    epilog=ends(
        "sense-memory addresses",
        "sense-memory addresses private --dry-run",
        "sense-memory addresses private",
        codes={
            3: "something is left, because a relay has not shown the new addresses yet; run the command again"
        },
    ),
    rich_help_panel=RELAYS,
)
def addresses(
    context: typer.Context,
    mode: Annotated[
        str, typer.Argument(metavar="private|readable", help="What relays shall see.", show_default=False)
    ] = "",
    *,
    dry_run: DryRunOption = False,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Do not wait for this relay. May be repeated.", show_default=False),
    ] = None,
    yes: YesOption = False,
    _json: JsonOption = False,
) -> None:
    """Show or switch what relays see of the names of memories: keyed hashes (private), or the names (readable).

    A switch applies to this agent from now on, and moves what is there: each memory is written again at its new address, and
    once every relay has shown it there, the old address is deleted. A switch that was stopped goes on when the command is
    run again. Without a mode, the current one is shown, and what lies at other addresses.
    """
    from sense_memory.arguments import ADDRESS_MODES
    from sense_memory.config.config_file import agent_config, save_value

    invocation = of(context)
    settings = invocation.settings()
    wanted = next((one for one in ADDRESS_MODES if one == (mode or settings.addresses)), None)
    if wanted is None:
        context.fail("choose private or readable")
    if not mode or dry_run:
        plan = invocation.run(lambda store: store.relays.switch_addresses(wanted, dry_run=True))
        _show(
            invocation,
            plan,
            f"{wanted} addresses" if mode else f"relays see {wanted} addresses",
            is_plan=True,
        )
        return
    _refuse_conflict(settings, wanted)
    if settings.addresses != wanted and not _is_wanted(invocation, wanted, yes=yes):
        raise CommandFailed(ExitCode.ERROR, "Declined", "nothing was moved; the addresses are as they were")
    save_value(settings.home, "addresses", wanted, agent_config(settings.agent))
    plan = invocation.run(lambda store: _switched(store, wanted, without or ()))
    _show(invocation, plan, f"this agent writes {wanted} addresses", is_plan=False)
    if not plan.is_done:
        raise typer.Exit(ExitCode.NOT_REPLICATED)


def _refuse_conflict(settings: Settings, mode: AddressMode) -> None:
    origin = settings.origins["addresses"]
    if origin in {ENVIRONMENT, ENV_FILE} and settings.addresses != mode:
        raise InvalidInput(
            f"SENSE_MEMORY_ADDRESSES={settings.addresses} is set in the {origin}, and comes first; change it there. "
            "Nothing was moved."
        )


def _is_wanted(invocation: Invocation, mode: AddressMode, *, yes: bool) -> bool:
    if mode == "private":
        note(_WARNING)
    asks = sys.stdin.isatty() and sys.stdout.isatty() and not (yes or invocation.as_json)
    return not asks or confirm(f"Move everything to {mode} addresses?")


async def _switched(
    store: MemoryStore, mode: AddressMode, without: list[str] | tuple[str, ...]
) -> AddressPlan:
    from sense_memory.interfaces.cli.tables import progress

    total = (await store.relays.switch_addresses(mode, dry_run=True)).to_write
    with progress("moving", total) as advance:

        def moved(step: str, count: int) -> None:
            advance(count, total if step == "written" else None)

        return await store.relays.switch_addresses(mode, without=without, progress=moved)


def _show(invocation: Invocation, plan: AddressPlan, what: str, *, is_plan: bool) -> None:
    if invocation.as_json:
        typer.echo(as_json(shape_of(plan)))
        return
    typer.echo(what)
    if plan.is_done:
        typer.echo(
            f"  all {quantity(plan.records, 'record')} with an address lie there"
            if plan.records
            else "  nothing has an address yet"
        )
        return
    left = "to do" if is_plan else "left"
    if plan.to_write:
        typer.echo(
            f"  {left}: write {quantity(plan.to_write, 'record')} of {plan.records:,} at new addresses"
        )
    if plan.stuck:
        typer.echo(
            f"  of these, {plan.stuck:,} must be merged with another device's versions first: sync, then run this again"
        )
    if plan.to_remove:
        typer.echo(f"  {left}: delete {quantity(plan.to_remove, 'old address', 'old addresses')}")
    if plan.unread:
        typer.echo(f"  of these, {plan.unread:,} wait until every relay has shown the new ones")
