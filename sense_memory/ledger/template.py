"""What a new ledger begins as: a copy of an empty one, which the steps of the schema made once in this process.

The steps are some dozens of statements, and cost as much as everything else about opening together. A copy of their
result holds the same tables, byte for byte; of its own a ledger has nothing but its owner.
"""

from __future__ import annotations

import atexit
import sqlite3
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.schema import statements


if TYPE_CHECKING:
    from collections.abc import Sequence

_TURN: Final = threading.Lock()  # stores may be opened in several threads


def fill(empty: sqlite3.Connection, steps: Sequence[str], owner: str) -> None:
    """Make an empty database a ledger of its own page size. Not safe under a crash: nobody may know it yet.

    Args:
        empty: the database, to which nothing was written.
        steps: the schema, see `schema.MIGRATIONS`.
        owner: whose ledger it is, 64 hex digits.

    Raises:
        sqlite3.Error: it cannot be written.
    """
    (page_bytes,) = empty.execute("PRAGMA page_size").fetchone()
    with _TURN:
        _template(tuple(steps), page_bytes).backup(empty)
    empty.execute("INSERT INTO meta VALUES ('owner', ?)", (owner,))


@cache
def _template(steps: tuple[str, ...], page_bytes: int) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(made.close)  # Python 3.13 warns of one that is left open
    made.execute(f"PRAGMA page_size={page_bytes}")
    made.execute("BEGIN")
    for statement in statements(steps, 0):
        made.execute(statement)
    made.execute("COMMIT")
    return made
