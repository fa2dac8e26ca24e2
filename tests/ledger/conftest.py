"""What the ledger's tests share: signed events with their places. Nothing here is encrypted: the ledger never looks."""

from __future__ import annotations

import hashlib

import pytest

from sense_memory.ledger import FiledEvent, Ledger, Role
from sense_memory.ledger.versions import slot_of
from sense_memory.nostr import address
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE, Unsigned
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.signer import LocalSigner


RELAY = "wss://relay.example/"


class Author:
    """Signs events as a store would file them. The same arguments give the same event."""

    def __init__(self, name: str) -> None:
        self.signer = LocalSigner(Secret(hashlib.sha256(f"sense-memory tests: {name}".encode()).digest()))
        self.public_key = self.signer.public_key
        self._signed = {}

    def signed(self, kind, at, tags, content=""):
        unsigned = Unsigned(at, kind, tuple(tags), content)
        if unsigned not in self._signed:
            try:
                self.signer.sign(unsigned).send(None)
            except StopIteration as stop:
                self._signed[unsigned] = stop.value
        return self._signed[unsigned]

    def memory(self, name="a", at=50, text="one"):
        tag = f"sense-memory/{name}"
        return FiledEvent(self.signed(KIND_APP_DATA, at, [("d", tag)], text), tag)

    def tombstone(self, name="a", at=50, text="grave"):
        tag = f"sense-memory/{name}"
        return FiledEvent(self.signed(KIND_APP_DATA, at, [("d", tag)], text), tag, Role.TOMBSTONE)

    def journal(self, at=50, text="dear diary"):
        event = self.signed(KIND_DIRECT_MESSAGE, at, [("p", self.public_key)], text)
        return FiledEvent(event, slot_of(event))

    def deletion(self, at=50, names=(), ids=()):
        tags = [("a", address.coordinate(self.public_key, f"sense-memory/{name}")) for name in names]
        tags += [("e", ident) for ident in ids]
        event = self.signed(KIND_DELETION, at, tags)
        return FiledEvent(event, slot_of(event), Role.DELETION)


@pytest.fixture(scope="session")
def me() -> Author:
    return Author("ledger owner")


@pytest.fixture(scope="session")
def stranger() -> Author:
    return Author("ledger stranger")


@pytest.fixture
def relay() -> str:
    return RELAY


@pytest.fixture
def ledger(me):
    opened = Ledger(":memory:", me.public_key)
    opened.relays.add([RELAY])
    yield opened
    opened.close()


@pytest.fixture
def take(ledger):
    """File events that a relay served, one by one; returns their fates."""

    def filed(*items, now=10_000.0):
        return [ledger.file_events([item], RELAY, now)[0] for item in items]

    return filed
