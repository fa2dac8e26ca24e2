"""The version clock (docs/wire-format.md) against a rule so plain that it can be read off: try every second."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.errors import ClockSkewError
from sense_memory.ledger import stamps as stamps_module
from sense_memory.ledger.stamps import BurstWait, Stamps
from sense_memory.limits import (
    MAX_EVENTS_PER_SECOND_COUNT,
    MAX_FUTURE_SECONDS,
    STAMP_LOOKBACK_SECONDS,
    USUAL_EVENTS_PER_SECOND_COUNT,
)


NOW = 1_800_000_000


def stamps_over(used: Counter[int], now: int = NOW) -> Stamps:
    return Stamps(now, lambda second, room: used[second])


def full(*seconds: int, count: int = MAX_EVENTS_PER_SECOND_COUNT) -> Counter[int]:
    return Counter(dict.fromkeys(seconds, count))


def plain_rule(now, mark, used, *, is_open, usual, most, back, ahead):
    """The rule by brute force: the second, or the error's class."""

    def latest(room):
        past = range(now, max(now - back, 0, -1 if mark is None else mark + 1) - 1, -1)
        return next((second for second in past if used[second] < room), None)

    if (second := latest(usual)) is not None:
        return second
    if is_open and mark is not None and mark <= now + ahead:
        return mark
    if (second := latest(most)) is not None:
        return second
    if mark is not None and mark > now + ahead:
        return ClockSkewError
    second = max(now, -1 if mark is None else mark) + 1
    while used[second] >= most:
        second += 1
    return second if second <= now + ahead else BurstWait


# ── Single writes ───────────────────────────────────────────────────────────────────────


def test_a_first_write_takes_this_second():
    assert stamps_over(Counter()).assign(None) == NOW


def test_an_edit_never_shares_the_second_of_the_version_before():
    assert stamps_over(Counter()).assign(NOW) == NOW + 1


def test_an_edit_after_a_pause_takes_this_second():
    assert stamps_over(Counter()).assign(NOW - 1) == NOW


def test_a_usual_second_sends_the_next_write_one_second_back():
    assert stamps_over(full(NOW, count=USUAL_EVENTS_PER_SECOND_COUNT)).assign(None) == NOW - 1


def test_49_events_in_a_second_leave_room_for_one():
    stamps = stamps_over(full(NOW, count=USUAL_EVENTS_PER_SECOND_COUNT - 1))

    assert [stamps.assign(None), stamps.assign(None)] == [NOW, NOW - 1]


def test_a_burst_spreads_over_an_hour_then_fills_its_seconds_and_then_goes_ahead():
    hour = range(NOW - STAMP_LOOKBACK_SECONDS, NOW + 1)
    used = full(*hour[1:], count=USUAL_EVENTS_PER_SECOND_COUNT)
    stamps = stamps_over(used)
    oldest = [stamps.assign(None) for _ in range(USUAL_EVENTS_PER_SECOND_COUNT)]
    assert oldest == [NOW - STAMP_LOOKBACK_SECONDS] * USUAL_EVENTS_PER_SECOND_COUNT
    assert stamps.assign(None) == NOW  # the second call of this second: it holds 50 and may hold 200

    stamps = stamps_over(full(*hour[1:]))
    oldest = [stamps.assign(None) for _ in range(MAX_EVENTS_PER_SECOND_COUNT)]
    assert oldest == [NOW - STAMP_LOOKBACK_SECONDS] * MAX_EVENTS_PER_SECOND_COUNT
    assert stamps.assign(None) == NOW + 1


def test_an_edit_of_an_address_whose_past_is_full_goes_ahead_and_never_below_its_mark():
    used = full(NOW, NOW + 1)

    assert stamps_over(used).assign(NOW - 1) == NOW + 2
    assert stamps_over(used).assign(NOW - 2) == NOW - 1


def test_an_edit_goes_to_a_crowded_second_rather_than_ahead():
    """What is dated ahead would win over what another device writes meanwhile."""
    assert stamps_over(full(NOW, count=USUAL_EVENTS_PER_SECOND_COUNT)).assign(NOW - 1) == NOW


def test_a_version_that_may_be_replaced_keeps_its_second_rather_than_crowding_another():
    used = full(NOW, count=USUAL_EVENTS_PER_SECOND_COUNT)

    assert stamps_over(used).assign(NOW - 1, is_open=True) == NOW - 1


def test_a_skipped_second_is_still_found_for_an_address_with_a_lower_mark():
    """The memory of which seconds are full must not hide one that was never looked at."""
    stamps = stamps_over(full(NOW))

    assert stamps.assign(NOW - 1) == NOW + 1
    assert stamps.assign(None) == NOW - 1


def test_the_clock_at_the_epoch_has_a_second_too():
    assert stamps_over(Counter(), now=0).assign(None) == 0


def test_each_second_is_asked_for_once_however_long_the_burst():
    asked = Counter()

    def used(second, room):
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
    stamps = stamps_over(Counter({NOW: USUAL_EVENTS_PER_SECOND_COUNT - 1}))
    with pytest.raises(ClockSkewError):
        stamps.assign(NOW + 10_000)

    assert stamps.assign(None) == NOW


# ── Every rule at once ──────────────────────────────────────────────────────────────────

USUAL, MOST, BACK, AHEAD = 2, 3, 6, 4  # small, so that a few dozen writes reach every bound


def next_below(second, stored):
    """As a ledger knows: the next second that does not hold the usual number yet."""
    second -= 1
    while stored[second] >= USUAL:
        second -= 1
    return second


@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.integers(-2, 3),  # how the clock moves before the write
            st.booleans(),  # whether the version clock is taken anew, as for each batch
            st.booleans(),  # whether the version before may be replaced
        ),
        max_size=60,
    ),
    foreign_marks=st.dictionaries(st.sampled_from("abcd"), st.integers(90, 118)),
)
def test_every_stamp_is_the_one_that_the_plain_rule_finds(writes, foreign_marks):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stamps_module, "USUAL_EVENTS_PER_SECOND_COUNT", USUAL)
        patched.setattr(stamps_module, "MAX_EVENTS_PER_SECOND_COUNT", MOST)
        patched.setattr(stamps_module, "STAMP_LOOKBACK_SECONDS", BACK)
        patched.setattr(stamps_module, "MAX_FUTURE_SECONDS", AHEAD)
        now, used, marks, stamps = 100, Counter(), dict(foreign_marks), None
        for address, step, anew, is_open in writes:
            if anew or stamps is None:
                now, stored = now + step, Counter(used)
                # A full second is not counted again, so the number may be too low from `room` on.
                stamps = Stamps(
                    now,
                    lambda second, room, stored=stored: min(stored[second], room),
                    lambda second, stored=stored: next_below(second, stored),
                )
            mark = marks.get(address)
            expected = plain_rule(
                now, mark, used, is_open=is_open, usual=USUAL, most=MOST, back=BACK, ahead=AHEAD
            )
            if isinstance(expected, type):
                with pytest.raises(expected):
                    stamps.assign(mark, is_open=is_open)
                continue
            second = stamps.assign(mark, is_open=is_open)
            assert expected == second
            assert second <= now + AHEAD
            if second == mark:
                assert is_open
                continue
            assert mark is None or second > mark
            assert now - BACK <= second
            marks[address] = second
            used[second] += 1
            assert used[second] <= MOST


def test_ten_thousand_new_addresses_spread_over_two_hundred_seconds():
    stamps = stamps_over(Counter())

    taken = Counter(stamps.assign(None) for _ in range(10_000))

    assert taken == full(*range(NOW - 199, NOW + 1), count=USUAL_EVENTS_PER_SECOND_COUNT)


def test_a_hundred_thousand_fit_the_hour_at_fifty_a_second():
    stamps = stamps_over(Counter())

    taken = Counter(stamps.assign(None) for _ in range(100_000))

    assert max(taken.values()) == USUAL_EVENTS_PER_SECOND_COUNT
    assert min(taken) > NOW - STAMP_LOOKBACK_SECONDS
