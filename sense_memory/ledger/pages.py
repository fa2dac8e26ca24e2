"""Larger pages for a ledger file that was made with small ones.

Of the 4 KB pages that SQLite makes by default each holds one event of a memory of 1 KB, and is half empty. A file
is rebuilt where it lies: a copy with larger pages is made beside it, checked, and copied over it in one transaction
of SQLite, which a crash rolls back; so the file is the old one or the new one at every moment, under the same name
and on the same inode. Meanwhile SQLite's exclusive lock keeps everybody else out: whoever has the file open already
keeps us from beginning, and whoever comes later waits. It takes half a second for 100 MB, and that much room twice.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.files import unfinished
from sense_memory.limits import MAX_REBUILT_BYTES, PAGE_BYTES


if TYPE_CHECKING:
    from pathlib import Path

_SPARE: Final = 3  # times the file's size that has to be free: a copy, SQLite's journal, and as much again


def is_worth_enlarging(path: Path, page_bytes: int) -> bool:
    """Whether a file has small pages, is not so long that others would wait too long, and has room beside it."""
    if page_bytes >= PAGE_BYTES:
        return False
    try:
        size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    except OSError:
        return False
    return size <= MAX_REBUILT_BYTES and free >= _SPARE * size


def enlarge(path: Path) -> None:
    """Rebuild a ledger file with pages of `PAGE_BYTES`, if nobody has it open; where that fails, it stays as it is.

    No connection of this process may be open to it.
    """
    with (
        suppress(OSError, sqlite3.Error),  # what was there is as good
        unfinished(path) as temporary,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as ledger,
    ):
        for pragma in ("synchronous=FULL", "secure_delete=ON", "locking_mode=EXCLUSIVE"):
            ledger.execute(f"PRAGMA {pragma}")
        ledger.execute("PRAGMA journal_mode=DELETE")  # takes the lock; fails where somebody has the file open
        ledger.execute(f"PRAGMA page_size={PAGE_BYTES}")
        ledger.execute("VACUUM INTO ?", (str(temporary),))
        with closing(sqlite3.connect(temporary)) as copy:
            if copy.execute("PRAGMA quick_check").fetchone() == ("ok",):
                copy.backup(ledger)
