"""The floor of storage: the ledger's own file, written and read with sqlite3 alone.

A store makes the file, so that the schema is the real one; rows are inserted with as few statements as possible. Never
use this module for anything but a comparison.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from sense_memory import MemoryStore


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sense_memory import LocalSigner


_HEADS = "SELECT body FROM slots JOIN events ON seq = head"
HEAD = f"{_HEADS} WHERE slots.slot = ?"


class RawLedger:
    """An open ledger file.

    Args:
        path: of the file, which is made if missing.
        signer: the owner of the ledger.
        relay: the relay for which events are queued.
    """

    def __init__(self, path: Path, signer: LocalSigner, relay: str) -> None:
        if not path.exists():
            asyncio.run(_make(path, signer, relay))
        self._sql = sqlite3.connect(path, isolation_level=None)
        for pragma in (
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "foreign_keys = ON",
            "secure_delete = ON",
        ):
            self._sql.execute(f"PRAGMA {pragma}")
        self._relay: int = self._sql.execute("SELECT relay FROM relays WHERE url = ?", (relay,)).fetchone()[0]
        self._seq: int = self._sql.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()[0]

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    def insert(self, rows: Sequence[tuple[bytes, str, int, bytes]], state: str = "queued") -> None:
        """Insert events (id, slot, created_at, body) with their slots and outbox rows, in one transaction."""
        first = self._seq + 1
        self._seq += len(rows)
        self._sql.execute("BEGIN IMMEDIATE")
        self._sql.executemany(
            "INSERT INTO events (seq, id, slot, kind, created_at, role, body) VALUES (?, ?, ?, 30078, ?, 0, ?)",
            [(seq, *row) for seq, row in enumerate(rows, first)],
        )
        self._sql.executemany(
            "INSERT INTO slots (slot, mark_at, head) VALUES (?, ?, ?)",
            [(slot, at, seq) for seq, (_, slot, at, _) in enumerate(rows, first)],
        )
        self._sql.executemany(
            "INSERT INTO outbox (relay, event, state, due_at) VALUES (?, ?, ?, 0)",
            [(self._relay, seq, state) for seq in range(first, self._seq + 1)],
        )
        self._sql.execute("COMMIT")

    def replace(self, row: tuple[bytes, str, int, bytes]) -> None:
        """Replace the head of a slot by an event, in one transaction; the old event stays as an older version."""
        self._sql.execute("BEGIN IMMEDIATE")
        self._sql.execute("UPDATE events SET role = 4 WHERE seq = ?", (self._seq,))
        self._sql.execute("DELETE FROM outbox WHERE event = ?", (self._seq,))
        self._put(row)
        self._sql.execute("COMMIT")

    def bury(
        self, graves: Sequence[tuple[bytes, str, int, bytes]], request: tuple[bytes, str, int, bytes]
    ) -> None:
        """Replace the events of some slots, which are deleted, and insert one more event, in one transaction."""
        self._sql.execute("BEGIN IMMEDIATE")
        for row in (*graves, request):
            self._sql.execute("UPDATE slots SET head = NULL WHERE slot = ?", (row[1],))
            self._sql.execute("DELETE FROM events WHERE slot = ?", (row[1],))
            self._put(row)
        self._sql.execute("COMMIT")

    def _put(self, row: tuple[bytes, str, int, bytes]) -> None:
        self._seq += 1
        _, slot, at, _ = row
        self._sql.execute(
            "INSERT INTO events (seq, id, slot, kind, created_at, role, body) VALUES (?, ?, ?, 30078, ?, 0, ?)",
            (self._seq, *row),
        )
        self._sql.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)", (slot, at, self._seq))
        self._sql.execute(
            "INSERT INTO outbox (relay, event, state, due_at) VALUES (?, ?, 'queued', 0)",
            (self._relay, self._seq),
        )


def heads(path: Path) -> Iterator[bytes]:
    """The body of every version that counts in a ledger file."""
    with closing(sqlite3.connect(path)) as sql:
        yield from (body for (body,) in sql.execute(_HEADS))


def head(path: Path, slot: str) -> bytes:
    """The body of the version that counts at a slot of a ledger file."""
    with closing(sqlite3.connect(path)) as sql:
        found: tuple[bytes] = sql.execute(HEAD, (slot,)).fetchone()
        return found[0]


def bodies(path: Path) -> list[bytes]:
    """Every event of a ledger file, in order of arrival."""
    with closing(sqlite3.connect(path)) as sql:
        return [body for (body,) in sql.execute("SELECT body FROM events ORDER BY seq")]


async def _make(path: Path, signer: LocalSigner, relay: str) -> None:
    options: dict[str, Any] = {"ledger": path, "background": False}
    async with MemoryStore(signer, [relay], **options):
        pass
