"""The TypeScript client and its example, an agent of the Vercel AI SDK, in node against a real server."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.interfaces.http_api.server import application
from sense_memory.interfaces.loopback import listener_at
from sense_memory.interfaces.web.server import WebServer
from tests.interfaces.mcp.conftest import in_thread
from tests.time_unit import SECOND


CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
NODE = shutil.which("node")
TOKEN = "t" * 43
TRIES = """
import { connect, MemoryError } from "sense-memory-client";
const memory = connect({ url: process.env.SENSE_MEMORY_API_URL, token: process.env.SENSE_MEMORY_API_TOKEN });
const { data } = await memory.GET("/v1/memory", { params: { query: { path: "people/facts/lisa" } } });
console.log(data.value);
try {
  await memory.GET("/v1/memory", { params: { query: { path: "people/facts/nobody" } } });
} catch (error) {
  console.log(error instanceof MemoryError, error.status, error.type, error.message);
}
"""

pytestmark = pytest.mark.skipif(
    NODE is None or not (CLIENT / "node_modules").exists(),
    reason="`make client` installs what the TypeScript client needs; it takes node and npm",
)


@asynccontextmanager
async def serving():
    """The API of a new store on a socket of its own: its URL and the store."""
    signer = LocalSigner.from_hex("01" * 32)
    async with MemoryStore(signer, [], ledger=":memory:", background=False) as store:
        with listener_at("127.0.0.1:0") as listener:
            port = listener.getsockname()[1]
            server = WebServer(application(store, TOKEN, port))
            running = asyncio.create_task(server.serve([listener]))
            yield f"http://127.0.0.1:{port}"
            server.stop()
            await running


def node(url, *arguments):
    environment = {"SENSE_MEMORY_API_URL": url, "SENSE_MEMORY_API_TOKEN": TOKEN}
    done = subprocess.run(
        [NODE, *arguments],
        cwd=CLIENT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50 * SECOND,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_an_agent_of_the_vercel_ai_sdk_remembers_in_one_run_and_recalls_in_the_next():
    with in_thread(serving) as (_, url):
        said = node(url, "examples/agent.js")
        tried = node(url, "--input-type=module", "--eval", TRIES)

    assert said == [
        "I will remember it (people/facts/lisa).",
        "I am Lisa, and I teach watercolour on Fridays.",
    ]
    assert tried == [
        "I am Lisa, and I teach watercolour on Fridays.",
        "true 404 NotFound there is no memory at 'people/facts/nobody'",
    ]
