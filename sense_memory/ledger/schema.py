"""The tables of the ledger file, as a list of migrations.

Guaranteed: every released ledger can be opened, and a migration is applied whole or not at all. A newer file is refused
(`LedgerTooNew`), because an older program does not know the newer tables.

Why it is safe: a released migration is never changed. All missing migrations run in one transaction with the version of
the file, after a copy of the whole file was made (`Database._back_up`).

Cost: a migration copies the file once. A new ledger runs no migration: it is a copy of an empty ledger that was made
once in this process, because the dozens of statements take as long as everything else about opening a ledger.
"""

from __future__ import annotations

import atexit
import sqlite3
import threading
from functools import cache
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

APPLICATION_ID: Final = 0x53454E53  # "SENS"
_TEMPLATE_LOCK: Final = threading.Lock()  # because stores may be opened in several threads


HELD: Final = ("acked", "confirmed")  # outbox states of events that a relay holds: it said OK, or served them


# Each entry migrates from the version of its index. A file's version is the number of entries applied.
MIGRATIONS: Final = (
    """
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE events (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id BLOB NOT NULL UNIQUE,
      slot TEXT NOT NULL,
      kind INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      role INTEGER NOT NULL,
      quarantined INTEGER NOT NULL DEFAULT 0,
      body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX events_by_slot ON events (slot, created_at);
    CREATE INDEX events_by_second ON events (created_at);
    CREATE INDEX events_of_journal ON events (created_at) WHERE kind = 4 AND quarantined = 0;
    CREATE INDEX events_in_quarantine ON events (created_at) WHERE quarantined = 1;
    CREATE TABLE slots (
      slot TEXT PRIMARY KEY,
      mark_at INTEGER NOT NULL,
      head INTEGER REFERENCES events (seq)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX slots_by_head ON slots (head);
    CREATE TABLE deletions (
      target TEXT PRIMARY KEY,
      until INTEGER NOT NULL,
      by_event BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE relays (
      relay INTEGER PRIMARY KEY,
      url TEXT NOT NULL UNIQUE,
      cursor INTEGER,
      completed_at REAL,
      swept_at REAL,
      filled_to INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE outbox (
      relay INTEGER NOT NULL REFERENCES relays (relay) ON DELETE CASCADE,
      event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
      state TEXT NOT NULL,
      reason TEXT NOT NULL DEFAULT '',
      tries INTEGER NOT NULL DEFAULT 0,
      first_try_at REAL,
      due_at REAL NOT NULL,
      seen_at REAL,
      PRIMARY KEY (relay, event)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX outbox_of_event ON outbox (event);
    CREATE INDEX outbox_waiting ON outbox (relay, due_at) WHERE state = 'queued';
    CREATE TABLE access (
      slot TEXT PRIMARY KEY,
      last_at REAL NOT NULL,
      count INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE drafts (
      draft INTEGER PRIMARY KEY AUTOINCREMENT,
      slot TEXT NOT NULL,
      content TEXT NOT NULL,
      created_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE unfinished (
      relay INTEGER PRIMARY KEY REFERENCES relays (relay) ON DELETE CASCADE,
      begun_at REAL NOT NULL,
      since INTEGER,
      newest INTEGER NOT NULL,
      walks TEXT NOT NULL
    ) STRICT;
    CREATE TABLE remarks (
      relay INTEGER NOT NULL REFERENCES relays (relay) ON DELETE CASCADE,
      remark TEXT NOT NULL,
      noted_at REAL NOT NULL,
      counted_at REAL NOT NULL,
      count INTEGER NOT NULL,
      PRIMARY KEY (relay, remark)
    ) STRICT, WITHOUT ROWID;
    """,
    # `aside`: events that a relay holds and that are useless here. A migration after which more events can be read must
    # empty this table. The index by second includes the ids, so that a comparison reads nothing else.
    """
    DROP INDEX events_by_second;
    CREATE INDEX events_by_second ON events (created_at, id);
    CREATE TABLE aside (
      relay INTEGER NOT NULL REFERENCES relays (relay) ON DELETE CASCADE,
      id BLOB NOT NULL,
      created_at INTEGER NOT NULL,
      PRIMARY KEY (relay, id)
    ) STRICT, WITHOUT ROWID;
    """,
    # Versions that the head of their slot may not know, of memories that are merged: see `edits`.
    """
    CREATE TABLE forks (
      slot TEXT NOT NULL,
      event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
      PRIMARY KEY (slot, event)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX forks_of_event ON forks (event);
    """,
    # Sealed vectors, see `caches.Vectors`.
    """
    CREATE TABLE vectors (
      slot TEXT PRIMARY KEY,
      model TEXT NOT NULL,
      body BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    # `told`: the seq of the embedding with the same vectors, if there is one.
    """
    ALTER TABLE vectors ADD COLUMN told INTEGER;
    """,
    # Events of this ledger that were not handed out yet: see `stamps`. The index counts the events that do not count
    # towards the limit of a second.
    """
    CREATE TABLE unsent (event INTEGER PRIMARY KEY REFERENCES events (seq) ON DELETE CASCADE) STRICT;
    CREATE INDEX events_replaced ON events (created_at) WHERE role = 4;
    """,
    # `healed_at`: when lost events were last sent to a relay again without a user's request. Events are queued again
    # where a relay only claimed to have a newer version.
    """
    ALTER TABLE relays ADD COLUMN healed_at REAL;
    UPDATE outbox SET state = 'queued', tries = 0, first_try_at = NULL
      WHERE state = 'superseded' AND event IN (SELECT head FROM slots);
    """,
    """
    CREATE INDEX events_that_delete ON events (seq) WHERE role = 2;
    """,
    # What is removed at a slot, see `removals`; for earlier deletions, only the date is known. `overruled`: slots where
    # an edit lost, until that is reported. The reason of a draft is empty if the reason is the clock.
    """
    CREATE TABLE removals (
      slot TEXT PRIMARY KEY,
      until INTEGER NOT NULL,
      upto INTEGER NOT NULL,
      texts TEXT NOT NULL,
      seen TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    INSERT INTO removals SELECT slot, max(until), -1, '', '' FROM (
      SELECT target AS slot, until FROM deletions WHERE substr(target, 1, 1) <> '#' UNION ALL
      SELECT slot, created_at FROM events WHERE role = 1 AND quarantined = 0
    ) GROUP BY slot;
    CREATE TABLE overruled (slot TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    ALTER TABLE drafts ADD COLUMN reason TEXT NOT NULL DEFAULT '';
    """,
    # `said`: the id (hex) of the event that had a draft's text first; empty if there was none. A device that had the
    # event may forget the text later.
    """
    ALTER TABLE drafts ADD COLUMN said TEXT NOT NULL DEFAULT '';
    """,
    # Sealed entries of the log that are in no page yet, see `caches.LogRows`.
    """
    CREATE TABLE log_rows (row INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL) STRICT;
    """,
    # Remarks and reasons were sentences before, and are codes now; see `relays`.
    """
    UPDATE remarks SET remark = CASE
      WHEN remark = 'sends events after saying that there are no more' THEN 'late'
      WHEN remark = 'forgets what it accepted' THEN 'forgetful'
      WHEN remark LIKE 'keeps no deletion requests: tombstones s%' THEN 'drops-deletions'
      WHEN remark LIKE 'has not shown everything for hours: conf%' THEN 'incomplete'
      WHEN remark = 'deletion not honoured: it accepted the request and still serves the memory' THEN 'undeleted'
      WHEN remark = 'limits how often it takes events: sending to it pauses, for an hour at most' THEN 'rate-limited'
      ELSE remark END WHERE remark <> '';
    UPDATE outbox SET reason = CASE
      WHEN reason = 'says it has a newer version' THEN 'newer-version'
      WHEN reason = 'requires proof of work' THEN 'proof-of-work'
      WHEN reason = 'no answer' THEN 'no-answer'
      WHEN reason = 'relay error' THEN 'relay-error'
      WHEN reason = 'called invalid' THEN 'invalid'
      WHEN reason = 'unreadable answer' THEN 'unreadable-answer'
      WHEN reason = 'unknown answer' THEN 'unknown-answer'
      WHEN reason = 'too old for this relay' THEN 'too-old'
      WHEN reason = 'too far in the future for this relay' THEN 'too-far-ahead'
      WHEN reason = 'too large for this relay' THEN 'too-large'
      WHEN reason = 'deleted there, though never forgotten here' THEN 'not-our-deletion'
      WHEN reason = 'keeps neither the deletion request nor the tombstone' THEN 'no-tombstone'
      WHEN reason = 'accepted before, and not there any more' THEN 'lost'
      WHEN reason = 'accepted before, and an older version is served instead' THEN 'behind'
      WHEN reason = 'waits until the relay has an older deletion request that may remove it' THEN 'after-deletion'
      WHEN reason LIKE 'an older deletion counts there%' THEN 'old-deletion'
      ELSE reason END WHERE reason <> '';
    """,
    # Memories that may contradict each other, see `suspicions`: their slots, and the versions with the compared texts.
    """
    CREATE TABLE suspicions (
      earlier TEXT NOT NULL,
      later TEXT NOT NULL,
      earlier_event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
      later_event INTEGER NOT NULL REFERENCES events (seq) ON DELETE CASCADE,
      rules TEXT NOT NULL,
      PRIMARY KEY (earlier, later)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX suspicions_of_earlier ON suspicions (earlier_event);
    CREATE INDEX suspicions_of_later ON suspicions (later_event);
    """,
    # The d-tags of slots with private d-tags, see `places`.
    """
    CREATE TABLE places (
      tag TEXT PRIMARY KEY,
      slot TEXT NOT NULL,
      at INTEGER NOT NULL,
      state INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX places_of_slot ON places (slot);
    CREATE INDEX places_to_tidy ON places (state) WHERE state <> 0;
    """,
)
VERSION: Final = len(MIGRATIONS)


def statements(steps: Sequence[str], version: int) -> Iterator[str]:
    """The statements that migrate a file from a version to the end of `steps`; run them in one transaction."""
    for step in steps[version:]:
        yield from step.split(";")
    yield f"PRAGMA application_id={APPLICATION_ID}"
    yield f"PRAGMA user_version={len(steps)}"


def fill(empty: sqlite3.Connection, steps: Sequence[str], owner: str) -> None:
    """Turn an empty database into a ledger, keeping its page size.

    This is not safe under a crash, so call it only for a file that no other process knows yet.

    Args:
        empty: a database to which nothing was written.
        steps: the migrations, see `MIGRATIONS`.
        owner: the public key of the ledger's owner, 64 hex digits.

    Raises:
        sqlite3.Error: the database cannot be written.
    """
    (page_bytes,) = empty.execute("PRAGMA page_size").fetchone()
    with _TEMPLATE_LOCK:
        _template(tuple(steps), page_bytes).backup(empty)
    empty.execute("INSERT INTO meta VALUES ('owner', ?)", (owner,))


@cache
def _template(steps: tuple[str, ...], page_bytes: int) -> sqlite3.Connection:
    made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    atexit.register(made.close)  # because Python 3.13 warns of open connections
    made.execute(f"PRAGMA page_size={page_bytes}")
    made.execute("BEGIN")
    for statement in statements(steps, 0):
        made.execute(statement)
    made.execute("COMMIT")
    return made
