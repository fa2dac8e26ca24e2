"""The list of the agent's relays, a record of the mind: where the memory lies, so that a bare key finds it again.

A store that syncs adds its relays to the list. A new machine that was told one relay learns the others from it, and dials
none of them by itself: somebody must add them. Relays on a machine are not listed, because no other machine can reach
them, and what is read is checked as any relay URL: `wss://`, without a user name, never this machine.

Each URL has the time of its last change and whether it was removed, so lists of two devices that did not know of each other
are mended by the next sync of each: a device adds what it uses and is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sense_memory.errors import InvalidRelayUrl
from sense_memory.nostr import address
from sense_memory.nostr.relay_url import is_local, relay_url


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.mind.records import MindRecord, MindRecords

PATH: Final = address.mind_path("relays")
MAX_COUNT: Final = 50  # relays that are offered


class RelayList:
    """Reads and writes the list of relays.

    Args:
        records: of the mind.
    """

    def __init__(self, records: MindRecords) -> None:
        self._records = records

    async def known(self) -> list[str]:
        """The relays of the list that may be dialled, without those that were removed; the ledger alone is read."""
        return [url for url, item in (await self._items()).items() if item.get("gone") is not True]

    async def others(self, urls: Iterable[str]) -> list[str]:
        """The relays of the list that a store does not use, 50 at most."""
        mine = set(urls)
        return [url for url in await self.known() if url not in mine][:MAX_COUNT]

    async def add(self, urls: Iterable[str], now: float) -> bool:
        """Add the relays that a store uses and that are not in the list; returns whether anything was written."""
        listed = set(await self.known())
        new = [url for url in _checked({url: {} for url in urls}) if url not in listed]
        if new:
            await self._change({url: {"at": now} for url in new})
        return bool(new)

    async def remove(self, url: str, now: float) -> bool:
        """Mark a relay as removed; returns whether it was in the list."""
        if url not in await self.known():
            return False
        await self._change({url: {"at": now, "gone": True}})
        return True

    async def _items(self) -> dict[str, Mapping[str, Any]]:
        store = self._records.store
        heads = store.ledger.heads.live_heads_at([address.d_tag(PATH)])
        found = await self._records.opened([(head.slot, head.seq) for head in heads])
        return _checked(found[0].fields.get("relays")) if found else {}

    async def _change(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        async def edit(before: Mapping[str, MindRecord]) -> Mapping[str, Mapping[str, Any]]:
            fields = dict(before[PATH].fields) if PATH in before else {}
            relays = fields.get("relays")
            kept = relays if isinstance(relays, dict) else {}
            return {PATH: {**fields, "relays": {**kept, **changes}}}

        await self._records.change([PATH], edit)


def _checked(listed: object) -> dict[str, Mapping[str, Any]]:
    """The relays that may be dialled, of what a record lists."""
    found: dict[str, Mapping[str, Any]] = {}
    for text, item in listed.items() if isinstance(listed, dict) else ():
        try:
            url = relay_url(text)
        except InvalidRelayUrl:
            continue
        if not is_local(url) and isinstance(item, dict):
            found[url] = item
    return found
