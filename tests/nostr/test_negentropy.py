"""Negentropy: exact differences between any two sets, whatever the frames' size, and nothing worse than an
error from a peer that lies. Judged by nostr-sdk's relay as responder, and by its client as initiator."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from contextlib import asynccontextmanager, suppress

import nostr_sdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from sense_memory.errors import MalformedFrame
from sense_memory.nostr.event import Unsigned
from sense_memory.nostr.negentropy import Initiator, Items, Responder
from tests.time_unit import SECOND


DONE = b"\x61"  # a message in which everything is skipped
SHAPES = {
    "random": lambda rng: rng.randbytes(32),
    "alike": lambda rng: bytes(range(1, 17)) + rng.randbytes(16),
    "zeros at the end": lambda rng: rng.randbytes(16) + bytes(16),
    "zeros within": lambda rng: rng.randbytes(1) + bytes(15) + rng.randbytes(16),
}  # all with enough entropy: a fingerprint is a hash of a sum, and sums of short numbers collide


def make_pairs(seed, count, seconds, shape="random"):
    """(time, id) pairs within so many seconds."""
    rng = random.Random(seed)
    return [(1_700_000_000 + rng.randrange(seconds), SHAPES[shape](rng)) for _ in range(count)]


def converse(ours, theirs, frame=60_000, answer_frame=60_000):
    """Reconcile to the end. What the initiator learned, the rounds it took, and the bytes both ways."""
    initiator, responder = Initiator(Items(ours), frame), Responder(Items(theirs), answer_frame)
    have, need, rounds, size = [], [], 0, 0
    message = initiator.first()
    while message is not None:
        reply = responder.reply(message)
        assert len(message) <= frame
        assert len(reply) <= answer_frame
        rounds, size = rounds + 1, size + len(message) + len(reply)
        step = initiator.reconcile(reply)
        have += step.have
        need += step.need
        message = step.message
    return have, need, rounds, size


def assert_exact(ours, theirs, have, need):
    ours, theirs = {ident for _, ident in ours}, {ident for _, ident in theirs}
    assert sorted(have) == sorted(ours - theirs)
    assert sorted(need) == sorted(theirs - ours)


# ── Exactness ───────────────────────────────────────────────────────────────────────────


def shares():
    return st.sampled_from([0.0, 0.002, 0.05, 0.5, 1.0])


@settings(max_examples=50, deadline=None)
@given(
    count=st.sampled_from([0, 1, 2, 31, 32, 33, 100, 513, 1_500, 2_500]),
    pairs=st.tuples(st.sampled_from([1, 2, 50, 10_000_000]), st.sampled_from(list(SHAPES))),
    lost=st.tuples(shares(), shares()),
    frames=st.tuples(*[st.sampled_from([4_096, 5_000, 20_000, 60_000])] * 2),
    seed=st.integers(0, 2**32),
)
def test_both_differences_are_found_exactly_and_in_few_rounds(count, pairs, lost, frames, seed):
    pairs, rng = make_pairs(seed, count, *pairs), random.Random(seed)
    ours = [pair for pair in pairs if rng.random() >= lost[0]]
    theirs = [pair for pair in pairs if rng.random() >= lost[1]]
    rng.shuffle(ours)
    have, need, rounds, _ = converse(ours, theirs, *frames)
    assert_exact(ours, theirs, have, need)
    assert rounds <= 10 + 3 * 32 * len(pairs) / min(frames)


def test_sets_in_step_cost_one_round_and_few_bytes():
    pairs = make_pairs(1, 10_000, 10_000_000)
    have, need, rounds, size = converse(pairs, pairs)
    assert (have, need, rounds) == ([], [], 1)
    assert size <= 250


def test_a_hundred_scattered_differences_in_ten_thousand_cost_less_than_their_ids_in_full():
    pairs = make_pairs(1, 10_000, 10_000_000)
    lost = set(random.Random(2).sample(range(10_000), 100))
    ours = [pair for at, pair in enumerate(pairs) if at not in lost]
    have, need, rounds, size = converse(ours, pairs)
    assert_exact(ours, pairs, have, need)
    assert rounds <= 4
    assert size <= 45_000  # 90 KB in hex; all ids would be 640 KB


def test_what_is_new_at_the_end_is_found_cheaply():
    pairs = sorted(make_pairs(1, 10_000, 10_000_000))
    have, need, rounds, size = converse(pairs, pairs[:-20])
    assert_exact(pairs, pairs[:-20], have, need)
    assert rounds <= 4
    assert size <= 3_000


def test_a_difference_is_told_once_even_where_a_short_frame_makes_its_range_come_up_again():
    ours, theirs = make_pairs(1, 3_000, 1_000), make_pairs(2, 3_000, 1_000)
    have, need, rounds, _ = converse(ours, theirs, 4_096, 4_096)
    assert rounds > 20
    assert_exact(ours, theirs, have, need)


# ── Bytes, written out by hand from the protocol's text ─────────────────────────────────


X, Y, Z = b"\x01" * 32, b"\x02" * 32, b"\x02\x03" + bytes(30)


def test_the_first_message_of_an_empty_set_lists_nothing_up_to_infinity():
    assert Initiator(Items([])).first() == bytes.fromhex("61 00 00 02 00")


UNLIKE_ANY = bytes.fromhex("61 00 00 01") + bytes(16)


def message_of(*parts):
    """Adjacent pieces by their fingerprints, each of some pairs and up to a bound in hex."""
    out = b"\x61"
    for bound, pairs in parts:
        total = sum(int.from_bytes(ident, "little") for _, ident in pairs) % 2**256
        digest = hashlib.sha256(total.to_bytes(32, "little") + bytes([len(pairs)])).digest()
        out += bytes.fromhex(bound) + b"\x01" + digest[:16]
    return out


def test_a_small_set_begins_as_one_fingerprint_and_is_never_listed_by_the_initiator():
    pairs = [(9, X), (8, Y)]
    assert Initiator(Items(pairs)).first() == message_of(("00 00", pairs))
    assert Initiator(Items(pairs * 50)).first() == message_of(("00 00", pairs))
    assert Initiator(Items(pairs)).reconcile(UNLIKE_ANY).message == message_of(("00 00", pairs))


def test_a_small_set_is_listed_by_the_responder_in_order():
    assert Responder(Items([(9, X), (8, Y)])).reply(UNLIKE_ANY) == bytes.fromhex("61 00 00 02 02") + Y + X


def test_a_larger_set_begins_as_ten_fingerprints():
    pairs = [(1_000 + at, bytes([at]) * 32) for at in range(40)]
    bounds = ["87 6d 00", *["05 00"] * 8, "00 00"]
    parts = [(bound, pairs[4 * at : 4 * at + 4]) for at, bound in enumerate(bounds)]
    assert Initiator(Items(pairs)).first() == message_of(*parts)


def test_the_initiator_cuts_what_is_nearly_small_into_pieces_of_six():
    pairs = [(1_000 + at, bytes([at]) * 32) for at in range(36)]
    bounds = ["87 6f 00", *["07 00"] * 4, "00 00"]
    parts = [(bound, pairs[6 * at : 6 * at + 6]) for at, bound in enumerate(bounds)]
    assert Initiator(Items(pairs)).reconcile(UNLIKE_ANY).message == message_of(*parts)


def test_a_larger_set_is_sixteen_fingerprints_of_the_responder_with_times_as_differences():
    pairs = [(1_000 + at, bytes([at]) * 32) for at in range(32)]
    expected = b"\x61"
    for at in range(0, 32, 2):
        total = sum(int.from_bytes(bytes([number]) * 32, "little") for number in (at, at + 1))
        fingerprint = hashlib.sha256(total.to_bytes(32, "little") + b"\x02").digest()[:16]
        # 1 + 1,002 is 7 * 128 + 107; from then on it is 1 + 2, and in the end infinity
        bound = b"\x87\x6b\x00" if at == 0 else b"\x03\x00" if at < 30 else b"\x00\x00"
        expected += bound + b"\x01" + fingerprint
    assert Responder(Items(pairs)).reply(UNLIKE_ANY) == expected


def test_the_sum_of_a_fingerprint_wraps_and_its_count_takes_as_many_bytes_as_it_needs():
    pairs = [(1, b"\xff" * 31 + bytes([at % 200]) + b"") for at in range(200)]
    total = sum(int.from_bytes(ident, "little") for _, ident in pairs) % 2**256
    expected = hashlib.sha256(total.to_bytes(32, "little") + b"\x81\x48").digest()[:16]
    assert Items(pairs).fingerprint(0, 200) == expected


def test_items_of_one_second_are_kept_apart_by_the_shortest_prefix_of_an_id():
    pairs = [(1_000, bytes([7, 7, at]) + bytes(29)) for at in range(32)]
    parts = Responder(Items(pairs)).reply(UNLIKE_ANY)
    assert parts[:7] == bytes.fromhex("61 8769 03 070702")
    assert parts[24:29] == bytes.fromhex("01 03 070704")


def test_a_bound_within_a_second_is_understood():
    # up to the prefix 02: no ids; from there to 0203: skipped; from there on: no ids
    answer = bytes.fromhex("61 8769 01 02 02 00  01 02 0203 00  00 00 02 00")
    step = Initiator(Items([(1_000, X), (1_000, Y), (1_000, Z)])).reconcile(answer)
    assert step.have == (X, Z)
    assert step.message is None


def test_a_bound_written_with_final_zeros_is_the_same_bound():
    # up to 0203 with two zeros: no ids; from there to 0203: skipped, an empty range
    step = Initiator(Items([(1_000, Z)])).reconcile(bytes.fromhex("61 8769 04 02030000 02 00  01 02 0203 00"))
    assert step.have == ()
    step = Initiator(Items([(1_000, Z)])).reconcile(bytes.fromhex("61 8769 04 02030001 02 00"))
    assert step.have == (Z,)


def test_what_follows_the_last_range_is_skipped():
    step = Initiator(Items([(1, X), (1_000, Y)])).reconcile(bytes.fromhex("61 8769 00 02 01") + Z)
    assert (step.message, step.have, step.need) == (None, (X,), (Z,))


def test_a_range_that_is_skipped_first_is_not_answered():
    answer = Responder(Items([(1, X), (1_000, Y)])).reply(bytes.fromhex("61 8769 00 00  00 00 02 00"))
    assert answer == bytes.fromhex("61 8769 00 00  00 00 02 01") + Y


def test_an_answer_that_does_not_fit_ends_in_the_fingerprint_of_exactly_the_rest():
    pairs = sorted((at, hashlib.sha256(bytes([at])).digest()) for at in range(200))
    answer = Responder(Items(pairs), 4_096).reply(bytes.fromhex("61 00 00 02 00"))
    count = answer[4]
    listed, rest = answer[5 : 5 + 32 * count], pairs[count:]
    assert len(answer) <= 4_096
    assert count > 100
    assert answer[:4] == bytes([0x61, count + 1, 0, 2])
    assert listed == b"".join(ident for _, ident in pairs[:count])
    fingerprint = Items(rest).fingerprint(0, len(rest))
    assert answer[5 + 32 * count :] == b"\x00\x00\x01" + fingerprint


def test_the_rest_comes_in_the_next_round_however_few_bytes_are_missing():
    pairs = [(at, hashlib.sha256(bytes([at])).digest()) for at in range(128)]
    for frame in range(4_096, 4_096 + 32):
        for count in (122, 123, 124, 125):
            have, need, rounds, _ = converse([], pairs[:count], 4_096, frame)
            assert (have, len(need)) == ([], count)
            assert rounds <= 2


def test_an_answer_stays_within_its_frame_even_with_the_longest_bounds():
    # ids that differ in the last byte only; every second one is asked for, those between are skipped
    pairs = [(2**64 - 2, bytes([7] * 31 + [at])) for at in range(256)]
    first = bytes.fromhex("61 81ffffffffffffffff7f 20") + pairs[1][1] + b"\x00"
    asked = [
        b"\x01\x20" + ident + (b"\x02\x00" if at % 2 else b"\x00") for at, (_, ident) in enumerate(pairs)
    ]
    for frame in range(4_096, 4_096 + 150):
        answer = Responder(Items(pairs), frame).reply(first + b"".join(asked[2:]))
        assert frame - 200 < len(answer) <= frame


def test_a_responder_names_its_version_to_an_initiator_of_another():
    assert Responder(Items([])).reply(bytes.fromhex("62 00 00 02 00")) == b"\x61"


def test_an_initiator_refuses_another_version():
    with pytest.raises(MalformedFrame):
        Initiator(Items([])).reconcile(b"\x60")


@pytest.mark.parametrize("pair", [(1, b"\x01" * 31), (-1, X), (2**64 - 1, X)])
def test_items_that_the_protocol_can_not_carry_are_refused(pair):
    with pytest.raises(ValueError, match=r"32 bytes|64 bits"):
        Items([(5, Y), pair])


def test_a_frame_too_small_to_get_anywhere_is_refused():
    with pytest.raises(ValueError, match="4,096"):
        Responder(Items([]), 4_095)


# ── Peers that lie ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("empty", ""),
        ("no version", "00 00 02 00"),
        ("no mode", "61 00 00"),
        ("no count", "61 00 00 02"),
        ("a mode of the future", "61 00 00 03"),
        ("half a fingerprint", "61 00 00 01" + "ab" * 15),
        ("a missing id", "61 00 00 02 02" + "ab" * 32),
        ("2^63 ids", "61 00 00 02 81808080808080808000" + "ab" * 32),
        ("a prefix of 33 bytes", "61 01 21" + "ab" * 33 + "00"),
        ("a missing prefix", "61 01 05 abab"),
        ("a number of eleven bytes", "61 8080808080808080808001 00 00"),
        ("a number beyond 64 bits", "61 82808080808080808000 00 00"),
        ("a number without an end", "61 ffffffffffffff"),
        ("times that add up beyond 64 bits", "61 81ffffffffffffffff7f 00 00 05 00 00"),
        ("a prefix that goes back", "61 05 01 08 00 01 01 07 00"),
        ("a range behind infinity", "61 00 00 00 05 00 00"),
    ],
)
def test_a_malformed_message_is_refused_by_both_sides(fault, message):
    items, data = Items(make_pairs(1, 100, 50)), bytes.fromhex(message)
    with pytest.raises(MalformedFrame):
        Responder(items).reply(data)
    with pytest.raises(MalformedFrame):
        Initiator(items).reconcile(data)


small = st.one_of(st.integers(0, 3), st.integers(0, 200), st.integers(0, 2**64 + 5))
bounds = st.tuples(small, st.one_of(st.just(0), st.integers(0, 33)), st.binary(max_size=33))
SOME = make_pairs(3, 120, 9)
known = st.sampled_from([ident for _, ident in SOME])


def number(value):
    digits = [value % 128]
    while value := value // 128:
        digits.insert(0, value % 128 + 128)
    return bytes(digits)


@st.composite
def ranges(draw):
    """A range that is well-formed more often than not; now and then its own fault."""
    code, length, prefix = draw(bounds)
    head = number(code) + number(length) + (prefix + bytes(33))[:length]
    match draw(st.sampled_from([0, 1, 1, 2, 2, 2, 3])):
        case 1:
            return head + b"\x01" + draw(st.binary(min_size=16, max_size=16))
        case 2:
            idents = draw(st.lists(st.one_of(known, st.binary(min_size=32, max_size=32)), max_size=8))
            return (
                head + b"\x02" + number(draw(st.sampled_from([len(idents)] * 9 + [2**40]))) + b"".join(idents)
            )
        case mode:
            return head + bytes([mode])


hostile = st.one_of(
    st.binary(max_size=200),
    st.binary(max_size=200).map(lambda tail: DONE + tail),
    st.lists(ranges(), max_size=12).map(lambda parts: DONE + b"".join(parts)),
)


@settings(max_examples=75, deadline=None)
@given(message=hostile, frame=st.sampled_from([4_096, 60_000]))
def test_whatever_arrives_is_answered_within_the_frame_or_refused(message, frame):
    items = Items(SOME)
    with suppress(MalformedFrame):
        assert len(Responder(items, frame).reply(message)) <= frame
    with suppress(MalformedFrame):
        step = Initiator(items, frame).reconcile(message)
        assert step.message is None or len(step.message) <= frame
        assert set(step.have) <= {ident for _, ident in SOME}
        assert all(ident in message for ident in step.need)


def test_what_was_told_before_a_malformed_message_is_not_changed_by_it():
    initiator = Initiator(Items([(1, X)]))
    with pytest.raises(MalformedFrame):
        initiator.reconcile(bytes.fromhex("61 8769 00 02 01") + Y + bytes.fromhex("00 00 07"))
    step = initiator.reconcile(bytes.fromhex("61 00 00 02 00"))
    assert (step.have, step.need) == ((X,), ())


def test_a_responder_that_never_comes_to_an_end_is_refused():
    initiator = Initiator(Items(SOME), max_rounds=50)
    endless = bytes.fromhex("61 00 00 01") + bytes(16)
    for _ in range(50):
        assert initiator.reconcile(endless).message is not None
    with pytest.raises(MalformedFrame):
        initiator.reconcile(endless)


def test_a_relay_that_claims_ever_more_events_is_refused():
    initiator, rng = Initiator(Items(SOME), max_need=1_000), random.Random(4)

    def lie():
        return bytes.fromhex("61 01 00 02 64") + rng.randbytes(3_200) + bytes.fromhex("00 00 01") + bytes(16)

    for _ in range(10):
        assert len(initiator.reconcile(lie()).need) == 100
    with pytest.raises(MalformedFrame):
        initiator.reconcile(lie())


# ── nostr-sdk on the other side (NIP-77) ────────────────────────────────────────────────

PATIENCE = 10.0 * SECOND  # seconds for nostr-sdk to answer


def as_pairs(events):
    return [(event.created_at, bytes.fromhex(event.id)) for event in events]


@pytest.fixture(scope="module")
def events(signer, finish):
    """A few thousand events, three in a second; nostr-sdk's relay wants them to be of the recent past."""
    start = int(time.time()) - 10_000
    return [finish(signer.sign(Unsigned(start + at // 3, 1, (), f"note {at}"))) for at in range(3_000)]


@asynccontextmanager
async def local_relay(events):
    """nostr-sdk's relay with these events, and a raw connection to it."""
    nostr_sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    limit = nostr_sdk.RateLimit(max_reqs=100_000, notes_per_minute=1_000_000)
    relay = nostr_sdk.LocalRelayBuilder().rate_limit(limit).build()
    await relay.run()
    try:
        async with connect(str(await relay.url()), compression=None) as socket, asyncio.timeout(PATIENCE):
            for event in events:
                await socket.send(json.dumps(["EVENT", event.as_json()]))
            for event in events:
                assert json.loads(await socket.recv()) == ["OK", event.id, True, ""]
            yield socket
    finally:
        relay.shutdown()


async def reconcile_over(socket, initiator, question):
    """The whole exchange as NIP-77 has it, to the NEG-CLOSE. What was learned, and in how many rounds."""
    have, need, rounds = [], [], 0
    await socket.send(json.dumps(["NEG-OPEN", "neg", question, initiator.first().hex()]))
    while True:
        kind, subscription, message = json.loads(await socket.recv())
        assert (kind, subscription) == ("NEG-MSG", "neg")
        rounds += 1
        step = initiator.reconcile(bytes.fromhex(message))
        have += step.have
        need += step.need
        if step.message is None:
            await socket.send(json.dumps(["NEG-CLOSE", "neg"]))
            return have, need, rounds
        await socket.send(json.dumps(["NEG-MSG", "neg", step.message.hex()]))


async def test_our_initiator_learns_the_truth_from_the_relay_of_nostr_sdk(events):
    rng = random.Random(5)
    stored = [event for event in events if rng.random() < 0.8]
    question = {"kinds": [1], "authors": [events[0].pubkey]}
    async with local_relay(stored) as socket:
        for ours, frame in [
            ([event for event in events if rng.random() < 0.99], 60_000),
            ([event for event in events if rng.random() < 0.5], 4_096),
            ([], 60_000),
            (events, 4_096),
            (stored, 60_000),
        ]:
            initiator = Initiator(Items(as_pairs(ours)), frame)
            have, need, rounds = await reconcile_over(socket, initiator, question)
            assert_exact(as_pairs(ours), as_pairs(stored), have, need)
            assert (rounds == 1) == (ours is stored)


@asynccontextmanager
async def our_responder(events, frame):
    """A websocket server whose only ability is to answer NIP-77 with our responder. Its URL, and its rounds."""
    responder, rounds = Responder(Items(as_pairs(events)), frame), []

    async def answer(socket):
        async for data in socket:
            match json.loads(data):
                case ["NEG-OPEN", sub, _, message] | ["NEG-MSG", sub, message]:
                    rounds.append(message)
                    await socket.send(
                        json.dumps(["NEG-MSG", sub, responder.reply(bytes.fromhex(message)).hex()])
                    )

    async with serve(answer, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", rounds


@pytest.mark.parametrize(("kept", "frame"), [(0.99, 60_000), (0.5, 4_096), (0.0, 4_096)])
async def test_the_client_of_nostr_sdk_learns_the_truth_from_our_responder(events, kept, frame, tmp_path):
    nostr_sdk.uniffi_set_event_loop(asyncio.get_running_loop())
    rng = random.Random(6)
    stored = [event for event in events[:900] if rng.random() < 0.9]
    ours = [event for event in events[:900] if rng.random() < kept]
    database = await nostr_sdk.NostrLmdb.open(str(tmp_path))
    parsed = [nostr_sdk.Event.from_json(json.dumps(event.as_json())) for event in ours]
    await asyncio.gather(*map(database.save_event, parsed))
    client = nostr_sdk.ClientBuilder().database(database).build()
    async with our_responder(stored, frame) as (url, rounds):
        await client.add_relay(nostr_sdk.RelayUrl.parse(url))
        await client.connect()
        options = nostr_sdk.SyncOptions().dry_run().direction(nostr_sdk.SyncDirection.BOTH)
        async with asyncio.timeout(PATIENCE):
            summary = await client.sync(nostr_sdk.Filter().kind(nostr_sdk.Kind(1)), opts=options)
        await client.shutdown()
    have = [bytes.fromhex(ident.to_hex()) for ident in summary.report.local]
    need = [bytes.fromhex(ident.to_hex()) for ident in summary.report.remote]
    assert summary.failed == {}
    assert_exact(as_pairs(ours), as_pairs(stored), have, need)
    assert len(rounds) > 1
