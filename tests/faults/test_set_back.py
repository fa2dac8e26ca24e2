"""A relay that was restored from a backup holds yesterday's world: the next sync repairs it, and it is not called a liar."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from relays.faults import FaultyRelay, Record
from sense_memory.ledger.relays import LedgerReason, Remark, reason_sentence, remark_sentence
from sense_memory.limits import HEAL_SECONDS


COUNT, EDITED, FORGOTTEN = 45, 30, 5
WAITS = reason_sentence(LedgerReason.BEHIND), reason_sentence(LedgerReason.LOST)


class Restored:
    """A relay that can be set back to a backup, and what the device `k.db` sent to it."""

    def __init__(self, stage, relay, backup, record) -> None:
        self.stage, self.relay, self.backup, self.record = stage, relay, backup, record
        self.url = relay.url

    def set_back(self):
        """From now on the relay is what the backup is."""
        self.relay.upstream = self.backup

    async def sync(self, **how):
        """A sync of a process of its own, and how many events it sent."""
        before = len(self.record.published)
        async with self.stage.store(self.relay, ledger="k.db") as store:
            (line,) = (await self.stage.sync(store, **how)).relays
            assert remark_sentence(Remark.UNDELETED) not in store.status().relays[0].remarks
        assert not line.serves_deleted
        return line, len(self.record.published) - before


@asynccontextmanager
async def restored(stage, *, compares, after):
    """A relay with 45 memories, 30 of which were edited since the backup and 5 forgotten, `after` seconds ago."""
    record = Record()
    async with (
        stage.relay() as upstream,
        stage.relay() as backup,
        FaultyRelay(upstream.url, record, negentropy=compares) as relay,
    ):
        async with stage.store(relay, ledger="k.db") as store:
            await store.remember_many({f"key {number}": stage.plaintext for number in range(COUNT)})
            await stage.sync(store)
            stage.clock.advance(60)
            await stage.sync(store)
        await stage.put(backup.url, *await stage.stored(upstream.url))
        async with stage.store(relay, ledger="k.db") as store:
            stage.clock.advance(43_200)
            await store.remember_many({f"key {number}": f"{stage.plaintext} new" for number in range(EDITED)})
            await store.forget_many([f"key {number}" for number in range(EDITED, EDITED + FORGOTTEN)])
            await stage.sync(store)
            stage.clock.advance(60)
            assert (await stage.sync(store)).in_step
        stage.clock.advance(after)
        yield Restored(stage, relay, backup.url, record)


@pytest.mark.parametrize("after", [600, 2 * HEAL_SECONDS], ids=["minutes", "hours"])
@pytest.mark.parametrize("compares", [True, False], ids=["compares", "shows"])
async def test_r25_relay_set_back(stage, compares, after):
    """The next sync sends what the backup lacks, however lately it was sent before; new devices get today's texts."""
    async with restored(stage, compares=compares, after=after) as relay:
        relay.set_back()

        line, sent = await relay.sync()

        assert line.waiting == 0
        assert line.pulled.missing >= EDITED
        assert sent >= EDITED
        stage.clock.advance(60)
        line, sent = await relay.sync()
        assert line.in_step
        assert sent == 0
        async with stage.store(relay) as fresh:
            await stage.sync(fresh)
            texts = {memory.key: memory.value for memory in await fresh.recall_all()}
            assert len(texts) == COUNT - FORGOTTEN
            assert sum(text.endswith("new") for text in texts.values()) == EDITED


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("compares", [True, False], ids=["compares", "shows"])
async def test_r25_a_relay_that_is_set_back_again_and_again_is_slowed(stage, compares, full):
    """Once an hour is enough for a relay that keeps losing what it takes; what waits is said."""
    async with restored(stage, compares=compares, after=600) as relay, stage.relay() as again:
        await stage.put(again.url, *await stage.stored(relay.backup))
        relay.set_back()
        _, first = await relay.sync()
        assert first >= EDITED
        stage.clock.advance(60)
        assert (await relay.sync())[0].in_step
        stage.clock.advance(60)

        relay.backup = again.url
        relay.set_back()
        for _ in range(3):
            line, _ = await relay.sync(full=full)
            assert line.waiting >= EDITED
            assert sum(line.reasons.get(sentence, 0) for sentence in WAITS) == line.waiting
            assert not line.in_step
        stage.clock.advance(HEAL_SECONDS)
        await relay.sync()
        stage.clock.advance(60)
        line, _ = await relay.sync()
        assert line.in_step
