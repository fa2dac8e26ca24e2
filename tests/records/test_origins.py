"""What the ledger reads inside: who made an edit and what that device knew, and what a removal removes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger.removals import ID_CHARS, Origin, Removal
from sense_memory.limits import MAX_SAFE_INTEGER, MAX_VECTOR_COUNT
from sense_memory.nostr import address
from sense_memory.records.envelope import Record
from sense_memory.records.kinds import RecordType
from sense_memory.records.origins import (
    AGAIN,
    FORGET,
    PRUNE,
    counted,
    edited_by,
    next_seen,
    origin_of,
    removal_of,
    removing,
)


ID, PATH = "ab" * 32, "persona/people/facts/a"


@given(st.dictionaries(st.text("0123456789abcdef", min_size=8, max_size=8), st.integers(0, 9), max_size=20))
def test_an_edit_knows_what_the_edit_before_it_knew(seen):
    assert counted(seen, "0badcafe", 10) == {**seen, "0badcafe": 10}


def test_a_vector_of_many_ids_keeps_the_latest():
    """As where each process runs in a container of its own, and none can take the id of the one before over."""
    seen = {}
    for number in range(3 * MAX_VECTOR_COUNT):
        seen = counted(seen, f"{number:08x}", 1_000 + number)
        assert len(seen) <= MAX_VECTOR_COUNT
        assert max(seen.values()) == seen[f"{number:08x}"] == 1_000 + number
        assert sorted(seen.values())[-100:] == list(
            range(1_000 + number + 1 - min(number + 1, 100), 1_001 + number)
        )


@pytest.mark.parametrize(
    ("count", "now", "next_count"),
    [
        (0, 0.0, 1),
        (0, 50.9, 50),
        (7, 50.0, 50),
        (50, 50.0, 51),
        (50, 7.0, 51),
    ],  # 7.0: a clock that was set back
)
def test_the_count_of_a_device_grows_with_each_edit_and_is_at_least_the_time(count, now, next_count):
    seen = {"other": 9} | ({"mine": count} if count else {})
    before = Origin(5, "ab" * 32, 5, "mine", count, seen)

    assert next_seen(before, "mine", now) == {**seen, "mine": next_count}
    assert edited_by("mine", {"seen": seen}, now) == {"seen": {**seen, "mine": next_count}, "said": "mine"}


def test_a_new_memory_begins_a_vector():
    assert next_seen(None, "mine", 50.0) == edited_by("mine", {}, 50.0)["seen"] == {"mine": 50}


# ── Origins ─────────────────────────────────────────────────────────────────────────────


EDITED = {"seen": {"mine": 3, "other": 9}, "said": "mine", "value": "v"}


@pytest.mark.parametrize(
    ("kind", "fields", "is_known"),
    [
        (RecordType.PERSONA, EDITED, True),
        (RecordType.FLAT, EDITED, True),
        (RecordType.MIND, EDITED, True),
        (RecordType.MIND, {**EDITED, "seen": 3}, False),
        (RecordType.INTROSPECTION, EDITED, False),
        (RecordType.PERSONA, {"value": "v"}, False),  # another writer keeps no vector
    ],
)
def test_the_origin_of_a_text_is_what_its_record_says(kind, fields, is_known):
    origin = origin_of(Record(kind, "a", fields), ID, 50)

    plain = Origin.plain(ID, 50)
    assert (origin.at, origin.said, origin.said_at) == (plain.at, plain.said, plain.said_at)
    told = ("mine", 3, EDITED["seen"]) if is_known else ("", 0, {})
    assert (origin.device, origin.count, origin.seen) == told
    assert origin.is_merged == (kind is RecordType.PERSONA or not is_known)


@pytest.mark.parametrize(
    ("claim", "slot"),
    [("people/facts/a", address.d_tag(PATH)), ("", ""), (7, ""), (None, "")],
)
def test_a_conflict_copy_names_the_memory_that_it_is_a_copy_of(claim, slot):
    fields = EDITED if claim is None else EDITED | {"conflict_of": claim}

    assert origin_of(Record(RecordType.PERSONA, PATH, fields), ID, 50).copy_of == slot


# ── Removals ────────────────────────────────────────────────────────────────────────────


seconds = st.one_of(st.just(-1), st.integers(1, MAX_SAFE_INTEGER))
named = st.lists(st.text("0123456789abcdef", min_size=ID_CHARS, max_size=ID_CHARS), max_size=3)


@given(
    st.builds(
        Removal,
        seconds,
        named.map(tuple),
        st.dictionaries(st.sampled_from(["one", "two"]), st.integers(0, 9)),
        seconds,
        named.map(frozenset),
    )
)
def test_a_removal_is_read_as_it_was_written(removal):
    """Forgetting is dated by its own event; what is only pruned or forgotten again keeps the earlier date."""
    for why in (FORGET, PRUNE, AGAIN):
        found = removal_of(removing(why, removal), "a", 50)
        assert found.until == (50 if why == FORGET else removal.until)
        assert (found.texts, found.kept) == (removal.texts, removal.kept)
        assert (found.seen, found.upto) == (removal.seen, removal.upto)
        assert (found.is_automatic, found.is_blind) == (why != FORGET, False)


@pytest.mark.parametrize(("path", "count"), [(PATH, 2), ("a", 0)])
def test_copies_of_a_forgotten_text_are_looked_for_beside_memories_that_are_merged(path, count):
    texts = ("ab" * (ID_CHARS // 2), "cd" * (ID_CHARS // 2))
    copies = [address.d_tag(f"{path}~conflict-{text[:8]}") for text in texts]

    assert removal_of(removing(FORGET, Removal(texts=texts)), path, 50).copies == tuple(copies[:count])


@pytest.mark.parametrize("fields", [{}, {"why": "other"}, {"why": 7}, [], None, {"until": 7, "texts": []}])
def test_a_removal_of_another_writer_removes_every_text_up_to_its_date(fields):
    assert removal_of(fields, PATH, 50) == Removal.blind(50)


@pytest.mark.parametrize("second", [1, MAX_SAFE_INTEGER])
def test_any_second_that_json_can_hold_is_read(second):
    found = removal_of({"why": PRUNE, "until": second, "upto": second}, "a", 50)

    assert (found.until, found.upto) == (second, second)


@pytest.mark.parametrize("until", [-5, 0, True, "7", 7.0, MAX_SAFE_INTEGER + 1, None])
def test_what_is_no_second_is_none_and_what_is_no_id_names_nothing(until):
    fields = {"why": PRUNE, "until": until, "upto": until, "texts": ["short", 7, "f" * ID_CHARS], "kept": "x"}

    found = removal_of(fields, "a", 50)

    assert (found.until, found.upto, found.texts, found.kept) == (-1, -1, ("f" * ID_CHARS,), frozenset())
