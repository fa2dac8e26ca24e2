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
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sense_memory.errors import ClockSkewError, InvalidEvent, SignerError
from sense_memory.ledger import Basis, FiledEvent, Removal, retry_while_moved
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
from sense_memory.records.origins import AGAIN, FORGET, PRUNE, as_edit, copy_of, removing, with_tags
from sense_memory.records.reader import deletion_as, filed_as, slot_at


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.arguments import AddressMode
    from sense_memory.ledger import Ledger, Origin, StoredEvent
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer
    from sense_memory.records.envelope import Record, SealedRecord
    from sense_memory.records.reader import Reader


@dataclass(frozen=True, slots=True)
class _Removing:
    """What one deletion request removes.

    Attributes:
        records: tombstones, each with its d-tag.
        removing: by path, what is removed and where, for the content of the request.
        main: the d-tags for the `a` tags, by path; a path's own readable d-tag brings that of 0.3.1 along.
        named: ids of events to name, in addition to the tombstones and the heads.
        bare: as in `Writer.forget_all`: by path, the mark of an address that gets no tombstone.
    """

    records: Sequence[tuple[Record, str]]
    removing: Mapping[str, Mapping[str, Any]]
    main: Mapping[str, str]
    named: Sequence[str] = ()
    bare: Mapping[str, int] = field(default_factory=dict)


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
        self._addresses = reader.addresses
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
            return await self._write(
                list(map(as_edit, records)), self._addresses.mode, drafts, bases, lost_texts
            )
        except SignerError as error:
            if drafts:
                raise await self.kept(error, records) from None
            raise

    async def copy(self, versions: Sequence[StoredEvent], mode: AddressMode) -> list[str]:
        """Write heads again at their d-tags of a mode, as the same versions, all or none; returns the new event ids.

        The copies are neither edits nor accesses: an edit that a device wrote without knowing them wins over them.

        Raises:
            HeadMoved: a version is no longer the head, or may have to be merged; nothing was written.
            TooLargeError, SealVerificationError, ClockSkewError, LedgerError: nothing was written.
        """
        records, bases = [], {}
        for stored in versions:
            record = await self._reader.readable_record(stored)
            copied = copy_of(record, stored.event())
            records.append(copied if envelope.fits(copied) else record)
            bases[stored.slot] = Basis(stored.seq)
        return await self._write(records, mode, False, bases, None)

    async def kept(self, error: SignerError, records: Sequence[Record]) -> SignerError:
        """Keep as drafts what a remote signer did not sign; returns the error that names the drafts."""
        if error.drafts:
            return error
        kept = [(slot_at(record, ""), await envelope.seal_draft(self._signer, record)) for record in records]
        numbers = await self._ledger.write(self._ledger.drafts.add, kept, self._clock())
        return type(error)(error.problem, numbers)

    async def _write(
        self,
        records: Sequence[Record],
        mode: AddressMode,
        drafts: bool,
        bases: Mapping[str, Basis] | None,
        lost_texts: Mapping[str, str] | None,
    ) -> list[str]:
        if mode == "private" and not any(record.type.is_key for record in records):
            await self.write_key()
        tags = [await self._addresses.tag(record, mode) for record in records]
        sealed = await self._sealed(zip(records, tags, strict=True))
        filed: list[FiledEvent] = []
        while True:
            try:
                filed = await self._stamped_and_signed(records, sealed, filed, bases or {})
            except ClockSkewError as error:
                kept = [
                    (slot_at(record, item.d_tag), item.content)
                    for record, item in zip(records, sealed, strict=True)
                ]
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

    async def write_key(self) -> None:
        """Write the key of private d-tags if this ledger has none."""
        if (record := await self._addresses.new_key(self._clock())) is not None:
            await self._write([record], "private", False, None, None)

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
        tags = {path: await self._tags_to_remove(path) for path in paths}
        records = [
            (envelope.tombstone(path, fields[path]), tags[path][0]) for path in paths if path not in bare
        ]
        records += [(envelope.vacating(path), tag) for path in paths for tag in tags[path][1:]]
        removing = {
            path: with_tags(said, filter(address.is_private, tags[path][:1]), tags[path][1:])
            for path, said in fields.items()
        }
        named = [ident for path in bare for ident in self._ids_to_name(path, bare)]
        main = {path: found[0] for path, found in tags.items()}
        wanted = _Removing(records, removing, main, named, bare)
        return await self._remove(wanted, known, bases=bases, discarded=discarded)

    async def _tags_to_remove(self, path: str) -> list[str]:
        """The d-tags at which a path is to be removed: that of its head first, or else the one that this store writes."""
        if used := self._ledger.places.used(address.d_tag(path)):
            return used
        if self._addresses.is_private:
            await self.write_key()
        return [await self._addresses.tag_at(path, self._addresses.mode)]

    async def vacate(self, places: Mapping[str, str]) -> str:
        """Remove the events at some d-tags, and not their memories; returns the id of the deletion request.

        A readable d-tag is not repeated in the request, which relays keep: it names the events by their ids.

        Args:
            places: the path of each d-tag.
        """
        removing: dict[str, dict[str, Any]] = {}
        main: dict[str, str] = {}
        for tag, path in places.items():
            vacated = [*removing.get(path, {}).get("vacated", ()), tag]
            removing[path] = with_tags({"why": envelope.VACATE}, (), vacated)
            if address.is_private(tag):
                main[tag] = tag
        named = [
            ident
            for tag, path in places.items()
            for ident in self._ledger.places.ids_at(address.d_tag(path), tag)
        ]
        records = [(envelope.vacating(path), tag) for tag, path in places.items()]
        return await self._remove(_Removing(records, removing, main, named), {})

    async def _remove(
        self,
        wanted: _Removing,
        known: dict[bytes, Origin],
        *,
        bases: Mapping[str, Basis] | None = None,
        discarded: Collection[str] = (),
    ) -> str:
        """Write tombstones at their d-tags, and one request; returns the request's id. Raises HeadMoved.

        Args:
            wanted: what to remove.
            known: origins that were read before.
            bases: as in `forget_all`.
            discarded: as in `forget_all`.
        """
        sealed = await self._sealed(wanted.records)
        content = await envelope.seal_deletion(self._signer, wanted.removing, pads=self._addresses.pads)
        tombstones: list[FiledEvent] = []
        records = [record for record, _ in wanted.records]
        while True:
            tombstones = await self._stamped_and_signed(records, sealed, tombstones, known=())
            request = await self._request(wanted, tombstones, content)
            items = [*tombstones, request]
            origins = await self._reader.origins(items, known)
            if await self._append(items, bases=bases, origins=origins, discarded=discarded):
                break
        if not request.only_vacates:
            self._reader.drop_deleted(request.event)
        for tombstone, record in zip(tombstones, records, strict=True):
            self._reader.hold_record(tombstone, record)
        return request.event.id

    async def _request(self, wanted: _Removing, tombstones: Sequence[FiledEvent], content: str) -> FiledEvent:
        """The NIP-09 request for some d-tags, with the ids of their tombstones and heads."""
        seconds = [tombstone.event.created_at for tombstone in tombstones]
        second = max([*seconds, *(self._second_by_id(mark) for mark in wanted.bare.values())])
        ids = [tombstone.event.id for tombstone in tombstones]
        ids += [
            head.id.hex()
            for tombstone in tombstones
            if (head := self._ledger.head(tombstone.slot)) is not None
        ]
        tags = dict.fromkeys(
            tag
            for path, found in wanted.main.items()
            for tag in ((found,) if found != address.d_tag(path) else address.d_tags(path))
        )
        unsigned = envelope.deletion(
            self._signer.public_key, tuple(tags), tuple(dict.fromkeys((*ids, *wanted.named))), second, content
        )
        return deletion_as(wanted.removing, await self._signed(unsigned))

    def _ids_to_name(self, path: str, bare: Mapping[str, int]) -> list[str]:
        """The ids of the stored versions at a path that gets no tombstone."""
        second = max(self._second_by_id(mark) for mark in bare.values())
        return self._ledger.ids_after(address.d_tag(path), second, MAX_NAMED_COUNT // len(bare))

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

    async def _sealed(self, records: Iterable[tuple[Record, str]]) -> list[SealedRecord]:
        """Records sealed at their d-tags."""
        seal = partial(envelope.seal, self._signer, pads=self._addresses.pads)
        return await all_of(self._signer, [partial(seal, record, tag) for record, tag in records])

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
                seconds = self._seconds(records, sealed, known)
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

    def _seconds(
        self, records: Sequence[Record], sealed: Sequence[SealedRecord], known: Collection[str]
    ) -> list[int]:
        """The seconds of new events.

        Raises:
            ClockSkewError, BurstWait: as `Stamps.assign`.
        """
        stamps = self._ledger.stamps(self._clock())
        slots = [slot_at(record, item.d_tag) for record, item in zip(records, sealed, strict=True)]
        marks = self._ledger.marks(filter(None, slots))
        removed = self._ledger.places.marks(item.d_tag for item in sealed if item.d_tag)
        roles = {slot: record.type.role for slot, record in zip(slots, records, strict=True) if slot in marks}
        is_open = self._ledger.open_slots(roles, known)
        forgotten = [slot for slot, role in roles.items() if role.is_tombstone]
        tombstones = self._ledger.open_tombstones(forgotten, self._clock())
        seconds = []
        for slot, record, item in zip(slots, records, sealed, strict=True):
            mark, vacated = marks.get(slot), removed.get(item.d_tag, -1)
            if address.is_vacated_slot(slot):
                vacated = max(vacated, self._ledger.places.newest_at(item.d_tag))
            if vacated > (-1 if mark is None else mark):
                mark = vacated
            is_free = slot in is_open and mark == marks.get(slot) and mark != vacated
            second = tombstones.get(slot) or stamps.assign(mark, is_open=is_free)
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
