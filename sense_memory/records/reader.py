"""The reading side of a store: verified events become ledger entries, ledger entries become records.

The reader holds the last record opened at each slot. So reading a key again costs one query and no decryption, and no
replaced or forgotten record stays in memory. A relay's event that cannot be opened is counted, and not filed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import BadPayload, InvalidEvent, LedgerCorrupt, MisfiledError, NeedsNewerVersion
from sense_memory.ledger import FiledEvent, FilingResult, Origin, retry_while_moved
from sense_memory.ledger.database import remedy
from sense_memory.ledger.roles import REQUEST
from sense_memory.ledger.versions import deletion_targets, slot_of
from sense_memory.limits import HELD_BYTES, SNAPSHOT_NEW_COUNT, SNAPSHOT_NEW_SHARE
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE, wins_over
from sense_memory.nostr.signer import is_remote
from sense_memory.records import envelope
from sense_memory.records.addresses import Addresses
from sense_memory.records.at_once import all_of
from sense_memory.records.origins import (
    origin_of,
    private_tags_of,
    removal_of,
    removals_of,
    vacated_tags_of,
)
from sense_memory.records.snapshot import OpenedRecord


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger, StoredEvent
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record
    from sense_memory.records.snapshot import Snapshot, SnapshotExtra


_RECORD_OVERHEAD_BYTES: Final = 400  # of a record in memory, without its body
_OPENED_COUNT: Final = 200  # events opened without a pause: some 10 ms


class Reader:
    """Opens the events of the ledger, and files the events of relays.

    Args:
        signer: the owner of the events.
        ledger: where events are filed.
        clock: seconds since 1970.
        snapshot: keeps opened records for the next process; None for no snapshot.
        held_bytes: most bytes of records that `file_events` holds; other records are opened when they are read.
        addresses: the d-tags of the store; by default readable ones.

    Attributes:
        on_new: called with the ids of events that became heads, and the relay that served them.
        extras: by name, what the snapshot keeps beside the records.
        addresses: the d-tags of the store.
    """

    def __init__(
        self,
        signer: Signer,
        ledger: Ledger,
        clock: Callable[[], float],
        snapshot: Snapshot | None = None,
        *,
        held_bytes: int = HELD_BYTES,
        addresses: Addresses | None = None,
    ) -> None:
        self.addresses = addresses or Addresses(signer, ledger)
        self._signer, self._ledger, self._clock, self._snapshot = signer, ledger, clock, snapshot
        self._open: dict[str, OpenedRecord] = {}  # by slot
        self._held_bytes, self._held = held_bytes, 0
        self.on_new: Callable[[Sequence[str], str | None], None] | None = None
        self.extras: dict[str, SnapshotExtra] = {}

    async def record(self, stored: StoredEvent) -> Record | None:
        """The record inside a stored event, or None if a newer schema is needed to read it.

        Raises:
            LedgerCorrupt: the stored event can no longer be opened.
        """
        found = await self._opened(stored)
        return None if found.type is None else found.record

    async def readable_record(self, stored: StoredEvent) -> Record:
        """As `record`, but raises NeedsNewerVersion."""
        return (await self._opened(stored)).record

    async def records(self, events: Sequence[StoredEvent]) -> list[tuple[StoredEvent, Record]]:
        """The records inside many events, without records of a newer schema. Errors as `record`."""
        await self._load_from_snapshot(
            [stored.slot for stored in events if not self._holds(stored.slot, stored.id)]
        )
        opened = await all_of(self._signer, [partial(self.record, stored) for stored in events])
        return [(stored, record) for stored, record in zip(events, opened, strict=True) if record is not None]

    async def live(self, prefix: str) -> list[OpenedRecord]:
        """The records of the heads directly under a prefix, by address; as `records`.

        The event of a held record is not read again, because a seq names one event for ever.
        """
        return await self.opened(self._ledger.heads.uncovered_under(prefix))

    async def opened(self, heads: Sequence[tuple[str, int]]) -> list[OpenedRecord]:
        """The records of some heads (slot, seq) in their order, without tombstones; as `records`.

        A head that another process rewrites in its own second meanwhile gives the version that it was.
        """
        found, unknown = self._look_up(heads)
        if await self._load_from_snapshot([slot for slot, _ in unknown]):
            found, unknown = self._look_up(heads)
        waiting = self._ledger.read([seq for _, seq in unknown])
        while some := list(islice(waiting, _OPENED_COUNT)):
            # History too: another process may have rewritten the head since it was looked up.
            some = [stored for stored in some if stored.role.has_origin]
            opened = await all_of(self._signer, [partial(self._opened, stored) for stored in some])
            found |= {stored.seq: item for stored, item in zip(some, opened, strict=True)}
            await asyncio.sleep(0)  # a local signer never waits: let other tasks run
        alive = (found[seq] for _, seq in heads if seq in found)
        return [item for item in alive if item.type is not None]

    async def is_tombstone(self, event: Event) -> bool:
        """Whether a verified event, stored or not, replaces something that was forgotten. Raises MisfiledError."""
        try:
            return (await envelope.open_event(self._signer, event)).type.role.is_tombstone
        except (BadPayload, NeedsNewerVersion):
            return False

    def hold_record(self, filed: FiledEvent, record: Record) -> None:
        """Hold the record of an event that this process has just sealed. Vectors are not held: they are read once."""
        if not record.type.role.traits.is_derived:
            ident = bytes.fromhex(filed.event.id)
            self._open[filed.slot] = OpenedRecord.of(ident, record, filed.event.created_at)

    def drop_deleted(self, request: Event) -> None:
        """Drop the held records that a filed deletion names."""
        for target, _ in deletion_targets(request, self._ledger.places.slot_at):
            self._open.pop(target, None)

    async def save(self) -> None:
        """Rewrite the snapshot if it lacks enough of the held records; a closing store calls this."""
        if self._snapshot is None:
            return
        is_due = any(_is_worth_saving(extra.unsaved, len(extra)) for extra in self.extras.values())
        fresh = {slot: item for slot, item in self._open.items() if not item.is_saved and item.can_be_saved}
        # With a remote signer, each record that the snapshot lacks costs the next process a round trip.
        costs_round_trips = is_remote(self._signer)
        least = 1 if costs_round_trips else SNAPSHOT_NEW_COUNT
        if not is_due and len(fresh) < least:
            return
        if not is_due:
            lacking, there = await self._snapshot.lacking(fresh)
            is_due = bool(lacking) if costs_round_trips else _is_worth_saving(lacking, lacking + there)
        if is_due:
            await self._snapshot.write(self._open, self.extras)

    async def saved_extra(self, name: str, made_of: str) -> memoryview | None:
        """An extra of the snapshot, by name; call this once for each name.

        Args:
            name: as in `extras`.
            made_of: what the extra must be made of, or it is not returned; see `SnapshotExtra`.
        """
        return None if self._snapshot is None else await self._snapshot.take_extra(name, made_of)

    async def _load_from_snapshot(self, slots: Sequence[str]) -> bool:
        """Load records of some slots from the snapshot, if that costs less than opening their events.

        Returns whether any record was loaded. Stale records are not used: callers compare ids.
        """
        if self._snapshot is None:
            return False
        before = len(self._open)
        async for block in self._snapshot.read(slots):
            for slot, saved in block.items():
                if slot not in self._open or self._holds(slot, saved.id):
                    self._open[slot] = saved
        return len(self._open) > before

    def _holds(self, slot: str, ident: bytes) -> bool:
        known = self._open.get(slot)
        return known is not None and known.id == ident

    def _look_up(
        self, heads: Sequence[tuple[str, int]]
    ) -> tuple[dict[int, OpenedRecord], list[tuple[str, int]]]:
        """The held records of these heads (slot, seq), by seq; and the other heads."""
        found: dict[int, OpenedRecord] = {}
        unknown: list[tuple[str, int]] = []
        for slot, seq in heads:
            known = self._open.get(slot)
            if known is not None and known.seq == seq:
                found[seq] = known
            else:
                unknown.append((slot, seq))
        return found, unknown

    async def _opened(self, stored: StoredEvent) -> OpenedRecord:
        known = self._open.get(stored.slot)
        if known is not None and known.id == stored.id:
            if not known.seq:
                known = self._open[stored.slot] = known._replace(seq=stored.seq)
            return known
        record: Record | NeedsNewerVersion
        try:
            event = stored.event()
            if event.id != stored.id.hex():
                raise MisfiledError(event.id)
            record = await self._open_event(event)
            if stored.slot not in {slot_of(event), slot_at(record, event.d_tag or "") or slot_of(event)}:
                raise MisfiledError(event.id)
        except NeedsNewerVersion as error:
            record = error
        except (InvalidEvent, BadPayload, MisfiledError) as error:
            raise LedgerCorrupt(
                f"{remedy(self._ledger.path)}: event {stored.id.hex()[:16]}… can no longer be opened ({error}), so the "
                "ledger is damaged; it was left as it is"
            ) from None
        opened = OpenedRecord.of(stored.id, record, event.created_at, stored.seq)
        if not stored.role.traits.is_derived and (
            known is None or wins_over(event.created_at, event.id, known.created_at, known.id.hex())
        ):
            self._open[stored.slot] = opened  # an old version does not replace the held head
        return opened

    async def file_served(self, events: Sequence[Event], relay: str | None) -> Mapping[str, int]:
        """File the events of a relay; returns counts by result: new, known, stale, …, foreign, misfiled, unreadable."""
        counts, _ = await self.file_events(events, relay)
        return counts

    async def file_events(
        self, events: Sequence[Event], relay: str | None
    ) -> tuple[Mapping[str, int], Mapping[int, str]]:
        """File the events of a relay, or of a file (None).

        Returns:
            Counts, as from `file_served`; and the reason for each event that was left out, by its index.
        """
        counts: Counter[str] = Counter()
        left_out: dict[int, str] = {}
        filed: list[FiledEvent] = []
        opened: dict[str, Record] = {}
        known = self._ledger.filed_before(events)
        new = [event for event in events if event.id not in known]
        found = dict(
            zip(
                (event.id for event in new),
                await all_of(
                    self._signer, [partial(self._classified_or_left_out, event, opened) for event in new]
                ),
                strict=True,
            )
        )
        for index, event in enumerate(events):
            item = known.get(event.id) or found[event.id]
            if isinstance(item, str):
                left_out[index] = item
            else:
                filed.append(item)
        counts.update(left_out.values())
        results = await self._apply(filed, relay)
        for item, result in zip(filed, results, strict=True):
            counts[result.value] += 1
            if result is FilingResult.NEW:
                self._hold_new_head(item, opened.get(item.event.id))
        if self.on_new is not None and counts[FilingResult.NEW.value]:
            fresh = zip(filed, results, strict=True)
            self.on_new([item.event.id for item, result in fresh if result is FilingResult.NEW], relay)
        return counts, left_out

    async def _apply(self, filed: Sequence[FiledEvent], relay: str | None) -> Sequence[FilingResult]:
        """File events, after reading every version that the events may remove or replace."""

        async def attempt() -> Sequence[FilingResult]:
            items = self._with_slots(filed)
            origins = await self.origins(items)
            return await self._ledger.write(
                self._ledger.file_events, items, relay, self._clock(), origins=origins
            )

        return await retry_while_moved(attempt)

    def _with_slots(self, filed: Sequence[FiledEvent]) -> Sequence[FiledEvent]:
        """Events, of which deletions know the slots of the private d-tags that they name, if anything here does."""
        requests = {index: item for index, item in enumerate(filed) if item.role.is_request}
        if not requests:
            return filed
        there = {item.event.d_tag: item.slot for item in filed if not address.is_vacated_slot(item.slot)}
        found = list(filed)
        for index, item in requests.items():
            named = [address.d_tag_of(one, item.event.pubkey) for one in item.event.tag_values("a")]
            private = [tag for tag in named if tag is not None and address.is_private(tag)]
            slots = {tag: there.get(tag) or self._ledger.places.slot_at(tag) for tag in private}
            known = {tag: slot for tag, slot in slots.items() if slot != tag}
            found[index] = replace(item, tags=known | dict(item.tags))
        return found

    async def file_quarantined(self) -> int:
        """File the quarantined events that are due; returns how many."""
        return await retry_while_moved(self._file_quarantined)

    async def _file_quarantined(self) -> int:
        waiting = [
            await self._classified(item.event, {}) for item in self._ledger.quarantined_due(self._clock())
        ]
        if not waiting:
            return 0
        items = self._with_slots(waiting)
        origins = await self.origins(items)
        return await self._ledger.write(self._ledger.file_quarantined, self._clock(), items, origins=origins)

    async def origins(
        self, filed: Sequence[FiledEvent], known: Mapping[bytes, Origin] | None = None
    ) -> Mapping[bytes, Origin]:
        """The origins of some events, and of the memories that these events may remove or replace; by event id.

        Args:
            filed: the events.
            known: origins that were read before, by id; reading one again would decrypt an old version again.

        Raises:
            LedgerCorrupt: a stored event can no longer be opened.
        """
        found = {bytes.fromhex(item.event.id): item.known_origin for item in filed if item.role.has_origin}
        known = known or {}
        for stored in self._ledger.affected_memories(filed):
            found[stored.id] = known.get(stored.id) or await self.origin(stored)
        return found

    async def origin(self, stored: StoredEvent) -> Origin:
        """The origin of a stored memory."""
        opened, ident = await self._opened(stored), stored.id.hex()
        if opened.type is None:
            return Origin.plain(ident, opened.created_at)
        return origin_of(opened.record, ident, opened.created_at)

    def _hold_new_head(self, filed: FiledEvent, record: Record | None) -> None:
        """Hold the record of a new head, within `held_bytes`; drop the record that the event replaces or deletes."""
        if filed.role.is_request:
            self.drop_deleted(filed.event)
        elif record is not None:
            self._open.pop(filed.slot, None)
            if self._held < self._held_bytes:
                self.hold_record(filed, record)
                kept = self._open.get(filed.slot)
                self._held += _RECORD_OVERHEAD_BYTES + (0 if kept is None else len(kept.body))

    async def _classified_or_left_out(self, event: Event, opened: dict[str, Record]) -> FiledEvent | str:
        """As `_classified`, or why the event is left out."""
        try:
            return await self._classified(event, opened)
        except _ForeignEvent:
            return "foreign"
        except MisfiledError:
            return "misfiled"
        except BadPayload:
            return "unreadable"

    async def _classified(self, event: Event, opened: dict[str, Record]) -> FiledEvent:
        """An event with its slot and role; its record is added to `opened`.

        Raises:
            _ForeignEvent: the event is of another key or another program.
            MisfiledError, BadPayload: the event cannot be opened.
        """
        if event.pubkey != self._signer.public_key:
            raise _ForeignEvent
        if event.kind == KIND_DELETION:
            if not _concerns_us(event):
                raise _ForeignEvent
            return deletion_as(await envelope.open_deletion(self._signer, event), event)
        if event.kind not in {KIND_APP_DATA, KIND_DIRECT_MESSAGE}:
            raise _ForeignEvent  # relays are not asked for other kinds, but a file may contain any
        if event.kind == KIND_APP_DATA and (event.d_tag is None or not address.is_ours(event.d_tag)):
            raise _ForeignEvent
        slot = slot_of(event)
        try:
            record = await self._open_event(event)
        except NeedsNewerVersion:
            return FiledEvent(event, slot)
        except BadPayload:
            if event.kind == KIND_DIRECT_MESSAGE:
                raise _ForeignEvent from None  # another client's message to oneself
            raise
        opened[event.id] = record
        return filed_as(record, event)

    async def _open_event(self, event: Event) -> Record:
        """As `envelope.open_event`, with the keys of private d-tags."""
        is_private = event.d_tag is not None and address.is_private(event.d_tag)
        return await envelope.open_event(
            self._signer, event, await self.addresses.keys() if is_private else ()
        )


def deletion_as(removed: Mapping[str, Any], event: Event) -> FiledEvent:
    """A deletion, with what it removes and where, by what `envelope.open_deletion` has read inside."""
    removals = {
        address.d_tag(path): removal_of(fields, path, event.created_at)
        for path, fields in removed.items()
        if not (isinstance(fields, dict) and fields.get("why") == envelope.VACATE)
    }
    return FiledEvent(
        event,
        slot_of(event),
        REQUEST,
        removals=removals,
        tags=private_tags_of(removed),
        vacated=vacated_tags_of(removed),
    )


def slot_at(record: Record, tag: str) -> str:
    """The slot of the event of a record with a d-tag; empty for a journal entry, whose slot is its event's id."""
    if not record.type.has_address:
        return ""
    vacates = record.type.role.is_tombstone and record.fields.get("why") == envelope.VACATE
    return address.vacated_slot(tag) if vacates else address.d_tag(record.path)


def filed_as(record: Record, event: Event) -> FiledEvent:
    """The event of a record, with its slot, its role, and its origin or removals. Not for deletions."""
    role, slot = record.type.role, slot_at(record, event.d_tag or "") or slot_of(event)
    if role.is_tombstone:
        return FiledEvent(event, slot, role, removals=removals_of(record, slot, event.created_at))
    origin = origin_of(record, event.id, event.created_at) if role.has_origin else None
    return FiledEvent(event, slot, role, origin)


def _is_worth_saving(unsaved: int, of: int) -> bool:
    return unsaved >= max(SNAPSHOT_NEW_COUNT, SNAPSHOT_NEW_SHARE * of)


class _ForeignEvent(Exception):
    """An event of another key or another program, which is ignored."""


def _concerns_us(event: Event) -> bool:
    """Whether a deletion may concern events of this package. An `e` tag without a `k` tag may."""
    kinds = event.tag_values("k")
    tags = [address.d_tag_of(coordinate, event.pubkey) for coordinate in event.tag_values("a")]
    if any(tag is not None and address.is_ours(tag) for tag in tags):
        return True
    ours = {str(KIND_APP_DATA), str(KIND_DIRECT_MESSAGE)}
    return bool(event.tag_values("e")) and (not kinds or bool(ours & set(kinds)))
