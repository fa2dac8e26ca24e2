"""The command line, `sense-memory`. It parses, calls a store, and prints; it decides nothing about memories.

One module per group of commands; each registers its own. Every command understands `--json`, before it
or after it.
"""

from __future__ import annotations

from sense_memory.interfaces.cli import (
    backup,
    doctor,
    drafts,
    keys,
    memories,
    past,
    portable,
    relays,
    syncing,
)
from sense_memory.interfaces.cli.program import app


__all__ = [
    "app", "backup", "doctor", "drafts", "keys", "main", "memories", "past", "portable", "relays", "syncing",
]  # fmt: skip


def main() -> None:
    """Run the program: parse `sys.argv`, act, exit."""
    app(prog_name="sense-memory")
