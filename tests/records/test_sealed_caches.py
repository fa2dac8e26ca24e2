"""What is sealed beside the events: no index holds what was forgotten, and rows of older versions are read."""

from __future__ import annotations

import os

import numpy as np
import orjson
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from sense_memory import MemoryStore
from sense_memory.nostr.signer import LocalSigner
from sense_memory.records import sealed_caches
from sense_memory.records.sealed_caches import (
    CachedIndex,
    MemoryVectors,
    VectorCache,
    VectorSource,
    made_of,
    with_header,
    without_header,
)
from tests.inside import ledger_of


@pytest.fixture
def signer():
    return LocalSigner.generate()


# ── Indexes ─────────────────────────────────────────────────────────────────────────────


class Saved:
    """A reader without a saved index."""

    def __init__(self):
        self.extras = {}

    async def saved_extra(self, name, made_of):
        return None


class Words(CachedIndex):
    """An index that is always up to date."""

    def __len__(self):
        return 1

    async def catch_up(self):
        pass

    def dumped(self):
        return [b"one"]


@pytest.mark.parametrize("place", [":memory:", "k.db"])
async def test_an_index_that_may_hold_a_forgotten_word_is_not_saved(signer, tmp_path, place):
    path = place if place == ":memory:" else tmp_path / place
    async with MemoryStore(signer, ledger=path) as store:
        await store.remember("a", "one")
        index, later = (Words("words", "made", ledger_of(store), Saved()) for _ in range(2))
        await index.saved()
        await store.remember("b", "two")
        assert await index.dump() == [b"one"]

        await store.forget("a")

        assert await index.dump() is None
        await later.saved()  # built after the forgetting
        assert await later.dump() == [b"one"]


@pytest.mark.parametrize(("place", "has_era"), [(":memory:", False), ("k.db", True)])
async def test_an_era_begins_once_and_ends_when_something_is_forgotten(signer, tmp_path, place, has_era):
    path = place if place == ":memory:" else tmp_path / place
    async with MemoryStore(signer, ledger=path) as store:
        await store.remember("a", "one")
        snapshot = ledger_of(store).snapshot
        assert snapshot.era() == ""
        first = snapshot.begin_era()
        assert bool(first) is has_era
        assert snapshot.era() == snapshot.begin_era() == first

        await store.forget("a")

        assert snapshot.era() == ""
        assert (snapshot.begin_era() != first) is has_era


@given(st.dictionaries(st.text(), st.integers(0, 9)), st.lists(st.binary(max_size=20)))
def test_the_header_of_an_index_comes_back_and_the_index_begins_at_a_whole_word(known, index):
    saved = memoryview(b"".join(with_header(known, index)))

    found, body = without_header(saved)

    assert (found, bytes(body)) == (known, b"".join(index))
    assert (len(saved) - len(body)) % 8 == 0


@pytest.mark.parametrize("saved", [b"", b"short", bytes(8), (4).to_bytes(8, "big") + b"text"])
def test_what_has_no_header_is_no_index(saved):
    with pytest.raises(ValueError):
        without_header(memoryview(saved))


def test_what_an_index_is_made_of_tells_versions_and_parts_apart(monkeypatch):
    made = made_of("words", 7)
    assert made == made_of("words", 7) != made_of("words", 8)
    monkeypatch.setattr(sealed_caches, "__version__", "another")
    assert made_of("words", 7) != made


# ── Vectors ─────────────────────────────────────────────────────────────────────────────


class Table:
    """What `Vectors` keeps, in memory."""

    def __init__(self, key=None):
        self.key, self.rows = key, {}

    def save_key(self, sealed):
        self.key = self.key or sealed
        return self.key

    def clear(self):
        self.key, self.rows = None, {}

    def of(self, model, slots):
        return [(slot, self.rows[model, slot]) for slot in slots if (model, slot) in self.rows]

    def save(self, model, rows):
        self.rows |= {(model, slot): body for slot, body in rows}

    async def write(self, change, *args):
        return change(*args)


async def test_vectors_that_an_older_version_sealed_are_found(signer):
    key, nonce = ChaCha20Poly1305.generate_key(), os.urandom(12)
    fields = {"type": "sense-memory:vectors-key", "key": key.hex()}
    table = Table(await signer.encrypt(orjson.dumps(fields), signer.public_key))
    body = (
        b"now".ljust(16, b"\0")
        + (2).to_bytes(2, "little")
        + (1).to_bytes(4, "little")
        + np.float16([1, 0]).tobytes()
    )
    table.rows["m", "s"] = nonce + ChaCha20Poly1305(key).encrypt(nonce, body, b"m\0s")

    found = await VectorCache(signer, table, "m").find({"s": "now"})

    assert (found["s"].stamp, found["s"].rows.tolist()) == ("now", [[1.0, 0.0]])


@pytest.mark.parametrize("text", [b"[]", b"{}", b"no JSON", b'{"type":"sense-memory:log-key","key":"00"}'])
async def test_vectors_under_a_key_that_is_for_something_else_are_made_anew(signer, text):
    table = Table(await signer.encrypt(text, signer.public_key))
    table.rows["m", "old"] = b"lost"
    cache = VectorCache(signer, table, "m")

    await cache.store({"s": MemoryVectors("now", np.float32([[1, 0]]))})

    assert table.rows.keys() == {("m", "s")}
    assert (await VectorCache(signer, table, "m").find({"s": "now"}))["s"].rows.shape == (1, 2)


def test_the_vectors_of_a_memory_have_an_address_of_their_own_on_relays():
    assert VectorSource("persona/a/b/c", "s", "now").embedding == "sense-memory/embed/persona/a/b/c"


@pytest.mark.parametrize("wrong", ["stamp", "model", "slot", "row"])
async def test_vectors_are_found_for_the_state_the_model_and_the_slot_that_they_were_made_of(signer, wrong):
    table = Table()
    assert await VectorCache(signer, table, "m").find({"s": "now"}) == {}
    rows = np.float32([[1, 0, 0], [0, 1, 0]])
    await VectorCache(signer, table, "m").store({"s": MemoryVectors("now", rows)})
    found = (await VectorCache(signer, table, "m").find({"s": "now", "never seen": "now"}))["s"]
    assert (found.stamp, found.rows.tolist()) == ("now", rows.tolist())

    sealed = table.rows["m", "s"]
    model, slot, stamp = "m", "s", "now"
    match wrong:
        case "stamp":
            stamp = "later"
        case "model":  # a row that was moved
            model = "n"
            table.rows["n", "s"] = sealed
        case "slot":
            slot = "t"
            table.rows["m", "t"] = sealed
        case "row":
            table.rows["m", "s"] = sealed[:-1]
    assert await VectorCache(signer, table, model).find({slot: stamp}) == {}
