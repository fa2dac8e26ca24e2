"""`Ledger`: the one object that the rest of the program uses. It files and reads events, and decrypts nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sense_memory.errors import LedgerBusy, LedgerError, StorageFullError
from sense_memory.ledger import rescue, stamps, versions
from sense_memory.ledger.caches import LogRows, SnapshotFile, Vectors
from sense_memory.ledger.database import Database
from sense_memory.ledger.edits import Drafts, Edits
from sense_memory.ledger.feed import ChangeFeed, HeadChanges
from sense_memory.ledger.heads import Heads, StoredEvent, stored
from sense_memory.ledger.inventory import Inventory
from sense_memory.ledger.manifests import ManifestRows
from sense_memory.ledger.outbox import Outbox
from sense_memory.ledger.places import Places
from sense_memory.ledger.relays import RelayRecords, Remark
from sense_memory.ledger.removals import TOO_LARGE, Erasure, FilingContext, record_overruled, save_draft
from sense_memory.ledger.roles import AS_HISTORY, AS_MEMORY, HAS_ORIGIN, IS_HISTORY, IS_TOMBSTONE, ROLES, Role
from sense_memory.ledger.stamps import Stamps
from sense_memory.ledger.suspicions import SuspicionRows
from sense_memory.ledger.versions import FiledEvent, FilingResult
from sense_memory.limits import (
    BUSY_BLOCKED_SECONDS,
    BUSY_PAUSE_SECONDS,
    BUSY_SECONDS,
    LOCK_SECONDS,
    MAX_EVENTS_PER_SECOND_COUNT,
    MAX_FUTURE_SECONDS,
    MAX_SAFE_INTEGER,
    STAMP_LOOKBACK_SECONDS,
    USUAL_EVENTS_PER_SECOND_COUNT,
)
from sense_memory.nostr import address
from sense_memory.nostr.event import Event, is_hex64


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sense_memory.ledger.edits import Basis
    from sense_memory.ledger.removals import Origin

_P = ParamSpec("_P")
_T = TypeVar("_T")
_READ_COUNT = 500  # events held at a time when many are read
_BY_ID = "SELECT id, slot, role FROM events WHERE id IN "
_USED = (
    f"SELECT count(*) - (SELECT count(*) FROM events WHERE created_at = ?1 AND {IS_HISTORY}) "
    "FROM events WHERE created_at = ?1"
)


class Ledger:
    """The ledger of one key. See `Database` for the errors of opening.

    Args:
        path: the file, or ":memory:".
        owner: the public key, 64 hex digits.
        patience: how many seconds a call blocks at most while another process writes; `write` never blocks.

    Attributes:
        outbox: which event was sent to which relay.
        inventory: what each relay should hold.
        relays: everything else that is recorded of each relay.
        drafts: texts that could not become versions.
        snapshot: the snapshot's file beside the ledger, which is removed when anything is forgotten.
        heads: the versions that count, slot by slot.
        feed: what changed since a cursor.
        head_changes: which heads other devices and processes changed.
        edits: the state that edits start from.
        vectors: the sealed vectors of memories.
        log_rows: sealed entries of the log that are in no page yet.
        suspicions: which memories may contradict each other.
        manifests: what was seen and written of the manifests of devices.
        places: the d-tags under which relays hold the events of a slot.
    """

    def __init__(self, path: str | Path, owner: str, patience: float = BUSY_SECONDS) -> None:
        self._db = Database(path, owner, patience)
        self.outbox = Outbox(self._db)
        self.inventory = Inventory(self._db)
        try:
            self.snapshot = SnapshotFile(self._db)
        except BaseException:
            self._db.close()
            raise
        self.relays, self.drafts = RelayRecords(self._db), Drafts(self._db)
        self.heads, self.feed, self.edits = Heads(self._db), ChangeFeed(self._db), Edits(self._db)
        self.head_changes = HeadChanges(self._db, self.feed, self.heads)
        self.vectors, self.log_rows = Vectors(self._db), LogRows(self._db)
        self.suspicions, self.manifests = SuspicionRows(self._db), ManifestRows(self._db)
        self.places = Places(self._db)
        self._erasure = Erasure(self._db)
        # The events of full seconds, and where a run of such seconds ends, because a write after a burst would otherwise
        # examine every second of the burst.
        self._full: dict[int, int] = {}
        self._runs: dict[int, int] = {}

    @classmethod
    async def opened(cls, path: str | Path, owner: str) -> Ledger:
        """As the constructor, but the event loop keeps running while another process writes."""
        now = asyncio.get_running_loop().time
        deadline = now() + BUSY_SECONDS
        while True:
            try:
                ledger = cls(path, owner, 0.0)
            except LedgerBusy:
                if now() > deadline:
                    raise
            else:
                ledger._db.patience = BUSY_BLOCKED_SECONDS
                return ledger
            await asyncio.sleep(BUSY_PAUSE_SECONDS)

    def close(self) -> None:
        """Leave the device id to the next process, checkpoint and close."""
        self.edits.device_id.hand_over()
        self._db.close()

    @property
    def path(self) -> Path | None:
        """The file, or None for a ledger in memory."""
        return self._db.path

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    def write_now(self, change: Callable[_P, _T], *values: _P.args, **options: _P.kwargs) -> _T:
        """Make a change, or raise LedgerBusy at once if another process writes."""
        with self._db.impatient():
            return change(*values, **options)

    async def write_if_due(self, change: Callable[_P, _T], *values: _P.args, **options: _P.kwargs) -> _T:
        """As `write`, for a change that may be repeated, and often finds nothing to do."""
        with suppress(LedgerBusy):
            return self.write_now(change, *values, **options)
        return await self.write(change, *values, **options)

    async def write(self, change: Callable[_P, _T], *values: _P.args, **options: _P.kwargs) -> _T:
        """Make a change, such as `append_versions` or a method of the outbox, as one transaction; see `Database.write`.

        The event loop keeps running while another process writes. Raises LedgerBusy if that takes too long.
        """
        done = await self._db.write(change, *values, **options)
        self._clean_files()
        return done

    def stamps(self, now: float) -> Stamps:
        """The version clock at a time; `append_versions` checks every stamp again."""
        return Stamps(int(now), self._used, self._below)

    def mark(self, slot: str) -> int | None:
        """The newest second ever seen at a slot, or None."""
        return versions.mark(self._db, slot)

    def marks(self, slots: Iterable[str]) -> dict[str, int]:
        """As `mark`, for many slots; slots never seen are left out."""
        return versions.marks(self._db, slots)

    def open_slots(self, roles: Mapping[str, Role], bases: Collection[str] = ()) -> set[str]:
        """The slots whose newest version a new version may replace in the same second, see `stamps`.

        Args:
            roles: by slot, the role of the new version.
            bases: slots of edits that start from the current head.
        """
        return stamps.open_slots(self._db, roles, bases)

    def open_tombstones(self, slots: Iterable[str], now: float) -> dict[str, int]:
        """By slot, the second of a tombstone that a new tombstone may replace; see `stamps`."""
        slots = tuple(slots)

        def has_room(second: int) -> bool:
            return self._used(second) + len(slots) <= MAX_EVENTS_PER_SECOND_COUNT

        return stamps.open_tombstones(self._db, slots, int(now), has_room)

    def append_versions(
        self,
        items: Sequence[FiledEvent],
        relays: Sequence[str],
        now: float,
        *,
        bases: Mapping[str, Basis] | None = None,
        origins: Mapping[bytes, Origin] | None = None,
        lost_texts: Mapping[str, str] | None = None,
        discarded: Collection[str] = (),
    ) -> bool:
        """File events of this process and queue them for relays, in one transaction: all or none.

        Args:
            items: the events.
            relays: the relays to queue the events for.
            now: seconds since 1970.
            bases: by slot, the bases of the edits among the events.
            origins: as for `file_events`.
            lost_texts: stored versions that become drafts in the same transaction, see `save_lost_texts`.
            discarded: slots whose drafts are discarded in the same transaction.

        Returns:
            Whether the events were filed. False if another process has used the second of an event meanwhile; nothing
            was stored, and the caller stamps the events again.

        Raises:
            HeadMoved: an edit does not start from the current head, or the events remove a version that nobody has
                read; nothing was stored.
        """
        try:
            with self._change():
                seqs = self._file_own(items, now, bases, origins)
                self._draft_lost_texts(lost_texts or {}, now)
                self.outbox.queue_events(seqs, relays, now)
                self.drafts.remove_at(discarded)
                if items:
                    self.edits.device_id.record(items[-1].event.id)
        except _SecondTaken:
            return False
        # A new conflict copy, which no edit starts from, has a text that the user of this process may not know.
        self.head_changes.leave_out(
            (bytes.fromhex(item.event.id), seq)
            for item, seq in zip(items, seqs, strict=True)
            if not item.known_origin.copy_of or item.slot in (bases or {})
        )
        return True

    def _file_own(
        self,
        items: Sequence[FiledEvent],
        now: float,
        bases: Mapping[str, Basis] | None,
        origins: Mapping[bytes, Origin] | None,
    ) -> list[int]:
        """File events of this process in the caller's transaction; returns their seqs."""
        seqs: list[int] = []
        used: dict[int, int] = {}  # events by second: no other process adds any during the transaction
        based = self.edits.check_bases(items, bases)
        marks = self.marks(item.slot for item in items)
        vacated = self.places.marks(tag for item in items if (tag := item.event.d_tag) is not None)
        for item in items:
            second = item.event.created_at
            if second <= vacated.get(item.event.d_tag or "", -1) and not item.role.is_tombstone:
                raise _SecondTaken
            is_again = second < marks.get(item.slot, -1) and item.role.is_tombstone
            if is_again:
                if self.open_tombstones([item.slot], second).get(item.slot) != second:
                    raise _SecondTaken
                stamps.undo_tombstone(self._db, item.slot, second)
            replaces = second == marks.get(item.slot)
            if replaces:
                self._check_open(item, based)
            elif not is_again and (second < marks.get(item.slot, -1) or self._is_full(item, used)):
                raise _SecondTaken
            now = max(now, second)  # a deletion by id may be dated ahead of a clock that is far behind
            context = FilingContext(now, origins, knows=item.slot in based, is_ours=True, replaces=replaces)
            result, seq = versions.file_event(self._db, item, context)
            self.edits.complete_edit(item.slot, based)
            if result is not FilingResult.NEW or seq is None:
                raise LedgerError("a new event did not become the head; nothing was written")
            marks[item.slot] = second
            if not (replaces or is_again):
                used[second] = used.get(second, 0) + 1
            stamps.record_unsent(self._db, [seq])
            seqs.append(seq)
        return seqs

    def file_events(
        self,
        items: Sequence[FiledEvent],
        relay: str | None,
        now: float,
        origins: Mapping[bytes, Origin] | None = None,
    ) -> list[FilingResult]:
        """File events in one transaction, and record that their relay holds them.

        Args:
            items: the events.
            relay: the relay that served them; None for events from a file.
            now: seconds since 1970.
            origins: the origins of the versions that may be removed or replaced, by id; see `affected_memories`.

        Raises:
            HeadMoved: a slot has changed since `affected_memories` was called; nothing was filed.
        """
        context = FilingContext(now, origins)
        results: list[FilingResult] = []
        seqs: list[int] = []
        behind: list[str] = []
        with self._change():
            for item in items:
                result, seq = versions.file_event(self._db, item, context)
                results.append(result)
                if result in {FilingResult.NEW, FilingResult.STALE}:
                    self._leave_shared_id(item)
                if relay is None:
                    continue
                if seq is not None:
                    seqs.append(seq)
                if self._is_behind(result, seq):
                    behind += self._newer_slots(item)
            if relay is not None:
                self.outbox.record_served(relay, seqs, now)
        if relay is not None and behind:
            if self.outbox.has_accepted_deletion(relay, behind):
                self.relays.add_remark(relay, Remark.UNDELETED, now)
            self.outbox.requeue_heads(relay, behind, now)
        return results

    def _leave_shared_id(self, item: FiledEvent) -> None:
        """Name a memory that was written under this device's id, but not by this ledger, and give the id up."""
        origin = item.known_origin
        if self.edits.device_id.renew_if_shared(origin.device, origin.said, item.event.id):
            record_overruled(self._db, item.slot)

    def save_lost_texts(self, lost_texts: Mapping[str, str], now: float) -> None:
        """Save the texts of versions that lost, and are too large for a conflict copy, as drafts, each text once.

        Args:
            lost_texts: by the event id of the version, the id of the event that had the text first; 64 hex digits each.
            now: seconds since 1970.
        """
        with self._change():
            self._draft_lost_texts(lost_texts, now)

    def _draft_lost_texts(self, lost_texts: Mapping[str, str], now: float) -> None:
        for ident, origin in lost_texts.items():
            version = bytes.fromhex(ident)
            (at,) = self._db.row("SELECT created_at FROM events WHERE id = ?", version) or (now,)
            save_draft(self._db, version, origin, TOO_LARGE, min(at, now))

    def quarantined_due(self, now: float) -> list[FiledEvent]:
        """The quarantined events that are due."""
        return versions.due(self._db, now)

    def file_quarantined(
        self,
        now: float,
        items: Sequence[FiledEvent] | None = None,
        origins: Mapping[bytes, Origin] | None = None,
    ) -> int:
        """File quarantined events that are due, by default all; returns how many. Raises as `file_events`."""
        items = self.quarantined_due(now) if items is None else items
        if not items:
            return 0
        with self._change():
            return versions.release(self._db, items, FilingContext(now, origins))

    def affected_memories(self, items: Sequence[FiledEvent]) -> list[StoredEvent]:
        """The memories that some events may remove, or may replace without merging."""
        removed = set().union(*(item.targets for item in items))
        replaced = (item.slot for item in items if versions.overwrites(item))
        columns = "e.seq, e.id, e.slot, e.role, e.body"
        rows = [
            *self._db.rows_in(
                f"SELECT {columns} FROM events e WHERE e.{HAS_ORIGIN} AND e.quarantined = 0 AND e.slot IN ",
                removed,
            )
        ]
        replaced = (slot for slot in replaced if not slot.startswith("#"))
        return [*map(stored, rows), *self.heads.live_at(replaced)]

    @contextmanager
    def _change(self) -> Iterator[None]:
        """A transaction, after which forgotten data is removed from the files beside the ledger too."""
        with self._db.transaction():
            yield
        if not self._db.in_transaction:
            self._clean_files()

    def _clean_files(self) -> None:
        """Remove forgotten data from the files beside the ledger. A failure is ignored, and retried later."""
        with suppress(LedgerError):
            self.snapshot.sweep()
            self._erasure.finish()

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    def head(self, slot: str) -> StoredEvent | None:
        """The version that counts at a slot, which may be a tombstone; None if the slot has no head."""
        return self.heads.at(slot)

    def read(self, seqs: Sequence[int]) -> Iterator[StoredEvent]:
        """Stored events, ordered by seq and read in batches; events that are gone are left out."""
        ordered = sorted(seqs)
        for start in range(0, len(ordered), _READ_COUNT):
            batch = ordered[start : start + _READ_COUNT]
            marks = ", ".join("?" * len(batch))
            found = self._db.rows(
                f"SELECT seq, id, slot, role, body FROM events WHERE seq IN ({marks}) ORDER BY seq", *batch
            )
            yield from map(stored, found)

    def journal(self, limit: int) -> list[StoredEvent]:
        """The newest direct messages to oneself: at least the last `limit` by the time in the record, and some more.

        A burst backdates events by up to an hour, so the result reaches an hour further back than `limit` events.
        """
        page = "FROM events WHERE kind = 4 AND quarantined = 0 "
        oldest = self._db.row(
            f"SELECT min(created_at) FROM (SELECT created_at {page} ORDER BY created_at DESC LIMIT ?)", limit
        )
        reach = (oldest[0] if oldest and oldest[0] else 0) - STAMP_LOOKBACK_SECONDS - MAX_FUTURE_SECONDS
        return [
            stored(row)
            for row in self._db.rows(f"SELECT seq, id, slot, role, body {page} AND created_at >= ?", reach)
        ]

    def versions(self, slot: str) -> list[StoredEvent]:
        """Every kept version of a slot, newest first; the head is the first."""
        return [
            stored(row)
            for row in self._db.rows(
                f"SELECT seq, id, slot, {AS_MEMORY}, body FROM events "
                "WHERE slot = ? AND quarantined = 0 "
                f"ORDER BY created_at DESC, {IS_HISTORY}, iif({IS_HISTORY}, -seq, id)",
                slot,
            )
        ]

    def drop_versions(self, seqs: Sequence[int], *, forgets: bool = False) -> None:
        """Remove stored versions whose content is in the head; heads are never removed.

        Args:
            seqs: the seqs of the versions.
            forgets: whether the versions contain something forgotten; if so, the snapshot and the vectors go too.
        """
        not_head = "seq = ?1 AND NOT EXISTS (SELECT 1 FROM slots WHERE head = ?1)"
        numbers = [(seq,) for seq in seqs]
        with self._change():
            # Triggers remove the snapshot and the vectors with what is live, not with history.
            role = AS_MEMORY if forgets else AS_HISTORY
            self._db.execute_many(f"UPDATE events SET role = {role} WHERE {not_head}", numbers)
            self._db.execute_many(f"DELETE FROM events WHERE {not_head}", numbers)

    def ids_after(self, slot: str, second: int, limit: int) -> list[str]:
        """The ids (hex) of a slot's newest versions dated after a second, without tombstones and replaced versions."""
        rows = self._db.rows(
            f"SELECT id FROM events WHERE slot = ? AND created_at > ? AND NOT {IS_HISTORY} AND NOT {IS_TOMBSTONE} "
            "ORDER BY created_at DESC, id LIMIT ?",
            slot,
            second,
            limit,
        )
        return [ident.hex() for (ident,) in rows]

    def histories(self, prefix: str) -> Iterator[list[StoredEvent]]:
        """The versions of every slot directly under a prefix (no further `/`), each newest first."""
        return (self.versions(slot) for slot in self.heads.slots_under(prefix))

    def by_id(self, event_id: str) -> StoredEvent | None:
        """One stored event by its id (hex), or None."""
        if not is_hex64(event_id):
            return None
        found = self._db.row(
            "SELECT seq, id, slot, role, body FROM events WHERE id = ?", bytes.fromhex(event_id)
        )
        return stored(found) if found else None

    def stored_ids(self, ids: Iterable[str]) -> set[str]:
        """The ids (hex) whose events are stored here; malformed ids are left out."""
        wanted = {bytes.fromhex(ident) for ident in ids if is_hex64(ident)}
        found = self._db.rows_in("SELECT id FROM events WHERE id IN ", wanted)
        return {ident.hex() for (ident,) in found}

    def filed_before(self, events: Sequence[Event]) -> dict[str, FiledEvent]:
        """By id, those of some verified events that this ledger has filed before, with slot and role as filed."""
        ids = (bytes.fromhex(event.id) for event in events)
        known = {row[0].hex(): row for row in self._db.rows_in(_BY_ID, ids)}
        return {
            event.id: FiledEvent(event, known[event.id][1], ROLES[known[event.id][2]])
            for event in events
            if event.id in known
        }

    def slots(self) -> list[str]:
        """Every address ever seen, including forgotten addresses."""
        return [slot for (slot,) in self._db.rows("SELECT slot FROM slots WHERE substr(slot, 1, 1) <> '#'")]

    def is_deleted(self, slot: str) -> bool:
        """Whether the newest event at a slot is a deletion."""
        return bool(
            self._db.row(
                "SELECT 1 FROM deletions d LEFT JOIN slots s ON s.slot = d.target WHERE d.target = ? "
                "AND (s.head IS NULL OR s.mark_at <= d.until)",
                slot,
            )
        )

    def counts_by_kind(self, apart: Mapping[str, str] | None = None) -> dict[str, int]:
        """Counts of what the ledger holds, such as heads, entries, events and drafts; see `rescue.counts_by_kind`."""
        return rescue.counts_by_kind(self._db, apart or {})

    def bodies(self) -> Iterator[bytes]:
        """Every event's canonical JSON in order of arrival, read in batches."""
        return self._bodies("1")

    def handed_out(self) -> Iterator[bytes]:
        """As `bodies`, for an export: without versions replaced in their own second, and without later events.

        When the first body is read, all events count as handed out, so that no version is replaced in its own second
        from then on.
        """
        # On a full disk this write fails, but no event can be replaced then either.
        with suppress(StorageFullError), self._db.transaction():
            stamps.record_all_sent(self._db)
        yield from self._bodies(f"NOT {IS_HISTORY}", self.feed.cursor().seq)

    def _bodies(self, condition: str, until: int = MAX_SAFE_INTEGER) -> Iterator[bytes]:
        query = (
            f"SELECT seq, body FROM events WHERE seq > ? AND seq <= ? AND {condition} ORDER BY seq LIMIT 500"
        )
        last = 0
        while rows := self._db.rows(query, last, until):
            last = rows[-1][0]
            yield from (body for _, body in rows)

    def integrity(self) -> list[str]:
        """The faults of the file: SQLite's findings, and rows whose id, time or slot differs from their event's."""
        return rescue.problems(self._db)

    # ── Several processes ───────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def publishing(self, wait: float = LOCK_SECONDS) -> AsyncIterator[bool]:
        """Hold the publisher's lock; yields False if another process holds it for `wait` seconds."""
        deadline = asyncio.get_running_loop().time() + wait
        while not (held := self._db.try_lock()):
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(0.05)
        try:
            yield held
        finally:
            if held:
                self._db.unlock()

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the file and truncate it, unless another process publishes."""
        self._db.checkpoint()
        with suppress(LedgerError):  # the erasure stays owed
            self._erasure.finish()

    def _used(self, second: int, room: int = MAX_EVENTS_PER_SECOND_COUNT) -> int:
        """How many events for relays a second holds; a second that was full, with `room` events, is not counted again."""
        if self._full.get(second, 0) >= room:
            return self._full[second]
        (count,) = self._db.row(_USED, second) or (0,)
        if count >= USUAL_EVENTS_PER_SECOND_COUNT:
            self._full[second] = count
        return int(count)

    def _below(self, second: int) -> int:
        """The next second before this one that is not known to be full (`USUAL_EVENTS_PER_SECOND_COUNT`)."""
        found = self._runs.get(second, second - 1)
        while found in self._full:
            found = self._runs.get(found, found - 1)
        self._runs[second] = found
        return found

    def _is_full(self, item: FiledEvent, used: dict[int, int]) -> bool:
        """Whether a second is full by now, because other processes wrote after the stamp."""
        second = item.event.created_at
        if second not in used:
            used[second] = self._used(second)
        return not item.role.is_request and used[second] >= MAX_EVENTS_PER_SECOND_COUNT

    def _check_open(self, item: FiledEvent, based: Collection[str]) -> None:
        """Raise _SecondTaken if another process wrote, so that an event may not replace the version in its second."""
        if not self.open_slots({item.slot: item.role}, based):
            raise _SecondTaken

    def _is_behind(self, result: FilingResult, seq: int | None) -> bool:
        """Whether the relay that served an event lacks a newer version."""
        if result is FilingResult.KNOWN:
            return not self.heads.is_head(seq)
        return result in {FilingResult.STALE, FilingResult.DELETED}

    def _newer_slots(self, item: FiledEvent) -> list[str]:
        """The slots of what replaces an outdated event at its own d-tag."""
        tag, head = item.event.d_tag, self.head(item.slot)
        if tag is None or (head is not None and head.event().d_tag == tag):
            return [item.slot]
        found = [address.vacated_slot(tag)]
        return found if head is not None and head.role.is_content else [item.slot, *found]


class _SecondTaken(Exception):
    """Another process wrote between a stamp and the transaction. Nothing was written."""
