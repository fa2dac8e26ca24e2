"""What a removal does to the versions of a slot that are stored: some go, some stay and are listed as in doubt.

That depends on the inside of each version, which whoever can open it has looked at before (`Sight`). Functions here
run inside the transaction that files the tombstone or the deletion, so that a draft of a text that was forgotten
unseen is there if and only if the text is gone.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.ledger import removals
from sense_memory.ledger.removals import ID_CHARS, Origin, Removal
from sense_memory.ledger.role import Role
from sense_memory.nostr import address
from sense_memory.nostr.event import Event, wins_over


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.ledger.database import Database


# ── Versions in doubt ───────────────────────────────────────────────────────────────────
# Versions in doubt: what a slot's head may not know of, or may not have known. Written inside a transaction.
#
# The ledger cannot tell what a version knows; that is inside the ciphertext. It lists what has to be looked at:
# a version that another device's replaced, one that came late, and a head that was written although its memory
# had been forgotten. Whoever can open them looks, and takes them off the list. Of flat memories, which do not merge,
# only the last are listed.


def doubt(db: Database, slot: str, seq: int | None) -> None:
    """A version has to be looked at; nothing happens where the slot's versions do not merge."""
    if seq is not None and address.merges(slot):
        db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def doubt_forgotten(db: Database, slot: str, seq: int) -> None:
    """A version is on top although its text is forgotten, because a device that did not know that signed it anew."""
    db.execute("INSERT OR IGNORE INTO forks (slot, event) VALUES (?, ?)", slot, seq)


def doubt_head(db: Database, slot: str) -> None:
    """Something was forgotten: a head that is left may only seem to be newer."""
    if address.merges(slot):
        db.execute(
            "INSERT OR IGNORE INTO forks (slot, event) SELECT s.slot, s.head FROM slots s "
            "JOIN events e ON e.seq = s.head WHERE s.slot = ? AND e.role = 0",
            slot,
        )


# ── Erasing for good ────────────────────────────────────────────────────────────────────
# Erasing for good: what is deleted from the ledger must not stay readable beside it.
#
# SQLite overwrites deleted rows, but older copies of their pages wait in the write-ahead log, and whole ones
# in the backup of a migration. Whatever transaction deletes notes the debt in the ledger itself; whoever can,
# this process or another, pays it at the next occasion.

_OWED: Final = "erasure_owed"

# For this connection only, and for every way of deleting, those of tomorrow included.
_NOTE: Final = (
    "CREATE TEMP TRIGGER deleting_from_{table}_owes_erasure AFTER DELETE ON main.{table} "
    "BEGIN INSERT OR REPLACE INTO meta VALUES ('" + _OWED + "', '1'); END"
)


class Erasure:
    """The debt of one open ledger.

    Args:
        db: the open ledger file.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        if db.path is not None:
            for table in ("events", "drafts"):
                db.execute(_NOTE.format(table=table))

    def finish(self) -> None:
        """Pay what is owed; where another process publishes or reads, it stays owed."""
        if self._db.row("SELECT 1 FROM meta WHERE name = ?", _OWED) is None or not self._db.checkpoint():
            return
        for backup in self._db.backups():
            with suppress(OSError):  # the folder is closed to us: it stays, and is no worse than it was
                backup.unlink(missing_ok=True)
        with self._db.transaction():
            self._db.execute("DELETE FROM meta WHERE name = ?", _OWED)


_HELD: Final = (
    "SELECT 1 FROM events e JOIN outbox o ON o.event = e.seq "
    "WHERE e.id = ? AND o.state IN ('acked', 'confirmed') LIMIT 1"
)
_OF_SLOT: Final = "FROM events WHERE slot = ? AND quarantined = 0"
_DEVICE: Final = "SELECT value FROM meta WHERE name = 'device'"
_DRAFTED: Final = f"SELECT draft FROM drafts WHERE said <> '' AND substr(said, 1, {ID_CHARS}) IN "
# Whatever happens there, a version that a deletion or a tombstone covers is never the head.
_ELECTED: Final = (
    "SELECT e.seq FROM events e LEFT JOIN deletions d ON d.target = e.slot WHERE e.slot = ? AND e.quarantined = 0 "
    f"AND e.role <> {int(Role.REPLACED)} AND (e.role = {int(Role.TOMBSTONE)} OR d.until IS NULL OR e.created_at > d.until) "
    "ORDER BY e.created_at DESC, e.id LIMIT 1"
)
TOO_LARGE: Final = "another device's text counts, and this one is too large for a conflict copy"
FORGOTTEN_ELSEWHERE: Final = "forgotten elsewhere before this edit was seen"


class HeadMoved(Exception):
    """Something came in between reading and writing: nothing was written; read again."""


@dataclass(frozen=True, slots=True)
class Sight:
    """The moment of filing, and what somebody who can open events has seen of those that are stored.

    Attributes:
        now: seconds since 1970.
        origins: by event id (32 bytes), of every version that may be removed or replaced; None where nobody looked,
            and versions say nothing of themselves.
        knows: whether what is filed knows all that is there of its slot.
        is_ours: whether it was written by this process a moment ago.
        replaces: whether it takes the place of the head, whose second it shares (see `handover`).
    """

    now: float
    origins: Mapping[bytes, Origin] | None = None
    knows: bool = False
    is_ours: bool = False
    replaces: bool = False

    def of(self, ident: bytes, created_at: int) -> Origin:
        """The origin of a stored version.

        Raises:
            HeadMoved: it came in since somebody looked.
        """
        if self.origins is None:
            return Origin.plain(ident.hex(), created_at)
        if ident not in self.origins:
            raise HeadMoved
        return self.origins[ident]


def overrule(db: Database, slot: str) -> None:
    """An edit of this device lost against one that did not know it: somebody is to be told."""
    db.execute("INSERT OR IGNORE INTO overruled (slot) VALUES (?)", slot)


def is_held(db: Database, event_id: str) -> bool:
    """Whether a relay holds, or held, an event, by its id in hex."""
    return db.row(_HELD, bytes.fromhex(event_id)) is not None


def device_of(db: Database) -> str:
    """The name of this ledger among its owner's devices; empty before it has one."""
    (device,) = db.row(_DEVICE) or ("",)
    return str(device)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A version that is stored where something is removed."""

    seq: int
    id: bytes
    at: int
    origin: Origin
    is_history: bool


@dataclass(frozen=True, slots=True)
class Cover:
    """What no head may lie under: a tombstone with its id, or the second of a deletion."""

    until: int
    id: str = ""

    def covers(self, version: _Kept) -> bool:
        """Whether a version cannot be the head because of this."""
        if not self.id or version.is_history:
            return version.at <= self.until
        return wins_over(self.until, self.id, version.at, version.id.hex())


def remove(db: Database, slot: str, cover: Cover, removal: Removal, sight: Sight) -> None:
    """Purge what a removal reaches at a slot, list what is left as in doubt, and elect the head.

    What is dated after the tombstone or the deletion stays until it is replaced on relays too.
    """
    removals.add(db, slot, removal)
    _drop_drafts(db, removal)
    rows = db.rows(
        f"SELECT seq, id, created_at, role {_OF_SLOT} AND role IN ({int(Role.MEMORY)}, {int(Role.REPLACED)}) "
        "ORDER BY created_at DESC, id",
        slot,
    )
    stored = [
        _Kept(seq, ident, at, sight.of(ident, at), is_history=role == Role.REPLACED)
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
    _draft_unseen(db, removal, stored, forgotten, sight.now)
    db.execute("UPDATE slots SET head = NULL WHERE slot = ?", slot)  # a foreign key: it goes first
    db.execute_many("DELETE FROM events WHERE seq = ?", [(item.seq,) for item in gone])
    db.execute(
        f"DELETE {_OF_SLOT} AND role = {int(Role.EMBEDDING)} AND created_at <= ?",
        slot,
        cover.until,
    )
    elect(db, slot, cover.until)
    left = [item for item in stored if item not in gone and not item.is_history]
    known = removals.read(db, slot)
    for item in left:
        doubt(db, slot, item.seq)
        if known.forgets(item.origin):
            doubt_forgotten(db, slot, item.seq)
        if cover.covers(item):  # relays would refuse it: it is to be written anew
            db.execute(
                "DELETE FROM outbox WHERE event = ? AND state IN ('queued', 'refused', 'parked')", item.seq
            )
    if not left:
        db.execute("DELETE FROM access WHERE slot = ?", slot)
    for copy in removal.copies:
        doubt_head(db, copy)


def _accessed(db: Database, slot: str, stored: Iterable[_Kept], removal: Removal) -> _Kept | None:
    """The newest version, where it is pruned elsewhere although it was recalled here: whoever pruned did not know."""
    newest = next((item for item in stored if not item.is_history), None)
    if newest is None or not removal.is_automatic or removal.forgets(newest.origin):
        return None
    return newest if db.row("SELECT 1 FROM access WHERE slot = ? AND count > 0", slot) else None


def _draft_unseen(
    db: Database, removal: Removal, stored: Iterable[_Kept], gone: Iterable[_Kept], now: float
) -> None:
    """Keep as a draft what this device said last, where it is forgotten by somebody who did not have it."""
    device = device_of(db)
    unseen = [item for item in gone if item.origin.device == device != "" and not item.is_history]
    newest = max(unseen, key=lambda item: (item.origin.said_at, item.at), default=None)
    if newest is None or (removal.knew(newest.origin) and not _is_never_seen(db, removal, newest)):
        return
    others = [item.origin for item in stored if item.origin.said != newest.origin.said]
    if any(other.knows(newest.origin) for other in others):
        return  # somebody has replaced it
    draft(db, newest.id, newest.origin.said, FORGOTTEN_ELSEWHERE, now)


def _is_never_seen(db: Database, removal: Removal, version: _Kept) -> bool:
    """Whether a removal that does not tell what was known cannot have known a version: no relay had its text."""
    return removal.is_blind and not is_held(db, version.origin.said)


def _drop_drafts(db: Database, removal: Removal) -> None:
    """Somebody who had a text forgot it: it is no draft any more, though another had forgotten it unseen before."""
    found = list(db.rows_in(_DRAFTED, removal.texts))
    db.execute_many("DELETE FROM drafts WHERE draft = ?", found)


def draft(db: Database, ident: bytes, said: str, reason: str, now: float) -> None:
    """Keep the text of a stored version as a draft, unless it is one already, and have somebody told.

    The ciphertext of the version is the draft's: whoever reads drafts reads it.

    Args:
        db: the open ledger file.
        ident: the version's event id.
        said: id of the event that said its text first, 64 hex digits.
        reason: why it is a draft.
        now: seconds since 1970.
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
        now,
        reason,
        said,
    )
    overrule(db, slot)


def elect(db: Database, slot: str, until: int) -> None:
    """The head of a slot from what is left there; its mark is at least `until`."""
    left = db.row(_ELECTED, slot)
    db.execute(
        "INSERT INTO slots (slot, mark_at, head) VALUES (?, ?, ?) ON CONFLICT DO UPDATE "
        "SET mark_at = max(mark_at, excluded.mark_at), head = excluded.head",
        slot,
        until,
        None if left is None else left[0],
    )
