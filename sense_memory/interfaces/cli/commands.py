"""All commands, registered: importing this module completes the program."""

from __future__ import annotations

from sense_memory.interfaces.cli import (
    backup,
    completion,
    doctor,
    embedding,
    history,
    journal,
    keys,
    memories,
    relays,
    search,
    sync,
)
from sense_memory.interfaces.cli.palace import aliases, group, memory, reviews
from sense_memory.interfaces.cli.program import app


__all__ = [
    "aliases", "app", "backup", "completion", "doctor", "embedding", "group", "history", "journal", "keys",
    "memories", "memory", "relays", "reviews", "search", "sync",
]  # fmt: skip
