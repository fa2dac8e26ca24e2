"""Looking the ledger over: what it holds, and whether every row still says what its event says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidEvent
from sense_memory.ledger import versions
from sense_memory.nostr.address import JOURNAL_PREFIX, PREFIX
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE, Event


if TYPE_CHECKING:
    from sense_memory.ledger.database import Database

LOGS: Final = f"{PREFIX}introspection/"


def census(db: Database) -> dict[str, int]:
    """Counts of what the ledger holds.

    `heads` are memories and journal entries, of which `entries` are journal entries; `logs` are those of
    introspection, `embeddings` the vectors of memories. Every event is a head, a log, an embedding, an `older`
    version, a tombstone, a deletion, or quarantined. `drafts` are no events: texts that are in no memory.
    """
    found = db.row(
        "SELECT count(*), coalesce(sum(e.kind = ? OR substr(e.slot, 1, ?) = ?), 0), "
        "coalesce(sum(substr(e.slot, 1, ?) = ?), 0) "
        "FROM slots s JOIN events e ON e.seq = s.head WHERE e.role = 0",
        KIND_DIRECT_MESSAGE,
        len(JOURNAL_PREFIX),
        JOURNAL_PREFIX,
        len(LOGS),
        LOGS,
    )
    rest = db.row(
        "SELECT count(*), sum(role = 1 AND NOT quarantined), sum(role = 2 AND NOT quarantined), "
        "sum(role = 3 AND NOT quarantined), sum(quarantined) FROM events"
    )
    live, entries, logs = found or (0, 0, 0)
    heads = live - logs
    (drafts,) = db.row("SELECT count(*) FROM drafts") or (0,)
    events, tombstones, deletions, embeddings, quarantined = (int(value or 0) for value in rest or (0,) * 5)
    return {
        "heads": heads,
        "entries": entries,
        "logs": logs,
        "embeddings": embeddings,
        "events": events,
        "older": events - live - embeddings - tombstones - deletions - quarantined,
        "tombstones": tombstones,
        "deletions": deletions,
        "quarantined": quarantined,
        "drafts": drafts,
    }


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
