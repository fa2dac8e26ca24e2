"""The walk over a relay's events, from the newest down: pages by `until`, complete told apart from incomplete. No I/O, no clock.

What is guaranteed: a walk without `reasons` has seen everything that the relay showed for the filter. A short page does
not end it; only an empty one below the oldest event does.

Why it is safe: NIP-01 lets `until` include the second that it names, but some relays leave that second out and would
skip what a page cut off. So a page counts as the continuation of another only if the page repeats some event of the
second in which the other ended. If it repeats none, `until` is set one second later, which skips nothing, however a relay
reads `until`. An event that neither page repeats must be gone, as when another device replaced it meanwhile. A relay that
has the event after all, or changes how it reads `until`, is never called complete.

Where one second holds more than a page, time cannot advance. The known addresses are then asked for one by one, the
walk goes on below that second, and the pull is reported incomplete.

What it costs: a request for each page and one below the last; two more, once in a walk, at relays that leave `until`
out. Ids are kept for the oldest second only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from sense_memory.limits import ADDRESS_BATCH_COUNT, PAGE_COUNT
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.page import EventPage


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter

    Fetch: TypeAlias = Callable[[Sequence[Filter]], Awaitable[EventPage]]
    FileEvents: TypeAlias = Callable[[Sequence[Event]], Awaitable[None]]

# A page that is cut off before its EOSE says nothing about the second in which it was cut. So a relay that hangs up
# after every message cannot be pulled: each answer begins with known events. Stepping past an unseen second would bring
# more events, but never a complete pull, and without a complete pull nothing is sent to the relay.
CROWDED: Final = "more events in one second than fit a page"
GAP: Final = "its pages skip events"
_NOTHING: Final = EventPage((), complete=True)


@dataclass(frozen=True, slots=True)
class PullResult:
    """What a walk over one filter brought.

    Attributes:
        reasons: why the walk is not complete, in our words; empty when the relay has shown everything.
        received: distinct verified events.
        newest: the latest created_at among them that is not too far ahead to count, or 0.
        invalid: events the relay sent that were malformed or forged.
        over_delivered: events outside the filter.
        missing: events that the relay had accepted and no longer has.
        refused: whether the relay refused to show something; as far as we know, asking again is useless.
    """

    reasons: tuple[str, ...] = ()
    received: int = 0
    newest: int = 0
    invalid: int = 0
    over_delivered: int = 0
    missing: int = 0
    refused: bool = False

    @property
    def complete(self) -> bool:
        """Whether what was not received does not exist at this relay."""
        return not self.reasons

    def __add__(self, other: PullResult) -> PullResult:
        return PullResult(
            tuple(dict.fromkeys(self.reasons + other.reasons)),
            self.received + other.received,
            max(self.newest, other.newest),
            self.invalid + other.invalid,
            self.over_delivered + other.over_delivered,
            self.missing + other.missing,
            self.refused or other.refused,
        )


@dataclass(slots=True)
class Position:
    """How far down a walk came, so that it can go on after the relay hung up.

    Attributes:
        second: the oldest second reached, or None before the first event; all younger events were shown.
        largest: events of the largest page.
        edge: the id of an event of that second; empty if `second` is the `until` to continue with instead.
    """

    second: int | None = None
    largest: int = 0
    edge: str = ""

    def move(self, second: int, edge: Collection[str]) -> None:
        """Note that the walk reached a second, of which `edge` are events."""
        self.second, self.edge = second, min(edge, default="")


async def pull(
    fetch: Fetch,
    file_events: FileEvents,
    wanted: Filter,
    known_tags: Callable[[], Sequence[str]] = tuple,
    *,
    page_size: int = PAGE_COUNT,
    position: Position | None = None,
    horizon: float = inf,
) -> PullResult:
    """Walk a filter from its newest event to its oldest, handing each new event to `file_events` once.

    Args:
        fetch: one REQ, answered by one page.
        file_events: where verified events go, page by page.
        wanted: the filter; its `limit` is set here.
        known_tags: the d-tags to ask for by name where a second holds more than a page.
        page_size: the `limit` of each REQ.
        position: where to begin; moved along.
        horizon: later events do not count for `PullResult.newest`: they are quarantined.
    """
    walk, at = _Walk(file_events, horizon), position or Position()
    pages = _Pages(fetch, wanted, page_size)
    known, second, stuck = at.largest, wanted.until if at.second is None else at.second, False
    page = await pages.first(at)
    while page.complete and page.events:
        count = len(page.events)
        at.largest = max(at.largest, count)
        if await walk.file_new(page) and walk.second != second:
            second = walk.second
            at.move(second, walk.edge)
            page = await pages.onward(second, walk.edge)
            continue
        # Nothing new: this second is the last, or it fills a page. One step down shows which. Even if nothing is
        # below, the second may hide more when the page is as full as pages of this relay get.
        crowd, page = walk.second, _NOTHING
        crowded = count >= page_size or (count == at.largest and (known or count < walk.totals.received))
        if crowd > (wanted.since or 0):
            second = crowd - 1
            page = await pages.below(crowd)
        if page.complete and (page.events or crowded):
            walk.reasons.append(CROWDED)
            await _by_address(
                fetch, walk, replace(wanted, since=crowd, until=pages.until(crowd)), known_tags()
            )
        elif page.events or crowded:
            stuck = True  # cut off: it may be crowded, and would have to be looked at again
        else:
            at.move(pages.until(max(crowd - 1, wanted.since or 0)), ())
    if await walk.file_new(page) and pages.joined and not stuck and _newest_first(page):
        at.move(walk.second, walk.edge)
    return replace(walk.done(*pages.reasons, page.reason), refused=page.outcome is RelayOutcome.REFUSED)


class _Pages:
    """Asks for the pages of a walk, and learns on the way how a relay reads `until`.

    Attributes:
        joined: whether the last page leaves out nothing between the page before and its own events.
        reasons: why the relay is not believed to have shown everything.
    """

    def __init__(self, fetch: Fetch, wanted: Filter, size: int) -> None:
        self._fetch, self._wanted, self._size = fetch, wanted, size
        self._beyond: int | None = None  # 1 where `until` leaves its second out, 0 where it does not
        self.joined = True
        self.reasons: list[str] = []

    async def first(self, at: Position) -> EventPage:
        """The newest events; or where a cut-off walk continues, the next events."""
        if at.second is not None and at.edge:
            return await self.onward(at.second, {at.edge})
        return await self._ask(self._wanted.until if at.second is None else at.second)

    async def onward(self, second: int, edge: Collection[str]) -> EventPage:
        """The page after a page that ended in a second: the rest of that second, and older events.

        Args:
            second: the oldest second of the page before.
            edge: ids of that second's events in the page before.
        """
        tried: dict[int, EventPage] = {}
        usual = self._beyond or 0
        for beyond in (usual, 1 - usual):
            page = tried[beyond] = await self._ask(second + beyond, ceiling=second)
            self.joined = any(event.id in edge for event in page.events)
            if self.joined:
                self._learn(beyond)
            if self.joined or not page.complete:
                return page
        self.joined = True
        there = await self._first_of(edge)
        if there.complete and not there.events:
            return tried[1]  # the edge is gone, and this page skips nothing whatever `until` means
        self.reasons.append(there.reason or GAP)
        return tried[1] if there.complete else _NOTHING

    async def below(self, second: int) -> EventPage:
        """The page of events older than a second."""
        return await self._ask(self.until(second - 1), ceiling=second - 1)

    def until(self, second: int) -> int:
        """The `until` that this relay reads as "up to and including this second", as far as is known."""
        return second + (self._beyond or 0)

    async def _ask(self, until: int | None, *, ceiling: int | None = None) -> EventPage:
        page = await self._fetch([replace(self._wanted, until=until, limit=self._size)])
        kept = tuple(event for event in page.events if ceiling is None or event.created_at <= ceiling)
        if self._beyond and len(kept) < len(page.events):
            self._learn(0)
        return replace(page, events=kept)

    def _learn(self, beyond: int) -> None:
        if self._beyond not in (None, beyond):
            self.reasons.append(GAP)  # it changed what it takes `until` for: either may have skipped some
        self._beyond = beyond

    async def _first_of(self, ids: Collection[str]) -> EventPage:
        """The first answer with any of some events, or the last without."""
        page = _NOTHING
        for batch in _batches(tuple(ids)):
            page = await self._fetch(
                [replace(self._wanted, ids=batch, since=None, until=None, limit=len(batch))]
            )
            if page.events or not page.complete:
                break
        return page


def _newest_first(page: EventPage) -> bool:
    """Whether a page is in the order of NIP-01: only then a cut-off page leaves out nothing above its end."""
    return all(one.created_at >= other.created_at for one, other in pairwise(page.events))


def newest_of(events: Iterable[Event], horizon: float) -> int:
    """The latest created_at that is not beyond a horizon, or 0."""
    return max((event.created_at for event in events if event.created_at <= horizon), default=0)


async def by_address(
    fetch: Fetch, file_events: FileEvents, wanted: Filter, tags: Sequence[str]
) -> PullResult:
    """Fetch the current events of some addresses, with one filter each, because relays disagree about several d-tags."""
    walk = _Walk(file_events)
    await _by_address(fetch, walk, wanted, tuple(dict.fromkeys(tags)))
    return walk.done()


async def _by_address(fetch: Fetch, walk: _Walk, wanted: Filter, tags: Sequence[str]) -> None:
    for batch in _batches(tags):
        page = await fetch([replace(wanted, tags={"d": (tag,)}, limit=1) for tag in batch])
        await walk.file_new(page)
        if not page.complete:
            walk.reasons.append(page.reason)


def _batches(items: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Some items at a time: as many as fit a request to any relay."""
    for start in range(0, len(items), ADDRESS_BATCH_COUNT):
        yield tuple(items[start : start + ADDRESS_BATCH_COUNT])


class _Walk:
    """What a walk has seen so far. Ids are kept for the oldest second only: pages overlap nowhere else.

    Attributes:
        second: the oldest second seen, or -1.
        edge: ids of the events seen of that second.
        totals: what was received so far.
        reasons: why the walk is not complete.
    """

    def __init__(self, file_events: FileEvents, horizon: float = inf) -> None:
        self._file_events, self._horizon = file_events, horizon
        self.edge: set[str] = set()
        self.second = -1
        self.totals = PullResult()
        self.reasons: list[str] = []

    async def file_new(self, page: EventPage) -> bool:
        """File the new events of a page; returns whether there were any."""
        fresh = [event for event in page.events if event.id not in self.edge]
        if fresh:
            await self._file_events(fresh)
            oldest = min(event.created_at for event in page.events)
            if oldest != self.second:
                self.edge.clear()
            self.edge |= {event.id for event in page.events if event.created_at == oldest}
            self.second = oldest
        newest = newest_of(fresh, self._horizon)
        self.totals += PullResult((), len(fresh), newest, page.invalid, page.over_delivered)
        return bool(fresh)

    def done(self, *reasons: str) -> PullResult:
        """The outcome, with further reasons for being incomplete; empty texts do not count."""
        return self.totals + PullResult(tuple(filter(None, (*self.reasons, *reasons))))
