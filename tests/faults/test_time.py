"""T rows: the version clock, this machine's clock, and what relays think of both."""

from __future__ import annotations

import json
import time

import pytest

from relays.faults import FaultyRelay, Inject, Record, Refuse
from sense_memory import InvalidInput
from sense_memory.errors import ClockSkewError
from sense_memory.palace.lifecycle import current_relevance, state_at
from tests.inside import ledger_of


class Witness:
    """A signer that notes the seconds it was asked to sign."""

    def __init__(self, signer) -> None:
        self.public_key, self.encrypt, self.decrypt = signer.public_key, signer.encrypt, signer.decrypt
        self._signer = signer
        self.signed: list[int] = []

    async def sign(self, unsigned):
        self.signed.append(unsigned.created_at)
        return await self._signer.sign(unsigned)


async def test_t01_two_writes_in_one_second(stage):
    """Five edits within a second: strictly later each, and never more than 5 s ahead of the clock."""
    async with stage.relay() as relay, stage.store(relay) as store:
        ids = []
        for number in range(5):
            ids.append(await store.remember("k", f"{stage.plaintext} {number}"))
            stage.clock.advance(0.1)
        assert (await stage.sync(store)).in_step

        versions = [stored.event() for stored in ledger_of(store).versions("sense-memory/k")]
        times = [version.created_at for version in reversed(versions)]
        assert [version.id for version in reversed(versions)] == ids
        assert set(times) == {int(stage.clock())}
        assert (await store.recall("k")).value == f"{stage.plaintext} 4"
        assert [event["id"] for event in await stage.stored(relay.url)] == [ids[-1]]


async def test_t02_clock_jumps_back_one_day(stage):
    """An edit is refused with both times, its text kept sealed, nothing signed ahead; it is written once all is well."""
    signer = Witness(stage.signer)
    async with stage.relay() as relay, stage.store(relay, ledger="k.db", signer=signer) as store:
        first = await store.remember("k", f"{stage.plaintext} before")
        await stage.sync(store)
        stage.clock.advance(-86_400)
        now = int(stage.clock())
        signer.signed.clear()

        with pytest.raises(ClockSkewError, match="kept as draft 1") as caught:
            await store.remember("k", f"{stage.plaintext} after")
        assert (caught.value.now, caught.value.mark) == (now, now + 86_400)
        assert caught.value.drafts == (1,)
        with pytest.raises(ClockSkewError, match="kept as drafts 2 to 3"):
            await store.remember_many([("k", f"{stage.plaintext} many"), ("other", stage.plaintext)])
        with pytest.raises(ClockSkewError):
            await store.refresh("k")  # its text is not in danger, so nothing is kept
        assert (await store.recall("k")).event_id == first
        assert await store.recall("other") is None
        assert store.status().counts["events"] == 1
        await store.remember("elsewhere", stage.plaintext)  # an address of its own is not held up
        assert signer.signed == [now]  # that one, and nothing ahead of this clock

        drafts = await store.drafts()
        assert [(draft.number, draft.key, draft.created_at) for draft in drafts] == [
            (1, "k", stage.clock()),
            (2, "k", stage.clock()),
            (3, "other", stage.clock()),
        ]
        assert drafts[0].value == f"{stage.plaintext} after"
        with pytest.raises(ClockSkewError) as still:
            await store.publish_draft(1)
        assert still.value.drafts == ()
        assert len(await store.drafts()) == len(drafts)

    for path in stage.folder.iterdir():
        assert stage.plaintext.encode() not in path.read_bytes()
    stage.clock.advance(86_400)
    async with stage.store(relay.url, ledger="k.db") as store:
        ident = await store.publish_draft(1)
        memory = await store.recall("k")
        assert (memory.event_id, memory.value) == (ident, f"{stage.plaintext} after")
        assert memory.created_at == stage.clock() - 86_400  # when it was written, by the clock of then
        store.discard_draft(2)
        for number in (1, 2, 99):
            with pytest.raises(InvalidInput):
                await store.publish_draft(number)
            with pytest.raises(InvalidInput):
                store.discard_draft(number)
        await store.forget("k")
        await store.forget("other")
        assert await store.drafts() == []


@pytest.mark.virtual_time
async def test_t02_a_clock_that_ran_a_day_ahead_holds_nothing_up_once_it_is_set_right(stage):
    """Neither what comes in, nor what waits for its next try, nor what a relay lost that had shown it."""
    async with (
        stage.relay(max_future_seconds=10**6) as behind,
        stage.relay(max_future_seconds=10**6) as empty,
        FaultyRelay(behind.url, refuse := Refuse("error: try later")) as relay,
        stage.store(relay, background=True) as store,
    ):
        refuse.on = False
        stage.clock.advance(86_400)
        await store.remember("a", stage.plaintext)
        await stage.passes(100)
        refuse.on = True
        await store.remember("b", stage.plaintext)
        await stage.passes(100)
        assert len(await stage.stored(behind.url)) == 1

        await relay.__aexit__(None, None, None)
        stage.clock.advance(-86_400)
        relay.upstream, refuse.on = empty.url, False
        await stage.put(empty.url, await stage.event("theirs"))
        await relay.__aenter__()
        await stage.passes(200)
        assert (await store.recall("theirs")) is not None
        assert len(await stage.stored(empty.url)) == 3


async def test_t02_journal_entries_are_dated_by_the_clock_again_after_it_was_set_back(stage):
    """Entries of one instant follow each other by microseconds; a clock that was an hour ahead is no reason to."""
    async with stage.store() as store:
        for number in range(3):
            await store.journal(f"{stage.plaintext} {number}")
        before = stage.clock()
        burst = sorted(entry.created_at - before for entry in await store.recent())
        assert burst[0] == 0
        assert 0 < burst[1] < burst[2] < 0.001

        stage.clock.advance(-3_600)
        late = await store.journal(f"{stage.plaintext} set back")
        found = {entry.event_id: entry.created_at for entry in await store.recent()}
        assert found[late] == before - 3_600
        stage.clock.advance(-0.5)  # as clocks are set right: the order of what is written stays
        next_one = await store.journal(f"{stage.plaintext} a little")
        found = {entry.event_id: entry.created_at for entry in await store.recent()}
        assert 0 < found[next_one] - found[late] < 0.001


@pytest.mark.parametrize("year", [2100, 2262])
async def test_t03_far_future_event_is_quarantined(stage, year):
    """Kept, shown nowhere, freezes nothing: edits and tombstones of today count, on relays as here."""
    ahead = (year - 1970) * 31_556_952 - int(stage.clock())
    future = await stage.event("k", "from the future", at=ahead)
    present = await stage.event("k", "now", at=-60)
    lie = Inject(f'["EVENT","$sub",{json.dumps(future)}]', kind=30078)
    async with stage.liar(lie) as liar, stage.relay() as honest:
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.put(liar.upstream, present)
            line = (await stage.sync(store)).relays[0]
            assert line.served["quarantined"] == 1
            assert (await store.recall("k")).event_id == present["id"]
            assert ledger_of(store).mark("sense-memory/k") == present["created_at"]
            assert store.status().counts["quarantined"] == 1
            edited = await store.remember("k", f"{stage.plaintext} edited")
            assert (await store.recall("k")).event_id == edited
            await store.forget("k")
            for _ in range(2):
                await stage.sync(store, full=True)
                assert await store.recall("k") is None
            assert future["id"] not in {event["id"] for event in await stage.stored(honest.url)}
        async with stage.store(liar, ledger="k.db") as store:
            again = await store.remember("k", f"{stage.plaintext} again")
            await stage.sync(store)
            assert (await store.recall("k")).event_id == again


async def test_t04_marks_are_per_address(stage):
    """One address is 200 s ahead: the next edit there comes after it, all others are stamped now."""
    ahead = await stage.event("ahead", at=200)
    async with stage.relay() as relay, stage.store(relay) as store:
        await stage.put(relay.url, ahead)
        await stage.sync(store)
        await store.remember("ahead", f"{stage.plaintext} edited")
        await store.remember("other", stage.plaintext)
        await store.journal(stage.plaintext)
        now = int(stage.clock())
        assert ledger_of(store).mark("sense-memory/ahead") == now + 201
        assert ledger_of(store).mark("sense-memory/other") == now
        assert {event["created_at"] for event in await stage.stored(relay.url)} == {now + 200}
        assert (await stage.sync(store)).in_step


async def test_t05_relay_rejects_future(stage):
    """A relay that is stricter about the future than we are: it is sent again when its time has come."""
    async with stage.relay(max_future_seconds=1) as relay, stage.relay() as lax:
        stage.honest.discard(relay.url)
        async with stage.store(relay, lax) as store:
            await stage.put(lax.url, await stage.event("k", at=30))
            await stage.sync(store)
            last = await store.remember("k", stage.plaintext)
            strict, _ = (await stage.sync(store)).relays
            assert strict.reasons == {"too far in the future for this relay": 1}
            assert strict.waiting == 1
            assert store.relays.holders(last) == {relay.url: "queued", lax.url: "acked"}
            assert await stage.stored(relay.url) == []

            stage.clock.advance(40)
            assert (await stage.sync(store)).in_step
            assert [event["id"] for event in await stage.stored(relay.url)] == [last]


async def test_t06_older_than_three_years(stage):
    """Refused as too old and said so; signed anew, it is taken: the same text and time inside, one event more."""
    record = Record()
    too_old = Refuse(
        f"invalid: created_at too early {stage.words}",
        lambda event: event["created_at"] < stage.clock() - 94_608_000,
    )
    async with stage.liar(record, too_old) as strict, stage.relay() as lax:
        async with stage.store(lax, ledger="k.db") as store:
            old = await store.remember("k", f"{stage.plaintext} old")
            written = (await store.recall("k")).created_at
            await stage.sync(store)
        stage.clock.advance(4 * 31_536_000)
        async with stage.store(strict, lax, ledger="k.db") as store:
            line = (await stage.sync(store)).relays[0]
            assert line.reasons == {"too old for this relay": 1}
            assert store.relays.holders(old)[strict.url] == "refused"
            assert store.status().relays[0].reasons == {"too old for this relay": 1}

            new = await store.refresh("k")
            assert await store.refresh("unknown") is None
            assert (await stage.sync(store)).in_step
            for _ in range(2):
                stage.clock.advance(3_601)
                assert (await stage.sync(store, full=True)).in_step
            memory = await store.recall("k")
            assert (memory.event_id, memory.created_at) == (new, written)
            assert memory.value == f"{stage.plaintext} old"
            for url in (strict.upstream, lax.url):
                assert [event["id"] for event in await stage.stored(url)] == [new]
            assert record.published == [old, new]
            assert store.status().relays[0].reasons == {}


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Apia", "Antarctica/Troll", "UTC"])
async def test_t07_leap_and_dst_do_not_matter(stage, zone, monkeypatch):
    """Writes around a switch of the clocks, in zones that switch oddly: seconds since 1970 throughout."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        async with stage.relay() as relay, stage.store(relay) as store:
            stage.clock.now = 1_793_512_800.0  # 2026-11-01 06:00 UTC: New York's hour that comes twice
            moments = []
            for half_hour in range(-4, 5):
                stage.clock.now = 1_793_512_800.0 + half_hour * 1_800
                await store.remember("k", f"{stage.plaintext} {half_hour}")
                moments.append(stage.clock())
            history = await store.history("k")
            assert [version.created_at for version in reversed(history)] == moments
            assert [stored.event().created_at for stored in ledger_of(store).versions("sense-memory/k")][
                ::-1
            ] == moments
            for moment, half_hour in zip(moments, range(-4, 5), strict=True):
                (memory,) = await store.as_of(moment + 1)
                assert memory.value == f"{stage.plaintext} {half_hour}"
            assert (await stage.sync(store)).in_step
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Pacific/Apia", "Antarctica/Troll", "Asia/Kathmandu", "UTC"]
)
async def test_t07_a_memory_decays_by_seconds_since_1970_wherever_its_machine_is(stage, zone, monkeypatch):
    """Twelve times a month across both switches of the clocks, on a machine that also travels: the spec's curve."""
    try:
        async with stage.store() as store:
            stage.clock.now = begun = 1_793_400_000.0  # some days before New York's hour that comes twice
            await store.persona_remember("people", "facts", "lisa", stage.plaintext, ["art"])
            for month in range(7):
                monkeypatch.setenv("TZ", "UTC" if month % 2 else zone)
                time.tzset()
                for step in range(12):
                    days = month * 30 + step * 2.5
                    stage.clock.now = begun + days * 86_400
                    (memory,) = await store.persona_recall(include_forgotten=True)
                    relevance = 0.5 ** (days / 30)
                    assert current_relevance(memory, stage.clock()) == pytest.approx(relevance, rel=1e-12)
                    assert memory.state == state_at(relevance)
                    (hit,) = await store.persona_search("art") if relevance >= 0.1 else (None,)
                    assert hit is None or hit.score == pytest.approx(
                        2 * max(relevance, 0.3), rel=1e-5
                    )  # a fading one counts .3
            await store.persona_prune()
            (pruned,) = await store.persona_recall(include_forgotten=True)
            assert (pruned.state, pruned.dissolved_at) == ("dissolved", stage.clock())
    finally:
        monkeypatch.undo()
        time.tzset()
