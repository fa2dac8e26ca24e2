"""The main job, end to end, on this machine: remember, lose the machine, bring the key, remember again.

Uses only the public API. Starts the embedded relay on loopback, writes into a temporary folder, and removes the folder
at the end. Exits 1 if anything came back different. In a terminal with a display, the demo ends by opening a palace in the
browser, until Ctrl-C; with `--no-open` it does not.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


if TYPE_CHECKING:
    from sense_memory import JournalEntry, Memory

NOTES = Path(__file__).parent / "notes"
console = Console(highlight=False)


def read_notes() -> tuple[list[tuple[str, str]], list[str]]:
    """The notes as (key, text) pairs, and the journal's entries in order."""
    memories: list[tuple[str, str]] = []
    entries: list[str] = []
    for file in sorted(NOTES.glob("*.md")):
        sections = re.split(r"^## (.+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        for heading, text in zip(sections[::2], sections[1::2], strict=True):
            if file.stem == "journal":
                entries.append(f"{heading.strip()}: {text.strip()}")
            else:
                memories.append((heading.strip(), text.strip()))
    return memories, entries


def step(number: int, text: str) -> None:
    """One numbered line of the story."""
    console.print(f"\n[bold cyan]{number}[/]  [bold]{text}[/]")


def say(text: str) -> None:
    """A sentence under a step, wrapped."""
    console.print(Text(fill(text, console.width - 1, initial_indent="   ", subsequent_indent="   ")))


async def live(
    signer: LocalSigner, relay: str, ledger: Path, notes: list[tuple[str, str]], entries: list[str]
) -> None:
    """The agent's first life: everything is written down and copied to the relay."""
    async with MemoryStore(signer, [relay], ledger=ledger, background=False) as store:
        step(3, "The agent remembers")
        begun = time.perf_counter()
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("   remembering", total=len(notes) + len(entries))
            await store.remember_many(notes, progress=lambda done: progress.update(task, completed=done))
            for entry in entries:
                await store.journal(entry)
                progress.advance(task)
        took = (time.perf_counter() - begun) * 1000
        say(
            f"{len(notes)} notes and {len(entries)} journal entries are safe in the ledger, a file on this "
            f"machine, after {took:.0f} ms."
        )
        say("Each is signed and encrypted with the key. The file holds no readable text.")

        step(4, "They are copied to the relay")
        (report,) = (await store.sync()).relays
        say(f"The relay took {report.sent.get('accepted', 0)} of them in {report.seconds * 1000:.0f} ms.")
        say(
            "The relay sees who writes, when, how much, and the names of the notes. It cannot read a word of them."
        )


def lose(ledger: Path) -> list[str]:
    """Delete the ledger and everything beside it; returns the names of the files."""
    files = sorted(ledger.parent.glob(f"{ledger.name}*"))
    for file in files:
        file.unlink()
    return [file.name for file in files]


async def live_again(
    signer: LocalSigner, relay: str, ledger: Path
) -> tuple[list[Memory], list[JournalEntry]]:
    """The agent's second life: an empty ledger, the same key."""
    async with MemoryStore(signer, [relay], ledger=ledger, background=False) as store:
        (report,) = (await store.sync()).relays
        found, entries = await store.recall_all(), await store.recent(1_000)
        say(
            f"The relay gave back {report.pulled.received} signed and encrypted events in "
            f"{report.seconds * 1000:.0f} ms; each was verified and decrypted with the key."
        )
        return found, entries


def show(found: list[Memory], entries: list[JournalEntry]) -> None:
    """A few of the memories that came back."""
    rows = [(memory.key, memory.value) for memory in found[:: max(1, len(found) // 5)][:5]]
    rows += [("journal", entry.content) for entry in entries[:2]]
    column = max(len(name) for name, _ in rows)
    for name, text in rows:
        line = Text(f"   {name:<{column}}  ", "green")
        line.append(text.replace("\n", " "), "default")
        line.truncate(console.width - 1, overflow="ellipsis")
        console.print(line)


def next_step() -> str:
    """The command that begins a memory of one's own, as it is typed here."""
    program = Path(sys.executable).with_name("sense-memory")
    here = program.is_relative_to(Path.cwd())
    return f"{program.relative_to(Path.cwd()) if here else program.name} init"


async def main() -> int:
    """Run the story; returns the exit code."""
    notes, texts = read_notes()
    with tempfile.TemporaryDirectory(prefix="sense-memory-demo-") as folder:
        step(1, "An agent gets a key")
        signer = LocalSigner.generate()
        say(f"Its public name is {signer.npub[:20]}… (an npub, 63 characters).")
        say("The secret half is the only thing to keep. It never leaves the agent.")

        async with EmbeddedRelay(Path(folder) / "relay.db") as relay:
            step(2, "A relay is started")
            say(f"{relay.url}, on this machine. A relay keeps copies and needs no account.")
            ledger = Path(folder) / "ledger.db"
            await live(signer, relay.url, ledger, notes, texts)

            step(5, "The machine is lost")
            say(f"The ledger is deleted ({', '.join(lose(ledger))}). What is left: the key.")

            step(6, "Another machine, the same key")
            found, entries = await live_again(signer, relay.url, ledger)
            show(found, entries)

    good = sum(dict(notes).get(memory.key) == memory.value for memory in found)
    same = sum(entry.content == text for entry, text in zip(reversed(entries), texts, strict=False))
    whole = good == len(notes) == len(found) and same == len(texts) == len(entries)
    verdict = "[bold green]Everything came back.[/]" if whole else "[bold red]Something is missing.[/]"
    console.print(
        f"\n{verdict} {good} of {len(notes)} notes and {same} of {len(texts)} journal entries, word for word.\n"
    )
    console.print(f"Next, a memory of your own: [bold]{next_step()}[/]\n")
    return 0 if whole else 1


def can_open_page(arguments: list[str]) -> bool:
    """Whether somebody is there to look at a page: a terminal, a display, and no `--no-open`."""
    has_display = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    is_installed = all(importlib.util.find_spec(name) for name in ("starlette", "uvicorn"))
    return console.is_terminal and has_display and is_installed and "--no-open" not in arguments


def open_page() -> None:
    """Build the palace of Otto, a studio's assistant, in a temporary folder, and show it until Ctrl-C."""
    say("And this is how nine months of an agent look, in your browser. Ctrl-C ends it.")
    with tempfile.TemporaryDirectory(prefix="sense-memory-demo-") as folder, suppress(KeyboardInterrupt):
        palace = Path(__file__).with_name("palace.py")
        subprocess.run(  # noqa: S603 - our own script
            [sys.executable, palace, folder], check=True, stdout=subprocess.DEVNULL
        )
        environment = {**os.environ, "SENSE_MEMORY_HOME": folder}
        subprocess.run([sys.executable, "-m", "sense_memory", "web"], env=environment, check=False)


if __name__ == "__main__":
    code = asyncio.run(main())
    if code == 0 and can_open_page(sys.argv[1:]):
        open_page()
    sys.exit(code)
