"""P-01 kill_at_every_point, on the way in: SIGKILL at every step of bringing a memory to a fresh device."""

from __future__ import annotations

import json

from relays.faults import CloseEvery, FaultyRelay, Record
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.ledger.relays import PullProgress
from sense_memory.nostr.event import KIND_APP_DATA
from tests.inside import ledger_of


COUNT, SECOND, PAGE = 45, 15, 20  # in all, of one second, and what a page of the relay holds
KEY = "17" * 32
POINTS = {
    "connected",
    "EOSE received",
    "page written",
    "page committed",
    "cursor written",
    "cursor committed",
    "EVENT sent",
    "OK committed",
}


def ids(store):
    return {json.loads(body)["id"] for body in ledger_of(store).bodies()}


async def test_p01_kill_at_every_point_of_a_pull(kill, folder, clock):
    """Half a pull is never taken for a whole one: the rest comes, once, and nothing is sent before."""
    points, partial, record, signer = set(), set(), Record(), LocalSigner.from_hex(KEY)
    options = {"background": False, "clock": clock}
    async with (
        EmbeddedRelay(clock=clock, max_limit=PAGE) as relay,
        FaultyRelay(relay.url, record) as seen,
    ):
        async with MemoryStore(signer, [relay.url], ledger=":memory:", **options) as writer:
            for start in range(0, COUNT, SECOND):
                clock.advance(1)
                await writer.remember_many((f"k{number}", "v") for number in range(start, start + SECOND))
            entry = await writer.journal("dear")
            forgotten = await writer.remember("k0", "forgotten")
            deletion = await writer.forget("k0")
            assert (await writer.sync()).in_step
            theirs = {memory.event_id for memory in await writer.recall_all()} | {entry, deletion}
            assert len(theirs) == COUNT + 1

        def order(step):
            ledger = str(folder / f"{step}.db")
            mine = {"mine": f"mine {step}", "now": clock()}
            return {"key": KEY, "relays": [seen.url], "ledger": ledger, **mine}

        async for death in kill.at_every_step("pull", order):
            points.add(death.at)
            path = order(death.step)["ledger"]
            async with MemoryStore(signer, [seen.url], ledger=path, **options) as store:
                assert store.integrity() == []
                held = ids(store)
                partial.add(len(held & theirs))
                assert set(death.was_told("id")) <= held
                is_complete = ledger_of(store).relays.state(seen.url).completed_at is not None
                assert theirs <= held or not is_complete
                assert is_complete or not record.published

                assert (await store.sync()).in_step
                assert theirs | held <= ids(store)
                assert forgotten not in ids(store)
                assert await store.recall("k0") is None
                assert not set(record.published) & theirs, "what a relay served is not sent back to it"
            record.frames.clear()
            clock.advance(1)  # what each run writes gets a second of its own
    assert points >= POINTS, POINTS - points
    assert len(partial) > COUNT // PAGE, "the kills came between pages"


async def test_a_pull_that_was_cut_off_and_killed_at_its_end_leaves_no_stale_course(kill, folder, clock):
    """Whoever goes on from where a pull was, though that was completed, would not look for what is new."""
    courses, hangup = set(), CloseEvery(COUNT // 2)
    signer, options = LocalSigner.from_hex(KEY), {"background": False, "clock": clock}
    async with EmbeddedRelay(clock=clock) as relay, FaultyRelay(relay.url, hangup) as line:
        async with MemoryStore(signer, [relay.url], ledger=":memory:", **options) as writer:
            for start in range(0, COUNT, SECOND):
                clock.advance(1)
                await writer.remember_many((f"k{number}", "v") for number in range(start, start + SECOND))
            assert (await writer.sync()).in_step

        def order(step):
            hangup.sent = 0
            return {"key": KEY, "relays": [line.url], "ledger": str(folder / f"{step}.db"), "now": clock()}

        async for death in kill.at_every_step("restore", order):
            hangup.on = False
            async with MemoryStore(
                signer, [line.url], ledger=folder / f"{death.step}.db", **options
            ) as store:
                course = ledger_of(store).relays.unfinished_pull(line.url)
                is_complete = ledger_of(store).relays.state(line.url).completed_at is not None
                assert course is None or not is_complete
                courses.add(course is not None)
                assert (await store.sync()).in_step
                assert len(await store.recall_all()) == COUNT
            hangup.on = True
    assert courses == {True, False}


async def test_a_pull_that_goes_on_minutes_after_it_was_cut_off_brings_what_came_meanwhile(clock):
    """What was written since lies above the place where it goes on; "complete" has to mean that too."""
    signer, options = LocalSigner.from_hex(KEY), {"background": False, "clock": clock}
    async with EmbeddedRelay(clock=clock) as relay, FaultyRelay(relay.url) as walked:
        writer = MemoryStore(signer, [relay.url], ledger=":memory:", **options)
        reader = MemoryStore(signer, [walked.url], ledger=":memory:", **options)
        async with writer, reader:
            await writer.remember("old", "v")
            place = PullProgress(clock(), None, int(clock()), {KIND_APP_DATA: (int(clock()), 0, "")})
            ledger_of(reader).relays.add([walked.url])
            ledger_of(reader).relays.save_unfinished_pull(walked.url, place)
            clock.advance(120)
            await writer.remember("meanwhile", "v")
            await writer.sync()

            assert (await reader.sync()).complete
            assert {memory.key for memory in await reader.recall_all()} == {"old", "meanwhile"}
