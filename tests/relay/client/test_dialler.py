"""How often a relay is dialled, whatever it does: plain numbers as time, no relay."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from sense_memory import limits
from sense_memory.relay.client.dialler import DialLimiter


@pytest.mark.parametrize("seed", range(20))
def test_r18_no_hour_has_more_than_80_dials_however_a_relay_behaves(seed):
    """The background dials as soon as it may, and hurries whenever it may; in each dial anything can happen."""
    chance, limiter, now, dials = random.Random(seed), DialLimiter(seed), 0.0, []
    eager = chance.random()
    while now < 3 * 3_600:
        dials.append(now)
        limiter.record_dial(now)
        now += chance.choice([0.0, 0.5, 29.0, 31.0, 100.0]) * chance.random()
        if chance.random() < eager and limiter.may_redial(now):
            continue
        limiter.record_run(now, failed=chance.random() < 0.2)
        now += limiter.wait_seconds(now)

    busiest = max(sum(start <= one < start + 3_600 for one in dials) for start in dials)
    assert 20 <= busiest <= limits.DIALS_PER_HOUR_COUNT


def test_a_relay_that_held_on_for_long_is_dialled_again_at_once():
    limiter = DialLimiter(1)
    for now in (0.0, 600.0, 1_200.0):
        assert limiter.wait_seconds(now) == 0
        assert limiter.may_redial(now)
        limiter.record_dial(now)
        limiter.record_run(now + 1, failed=False)


def test_one_that_is_dead_is_dialled_ever_more_seldom_and_no_two_clients_keep_in_step():
    waits = []
    for seed in range(2):
        limiter, now, pauses = DialLimiter(seed), 0.0, []
        for _ in range(14):
            limiter.record_dial(now)
            limiter.record_run(now, failed=True)
            pauses.append(limiter.wait_seconds(now))
            now += pauses[-1]
        assert pauses[0] < 2
        assert all(sooner < later for sooner, later in pairwise(pauses[:9]))
        assert 480 <= pauses[-1] <= 720
        waits += pauses
    assert len(set(waits)) == len(waits)
