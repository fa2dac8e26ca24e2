"""A lock between processes, on a file of its own; it is gone when its holder is, however that ends."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from pathlib import Path


class FileLock:
    """One holder of a lock. Nothing here waits.

    Args:
        path: the file, which is made when the lock is first taken; None where no other process can come.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: int | None = None

    def take(self, *, shared: bool = False) -> bool:
        """Take the lock, for this holder alone or beside others who share it; whether it was free for that.

        Raises:
            OSError: there is no file to lock, and none could be made.
        """
        if self._path is None:
            return True
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def give_back(self) -> None:
        """Let others have it."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give it back for good."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
