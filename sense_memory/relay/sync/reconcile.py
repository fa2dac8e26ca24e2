"""A complete pull by comparison (NIP-77): only what differs between a relay and the ledger moves.

What is guaranteed: when a comparison is complete, the ledger holds every event that the relay claims to have in the
compared range, and what only the ledger has is queued for the relay.

Why it is safe: the relay's claims are never believed. The ids that it names are fetched and verified like any page, and a
relay that does not serve all of them is left to the walk by pages. A relay that keeps nothing could answer that nothing
differs, so the relay is asked for one of its events until it has served one.

What it costs: one message each way where nothing differs; some 830 bytes of hex for each of 100 differences scattered
over 10,000 events. The sorted inventory is built once for all relays that hold the same, and anew when the ledger changes: 0.1 s
for 100,000 events, in a thread.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from sense_memory.errors import RelayError
from sense_memory.limits import COMPARED_COUNT, HEAL_SECONDS, MAX_FUTURE_SECONDS, PAGE_COUNT, SWEEP_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import Items
from sense_memory.relay.client.nip11 import frame_bytes, ids_count, may_compare
from sense_memory.relay.client.requests import Comparison
from sense_memory.relay.sync.walk import PullResult, newest_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.inventory import InventoryVersion, Pair
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.client.page import EventPage
    from sense_memory.relay.sync.walk import Fetch, FileEvents


class InventoryCache:
    """The inventories of a ledger in the form that is compared, kept while nothing changes.

    Args:
        ledger: the ledger; relays with equal inventories share one.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._inventory = ledger.inventory
        self._turn = asyncio.Lock()
        self._used: dict[tuple[str, bool], tuple[InventoryVersion, int]] = {}
        self._kept: dict[tuple[InventoryVersion, int], Items] = {}

    async def items_for(self, url: str, since: int | None = None) -> tuple[InventoryVersion, Items]:
        """The version of a relay's inventory now; and the inventory, or the part dated since a second."""
        async with self._turn:
            version = self._inventory.version(url)
            key = self._used[url, since is None] = version, since or 0
            used = set(self._used.values())
            self._kept = {known: items for known, items in self._kept.items() if known in used}
            if key not in self._kept:
                pairs = self._inventory.pairs(*key)
                self._kept[key] = await asyncio.to_thread(Items, pairs)  # 100,000 take 0.1 s
            return version, self._kept[key]


class Reconciler:
    """Compares one relay with the ledger.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: its public key, 64 hex digits.
        inventories: shared by the relays of a store.
        clock: seconds since 1970.
    """

    def __init__(
        self, url: str, ledger: Ledger, author: str, inventories: InventoryCache, clock: Callable[[], float]
    ) -> None:
        self._url, self._ledger, self._inventories, self._clock = url, ledger, inventories, clock
        # Without the `p` tag of our journal: relays answer fastest where nothing but author and kinds is named,
        # and some keep a tree for such filters.
        self._wanted = Filter(authors=(author,), kinds=(KIND_DIRECT_MESSAGE, KIND_DELETION, KIND_APP_DATA))
        self._refused_at = float("-inf")
        self._is_proven = False  # whether the relay served an event that it claimed to have

    async def pull(
        self,
        connection: RelayConnection,
        fetch: Fetch,
        file_events: FileEvents,
        *,
        since: int | None = None,
        every: float = HEAL_SECONDS,
    ) -> PullResult | None:
        """Compare, fetch what only the relay has, and queue what only the ledger has.

        Args:
            connection: an open connection to the relay.
            fetch: one REQ, answered by one page.
            file_events: where verified events go, page by page.
            since: compare only events dated then or later, seconds since 1970; None for everything.
            every: seconds after which lost events are sent to the relay again.

        Returns:
            A complete pull; None if the relay has to be walked instead.
        """
        now = self._clock()
        if now - self._refused_at < SWEEP_SECONDS or not may_compare(connection.information):
            return None
        version, items = await self._inventories.items_for(self._url, since)
        if not self._is_worth_it(len(items), since):
            return None
        found = await self._compare(connection, replace(self._wanted, since=since), items)
        if not found.complete:
            self._refused_at = now  # in this process it is not asked again on that day
            return None
        known = self._ledger.inventory.known_pairs(found.need)
        wanted = set(found.need).difference(ident for _, ident in known)
        horizon = now + MAX_FUTURE_SECONDS
        fetched = _FetchById(fetch, file_events, ids_count(connection.information), horizon)
        if not await fetched.fetch_all(self._wanted, wanted):
            return None  # it claims what it does not serve, or has a newer version by now
        self._is_proven |= bool(fetched.pairs)
        if not await self._serves(fetch, items.ids_except(frozenset(found.have))):
            return None
        holds = [*known, *fetched.pairs]
        missing = await self._ledger.write(
            self._ledger.inventory.record_comparison,
            self._url,
            version,
            found.have,
            holds,
            self._clock(),
            begun=now,
            since=since,
            every=every,
        )
        latest = items.latest(frozenset(found.have), until=horizon)
        return fetched.totals + PullResult(newest=latest, missing=missing)

    async def _serves(self, fetch: Fetch, ids: Sequence[bytes]) -> bool:
        """Whether the relay serves one of the events that it claims to have; asked until it has served one.

        A relay that keeps nothing may well answer that nothing differs.
        """
        if ids and not self._is_proven:
            one = secrets.choice(ids).hex()
            page = await fetch([replace(self._wanted, ids=(one,), limit=1)])
            self._is_proven = bool(page.events)
        return self._is_proven or not ids

    def _is_worth_it(self, count: int, since: int | None) -> bool:
        """Whether so many events are likely to be at the relay: not where both never met and we hold few.

        A few that are dated since a cursor are fetched as cheaply, and pages show more than a comparison does.
        """
        if since is not None:
            return count >= COMPARED_COUNT
        is_first = self._ledger.relays.state(self._url).completed_at is None
        return count > (PAGE_COUNT if is_first else 0)

    async def _compare(self, connection: RelayConnection, wanted: Filter, items: Items) -> Comparison:
        known = connection.information
        try:
            return await connection.compare(
                wanted, items, frame_bytes=frame_bytes(known), doubtful=known is None
            )
        except RelayError as error:
            return Comparison(complete=False, reason=error.problem)


class _FetchById:
    """Events fetched by their ids.

    Attributes:
        pairs: the times and ids of the fetched events.
        totals: the counts of everything received.
    """

    def __init__(self, fetch: Fetch, file_events: FileEvents, most: int, horizon: float) -> None:
        self._fetch, self._file_events, self._most, self._horizon = fetch, file_events, most, horizon
        self.pairs: list[Pair] = []
        self.totals = PullResult()

    async def fetch_all(self, wanted: Filter, ids: Iterable[bytes]) -> bool:
        """Fetch events, as many at once as a relay serves; returns whether all of them arrived."""
        missing = dict.fromkeys(ident.hex() for ident in ids)
        while batch := tuple(islice(missing, self._most)):
            page = await self._fetch([replace(wanted, ids=batch, limit=len(batch))])
            if page.events:
                await self._file_events(page.events)
            self.totals += _totals(page, self._horizon)
            for event in page.events:
                del missing[event.id]
                self.pairs.append((event.created_at, bytes.fromhex(event.id)))
            if not page.complete or not page.events:
                return False
        return True


def _totals(page: EventPage, horizon: float) -> PullResult:
    newest = newest_of(page.events, horizon)
    return PullResult(
        received=len(page.events), newest=newest, invalid=page.invalid, over_delivered=page.over_delivered
    )
