"""The real program in a process of its own, with a palace that holds hostile and harmless texts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from select import select

import pytest

from sense_memory import LocalSigner, MemoryStore
from tests.interfaces.web.chromium import CHROMIUM, FLAGS
from tests.time_unit import SECOND


NSEC = "nsec1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqstywftw"


@dataclass(slots=True)
class Page:
    """A running `sense-memory web`.

    Attributes:
        url: as printed, with the token.
        port: of the server.
        process: the program.
    """

    url: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def token(self) -> str:
        return self.url.partition("#token=")[2]


@contextmanager
def running(home, *options):
    """The program on the ledger of a folder, until the end of the block; it has to end cleanly and say nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SENSE_MEMORY")}
    key = home / "key"
    key.write_text(NSEC)
    key.chmod(0o600)
    environment |= {
        "SENSE_MEMORY_HOME": str(home),
        "SENSE_MEMORY_KEY_FILE": str(key),
        "OPENBLAS_NUM_THREADS": "1",
    }
    program = [sys.executable, "-W", "error", "-m", "sense_memory", "--ledger", str(home / "palace.db")]
    process = subprocess.Popen(
        [*program, "web", "--no-open", "--json", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        said = b""
        while not said.endswith(b"}\n"):
            ready, _, _ = select([process.stdout], [], [], 30 * SECOND)
            line = os.read(process.stdout.fileno(), 4_096) if ready else b""
            assert line, process.stderr.read1().decode()
            said += line
        url = json.loads(said)["url"]
        yield Page(url, int(url.split(":")[2].split("/")[0]), process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=10 * SECOND)
        assert (0, b"", b"") == (process.returncode, out, errors)
    finally:
        process.kill()
        process.communicate()


def written(home, work, **options):
    """Have `work` write into the ledger of a folder."""

    async def write() -> None:
        signer = LocalSigner.from_nsec(NSEC)
        async with MemoryStore(signer, ledger=home / "palace.db", background=False, **options) as store:
            await work(store)

    home.mkdir(exist_ok=True)
    asyncio.run(write())


@pytest.fixture(scope="module")
def signed_in():
    """From the answer to an exchanged token, the headers that the page sends from then on."""

    def exchange(response: bytes) -> str:
        head = response.partition(b"\r\n\r\n")[0].decode()
        line = next(line for line in head.split("\r\n") if line.lower().startswith("set-cookie:"))
        ((name, morsel),) = SimpleCookie(line.partition(":")[2]).items()
        page_token = json.loads(response.partition(b"\r\n\r\n")[2])["page"]
        return f"Cookie: {name}={morsel.value}\r\nX-Sense-Memory-Page: {page_token}"

    return exchange


@pytest.fixture
def opened(tmp_path, clock):
    """Opens a store of one agent, which asks no relay."""
    signer = LocalSigner.generate()

    def open_store():
        return MemoryStore(signer, ledger=tmp_path / "palace.db", background=False, clock=clock)

    return open_store


# ── A palace that a person works in ─────────────────────────────────────────────────────

DAY = 86_400
LISA = "people/facts/lisa"
FAIR = """## Fair
See [the order](https://example.com/a_b), **soon**.

1. Print
   - *twelve*
2. Frame

| what | price |
|---|---|
| print | 40 |

```python
x = "<b>1</b>"
```
"""


async def memories(store):
    now = time.time()
    await store.palace.remember(LISA, "artist in Bremen", source="user")
    await store.palace.remember("people/facts/emil", "seven")
    await store.palace.remember("projects/plans/fair", FAIR)
    await store.palace.connect(LISA, "people/facts/emil")
    await store.remember("user_timezone", "UTC")
    for days, text in ((0, "Met Lisa."), (1, "The **press** was late."), (70, "Bought paper.")):
        await store.journal(text, created_at=now - days * DAY)
    await store.mind.log.append(
        "world.observed", {"text": "The door is open.", "degrees": 18}, actor="camera"
    )
    await store.mind.log.append("agent.spoke", {"text": "I am there."}, actor="agent")
    await store.mind.archive.insert("Our table is number 12.", topics=["fair"], title="Letter")
    scene = await store.mind.scenes.create("studio", as_name="Nora")
    await scene.append("world.observed", {"text": "The kettle boils."}, actor="Nora")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    written(folder, memories)
    return folder


@pytest.fixture(scope="module")
def elsewhere(home):
    """Has another process, as an agent is one, work on the ledger."""
    with ThreadPoolExecutor(1) as others:
        yield lambda work: others.submit(written, home, work).result(30 * SECOND)


@pytest.fixture(scope="module")
def browser(home):
    from playwright.sync_api import sync_playwright

    with running(home, "--edit") as server, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = chromium.new_context().new_page()
        page.set_default_timeout(15_000 * SECOND)
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        page.wait_for_selector("#live:not(.off)")
        yield page
        chromium.close()


@pytest.fixture
def page(browser):
    browser.set_viewport_size({"width": 1_000, "height": 800})
    browser.evaluate(
        "() => { document.getElementById('done')?.remove(); document.getElementById('news').replaceChildren(); }"
    )
    yield browser
    refused = [line for line in browser.said if "409 (Conflict)" not in line and "400 (" not in line]
    browser.said.clear()
    assert not refused
