"""Bunkers and stores that sign through them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from sense_memory import EmbeddedRelay, MemoryStore
from sense_memory.nostr.remote_signing import BunkerUrl
from sense_memory.signers.remote_signer import RemoteSigner
from tests.local_relays import PATIENT
from tests.signers.bunkers import Bunker


class Bench:
    """A relay, the bunkers at it, and the signers of this machine."""

    def __init__(self, clock, folder):
        self.relay, self.folder, self.clock = "", folder, clock

    @asynccontextmanager
    async def at_relay(self):
        async with EmbeddedRelay(clock=self.clock) as relay:
            self.relay = relay.url
            yield relay

    @asynccontextmanager
    async def signer(self, kind=Bunker, **options):
        """A relay, a bunker there, and a signer that is connected with it."""
        async with self.at_relay(), kind(self.relay, self.clock).running() as bunker:
            signer = await self.connected(bunker, **options)
            yield bunker, signer
            await signer.disconnect()

    async def connected(self, bunker, **options):
        return await RemoteSigner.connected(BunkerUrl.parse(bunker.url), **self._options(options))

    def again(self, signer, **options):
        """The same client in another process."""
        return RemoteSigner(signer.account, **self._options(options))

    def store(self, signer, relays=(), **options):
        options = {"ledger": self.folder / "ledger.db", "background": False, "timeouts": PATIENT, **options}
        return MemoryStore(signer, relays, clock=self.clock, **options)

    def _options(self, options):
        return {"timeouts": PATIENT, "now": self.clock, **options}


@pytest.fixture
def bench(clock, tmp_path):
    return Bench(clock, tmp_path)
