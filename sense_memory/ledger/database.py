"""The SQLite file under the ledger: opening, schema and migrations, transactions, permissions, the lock.

Guaranteed: a transaction is durable or undone, several processes may share the file, and no other task or process sees
half of a change.

Why it is safe: writes are short `BEGIN IMMEDIATE` transactions, which never wait or await once they have begun.
Automatic checkpoints are off: only the holder of the publisher's lock runs a checkpoint, and never while a process
writes. SQLite up to 3.51.2 can damage a file if a checkpoint runs while a writer restarts the WAL, and a `TRUNCATE`
checkpoint may run beside a writer (sqlite.org/wal.html, "the WAL-reset bug"). So writers share a second lock, which a
checkpoint takes exclusively.

Cost: the second lock takes two system calls for each write; most users of Python cannot update SQLite instead. `write`
never blocks the event loop while another process writes: it sleeps between attempts, and may be cancelled there. A call
that cannot await blocks for at most `patience` seconds.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shlex
import shutil
import sqlite3
import stat
import time
from contextlib import closing, contextmanager, suppress
from glob import escape as glob_escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from sense_memory.errors import (
    InvalidInput,
    LedgerBusy,
    LedgerCorrupt,
    LedgerError,
    LedgerTooNew,
    SenseMemoryError,
    StorageFullError,
    StoreClosed,
    WrongKeyError,
)
from sense_memory.ledger.files import FileLock, private_place, sweep, unfinished
from sense_memory.ledger.schema import APPLICATION_ID, MIGRATIONS, VERSION, fill, statements
from sense_memory.limits import (
    BUSY_FIRST_SECONDS,
    BUSY_PAUSE_SECONDS,
    BUSY_SECONDS,
    MAX_REBUILT_BYTES,
    MAX_VARIABLES_COUNT,
    MAX_WAL_BYTES,
    PAGE_BYTES,
)
from sense_memory.nostr.event import is_hex64
from sense_memory.nostr.keys import npub


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


# ── Pages ───────────────────────────────────────────────────────────────────────────────
# Rebuilding a ledger file with larger pages.
#
# A page of SQLite's default 4 KB holds one event of a memory of 1 KB, and is half empty. The file is rebuilt in
# place: a copy with larger pages is made beside the file, checked, and copied over the file in one SQLite
# transaction, which a crash rolls back. So the file is always either the old or the new one, under the same name and
# on the same inode. SQLite's exclusive lock keeps other processes out: the rebuild does not begin while another
# process has the file open, and a process that opens the file during the rebuild waits. 100 MB take half a second,
# and 200 MB of free space.

_SPARE: Final = 3  # times the file's size that must be free: the copy, SQLite's journal, and a reserve


def is_worth_enlarging(path: Path, page_bytes: int) -> bool:
    """Whether a file has small pages, is small enough to be rebuilt while others wait, and leaves enough free space."""
    if page_bytes >= PAGE_BYTES:
        return False
    try:
        size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    except OSError:
        return False
    return size <= MAX_REBUILT_BYTES and free >= _SPARE * size


def enlarge(path: Path) -> None:
    """Rebuild a ledger file with pages of `PAGE_BYTES`, if nobody has the file open; a failure changes nothing.

    This process must have no open connection to the file.
    """
    with (
        suppress(OSError, sqlite3.Error),  # a file with small pages works as well
        unfinished(path) as temporary,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as ledger,
    ):
        for pragma in ("synchronous=FULL", "secure_delete=ON", "locking_mode=EXCLUSIVE"):
            ledger.execute(f"PRAGMA {pragma}")
        ledger.execute("PRAGMA journal_mode=DELETE")  # takes the lock; fails while another connection is open
        ledger.execute(f"PRAGMA page_size={PAGE_BYTES}")
        ledger.execute("VACUUM INTO ?", (str(temporary),))
        with closing(sqlite3.connect(temporary)) as copy:
            if copy.execute("PRAGMA quick_check").fetchone() == ("ok",):
                copy.backup(ledger)


MEMORY: Final = ":memory:"
SCENE_LEDGER: Final = ".scene-"  # in the name of the ledger of a scene, which lies beside the agent's own
_MAGIC: Final = b"SQLite format 3\x00"
_LOCKS: Final = ("lock", "writers")  # suffixes of the lock files
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Database:
    """One open connection to a ledger file of one owner.

    Args:
        path: the file, or ":memory:".
        owner: the public key whose ledger this is, 64 hex digits.
        patience: how many seconds a call blocks at most while another process writes; may be changed.

    Raises:
        LedgerBusy: another process writes for longer than `patience`.
        WrongKeyError: the file belongs to another key.
        LedgerCorrupt: the file is not a ledger, is empty, or is damaged.
        LedgerTooNew: a newer version of sense-memory wrote the file.
        UnsafeFile: the folder is a symbolic link, or others may write to the folder.
        LedgerError: the file cannot be opened or created.
    """

    def __init__(self, path: str | Path, owner: str, patience: float = BUSY_SECONDS) -> None:
        # Absolute, because a program may change its working directory while a ledger is open.
        self.path: Path | None = None if str(path) == MEMORY else Path(path).absolute()
        self.patience = patience
        self._publisher, self._writers = (
            FileLock(self.path and self.path.with_name(f"{self.path.name}.{name}")) for name in _LOCKS
        )
        self._lock_depth = 0
        try:
            if self.path is not None:
                _prepare_file(self.path, owner)
            self._connection = _connected(self.path or path)
            self._inode = _inode(self.path)
        except (OSError, sqlite3.Error) as error:
            raise _translated(error, self.path) from error
        try:
            self._set_up(owner)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection, after trying a checkpoint so that no WAL is left behind."""
        with suppress(StoreClosed):
            self.checkpoint()
        self._connection.close()
        self._publisher.close()
        self._writers.close()

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Every row of a query."""
        return self._retried(lambda: self._connection.execute(sql, _bound(sql, values)).fetchall())

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        found: tuple[Any, ...] | None = self._retried(
            lambda: self._connection.execute(sql, _bound(sql, values)).fetchone()
        )
        return found

    def rows_in(self, sql: str, values: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Every row of a query that ends with `IN `, for any number of values."""
        rest = iter(values)
        while part := tuple(itertools.islice(rest, MAX_VARIABLES_COUNT)):
            yield from self.rows(f"{sql}({', '.join('?' * len(part))})", *part)

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        """One statement; a statement that writes belongs inside `transaction()`."""
        return self._retried(lambda: self._connection.execute(sql, _bound(sql, values)))

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """One statement for each row of values, inside `transaction()`; costs a third of as many `execute` calls."""
        try:
            self._connection.executemany(sql, (_bound(sql, row) for row in rows))
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error

    async def write(self, change: Callable[_P, _T], *values: _P.args, **options: _P.kwargs) -> _T:
        """Make a change in one transaction: whole or, if it raises, not at all. Other tasks run while this task waits.

        Args:
            change: a function that uses this ledger; all transactions in the function become parts of this one.
            *values: its positional arguments.
            **options: its keyword arguments.

        Raises:
            LedgerBusy: another process writes for longer than `limits.BUSY_SECONDS`.
        """
        now = asyncio.get_running_loop().time
        deadline, pause = now() + BUSY_SECONDS, BUSY_FIRST_SECONDS
        while not self._begin():
            if now() > deadline:
                raise LedgerBusy(self.path)
            await asyncio.sleep(pause)
            pause = min(2 * pause, BUSY_PAUSE_SECONDS)
        with self._committed():
            return change(*values, **options)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A write transaction: committed at the end, rolled back on any error. Never await inside it.

        A transaction inside another is a part of the outer transaction. If the outer code catches an error of the
        inner part, only the inner part is undone.
        """
        if self.in_transaction:
            with self._part():
                yield
            return
        if not self._begin():
            self._wait_to_begin()
        with self._committed():
            yield

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Inside this block, a call raises LedgerBusy at once instead of waiting for another process that writes."""
        patience, self.patience = self.patience, 0.0
        try:
            yield
        finally:
            self.patience = patience

    @property
    def is_in_place(self) -> bool:
        """Whether the file at the path is the one that was opened, and was neither deleted nor replaced since."""
        return self._inode == _inode(self.path)

    def _begin(self) -> bool:
        """Begin to write, if no other process writes or runs a checkpoint."""
        try:
            if not self._writers.acquire(shared=True):
                return False
            self._connection.execute("BEGIN IMMEDIATE")
        except (OSError, sqlite3.Error) as error:
            self._writers.release()
            if isinstance(error, sqlite3.Error) and _is_busy(error):
                return False
            raise _translated(error, self.path) from error
        if not self.is_in_place:
            self._connection.execute("ROLLBACK")
            self._writers.release()
            raise LedgerError(
                f"{self.path} was deleted or replaced while it was open; this change was not written; close the store and open it again, or put the file back"
            )
        return True

    def _wait_to_begin(self) -> None:
        deadline = time.monotonic() + self.patience
        while not self._begin():
            if time.monotonic() > deadline:
                raise LedgerBusy(self.path)
            time.sleep(BUSY_FIRST_SECONDS)

    @contextmanager
    def _part(self) -> Iterator[None]:
        self.execute("SAVEPOINT part")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk ends the whole transaction
                self.execute("ROLLBACK TO part")
                self.execute("RELEASE part")
            raise
        self.execute("RELEASE part")

    @contextmanager
    def _committed(self) -> Iterator[None]:
        """Commit the begun transaction at the end of the block; roll it back on any error."""
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self.execute("ROLLBACK")
            raise
        finally:
            self._writers.release()
        if self._wal_bytes() > MAX_WAL_BYTES:
            self.checkpoint()

    def _retried(self, attempt: Callable[[], _T]) -> _T:
        """Run a statement; wait while another connection recovers or closes the file, which is rare and short."""
        deadline = 0.0
        while True:
            try:
                return attempt()
            except (sqlite3.Error, UnicodeDecodeError) as error:  # UnicodeDecodeError: a damaged text
                now = time.monotonic()
                deadline = deadline or now + self.patience
                if not _is_busy(error) or now > deadline:
                    raise _translated(error, self.path) from error
            time.sleep(BUSY_FIRST_SECONDS)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; always False between calls."""
        return self._retried(lambda: self._connection.in_transaction)

    def version(self) -> tuple[int, int]:
        """A version of the file: while it stays the same, neither this connection nor another has changed anything."""
        (others,) = self.row("PRAGMA data_version") or (0,)
        return int(others), self._connection.total_changes

    def integrity(self) -> list[str]:
        """The faults that SQLite finds in the file; empty for a sound file."""
        found = [str(row[0]) for row in self.rows("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def try_lock(self) -> bool:
        """Acquire the publisher's lock without waiting, re-entrantly; False if another process holds the lock."""
        if not self._lock_depth:
            try:
                if not self._publisher.acquire():
                    return False
            except OSError:
                return False
        self._lock_depth += 1
        return True

    def unlock(self) -> None:
        """Release the publisher's lock, once for each successful `try_lock`."""
        self._lock_depth -= 1
        if self._lock_depth == 0:
            self._publisher.release()

    def checkpoint(self) -> bool:
        """Fold the WAL into the file and truncate it, if no other process publishes or writes; returns success."""
        if self.path is None or self.in_transaction or not self.try_lock():
            return False
        try:
            alone = self._writers.acquire()
            return alone and bool(self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0)
        except (
            LedgerError,
            OSError,
        ):  # a reader is busy, or the disk is full: the WAL stays, and nothing is lost
            return False
        finally:
            self._writers.release()
            self.unlock()

    def backups(self) -> list[Path]:
        """The copies that migrations made of the file."""
        return (
            []
            if self.path is None
            else sorted(self.path.parent.glob(f"{glob_escape(self.path.name)}.schema-*"))
        )

    def _wal_bytes(self) -> int:
        try:
            return 0 if self.path is None else os.stat(f"{self.path}-wal").st_size  # noqa: PTH116 - on each commit
        except OSError:
            return 0

    def _set_up(self, owner: str) -> None:
        """Check the file before the first write, so that a foreign file stays unchanged; then configure and migrate it."""
        if self.path is None:
            fill(self._connection, MIGRATIONS, owner)
        self._check_file()
        if self._version():
            self._check_owner(owner)
            self._enlarge_pages()
        if self.path is not None and stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            self.path.chmod(0o600)
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
            self.execute(f"PRAGMA {pragma}")
        if self._version() < VERSION:
            self._migrate(owner)
            self._check_owner(owner)

    def _enlarge_pages(self) -> None:
        """Rebuild a file of an earlier version with the page size of a new file, if that is possible now."""
        (page_bytes,) = self.row("PRAGMA page_size") or (PAGE_BYTES,)
        if self.path is None or not is_worth_enlarging(self.path, page_bytes) or not self.try_lock():
            return
        try:
            self._connection.close()
            enlarge(self.path)
            self._connection = _connected(self.path)
        finally:
            self.unlock()

    def _check_file(self) -> None:
        """Refuse a file of another program, or of a newer version of sense-memory."""
        (application,) = self.row("PRAGMA application_id") or (0,)
        if self.path is not None and application != APPLICATION_ID:
            raise LedgerCorrupt(
                f"{self.path} is a SQLite file of another program; it was not touched; use another ledger file"
            )
        version = self._version()
        if version > VERSION:
            raise LedgerTooNew(
                f"a newer version wrote {self.path} (schema {version}, this version knows {VERSION}); the file was not touched; upgrade sense-memory"
            )

    def _version(self) -> int:
        (version,) = self.row("PRAGMA user_version") or (0,)
        return int(version)

    def _migrate(self, owner: str) -> None:
        """Bring the schema up to date, unless another process did so while this process waited."""
        version = self._version()
        if 0 < version < VERSION and self.path is not None:
            self._back_up(self.path, version)
        with self.transaction():
            for statement in statements(MIGRATIONS, self._version()):
                self.execute(statement)
            self.execute("INSERT OR IGNORE INTO meta VALUES ('owner', ?)", owner)

    def _back_up(self, path: Path, version: int) -> None:
        """Copy the whole file, with mode 0600; the copy replaces an older copy of the same version."""
        try:
            with unfinished(path) as temporary:
                with closing(sqlite3.connect(temporary)) as copy:
                    self._connection.backup(copy)
                temporary.replace(f"{path}.schema-{version}")
        except (OSError, sqlite3.Error) as error:
            raise _translated(error, path) from error

    def _check_owner(self, owner: str) -> None:
        (found,) = self.row("SELECT value FROM meta WHERE name = 'owner'") or ("",)
        if not is_hex64(found):
            raise LedgerCorrupt(
                f"{_move_aside(self.path)}: the file does not say whose ledger it is; it was left as it is"
            )
        if found != owner:
            raise WrongKeyError(npub(found), npub(owner))


def remedy(path: Path | None) -> str:
    """What to do about a damaged ledger, to begin an error with. `doctor --rescue` replaces no ledger of a scene."""
    if path is not None and SCENE_LEDGER in path.name:
        return _move_aside(path)
    option = "" if path is None or _is_by_itself(path) else f" --ledger {shlex.quote(str(path))}"
    return f"run `sense-memory{option} doctor --rescue`, which saves what can still be read, or {_move_aside(path)}"


def _is_by_itself(path: Path) -> bool:
    """Whether an agent uses this file without being told to: by its own npub, in the data folder."""
    return path.parent.name == "ledgers" and path.name.startswith("npub1")


def refuse_foreign(path: Path) -> None:
    """Refuse a file that never was a ledger: no SQLite file, or one of another program. A file of zeros may be damaged.

    Raises:
        InvalidInput: such a file, or a file that cannot be read.
    """
    try:
        head = _head(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}); nothing was changed") from None
    if not _is_sqlite(head):
        raise InvalidInput(f"{_other_file(path)}: {path} is not a ledger; it was not touched")
    if head.startswith(_MAGIC) and int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise InvalidInput(
            f"{path} is the database of another program; it was not touched; use another ledger file"
        )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)


def _is_sqlite(head: bytes) -> bool:
    """Whether a file that begins so is, or was before it was truncated or zeroed, a SQLite file."""
    return head[: len(_MAGIC)] == _MAGIC[: len(head)] or not head.strip(b"\0")


def _other_file(path: Path) -> str:
    is_given = not _is_by_itself(path) and SCENE_LEDGER not in path.name
    return "use another ledger file" if is_given else _move_aside(path)


def _move_aside(path: Path | None) -> str:
    """A log that is left behind would be written into the new file."""
    return f"move {path or 'the ledger'} aside, with its files -wal and -shm, and sync to restore from relays"


def _connected(path: str | Path) -> sqlite3.Connection:
    """A connection that never waits in SQLite, because `Database` does all the waiting."""
    return sqlite3.connect(str(path), timeout=0, isolation_level=None, cached_statements=256)


def open_damaged(path: Path) -> sqlite3.Connection:
    """Open a file read-only, without checking what it contains; also a file whose end is cut off."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.execute("PRAGMA writable_schema=ON")  # else SQLite reads nothing of a file that is too short
    return connection


def _prepare_file(path: Path, owner: str) -> None:
    """Create the folder and the ledger file if they are missing; refuse an unsafe folder or an empty file."""
    private_place(path)
    sweep(path)
    if not path.exists():
        _create_file(path, owner)
    elif path.stat().st_size == 0:
        raise LedgerCorrupt(
            f"{remedy(path)}: the file is empty, and a ledger never is, so something has truncated it; it was not touched"
        )


def _create_file(path: Path, owner: str) -> None:
    """Create an empty ledger, mode 0600, which gets its name only when it is complete."""
    with unfinished(path) as temporary:
        with closing(_connected(temporary)) as fresh:
            fresh.execute(f"PRAGMA page_size={PAGE_BYTES}")  # before the first page, which fixes the size
            fresh.execute("PRAGMA synchronous=OFF")
            fresh.execute("PRAGMA journal_mode=OFF")
            fill(fresh, MIGRATIONS, owner)
            fresh.execute("PRAGMA synchronous=FULL")  # the next write flushes itself and all writes before it
            fresh.execute("PRAGMA journal_mode=WAL")
        with suppress(FileExistsError):  # another process created a ledger first: use its file
            os.link(temporary, path)


def _bound(sql: str, values: Sequence[Any]) -> Sequence[Any] | dict[str, Any]:
    """Values for a statement; by name for `?1`, because Python 3.12.0 to 3.12.3 take numbers for names."""
    return {str(number): value for number, value in enumerate(values, 1)} if "?1" in sql else values


def _inode(path: Path | None) -> tuple[int, int] | None:
    """Device and inode of the file at a path; None for a ledger in memory, or if the file is gone."""
    try:
        status = None if path is None else os.stat(path)  # noqa: PTH116 - on each write
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _translated(error: sqlite3.Error | OSError | UnicodeDecodeError, path: Path | None) -> SenseMemoryError:
    """The error of this package for an error of SQLite or the operating system."""
    where = path or "the ledger in memory"
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return StoreClosed()
    if isinstance(error, OSError):
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        code = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_CANTOPEN
    elif "decode" in str(error):  # damaged text: SQLite returns it, Python refuses it
        code = sqlite3.SQLITE_CORRUPT
    else:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
            return StorageFullError(
                f"free some space and try again: {where} could not be written (disk full or failing); the change was "
                "rolled back, and nothing was sent"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            with suppress(OSError):
                if path is not None and not _is_sqlite(_head(path)):
                    return LedgerCorrupt(f"{_other_file(path)}: {path} is not a ledger; it was left as it is")
            return LedgerCorrupt(f"{remedy(path)}: {where} is damaged; it was left as it is")
        case sqlite3.SQLITE_BUSY:
            return LedgerBusy(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            if path is not None and os.path.isdir(path):  # noqa: PTH112 - a name may be too long
                return LedgerError(f"{path} is a folder and cannot be opened as a ledger; name a file")
            return LedgerError(
                f"{where} cannot be opened for writing ({error}); this change was not written; make sure that you own the file and its folder"
            )
    return LedgerError(f"{where} could not be used ({error}); this change was not written")
