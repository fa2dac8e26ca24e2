"""Pruning: which memories a plan touches and why, and what a report says of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.limits import MAX_HALFLIFE_DAYS
from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import Columns
from sense_memory.palace.lifecycle import current_state, revived
from sense_memory.palace.pruning import PruneAction, PruneOutcome, PrunePlan, PruneReport, plan


NOW = 1_775_000_000.0
DAY = 86_400.0
seeded = settings(max_examples=30, deadline=None, derandomize=True)
AGES = {State.ACTIVE: 0, State.FADING: 60, State.FORGOTTEN: 120, State.DISSOLVED: 300}  # days without access


def memory(state, stored=None, key="lisa", **given):
    """A memory that now stands in one state, and was written in another."""
    written = NOW - AGES[state] * DAY
    return PersonaMemory(
        **{"domain": "people", "facet": "facts", "key": key, "value": "artist", "created_at": written}
        | {"state": state if stored is None else stored}
        | given
    )


def step_of(item, now=NOW):
    made = plan([item], now)
    return made.steps[0] if made.steps else None


# ── Plans ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", [State.ACTIVE, State.FADING, State.FORGOTTEN])
def test_a_memory_whose_stored_state_is_true_is_left_alone(state):
    assert plan([memory(state)], NOW) == PrunePlan(NOW)


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", [State.ACTIVE, State.FADING, State.FORGOTTEN])
def test_a_stored_state_that_is_no_longer_true_is_replaced(before, after):
    step = step_of(memory(after, before))
    if before is after:
        assert step is None
        return
    assert (step.action, step.state, step.dissolved_at) == (PruneAction.RESTATE, after, None)
    assert step.reason == f"its relevance makes it {after}, it was {before}"
    assert step.applied() == step.memory.changed(state=after)


def test_a_memory_that_is_seen_dissolved_for_the_first_time_is_marked():
    step = step_of(memory(State.DISSOLVED, State.FORGOTTEN))
    assert (step.action, step.state, step.dissolved_at) == (PruneAction.RESTATE, State.DISSOLVED, NOW)
    assert "30 days from now" in step.reason
    bare = step_of(memory(State.DISSOLVED, State.DISSOLVED))
    assert (bare.action, bare.dissolved_at) == (PruneAction.MARK, NOW)


def test_a_memory_is_deleted_thirty_days_after_it_was_first_seen_dissolved():
    item = memory(State.DISSOLVED, dissolved_at=NOW - 30 * DAY)
    step = step_of(item)
    assert (step.action, step.reason) == (PruneAction.DELETE, "dissolved for 30 days, 30 days or more")
    assert step_of(item, NOW - 1) is None
    assert step.applied() == item


def test_a_dissolved_memory_stored_in_another_state_keeps_its_mark():
    step = step_of(memory(State.DISSOLVED, State.FORGOTTEN, dissolved_at=NOW - DAY))
    assert (step.action, step.state, step.dissolved_at) == (PruneAction.RESTATE, State.DISSOLVED, NOW - DAY)


def test_the_mark_of_a_memory_that_came_back_is_cleared():
    step = step_of(memory(State.ACTIVE, dissolved_at=NOW - 40 * DAY))
    assert (step.action, step.state, step.dissolved_at) == (PruneAction.CLEAR, State.ACTIVE, None)
    stored = step_of(memory(State.FADING, State.DISSOLVED, dissolved_at=NOW - 40 * DAY))
    assert (stored.action, stored.state, stored.dissolved_at) == (PruneAction.RESTATE, State.FADING, None)


def test_a_memory_that_was_recalled_in_time_starts_over():
    waiting = memory(State.DISSOLVED, dissolved_at=NOW - 29 * DAY)
    again = revived(waiting, NOW)
    assert plan([again], NOW + DAY).steps == ()
    later = plan([again.changed(state=State.FORGOTTEN)], NOW + 300 * DAY).steps[0]
    assert (later.action, later.dissolved_at) == (PruneAction.RESTATE, NOW + 300 * DAY)


def test_a_mark_from_before_the_last_access_counts_as_none():
    """A writer that does not know `dissolved_at` recalled the memory and kept the mark."""
    item = memory(State.DISSOLVED, dissolved_at=NOW - 400 * DAY, created_at=NOW - 900 * DAY)
    accessed = item.changed(last_accessed=NOW - 300 * DAY)
    step = step_of(accessed)
    assert (step.action, step.dissolved_at) == (PruneAction.MARK, NOW)


def test_the_days_of_a_memory_accessed_by_a_clock_ahead_begin_at_that_access():
    sunk = [f"a/b/{number}" for number in range(7)]
    item = memory(State.ACTIVE, last_accessed=NOW + 50 * DAY, contradicts=sunk)
    marked = step_of(item).applied()
    assert (marked.state, marked.dissolved_at) == (State.DISSOLVED, NOW + 50 * DAY)
    assert plan([marked], NOW + 79 * DAY).steps == ()
    assert len(plan([marked], NOW + 80 * DAY).deletions) == 1


def test_a_mark_from_a_clock_ahead_deletes_nothing():
    item = memory(State.DISSOLVED, dissolved_at=NOW + 400 * DAY)
    made = plan([item], NOW)
    assert made.steps == ()
    assert "clock ahead of this one" in made.held[item.path]
    assert plan([item], NOW + 429 * DAY).deletions == ()
    assert len(plan([item], NOW + 430 * DAY).deletions) == 1


def test_a_mark_of_this_very_second_is_not_from_a_clock_ahead():
    item = memory(State.DISSOLVED, dissolved_at=NOW)
    assert plan([item], NOW).held == {}
    assert plan([item], NOW - 1).held.keys() == {item.path}


def test_a_memory_that_shall_never_fade_is_never_deleted():
    eternal = memory(State.ACTIVE, halflife_days=MAX_HALFLIFE_DAYS)
    assert plan([eternal], NOW + 10_000 * DAY).steps == ()
    sunk = eternal.changed(
        contradicts=tuple(f"a/b/{number}" for number in range(7)), dissolved_at=NOW - 99 * DAY
    )
    made = plan([sunk], NOW)
    assert current_state(sunk, NOW) is State.DISSOLVED
    assert made.deletions == ()
    assert "never" in made.held[sunk.path]
    mortal = sunk.changed(halflife_days=MAX_HALFLIFE_DAYS - 1, last_accessed=NOW - 100 * DAY)
    assert len(plan([mortal], NOW).deletions) == 1


def test_the_count_is_of_states_changed_and_memories_deleted():
    made = plan(
        [
            memory(State.FADING, State.ACTIVE, "a"),
            memory(State.FORGOTTEN, State.FADING, "b"),
            memory(State.DISSOLVED, key="c"),
            memory(State.DISSOLVED, key="d", dissolved_at=NOW - 31 * DAY),
            memory(State.ACTIVE, key="e", dissolved_at=NOW - DAY),
            memory(State.ACTIVE, key="f"),
        ],
        NOW,
    )
    assert [(step.path[-1], step.action) for step in made.steps] == [
        ("a", PruneAction.RESTATE),
        ("b", PruneAction.RESTATE),
        ("c", PruneAction.MARK),
        ("d", PruneAction.DELETE),
        ("e", PruneAction.CLEAR),
    ]
    assert made.count == 3
    assert [step.path[-1] for step in made.deletions] == ["d"]
    assert [step.path[-1] for step in made.rewrites] == ["a", "b", "c", "e"]


# ── Plans of any palace ─────────────────────────────────────────────────────────────────


times = st.sampled_from([-400, -300, -200, -60, -30, -29, -1, 0, 30]).map(lambda days: NOW + days * DAY)


@st.composite
def palaces(draw):
    return [
        PersonaMemory(
            domain="people",
            facet="facts",
            key=f"m{number}",
            value="",
            created_at=NOW - 900 * DAY,
            last_accessed=draw(times),
            state=draw(st.sampled_from(State)),
            dissolved_at=draw(st.none() | times),
            halflife_days=draw(st.sampled_from([30.0, 1.0, MAX_HALFLIFE_DAYS])),
            superseded_by=draw(st.sampled_from([None, "people/facts/m0"])),
            contradicts=("people/facts/m0",) * draw(st.sampled_from([0, 0, 1, 7])),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


@seeded
@given(palaces(), st.randoms())
def test_a_plan_is_carried_out_once_and_leaves_nothing_to_do(palace, dice):
    made = plan(palace, NOW)
    shuffled = list(palace)
    dice.shuffle(shuffled)
    assert plan(shuffled, NOW, columns=Columns.of(shuffled)) == made

    steps = {step.path: step for step in made.steps}
    assert len(steps) == len(made.steps)
    after = []
    for item in palace:
        step = steps.get(item.path)
        if step is None or step.action is not PruneAction.DELETE:
            after.append(item if step is None else step.applied())
    assert plan(after, NOW).steps == ()
    assert all(item.state is current_state(item, NOW) for item in after)
    for item in after:
        if item.state is not State.DISSOLVED:
            assert item.dissolved_at is None
        elif item.path not in made.held:
            assert item.last_accessed <= item.dissolved_at <= max(NOW, item.last_accessed)


@seeded
@given(palaces())
def test_only_what_was_dissolved_for_thirty_days_without_an_access_is_deleted(palace):
    doomed = {step.path for step in plan(palace, NOW).deletions}
    due = {
        item.path
        for item in palace
        if current_state(item, NOW) is State.DISSOLVED
        and item.dissolved_at is not None
        and item.last_accessed <= item.dissolved_at <= NOW - 30 * DAY
        and item.halflife_days < MAX_HALFLIFE_DAYS
    }
    assert doomed == due


# ── Reports ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def made():
    return plan(
        [
            memory(State.FADING, State.ACTIVE, "a"),
            memory(State.DISSOLVED, key="b", dissolved_at=NOW - 31 * DAY),
            memory(State.DISSOLVED, key="c", dissolved_at=NOW - 31 * DAY),
            memory(State.DISSOLVED, key="d", dissolved_at=NOW + DAY),
            memory(State.DISSOLVED, key="e"),
        ],
        NOW,
    )


def told(report):
    return [(line.path[-1], line.action, line.outcome) for line in report.lines]


def test_a_dry_run_names_everything_and_counts_nothing(made):
    report = PruneReport.dry(made)
    assert told(report) == [
        ("a", PruneAction.RESTATE, PruneOutcome.PLANNED),
        ("b", PruneAction.DELETE, PruneOutcome.PLANNED),
        ("c", PruneAction.DELETE, PruneOutcome.PLANNED),
        ("e", PruneAction.MARK, PruneOutcome.PLANNED),
    ]
    assert report.count == 0
    assert report.lines[0].reason == "its relevance makes it fading, it was active"
    assert (report.lines[0].before, report.lines[0].after) == (State.ACTIVE, State.FADING)
    assert list(report.held) == ["people/facts/d"]


def test_a_report_says_what_was_done_and_what_was_refused_and_why(made):
    why = "wss://relay.example did not show everything"
    report = PruneReport.of(made, {"people/facts/b": why})
    assert told(report) == [
        ("a", PruneAction.RESTATE, PruneOutcome.DONE),
        ("b", PruneAction.DELETE, PruneOutcome.REFUSED),
        ("c", PruneAction.DELETE, PruneOutcome.DONE),
        ("e", PruneAction.MARK, PruneOutcome.DONE),
    ]
    assert [(line.path, line.reason) for line in report.refused] == [("people/facts/b", why)]
    assert report.count == 2
    assert report.totals == {"restate done": 1, "delete refused": 1, "delete done": 1, "mark done": 1}
    assert PruneReport.of(made, {}).count == made.count == 3
