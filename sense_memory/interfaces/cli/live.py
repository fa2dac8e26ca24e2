"""`watch`: what other devices and processes do to the memory, line by line, while it happens."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.interfaces.cli.invocation import JsonOption, of
from sense_memory.interfaces.cli.json_output import change_data, shown_path
from sense_memory.interfaces.cli.pages import ends
from sense_memory.interfaces.cli.program import RELAYS, app
from sense_memory.interfaces.cli.text import as_json, local_time, one_line, quantity


if TYPE_CHECKING:
    from sense_memory.models import Change
    from sense_memory.store import MemoryStore

_KEEPS_TEXT = ("linked", "changed")
_EXCERPT_CHARS = 80
_PATH_CHARS = 60
_ID_CHARS = 8  # enough for `journal --remove`


@app.command(
    rich_help_panel=RELAYS,
    epilog=ends(
        "sense-memory watch",
        "# Do something with each change:",
        'sense-memory --json watch | while read -r change; do echo "$change"; done',
        "# In a script, wait for one change, a minute at most:",
        "sense-memory watch --count 1 --seconds 60",
        codes={0: "ended by Ctrl-C, --count or --seconds"},
    ),
)
def watch(
    context: typer.Context,
    *,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", show_default=False, help="End after so many changes."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="S", show_default=False, help="End after so many seconds, whatever came."
        ),
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Show changes as other devices and other programs on this machine make them, until Ctrl-C.

    What this agent's other devices did since the last sync comes first. A memory of the palace whose text stays is
    linked, or changed in another way, such as by being recalled. With --json every change is one line of JSON. What
    the program is connected to, and when a relay is lost and regained, it says on stderr.
    """
    invocation = of(context)

    async def work(store: MemoryStore) -> None:
        watching = asyncio.create_task(_show(store, count, as_json=invocation.as_json))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, watching.cancel)
        await asyncio.wait([watching], timeout=seconds)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    invocation.run(work, creates=True)


async def _show(store: MemoryStore, count: int | None, *, as_json: bool) -> None:
    where = quantity(len(store.relays), "relay") if store.relays else "no relay: none is configured"
    changes = store.watch(on_relay=_Relays().say)
    typer.echo(f"watching other programs on this machine, and {where}; Ctrl-C ends it", err=True)
    left = count
    async for change in changes:
        typer.echo(json_line(change) if as_json else line(change))  # flushes
        left = None if left is None else left - 1
        if left == 0:
            return


class _Relays:
    """What was said of each relay."""

    def __init__(self) -> None:
        self._was_live: dict[str, bool] = {}

    def say(self, url: str, problem: str) -> None:
        """Say what has become of one."""
        was_live = self._was_live.get(url)
        self._was_live[url] = not problem
        if not problem:
            words = "connected" if was_live is None else "connected again"
        else:
            words = f"lost: {one_line(problem)}" if was_live else one_line(problem)
        typer.echo(f"{url}: {words}", err=True)


def line(change: Change) -> str:
    """A change for a person: when, where, what, and the beginning of the text."""
    words = "written" if change.kind == "journal" else change.kind.value
    if change.kind in _KEEPS_TEXT:
        words += ", with the same text"
    elif change.value is not None:
        cut = "…" if len(change.value) > _EXCERPT_CHARS else ""
        words += f": {one_line(change.value, _EXCERPT_CHARS)}{cut}"
    path = one_line(shown_path(change.path))
    if path == f"journal/{change.key}":
        path = path[: len("journal/") + _ID_CHARS]
    elif len(path) > _PATH_CHARS:
        path = f"{path[: _PATH_CHARS - 1]}…"
    return f"{local_time(change.created_at)}  {path}  {words}"


def json_line(change: Change) -> str:
    """A change for a program, on one line."""
    return as_json(change_data(change), indent=None)
