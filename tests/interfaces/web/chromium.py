"""A Chromium for the tests of the page, and what a person does in it."""

from __future__ import annotations

import os
import shutil
from urllib.parse import quote


CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
ABSENT = "no Chromium: install the Debian package chromium, or set CHROMIUM to a program"


def go(page, address):
    """Open a view, and wait until it is drawn."""
    page.evaluate(
        "hash => { document.querySelector('main').replaceChildren(); if (location.hash === hash) dispatchEvent(new Event('hashchange')); else location.hash = hash; }",
        f"#/{address}",
    )
    page.wait_for_selector("main:not([aria-busy]) h1, main:not([aria-busy]) .empty")


def memory(path):
    return f"memory/{quote(path, safe='')}"


def press(page, name):
    page.get_by_role("button", name=name, exact=True).first.click()


def new(page, path, text):
    go(page, "new")
    page.fill("#new-path", path)
    page.fill("#new-text", text)
    page.keyboard.press("Control+Enter")
    page.locator("main h1", has_text=path.rpartition("/")[2]).wait_for()


def value(page):
    return page.inner_text("main .memory-main > .value")
