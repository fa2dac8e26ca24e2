"""Two relays that other people wrote, as processes: `make test-relays` installs them, and asks for their tests.

* `nostr_relay_py`: nostr-relay of PyPI, Python over SQLite. Its `until` leaves its second out.
* `nostr_relay_js`: @nostr-relay/core of npm, node over SQLite. It honours a deletion and does not keep it.

`SENSE_MEMORY_TEST_RELAYS` names the folder in which they are installed; without it, no test asks for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import socket
import sys
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.time_unit import SECOND


FILES = Path(__file__).with_name("relays")
INSTALLED = Path(os.environ.get("SENSE_MEMORY_TEST_RELAYS", ""))
ASKED_FOR = "SENSE_MEMORY_TEST_RELAYS" in os.environ
START_SECONDS = 60 * SECOND


@asynccontextmanager
async def nostr_relay_py(*, page=500):
    """The URL of a fresh one, with so many events to a page."""
    program = INSTALLED / "python" / "bin" / "nostr-relay"
    if not program.exists():
        pytest.skip("nostr-relay of PyPI is not installed: make test-relays")
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        filled = {"database": f"{folder}/relay.db", "port": port, "page": page}
        config = Path(folder) / "relay.yaml"
        config.write_text((FILES / "python" / "relay.yaml").read_text().format(**filled))
        async with running(program, "-c", config, "serve", "--use-uvicorn", folder=folder) as process:
            await listening(port, process)
            yield f"ws://127.0.0.1:{port}"


@asynccontextmanager
async def nostr_relay_js(**options):
    """The URL of a fresh one; the options are those of relay.mjs."""
    node, script = shutil.which("node"), INSTALLED / "node" / "relay.mjs"
    if node is None or not script.exists():
        pytest.skip("@nostr-relay/core of npm is not installed: it needs node and npm, then make test-relays")
    async with running(node, script, json.dumps(options), folder=script.parent) as process:
        async with asyncio.timeout(START_SECONDS):
            port = int(await process.stdout.readline())
        yield f"ws://127.0.0.1:{port}"


@asynccontextmanager
async def running(*command, folder):
    """A process that is killed at the end: what it kept goes with its folder."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if "-s" in sys.argv else asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def free_port() -> int:
    """A port that nobody is given by the system while the relay starts: it takes seconds to listen."""
    while True:
        port = random.randrange(20_000, 32_000)  # below what systems choose from
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


async def listening(port, process) -> None:
    """Wait until something listens on the port."""
    async with asyncio.timeout(START_SECONDS):
        ended = asyncio.create_task(process.wait())
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            done, _ = await asyncio.wait({ended}, timeout=0.02)
            assert not done, "the relay ended instead of listening"


RELAYS = (nostr_relay_py, nostr_relay_js)
