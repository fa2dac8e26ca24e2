"""`relays add`, `remove` and `list`; and `relay`, which runs a local relay in the foreground."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.errors import InvalidInput, KeyMissing, RelayError, SenseMemoryError
from sense_memory.interfaces.cli.inputs import JsonOption
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, Invocation, of, say, signer_of
from sense_memory.interfaces.cli.output import relay_data
from sense_memory.interfaces.cli.program import RELAYS, Group, Program, app, ends
from sense_memory.interfaces.cli.text import as_json, quantity


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.config.settings import Settings
    from sense_memory.nostr.signer import LocalSigner

commands = Program(cls=Group, no_args_is_help=True)
app.add_typer(
    commands,
    name="relays",
    rich_help_panel=RELAYS,
    help="Choose the relays that carry copies.\n\nAny Nostr relay will do that takes events of kind 30078, 4 and 5; "
    "three of them are a good number. Nothing is contacted that you did not name.",
    epilog=ends("sense-memory relays list", "sense-memory relays add wss://relay.example"),
)

_RUNNING: Final = (
    "A relay may be running already: `lsof -i :{port}` shows it, Ctrl-C in its terminal or `kill PID` ends it, and "
    "`sense-memory relays add ws://127.0.0.1:{port}` uses it. A second one needs a --port and a --data file of its own."
)

UrlArgument = Annotated[
    str,
    typer.Argument(metavar="URL", show_default=False, help="wss://…, or ws:// for a relay on this machine."),
]


@commands.command(
    epilog=ends(
        "sense-memory relays add wss://relay.example",
        "# A relay of this machine, see `sense-memory relay`:",
        "sense-memory relays add ws://127.0.0.1:7447",
    )
)
def add(context: typer.Context, url: UrlArgument, _json: JsonOption = False) -> None:
    """Add a relay to config.toml.

    All agents of the home folder use the relay, from their next sync or write on. `doctor` shows what the relay allows.
    """
    from sense_memory.nostr.relay_url import is_local, is_same_relay, relay_url

    relay = relay_url(url)
    twins: list[str] = []
    done = "added"

    def with_it(saved: list[str]) -> list[str]:
        nonlocal done, twins
        done = "there already:" if relay in saved else "added"
        twins = [known for known in saved if known != relay and is_same_relay(known, relay)]
        return saved if relay in saved else [*saved, relay]

    _change(of(context), relay, with_it, lambda: done)
    for twin in twins:
        say(
            "warning",
            f"{twin} is most likely the same relay, under another name for this machine; one is enough. "
            f"Remove the other: sense-memory relays remove {relay}",
        )
    if is_local(relay) and not of(context).as_json:
        typer.echo("It is on this machine: handy, but not a backup.")


@commands.command(
    epilog=ends(
        "sense-memory relays remove wss://relay.example",
        codes={4: "it is not among the relays in config.toml"},
    )
)
def remove(context: typer.Context, url: UrlArgument, _json: JsonOption = False) -> None:
    """Remove a relay from config.toml, and cancel what this agent still had to send there.

    The relay keeps its copies. Added again, a relay is asked for everything and gets what it lacks.
    """
    from sense_memory.nostr.relay_url import relay_url

    relay = relay_url(url)
    invocation = of(context)

    def without(saved: list[str]) -> list[str]:
        if relay not in saved:
            raise CommandFailed(
                ExitCode.NOT_FOUND, "NotFound", f"{relay} is not among the relays in config.toml"
            )
        return [known for known in saved if known != relay]

    _change(invocation, relay, without, lambda: "removed", after=lambda settings: _cancelled(settings, relay))


@commands.command("list", epilog=ends("sense-memory relays list", "sense-memory relays list --json"))
def list_relays(context: typer.Context, _json: JsonOption = False) -> None:
    """List the relays in use, and where they are configured."""
    invocation = of(context)
    settings = invocation.settings()
    if invocation.as_json:
        typer.echo(
            as_json({"relays": list(map(relay_data, settings.relays)), "origin": settings.origins["relays"]})
        )
    elif not settings.relays:
        typer.echo("No relays are configured. Add one: sense-memory relays add wss://relay.example", err=True)
    else:
        from sense_memory.nostr.relay_url import is_local

        for relay in settings.relays:
            typer.echo(relay + ("  (this machine: not a backup)" if is_local(relay) else ""))
        typer.echo(f"from {_origin(settings)}", err=True)


def _cancelled(settings: Settings, relay: str) -> int:
    """Cancel the events that wait in the agent's ledger for a removed relay; returns how many."""
    from sense_memory.config.settings import ledger_path
    from sense_memory.store import MemoryStore

    async def drop(signer: LocalSigner, path: Path) -> int:
        async with MemoryStore(signer, ledger=path, background=False) as store:
            return store.drop_relay(relay)

    try:
        signer = signer_of(settings)
        path = settings.ledger or ledger_path(settings.home, signer.public_key)
        return asyncio.run(drop(signer, path)) if path.exists() else 0
    except SenseMemoryError as error:
        if not isinstance(error, KeyMissing) or error.locked is not None:
            say("warning", f"events for this relay stay queued in the ledger: {error}")
        return 0


def _change(
    invocation: Invocation,
    relay: str,
    change: Callable[[list[str]], list[str]],
    done: Callable[[], str],
    *,
    after: Callable[[Settings], int] | None = None,
) -> None:
    """Change the relays in config.toml; `after` cancels waiting events, once the file is written."""
    from sense_memory.config.config_file import NAME, read_config
    from sense_memory.config.settings import save_relays

    settings = invocation.settings()
    saved = read_config(settings.home).get("relays", [])
    if not isinstance(saved, list) or not all(isinstance(url, str) for url in saved):
        raise InvalidInput(f"`relays` in {settings.home / NAME} is no list of URLs; nothing was changed")
    urls = save_relays(settings.home, change(saved))
    now = invocation.settings()
    cancelled = after(now) if after is not None and relay not in now.relays else None
    if invocation.as_json:
        known = [relay_data(url) for url in urls]
        result = {"relays": known, "config": str(settings.home / NAME), "cancelled": cancelled}
        typer.echo(as_json(result))
    else:
        waited = f" · {quantity(cancelled, 'event')} waited for it, cancelled" if cancelled else ""
        typer.echo(f"{done()} {relay} · {len(urls)} in {settings.home / NAME}{waited}")
    if settings.origins["relays"] not in {NAME, "default"}:
        say("warning", f"this change has no effect yet: relays from {_origin(settings)} come first")


def _origin(settings: Settings) -> str:
    where = {
        "argument": "--relay",
        "environment": "SENSE_MEMORY_RELAYS in the environment",
        ".env": f"SENSE_MEMORY_RELAYS in {settings.env_file}",
        "config.toml": str(settings.home / "config.toml"),
    }
    return where.get(settings.origins["relays"], "nowhere")


@app.command(
    rich_help_panel=RELAYS,
    epilog=ends(
        "sense-memory relay",
        "sense-memory relay --port 7448 --data second.db",
        codes={0: "it was ended", 1: "it could not start, for example because the port is taken"},
    ),
)
def relay(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="TCP port on 127.0.0.1; 0 takes a free one."),
    ] = 7447,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the data in this file. Default: relay.db in the home folder."
        ),
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Run a small relay on this machine, until Ctrl-C.

    The relay listens on 127.0.0.1 only, and keeps its data. Use it to try things out, and for several agents of one
    machine; a copy on the same machine is not a backup.
    """
    invocation = of(context)
    path = data or invocation.settings().home / "relay.db"
    try:
        asyncio.run(_serve(invocation, path, port))
    except RelayError as error:
        raise CommandFailed(ExitCode.ERROR, "RelayError", f"{error}. {_RUNNING.format(port=port)}") from None


async def _serve(invocation: Invocation, path: Path, port: int) -> None:
    from sense_memory.relay.server.server import EmbeddedRelay

    async with EmbeddedRelay(path, port) as running:
        serving = asyncio.create_task(running.serve_forever())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, serving.cancel)
        if invocation.as_json:
            typer.echo(as_json({"relay": relay_data(running.url), "file": str(path)}))
        else:
            typer.echo(f"relay on {running.url}, data in {path}")
            typer.echo(f"Use it: sense-memory relays add {running.url}    End it: Ctrl-C")
        with suppress(asyncio.CancelledError):
            await serving
    if not invocation.as_json:
        typer.echo("relay ended; its data is kept")
