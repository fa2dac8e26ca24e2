"""P rows: the outbox, and what a relay's OK is worth."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from relays.faults import FaultyRelay, LieInOk, NoEose, Record, Refuse, SwallowPublish
from sense_memory import NotSynced
from sense_memory.errors import StorageFullError
from sense_memory.records.reader import Reader
from sense_memory.relay.client import dialler
from sense_memory.relay.sync import agenda
from sense_memory.relay.sync.relay_sync import RelaySync
from tests.inside import ledger_of
from tests.time_unit import SECOND


async def test_p02_rejection_is_not_success(stage):
    records = [Record() for _ in range(3)]
    lies = [Refuse(f"blocked: {stage.words}") for _ in range(3)]
    async with (
        stage.liar(records[0], lies[0]) as one,
        stage.liar(records[1], lies[1]) as two,
        stage.liar(records[2], lies[2]) as three,
        stage.store(one, two, three) as store,
    ):
        ident = await store.remember("k", f"{stage.plaintext} kept")
        for _ in range(2):
            report = await stage.sync(store)
            assert report.complete
            assert not report.in_step
            assert [line.refused for line in report.relays] == [1, 1, 1]
            assert [line.reasons for line in report.relays] == [{"blocked": 1}] * 3

        assert [record.published for record in records] == [[ident]] * 3
        assert set(store.relays.holders(ident).values()) == {"refused"}
        assert not any(relay.holds_all for relay in store.status().relays)
        assert (await store.recall("k")).value == f"{stage.plaintext} kept"


async def test_p02_a_refusal_by_one_relay_does_not_hold_up_another(stage):
    async with (
        stage.liar(Refuse("invalid: event too large")) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.reasons == {"too large for this relay": 1}
        assert good.in_step
        assert store.relays.holders(ident) == {liar.url: "refused", honest.url: "acked"}


async def test_p11_pow_required(stage):
    """Nothing is mined: that would change the id. The relay refuses the event, and others take it as it is."""
    async with (
        stage.liar(Refuse("pow: 28 bits needed")) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        for _ in range(2):
            bad, good = (await stage.sync(store)).relays

            assert (bad.reasons, good.in_step) == ({"requires proof of work": 1}, True)
        assert store.relays.holders(ident) == {liar.url: "refused", honest.url: "confirmed"}
        assert [event["id"] for event in await stage.stored(honest.url)] == [ident]


async def test_p03_partial_ack_completes_later(stage):
    """One of three relays is up; the others return after a restart, and nobody asks for anything."""
    records = [Record(), Record()]
    async with (
        stage.relay() as up,
        stage.relay() as behind_one,
        stage.relay() as behind_two,
    ):
        one, two = FaultyRelay(behind_one.url, records[0]), FaultyRelay(behind_two.url, records[1])
        async with one, two:
            pass  # their ports are known now, and closed
        async with stage.store(up, one, two, ledger="k.db") as store:
            ident = await store.remember("k", stage.plaintext)
            good, *bad = (await stage.sync(store)).relays
            assert good.in_step
            assert [line.problem for line in bad] == ["refused the connection"] * 2
            assert store.relays.holders(ident) == {up.url: "acked", one.url: "queued", two.url: "queued"}

        async with one, two, stage.store(up, one, two, ledger="k.db", background=True) as store:
            await stage.until(lambda: set(store.relays.holders(ident).values()) <= {"acked", "confirmed"})
            assert [event["id"] for event in await stage.stored(behind_one.url)] == [ident]
            assert [event["id"] for event in await stage.stored(behind_two.url)] == [ident]
    assert [record.published for record in records] == [[ident]] * 2


@pytest.mark.virtual_time
async def test_p04_ack_for_other_id_is_ignored(stage):
    async with (
        stage.liar(LieInOk("other")) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.useless == {"stray_oks": 1}
        assert bad.reasons == {"no answer": 1}
        assert bad.waiting == 1
        assert good.in_step
        assert store.relays.holders(ident) == {liar.url: "queued", honest.url: "acked"}


@pytest.mark.virtual_time
async def test_p04_an_ack_before_anything_was_sent_is_ignored(stage):
    early: list[str] = []
    record = Record()
    async with (
        stage.liar(record, LieInOk("early", early)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        early.append(ident)
        bad, good = (await stage.sync(store)).relays

        assert bad.useless == {"stray_oks": 1}
        assert record.published == [ident]
        assert good.in_step
        assert store.relays.holders(ident) == {liar.url: "queued", honest.url: "acked"}


async def test_p04_a_second_word_changes_nothing(stage):
    async with (
        stage.liar(LieInOk("twice")) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        idents = await store.remember_many((f"k{number}", stage.plaintext) for number in range(3))
        bad, _ = (await stage.sync(store)).relays
        await stage.sync(store)

        assert bad.in_step
        assert bad.sent == {"accepted": 3}
        assert bad.reasons == {}
        for ident in idents:
            assert store.relays.holders(ident)[liar.url] in {"acked", "confirmed"}
            assert store.relays.holders(ident)[honest.url] in {"acked", "confirmed"}


@pytest.mark.virtual_time
async def test_p05_without_any_ok_it_is_queued_until_read_back(stage):
    """The relay stores it and never says so: what it serves later is the fact."""
    async with (
        stage.liar(SwallowPublish()) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        bad, _ = (await stage.sync(store)).relays
        assert bad.reasons == {"no answer": 1}
        assert store.relays.holders(ident)[liar.url] == "queued"

        bad, _ = (await stage.sync(store)).relays
        assert bad.in_step
        assert store.relays.holders(ident)[liar.url] == "confirmed"


@pytest.mark.virtual_time
async def test_p09_pull_before_first_push(stage):
    """A queued edit of an address that the relay holds: nothing is sent before everything was shown."""
    theirs = await stage.event("k", "theirs", at=-60)
    record, lie = Record(), NoEose()
    async with (
        stage.liar(record, lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, timeouts=stage.quick) as store,
    ):
        await stage.put(liar.upstream, theirs)
        ours = await store.remember("k", f"{stage.plaintext} ours")
        bad, good = (await stage.sync(store)).relays
        assert bad.held_back
        assert bad.waiting == 1
        assert record.published == []
        assert not good.held_back

        lie.on = False
        bad, _ = (await stage.sync(store)).relays
        assert bad.in_step
        assert not bad.held_back
        assert record.published == [ours]
        kinds = [frame[0] for _, frame in record.frames]
        assert kinds.index("EOSE") < kinds.index("OK")
        versions = [stored.event().id for stored in ledger_of(store).versions("sense-memory/k")]
        assert versions == [ours, theirs["id"]]


async def test_p09_flush_pulls_from_a_relay_that_was_never_pulled(stage):
    record = Record()
    async with stage.liar(record) as liar, stage.store(liar) as store:
        await store.remember("k", stage.plaintext)
        await store.flush()
        await store.remember("k", f"{stage.plaintext} again")
        await store.flush()

        frames = [frame[0] for who, frame in record.frames if who == "client" and frame[0] != "CLOSE"]
        assert frames == ["REQ", "REQ", "REQ", "EVENT", "EVENT"]


@pytest.mark.virtual_time
async def test_p09_offline_first_is_explicit(stage):
    record = Record()
    async with (
        stage.liar(record, NoEose()) as liar,
        stage.store(liar, offline_first=True, timeouts=stage.quick) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        (line,) = (await store.flush()).relays
        assert record.said("REQ") == []
        assert record.published == [ident]
        assert line.sent == {"accepted": 1}


async def test_what_was_queued_when_the_store_closed_is_sent_by_the_next_open(stage):
    record = Record()
    async with stage.liar(record) as liar:
        async with stage.store(liar, ledger="k.db") as store:
            idents = await store.remember_many((f"k{number}", stage.plaintext) for number in range(20))
            idents.append(await store.journal(stage.plaintext))
        assert record.frames == []

        async with stage.store(liar, ledger="k.db", background=True) as store:
            await stage.until(lambda: not store.status().relays[0].events.get("queued"))
            assert sorted(record.published) == sorted(idents)
        assert sorted(event["id"] for event in await stage.stored(liar.upstream)) == sorted(idents)


OTHER_PROCESS = """
import asyncio, json, sys
from sense_memory import LocalSigner, MemoryStore

async def main(nsec, relay, ledger, value):
    signer = LocalSigner.from_nsec(nsec)
    async with MemoryStore(signer, [relay], ledger=ledger, background=False) as store:
        return await store.remember("from_outside", value)

print(asyncio.run(main(**json.load(sys.stdin))))
"""


async def test_what_another_process_writes_is_sent_by_the_one_that_holds_the_store(stage, forks, monkeypatch):
    """Its waits are bounds, not measures: a busy machine takes its time with a process and with what has to be on disk."""
    monkeypatch.setattr(agenda, "POLL_SECONDS", 0.05)
    record = Record()
    async with (
        stage.liar(record) as liar,
        stage.store(liar, ledger="k.db", background=True, clock=time.time) as store,
    ):
        own = await store.remember("from_inside", stage.plaintext)
        await stage.until(lambda: store.relays.holders(own) == {liar.url: "acked"}, seconds=20)

        process = await asyncio.create_subprocess_exec(
            forks.python, "-c", OTHER_PROCESS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        task = {
            "nsec": stage.signer.export_nsec(),
            "relay": liar.url,
            "ledger": str(ledger_of(store).path),
            "value": f"{stage.plaintext} from outside",
        }
        out, _ = await process.communicate(json.dumps(task).encode())
        ident = out.decode().strip()
        assert process.returncode == 0

        await stage.until(lambda: store.relays.holders(ident) == {liar.url: "acked"}, seconds=20)
        assert [frame[1:3] for frame in record.heard("OK")] == [[own, True], [ident, True]]
        assert record.published == [own, ident]
        assert (await store.recall("from_outside")).value == f"{stage.plaintext} from outside"
        assert len(liar.upgrades) == 1  # the other process never dialled


async def test_p14_a_ledger_that_fails_while_pulling_ends_the_whole_round(stage, monkeypatch):
    """It is no relay's fault: `sync` raises it, nothing goes on behind the caller's back, and the next works."""

    async def full(self, events, relay):
        await asyncio.sleep(0)
        raise StorageFullError("the disk is full")

    async with stage.liar() as liar, stage.relay() as honest:
        events = [await stage.event(f"k{number}") for number in range(3)]
        for url in (liar.upstream, honest.url):
            await stage.put(url, *events)
        with monkeypatch.context() as broken:
            broken.setattr(Reader, "file_served", full)
            async with stage.store(liar, honest, ledger="k.db") as store:
                before = asyncio.all_tasks()
                with pytest.raises(StorageFullError):
                    await store.sync()
                with pytest.raises(StorageFullError):
                    await store.recall("elsewhere")
                assert [line.problem for line in store.status().relays] == ["the disk is full"] * 2
                left = {task.get_coro().__name__ for task in asyncio.all_tasks() - before}
                assert left.isdisjoint({"pull", "run"})
        async with stage.store(liar, honest, ledger="k.db") as store:
            assert (await stage.sync(store)).in_step
            assert len(await store.recall_all()) == len(events)


async def test_a_relay_that_came_back_is_followed_again_as_soon_as_a_sync_succeeds(stage, monkeypatch):
    """The background waits out its back-off, unless somebody found out before."""
    monkeypatch.setattr(dialler, "RECONNECT_FIRST_SECONDS", 600.0)
    async with stage.relay() as behind:
        relay = FaultyRelay(behind.url, record := Record())
        async with relay:
            pass  # its port is known now, and closed
        async with stage.store(relay, background=True) as store:
            await stage.until(lambda: store.status().relays[0].problem)
            async with relay:
                assert (await stage.sync(store)).in_step
                ident = await store.remember("k", stage.plaintext)
                async with asyncio.timeout(5 * SECOND):
                    await record.until(lambda seen: ident in [frame[1] for frame in seen.heard("OK")])


async def test_a_broken_background_is_no_secret_and_nobody_waits_for_it(stage, monkeypatch, caplog):
    async def broken(self, connection, plan, as_of):
        raise ZeroDivisionError

    monkeypatch.setattr(RelaySync, "run", broken)
    async with stage.relay() as relay, stage.store(relay, background=True) as store:
        with pytest.raises(NotSynced, match="a bug in sense-memory \\(ZeroDivisionError\\)"):
            await store.recall("k")
    assert "raise ZeroDivisionError" in caplog.text
