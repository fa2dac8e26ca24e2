"""What a ledger hands out of its events, and how it counts them."""

from __future__ import annotations

from dataclasses import replace

from sense_memory.ledger import Role
from sense_memory.limits import MAX_FUTURE_SECONDS, STAMP_LOOKBACK_SECONDS
from sense_memory.records.kinds import SECTIONS


NOW = 100_000.0
REACH = STAMP_LOOKBACK_SECONDS + MAX_FUTURE_SECONDS


def idents(events):
    return {item.id.hex() for item in events}


def test_the_last_entries_come_with_those_that_a_burst_may_have_dated_before_them(me, ledger):
    entries = [me.journal(at, f"at {at}") for at in (1, 50_000 - REACH - 1, 50_000 - REACH, 50_000, 60_000)]
    ledger.file_events(entries, None, NOW)
    ids = [item.event.id for item in entries]

    assert idents(ledger.journal(2)) == {*ids[2:]}
    assert idents(ledger.journal(9)) == {*ids}
    assert len(ledger.journal(0)) == 5  # no entry says how far back to go


def test_of_embeddings_the_newest_is_kept_and_of_memories_every_version(me, ledger):
    vectors = [replace(me.memory("embed/a", at, f"{at}"), role=Role.EMBEDDING) for at in (1, 2, 3)]
    ledger.file_events([*vectors, *(me.memory("a", at) for at in (1, 2, 3))], None, NOW)

    assert idents(ledger.versions("sense-memory/embed/a")) == {vectors[-1].event.id}
    assert len(ledger.versions("sense-memory/a")) == 3


def test_every_event_is_counted_once(me, ledger):
    counted = {
        "heads": [me.memory("a", 4), me.journal(5), me.journal(6)],
        "older": [me.memory("a", at) for at in (1, 2, 3)],
        "logs": [me.memory(f"introspection/{number}") for number in range(4)],
        "mind": [me.memory(f"mind/{number}") for number in range(5)],
        "files": [me.memory(f"file/{number}") for number in range(3)],
        "manifests": [me.memory(f"device/{number}") for number in range(10)],
        "address_keys": [me.memory(f"address-key/{number}") for number in range(2)],
        "embeddings": [replace(me.memory(f"embed/{number}"), role=Role.EMBEDDING) for number in range(6)],
        "tombstones": [me.tombstone(f"gone {number}", 60) for number in range(7)],
        "deletions": [me.deletion(60 + number, ["gone 1"]) for number in range(8)],
        "quarantined": [me.memory(f"ahead {number}", int(NOW) + 5_000) for number in range(9)],
    }
    every = [item for items in counted.values() for item in items]
    ledger.file_events(every, None, NOW)
    ledger.drafts.add([("sense-memory/a", "sealed")], NOW)

    counts = {name: len(items) for name, items in counted.items()}
    assert ledger.counts_by_kind(SECTIONS) == {**counts, "events": len(every), "entries": 2, "drafts": 1}
    assert len(list(ledger.bodies())) == len(every)


def test_an_empty_ledger_counts_nothing(ledger):
    assert set(ledger.counts_by_kind().values()) == {0}
