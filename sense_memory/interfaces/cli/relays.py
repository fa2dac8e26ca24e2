"""`relays add`, `remove`, `list` and `presets`; and `relay`, which runs a local relay in the foreground."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sense_memory.errors import InvalidInput, KeyMissing, RelayError, SenseMemoryError
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import (
    CommandFailed,
    ExitCode,
    Invocation,
    no_relays,
    of,
    program,
    say,
    signer_of,
)
from sense_memory.interfaces.cli.operations import operation
from sense_memory.interfaces.cli.output import relay_data, show_rows
from sense_memory.interfaces.cli.program import RELAYS, app
from sense_memory.interfaces.shapes import shape_of, thing
from sense_memory.interfaces.text import as_json, quantity, quoted
from sense_memory.operating_system import on_end


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.config.relays import Preset
    from sense_memory.config.settings import Settings
    from sense_memory.nostr.signer import Signer
    from sense_memory.store import MemoryStore


@thing("published relays")
@dataclass(frozen=True, slots=True)
class PublishedRelays:
    """The public list of relays.

    Attributes:
        answers: by relay why it did not take the list, or empty.
    """

    answers: dict[str, str]


commands = app.group(
    "relays",
    default="list",
    rich_help_panel=RELAYS,
    help="Choose the relays that carry copies.\n\nAny Nostr relay that accepts events of kinds 30078, 4 and 5 will do; three relays are a good number. Only relays that you named are contacted. An agent uses its own relays and those of all agents; --relay and SENSE_MEMORY_RELAYS replace both.",
    epilog=ends("sense-memory relays list", "sense-memory relays add wss://relay.example"),
)

_RUNNING: Final = (
    "If a relay is running there already, `{program} relays add ws://127.0.0.1:{port}` uses that relay; "
    "`lsof -i :{port}` shows its process. A second relay needs its own --port and its own --data file."
)

_URL: Final = typer.Argument(
    metavar="URL", show_default=False, help="wss://…, or ws:// for a relay on this machine."
)
AllAgentsOption = Annotated[bool, flag("--all-agents", text="For all agents, not only this one.")]


@commands.command(
    epilog=ends(
        "sense-memory relays add wss://relay.example",
        "# Three well-known public relays; `relays presets` shows which:",
        "sense-memory relays add --preset starter",
        "# A relay on this machine (see `sense-memory relay`), for all agents:",
        "sense-memory relays add ws://127.0.0.1:7447 --all-agents",
        "# The relays that other machines of this agent use; it asks about each:",
        "sense-memory relays add --found",
    )
)
def add(
    context: typer.Context,
    url: Annotated[str | None, _URL] = None,
    *,
    preset: Annotated[
        str | None,
        typer.Option(metavar="PRESET", help="Add the relays of this preset.", show_default=False),
    ] = None,
    found: Annotated[
        bool,
        flag(
            "--found",
            text="Add relays that other machines of this agent use, as the last sync found them; each is asked about.",
        ),
    ] = False,
    yes: Annotated[bool, flag("--yes", text="With --found: add all of them without asking.")] = False,
    all_agents: AllAgentsOption = False,
    _json: JsonOption = False,
) -> None:
    """Add a relay, or the relays of a preset, for this agent.

    The agent uses the relay from its next sync or write on, together with the relays of all agents. `doctor` shows the
    limits of a relay.
    """
    from sense_memory.config.relays import save_relays
    from sense_memory.nostr.relay_url import is_local, is_same_relay, relay_url

    invocation = of(context)
    if [url is None, preset is None, not found].count(False) != 1:
        context.fail("give either a URL or --preset, or --found")
    if found:
        wanted = _found(invocation, asks=not yes)
        if not wanted:
            return
    else:
        wanted = [relay_url(url)] if url is not None else list(_preset(preset or "").relays)
    settings = invocation.settings()
    name, saved = _saved(settings, all_agents=all_agents)
    there = saved if all_agents else [*saved, *_configured(settings)]
    new = [relay for relay in wanted if relay not in there]
    urls = save_relays(settings.home, [*saved, *new], name) if new else saved
    known = {*saved, *settings.relays}
    twins = [(relay, twin) for relay in new for twin in known - {relay} if is_same_relay(relay, twin)]
    where = settings.home / name
    lines = [f"added {relay} · {quantity(len(urls), 'relay')} in {where}" for relay in new]
    lines += [
        f"already configured: {relay} · {_origin(settings, settings.relay_origins.get(relay, name))}"
        for relay in wanted
        if relay in there
    ]
    _report(invocation, urls, where, lines)
    for relay, twin in twins:
        say(
            "warning",
            f"{twin} is most likely the same relay under another name. "
            f"To remove one of them: {program()} relays remove {quoted(relay)}",
        )
    if preset is not None and not all(map(is_local, wanted)) and not invocation.as_json:
        typer.echo(
            "These relays are public: from the next sync on, anybody can see the names of the memories there, and who writes when. Texts are encrypted."
        )
    if any(map(is_local, wanted)) and not invocation.as_json:
        typer.echo("A relay on this machine is not a backup.")


@commands.command(
    epilog=ends(
        "sense-memory relays remove wss://relay.example",
        "# A relay of all agents:",
        "sense-memory relays remove ws://127.0.0.1:7447 --all-agents",
        codes={4: "the URL is not among the relays of this agent, or of all agents"},
    )
)
def remove(
    context: typer.Context,
    url: Annotated[str, _URL],
    *,
    all_agents: AllAgentsOption = False,
    _json: JsonOption = False,
) -> None:
    """Remove a relay from this agent, and cancel the events queued for the relay.

    The relay keeps its copies. If you add the relay again, it is asked for everything and gets what it lacks.
    """
    from sense_memory.config.relays import save_relays
    from sense_memory.nostr.relay_url import relay_url

    relay = relay_url(url)
    invocation = of(context)
    settings = invocation.settings()
    name, saved = _saved(settings, all_agents=all_agents)
    if relay not in saved:
        raise _not_removed(relay, settings, all_agents=all_agents)
    urls = save_relays(settings.home, [known for known in saved if known != relay], name)
    now = invocation.settings()
    cancelled = None if relay in now.relays else _cancelled(now, relay)
    waited = f" · {quantity(cancelled, 'queued event')} cancelled" if cancelled else ""
    where = settings.home / name
    _report(
        invocation,
        urls,
        where,
        [f"removed {relay} · {quantity(len(urls), 'relay')} in {where}{waited}"],
        cancelled,
    )
    if relay in _configured(now):
        say("warning", f"{relay} stays in use: {_origin(now, now.relay_origins[relay])}")


@commands.command("list", epilog=ends("sense-memory relays list", "sense-memory relays list --json"))
def list_relays(context: typer.Context, _json: JsonOption = False) -> None:
    """List the relays that this agent uses, and where each is configured.

    A pipe gets one line for each relay, with tabs between the URL, where the relay is configured, and whether it is on
    this machine.
    """
    from sense_memory.nostr.relay_url import is_local

    invocation = of(context)
    settings = invocation.settings()
    origins = settings.relay_origins
    if invocation.as_json:
        relays = list(map(relay_data, settings.relays))
        result = {"relays": relays, "origin": settings.origins["relays"], "origins": dict(origins)}
        typer.echo(as_json(result))
        return
    rows = [
        (
            relay,
            _origin(settings, origins[relay]),
            *(["this machine: not a backup"] if is_local(relay) else []),
        )
        for relay in settings.relays
    ]
    none = f"No relays are configured. Add one: {program()} relays add wss://relay.example"
    show_rows(("relay", "configured for", ""), rows, none=none)


@commands.command("presets", epilog=ends("sense-memory relays presets"))
def list_presets(context: typer.Context, _json: JsonOption = False) -> None:
    """List the presets for `relays add --preset`: groups of relays to start with.

    Public relays belong to third parties, and nobody has audited them. No relay is contacted before you add it.
    """
    from sense_memory.config.relays import presets

    found = presets()
    if of(context).as_json:
        typer.echo(as_json(shape_of(found)))
        return
    rows = [(preset.name, preset.about, " ".join(preset.relays)) for preset in found]
    show_rows(("preset", "what it is", "relays"), rows)


def _found(invocation: Invocation, *, asks: bool) -> list[str]:
    """The relays of other machines that the user agrees to; none of them was dialled."""
    listed = invocation.run(lambda store: store.relays.found())
    if not listed:
        typer.echo(
            "no other relays: the list in this agent's memory has none that are not used here", err=True
        )
        return []
    if asks and not sys.stdin.isatty():
        raise InvalidInput(
            f"this would add {', '.join(listed)}; nothing was changed. Add --yes to use all of them, or add each by its URL"
        )
    return [url for url in listed if not asks or typer.confirm(f"use {url}?", default=False, err=True)]


@operation(
    commands,
    "publish",
    "sense-memory relays publish",
    codes={3: "at least one relay did not take the list"},
    shows=lambda found, _: show_rows(
        ("relay", "answer"), [(url, why or "accepted") for url, why in found.answers.items()]
    ),
    ends_with=lambda found: ExitCode.NOT_REPLICATED if any(found.answers.values()) else 0,
)
async def publish(store: MemoryStore) -> PublishedRelays:
    """Publish the list of relays of this agent where everybody can read it (NIP-65, kind 10002).

    Nothing else publishes it: other machines of the agent find its relays in the encrypted list that `sync` keeps. Relays on
    this machine are not in it. It replaces the list that the same key has published before.
    """
    if not store.relays:
        raise no_relays()
    return PublishedRelays(await store.relays.publish())


def _preset(name: str) -> Preset:
    from sense_memory.config.relays import presets

    known = {preset.name: preset for preset in presets()}
    if name not in known:
        raise InvalidInput(f"--preset must be one of {', '.join(known)}, not {name!r}")
    return known[name]


def _saved(settings: Settings, *, all_agents: bool) -> tuple[str, list[str]]:
    """The config file to change, and its relays."""
    from sense_memory.config.config_file import NAME, agent_config, read_config
    from sense_memory.config.relays import listed_relays

    name = NAME if all_agents else agent_config(settings.agent)
    return name, listed_relays(read_config(settings.home, name), name)


def _configured(settings: Settings) -> set[str]:
    """The relays that the agent uses by its config files."""
    return {relay for relay, origin in settings.relay_origins.items() if origin.endswith(".toml")}


def _not_removed(relay: str, settings: Settings, *, all_agents: bool) -> CommandFailed:
    if not all_agents and relay in _configured(settings):
        problem = f"it is a relay of all agents; run `{program()} relays remove {quoted(relay)} --all-agents`"
    else:
        whose = "all agents" if all_agents else f"agent {settings.agent!r}"
        problem = f"{relay} is not among the relays of {whose}"
    return CommandFailed(ExitCode.NOT_FOUND, "NotFound", f"{problem}")


def _report(
    invocation: Invocation,
    urls: Sequence[str],
    config: Path,
    lines: Sequence[str],
    cancelled: int | None = None,
) -> None:
    """Print the outcome of a change, and warn if other relays come first."""
    from sense_memory.config.config_file import NAME

    if invocation.as_json:
        relays = list(map(relay_data, urls))
        typer.echo(as_json({"relays": relays, "config": str(config), "cancelled": cancelled}))
    else:
        typer.echo("\n".join(lines))
    now = invocation.settings()
    origin = now.origins["relays"]
    if origin not in {NAME, "default"}:
        say(
            "warning", f"this change has no effect yet, because relays from {_origin(now, origin)} replace it"
        )


def _cancelled(settings: Settings, relay: str) -> int:
    """Cancel the events that wait in the agent's ledger for a removed relay; returns how many."""
    from sense_memory.config.settings import ledger_path
    from sense_memory.store import MemoryStore

    async def drop(signer: Signer, path: Path) -> int:
        async with MemoryStore(signer, ledger=path, background=False) as store:
            await store.relays.unlist(relay)
            return store.relays.drop(relay)

    try:
        signer = signer_of(settings)
        path = settings.ledger or ledger_path(settings.home, signer.public_key)
        return asyncio.run(drop(signer, path)) if path.exists() else 0
    except SenseMemoryError as error:
        if not isinstance(error, KeyMissing) or error.locked is not None:
            say("warning", f"events for this relay stay queued in the ledger: {error}")
        return 0


def _origin(settings: Settings, origin: str) -> str:
    """In words, where a relay is configured."""
    where = {
        "argument": "--relay",
        "environment": "SENSE_MEMORY_RELAYS in the environment",
        ".env": f"SENSE_MEMORY_RELAYS in {settings.env_file}",
        "config.toml": f"all agents, {settings.home / origin}",
    }
    return where.get(origin, f"agent {settings.agent!r}, {settings.home / origin}")


@app.command(
    rich_help_panel=RELAYS,
    epilog=ends(
        "sense-memory relay",
        "sense-memory relay --port 7448 --data second.db",
        codes={
            0: "the relay was ended",
            1: "the relay could not start, for example because the port is taken",
        },
    ),
)
def relay(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="TCP port on 127.0.0.1; 0 chooses a free port."),
    ] = 7447,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep the data in this file. Default: relay.db in the data folder."
        ),
    ] = None,
    _json: JsonOption = False,
) -> None:
    """Run a small relay on this machine until Ctrl-C.

    The relay listens on 127.0.0.1 only, and keeps its data in a file. Use it to try things out, or to connect several
    agents on one machine. A copy on the same machine is not a backup.
    """
    invocation = of(context)
    path = data or invocation.settings().home / "relay.db"
    try:
        asyncio.run(_serve(invocation, path, port))
    except RelayError as error:
        raise CommandFailed(
            ExitCode.ERROR, "RelayError", f"{error}. {_RUNNING.format(program=program(), port=port)}"
        ) from None


async def _serve(invocation: Invocation, path: Path, port: int) -> None:
    from sense_memory.relay.server.server import EmbeddedRelay

    async with EmbeddedRelay(path, port) as running:
        serving = asyncio.create_task(running.serve_forever())
        on_end(asyncio.get_running_loop(), serving.cancel)
        if invocation.as_json:
            typer.echo(as_json({"relay": relay_data(running.url), "file": str(path)}))
        else:
            typer.echo(f"relay on {running.url}, data in {path}")
            typer.echo(f"To use this relay: {program()} relays add {running.url}    To end it: Ctrl-C")
        with suppress(asyncio.CancelledError):
            await serving
    if not invocation.as_json:
        typer.echo("relay ended; its data is kept")
