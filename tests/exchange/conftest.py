"""Stores in memory on the fake clock, and one call that reads, plans and carries out."""

from __future__ import annotations

from collections import Counter

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.exchange import carry_out, plan_import, read


@pytest.fixture
def open_store(clock):
    """A new, empty store of a new agent: `async with open_store() as store`."""

    def make(**options):
        options = {"ledger": ":memory:", "clock": clock, "background": False, "snapshot": False} | options
        return MemoryStore(LocalSigner.generate(), **options)

    return make


@pytest.fixture
def bring():
    """Import a path; returns the plan, after it was carried out without a problem."""

    async def bring(store, path, format_="", **options):
        made = await plan_import(store, read(path, format_), **options)
        done = await carry_out(store, made)
        assert done.problems == []
        assert sum(done.written.values()) == len(made.to_write)
        return made

    return bring


@pytest.fixture
def fates():
    """How many items of a plan have each fate."""
    return lambda made: dict(Counter(step.fate.value for step in made.steps))
