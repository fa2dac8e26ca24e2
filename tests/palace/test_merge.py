"""Merging: any order, any grouping, any repetition gives the same, and nothing that was said is lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory, State
from sense_memory.palace.lifecycle import without_dismissed
from sense_memory.palace.merge import joined, merge, sibling
from sense_memory.palace.version import PersonaVersion, Provenance, fields_of, version_of


NOW = 1_775_000_000


def memory(**fields):
    return PersonaMemory(
        **{"domain": "people", "facet": "facts", "key": "lisa", "value": "artist", "created_at": NOW} | fields
    )


def version(ident, at=NOW, said=None, rest=None, **fields):
    """A version whose value is its own unless `said` names another event's."""
    ident = ident.ljust(64, "0")
    item = memory(event_id=ident, **fields)
    device = ["", *item.seen][-1]
    return PersonaVersion(
        item, at, said or Provenance(at, ident, device, item.seen.get(device, 0)), float(at), rest or {}
    )


# ── Laws, for anything that JSON may hold ───────────────────────────────────────────────

few = settings(max_examples=30, deadline=None)
vectors = st.dictionaries(st.sampled_from("ab"), st.integers(0, 3), max_size=2)
paths = st.lists(st.sampled_from(["x/y/a", "x/y/b"]), max_size=2).map(tuple)
decisions = st.sampled_from(
    [((), False, {}), ((), True, {}), ((), True, {"x/y/a": 2}), (("x/y/a",), False, {"x/y/a": 1, "x/y/b": 3})]
)


@st.composite
def worlds(draw):
    """Versions as writers that know the rules, or do not, may have left them: ids are unique, ties happen."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        ident = f"{number:064x}"
        seen = draw(vectors)
        said = draw(
            st.one_of(
                st.just(Provenance(NOW, ident)),
                st.builds(
                    Provenance,
                    st.integers(NOW, NOW + 2),
                    st.sampled_from([f"{n:064x}" for n in range(5)]),
                    st.sampled_from(["", "a", "b"]),
                    st.integers(0, 3),
                ),
            )
        )
        item = memory(
            event_id=ident,
            value=draw(st.sampled_from(["one", "two", "three"])),
            seen=seen,
            access_count=draw(st.integers(0, 3)),
            last_accessed=draw(st.integers(NOW, NOW + 3)),
            connections=draw(paths),
            contradicts=draw(paths),
            superseded_by=draw(st.sampled_from([None, "x/y/a"])),
            dissolved_at=draw(st.sampled_from([None, NOW, NOW + 1])),
            halflife_days=draw(st.sampled_from([30.0, 60.0])),
        )
        dismissed, by_hand, decided = draw(decisions)
        item = without_dismissed(
            item.changed(dismissed=dismissed, marked_by_hand=item.contradicts if by_hand else ())
        )
        at = draw(st.integers(NOW, NOW + 3))
        found.append(PersonaVersion(item, at, said, float(NOW), decided=decided))
    return found


@few
@given(worlds(), worlds())
def test_merging_is_commutative(some, others):
    assert merge(some, others) == merge(others, some) or _clash(some, others)


@few
@given(worlds())
def test_merging_is_associative(world):
    for cut in range(len(world)):
        for end in range(cut, len(world)):
            one, two, three = world[:cut], world[cut:end], world[end:]
            assert merge(merge(one, two), three) == merge(one, merge(two, three))


@few
@given(worlds())
def test_merging_is_idempotent_and_leaves_only_what_nobody_knows(world):
    once = merge(world, ())
    assert merge(once, once) == once
    assert merge(once, world) == once
    assert once


@few
@given(worlds(), st.randoms(use_true_random=False))
def test_what_versions_make_together_does_not_depend_on_their_order(world, chance):
    shuffled = chance.sample(world, len(world))
    assert joined(world) == joined(shuffled)
    assert joined(merge(world, ())) == joined(world)


@few
@given(worlds())
def test_joining_takes_the_maximum_and_unites(world):
    both = joined(world)
    alive = [item for item in merge(world, ()) if item.memory.seen] or merge(world, ())
    made = both.version.memory

    assert made.access_count == max(item.memory.access_count for item in alive)
    assert made.last_accessed == max(item.memory.last_accessed for item in alive)
    assert set(made.connections) == {link for item in alive for link in item.memory.connections}
    if any(item.memory.dissolved_at is None for item in alive):
        assert made.dissolved_at is None
    assert all(made.seen.get(device, 0) >= n for item in alive for device, n in item.memory.seen.items())


@few
@given(worlds())
def test_no_value_that_still_stands_is_lost(world):
    both = joined(world)
    kept = {both.version.memory.value, *(loser.memory.value for loser in both.losers)}
    assert len(kept) == 1 + len(both.losers)
    assert kept <= {item.memory.value for item in world}


def _clash(some, others):
    """Two different versions under one id, which no two events are."""
    known = {item.id: item for item in some}
    return any(item.id in known and known[item.id] != item for item in others)


# ── Cases ───────────────────────────────────────────────────────────────────────────────


def test_a_version_that_knows_the_other_wins_whole():
    old = version("1", NOW, seen={"a": 1}, connections=("x/y/a",), access_count=9)
    new = version("2", NOW + 1, seen={"a": 1, "b": 1}, value="sculptor")

    assert joined([old, new]).version == new


def test_of_two_values_the_later_counts_and_the_other_is_kept():
    one = version("1", NOW, seen={"a": 2}, value="painter")
    two = version("2", NOW + 1, seen={"a": 1, "b": 1}, value="sculptor")
    both = joined([one, two])

    assert (both.version.memory.value, both.losers, both.settled) == ("sculptor", (one,), False)
    assert both.version.memory.seen == {"a": 2, "b": 1}


MARKED = {"contradicts": ("x/y/b",), "superseded_by": "x/y/b", "marked_by_hand": ("x/y/b",)}
DISMISSED = {"dismissed": ("x/y/b",)}


@pytest.mark.parametrize(
    ("one", "decided", "other", "other_decided", "wins"),
    [
        (DISMISSED, 5, MARKED, 7, MARKED),
        (DISMISSED, 7, MARKED, 5, DISMISSED),
        (DISMISSED, 5, MARKED, 5, DISMISSED),
        (DISMISSED, None, MARKED, NOW + 5, MARKED),  # a dismissal of an older program: at NOW at the latest
        (DISMISSED, None, MARKED, NOW - 5, DISMISSED),
        (DISMISSED, 5, MARKED, None, DISMISSED),  # a mark of an older program
        ({}, 7, MARKED, 5, {}),  # taken back, by `undo`
        (
            {},
            7,
            MARKED | {"marked_by_hand": ()},
            None,
            MARKED | {"marked_by_hand": ()},
        ),  # only the rules set it
        ({}, 7, DISMISSED, 5, {}),
        ({}, 5, DISMISSED, 7, DISMISSED),
        ({}, None, DISMISSED, 5, DISMISSED),
        ({}, None, MARKED, None, MARKED),
    ],
)
def test_of_what_a_hand_decided_on_two_devices_the_latest_counts(one, decided, other, other_decided, wins):
    both = [
        replace(version(ident, seen={ident: 1}, said=Provenance(NOW, "0"), **fields), decided=times)
        for ident, fields, time in (("1", one, decided), ("2", other, other_decided))
        for times in ({} if time is None else {"x/y/b": time},)
    ]
    made = joined(both).version
    assert joined(both[::-1]).version == made
    merged = replace(made, memory=made.memory.changed(event_id="3"))
    expected = {name: getattr(memory(**wins), name) for name in (*MARKED, *DISMISSED)}
    for (
        one_of
    ) in both:  # a later version of a device that does not know of the merge, and decided nothing since
        seen = dict.fromkeys(one_of.memory.seen, 2)
        carrier = replace(one_of, memory=one_of.memory.changed(event_id="4", seen=seen))
        for found in (made.memory, joined([merged, carrier]).version.memory):
            assert {name: getattr(found, name) for name in expected} == expected


def test_a_value_yields_to_one_that_was_said_in_knowledge_of_it_whatever_came_later():
    first = version("1", NOW, seen={"a": 1}, value="artist")
    touched = version("2", NOW + 9, said=first.provenance, seen={"a": 2}, value="artist", access_count=5)
    edit = version(
        "3", NOW + 1, said=Provenance(NOW + 1, "3".ljust(64, "0"), "b", 1), seen={"a": 1, "b": 1}, value="new"
    )
    both = joined([touched, edit])

    assert (both.version.memory.value, both.version.memory.access_count, both.losers) == ("new", 5, ())


def test_the_same_text_twice_is_no_conflict():
    one = version("1", NOW, seen={"a": 2}, value="painter")
    two = version("2", NOW + 1, seen={"b": 1}, value="painter")

    assert joined([one, two]).losers == ()


def test_a_version_without_a_vector_is_last_write_wins():
    ours = version("1", NOW + 1, seen={"a": 1}, value="ours")
    for at, value in ((NOW, "ours"), (NOW + 2, "theirs")):
        theirs = version("2", at, value="theirs")
        both = joined([ours, theirs])
        assert (both.version.memory.value, both.losers) == (value, ())


def test_source_and_confidence_come_with_the_value():
    first = version("1", NOW, seen={"a": 1}, source="tool:web", confidence=0.2)
    touched = version("2", NOW + 9, said=first.provenance, seen={"a": 2}, source="tool:web", confidence=0.2)
    edit = version(
        "3",
        NOW + 1,
        said=Provenance(NOW + 1, "3".ljust(64, "0"), "b", 1),
        seen={"a": 1, "b": 1},
        value="new",
        source="user",
        confidence=1.0,
    )
    made = joined([touched, edit]).version.memory

    assert (made.value, made.source, made.confidence) == ("new", "user", 1.0)


def test_the_sibling_is_the_same_wherever_it_is_made():
    loser = version("deadbeef", NOW, seen={"a": 2}, value="painter", connections=("x/y/a",), themes=("art",))
    kept = sibling(loser)

    assert (kept.key, kept.conflict_of) == ("lisa~conflict-deadbeef", "people/facts/lisa")
    assert (kept.value, kept.connections, kept.themes, kept.seen) == ("painter", (), ("art",), {"a": 2})


def test_three_versions_end_alike_in_every_order_of_meeting():
    three = [version(str(n), NOW + n, seen={device: 1}, value=f"text {n}") for n, device in enumerate("abc")]
    ends = {str(joined(merge(merge([one], [two]), [other]))) for one, two, other in permutations(three)}

    assert len(ends) == 1


def test_fields_make_the_round_trip():
    item = memory(
        event_id="1" * 64,
        connections=("x/y/a",),
        themes=("art",),
        seen={"a": 1},
        dissolved_at=NOW + 1.5,
        dismissed=("x/y/b",),
        conflict_of="people/facts/bob",
        state=State.FADING,
        superseded_by="x/y/a",
        contradicts=("x/y/a",),
    )
    for said, expected in (
        ("a", Provenance(NOW, "1" * 64, "a", 1)),
        (Provenance(5, "2" * 64, "b", 7), Provenance(5, "2" * 64, "b", 7)),
    ):
        found = version_of(fields_of(item, said, 3.5, {"mood": 1}, {"x/y/b": 5}), "1" * 64, NOW)
        assert found == PersonaVersion(item, NOW, expected, 3.5, {"mood": 1}, {"x/y/b": 5})
