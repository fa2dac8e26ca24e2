"""When entries travel: no entry is left behind, whatever a flush does while it arrives."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory.errors import LedgerError
from sense_memory.limits import LOG_PAGE_BYTES, LOG_QUIET_SECONDS, LOG_WAIT_SECONDS
from sense_memory.mind.flusher import Flusher


pytestmark = pytest.mark.virtual_time


class Pages:
    """A log whose flush takes a while, and writes what had been appended when it began."""

    def __init__(self, seconds=1.0, *failures):
        self.flusher = Flusher(self.flush, is_on=True)
        self.seconds, self.failures = seconds, list(failures)
        self.waiting, self.written = [], {}

    def append(self, name, size=10):
        self.waiting.append(name)
        self.flusher.appended(size)

    async def flush(self):
        taken, self.waiting = self.waiting, []
        await asyncio.sleep(self.seconds)
        if self.failures:
            self.waiting = taken + self.waiting
            raise self.failures.pop()
        self.written |= dict.fromkeys(taken, asyncio.get_running_loop().time())
        return 1


async def test_an_entry_that_arrives_during_a_flush_travels_with_the_next():
    pages, now = Pages(), asyncio.get_running_loop().time
    pages.append("first")
    await asyncio.sleep(LOG_QUIET_SECONDS + 0.5)  # the flush has begun
    pages.append("during")
    appended = now()
    await asyncio.sleep(2 * LOG_WAIT_SECONDS)
    assert pages.written.keys() == {"first", "during"}
    assert pages.written["during"] - appended <= LOG_QUIET_SECONDS + pages.seconds


async def test_no_entry_waits_longer_than_it_may_while_others_keep_arriving():
    pages, now = Pages(), asyncio.get_running_loop().time
    appended = {}
    for number in range(60):
        pages.append(number)
        appended[number] = now()
        await asyncio.sleep(LOG_QUIET_SECONDS / 5)
    await asyncio.sleep(LOG_WAIT_SECONDS)
    assert pages.written.keys() == appended.keys()
    assert max(pages.written[name] - at for name, at in appended.items()) <= LOG_WAIT_SECONDS + pages.seconds


async def test_a_full_page_does_not_wait_for_quiet():
    pages = Pages()
    pages.append("long", LOG_PAGE_BYTES)
    await asyncio.sleep(pages.seconds + 0.1)
    assert pages.written.keys() == {"long"}


async def test_after_a_flush_that_failed_the_next_append_tries_again():
    pages = Pages(1.0, LedgerError("the disk is full"))
    pages.append("first")
    await asyncio.sleep(2 * LOG_WAIT_SECONDS)
    assert pages.written == {}
    pages.append("second")
    await asyncio.sleep(LOG_WAIT_SECONDS)
    assert pages.written.keys() == {"first", "second"}


async def test_a_flush_that_ended_by_a_bug_does_not_keep_a_store_from_closing():
    pages = Pages(1.0, RuntimeError("a bug"))
    pages.append("first")
    await asyncio.sleep(LOG_WAIT_SECONDS)
    await pages.flusher.stop()
    assert await pages.flusher.flush() == 1
    assert pages.written.keys() == {"first"}


async def test_whoever_is_cancelled_while_it_stops_a_flusher_ends():
    pages = Pages()
    pages.append("first")
    stopping = asyncio.create_task(pages.flusher.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
