"""Erasing for good: what is deleted from the ledger must not stay readable beside it.

SQLite overwrites deleted rows, but older copies of their pages wait in the write-ahead log, and whole ones
in the backup of a migration. Whatever transaction deletes notes the debt in the ledger itself; whoever can,
this process or another, pays it at the next occasion.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from sense_memory.ledger.database import Database

_OWED: Final = "erasure_owed"

# For this connection only, and for every way of deleting, those of tomorrow included.
_NOTE: Final = (
    "CREATE TEMP TRIGGER deleting_from_{table}_owes_erasure AFTER DELETE ON main.{table} "
    "BEGIN INSERT OR REPLACE INTO meta VALUES ('" + _OWED + "', '1'); END"
)


class Erasure:
    """The debt of one open ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        if db.path is not None:
            for table in ("events", "drafts"):
                db.execute(_NOTE.format(table=table))

    def finish(self) -> None:
        """Pay what is owed; where another process publishes or reads, it stays owed."""
        if self._db.row("SELECT 1 FROM meta WHERE name = ?", _OWED) is None or not self._db.checkpoint():
            return
        for backup in self._db.backups():
            with suppress(OSError):  # the folder is closed to us: it stays, and is no worse than it was
                backup.unlink(missing_ok=True)
        with self._db.transaction():
            self._db.execute("DELETE FROM meta WHERE name = ?", _OWED)
