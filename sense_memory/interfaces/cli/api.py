"""`api`: serves the memory as JSON over HTTP to programs of this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import MissingExtra
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import Invocation, of
from sense_memory.interfaces.cli.program import AGENTS, app
from sense_memory.interfaces.text import as_json
from sense_memory.operating_system import on_end


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore


@app.command(
    rich_help_panel=AGENTS,
    epilog=ends(
        "sense-memory api",
        "sense-memory api --listen 127.0.0.1:8766 --read-only",
        codes={
            0: "the server was ended",
            1: "the server could not start, for example because the port is taken",
        },
    ),
)
def api(
    context: typer.Context,
    *,
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve at 127.0.0.1, ::1 or localhost; port 0 chooses a free one. Programs send a token: SENSE_MEMORY_API_TOKEN, or the content of the file `api-token` in the data folder, which is made once.",
        ),
    ] = "127.0.0.1:8766",
    read_only: Annotated[bool, flag("--read-only", text="Answer only requests that read.")] = False,
    allow_destructive: Annotated[
        bool, flag("--allow-destructive", text="Also forget memories where a request asks for it.")
    ] = False,
    _json: JsonOption = False,
) -> None:
    """Serve the memory as JSON over HTTP to programs of this machine, until Ctrl-C.

    The requests and answers are described at /v1/openapi.json, for which many languages generate clients. The command needs the
    extra `web`.
    """
    if read_only and allow_destructive:
        context.fail("give either --read-only or --allow-destructive, not both")
    try:
        import starlette
        import uvicorn  # noqa: F401 - fails before a store is opened
    except ImportError:
        raise MissingExtra("web") from None
    del starlette
    invocation = of(context)

    async def work(store: MemoryStore) -> None:
        await _serve(invocation, store, listen, read_only=read_only, allow_destructive=allow_destructive)

    invocation.run(work, background=not read_only)  # what is written is sent at once


async def _serve(
    invocation: Invocation, store: MemoryStore, listen: str, *, read_only: bool, allow_destructive: bool
) -> None:
    from sense_memory.interfaces.bearer_token import server_token
    from sense_memory.interfaces.http_api.server import TOKEN_FILE, TOKEN_VARIABLE, application
    from sense_memory.interfaces.loopback import listener_at
    from sense_memory.interfaces.web.server import WebServer

    token, place = server_token(invocation.settings().home / TOKEN_FILE, os.environ, TOKEN_VARIABLE)
    with listener_at(listen) as listener:
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        server = WebServer(
            application(store, token, port, read_only=read_only, allow_destructive=allow_destructive)
        )
        on_end(asyncio.get_running_loop(), server.stop)
        if invocation.as_json:
            typer.echo(as_json({"url": url, "token_from": place, "read_only": read_only}))
        else:
            typer.echo(f"serving at {url}; programs send the token in {place}: Authorization: Bearer TOKEN")
            typer.echo(f"Its description: {url}/v1/openapi.json    To end: Ctrl-C")
        await server.serve([listener])
