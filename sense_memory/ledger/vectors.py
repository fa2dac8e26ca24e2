"""The sealed vectors of memories, one row a slot; the ledger cannot read them.

Vectors cost far more to make than to keep, so they are kept where forgetting reaches each row separately: a trigger
removes the vectors at a slot with any event of a memory there, in the same transaction. An *embedding* is an
event that carries the same vectors to the owner's other devices; the row names its embedding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.ledger.schema import Role
from sense_memory.nostr.address import EMBEDDING, JOURNAL, PREFIX


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sense_memory.ledger.database import Database

_KEY: Final = "vectors_key"
_MANY: Final = 1_000  # for this many slots or more, the whole table is read
_KEEP: Final = (  # not where the memory was forgotten while its vectors were made
    "INSERT OR REPLACE INTO vectors (slot, model, body) SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM slots s "
    f"JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.role = {int(Role.MEMORY)})"
)
_UNTOLD: Final = (
    "SELECT slot FROM vectors WHERE model = ? AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.head = told)"
)
_READABLE: Final = f"{PREFIX}{EMBEDDING}"  # slots of embeddings, except hashed slots
# CROSS: from the deletions, which are few, to the embeddings. A journal entry is deleted by its id.
_ORPHANS: Final = (
    "SELECT s.slot FROM deletions d CROSS JOIN slots s ON s.slot = iif(substr(d.target, 1, 1) = '#', "
    f"'{_READABLE}{JOURNAL}' || substr(d.target, 2), '{_READABLE}' || substr(d.target, {len(PREFIX) + 1})) "
    f"CROSS JOIN events e ON e.seq = s.head AND e.role = {int(Role.EMBEDDING)} WHERE NOT EXISTS "
    f"(SELECT 1 FROM slots m JOIN events h ON h.seq = m.head AND h.role = {int(Role.MEMORY)} WHERE m.slot = d.target)"
)

# A temporary trigger, for this connection only, covers every way of removing a memory, including ways added later.
_FORGET: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_vectors AFTER DELETE ON main.events "
    f"WHEN OLD.role = {int(Role.MEMORY)} BEGIN DELETE FROM vectors WHERE slot = OLD.slot; END"
)


class Vectors:
    """The sealed vectors of a ledger.

    Args:
        db: the open ledger file.

    Attributes:
        write: makes a change, such as `save`, without blocking the event loop; see `Database.write`.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self.write = db.write
        db.execute(_FORGET)

    @property
    def key(self) -> str | None:
        """The sealed key to the vectors, or None before a key is saved."""
        found = self._db.row("SELECT value FROM meta WHERE name = ?", _KEY)
        return None if found is None else str(found[0])

    def save_key(self, sealed: str) -> str:
        """Keep a sealed key, unless another process was faster; returns the kept key."""
        with self._db.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", _KEY, sealed)
        return self.key or sealed

    def of(self, model: str, slots: Collection[str]) -> list[tuple[str, bytes]]:
        """Slot and sealed vectors of one model, at some slots."""
        if len(slots) < _MANY:
            query = "SELECT slot, body, model FROM vectors WHERE slot IN "
            return [(slot, body) for slot, body, made in self._db.rows_in(query, slots) if made == model]
        rows = self._db.rows("SELECT slot, body FROM vectors WHERE model = ?", model)
        return [(slot, body) for slot, body in rows if slot in slots]

    def save(self, model: str, rows: Iterable[tuple[str, bytes]]) -> None:
        """Keep sealed vectors by slot, in place of older vectors; slots without a memory are skipped.

        Raises:
            LedgerError: the vectors cannot be written; the older vectors stay.
        """
        with self._db.transaction():
            for slot, body in rows:
                self._db.execute(_KEEP, slot, model, body, slot)

    def clear(self) -> None:
        """Remove all vectors, and their key."""
        with self._db.transaction():
            self._db.execute("DELETE FROM vectors")
            self._db.execute("DELETE FROM meta WHERE name = ?", _KEY)

    # ── Embeddings: the events that carry them ──────────────────────────────────────────

    def without_embedding(self, model: str) -> set[str]:
        """The slots with vectors of a model for which no embedding is noted."""
        return {slot for (slot,) in self._db.rows(_UNTOLD, model)}

    def note_embeddings(self, told: Mapping[str, int]) -> None:
        """Note by slot the embedding (its seq) that carries the same vectors.

        Raises:
            LedgerError: the note cannot be written.
        """
        with self._db.transaction():
            self._db.execute_many(
                "UPDATE vectors SET told = ? WHERE slot = ?", [(seq, slot) for slot, seq in told.items()]
            )

    def orphans(self) -> list[str]:
        """The slots of embeddings whose memory was deleted, except hashed slots."""
        end = _READABLE[:-1] + chr(ord(_READABLE[-1]) + 1)
        if self._db.row("SELECT 1 FROM slots WHERE slot >= ? AND slot < ? LIMIT 1", _READABLE, end) is None:
            return []
        return [slot for (slot,) in self._db.rows(_ORPHANS)]
