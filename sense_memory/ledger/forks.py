"""Versions in doubt: what a slot's head may not know of, or may not have known. Written inside a transaction.

The ledger can not tell what a version knows; that is inside the ciphertext. It lists what has to be looked at:
a version that another device's replaced, one that came late, and a head that was written although its memory
had been forgotten. Whoever can open them looks, and takes them off the list. Of flat memories, which do not merge,
only the last are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.nostr import address


if TYPE_CHECKING:
    from sense_memory.ledger.database import Database


def doubt(db: Database, slot: str, seq: int | None) -> None:
    """A version has to be looked at; nothing happens where the slot's versions do not merge."""
    if seq is not None and address.merges(slot):
        db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def doubt_forgotten(db: Database, slot: str, seq: int) -> None:
    """A version is on top although its text is forgotten, because a device that did not know that signed it anew."""
    db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def doubt_head(db: Database, slot: str) -> None:
    """Something was forgotten: a head that is left may only seem to be newer."""
    if address.merges(slot):
        db.execute(
            "INSERT OR IGNORE INTO forks (slot, event) SELECT s.slot, s.head FROM slots s "
            "JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.role = 0",
            slot,
        )
