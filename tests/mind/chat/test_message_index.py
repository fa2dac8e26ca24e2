"""The index of messages follows the log: what was removed is gone, and nothing is there twice."""

from __future__ import annotations

import asyncio

from sense_memory.mind.chat.message_index import MessageIndex
from sense_memory.mind.log import LogEntry
from tests.mind.test_log import opened


async def test_a_message_that_was_removed_from_the_log_is_in_no_conversation_any_more():
    async with opened() as store:
        chat = store.mind.conversation("c")
        said = [await chat.add("user", f"message number {number}") for number in range(3)]
        before = await chat.tokens()
        await store.mind.log.remove(said[1].id)
        assert await chat.messages() == await chat.in_context() == [said[0], said[2]]
        assert await chat.tokens() < before
        assert await store.mind.conversations() == {"c": 2}


class SlowLog:
    """A log that lets other tasks go first whenever it is asked."""

    def __init__(self, count):
        self.arrived = [
            LogEntry(f"{n:020x}", "message.user", "user", {"content": "x"}, n, None, "c")
            for n in range(count)
        ]

    async def changes(self, arrived, gone):
        await asyncio.sleep(0)
        return self.arrived[arrived:], []

    def known(self, entry_id):
        return entry_id


async def test_tasks_that_ask_at_once_find_each_message_once():
    index = MessageIndex(SlowLog(5))
    for found in await asyncio.gather(*(index.of("c") for _ in range(3))):
        assert [entry.at for entry in found.newest()] == [0, 1, 2, 3, 4]
