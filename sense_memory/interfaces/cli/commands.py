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
    palace,
    relays,
    search,
    sync,
)
from sense_memory.interfaces.cli.program import app


__all__ = [
    "app",
    "backup",
    "completion",
    "doctor",
    "embedding",
    "history",
    "journal",
    "keys",
    "memories",
    "palace",
    "relays",
    "search",
    "sync",
]
