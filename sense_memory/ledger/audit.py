"""Looking the ledger over: what it holds, and whether every row still says what its event says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.errors import InvalidEvent
from sense_memory.ledger import versions
from sense_memory.nostr.event import Event


if TYPE_CHECKING:
    from sense_memory.ledger.database import Database


def census(db: Database) -> dict[str, int]:
    """Counts of what the ledger holds: heads, events, tombstones, deletions, quarantined."""
    found = db.row(
        "SELECT (SELECT count(*) FROM slots s JOIN events e ON e.seq = s.head WHERE e.role = 0), "
        "count(*), sum(role = 1), sum(role = 2), sum(quarantined) FROM events"
    )
    names = ("heads", "events", "tombstones", "deletions", "quarantined")
    return {name: int(value or 0) for name, value in zip(names, found or (0,) * 5, strict=True)}


def problems(db: Database) -> list[str]:
    """What is wrong with the file: SQLite's findings, and events that lie under another id, time or place."""
    found = db.integrity()
    last = 0
    while rows := db.rows(
        "SELECT seq, id, slot, kind, created_at, body FROM events WHERE seq > ? ORDER BY seq LIMIT 500", last
    ):
        last = rows[-1][0]
        found += [f"event {row[0]} is damaged or misplaced" for row in rows if not _is_in_place(*row[1:])]
    return found


def _is_in_place(ident: bytes, slot: str, kind: int, created_at: int, body: bytes) -> bool:
    """Whether a row's columns say what its event says; whether the event verifies is for others to check."""
    try:
        event = Event.restored(body)
    except InvalidEvent:
        return False
    said = event.id, versions.slot_of(event), event.kind, event.created_at
    return said == (ident.hex(), slot, kind, created_at)
