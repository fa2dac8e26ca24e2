"""F-04, D-12 and P-01 together: SIGKILL at every step of a sync that gives a relay again what it lost."""

from __future__ import annotations

import shutil

import pytest

from relays.faults import DeletesWhateverTheDate, FaultyRelay, Refuse
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


KEY = "17" * 32
SIGNER = LocalSigner.from_hex(KEY)
DAY = 86_401  # after which everything is compared


@pytest.mark.parametrize("negentropy", [False, True], ids=["walked", "compared"])
async def test_f04_an_emptied_relay_is_healed_wherever_the_healing_was_killed(
    kill, folder, clock, negentropy
):
    """The relay is not taken for whole because a process that is dead by now has looked at it."""
    options = {"background": False, "clock": clock}
    async with (
        EmbeddedRelay(clock=clock) as full,
        FaultyRelay(full.url, negentropy=negentropy) as way,
    ):
        async with MemoryStore(SIGNER, [way.url], ledger=folder / "synced.db", **options) as store:
            await store.remember("k", "v")
            await store.journal("dear")
            for _ in range(2):
                assert (await store.sync()).in_step
        clock.advance(DAY)

        async def emptied(step):
            ledger = shutil.copy(folder / "synced.db", folder / f"{step}.db")
            return {"key": KEY, "relays": [way.url], "ledger": str(ledger), "now": clock()}

        deaths = kill.at_every_step("heal", emptied)
        while True:
            async with EmbeddedRelay(clock=clock) as relay:
                way.upstream = relay.url
                death = await anext(deaths)
                ledger = folder / f"{death.step}.db"
                async with MemoryStore(SIGNER, [way.url], ledger=ledger, **options) as store:
                    await store.sync()  # what is gone is sent again, and is looked for by the next
                    assert (await store.sync()).in_step
                async with MemoryStore(SIGNER, [relay.url], ledger=":memory:", **options) as fresh:
                    assert (await fresh.sync()).in_step
                    assert [memory.value for memory in await fresh.recall_all()] == ["v"], death
                    assert [entry.content for entry in await fresh.recent()] == ["dear"], death
            if not death.at:
                return


async def test_d12_what_a_late_deletion_removes_is_sent_again_wherever_that_was_killed(kill, folder, clock):
    """The relay deletes whatever the date: it is not taken to hold what was written anew before it got the request."""
    busy = Refuse("error: busy", lambda event: event["kind"] == 5)
    async with (
        EmbeddedRelay(clock=clock) as honest,
        FaultyRelay(honest.url, busy, DeletesWhateverTheDate(keeps=True)) as liar,
    ):
        options = {"background": False, "clock": clock}

        async def written_anew(step):
            """Each run is another agent's, so that none meets what an earlier one left."""
            busy.on, key, ledger = True, f"{step:064x}", folder / f"{step}.db"
            async with MemoryStore(LocalSigner.from_hex(key), [liar.url], ledger=ledger, **options) as store:
                for value in ("old", "anew"):
                    await store.remember("k", value)
                    await store.sync()
                    clock.advance(60)
                    if value == "old":
                        await store.forget("k")
            clock.advance(3_601)
            busy.on = False
            return {"key": key, "relays": [liar.url], "ledger": str(ledger), "now": clock()}

        async for death in kill.at_every_step("heal", written_anew):
            signer, ledger = LocalSigner.from_hex(f"{death.step:064x}"), folder / f"{death.step}.db"
            async with MemoryStore(signer, [liar.url], ledger=ledger, **options) as store:
                assert (await store.sync()).in_step, death
            async with MemoryStore(signer, [liar.url], ledger=":memory:", **options) as fresh:
                assert (await fresh.sync()).in_step
                assert [memory.value for memory in await fresh.recall_all()] == ["anew"], death
