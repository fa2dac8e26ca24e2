"""A key of each test's own, and stores of it."""

from __future__ import annotations

import pytest

from sense_memory import LocalSigner, MemoryStore


@pytest.fixture
def signer():
    return LocalSigner.generate()


@pytest.fixture
def store(signer, clock):
    """A store of the key on a ledger in memory, or elsewhere."""

    def store(*relays, **options):
        options = {"ledger": ":memory:", "clock": clock, "background": False, **options}
        return MemoryStore(options.pop("by", signer), relays, **options)

    return store
