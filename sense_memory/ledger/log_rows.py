"""The sealed entries of the log that are in no page yet, one row each; the ledger cannot read them.

A page is signed when it is full or after a pause, but an entry is durable at once: as a row here. A row is removed only
after a page with its entry is durable, so a kill between the two leaves the entry twice, and a reader counts it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable

    from sense_memory.ledger.database import Database

_KEY: Final = "log_key"


class LogRows:
    """The rows of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db

    @property
    def key(self) -> str | None:
        """The sealed key to the rows, or None before a key is saved."""
        found = self._db.row("SELECT value FROM meta WHERE name = ?", _KEY)
        return None if found is None else str(found[0])

    def save_key(self, sealed: str) -> str:
        """Keep a sealed key, unless another process was faster; returns the kept key."""
        with self._db.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", _KEY, sealed)
        return self.key or sealed

    def add(self, bodies: Iterable[bytes]) -> None:
        """Keep sealed entries, in their order."""
        with self._db.transaction():
            self._db.execute_many("INSERT INTO log_rows (body) VALUES (?)", [(body,) for body in bodies])

    def after(self, row: int) -> list[tuple[int, bytes]]:
        """The number and the sealed entry of every row after a row, in their order; 0 for all."""
        return self._db.rows("SELECT row, body FROM log_rows WHERE row > ? ORDER BY row", row)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows whose entries are in pages now."""
        with self._db.transaction():
            self._db.execute_many("DELETE FROM log_rows WHERE row = ?", [(row,) for row in rows])
