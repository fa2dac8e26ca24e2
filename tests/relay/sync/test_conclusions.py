"""What follows from a pull: tables of cases, without a relay and without a ledger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.ledger.relays import Remark
from sense_memory.limits import CURSOR_OVERLAP_SECONDS, MAX_FUTURE_SECONDS
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.relay.client.page import LATE
from sense_memory.relay.sync import conclusions
from sense_memory.relay.sync.walk import CROWDED, GAP, HIDDEN, PullResult


NOW = 1_000_000
HOUR = 3_600
LOST = "connection lost"

# ── Times ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("cursor", "begun", "newest", "after"),
    [
        (None, NOW, 0, None),  # the relay is empty: the next pull asks for everything again
        (None, NOW, NOW - HOUR, NOW - HOUR - CURSOR_OVERLAP_SECONDS),
        (None, NOW, NOW + HOUR, NOW - CURSOR_OVERLAP_SECONDS),  # not beyond the clock
        (None, NOW + 0.9, NOW + HOUR, NOW - CURSOR_OVERLAP_SECONDS),
        (900_000, NOW, NOW, NOW - CURSOR_OVERLAP_SECONDS),
        (900_000, NOW, 500_000, 900_000),  # not back
        (900_000, NOW, 0, 900_000),
        (0, NOW, 10, 0),
    ],
)
def test_the_cursor(cursor, begun, newest, after):
    assert conclusions.cursor_after(cursor, begun, newest) == after


@given(
    cursor=st.none() | st.integers(0, 2 * NOW),
    begun=st.floats(0, 2 * NOW),
    newest=st.integers(0, 3 * NOW),
)
def test_the_cursor_never_goes_back_and_never_passes_the_clock_or_the_newest_event(cursor, begun, newest):
    after = conclusions.cursor_after(cursor, begun, newest)
    if cursor is not None:
        assert after >= cursor
    if after != cursor:
        assert after <= max(0, min(begun, newest) - CURSOR_OVERLAP_SECONDS)


@pytest.mark.parametrize(
    ("before", "newest", "after"),
    [
        (0, 0, 0),
        (0, NOW - HOUR, NOW - HOUR),
        (NOW - 60, NOW - HOUR, NOW - 60),  # not back
        (0, NOW + HOUR, NOW),  # not beyond the clock
    ],
)
def test_the_newest_second_seen(before, newest, after):
    assert conclusions.seen_until(before, NOW + 0.5, newest) == after


def test_an_event_moves_no_cursor_if_it_is_dated_so_far_ahead_that_it_is_quarantined():
    assert conclusions.horizon_at(NOW) == NOW + MAX_FUTURE_SECONDS


# ── Events after EOSE ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("counts", "waits"),
    [
        ([], False),
        ([0], False),
        ([1], False),  # one may have been written just then
        ([2], True),
        ([50], True),
        ([1, 1], True),
        ([1, 0, 1], True),  # repeatedly, within one pull
        ([0, 1], False),
    ],
)
def test_pages_wait_for_late_events_after_several_or_repeated_ones(counts, waits):
    score = 0
    for count in counts:
        score = conclusions.late_score(score, count)
    assert conclusions.must_wait_after_eose(score, is_known_late=False) is waits
    assert conclusions.must_wait_after_eose(score, is_known_late=True)


@pytest.mark.parametrize(("before", "count", "after"), [(3, 0, 0), (1, 1, 2), (0, 5, 2)])
def test_a_new_walk_forgets_the_score_if_nothing_came_late_since(before, count, after):
    assert conclusions.late_score(before, count, afresh=True) == after


# ── A kind that the relay hides ─────────────────────────────────────────────────────────

COMPLETE = PullResult()
REFUSED = PullResult(("auth-required",), refused=True)


@pytest.mark.parametrize(
    ("deletions", "memories", "journal", "is_hidden"),
    [
        (COMPLETE, COMPLETE, REFUSED, True),
        (COMPLETE, COMPLETE, PullResult(("restricted",), refused=True), True),
        (COMPLETE, COMPLETE, PullResult(("blocked",), refused=True), True),
        (COMPLETE, COMPLETE, PullResult(("did not answer the authentication",)), True),
        (COMPLETE, COMPLETE, PullResult(("the signer did not answer",)), True),
        (COMPLETE, COMPLETE, PullResult(("asks for authentication too often",)), True),
        (COMPLETE, PullResult((CROWDED,)), REFUSED, True),
        (COMPLETE, COMPLETE, COMPLETE, False),
        (COMPLETE, COMPLETE, PullResult(("went silent",)), False),
        (COMPLETE, COMPLETE, PullResult((LOST,)), False),
        (COMPLETE, COMPLETE, PullResult((CROWDED,)), False),
        (REFUSED, REFUSED, REFUSED, False),  # it refuses us
        (COMPLETE, REFUSED, REFUSED, False),
        (COMPLETE, REFUSED, COMPLETE, False),  # memories may not be hidden
        (None, None, REFUSED, True),  # the others were compared
    ],
)
def test_the_journal_is_hidden_where_only_the_journal_is_refused(deletions, memories, journal, is_hidden):
    walks = {KIND_DELETION: deletions, KIND_APP_DATA: memories, KIND_DIRECT_MESSAGE: journal}
    walks = {kind: walk for kind, walk in walks.items() if walk is not None}
    found = conclusions.with_hidden(walks)
    hidden = found.pop(KIND_DIRECT_MESSAGE)
    assert (hidden.reasons == (HIDDEN,) and not hidden.refused) is is_hidden
    assert is_hidden or hidden == journal
    assert found == {kind: walk for kind, walk in walks.items() if kind != KIND_DIRECT_MESSAGE}


@pytest.mark.parametrize(
    ("reasons", "complete", "all_but_hidden"),
    [((), True, True), ((HIDDEN,), False, True), ((HIDDEN, GAP), False, False), ((GAP,), False, False)],
)
def test_a_hidden_journal_leaves_a_pull_incomplete_and_usable(reasons, complete, all_but_hidden):
    found = PullResult(reasons)
    assert (found.complete, found.shows_all_but_hidden) == (complete, all_but_hidden)


# ── Resuming and checking ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({4: (None, 0, ""), 5: (None, 0, "")}, {4: (None, 0, ""), 5: (None, 0, "")}, False),
        ({4: (None, 0, ""), 5: (None, 0, "")}, {4: (None, 0, "")}, True),  # one walk ended
        ({4: (None, 0, "")}, {4: (99, 5, "ab")}, True),
        ({4: (99, 5, "ab")}, {4: (99, 5, "cd")}, False),
        ({4: (99, 5, "ab")}, {4: (98, 5, "ab")}, True),
    ],
)
def test_a_pull_has_moved(before, after, moved):
    assert conclusions.has_moved(before, after) is moved


@pytest.mark.parametrize(
    ("reasons", "facts", "resumes"),
    [
        ((LOST,), {}, True),
        ((HIDDEN, LOST), {}, True),
        ((LOST,), {"moved": False}, False),
        ((LOST,), {"misbehaving": True}, False),
        ((LOST, GAP), {}, False),
        (("went silent",), {}, False),  # the connection is open
        ((), {}, False),
    ],
)
def test_a_pull_is_resumed_if_it_moved_and_only_the_line_was_lost(reasons, facts, resumes):
    facts = {"moved": True, "misbehaving": False} | facts
    assert conclusions.may_resume(PullResult(reasons), LOST, **facts) is resumes


def test_a_pull_over_an_open_connection_is_not_resumed():
    assert not conclusions.may_resume(PullResult(("went silent",)), None, moved=True, misbehaving=False)


@pytest.mark.parametrize(
    ("reasons", "heals", "saw_everything", "checks"),
    [
        ((), True, False, True),
        ((HIDDEN,), True, False, True),
        ((), True, True, False),
        ((), False, False, False),
        ((GAP,), True, False, False),
    ],
)
def test_confirmed_events_are_checked_after_a_complete_pull_of_recent_events(
    reasons, heals, saw_everything, checks
):
    found = PullResult(reasons)
    assert conclusions.must_check_confirmed(found, heals=heals, saw_everything=saw_everything) is checks


# ── Remarks ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reasons", "swept", "add", "remove"),
    [
        ((), True, set(), {Remark.LATE, Remark.UNDELETED, Remark.HIDES_JOURNAL}),
        ((), False, set(), {Remark.LATE, Remark.HIDES_JOURNAL}),
        ((HIDDEN,), True, {Remark.HIDES_JOURNAL}, {Remark.LATE, Remark.UNDELETED}),
        ((HIDDEN,), False, {Remark.HIDES_JOURNAL}, {Remark.LATE}),
        ((LATE,), True, {Remark.LATE}, set()),
        ((LATE, HIDDEN), True, {Remark.LATE, Remark.HIDES_JOURNAL}, set()),
        ((GAP,), True, set(), set()),
        ((LOST,), False, set(), set()),
    ],
)
def test_the_remarks_of_a_walk(reasons, swept, add, remove):
    changes = conclusions.remarks_of_walk(PullResult(reasons), swept=swept)
    assert (changes.add, changes.remove) == (add, remove)


@pytest.mark.parametrize(
    ("reasons", "add", "remove"),
    [
        ((), set(), {Remark.HIDES_JOURNAL}),
        ((HIDDEN,), {Remark.HIDES_JOURNAL}, set()),
        ((LATE,), {Remark.LATE}, set()),
    ],
)
def test_a_walk_of_the_journal_alone_proves_nothing_of_the_other_kinds(reasons, add, remove):
    changes = conclusions.remarks_of_walk(PullResult(reasons), swept=True, is_of_all=False)
    assert (changes.add, changes.remove) == (add, remove)


GOOD = {"saw_everything": True, "made_progress": False, "has_lost": False, "keeps_deletions": False}


@pytest.mark.parametrize(
    ("found", "facts", "add", "remove"),
    [
        (PullResult(), {}, set(), {Remark.FORGETFUL, Remark.INCOMPLETE}),
        (PullResult((HIDDEN,)), {}, set(), {Remark.FORGETFUL, Remark.INCOMPLETE}),
        (PullResult(), {"saw_everything": False}, set(), {Remark.INCOMPLETE}),
        (PullResult(), {"has_lost": True}, set(), {Remark.INCOMPLETE}),
        (
            PullResult(),
            {"keeps_deletions": True},
            set(),
            {Remark.FORGETFUL, Remark.INCOMPLETE, Remark.DROPS_DELETIONS},
        ),
        (PullResult((GAP,)), {"keeps_deletions": True}, {Remark.INCOMPLETE}, {Remark.DROPS_DELETIONS}),
        (PullResult(missing=1), {}, {Remark.FORGETFUL}, {Remark.INCOMPLETE}),
        (PullResult((GAP,), missing=1), {}, {Remark.FORGETFUL, Remark.INCOMPLETE}, set()),
        (PullResult((GAP,)), {}, {Remark.INCOMPLETE}, set()),
        (PullResult((LOST,)), {"made_progress": True}, set(), set()),
        (PullResult(("blocked",), refused=True), {}, set(), set()),
    ],
)
def test_the_remarks_of_a_pull(found, facts, add, remove):
    changes = conclusions.remarks_of_pull(found, **GOOD | facts)
    assert (changes.add, changes.remove) == (add, remove)
