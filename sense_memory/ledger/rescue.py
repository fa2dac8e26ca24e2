"""Counting and checking a ledger, and rescuing a damaged ledger.

Guaranteed: a damaged ledger is moved aside, never deleted, and a damaged page loses only its own rows.

Why it is safe: the file is opened read-only, and no row is trusted: the caller verifies every event before filing it.
Rows that cannot be read are counted, and relays restore them.

Cost: one query for each row.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidEvent, LedgerError
from sense_memory.ledger import places, versions
from sense_memory.ledger.caches import LOG_KEY
from sense_memory.ledger.database import open_damaged
from sense_memory.ledger.heads import Heads
from sense_memory.ledger.roles import Role
from sense_memory.limits import MAX_SALVAGED_COUNT
from sense_memory.nostr import address
from sense_memory.nostr.event import Event


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.ledger.database import Database

# The suffixes of the files that SQLite finds by the name of the ledger file.
_COMPANIONS: Final = ("", "-journal", "-wal", "-shm")


# ── Checking ────────────────────────────────────────────────────────────────────────────


def counts_by_kind(db: Database, apart: Mapping[str, str]) -> dict[str, int]:
    """Counts of what the ledger holds.

    `heads` are memories and journal entries, `entries` the journal entries among them. What is counted apart has a name of
    its own: live heads at the prefixes of `apart`, and the roles with a name, such as `tombstones`. Every event is a head,
    counted apart, an `older` version, or quarantined. `drafts` are not events.

    Args:
        db: the open ledger file.
        apart: by the name of each count, the prefix of its slots.
    """
    roles = {role.traits.counted_as: role for role in Role if role.traits.counted_as}
    sums = ", ".join(f"sum(role = {int(role)} AND NOT quarantined)" for role in roles.values())
    events, *others, quarantined = (
        int(value or 0)
        for value in db.row(f"SELECT count(*), {sums}, sum(quarantined) FROM events")
        or (0,) * (len(roles) + 2)
    )
    live, entries, kinds = Heads(db).live_counts(apart)
    (drafts,) = db.row("SELECT count(*) FROM drafts") or (0,)
    return {
        "heads": live - sum(kinds.values()),
        "entries": entries,
        **kinds,
        "events": events,
        "older": events - live - sum(others) - quarantined,
        **dict(zip(roles, others, strict=True)),
        "quarantined": quarantined,
        "drafts": drafts,
    }


def problems(db: Database) -> list[str]:
    """The faults of the file: SQLite's findings, and rows whose id, time or slot differs from their event's."""
    found = db.integrity()
    last = 0
    while rows := db.rows(
        "SELECT seq, id, slot, kind, created_at, body FROM events WHERE seq > ? ORDER BY seq LIMIT 500", last
    ):
        last = rows[-1][0]
        found += [f"event {row[0]} is damaged or misplaced" for row in rows if not _is_in_place(db, row[1:])]
    return found


def _is_in_place(db: Database, row: Sequence[Any]) -> bool:
    """Whether the columns of a row agree with its event, which is not verified here."""
    ident, slot, kind, created_at, body = row
    try:
        event = Event.restored(body)
    except InvalidEvent:
        return False
    said = event.id, event.kind, event.created_at
    return said == (ident.hex(), kind, created_at) and slot in _slots_of(db, event)


def _slots_of(db: Database, event: Event) -> set[str]:
    """The slots at which an event may be filed."""
    found = {versions.slot_of(event)}
    if event.d_tag is not None:
        found |= {places.slot_at(db, event.d_tag), address.vacated_slot(event.d_tag)}
    return found


# ── Rescuing ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Salvage:
    """The rows of a damaged ledger that could be read.

    Attributes:
        bodies: events as they were stored, in order of arrival; not verified.
        drafts: slot and ciphertext of each draft.
        log_rows: sealed entries of the mind's log that were in no page yet, in order.
        log_key: the sealed key of these entries; empty if it could not be read.
        unreadable: the number of rows that could not be read; a lower bound if the rows could not be counted.
    """

    bodies: tuple[bytes, ...] = field(default=(), repr=False)
    drafts: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    log_rows: tuple[bytes, ...] = field(default=(), repr=False)
    log_key: str = field(default="", repr=False)
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class RescueReport:
    """The result of a rescue.

    Attributes:
        aside: where the damaged file is now.
        counts: how the readable events were filed in the new ledger: new, stale, deleted, …
        drafts: the number of rescued drafts.
        unreadable: the number of events, drafts and entries of the log that could not be read or verified.
    """

    aside: Path
    counts: Mapping[str, int] = field(default_factory=dict)
    drafts: int = 0
    unreadable: int = 0


def move_aside(path: Path) -> Path:
    """Rename a ledger file and its companions, in the same folder; returns the new name.

    Raises:
        LedgerError: the file cannot be renamed.
    """
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    rename(path, aside)
    return aside


def rename(path: Path, name: Path) -> None:
    """Rename a ledger file and its companions. Raises LedgerError."""
    try:
        for companion in _COMPANIONS:
            if (file_there := Path(f"{path}{companion}")).exists():
                file_there.rename(f"{name}{companion}")
    except OSError as error:
        raise LedgerError(f"{path} cannot be renamed to {name} ({error.strerror}); nothing is lost") from None


def salvage(aside: Path) -> Salvage:
    """Read every row that can be read. The file is opened read-only."""
    try:
        with closing(open_damaged(aside)) as connection:
            events, bad_events = _rows(connection, "events", "seq", "body")
            drafts, bad_drafts = _rows(connection, "drafts", "draft", "slot, content")
            entries, bad_entries = _rows(connection, "log_rows", "row", "body")
            log_key = _log_key(connection)
    except sqlite3.Error:  # not even the list of tables can be read
        return Salvage(unreadable=1)
    bodies, log_rows = (
        tuple(body for (body,) in rows if isinstance(body, bytes)) for rows in (events, entries)
    )
    unreadable = bad_events + bad_drafts + bad_entries or int(
        not bodies
    )  # at least one, or nothing was damaged
    return Salvage(bodies, tuple(drafts), log_rows, log_key, unreadable)


def _log_key(connection: sqlite3.Connection) -> str:
    with suppress(sqlite3.Error, UnicodeDecodeError):
        found = connection.execute("SELECT value FROM meta WHERE name = ?", (LOG_KEY,)).fetchone()
        return "" if found is None else str(found[0])
    return ""


def _rows(
    connection: sqlite3.Connection, table: str, key: str, columns: str
) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of a table, each read by its key; and the number of unreadable rows."""
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
    """The largest key that a table may have; 0 if the table is missing, or if neither query works."""
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
