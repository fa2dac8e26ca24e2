"""`mcp` serves the memory to an agent's harness; see `sense_memory.interfaces.mcp`."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import of, say, store_of
from sense_memory.interfaces.cli.program import AGENTS, app


class ProfileChoice(StrEnum):
    """The profiles of the tools: those of `interfaces.tools.Profile`, without its import."""

    PALACE = "palace"
    MIND = "mind"
    ALL = "all"


ListenOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default=False,
        help="Serve over HTTP instead of stdin and stdout, at 127.0.0.1, ::1 or localhost. Clients send a token: SENSE_MEMORY_MCP_TOKEN, or the content of the file `mcp-token` in the data folder, which is made once.",
    ),
]
PublicUrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        show_default=False,
        help="With --listen: the https URL at which a reverse proxy takes requests for this server, such as https://memory.example.org. Programs elsewhere, such as claude.ai, then ask for access there, and the command `access` shows and ends what you allowed.",
    ),
]
PlainExportOption = Annotated[
    bool,
    flag(
        "--allow-plain-export",
        text="Also offer export_plain, with which one call writes all memories as plain text into the folder `exports`.",
    ),
]


@app.command(
    rich_help_panel=AGENTS,
    epilog=ends(
        "# In the configuration of an MCP client:",
        "sense-memory mcp",
        "sense-memory --agent bob mcp --read-only",
        "# For clients that connect over HTTP, on this machine only:",
        "sense-memory mcp --listen 127.0.0.1:8765",
        "# For claude.ai and phones, behind a reverse proxy:",
        "sense-memory mcp --listen 127.0.0.1:8765 --public-url https://me.example.org",
        codes={1: "an error, such as: the extra `mcp` is not installed, or the port is in use"},
    ),
)
def mcp(
    context: typer.Context,
    *,
    listen: ListenOption = None,
    public_url: PublicUrlOption = None,
    profile: Annotated[
        ProfileChoice,
        typer.Option(
            metavar="PROFILE",
            help="Offer these tools: palace, mind (blocks, archive and conversations), or all.",
        ),
    ] = ProfileChoice.PALACE,
    read_only: Annotated[bool, flag("--read-only", text="Offer only tools that read.")] = False,
    allow_destructive: Annotated[
        bool,
        flag(
            "--allow-destructive",
            text="Also offer forget, prune and export. Exports go into the folder `exports` in the data folder.",
        ),
    ] = False,
    allow_plain_export: PlainExportOption = False,
    create_key: Annotated[
        bool,
        flag("--create-key", text="Make the agent's key when a tool is first used, if the agent has none."),
    ] = False,
    debug: Annotated[bool, flag("--debug", text="Log more to stderr, but never a memory.")] = False,
    _json: JsonOption = False,
) -> None:
    """Serve the memory to an agent over MCP, the Model Context Protocol.

    The agent's harness starts this command and talks to it through stdin and stdout. Nothing is forgotten, pruned or
    exported unless --allow-destructive or --allow-plain-export is given. The server ends when its client leaves.
    """
    if read_only and (allow_destructive or allow_plain_export):
        name = "--allow-destructive" if allow_destructive else "--allow-plain-export"
        context.fail(f"give either --read-only or {name}, not both")
    if public_url is not None and listen is None:
        context.fail("--public-url needs --listen: the reverse proxy passes requests on to that address")
    from sense_memory.interfaces.mcp.program import (
        CLOSE_SECONDS,
        READ_SECONDS,
        ServerOptions,
        serve,
    )
    from sense_memory.interfaces.tools import Profile

    settings = of(context).settings()
    options = ServerOptions(
        listen,
        public_url,
        Profile(profile),
        read_only=read_only,
        allow_destructive=allow_destructive,
        allow_plain_export=allow_plain_export,
        create_key=create_key,
        debug=debug,
    )
    make = partial(store_of, settings, read_timeout=READ_SECONDS, close_timeout=CLOSE_SECONDS)
    asyncio.run(serve(settings, options, make, partial(say, "mcp")))
