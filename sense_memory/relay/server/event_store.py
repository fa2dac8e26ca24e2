"""The event store of the embedded relay: one SQLite file, or memory.

The store applies the rules of NIP-01 (replacement), NIP-09 (deletion) and NIP-40 (expiration). It stores verified events
as canonical JSON, and knows nothing of connections or subscriptions.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from array import array
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.errors import RelayError
from sense_memory.limits import MAX_SAFE_INTEGER
from sense_memory.nostr.event import KIND_DELETION, is_hex64, wins_over


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sense_memory.nostr.event import Event, RawEvent
    from sense_memory.nostr.filters import Filter


# ── Rules of NIP-01, NIP-09, NIP-40 and NIP-70 ──────────────────────────────────────────
# Pure functions over verified events.


def is_ephemeral(kind: int) -> bool:
    """Whether events of a kind are sent to subscribers and never stored (NIP-01)."""
    return 20_000 <= kind < 30_000


def is_replaceable(kind: int) -> bool:
    """Whether only an author's newest event of this kind is kept (NIP-01)."""
    return kind in {0, 3} or 10_000 <= kind < 20_000


def is_addressable(kind: int) -> bool:
    """Whether only an author's newest event of this kind and `d` tag is kept (NIP-01)."""
    return 30_000 <= kind < 40_000


def address_of(event: RawEvent) -> str | None:
    """The address in the form of an `a` tag; of each address only one event is kept. None for regular events."""
    if is_replaceable(event.kind):
        return f"{event.kind}:{event.pubkey}:"
    if is_addressable(event.kind):
        return f"{event.kind}:{event.pubkey}:{event.d_tag or ''}"
    return None


def expires_at(event: RawEvent) -> int | None:
    """The second at which an event expires (NIP-40), or None; a value that is not a number is ignored."""
    for value in event.tag_values("expiration"):
        if value.isascii() and value.isdigit() and len(value) <= 16:
            return min(int(value), MAX_SAFE_INTEGER)
    return None


def is_protected(event: RawEvent) -> bool:
    """Whether only the authenticated author may publish the event (NIP-70)."""
    return ("-",) in event.tags


def deleted_ids(event: RawEvent) -> list[str]:
    """The event ids that a deletion request names; the store deletes only events of the same author (NIP-09)."""
    return (
        [value for value in event.tag_values("e") if is_hex64(value)] if event.kind == KIND_DELETION else []
    )


def deleted_addresses(event: RawEvent) -> list[str]:
    """The addresses that a deletion request names, without addresses of other authors (NIP-09).

    An address that is not spelled as `address_of` spells it matches no event, and deletes nothing.
    """
    if event.kind != KIND_DELETION:
        return []
    return [value for value in event.tag_values("a") if value.split(":", 2)[1:2] == [event.pubkey]]


def indexed_tags(event: RawEvent) -> set[tuple[str, str]]:
    """The tags that a filter can ask for: tags with a single-letter name, each with its first value (NIP-01)."""
    return {
        (tag[0], tag[1])
        for tag in event.tags
        if len(tag) > 1 and len(tag[0]) == 1 and tag[0].isascii() and tag[0].isalpha()
    }


APPLICATION_ID: Final = 0x534D5259  # "SMRY": tells a relay's file from a ledger
SCHEMA_VERSION: Final = 1

_BATCH_COUNT: Final = 2_000  # rows read at a time for a comparison, in about 3 ms

# AUTOINCREMENT never gives the number of a deleted row to another event: an answer that is being sent refers to rows.
_SCHEMA: Final = """
    CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        pubkey TEXT NOT NULL,
        kind INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        address TEXT,
        expires INTEGER,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX event_by_time ON event (created_at, kind);
    CREATE INDEX event_by_author ON event (pubkey, created_at, kind);
    CREATE UNIQUE INDEX event_by_address ON event (address) WHERE address IS NOT NULL;
    CREATE INDEX event_by_expiry ON event (expires) WHERE expires IS NOT NULL;
    CREATE TABLE tag (
        seq INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
        name TEXT NOT NULL,
        value TEXT NOT NULL
    ) STRICT;
    CREATE INDEX tag_by_value ON tag (name, value, seq);
    CREATE INDEX tag_by_event ON tag (seq);
    CREATE TABLE deleted_id (
        id TEXT NOT NULL,
        pubkey TEXT NOT NULL,
        PRIMARY KEY (id, pubkey)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE deleted_address (
        address TEXT PRIMARY KEY,
        until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of adding one event.

    Attributes:
        accepted: the boolean of the OK.
        text: the text of the OK.
        is_new: whether the event is sent to subscribers.
    """

    accepted: bool
    text: str = ""
    is_new: bool = False


_STORED: Final = Receipt(accepted=True, is_new=True)
_DUPLICATE: Final = Receipt(accepted=True, text="duplicate: already have this event")
_REPLACED: Final = Receipt(accepted=False, text="replaced: have newer event")
_DELETED: Final = Receipt(accepted=False, text="deleted: user requested deletion")


class EventStore:
    """The relay's events. Only one process at a time can open a file.

    Args:
        path: the file, created with mode 0600 if missing; None keeps everything in memory.

    Raises:
        RelayError: the file cannot be opened, another running relay uses it, or another program wrote it.
    """

    def __init__(self, path: Path | None = None) -> None:
        name = ":memory:" if path is None else str(path)
        try:
            if path is not None:
                _create_file(path)
            self._sql = sqlite3.connect(name, timeout=0, isolation_level=None, check_same_thread=False)
            self._close = weakref.finalize(self, self._sql.close)
            self._open()
        except (OSError, sqlite3.Error) as problem:
            raise RelayError(name, f"the relay's data cannot be opened ({_reason(problem)})") from problem

    def add_events(self, events: Sequence[Event], now: int) -> list[Receipt]:
        """Store events in one transaction, which is durable when this returns; one receipt for each event, in order.

        Args:
            events: verified events within the relay's limits.
            now: seconds since 1970; expired events are deleted first.

        Raises:
            sqlite3.Error: no event of the batch was stored.
        """
        with self._transaction():
            self._drop_expired(now)
            return [self._add(event) for event in events]

    def find_rows(self, filters: Sequence[Filter], max_limit: int, now: int) -> array[int]:
        """The row numbers of the events that match some filters: newest first, within a second by id.

        Args:
            filters: an event must match one of these filters; each filter has its own limit.
            max_limit: the limit of a filter without a limit, and the maximum limit of any filter.
            now: seconds since 1970; expired events are left out.
        """
        self._drop_expired(now)
        rows: set[tuple[int, str, int]] = set()
        for wanted in filters:
            limit = max_limit if wanted.limit is None else min(wanted.limit, max_limit)
            if limit:
                source, values = _matching(wanted)
                query = f"SELECT -created_at, id, seq {source} ORDER BY created_at DESC, id LIMIT {limit}"
                rows.update(self._sql.execute(query, values))
        return array("q", [seq for _, _, seq in sorted(rows)])

    def count_events(self, filters: Sequence[Filter], now: int) -> int:
        """How many stored events match some filters (NIP-45).

        Args:
            filters: an event must match one of these filters; limits are ignored.
            now: seconds since 1970; expired events are not counted.
        """
        self._drop_expired(now)
        parts = [_matching(wanted) for wanted in filters]
        union = " UNION ".join(f"SELECT seq {source}" for source, _ in parts)
        values = [value for _, found in parts for value in found]
        total: int = self._sql.execute(f"SELECT count(*) FROM ({union})", values).fetchone()[0]  # noqa: S608
        return total

    def iter_pairs(self, wanted: Filter, now: int) -> Iterator[list[tuple[int, bytes]]]:
        """Time and id of every stored event that matches a filter, in batches and in no particular order.

        An event that is stored or deleted between two batches may be missing or present.

        Args:
            wanted: the filter; a limit selects the newest events.
            now: seconds since 1970; expired events are left out.
        """
        self._drop_expired(now)
        source, values = _matching(wanted)
        newest = "" if wanted.limit is None else f"ORDER BY created_at DESC, id LIMIT {wanted.limit}"
        with closing(self._sql.execute(f"SELECT created_at, id {source} {newest}", values)) as rows:
            while part := rows.fetchmany(_BATCH_COUNT):
                yield [(time, bytes.fromhex(ident)) for time, ident in part]

    def body(self, seq: int, now: int) -> bytes | None:
        """The JSON of the event in a row that `find_rows` returned, or None if the event was deleted or has expired."""
        row = self._sql.execute(
            "SELECT body FROM event WHERE seq = ? AND (expires IS NULL OR expires > ?)", (seq, now)
        ).fetchone()
        return row[0] if row else None

    def close(self) -> None:
        """Close the file; events in memory are lost."""
        self._close()

    def _open(self) -> None:
        """Apply the settings, and create the schema in a new file. The exclusive lock is held until `close`."""
        self._sql.execute("PRAGMA locking_mode = EXCLUSIVE")
        known = self._is_known()  # checked before any change, because the file may belong to another program
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",  # an OK must outlive a power cut
            "foreign_keys = ON",
            "trusted_schema = OFF",
            "secure_delete = ON",
            "mmap_size = 0",
        ):
            self._sql.execute(f"PRAGMA {pragma}")
        if not known:
            with self._transaction():
                for statement in _SCHEMA.split(";"):
                    self._sql.execute(statement)
                self._sql.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self._sql.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _is_known(self) -> bool:
        """Whether the file was written by this relay; False for an empty file.

        Raises:
            sqlite3.DatabaseError: another program, or another version of the relay, wrote the file.
        """
        ours = (APPLICATION_ID, SCHEMA_VERSION)
        found = tuple(
            self._sql.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if found != ours and (any(found) or self._sql.execute("SELECT 1 FROM sqlite_schema").fetchone()):
            raise sqlite3.DatabaseError("the file was not written by this version of the relay")
        return found == ours

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._sql.execute("COMMIT")
        except BaseException:
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            raise

    def _drop_expired(self, now: int) -> None:
        expired = "FROM event WHERE expires <= ?"
        if self._sql.execute(f"SELECT 1 {expired} LIMIT 1", (now,)).fetchone():
            self._sql.execute(f"DELETE {expired}", (now,))

    def _add(self, event: Event) -> Receipt:
        if is_ephemeral(event.kind):
            return _STORED
        if self._sql.execute("SELECT 1 FROM event WHERE id = ?", (event.id,)).fetchone():
            return _DUPLICATE
        address = address_of(event)
        if self._was_deleted(event, address):
            return _DELETED
        if address is not None and not self._drop_replaced(event, address):
            return _REPLACED
        self._insert(event, address)
        self._delete_for(event)
        return _STORED

    def _was_deleted(self, event: Event, address: str | None) -> bool:
        if event.kind == KIND_DELETION:
            return False  # NIP-09: a deletion request against a deletion request has no effect
        by_id = "SELECT 1 FROM deleted_id WHERE id = ? AND pubkey = ?"
        if self._sql.execute(by_id, (event.id, event.pubkey)).fetchone():
            return True
        by_address = "SELECT 1 FROM deleted_address WHERE address = ? AND until >= ?"
        return self._sql.execute(by_address, (address, event.created_at)).fetchone() is not None

    def _drop_replaced(self, event: Event, address: str) -> bool:
        """Delete the version that an event replaces; False if the stored version wins over the event."""
        row = self._sql.execute(
            "SELECT seq, created_at, id FROM event WHERE address = ?", (address,)
        ).fetchone()
        if row is None:
            return True
        if not wins_over(event.created_at, event.id, row[1], row[2]):
            return False
        self._sql.execute("DELETE FROM event WHERE seq = ?", row[:1])
        return True

    def _insert(self, event: Event, address: str | None) -> None:
        seq = self._sql.execute(
            "INSERT INTO event (id, pubkey, kind, created_at, address, expires, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (event.id, event.pubkey, event.kind, event.created_at, address, expires_at(event), event.body()),
        ).lastrowid
        rows = [(seq, name, value) for name, value in indexed_tags(event)]
        self._sql.executemany("INSERT INTO tag (seq, name, value) VALUES (?, ?, ?)", rows)

    def _delete_for(self, event: Event) -> None:
        """Delete the author's own events that a deletion request names, and refuse these events in future."""
        for ident in deleted_ids(event):
            self._sql.execute("INSERT OR IGNORE INTO deleted_id VALUES (?, ?)", (ident, event.pubkey))
            self._sql.execute(
                "DELETE FROM event WHERE id = ? AND pubkey = ? AND kind <> ?",
                (ident, event.pubkey, KIND_DELETION),
            )
        for address in deleted_addresses(event):
            self._sql.execute(
                "INSERT INTO deleted_address VALUES (?, ?) "
                "ON CONFLICT (address) DO UPDATE SET until = max(until, excluded.until)",
                (address, event.created_at),
            )
            self._sql.execute(
                "DELETE FROM event WHERE address = ? AND created_at <= ?", (address, event.created_at)
            )


def _matching(wanted: Filter) -> tuple[str, list[object]]:
    """FROM and WHERE of the query for one filter, with `?` for every value, and the values."""
    source, conditions, values = "event", ["1"], list[object]()
    for name, tagged_with in sorted(wanted.tags.items(), key=lambda item: item[0] != "d"):
        tagged = f"SELECT seq FROM tag WHERE name = ? AND value IN ({_placeholders(tagged_with)})"  # noqa: S608
        values += [name, *tagged_with]
        if name == "d":  # few events share a d-tag, but SQLite would scan all events of the author
            source = f"(SELECT DISTINCT seq FROM ({tagged})) CROSS JOIN event USING (seq)"  # noqa: S608
        else:
            conditions.append(f"seq IN ({tagged})")
    for column, allowed in (("id", wanted.ids), ("pubkey", wanted.authors), ("kind", wanted.kinds)):
        if allowed is not None:
            conditions.append(f"{column} IN ({_placeholders(allowed)})")
            values += allowed
    for comparison, bound in (("created_at >= ?", wanted.since), ("created_at <= ?", wanted.until)):
        if bound is not None:
            conditions.append(comparison)
            values.append(bound)
    return f"FROM {source} WHERE {' AND '.join(conditions)}", values


def _placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _create_file(path: Path) -> None:
    """Create the file, or change the mode of an existing file, so that only its owner can read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    path.chmod(0o600)


def _reason(problem: OSError | sqlite3.Error) -> str:
    if isinstance(problem, OSError):
        return problem.strerror or "not accessible"
    return "another relay is using the file" if "locked" in str(problem) else str(problem)
