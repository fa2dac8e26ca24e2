"""Version vectors: what an edit knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sense_memory.limits import MAX_VECTOR_COUNT
from sense_memory.records.origins import counted


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
