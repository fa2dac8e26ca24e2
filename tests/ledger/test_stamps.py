"""The version clock (docs/wire-format.md) against a rule so plain that it can be read off: try every second."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.errors import ClockSkewError
from sense_memory.ledger import stamps as stamps_module
from sense_memory.ledger.stamps import BurstWait, Stamps
from sense_memory.limits import MAX_EVENTS_PER_SECOND_COUNT, MAX_FUTURE_SECONDS, STAMP_LOOKBACK_SECONDS


NOW = 1_800_000_000


def stamps_over(used: Counter[int], now: int = NOW) -> Stamps:
    return Stamps(now, lambda second: used[second])


def plain_rule(now, mark, used, *, room, back, ahead):
    """The rule by brute force: the second, or the error's class."""
    for second in range(now, now - back - 1, -1):
        if second >= 0 and used[second] < room and (mark is None or second > mark):
            return second
    if mark is not None and mark > now + ahead:
        return ClockSkewError
    second = max(now, -1 if mark is None else mark) + 1
    while used[second] >= room:
        second += 1
    return second if second <= now + ahead else BurstWait


# ── Single writes ───────────────────────────────────────────────────────────────────────


def test_a_first_write_takes_this_second():
    assert stamps_over(Counter()).assign(None) == NOW


def test_an_edit_never_shares_the_second_of_the_version_before():
    assert stamps_over(Counter()).assign(NOW) == NOW + 1


def test_an_edit_after_a_pause_takes_this_second():
    assert stamps_over(Counter()).assign(NOW - 1) == NOW


def test_a_full_second_sends_the_next_write_one_second_back():
    assert stamps_over(Counter({NOW: MAX_EVENTS_PER_SECOND_COUNT})).assign(None) == NOW - 1


def test_199_events_in_a_second_leave_room_for_one():
    stamps = stamps_over(Counter({NOW: MAX_EVENTS_PER_SECOND_COUNT - 1}))

    assert [stamps.assign(None), stamps.assign(None)] == [NOW, NOW - 1]


def test_a_burst_is_dated_back_an_hour_and_then_ahead():
    full = Counter({NOW - back: MAX_EVENTS_PER_SECOND_COUNT for back in range(STAMP_LOOKBACK_SECONDS)})
    stamps = stamps_over(full)

    oldest = [stamps.assign(None) for _ in range(MAX_EVENTS_PER_SECOND_COUNT)]

    assert oldest == [NOW - STAMP_LOOKBACK_SECONDS] * MAX_EVENTS_PER_SECOND_COUNT
    assert stamps.assign(None) == NOW + 1


def test_an_edit_of_an_address_whose_past_is_full_goes_ahead_and_never_below_its_mark():
    full = Counter({NOW: MAX_EVENTS_PER_SECOND_COUNT, NOW + 1: MAX_EVENTS_PER_SECOND_COUNT})

    assert stamps_over(full).assign(NOW - 1) == NOW + 2
    assert stamps_over(full).assign(NOW - 2) == NOW - 1


def test_a_skipped_second_is_still_found_for_an_address_with_a_lower_mark():
    """The memory of which seconds are full must not hide one that was never looked at."""
    stamps = stamps_over(Counter({NOW: MAX_EVENTS_PER_SECOND_COUNT}))

    assert stamps.assign(NOW - 1) == NOW + 1
    assert stamps.assign(None) == NOW - 1


def test_the_clock_at_the_epoch_has_a_second_too():
    assert stamps_over(Counter(), now=0).assign(None) == 0


def test_each_second_is_asked_for_once_however_long_the_burst():
    asked = Counter()

    def used(second):
        asked[second] += 1
        return 0

    stamps = Stamps(NOW, used)
    for _ in range(5 * MAX_EVENTS_PER_SECOND_COUNT):
        stamps.assign(None)

    assert set(asked.values()) == {1}


# ── Limits ahead ────────────────────────────────────────────────────────────────────────


def test_a_mark_just_inside_the_bound_is_written_past():
    assert stamps_over(Counter()).assign(NOW + MAX_FUTURE_SECONDS - 1) == NOW + MAX_FUTURE_SECONDS


def test_a_mark_at_the_bound_waits_one_second():
    with pytest.raises(BurstWait) as caught:
        stamps_over(Counter()).assign(NOW + MAX_FUTURE_SECONDS)

    assert caught.value.seconds == 1


def test_a_mark_beyond_the_bound_is_a_clock_error_that_names_both_times():
    with pytest.raises(ClockSkewError) as caught:
        stamps_over(Counter()).assign(NOW + MAX_FUTURE_SECONDS + 1)

    assert (caught.value.now, caught.value.mark) == (NOW, NOW + MAX_FUTURE_SECONDS + 1)


def test_a_wait_is_as_long_as_it_says():
    mark = NOW + MAX_FUTURE_SECONDS
    crowded = Counter({mark + ahead: MAX_EVENTS_PER_SECOND_COUNT for ahead in range(1, 4)})

    with pytest.raises(BurstWait) as caught:
        stamps_over(crowded).assign(mark)

    assert stamps_over(crowded, now=NOW + caught.value.seconds).assign(mark) == mark + 4
    with pytest.raises(BurstWait):
        stamps_over(crowded, now=NOW + caught.value.seconds - 1).assign(mark)


def test_a_refused_stamp_uses_nothing_up():
    stamps = stamps_over(Counter({NOW: MAX_EVENTS_PER_SECOND_COUNT - 1}))
    with pytest.raises(ClockSkewError):
        stamps.assign(NOW + 10_000)

    assert stamps.assign(None) == NOW


# ── Every rule at once ──────────────────────────────────────────────────────────────────

ROOM, BACK, AHEAD = 2, 6, 4  # small, so that a few dozen writes reach every bound


@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.integers(-2, 3),  # how the clock moves before the write
            st.booleans(),  # whether the version clock is taken anew, as for each batch
        ),
        max_size=60,
    ),
    foreign_marks=st.dictionaries(st.sampled_from("abcd"), st.integers(90, 118)),
)
def test_every_stamp_is_the_one_that_the_plain_rule_finds(writes, foreign_marks):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stamps_module, "MAX_EVENTS_PER_SECOND_COUNT", ROOM)
        patched.setattr(stamps_module, "STAMP_LOOKBACK_SECONDS", BACK)
        patched.setattr(stamps_module, "MAX_FUTURE_SECONDS", AHEAD)
        now, used, marks, stamps = 100, Counter(), dict(foreign_marks), None
        for address, step, anew in writes:
            if anew or stamps is None:
                now, stored = now + step, Counter(used)
                stamps = Stamps(now, lambda second, stored=stored: stored[second])
            expected = plain_rule(now, marks.get(address), used, room=ROOM, back=BACK, ahead=AHEAD)
            if isinstance(expected, type):
                with pytest.raises(expected):
                    stamps.assign(marks.get(address))
                continue
            second = stamps.assign(marks.get(address))
            assert expected == second
            assert address not in marks or second > marks[address]
            assert now - BACK <= second <= now + AHEAD
            marks[address] = second
            used[second] += 1
            assert used[second] <= ROOM


def test_ten_thousand_new_addresses_fill_fifty_seconds_to_the_brim():
    stamps = stamps_over(Counter())

    taken = Counter(stamps.assign(None) for _ in range(10_000))

    assert taken == Counter({NOW - back: MAX_EVENTS_PER_SECOND_COUNT for back in range(50)})
