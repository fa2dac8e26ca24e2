"""The TypeScript client and its example, an agent of the Vercel AI SDK, in node against a real server."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.http_api.conftest import TOKEN, serving
from tests.interfaces.mcp.conftest import in_thread
from tests.time_unit import SECOND


CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
NODE = shutil.which("node")
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
    with in_thread(serving) as (_, (url, _)):
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
