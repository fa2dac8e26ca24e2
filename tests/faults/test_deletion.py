"""D rows: forgetting."""

from __future__ import annotations

import json

import pytest

from relays.faults import (
    DeletesWhateverTheDate,
    Forge,
    ForgetAfterAck,
    Inject,
    NoNegentropy,
    Record,
    Refuse,
    Rollback,
)
from sense_memory.errors import ClockSkewError
from sense_memory.ledger import database
from sense_memory.ledger.relays import LedgerReason, Remark, reason_sentence, remark_sentence
from sense_memory.nostr.event import Unsigned
from tests.inside import ledger_of


SLOT = "sense-memory/k"


def frame(event):
    return json.dumps(["EVENT", "$sub", event])


async def deletion(stage, at, *, signer=None):
    """A kind 5 for the address under test, by its owner unless told otherwise."""
    tags = (("a", f"30078:{stage.signer.public_key}:{SLOT}"), ("k", "30078"))
    unsigned = Unsigned(int(stage.clock()) + at, 5, tags, "")
    return json.loads((await (signer or stage.signer).sign(unsigned)).body())


async def test_d01_forgotten_stays_forgotten(stage):
    """The relay was away when the memory was forgotten, and serves it as if nothing had happened."""
    event = await stage.event("k", "secret", at=-60)
    async with stage.relay() as honest, stage.relay() as away:
        async with stage.store(honest, away, ledger="k.db") as store:
            await stage.put(away.url, event)
            await stage.sync(store)
            assert await store.recall("k")
        async with stage.store(honest, ledger="k.db") as store:
            await store.forget("k")
            await stage.sync(store)
            assert event["id"] not in {found["id"] for found in await stage.stored(honest.url)}

        async with stage.store(honest, away, ledger="k.db") as store:
            report = await stage.sync(store)
            assert report.relays[1].served["deleted"] >= 1
            assert await store.recall("k") is None
            assert event["id"] not in {found["id"] for found in await stage.stored(away.url)}
        async with stage.store(away, honest) as fresh:
            assert await fresh.recall("k") is None


async def test_d01_a_relay_that_lost_both_tombstone_and_deletion_is_healed(stage):
    """It said OK to both and came back from an older backup."""
    event = await stage.event("k", "secret", at=-60)
    async with stage.relay() as backup, stage.relay() as honest, stage.liar() as liar:
        current = liar.upstream
        await stage.put(backup.url, event)
        await stage.put(current, event)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)
            await store.forget("k")
            assert (await stage.sync(store)).in_step
        assert event["id"] not in {found["id"] for found in await stage.stored(current)}

        liar.upstream = backup.url
        stage.clock.advance(3_601)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store)
            assert await store.recall("k") is None
        assert event["id"] not in {found["id"] for found in await stage.stored(backup.url)}
        assert 5 in {found["kind"] for found in await stage.stored(backup.url)}


async def test_d01_a_relay_that_keeps_serving_it_is_never_believed(stage):
    event = await stage.event("k", "secret", at=-60)
    record, lie = Record(), Rollback([event])
    lie.on = False
    async with (
        stage.liar(record, lie) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, event)
        await stage.sync(store)
        await store.forget("k")
        lie.on = True
        for _ in range(3):
            await stage.sync(store, full=True)
            stage.clock.advance(60)
            assert await store.recall("k") is None
            assert store.status().counts["heads"] == 0
        assert len(record.published) == 2  # the tombstone and its kind 5; healing waits for an hour
        stage.clock.advance(3_601)
        for _ in range(2):
            await stage.sync(store, full=True)
            assert await store.recall("k") is None
        assert len(record.published) == 4
        assert event["id"] not in {found["id"] for found in await stage.stored(honest.url)}


async def test_d02_unsigned_or_foreign_kind5_is_ignored(stage):
    event = await stage.event("k", "alive", at=-60)
    stranger = await deletion(stage, 0, signer=stage.stranger)
    forge = Forge("sig")
    forge.plant(7)
    unsigned = forge.altered(await deletion(stage, 0))
    claimed = {**stranger, "pubkey": stage.signer.public_key}
    async with (
        stage.liar(Inject(*map(frame, (stranger, unsigned, claimed)), kind=5)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, event, stranger)
        for _ in range(2):
            line = (await stage.sync(store, full=True)).relays[0]
            assert line.pulled.invalid == 2
            assert line.pulled.over_delivered == 1
        assert (await store.recall("k")).event_id == event["id"]
        assert store.status().counts["deletions"] == 0
        assert [found["id"] for found in await stage.stored(honest.url)] == [event["id"]]


async def test_d04_late_older_kind5_does_not_lower_mark(stage):
    """Deleted at T2 and, as is heard later, at T1 before: what was written in between stays deleted."""
    early, late = await deletion(stage, -100), await deletion(stage, -10)
    between = await stage.event("k", "between", at=-50)
    after = await stage.event("k", "after", at=-5)
    lie = Inject(frame(early), kind=5)
    old = Rollback([between], beside=True)
    lie.on = old.on = False
    async with (
        stage.liar(lie, old) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.put(liar.upstream, late)
        await stage.sync(store)

        lie.on = old.on = True
        line = (await stage.sync(store, full=True)).relays[0]
        assert line.served["deleted"] >= 1
        assert await store.recall("k") is None
        assert ledger_of(store).mark(SLOT) == late["created_at"]

        lie.on = old.on = False
        await stage.put(liar.upstream, after)
        await stage.sync(store)
        assert (await store.recall("k")).event_id == after["id"]


@pytest.mark.parametrize("late", [False, True], ids=["the tombstone comes first", "the memory comes first"])
async def test_d01_a_tombstone_alone_is_enough(stage, late):
    """A relay that lost the kind 5, or never took it: nothing of the memory is kept here, in either order."""
    event = await stage.event("k", "secret", at=-60)
    grave = await stage.event("k", at=-10, inside={"type": "sense-memory:tombstone", "value": ""})
    order = (event, grave) if late else (grave, event)
    async with (
        stage.liar(Inject(*map(frame, order), kind=30078)) as liar,
        stage.relay() as honest,
        stage.store(liar, honest) as store,
    ):
        await stage.sync(store)
        await stage.sync(store, full=True)
        assert await store.recall("k") is None
        assert {json.loads(body)["id"] for body in ledger_of(store).bodies()} == {grave["id"]}
        assert [found["id"] for found in await stage.stored(honest.url)] == [grave["id"]]


@pytest.mark.parametrize("keeps", ["the tombstone", "the memory"])
async def test_d03_relay_ignores_kind5(stage, keeps):
    """It accepts the request and goes on serving: the tombstone at the address heals it, or it is remarked upon."""
    event = await stage.event("k", "secret", at=-60)
    lie = Rollback([event]) if keeps == "the memory" else Record()
    lie.on = False
    deaf = ForgetAfterAck(lambda event: event["kind"] == 5)
    async with (
        stage.liar(lie, NoNegentropy(), deaf) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, ledger="k.db") as store,
    ):
        await stage.put(liar.upstream, event)
        await stage.sync(store)
        await store.forget("k")
        await stage.sync(store)
        lie.on = True
        assert store.status().relays[0].remarks == (remark_sentence(Remark.DROPS_DELETIONS),)
        (grave,) = await stage.stored(liar.upstream, kinds=[30078])
        assert grave["id"] != event["id"]

        await stage.sync(store, full=True)
        assert remark_sentence(Remark.UNDELETED) not in store.status().relays[0].remarks  # perhaps a backup
        await stage.sync(store, full=True)
        assert await store.recall("k") is None
        remarks = store.status().relays[0].remarks
        assert (remark_sentence(Remark.UNDELETED) in remarks) is (keeps == "the memory")
        assert store.status().relays[1].remarks == ()
        async with stage.store(liar, honest) as fresh:
            await stage.sync(fresh)
            assert await fresh.recall("k") is None

        if keeps == "the memory":
            lie.on = False
            stage.clock.advance(60)
            await stage.sync(store, full=True)
            assert remark_sentence(Remark.UNDELETED) not in store.status().relays[0].remarks


async def test_d05_kind5_bounds_by_time(stage):
    """A memory written again after it was forgotten lives, in whatever order a device hears of it all."""
    async with stage.relay() as relay, stage.relay() as other:
        async with stage.store(relay, ledger="k.db") as store:
            await store.remember("k", f"{stage.plaintext} before")
            await stage.sync(store)
            (before,) = await stage.stored(relay.url)
            stage.clock.advance(60)
            await store.forget("k")
            await stage.sync(store)
            (request,) = await stage.stored(relay.url, kinds=[5])
            stage.clock.advance(60)
            after = await store.remember("k", f"{stage.plaintext} after")
            await stage.sync(store)
            assert (await store.recall("k")).event_id == after
        (head,) = await stage.stored(relay.url, kinds=[30078])
        orders = ([before, request, head], [head, request, before], [request, head, before])
        for order in orders:
            async with stage.store(ledger=":memory:") as device:
                for event in order:
                    path = stage.folder / "one.jsonl"
                    path.write_text(json.dumps(event))
                    await device.import_(path)
                assert (await device.recall("k")).event_id == after
                assert before["id"] not in {json.loads(body)["id"] for body in ledger_of(device).bodies()}
        async with stage.store(other, relay, ledger="k.db") as store:
            assert (await stage.sync(store)).in_step
            assert (await store.recall("k")).event_id == after


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def test_d08_local_purge_is_real(stage):
    """No byte of the ciphertext is left: not in the ledger, its log, its backup, its snapshot, a draft, an export."""
    async with stage.store(ledger="k.db") as store:
        for number in range(3):
            await store.remember("k", f"{stage.plaintext} {number} {'x' * 5_000}")
        await store.remember("kept", stage.plaintext)
        entry = await store.journal(f"{stage.plaintext} entry")
        stage.clock.advance(-86_400)
        with pytest.raises(ClockSkewError):
            await store.remember("k", f"{stage.plaintext} draft")
        stage.clock.advance(86_400)
        (draft,) = [kept.content for kept in ledger_of(store).drafts.all()]
        stored = [json.loads(body) for body in ledger_of(store).bodies()]
        doomed = {event["content"] for event in stored if event["tags"][0] != ["d", "sense-memory/kept"]}
        store.export(stage.folder / "before.jsonl")
    backup = stage.folder / "k.db.schema-1"
    backup.write_bytes((stage.folder / "k.db").read_bytes())
    traces = [text[place : place + 40].encode() for text in doomed | {draft} for place in (60, 200)]
    found = [
        name for name, content in files(stage.folder).items() if any(trace in content for trace in traces)
    ]
    assert sorted(found) == ["before.jsonl", "k.db", "k.db.schema-1"]
    (stage.folder / "before.jsonl").unlink()

    async with stage.store(ledger="k.db") as store:
        await store.forget("k")
        await store.journal.forget(entry)
        store.export(stage.folder / "after.jsonl")
        for name, content in files(stage.folder).items():
            assert not any(trace in content for trace in traces), name
        assert not backup.exists()
        assert (await store.recall("kept")).value == stage.plaintext
    for name, content in files(stage.folder).items():
        assert not any(trace in content for trace in traces), name


async def test_d08_what_another_device_forgot_is_purged_here_too(stage):
    """Also where another process of this machine publishes meanwhile: then as soon as that is done."""
    async with (
        stage.relay() as relay,
        stage.store(relay, ledger="here.db") as here,
        stage.store(relay, ledger="there.db") as there,
    ):
        traces = []
        for key in ("k", "l"):
            await here.remember(key, f"{stage.plaintext} {'x' * 500}")
            traces.append(json.loads([*ledger_of(here).bodies()][-1])["content"][100:140].encode())
        await stage.sync(here)
        await stage.sync(there)
        await there.forget("k")
        await stage.sync(there)
        await stage.sync(here)
        assert not any(traces[0] in content for content in files(stage.folder).values())
        assert traces[1] in (stage.folder / "here.db").read_bytes()

        await there.forget("l")
        there.export(stage.folder / "there.jsonl")
        other = database.Database(stage.folder / "here.db", stage.signer.public_key)
        assert other.try_lock()
        await here.import_(stage.folder / "there.jsonl")
        assert await here.recall("l") is None
        assert traces[1] in (stage.folder / "here.db").read_bytes()  # nobody may touch the file meanwhile
        other.unlock()
        other.close()
        await here.remember("something", stage.plaintext)
        assert not any(trace in content for content in files(stage.folder).values() for trace in traces)


@pytest.mark.parametrize("keeps", [True, False], ids=["keeps kind 5", "keeps no kind 5"])
async def test_d12_old_deletion_is_not_sent_over_newer(stage, keeps):
    """Full syncs, a relay that was dropped and added again, a new one, and an import: all memories stay."""
    names = [f"k{number}" for number in range(5)]
    lies = [DeletesWhateverTheDate(keeps=keeps) for _ in range(2)]
    async with stage.liar(lies[0]) as liar, stage.liar(lies[1]) as new:
        async with stage.store(liar, ledger="k.db") as store:
            for name in names:
                await store.remember(name, stage.plaintext)
            await stage.sync(store)
            for name in names[1:]:
                await store.forget(name)
            await stage.sync(store)
            stage.clock.advance(60)
            for name in names[1:]:
                await store.remember(name, f"{stage.plaintext} anew")
            for _ in range(3):
                stage.clock.advance(3_601)
                assert (await stage.sync(store, full=True)).in_step
            store.export(stage.folder / "all.jsonl")
        async with stage.store(new, ledger="k.db") as store:
            store.relays.drop(liar.url)
        async with stage.store(liar, new, ledger="k.db") as store, stage.store(new) as other:
            for _ in range(2):
                await stage.sync(store, full=True)
            assert (await stage.sync(store)).in_step
            await other.import_(stage.folder / "all.jsonl")
            await stage.sync(other, full=True)
        for url in (liar.url, new.url):
            async with stage.store(url) as fresh:
                assert (await stage.sync(fresh)).complete
                assert [memory.key for memory in await fresh.recall_all()] == names


async def test_d12_a_relay_that_takes_a_deletion_later_gets_it_and_what_was_written_anew(stage):
    busy = Refuse("error: busy", lambda event: event["kind"] == 5)
    async with (
        stage.liar(busy, DeletesWhateverTheDate(keeps=True)) as liar,
        stage.store(liar) as store,
    ):
        await store.remember("k", stage.plaintext)
        await stage.sync(store)
        stage.clock.advance(60)
        await store.forget("k")
        stage.clock.advance(60)
        await store.remember("k", f"{stage.plaintext} anew")
        await stage.sync(store)
        busy.on = False
        stage.clock.advance(3_600)
        assert (await stage.sync(store)).in_step
        assert {event["kind"] for event in await stage.stored(liar.url)} == {5, 30078}


@pytest.mark.parametrize("words", ["deleted: by its author", "blocked: no"])
async def test_d13_relay_keeps_neither_kind5_nor_tombstone(stage, words):
    """Nobody could learn there that it was forgotten: it is not in step, and was never said to have taken them."""
    refusal = Refuse(words, lambda event: event["kind"] == 30078)
    refusal.on = False
    async with stage.liar(refusal, keeper := DeletesWhateverTheDate()) as liar, stage.store(liar) as store:
        await store.remember("k", stage.plaintext)
        await stage.sync(store)
        stage.clock.advance(60)
        await store.forget("k")
        refusal.on = True
        for _ in range(3):
            line = (await stage.sync(store, full=True)).relays[0]
            assert not line.in_step
            assert (line.waiting, line.pulled.missing) == (1, 0)
            stage.clock.advance(3_601)
        assert not store.status().relays[0].holds_all

        refusal.on = keeper.on = False
        assert (await stage.sync(store, full=True)).in_step
        async with stage.store(liar) as fresh:
            await stage.sync(fresh)
            assert await fresh.recall("k") is None


async def test_d13_relay_keeps_no_kind5(stage):
    """Its tombstones follow their deletion, and stay: a second device forgets, and nobody brings the memory back."""
    async with (
        stage.liar(record := Record(), DeletesWhateverTheDate()) as liar,
        stage.store(liar) as store,
        stage.store(liar) as second,
    ):
        for key in ("k", "l", "kept"):
            await store.remember(key, stage.plaintext)
        await stage.sync(store)
        await stage.sync(second)
        stage.clock.advance(60)
        await store.forget("k")
        assert (await stage.sync(store)).in_step
        assert store.status().relays[0].remarks == (remark_sentence(Remark.DROPS_DELETIONS),)
        await store.forget("l")
        assert (await stage.sync(store)).in_step
        kinds = [frame[1]["kind"] for frame in record.said("EVENT")]
        assert kinds.count(5) == 1  # to a known one it is not sent

        assert (await stage.sync(second, full=True)).in_step
        for device in (second, store):
            assert [memory.key for memory in await device.recall_all()] == ["kept"]
            assert (await stage.sync(device, full=True)).in_step
        stored = await stage.stored(liar.url, kinds=[30078])
        assert len(stored) == 3
        async with stage.store(liar) as fresh:
            await stage.sync(fresh)
            assert [memory.key for memory in await fresh.recall_all()] == ["kept"]


async def test_d13_a_forgotten_entry_that_comes_back_is_deleted_again_by_who_knows_and_shown_by_nobody_who_does(
    stage,
):
    """An entry has no address at which a tombstone could stay, so the request is made again where it is served."""
    async with (
        stage.liar(DeletesWhateverTheDate()) as liar,
        stage.store(liar) as store,
        stage.store(liar) as second,
    ):
        ident = await store.journal(stage.plaintext)
        await stage.sync(store)
        await stage.sync(second)
        stage.clock.advance(60)
        await store.journal.forget(ident)
        await stage.sync(store)
        assert await stage.stored(liar.url, kinds=[4]) == []
        assert "a forgotten journal entry may" in store.status().relays[0].remarks[0]
        for _ in range(2):
            stage.clock.advance(4_000)
            await stage.sync(second, full=True)  # it never heard of that, and heals the relay
            assert len(await stage.stored(liar.url, kinds=[4])) == 1

            stage.clock.advance(4_000)
            await stage.sync(store)
            assert await store.recent(10) == []
            assert await stage.stored(liar.url, kinds=[4]) == []


async def test_d13_a_relay_that_keeps_kind5_is_asked_once_and_needs_no_tombstone(stage):
    async with stage.liar(record := Record()) as liar, stage.store(liar) as store:
        for _ in range(2):
            await store.remember("k", stage.plaintext)
            stage.clock.advance(60)
            await store.forget("k")
            assert (await stage.sync(store)).in_step
            stage.clock.advance(60)
        assert len([frame for frame in record.said("REQ") if "ids" in frame[2]]) == 1
        assert {event["kind"] for event in await stage.stored(liar.url)} == {5}
        assert store.status().relays[0].remarks == ()


async def test_d06_an_old_deletion_that_a_relay_holds_against_what_was_written_anew_is_said(stage):
    lie = Refuse("blocked: this event has been deleted", lambda event: event["kind"] == 30078)
    lie.on = False
    async with stage.liar(lie) as liar, stage.store(liar) as store:
        await store.forget("k")
        await stage.sync(store)
        stage.clock.advance(60)
        await store.remember("k", stage.plaintext)
        await store.remember("l", stage.plaintext)
        lie.on = True
        (line,) = (await stage.sync(store)).relays
        assert line.reasons == {
            reason_sentence(LedgerReason.OLD_DELETION): 1,
            reason_sentence(LedgerReason.NOT_OUR_DELETION): 1,
        }
        assert not line.in_step
