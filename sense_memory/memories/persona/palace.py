"""The palace of a ledger: every persona memory opened, kept up to date, and the way back into the ledger.

Reading looks for what changed since the last look, whoever changed it, and opens nothing else. Writing
takes what stands at an address, with every version that it knows, and is refused where something came in
between. Accesses are noted here at once, in the ledger every few seconds, and travel with the next edit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MethodType
from typing import TYPE_CHECKING, Final, Protocol

from sense_memory.errors import LedgerError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import Role
from sense_memory.ledger.feed import START
from sense_memory.limits import ACCESS_SECONDS, APPLY_BATCH_COUNT, MAX_PLAINTEXT_BYTES
from sense_memory.memories.persona.edit import SlotState, record_of, sum_of, trimmed
from sense_memory.nostr import address
from sense_memory.palace.catalog import Catalog, collector_resting
from sense_memory.palace.lifecycle import revived
from sense_memory.palace.merge import joined, merge, sibling
from sense_memory.palace.version import fields_of, memory_of, version_of
from sense_memory.records import envelope
from sense_memory.records.envelope import RecordType
from sense_memory.records.origins import AGAIN, PRUNE, origin_of


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sense_memory.ledger import Basis, Ledger
    from sense_memory.ledger.feed import Cursor
    from sense_memory.memories.persona.edit import Edit
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.version import PersonaVersion
    from sense_memory.records.envelope import Record
    from sense_memory.records.reader import Reader
    from sense_memory.records.snapshot import Opened
    from sense_memory.records.writer import Writer

_NAMES_COUNT: Final = 3
ROOTS: Final = (f"{address.PREFIX}{address.PERSONA}", f"{address.PREFIX}~")  # where persona memories may lie


class Follower(Protocol):
    """A view that is told of every change."""

    def put(self, memory: PersonaMemory) -> None:
        """A memory is new, or changed."""

    def drop(self, path: str) -> None:
        """A memory is gone."""


class Palace:
    """The persona memories of one ledger.

    Args:
        ledger: where they lie.
        reader: opens them.
        writer: seals and signs them.
        clock: seconds since 1970.

    Attributes:
        catalog: all of them, as of the last `refresh`.
        plain: those that are just what one event says, neither merged nor accessed since: its id by path.
    """

    def __init__(self, ledger: Ledger, reader: Reader, writer: Writer, clock: Callable[[], float]) -> None:
        self._ledger, self._reader, self._writer, self._clock = ledger, reader, writer, clock
        self.catalog = Catalog()
        self.plain: dict[str, bytes] = {}
        self._followers: list[Follower] = []
        self._paths: dict[str, str] = {}  # by slot
        self._accesses: dict[str, tuple[float, int]] = {}  # by slot, as the ledger has them
        self._pending: dict[str, tuple[float, int]] = {}  # by slot, as nobody has them
        self._doubts: dict[str, tuple[int, ...]] = {}  # the forked slots at the last look
        self._cursor = START
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None

    # ── Reading ─────────────────────────────────────────────────────────────────────────

    async def refresh(self) -> Catalog:
        """The catalog, with whatever this process or another has changed since the last look.

        Raises:
            LedgerCorrupt: what was stored cannot be opened any more.
        """
        if self._ledger.feed.has_changed(self._cursor):
            async with self._turn:
                await self._catch_up()
        return self.catalog

    def follow(self, follower: Follower) -> None:
        """Tell a view of every change from now on."""
        self._followers.append(follower)

    async def _catch_up(self) -> None:
        edits, feed = self._ledger.edits, self._ledger.feed
        if not feed.has_changed(self._cursor):
            return
        changes = feed.since(self._cursor)
        removed_by = changes.slots
        doubts, judged = edits.forks(), self._doubts
        forked = doubts.keys()
        changed: set[str] | None = None
        if changes.is_everything:
            self._accesses = edits.accesses()
        else:
            changed = {slot for slot in removed_by if address.merges(slot)}
            changed |= self._look_at_accesses(changes.cursor, changed)
            # What was forgotten may be the text of any fork. Else one is what it was before its list changed.
            is_forgotten = any(removed_by.values())
            changed |= {slot for slot in forked if is_forgotten or doubts[slot] != judged.get(slot)}
            for slot in changed:
                if removed_by.get(slot):
                    self._pending.pop(slot, None)  # what was accessed is forgotten, whatever is there now
        where = self._ledger.heads
        heads = where.seqs_beneath(*ROOTS) if changed is None else where.seqs_at(changed)
        gone = set(self._paths) if changed is None else changed & self._paths.keys()
        if len(heads) + len(gone) >= APPLY_BATCH_COUNT:
            self.catalog.expect_many()
        with collector_resting(len(heads)):
            await self._open(heads, forked if changed is None else forked & changed, gone)
        for slot in gone:
            self._drop(slot)
        self._cursor, self._doubts = changes.cursor, doubts

    async def _open(self, heads: Sequence[tuple[str, int]], forked: Collection[str], gone: set[str]) -> None:
        """Put what some heads (slot, seq) and some forked slots hold into the catalog; these slots are not gone."""
        for slot in forked:
            with suppress(NeedsNewerVersion):
                memory = (await self.slot_state(slot)).memory
                if memory is not None:
                    gone.discard(slot)
                    self._put(slot, memory)
        plain = [head for head in heads if head[0] not in forked]
        for number, opened in enumerate(await self._reader.opened(plain), 1):
            if number % APPLY_BATCH_COUNT == 0:
                await asyncio.sleep(0)
            if opened.type is not RecordType.PERSONA:
                continue
            slot = address.d_tag(opened.path)
            gone.discard(slot)
            if slot in self._accesses or slot in self._pending:
                self._put(slot, self._accessed(slot, _read(opened)))
            else:
                self._put_plain(slot, opened)

    def _look_at_accesses(self, now: Cursor, changed: Iterable[str]) -> set[str]:
        """Read again what the ledger has of accesses; the slots at which something else is true now."""
        if now.version[0] == self._cursor.version[0]:  # nobody but us: only edits took some along
            for slot in changed:
                self._accesses.pop(slot, None)
                basis = self._ledger.edits.basis(slot)
                if basis.accesses:
                    self._accesses[slot] = basis.accessed_at, basis.accesses
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

    def _put(self, slot: str, memory: PersonaMemory) -> None:
        self._paths[slot] = memory.path
        self.plain.pop(memory.path, None)
        self.catalog.put(memory)
        for follower in self._followers:
            follower.put(memory)

    def _put_plain(self, slot: str, opened: Opened) -> None:
        """Put a memory that is what its event says; it is read when somebody asks for it."""
        read = MethodType(_read, opened)  # a third of what a partial takes, and there are as many as memories
        path = self.catalog.put_unread(*_names(opened), read)
        self._paths[slot] = path
        self.plain[path] = opened.id
        for follower in self._followers:
            follower.put(*self.catalog.all_of((path,)))

    def _drop(self, slot: str) -> None:
        path = self._paths.pop(slot)
        self.plain.pop(path, None)
        self._pending.pop(slot, None)
        self.catalog.drop(path)
        for follower in self._followers:
            follower.drop(path)

    # ── Accesses ────────────────────────────────────────────────────────────────────────

    def touch(self, path: str) -> PersonaMemory:
        """A memory that is there was recalled by its exact key: here at once, in the ledger soon.

        Raises:
            KeyError: it is not there.
        """
        memory = self.catalog.get(path)
        if memory is None:
            raise KeyError(path)
        now = self._clock()
        slot = address.d_tag(address.PERSONA + path)
        self._pending[slot] = sum_of(self._pending.get(slot), (now, 1))
        memory = revived(memory, now)
        self._put(slot, memory)
        self._save_later()
        return memory

    def accessed(self) -> list[str]:
        """The slots of memories with accesses that no relay knows."""
        return sorted(self._ledger.edits.accesses().keys() | self._pending.keys())

    async def save_accesses(self) -> None:
        """Note in the ledger what was accessed.

        Raises:
            LedgerError: it cannot be written; it is still noted here.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            await self._ledger.write(self._note)
            self._noted()

    def _save_now(self) -> None:
        """As `save_accesses`, at once; where that fails, another time."""
        self._timer = None
        try:
            self._ledger.write_now(self._note)
        except LedgerError:
            self._save_later()
        else:
            self._noted()

    def _save_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACCESS_SECONDS, self._save_now)

    def _note(self) -> None:
        self._ledger.edits.record_accesses([(slot, *access) for slot, access in self._pending.items()])

    def _noted(self) -> None:
        """The ledger has them by now; nothing waits between this and that."""
        for slot, access in self._pending.items():
            self._accesses[slot] = sum_of(self._accesses.get(slot), access)
        self._pending.clear()

    async def note_accesses(self) -> None:
        """As `save_accesses`, as far as that can be done."""
        with suppress(LedgerError):
            await self.save_accesses()

    # ── Writing ─────────────────────────────────────────────────────────────────────────

    async def slot_state(self, slot: str) -> SlotState:
        """What stands at an address now.

        Raises:
            NeedsNewerVersion: a newer sense-memory wrote it; it is neither shown nor overwritten.
            LedgerCorrupt: it cannot be opened any more.
        """
        edits = self._ledger.edits
        basis = edits.basis(slot)
        versions: dict[int, PersonaVersion] = {}
        forgotten: set[int] = set()
        pruned: set[int] = set()
        seqs = [*basis.forks] if basis.head is None else [basis.head, *basis.forks]
        for stored in self._ledger.read(seqs):
            if stored.role is Role.MEMORY:
                record = await self._reader.readable_record(stored)
                if record.type is RecordType.PERSONA:
                    ident, at = stored.id.hex(), stored.created_at
                    versions[stored.seq] = version_of(record.fields, ident, at)
                    origin = origin_of(record, ident, at)
                    if edits.forgets(slot, origin):
                        forgotten.add(stored.seq)
                    elif basis.removal.prunes(origin):
                        pruned.add(stored.seq)
        pending = self._pending.get(slot, (0.0, 0))
        # A memory that was forgotten does not come back because a device that did not know linked or read it.
        said = {seq: version for seq, version in versions.items() if seq not in forgotten | pruned}
        is_revived = not said and bool(pruned) and bool(basis.accesses + pending[1])
        if is_revived:  # recalled here, and pruned by a device that did not know
            said = {seq: versions[seq] for seq in pruned}
        is_stray = basis.head in versions and basis.head not in said
        left = {version.id for version in merge(said.values(), ())}
        return SlotState(
            slot,
            basis,
            joined(said.values()) if said else None,
            tuple(
                seq
                for seq in basis.forks
                if (not is_stray if seq == basis.head else seq not in said or said[seq].id not in left)
            ),
            joined(versions.values()).version if is_stray else None,
            pending,
            is_covered=bool(said) and basis.head not in said,
            is_revived=is_revived,
            is_forgotten=basis.head in forgotten,
        )

    async def remove_again(self, slot_state: SlotState) -> None:
        """Remove what came back although it was forgotten or pruned; what nobody has removed is not reached.

        Raises:
            HeadMoved: something came in since; nothing was written.
            ClockSkewError, LedgerError: as `Writer.forget_all`.
        """
        if slot_state.stray is not None:
            path = address.PERSONA + slot_state.stray.memory.path
            why = AGAIN if slot_state.is_forgotten else PRUNE
            await self._writer.forget_all([path], {slot_state.slot: slot_state.basis}, why=why)

    async def remove_flat_again(self, slot: str) -> bool:
        """As `remove_again`, for a flat memory that was signed anew where nobody knew that it was forgotten.

        Returns:
            Whether there was one.
        """
        edits = self._ledger.edits
        basis = edits.basis(slot)
        for stored in self._ledger.read([] if basis.head is None else [basis.head]):
            if stored.role is Role.MEMORY:
                record = await self._reader.readable_record(stored)
                origin = origin_of(record, stored.id.hex(), stored.created_at)
                if record.type is RecordType.FLAT and edits.forgets(slot, origin):
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
        """Write edits, all or none; returns their event ids. What lost against them is kept as siblings.

        Args:
            edits: what to write.
            drafts: keep what the clock forbids to write as drafts.
            skip_unfit: which edits are left out where they do not fit an event; their ids are empty. By default none.

        Raises:
            HeadMoved: something came in since they were read; nothing was written, read again.
            TooLargeError, InvalidInput, ClockSkewError, LedgerError: as `Writer.write`.
        """
        now, device = self._clock(), await self._ledger.write_if_due(lambda: self._ledger.edits.device)
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
        aside: dict[str, str] = {}
        for edit in edits:
            records += self._siblings(edit.slot_state, bases, aside, is_lasting=not edit.settles)
        try:
            ids = iter(await self._writer.write(records, drafts=drafts, bases=bases, aside=aside))
        except TooLargeError:
            if aside and all(edit.settles for edit in edits):  # what versions make together may fit no event
                await self._ledger.write(self._ledger.save_lost_texts, aside, self._clock())
            raise
        for edit in edits:
            if not edit.settles:
                self._forget_pending(edit.slot_state)
        return ["" if index in left_out else next(ids) for index in range(len(made))]

    def _siblings(
        self, slot_state: SlotState, bases: Mapping[str, Basis], aside: dict[str, str], *, is_lasting: bool
    ) -> list[Record]:
        """The memories that keep values which lost, where no device has written them yet.

        One that fits no event, because its path and its origin make it longer, is a draft where it was written;
        others wait until that has happened, unless they are to edit.

        Args:
            slot_state: what stands at an address.
            bases: what is written, by slot.
            aside: is given what has to become a draft, see `Ledger.keep_aside`.
            is_lasting: whether this device edits, and so takes the place of what it knows.

        Raises:
            TooLargeError: another device has to look first.
        """
        records: dict[str, Record] = {}
        for loser in slot_state.joined.losers if slot_state.joined is not None else ():
            whole = envelope.persona(fields_of(sibling(loser), loser.provenance, loser.ts, loser.rest))
            slot = address.d_tag(whole.path)
            if slot in bases or self._ledger.mark(slot) is not None:
                continue
            record = trimmed(whole)
            if envelope.fits(record):
                records[slot] = record
            elif is_lasting or loser.provenance.device == self._ledger.edits.device:
                aside[loser.id] = loser.provenance.id
            else:
                raise TooLargeError(MAX_PLAINTEXT_BYTES + 1, MAX_PLAINTEXT_BYTES)
        return list(records.values())

    def _forget_pending(self, slot_state: SlotState) -> None:
        """The accesses that an edit has taken along."""
        at, count = self._pending.get(slot_state.slot, (0.0, 0))
        if count > slot_state.pending[1]:
            self._pending[slot_state.slot] = at, count - slot_state.pending[1]
        else:
            self._pending.pop(slot_state.slot, None)


def _names(opened: Opened) -> tuple[str, str, str]:
    """Domain, facet and key; from its path, where no name of another writer has a slash in it."""
    names = opened.path.split("/")[1:]
    if len(names) != _NAMES_COUNT:
        fields = opened.record.fields
        names = [fields["domain"], fields["facet"], fields["key"]]
    domain, facet, key = names
    return domain, facet, key


def _read(opened: Opened) -> PersonaMemory:
    return memory_of(opened.record.fields, opened.id.hex(), opened.created_at)
