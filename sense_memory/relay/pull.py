"""Pulling a relay: pages by `until`, and complete told apart from incomplete. No I/O, no clock.

A short page is never the end of the world: paging goes on until there is nothing below. Where one second
holds more than a page, time can not advance: the known addresses are then asked for one by one, the walk
goes on below that second, and the pull is reported incomplete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from sense_memory.limits import ADDRESS_BATCH_COUNT, PAGE_COUNT
from sense_memory.relay.page import Page


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter

    Fetch: TypeAlias = Callable[[Sequence[Filter]], Awaitable[Page]]
    Take: TypeAlias = Callable[[Sequence[Event]], Awaitable[None]]

# A page that is cut off before its EOSE says nothing of the second in which it was cut. So a relay that hangs up after
# each single message can not be pulled: every answer begins with what is known, and stepping past a second unseen
# would bring more events, but never a complete pull, and without one nothing is sent there.
CROWDED: Final = "more events in one second than a page holds"
_NOTHING: Final = Page((), complete=True)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a walk over one filter brought.

    Attributes:
        reasons: why it is not complete, in our words; empty when the relay has shown everything.
        received: distinct verified events.
        newest: the latest created_at among them that is not too far ahead to count, or 0.
        invalid: events the relay sent that were malformed or forged.
        over_delivered: events that nobody asked for.
        missing: events that the relay had accepted and does not have any more.
    """

    reasons: tuple[str, ...] = ()
    received: int = 0
    newest: int = 0
    invalid: int = 0
    over_delivered: int = 0
    missing: int = 0

    @property
    def complete(self) -> bool:
        """Whether what was not received does not exist at this relay."""
        return not self.reasons

    def __add__(self, other: Pulled) -> Pulled:
        return Pulled(
            tuple(dict.fromkeys(self.reasons + other.reasons)),
            self.received + other.received,
            max(self.newest, other.newest),
            self.invalid + other.invalid,
            self.over_delivered + other.over_delivered,
            self.missing + other.missing,
        )


@dataclass(slots=True)
class Position:
    """How far down a walk came, so that it can go on after the relay hung up.

    Attributes:
        second: the oldest that was reached, or None before the first event; younger events are through.
        largest: events of the largest page.
    """

    second: int | None = None
    largest: int = 0


async def pull(
    fetch: Fetch,
    take: Take,
    wanted: Filter,
    known_tags: Callable[[], Sequence[str]] = tuple,
    *,
    page_size: int = PAGE_COUNT,
    position: Position | None = None,
    horizon: float = inf,
) -> Pulled:
    """Walk a filter from its newest event to its oldest, handing each new event to `take` once.

    Args:
        fetch: one REQ, answered by one page.
        take: where verified events go, page by page.
        wanted: the filter; its `limit` is set here.
        known_tags: the d-tags to ask for by name where a second holds more than a page.
        page_size: the `limit` of each REQ.
        position: where to begin; moved along.
        horizon: later events do not count for `Pulled.newest`: they are quarantined.
    """
    walk, at = _Walk(take, horizon), position or Position()
    known, until = at.largest, wanted.until if at.second is None else at.second
    stuck = False
    page = await fetch([replace(wanted, until=until, limit=page_size)])
    while page.complete and page.events:
        count = len(page.events)
        at.largest = max(at.largest, count)
        if await walk.take(page) and walk.second != until:
            at.second = until = walk.second
            page = await fetch([replace(wanted, until=until, limit=page_size)])
            continue
        # Nothing new: this second is the last, or it fills a page. One step down shows which; where nothing
        # lies below, it may still hide more if the page is as full as pages of this relay get.
        second, page = walk.second, _NOTHING
        crowded = count >= page_size or (count == at.largest and (known or count < walk.totals.received))
        if second > (wanted.since or 0):
            until = second - 1
            page = await fetch([replace(wanted, until=until, limit=page_size)])
        if page.complete and (page.events or crowded):
            walk.reasons.append(CROWDED)
            await _by_address(fetch, walk, replace(wanted, since=second, until=second), known_tags())
        elif page.events or crowded:
            stuck = True  # cut off: it may be crowded, and would have to be looked at again
        else:
            at.second = until
    if await walk.take(page) and not stuck and _newest_first(page):
        at.second = walk.second
    return walk.done(page.reason)


def _newest_first(page: Page) -> bool:
    """Whether a page came in the order of NIP-01: only then nothing is left out above where it was cut off."""
    return all(one.created_at >= other.created_at for one, other in pairwise(page.events))


def newest_of(events: Iterable[Event], horizon: float) -> int:
    """The latest created_at that is not beyond a horizon, or 0."""
    return max((event.created_at for event in events if event.created_at <= horizon), default=0)


async def by_address(fetch: Fetch, take: Take, wanted: Filter, tags: Sequence[str]) -> Pulled:
    """Fetch the current events of some addresses: one filter each, because relays disagree about several."""
    walk = _Walk(take)
    await _by_address(fetch, walk, wanted, tuple(dict.fromkeys(tags)))
    return walk.done()


async def _by_address(fetch: Fetch, walk: _Walk, wanted: Filter, tags: Sequence[str]) -> None:
    for start in range(0, len(tags), ADDRESS_BATCH_COUNT):
        batch = tags[start : start + ADDRESS_BATCH_COUNT]
        page = await fetch([replace(wanted, tags={"d": (tag,)}, limit=1) for tag in batch])
        await walk.take(page)
        if not page.complete:
            walk.reasons.append(page.reason)


class _Walk:
    """What a walk has seen so far. Ids are kept for the oldest second only: pages overlap nowhere else.

    Attributes:
        second: the oldest second seen, or -1.
        totals: what was received so far.
        reasons: why the walk is not complete.
    """

    def __init__(self, take: Take, horizon: float = inf) -> None:
        self._take, self._horizon = take, horizon
        self._edge: set[str] = set()
        self.second = -1
        self.totals = Pulled()
        self.reasons: list[str] = []

    async def take(self, page: Page) -> bool:
        """Hand over what is new in a page; whether there was any."""
        fresh = [event for event in page.events if event.id not in self._edge]
        if fresh:
            await self._take(fresh)
            oldest = min(event.created_at for event in page.events)
            if oldest != self.second:
                self._edge.clear()
            self._edge |= {event.id for event in page.events if event.created_at == oldest}
            self.second = oldest
        newest = newest_of(fresh, self._horizon)
        self.totals += Pulled((), len(fresh), newest, page.invalid, page.over_delivered)
        return bool(fresh)

    def done(self, *reasons: str) -> Pulled:
        """The outcome, with further reasons for being incomplete; empty ones are none."""
        return self.totals + Pulled(tuple(filter(None, (*self.reasons, *reasons))))
