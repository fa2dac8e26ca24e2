"""What is removed: memories, many at once or with a wrong clock, entries of the journal, and relays."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect

from sense_memory import EmbeddedRelay, InvalidInput, LedgerError, NotSynced
from sense_memory.errors import ClockSkewError, InvalidRelayUrl
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, Unsigned
from tests.inside import database_of, ledger_of, parts_of, sleep_with


@pytest.fixture
def relay(clock):
    """Opens a relay on the test's clock."""

    @asynccontextmanager
    async def relay():
        async with EmbeddedRelay(clock=clock) as running:
            yield running

    return relay


@pytest.fixture
def dead():
    """The URL of a relay that is not running."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"ws://127.0.0.1:{probe.getsockname()[1]}"


async def contents(store):
    return [entry.content for entry in await store.recent(100)]


def events(store):
    return [json.loads(body) for body in ledger_of(store).bodies()]


# ── Many memories ───────────────────────────────────────────────────────────────────────


class Moody:
    """A signer that fails from a certain signature on."""

    def __init__(self, inner, good):
        self._inner, self._good = inner, good
        self.public_key, self.encrypt, self.decrypt = inner.public_key, inner.encrypt, inner.decrypt

    async def sign(self, unsigned):
        self._good -= 1
        if self._good < 0:
            raise OSError("gone")
        return await self._inner.sign(unsigned)


async def test_many_memories_are_forgotten_with_few_requests(store, relay, clock):
    async with relay() as served, store(served.url) as one, store(served.url) as two:
        await one.remember_many((f"key {number}", "v") for number in range(100))
        for number in range(40):
            await one.persona_remember("d", "f", f"key {number}", "v")
        await one.sync()
        await two.sync()
        clock.advance(5)
        told = []
        ids = await one.forget_many((f"key {number}" for number in range(99)), progress=told.append)
        paths = await one.persona_forget_many([f"d/f/key {number}" for number in range(40)])
        await one.sync()
        await two.sync()

        assert (len(ids), len(set(ids)), told) == (99, 4, [32, 64, 96, 99])
        assert (len(paths), len(set(paths))) == (40, 2)
        for device in (one, two):
            assert [memory.key for memory in await device.recall_all()] == ["key 99"]
            assert await device.persona_recall(include_forgotten=True) == []
        kinds = [event["kind"] for event in await held(served.url)]
        assert sorted(kinds) == [KIND_DELETION] * 6 + [KIND_APP_DATA]


async def test_of_many_each_batch_is_forgotten_whole_or_not_at_all(store, signer):
    async with store(by=Moody(signer, 50 + 32 + 1 + 10)) as here:
        await here.remember_many((f"key {number}", "v") for number in range(50))
        with pytest.raises(OSError, match="gone"):
            await here.forget_many(f"key {number}" for number in range(50))

        assert len(await here.recall_all()) == 50 - 32
        assert here.integrity() == []


class Opener:
    """A signer that counts what it opens, as one that a person carries along would be asked."""

    def __init__(self, inner):
        self._inner, self.opened = inner, 0
        self.public_key, self.encrypt, self.sign = inner.public_key, inner.encrypt, inner.sign

    async def decrypt(self, payload, author):
        self.opened += 1
        return await self._inner.decrypt(payload, author)


async def test_forgetting_opens_each_version_once(store, signer, clock):
    counted = Opener(signer)
    async with store(by=counted) as here:
        for number in range(10):
            await here.remember("key", f"value {number}")
            clock.advance(1)
        before = counted.opened
        await here.forget("key")

        checks = 2  # of what is sealed: a tombstone and a request
        assert counted.opened - before <= 9 + checks  # the newest version is open already


@pytest.mark.parametrize("names", ["key", None, ["key", ""], ["key", "a/b"], ["key", "un\x00known"]])
async def test_of_many_one_that_is_no_name_keeps_all_of_them(store, names):
    async with store() as here:
        await here.remember("key", "v")
        with pytest.raises(InvalidInput):
            await here.forget_many(names)
        with pytest.raises(InvalidInput):
            await here.persona_forget_many(names)
        assert await here.recall("key") is not None
        assert await here.forget_many([]) == await here.persona_forget_many([]) == []


async def test_a_long_key_of_the_published_package_is_deleted_at_both_its_addresses(
    store, signer, relay, clock
):
    """It spells long paths out, we hash them: without both, its text would stay readable there."""
    key = "k" * 200
    inside = json.dumps({"type": "sense-memory:kv", "key": key, "value": "old", "ts": 1}).encode()
    content = await signer.encrypt(inside, signer.public_key)
    theirs = await signer.sign(
        Unsigned(int(clock()), KIND_APP_DATA, (("d", f"sense-memory/{key}"),), content)
    )
    async with relay() as served, store(served.url) as here:
        await publish(served.url, theirs)
        await here.sync()
        assert (await here.recall(key)).value == "old"
        clock.advance(1)
        await here.remember(key, "new")
        await here.sync()
        assert len(await held(served.url)) == 2
        clock.advance(1)
        ident = await here.forget(key)
        await here.sync()

        assert [event["id"] for event in await held(served.url)] == [ident]
        async with store(served.url) as fresh:
            await fresh.sync()
            assert await fresh.recall(key) is None


# ── A wrong clock ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("behind", [3_600, 86_400, 1_799_999_000], ids=["an hour", "a day", "since 1970"])
async def test_forgetting_needs_no_right_clock(store, relay, behind):
    """Gone here at once, on relays and on devices whose clock is right; and it does not come back from any."""
    here_clock, there_clock = Moving(1_800_000_000.0), Moving(1_800_000_000.0)
    async with (
        relay() as served,
        store(served.url, clock=here_clock) as here,
        store(served.url, clock=there_clock) as there,
    ):
        await here.remember("key", "first")
        await here.sync()
        here_clock.now += 10
        await here.remember("key", "secret")
        await here.persona_remember("d", "f", "key", "secret")
        entry = await here.journal("secret")
        await here.sync()
        there_clock.now += 60
        await there.sync()
        here_clock.now -= behind
        await here.forget("key")
        await here.persona_forget("d", "f", "key")
        await here.journal.forget(entry)

        for _ in range(2):
            await here.sync(full=True)
            await there.sync(full=True)
        async with store(served.url, clock=there_clock) as fresh:
            await fresh.sync()
            for device in (here, there, fresh):
                assert await device.recall_all() == []
                assert await device.persona_recall(include_forgotten=True) == []
                assert await contents(device) == []
        assert {event["kind"] for event in await held(served.url)} == {KIND_DELETION}
        there_clock.now += 60
        await there.remember("key", "again")
        await there.sync()
        await here.sync()
        assert (await there.recall("key")).value == "again"


async def test_what_was_dated_ahead_by_a_wrong_clock_is_forgotten_with_the_right_one(store, relay):
    """The other device, whose clock was right, has an older text only: that goes too, and what it says later counts."""
    here_clock, there_clock = Moving(1_800_000_000.0), Moving(1_800_000_000.0)
    async with (
        relay() as served,
        store(served.url, clock=here_clock) as here,
        store(served.url, clock=there_clock) as there,
    ):
        await there.remember("key", "older")
        await there.sync()
        await here.sync()
        here_clock.now += 86_400
        await here.remember("key", "dated ahead")
        here_clock.now -= 86_340
        await here.forget("key")
        await here.sync()
        there_clock.now += 60
        await there.sync()
        assert await here.recall("key") is None
        assert await there.recall("key") is None
        there_clock.now += 2
        await there.remember("key", "said later")
        await there.sync()
        there_clock.now += 100_000
        await there.sync(full=True)
        assert (await there.recall("key")).value == "said later"


class Moving:
    """A clock of one device."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


async def publish(url, *events):
    async with connect(url, compression=None) as socket:
        for event in events:
            await socket.send(f'["EVENT",{event.body().decode()}]')
            while (frame := json.loads(await socket.recv()))[0] != "OK":
                pass
            assert frame[2] is True


async def held(url):
    """What a relay serves."""
    async with connect(url, compression=None) as socket:
        await socket.send('["REQ","all",{}]')
        found = []
        while (frame := json.loads(await socket.recv()))[0] != "EOSE":
            if frame[0] == "EVENT":
                found.append(frame[2])
        return found


# ── Journal entries ─────────────────────────────────────────────────────────────────────


async def test_an_entry_is_purged_here_and_its_deletion_requested(store):
    async with store() as one:
        ids = [await one.journal(text) for text in ("first", "second", "third")]

        request = await one.journal.forget(ids[1])

        assert await contents(one) == ["third", "first"]
        assert ids[1] not in {event["id"] for event in events(one)}
        (deletion,) = [event for event in events(one) if event["kind"] == KIND_DELETION]
        assert deletion["id"] == request
        assert deletion["tags"] == [["e", ids[1]], ["k", "4"]]
        assert one.integrity() == []


async def test_a_removed_entry_is_gone_from_the_file(store, tmp_path):
    async with store(ledger=tmp_path / "a.db") as one:
        ident = await one.journal("secret")
        (entry,) = events(one)
        await one.journal.forget(ident)

        held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert entry["content"].encode() not in held
        assert bytes.fromhex(ident) not in held


async def test_an_entry_is_removed_from_relays_and_other_devices(store, relay):
    async with relay() as server, store(server.url) as here, store(server.url) as there:
        ident = await here.journal("secret")
        await here.journal("kept")
        await here.sync()
        await there.sync()
        assert await contents(there) == ["kept", "secret"]

        await here.journal.forget(ident)
        await here.sync()
        await there.sync()

        assert await contents(there) == ["kept"]
        async with store(server.url) as new:
            await new.sync()
            assert await contents(new) == ["kept"]


async def test_a_removed_entry_does_not_come_back_from_a_relay_that_missed_it(store, relay, tmp_path):
    ledger = tmp_path / "a.db"
    async with relay() as first, relay() as second:
        async with store(first.url, second.url, ledger=ledger) as one:
            ident = await one.journal("secret")
            assert (await one.sync()).in_step
        async with store(first.url, ledger=ledger) as one:
            await one.journal.forget(ident)
            await one.sync()
        async with store(second.url, ledger=ledger) as one:
            await one.sync(full=True)
            assert await contents(one) == []
        async with store(second.url) as new:
            await new.sync()
            assert await new.recent() == []


async def test_the_deletion_goes_out_even_if_the_entry_never_did(store, relay, dead):
    """An answer may have got lost on the way, and another device may have sent the entry."""
    async with relay() as server, store(server.url) as one:
        ident = await one.journal("secret")
        request = await one.journal.forget(ident)
        (report,) = (await one.sync()).relays

        assert report.sent == {"accepted": 1}
        assert one.relays.holders(request) == {server.url: "confirmed"}  # the first is looked for at once


async def test_an_entry_that_arrives_after_its_deletion_is_not_taken(store, tmp_path):
    async with store() as one, store() as two:
        ident = await one.journal("secret")
        one.export(tmp_path / "entry.jsonl")
        await one.journal.forget(ident)
        one.export(tmp_path / "deletion.jsonl")
        await two.import_(tmp_path / "deletion.jsonl")

        assert (await two.import_(tmp_path / "entry.jsonl")).counts == {"deleted": 1}
        assert await two.recent() == []


async def test_an_entry_of_the_published_package_is_removed_by_its_address_too(store, signer, clock, relay):
    """0.3.1 keeps its journal as kind 30078 under `sense-journal/{ts}`."""
    async with relay() as server, store(server.url) as one:
        inside = {"type": "sense-memory:journal", "content": "theirs", "ts": clock.now}
        content = await signer.encrypt(json.dumps(inside).encode(), signer.public_key)
        tag = f"sense-journal/{clock.now}"
        ahead = int(clock.now) + 100  # a clock that runs ahead, or a burst
        event = await signer.sign(Unsigned(ahead, KIND_APP_DATA, (("d", tag),), content))
        await parts_of(one).reader.file_served([event], None)
        await one.sync()
        assert await contents(one) == ["theirs"]

        await one.journal.forget(event.id)
        await one.sync()

        assert await contents(one) == []
        (deletion,) = events(one)
        address = f"30078:{signer.public_key}:{tag}"
        assert deletion["tags"] == [["a", address], ["e", event.id], ["k", "30078"]]
        assert deletion["created_at"] >= event.created_at
        async with store(server.url) as new:
            await new.sync()
            assert await new.recent() == []


async def test_only_journal_entries_are_removed(store, signer):
    async with store() as one:
        memory = await one.remember("k", "v")
        await one.remember("forgotten", "v")
        request = await one.forget("forgotten")
        tomb = next(e["id"] for e in events(one) if e["tags"] == [["d", "sense-memory/forgotten"]])
        before = events(one)

        for ident in (memory, request, tomb, "0" * 64, "", "no id", memory.upper()):
            with pytest.raises(InvalidInput, match="no journal entry has this id; nothing was removed"):
                await one.journal.forget(ident)

        assert events(one) == before


async def test_an_entry_is_removed_once(store):
    async with store() as one:
        ident = await one.journal("secret")
        await one.journal.forget(ident)
        with pytest.raises(InvalidInput, match="no journal entry"):
            await one.journal.forget(ident)
        assert len(events(one)) == 1


async def test_an_unknown_entry_is_asked_for_before_it_is_called_unknown(store, relay, dead):
    async with relay() as server:
        async with store(server.url) as here:
            ident = await here.journal("secret")
            await here.sync()
        async with store(server.url) as there:
            await there.journal.forget(ident)
            assert await there.recent() == []
    async with store(dead) as alone:
        with pytest.raises(NotSynced, match="this journal entry is not in the local ledger"):
            await alone.journal.forget(ident)


async def test_hundreds_of_deletions_never_share_a_second(store, clock):
    """A relay's page has to hold every second of ours."""
    async with store() as one:
        ids = [await one.journal(str(number)) for number in range(250)]
        clock.advance(600)
        for ident in ids:
            await one.journal.forget(ident)

        seconds = [event["created_at"] for event in events(one)]
        assert len(seconds) == 250
        assert max(map(seconds.count, set(seconds))) <= 200
        assert max(seconds) <= clock.now


async def test_a_burst_of_entries_and_deletions_waits_for_the_clock(store, clock, monkeypatch):
    monkeypatch.setattr("sense_memory.ledger.stamps.USUAL_EVENTS_PER_SECOND_COUNT", 1)
    monkeypatch.setattr("sense_memory.ledger.stamps.MAX_EVENTS_PER_SECOND_COUNT", 1)
    monkeypatch.setattr("sense_memory.ledger.stamps.MAX_FUTURE_SECONDS", 2)
    waits = []

    async def sleep(seconds):
        waits.append(seconds)
        clock.advance(seconds)

    async with store() as one:
        sleep_with(one, sleep)
        ident = await one.journal("secret")
        ledger_of(one)._used = lambda second, room=1: int(second <= clock.now + 2 - len(waits))

        await one.journal.forget(ident)

        assert waits == [1.0]
        assert await one.recent() == []


async def test_a_removed_entry_is_not_kept_in_memory(store):
    async with store() as one:
        ident = await one.journal("secret")
        await one.recent()
        await one.journal.forget(ident)

        assert f"#{ident}" not in parts_of(one).reader._open


# ── Relays ──────────────────────────────────────────────────────────────────────────────


async def test_p13_relay_removed_and_added(store, relay, dead, tmp_path):
    """Config change with queued rows. Removed: rows cancelled, reported; added: full backfill planned."""
    ledger = tmp_path / "a.db"
    async with relay() as server:
        async with store(server.url, dead, ledger=ledger) as one:
            await one.remember_many((f"key {number}", "v") for number in range(3))
            await one.sync()
            await one.remember("key 0", "newer")
            assert one.status().relays[1].events == {"queued": 3}
        async with store(server.url, ledger=ledger) as one:
            assert one.relays.drop(dead) == 3
            assert one.relays.drop(dead) == 0
            assert one.relays.holders((await one.recall("key 0")).event_id) == {server.url: "queued"}
            await one.journal("written while it was away")
        async with relay() as second, store(server.url, second.url, ledger=ledger) as one:
            for _ in range(2):
                assert (await one.sync()).in_step
            assert one.status().relays[1].events == {"confirmed": 4}
        async with store(ledger=ledger) as one:
            assert one.relays.drop(server.url) == 0
        async with store(server.url, ledger=ledger) as one:
            (status,) = one.status().relays
            assert (status.last_complete, status.events) == (None, {})
            (report,) = (await one.sync()).relays
            assert report.pulled.received == 4
            assert report.in_step


async def test_a_relay_that_lost_everything_is_filled_again_after_it_was_dropped(
    store, relay, clock, tmp_path
):
    ledger = tmp_path / "a.db"
    async with relay() as server:
        url = server.url
        async with store(url, ledger=ledger) as one:
            await one.remember("k", "v")
            await one.sync()
    async with store(ledger=ledger) as one:
        one.relays.drop(url)
    async with (
        EmbeddedRelay(port=int(url.rpartition(":")[2]), clock=clock) as empty,
        store(empty.url, ledger=ledger) as one,
    ):
        (report,) = (await one.sync()).relays

        assert (empty.url, report.sent) == (url, {"accepted": 1})


async def test_a_relay_in_use_can_not_be_dropped(store, dead):
    async with store(dead) as one:
        await one.remember("k", "v")
        with pytest.raises(InvalidInput, match="this store uses"):
            one.relays.drop(f"{dead}/")
        assert one.status().relays[0].events == {"queued": 1}


async def test_what_is_no_relay_is_refused_and_an_unknown_one_has_nothing_waiting(store):
    async with store() as one:
        with pytest.raises(InvalidRelayUrl):
            one.relays.drop("https://relay.example")
        assert one.relays.drop("wss://relay.example") == 0
        assert one.relays.drop("ws://relay.example") == 0


# ── Drafts ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [["k"], ["a", "k", "b"]])
async def test_a_memory_is_forgotten_with_its_drafts_or_not_at_all(store, clock, names):
    """A process that ends in between leaves no draft of a memory that it was told is forgotten."""
    async with store() as here:
        await here.remember_many((name, "one") for name in names)
        clock.advance(-86_400)
        with pytest.raises(ClockSkewError):
            await here.remember("k", "two")
        clock.advance(86_400)
        database_of(ledger_of(here)).execute(
            "CREATE TEMP TRIGGER t BEFORE DELETE ON main.drafts BEGIN SELECT raise(ABORT, 'no'); END"
        )
        with pytest.raises(LedgerError):
            await here.forget_many(names)
        assert {memory.key for memory in await here.recall_all()} == set(names)
        assert [draft.value for draft in await here.drafts()] == ["two"]

        database_of(ledger_of(here)).execute("DROP TRIGGER t")
        await here.forget_many(names)
        assert await here.recall_all() == []
        assert await here.drafts() == []
