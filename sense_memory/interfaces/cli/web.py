"""`web`: shows the palace in the browser, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sense_memory.errors import MissingExtra
from sense_memory.interfaces.cli.help_pages import ends
from sense_memory.interfaces.cli.inputs import JsonOption, flag
from sense_memory.interfaces.cli.invocation import CommandFailed, ExitCode, Invocation, of
from sense_memory.interfaces.cli.program import PALACE, app
from sense_memory.interfaces.text import as_json
from sense_memory.operating_system import on_end


if TYPE_CHECKING:
    from sense_memory.store import MemoryStore


@app.command(
    rich_help_panel=PALACE,
    epilog=ends(
        "sense-memory web",
        "# Let the page change memories too: write, edit, move, forget, undo, decide:",
        "sense-memory web --edit",
        "# On a machine without a screen, print the address only:",
        "sense-memory web --no-open --port 8765",
        codes={
            0: "the server was ended",
            1: "the server could not start, for example because the port is taken",
        },
    ),
)
def web(
    context: typer.Context,
    *,
    edit: Annotated[
        bool, flag("--edit", text="Let the page change memories. Without this option, the page is read-only.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="TCP port on 127.0.0.1; 0 chooses a free port."),
    ] = 0,
    no_open: Annotated[bool, flag("--no-open", text="Print the address, but open no browser.")] = False,
    _json: JsonOption = False,
) -> None:
    """Show the palace in the browser until Ctrl-C.

    The page is served on 127.0.0.1 only, to the first browser that opens the printed address; the address works once.
    The page loads nothing from other servers. The command needs the extra `web`.
    """
    invocation = of(context)
    try:
        import starlette
        import uvicorn  # noqa: F401 - fails before a store is opened
    except ImportError:
        raise MissingExtra("web") from None
    del starlette

    async def work(store: MemoryStore) -> None:
        await _serve(invocation, store, port, may_edit=edit, opens=not no_open and _has_display())

    invocation.run(work, background=edit)  # what is edited is sent at once


async def _serve(
    invocation: Invocation, store: MemoryStore, port: int, *, may_edit: bool, opens: bool
) -> None:
    from sense_memory.interfaces.loopback import listening_socket
    from sense_memory.interfaces.web.api import Api
    from sense_memory.interfaces.web.server import LOOPBACK, ServerSecrets, WebServer, application

    try:
        listener = listening_socket(LOOPBACK, port)
    except OSError as error:
        problem = f"port {port} cannot be used ({error.strerror}); choose another --port, or leave --port out"
        raise CommandFailed(ExitCode.ERROR, "OSError", problem) from None
    with listener:
        access = ServerSecrets(listener.getsockname()[1], may_edit)
        api = Api(store, access, agent=invocation.settings().agent)
        server = WebServer(application(access, api.routes()))

        def end() -> None:
            api.live.close()  # otherwise the server would wait for the streams of open pages
            server.stop()

        on_end(asyncio.get_running_loop(), end)
        if invocation.as_json:
            typer.echo(as_json({"url": access.url, "edit": may_edit}))
        else:
            typer.echo(f"the palace is at {access.url}")
            typer.echo(
                f"{'The page can change memories.' if may_edit else 'Read-only; to change memories, add --edit.'} To end: Ctrl-C"
            )
        warming = asyncio.create_task(api.warm())
        if opens:
            _open(access.url)
        await server.serve([listener])
        warming.cancel()
        await asyncio.wait([warming])


def _open(url: str) -> None:
    """Open the page in the user's browser: in a thread that nobody waits for, because some browsers run in it."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()


def _has_display() -> bool:
    """Whether a browser could show a page; a browser in the terminal would take the terminal over."""
    if sys.platform in {"darwin", "win32"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
