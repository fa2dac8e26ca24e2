"""Removals: which versions they reach, the laws of joining them, and what older ledgers knew of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger import Ledger, database
from sense_memory.ledger.removals import ID_CHARS, NOTHING, Origin, Removal
from sense_memory.ledger.schema import MIGRATIONS, Role
from tests.inside import database_of


ID, OTHER_ID = "ab" * 32, "cd" * 32
SLOT = "sense-memory/persona/people/facts/a"
KEY = "persona/people/facts/a"
NOW = 10_000.0
REMOVALS = next(number for number, step in enumerate(MIGRATIONS) if "CREATE TABLE removals" in step)

seconds = st.integers(-1, 5)
idents = st.sampled_from([digit * ID_CHARS for digit in "abcd"])
vectors = st.dictionaries(st.sampled_from(["one", "two"]), st.integers(1, 5))
removals = st.builds(Removal, seconds, st.lists(idents, unique=True).map(tuple), vectors, seconds)
origins = st.builds(
    Origin,
    at=st.integers(0, 6),
    said=idents.map(lambda ident: ident + "0" * (64 - ID_CHARS)),
    said_at=st.integers(0, 6),
    device=st.sampled_from(["", "one", "two"]),
    count=st.integers(0, 5),
    seen=vectors,
)


# ── What a removal reaches ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("removal", "is_reached"),
    [
        (NOTHING, False),
        (Removal(until=5), True),  # in the second of forgetting
        (Removal(until=4), False),
        (Removal(texts=(ID[:ID_CHARS],)), True),
        (Removal(texts=(OTHER_ID[:ID_CHARS],)), False),
        (Removal(upto=5), True),  # in the second of the newest version that the pruning device had
        (Removal(upto=4), False),
    ],
)
def test_a_version_without_a_vector_is_reached_by_its_date_or_its_name(removal, is_reached):
    assert removal.reaches(Origin.plain(ID, 5)) is is_reached


@pytest.mark.parametrize(
    ("seen", "is_reached"),
    [
        ({"one": 3, "two": 1}, True),
        ({"one": 9, "two": 9}, True),
        ({"one": 2, "two": 1}, False),
        ({"one": 3}, False),
    ],
)
def test_a_version_with_a_vector_is_pruned_only_if_all_of_it_was_known(seen, is_reached):
    version = replace(Origin.plain(ID, 5), seen={"one": 3, "two": 1})

    assert Removal(seen=seen, upto=9).reaches(version) is is_reached


@pytest.mark.parametrize(
    ("device", "count", "is_known"), [("one", 3, True), ("one", 4, False), ("two", 1, False), ("", 0, False)]
)
def test_a_writer_knew_the_texts_within_its_vector(device, count, is_known):
    version = replace(Origin.plain(ID, 5), seen={"one": 3})

    assert version.knows(replace(Origin.plain(OTHER_ID, 5), device=device, count=count)) is is_known


# ── Joining ─────────────────────────────────────────────────────────────────────────────


def unordered(removal):
    return replace(removal, texts=frozenset(removal.texts))


@given(removals, removals, removals)
def test_joining_is_the_same_in_any_order_and_twice_is_once(one, two, three):
    assert unordered(one.joined(two)) == unordered(two.joined(one))
    assert one.joined(two).joined(three) == one.joined(two.joined(three))
    assert one.joined(one) == one == one.joined(NOTHING)


@given(removals, removals, origins)
def test_joining_reaches_all_that_either_reached(one, two, version):
    joined = one.joined(two)

    assert joined.forgets(version) == (one.forgets(version) or two.forgets(version))
    assert joined.prunes(version) >= max(one.prunes(version), two.prunes(version))


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_the_ledger_knows_the_same_of_a_slot_in_whatever_order_removals_arrive(me, ledger, take, order):
    said = [
        Removal(until=5, texts=("a" * ID_CHARS,)),
        Removal(seen={"one": 3}),
        Removal(seen={"one": 2}, upto=7),
    ]
    graves = [
        replace(me.tombstone(KEY, at=10 + number), removals={SLOT: removal})
        for number, removal in enumerate(said)
    ]
    take(*(graves[number] for number in order))

    assert ledger.edits.removal(SLOT) == Removal(5, ("a" * ID_CHARS,), {"one": 3}, 7)


# ── Older ledgers ───────────────────────────────────────────────────────────────────────


def test_an_older_ledger_had_only_the_dates_of_what_was_forgotten(tmp_path, monkeypatch):
    """Memories that live and tombstones in quarantine were no removals, and are none after the migration."""
    owner, rows = (
        "ab" * 32,
        [("living", Role.MEMORY, 0), ("grave", Role.TOMBSTONE, 0), ("ahead", Role.TOMBSTONE, 1)],
    )
    with monkeypatch.context() as past:
        past.setattr(database, "MIGRATIONS", MIGRATIONS[:REMOVALS])
        past.setattr(database, "VERSION", REMOVALS)
        old = database.Database(tmp_path / "k.db", owner)
        with old.transaction():
            for slot, role, quarantined in rows:
                old.execute(
                    "INSERT INTO events (id, slot, kind, created_at, role, quarantined, body) "
                    "VALUES (?, ?, 30078, 7, ?, ?, x'')",
                    slot.encode(),
                    slot,
                    int(role),
                    quarantined,
                )
        old.close()

    ledger = Ledger(tmp_path / "k.db", owner)
    try:
        assert {slot: ledger.edits.removal(slot).until for slot, _, _ in rows} == {
            "living": -1,
            "grave": 7,
            "ahead": -1,
        }
        assert ledger.edits.removal("grave") == Removal(until=7)
        assert database_of(ledger).rows("SELECT slot FROM removals") == [("grave",)]
    finally:
        ledger.close()
