"""File locks, the checks of a ledger's folder, and the unfinished files beside a ledger.

An unsafe folder or file is refused with the remedy, and left as it is. A process that is killed while it writes a new
ledger or a copy leaves an unfinished file behind, which the next process that opens the ledger removes. The file is
locked while its process lives, because the system releases the lock when the process ends.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.errors import UnsafeFile
from sense_memory.operating_system import IS_WINDOWS, is_own_group, lock, open_plain, unlock, user_number


if TYPE_CHECKING:
    from collections.abc import Iterator


# ── File lock ───────────────────────────────────────────────────────────────────────────
# A lock between processes, on a file of its own. The system releases the lock when its process ends, however it ends.


class FileLock:
    """One holder of a lock between processes. No call waits.

    Args:
        path: the lock file, created when the lock is first acquired; None for a ledger that no other process can open.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self, *, shared: bool = False) -> bool:
        """Acquire the lock, exclusively or `shared` with other holders; returns whether that was possible.

        Raises:
            OSError: the lock file could not be opened or created.
        """
        if self._path is None:
            return True
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return lock(self._file, shared=shared)

    def release(self) -> None:
        """Release the lock."""
        if self._file is not None:
            unlock(self._file)

    def close(self) -> None:
        """Release the lock and close its file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_SUFFIX: Final = ".new"
_is_rest_of_name: Final = re.compile(
    rf"[a-z0-9_]{{8}}{re.escape(_SUFFIX)}"
).fullmatch  # what `mkstemp` makes up
_SIDES: Final = ("-journal", "-wal", "-shm")  # endings of the files that SQLite keeps beside a database


def private_place(path: Path) -> None:
    """Make the folder of a ledger if it is missing; refuse a path that could lead to another user's file.

    Raises:
        UnsafeFile: the folder or the file is a symbolic link, or others may write to the folder.
        OSError: the folder cannot be made.
    """
    folder = path.parent
    if folder.is_symlink():
        raise UnsafeFile(f"{folder} is a symbolic link; name the real folder of the ledger")
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    _refuse_open_folder(folder)
    if path.is_symlink():
        raise UnsafeFile(f"{path} is a symbolic link; name the real ledger file")


# ── Unfinished files ────────────────────────────────────────────────────────────────────


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """An empty file beside a ledger, mode 0600, to be moved or linked into place when complete.

    The file is locked inside the block, and removed at the end.
    """
    descriptor, temporary = _begin(path)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def sweep(path: Path) -> None:
    """Remove the unfinished files that dead processes left beside a ledger.

    A hard link to the ledger itself is removed without being opened, because closing it would release the locks that
    SQLite holds on the ledger in this process.
    """
    start = f".{path.name}."
    with suppress(OSError):  # an unfinished file does no harm
        for name in os.listdir(path.parent):  # noqa: PTH208 - paths take five times as long
            if not name.startswith(start) or not _is_rest_of_name(name[len(start) :]):
                continue
            other = path.parent / name
            if not stat.S_ISREG(other.lstat().st_mode):
                continue
            if path.exists() and other.samefile(path):
                other.unlink(missing_ok=True)
            else:
                remove_if_abandoned(other)


def _begin(path: Path) -> tuple[int, Path]:
    while True:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
        with suppress(OSError):  # on a file system without locks, other processes cannot sweep either
            lock(descriptor, waits=True)
        if os.fstat(descriptor).st_nlink:
            return descriptor, Path(name)
        os.close(descriptor)  # another process swept the file before it was locked


def remove_if_abandoned(other: Path) -> None:
    """Remove an unfinished file, unless a live process holds its lock.

    Raises:
        OSError: the file cannot be opened or removed.
    """
    descriptor = open_plain(other)
    try:
        with suppress(OSError):
            if lock(descriptor):  # otherwise a live process is writing the file
                for side in (*_SIDES, ""):
                    Path(f"{other}{side}").unlink(missing_ok=True)
    finally:
        os.close(descriptor)


# ── Who may write to the folder ─────────────────────────────────────────────────────────


def _refuse_open_folder(folder: Path) -> None:
    """Refuse a folder to which others may write: they could replace the ledger, or remove it."""
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if (
        IS_WINDOWS or not mode & 0o022 or mode & stat.S_ISVTX
    ):  # a sticky folder such as /tmp: nobody can replace another user's file
        return
    if not mode & 0o002 and status.st_uid == user_number() and is_own_group(status.st_gid):
        return
    raise UnsafeFile(
        f"others may write to {folder} (mode {mode:04o}), and could replace the ledger; run `chmod go-w {shlex.quote(str(folder))}`"
    )
