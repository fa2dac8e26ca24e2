"""What the ledger keeps encrypted beside the events: the snapshot, vectors, and log entries without a page.

The snapshot and the vectors are caches, which can be made again; the rows of the log cannot.
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
from sense_memory.ledger.roles import IS_DERIVED, IS_LIVE
from sense_memory.nostr.address import EMBEDDING, JOURNAL, PREFIX
from sense_memory.operating_system import open_plain


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import BinaryIO

    from sense_memory.ledger.database import Database
    from sense_memory.ledger.heads import Head


# ── The snapshot ────────────────────────────────────────────────────────────────────────
# The snapshot's file beside the ledger, and the sealed key to this file, which the ledger keeps.
#
# The ledger cannot read the file, but forgetting must reach it. Every transaction that removes a memory also removes
# the key, so a forgotten memory cannot be read from any copy of the file. The file itself is deleted right after.
# Nothing is lost with the file, because the events are in the ledger.


_KEY: Final = "snapshot_key"  # of the file
_NEXT: Final = "snapshot_next"  # of the file that is being written
_ERA: Final = "snapshot_era"  # a random word that stays until something is forgotten
# A seq is never used twice, so the highest seq minus the number of events is the number of removed events.
_REMOVED: Final = (
    "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'events') - (SELECT count(*) FROM events)"
)
_HEADS_COUNT: Final = 1_000

# A temporary trigger, for this connection only, covers every way of removing a memory, including ways added later.
_FORGET: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_snapshot AFTER DELETE ON main.events "
    f"WHEN OLD.{IS_LIVE} AND OLD.quarantined = 0 "
    f"BEGIN DELETE FROM meta WHERE name IN ('{_KEY}', '{_NEXT}', '{_ERA}'); END"
)


class SnapshotFile:
    """The file, which is always replaced whole, and its sealed key. A ledger in memory has no snapshot.

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
        """The era; begins a new era if there is none. This may write, so call it only for data that will be saved.

        Empty if another process is writing, or the disk is full; then use `removed` instead.
        """
        if self._path is not None and not self.era():
            with suppress(LedgerError), self._db.transaction():
                self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", _ERA, secrets.token_hex(8))
        return self.era()

    def removed(self) -> int:
        """The number of events that were removed: while it stays the same, nothing was forgotten.

        Counting reads an index of all events. The number also grows for other reasons, such as replaced embeddings.
        """
        (count,) = self._db.row(_REMOVED) or (0,)
        return int(count or 0)

    def heads(self) -> Iterator[Head]:
        """The heads that a snapshot may contain: every live head, ordered by slot, read in batches."""
        last = ""
        while found := self._heads.live_after(last, _HEADS_COUNT):
            yield from found
            last = found[-1].slot

    def slots(self) -> int:
        """The number of slots ever seen: an upper bound for the number of heads."""
        (count,) = self._db.row("SELECT count(*) FROM slots") or (0,)
        return int(count)

    def open(self) -> BinaryIO:
        """The file, for reading.

        Raises:
            OSError: there is no such file, or it is not a plain file.
        """
        if self._path is None:
            raise FileNotFoundError
        descriptor = open_plain(self._path)
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise OSError
        return file

    def begin(self, sealed: str) -> BinaryIO:
        """A new file to write under a new key, mode 0600.

        Hold the publisher's lock from this call to `finish`. Read the ledger only after this call, because `finish`
        notices what is forgotten from now on.

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
        with self._db.transaction():  # so that nothing is forgotten between the check and the renaming
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
        """Remove files whose key is gone; called after every transaction that may have forgotten something."""
        for path, name in ((self._path, _KEY), (self._part, _NEXT)):
            if path is not None and path.exists() and self._sealed(name) is None:
                with suppress(OSError):  # a file that stays cannot be read without its key
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
    """A sealed key for rows that the ledger stores and cannot read.

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
        """Save a sealed key, unless another process has saved one; returns the saved key."""
        with self._db.transaction():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", self._key_name, sealed)
        return self.key or sealed


# ── Vectors ─────────────────────────────────────────────────────────────────────────────
# The sealed vectors of memories, one row for each slot; the ledger cannot read them.
#
# Vectors cost far more to compute than to store. They are stored in rows, so that forgetting reaches each row
# separately: a trigger removes the vectors at a slot together with any event of a memory there. An *embedding* is an
# event that carries the same vectors to the owner's other devices; the row names its embedding.


_VECTORS_KEY: Final = "vectors_key"
_MANY: Final = 1_000  # for this many slots or more, the whole table is read
_SAVE: Final = (  # only if the memory was not forgotten while its vectors were computed
    "INSERT OR REPLACE INTO vectors (slot, model, body) SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM slots s "
    f"JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.{IS_LIVE})"
)
_WITHOUT_EMBEDDING: Final = (
    "SELECT slot FROM vectors WHERE model = ? AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.head = told)"
)
_READABLE: Final = f"{PREFIX}{EMBEDDING}"  # slots of embeddings, except hashed slots
# CROSS: from the deletions, which are few, to the embeddings. A journal entry is deleted by its id.
_ORPHANS: Final = (
    "SELECT s.slot FROM deletions d CROSS JOIN slots s ON s.slot = iif(substr(d.target, 1, 1) = '#', "
    f"'{_READABLE}{JOURNAL}' || substr(d.target, 2), '{_READABLE}' || substr(d.target, {len(PREFIX) + 1})) "
    f"CROSS JOIN events e ON e.seq = s.head AND e.{IS_DERIVED} WHERE NOT EXISTS "
    f"(SELECT 1 FROM slots m JOIN events h ON h.seq = m.head AND h.{IS_LIVE} WHERE m.slot = d.target)"
)

# A temporary trigger, for this connection only, covers every way of removing a memory, including ways added later.
_FORGET_VECTORS: Final = (
    "CREATE TEMP TRIGGER forgetting_reaches_the_vectors AFTER DELETE ON main.events "
    f"WHEN OLD.{IS_LIVE} BEGIN DELETE FROM vectors WHERE slot = OLD.slot; END"
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
        """The slots and sealed vectors of one model, for some slots."""
        if len(slots) < _MANY:
            query = "SELECT slot, body, model FROM vectors WHERE slot IN "
            return [(slot, body) for slot, body, made in self._db.rows_in(query, slots) if made == model]
        rows = self._db.rows("SELECT slot, body FROM vectors WHERE model = ?", model)
        return [(slot, body) for slot, body in rows if slot in slots]

    def save(self, model: str, rows: Iterable[tuple[str, bytes]]) -> None:
        """Save sealed vectors by slot, in place of older vectors; slots without a memory are skipped.

        Raises:
            LedgerError: the vectors cannot be written; the older vectors stay.
        """
        with self._db.transaction():
            for slot, body in rows:
                self._db.execute(_SAVE, slot, model, body, slot)

    def clear(self) -> None:
        """Remove all vectors, and their key."""
        with self._db.transaction():
            self._db.execute("DELETE FROM vectors")
            self._db.execute("DELETE FROM meta WHERE name = ?", _VECTORS_KEY)

    # ── Embeddings: the events that carry them ──────────────────────────────────────────

    def without_embedding(self, model: str) -> set[str]:
        """The slots that have vectors of a model and no recorded embedding."""
        return {slot for (slot,) in self._db.rows(_WITHOUT_EMBEDDING, model)}

    def record_embeddings(self, embeddings: Mapping[str, int]) -> None:
        """Record, by slot, the seq of the embedding that carries the same vectors.

        Raises:
            LedgerError: the embeddings cannot be recorded.
        """
        with self._db.transaction():
            self._db.execute_many(
                "UPDATE vectors SET told = ? WHERE slot = ?",
                [(seq, slot) for slot, seq in embeddings.items()],
            )

    def orphans(self) -> list[str]:
        """The slots of embeddings whose memory was deleted, except hashed slots."""
        end = _READABLE[:-1] + chr(ord(_READABLE[-1]) + 1)
        if self._db.row("SELECT 1 FROM slots WHERE slot >= ? AND slot < ? LIMIT 1", _READABLE, end) is None:
            return []
        return [slot for (slot,) in self._db.rows(_ORPHANS)]


# ── Rows of the log ─────────────────────────────────────────────────────────────────────
# The sealed log entries that are in no page yet, one row each; the ledger cannot read them.
#
# A page is signed when it is full, or after a pause; an entry is durable at once, as a row. The row is removed only
# after a page with the entry is durable. A kill between the two leaves the entry in both, and readers count it once.

LOG_KEY: Final = "log_key"


class LogRows(SealedKey):
    """The log rows of a ledger; true if there are any.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        super().__init__(db, LOG_KEY)

    def add(self, bodies: Iterable[bytes]) -> None:
        """Append sealed entries, in order."""
        with self._db.transaction():
            self._db.execute_many("INSERT INTO log_rows (body) VALUES (?)", [(body,) for body in bodies])

    def __bool__(self) -> bool:
        return self._db.row("SELECT 1 FROM log_rows LIMIT 1") is not None

    def last(self) -> int:
        """The number of the last row; 0 if there is none."""
        (row,) = self._db.row("SELECT max(row) FROM log_rows") or (None,)
        return row or 0

    def __len__(self) -> int:
        (count,) = self._db.row("SELECT count(*) FROM log_rows") or (0,)
        return int(count)

    def after(self, row: int) -> list[tuple[int, bytes]]:
        """The number and the sealed entry of every row after row `row` (0 for all), in order."""
        return self._db.rows("SELECT row, body FROM log_rows WHERE row > ? ORDER BY row", row)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows whose entries are now in pages."""
        with self._db.transaction():
            self._db.execute_many("DELETE FROM log_rows WHERE row = ?", [(row,) for row in rows])
