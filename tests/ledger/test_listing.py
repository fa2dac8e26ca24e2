"""Lists of a ledger: a law for what is missing, and one for false alarms, against an oracle that keeps every version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger.listing import ListedSlot, ListedState, compared, joined, key_of, lines_of, listing


NOW = 10_000.0
SLOTS = [f"sense-memory/{name}" for name in "abcdef"]

# A version of a slot: its second, whether it is a memory (or a deletion), and its id.
versions = st.lists(
    st.tuples(st.sampled_from(SLOTS), st.integers(1, 12), st.booleans(), st.integers(0, 9)), max_size=24
)


def state_of(seen):
    """What a ledger has that saw some versions: of each slot the latest, of one second the lowest id."""
    found = {}
    for slot, second, is_live, number in sorted(seen, key=lambda one: (one[1], -one[3])):
        ident = bytes([number]) * 32
        found[slot] = ListedState(second, is_live, second if is_live else 0, ident if is_live else b"", True)
    return found


def as_one(seen):
    """No deletion has the second of a memory at its slot: a tombstone is dated later."""
    return list(
        {(slot, second): (slot, second, live, number) for slot, second, live, number in seen}.values()
    )


@given(versions, versions)
def test_whoever_saw_what_the_writer_saw_and_more_misses_nothing(before, since):
    """Deletions, newer edits and late arrivals raise no alarm."""
    seen = as_one(before)
    lines = listing(state_of(seen)).lines
    more = [
        one for one in as_one([*since, *seen]) if one in seen or (one[0], one[1]) not in {s[:2] for s in seen}
    ]

    found = compared(joined([lines]), state_of([*seen, *more]), NOW)

    assert (found.missing, found.outdated, found.undeleted) == (0, 0, 0)
    assert found.here == found.expected


@given(versions, st.sets(st.integers(0, 23)))
def test_whatever_is_hidden_is_told_slot_by_slot(everything, hidden):
    seen = as_one(everything)
    writer, reader = state_of(seen), state_of([one for at, one in enumerate(seen) if at not in hidden])
    missing = outdated = undeleted = 0
    for slot, state in writer.items():
        here = reader.get(slot)
        is_older = here is None or here.mark < state.mark
        if state.is_live and is_older:
            missing += here is None or not here.is_live
            outdated += here is not None and here.is_live
        undeleted += not state.is_live and here is not None and here.is_live and is_older

    found = compared(joined([listing(writer).lines]), reader, NOW)

    assert (found.missing, found.outdated, found.undeleted) == (missing, outdated, undeleted)
    assert found.expected == sum(state.is_live for state in writer.values())


@given(st.lists(versions, min_size=1, max_size=4))
def test_lists_may_be_joined_in_any_order(worlds):
    lists = [listing(state_of(as_one(world))).lines for world in worlds]

    assert joined(lists) == joined(reversed(lists))
    assert joined([*lists, *lists]) == joined(lists)


@given(versions)
def test_pages_hold_each_line_once_and_are_read_as_written(everything):
    found = listing(state_of(as_one(everything)))

    assert sorted(line for page in found.pages() for line in lines_of(page)) == sorted(found.lines)


def test_of_two_versions_of_one_second_the_lower_id_is_missed_if_the_other_is_shown():
    def ledger(first):
        return {SLOTS[0]: ListedState(5, is_live=True, created_at=5, ident=bytes([first]) * 32, is_held=True)}

    lower, higher = listing(ledger(1)).lines, listing(ledger(2)).lines
    assert compared(joined([lower]), ledger(2), NOW).outdated == 1
    assert compared(joined([higher]), ledger(1), NOW).outdated == 0


def test_what_is_dated_ahead_of_this_clock_is_not_judged():
    line = ListedSlot(key_of(SLOTS[0]), int(NOW) + 301, b"abcd")
    found = compared({line.key: line}, {}, NOW)
    assert (found.expected, found.missing, found.ahead) == (0, 0, 1)


def test_what_no_relay_has_is_not_listed_and_a_deletion_is_no_head():
    states = {
        SLOTS[0]: ListedState(5, is_live=True, created_at=5, ident=bytes(32), is_held=False),
        SLOTS[1]: ListedState(6),
        SLOTS[2]: ListedState(7, is_live=True, created_at=7, ident=b"\x01" * 32, is_held=True),
    }
    found = listing(states)
    assert (found.heads, {line.key for line in found.lines}) == (1, {key_of(SLOTS[1]), key_of(SLOTS[2])})


def test_a_hundred_thousand_memories_are_256_pages_that_fit_into_records():
    states = {
        f"sense-memory/{number}": ListedState(
            number + 1, True, number + 1, number.to_bytes(32, "little"), True
        )
        for number in range(100_000)
    }
    pages = listing(states).pages()
    assert len(pages) == 256
    assert sum(map(len, pages)) == 1_400_000
    assert max(map(len, pages)) * 4 / 3 < 10_100
