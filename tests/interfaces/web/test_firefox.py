"""The page in a real Firefox, which is driven by its own protocol (WebDriver BiDi): the engine that Chromium is not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from queue import Queue
from threading import Thread

import pytest
from websockets.sync.client import connect

from tests.interfaces.web.conftest import running, written
from tests.time_unit import SECOND


FIREFOX = os.environ.get("FIREFOX") or next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
pytestmark = pytest.mark.skipif(
    FIREFOX is None, reason="no Firefox: install the Debian package firefox-esr, or set FIREFOX to a program"
)
VIEWS = ("", "flat", "graph", "graph//people", "review", "journal", "mind", "relays", "mirrors", "search/press", "facet/people/facts", "memory/people%2Ffacts%2Flisa", "log", "archive", "scenes", "new", "done")  # fmt: skip
BEGIN = """(address) => {
    if (location.hash === address) return;
    document.querySelector("main").setAttribute("aria-busy", "true"); // until the view is drawn
    location.hash = address;
}"""
SETTLED = """() => new Promise((done) => {
    const look = () => document.documentElement.dataset.ready && document.querySelector("main:not([aria-busy]) h1") ? done(document.querySelector("main h1").textContent) : setTimeout(look, 20);
    look();
})"""

LIVE = """() => new Promise((done) => {
    const look = () => document.querySelector("#live:not(.off):not([hidden])") ? done(true) : setTimeout(look, 20);
    look();
})"""
PALETTE = """(words) => new Promise((done) => {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }));
    const field = document.getElementById("palette-query");
    field.value = words;
    field.dispatchEvent(new Event("input"));
    const look = () => { const first = document.querySelector("[aria-selected=true] .path"); first ? done(first.textContent) : setTimeout(look, 20); };
    look();
})"""


class Firefox:
    """One tab of a Firefox: it opens addresses and runs scripts, and keeps the errors that its console says."""

    def __init__(self, socket):
        self.socket, self.number, self.errors = socket, 0, []
        self.ask("session.new", capabilities={})
        self.tab = self.ask("browsingContext.getTree")["contexts"][0]["context"]
        self.ask("session.subscribe", events=["log.entryAdded"])

    def ask(self, method, **parameters):
        """A command, and what it answers."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self.socket.recv(timeout=30 * SECOND))
            if said["type"] == "event":
                if said["params"]["level"] in {"error", "warn"}:
                    self.errors.append(said["params"]["text"])
            elif said["id"] == self.number:
                assert said["type"] == "success", said
                return said["result"]

    def open(self, url):
        self.ask("browsingContext.navigate", context=self.tab, url=url, wait="complete")

    def run(self, function, *arguments):
        """The value of a function of the page, for texts and numbers."""
        given = [{"type": "string", "value": text} for text in arguments]
        told = self.ask(
            "script.callFunction",
            functionDeclaration=function,
            arguments=given,
            target={"context": self.tab},
            awaitPromise=True,
        )
        assert told["type"] == "success", told
        return told["result"].get("value")

    def show(self, address):
        """The title of a view, once it is drawn."""
        self.run(BEGIN, f"#/{address}")
        return self.run(SETTLED)


@contextmanager
def firefox(folder):
    """A Firefox with a new profile, until the end of the block."""
    folder.mkdir()
    command = [FIREFOX, "--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", str(folder)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "HOME": str(folder), "MOZ_HEADLESS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = Queue[str]()  # read to the end, so that what Firefox says never fills the pipe
    reader = Thread(target=lambda: [lines.put(line) for line in process.stderr], daemon=True)
    reader.start()
    try:
        address = None
        while address is None:
            address = re.search(r"ws://127\.0\.0\.1:\d+", lines.get(timeout=60 * SECOND))
        with connect(f"{address.group()}/session", max_size=None) as socket:
            yield Firefox(socket)
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


async def palace(store):
    await store.remember("editor", "emacs")
    await store.journal("The press arrives on Friday.")
    await store.persona_remember_many(
        [
            {
                "domain": "people",
                "facet": "facts",
                "key": name,
                "value": f"{name} has a press",
                "themes": [name],
            }
            for name in ("lisa", "emil", "jonas", "yuki", "hannah", "priya", "tomas")
        ],
        contradictions="off",
    )
    await store.persona_connect("people/facts/lisa", "people/facts/emil")
    await store.mind.conversation("talk").add("user", "The press arrives on Friday.", name="Lisa")


def test_firefox_draws_every_view_and_complains_about_nothing(tmp_path):
    written(tmp_path / "home", palace)
    with running(tmp_path / "home") as server, firefox(tmp_path / "profile") as browser:
        browser.open(server.url)
        browser.run(SETTLED)
        titles = {view: browser.show(view) for view in VIEWS}
        browser.show("")
        cards = browser.run("() => document.querySelectorAll('.card').length")
        is_live = browser.run(LIVE)
        chosen = browser.run(PALETTE, "emi")
        errors = browser.errors

    assert [] == errors
    assert {"Palace", "Graph", "Review", "Journal", "Mind", "Relays", "facts", "lisa"} <= set(titles.values())
    assert cards >= 3
    assert is_live
    assert "people / facts / emil" == chosen
