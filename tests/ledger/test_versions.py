"""Heads, marks and deletions: the outcome is a function of what was seen, never of the order it came in.

The oracle of the property test knows no order at all: it looks at the set and sorts. Slots, water-marks
and heads: NIP-01 (lowest id at a tie), NIP-09.
"""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.ledger import FiledEvent, FilingResult, Ledger, Role
from sense_memory.ledger.versions import DUE, slot_of
from sense_memory.limits import MAX_FUTURE_SECONDS
from tests.inside import database_of


RELAY = "wss://relay.example/"
SLOTS = ("sense-memory/a", "sense-memory/b")


def first_and_second(me, at):
    """Two memories of one address and second: the one that NIP-01 retains, and the other."""
    pair = (me.memory(at=at, text="one"), me.memory(at=at, text="two"))
    return sorted(pair, key=lambda item: item.event.id)


# ── Heads ───────────────────────────────────────────────────────────────────────────────


def test_the_later_version_is_the_head_whichever_came_first(me, ledger, take):
    old, new = me.memory(at=1), me.memory(at=2)

    assert take(new, old) == [FilingResult.NEW, FilingResult.STALE]
    assert ledger.head("sense-memory/a").event() == new.event


def test_a_stale_version_is_kept_in_history(me, ledger, take):
    take(me.memory(at=3), me.memory(at=1), me.memory(at=2))

    assert [stored.event().created_at for stored in ledger.versions("sense-memory/a")] == [3, 2, 1]


@pytest.mark.parametrize("turned", [False, True])
def test_same_second_lowest_id_wins_in_both_orders(me, ledger, take, turned):
    """V-02; the loser stays as a version."""
    winner, loser = first_and_second(me, at=5)
    take(*((loser, winner) if turned else (winner, loser)))

    assert ledger.head("sense-memory/a").event() == winner.event
    assert len(ledger.versions("sense-memory/a")) == 2


def test_applying_twice_changes_nothing(me, ledger, take):
    memory, entry = me.memory("a"), me.journal()
    gone, grave = me.memory("b", at=1), me.tombstone("b", at=2)
    request = me.deletion(2, ["b"])
    first = take(memory, entry, gone, grave, request)
    counts, outbox = ledger.counts_by_kind(), ledger.outbox.counts(RELAY)

    again = take(memory, entry, gone, grave, request)

    assert first == [FilingResult.NEW] * 5
    assert again == [
        FilingResult.KNOWN,
        FilingResult.KNOWN,
        FilingResult.DELETED,
        FilingResult.KNOWN,
        FilingResult.KNOWN,
    ]
    assert (counts, outbox) == (ledger.counts_by_kind(), ledger.outbox.counts(RELAY))


def test_marks_are_per_address(me, ledger, take):
    """T-04."""
    take(me.memory("a", at=200), me.memory("b", at=1))

    assert [ledger.mark(slot) for slot in SLOTS] == [200, 1]


# ── Deletion ────────────────────────────────────────────────────────────────────────────


def test_a_late_older_deletion_does_not_lower_the_mark(me, ledger, take):
    """D-04."""
    take(me.deletion(20, ["a"]), me.deletion(10, ["a"]))

    assert ledger.mark("sense-memory/a") == 20
    assert take(me.memory(at=15)) == [FilingResult.DELETED]


def test_a_version_after_the_deletion_lives(me, ledger, take):
    """D-05."""
    take(me.memory(at=1), me.deletion(2, ["a"]))

    assert take(me.memory(at=3, text="again")) == [FilingResult.NEW]
    assert not ledger.is_deleted("sense-memory/a")


def test_a_deletion_between_two_versions_spares_the_newer(me, ledger, take):
    new = me.memory(at=3, text="new")
    take(me.memory(at=1), new, me.deletion(2, ["a"]))

    assert [stored.event() for stored in ledger.versions("sense-memory/a")] == [new.event]


def test_an_older_deletion_leaves_the_access_count_of_a_living_memory(me, ledger, take):
    take(me.memory(at=3))
    ledger.edits.record_accesses([("sense-memory/a", 50.0, 1)])

    take(me.deletion(2, ["a"]))

    assert ledger.edits.accesses() == {"sense-memory/a": (50.0, 1)}


@pytest.mark.parametrize("turned", [False, True])
def test_forgetting_works_whether_tombstone_or_request_comes_first(me, ledger, take, turned):
    grave = me.tombstone(at=2)
    pair = (grave, me.deletion(2, ["a"], [grave.event.id]))
    take(me.memory(at=1), *(reversed(pair) if turned else pair))

    assert ledger.head("sense-memory/a").event() == grave.event
    assert ledger.is_deleted("sense-memory/a")
    assert len(ledger.versions("sense-memory/a")) == 1


def test_a_tombstone_alone_buries_every_older_version(me, ledger, take):
    take(me.memory(at=1), me.memory(at=2), me.tombstone(at=3))
    ledger.edits.record_accesses([("sense-memory/a", 50.0, 1)])

    assert take(me.memory(at=2, text="late copy")) == [FilingResult.DELETED]
    assert [stored.role for stored in ledger.versions("sense-memory/a")] == [Role.TOMBSTONE]


def test_a_tombstone_that_arrives_after_the_rewrite_still_purges_what_it_buried(me, ledger, take):
    new = me.memory(at=3, text="new")
    take(me.memory(at=1), new)

    assert take(me.tombstone(at=2)) == [FilingResult.STALE]
    assert take(me.memory(at=1, text="another old one")) == [FilingResult.DELETED]
    assert {stored.event().created_at for stored in ledger.versions("sense-memory/a")} == {2, 3}
    assert ledger.head("sense-memory/a").event() == new.event


def test_a_later_deletion_without_its_tombstone_still_raises_the_mark(me, ledger, take):
    """Else our next edit could be stamped below the deletion, and be lost."""
    take(me.tombstone(at=10), me.deletion(10, ["a"]), me.deletion(20, ["a"]))

    assert ledger.mark("sense-memory/a") == 20
    assert ledger.head("sense-memory/a").role is Role.TOMBSTONE


def test_purge_removes_the_ciphertext_from_the_rows(me, ledger, take):
    take(me.memory(at=1, text="SECRET-ONE"), me.memory(at=2, text="SECRET-TWO"), me.tombstone(at=3))

    assert not [body for body in ledger.bodies() if b"SECRET" in body]


def test_purge_removes_the_ciphertext_from_the_file(me, tmp_path):
    """D-08 below the store: `secure_delete` and a truncated write-ahead log."""
    ledger = Ledger(tmp_path / "a.db", me.public_key)
    ledger.file_events([me.memory(at=1, text="SECRET-ONE" * 50)], RELAY, 10.0)
    ledger.checkpoint()
    ledger.file_events([me.memory(at=2, text="SECRET-TWO" * 50)], RELAY, 10.0)
    assert any(b"SECRET" in file.read_bytes() for file in tmp_path.iterdir())

    ledger.file_events([me.tombstone(at=3)], RELAY, 10.0)
    ledger.checkpoint()

    assert not [file.name for file in tmp_path.iterdir() if b"SECRET" in file.read_bytes()]
    ledger.close()


# ── Deletion by id ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("turned", [False, True])
def test_a_journal_entry_deleted_by_its_id_is_gone(me, ledger, take, turned):
    entry = me.journal(at=1)
    pair = (entry, me.deletion(2, ids=[entry.event.id]))
    take(*(reversed(pair) if turned else pair))

    assert ledger.journal(10) == []
    assert ledger.head(entry.slot) is None


@pytest.mark.parametrize("turned", [False, True])
def test_a_version_deleted_by_its_id_does_not_bring_older_ones_back(me, ledger, take, turned):
    old, new = me.memory(at=1), me.memory(at=2)
    pair = (new, me.deletion(3, ids=[new.event.id]))
    take(old, *(reversed(pair) if turned else pair))

    assert ledger.head("sense-memory/a") is None
    assert ledger.mark("sense-memory/a") == 2
    assert take(me.memory(at=3)) == [FilingResult.NEW]


def test_deleting_one_of_two_versions_of_a_second_leaves_the_other(me, ledger, take):
    winner, loser = first_and_second(me, at=5)
    take(winner, loser, me.deletion(6, ids=[winner.event.id]))

    assert ledger.head("sense-memory/a").event() == loser.event


@pytest.mark.parametrize("turned", [False, True])
def test_a_late_older_deletion_elects_the_lowest_id_of_a_second_again(me, ledger, take, turned):
    winner, loser = first_and_second(me, at=5)
    take(*((loser, winner) if turned else (winner, loser)), me.deletion(4, ["a"]))

    assert ledger.head("sense-memory/a").event() == winner.event


def test_a_tombstone_can_not_be_deleted_by_its_id(me, ledger, take):
    grave = me.tombstone(at=2)
    take(me.deletion(3, ids=[grave.event.id]), grave)

    assert ledger.head("sense-memory/a").event() == grave.event


@pytest.mark.parametrize("ident", ["", "abc", "Z" * 64, "A" * 64, "é" * 64])
def test_a_deletion_that_names_no_event_id_breaks_nothing(me, ledger, take, ident):
    take(me.memory(at=1))

    assert take(me.deletion(2, ids=[ident])) == [FilingResult.NEW]
    assert ledger.head("sense-memory/a") is not None


def test_a_deletion_of_another_programs_address_leaves_no_trace_of_it(me, ledger, take):
    theirs = me.signed(5, 2, [("a", f"30078:{me.public_key}:other-app/x"), ("a", _coordinate(me, "a"))])
    take(_as_deletion(theirs))

    assert ledger.slots() == ["sense-memory/a"]


def test_a_deletion_of_a_strangers_address_has_no_effect(me, stranger, ledger, take):
    take(me.memory(at=1))
    take(_as_deletion(me.signed(5, 2, [("a", _coordinate(stranger, "a"))])))

    assert ledger.head("sense-memory/a") is not None


def _coordinate(author, name):
    return f"30078:{author.public_key}:sense-memory/{name}"


def _as_deletion(event):
    return FiledEvent(event, slot_of(event), Role.DELETION)


# ── Quarantine ──────────────────────────────────────────────────────────────────────────


def test_a_far_future_version_is_kept_and_not_applied(me, ledger, take):
    """T-03."""
    real, future = me.memory(at=100), me.memory(at=4_000_000_000, text="from 2100")

    assert take(real, future, future) == [
        FilingResult.NEW,
        FilingResult.QUARANTINED,
        FilingResult.QUARANTINED,
    ]
    assert ledger.head("sense-memory/a").event() == real.event
    assert ledger.mark("sense-memory/a") == 100
    assert ledger.counts_by_kind()["quarantined"] == 1
    assert take(me.memory(at=101), me.tombstone(at=102)) == [FilingResult.NEW, FilingResult.NEW]


def test_the_bound_of_quarantine_is_300_seconds(me, ledger):
    inside, outside = (
        me.memory("a", at=1_000 + MAX_FUTURE_SECONDS),
        me.memory("b", at=1_001 + MAX_FUTURE_SECONDS),
    )

    assert ledger.file_events([inside, outside], RELAY, 1_000.0) == [
        FilingResult.NEW,
        FilingResult.QUARANTINED,
    ]


def test_a_quarantined_version_is_applied_when_its_time_has_come(me, ledger, take):
    take(me.memory(at=100), me.memory(at=20_000, text="from a fast clock"), now=200.0)

    assert ledger.file_quarantined(19_000.0) == 0
    assert ledger.file_quarantined(20_000.0 - MAX_FUTURE_SECONDS) == 1
    assert ledger.mark("sense-memory/a") == 20_000
    assert ledger.counts_by_kind()["quarantined"] == 0


def test_looking_for_what_is_due_costs_nothing_where_nothing_waits(ledger):
    """Every start looks; at 100,000 events it took 50 ms."""
    (step,) = [
        row[-1] for row in database_of(ledger).rows(f"EXPLAIN QUERY PLAN {DUE}", 0) if "events" in row[-1]
    ]
    assert "USING INDEX events_in_quarantine" in step


def test_a_quarantined_deletion_deletes_nothing_before_its_time(me, ledger, take):
    take(me.memory(at=100), me.deletion(20_000, ["a"]), now=200.0)
    assert ledger.head("sense-memory/a") is not None

    ledger.file_quarantined(20_000.0)

    assert ledger.head("sense-memory/a") is None


def test_what_was_forgotten_meanwhile_is_dropped_at_its_release(me, ledger, take):
    take(me.memory(at=1_000, text="early"), now=100.0)
    take(me.deletion(1_500, ["a"]), now=1_500.0)

    ledger.file_quarantined(1_500.0)

    assert list(ledger.versions("sense-memory/a")) == []
    assert ledger.counts_by_kind()["quarantined"] == 0


def test_a_quarantined_version_deleted_by_its_id_does_not_freeze_its_address(me, ledger, take):
    future = me.memory(at=4_000_000_000)
    take(future, me.deletion(50, ids=[future.event.id]))

    assert ledger.counts_by_kind()["quarantined"] == 0
    assert take(me.memory(at=60)) == [FilingResult.NEW]


# ── Our own events ──────────────────────────────────────────────────────────────────────


def test_re_creating_after_a_deletion_needs_a_second_above_the_mark(me, ledger, take):
    """4.7 rule 5: what is stamped at or below the mark is handed back to be stamped again."""
    take(me.tombstone(at=50), me.deletion(50, ["a"]))

    assert ledger.append_versions([me.memory(at=50, text="too early")], [RELAY], 60.0) is False
    assert ledger.append_versions([me.memory(at=51, text="again")], [RELAY], 60.0) is True
    assert ledger.head("sense-memory/a").event().created_at == 51


def test_of_events_written_together_all_are_stored_or_none(me, ledger, take):
    take(me.memory("b", at=70))

    assert ledger.append_versions([me.memory("a", at=60), me.memory("b", at=60)], [RELAY], 60.0) is False
    assert ledger.head("sense-memory/a") is None


# ── Any order ───────────────────────────────────────────────────────────────────────────


class Oracle:
    """What a ledger must hold of a set of events. It sorts; it knows no arrival."""

    def __init__(self, items) -> None:
        self._items = items
        deletions = [item.event for item in items if item.role is Role.DELETION]
        self._dead = {ident for event in deletions for ident in event.tag_values("e")}
        self._until = {
            slot: max(
                [event.created_at for event in deletions if _coordinate_of(event.pubkey, slot) in _a(event)]
                + [
                    item.event.created_at - 1
                    for item in items
                    if item.slot == slot and item.role is Role.MEMORY and item.event.id in self._dead
                ],
                default=None,
            )
            for slot in SLOTS
        }

    def stored(self, slot):
        """What is kept, best first: the living versions and the best tombstone."""
        of_slot = sorted((item for item in self._items if item.slot == slot), key=_rank)
        graves = [item for item in of_slot if item.role is Role.TOMBSTONE][:1]
        until = -1 if self._until[slot] is None else self._until[slot]
        living = [
            item
            for item in of_slot
            if item.role is Role.MEMORY
            and item.event.id not in self._dead
            and item.event.created_at > until
            and all(_rank(item) < _rank(grave) for grave in graves)
        ]
        return [item.event.id for item in sorted(living + graves, key=_rank)]

    def mark(self, slot):
        seen = [item.event.created_at for item in self._items if item.slot == slot]
        until = self._until[slot]
        return max(seen + ([] if until is None else [until]), default=None)

    def is_deleted(self, slot):
        until = self._until[slot]
        return until is not None and (not self.stored(slot) or self.mark(slot) <= until)

    def journal(self):
        return {
            item.event.id for item in self._items if item.event.kind == 4 and item.event.id not in self._dead
        }


def _rank(item):
    return -item.event.created_at, item.event.id


def _coordinate_of(pubkey, slot):
    return f"30078:{pubkey}:{slot}"


def _a(event):
    return event.tag_values("a")


@lru_cache
def _universe(me):
    """Every event the property test may see: two addresses, four seconds, two texts each, and deletions."""
    versions = [
        make(name, at=at, text=f"{make.__name__} {text}")
        for make in (me.memory, me.tombstone)
        for name in "ab"
        for at in range(1, 5)
        for text in "xy"
    ]
    entries = [me.journal(at=at) for at in (1, 2)]
    by_address = [me.deletion(at, names) for at in range(1, 5) for names in ("a", "b", "ab")]
    by_id = [me.deletion(9, ids=[item.event.id]) for item in versions + entries]
    of_both = [
        me.deletion(2, "b", [versions[0].event.id, versions[9].event.id, entries[0].event.id, "0" * 64])
    ]
    return (*versions, *entries, *by_address, *by_id, *of_both)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_order_and_any_batches_end_as_the_oracle_says(me, data):
    universe = _universe(me)
    picked = data.draw(st.lists(st.sampled_from(range(len(universe))), unique=True, max_size=12))
    items = [universe[index] for index in picked]
    order = data.draw(st.permutations(items))
    cut = data.draw(st.integers(0, len(order)))
    repeated = data.draw(st.lists(st.sampled_from(items), max_size=3)) if items else []
    oracle = Oracle(items)
    ledger = Ledger(":memory:", me.public_key)
    try:
        ledger.file_events(order[:cut], RELAY, 10_000.0)
        for item in (*order[cut:], *repeated):
            ledger.file_events([item], RELAY, 10_000.0)

        for slot in SLOTS:
            assert oracle.stored(slot) == [stored.id.hex() for stored in ledger.versions(slot)]
            head = ledger.head(slot)
            assert (oracle.stored(slot) or [None])[0] == (head.id.hex() if head else None)
            assert oracle.mark(slot) == ledger.mark(slot)
            assert oracle.is_deleted(slot) == ledger.is_deleted(slot)
        assert oracle.journal() == {stored.id.hex() for stored in ledger.journal(10)}
        assert ledger.integrity() == []
    finally:
        ledger.close()
