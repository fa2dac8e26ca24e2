"""The vectors of memories, sealed: one row a slot. What is in them the ledger does not know.

They cost far more to make than to keep, so they are kept where forgetting reaches each by itself: a trigger
removes the vectors at a slot with any event of a memory there, in the same transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.ledger.versions import Role


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sense_memory.ledger.database import Database

_KEY: Final = "vectors_key"
_MANY: Final = 1_000  # slots, from which the whole table is read
_KEEP: Final = (  # not where the memory was forgotten while its vectors were made
    "INSERT OR REPLACE INTO vectors (slot, model, body) SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM slots s "
    f"JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.role = {int(Role.MEMORY)})"
)

# For this connection only, and for every way of removing a memory, those of tomorrow included.
_FORGET: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_vectors AFTER DELETE ON main.events "
    f"WHEN OLD.role = {int(Role.MEMORY)} BEGIN DELETE FROM vectors WHERE slot = OLD.slot; END"
)


class Vectors:
    """The sealed vectors of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        db.execute(_FORGET)

    @property
    def key(self) -> str | None:
        """The sealed key to them, or None where there is none yet."""
        found = self._db.row("SELECT value FROM meta WHERE name = ?", _KEY)
        return None if found is None else str(found[0])

    def begin(self, sealed: str) -> str:
        """Keep a sealed key, unless another process was faster; returns the one that is kept."""
        with self._db.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", _KEY, sealed)
        return self.key or sealed

    def of(self, model: str, slots: Collection[str]) -> list[tuple[str, bytes]]:
        """Slot and sealed vectors of what one model has read, at some slots."""
        if len(slots) < _MANY:
            query = "SELECT slot, body, model FROM vectors WHERE slot IN "
            return [(slot, body) for slot, body, made in self._db.rows_in(query, slots) if made == model]
        rows = self._db.rows("SELECT slot, body FROM vectors WHERE model = ?", model)
        return [(slot, body) for slot, body in rows if slot in slots]

    def keep(self, model: str, rows: Iterable[tuple[str, bytes]]) -> None:
        """Keep sealed vectors by slot, instead of those before; not where nothing is remembered.

        Raises:
            LedgerError: they can not be written; those before stay.
        """
        with self._db.transaction():
            for slot, body in rows:
                self._db.execute(_KEEP, slot, model, body, slot)

    def clear(self) -> None:
        """Remove all of them, and the key."""
        with self._db.transaction():
            self._db.execute("DELETE FROM vectors")
            self._db.execute("DELETE FROM meta WHERE name = ?", _KEY)
