"""The writing side of a store: records are sealed, stamped, signed and appended with their outbox rows.

Guaranteed: a call makes all its records durable or none; what it returns survives a kill. No two processes or tasks
write the same second at an address, and a deletion removes what was there when it was written, not what it looked at a
moment before.

Why it is safe: sealing and signing may be remote and slow, so nothing is locked meanwhile. A stamp is taken, the event
is signed, and the ledger checks inside its transaction that the second is still free and that every version which the
event removes was looked at. If not, the event is stamped, and signed, again; a signature whose second stays is kept.

Cost: one encryption, one decryption (every seal is opened before the text is let go) and one signature for each record,
and one commit for all of them. Nothing is sent from here.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from sense_memory.errors import ClockSkewError, InvalidEvent
from sense_memory.ledger import Filed, HeadMoved, Removal, Role
from sense_memory.ledger.removals import ID_CHARS
from sense_memory.ledger.stamps import BurstWait, is_simple
from sense_memory.ledger.versions import slot_of
from sense_memory.limits import (
    MAX_FUTURE_SECONDS,
    MAX_NAMED_COUNT,
    NAMED_TEXTS_COUNT,
    OLD_CLOCK_SECONDS,
)
from sense_memory.nostr import address
from sense_memory.nostr.event import Unsigned
from sense_memory.palace.version import copy_key
from sense_memory.records import envelope
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import AGAIN, FORGET, PRUNE, removal_of, removing
from sense_memory.records.reader import ROLES, filed_as


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, Ledger, Origin
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.records.reader import Reader


class _MovedOn(Exception):
    """A slot changed while a deletion was made: the deletion has to be made anew."""


class Writer:
    """Writes records to a ledger.

    Args:
        signer: seals and signs.
        ledger: where events and outbox rows are written.
        reader: gets the written records, so that reading them needs no decryption.
        relays: the relays to queue the events for.
        clock: seconds since 1970.
        sleep: how to wait when a burst runs too far ahead.
        look: called with each record and its sealed form, once the event is durable.
    """

    def __init__(
        self,
        signer: Signer,
        ledger: Ledger,
        reader: Reader,
        *,
        relays: Sequence[str],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        look: Callable[[Record, SealedRecord], None] | None = None,
    ) -> None:
        self._signer, self._ledger, self._reader = signer, ledger, reader
        self._relays, self._clock, self._sleep, self._look = relays, clock, sleep, look

    async def write(
        self,
        records: Sequence[Record],
        *,
        drafts: bool = True,
        bases: Mapping[str, Basis] | None = None,
        lost_texts: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Make records durable, all or none; returns their event ids in order.

        Args:
            records: what to write.
            drafts: whether to keep records as drafts that the clock does not allow to write.
            bases: by slot, what edits start from.
            lost_texts: the stored versions that become drafts in the same transaction, see `Ledger.save_lost_texts`.

        Raises:
            TooLargeError, InvalidInput, SealVerificationError: before anything was written.
            ClockSkewError: nothing of this call was written, and all of it is kept as drafts.
            StorageFullError, LedgerError: nothing of this call was written.
            HeadMoved: a slot has changed since an edit's basis was read; nothing of this call was written.
        """
        sealed = [await envelope.seal(self._signer, record) for record in records]
        filed: list[Filed] = []
        while True:
            try:
                filed = await self._filed(records, sealed, filed, bases or {})
            except ClockSkewError as error:
                kept = [(_slot(record), item.content) for record, item in zip(records, sealed, strict=True)]
                numbers = await self._ledger.write(
                    self._ledger.drafts.add, kept if drafts else (), self._clock()
                )
                raise ClockSkewError(error.now, error.mark, numbers) from None
            if await self._append(filed, bases=bases, lost_texts=lost_texts):
                break
        for place, record in zip(filed, records, strict=True):
            self._reader.hold_record(place, record)
        if self._look is not None:
            for record, item in zip(records, sealed, strict=True):
                self._look(record, item)
        return [place.event.id for place in filed]

    async def forget(self, path: str) -> str:
        """Replace an address by a tombstone and ask for its deletion (NIP-09); returns the request's id.

        Both are written whether or not the ledger holds the memory: it may be on relays only.
        """
        return await self.forget_all([path])

    async def forget_all(
        self,
        paths: Sequence[str],
        bases: Mapping[str, Basis] | None = None,
        *,
        insists: bool = False,
        why: str = FORGET,
        discarded: Collection[str] = (),
    ) -> str:
        """As `forget`, for some addresses with one request; their embeddings go with them.

        Args:
            paths: what to forget.
            bases: by slot, what the decision is based on.
            insists: also forget where this clock is far behind. No tombstone can be dated then, so the request names
                the stored versions by their ids, which need no order in time.
            why: one of those in `origins`; says how far it reaches on devices that know more than this one.
            discarded: slots whose drafts are discarded with them.

        Raises:
            HeadMoved: an address has changed since the decision; nothing was written.
            ClockSkewError: this clock is far behind the date of a memory; nothing was written.
        """
        paths = [*paths, *self._embeddings(paths)]
        bare = self._undatable(paths) if insists else {}
        while True:
            with suppress(_MovedOn):
                return await self._forgotten(paths, bare, bases, why, discarded=discarded)

    async def _forgotten(
        self,
        paths: Sequence[str],
        bare: Mapping[str, int],
        bases: Mapping[str, Basis] | None,
        why: str,
        *,
        discarded: Collection[str],
    ) -> str:
        """Forget addresses as they stand; returns the request's id.

        Raises:
            _MovedOn: a slot has changed meanwhile.
        """
        known: dict[bytes, Origin] = {}
        fields = await self._removing(paths, why, known)
        records = [envelope.tombstone(path, fields[path]) for path in paths if path not in bare]
        sealed = [await envelope.seal(self._signer, record) for record in records]
        content = await envelope.seal_deletion(self._signer, fields)
        tombstones: list[Filed] = []
        while True:
            tombstones = await self._filed(records, sealed, tombstones, bases or {})
            request = await self._request(fields, tombstones, bare, content)
            items = [*tombstones, request]
            origins = await self._reader.origins(items, known)
            try:
                is_done = await self._append(items, bases=bases, origins=origins, discarded=discarded)
            except HeadMoved:
                if bases is None:
                    raise _MovedOn from None
                raise
            if is_done:
                break
        self._reader.drop_deleted(request.event)
        for tombstone, record in zip(tombstones, records, strict=True):
            self._reader.hold_record(tombstone, record)
        return request.event.id

    async def _request(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        tombstones: Sequence[Filed],
        bare: Mapping[str, int],
        content: str,
    ) -> Filed:
        """The NIP-09 request for some addresses, their tombstones and heads, and the versions at those without one."""
        seconds = [tombstone.event.created_at for tombstone in tombstones]
        second = max([*seconds, *(self._second_by_id(mark) for mark in bare.values())])
        ids = [tombstone.event.id for tombstone in tombstones]
        ids += [
            head.id.hex()
            for tombstone in tombstones
            if (head := self._ledger.head(tombstone.slot)) is not None
        ]
        for path in bare:
            ids += self._ledger.ids_after(address.d_tag(path), second, MAX_NAMED_COUNT // len(bare))
        tags = dict.fromkeys(tag for path in fields for tag in address.d_tags(path))
        unsigned = envelope.deletion(
            self._signer.public_key, tuple(tags), tuple(dict.fromkeys(ids)), second, content
        )
        request = await self._signed(unsigned)
        removals = {address.d_tag(path): removal_of(said, path, second) for path, said in fields.items()}
        return Filed(request, slot_of(request), Role.DELETION, removals=removals)

    async def _removing(
        self, paths: Sequence[str], why: str, origins: dict[bytes, Origin]
    ) -> dict[str, dict[str, Any]]:
        """What forgetting some paths removes, as they stand: by path, the fields that say so.

        The origins of the versions there are added to `origins`, by id.
        """
        found = {}
        for path in paths:
            slot = address.d_tag(path)
            stored = [item for item in self._ledger.versions(slot) if item.role is Role.MEMORY]
            origins |= {item.id: await self._reader.origin(item) for item in stored}
            versions = [origins[item.id] for item in stored]
            removal = self._ledger.edits.removal(slot)
            if why == PRUNE:
                pruned = [Removal(seen=version.seen, upto=version.at) for version in versions]
                found[path] = removing(why, reduce(Removal.joined, pruned, removal))
                continue
            texts, kept = self._texts(path, versions)
            if why == AGAIN:  # the current texts were not forgotten: name only what was named before
                copied = self._ledger.edits.is_forgotten_copy
                texts, kept = [item.said[:ID_CHARS] for item in versions if copied(item)], []
            named = tuple(dict.fromkeys((*removal.texts, *texts)))[-(NAMED_TEXTS_COUNT // len(paths)) :]
            found[path] = removing(why, replace(removal, texts=named, kept=frozenset(kept)))
        return found

    def _texts(self, path: str, versions: Iterable[Origin]) -> tuple[list[str], list[str]]:
        """The texts to name at a path, the newest last, and those to keep because a copy of them lives elsewhere."""
        texts: list[str] = []
        kept: list[str] = []
        for version in sorted(versions, key=lambda version: version.said_at):
            copy = None
            if path.startswith(address.PERSONA):
                copy = self._ledger.head(address.d_tag(copy_key(path, version.said)))
            is_kept = copy is not None and copy.role is Role.MEMORY
            (kept if is_kept else texts).append(version.said[:ID_CHARS])
        return texts, kept

    def _undatable(self, paths: Sequence[str]) -> dict[str, int]:
        """The marks of the paths at which no new event can be dated, because this clock is far behind."""
        latest = int(self._clock()) + MAX_FUTURE_SECONDS
        marks = self._ledger.marks(address.d_tag(path) for path in paths)
        found = {path: marks.get(address.d_tag(path), 0) for path in paths}
        return {path: mark for path, mark in found.items() if mark > latest}

    def _second_by_id(self, mark: int) -> int:
        """The second of a request that names events by their ids, of which the newest is dated `mark`.

        That is now, unless this clock seems to have started anew: relays refuse what is years old, but accept a
        request that is dated like the event that they hold.
        """
        now = int(self._clock())
        return mark if mark - now > OLD_CLOCK_SECONDS else max(now, 0)

    async def forget_entry(self, entry: Event) -> str:
        """Remove a journal entry and ask for its deletion (NIP-09); returns the request's id. Its embedding follows."""
        try:
            second = await self._second(entry.created_at - 1)
        except ClockSkewError:  # it is named by its id, which needs no order in time
            second = self._second_by_id(entry.created_at)
        request = await self._signed(envelope.entry_deletion(entry, second))
        await self._append([Filed(request, slot_of(request), Role.DELETION)])
        self._reader.drop_deleted(request)
        if embeddings := self._embeddings([address.JOURNAL + entry.id]):
            await self.forget_all(embeddings, insists=True)
        return request.id

    async def _append(
        self,
        items: Sequence[Filed],
        *,
        bases: Mapping[str, Basis] | None = None,
        origins: Mapping[bytes, Origin] | None = None,
        lost_texts: Mapping[str, str] | None = None,
        discarded: Collection[str] = (),
    ) -> bool:
        """`Ledger.append_versions`, as of now and for the relays of this writer."""
        now, ledger = self._clock(), self._ledger
        return await ledger.write(
            ledger.append_versions,
            items,
            self._relays,
            now,
            bases=bases,
            origins=origins,
            lost_texts=lost_texts,
            discarded=discarded,
        )

    def _embeddings(self, paths: Iterable[str]) -> list[str]:
        """The paths of the embeddings that the ledger holds of some memories."""
        found = {address.d_tag(address.EMBEDDING + path): address.EMBEDDING + path for path in paths}
        return [found[slot] for slot in self._ledger.heads.embeddings(found)]

    async def _second(self, mark: int) -> int:
        """The second for one event, later than `mark`; waits while a burst runs too far ahead."""
        while True:
            try:
                return self._ledger.stamps(self._clock()).take(mark)
            except BurstWait as wait:
                await self._sleep(min(wait.seconds, 1.0))

    async def _filed(
        self,
        records: Sequence[Record],
        sealed: Sequence[SealedRecord],
        before: Sequence[Filed],
        known: Collection[str],
    ) -> list[Filed]:
        """Records stamped and signed; waits while a burst of ours runs too far ahead.

        Args:
            records: what is written.
            sealed: the same, sealed.
            before: the events of an earlier attempt, whose signatures are kept if their second is; or nothing.
            known: slots of edits that start from the current head.
        """
        while True:
            try:
                seconds = self._seconds(records, known)
                break
            except BurstWait as wait:
                await self._sleep(min(wait.seconds, 1.0))
        filed: list[Filed] = []
        for index, (record, item, second) in enumerate(zip(records, sealed, seconds, strict=True)):
            if before and before[index].event.created_at == second:
                filed.append(before[index])
                continue
            event = await self._signed(item.at(second))
            filed.append(filed_as(record, event))
        return filed

    def _seconds(self, records: Sequence[Record], known: Collection[str]) -> list[int]:
        """The seconds of new events.

        Raises:
            ClockSkewError, BurstWait: as `Stamps.take`.
        """
        stamps = self._ledger.stamps(self._clock())
        slots = [_slot(record) for record in records]
        marks = self._ledger.marks(filter(None, slots))
        roles = {slot: _role(record) for slot, record in zip(slots, records, strict=True) if slot in marks}
        is_open = self._ledger.open_slots(roles, known)
        forgotten = [slot for slot, role in roles.items() if role is Role.TOMBSTONE]
        tombstones = self._ledger.open_tombstones(forgotten, self._clock())
        seconds = []
        for slot, record in zip(slots, records, strict=True):
            second = tombstones.get(slot) or stamps.take(marks.get(slot), is_open=slot in is_open)
            seconds.append(second)
            if slot:  # not handed out yet: the next event in this batch may replace it
                marks[slot] = second
                if is_simple(slot, _role(record), known):
                    is_open.add(slot)
        return seconds

    async def _signed(self, unsigned: Unsigned) -> Event:
        """Sign exactly these fields; a signer may be remote, so its answer is compared with them."""
        event = await self._signer.sign(unsigned)
        claimed = Unsigned(event.created_at, event.kind, event.tags, event.content)
        if (event.pubkey, claimed) != (self._signer.public_key, unsigned):
            raise InvalidEvent(
                "the signer signed another event than the one it was given; nothing was stored or sent"
            )
        return event


def _role(record: Record) -> Role:
    """What an event with a record is to the ledger."""
    return ROLES.get(record.type, Role.MEMORY)


def _slot(record: Record) -> str:
    """The address of a record; empty for a journal entry, whose slot is its event's id."""
    return "" if record.type is RecordType.JOURNAL else address.d_tag(record.path)
