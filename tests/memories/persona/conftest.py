"""Stores of one agent on several devices, and a relay between them."""

from __future__ import annotations

import json

import pytest

from sense_memory import EmbeddedRelay, MemoryStore
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from tests.inside import ledger_of, parts_of


DAY = 86_400


@pytest.fixture
def open_store(signer, clock):
    """A store of the agent on a ledger in memory, not opened yet; each is a device of its own."""

    def make(_="a", relays=(), **options):
        options = {"ledger": ":memory:", "clock": clock, "background": False, **options}
        return MemoryStore(signer, relays, **options)

    return make


@pytest.fixture
def open_on_disk(open_store, tmp_path):
    """The same on a file, for what is opened again; each name is a device with a ledger of its own."""
    return lambda name="a", relays=(), **options: open_store(
        name, relays, **{"ledger": tmp_path / f"{name}.db", **options}
    )


@pytest.fixture
def devices(open_store, clock):
    """Two devices of the agent on one relay: `async with devices() as (one, other, …)`."""
    return lambda count=2: _Devices(open_store, clock, count)


@pytest.fixture
def devices_on_disk(open_on_disk, clock):
    """The same, with the ledgers `device 0.db`, `device 1.db`, …"""
    return _Devices(open_on_disk, clock, 2)


class _Devices:
    def __init__(self, open_store, clock, count) -> None:
        self._open_store, self._clock, self._count = open_store, clock, count

    async def __aenter__(self):
        self._relay = EmbeddedRelay(clock=self._clock)
        await self._relay.__aenter__()
        self._stores = [self._open_store(f"device {n}", [self._relay.url]) for n in range(self._count)]
        for store in self._stores:
            await store.__aenter__()
        return self._stores

    async def __aexit__(self, *error):
        for store in self._stores:
            await store.__aexit__(*error)
        await self._relay.__aexit__(*error)


@pytest.fixture
def written_elsewhere(signer):
    """An event as another program of this key writes it, filed in a store: fields are taken as they come."""

    async def write(store, fields, at, tag=None):
        fields = {"type": "sense-memory:persona", **fields}
        content = await signer.encrypt(json.dumps(fields).encode(), signer.public_key)
        tag = tag or "sense-memory/persona/{domain}/{facet}/{key}".format(**fields)
        event = await signer.sign(Unsigned(int(at), KIND_APP_DATA, (("d", tag),), content))
        return await parts_of(store).reader.file_served([event], "wss://relay.example/")

    return write


@pytest.fixture
def written_fields():
    """The fields of the newest event of a memory, as it was written; None where there is no memory."""

    async def read(store, path):
        head = ledger_of(store).head(f"sense-memory/persona/{path}")
        return (
            None if head is None or head.role else (await parts_of(store).reader.readable_record(head)).fields
        )

    return read
