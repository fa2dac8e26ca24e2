"""The order of a sync: the log first, then relays; and a store without a mind makes none."""

from __future__ import annotations

import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.mind.sync import flush, sync
from tests.inside import ledger_of, parts_of


ME = LocalSigner.from_hex("4" * 64)


def opened(relay, clock):
    return MemoryStore(ME, [relay.url], ledger=":memory:", background=False, clock=clock)


async def test_a_store_that_has_nothing_of_a_mind_makes_none():
    def mind():
        pytest.fail("a mind was made")

    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        await store.remember("k", "v")

        assert (await sync(parts_of(store), mind)).relays == ()
        assert (await flush(parts_of(store), mind)).relays == ()


@pytest.mark.parametrize("step", [sync, flush])
async def test_what_is_in_no_page_yet_is_signed_first(step):
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        await store.mind.log.append("note", {"text": "hello"}, actor="me")
        assert ledger_of(store).log_rows

        await step(parts_of(store), lambda: store.mind)

        assert not ledger_of(store).log_rows


async def test_the_report_of_a_sync_that_asks_relays_twice_tells_of_both_times(clock):
    """A page that two devices changed is written again after the pull, and then relays are asked once more."""
    async with EmbeddedRelay(clock=clock) as relay, opened(relay, clock) as one, opened(relay, clock) as two:
        gone = await one.mind.log.append("agent.spoke", {"text": "gone"}, actor="me")
        await one.mind.log.append("agent.spoke", {"text": "kept"}, actor="me")
        await one.sync()
        await two.sync()
        clock.advance(10)
        await two.mind.log.remove(gone.id)
        await two.remember_many((f"key {number}", "value") for number in range(5))
        await two.sync()
        await one.mind.log.append("agent.spoke", {"text": "meanwhile"}, actor="me")
        clock.advance(10)
        (line,) = (await one.sync()).relays
        assert line.in_step
        assert line.served["new"] >= 5
        assert [entry.text for entry in await one.mind.log.entries()] == ["kept", "meanwhile"]
