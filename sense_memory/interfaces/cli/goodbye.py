"""`forget --everything`: forget all of an agent's memory, and say what could not be confirmed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from sense_memory.errors import InvalidInput
from sense_memory.interfaces.cli.invocation import ExitCode, program, tell
from sense_memory.interfaces.cli.operations import Write
from sense_memory.interfaces.cli.output import show_rows
from sense_memory.interfaces.shapes import shape_of
from sense_memory.interfaces.text import as_json, quantity


if TYPE_CHECKING:
    from sense_memory.interfaces.cli import delivery
    from sense_memory.interfaces.cli.invocation import Invocation
    from sense_memory.memories.goodbye import Goodbye, RelayGoodbye
    from sense_memory.store import MemoryStore

_WORDS_CHARS = 8  # of the public key that are typed


@dataclass(frozen=True, slots=True)
class Farewell(Write):
    """The result of forgetting everything."""

    goodbye: Goodbye | None = None

    def outcome(self, invocation: Invocation, written: delivery.Written, require_acks: int) -> None:  # noqa: ARG002
        """Print what is left, and where; exit code 3 where something could not be confirmed."""
        found = self.goodbye
        if found is None:  # a plan
            typer.echo(as_json(dict(self.data)) if invocation.as_json else self.done)
            return
        if invocation.as_json:
            typer.echo(as_json(shape_of(found)))
        else:
            _show(found)
        if not found.is_confirmed:
            raise typer.Exit(ExitCode.NOT_REPLICATED)


async def forget_everything(store: MemoryStore, *, yes: bool, vanish: bool, dry_run: bool) -> Farewell:
    """Forget everything, once a person has typed that it is meant.

    Raises:
        InvalidInput: nobody confirmed; nothing was forgotten.
    """
    count = store.count_everything()
    relays = [*store.relays]
    where = f"here and at {quantity(len(relays), 'relay')}" if relays else "here (no relays are configured)"
    what = f"{quantity(count, 'memory or record', 'memories and records')} of {store.npub}"
    if dry_run:
        data = {"planned": count, "relays": relays, "npub": store.npub}
        return Farewell([], f"Would forget {what}, {where}, and what only relays have.", data)
    if not yes:
        _confirm(store.npub, what, where)
    from sense_memory.interfaces.cli.tables import progress

    with progress("forgetting", count) as advance:
        found = await store.forget_everything(vanish=vanish, progress=advance)
    return Farewell([], goodbye=found)


def _confirm(npub: str, what: str, where: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput("nothing was forgotten: confirm on a terminal, or give --yes")
    word = npub[-_WORDS_CHARS:]
    typer.echo(f"This forgets {what}, {where}, for good. No backup is made.", err=True)
    typed = typer.prompt(f"Type the last {_WORDS_CHARS} characters of the public key", err=True)
    if typed.strip() != word:
        raise InvalidInput("nothing was forgotten: that is not the end of the public key")


def _show(found: Goodbye) -> None:
    tell(f"Forgot {quantity(found.forgotten, 'memory or record', 'memories and records')} here.")
    if found.left_here:
        tell(
            f"{quantity(found.left_here, 'record')} could not be named and stay here; run {program()} doctor."
        )
    if found.relays:
        show_relays(found)
    if found.is_confirmed:
        tell("Every relay says that nothing is left. Nobody can promise that no copy was made.")
    else:
        tell(
            f"Not everything is confirmed. Run the same command again later: {program()} forget --everything"
        )


def show_relays(found: Goodbye) -> None:
    """What each relay did, as a table."""
    show_rows(
        ("relay", "still shows", "not accepted", "vanish", "finding"),
        [_row(relay) for relay in found.relays],
        numbers=("still shows", "not accepted"),
    )


def _row(relay: RelayGoodbye) -> tuple[str, ...]:
    left = "?" if relay.left is None else f"{relay.left:,}"
    finding = relay.problem or ("nothing left" if relay.left == 0 else "does not honour deletions")
    return relay.url, left, f"{relay.waiting:,}", relay.vanish, finding
