"""What the relay client's tests share: two keys, and signed events."""

from __future__ import annotations

import pytest

from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.nostr.signer import LocalSigner


@pytest.fixture(scope="session")
def signer() -> LocalSigner:
    return LocalSigner.from_hex("17" * 32)


@pytest.fixture(scope="session")
def stranger() -> LocalSigner:
    return LocalSigner.from_hex("18" * 32)


@pytest.fixture(scope="session")
def sign():
    """Sign with a LocalSigner outside of a loop: its coroutines never wait."""

    def run(signer, unsigned):
        try:
            signer.sign(unsigned).send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("the signer waited for something")

    return run


@pytest.fixture(scope="session")
def make_event(signer, sign):
    """An event of ours at `sense-memory/{number}`, dated by its number, unless told otherwise."""

    def make(number=0, content="sealed", *, kind=KIND_APP_DATA, at=None, by=signer):
        created_at = 1_800_000_000 + number if at is None else at
        return sign(by, Unsigned(created_at, kind, (("d", f"sense-memory/{number}"),), content))

    return make
