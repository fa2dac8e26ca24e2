"""A damaged ledger: moved aside, never deleted, and read row by row for what it still gives.

Nothing that is read here is believed: whoever files it verifies it first. Rows that cannot be read are
counted; relays restore the rest.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidInput, LedgerError
from sense_memory.ledger.database import open_damaged
from sense_memory.ledger.schema import APPLICATION_ID
from sense_memory.limits import MAX_SALVAGED_COUNT


if TYPE_CHECKING:
    from collections.abc import Mapping

_MAGIC: Final = b"SQLite format 3\x00"
# SQLite finds them by the name of the file; the last moves last.
_COMPANIONS: Final = ("", "-journal", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Salvage:
    """What could be read of a damaged ledger.

    Attributes:
        bodies: events as they were stored, in order of arrival; not verified.
        drafts: slot and ciphertext of each draft.
        unreadable: rows that could not be read; at least, where not even their number could.
    """

    bodies: tuple[bytes, ...] = field(default=(), repr=False)
    drafts: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What became of a damaged ledger.

    Attributes:
        aside: where the damaged file is now.
        counts: how what could be read was filed in the new ledger: new, stale, deleted, …
        drafts: how many drafts were kept.
        unreadable: events and drafts that were not to be read, or did not verify.
    """

    aside: Path
    counts: Mapping[str, int] = field(default_factory=dict)
    drafts: int = 0
    unreadable: int = 0


def move_aside(path: Path) -> Path:
    """Give a ledger file and its companions another name beside the old one; returns the new name.

    Raises:
        InvalidInput: there is no such file, or it is the database of another program.
        LedgerError: it cannot be renamed.
    """
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}); nothing was changed") from None
    if head.startswith(_MAGIC) and int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise InvalidInput(f"{path} is the database of another program; it was not touched")
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    try:
        for companion in _COMPANIONS:
            if (file_there := Path(f"{path}{companion}")).exists():
                file_there.rename(f"{aside}{companion}")
    except OSError as error:
        raise LedgerError(f"{path} could not be moved aside ({error.strerror}); nothing is lost") from None
    return aside


def salvage(aside: Path) -> Salvage:
    """Read every row that can be read. The file is opened for reading only."""
    try:
        with closing(open_damaged(aside)) as connection:
            events, bad_events = _rows(connection, "events", "seq", "body")
            drafts, bad_drafts = _rows(connection, "drafts", "draft", "slot, content")
    except sqlite3.Error:  # not even the list of its tables can be read
        return Salvage(unreadable=1)
    bodies = tuple(body for (body,) in events if isinstance(body, bytes))
    return Salvage(bodies, tuple(drafts), bad_events + bad_drafts)


def _rows(
    connection: sqlite3.Connection, table: str, key: str, columns: str
) -> tuple[list[tuple[Any, ...]], int]:
    """Each row by its key, so that a damaged page costs its own rows only; and how many could not be read."""
    found: list[tuple[Any, ...]] = []
    unreadable = 0
    for number in range(1, _last(connection, table, key) + 1):
        try:
            row = connection.execute(f"SELECT {columns} FROM {table} WHERE {key} = ?", (number,)).fetchone()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            unreadable += 1
        else:
            found += [] if row is None else [row]
    return found, unreadable


def _last(connection: sqlite3.Connection, table: str, key: str) -> int:
    """The largest key that a table may hold; 0 where the table is not there or nothing says."""
    for query in (
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
        f"SELECT max({key}) FROM {table}",
    ):
        try:
            found = connection.execute(query).fetchone()
        except sqlite3.Error:
            continue
        if found is not None and type(found[0]) is int:
            return min(max(found[0], 0), MAX_SALVAGED_COUNT)
    return 0
