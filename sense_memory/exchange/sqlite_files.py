"""Reading the SQLite file of another program: a copy is opened, so that file and program are never touched.

The file comes from elsewhere, so it is not trusted: only plain tables are read, no extension is loaded, and a
query of more than `MAX_STEPS` ends. What another program has not yet moved from its write-ahead log into the file is read
too, if the log lies beside the file.
"""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput
from sense_memory.exchange.import_files import SQLITE_COMPANIONS, copy_source


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sense_memory.exchange.import_files import Source, SourceFiles

MAX_STEPS: Final = (
    2_000_000_000  # of SQLite's machine, for one file: some two minutes; a drawer needs about 300
)
_STEPS: Final = 100_000  # between two looks at the count
_DAMAGED: Final = "cannot be read as SQLite ({}); if its program is running, end it and import again; otherwise the file is damaged"


class SqliteFile:
    """An open copy of a SQLite file.

    Args:
        connection: of the copy.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        self._tables = {str(name) for name, sql in found if not _is_virtual(str(sql))}

    def has(self, *tables: str) -> bool:
        """Whether the file has all of these tables; views and virtual tables do not count."""
        return self._tables.issuperset(tables)

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, one by one. Text that is not UTF-8 has lone surrogates, which an import plan refuses.

        Raises:
            InvalidInput: the file is damaged, or the query takes too long.
        """
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise _problem(error) from None


def _is_virtual(sql: str) -> bool:
    return sql.lstrip().upper().startswith("CREATE VIRTUAL")


@contextmanager
def opened(source: Source, files: SourceFiles) -> Iterator[SqliteFile]:
    """Open a copy of a SQLite file; the copy is in a private folder, and is removed at the end.

    Args:
        source: the file.
        files: the files beside it, for its write-ahead log.

    Raises:
        InvalidInput: the file cannot be read, or is too large or damaged.
    """
    with tempfile.TemporaryDirectory(prefix="sense-memory-") as folder:
        copy = Path(folder) / "copy.sqlite3"
        copy_source(source, copy)
        names = {f"{source.name}{suffix}": suffix for suffix in SQLITE_COMPANIONS}
        for beside in files.sources:
            if beside.name in names:
                copy_source(beside, Path(f"{copy}{names[beside.name]}"))
        try:
            with closing(sqlite3.connect(copy)) as connection:
                _harden(connection)
                yield SqliteFile(connection)
        except sqlite3.Error as error:
            raise _problem(error) from None


def _problem(error: sqlite3.Error) -> InvalidInput:
    is_late = "interrupted" in str(error)
    return InvalidInput(
        f"takes more than {MAX_STEPS:,} steps of SQLite to read" if is_late else _DAMAGED.format(error)
    )


def _harden(connection: sqlite3.Connection) -> None:
    turns = itertools.count(1)
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    connection.set_progress_handler(lambda: next(turns) * _STEPS > MAX_STEPS, _STEPS)
    for pragma in ("cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")
