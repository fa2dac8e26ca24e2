"""The writing side of a store: records are sealed, stamped, signed and appended with their outbox rows.

Guaranteed: a call makes all its records durable or none, and a record whose id was returned survives a kill. No two
processes or tasks write the same second at an address. A deletion removes the versions that exist when the deletion is
committed, not those that were read a moment before.

Why it is safe: sealing and signing may be remote and slow, so nothing is locked meanwhile. A stamp is taken and the
event is signed. Then the ledger checks, inside its transaction, that the second is still free and that every version
to be removed was read. If not, the event is stamped and signed again; a signature is kept if its second stays the
same.

Cost: for each record, one encryption, one decryption (every ciphertext is verified) and one signature; one commit for
all records. Nothing is sent from here.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sense_memory.errors import ClockSkewError, InvalidEvent, SignerError
from sense_memory.ledger import FiledEvent, Removal, retry_while_moved
from sense_memory.ledger.removals import ID_CHARS
from sense_memory.ledger.roles import REQUEST
from sense_memory.ledger.stamps import BurstWait, needs_no_merge
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
from sense_memory.records.at_once import all_of
from sense_memory.records.origins import AGAIN, FORGET, PRUNE, removal_of, removing
from sense_memory.records.reader import filed_as


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, Ledger, Origin
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.records.reader import Reader


class Writer:
    """Writes records to a ledger.

    Args:
        signer: seals and signs.
        ledger: where events and outbox rows are written.
        reader: holds the written records, so that reading them needs no decryption.
        relays: the relays to queue the events for.
        clock: seconds since 1970.
        sleep: waits when a burst runs too far ahead of the clock.
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
            drafts: whether to keep the records as drafts if the clock does not allow them to be written, or a remote
                signer does not sign them.
            bases: by slot, what edits start from.
            lost_texts: stored versions that become drafts in the same transaction, see `Ledger.save_lost_texts`.

        Raises:
            TooLargeError, InvalidInput, SealVerificationError: before anything was written.
            SignerError: a remote signer did not sign; nothing was written; with `drafts`, all records are kept as drafts.
            ClockSkewError: nothing of this call was written; with `drafts`, all records are kept as drafts.
            StorageFullError, LedgerError: nothing of this call was written.
            HeadMoved: a slot has changed since an edit's basis was read; nothing of this call was written.
        """
        try:
            return await self._write(records, bases or {}, lost_texts, drafts=drafts)
        except SignerError as error:
            if drafts:
                raise await self.kept(error, records) from None
            raise

    async def kept(self, error: SignerError, records: Sequence[Record]) -> SignerError:
        """Keep as drafts what a remote signer did not sign; returns the error that names the drafts."""
        if error.drafts:
            return error
        kept = [(_slot(record), await envelope.seal_draft(self._signer, record)) for record in records]
        numbers = await self._ledger.write(self._ledger.drafts.add, kept, self._clock())
        return type(error)(error.problem, numbers)

    async def _write(
        self,
        records: Sequence[Record],
        bases: Mapping[str, Basis],
        lost_texts: Mapping[str, str] | None,
        *,
        drafts: bool,
    ) -> list[str]:
        sealed = await self._sealed(records)
        filed: list[FiledEvent] = []
        while True:
            try:
                filed = await self._stamped_and_signed(records, sealed, filed, bases)
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

        Both are written even if the ledger does not hold the memory, which may be on relays only.
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
        """As `forget`, for several addresses and their embeddings, with one request.

        Args:
            paths: what to forget.
            bases: by slot, what the decision is based on.
            insists: forget even if this clock is far behind. A tombstone cannot be dated then, so the request names
                the stored versions by their ids, which does not depend on time.
            why: `FORGET`, `PRUNE` or `AGAIN` (see `origins`): what is removed on devices that know more than this one.
            discarded: slots whose drafts are discarded in the same transaction.

        Raises:
            HeadMoved: an address has changed since the decision; nothing was written.
            ClockSkewError: this clock is far behind the date of a memory; nothing was written.
        """
        paths = [*paths, *self._embeddings(paths)]
        bare = self._undatable_marks(paths) if insists else {}
        once = partial(self._forget_once, paths, bare, bases, why, discarded=discarded)
        return await (retry_while_moved(once) if bases is None else once())

    async def _forget_once(
        self,
        paths: Sequence[str],
        bare: Mapping[str, int],
        bases: Mapping[str, Basis] | None,
        why: str,
        *,
        discarded: Collection[str],
    ) -> str:
        """Forget addresses in their current state; returns the request's id.

        Raises:
            HeadMoved: a slot has changed meanwhile; nothing was written.
        """
        known: dict[bytes, Origin] = {}
        fields = await self._removal_fields(paths, why, known)
        records = [envelope.tombstone(path, fields[path]) for path in paths if path not in bare]
        sealed = await self._sealed(records)
        content = await envelope.seal_deletion(self._signer, fields)
        tombstones: list[FiledEvent] = []
        while True:
            tombstones = await self._stamped_and_signed(records, sealed, tombstones, known=())
            request = await self._request(fields, tombstones, bare, content)
            items = [*tombstones, request]
            origins = await self._reader.origins(items, known)
            if await self._append(items, bases=bases, origins=origins, discarded=discarded):
                break
        self._reader.drop_deleted(request.event)
        for tombstone, record in zip(tombstones, records, strict=True):
            self._reader.hold_record(tombstone, record)
        return request.event.id

    async def _request(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        tombstones: Sequence[FiledEvent],
        bare: Mapping[str, int],
        content: str,
    ) -> FiledEvent:
        """The NIP-09 request for some addresses, with the ids of their tombstones and heads.

        At the addresses in `bare`, which get no tombstone, the request names the stored versions.
        """
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
        return FiledEvent(request, slot_of(request), REQUEST, removals=removals)

    async def _removal_fields(
        self, paths: Sequence[str], why: str, origins: dict[bytes, Origin]
    ) -> dict[str, dict[str, Any]]:
        """What forgetting some paths removes in their current state: by path, the fields of `origins.removing`.

        The origins of the versions at these paths are added to `origins`, by id.
        """
        found = {}
        for path in paths:
            slot = address.d_tag(path)
            stored = [item for item in self._ledger.versions(slot) if item.role.has_origin]
            origins |= {item.id: await self._reader.origin(item) for item in stored}
            versions = [origins[item.id] for item in stored]
            removal = self._ledger.edits.removal(slot)
            if why == PRUNE:
                pruned = [Removal(seen=version.seen, upto=version.at) for version in versions]
                found[path] = removing(why, reduce(Removal.joined, pruned, removal))
                continue
            texts, kept = self._texts(path, versions)
            if (
                why == AGAIN
            ):  # the current texts were not forgotten: name only texts that were forgotten before
                copied = self._ledger.edits.is_forgotten_copy
                texts, kept = [item.said[:ID_CHARS] for item in versions if copied(item)], []
            named = tuple(dict.fromkeys((*removal.texts, *texts)))[-(NAMED_TEXTS_COUNT // len(paths)) :]
            found[path] = removing(why, replace(removal, texts=named, kept=frozenset(kept)))
        return found

    def _texts(self, path: str, versions: Iterable[Origin]) -> tuple[list[str], list[str]]:
        """The texts to name at a path, newest last; and the texts to keep, because a conflict copy of them lives."""
        texts: list[str] = []
        kept: list[str] = []
        for version in sorted(versions, key=lambda version: version.said_at):
            copy = None
            if path.startswith(address.PERSONA):
                copy = self._ledger.head(address.d_tag(copy_key(path, version.said)))
            is_kept = copy is not None and copy.role.is_live
            (kept if is_kept else texts).append(version.said[:ID_CHARS])
        return texts, kept

    def _undatable_marks(self, paths: Sequence[str]) -> dict[str, int]:
        """By path, the marks that are too far ahead of this clock, so that no new event can be dated after them."""
        latest = int(self._clock()) + MAX_FUTURE_SECONDS
        marks = self._ledger.marks(address.d_tag(path) for path in paths)
        found = {path: marks.get(address.d_tag(path), 0) for path in paths}
        return {path: mark for path, mark in found.items() if mark > latest}

    def _second_by_id(self, mark: int) -> int:
        """The second of a request that names events by their ids, the newest of which is dated `mark`.

        The second is now, unless this clock seems to have been reset. Relays refuse events that are years old, but
        accept a request that is dated like the event they hold.
        """
        now = int(self._clock())
        return mark if mark - now > OLD_CLOCK_SECONDS else max(now, 0)

    async def forget_entry(self, entry: Event) -> str:
        """Remove a journal entry and its embedding, and request their deletion (NIP-09); returns the request's id."""
        ident = await self.forget_entries([entry])
        if embeddings := self._embeddings([address.JOURNAL + entry.id]):
            await self.forget_all(embeddings, insists=True)
        return ident

    async def forget_entries(self, entries: Sequence[Event]) -> str:
        """As `forget_entry`, for many entries with one request, without their embeddings."""
        newest = max(entry.created_at for entry in entries)
        try:
            second = await self._second(newest - 1)
        except ClockSkewError:  # the request names entries by their ids, which do not depend on time
            second = self._second_by_id(newest)
        request = await self._signed(envelope.entry_deletion(entries, second))
        await self._append([FiledEvent(request, slot_of(request), REQUEST)])
        self._reader.drop_deleted(request)
        return request.id

    async def _append(
        self,
        items: Sequence[FiledEvent],
        *,
        bases: Mapping[str, Basis] | None = None,
        origins: Mapping[bytes, Origin] | None = None,
        lost_texts: Mapping[str, str] | None = None,
        discarded: Collection[str] = (),
    ) -> bool:
        """Call `Ledger.append_versions` with the current time and the relays of this writer."""
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

    async def _sealed(self, records: Sequence[Record]) -> list[SealedRecord]:
        return await all_of(
            self._signer, [partial(envelope.seal, self._signer, record) for record in records]
        )

    def _embeddings(self, paths: Iterable[str]) -> list[str]:
        """The paths of the embeddings of some memories, as far as the ledger holds them."""
        found = {address.d_tag(address.EMBEDDING + path): address.EMBEDDING + path for path in paths}
        return [found[slot] for slot in self._ledger.heads.embeddings(found)]

    async def _second(self, mark: int) -> int:
        """The second for one event, later than `mark`; waits while a burst is too far ahead of the clock."""
        while True:
            try:
                return self._ledger.stamps(self._clock()).assign(mark)
            except BurstWait as wait:
                await self._sleep(min(wait.seconds, 1.0))

    async def _stamped_and_signed(
        self,
        records: Sequence[Record],
        sealed: Sequence[SealedRecord],
        before: Sequence[FiledEvent],
        known: Collection[str],
    ) -> list[FiledEvent]:
        """The events of some records, stamped and signed; waits while a burst is too far ahead of the clock.

        Args:
            records: the records to write.
            sealed: the same records, sealed.
            before: the events of an earlier attempt, or nothing; a signature is kept if its second stays the same.
            known: slots of edits that start from the current head.
        """
        while True:
            try:
                seconds = self._seconds(records, known)
                break
            except BurstWait as wait:
                await self._sleep(min(wait.seconds, 1.0))
        kept = {
            index: before[index].event
            for index, second in enumerate(seconds)
            if before and before[index].event.created_at == second
        }
        unsigned = [
            item.at(second)
            for index, (item, second) in enumerate(zip(sealed, seconds, strict=True))
            if index not in kept
        ]
        signed = iter(await all_of(self._signer, [partial(self._signed, each) for each in unsigned]))
        return [
            filed_as(record, kept[index] if index in kept else next(signed))
            for index, record in enumerate(records)
        ]

    def _seconds(self, records: Sequence[Record], known: Collection[str]) -> list[int]:
        """The seconds of new events.

        Raises:
            ClockSkewError, BurstWait: as `Stamps.assign`.
        """
        stamps = self._ledger.stamps(self._clock())
        slots = [_slot(record) for record in records]
        marks = self._ledger.marks(filter(None, slots))
        roles = {slot: record.type.role for slot, record in zip(slots, records, strict=True) if slot in marks}
        is_open = self._ledger.open_slots(roles, known)
        forgotten = [slot for slot, role in roles.items() if role.is_tombstone]
        tombstones = self._ledger.open_tombstones(forgotten, self._clock())
        seconds = []
        for slot, record in zip(slots, records, strict=True):
            second = tombstones.get(slot) or stamps.assign(marks.get(slot), is_open=slot in is_open)
            seconds.append(second)
            if slot:  # this event is not handed out yet: the next event of the batch may replace it
                marks[slot] = second
                if needs_no_merge(slot, record.type.role, known):
                    is_open.add(slot)
        return seconds

    async def _signed(self, unsigned: Unsigned) -> Event:
        """Sign exactly these fields. A signer may be remote, so its event is compared with these fields."""
        event = await self._signer.sign(unsigned)
        claimed = Unsigned(event.created_at, event.kind, event.tags, event.content)
        if (event.pubkey, claimed) != (self._signer.public_key, unsigned):
            raise InvalidEvent(
                "the signer signed another event than it was given, so nothing was stored or sent; check the signer"
            )
        return event


def _slot(record: Record) -> str:
    """The address of a record; empty for a journal entry, whose slot is its event's id."""
    return address.d_tag(record.path) if record.type.has_address else ""
