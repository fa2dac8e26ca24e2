"""Removals: which versions they reach, the laws of joining them, and what older ledgers knew of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger import Ledger, Role, database
from sense_memory.ledger.removals import FORGOTTEN_ELSEWHERE, ID_CHARS, NOTHING, Origin, Removal
from sense_memory.ledger.schema import MIGRATIONS
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


# ── Purging ─────────────────────────────────────────────────────────────────────────────


class Slot:
    """A slot whose versions other devices remove. The first version is by this device, at 50."""

    def __init__(self, ledger, me, relay) -> None:
        self.ledger, self.me, self.relay, self.origins = ledger, me, relay, {}
        ours = self._version(50, KEY, device=ledger.edits.device, count=1)
        ledger.append_versions([ours], [], NOW)
        self.ours = ours.event

    def _version(self, at, name, **said):
        item = self.me.memory(name, at, f"{at}")
        origin = self.origins[bytes.fromhex(item.event.id)] = replace(Origin.plain(item.event.id, at), **said)
        return replace(item, origin=origin)

    def file(self, at, *, name=KEY, **said):
        """A version of another device arrives."""
        self.ledger.file_events([self._version(at, name, **said)], None, NOW)

    def remove(self, removal, at=60, *, name=KEY, now=NOW):
        grave = replace(self.me.tombstone(name, at), removals={f"sense-memory/{name}": removal})
        self.ledger.file_events([grave], None, now, self.origins)

    def drafts(self):
        return [(draft.reason, draft.created_at) for draft in self.ledger.drafts.all()]


@pytest.fixture
def slot(ledger, me, relay):
    return Slot(ledger, me, relay)


def short(event):
    return event.id[:ID_CHARS]


def test_a_text_that_was_forgotten_unseen_becomes_a_draft(slot):
    slot.remove(Removal(until=60))

    assert slot.ledger.versions(SLOT)[0].role is Role.TOMBSTONE
    assert slot.drafts() == [(FORGOTTEN_ELSEWHERE, 50.0)]
    assert slot.ledger.edits.overruled() == [SLOT]


def test_a_draft_is_not_dated_after_the_clock(slot):
    slot.remove(Removal(until=60), now=40.0)

    assert slot.drafts() == [(FORGOTTEN_ELSEWHERE, 40.0)]


@pytest.mark.parametrize("case", ["named", "kept", "of another device", "edited since", "not forgotten"])
def test_a_text_that_was_known_was_another_devices_or_was_edited_since_becomes_no_draft(slot, case):
    removal = Removal(until=60)
    match case:
        case "named":
            removal = Removal(until=60, texts=(short(slot.ours),))
        case "kept":
            removal = Removal(until=60, kept=frozenset([short(slot.ours)]))
        case "of another device":
            slot.origins[bytes.fromhex(slot.ours.id)] = replace(
                Origin.plain(slot.ours.id, 50), device="other"
            )
        case "edited since":
            slot.file(at=55, device="other", count=1, seen={"other": 1, slot.ledger.edits.device: 1})
        case "not forgotten":
            removal = Removal(until=49, upto=60)  # pruned
    slot.remove(removal)

    assert [item.role for item in slot.ledger.versions(SLOT)] == [Role.TOMBSTONE]
    assert slot.drafts() == []


@pytest.mark.parametrize(("is_held", "is_drafted"), [(False, True), (True, False)])
def test_a_removal_that_states_nothing_cannot_have_known_what_no_relay_had(slot, is_held, is_drafted):
    if is_held:
        slot.ledger.file_events([slot.me.memory(KEY, 50, "50")], slot.relay, NOW)
    slot.remove(Removal.blind(60))

    assert bool(slot.drafts()) is is_drafted


def test_a_draft_of_a_text_that_is_named_later_is_removed(slot):
    slot.remove(Removal(until=60))
    slot.remove(Removal(until=60, texts=(short(slot.ours),)), at=61)

    assert slot.drafts() == []


@pytest.mark.parametrize(
    ("removal", "recalls", "is_left"),
    [
        (Removal(upto=60, is_automatic=True), 1, True),
        (Removal(upto=60, is_automatic=True), 0, False),
        (Removal(upto=60), 1, False),  # a user asked for it
        (Removal(until=60, is_automatic=True), 1, False),  # forgotten
    ],
)
def test_a_recall_keeps_a_memory_alive_that_another_device_pruned(slot, removal, recalls, is_left):
    """The kept version is listed: its writer writes it anew above the tombstone."""
    if recalls:
        slot.ledger.edits.record_accesses([(SLOT, NOW, recalls)])
    slot.remove(removal)

    kept = [item for item in slot.ledger.versions(SLOT) if item.role is Role.MEMORY]
    assert [item.id.hex() for item in kept] == [slot.ours.id] * is_left
    assert slot.ledger.edits.forks() == ({SLOT: (kept[0].seq,)} if is_left else {})
    assert bool(slot.ledger.edits.accesses()) is is_left


def test_what_the_pruning_device_did_not_know_stays(slot):
    slot.file(at=55, device="other", count=2, seen={"other": 2})
    slot.remove(Removal(seen={"other": 1}, upto=60))

    left = [item.event().created_at for item in slot.ledger.versions(SLOT) if item.role is Role.MEMORY]
    assert left == [55]


@pytest.mark.parametrize(("said_at", "is_listed"), [(50, True), (60, True), (61, False)])
def test_a_forgotten_text_that_was_signed_again_later_is_listed_even_if_it_is_flat(slot, said_at, is_listed):
    """It must be replaced on relays before it may go."""
    slot.file(at=70, name="flat", said=ID, said_at=said_at)
    slot.remove(Removal(until=60), name="flat")

    (head, *_) = slot.ledger.versions("sense-memory/flat")
    assert head.role is Role.MEMORY
    assert slot.ledger.edits.forks() == ({"sense-memory/flat": (head.seq,)} if is_listed else {})


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
