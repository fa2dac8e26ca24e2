"""What a relay is asked next: a table of states and questions, without a relay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sense_memory.ledger.relays import PullProgress
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    HEAL_SECONDS,
    INCOMPLETE_SECONDS,
    KNOWN_EVENT_PAUSE_SECONDS,
    POLL_SECONDS,
    RESUME_SECONDS,
    SWEEP_SECONDS,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.relay.sync.agenda import (
    BEGINNING,
    Agenda,
    PullState,
    RelayQuestion,
    Round,
    after_cut_off,
    first_step,
    may_compare_after,
    step_after_blind_comparison,
    step_after_false_comparison,
    step_after_losses,
    step_after_resuming,
)
from sense_memory.relay.sync.walk import CROWDED, GAP, HIDDEN


NOTHING, PUSH, NEWER, RECENT, COMPARE, SWEEP = RelayQuestion
PULLED = Round(COMPARE)


def followed(*rounds, **now):
    """The question that follows some rounds, each at the time at which it was due."""
    agenda, at = Agenda(), 0.0
    agenda.begin(at)
    for done in rounds:
        question, until = agenda.next_question(at)
        if question is NOTHING:
            at = until
        agenda.record_round(at, done)
        at += INCOMPLETE_SECONDS if done.question.pulls else POLL_SECONDS
    return agenda.next_question(at, **now)[0]


# ── The background ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rounds", "state", "question"),
    [
        ([], {}, COMPARE),  # the first pull compares everything
        ([PULLED], {}, RECENT),
        ([PULLED], {"may_have_missed": True}, COMPARE),  # something may have come that nobody heard
        ([replace(PULLED, failed=True)], {}, COMPARE),
        ([PULLED, replace(PULLED, question=RECENT, refetched=10_000)], {}, NEWER),
        ([PULLED, replace(PULLED, question=RECENT, refetched=10_000)], {"may_have_missed": True}, COMPARE),
        ([PULLED, replace(PULLED, question=RECENT, refetched=1)], {}, RECENT),
        ([replace(PULLED, failed=True, cut_off=True, leaves_queued=True)], {}, PUSH),
        ([replace(PULLED, failed=True, cut_off=True, leaves_queued=True), Round(PUSH)], {}, COMPARE),
        ([replace(PULLED, failed=True, cut_off=True)], {}, COMPARE),
        ([PULLED], {"paused_until": 10_000.0}, NOTHING),
    ],
)
def test_the_background_asks(rounds, state, question):
    assert followed(*rounds, **state) is question


def test_between_two_questions_it_waits_until_it_is_woken():
    agenda = Agenda()
    agenda.begin(100.0)
    agenda.record_round(100.0, PULLED)

    assert agenda.next_question(100.5) == (NOTHING, 100.0 + POLL_SECONDS)
    agenda.wake()
    assert agenda.next_question(100.5)[0] is PUSH
    assert agenda.next_question(100.5, paused_until=160.0) == (NOTHING, 160.0)


@pytest.mark.parametrize(("complete", "pause"), [(True, BACKGROUND_SECONDS), (False, INCOMPLETE_SECONDS)])
def test_a_pull_follows_another_after_a_pause(complete, pause):
    agenda = Agenda()
    agenda.record_round(0.0, replace(PULLED, complete=complete))

    assert agenda.next_question(pause - 0.1)[0] is PUSH
    assert agenda.next_question(pause)[0] is RECENT


def test_a_whole_pull_is_put_off_by_what_it_fetched_in_vain_and_longer_each_time():
    """Some seconds for each known event, doubled while nothing new comes: bounded, and anew after something new."""
    waits = []
    for fruitless in (1, 2, 3, 20):
        agenda = Agenda()
        for _ in range(fruitless):
            agenda.record_round(0.0, Round(RECENT, refetched=1_000))
        waits.append(next(at for at in range(3_000) if agenda.next_question(float(at + 30))[0] is RECENT))
        agenda.record_round(0.0, Round(RECENT, refetched=1_000, new=1))
        assert agenda.next_question(1_000 * KNOWN_EVENT_PAUSE_SECONDS + 1)[0] is RECENT

    assert waits == [60 - 30, 120 - 30, 240 - 30, 960 - 30]


def test_a_relay_that_takes_a_subscription_and_hangs_up_is_pulled_without_one():
    agenda = Agenda()
    for _ in range(2):
        assert agenda.may_subscribe
        agenda.record_connection(cut_off=True, only_subscribed=True)
    assert not agenda.may_subscribe
    agenda.record_connection(cut_off=False, only_subscribed=False)
    assert agenda.may_subscribe


@pytest.mark.parametrize(
    ("seconds", "is_connected", "due"), [(1, True, False), (31, True, True), (1, False, True)]
)
def test_a_pull_is_due_when_a_subscription_ended(seconds, is_connected, due):
    """Not at once where the relay ends it early on a living connection: it may not want any."""
    agenda = Agenda()
    agenda.record_round(0.0, PULLED)
    agenda.record_subscription_end(seconds, is_connected=is_connected)

    assert (agenda.next_question(POLL_SECONDS)[0] is RECENT) == due


@pytest.mark.parametrize(
    ("question", "progressed", "complete", "rest"),
    [
        (COMPARE, True, False, COMPARE),
        (COMPARE, True, True, PUSH),
        (COMPARE, False, False, PUSH),
        (PUSH, True, True, PUSH),
        (PUSH, False, True, NOTHING),
    ],
)
def test_what_is_left_when_the_relay_hung_up(question, progressed, complete, rest):
    assert after_cut_off(question, progressed=progressed, complete=complete) is rest


# ── A pull ──────────────────────────────────────────────────────────────────────────────

NOW = 1_000_000.0
FRESH = PullState(NOW)
KNOWN = PullState(NOW, cursor=900_000, swept_at=NOW - 60, newest_seen=907_200, may_heal=False)
ALL = PullProgress(NOW, None, 0, BEGINNING)
SINCE = PullProgress(NOW, 900_000, 0, BEGINNING)
HALF = PullProgress(NOW - 60, 900_000, 907_000, {KIND_APP_DATA: (905_000, 500, "ab")})


@pytest.mark.parametrize(
    ("question", "state", "progress", "compares", "since"),
    [
        (COMPARE, FRESH, ALL, True, None),
        (COMPARE, KNOWN, SINCE, True, None),
        (RECENT, KNOWN, SINCE, True, 900_000),
        (SWEEP, KNOWN, ALL, False, None),  # a comparison proves nothing
        # A day after the last sweep, everything is asked for.
        (RECENT, replace(KNOWN, swept_at=NOW - SWEEP_SECONDS - 1), ALL, True, None),
        # What the relay serves though it was deleted shows in a walk only.
        (COMPARE, replace(KNOWN, serves_deleted=True), ALL, False, None),
        (RECENT, replace(KNOWN, serves_deleted=True), SINCE, False, 900_000),
        # One that forgets is looked at completely, once an hour in the background.
        (RECENT, replace(KNOWN, is_forgetful=True, may_heal=True), ALL, True, None),
        (RECENT, replace(KNOWN, is_forgetful=True), SINCE, True, 900_000),
        # A walk that was cut off goes on, if it goes back as far and not for too long.
        (COMPARE, replace(KNOWN, unfinished=HALF), HALF, False, None),
        (SWEEP, replace(KNOWN, unfinished=HALF), ALL, False, None),
        (
            RECENT,
            replace(KNOWN, unfinished=replace(HALF, begun_at=NOW - RESUME_SECONDS)),
            SINCE,
            True,
            900_000,
        ),
        # Nothing newer can be asked for where nothing was seen, or the clock was set back.
        (NEWER, replace(KNOWN, newest_seen=0), SINCE, True, 900_000),
        (NEWER, replace(KNOWN, newest_seen=int(NOW) + 1), SINCE, True, 900_000),
        (NEWER, replace(KNOWN, unfinished=HALF), HALF, False, 900_000),
    ],
)
def test_a_pull_begins_with(question, state, progress, compares, since):
    step = first_step(question, state)

    assert (step.progress, step.compares, step.compare_since) == (progress, compares, since)
    assert not step.only_newer


def test_what_is_newer_is_walked_alone():
    step = first_step(NEWER, KNOWN)

    assert step.only_newer
    assert not step.compares
    assert step.progress == replace(SINCE, since=907_201)


@pytest.mark.parametrize(
    ("question", "may_heal", "seconds"),
    [(RECENT, True, 0), (RECENT, False, HEAL_SECONDS), (SWEEP, False, 0)],
)
def test_what_went_missing_is_sent_again(question, may_heal, seconds):
    assert first_step(question, replace(KNOWN, may_heal=may_heal)).heal_seconds == seconds


def test_a_pull_that_misses_something_is_followed_by_one_of_everything():
    step = first_step(RECENT, replace(KNOWN, may_heal=True))

    more = step_after_losses(step, KNOWN, lost=True, saw_all=False)
    assert more is not None
    assert (more.progress, more.compares, more.compare_since) == (ALL, True, None)
    assert step_after_losses(step, KNOWN, lost=False, saw_all=False) is None
    assert step_after_losses(step, KNOWN, lost=True, saw_all=True) is None
    assert step_after_losses(first_step(RECENT, KNOWN), KNOWN, lost=True, saw_all=False) is None


def test_a_walk_that_went_on_where_another_was_cut_off_is_followed_by_one_over_what_came_since():
    step = first_step(RECENT, replace(KNOWN, unfinished=HALF))

    more = step_after_resuming(step, KNOWN, NOW)
    assert more is not None
    assert (more.progress, more.compares) == (SINCE, False)
    assert step_after_resuming(first_step(RECENT, KNOWN), KNOWN, NOW) is None


@pytest.mark.parametrize(
    ("reasons", "compares"),
    [
        ((), False),
        ((CROWDED,), True),
        ((CROWDED, GAP), True),
        ((CROWDED, "went silent"), False),
        ((HIDDEN,), False),
        ((HIDDEN, CROWDED), True),
    ],
)
def test_what_pages_cannot_show_a_comparison_may(reasons, compares):
    assert may_compare_after(reasons) == compares


# ── A journal that the relay hides, or does not compare ─────────────────────────────────

HIDES = replace(KNOWN, hides_journal=True, may_heal=True)


def steps(state):
    """Every step of a pull."""
    first = first_step(RECENT, state)
    resumed = first_step(RECENT, replace(state, unfinished=HALF))
    return (
        first,
        step_after_losses(first, state, lost=True, saw_all=False),
        step_after_false_comparison(first, state),
        step_after_resuming(resumed, state, NOW),
        step_after_blind_comparison(first, 5, whole=False),
    )


def test_while_the_relay_hides_the_journal_each_step_asks_for_all_of_it():
    assert {step.since(KIND_DIRECT_MESSAGE) for step in steps(HIDES)} == {None}
    assert [step.since(KIND_APP_DATA) for step in steps(HIDES)] == [
        step.since(KIND_DIRECT_MESSAGE) for step in steps(replace(HIDES, hides_journal=False))
    ]


def test_what_is_newer_is_asked_for_without_a_journal_that_the_relay_hides():
    step = first_step(NEWER, replace(KNOWN, hides_journal=True))

    assert step.only_newer
    assert step.progress.walks.keys() == {KIND_DELETION, KIND_APP_DATA}


def test_a_journal_that_a_comparison_did_not_show_is_walked_alone():
    compared = first_step(COMPARE, KNOWN)
    step = step_after_blind_comparison(compared, 950_000, whole=False)

    journal = {KIND_DIRECT_MESSAGE: BEGINNING[KIND_DIRECT_MESSAGE]}
    assert step.progress == replace(SINCE, newest=950_000, walks=journal)
    assert (step.kinds, step.compares) == ((KIND_DIRECT_MESSAGE,), False)
    assert step.since(KIND_DIRECT_MESSAGE) == 900_000
    without = step_after_blind_comparison(compared, 950_000, whole=True)
    assert without.since(KIND_DIRECT_MESSAGE) is None
