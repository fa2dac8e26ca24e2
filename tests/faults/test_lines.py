"""R rows: connections that are cut, that nobody reads, or that lead elsewhere; and how often one dials."""

from __future__ import annotations

import pytest

from relays.faults import CloseEvery, Record


@pytest.mark.parametrize("n", [2, 3, 5, 20, 200])
async def test_r14_disconnect_every_n_messages(stage, n):
    """Each store is a process of its own: it goes on where the one before was cut off."""
    theirs = [await stage.event(f"theirs{number}", at=-2 * number) for number in range(30)]
    async with stage.liar(CloseEvery(n)) as liar, stage.relay() as honest:
        await stage.put(liar.upstream, *theirs)
        async with stage.store(honest, ledger="k.db") as store:
            for number in range(30):
                stage.clock.advance(1)
                await store.remember(f"ours{number}", stage.plaintext)
            await store.journal(stage.plaintext)
        rounds, in_step = 0, False
        while not in_step:
            async with stage.store(liar, honest, ledger="k.db") as store:
                in_step = (await stage.sync(store)).in_step
                memories = {memory.event_id for memory in await store.recall_all()}
                journal = {entry.event_id for entry in await store.recent()}
            rounds += 1
            assert rounds <= 4
        assert len(liar.upgrades) <= rounds * 41

        assert len(memories) == 60
        assert memories > {event["id"] for event in theirs}
        for url in (liar.upstream, honest.url):
            stored = [event["id"] for event in await stage.stored(url)]
            assert len(stored) == len(set(stored)) == 61
            assert memories | journal == set(stored)


@pytest.mark.parametrize("n", [1, 2, 7])
async def test_r14_a_second_that_can_not_be_walked_past_holds_up_no_sending(stage, n):
    """Thirty events of one second, and a relay that hangs up before it has sent them: incomplete, said so."""
    record = Record()
    async with stage.liar(record, CloseEvery(n)) as liar:
        async with stage.store(liar, ledger="k.db") as store:
            await stage.sync(store)
            assert store.status().relays[0].last_complete is not None
        await stage.put(liar.upstream, *[await stage.event(f"theirs{number}") for number in range(30)])
        async with stage.store(liar, ledger="k.db") as store:
            ident = await store.remember("ours", stage.plaintext)
            (line,) = (await stage.sync(store)).relays
            assert not line.complete
            assert line.waiting == 0
            assert store.holders(ident) == {liar.url: "acked"}
    assert len(liar.upgrades) < 20
