"""A complete pull by comparison (NIP-77): only events that differ between a relay and the ledger are transferred.

What is guaranteed: when a comparison is complete, the ledger has filed every event that the relay claims to have in the
compared range, and every event that only the ledger has is queued for the relay.

Why it is safe: a claim to have an event that we lack is checked by fetching the event; a relay that does not serve all
of these events is walked instead. A claim to hold what we hold is checked by a sample. Before a comparison confirms
events, the relay must serve up to 20 of them, chosen at random: 20 or fewer are all read back. Once an hour, and in each
process, it must also serve up to 20 of those that were confirmed before. If one of these is not served, nothing that the
relay claims is believed, and the relay is walked from the first event to the last. A relay that holds half of what it
claims passes one time in a million, and one that holds 90 % one time in eight; only a walk (`sync(full=True)`) is proof.
Pulls that ask only for recent events ask for 5 confirmed ones once an hour (`serves_confirmed`), whether or not the relay
supports NIP-77: a relay that lost half of its events passes one hour in 32.

The journal is compared apart from the other kinds, because some relays show it only to clients that they know, leave it
out of a mixed answer without a word, or leave it out of comparisons even where they serve it. If a relay claims to hold
no entry at all, it is asked for one; if it has one, refuses, or does not compare, the journal is walked instead: entries
of any date if the relay counts another number (NIP-45) than is here, and recent ones otherwise.

What it costs: one message each way for the journal and one for the rest if nothing differs, one request if there is
something to prove, and one if the relay has no journal; about 830 bytes of hex for each of 100 differences scattered over
10,000 events; an hour's sample is one or two requests, and 5 or 20 events of each part. The sorted inventory is built once
for all relays that hold the same events, and again when the ledger changes: 0.1 s for 100,000 events; more than 1,000 are
sorted in a thread.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from sense_memory.errors import RelayError
from sense_memory.ledger.relays import Remark
from sense_memory.limits import (
    COMPARED_COUNT,
    HEAL_SECONDS,
    MAX_FUTURE_SECONDS,
    PAGE_COUNT,
    PROBE_COUNT,
    SPOT_CHECK_COUNT,
    SWEEP_SECONDS,
    UNTHREADED_COUNT,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import Items
from sense_memory.relay.client.nip11 import frame_bytes, ids_count, may_compare, may_count
from sense_memory.relay.client.requests import Comparison
from sense_memory.relay.sync.walk import PullResult, newest_of


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from sense_memory.ledger import Ledger
    from sense_memory.ledger.inventory import InventoryVersion, Pair
    from sense_memory.nostr.event import Event
    from sense_memory.relay.client.connection import RelayConnection
    from sense_memory.relay.client.page import EventPage
    from sense_memory.relay.sync.walk import Fetch, FileEvents


JOURNAL: Final = (KIND_DIRECT_MESSAGE,)
OTHERS: Final = (KIND_DELETION, KIND_APP_DATA)
ItemsByKinds: TypeAlias = "dict[tuple[int, ...], Items]"  # by `OTHERS` and `JOURNAL`
_RANDOM = secrets.SystemRandom()  # a relay that could guess the sample would keep just that


class InventoryCache:
    """The inventories of a ledger, sorted for comparison and cached until the ledger changes.

    Args:
        ledger: the ledger; relays with equal inventories share one entry.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._inventory = ledger.inventory
        self._lock = asyncio.Lock()
        self._versions: dict[tuple[str, bool], tuple[InventoryVersion, int]] = {}
        self._items: dict[tuple[InventoryVersion, int], ItemsByKinds] = {}
        self._foreign_entries: set[bytes] = set()

    def note_entries(self, ids: Iterable[bytes]) -> None:
        """Note that events are of the journal's kind, because the ledger does not store those of other programs."""
        if not self._foreign_entries.issuperset(ids := set(ids)):
            self._foreign_entries |= ids
            self._items.clear()

    async def items_for(self, url: str, since: int | None = None) -> tuple[InventoryVersion, ItemsByKinds]:
        """The current version of a relay's inventory, and its items, all or only those dated since a second.

        An event that the relay holds aside, and whose kind is unknown, counts among the other kinds; if it is an entry
        of another program, the first comparison of a process fetches it once more.
        """
        async with self._lock:
            version = self._inventory.version(url)
            key = self._versions[url, since is None] = version, since or 0
            used = set(self._versions.values())
            self._items = {known: items for known, items in self._items.items() if known in used}
            if key not in self._items:
                pairs = self._inventory.pairs(*key)
                sort = partial(_sorted_by_kinds, pairs, self._inventory.journal_ids() | self._foreign_entries)
                is_long = len(pairs) > UNTHREADED_COUNT  # 100,000 take 0.1 s
                self._items[key] = await asyncio.to_thread(sort) if is_long else sort()
            return version, self._items[key]


def _sorted_by_kinds(pairs: Sequence[Pair], journal: Collection[bytes]) -> ItemsByKinds:
    """The items of the other kinds, and those of the journal, given its ids."""
    return {
        OTHERS: Items([pair for pair in pairs if pair[1] not in journal]),
        JOURNAL: Items([pair for pair in pairs if pair[1] in journal]),
    }


def kinds_filter(author: str, kinds: tuple[int, ...]) -> Filter:
    """Our events of some of `OTHERS`, or of `JOURNAL`: of direct messages only those addressed to us are the journal.

    The filter of the other kinds names author and kinds only: relays answer such filters fastest, and some keep a tree
    for them.
    """
    tags = {"p": (author,)} if kinds == JOURNAL else {}
    return Filter(authors=(author,), kinds=kinds, tags=tags)


@dataclass(frozen=True, slots=True)
class ComparedPull:
    """A complete pull by comparison.

    Attributes:
        found: the result.
        saw_journal: whether the journal was compared too; otherwise it must be walked.
        lacks_journal: whether to walk entries of any date, because more than the recent ones may be missing.
    """

    found: PullResult
    saw_journal: bool
    lacks_journal: bool


@dataclass(slots=True)
class ComparedPart:
    """Some kinds that are compared by themselves.

    Attributes:
        kinds: these kinds.
        wanted: their filter.
        items: what the ledger holds of them.
        found: the result of the comparison.
        aside: what the relay has beside the items, and the ledger knows.
    """

    kinds: tuple[int, ...]
    wanted: Filter
    items: Items
    found: Comparison = field(default_factory=Comparison)
    aside: Sequence[Pair] = ()

    @property
    def shows_some(self) -> bool:
        """Whether the relay claims to hold any event of these kinds."""
        return bool(self.found.need) or len(self.found.have) < len(self.items)

    @property
    def claimed(self) -> Sequence[bytes]:
        """The ids of our events that the relay claims to hold."""
        return self.items.ids_except(frozenset(self.found.have))


class Reconciler:
    """Compares one relay with the ledger.

    Args:
        url: the relay, as the ledger knows it.
        ledger: the ledger.
        author: the ledger's public key, 64 hex digits.
        inventories: the compared inventories, shared by all relays of a store.
        clock: seconds since 1970.

    Attributes:
        was_disproved: whether the relay did not serve what it claimed to hold in the last comparison.
    """

    def __init__(
        self, url: str, ledger: Ledger, author: str, inventories: InventoryCache, clock: Callable[[], float]
    ) -> None:
        self._url, self._ledger, self._inventories, self._clock = url, ledger, inventories, clock
        self._author = author
        self._refused_at = float("-inf")
        self._has_compared = False  # whether the relay is known to support NIP-77, whatever its document says
        self._sampled_at: float | None = None  # when it last served a sample of confirmed events
        self.was_disproved = False

    async def pull(
        self,
        connection: RelayConnection,
        fetch: Fetch,
        file_events: FileEvents,
        *,
        since: int | None = None,
        every: float = HEAL_SECONDS,
        with_journal: bool = True,
        completes_walk: bool = False,
    ) -> ComparedPull | None:
        """Compare, fetch the events that only the relay has, and queue the events that only the ledger has.

        Args:
            connection: an open connection to the relay.
            fetch: sends one REQ and returns the page that answers it.
            file_events: files verified events, page by page.
            since: compare only events dated then or later, seconds since 1970; None for everything.
            every: seconds after which lost events are sent to the relay again.
            with_journal: whether to compare the journal too.
            completes_walk: whether a walk could not show everything, so that a comparison is needed at any cost.

        Returns:
            A complete pull; None if the relay must be walked instead.
        """
        now, self.was_disproved = self._clock(), False
        if not self.may_compare(connection):
            return None
        version, items = await self._inventories.items_for(self._url, since)
        if not (completes_walk or self._is_worthwhile(sum(map(len, items.values())), since)):
            return None
        others, journal = (self._part(kinds, items, since) for kinds in (OTHERS, JOURNAL))

        async def compare_entries() -> bool:
            compare = partial(self._compare, connection)
            return with_journal and await compare_journal(compare, fetch, journal)

        _, saw_journal = await asyncio.gather(self._compare(connection, others), compare_entries())
        if not others.found.complete:
            self._refused_at = now  # this process does not try again for a day
            return None
        self._has_compared = True
        horizon = now + MAX_FUTURE_SECONDS
        fetched = _FetchById(fetch, file_events, ids_count(connection.information), horizon)
        compared = await self._fetch_parts(fetched, others, journal if saw_journal else None)
        probe = _FetchById(fetch, _leave, ids_count(connection.information), horizon)
        if not compared or not await self._proves_holdings(probe, compared, now, is_whole=since is None):
            return None
        missing = await self._record(version, compared, fetched.pairs, begun=now, since=since, every=every)
        latest = max(part.items.latest(frozenset(part.found.have), until=horizon) for part in compared)
        found = fetched.totals + PullResult(newest=latest, missing=missing)
        saw_journal = journal in compared
        asks = with_journal and not saw_journal
        lacks = asks and await self._may_lack_entries(connection, journal)
        return ComparedPull(found, saw_journal=saw_journal, lacks_journal=lacks)

    async def _record(
        self,
        version: InventoryVersion,
        compared: Sequence[ComparedPart],
        fetched: Sequence[Pair],
        *,
        begun: float,
        since: int | None,
        every: float,
    ) -> int:
        """Queue what the relay lacks and confirm what it holds; returns how many events it had accepted and lost."""
        return await self._ledger.write(
            self._ledger.inventory.record_comparison,
            self._url,
            version,
            [ident for part in compared for ident in part.found.have],
            [*fetched, *(pair for part in compared for pair in part.aside)],
            self._clock(),
            begun=begun,
            since=since,
            every=every,
            kinds=[kind for part in compared for kind in part.kinds],
        )

    async def _may_lack_entries(self, connection: RelayConnection, part: ComparedPart) -> bool:
        """Whether entries that are not recent may be missing, here or at a relay that does not compare them.

        The relay is asked how many it has; if it does not count, it is asked for all of them where that is one page.
        """
        here = len(part.items)
        if not here:
            return True
        if part.wanted.since is not None:
            return False
        if not may_count(connection.information):
            return here < PAGE_COUNT
        try:
            counted = await connection.count([part.wanted], doubtful=connection.information is None)
        except RelayError:
            return False
        return counted.count != here

    def _part(self, kinds: tuple[int, ...], items: ItemsByKinds, since: int | None) -> ComparedPart:
        return ComparedPart(kinds, replace(kinds_filter(self._author, kinds), since=since), items[kinds])

    async def _fetch_parts(
        self, fetched: _FetchById, others: ComparedPart, journal: ComparedPart | None
    ) -> list[ComparedPart]:
        """Fetch what only the relay has; returns the parts that it served completely.

        No part, if the relay claims other kinds that it does not serve, or has newer versions by now.
        """
        if not await self._fetch_part(fetched, others):
            return []
        if journal is None or not await self._fetch_part(fetched, journal):
            return [others]
        self._inventories.note_entries(journal.found.need)
        return [others, journal]

    async def _fetch_part(self, fetched: _FetchById, part: ComparedPart) -> bool:
        """Fetch what only the relay has of some kinds, and is not known here; returns whether the relay served all."""
        part.aside = self._ledger.inventory.known_pairs(part.found.need)
        wanted = set(part.found.need).difference(ident for _, ident in part.aside)
        return await fetched.fetch_all(replace(part.wanted, since=None), wanted)

    def may_compare(self, connection: RelayConnection) -> bool:
        """Whether the relay may support NIP-77: its document does not deny it, and it refused no comparison today."""
        return self._clock() - self._refused_at >= SWEEP_SECONDS and may_compare(connection.information)

    async def _proves_holdings(
        self, probe: _FetchById, compared: Sequence[ComparedPart], now: float, *, is_whole: bool
    ) -> bool:
        """Whether the relay serves a random sample of the ids that it claims to hold.

        The sample is of the events that the comparison would confirm. In a comparison of everything, in each process and
        once an hour, it is also of the events that were confirmed before.
        """
        unconfirmed = self._ledger.inventory.unconfirmed_ids(self._url)
        is_of_all = is_whole and self._sample_is_due(now)
        for part in compared:
            claimed = part.claimed
            fresh = [ident for ident in claimed if ident in unconfirmed]
            known = [ident for ident in claimed if ident not in unconfirmed] if is_of_all else []
            sample = [
                ident for ids in (fresh, known) for ident in _RANDOM.sample(ids, min(PROBE_COUNT, len(ids)))
            ]
            if not await probe.fetch_all(replace(part.wanted, since=None), sample):
                self.was_disproved = probe.was_withheld
                return False
        if is_of_all:
            self._sampled_at = now
        return True

    async def serves_confirmed(self, connection: RelayConnection, fetch: Fetch) -> bool:
        """Whether the relay serves a few random events that it was found to hold; asked once an hour.

        The first hour begins with the first pull of this process, so that short processes do not ask.

        Returns:
            False only if the relay answered without one of them; then the next comparison takes a sample again.
        """
        now = self._clock()
        if self._sampled_at is None:
            self._sampled_at = now
        if not self._sample_is_due(now):
            return True
        groups = (
            [OTHERS] if self._ledger.relays.has_remark(self._url, Remark.HIDES_JOURNAL) else [OTHERS, JOURNAL]
        )
        shown = [kind for kinds in groups for kind in kinds]
        sample = self._ledger.inventory.sample_confirmed(self._url, SPOT_CHECK_COUNT, shown)
        probe = _FetchById(fetch, _leave, ids_count(connection.information), now)
        for kinds in groups:
            wanted = kinds_filter(self._author, kinds)
            if not await probe.fetch_all(wanted, [ident for kind, ident in sample if kind in kinds]):
                break
        if not probe.was_withheld:
            self._sampled_at = now
        return not probe.was_withheld

    def _sample_is_due(self, now: float) -> bool:
        return self._sampled_at is None or not 0 <= now - self._sampled_at < HEAL_SECONDS

    def _is_worthwhile(self, count: int, since: int | None) -> bool:
        """Whether comparing `count` events is likely to cost less than a walk.

        A walk costs no more for a few events since a cursor, or for a new relay, which probably has none of our few
        events; and a walk shows more than a comparison.
        """
        if since is not None:
            return count >= COMPARED_COUNT
        is_first = self._ledger.relays.state(self._url).completed_at is None
        return count > (PAGE_COUNT if is_first else 0)

    async def _compare(self, connection: RelayConnection, part: ComparedPart) -> None:
        """Compare some kinds; the result is in `part.found`."""
        known = connection.information
        try:
            part.found = await connection.compare(
                part.wanted,
                part.items,
                frame_bytes=frame_bytes(known),
                doubtful=known is None and not self._has_compared,
            )
        except RelayError as error:
            part.found = Comparison(complete=False, reason=error.problem)


async def compare_journal(
    compare: Callable[[ComparedPart], Awaitable[None]], fetch: Fetch, part: ComparedPart
) -> bool:
    """Compare the journal; returns whether the comparison saw what the relay has of it.

    A journal that is empty here is compared only if the relay has an entry. If the relay does not answer completely, the
    reason is in `part.found`.

    Args:
        compare: compares a part.
        fetch: sends one REQ and returns the page that answers it.
        part: the journal.
    """
    if len(part.items):
        await compare(part)
    if part.found.complete and not part.shows_some:
        page = await fetch([replace(part.wanted, limit=1)])
        if not page.complete:
            part.found = Comparison(complete=False, reason=page.reason)
        if not page.complete or not page.events:
            return page.complete
        if len(part.items):
            return False  # the relay serves what it left out of the comparison
        await compare(part)
    return part.found.complete and part.shows_some


class _FetchById:
    """Fetches events by id.

    Attributes:
        pairs: the times and ids of the fetched events.
        totals: the totals of all received pages.
        was_withheld: whether the relay answered completely, and served none of the events that were left.
    """

    def __init__(self, fetch: Fetch, file_events: FileEvents, most: int, horizon: float) -> None:
        self._fetch, self._file_events, self._most, self._horizon = fetch, file_events, most, horizon
        self.pairs: list[Pair] = []
        self.totals = PullResult()
        self.was_withheld = False

    async def fetch_all(self, wanted: Filter, ids: Iterable[bytes]) -> bool:
        """Fetch events in batches that the relay serves; returns whether all of them arrived."""
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
                self.was_withheld = page.complete
                return False
        return True


async def _leave(_events: Sequence[Event]) -> None:
    """File nothing: the events of a sample are here already."""


def _totals(page: EventPage, horizon: float) -> PullResult:
    newest = newest_of(page.events, horizon)
    return PullResult(
        received=len(page.events), newest=newest, invalid=page.invalid, over_delivered=page.over_delivered
    )
