"""The SQLite file under the ledger: opening, schema and migrations, transactions, permissions, the lock.

Several processes share the file. Writes are short `BEGIN IMMEDIATE` transactions; automatic checkpoints
are off and only the holder of the lock file runs them, because SQLite before 3.51.3 can corrupt a WAL
that two connections reset at once.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import (
    LedgerCorrupt,
    LedgerError,
    LedgerTooNew,
    StorageFullError,
    UnsafeKeyFile,
    WrongKeyError,
)
from sense_memory.limits import BUSY_SECONDS
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = ":memory:"
APPLICATION_ID: Final = 0x53454E53  # "SENS"

# Each entry migrates from the version of its index; the file's version is the number applied.
MIGRATIONS: Final = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id BLOB NOT NULL UNIQUE,
      slot TEXT NOT NULL,
      kind INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      role INTEGER NOT NULL,
      quarantined INTEGER NOT NULL DEFAULT 0,
      body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX events_by_slot ON events (slot, created_at);
    CREATE INDEX events_by_second ON events (created_at);
    CREATE INDEX events_of_journal ON events (created_at) WHERE kind = 4 AND quarantined = 0;
    CREATE INDEX events_in_quarantine ON events (created_at) WHERE quarantined = 1;
    CREATE TABLE slots (
      slot TEXT PRIMARY KEY,
      mark_at INTEGER NOT NULL,
      mark_id BLOB NOT NULL,
      head INTEGER REFERENCES events (seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE deletions (
      target TEXT PRIMARY KEY,
      until INTEGER NOT NULL,
      by_event BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE relays (
      relay INTEGER PRIMARY KEY,
      url TEXT NOT NULL UNIQUE,
      cursor INTEGER,
      completed_at REAL,
      swept_at REAL,
      filled_to INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE outbox (
      relay INTEGER NOT NULL REFERENCES relays (relay) ON DELETE CASCADE,
      event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
      state TEXT NOT NULL,
      reason TEXT NOT NULL DEFAULT '',
      tries INTEGER NOT NULL DEFAULT 0,
      first_try_at REAL,
      due_at REAL NOT NULL,
      seen_at REAL,
      PRIMARY KEY (relay, event)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX outbox_of_event ON outbox (event);
    CREATE INDEX outbox_waiting ON outbox (relay, due_at) WHERE state = 'queued';
    CREATE TABLE access (
      slot TEXT PRIMARY KEY,
      last_at REAL NOT NULL,
      count INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
)
VERSION: Final = len(MIGRATIONS)


class Database:
    """One open connection to a ledger file of one owner.

    Args:
        path: the file, or ":memory:".
        owner: the public key whose ledger this is, 64 hex digits.

    Raises:
        WrongKeyError: the file belongs to another key.
        LedgerCorrupt: not a ledger, empty where it should not be, or damaged.
        LedgerTooNew: written by a newer version.
        UnsafeKeyFile: the folder is a symbolic link or others may write to it.
    """

    def __init__(self, path: str | Path, owner: str) -> None:
        self.path: Path | None = None if str(path) == MEMORY else Path(path)
        self._lock_file: int | None = None
        self._lock_depth = 0
        if self.path is not None:
            _prepare_file(self.path)
        with _translated(self.path):
            self._connection = sqlite3.connect(
                str(path), timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256
            )
        try:
            with _translated(self.path):
                self._set_up(owner)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection; a checkpoint is tried first so that the WAL does not outlive us."""
        self.checkpoint()
        self._connection.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Every row of a query."""
        with _translated(self.path):
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        with _translated(self.path):
            found: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
            return found

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """One statement; call it inside `transaction()` when it writes."""
        with _translated(self.path):
            return self._connection.execute(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction: committed at the end, rolled back on any error. Never held over an await."""
        with _translated(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; always False between calls."""
        return self._connection.in_transaction

    def integrity(self) -> list[str]:
        """What SQLite finds wrong with the file; empty when it is sound."""
        found = [str(row[0]) for row in self.rows("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def try_lock(self) -> bool:
        """Take the publisher's lock without waiting; re-entrant in this process. False: another has it."""
        if self.path is None or self._lock_depth:
            self._lock_depth += 1
            return True
        if self._lock_file is None:
            self._lock_file = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self._lock_depth = 1
        return True

    def unlock(self) -> None:
        """Give the publisher's lock back, once per successful `try_lock`."""
        self._lock_depth -= 1
        if self._lock_depth == 0 and self._lock_file is not None:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)

    def checkpoint(self) -> None:
        """Fold the WAL into the file and truncate it, if nobody else holds the lock."""
        if self.path is None or not self.try_lock():
            return
        try:
            with _translated(self.path):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except LedgerError:
            pass  # a reader was busy, or the disk is full: the WAL stays and is as safe as before
        finally:
            self.unlock()

    def _set_up(self, owner: str) -> None:
        run = self._connection.execute
        for pragma in (
            "trusted_schema=OFF",
            "foreign_keys=ON",
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            "wal_autocheckpoint=0",
            "mmap_size=0",
            "temp_store=MEMORY",
        ):
            run(f"PRAGMA {pragma}")
        version = self._checked_version()
        if version < VERSION:
            self._migrate()
        self._check_owner(owner)

    def _checked_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if application not in {APPLICATION_ID, 0} or (application == 0 and tables):
            raise LedgerCorrupt(f"{self.path} is a SQLite file of another program; it was not touched.")
        if version > VERSION:
            raise LedgerTooNew(
                f"{self.path} was written by a newer sense-memory (schema {version}, this one knows "
                f"{VERSION}); it was not touched. Upgrade sense-memory."
            )
        return int(version)

    def _migrate(self) -> None:
        """Bring the schema up to date; another process may have done it while we waited."""
        with self.transaction():
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            for script in MIGRATIONS[version:]:
                for statement in script.split(";"):
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version={VERSION}")

    def _check_owner(self, owner: str) -> None:
        asked = "SELECT value FROM meta WHERE name = 'owner'"
        found = self._connection.execute(asked).fetchone()
        if found is None:
            self._connection.execute("INSERT OR IGNORE INTO meta VALUES ('owner', ?)", (owner,))
            found = self._connection.execute(asked).fetchone()
        if found[0] != owner:
            raise WrongKeyError(npub(found[0]), npub(owner))


def _prepare_file(path: Path) -> None:
    """The folder 0700 and the file 0600; what others could change is refused with the remedy."""
    folder = path.parent
    if folder.is_symlink():
        raise UnsafeKeyFile(f"{folder} is a symbolic link; name the real folder of the ledger instead.")
    if not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) & 0o022 and not folder.stat().st_mode & stat.S_ISVTX:
        raise UnsafeKeyFile(f"others may write to {folder}; run `chmod 700 {folder}` first.")
    if path.is_symlink():
        raise UnsafeKeyFile(f"{path} is a symbolic link; name the real ledger file instead.")
    if path.exists():
        if path.stat().st_size == 0 and not Path(f"{path}-wal").exists():
            raise LedgerCorrupt(
                f"{path} is empty. A ledger is never empty, so something truncated it; it was not touched. "
                "Move it aside and sync to restore from relays."
            )
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    fresh = sqlite3.connect(temporary)
    fresh.execute(f"PRAGMA application_id={APPLICATION_ID}")
    fresh.execute("PRAGMA journal_mode=WAL")
    fresh.close()
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass  # another process made it first: that one is as good
    finally:
        temporary.unlink()


@contextmanager
def _translated(path: Path | None) -> Iterator[None]:
    """SQLite's errors as ours."""
    where = path or "the ledger in memory"
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & 0xFF if code is not None else None
        if primary in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise StorageFullError(
                f"{where} could not be written (disk full or failing); the change was rolled back and "
                "nothing was sent. Free some space and try again."
            ) from None
        if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise LedgerCorrupt(
                f"{where} is damaged; it was left as it is. Move it aside and sync to restore from relays."
            ) from None
        if primary == sqlite3.SQLITE_BUSY:
            raise LedgerError(
                f"{where} is held by another process for more than {BUSY_SECONDS:.0f} s; nothing was "
                "written. Try again, or end that process."
            ) from None
        raise LedgerError(f"{where} could not be used ({type(error).__name__})") from error
