"""The command line, `sense-memory`. It parses, calls a store, and prints; it decides nothing about memories.

One module per group of commands; each registers its own. Every command understands `--json`, before it
or after it.
"""

from __future__ import annotations

import gc
import io
import sys

from sense_memory.interfaces.cli import (
    backup,
    completion,
    doctor,
    drafts,
    embedding,
    journal,
    keys,
    live,
    memories,
    palace,
    past,
    portable,
    relays,
    searching,
    syncing,
)
from sense_memory.interfaces.cli.program import app


__all__ = [
    "app", "backup", "completion", "doctor", "drafts", "embedding", "journal", "keys", "live", "main", "memories",
    "palace", "past", "portable", "relays", "searching", "syncing",
]  # fmt: skip

_OBJECTS = 200_000  # new ones before garbage is looked for: a command that opens a whole palace makes as many


def main() -> None:
    """Run the program: parse `sys.argv`, act, exit. A shell that wants words for Tab gets those instead."""
    line = completion.asked()
    if line is not None:
        sys.stdout.write(completion.answer(line))
        return
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")  # else a single "…" would end the program
    gc.set_threshold(_OBJECTS)
    try:
        app(prog_name="sense-memory")
    finally:
        gc.freeze()  # all of it goes with the process: going through it once more takes a tenth of a second
