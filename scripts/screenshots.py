"""Take the pictures of docs/images/ anew: build the demo's palace, serve it, and look at it in Chromium.

Needs the extras `web` and `test`, and a Chromium (found on the PATH, or named by CHROMIUM). `screenshots.py` takes no
arguments.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright


if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
)
MOST_BYTES = 150_000
# name, address, width, height, colours
PICTURES = (
    ("palace", "#/", 1180, 640, "light"),
    ("memory", "#/memory/projects%2Ffacts%2Frisograph-repair", 1180, 800, "light"),
    ("graph", "#/graph", 1180, 860, "dark"),
    ("search", "#/search/workshop%20price", 1180, 640, "light"),
    ("review", "#/review", 1180, 760, "dark"),
    ("phone", "#/", 390, 780, "dark"),
)


def take(page: Page, name: str, address: str) -> None:
    """One picture of one view."""
    page.evaluate("address => { location.hash = address; }", address)
    page.wait_for_selector("main:not([aria-busy]) h1")
    page.wait_for_timeout(500)  # until what moves has come to rest
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}  {size:,} bytes{'  too large' if size > MOST_BYTES else ''}")


def main() -> None:
    """Build, serve, look."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium was found; set CHROMIUM to one")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        subprocess.run([sys.executable, ROOT / "scripts/demo/palace.py", home], check=True)  # noqa: S603
        environment = {**os.environ, "SENSE_MEMORY_HOME": str(home)}
        command = [sys.executable, "-m", "sense_memory", "web", "--no-open", "--edit", "--json"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
        try:
            said = ""
            while server.stdout is not None and not said.endswith("}\n"):
                said += server.stdout.readline()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
                page = browser.new_page(reduced_motion="reduce")
                page.goto(json.loads(said)["url"])
                page.wait_for_selector("html[data-ready]")
                for name, address, width, height, colours in PICTURES:
                    page.emulate_media(color_scheme="dark" if colours == "dark" else "light")
                    page.set_viewport_size({"width": width, "height": height})
                    take(page, name, address)
                browser.close()
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
