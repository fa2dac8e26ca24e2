"""What the ledger keeps sealed beside the events: the snapshot, vectors, and log entries without a page.

The snapshot and the vectors are caches and can be made again; the rows of the log cannot.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.errors import LedgerError
from sense_memory.ledger.heads import Heads
from sense_memory.ledger.schema import Role
from sense_memory.nostr.address import EMBEDDING, JOURNAL, PREFIX


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import BinaryIO

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.heads import Head


# ── The snapshot ────────────────────────────────────────────────────────────────────────
# The snapshot's file beside the ledger, and the sealed key to it that the ledger keeps.
#
# The ledger does not know what the file holds, only that forgetting has to reach the file. Every transaction that
# removes a memory also removes the key, so a forgotten memory cannot be read from any copy of the file; the file itself
# is deleted right after. A file without its key is worthless. Nothing is lost with the file, because the events are in
# the ledger.


_KEY: Final = "snapshot_key"  # opens the file
_NEXT: Final = "snapshot_next"  # opens the file that is being written
_ERA: Final = "snapshot_era"  # a random word that stays until something is forgotten
# Seqs are given in order and never twice, so the difference counts the removed events.
_REMOVED: Final = (
    "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'events') - (SELECT count(*) FROM events)"
)
_HEADS_COUNT: Final = 1_000

# A temporary trigger, for this connection only, covers every way of removing a memory, including ways added later.
_FORGET: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_snapshot AFTER DELETE ON main.events "
    f"WHEN OLD.role = {int(Role.MEMORY)} AND OLD.quarantined = 0 "
    f"BEGIN DELETE FROM meta WHERE name IN ('{_KEY}', '{_NEXT}', '{_ERA}'); END"
)


class SnapshotFile:
    """One file that is always replaced whole, and its sealed key. A ledger in memory has no snapshot.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db, self._heads = db, Heads(db)
        self._path = None if db.path is None else Path(f"{db.path}.snapshot")
        self._part = None if db.path is None else Path(f"{db.path}.snapshot.part")
        if self._path is not None:
            db.execute(_FORGET)
            self.sweep()
            self._sweep_part()

    @property
    def key(self) -> str | None:
        """The sealed key to the file, or None if there is no snapshot."""
        return self._sealed(_KEY)

    @property
    def exists(self) -> bool:
        """Whether there is a file that can be opened."""
        return self._path is not None and self._path.exists() and self.key is not None

    def era(self) -> str:
        """A random word that changes whenever anything is forgotten; empty if no era has begun.

        Data made from memories in the current era holds nothing that was forgotten.
        """
        return self._sealed(_ERA) or ""

    def begin_era(self) -> str:
        """The era; begins a new era if there is none. This may write, so call it only for data that will be kept.

        Empty if another process writes, or the disk is full; use `removed` then.
        """
        if self._path is not None and not self.era():
            with suppress(LedgerError), self._db.transaction():
                self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", _ERA, secrets.token_hex(8))
        return self.era()

    def removed(self) -> int:
        """The number of events that were removed: while the number stays equal, nothing was forgotten.

        The count reads an index of all events, and includes events that nobody forgot, such as replaced embeddings.
        """
        (count,) = self._db.row(_REMOVED) or (0,)
        return int(count or 0)

    def heads(self) -> Iterator[Head]:
        """The heads that a snapshot may hold: every live head, by slot, read in batches."""
        last = ""
        while found := self._heads.live_after(last, _HEADS_COUNT):
            yield from found
            last = found[-1].slot

    def slots(self) -> int:
        """The number of slots ever seen, an upper bound of the number of heads."""
        (count,) = self._db.row("SELECT count(*) FROM slots") or (0,)
        return int(count)

    def open(self) -> BinaryIO:
        """The file, for reading.

        Raises:
            OSError: there is no such file, or it is not a plain file.
        """
        if self._path is None:
            raise FileNotFoundError
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # no link, no pipe
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise OSError
        return file

    def begin(self, sealed: str) -> BinaryIO:
        """A new file to write under a new key, mode 0600.

        Hold the publisher's lock from here to `finish`, and read the ledger only after this call: `finish` notices
        what is forgotten from now on.

        Raises:
            OSError, LedgerError: the file or the key cannot be written.
        """
        if self._part is None:
            raise FileNotFoundError
        with self._db.transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", _NEXT, sealed)
        self._part.unlink(missing_ok=True)
        return os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def finish(self, file: BinaryIO, sealed: str) -> bool:
        """Replace the old snapshot with the file of `begin`; False if something was forgotten meanwhile.

        Raises:
            OSError, LedgerError: the file or the key cannot be written; the old snapshot stays.
        """
        from sense_memory.config.key_file import sync_folder

        if self._path is None or self._part is None:
            return False
        file.flush()
        os.fsync(file.fileno())
        with self._db.transaction():  # nothing is forgotten between this check and the renaming
            if self._sealed(_NEXT) != sealed:
                return False
            self._db.execute("DELETE FROM meta WHERE name = ?", _NEXT)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", _KEY, sealed)
            self._part.replace(self._path)
        sync_folder(self._path.parent)
        return True

    def abandon(self) -> None:
        """Remove the file of `begin`, unless `finish` put the file in place."""
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the snapshot and its key."""
        if self._sealed(_KEY) or self._sealed(_NEXT):
            with self._db.transaction():
                self._db.execute("DELETE FROM meta WHERE name IN (?, ?)", _KEY, _NEXT)
        self.sweep()

    def sweep(self) -> None:
        """Remove the files whose key is gone; called after every transaction that may have forgotten something."""
        for path, name in ((self._path, _KEY), (self._part, _NEXT)):
            if path is not None and path.exists() and self._sealed(name) is None:
                with suppress(OSError):  # what cannot be removed cannot be read any more either
                    path.unlink(missing_ok=True)

    def _sweep_part(self) -> None:
        """Remove the unfinished file of a killed process; a live writer would hold the publisher's lock."""
        if self._part is not None and self._part.exists() and self._db.try_lock():
            try:
                with suppress(OSError):
                    self.abandon()
            finally:
                self._db.unlock()

    def _sealed(self, name: str) -> str | None:
        found = self._db.row("SELECT value FROM meta WHERE name = ?", name)
        return None if found is None else str(found[0])


# ── Keys ────────────────────────────────────────────────────────────────────────────────


class SealedKey:
    """One sealed key that the ledger keeps, to rows that the ledger cannot read.

    Args:
        db: the open ledger file.
        name: the name of the key in the ledger.
    """

    def __init__(self, db: Database, name: str) -> None:
        self._db, self._key_name = db, name

    @property
    def key(self) -> str | None:
        """The sealed key, or None before a key is saved."""
        found = self._db.row("SELECT value FROM meta WHERE name = ?", self._key_name)
        return None if found is None else str(found[0])

    def save_key(self, sealed: str) -> str:
        """Keep a sealed key, unless another process was faster; returns the kept key."""
        with self._db.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", self._key_name, sealed)
        return self.key or sealed


# ── Vectors ─────────────────────────────────────────────────────────────────────────────
# The sealed vectors of memories, one row a slot; the ledger cannot read them.
#
# Vectors cost far more to make than to keep, so they are kept where forgetting reaches each row separately: a trigger
# removes the vectors at a slot with any event of a memory there, in the same transaction. An *embedding* is an
# event that carries the same vectors to the owner's other devices; the row names its embedding.


_VECTORS_KEY: Final = "vectors_key"
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
_FORGET_VECTORS: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_vectors AFTER DELETE ON main.events "
    f"WHEN OLD.role = {int(Role.MEMORY)} BEGIN DELETE FROM vectors WHERE slot = OLD.slot; END"
)


class Vectors(SealedKey):
    """The sealed vectors of a ledger.

    Args:
        db: the open ledger file.

    Attributes:
        write: makes a change, such as `save`, without blocking the event loop; see `Database.write`.
    """

    def __init__(self, db: Database) -> None:
        super().__init__(db, _VECTORS_KEY)
        self.write = db.write
        db.execute(_FORGET_VECTORS)

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
            self._db.execute("DELETE FROM meta WHERE name = ?", _VECTORS_KEY)

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


# ── Rows of the log ─────────────────────────────────────────────────────────────────────
# The sealed entries of the log that are in no page yet, one row each; the ledger cannot read them.
#
# A page is signed when it is full or after a pause, but an entry is durable at once: as a row here. A row is removed only
# after a page with its entry is durable, so a kill between the two leaves the entry twice, and a reader counts it once.

_LOG_KEY: Final = "log_key"


class LogRows(SealedKey):
    """The rows of a ledger; true if there are any.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        super().__init__(db, _LOG_KEY)

    def add(self, bodies: Iterable[bytes]) -> None:
        """Keep sealed entries, in their order."""
        with self._db.transaction():
            self._db.execute_many("INSERT INTO log_rows (body) VALUES (?)", [(body,) for body in bodies])

    def __bool__(self) -> bool:
        return self._db.row("SELECT 1 FROM log_rows LIMIT 1") is not None

    def after(self, row: int) -> list[tuple[int, bytes]]:
        """The number and the sealed entry of every row after a row, in their order; 0 for all."""
        return self._db.rows("SELECT row, body FROM log_rows WHERE row > ? ORDER BY row", row)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows whose entries are in pages now."""
        with self._db.transaction():
            self._db.execute_many("DELETE FROM log_rows WHERE row = ?", [(row,) for row in rows])
