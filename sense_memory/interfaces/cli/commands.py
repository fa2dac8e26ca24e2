"""All commands, registered: importing this module completes the program."""

from __future__ import annotations

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
    "app", "backup", "completion", "doctor", "drafts", "embedding", "journal", "keys", "live", "memories",
    "palace", "past", "portable", "relays", "searching", "syncing",
]  # fmt: skip
