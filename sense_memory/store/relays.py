"""`store.relays`: the URLs of the configured relays, and what each relay holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from sense_memory import arguments
from sense_memory.ledger.copies import MemoryCopies, memory_copies, quorum
from sense_memory.memories.status import was_ever_complete


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.arguments import AddressMode
    from sense_memory.memories.address_moves import AddressPlan
    from sense_memory.memories.open_store import OpenStore
    from sense_memory.mind.relay_list import RelayList
    from sense_memory.relay.sync.audit import RelayAudit
    from sense_memory.relay.sync.holdings import Holding


class StoreRelays(tuple[str, ...]):  # noqa: SLOT001 - it has an attribute
    """The relays of a store: a tuple of their URLs, which can also be asked. Get it as `store.relays`.

    Args:
        urls: of the configured relays.
        opened: gives the open store, or raises StoreClosed.
    """

    _open: Callable[[], OpenStore]

    def __new__(cls, urls: Iterable[str], opened: Callable[[], OpenStore]) -> Self:  # noqa: D102 - the class says it
        found = super().__new__(cls, urls)
        found._open = opened
        return found

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[tuple[str, ...]]]:
        """A copy, or what `pickle` keeps, is a plain tuple of the URLs: the store is not copied."""
        return tuple, (tuple(self),)

    async def holdings(self) -> list[Holding]:
        """Compare what each relay holds with the ledger; no event is fetched or sent.

        A relay that fails raises no error. All relays are asked at once, for a minute at most. The result is what the
        relay claims: exact if it compares sets (NIP-77), a number if it counts (NIP-45), and unknown otherwise. Only
        `sync(full=True)` reads everything back.
        """
        return await self._open().replication.holdings()

    async def audit(
        self, *, full: bool = False, progress: Callable[[str, int], None] | None = None
    ) -> list[RelayAudit]:
        """What each relay holds of what it should, and what it holds beside that; nothing is changed, here or there.

        A relay that compares sets (NIP-77) is compared, and must serve a sample of what it claims; any other is read page by
        page. A relay that fails raises no error: its `reasons` say why it did not show everything.

        Args:
            full: read every event of every relay, whatever it claims to hold.
            progress: called with a relay and the number of events that were read of it so far.
        """
        return await self._open().replication.audit(full=full, progress=progress)

    async def write_manifest(self) -> bool:
        """Write the manifest of this device now, by which other devices notice what relays leave out.

        A store that syncs writes it by itself, once a day. Returns False, and writes nothing, if the last one says the same
        already. Raises NotSynced where a relay did not show everything in a sync, or where something is missing here that
        other manifests name.
        """
        return await self._open().replication.write_manifest()

    async def accept_losses(self) -> int:
        """Expect no longer what manifests name and no relay shows: forget those manifests; returns how many.

        A device that still has such a memory sends it again, and counts it in its next manifest.
        """
        return await self._open().replication.accept_losses()

    async def switch_addresses(
        self,
        mode: AddressMode,
        *,
        dry_run: bool = False,
        without: Iterable[str] = (),
        progress: Callable[[str, int], None] = lambda _, __: None,
    ) -> AddressPlan:
        """Move everything from readable to private addresses, or back; returns what is left to do.

        From now on, this store writes at addresses of this mode; set `addresses` for stores that are opened later. Each
        memory is written again at its new address. What lies at an old address is removed once every relay has shown what
        replaced it. A call that was stopped can be repeated; so can one after which something is left.

        Args:
            mode: "readable" or "private".
            dry_run: only say what would be done, by what this ledger holds.
            without: URLs of relays that need not show anything, because they are gone.
            progress: called with "written" or "removed", and the number of addresses done so far.

        Raises:
            InvalidInput: no such mode; nothing was changed.
        """
        wanted = arguments.shown_to_relays(mode, None, 0.0).addresses
        store, left_out = self._open(), tuple(without)
        if dry_run:
            return await store.replication.address_moves().plan(wanted, without=left_out)
        async with store.writing():
            return await store.replication.switch_addresses(wanted, left_out, progress)

    def drop(self, url: str) -> int:
        """Discard the queue and the pull position of a relay that this store no longer uses.

        The relay keeps its events. Returns how many events were queued. Raises InvalidInput where this store uses the
        relay, InvalidRelayUrl for a bad URL.
        """
        return self._open().replication.drop(url)

    def holders(self, event_id: str) -> dict[str, str]:
        """The state of an event at each relay, by URL: queued, acked, confirmed, refused, parked or superseded."""
        ledger = self._open().ledger
        stored = ledger.by_id(event_id)
        return ledger.outbox.states_by_relay(stored.seq) if stored else {}

    def copies(self, event_id: str) -> MemoryCopies:
        """How many relays elsewhere have an event: acknowledged (replicated) and read back (durable); no relay is asked."""
        store = self._open()
        states = {url: state for url, state in self.holders(event_id).items() if url in self}
        return memory_copies(states, quorum(self, store.options.min_acks))

    async def found(self) -> list[str]:
        """The relays that other machines of this agent use and this store does not; none of them is asked.

        They come from the list of relays in the agent's own memory, which each sync keeps. To use one, open a store with it.
        """
        return await self._list().others(self)

    async def unlist(self, url: str) -> bool:
        """Take a relay out of the list of relays in the agent's own memory; returns whether it was in it.

        A device that still uses the relay adds it again with its next sync.
        """
        return await self._list().remove(url, self._open().options.clock())

    def _list(self) -> RelayList:
        from sense_memory.mind.records import MindRecords
        from sense_memory.mind.relay_list import RelayList

        return RelayList(MindRecords(self._open()))

    async def publish(self) -> dict[str, str]:
        """Publish the list of relays where everybody can read it (NIP-65, kind 10002), at each of these relays.

        Nothing else publishes it. It replaces the list that the same key has published before. Returns by relay why it did
        not take the list, or empty. Relays on this machine get the list and are not in it.
        """
        return await self._open().replication.publish_relays()

    def were_ever_complete(self) -> bool:
        """As `status().was_ever_complete`, without counting the ledger, which takes 0.2 s for 100,000 memories."""
        return was_ever_complete(self._open().ledger, self)
