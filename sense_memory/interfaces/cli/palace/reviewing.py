"""`palace introspect`: look over the palace now, or again and again until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli.invocation import Invocation, JsonOption, of
from sense_memory.interfaces.cli.memories import warn_if_incomplete
from sense_memory.interfaces.cli.palace.group import REVIEWS, command
from sense_memory.interfaces.cli.palace.reports import MAX_ITEMS, data, lines
from sense_memory.interfaces.cli.text import as_json, local_time
from sense_memory.interfaces.cli.writing import WAIT_SECONDS, WaitOption, send


if TYPE_CHECKING:
    from sense_memory.models import IntrospectionReport
    from sense_memory.store import MemoryStore


@command(
    REVIEWS,
    "sense-memory palace introspect",
    "# Every six hours, until Ctrl-C:",
    "sense-memory palace introspect --schedule 6h",
    "sense-memory palace introspect --json",
)
def introspect(
    context: typer.Context,
    *,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Everything that was found, not the first few.", show_default=False, metavar=""
        ),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help='Again and again after this time, such as 6h or "1 day".', show_default=False
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="With --schedule: end after so many times.", show_default=False
        ),
    ] = None,
    wait: WaitOption = WAIT_SECONDS,
    _json: JsonOption = False,
) -> None:
    """Look over the palace, and say what has changed, what needs attention, and what could be connected.

    Nothing is changed by it: below each finding stands the command that acts on it. A log of names and counts, without
    texts, is written for the next time, encrypted, so that any device can tell what has changed. With --schedule it
    stays, and before each look fetches what other devices wrote; with --json each report is one line then.
    """
    if count is not None and schedule is None:
        context.fail("--count needs --schedule")
    invocation = of(context)
    if schedule is not None:
        from sense_memory.interfaces.cli.when import duration

        _stay(invocation, duration(schedule), count, wait, everything=everything)
        return

    async def work(store: MemoryStore) -> IntrospectionReport:
        report = await store.persona_introspect()
        warn_if_incomplete(store)
        await send(store, [], wait)
        return report

    report = invocation.run(work)
    if invocation.as_json:
        typer.echo(as_json(data(report)))
    else:
        _print(report, everything=everything)


def _stay(invocation: Invocation, every: float, count: int | None, wait: float, *, everything: bool) -> None:
    """Introspect again and again, until there were enough or a signal comes."""

    async def rounds(store: MemoryStore) -> None:
        left = count
        async for report in store.persona_introspections(every):
            if invocation.as_json:
                typer.echo(as_json(data(report), indent=None))
            else:
                typer.echo(f"── {local_time(report.created_at)} ──")
                _print(report, everything=everything)
            await send(store, [], wait)
            left = None if left is None else left - 1
            if left == 0:
                return

    async def work(store: MemoryStore) -> None:
        running = asyncio.create_task(rounds(store))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running

    invocation.run(work, creates=True)


def _print(report: IntrospectionReport, *, everything: bool) -> None:
    from rich.text import Text

    from sense_memory.interfaces.cli.palace.reports import COMMAND
    from sense_memory.interfaces.cli.tables import console

    out = console()
    for line in lines(report, time.time(), None if everything else MAX_ITEMS):
        whole = line.style == COMMAND or not out.is_terminal
        indent = len(line.text) - len(line.text.lstrip())
        if whole or len(line.text) <= out.width:
            out.print(Text(line.text, line.style), soft_wrap=True)
            continue
        for number, piece in enumerate(
            Text(line.text.lstrip(), line.style).wrap(out, out.width - indent - 2)
        ):
            out.print(Text(" " * (indent + 2 * bool(number))) + piece, soft_wrap=True)
