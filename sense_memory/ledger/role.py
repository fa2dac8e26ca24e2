"""Roles: what an event is to the ledger, as a number in its row."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What an event is to the ledger; only the envelope knows it from inside the ciphertext."""

    MEMORY = 0
    TOMBSTONE = 1
    DELETION = 2
    EMBEDDING = 3  # vectors of a memory: nobody's memory, and without history
    REPLACED = 4  # a memory that was rewritten in its own second, before anybody was given it: history only
