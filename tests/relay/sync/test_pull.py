"""Pages are filed while the next ones are on their way, and a walk is over when all of them are filed."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory.nostr.filters import Filter
from sense_memory.relay.client.page import EventPage
from sense_memory.relay.sync.pull import walk_and_file
from tests.time_unit import SECOND


class Relay:
    """Serves one event a page, newest first; says when it was asked."""

    def __init__(self, *events) -> None:
        self.events = events
        self.asked = [asyncio.Event() for _ in range(len(events) + 2)]
        self._requests = iter(self.asked)

    async def fetch(self, filters):
        next(self._requests).set()
        (wanted,) = filters
        found = [event for event in self.events if wanted.matches(event)]
        return EventPage(
            tuple(sorted(found, key=lambda event: -event.created_at)[: wanted.limit]), complete=True
        )


@pytest.fixture
def relay(make_event):
    return Relay(make_event(2), make_event(1))


async def test_the_next_page_is_asked_for_before_the_last_one_is_filed(relay):
    taken = []

    async def take(events):
        await relay.asked[len(taken) + 1].wait()
        taken.extend(events)

    async with asyncio.timeout(5 * SECOND):
        found = await walk_and_file(relay.fetch, take, Filter(), page_size=2)

    assert (taken, found.received, found.complete) == ([*relay.events], 2, True)


async def test_a_walk_is_over_only_when_its_last_page_is_filed(relay):
    taken, may_go_on = [], asyncio.Event()

    async def take(events):
        await may_go_on.wait()
        taken.extend(events)

    walk = asyncio.create_task(walk_and_file(relay.fetch, take, Filter(), page_size=500))
    async with asyncio.timeout(5 * SECOND):
        await relay.asked[2].wait()
        assert not walk.done()
        may_go_on.set()
        await walk

    assert taken == [*relay.events]


async def test_what_can_not_be_filed_ends_the_walk_with_its_error(relay):
    async def take(events):
        raise OSError("disk full")

    async with asyncio.timeout(5 * SECOND):
        with pytest.raises(OSError, match="disk full"):
            await walk_and_file(relay.fetch, take, Filter(), page_size=500)


async def test_a_cancelled_walk_leaves_no_page_behind_that_is_still_being_filed(relay):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def take(events):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    walk = asyncio.create_task(walk_and_file(relay.fetch, take, Filter(), page_size=500))
    async with asyncio.timeout(5 * SECOND):
        await begun.wait()
        walk.cancel()
        with pytest.raises(asyncio.CancelledError):
            await walk

    assert ended.is_set()
