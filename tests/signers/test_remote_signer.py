"""A memory whose key is in a bunker: what it costs, what this machine holds, and how it gets there."""

from __future__ import annotations

import asyncio
import json
import pickle
import stat

import pytest

from sense_memory import EmbeddedRelay, LocalSigner
from sense_memory.errors import BadKey, BadPayload, SignerError, UnsafeFile
from sense_memory.limits import BUNKER_REQUESTS_COUNT
from sense_memory.signers.bunker_file import read_account
from sense_memory.signers.remote_signer import RemoteSigner
from tests.signers.bunkers import Bunker


pytestmark = pytest.mark.virtual_time
SESSION = 2  # round trips that a process needs once: whose key it is, and where the bunker listens


async def test_a_write_costs_three_round_trips_and_many_writes_are_under_way_at_once(bench):
    class Counts(Bunker):
        now = most = 0

        async def nip44_encrypt(self, reader, text):
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(1)
            self.now -= 1
            return await super().nip44_encrypt(reader, text)

    async with bench.signer(Counts) as (bunker, signer), bench.store(signer) as store:
        before = signer.round_trips
        await store.remember("tea", "green")
        assert signer.round_trips - before == 3  # sealed, opened again to be sure, signed
        before = signer.round_trips
        await store.remember_many({f"k{number}": "x" for number in range(40)})
        assert signer.round_trips - before == 3 * 40
        assert bunker.most == BUNKER_REQUESTS_COUNT


async def test_a_cold_start_opens_a_thousand_memories_with_one_decryption(bench):
    async with bench.signer() as (bunker, signer):
        async with bench.store(signer) as store:
            await store.remember_many({f"k{number}": f"value {number}" for number in range(1_000)})
        bunker.asked.clear()
        cold = bench.again(signer)
        async with bench.store(cold) as store:
            assert len(await store.recall_all()) == 1_000
            assert cold.round_trips == SESSION + 1
            assert bunker.asked.count("nip44_decrypt") == 1


async def test_private_addresses_cost_a_bunker_one_decryption_for_each_process_and_no_more(bench):
    """The bunker seals their key; a process opens it once, and a device that restores opens each event once."""
    options = {"addresses": "private", "background": False}
    async with bench.signer() as (bunker, signer):
        urls = [bench.relay]
        async with bench.store(signer, urls, **options) as store:
            await store.remember_many({f"k{number}": "x" for number in range(60)})
            await store.sync()
            before = signer.round_trips
            await store.remember("tea", "green")
            assert signer.round_trips - before == 3
            await store.sync()
        cold = bench.again(signer)
        async with bench.store(cold, urls, **options) as store:
            assert len(await store.recall_all()) == 61
            assert cold.round_trips == SESSION + 1
            await store.remember("tea", "black")
            assert cold.round_trips <= SESSION + 1 + 1 + 3
        bunker.asked.clear()
        other = bench.again(signer)
        async with bench.store(other, urls, ledger=bench.folder / "other.db", **options) as store:
            await store.sync()
            assert len(await store.recall_all()) == 61
            assert (
                bunker.asked.count("nip44_decrypt") <= 62 + 1
            )  # the memories, the key, and the key as it is used


async def test_one_new_memory_is_in_the_snapshot_of_the_next_start(bench):
    async with bench.signer() as (_, signer):
        for number in range(5):
            async with bench.store(bench.again(signer)) as store:
                await store.remember(f"k{number}", "value")
        cold = bench.again(signer)
        async with bench.store(cold) as store:
            assert len(await store.recall_all()) == 5
            assert cold.round_trips == SESSION + 1


async def test_everything_that_a_store_does_works_without_the_key_on_this_machine(bench):
    async with bench.signer() as (bunker, signer):
        async with bench.store(signer, [bench.relay], embedder="static") as store:
            await store.remember("tea", "green")
            await store.remember("tea", "black")
            await store.persona_remember("people", "facts", "lisa", "likes tea")
            await store.journal("saw Lisa")
            await store.mind.log.append("note", {"text": "hello"}, actor="user")
            await store.embed()
            await store.forget("tea")
            await store.sync()
            assert [memory.value for memory in await store.recall_all()] == []
            assert store.integrity() == []
            assert all(holding.missing_there == 0 for holding in await store.relays.holdings())
        async with bench.store(bunker.user, [bench.relay], ledger=bench.folder / "other.db") as other:
            await other.sync()
            assert (await other.recall("people/facts/lisa")).value == "likes tea"
            assert [entry.content for entry in await other.recent()] == ["saw Lisa"]


async def test_neither_the_ledger_nor_the_file_of_the_bunker_has_the_key(bench):
    async with bench.signer() as (bunker, signer):
        account = signer.account.saved(bench.folder / "keys" / "default.bunker")
        async with bench.store(signer) as store:
            await store.remember("tea", "green")
    secret = bunker.user.export_nsec()
    for path in bench.folder.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
            assert bunker.user._secret.reveal() not in path.read_bytes()
    assert stat.S_IMODE(account.path.stat().st_mode) == 0o600
    assert bunker.secret not in account.path.read_text()


def test_the_file_of_a_bunker_is_read_with_the_care_of_a_key_file(tmp_path):
    path = tmp_path / "default.bunker"
    path.write_text("{}")
    path.chmod(0o644)
    with pytest.raises(UnsafeFile, match="chmod 600"):
        read_account(path)
    path.chmod(0o600)
    for text in (
        "{}",
        "[]",
        "nsec1",
        json.dumps({"type": "sense-memory:bunker", "relays": ["wss://a.example"]}),
    ):
        path.write_text(text)
        with pytest.raises(BadKey, match="not the file of a bunker"):
            read_account(path)


async def test_a_client_follows_the_bunker_to_other_relays_and_remembers_them(bench):
    class Moves(Bunker):
        async def nip44_encrypt(self, reader, text):
            raise AssertionError("asked at the old relay")

        async def switch_relays(self):
            return [self.second, "http://nonsense.example", 7]

    async with EmbeddedRelay(clock=bench.clock) as second, bench.at_relay():
        old, new = Moves(bench.relay, bench.clock), Bunker(second.url, bench.clock)
        old.second, new.key, new.user, new.clients = second.url, old.key, old.user, old.clients
        async with old.running(), new.running():
            signer = await bench.connected(old)
            await signer.disconnect()
        assert signer.account.relays == (second.url,)
        account = signer.account.saved(bench.folder / "a.bunker")
        account.moved((bench.relay,))
        async with old.running(), new.running():
            signer = RemoteSigner(read_account(account.path), now=bench.clock)
            await signer.ping()
            await signer.disconnect()
        assert read_account(account.path).relays == (second.url,)


async def test_a_bunker_is_reached_over_any_of_its_relays(bench):
    async with bench.signer() as (_, first):
        account = first.account
        dead = "ws://127.0.0.1:1"
        half = RemoteSigner(account.moved((dead, *account.relays)), now=bench.clock)
        await half.ping()
        await half.disconnect()
        lost = RemoteSigner(account.moved((dead,)), now=bench.clock)
        with pytest.raises(SignerError, match=r"none of its relays can be used.*127.0.0.1:1"):
            await lost.ping()


async def test_a_request_survives_the_end_of_its_connection(bench):
    async with bench.signer() as (_, signer):
        await signer.ping()
        relay = next(iter(signer._line._open.values()))
        await relay.close()
        await signer.ping()


async def test_a_payload_for_another_key_is_a_bad_payload_and_not_a_refusal(bench):
    stranger = LocalSigner.generate()
    payload = await stranger.encrypt(b"x", stranger.public_key)
    async with bench.signer() as (_, signer):
        with pytest.raises(BadPayload):
            await signer.decrypt(payload, signer.public_key)
        with pytest.raises(BadPayload):
            await signer.decrypt("not base64", signer.public_key)
        before = signer.round_trips
        with pytest.raises(BadPayload):
            await signer.decrypt(f"{payload}?iv=x", signer.public_key)
        assert signer.round_trips == before


async def test_neither_repr_nor_pickle_shows_a_key(bench):
    async with bench.signer() as (_, signer):
        shown = repr(signer) + repr(signer.account) + str(vars(signer))
        assert "nsec1" not in shown
        with pytest.raises(TypeError):
            pickle.dumps(signer)
