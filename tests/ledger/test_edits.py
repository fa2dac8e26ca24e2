"""What edits start from: taken only if nothing came in between, and what they may not know is listed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sense_memory.ledger import Basis, HeadMoved
from sense_memory.ledger.edits import SealedDraft
from sense_memory.ledger.removals import Origin, Removal


SLOT = "sense-memory/persona/people/facts/a"
KEY = "persona/people/facts/a"
NOW = 100.0


@pytest.fixture
def append(ledger):
    def write(filed, basis):
        return ledger.append_versions([filed], [], NOW, bases={filed.slot: basis})

    return write


def test_an_edit_is_taken_where_nothing_came_in_between(me, ledger, append):
    assert ledger.edits.basis(SLOT) == Basis()
    assert append(me.memory(KEY, at=1), Basis())
    basis = ledger.edits.basis(SLOT)
    assert append(me.memory(KEY, at=2), basis)

    assert ledger.edits.forked_slots() == []


def test_an_edit_that_starts_from_an_older_head_is_refused_whole(me, ledger, append):
    append(me.memory(KEY, at=1), Basis())
    old = ledger.edits.basis(SLOT)
    append(me.memory(KEY, at=2), old)
    with pytest.raises(HeadMoved):
        ledger.append_versions(
            [me.memory("persona/x/y/b", at=3), me.memory(KEY, at=3)], [], NOW, bases={SLOT: old}
        )

    assert ledger.head("sense-memory/persona/x/y/b") is None
    assert len(ledger.versions(SLOT)) == 2


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_what_comes_from_elsewhere_may_be_unknown_to_the_head(me, ledger, take, times):
    first, second = (me.memory(KEY, at=at) for at in times)
    take(first)
    assert ledger.edits.forked_slots() == []
    take(second)
    head = ledger.head(SLOT)

    assert ledger.edits.forked_slots() == [SLOT]
    (fork,) = ledger.edits.basis(SLOT).forks
    assert {head.seq, fork} == {1, 2}
    ledger.edits.remove_forks(SLOT, [fork])
    assert ledger.edits.forked_slots() == []


def test_flat_memories_do_not_fork(me, ledger, take):
    take(me.memory("a", at=1), me.memory("a", at=2))

    assert ledger.edits.forked_slots() == []


def test_an_edit_that_knows_the_forks_settles_them(me, ledger, take, append):
    take(me.memory(KEY, at=1), me.memory(KEY, at=2))
    append(me.memory(KEY, at=3), ledger.edits.basis(SLOT))

    assert ledger.edits.forked_slots() == []


def test_a_fork_that_comes_while_an_edit_is_signed_stops_it(me, ledger, take, append):
    take(me.memory(KEY, at=5))
    basis = ledger.edits.basis(SLOT)
    take(me.memory(KEY, at=1))
    with pytest.raises(HeadMoved):
        append(me.memory(KEY, at=6), basis)


def test_forgetting_takes_forks_and_accesses_along(me, ledger, take):
    take(me.memory(KEY, at=1), me.memory(KEY, at=2))
    ledger.edits.record_accesses([(SLOT, NOW, 1)])
    take(me.tombstone(KEY, at=3))

    assert (ledger.edits.forked_slots(), ledger.edits.accesses()) == ([], {})


def test_an_edit_takes_only_the_accesses_along_that_it_knew(me, ledger, append):
    append(me.memory(KEY, at=1), Basis())
    ledger.edits.record_accesses([(SLOT, NOW, 1)])
    basis = ledger.edits.basis(SLOT)
    ledger.edits.record_accesses([(SLOT, NOW + 1, 2)])
    append(me.memory(KEY, at=2), basis)

    assert ledger.edits.accesses() == {SLOT: (NOW + 1, 2)}


def test_a_memory_written_over_a_grave_may_still_hold_what_was_forgotten(me, ledger, take, append):
    """Its writer lists it, and whoever opens it decides."""
    take(me.memory(KEY, at=1), me.tombstone(KEY, at=3), me.tombstone("flat", at=3))
    for name in (KEY, "flat"):
        again = me.memory(name, at=4)
        append(again, ledger.edits.basis(again.slot))

    assert ledger.edits.forks() == {SLOT: (ledger.head(SLOT).seq,)}


def test_a_slot_was_forgotten_if_there_is_a_deletion_or_a_tombstone_of_it(me, ledger, take):
    ahead = me.tombstone("ahead", at=20_000)  # in quarantine until its time
    take(me.memory("living"), me.tombstone("grave"), me.deletion(60, ["named"]), ahead)

    slots = [f"sense-memory/{name}" for name in ("living", "never seen", "ahead", "grave", "named")]
    assert [ledger.edits.was_forgotten(slot) for slot in slots] == [False, False, False, True, True]
    assert [ledger.edits.basis(slot).covered_to for slot in slots] == [-1, -1, -1, 50, 60]


def test_forks_that_may_be_conflict_copies_or_flat_memories_are_found_by_their_address(me, ledger, take):
    copy, hashed = f"{KEY}~conflict-0badcafe", "~" + "ab" * 32
    for name in (KEY, copy, hashed):
        take(me.memory(name, at=1), me.memory(name, at=2))
    flat = replace(me.memory("flat", at=70), origin=Origin.plain("ab" * 32, 5))
    grave = replace(me.tombstone("flat", at=60), removals={"sense-memory/flat": Removal(until=60)})
    ledger.file_events([flat], None, NOW)
    ledger.file_events([grave], None, NOW, {bytes.fromhex(flat.event.id): flat.origin})

    assert ledger.edits.forked_slots() == sorted(
        [SLOT, *(f"sense-memory/{name}" for name in (copy, hashed, "flat"))]
    )
    assert set(ledger.edits.forked_copies()) == {*ledger.edits.forked_slots()} - {SLOT}


# ── Drafts ──────────────────────────────────────────────────────────────────────────────


def test_a_draft_is_found_by_its_number_until_it_is_discarded_or_its_address_forgotten(ledger):
    one, two, three = ledger.drafts.add([("a", "sealed 1"), ("a", "sealed 2"), ("b", "sealed 3")], NOW)
    assert ledger.drafts.get(two) == SealedDraft(two, "a", "sealed 2", NOW)
    assert [draft.number for draft in ledger.drafts.all()] == [one, two, three]

    assert (ledger.drafts.discard(one), ledger.drafts.discard(one)) == (True, False)
    ledger.drafts.remove_at(["a", "never seen"])

    assert [draft.number for draft in ledger.drafts.all()] == [three]
    assert ledger.drafts.get(one) is ledger.drafts.get(two) is None
    (four,) = ledger.drafts.add([("b", "sealed 4")], NOW)
    assert four > three
