"""Version vectors: what an edit knows, and by whom it was made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger.removals import Origin
from sense_memory.limits import MAX_VECTOR_COUNT
from sense_memory.records.origins import counted, edited_by, next_seen


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
