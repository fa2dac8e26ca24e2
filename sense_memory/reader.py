"""The reading side of a store: verified events become ledger entries, ledger entries become records.

The last record opened at each slot is kept, so a key read twice costs one look at the ledger and no
decryption, and what was replaced or forgotten is not kept in memory either. Whatever a relay serves and
can not be opened is counted and left out, never believed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sense_memory import envelope
from sense_memory.envelope import Record, RecordType
from sense_memory.errors import BadPayload, InvalidEvent, LedgerCorrupt, MisfiledError, NeedsNewerVersion
from sense_memory.ledger import Fate, Filed, Role
from sense_memory.ledger.versions import deletion_targets, slot_of
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sense_memory.ledger import Ledger, Stored
    from sense_memory.nostr.event import Event
    from sense_memory.nostr.signer import Signer


class Reader:
    """Opens what the ledger holds, and admits to it what relays serve.

    Args:
        signer: whose events they are.
        ledger: where they go.
        clock: seconds since 1970.
    """

    def __init__(self, signer: Signer, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._signer, self._ledger, self._clock = signer, ledger, clock
        self._open: dict[str, tuple[bytes, Record | NeedsNewerVersion]] = {}  # by slot, with the event's id

    async def record(self, stored: Stored) -> Record | None:
        """The record inside a stored event, or None where a newer schema is needed to read it.

        Raises:
            LedgerCorrupt: what was stored can not be opened any more.
        """
        found = await self._opened(stored)
        return None if isinstance(found, NeedsNewerVersion) else found

    async def needed(self, stored: Stored) -> Record:
        """As `record`, but raises NeedsNewerVersion."""
        found = await self._opened(stored)
        if isinstance(found, NeedsNewerVersion):
            raise NeedsNewerVersion(found.event_id, found.version)
        return found

    def remember(self, filed: Filed, record: Record) -> None:
        """Keep the record of an event that this process sealed a moment ago."""
        self._open[filed.slot] = bytes.fromhex(filed.event.id), record

    async def _opened(self, stored: Stored) -> Record | NeedsNewerVersion:
        ident, found = self._open.get(stored.slot, (b"", None))
        if found is not None and ident == stored.id:
            return found
        try:
            found = await envelope.open_event(self._signer, stored.event())
        except NeedsNewerVersion as error:
            found = error
        except (InvalidEvent, BadPayload, MisfiledError) as error:
            raise LedgerCorrupt(
                f"event {stored.id.hex()[:16]}… can not be opened any more ({error}); the ledger is damaged and "
                "was left as it is. Move it aside and sync to restore from relays."
            ) from None
        self._open[stored.slot] = stored.id, found
        return found

    async def admit(self, events: Sequence[Event], relay: str | None) -> Mapping[str, int]:
        """File what a relay served; returns counts: new, known, stale, …, foreign, misfiled, unreadable."""
        counts, _ = await self.take(events, relay)
        return counts

    async def take(
        self, events: Sequence[Event], relay: str | None
    ) -> tuple[Mapping[str, int], Mapping[int, str]]:
        """File what a relay served, or (None) what a file held.

        Returns:
            Counts as `admit`, and of what was left out the index with the reason.
        """
        counts: Counter[str] = Counter()
        left_out: dict[int, str] = {}
        filed: list[Filed] = []
        opened: dict[str, Record] = {}
        for index, event in enumerate(events):
            try:
                filed.append(self._ledger.place(event) or await self._file(event, opened))
            except _ForeignEvent:
                left_out[index] = "foreign"
            except MisfiledError:
                left_out[index] = "misfiled"
            except BadPayload:
                left_out[index] = "unreadable"
        counts.update(left_out.values())
        fates = self._ledger.apply(filed, relay, self._clock())
        for item, fate in zip(filed, fates, strict=True):
            counts[fate.value] += 1
            if fate is Fate.NEW:
                self._keep(item, opened.get(item.event.id))
        return counts, left_out

    def _keep(self, filed: Filed, record: Record | None) -> None:
        """Keep the record of a new head; drop what it replaced, or what a deletion names."""
        if filed.role is Role.DELETION:
            for target, _ in deletion_targets(filed.event):
                self._open.pop(target, None)
        elif record is not None:
            self.remember(filed, record)

    async def _file(self, event: Event, opened: dict[str, Record]) -> Filed:
        """An event with its place and role; its record goes to `opened`.

        Raises:
            _ForeignEvent: ours by key, but of another program.
            MisfiledError, BadPayload: not to be believed.
        """
        if event.pubkey != self._signer.public_key:
            raise _ForeignEvent
        if event.kind == KIND_DELETION:
            if not _concerns_us(event):
                raise _ForeignEvent
            return Filed(event, slot_of(event.id), Role.DELETION)
        tag = event.d_tag if event.kind == KIND_APP_DATA else None
        if event.kind == KIND_APP_DATA and (tag is None or not address.is_ours(tag)):
            raise _ForeignEvent
        slot = slot_of(event.id) if tag is None else address.filed_tag(tag)
        try:
            record = await envelope.open_event(self._signer, event)
        except NeedsNewerVersion:
            return Filed(event, slot)
        except BadPayload:
            if event.kind == KIND_DIRECT_MESSAGE:
                raise _ForeignEvent from None  # a note to self of another client
            raise
        opened[event.id] = record
        return Filed(event, slot, Role.TOMBSTONE if record.type is RecordType.TOMBSTONE else Role.MEMORY)


class _ForeignEvent(Exception):
    """Signed by our key for another program: left alone."""


def _concerns_us(event: Event) -> bool:
    """Whether a deletion may touch what this package keeps. Without a hint, an `e` tag may."""
    kinds = event.tag_values("k")
    tags = [address.d_tag_of(coordinate, event.pubkey) for coordinate in event.tag_values("a")]
    if any(tag is not None and address.is_ours(tag) for tag in tags):
        return True
    ours = {str(KIND_APP_DATA), str(KIND_DIRECT_MESSAGE)}
    return bool(event.tag_values("e")) and (not kinds or bool(ours & set(kinds)))
