"""The writing side: stamps under contention, bursts that wait, signers that lie, and nothing written in part."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from sense_memory.errors import ClockSkewError, InvalidEvent, InvalidInput, TooLargeError
from sense_memory.ledger import FiledEvent, Ledger, Role
from sense_memory.limits import (
    MAX_EVENTS_PER_SECOND_COUNT,
    MAX_FUTURE_SECONDS,
    USUAL_EVENTS_PER_SECOND_COUNT,
)
from sense_memory.nostr.event import KIND_APP_DATA, Unsigned
from sense_memory.nostr.signer import LocalSigner
from sense_memory.records import envelope
from sense_memory.records.reader import Reader
from sense_memory.records.writer import Writer
from tests.inside import database_of


class Stage:
    """A writer with a clock and a sleep of the test's own."""

    def __init__(self, ledger, signer, clock) -> None:
        self.ledger, self.clock, self.slept = ledger, clock, []
        self.reader = Reader(signer, ledger, clock)
        self.writer = Writer(signer, ledger, self.reader, relays=(), clock=clock, sleep=self._sleep)

    async def _sleep(self, seconds):
        self.slept.append(seconds)
        self.clock.advance(seconds)

    async def write(self, *pairs):
        return await self.writer.write([envelope.flat(key, value, self.clock()) for key, value in pairs])

    def stamps(self, slot):
        """The seconds of a slot's versions in the order they were written."""
        stored = sorted(self.ledger.versions(slot), key=lambda stored: stored.seq)
        return [version.event().created_at for version in stored]

    def per_second(self):
        return Counter(self.ledger.by_id(json_id(body)).event().created_at for body in self.ledger.bodies())


def json_id(body):
    return body[7:71].decode()  # canonical JSON begins with the id


@pytest.fixture
def signer():
    return LocalSigner.generate()


@pytest.fixture
def ledger(signer):
    opened = Ledger(":memory:", signer.public_key)
    yield opened
    opened.close()


@pytest.fixture
def stage(ledger, signer, clock):
    return Stage(ledger, signer, clock)


async def foreign_version(ledger, signer, key, at):
    """A version by another device with a clock of its own."""
    sealed = await envelope.seal(signer, envelope.flat(key, "theirs", float(at)))
    return FiledEvent(await signer.sign(sealed.at(at)), f"sense-memory/{key}")


# ── Stamps ──────────────────────────────────────────────────────────────────────────────


async def test_a_thousand_memories_of_one_second_spread_over_twenty(stage, clock):
    await stage.write(*((f"key {number}", "v") for number in range(1_000)))

    now = int(clock())
    assert stage.per_second() == Counter({now - back: USUAL_EVENTS_PER_SECOND_COUNT for back in range(20)})


async def test_single_writes_of_one_second_spread_too(stage, clock):
    """Each write finds by itself how far back the seconds are full."""
    for number in range(USUAL_EVENTS_PER_SECOND_COUNT * 3 + 1):
        await stage.write((f"key {number}", "v"))

    now = int(clock())
    usual = {now - back: USUAL_EVENTS_PER_SECOND_COUNT for back in range(3)}
    assert stage.per_second() == Counter({**usual, now - 3: 1})


async def test_what_is_written_after_a_burst_finds_the_second_before_it(stage, clock):
    """And in the next second too, when that is full: no second of the burst is looked at again."""
    room = USUAL_EVENTS_PER_SECOND_COUNT
    await stage.write(*((f"burst {number}", "v") for number in range(room * 20)))
    now = int(clock())
    for number in range(3):
        await stage.write((f"after {number}", "v"))
    clock.advance(1)
    await stage.write(*((f"full {number}", "v") for number in range(room)))
    for number in range(3, 6):
        await stage.write((f"after {number}", "v"))

    assert stage.per_second()[now - 20] == 6
    assert max(stage.per_second().values()) == room


async def test_one_key_twice_in_one_batch_keeps_both_versions_in_order(stage):
    first, second = await stage.write(("key", "one"), ("key", "two"))

    assert [stored.id.hex() for stored in stage.ledger.versions("sense-memory/key")] == [second, first]
    (head,) = stage.ledger.heads.live_under("sense-memory/")
    assert (await stage.reader.record(head)).fields["value"] == "two"


async def test_an_edit_after_a_foreign_version_ahead_is_stamped_above_it(stage, ledger, signer, clock):
    """T-04: and only this address pays for it."""
    now = int(clock())
    ledger.file_events(
        [await foreign_version(ledger, signer, "key", now + 200)], "wss://relay.example/", clock()
    )

    await stage.write(("key", "ours"), ("other", "ours"))

    assert stage.stamps("sense-memory/key") == [now + 200, now + 201]
    assert stage.stamps("sense-memory/other") == [now]


async def test_rewriting_one_key_never_runs_ahead_and_never_waits(stage, clock):
    ids = await stage.write(*(("key", f"edit {number}") for number in range(MAX_FUTURE_SECONDS)))
    for number in range(5):
        ids += await stage.write(("key", f"later {number}"))

    assert stage.stamps("sense-memory/key") == [int(clock())] * (MAX_FUTURE_SECONDS + 5)
    assert [stored.id.hex() for stored in stage.ledger.versions("sense-memory/key")] == ids[::-1]
    assert stage.slept == []
    await stage.write(("other", "v"))
    assert stage.stamps("sense-memory/other") == [int(clock())], "they take no room from other keys"


async def test_a_burst_that_has_to_wait_is_written_whole_or_not_at_all(stage, ledger, signer, clock):
    """A sleep that fails stands for a process that ends meanwhile."""
    now = int(clock())
    ahead = await foreign_version(ledger, signer, "key", now + MAX_FUTURE_SECONDS)
    ledger.file_events([ahead], "wss://relay.example/", clock())

    async def ended(seconds):
        raise KeyboardInterrupt

    stage.writer._sleep = ended
    with pytest.raises(KeyboardInterrupt):
        await stage.write(("other", "v"), ("key", "one too many"))
    assert ledger.head("sense-memory/other") is None

    stage.writer._sleep = stage._sleep
    await stage.write(("other", "v"), ("key", "one too many"))
    assert stage.slept == [1.0]
    assert stage.stamps("sense-memory/key")[-1] == now + MAX_FUTURE_SECONDS + 1


async def test_clock_jumps_back_one_day(stage, ledger, clock):
    """T-02: nothing is signed in the future, and of the batch nothing at all is written."""
    await stage.write(("key", "before"))
    clock.advance(-86_400)

    with pytest.raises(ClockSkewError) as caught:
        await stage.write(("other", "v"), ("key", "after"))

    assert (caught.value.now, caught.value.mark) == (int(clock()), int(clock()) + 86_400)
    assert ledger.head("sense-memory/other") is None
    assert len(ledger.versions("sense-memory/key")) == 1
    await stage.write(("other", "v"))  # other addresses are not held up


async def test_forgetting_is_stamped_like_any_edit(stage, ledger, clock):
    await stage.write(("key", "v"))

    request = ledger.by_id(await stage.writer.forget("key")).event()

    grave = ledger.head("sense-memory/key")
    assert grave.role is Role.TOMBSTONE
    assert (
        grave.event().created_at == request.created_at == int(clock())
    )  # nobody was given the version before
    assert request.tag_values("e")[0] == grave.event().id
    assert request.tag_values("a") == [f"30078:{request.pubkey}:sense-memory/key"]


# ── Contention ──────────────────────────────────────────────────────────────────────────


class Slow:
    """A remote signer: every call lets other tasks run, or does what the test wants done meanwhile."""

    def __init__(self, inner, meanwhile=None) -> None:
        self._inner, self._meanwhile = inner, meanwhile
        self.public_key = inner.public_key
        self.signed = 0

    async def sign(self, unsigned):
        self.signed += 1
        await asyncio.sleep(0)
        if self._meanwhile:
            await self._meanwhile()
        return await self._inner.sign(unsigned)

    async def encrypt(self, plaintext, reader):
        await asyncio.sleep(0)
        return await self._inner.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        await asyncio.sleep(0)
        return await self._inner.decrypt(payload, author)


async def test_fifty_tasks_write_one_key_and_every_version_is_kept_in_order(ledger, signer, clock):
    stage = Stage(ledger, Slow(signer), clock)

    ids = await asyncio.gather(*(stage.write(("key", f"task {number}")) for number in range(50)))

    assert len({ident for (ident,) in ids}) == 50
    assert stage.stamps("sense-memory/key") == [int(clock())] * 50


async def test_tasks_never_put_more_than_200_events_into_a_second(ledger, signer, clock):
    stage = Stage(ledger, Slow(signer), clock)
    tasks = (stage.write(*((f"{task} {number}", "v") for number in range(90))) for task in range(5))

    await asyncio.gather(*tasks)

    assert sum(stage.per_second().values()) == 450
    assert max(stage.per_second().values()) <= MAX_EVENTS_PER_SECOND_COUNT


async def test_a_version_that_arrives_between_stamp_and_write_is_written_past(ledger, signer, clock):
    """What another process may do at any time, done here at the worst."""
    now = int(clock())
    arrivals = [await foreign_version(ledger, signer, "key", now + 5)]

    async def meanwhile():
        if arrivals:
            ledger.file_events([arrivals.pop()], "wss://relay.example/", clock())

    slow = Slow(signer, meanwhile)
    stage = Stage(ledger, slow, clock)
    one, two = await stage.write(("key", "ours"), ("other", "v"))

    assert stage.stamps("sense-memory/key") == [now + 5, now + 6]
    assert ledger.head("sense-memory/key").id.hex() == one
    assert ledger.head("sense-memory/other").id.hex() == two
    assert slow.signed == 3  # only the late one was signed again


async def test_forgetting_is_tried_again_as_a_pair(ledger, signer, clock):
    now = int(clock())
    arrivals = [await foreign_version(ledger, signer, "key", now + 5)]

    async def meanwhile():
        if arrivals:
            ledger.file_events([arrivals.pop()], "wss://relay.example/", clock())

    stage = Stage(ledger, Slow(signer, meanwhile), clock)
    ident = await stage.writer.forget("key")

    assert ledger.by_id(ident).event().created_at == now + 6
    held = {name: count for name, count in ledger.counts_by_kind().items() if count}
    assert held == {"events": 2, "tombstones": 1, "deletions": 1}


# ── All or nothing ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("bad", "error"), [(("big", "x" * 50_000), TooLargeError), (("key", "\ud800"), InvalidInput)]
)
async def test_one_record_that_can_not_be_sealed_keeps_its_whole_batch_out(stage, ledger, bad, error):
    with pytest.raises(error):
        await stage.write(("one", "v"), bad, ("two", "v"))

    assert ledger.counts_by_kind()["events"] == 0


async def test_one_key_many_times_in_one_batch_is_signed_no_more_often_than_written(ledger, signer, clock):
    slow = Slow(signer)
    stage = Stage(ledger, slow, clock)

    await stage.write(*(("key", str(number)) for number in range(20)))

    assert slow.signed == 20


async def test_nothing_to_write_writes_nothing(stage):
    assert await stage.writer.write([]) == []


# ── Signers that lie ────────────────────────────────────────────────────────────────────


class Lying:
    """Signs something else than it was given; every event is a valid one."""

    def __init__(self, inner, lie) -> None:
        self._inner, self._lie = inner, lie
        self.public_key = inner.public_key

    async def sign(self, unsigned):
        signer, asked = self._lie(self._inner, unsigned)
        return await signer.sign(asked)

    async def encrypt(self, plaintext, reader):
        return await self._inner.encrypt(plaintext, reader)

    async def decrypt(self, payload, author):
        return await self._inner.decrypt(payload, author)


@pytest.mark.parametrize(
    "lie",
    [
        lambda inner, asked: (inner, replace(asked, content=asked.content + "A")),
        lambda inner, asked: (inner, replace(asked, created_at=asked.created_at - 1)),
        lambda inner, asked: (inner, replace(asked, tags=(("d", "sense-memory/elsewhere"),))),
        lambda inner, asked: (inner, replace(asked, kind=KIND_APP_DATA + 1)),
        lambda inner, asked: (LocalSigner.generate(), asked),
    ],
    ids=["content", "time", "tags", "kind", "key"],
)
async def test_a_signer_that_signs_something_else_is_found_out(ledger, signer, clock, lie):
    """K-06, as far as a store can see it."""
    stage = Stage(ledger, Lying(signer, lie), clock)

    with pytest.raises(InvalidEvent, match="nothing was stored"):
        await stage.write(("key", "v"))
    with pytest.raises(InvalidEvent, match="nothing was stored"):
        await stage.writer.forget("key")

    assert ledger.counts_by_kind()["events"] == 0


async def test_an_unsigned_event_shows_no_content():
    assert "sealed" not in repr(Unsigned(1, 1, (), "sealed"))


async def test_a_write_after_a_burst_does_not_count_every_second_of_it_again(stage, ledger):
    """Else each write of the next hour would cost in proportion to the burst."""
    await stage.write(*((f"key {number}", "v") for number in range(2_000)))
    await stage.write(("first", "v"))
    statements = []
    database_of(ledger)._connection.set_trace_callback(statements.append)

    await stage.write(("second", "v"))

    assert len([sql for sql in statements if "count(*) FROM events" in sql]) <= 2
