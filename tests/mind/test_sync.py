"""The order of a sync: the log first, then relays; and a store without a mind makes none."""

from __future__ import annotations

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.mind.sync import flush, sync
from tests.inside import ledger_of, parts_of


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
