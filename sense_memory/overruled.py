"""Which edits of this device lost against another's in a synchronisation: known before it, compared after it.

An edit that no relay had yet is one that no other device can have known. Where another's takes its place all the
same, both were made side by side, and whoever made ours is told. Nothing is changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.envelope import RecordType
from sense_memory.nostr import address


if TYPE_CHECKING:
    from sense_memory.ledger import Ledger, Stored
    from sense_memory.reader import Reader

_CONFIRMED = "confirmed"  # a relay has shown it


class Edited:
    """The edits that no relay has at this moment.

    Args:
        ledger: where they are.
        reader: opens them.
    """

    def __init__(self, ledger: Ledger, reader: Reader) -> None:
        self._ledger, self._reader = ledger, reader
        self._before = ledger.inventory.unheld()
        self._last = ledger.edits.last

    async def overruled(self) -> tuple[str, ...]:
        """Names of those whose text another device's has replaced since, sorted: a key, or `domain/facet/key`."""
        if not self._before or self._ledger.edits.last == self._last:
            return ()
        found = []
        for slot, head in self._ledger.edits.heads_of(self._before):
            if head != self._before[slot] and (name := await self._lost(slot, head)):
                found.append(name)
        return tuple(sorted(found))

    async def _lost(self, slot: str, head: int) -> str:
        """The name of what lies at a slot, where its text is another device's now; else empty."""
        versions = {stored.seq: stored for stored in self._ledger.versions(slot)}
        ours, now = versions.get(self._before[slot]), versions.get(head)
        if ours is None or now is None or not any(self._came(stored) for stored in versions.values()):
            return ""  # it was forgotten, or another process of this machine wrote
        old, new = await self._reader.record(ours), await self._reader.record(now)
        if old is None or new is None or RecordType.TOMBSTONE in {old.type, new.type}:
            return ""
        if old.fields.get("value") == new.fields.get("value"):
            return ""
        return old.path.removeprefix(address.PERSONA)

    def _came(self, stored: Stored) -> bool:
        """Whether a relay has shown an event since."""
        return stored.seq > self._last and _CONFIRMED in self._ledger.outbox.holders(stored.seq).values()
