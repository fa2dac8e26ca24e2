"""Moving a memory from readable to private addresses, or back, and tidying up after devices that write both.

A move writes each memory again at its new d-tag, as a copy that is no edit. Once every relay of the store has shown the
copy, the old d-tag gets a tombstone and a deletion request, which remove what lies there and not the memory.

Guaranteed: no memory is ever without a version that a relay of the store has shown, and an edit that another device wrote
meanwhile, at either d-tag, wins over the copy. A move that was stopped at any moment goes on where it was.

Why it is safe: nothing is remembered between the steps but the ledger, which lists the d-tags that hold something outdated
(`ledger.places`). A copy is written only over the head that was read. What a device forgets in the meantime stays forgotten:
a copy says when its text was written, and which event had it first.

Cost: one event for each memory, and one for each address that is vacated; one deletion request for up to 32 addresses.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.errors import ClockSkewError, NeedsNewerVersion, TooLargeError
from sense_memory.ledger import HeadMoved
from sense_memory.ledger.places import PlaceState, SlotPlace
from sense_memory.limits import MAX_DELETED_COUNT
from sense_memory.nostr import address


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from sense_memory.arguments import AddressMode
    from sense_memory.ledger import Ledger
    from sense_memory.records.reader import Reader
    from sense_memory.records.writer import Writer

_COPIED_COUNT: Final = 100  # records that are copied in one transaction
_KEYS: Final = address.PREFIX + address.ADDRESS_KEY


@dataclass(frozen=True, slots=True)
class AddressPlan:
    """What is left of a move.

    Attributes:
        mode: the wanted addresses: readable or private.
        records: the number of records with an address.
        to_write: how many of these must be written again at their new address.
        to_remove: the number of old addresses whose events must be removed at relays.
        unread: the number of those that wait until every relay has shown the new ones.
        stuck: the number of records that cannot be written again now: versions of them must be merged first, they are of a
            newer sense-memory, or the clock is far behind.
    """

    mode: AddressMode
    records: int = 0
    to_write: int = 0
    to_remove: int = 0
    unread: int = 0
    stuck: int = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.to_write or self.to_remove)


class AddressMoves:
    """Moves the records of an open store between addresses.

    Args:
        ledger: holds the events.
        reader: opens them.
        writer: writes copies and removals.
        urls: the relays that must have shown a copy before its old address is vacated.
    """

    def __init__(self, ledger: Ledger, reader: Reader, writer: Writer, urls: Sequence[str]) -> None:
        self._ledger, self._reader, self._writer, self._urls = ledger, reader, writer, urls

    async def plan(self, mode: AddressMode, *, without: Iterable[str] = ()) -> AddressPlan:
        """What is left of a move; nothing is written."""
        heads = self._ledger.places.heads(_KEYS)
        old = await self._old(mode)
        waits = [place for place in old if not self._is_shown(place, without)]
        to_copy, stuck = await self._to_copy(mode)
        return AddressPlan(mode, len(heads), len(to_copy) + stuck, len(old), len(waits), stuck)

    async def copy_all(self, mode: AddressMode, progress: Callable[[int], None] = lambda _: None) -> int:
        """Write every record again that lies at another address; returns how many could not be written now.

        Args:
            mode: the wanted addresses.
            progress: called with the number of records handled so far.
        """
        wanted, stuck = await self._to_copy(mode)
        for start in range(0, len(wanted), _COPIED_COUNT):
            part = wanted[start : start + _COPIED_COUNT]
            if not await self._copied(part, mode):
                stuck += sum([not await self._copied([seq], mode) for seq in part])
            progress(start + len(part))
        return stuck

    async def _copied(self, seqs: Sequence[int], mode: AddressMode) -> bool:
        """Copy heads by their seqs, all or none; returns whether they were copied."""
        heads = [stored for stored in self._ledger.read(seqs) if self._ledger.heads.is_head(stored.seq)]
        with suppress(HeadMoved, TooLargeError, ClockSkewError, NeedsNewerVersion):
            await self._writer.copy(heads, mode)
            return True
        return False

    async def vacate(
        self,
        mode: AddressMode | None,
        progress: Callable[[int], None] = lambda _: None,
        *,
        without: Iterable[str] = (),
    ) -> int:
        """Remove what is outdated at old addresses, where every relay has shown what replaced it; returns how many.

        Args:
            mode: the wanted addresses; None for what is left of forgotten memories alone.
            progress: called with the number of addresses handled so far.
            without: relays that need not have shown anything.
        """
        ready = [place for place in await self._old(mode) if self._is_shown(place, without)]
        done = 0
        for part in _batches(ready):
            named = {place.tag: path for place in part if (path := await self._path(place.slot))}
            out = {tag: path for tag, path in named.items() if self._was_out(part, tag)}
            for place in part:
                if place.tag in named and place.tag not in out:
                    await self._ledger.write(self._ledger.places.settle, place)
            if out:
                with suppress(ClockSkewError):
                    await self._writer.vacate(out)
            done += len(part)
            progress(done)
        return done

    def _was_out(self, part: Iterable[SlotPlace], tag: str) -> bool:
        slot = next(place.slot for place in part if place.tag == tag)
        return self._ledger.places.was_handed_out(slot, tag)

    async def mend(self, mode: AddressMode) -> int:
        """Write heads again that were removed at their address while their copies elsewhere are lost; returns how many."""
        found = self._ledger.places.in_state(PlaceState.UNDERMINED)
        heads = [head for place in found if (head := self._ledger.head(place.slot)) is not None]
        return sum([await self._copied([head.seq], mode) for head in heads])

    async def tidy(self, mode: AddressMode) -> bool:
        """After every reachable relay has shown everything: mend, and vacate what may be; returns whether anything was done.

        What other devices write at readable addresses stays there while it counts. A store that writes private addresses
        removes what is outdated at readable ones; any store removes what is left of forgotten memories.
        """
        places = self._ledger.places
        if not (places.count(PlaceState.LEFT_OVER) or places.count(PlaceState.UNDERMINED)):
            return False
        mended = await self.mend(mode)
        return bool(mended + await self.vacate("private" if mode == "private" else None))

    async def _to_copy(self, mode: AddressMode) -> tuple[list[int], int]:
        """The seqs of the heads at other addresses than the wanted ones, and how many more must be merged first."""
        keys = await self._reader.addresses.keys()
        forked, found, stuck = set(self._ledger.edits.forked_slots()), list[int](), 0
        for slot, seq, tag in self._ledger.places.heads(_KEYS):
            is_there = mode == "readable" and address.filed_tag(tag) == slot
            if mode == "private" and keys and address.is_private(tag):
                path = address.path_of(slot) or await self._path(slot)
                is_there = address.private_d_tag(keys[0], path) == tag
            if not is_there and slot in forked:
                stuck += 1
            elif not is_there:
                found.append(seq)
        return found, stuck

    async def _old(self, mode: AddressMode | None) -> list[SlotPlace]:
        """The addresses that hold something outdated, and are to be vacated in a mode."""
        found = []
        for place in self._ledger.places.in_state(PlaceState.LEFT_OVER):
            head = self._ledger.head(place.slot)
            if head is None or head.role.is_removal:
                found.append(place)
                continue
            path = await self._path(place.slot)
            if mode is not None and place.tag != await self._reader.addresses.tag_at(path, mode):
                found.append(place)
        return found

    def _is_shown(self, place: SlotPlace, without: Iterable[str]) -> bool:
        """Whether every relay has shown what counts instead of an outdated event."""
        head = self._ledger.head(place.slot)
        if head is None or head.role.is_removal:
            return True
        states = self._ledger.outbox.states_by_relay(head.seq)
        return all(states.get(url) == "confirmed" for url in self._urls if url not in without)

    async def _path(self, slot: str) -> str:
        """The path of a slot; empty if nothing says it."""
        if (path := address.path_of(slot)) is not None:
            return path
        stored = next(iter(self._ledger.versions(slot)), None)
        record = None if stored is None else await self._reader.record(stored)
        return "" if record is None else record.path


def _batches(places: Sequence[SlotPlace]) -> Iterator[Sequence[SlotPlace]]:
    for start in range(0, len(places), MAX_DELETED_COUNT):
        yield places[start : start + MAX_DELETED_COUNT]
