"""Forgetting everything: here, at every relay, after a kill, and with relays that do not keep their word (row D-09)."""

from __future__ import annotations

import pytest

from relays.faults import FaultyRelay, ForgetAfterAck, Information, Record
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.nostr import address
from sense_memory.nostr.event import RawEvent
from sense_memory.relay.sync.leftovers import RelayFarewell
from tests.inside import ledger_of
from tests.local_relays import PATIENT


@pytest.fixture(params=["readable", "private"])
def mine(tmp_path, clock, request):
    signer = LocalSigner.generate()
    options = {"background": False, "timeouts": PATIENT, "clock": clock, "addresses": request.param}

    def open_store(*relays, ledger="ledger.db"):
        return MemoryStore(signer, relays, ledger=tmp_path / ledger, **options)

    return open_store


async def fill(store, count=5):
    await store.remember_many({f"k{number}": f"zanzibar {number}" for number in range(count)})
    await store.remember("k0", "zanzibar again")
    await store.persona_remember("people", "facts", "lisa", "likes zanzibar")
    await store.journal("saw zanzibar")
    await store.mind.blocks.create("persona", "zanzibar")
    await store.mind.log.append("note", {"text": "zanzibar"}, actor="user")


def requests(store):
    found = [RawEvent.loads(body) for body in ledger_of(store).bodies()]
    return [event for event in found if event.kind == 5]


async def test_d09_everything_is_gone_here_and_at_every_relay_and_each_says_so(mine, clock, tmp_path):
    async with EmbeddedRelay(clock=clock) as one, EmbeddedRelay(clock=clock) as two:
        async with mine(one.url, two.url) as store:
            await fill(store)
            await store.sync()
            ciphertexts = [RawEvent.loads(body).content for body in ledger_of(store).bodies()]
            clock.advance(5)
            found = await store.forget_everything()
            assert (found.left_here, found.is_confirmed) == (0, True)
            assert [(relay.left, relay.waiting) for relay in found.relays] == [(0, 0), (0, 0)]
            assert store.status().counts["heads"] == 0
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert not [content for content in ciphertexts if content[:60].encode() in files]
        async with mine(one.url, two.url, ledger="other.db") as other:  # a device of nothing
            await other.sync()
            assert await other.recall_all() == []
            assert await other.recent() == []


async def test_d09_a_request_names_at_most_a_hundred(mine, clock):
    async with mine() as store:
        await store.remember_many({f"k{number}": "x" for number in range(250)})
        await store.journal.write_many([f"entry {number}" for number in range(130)])
        clock.advance(5)
        await store.forget_everything()
        named = [len(event.tag_values("a")) or len(event.tag_values("e")) for event in requests(store)]
        assert max(named) == 100
        assert sum(named) >= 380
        assert len(named) == 5


@pytest.mark.parametrize("batches", [0, 1, 2])
async def test_d09_what_was_interrupted_is_finished_by_another_call(mine, clock, batches):
    class Killed(Exception):
        pass

    def kill(count):
        if count >= 100 * batches:
            raise Killed

    async with EmbeddedRelay(clock=clock) as relay:
        async with mine(relay.url) as store:
            await store.remember_many({f"k{number}": "x" for number in range(250)})
            await store.sync()
            clock.advance(5)
            with pytest.raises(Killed):
                await store.forget_everything(progress=kill)
        async with mine(relay.url) as store:
            found = await store.forget_everything()
            assert found.is_confirmed
            assert store.count_everything() == 0


async def test_what_only_a_relay_has_is_forgotten_too(mine, clock):
    async with EmbeddedRelay(clock=clock) as relay:
        async with mine(relay.url) as store:
            await fill(store)
            await store.sync()
        clock.advance(5)
        async with mine(relay.url, ledger="fresh.db") as store:
            assert (await store.forget_everything()).is_confirmed
        async with mine(relay.url) as store:
            await store.sync()
            assert await store.recall_all() == []


async def test_a_relay_that_serves_on_is_named_with_how_much_it_still_shows(mine, clock):
    forgets = ForgetAfterAck()
    forgets.on = False
    async with (
        EmbeddedRelay(clock=clock) as honest,
        FaultyRelay(honest.url, forgets) as liar,
        mine(liar.url) as store,
    ):
        await store.remember_many({f"k{number}": "x" for number in range(4)})
        await store.sync()
        count = store.count_everything()
        clock.advance(5)
        forgets.on = True
        found = await store.forget_everything()
        assert not found.is_confirmed
        assert found.relays[0].left == count >= 4  # one more with private addresses: their key
        assert found.relays[0].problem == ""
        assert store.status().counts["heads"] == 0


async def test_a_relay_that_cannot_be_reached_is_never_called_empty(mine, clock):
    async with EmbeddedRelay(clock=clock) as relay, mine(relay.url, "ws://127.0.0.1:1") as store:
        await fill(store)
        await store.sync()
        clock.advance(5)
        found = await store.forget_everything()
    gone = {each.url: each for each in found.relays}["ws://127.0.0.1:1"]
    assert gone.left is None
    assert gone.problem
    assert gone.waiting > 0
    assert not found.is_confirmed


@pytest.mark.parametrize("supports", [True, False])
async def test_a_relay_is_asked_that_everything_vanish_only_on_request_and_if_it_says_that_it_does_so(
    mine, clock, supports
):
    information, asked = Information({"supported_nips": [1, 62] if supports else [1]}), Record()
    async with (
        EmbeddedRelay(clock=clock) as honest,
        FaultyRelay(honest.url, information, asked) as relay,
        mine(relay.url) as store,
    ):
        await fill(store)
        await store.sync()
        clock.advance(5)
        quiet = await store.forget_everything()
        assert quiet.relays[0].vanish == "not asked"
        found = await store.forget_everything(vanish=True)
        assert found.relays[0].vanish == ("accepted" if supports else "not supported")
    sent = [event for _, event in asked.said("EVENT") if event["kind"] == 62]
    assert [event["tags"] for event in sent] == [[["relay", relay.url]]] * supports


async def test_a_memory_in_the_middle_of_a_switch_is_deleted_at_both_addresses(tmp_path, clock):
    signer = LocalSigner.generate()
    options = {"background": False, "timeouts": PATIENT, "clock": clock}
    async with EmbeddedRelay(clock=clock) as relay:
        unreached = "ws://127.0.0.1:1"  # so old addresses stay
        urls = [relay.url, unreached]
        async with MemoryStore(signer, urls, ledger=tmp_path / "ledger.db", **options) as store:
            await store.remember_many({f"k{number}": "x" for number in range(120)})
            await store.sync()
            clock.advance(5)
            left = await store.relays.switch_addresses("private")
            assert left.to_remove >= 120
            shown = await everything_at(relay.url, signer, clock)
            assert {address.is_private(event.d_tag) for event in shown if event.kind == 30078} == {
                True,
                False,
            }
            clock.advance(5)
            found = await store.forget_everything()
            assert {each.url: each.left for each in found.relays} == {relay.url: 0, unreached: None}
            assert found.left_here == 0
            named = [len(event.tag_values("a")) for event in requests(store)]
            assert max(named) <= 100


async def everything_at(url, signer, clock):
    found = await RelayFarewell(url, signer, clock, PATIENT).contents()
    assert not found.problem
    return found.events
