"""The palace of a ledger: all palace memories, decrypted and kept up to date, and their writes to the ledger.

Guaranteed: a write never replaces a version that its caller has not seen. A write starts from the `SlotState` that was
read, and is refused with `HeadMoved` if the slot has changed since. An `EditBatch` changes several memories together:
all are written or none.

Cost: `refresh` decrypts only what has changed since the last refresh, in this process or another. An access counts at
once, reaches the ledger within seconds and relays with the next edit, so a recall writes and sends nothing by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MethodType
from typing import TYPE_CHECKING, Final, Protocol

from sense_memory.errors import LedgerError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger.feed import START
from sense_memory.limits import ACCESS_SECONDS, APPLY_BATCH_COUNT, MAX_PLAINTEXT_BYTES
from sense_memory.memories.persona.edit import Edit, SlotState, record_of, sum_of, trimmed
from sense_memory.nostr import address
from sense_memory.palace.catalog import Catalog, collector_paused
from sense_memory.palace.lifecycle import revived, use_time, without
from sense_memory.palace.merge import joined, merge, sibling
from sense_memory.palace.version import fields_of, memory_of, version_of
from sense_memory.records import envelope
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import AGAIN, PRUNE, origin_of


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, Ledger
    from sense_memory.ledger.feed import Cursor
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import OpenedRecord
    from sense_memory.records.writer import Writer

_NAMES_COUNT: Final = 3
# The prefixes of the slots of palace memories: a slot contains the path, or a hash.
ROOTS: Final = (f"{address.PREFIX}{address.PERSONA}", f"{address.PREFIX}~")


class Follower(Protocol):
    """A view that gets every change of the catalog."""

    def put(self, memory: PersonaMemory) -> None:
        """Add or replace a memory."""

    def drop(self, path: str) -> None:
        """Remove a memory."""


class Palace:
    """The palace memories of one ledger.

    Args:
        ledger: holds the memories.
        reader: decrypts events.
        writer: encrypts and signs events.
        clock: seconds since 1970.

    Attributes:
        catalog: all memories, as of the last `refresh`.
        plain: the event ids, by path, of memories that equal one event: neither merged nor accessed since.
    """

    def __init__(self, ledger: Ledger, reader: Reader, writer: Writer, clock: Callable[[], float]) -> None:
        self._ledger, self._reader, self._writer, self._clock = ledger, reader, writer, clock
        self.catalog = Catalog()
        self.plain: dict[str, bytes] = {}
        self._followers: list[Follower] = []
        self._paths: dict[str, str] = {}  # by slot
        self._accesses: dict[str, tuple[float, int]] = {}  # by slot: unpublished accesses in the ledger
        self._pending: dict[str, tuple[float, int]] = {}  # by slot: accesses that are not in the ledger yet
        self._forks: dict[str, tuple[int, ...]] = {}  # by slot: the forks at the last refresh
        self._cursor = START
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def refresh(self) -> Catalog:
        """The catalog, with every change of this process and of others.

        Raises:
            LedgerCorrupt: a stored event can no longer be decrypted.
        """
        if self._ledger.feed.has_changed(self._cursor):
            async with self._turn:
                await self._catch_up()
        return self.catalog

    @property
    def cursor(self) -> Cursor:
        """Where the last `refresh` ended: another object after every change of the ledger."""
        return self._cursor

    def now(self) -> float:
        """The time by the clock of the palace, seconds since 1970."""
        return self._clock()

    def path_at(self, slot: str) -> str | None:
        """The path of the memory at a slot; None if there is none."""
        return self._paths.get(slot)

    def follow(self, follower: Follower) -> None:
        """Pass every change from now on to a view."""
        self._followers.append(follower)

    async def _catch_up(self) -> None:
        edits, feed = self._ledger.edits, self._ledger.feed
        if not feed.has_changed(self._cursor):
            return
        changes = feed.since(self._cursor)
        removed_by = changes.slots
        forks, known_forks = edits.forks(), self._forks
        forked = forks.keys()
        changed: set[str] | None = None
        if changes.is_everything:
            self._accesses = edits.accesses()
        else:
            changed = {slot for slot in removed_by if address.may_be_persona(slot)}
            changed |= self._reread_accesses(changes.cursor, changed)
            # A forgotten text may be the text of any fork. Otherwise a fork changes only with the list of its versions.
            is_forgotten = any(removed_by.values())
            changed |= {slot for slot in forked if is_forgotten or forks[slot] != known_forks.get(slot)}
            for slot in changed:
                if removed_by.get(slot):
                    self._pending.pop(slot, None)  # accesses of a memory that is forgotten now
        where = self._ledger.heads
        heads = where.seqs_beneath(*ROOTS) if changed is None else where.seqs_at(changed)
        gone = set(self._paths) if changed is None else changed & self._paths.keys()
        if len(heads) + len(gone) >= APPLY_BATCH_COUNT:
            self.catalog.expect_many()
        with collector_paused(len(heads)):
            await self._open(heads, forked if changed is None else forked & changed, gone)
        for slot in gone:
            self._hide(slot)
        self._cursor, self._forks = changes.cursor, forks

    async def _open(self, heads: Sequence[tuple[str, int]], forked: Collection[str], gone: set[str]) -> None:
        """Put the memories at some heads (slot, seq) and forked slots into the catalog; remove their slots from `gone`."""
        for slot in forked:
            with suppress(NeedsNewerVersion):
                memory = (await self.slot_state(slot)).memory
                if memory is not None:
                    gone.discard(slot)
                    self._show(slot, memory)
        plain = [head for head in heads if head[0] not in forked]
        for number, opened in enumerate(await self._reader.opened(plain), 1):
            if number % APPLY_BATCH_COUNT == 0:
                await asyncio.sleep(0)
            if opened.type is not RecordType.PERSONA:
                continue
            slot = address.d_tag(opened.path)
            gone.discard(slot)
            if slot in self._accesses or slot in self._pending:
                self._show(slot, self._accessed(slot, _read(opened)))
            else:
                self._show_plain(slot, opened)

    def _reread_accesses(self, now: Cursor, changed: Iterable[str]) -> set[str]:
        """Read the accesses in the ledger again; returns the slots whose accesses have changed."""
        # Equal versions: no other process wrote, so only the edits of this process changed accesses.
        if now.version[0] == self._cursor.version[0]:
            for slot in changed:
                self._accesses.pop(slot, None)
                accessed_at, count = self._ledger.edits.access(slot)
                if count:
                    self._accesses[slot] = accessed_at, count
            return set()
        before, self._accesses = self._accesses, self._ledger.edits.accesses()
        return {
            slot
            for slot in before.keys() | self._accesses.keys()
            if before.get(slot) != self._accesses.get(slot)
        }

    def _accessed(self, slot: str, memory: PersonaMemory) -> PersonaMemory:
        at, count = sum_of(self._accesses.get(slot), self._pending.get(slot))
        return revived(memory, at, count) if count else memory

    def _show(self, slot: str, memory: PersonaMemory) -> None:
        self._paths[slot] = memory.path
        self.plain.pop(memory.path, None)
        self.catalog.put(memory)
        self._notify_followers(memory.path)

    def _show_plain(self, slot: str, opened: OpenedRecord) -> None:
        """Show a memory that equals its event. The fields are validated when the memory is first used."""
        read = MethodType(_read, opened)  # each memory has one, and a partial takes three times the RAM
        path = self.catalog.put_unread(*_names(opened), read)
        self._paths[slot] = path
        self.plain[path] = opened.id
        self._notify_followers(path)

    def _hide(self, slot: str) -> None:
        path = self._paths.pop(slot)
        self.plain.pop(path, None)
        self._pending.pop(slot, None)
        self.catalog.drop(path)
        for follower in self._followers:
            follower.drop(path)
        self._notify_followers(*self.catalog.opposed_by(path))

    def _notify_followers(self, *paths: str) -> None:
        """Pass changed memories to the followers, and the memories that they oppose, whose marks may count or not now."""
        if self._followers:
            opposed = [other for path in paths for other in self.catalog.opposed_by(path)]
            for memory in self.catalog.all_of(dict.fromkeys((*paths, *opposed))):
                for follower in self._followers:
                    follower.put(memory)

    # ── Accesses ────────────────────────────────────────────────────────────────────────

    def touch(self, path: str) -> PersonaMemory:
        """Count an access of a memory; returns the revived memory.

        Raises:
            KeyError: there is no such memory.
        """
        memory, written = self.catalog.get(path), self.catalog.written(path)
        if memory is None or written is None:
            raise KeyError(path)
        now = self._clock()
        slot = address.d_tag(address.PERSONA + path)
        self._pending[slot] = sum_of(self._pending.get(slot), (now, 1))
        self._show(slot, revived(written, now))
        self._save_later()
        return revived(memory, now)

    def use(self, paths: Iterable[str]) -> int:
        """Count a use of memories by a model, see `lifecycle.use_time`; returns how many it revived."""
        now, count = self._clock(), 0
        for path in dict.fromkeys(paths):
            memory, written = self.catalog.get(path), self.catalog.written(path)
            at = None if memory is None else use_time(memory, now)
            if written is not None and at is not None:
                slot = address.d_tag(address.PERSONA + path)
                self._pending[slot] = sum_of(self._pending.get(slot), (at, 1))
                self._show(slot, revived(written, at))
                count += 1
        if count:
            self._save_later()
        return count

    def unpublished_accesses(self) -> list[str]:
        """The slots of memories with unpublished accesses."""
        return sorted(self._ledger.edits.accesses().keys() | self._pending.keys())

    async def save_accesses(self) -> None:
        """Write the accesses to the ledger.

        Raises:
            LedgerError: the ledger cannot be written; the accesses still count in this process.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            await self._ledger.write(self._write_accesses)
            self._accesses_written()

    def _save_now(self) -> None:
        """As `save_accesses`, called by the timer; after an error the write is tried again later."""
        self._timer = None
        try:
            self._ledger.write_now(self._write_accesses)
        except LedgerError:
            self._save_later()
        else:
            self._accesses_written()

    def _save_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACCESS_SECONDS, self._save_now)

    def _write_accesses(self) -> None:
        self._ledger.edits.record_accesses([(slot, *access) for slot, access in self._pending.items()])

    def _accesses_written(self) -> None:
        """Count the pending accesses as accesses in the ledger, after they were written."""
        for slot, access in self._pending.items():
            self._accesses[slot] = sum_of(self._accesses.get(slot), access)
        self._pending.clear()

    async def try_save_accesses(self) -> None:
        """As `save_accesses`, but an error of the ledger is ignored."""
        with suppress(LedgerError):
            await self.save_accesses()

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    async def slot_state(self, slot: str) -> SlotState:
        """The state of a slot: which of its versions live, and what they are when merged.

        The head and every fork are read. A version that was written without knowing that its memory had been forgotten
        or pruned does not live, and a head of that kind makes the slot a stray, see `forks`. If every version was
        pruned, and this device counts an access that is not published, the pruned versions live again.

        Raises:
            NeedsNewerVersion: a newer sense-memory wrote the memory, which is neither shown nor overwritten.
            LedgerCorrupt: a stored event can no longer be decrypted.
        """
        basis = self._ledger.edits.basis(slot)
        versions, forgotten, pruned = await self._versions_at(slot, basis)
        pending = self._pending.get(slot, (0.0, 0))
        living = {seq: version for seq, version in versions.items() if seq not in forgotten | pruned}
        is_revived = not living and bool(pruned) and bool(basis.accesses + pending[1])
        if is_revived:
            living = {seq: versions[seq] for seq in pruned}
        is_stray = basis.head in versions and basis.head not in living
        unmerged = {version.id for version in merge(living.values(), ())}
        return SlotState(
            slot,
            basis,
            joined(living.values()) if living else None,
            tuple(
                seq
                for seq in basis.forks
                if (
                    not is_stray if seq == basis.head else seq not in living or living[seq].id not in unmerged
                )
            ),
            joined(versions.values()).version if is_stray else None,
            pending,
            is_covered=bool(living) and basis.head not in living,
            is_revived=is_revived,
            is_forgotten=basis.head in forgotten,
        )

    async def _versions_at(
        self, slot: str, basis: Basis
    ) -> tuple[dict[int, PersonaVersion], set[int], set[int]]:
        """The head and the forks of a slot by seq, and the seqs of those that were forgotten, and that were pruned."""
        versions: dict[int, PersonaVersion] = {}
        forgotten: set[int] = set()
        pruned: set[int] = set()
        seqs = [*basis.forks] if basis.head is None else [basis.head, *basis.forks]
        for stored in self._ledger.read(seqs):
            if not stored.role.is_live:
                continue
            record = await self._reader.readable_record(stored)
            if record.type is not RecordType.PERSONA:
                continue
            ident, at = stored.id.hex(), stored.created_at
            versions[stored.seq] = version_of(record.fields, ident, at)
            origin = origin_of(record, ident, at)
            if self._ledger.edits.forgets(slot, origin):
                forgotten.add(stored.seq)
            elif basis.removal.prunes(origin):
                pruned.add(stored.seq)
        return versions, forgotten, pruned

    def was_removed(self, path: str) -> bool:
        """Whether a memory is gone because it was forgotten or pruned; false if no version of it ever arrived."""
        if "/" not in path or path in self.catalog:  # another program names memories by their bare keys
            return False
        return self._ledger.edits.was_forgotten(address.d_tag(address.PERSONA + path))

    async def remove_again(self, slot_state: SlotState) -> None:
        """Remove a stray again; the new tombstone covers no more versions than the tombstone before.

        Raises:
            HeadMoved: the slot has changed since it was read; nothing was written.
            ClockSkewError, LedgerError: as `Writer.forget_all`.
        """
        if slot_state.stray is not None:
            path = address.PERSONA + slot_state.stray.memory.path
            why = AGAIN if slot_state.is_forgotten else PRUNE
            await self._writer.forget_all([path], {slot_state.slot: slot_state.basis}, why=why)

    async def remove_flat_again(self, slot: str) -> bool:
        """As `remove_again`, for a flat memory that a device signed again without knowing that it was forgotten.

        Returns:
            Whether there was such a memory.
        """
        edits = self._ledger.edits
        basis = edits.basis(slot)
        for stored in self._ledger.read([] if basis.head is None else [basis.head]):
            if stored.role.is_live:
                record = await self._reader.readable_record(stored)
                origin = origin_of(record, stored.id.hex(), stored.created_at)
                if not record.type.traits.is_merged and edits.forgets(slot, origin):
                    await self._writer.forget_all([record.path], {slot: basis}, why=AGAIN)
                    return True
        return False

    async def write(
        self,
        edits: Sequence[Edit],
        *,
        drafts: bool = False,
        skip_unfit: Callable[[Edit], bool] = lambda _: False,
    ) -> list[str]:
        """Write all edits or none; returns their event ids. Values that lose are kept as siblings.

        Args:
            edits: the edits to write.
            drafts: keep the memories as drafts if the clock does not allow the write.
            skip_unfit: whether to leave out an edit whose memory does not fit an event; its id is then empty.

        Raises:
            HeadMoved: a slot has changed since it was read; nothing was written.
            TooLargeError, InvalidInput, ClockSkewError, LedgerError: as `Writer.write`.
        """
        now, device = self._clock(), await self._ledger.write_if_due(lambda: self._ledger.edits.device)
        written = {edit.memory.path for edit in edits}  # marks that name these memories stay
        edits = [
            edit
            if edit.settles
            else edit.of(without(edit.memory, lambda name: name not in written and self.was_removed(name)))
            for edit in edits
        ]
        records = [record_of(edit, device, now) for edit in edits]
        made = [
            (edit, trimmed(record) if edit.settles else record)
            for edit, record in zip(edits, records, strict=True)
        ]
        left_out = {
            index
            for index, (edit, record) in enumerate(made)
            if skip_unfit(edit) and not envelope.fits(record)
        }
        edits = [edit for index, (edit, _) in enumerate(made) if index not in left_out]
        records = [record for index, (_, record) in enumerate(made) if index not in left_out]
        bases = {edit.slot_state.slot: edit.basis for edit in edits}
        lost_texts: dict[str, str] = {}
        for edit in edits:
            records += self._siblings(edit.slot_state, bases, lost_texts, is_lasting=not edit.settles)
        try:
            ids = iter(await self._writer.write(records, drafts=drafts, bases=bases, lost_texts=lost_texts))
        except TooLargeError:
            # The merge of two versions may be too large; the lost texts must become drafts all the same.
            if lost_texts and all(edit.settles for edit in edits):
                await self._ledger.write(self._ledger.save_lost_texts, lost_texts, self._clock())
            raise
        for edit in edits:
            if not edit.settles:
                self._forget_pending(edit.slot_state)
        return ["" if index in left_out else next(ids) for index in range(len(made))]

    def _siblings(
        self,
        slot_state: SlotState,
        bases: Mapping[str, Basis],
        lost_texts: dict[str, str],
        *,
        is_lasting: bool,
    ) -> list[Record]:
        """The siblings to write for values that lost, except siblings that a device has already written.

        A sibling is longer than its memory, because its path is longer and it names its origin. If a sibling does not
        fit an event, the device that wrote the value keeps the value as a draft. Other devices wait for that device,
        unless they edit the memory.

        Args:
            slot_state: the state of the slot.
            bases: the slots that the same write replaces.
            lost_texts: receives the values that have to become drafts, see `Ledger.save_lost_texts`.
            is_lasting: whether this device edits the memory, and so replaces the versions that it knows.

        Raises:
            TooLargeError: the device that wrote the value has to make the draft first.
        """
        records: dict[str, Record] = {}
        for loser in slot_state.joined.losers if slot_state.joined is not None else ():
            whole = envelope.persona(
                fields_of(sibling(loser), loser.provenance, loser.ts, loser.rest, loser.decided)
            )
            slot = address.d_tag(whole.path)
            if slot in bases or self._ledger.mark(slot) is not None:
                continue
            record = trimmed(whole)
            if envelope.fits(record):
                records[slot] = record
            elif is_lasting or self._ledger.edits.is_own(loser.provenance.device):
                lost_texts[loser.id] = loser.provenance.id
            else:
                raise TooLargeError(MAX_PLAINTEXT_BYTES + 1, MAX_PLAINTEXT_BYTES)
        return list(records.values())

    def _forget_pending(self, slot_state: SlotState) -> None:
        """Remove the pending accesses that an edit has published."""
        at, count = self._pending.get(slot_state.slot, (0.0, 0))
        if count > slot_state.pending[1]:
            self._pending[slot_state.slot] = at, count - slot_state.pending[1]
        else:
            self._pending.pop(slot_state.slot, None)


# ── Batches of edits ────────────────────────────────────────────────────────────────────


class EditBatch:
    """Edits that are written together.

    Args:
        palace: reads and writes the memories.
    """

    def __init__(self, palace: Palace) -> None:
        self._palace = palace
        self._slot_states: dict[str, SlotState] = {}
        self._memories: dict[str, PersonaMemory | None] = {}
        self._changed: dict[str, bool] = {}  # by path: whether the value is new
        self._decides: dict[str, frozenset[str]] = {}  # by path, as in `Edit`

    async def get(self, path: str) -> PersonaMemory | None:
        """A memory with the changes of this batch; None if there is no such memory. Each memory is read once."""
        if path not in self._slot_states:
            slot_state = await self._palace.slot_state(address.d_tag(address.PERSONA + path))
            self._slot_states[path], self._memories[path] = slot_state, slot_state.memory
        return self._memories[path]

    def change(
        self, memory: PersonaMemory, *, is_new_value: bool = False, decides: Collection[str] = ()
    ) -> None:
        """Change a memory that `get` has read.

        Args:
            memory: the memory to write.
            is_new_value: as in `Edit`.
            decides: as in `Edit`.
        """
        path = memory.path
        self._memories[path] = memory
        self._changed[path] = self._changed.get(path, False) or is_new_value
        self._decides[path] = self._decides.get(path, frozenset()).union(decides)

    async def write(
        self, *, drafts: bool = False, skip_unfit: Callable[[str], bool] = lambda _: False
    ) -> dict[str, str]:
        """Write the changes, in the order of the first change of each path; returns the event ids by path.

        Args:
            drafts: as for `Palace.write`.
            skip_unfit: whether to leave out a path whose memory does not fit an event; its id is then empty.

        Raises: as `Palace.write`.
        """
        edits = self.edits()
        ids = await self._palace.write(
            edits, drafts=drafts, skip_unfit=lambda edit: skip_unfit(edit.memory.path)
        )
        return {edit.memory.path: ident for edit, ident in zip(edits, ids, strict=True)}

    def only(self, *paths: str) -> EditBatch:
        """A batch with only the changes of the memories at some paths."""
        alone = EditBatch(self._palace)
        for path in paths:
            alone._slot_states[path] = self._slot_states[path]
            alone._memories[path] = self._memories[path]
            alone._changed[path], alone._decides[path] = self._changed[path], self._decides[path]
        return alone

    def __len__(self) -> int:
        return len(self._changed)

    def edits(self) -> list[Edit]:
        """The changes, in the order of the first change of each path."""
        return [
            Edit(self._slot_states[path], memory, is_new_value=is_new_value, decides=self._decides[path])
            for path, is_new_value in self._changed.items()
            if (memory := self._memories[path]) is not None
        ]


# ── Decrypted events ────────────────────────────────────────────────────────────────────


def _names(opened: OpenedRecord) -> tuple[str, str, str]:
    """Domain, facet and key, from the path; from the fields if a name of another program contains a slash."""
    names = opened.path.split("/")[1:]
    if len(names) != _NAMES_COUNT:
        fields = opened.record.fields
        names = [fields["domain"], fields["facet"], fields["key"]]
    domain, facet, key = names
    return domain, facet, key


def _read(opened: OpenedRecord) -> PersonaMemory:
    return memory_of(opened.record.fields, opened.id.hex(), opened.created_at)
