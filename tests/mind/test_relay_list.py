"""A bare key finds its relays: the list in the agent's own memory, and nobody is dialled unasked."""

from __future__ import annotations

import json

import pytest
from websockets.asyncio.client import connect

from relays.faults import FaultyRelay, Record
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.mind.relay_list import PATH, RelayList


@pytest.fixture
def open_store(clock):
    signer = LocalSigner.generate()

    def opened(*urls, ledger=":memory:"):
        options = {"background": False, "clock": clock, "close_timeout": 0}
        return MemoryStore(signer, urls, ledger=ledger, **options)

    opened.signer = signer
    return opened


@pytest.fixture
def elsewhere(monkeypatch):
    """The relays of the test are on other machines."""
    monkeypatch.setattr("sense_memory.mind.relay_list.is_local", lambda _: False)


@pytest.mark.usefixtures("elsewhere")
async def test_a_new_machine_that_was_told_one_relay_learns_the_others_and_dials_none(open_store, clock):
    record = Record()
    async with (
        EmbeddedRelay(clock=clock) as one,
        EmbeddedRelay(clock=clock) as behind,
        FaultyRelay(behind.url, record) as other,
    ):
        async with open_store(one.url, other.url) as store:
            await store.remember("k", "v")
            assert (await store.sync()).found == ()
        frames = len(record.frames)
        async with open_store(one.url) as fresh:
            report = await fresh.sync()
            assert report.found == (other.url,)
            assert await fresh.relays.found() == [other.url]
            assert len(record.frames) == frames  # it was not dialled
        async with open_store(one.url, other.url) as store:
            assert (await store.sync()).found == ()


@pytest.mark.usefixtures("elsewhere")
async def test_a_relay_that_was_removed_is_offered_no_more_until_a_device_uses_it_again(
    open_store, clock, tmp_path
):
    async with EmbeddedRelay(clock=clock) as one, EmbeddedRelay(clock=clock) as other:
        async with open_store(one.url, other.url, ledger=tmp_path / "a.db") as store:
            await store.sync()
        clock.advance(60)
        async with open_store(one.url, ledger=tmp_path / "a.db") as store:
            assert await store.relays.unlist(other.url)
            assert not await store.relays.unlist(other.url)
            assert (await store.sync()).found == ()
        async with open_store(one.url) as fresh:
            assert (await fresh.sync()).found == ()
        async with open_store(one.url, other.url) as device:
            await device.sync()
        async with open_store(one.url) as fresh:
            assert (await fresh.sync()).found == (other.url,)


async def test_relays_of_this_machine_are_not_listed(open_store, clock):
    async with EmbeddedRelay(clock=clock) as relay, open_store(relay.url) as store:
        await store.remember("k", "v")
        await store.sync()
        assert store.status().counts["mind"] == 0


async def test_what_a_list_names_is_checked_as_any_relay_url(open_store, clock):
    """Another program, or a stolen key, may have written it."""
    hostile = {
        "wss://relay.example": {"at": 1},
        "wss://RELAY.example:443/": {"at": 2},
        "ws://relay.example": {"at": 1},
        "wss://user:password@relay.example": {"at": 1},
        "wss://127.0.0.1": {"at": 1},
        "ws://localhost:7447": {"at": 1},
        "file:///etc/passwd": {"at": 1},
        "wss://relay.example/\x1b[2J": {"at": 1},
        "wss://gone.example": {"at": 1, "gone": True},
        "wss://odd.example": 7,
        **{f"wss://many{number}.example": {"at": 1} for number in range(200)},
    }
    async with open_store() as store:
        records = store.mind.records
        await records.write({PATH: {"relays": hostile, "note": "of a newer version"}})
        found = await store.relays.found()
        assert found[0] == "wss://relay.example"
        assert len(found) <= 50
        assert all(url == "wss://relay.example" or url.startswith("wss://many") for url in found)
        assert await RelayList(records).add(["wss://new.example"], clock())
        assert (await records.read(PATH)).fields["note"] == "of a newer version"
        assert not await RelayList(records).add(["wss://new.example"], clock())  # once is enough
        assert await store.relays.unlist("wss://new.example")
    for odd in (None, 7, [], {"wss://a.example": None}):
        async with open_store() as store:
            await store.mind.records.write({PATH: {"relays": odd}})
            assert await store.relays.found() == []


async def test_the_public_list_is_published_on_request_only(open_store, clock, monkeypatch):
    async with EmbeddedRelay(clock=clock) as relay, open_store(relay.url, "ws://127.0.0.1:9") as store:
        await store.remember("k", "v")
        await store.sync()
        assert await published(relay.url, open_store.signer) == []
        monkeypatch.setattr("sense_memory.relay.sync.announcement.is_local", lambda url: url.endswith(":9"))
        answers = await store.relays.publish()
        assert answers[relay.url] == ""
        assert answers["ws://127.0.0.1:9"]
        (event,) = await published(relay.url, open_store.signer)
        assert event["tags"] == [["r", relay.url]]


async def published(url, signer):
    async with connect(url) as socket:
        await socket.send(json.dumps(["REQ", "q", {"authors": [signer.public_key], "kinds": [10_002]}]))
        found = []
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            found += frame[2:] if frame[0] == "EVENT" else []
        return found
