"""The reading side of a store: verified events become ledger entries, ledger entries become records.

Decoded records are kept by event id, so a key read twice costs one look at the ledger and no decryption.
Whatever can not be opened is counted and left out, never believed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sense_memory import envelope
from sense_memory.envelope import Record, RecordType
from sense_memory.errors import BadPayload, MisfiledError, NeedsNewerVersion
from sense_memory.ledger import Filed, Role
from sense_memory.ledger.versions import slot_of
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
        self._open: dict[bytes, Record | None] = {}

    async def record(self, stored: Stored) -> Record | None:
        """The record inside a stored event, or None where a newer schema is needed to read it."""
        if stored.id not in self._open:
            try:
                opened = await envelope.open_event(self._signer, stored.event())
            except NeedsNewerVersion:
                opened = None
            self._open[stored.id] = opened
        return self._open[stored.id]

    def remember(self, event: Event, record: Record) -> None:
        """Keep the record of an event that this process sealed a moment ago."""
        self._open[bytes.fromhex(event.id)] = record

    async def admit(self, events: Sequence[Event], relay: str) -> Mapping[str, int]:
        """File what a relay served; returns counts: new, known, stale, …, foreign, misfiled, unreadable."""
        counts: Counter[str] = Counter()
        filed: list[Filed] = []
        for event in events:
            try:
                filed.append(await self._file(event))
            except _ForeignEvent:
                counts["foreign"] += 1
            except MisfiledError:
                counts["misfiled"] += 1
            except BadPayload:
                counts["unreadable"] += 1
        fates = self._ledger.apply(filed, relay, self._clock())
        counts.update(fate.value for fate in fates)
        return counts

    async def _file(self, event: Event) -> Filed:
        """An event with its place and role.

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
        slot = slot_of(event.id) if tag is None else tag
        ident = bytes.fromhex(event.id)
        try:
            record = self._open.get(ident) or await envelope.open_event(self._signer, event)
        except NeedsNewerVersion:
            return Filed(event, slot)
        except BadPayload:
            if event.kind == KIND_DIRECT_MESSAGE:
                raise _ForeignEvent from None  # a note to self of another client
            raise
        self._open[ident] = record
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
