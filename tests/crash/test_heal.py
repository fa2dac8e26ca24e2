"""F-04 and P-01 together: SIGKILL at every step of the sync that finds a relay emptied and fills it again."""

from __future__ import annotations

import shutil

import pytest

from relays.faults import FaultyRelay
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore


KEY = "17" * 32
SIGNER = LocalSigner.from_hex(KEY)
DAY = 86_401  # after which everything is compared


@pytest.mark.parametrize("negentropy", [False, True], ids=["walked", "compared"])
async def test_f04_an_emptied_relay_is_healed_wherever_the_healing_was_killed(
    killer, folder, clock, negentropy
):
    """The relay is not taken for whole because a process that is dead by now has looked at it."""
    options = {"background": False, "clock": clock}
    async with (
        EmbeddedRelay(clock=clock) as full,
        FaultyRelay(full.url, negentropy=negentropy) as way,
        killer() as kill,
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
