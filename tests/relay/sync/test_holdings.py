"""What each relay holds beside what the ledger holds: through `MemoryStore`, in front of honest relays and liars."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import time
from contextlib import asynccontextmanager

import pytest

from relays.faults import Deaf, Fault, FaultyRelay, HidesKinds, Information, NoNegentropy, Record
from sense_memory import Holding, MemoryStore, Timeouts
from sense_memory.errors import RelayError
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.filters import Filter
from sense_memory.relay.client.connection import RelayConnection
from sense_memory.relay.sync.holdings import Method
from sense_memory.relay.sync.walk import HIDDEN
from tests.inside import database_of, ledger_of
from tests.local_relays import PATIENT, embedded, nostr_sdk
from tests.time_unit import SECOND


READS = {"REQ", "NEG-OPEN", "NEG-MSG", "NEG-CLOSE", "COUNT", "CLOSE"}


@pytest.fixture
def clock(clock):
    clock.now = float(int(time.time()) - 1_000_000)  # nostr-sdk's relay reads the real clock
    return clock


@pytest.fixture(params=[embedded, nostr_sdk], ids=lambda start: start.__name__)
def any_relay(request, clock):
    """Our relay, and nostr-sdk's: both compare, and say so."""
    return lambda: request.param(clock)


@pytest.fixture
def device(signer, clock):
    """A machine with the agent's key."""

    def make(*relays, ledger=":memory:", timeouts=PATIENT):
        return MemoryStore(signer, relays, ledger=ledger, background=False, clock=clock, timeouts=timeouts)

    return make


@pytest.fixture
def put(signer):
    """Publishes an event of this key as another program would."""

    async def publish(url, clock, kind=30078, tags=(("d", "another-program"),)):
        event = await signer.sign(Unsigned(int(clock()), kind, tuple(tags), "theirs"))
        async with RelayConnection(url, public_key=signer.public_key, timeouts=PATIENT) as connection:
            async for _, verdict in connection.publish([(event.id, event.body())]):
                assert not verdict.reason

    return publish


def numbers(holding):
    return holding.here, holding.there, holding.missing_there, holding.missing_here


def everything_in(store):
    """The whole ledger, row by row."""
    db = database_of(ledger_of(store))
    tables = [
        name for (name,) in db.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    return {name: db.rows(f"SELECT * FROM {name}") for name in tables}


# ── Exactly ─────────────────────────────────────────────────────────────────────────────


async def test_in_step_both_hold_the_same(any_relay, device):
    async with any_relay() as url, device(url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(150))
        await store.journal("entry")
        assert (await store.sync()).in_step

        (found,) = await store.relays.holdings()

        assert found == Holding(url, "negentropy", 151, 151, 0, 0)


async def test_differences_are_counted_both_ways(any_relay, device, clock):
    async with any_relay() as url, device(url) as one, device(url) as two:
        await one.remember_many((f"key {number}", "first") for number in range(40))
        await one.sync()
        await two.sync()
        clock.advance(10)
        await one.remember("key 1", "changed")
        await one.remember("only one", "v")
        await two.remember_many([("only two", "v"), ("two more", "v")])
        await two.sync()

        (found,) = await one.relays.holdings()

        assert numbers(found) == (41, 41, 2, 2)  # the old version of `key 1` there is no event of its own


async def test_what_was_forgotten_and_settled_is_not_missing(any_relay, device, clock):
    async with any_relay() as url, device(url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(5))
        entry = await store.journal("entry")
        await store.sync()
        clock.advance(10)
        await store.forget("key 1")
        await store.forget("never there")
        await store.journal.forget(entry)
        await store.sync()

        (found,) = await store.relays.holdings()

        assert (found.missing_there, found.missing_here) == (0, 0)
        assert found.here == found.there == 4 + 3  # the memories and the deletion requests


async def test_other_programs_events_count_until_a_sync_has_looked_at_them(any_relay, device, put, clock):
    async with any_relay() as url, device(url) as store:
        await store.remember("key", "value")
        await store.sync()
        await put(url, clock)

        assert [numbers(holding) for holding in await store.relays.holdings()] == [(1, 2, 0, 1)]
        await store.sync()
        assert [numbers(holding) for holding in await store.relays.holdings()] == [(1, 1, 0, 0)]


async def test_asking_writes_nothing_anywhere(device, clock):
    async with embedded(clock) as url:
        async with device(url) as other:
            await other.remember("there", "v")
            await other.sync()
        record = Record()
        async with FaultyRelay(url, record, negentropy=True) as proxy, device(proxy.url) as store:
            await store.remember_many((f"key {number}", "value") for number in range(30))
            before = everything_in(store)

            (found,) = await store.relays.holdings()

            assert numbers(found) == (30, 1, 30, 1)
            assert everything_in(store) == before
            assert {frame[0] for who, frame in record.frames if who == "client"} <= READS


# ── By numbers ──────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def counting(clock, *faults):
    """A relay that counts and does not compare, and what was said to it."""
    record = Record()
    async with embedded(clock) as url, FaultyRelay(url, record, *faults, NoNegentropy()) as proxy:
        record.url, record.upstream = proxy.url, url
        yield record


async def test_a_relay_that_only_counts_gives_numbers(device, clock):
    async with counting(clock) as record, device(record.url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(30))
        await store.journal("entry")
        await store.sync()
        await store.forget("key 1")
        await store.sync()
        record.frames.clear()

        (found,) = await store.relays.holdings()

        assert found == Holding(record.url, "count", 31, 31, 0, 0)
        assert {frame[0] for who, frame in record.frames if who == "client"} <= READS
        assert len(record.said("COUNT")) == 3


async def test_numbers_show_at_least_so_many_that_are_missing(device, put, clock):
    async with counting(clock) as record, device(record.url) as store:
        await store.remember("key", "value")
        await store.sync()
        await store.journal("never sent")
        await put(record.upstream, clock)

        (found,) = await store.relays.holdings()

        assert found.method == "count"
        assert numbers(found) == (2, 2, 1, 1)  # by kind: the sums alone are equal


class Counts(Fault):
    """Answers every COUNT in its own way."""

    def __init__(self, *answer) -> None:
        super().__init__()
        self.answer = answer

    def from_client(self, frame, talk):
        if frame[0] == "COUNT":
            talk.answer(
                *(
                    [*part[:1], frame[1], *part[1:]] if part[0] != "NOTICE" else list(part)
                    for part in self.answer
                )
            )
        else:
            yield frame


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "went silent"),
        ([("NOTICE", "unknown command")], "answered with a notice only"),
        ([("CLOSED", "error: \x1b[31mno")], "relay error"),
        ([("COUNT", {"count": "\x1b[31m7"})], "went silent"),
        ([("COUNT", {"count": -1})], "went silent"),
        ([("COUNT", {})], "went silent"),
        ([("CLOSED", "auth-required: still"), ("CLOSED", "auth-required: still")], "authentication refused"),
    ],
)
async def test_a_count_that_is_none_is_said_and_not_believed(device, clock, answer, problem):
    async with counting(clock, Counts(*answer)) as record, device(record.url) as store:
        await store.remember("key", "value")
        async with asyncio.timeout(PATIENT.total):
            (found,) = await store.relays.holdings()

    assert found == Holding(record.url, "unknown", 1, problem=problem)


async def test_a_relay_that_does_neither_is_no_problem_and_not_known(device, clock):
    plain = Information({"supported_nips": [1, 9, 11]})
    async with counting(clock, plain) as record, device(record.url) as store:
        await store.remember("key", "value")
        assert await store.relays.holdings() == [Holding(record.url, "unknown", 1)]
        assert not record.said("COUNT")


@pytest.mark.virtual_time
async def test_a_relay_that_says_nothing_about_itself_is_tried_for_a_short_while(device, clock):
    mute = Information(b"no json")
    async with counting(clock, Counts(), mute) as record, device(record.url) as store:
        await store.remember("key", "value")
        async with asyncio.timeout(2.5 * PATIENT.notice_settle):  # a comparison and a count
            assert await store.relays.holdings() == [Holding(record.url, "unknown", 1)]
    async with counting(clock, mute) as record, device(record.url) as store:
        await store.remember("key", "value")
        assert [numbers(holding) for holding in await store.relays.holdings()] == [(1, 0, 1, 0)]


# ── Relays that fail ────────────────────────────────────────────────────────────────────


@pytest.mark.virtual_time
async def test_a_relay_that_is_down_or_deaf_is_a_line_among_others(device, clock):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        down = f"ws://127.0.0.1:{probe.getsockname()[1]}"
        async with (
            embedded(clock) as url,
            FaultyRelay(url, Deaf(0), negentropy=True) as deaf,
            device(down, deaf.url, url, timeouts=Timeouts()) as store,
        ):
            await store.remember("key", "value")
            async with asyncio.timeout(
                30
            ):  # of virtual time: silence after 10 s, for a comparison and for a count
                found = await store.relays.holdings()

    assert [holding.method for holding in found] == ["unknown", "unknown", "negentropy"]
    assert [holding.problem for holding in found] == ["refused the connection", "went silent", ""]
    assert [holding.here for holding in found] == [1, 1, 1]


class ClaimsEverything(Fault):
    """Claims ids that nobody has, as long as it is listened to."""

    def from_client(self, frame, talk):
        if frame[0] in {"NEG-OPEN", "NEG-MSG"}:
            ids = b"".join(self.random.randbytes(32) for _ in range(100))
            talk.answer(["NEG-MSG", frame[1], (b"\x61\x00\x00\x02\x64" + ids).hex()])
        else:
            yield frame


async def test_claims_are_told_as_claims_and_change_nothing(device, clock):
    async with (
        embedded(clock) as url,
        FaultyRelay(url, ClaimsEverything(), negentropy=True) as liar,
        device(liar.url) as store,
    ):
        await store.remember("key", "value")
        before = everything_in(store)

        (found,) = await store.relays.holdings()

        assert numbers(found) == (1, 100, 1, 100)
        assert everything_in(store) == before


async def test_a_relay_that_never_ends_is_cut_off(device, clock, monkeypatch):
    monkeypatch.setattr("sense_memory.relay.sync.holdings.HOLDINGS_SECONDS", 0.3)
    async with (
        embedded(clock) as url,
        FaultyRelay(url, Deaf(0), negentropy=True) as deaf,
        device(deaf.url) as store,
        asyncio.timeout(5 * SECOND),
    ):
        assert (await store.relays.holdings())[0].problem == "took too long"


async def test_without_relays_nobody_is_asked(device):
    async with device() as store:
        assert await store.relays.holdings() == []


# ── COUNT on a connection ───────────────────────────────────────────────────────────────


async def test_a_connection_counts_pages_and_compares_at_once(any_relay, signer, device):
    ours = [Filter(authors=(signer.public_key,))]
    async with any_relay() as url, device(url) as store:
        await store.remember_many((f"key {number}", "value") for number in range(20))
        await store.sync()
        async with RelayConnection(url, public_key=signer.public_key, timeouts=PATIENT) as connection:
            counted, page = await asyncio.gather(connection.count(ours), connection.fetch(ours))
            assert (counted.count, len(page.events)) == (20, 20)
            await connection.close()
            with pytest.raises(RelayError):
                await connection.count(ours)


def test_a_holding_is_plain_data():
    shown = json.loads(json.dumps(dataclasses.asdict(Holding("wss://a.example", "count", 3, 2, 1, 0))))

    assert shown == {
        "url": "wss://a.example",
        "method": "count",
        "here": 3,
        "there": 2,
        "missing_there": 1,
        "missing_here": 0,
        "problem": "",
    }


NOT_COMPARED = "does not compare journal entries (kind 4)"


@pytest.mark.parametrize(
    ("hides", "compares", "expected"),
    [
        ({"auth": "works"}, True, (Method.COUNT, 12, 12, 0, 0, "")),
        ({"auth": "works"}, False, (Method.COUNT, 12, 12, 0, 0, "")),
        ({"auth": "works", "counts": False}, True, (Method.NEGENTROPY, 10, 10, 0, 0, NOT_COMPARED)),
        ({"auth": "refused"}, True, (Method.NEGENTROPY, 10, 10, 0, 0, HIDDEN)),
        ({"auth": "refused", "counts": False}, True, (Method.NEGENTROPY, 10, 10, 0, 0, HIDDEN)),
        ({"auth": "refused"}, False, (Method.COUNT, 10, 10, 0, 0, HIDDEN)),
        ({"auth": "no challenge"}, False, (Method.COUNT, 10, 10, 0, 0, HIDDEN)),
    ],
)
@pytest.mark.virtual_time
async def test_a_journal_that_the_relay_hides_is_not_said_to_be_missing_and_the_rest_is_compared(
    device, clock, hides, compares, expected
):
    """strfry counts it for those that it knows."""
    faults = [HidesKinds(4, **hides), *([] if compares else [NoNegentropy()])]
    async with embedded(clock) as url, FaultyRelay(url, *faults, negentropy=compares) as proxy:
        async with device(proxy.url) as store:
            await store.remember_many((f"key {number}", "value") for number in range(10))
            await store.journal("one")
            await store.journal("two")
            await store.sync()
            (found,) = await store.relays.holdings()
        told = (found.method, found.here, found.there, found.missing_there, found.missing_here, found.problem)
        assert told == expected


@pytest.mark.virtual_time
async def test_a_device_without_a_journal_notices_that_a_relay_hides_it(device, clock):
    async with (
        embedded(clock) as url,
        FaultyRelay(url, HidesKinds(4), negentropy=True) as proxy,
        device(proxy.url) as store,
    ):
        await store.remember("key", "value")
        await store.sync()
        assert (await store.relays.holdings())[0].problem == HIDDEN
