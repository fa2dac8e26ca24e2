"""The real program in a process of its own, and the SDK's own client, which lives in a thread as long as a module does."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.late import Late
from tests.time_unit import SECOND


sdk = Late("mcp")

ROOT = Path(__file__).parents[3]
PROGRAM = Path(sys.executable).with_name("sense-memory")
LINE_1 = ROOT / ".venv" / "mcp1"  # the 1.x line of the SDK, which the Makefile installs
NOISE = """
import os, subprocess, threading

moved, dup2 = threading.Event(), os.dup2

def watched(here, there, *options):
    dup2(here, there, *options)
    if (here, there) == (2, 1):  # stdout is the protocol's no more
        moved.set()

def shout():
    moved.wait()
    print("a library prints", flush=True)
    os.write(1, b"and writes\\n")
    subprocess.run(["echo", "and its child too"], check=False)
    raise RuntimeError("and fails")

os.dup2 = watched
threading.Thread(target=shout, daemon=True).start()
"""

needs_line_1 = pytest.mark.skipif(not LINE_1.exists(), reason="`make test` installs the 1.x line of the SDK")


def environment(home, *, line=2, **variables):
    """What the program sees: a home of its own, and one of the two lines of the SDK."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    paths = [str(LINE_1)] if line == 1 else []
    return {
        **kept,
        "HOME": str(home),
        "SENSE_MEMORY_HOME": str(home),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
        "OPENBLAS_NUM_THREADS": "1",
        **variables,
        "PYTHONPATH": os.pathsep.join([*paths, variables.get("PYTHONPATH", "")]).strip(os.pathsep),
    }


class Client:
    """Calls of a session, from any thread."""

    def __init__(self, loop, session) -> None:
        self.loop, self.session = loop, session

    def wait(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30 * SECOND)

    def __getattr__(self, name):
        return lambda *given, **named: self.wait(getattr(self.session, name)(*given, **named))

    def call(self, tool, /, **arguments):
        """What a tool answers, or the text of its error."""
        return answer_of(self.call_tool(tool, arguments))


def answer_of(result):
    if result.is_error:
        return json.loads(result.content[0].text)["error"]
    return result.structured_content


@contextmanager
def in_thread(entered):
    """What an async context manager gives, in the event loop of a thread; the loop, too."""
    ready, made = threading.Event(), {}

    async def live():
        made["loop"], made["stop"] = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with entered() as made["value"]:
                ready.set()
                await made["stop"].wait()
        except BaseException as error:
            made["error"] = error
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=asyncio.run, args=(live(),))
    thread.start()
    assert ready.wait(30 * SECOND)
    assert "value" in made, made.get("error")
    try:
        yield made["loop"], made["value"]
    finally:
        made["loop"].call_soon_threadsafe(made["stop"].set)
        thread.join(30 * SECOND)
        assert not thread.is_alive()


@contextmanager
def client_of(transport):
    """A client on a transport: an async context manager that gives two streams, and maybe more."""

    @asynccontextmanager
    async def session():
        async with transport() as streams, sdk.ClientSession(*streams[:2]) as opened:
            yield opened, await opened.initialize()

    with in_thread(session) as (loop, (opened, first)):
        client = Client(loop, opened)
        client.first = first
        yield client


@contextmanager
def stdio(home, *options, line=2, raw=None, **variables):
    """A client of `sense-memory mcp` on stdio; `raw` gets a copy of its stdout, and a file beside it its stderr."""
    command = shlex.join([str(PROGRAM), "mcp", *options])
    if raw is not None:
        command = f"{command} | tee {shlex.quote(str(raw))}"
    started = sdk.StdioServerParameters(
        command="/bin/sh", args=["-c", command], env=environment(home, line=line, **variables)
    )
    errors = (Path(os.devnull) if raw is None else raw.with_name("stderr")).open("w")

    @asynccontextmanager
    async def transport():
        async with Late("mcp.client.stdio").stdio_client(started, errlog=errors) as streams:
            yield streams

    with errors, client_of(transport) as client:
        yield client


@contextmanager
def http_client(url, token):
    """A client of a server over HTTP."""

    @asynccontextmanager
    async def transport():
        bearer = Late("mcp.shared._httpx_utils").create_mcp_http_client(
            headers={"Authorization": f"Bearer {token}"}
        )
        async with (
            bearer,
            Late("mcp.client.streamable_http").streamable_http_client(url, http_client=bearer) as streams,
        ):
            yield streams

    with client_of(transport) as client:
        yield client


class Served(NamedTuple):
    url: str
    token: str
    process: subprocess.Popen
    said: str
    home: Path


@contextmanager
def http_server(home, *options, line=2, listen="127.0.0.1:0", **variables):
    """`sense-memory mcp --listen` in a process: its URL, its token, and the process."""
    with subprocess.Popen(
        [PROGRAM, "mcp", "--listen", listen, *options],
        env=environment(home, line=line, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = process.stderr.readline()
            url = next(word for word in said.replace(";", " ").split() if word.startswith("http://"))
            yield Served(url, (home / "mcp-token").read_text().strip(), process, said, home)
        finally:
            process.terminate()
            process.wait(10 * SECOND)


def asgi_client(app, base):
    """A client of an ASGI application in this process, which follows no redirects."""
    http = Late("httpx2")
    return http.AsyncClient(transport=http.ASGITransport(app), base_url=base)
