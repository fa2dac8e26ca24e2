"""Comparisons (NIP-77) and counts (NIP-45) at the embedded relay: its limits, its manners, and large sets.

What every relay has to do stands in the relay contract; that ours agrees with nostr-sdk's client, here.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sqlite3

import nostr_sdk
import pytest

from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import Initiator, Items
from sense_memory.nostr.signer import LocalSigner
from sense_memory.relay.server.client_handler import INBOX_COUNT, ServerComparisons
from sense_memory.relay.server.event_store import EventStore
from sense_memory.relay.server.server import EmbeddedRelay
from sense_memory.relay.server.session import RelayLimits
from tests.relay.server.client import dial
from tests.time_unit import SECOND


SIGNER = LocalSigner.from_hex("17" * 32)
NOW = 1_800_000_000
NO_IDS, IN_STEP = "6100000200", "61"


async def sign(content="", *, kind=1, tags=(), at=NOW):
    event = await SIGNER.sign(Unsigned(at, kind, tuple(map(tuple, tags)), content))
    return json.loads(event.body())


# ── Its limits ──────────────────────────────────────────────────────────────────────────


async def test_four_comparisons_are_open_at_once_and_a_closed_one_makes_room(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client, dial(relay.url) as other:
        for name in ("a", "b", "c", "d", "a"):  # the last replaces the first
            await client.send("NEG-OPEN", name, {}, NO_IDS)
            assert await client.next() == ["NEG-MSG", name, NO_IDS]
        await client.send("NEG-OPEN", "e", {}, NO_IDS)
        assert await client.next() == ["NEG-ERR", "e", "blocked: too many comparisons at once"]
        await other.send("NEG-OPEN", "e", {}, NO_IDS)
        assert await other.next() == ["NEG-MSG", "e", NO_IDS]
        await client.send("NEG-CLOSE", "b")
        await client.send("NEG-OPEN", "e", {}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "e", NO_IDS]


@pytest.mark.parametrize("message", ["", "61000003", "6100000205", "7100"])
async def test_an_invalid_message_ends_its_comparison_only(clock, message):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        for name in ("a", "b"):
            await client.send("NEG-OPEN", name, {}, NO_IDS)
            assert await client.next() == ["NEG-MSG", name, NO_IDS]
        await client.send("NEG-MSG", "a", message)
        assert await client.next() == ["NEG-ERR", "a", "error: invalid negentropy message"]
        await client.send("NEG-MSG", "a", NO_IDS)
        assert await client.next() == ["NEG-ERR", "a", "closed: unknown subscription"]
        await client.send("NEG-MSG", "b", NO_IDS)
        assert await client.next() == ["NEG-MSG", "b", NO_IDS]
        await client.send("NEG-OPEN", "c", {}, message)
        assert await client.next() == ["NEG-ERR", "c", "error: invalid negentropy message"]


async def test_a_filter_that_asks_for_too_much_is_refused():
    wanted = {"kinds": list(range(5_001))}
    async with EmbeddedRelay() as relay, dial(relay.url) as client:
        for frame, verb in (
            (("NEG-OPEN", "s", wanted, NO_IDS), "NEG-ERR"),
            (("COUNT", "s", wanted), "CLOSED"),
        ):
            await client.send(*frame)
            assert await client.next() == [verb, "s", "invalid: more than 5000 values in a filter"]
        await client.send("COUNT", "s", *[{}] * 51)
        assert await client.next() == ["CLOSED", "s", "invalid: more than 50 filters"]


async def test_a_relay_that_asks_for_authentication_compares_and_counts_for_nobody_else(clock):
    async with EmbeddedRelay(require_auth=True, clock=clock) as relay, dial(relay.url) as client:
        refusal = "auth-required: this relay serves authenticated clients only"
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        assert await client.next() == ["NEG-ERR", "n", refusal]
        await client.send("NEG-MSG", "n", NO_IDS)
        assert await client.next() == ["NEG-ERR", "n", "closed: unknown subscription"]
        await client.send("COUNT", "c", {})
        assert await client.next() == ["CLOSED", "c", refusal]

        tags = [["relay", relay.url], ["challenge", client.challenge]]
        await client.send("AUTH", await sign(kind=22242, tags=tags))
        assert (await client.next())[2] is True
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", NO_IDS]
        await client.send("COUNT", "c", {})
        assert await client.next() == ["COUNT", "c", {"count": 0}]


# ── What is compared ────────────────────────────────────────────────────────────────────


async def test_a_limit_means_the_newest(clock):
    events = [await sign(str(number), at=NOW - number) for number in range(5)]
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.put(*events)
        await client.send("NEG-OPEN", "n", {"limit": 2}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", "6100000202" + events[1]["id"] + events[0]["id"]]
        await client.send("NEG-OPEN", "n", {"limit": 0}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", NO_IDS]
        await client.send("COUNT", "c", {"limit": 2})
        assert await client.next() == ["COUNT", "c", {"count": 5}]


async def test_what_has_expired_is_neither_compared_nor_counted(clock):
    short = await sign("short", tags=[["expiration", str(NOW + 10)]])
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.put(short)
        clock.advance(11)
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", NO_IDS]
        await client.send("COUNT", "c", {})
        assert await client.next() == ["COUNT", "c", {"count": 0}]


async def test_what_was_published_before_on_the_same_connection_is_compared(clock):
    event = await sign()
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.send("EVENT", event)
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        await client.send("COUNT", "c", {})
        frames = sorted([await client.next() for _ in range(3)])
        assert frames == [
            ["COUNT", "c", {"count": 1}],
            ["NEG-MSG", "n", "6100000201" + event["id"]],
            ["OK", event["id"], True, ""],
        ]


async def test_an_open_comparison_stands_still(clock):
    first, second = await sign("first"), await sign("second")
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client, dial(relay.url) as other:
        await other.put(first)
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", "6100000201" + first["id"]]
        await other.put(second)
        await client.send("NEG-MSG", "n", NO_IDS)
        assert await client.next() == ["NEG-MSG", "n", "6100000201" + first["id"]]


async def test_every_message_of_a_client_in_a_hurry_is_answered_in_order(clock):
    event = await sign()
    known = "6100000201" + event["id"]
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.put(event)
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        await client.send("NEG-MSG", "n", "61000000")
        await client.send("NEG-MSG", "n", NO_IDS)
        assert [await client.next() for _ in range(3)] == [
            ["NEG-MSG", "n", known],
            ["NEG-MSG", "n", IN_STEP],
            ["NEG-MSG", "n", known],
        ]


# ── Large sets ──────────────────────────────────────────────────────────────────────────


class SlowEventStore:
    """An event store of so many parts; tells when one was read."""

    def __init__(self, parts, fault=None) -> None:
        self.parts, self.fault, self.read = parts, fault, []

    def iter_pairs(self, wanted, now):
        for number, part in enumerate(self.parts):
            self.read.append(number)
            yield part
        if self.fault:
            raise self.fault


@pytest.fixture
def parts():
    rng = random.Random(5)
    return [[(NOW + number, rng.randbytes(32)) for number in range(100)] for _ in range(10)]


class Heard(list):
    """Frames that comparisons sent."""

    def __init__(self) -> None:
        super().__init__()
        self.news = asyncio.Event()

    def __call__(self, frames) -> None:
        self.extend(map(json.loads, frames))
        self.news.set()

    async def next(self):
        async with asyncio.timeout(5 * SECOND):
            while not self:
                self.news.clear()
                await self.news.wait()
        return self.pop(0)


async def test_others_have_their_turn_between_the_parts_of_a_large_set(parts):
    heard, event_store, turns = Heard(), SlowEventStore(parts), []

    async def somebody_else():
        while not heard:
            turns.append(len(event_store.read))
            await asyncio.sleep(0)

    comparisons = ServerComparisons(event_store, RelayLimits(), heard)
    comparisons.open("n", Filter(), bytes.fromhex("61"), NOW)
    assert event_store.read == []
    await somebody_else()
    assert set(range(1, 11)) <= set(turns)
    assert await heard.next() == ["NEG-MSG", "n", IN_STEP]
    await asyncio.gather(*comparisons.end(), return_exceptions=True)


async def test_a_set_that_is_too_large_is_not_even_read_to_the_end(parts):
    heard, event_store = Heard(), SlowEventStore(parts)
    comparisons = ServerComparisons(event_store, RelayLimits(max_compared=250), heard)
    comparisons.open("n", Filter(), bytes.fromhex("61"), NOW)
    assert await heard.next() == ["NEG-ERR", "n", "blocked: too many events match"]
    assert event_store.read == [0, 1, 2]
    comparisons.continue_comparison("n", bytes.fromhex("61"))
    assert await heard.next() == ["NEG-ERR", "n", "closed: unknown subscription"]


async def test_a_client_that_sends_and_never_listens_is_stopped(parts):
    heard, event_store = Heard(), SlowEventStore(parts)
    comparisons = ServerComparisons(event_store, RelayLimits(), heard)
    comparisons.open("n", Filter(), bytes.fromhex("61"), NOW)
    for _ in range(INBOX_COUNT):
        comparisons.continue_comparison("n", bytes.fromhex("61"))
    assert await heard.next() == ["NEG-ERR", "n", "blocked: too many messages at once"]


async def test_a_disk_that_fails_ends_the_comparison_with_a_word(parts):
    heard, event_store = Heard(), SlowEventStore(parts, sqlite3.OperationalError("disk I/O error"))
    comparisons = ServerComparisons(event_store, RelayLimits(), heard)
    comparisons.open("n", Filter(), bytes.fromhex("61"), NOW)
    assert await heard.next() == ["NEG-ERR", "n", "error: the relay's storage failed, try again later"]


@pytest.mark.parametrize("fails_at", [0, 2], ids=["at once", "in the middle"])
async def test_a_disk_that_fails_ends_the_answer_with_a_word_and_the_subscription(
    clock, monkeypatch, fails_at
):
    """The client need not wait for the end of an answer that does not come."""
    read, events, later = (
        EventStore.body,
        [await sign(str(number)) for number in range(4)],
        await sign("later"),
    )
    bodies = itertools.count()

    def body(store, seq, now):
        if next(bodies) == fails_at:
            raise sqlite3.OperationalError("disk I/O error")
        return read(store, seq, now)

    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.put(*events)
        monkeypatch.setattr(EventStore, "body", body)
        await client.send("REQ", "r", {"kinds": [1]})
        assert await client.next() == ["CLOSED", "r", "error: the relay's storage failed, try again later"]
        await client.put(later)  # nothing else is sent: the subscription has ended
        await client.send("REQ", "r", {"ids": [later["id"]]})
        assert [await client.next() for _ in range(2)] == [["EVENT", "r", later], ["EOSE", "r"]]


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(parts):
    heard, event_store = Heard(), SlowEventStore(parts)
    comparisons = ServerComparisons(event_store, RelayLimits(), heard)
    comparisons.open("n", Filter(), bytes.fromhex("61"), NOW)
    await asyncio.sleep(0)
    tasks = comparisons.end()
    async with asyncio.timeout(5 * SECOND):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert [task.cancelled() for task in tasks] == [True]
    assert event_store.read == [0]
    assert heard == []


async def test_a_relay_stops_while_comparisons_are_open(clock):
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.send("NEG-OPEN", "n", {}, NO_IDS)
        await client.next()
        async with asyncio.timeout(5 * SECOND):
            await relay.__aexit__(None, None, None)


# ── The truth ───────────────────────────────────────────────────────────────────────────


async def learn(client, events, **wanted):
    """What our initiator learns from the relay, given some events of its own."""
    initiator = Initiator(
        Items([(event["created_at"], bytes.fromhex(event["id"])) for event in events]), 4_096
    )
    have, need, message = set(), set(), initiator.first()
    await client.send("NEG-OPEN", "n", wanted, message.hex())
    while message is not None:
        kind, _, answer = await client.next()
        assert kind == "NEG-MSG"
        step = initiator.reconcile(bytes.fromhex(answer))
        have |= {ident.hex() for ident in step.have}
        need |= {ident.hex() for ident in step.need}
        if (message := step.message) is not None:
            await client.send("NEG-MSG", "n", message.hex())
    await client.send("NEG-CLOSE", "n")
    return have, need


@pytest.fixture(scope="module")
def events():
    """Four hundred notes, some of which share their seconds."""
    rng = random.Random(77)

    async def make():
        return [await sign(str(number), at=NOW - rng.randrange(150)) for number in range(400)]

    return asyncio.run(make())


async def test_the_relay_tells_the_truth_about_any_two_sets(clock, events):
    rng = random.Random(78)
    theirs = rng.sample(events, 300)
    async with EmbeddedRelay(clock=clock) as relay, dial(relay.url) as client:
        await client.put(*theirs)
        for count in (0, 1, 31, 200, 400):
            ours = rng.sample(events, count)
            own, told = {event["id"] for event in ours}, {event["id"] for event in theirs}
            assert await learn(client, ours, kinds=[1]) == (own - told, told - own)
        assert await learn(client, theirs) == (set(), set())


async def test_the_client_of_nostr_sdk_gets_in_step_with_our_relay(events, tmp_path):
    nostr_sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    database = await nostr_sdk.NostrLmdb.open(str(tmp_path))
    own = [nostr_sdk.Event.from_json(json.dumps(event)) for event in events[150:]]
    await asyncio.gather(*map(database.save_event, own))
    peer = nostr_sdk.ClientBuilder().database(database).build()
    options = nostr_sdk.SyncOptions().direction(nostr_sdk.SyncDirection.BOTH)
    async with EmbeddedRelay(clock=lambda: NOW) as relay, dial(relay.url) as client:
        await client.put(*events[:250])
        await peer.add_relay(nostr_sdk.RelayUrl.parse(relay.url))
        await peer.connect()
        async with asyncio.timeout(30 * SECOND):
            summary = await peer.sync(nostr_sdk.Filter().kind(nostr_sdk.Kind(1)), opts=options)
        await peer.shutdown()
        await client.send("COUNT", "c", {})
        assert await client.next() == ["COUNT", "c", {"count": 400}]
    assert {ident.to_hex() for ident in summary.report.remote} == {event["id"] for event in events[:150]}
