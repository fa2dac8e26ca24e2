"""P rows, continued: refusals, relays that forget, full disks, relays that come and go, and their limits."""

from __future__ import annotations

import json
import re
import warnings

import pytest

from relays.faults import (
    FaultyRelay,
    ForgetAfterAck,
    HangUpAt,
    Information,
    RateLimit,
    Record,
    Refuse,
    SwallowPublish,
)
from sense_memory.errors import RelayLimitWarning, StorageFullError
from sense_memory.ledger.relays import LedgerReason, Remark, reason_sentence, remark_sentence
from sense_memory.limits import RETRY_MAX_SECONDS
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.sync import agenda
from tests.inside import database_of, ledger_of


WINDOW_COUNT = 100


@pytest.fixture(autouse=True)
def _seldom_asks(monkeypatch):
    """What is sent in hours is what counts here: asking twice a minute is what they would mostly consist of."""
    monkeypatch.setattr(agenda, "BACKGROUND_SECONDS", 1_200.0)


@pytest.mark.virtual_time
async def test_p05_no_ok_ever(stage):
    """The background with its real patience: ten seconds, queued again, sent again ever later, never lost."""
    record, lie = Record(), SwallowPublish(stores=False)
    async with (
        stage.liar(record, lie) as liar,
        stage.store(liar, background=True) as store,
    ):
        ident = await store.remember("k", stage.plaintext)
        await stage.passes(12)
        assert store.relays.holders(ident) == {liar.url: "queued"}
        assert store.status().relays[0].reasons == {"no answer": 1}
        await stage.passes(3_600)
        assert set(record.published) == {ident}
        assert 3 <= len(record.published) <= 12
        lie.on = False
        await stage.passes(3_600)
        assert store.relays.holders(ident)[liar.url] in {"acked", "confirmed"}
        assert [event["id"] for event in await stage.stored(liar.upstream)] == [ident]


@pytest.mark.virtual_time
async def test_p05_a_relay_that_answers_nothing_at_all_does_not_hold_up_a_sync(stage):
    """Two windows of events wait ten seconds each; the rest is not even sent, and all of it stays queued."""
    record, lie = Record(), SwallowPublish(stores=False)
    async with stage.liar(record, lie) as liar, stage.store(liar, ledger="k.db") as store:
        await store.remember_many((f"k{number}", f"{stage.plaintext} {number}") for number in range(2_000))
        (line,) = (await stage.sync(store)).relays
        assert line.seconds <= 30
        assert line.waiting == 2_000
        assert len(record.published) <= 1_000
        lie.on = False
        stage.clock.advance(60)
        (line,) = (await stage.sync(store)).relays
        assert line.waiting == 0


@pytest.mark.virtual_time
async def test_p06_refused_forever_does_not_burn(stage):
    """A thousand refused memories: each was sent once, and an hour later still; the status says how many."""
    record = Record()
    async with (
        stage.liar(record, Refuse(f"blocked: {stage.words}")) as liar,
        stage.store(liar, background=True, ledger="k.db") as store,
    ):
        await store.remember_many((f"k{number}", stage.plaintext) for number in range(1_000))
        await stage.passes(60)
        assert len(record.published) == 1_000
        for _ in range(3):
            await stage.passes(1_200)
            await stage.sync(store)
        assert len(record.published) == 1_000
        (relay,) = store.status().relays
        assert relay.events == {"refused": 1_000}
        assert relay.reasons == {"blocked": 1_000}
        assert not relay.holds_all
        questions = len(record.said("REQ")) + len(record.said("NEG-OPEN"))
        assert questions <= 3 * (3_660 / 30 + 5)


@pytest.mark.virtual_time
async def test_p06_what_was_refused_or_parked_is_sent_again_when_somebody_asks_for_it(stage):
    """A relay whose rules have changed: neither time nor a full sync tries again, the one who asks does, once."""
    record, blocks, fails = Record(), Refuse(f"blocked: {stage.words}"), Refuse("error: later")
    blocks.when, fails.on = lambda event: event["kind"] == 4, False
    async with (
        stage.liar(record, blocks, fails) as liar,
        stage.relay() as honest,
        stage.store(liar, honest, ledger="k.db") as store,
    ):
        refused = await store.journal(stage.plaintext)
        await stage.sync(store)
        fails.on = True
        parked = await store.remember("k", stage.plaintext)
        await stage.sync(store)
        stage.clock.advance(8 * 86_400)
        await stage.sync(store)
        blocks.on = fails.on = False
        tries = list(record.published)
        for full in (False, True):
            stage.clock.advance(86_401)
            await stage.sync(store, full=full)
        assert record.published == tries
        assert store.status().relays[0].events == {"refused": 1, "parked": 1}
        assert store.status().relays[0].reasons == {"blocked": 1, "relay error": 1}
        assert store.status().relays[1].events == {"confirmed": 2}

        blocks.on = True
        (line, _) = (await store.sync(retry_refused=True)).relays
        assert line.sent == {"refused": 1, "accepted": 1}
        assert record.published == [*tries, refused, parked]
        assert store.relays.holders(refused)[liar.url] == "refused"
        blocks.on = False
        (line, other) = (await store.sync(retry_refused=True)).relays
        assert line.in_step
        assert line.reasons == other.sent == {}
        assert set(store.relays.holders(refused).values()) <= {"acked", "confirmed"}
        assert {event["id"] for event in await stage.stored(liar.upstream)} == {refused, parked}


async def test_p07_acks_but_forgets(stage):
    """An OK is a claim: a full sync finds nothing there, says so, sends again, and after three times says what it is."""
    record, lie = Record(), ForgetAfterAck()
    async with stage.liar(record, lie) as liar, stage.relay() as honest:
        async with stage.store(liar, honest, ledger="k.db") as store:
            ident = await store.remember("k", stage.plaintext)
            bad, _ = (await stage.sync(store)).relays
            assert bad.in_step  # as far as words go
            assert store.relays.holders(ident)[liar.url] == "acked"
        for times in range(1, 4):
            stage.clock.advance(3_601)
            async with stage.store(liar, honest, ledger="k.db") as store:
                bad, good = (await stage.sync(store, full=True)).relays
                assert bad.pulled.missing == 1
                assert not bad.in_step
                assert good.pulled.missing == 0
                assert record.published == [ident] * (times + 1)
                assert store.relays.holders(ident) == {liar.url: "acked", honest.url: "confirmed"}
                remarks = [relay.remarks for relay in store.status().relays]
                assert remarks == [(remark_sentence(Remark.FORGETFUL if times == 3 else Remark.LOST),), ()]
                assert [relay.memories for relay in store.status().relays] == [0, 1]
                assert [relay.promised for relay in store.status().relays] == [1, 0]
        lie.on = False
        stage.clock.advance(3_601)
        async with stage.store(liar, honest, ledger="k.db") as store:
            await stage.sync(store, full=True)
            stage.clock.advance(60)
            bad, _ = (await stage.sync(store, full=True)).relays
            assert bad.pulled.missing == 0
            assert store.relays.holders(ident)[liar.url] in {"acked", "confirmed"}
            assert store.status().relays[0].remarks == ()
        assert [event["id"] for event in await stage.stored(liar.upstream)] == [ident]


@pytest.mark.parametrize("compares", [False, True])
async def test_p07_a_plain_sync_heals_once_an_hour_and_who_asks_for_everything_need_not_wait(stage, compares):
    """What a relay accepted and lost is missing there, and waits, until the relay has shown it."""
    record, lie = Record(), ForgetAfterAck()
    async with (
        stage.relay() as behind,
        FaultyRelay(behind.url, record, lie, negentropy=compares) as liar,
        stage.store(liar, ledger="k.db") as store,
    ):

        async def sync(**how):
            stage.clock.advance(60)
            (line,) = (await store.sync(**how)).relays
            return line.in_step, line.pulled.missing, line.waiting, len(record.published)

        ident = await store.remember("k", stage.plaintext)
        assert await sync() == (True, 0, 0, 1)  # as far as words go
        assert await sync() == (False, 1, 0, 2)
        assert await sync() == (False, 1, 1, 2)
        assert await sync() == (False, 1, 1, 2)
        assert store.status().relays[0].reasons == {reason_sentence(LedgerReason.LOST): 1}
        lie.on = False
        assert await sync(full=True) == (False, 1, 0, 3)
        assert await sync() == (True, 0, 0, 3)
        assert [event["id"] for event in await stage.stored(behind.url)] == [ident]

        lie.on = True
        await store.remember("l", stage.plaintext)
        assert await sync() == (True, 0, 0, 4)
        assert await sync() == (False, 1, 1, 4)
        stage.clock.advance(3_600)
        assert await sync() == (False, 1, 0, 5)


@pytest.mark.virtual_time
async def test_p16_replaced_is_a_claim(stage):
    """Nothing newer is shown: what it refused stays queued, is offered again later and later, and gets there."""
    record, lie = Record(), Refuse("replaced: have newer event")
    async with stage.liar(record, lie) as liar, stage.store(liar) as store:
        idents = {await store.remember("k", stage.plaintext)}
        await store.remember("gone", stage.plaintext)
        await store.forget("gone")
        idents.add(await store.journal(stage.plaintext))
        (line,) = (await stage.sync(store)).relays
        assert not line.in_step
        assert line.waiting == line.reasons["says it has a newer version"] == 4
        assert not store.status().relays[0].holds_all
        await stage.sync(store)
        assert len(record.published) == 4  # not for ever hot
        stage.clock.advance(3_600)
        await stage.sync(store)
        assert len(record.published) == 8

        lie.on = False
        (line,) = (await stage.sync(store, full=True)).relays  # somebody asks for it, and need not wait
        assert line.in_step
        assert line.sent == {"accepted": 4}
        assert idents <= {event["id"] for event in await stage.stored(liar.upstream)}


@pytest.mark.parametrize("word", ["replaced: have newer event", "blocked: a newer version already exists"])
async def test_p16_a_claim_that_is_proven_is_believed(stage, word):
    """Another device wrote a newer version while this one was not looking: it is pulled at once, and counts."""
    async with (
        stage.liar(Refuse(word, lambda event: "k" in event["tags"][0][1])) as liar,
        stage.store(liar) as store,
    ):
        await stage.sync(store)
        newer = await stage.event("k", "theirs", at=60)
        await stage.put(liar.upstream, newer)
        ours = await store.remember("k", stage.plaintext)
        (line,) = (await store.flush()).relays
        assert line.sent == {"superseded": 1}
        assert line.waiting == 0
        assert (await store.recall("k")).event_id == newer["id"]
        assert store.relays.holders(ours).get(liar.url, "superseded") == "superseded"
        assert (await stage.sync(store)).in_step


@pytest.mark.virtual_time
async def test_p10_rate_limit_is_respected(stage):
    """Six at once and then two in three minutes: nothing is lost, across a restart, nor tried without end."""
    record = Record()
    async with stage.liar(record, RateLimit(6, 540, stage.clock)) as liar:
        async with stage.store(liar, background=True, ledger="k.db") as store:
            idents = await store.remember_many((f"k{number}", stage.plaintext) for number in range(14))
            await stage.passes(300)
            (relay,) = store.status().relays
            assert 3 <= relay.events["queued"] <= 8
            assert relay.reasons.keys() <= {"rate-limited"}
        async with stage.store(liar, background=True, ledger="k.db") as store:
            await stage.passes(3_000)
            assert store.status().relays[0].events.get("queued", 0) == 0
        assert {event["id"] for event in await stage.stored(liar.upstream)} == set(idents)
        assert len(record.published) < 14 * 6


@pytest.fixture
def window(monkeypatch):
    """Fewer events in flight than really: to be refused, some hundred need seconds."""
    monkeypatch.setattr("sense_memory.relay.sync.relay_sync.PUBLISH_WINDOW_COUNT", WINDOW_COUNT)
    monkeypatch.setitem(RelayConnection.publish.__kwdefaults__, "window", WINDOW_COUNT)
    return WINDOW_COUNT


@pytest.mark.virtual_time
async def test_p10_a_rate_limit_pauses_the_relay_and_not_each_event(stage, window):
    """More than a window is queued and all of it is limited: a window, then one event a pause, restart or not.

    The pauses grow to an hour, and end for all as soon as one event is taken.
    """
    record, limit = Record(), Refuse("rate-limited: slow down")
    count = window + 50
    async with stage.liar(record, limit) as liar:
        async with stage.store(liar, background=True, ledger="k.db") as store:
            await store.remember_many((f"k{number}", stage.plaintext) for number in range(count))
            await stage.passes(3_600)
            assert window <= len(record.published) <= window + 8
            (relay,) = store.status().relays
            assert relay.events == {"queued": count}
            assert remark_sentence(Remark.RATE_LIMITED) in relay.remarks
        async with stage.store(liar, background=True, ledger="k.db") as store:
            await store.remember("new", stage.plaintext)
            (line,) = (await stage.sync(store)).relays
            assert line.waiting == count + 1
            assert 0 < line.paused_seconds <= 1.2 * RETRY_MAX_SECONDS
            sent = len(record.published)
            await stage.passes(6 * 3_600)
            assert 4 <= len(record.published) - sent <= 8
            limit.on = False
            await stage.passes(2 * 3_600)
            assert store.status().relays[0].events.get("queued", 0) == 0
            assert remark_sentence(Remark.RATE_LIMITED) not in store.status().relays[0].remarks


@pytest.mark.virtual_time
async def test_p10_a_rate_limit_holds_deletion_requests_and_what_was_written_anew(stage):
    """What may be removed by a request goes after it; while neither may be sent, a push ends, and says why."""
    limit = Refuse("rate-limited: slow down")
    async with stage.liar(limit) as liar, stage.store(liar, ledger="k.db") as store:
        await store.remember("other", stage.plaintext)
        await stage.sync(store)
        for _ in range(2):
            await store.remember("k", stage.plaintext)
            await store.forget("k")
            await store.remember("k", stage.plaintext)
            await stage.passes(9)  # so that no version is dated ahead
            (line,) = (await stage.sync(store)).relays
            assert line.problem == ""
            assert line.paused_seconds > 0
        limit.on = False
        await stage.passes(7_200)
        assert (await stage.sync(store)).in_step


@pytest.mark.virtual_time
async def test_p10_a_rate_limit_for_one_event_keeps_no_other_waiting(stage):
    """The first memory is limited for ever: what is written after it arrives, also with a new process each time."""
    first: list[str] = []

    def is_first(event):
        first.append(event["id"])
        return event["id"] == first[0]

    async with stage.liar(Refuse("rate-limited: slow down", is_first)) as liar:
        async with stage.store(liar, ledger="k.db") as store:
            await stage.sync(store)
            await store.remember("first", stage.plaintext)
            assert (await stage.sync(store)).relays[0].sent == {"rate-limited": 1}
            await store.remember_many((f"k{number}", stage.plaintext) for number in range(120))
        for _ in range(3):
            await stage.passes(7_200)
            async with stage.store(liar, ledger="k.db") as store:
                (line,) = (await stage.sync(store)).relays
        assert line.waiting == 1
        assert line.reasons == {"rate-limited": 1}
        assert line.paused_seconds > 0


async def test_p12_coalesce_keeps_tombstones(stage):
    """Edited, edited and forgotten while offline: one event for the address, and the kind 5."""
    record = Record()
    async with stage.liar(record) as liar:
        async with stage.store(liar, ledger="k.db") as store:
            for number in range(5):
                await store.remember("k", f"{stage.plaintext} {number}")
            request = await store.forget("k")
            for number in range(3):
                last = await store.remember("l", f"{stage.plaintext} {number}")
            waiting = store.status().relays[0].events
            assert waiting == {"queued": 3}
        async with stage.store(liar, ledger="k.db") as store:
            assert (await stage.sync(store)).in_step
            events = [frame[1] for frame in record.said("EVENT")]
            tags = [dict(tag[:2] for tag in event["tags"]) for event in events]
            assert [tag.get("d", tag.get("a", "").partition(":")[0]) for tag in tags] == [
                "sense-memory/k",
                "30078"
                if tags[1].get("a", "").startswith("30078")
                else tags[1].get("a", "").partition(":")[0],
                "sense-memory/l",
            ]
            assert [event["kind"] for event in events] == [30078, 5, 30078]
            assert events[1]["id"] == request
            assert events[2]["id"] == last
            assert await store.recall("k") is None


async def test_p13_relay_removed_and_added(stage):
    """Out of the configuration, what waited for it is cancelled and counted; back in it, it gets everything."""
    async with stage.relay() as kept, stage.relay() as other:
        async with stage.store(kept, other, ledger="k.db") as store:
            await store.remember("before", stage.plaintext)
            await stage.sync(store)
            idents = await store.remember_many((f"k{number}", stage.plaintext) for number in range(5))
        async with stage.store(kept, ledger="k.db") as store:
            assert store.relays.drop(other.url) == 5
            assert store.relays.drop(other.url) == 0
            stage.honest.discard(other.url)
            await stage.sync(store)
            assert {url for ident in idents for url in store.relays.holders(ident)} == {kept.url}
            stage.honest.add(other.url)
        assert len(await stage.stored(other.url)) == 1
        async with stage.store(kept, other, ledger="k.db") as store:
            line = (await stage.sync(store)).relays[1]
            assert line.sent == {"accepted": 5}
            assert line.in_step
        assert len(await stage.stored(other.url)) == 6


async def test_p14_disk_full(stage):
    """The disk ends at each page in turn: said as what it is, rolled back, nothing sent that was not recorded."""
    failures = 0
    theirs = [await stage.event(f"theirs{number}", "x" * 2_000, at=-number) for number in range(20)]
    for pages in range(0, 20, 2):
        record = Record()
        async with stage.liar(record) as liar, stage.relay() as honest:
            await stage.put(liar.upstream, *theirs)
            async with stage.store(liar, honest, ledger=f"{pages}.db") as store:
                database = database_of(ledger_of(store))
                (size,) = database.row("PRAGMA page_count")
                database.rows(f"PRAGMA max_page_count = {size + pages}")
                done = 0
                try:
                    for number in range(10):
                        await store.remember(f"k{number}", f"{stage.plaintext} {'x' * 2_000}")
                        done += 1
                    await store.sync()
                except StorageFullError:
                    failures += 1
                assert not database.in_transaction
                stored = [json.loads(body) for body in ledger_of(store).bodies()]
                assert {f"sense-memory/k{n}" for n in range(done)} <= {e["tags"][0][1] for e in stored}
                assert set(record.published) <= {event["id"] for event in stored}
                database.rows("PRAGMA max_page_count = 1073741823")
                await store.remember("room", stage.plaintext)
            async with stage.store(liar, honest, ledger=f"{pages}.db") as store:
                assert store.integrity() == []
                assert (await stage.sync(store)).in_step
                assert {f"k{n}" for n in range(done)} | {"room", "theirs0", "theirs19"} <= {
                    memory.key for memory in await store.recall_all()
                }
    assert 3 <= failures < 10


async def test_p14_the_background_says_it_and_goes_on(stage):
    async with stage.relay() as relay:
        await stage.put(relay.url, *[await stage.event(f"k{number}", "x" * 9_000) for number in range(50)])
        async with stage.store(ledger="k.db") as store:
            await store.remember("mine", stage.plaintext)
        store = stage.store(relay, ledger="k.db", background=True)
        stage.clock.advance(1)
        async with store:
            database = database_of(ledger_of(store))
            (size,) = database.row("PRAGMA page_count")
            database.rows(f"PRAGMA max_page_count = {size + 2}")
            await stage.until(lambda: "disk full" in store.status().relays[0].problem)
            assert (await store.recall("mine")).value == stage.plaintext
            database.rows("PRAGMA max_page_count = 1073741823")
            await stage.until(lambda: not store.status().relays[0].problem)
            assert store.status().relays[0].last_complete
            assert len(await store.recall_all()) == 51


@pytest.mark.parametrize("limit", ["message", "content", "unannounced"])
async def test_p15_event_too_large_for_one_relay(stage, limit):
    """Refused there, for what it is, before it is sent where the relay says so; it is everywhere else."""
    record = Record()
    told = {
        "message": {"max_message_length": 16_384},
        "content": {"max_content_length": 8_196},
        "unannounced": {"max_message_length": "16384"},
    }[limit]
    refuse = Refuse("invalid: event too large", lambda event: len(json.dumps(event)) > 16_384)
    async with (
        stage.liar(record, Information({"limitation": told}), refuse) as small,
        stage.relay() as large,
        stage.store(small, large, ledger="k.db") as store,
    ):
        long = await store.remember("long", f"{stage.plaintext} " * 2_000)
        short = await store.remember("short", stage.plaintext)
        bad, good = (await stage.sync(store)).relays

        assert bad.reasons == {"too large for this relay": 1}
        assert (bad.refused, bad.waiting) == (1, 0)
        assert good.in_step
        assert store.relays.holders(long) == {small.url: "refused", large.url: "acked"}
        assert set(store.relays.holders(short).values()) == {"acked"}
        assert record.published == ([short] if limit != "unannounced" else [long, short])
        assert store.status().relays[0].reasons == {"too large for this relay": 1}

        shorter = await store.remember("long", stage.plaintext)
        assert (await stage.sync(store)).in_step
        assert {event["id"] for event in await stage.stored(small.upstream)} == {short, shorter}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"max_message_length": 16_384},
            r"accepts messages of at most 16,384 bytes, and this message has \d\d,\d{3}",
        ),
        (
            {"max_content_length": 8_196},
            r"accepts contents of at most 8,196 characters, and this content has \d\d,\d{3}",
        ),
    ],
)
async def test_p15_what_a_relay_said_it_will_not_take_is_told(stage, told, words):
    """Known once it was reached: of that relay, for that memory. It is kept all the same, and goes elsewhere."""
    async with (
        stage.liar(Information({"limitation": told})) as small,
        stage.relay() as large,
        stage.store(small, large, ledger="k.db") as store,
    ):
        await store.remember("long", f"{stage.plaintext} " * 2_000)  # no relay was asked yet
        await stage.sync(store)
        calls = {
            "long": lambda text: store.remember("long", text),
            "a journal entry": store.journal,
            "people/facts/lisa": lambda text: store.persona_remember("people", "facts", "lisa", text),
        }
        for name, call in calls.items():
            with pytest.warns(
                RelayLimitWarning, match=f"{re.escape(small.url)} will refuse {name}: the relay {words}"
            ) as seen:
                ident = await call(f"{stage.plaintext} " * 2_100)
            assert (len(seen), stage.plaintext in str(seen[0].message)) == (1, False)
            assert seen[0].filename == __file__
            await stage.sync(store)
            assert store.relays.holders(ident) == {small.url: "refused", large.url: "acked"}
            await call(stage.plaintext)  # short: no warning, which would be an error here
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ident = await store.remember("new", f"{stage.plaintext} " * 2_100)
        assert (
            await store.recall("new")
        ).event_id == ident  # it is written, and no error says that it is not


@pytest.mark.parametrize("says_why", [True, False], ids=["code 1009", "without a word"])
async def test_p17_too_large_without_being_told(stage, says_why):
    """Three of forty events make the relay hang up: those are refused, the others arrive, and one can ask again."""
    large = HangUpAt(lambda event: len(event["content"]) > 8_000, says_why=says_why)
    reason = "too large for this relay" if says_why else "the relay disconnects when it receives this event"
    async with stage.liar(record := Record(), large) as liar, stage.store(liar) as store:
        await stage.sync(store)
        small = [await store.remember(f"k{number}", stage.plaintext) for number in range(20)]
        for size in (7_000, 9_000, 20_000):
            await store.remember(f"large {size}", "x" * size)
        small += [await store.remember(f"l{number}", stage.plaintext) for number in range(17)]
        for _ in range(3):
            (line,) = (await stage.sync(store)).relays
        assert line.problem == ""
        assert not line.in_step
        assert (line.waiting, line.refused, line.reasons) == (0, 3, {reason: 3})
        assert {event["id"] for event in await stage.stored(liar.upstream)} == set(small)
        sent = len(record.published)
        await stage.sync(store, full=True)
        assert len(record.published) == sent

        large.on = False
        (line,) = (await store.sync(retry_refused=True)).relays
        assert line.in_step
        assert len(await stage.stored(liar.upstream)) == 40


async def test_p17_trouble_of_the_network_refuses_nothing(stage):
    """The line is cut at whatever event is sent, whichever it is, until it holds again."""
    cut = HangUpAt(lambda event: True, says_why=False)
    async with stage.liar(cut) as liar, stage.store(liar) as store:
        await stage.sync(store)
        idents = {await store.remember(f"k{number}", stage.plaintext) for number in range(5)}
        for _ in range(2):
            (line,) = (await stage.sync(store)).relays
            assert line.problem.startswith("connection lost")
            assert (line.waiting, line.refused) == (5, 0)
        cut.on = False
        (line,) = (await stage.sync(store)).relays
        assert line.in_step
        assert {event["id"] for event in await stage.stored(liar.upstream)} == idents
