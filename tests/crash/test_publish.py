"""P-01 kill_at_every_point, on the way out: SIGKILL at every step between a write and its last OK."""

from __future__ import annotations

import json
from collections import Counter

from relays.faults import FaultyRelay, Record
from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from tests.inside import ledger_of


NOW = 1_800_000_000
WRITES = 5  # of the scenario: two memories, an entry, a forgotten memory and an edited one
POINTS = {
    "event written",
    "event committed",
    "connected",
    "EVENT sent",
    "OK received",
    "OK written",
    "OK committed",
    "cursor committed",
    "checkpoint",
}


def events(store):
    return {event["id"]: event for event in map(json.loads, ledger_of(store).bodies())}


def assert_writes_are_whole(store, said):
    """What returned is there; of the write that was on its way, all or nothing. In the scenario's order."""
    ledger, held = ledger_of(store), events(store)
    forgotten = sum(event["kind"] == 5 for event in held.values())
    b = ledger.head("sense-memory/b")
    assert forgotten == int(b is not None and b.role != 0), "the tombstone and its deletion come together"
    returned = [line["id"] for line in said if "id" in line]
    purged = [line["id"] for line in said if line.get("remember") == "b"] if forgotten else []
    assert set(returned) - set(purged) <= held.keys()
    assert not set(purged) & held.keys()
    writes = len(held) - forgotten + len(purged)  # a tombstone and its deletion are one write
    assert len(returned) <= writes <= len(returned) + (len(returned) < WRITES)


def assert_signed_once(record, author):
    """Of each version that was ever sent, there is one event only, however often it was sent."""
    sent = {frame[1]["id"]: frame[1] for frame in record.said("EVENT") if frame[1]["pubkey"] == author}
    versions = Counter((event["kind"], str(event["tags"][0]), event["created_at"]) for event in sent.values())
    assert all(count == 1 for count in versions.values()), versions


async def everything(store):
    memories = {memory.key: memory.value for memory in await store.recall_all()}
    return memories, [entry.content for entry in await store.recent()]


async def test_p01_kill_at_every_point_of_a_publish(kill, folder):
    """After a restart each memory is in the ledger once, reaches all relays, and was never signed again."""
    points, records = set(), (Record(), Record())
    async with (
        EmbeddedRelay(clock=lambda: NOW) as first,
        EmbeddedRelay(clock=lambda: NOW) as second,
        FaultyRelay(first.url, records[0]) as one,
        FaultyRelay(second.url, records[1]) as two,
    ):
        relays = [one.url, two.url]

        def order(step):  # each run is another agent's, so that none meets what an earlier one left
            return {"key": f"{step:064x}", "relays": relays, "ledger": str(folder / f"{step}.db"), "now": NOW}

        async for death in kill.at_every_step("publish", order):
            points.add(death.at)
            signer = LocalSigner.from_hex(order(death.step)["key"])
            options = {"background": False, "clock": lambda: NOW + 60}
            async with MemoryStore(signer, relays, ledger=order(death.step)["ledger"], **options) as store:
                assert store.integrity() == []
                assert_writes_are_whole(store, death.said)
                before = events(store)
                assert (await store.sync()).in_step
                assert events(store) == before
                found = await everything(store)
                assert not death.was_told("forget") or "b" not in found[0]
            for record in records:
                assert_signed_once(record, signer.public_key)
                record.frames.clear()
            if death.step % 3 and death.at:
                continue
            url = relays[death.step % 2]  # in turn: each alone has to restore everything
            async with MemoryStore(signer, [url], ledger=":memory:", **options) as fresh:
                assert (await fresh.sync()).in_step
                assert await everything(fresh) == found
    assert points >= POINTS, POINTS - points
