"""Pulling a relay: pages by `until`, and complete told apart from incomplete. No I/O, no clock.

A short page is never the end of the world: paging goes on until a page brings nothing new. Where one
second holds more than a page, time can not advance: the known addresses are then asked for one by one,
the walk goes on below that second, and the pull is reported incomplete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from sense_memory.limits import ADDRESS_BATCH_COUNT, PAGE_COUNT


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.session import Page

    Fetch: TypeAlias = Callable[[Sequence[Filter]], Awaitable[Page]]
    Take: TypeAlias = Callable[[Sequence[Event]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a walk over one filter brought.

    Attributes:
        reasons: why it is not complete, in our words; empty when the relay has shown everything.
        received: distinct verified events.
        newest: the latest created_at among them, or 0.
        invalid: events the relay sent that were malformed or forged.
        over_delivered: events that nobody asked for.
    """

    reasons: tuple[str, ...] = ()
    received: int = 0
    newest: int = 0
    invalid: int = 0
    over_delivered: int = 0

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
        )


async def pull(
    fetch: Fetch,
    take: Take,
    wanted: Filter,
    known_tags: Callable[[], Sequence[str]] = tuple,
    *,
    page_size: int = PAGE_COUNT,
) -> Pulled:
    """Walk a filter from its newest event to its oldest, handing each new event to `take` once.

    Args:
        fetch: one REQ, answered by one page.
        take: where verified events go, page by page.
        wanted: the filter; its `limit` is set here.
        known_tags: the d-tags to ask for by name where a second holds more than a page.
        page_size: the `limit` of each REQ.
    """
    walk = _Walk(take)
    until = wanted.until
    largest = 0
    crowded: int | None = None
    while True:
        page = await fetch([replace(wanted, until=until, limit=page_size)])
        fresh = await walk.take(page)
        if not page.complete:
            return walk.done(page.reason)
        if crowded is not None and page.events:
            await _by_address(fetch, walk, replace(wanted, since=crowded, until=crowded), known_tags())
            walk.reasons.append("more events in one second than a page holds")
        crowded = None
        if fresh:
            until = min(event.created_at for event in page.events)
        elif not page.events or len(page.events) < largest or until is None:
            return walk.done()
        else:
            # Either this is the end, or the second fills a page: one step down shows which.
            crowded = until = min(event.created_at for event in page.events)
            until -= 1
            if until < 0:
                return walk.done()
        largest = max(largest, len(page.events))


async def by_address(fetch: Fetch, take: Take, wanted: Filter, tags: Sequence[str]) -> Pulled:
    """Fetch the current events of some addresses: one filter each, because relays disagree about several."""
    walk = _Walk(take)
    await _by_address(fetch, walk, wanted, tags)
    return walk.done()


async def _by_address(fetch: Fetch, walk: _Walk, wanted: Filter, tags: Sequence[str]) -> None:
    for start in range(0, len(tags), ADDRESS_BATCH_COUNT):
        batch = tags[start : start + ADDRESS_BATCH_COUNT]
        page = await fetch([replace(wanted, tags={"d": (tag,)}, limit=1) for tag in batch])
        await walk.take(page)
        if not page.complete:
            walk.reasons.append(page.reason)


class _Walk:
    """What a walk has seen so far. Ids are kept for the oldest second only: pages overlap nowhere else."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._edge: set[str] = set()
        self._totals = Pulled()
        self.reasons: list[str] = []

    async def take(self, page: Page) -> bool:
        """Hand over what is new in a page; whether there was any."""
        fresh = [event for event in page.events if event.id not in self._edge]
        if fresh:
            await self._take(fresh)
            oldest = min(event.created_at for event in page.events)
            self._edge = {event.id for event in page.events if event.created_at == oldest} | {
                ident for ident in self._edge if oldest == self._edge_second
            }
            self._edge_second = oldest
        newest = max((event.created_at for event in fresh), default=0)
        self._totals += Pulled((), len(fresh), newest, page.invalid, page.over_delivered)
        return bool(fresh)

    _edge_second: int = -1

    def done(self, *reasons: str) -> Pulled:
        """The outcome, with further reasons for being incomplete."""
        return self._totals + Pulled((*self.reasons, *reasons))
