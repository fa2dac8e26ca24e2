"""The command line, `sense-memory`. It parses, calls a store, and prints; it decides nothing about memories.

One module per group of commands; each registers its own. Every command understands `--json`, before it
or after it.
"""

from __future__ import annotations

from sense_memory.interfaces.cli import backup, doctor, keys, memories, past, portable, relays, syncing
from sense_memory.interfaces.cli.program import app


__all__ = ["app", "backup", "doctor", "keys", "main", "memories", "past", "portable", "relays", "syncing"]


def main() -> None:
    """Run the program: parse `sys.argv`, act, exit."""
    app(prog_name="sense-memory")
