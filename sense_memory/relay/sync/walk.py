"""The walk over a relay's events from the newest to the oldest, page by page with `until`. No I/O, no clock.

What is guaranteed: a walk without `reasons` has received every event that the relay shows for the filter. A short page
does not end the walk; only an empty page below the oldest event does.

Why it is safe: in NIP-01 `until` includes the second that it names, but some relays exclude that second and would
skip the rest of a second that a page cut in two. So a page counts as the next page only if it repeats an event of the
second in which the page before ended. If no event is repeated, `until` is set one second later, which skips nothing under
either reading. If that page repeats no event either, the repeated events must be gone, for example because another
device replaced them. A relay that still has one of these events, or changes its reading of `until`, is reported as
incomplete.

If one second holds more events than a page, `until` cannot advance. The walk then asks for the known addresses one by
one, goes on below that second, and is reported as incomplete.

What it costs: one request for each page and one below the last; two more, once in a walk, if the relay excludes `until`.
Only the ids of the oldest second are kept.
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

# A page that is cut off before its EOSE proves nothing about the second in which it was cut. So a relay that hangs up
# after every message cannot be pulled: each answer begins with known events. Skipping the unseen second would fetch more
# events, but the pull would never be complete, and without a complete pull nothing is sent to the relay.
CROWDED: Final = "more events in one second than fit a page"
GAP: Final = "its pages skip events"
HIDDEN: Final = "hides journal entries (kind 4) from us"
_NOTHING: Final = EventPage((), complete=True)


@dataclass(frozen=True, slots=True)
class PullResult:
    """The result of a walk over one filter, or of a whole pull.

    Attributes:
        reasons: why the result is incomplete, in our words; empty if the relay has shown everything.
        received: how many distinct verified events the relay sent.
        newest: the latest created_at of these events, without events dated too far ahead; 0 without events.
        invalid: how many events were malformed or forged.
        over_delivered: how many events were not asked for.
        missing: how many events the relay had accepted and no longer has.
        refused: whether the relay refused a request for good, so that asking again is probably useless.
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
        """Whether the relay has shown everything, so that an event that was not received is not at the relay."""
        return not self.reasons

    @property
    def shows_all_but_hidden(self) -> bool:
        """Whether the relay has shown everything, apart from a journal that it hides; then it may be sent events."""
        return {HIDDEN}.issuperset(self.reasons)

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
    """How far back a walk has come, so that it can be resumed after the relay hung up.

    Attributes:
        second: the oldest second reached, or None before the first event; all newer events were shown.
        largest: the number of events in the largest page.
        edge: the id of an event of that second; empty if `second` is the `until` to continue with instead.
    """

    second: int | None = None
    largest: int = 0
    edge: str = ""

    def move(self, second: int, edge: Collection[str]) -> None:
        """Record that the walk reached a second; `edge` are the ids of this second's events."""
        self.second, self.edge = second, min(edge, default="")


async def walk_filter(
    fetch: Fetch,
    file_events: FileEvents,
    wanted: Filter,
    known_tags: Callable[[], Sequence[str]] = tuple,
    *,
    page_size: int = PAGE_COUNT,
    position: Position | None = None,
    horizon: float = inf,
) -> PullResult:
    """Walk over the events of a filter from the newest to the oldest, and pass each new event to `file_events` once.

    Args:
        fetch: sends one REQ and returns the page that answers it.
        file_events: files verified events, page by page.
        wanted: the filter; its `limit` is set here.
        known_tags: returns the d-tags to ask for one by one if a second holds more events than a page.
        page_size: the `limit` of each REQ.
        position: where to begin; updated during the walk.
        horizon: events dated later do not count for `PullResult.newest`, because they are quarantined.
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
            page = await pages.next_page(second, walk.edge)
            continue
        # Nothing new: this second is the last, or it fills a page. A request below the second shows which. Even if
        # nothing is below, the second may have more events if the page is as full as this relay's pages get.
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
            stuck = True  # cut off: the second may be crowded, so a resumed walk must fetch it again
        else:
            at.move(pages.until(max(crowd - 1, wanted.since or 0)), ())
    if await walk.file_new(page) and pages.joined and not stuck and _newest_first(page):
        at.move(walk.second, walk.edge)
    return replace(walk.done(*pages.reasons, page.reason), refused=page.outcome is RelayOutcome.REFUSED)


class _Pages:
    """Asks for the pages of a walk, and finds out how the relay reads `until`.

    Attributes:
        joined: whether no event can lie between the last page and the page before.
        reasons: why the relay may not have shown everything.
    """

    def __init__(self, fetch: Fetch, wanted: Filter, size: int) -> None:
        self._fetch, self._wanted, self._size = fetch, wanted, size
        self._offset: int | None = (
            None  # 1 if the relay excludes the second of `until`, 0 if it includes the second
        )
        self.joined = True
        self.reasons: list[str] = []

    async def first(self, at: Position) -> EventPage:
        """The newest events, or the next events of a resumed walk."""
        if at.second is not None and at.edge:
            return await self.next_page(at.second, {at.edge})
        return await self._ask(self._wanted.until if at.second is None else at.second)

    async def next_page(self, second: int, edge: Collection[str]) -> EventPage:
        """The page after the page that ended in `second`: the rest of that second, and older events.

        Args:
            second: the oldest second of the page before.
            edge: ids of that second's events in the page before.
        """
        tried: dict[int, EventPage] = {}
        usual = self._offset or 0
        for offset in (usual, 1 - usual):
            page = tried[offset] = await self._ask(second + offset, ceiling=second)
            self.joined = any(event.id in edge for event in page.events)
            if self.joined:
                self._learn(offset)
            if self.joined or not page.complete:
                return page
        self.joined = True
        there = await self._first_of(edge)
        if there.complete and not there.events:
            return tried[1]  # the edge is gone, and this page skips nothing under either reading of `until`
        self.reasons.append(there.reason or GAP)
        return tried[1] if there.complete else _NOTHING

    async def below(self, second: int) -> EventPage:
        """The newest events older than a second."""
        return await self._ask(self.until(second - 1), ceiling=second - 1)

    def until(self, second: int) -> int:
        """The `until` that includes this second in the relay's reading, as far as it is known."""
        return second + (self._offset or 0)

    async def _ask(self, until: int | None, *, ceiling: int | None = None) -> EventPage:
        page = await self._fetch([replace(self._wanted, until=until, limit=self._size)])
        kept = tuple(event for event in page.events if ceiling is None or event.created_at <= ceiling)
        if self._offset and len(kept) < len(page.events):
            self._learn(0)
        return replace(page, events=kept)

    def _learn(self, offset: int) -> None:
        if self._offset not in (None, offset):
            self.reasons.append(
                GAP
            )  # the relay changed its reading of `until`, so a page may have skipped events
        self._offset = offset

    async def _first_of(self, ids: Collection[str]) -> EventPage:
        """The first page that has any of these events, or is incomplete; otherwise the last, empty page."""
        page = _NOTHING
        for batch in _batches(tuple(ids)):
            page = await self._fetch(
                [replace(self._wanted, ids=batch, since=None, until=None, limit=len(batch))]
            )
            if page.events or not page.complete:
                break
        return page


def _newest_first(page: EventPage) -> bool:
    """Whether a page is in the order of NIP-01. Only then a page that was cut off lacks no event newer than its last."""
    return all(newer.created_at >= older.created_at for newer, older in pairwise(page.events))


def newest_of(events: Iterable[Event], horizon: float) -> int:
    """The latest created_at that does not exceed a horizon, or 0."""
    return max((event.created_at for event in events if event.created_at <= horizon), default=0)


async def by_address(
    fetch: Fetch, file_events: FileEvents, wanted: Filter, tags: Sequence[str]
) -> PullResult:
    """Fetch the current events of some addresses.

    Each address has a filter of its own, because relays disagree about a filter with several d-tags.
    """
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
    """Batches of `ADDRESS_BATCH_COUNT` items, which fit a request to any relay."""
    for start in range(0, len(items), ADDRESS_BATCH_COUNT):
        yield tuple(items[start : start + ADDRESS_BATCH_COUNT])


class _Walk:
    """The state of a walk. Only the ids of the oldest second are kept, because pages overlap nowhere else.

    Attributes:
        second: the oldest second seen, or -1.
        edge: ids of the events of that second that were seen.
        totals: the totals of all pages so far.
        reasons: why the walk is incomplete.
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
        """The result of the walk, with further reasons why it is incomplete; empty texts do not count."""
        return self.totals + PullResult(tuple(filter(None, (*self.reasons, *reasons))))
