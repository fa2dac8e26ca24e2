"""Removals: what was forgotten or pruned at a slot, which versions a removal reaches, and how they are erased.

A removal is inside the ciphertext of a tombstone or a deletion:

* *Forgetting* removes by date: every text written up to the second of forgetting. The forgetting device also names the
  texts that it had. These are removed whatever their date, and so are their copies at other addresses. A text that the
  forgetting device did not have is removed too, but the device that wrote the text keeps a draft of it.
* *Pruning* removes by knowledge: only the versions that the pruning device knew, whatever their dates. An edit, a link
  or an access that it did not know keeps the memory alive.

Guaranteed: all devices remove the same versions, whatever the order in which events arrive, and no file beside the
ledger keeps a removed version readable. A text that was forgotten unseen becomes a draft exactly when it is removed.

Why it is safe: each device decides from the removal alone, and the removals of a slot are joined (maximum and union),
so the order does not matter. Purging runs inside the transaction that files the tombstone or the deletion. In the
same transaction, a trigger records that deleted rows must be erased from the files, so a crash in between only delays
that.

Cost: one row for each slot, some bytes for each forgetting (the last 1,000 texts are named), and one comparison for
each version of the slot, which the caller has opened before.

This module sees no text, only numbers, ids and devices.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.device_id import is_own_device
from sense_memory.ledger.roles import (
    GOES_BY_DATE,
    HAS_ORIGIN,
    IS_LIVE,
    IS_NO_HISTORY,
    IS_TOMBSTONE,
    ROLES,
)
from sense_memory.ledger.schema import HELD
from sense_memory.limits import MAX_FORGOTTEN_TEXTS_COUNT
from sense_memory.nostr import address
from sense_memory.nostr.event import Event, wins_over


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.ledger.database import Database

ID_CHARS: Final = 16  # of an event id, by which a removal names a text
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the text of a version comes from: the encrypted facts that removals and lost edits depend on.

    Attributes:
        at: the version's created_at, seconds since 1970.
        said: id of the event that had the text first, 64 hex digits; the version's own id if the text is new.
        said_at: that event's created_at.
        device: the device that wrote the text; empty if the writer keeps no version vector.
        count: the number of that device's edits, including this text.
        seen: the version vector: what the version knew, by device.
        copy_of: for a conflict copy, the slot of the original memory; else empty.
        text: a fingerprint of the text, valid within this process.
        is_merged: whether versions of this kind may be merged, which a hashed address does not show.
        copied_at: for a copy of a version at another d-tag, the original's created_at; else -1.
    """

    at: int
    said: str
    said_at: int
    device: str = ""
    count: int = 0
    seen: Mapping[str, int] = field(default_factory=dict)
    copy_of: str = ""
    text: int = 0
    is_merged: bool = True
    copied_at: int = _NEVER

    @property
    def rank(self) -> int:
        """The second that decides which of two versions is newer: for a copy, that of its original."""
        return self.at if self.copied_at == _NEVER else self.copied_at

    @classmethod
    def plain(cls, event_id: str, created_at: int) -> Origin:
        """The origin of a version that does not state its origin, or that cannot be read here."""
        return cls(created_at, event_id, created_at)

    def knows(self, other: Origin) -> bool:
        """Whether the writer of this version knew the text of another version."""
        return bool(other.device) and self.seen.get(other.device, 0) >= other.count


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed at a slot.

    Attributes:
        until: texts written up to this second are forgotten; -1 for none.
        texts: ids (their first 16 digits) of events whose texts are forgotten whatever their date, newest last.
        seen: versions within this version vector are pruned.
        upto: versions without a version vector are pruned up to this second; -1 for none.
        kept: ids of texts that the forgetting device had, and did not name because a conflict copy of them lives.
        is_automatic: whether time or a decision of another device caused the removal, and no user asked for it.
        is_blind: whether the removal does not state its texts, because an older version or another client wrote it.
        copies: the slots that may hold copies of the texts.
    """

    until: int = _NEVER
    texts: tuple[str, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    upto: int = _NEVER
    kept: frozenset[str] = frozenset()
    is_automatic: bool = False
    is_blind: bool = False
    copies: tuple[str, ...] = ()

    @classmethod
    def blind(cls, until: int) -> Removal:
        """What a deletion removes if it states nothing else: everything up to its second."""
        return cls(until, is_blind=True)

    @property
    def is_forgetting(self) -> bool:
        """Whether a memory was forgotten at the slot, and not only pruned."""
        return self.until != _NEVER

    def names(self, event_id: str) -> bool:
        """Whether the text of an event is forgotten at every slot."""
        return event_id[:ID_CHARS] in self.texts

    def forgets(self, origin: Origin) -> bool:
        """Whether a version's text is forgotten."""
        return origin.said_at <= self.until or self.names(origin.said)

    def prunes(self, origin: Origin) -> bool:
        """Whether a version is pruned, because the pruning device knew it."""
        if not origin.seen:
            return origin.at <= self.upto
        return all(self.seen.get(device, 0) >= count for device, count in origin.seen.items())

    def reaches(self, origin: Origin) -> bool:
        """Whether a version is removed."""
        return self.forgets(origin) or self.prunes(origin)

    def knew(self, origin: Origin) -> bool:
        """Whether the forgetting device had a version's text; a blind removal is assumed to have known every text."""
        return self.is_blind or self.names(origin.said) or origin.said[:ID_CHARS] in self.kept

    def joined(self, other: Removal) -> Removal:
        """This removal and another, joined. The last 1,000 texts are kept."""
        seen = dict(self.seen)
        for device, count in other.seen.items():
            seen[device] = max(count, seen.get(device, 0))
        texts = tuple(dict.fromkeys(chain(self.texts, other.texts)))[-MAX_FORGOTTEN_TEXTS_COUNT:]
        return Removal(max(self.until, other.until), texts, seen, max(self.upto, other.upto))


NOTHING: Final = Removal()


def read_removal(db: Database, slot: str) -> Removal:
    """Everything that is removed at a slot, joined; `NOTHING` by default."""
    found = db.row("SELECT until, upto, texts, seen FROM removals WHERE slot = ?", slot)
    if found is None:
        return NOTHING
    until, upto, texts, seen = found
    return Removal(until, tuple(texts.split()), json.loads(seen) if seen else {}, upto)


def join_removal(db: Database, slot: str, removal: Removal) -> None:
    """Join a removal with the stored removal of a slot; call this inside a transaction."""
    now = read_removal(db, slot).joined(removal)
    db.execute(
        "INSERT OR REPLACE INTO removals (slot, until, upto, texts, seen) VALUES (?, ?, ?, ?, ?)",
        slot,
        now.until,
        now.upto,
        " ".join(now.texts),
        json.dumps(now.seen, separators=(",", ":")) if now.seen else "",
    )


# ── Forks ───────────────────────────────────────────────────────────────────────────────
# Versions that a slot's head may not know, and heads that may not know a removal. Call these inside a transaction.
#
# What a version knows is inside the ciphertext, so the ledger lists the versions that must be opened: a version that
# another device's version replaced, a version that arrived late, and a head that was written although its memory had
# been forgotten. Whoever opens a version removes it from the list. Flat memories are not merged, so only their
# forgotten heads are listed.


def add_fork(db: Database, slot: str, seq: int | None) -> None:
    """List a version as a fork, if versions at the slot may have to be merged."""
    if seq is not None and address.may_be_persona(slot):
        db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def add_forgotten_fork(db: Database, slot: str, seq: int) -> None:
    """List a head whose text is forgotten: a device that did not know this signed the text again."""
    db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def add_head_fork(db: Database, slot: str) -> None:
    """List the head of a slot where something was forgotten: the head may contain the forgotten text."""
    if address.may_be_persona(slot):
        db.execute(
            "INSERT OR IGNORE INTO forks (slot, event) SELECT s.slot, s.head FROM slots s "
            f"JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.{IS_LIVE}",
            slot,
        )


# ── Erasing for good ────────────────────────────────────────────────────────────────────
# Data that is deleted from the ledger must not stay readable in the files beside it.
#
# SQLite overwrites deleted rows, but older copies stay in the write-ahead log and in the backup of a migration. Every
# transaction that deletes rows also records that erasure is owed. This process or another erases the copies as soon as
# possible.

_OWED: Final = "erasure_owed"

# A temporary trigger, for this connection only, covers every way of deleting, including ways added later.
_NOTE: Final = (
    "CREATE TEMP TRIGGER deleting_from_{table}_owes_erasure AFTER DELETE ON main.{table} "
    "BEGIN INSERT OR REPLACE INTO meta VALUES ('" + _OWED + "', '1'); END"
)


class Erasure:
    """The pending erasure of a ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        if db.path is not None:
            for table in ("events", "drafts"):
                db.execute(_NOTE.format(table=table))

    def finish(self) -> None:
        """Erase deleted data from the other files; while another process publishes or reads, the erasure stays owed."""
        if self._db.row("SELECT 1 FROM meta WHERE name = ?", _OWED) is None or not self._db.checkpoint():
            return
        for backup in self._db.backups():
            with suppress(OSError):  # the folder may be read-only: the backup stays
                backup.unlink(missing_ok=True)
        with self._db.transaction():
            self._db.execute("DELETE FROM meta WHERE name = ?", _OWED)


# ── Purging ─────────────────────────────────────────────────────────────────────────────
# A removal deletes some of the stored versions of a slot, and lists the others as forks.
#
# The decision depends on the inside of each version, which the caller has opened before (`FilingContext`). Call these
# functions inside the transaction that files the tombstone or the deletion.


_HELD: Final = (
    f"SELECT 1 FROM events e JOIN outbox o ON o.event = e.seq WHERE e.id = ? AND o.state IN {HELD} LIMIT 1"
)
_OF_SLOT: Final = "FROM events WHERE slot = ? AND quarantined = 0"
_DRAFTED: Final = f"SELECT draft FROM drafts WHERE said <> '' AND substr(said, 1, {ID_CHARS}) IN "
# A version that a deletion or a tombstone covers is never the head.
_ELECTED: Final = (
    "SELECT e.seq FROM events e LEFT JOIN deletions d ON d.target = e.slot WHERE e.slot = ? AND e.quarantined = 0 "
    f"AND e.{IS_NO_HISTORY} AND (e.{IS_TOMBSTONE} OR d.until IS NULL OR e.created_at > d.until) "
    "ORDER BY e.created_at DESC, e.id LIMIT 1"
)
TOO_LARGE: Final = "another device's text won, and this text is too large for a conflict copy"
FORGOTTEN_ELSEWHERE: Final = "another device forgot the memory before it saw this text"


class HeadMoved(Exception):
    """A slot changed between reading and writing. Nothing was written; read the slot again."""


@dataclass(frozen=True, slots=True)
class FilingContext:
    """The time of filing, and what the caller has read inside the stored versions.

    Attributes:
        now: seconds since 1970.
        origins: by event id (32 bytes), the origin of every version that may be removed or replaced; None if nobody has
            opened the versions, so that each counts as plain.
        knows: whether the event to file is based on every version at its slot.
        is_ours: whether this process has just written the event.
        replaces: whether the event replaces the head, whose second it shares (see `stamps`).
    """

    now: float
    origins: Mapping[bytes, Origin] | None = None
    knows: bool = False
    is_ours: bool = False
    replaces: bool = False

    def of(self, ident: bytes, created_at: int) -> Origin:
        """The origin of a stored version.

        Raises:
            HeadMoved: the version was filed after the versions were read.
        """
        if self.origins is None:
            return Origin.plain(ident.hex(), created_at)
        if ident not in self.origins:
            raise HeadMoved
        return self.origins[ident]


def record_overruled(db: Database, slot: str) -> None:
    """Record, for the user, that an edit of this device and another version did not know each other, or that a memory was
    written again on another device after it was forgotten.
    """
    db.execute("INSERT OR IGNORE INTO overruled (slot) VALUES (?)", slot)


def is_held_by_relay(db: Database, event_id: str) -> bool:
    """Whether a relay has accepted or served an event, by its id (hex)."""
    return db.row(_HELD, bytes.fromhex(event_id)) is not None


@dataclass(frozen=True, slots=True)
class _StoredMemory:
    """A stored version of a slot where something is removed."""

    seq: int
    id: bytes
    at: int
    origin: Origin
    is_history: bool


@dataclass(frozen=True, slots=True)
class Cover:
    """A tombstone or a deletion, which covers older versions: a covered version cannot be the head."""

    until: int
    id: str = ""

    def covers(self, version: _StoredMemory) -> bool:
        """Whether a version is covered."""
        if not self.id or version.is_history:
            return version.at <= self.until
        return wins_over(self.until, self.id, version.at, version.id.hex())


def remove_versions(db: Database, slot: str, cover: Cover, removal: Removal, context: FilingContext) -> None:
    """Purge the versions that a removal reaches at a slot, list the others as forks, and elect the head.

    A version dated after the tombstone or the deletion stays until it is replaced on relays too.
    """
    join_removal(db, slot, removal)
    _drop_drafts(db, removal)
    rows = db.rows(
        f"SELECT seq, id, created_at, role {_OF_SLOT} AND {HAS_ORIGIN} ORDER BY created_at DESC, id",
        slot,
    )
    stored = [
        _StoredMemory(seq, ident, at, context.of(ident, at), is_history=ROLES[role].is_history)
        for seq, ident, at, role in rows
    ]
    spared = _accessed(db, slot, stored, removal)
    gone = [
        item
        for item in stored
        if removal.names(item.id.hex())
        or (cover.covers(item) and removal.reaches(item.origin) and item is not spared)
    ]
    forgotten = [item for item in gone if removal.forgets(item.origin)]
    _draft_unseen(db, removal, stored, forgotten, context.now)
    db.execute(
        "UPDATE slots SET head = NULL WHERE slot = ?", slot
    )  # first, because the head is a foreign key
    db.execute_many("DELETE FROM events WHERE seq = ?", [(item.seq,) for item in gone])
    db.execute(
        f"DELETE {_OF_SLOT} AND {GOES_BY_DATE} AND created_at <= ?",
        slot,
        cover.until,
    )
    elect_head(db, slot, cover.until)
    left = [item for item in stored if item not in gone and not item.is_history]
    known = read_removal(db, slot)
    for item in left:
        add_fork(db, slot, item.seq)
        if known.forgets(item.origin):
            add_forgotten_fork(db, slot, item.seq)
        if cover.covers(item):  # relays would refuse it; whoever opens the fork writes a new version
            db.execute(
                "DELETE FROM outbox WHERE event = ? AND state IN ('queued', 'refused', 'parked')", item.seq
            )
    if not left:
        db.execute("DELETE FROM access WHERE slot = ?", slot)
    for copy in removal.copies:
        add_head_fork(db, copy)


def _accessed(
    db: Database, slot: str, stored: Iterable[_StoredMemory], removal: Removal
) -> _StoredMemory | None:
    """The newest version, if it survives an automatic removal because the memory was recalled here; else None."""
    newest = next((item for item in stored if not item.is_history), None)
    if newest is None or not removal.is_automatic or removal.forgets(newest.origin):
        return None
    return newest if db.row("SELECT 1 FROM access WHERE slot = ? AND count > 0", slot) else None


def _draft_unseen(
    db: Database, removal: Removal, stored: Iterable[_StoredMemory], gone: Iterable[_StoredMemory], now: float
) -> None:
    """Save the last text of this device as a draft, if it was forgotten by a device that did not have it."""
    unseen = [item for item in gone if is_own_device(db, item.origin.device) and not item.is_history]
    newest = max(unseen, key=lambda item: (item.origin.said_at, item.at), default=None)
    if newest is None or (removal.knew(newest.origin) and not _is_never_seen(db, removal, newest)):
        return
    others = [item.origin for item in stored if item.origin.said != newest.origin.said]
    if any(other.knows(newest.origin) for other in others):
        return  # a later edit has replaced the text
    written_at = min(newest.origin.said_at, now)  # because a stamp may be ahead of the clock
    save_draft(db, newest.id, newest.origin.said, FORGOTTEN_ELSEWHERE, written_at)


def _is_never_seen(db: Database, removal: Removal, version: _StoredMemory) -> bool:
    """Whether a blind removal cannot have known a version, because its text never reached a relay."""
    return removal.is_blind and not is_held_by_relay(db, version.origin.said)


def _drop_drafts(db: Database, removal: Removal) -> None:
    """Remove drafts of texts that a removal names, even if another device forgot the texts unseen before."""
    found = list(db.rows_in(_DRAFTED, removal.texts))
    db.execute_many("DELETE FROM drafts WHERE draft = ?", found)


def save_draft(db: Database, ident: bytes, said: str, reason: str, written_at: float) -> None:
    """Save the ciphertext of a stored version as a draft, unless the draft exists, and record that the edit lost.

    Args:
        db: the open ledger file.
        ident: the version's event id.
        said: id of the event that had the text first, 64 hex digits.
        reason: why the text becomes a draft.
        written_at: when the text was written, seconds since 1970.
    """
    slot, body = db.row("SELECT slot, body FROM events WHERE id = ?", ident) or ("", b"")
    if not body:
        return
    content = Event.restored(body).content
    if db.row("SELECT 1 FROM drafts WHERE slot = ? AND content = ?", slot, content):
        return
    db.execute(
        "INSERT INTO drafts (slot, content, created_at, reason, said) VALUES (?, ?, ?, ?, ?)",
        slot,
        content,
        written_at,
        reason,
        said,
    )
    record_overruled(db, slot)


def elect_head(db: Database, slot: str, until: int) -> None:
    """Elect the head of a slot from the remaining versions, and raise the slot's mark to at least `until`."""
    left = db.row(_ELECTED, slot)
    db.execute(
        "INSERT INTO slots (slot, mark_at, head) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
        "SET mark_at = max(mark_at, excluded.mark_at), head = excluded.head",
        slot,
        until,
        None if left is None else left[0],
    )
