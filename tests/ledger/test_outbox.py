"""The outbox: a row per event and relay, from `queued` to its end. Nothing is dropped, nothing burns."""

from __future__ import annotations

import signal
import subprocess
import textwrap

import pytest

from sense_memory.ledger import FilingResult, Ledger
from sense_memory.ledger.outbox import Outbox
from sense_memory.ledger.relays import LedgerReason, reason_sentence
from sense_memory.limits import (
    HEAL_SECONDS,
    JITTER,
    PARK_SECONDS,
    RATE_LIMIT_FIRST_SECONDS,
    RETRY_FIRST_SECONDS,
    RETRY_MAX_SECONDS,
)
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from tests.inside import database_of
from tests.time_unit import SECOND


ONE, TWO = "wss://relay.example/", "wss://other.example/"
ACCEPTED, RETRY = RelayVerdict(RelayOutcome.ACCEPTED), RelayVerdict(RelayOutcome.RETRY, "relay error")


@pytest.fixture
def ledger(ledger):
    ledger.relays.add([TWO])
    return ledger


@pytest.fixture
def write(ledger):
    """Append our own events for both relays; returns their seqs."""

    def written(*items, now=100.0, relays=(ONE, TWO)):
        assert ledger.append_versions(items, relays, now)
        return [_seq(ledger, item) for item in items]

    return written


def _seq(ledger, item):
    stored = ledger.by_id(item.event.id)
    return stored and stored.seq


def _due(ledger, url=ONE, now=10.0**9):
    return [entry.seq for entry in ledger.outbox.due(url, now, 100)]


# ── Record first, send second ───────────────────────────────────────────────────────────


def test_an_event_and_its_rows_are_written_together(me, ledger, write):
    (seq,) = write(me.memory())

    assert ledger.outbox.states_by_relay(seq) == {ONE: "queued", TWO: "queued"}
    (entry,) = ledger.outbox.due(ONE, 100.0, 10)
    assert (entry.seq, entry.id, entry.slot) == (seq, me.memory().event.id, "sense-memory/a")
    assert entry.body == me.memory().event.body()


def test_what_was_sent_long_ago_costs_a_push_nothing(me, ledger, write):
    """Among a hundred thousand events that a relay has accepted, those that wait are found by their own index."""
    outbox = ledger.outbox
    outbox.record_verdicts(
        ONE, dict.fromkeys(write(*(me.memory(f"m{number}") for number in range(200))), ACCEPTED), 100.0
    )
    request = me.deletion(101, ["m1"])
    (seq,) = write(request)
    steps = []
    database_of(ledger)._connection.set_progress_handler(lambda: steps.append(1), 10)

    outbox.drop_outdated(ONE)
    assert outbox.outlived_slots(ONE, 10.0**9) == []
    assert len(steps) < 60  # hundreds of steps are a look at each row
    assert _due(ledger) == [seq]


def test_an_error_between_event_and_rows_leaves_neither(me, ledger, monkeypatch):
    def broken(*_):
        raise RuntimeError("between the two")

    monkeypatch.setattr(ledger.outbox, "queue_events", broken)
    with pytest.raises(RuntimeError):
        ledger.append_versions([me.memory("a"), me.memory("b")], [ONE], 100.0)

    assert ledger.counts_by_kind()["events"] == 0
    assert ledger.mark("sense-memory/a") is None
    assert ledger.outbox.counts(ONE) == {}


def test_a_process_killed_between_event_and_rows_leaves_neither(me, forks, tmp_path):
    """`SIGKILL`, not an exception: what SQLite finds on reopening is what it was before."""
    path = tmp_path / "a.db"
    ledger = Ledger(path, me.public_key)
    ledger.relays.add([ONE])
    ledger.append_versions([me.memory("before")], [ONE], 100.0)
    ledger.close()
    program = """
        import os, signal, sys
        from sense_memory.ledger import FiledEvent, Ledger
        from sense_memory.nostr.event import RawEvent, verify

        ledger = Ledger(sys.argv[1], sys.argv[2])
        queue = ledger.outbox.queue_events
        def killed(*given):
            queue(*given)
            os.kill(os.getpid(), signal.SIGKILL)
        ledger.outbox.queue_events = killed
        ledger.append_versions([FiledEvent(verify(RawEvent.loads(sys.argv[3])), "sense-memory/after")], [sys.argv[4]], 100.0)
    """
    body = me.memory("after").event.body().decode()
    done = subprocess.run(
        [forks.python, "-c", textwrap.dedent(program), str(path), me.public_key, body, ONE],
        capture_output=True,
        text=True,
        timeout=30 * SECOND,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr

    reopened = Ledger(path, me.public_key)
    assert reopened.head("sense-memory/after") is None
    assert [entry.slot for entry in reopened.outbox.due(ONE, 100.0, 10)] == ["sense-memory/before"]
    assert reopened.integrity() == []
    reopened.close()


def test_a_relay_that_was_never_made_known_gets_no_row(me, ledger):
    ledger.append_versions([me.memory()], ["wss://unknown.example/"], 100.0)

    assert ledger.outbox.due("wss://unknown.example/", 100.0, 10) == []


def test_parcels_leave_in_the_order_they_were_written(me, ledger, write):
    grave = me.tombstone(at=90)
    seqs = write(
        me.memory("z", at=99), me.memory("b", at=98), grave, me.deletion(90, ["a"], [grave.event.id])
    )

    assert _due(ledger) == seqs
    assert [entry.seq for entry in ledger.outbox.due(ONE, 100.0, 2)] == seqs[:2]


# ── Coalescing ──────────────────────────────────────────────────────────────────────────


def test_a_replaced_version_needs_no_sending(me, ledger, write):
    write(me.memory(at=1, text="one"))
    (second,) = write(me.memory(at=2, text="two"))

    assert _due(ledger) == [second]


def test_of_an_address_that_is_written_several_times_at_once_the_graves_and_the_last_version_are_sent(
    me, ledger
):
    graves = [me.tombstone(at=3), me.tombstone("b", at=3)]
    items = [me.memory(at=1), me.memory(at=2, text="two"), *graves, me.memory(at=4), me.memory("c", at=1)]
    ledger.append_versions(items, [ONE, TWO], 100.0)

    for url in (ONE, TWO):
        sent = [entry.id for entry in ledger.outbox.due(url, 100.0, 10)]
        assert sent == [item.event.id for item in items[2:]]


def test_coalesce_keeps_tombstones(me, ledger, write):
    """P-12: edit, edit, forget, and again: of each address the last word and its deletion."""
    grave = me.tombstone(at=3)
    write(me.memory(at=1), me.memory(at=2, text="two"), grave, me.deletion(3, ["a"], [grave.event.id]))
    write(me.memory(at=4, text="again"))

    assert [item.id for item in ledger.outbox.due(ONE, 100.0, 10)] == [
        grave.event.id,
        me.deletion(3, ["a"], [grave.event.id]).event.id,
        me.memory(at=4, text="again").event.id,
    ]


def test_what_a_relay_refused_of_a_replaced_version_is_no_longer_held_against_it(me, ledger, write):
    """Else a relay that refused a too large version once would count as incomplete for ever."""
    (first,) = write(me.memory(at=1, text="too large"))
    ledger.outbox.record_verdicts(
        ONE, {first: RelayVerdict(RelayOutcome.REFUSED, "too large for this relay")}, 100.0
    )
    (second,) = write(me.memory(at=2, text="shorter"))
    ledger.outbox.record_verdicts(ONE, {second: ACCEPTED}, 101.0)

    assert ledger.outbox.counts(ONE) == {"acked": 1}
    assert ledger.outbox.reasons(ONE) == {}


def test_an_answer_to_a_version_that_was_replaced_meanwhile_changes_nothing(me, ledger, write):
    (first,) = write(me.memory(at=1))
    (second,) = write(me.memory(at=2, text="two"))
    ledger.outbox.record_verdicts(ONE, {first: ACCEPTED}, 100.0)

    assert ledger.outbox.counts(ONE) == {"queued": 1}
    assert _due(ledger) == [second]


# ── Verdicts ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "ends"),
    [
        (ACCEPTED, ("acked", "")),
        (
            RelayVerdict(RelayOutcome.SUPERSEDED, "says it has a newer version"),
            ("queued", "says it has a newer version"),
        ),
        (RelayVerdict(RelayOutcome.REFUSED, "blocked"), ("refused", "blocked")),
        (RelayVerdict(RelayOutcome.NEEDS_AUTH, "auth-required"), ("refused", "auth-required")),
        (RelayVerdict(RelayOutcome.RETRY, "relay error"), ("queued", "relay error")),
        (RelayVerdict(RelayOutcome.RATE_LIMITED, "rate-limited"), ("queued", "rate-limited")),
        (
            RelayVerdict(RelayOutcome.DELETED, "deleted"),
            ("refused", reason_sentence(LedgerReason.NOT_OUR_DELETION)),
        ),
    ],
)
def test_each_verdict_on_a_memory_has_its_state(me, ledger, write, verdict, ends):
    state, reason = ends
    (seq,) = write(me.memory())

    ledger.outbox.record_verdicts(ONE, {seq: verdict}, 100.0)

    assert ledger.outbox.states_by_relay(seq) == {ONE: state, TWO: "queued"}
    assert ledger.outbox.reasons(ONE) == ({reason: 1} if reason else {})
    assert _due(ledger, now=100.0) == []


def test_every_outcome_has_a_state(me, ledger, write):
    seqs = write(*(me.memory(outcome.value) for outcome in RelayOutcome))

    ledger.outbox.record_verdicts(ONE, dict(zip(seqs, map(RelayVerdict, RelayOutcome), strict=True)), 100.0)

    known = {"queued", "acked", "confirmed", "superseded", "refused", "parked"}
    assert set(ledger.outbox.counts(ONE)) <= known


@pytest.mark.parametrize("word", [RelayOutcome.RETRY, RelayOutcome.REFUSED])
def test_what_a_relay_says_of_a_tombstone_does_not_matter_once_it_took_the_deletion(me, ledger, write, word):
    """nostr-sdk's relay answers an older tombstone than its deletion with `error: unknown`."""
    grave, request, other = write(me.tombstone("a", 60), me.deletion(60, ["a"]), me.tombstone("b", 60))
    ledger.outbox.record_verdicts(ONE, {request: ACCEPTED}, 100.0)

    ledger.outbox.record_verdicts(
        ONE, {grave: RelayVerdict(word, "x"), other: RelayVerdict(word, "x")}, 100.0
    )
    ledger.outbox.record_verdicts(TWO, {grave: RelayVerdict(word, "x")}, 100.0)

    assert ledger.outbox.states_by_relay(grave)[ONE] == "acked"
    assert ledger.outbox.states_by_relay(grave)[TWO] != "acked"  # that relay did not take it yet
    assert ledger.outbox.states_by_relay(other)[ONE] != "acked"


@pytest.mark.parametrize("kind", ["tombstone", "deletion"])
def test_deleted_is_a_good_answer_to_a_tombstone_and_to_a_deletion(me, ledger, write, kind):
    """4.5: a relay that deleted what we forgot has done what was asked."""
    item = me.tombstone(at=9) if kind == "tombstone" else me.deletion(9, ["a"])
    (seq,) = write(item)

    ledger.outbox.record_verdicts(ONE, {seq: RelayVerdict(RelayOutcome.DELETED, "deleted")}, 100.0)

    assert ledger.outbox.states_by_relay(seq)[ONE] == "acked"


def test_an_answer_nobody_waits_for_changes_nothing(me, ledger, write):
    """P-04: unknown, twice, or from a relay that was never asked."""
    (seq,) = write(me.memory())
    ledger.outbox.record_verdicts(ONE, {seq: ACCEPTED}, 100.0)

    ledger.outbox.record_verdicts(
        ONE, {seq: RelayVerdict(RelayOutcome.REFUSED, "blocked"), 999: ACCEPTED}, 101.0
    )
    ledger.outbox.record_verdicts("wss://unknown.example/", {seq: ACCEPTED}, 101.0)

    assert ledger.outbox.states_by_relay(seq) == {ONE: "acked", TWO: "queued"}


def test_what_a_relay_serves_back_is_confirmed(me, ledger, write):
    (seq,) = write(me.memory())
    ledger.outbox.record_verdicts(ONE, {seq: RelayVerdict(RelayOutcome.REFUSED, "blocked")}, 100.0)

    assert ledger.file_events([me.memory()], ONE, 200.0) == [FilingResult.KNOWN]
    assert ledger.outbox.states_by_relay(seq) == {ONE: "confirmed", TWO: "queued"}
    assert ledger.outbox.reasons(ONE) == {}


# ── Trying again ────────────────────────────────────────────────────────────────────────


def _waits(outbox, seq, verdict, times):
    """The pauses after each of several tries, all made the moment they are due."""
    now, pauses = 100.0, []
    for _ in range(times):
        outbox.record_verdicts(ONE, {seq: verdict}, now)
        due = outbox.next_due([ONE])
        pauses.append(due - now)
        now = due
    return pauses


@pytest.mark.parametrize(
    ("verdict", "first"),
    [
        (RETRY, RETRY_FIRST_SECONDS),
        (RelayVerdict(RelayOutcome.RATE_LIMITED, "rate-limited"), RATE_LIMIT_FIRST_SECONDS),
    ],
)
def test_pauses_double_with_jitter_up_to_an_hour(me, ledger, write, verdict, first):
    (seq,) = write(me.memory())

    pauses = _waits(Outbox(database_of(ledger), seed=7), seq, verdict, 14)

    plain = [min(first * 2**tried, RETRY_MAX_SECONDS) for tried in range(14)]
    assert all(
        low * (1 - JITTER) <= wait <= low * (1 + JITTER) for wait, low in zip(pauses, plain, strict=True)
    )
    assert pauses[-1] > RETRY_MAX_SECONDS * (1 - JITTER)


def test_jitter_differs_between_devices_and_repeats_with_its_seed(me, ledger, write):
    seqs = write(*(me.memory(name) for name in "abc"))

    one, same, other = (
        _waits(Outbox(database_of(ledger), seed=seed), seq, RETRY, 5)
        for seq, seed in zip(seqs, (1, 1, 2), strict=True)
    )

    assert one == pytest.approx(same)
    assert one != pytest.approx(other)


def test_after_a_week_of_retries_a_row_is_parked_visibly(me, ledger, write):
    (seq,) = write(me.memory())
    ledger.outbox.record_verdicts(ONE, {seq: RETRY}, 100.0)
    ledger.outbox.record_verdicts(ONE, {seq: RETRY}, 100.0 + PARK_SECONDS)
    assert ledger.outbox.states_by_relay(seq)[ONE] == "queued"

    ledger.outbox.record_verdicts(ONE, {seq: RETRY}, 101.0 + PARK_SECONDS)

    assert ledger.outbox.states_by_relay(seq)[ONE] == "parked"
    assert ledger.outbox.reasons(ONE) == {"relay error": 1}
    assert ledger.outbox.next_due([ONE]) is None
    assert _due(ledger, now=10.0**12) == []


def test_a_week_counts_from_the_first_try_and_not_from_the_writing(me, ledger, write):
    """A relay that was away for a month has not answered anything yet."""
    (seq,) = write(me.memory(), now=100.0)

    ledger.outbox.record_verdicts(ONE, {seq: RETRY}, 100.0 + 4 * PARK_SECONDS)

    assert ledger.outbox.states_by_relay(seq)[ONE] == "queued"


def test_the_next_due_time_is_the_earliest_of_the_relays_asked_for(me, ledger, write):
    seqs = write(me.memory("a"), me.memory("b"))
    assert ledger.outbox.next_due([ONE, TWO]) == 100.0
    ledger.outbox.record_verdicts(ONE, dict.fromkeys(seqs, ACCEPTED), 100.0)

    assert ledger.outbox.next_due([ONE]) is None
    assert ledger.outbox.next_due([]) is None
    assert ledger.outbox.next_due([ONE, TWO]) == 100.0


# ── Backfill ────────────────────────────────────────────────────────────────────────────


def test_a_new_relay_gets_every_head_and_deletion_and_no_history(me, ledger, write):
    """F-03."""
    grave = me.tombstone("b", at=6)
    write(me.memory(at=1), me.memory(at=2, text="two"), me.journal(at=3), grave, me.deletion(6, ["b"]))
    ledger.relays.add(["wss://new.example/"])

    assert ledger.outbox.queue_missing("wss://new.example/", 200.0) == 4
    sent = [entry.id for entry in ledger.outbox.due("wss://new.example/", 200.0, 10)]
    assert sent == [
        item.event.id
        for item in (me.memory(at=2, text="two"), me.journal(at=3), grave, me.deletion(6, ["b"]))
    ]


def test_backfill_passes_over_each_event_once(me, ledger, write):
    write(me.memory(at=1))
    assert ledger.outbox.queue_missing(TWO, 200.0) == 0  # queued when it was written

    ledger.file_events([me.memory("b", at=1)], ONE, 200.0)

    assert ledger.outbox.queue_missing(TWO, 200.0) == 1
    assert ledger.outbox.queue_missing(TWO, 200.0) == 0
    assert ledger.outbox.queue_missing(ONE, 200.0) == 0  # it was served by this very relay


def test_quarantined_events_are_not_passed_on_before_their_time(me, ledger):
    ledger.file_events([me.memory(at=5_000)], ONE, 200.0)
    assert ledger.outbox.queue_missing(TWO, 200.0) == 0

    ledger.file_quarantined(5_000.0)

    assert ledger.outbox.queue_missing(TWO, 5_000.0) == 1


def test_backfill_of_an_unknown_relay_or_an_empty_ledger_is_nothing(ledger):
    assert ledger.outbox.queue_missing(ONE, 200.0) == 0
    assert ledger.outbox.queue_missing("wss://unknown.example/", 200.0) == 0


# ── Healing ─────────────────────────────────────────────────────────────────────────────


def test_a_relay_that_serves_an_older_version_gets_the_newer_once_an_hour(me, ledger, write):
    """V-01."""
    (newest,) = write(me.memory(at=50, text="new"))
    ledger.outbox.record_verdicts(ONE, {newest: ACCEPTED}, 100.0)
    old = me.memory(at=10, text="old")

    ledger.file_events([old], ONE, 200.0)
    assert _due(ledger) == []  # it was sent less than an hour ago
    ledger.file_events([old], ONE, 100.0 + HEAL_SECONDS)
    assert _due(ledger) == [newest]
    assert ledger.outbox.reasons(ONE) == {
        reason_sentence(LedgerReason.BEHIND): 1
    }  # it had the event, and lost it
    ledger.outbox.record_verdicts(ONE, {newest: ACCEPTED}, 200.0 + HEAL_SECONDS)
    ledger.file_events([old], ONE, 300.0 + HEAL_SECONDS)

    assert _due(ledger) == []
    assert _due(ledger, TWO) == [newest]  # the other relay's row is untouched


def test_a_relay_never_given_the_newer_version_is_healed_at_once(me, ledger):
    ledger.file_events([me.memory(at=50, text="new")], TWO, 200.0)
    ledger.file_events([me.memory(at=10, text="old")], ONE, 200.0)

    assert [entry.id for entry in ledger.outbox.due(ONE, 200.0, 9)] == [me.memory(at=50, text="new").event.id]


def test_a_relay_that_serves_what_was_forgotten_gets_tombstone_and_deletion(me, ledger):
    """D-01, 4.7 rule 4."""
    grave = me.tombstone(at=50)
    ledger.file_events([grave, me.deletion(50, ["a"])], TWO, 200.0)

    assert ledger.file_events([me.memory(at=10)], ONE, 200.0) == [FilingResult.DELETED]

    assert [entry.id for entry in ledger.outbox.due(ONE, 200.0, 9)] == [
        grave.event.id,
        me.deletion(50, ["a"]).event.id,
    ]


def test_a_relay_that_serves_a_deleted_journal_entry_gets_the_deletion(me, ledger):
    entry = me.journal(at=1)
    request = me.deletion(2, ids=[entry.event.id])
    ledger.file_events([request], TWO, 200.0)

    ledger.file_events([entry], ONE, 200.0)

    assert [entry.id for entry in ledger.outbox.due(ONE, 200.0, 9)] == [request.event.id]


def test_a_relay_in_step_is_not_healed(me, ledger, write):
    (seq,) = write(me.memory(at=50))
    ledger.outbox.record_verdicts(ONE, {seq: ACCEPTED}, 100.0)

    ledger.file_events([me.memory(at=50)], ONE, 10.0**6)

    assert _due(ledger) == []


def test_a_refusal_is_not_healed_away(me, ledger, write):
    """P-06: a relay that will not have it is not asked every hour."""
    (seq,) = write(me.memory(at=50))
    ledger.outbox.record_verdicts(ONE, {seq: RelayVerdict(RelayOutcome.REFUSED, "blocked")}, 100.0)

    ledger.file_events([me.memory(at=10, text="old")], ONE, 10.0**6)

    assert ledger.outbox.states_by_relay(seq)[ONE] == "refused"


# ── Missing after a sweep ───────────────────────────────────────────────────────────────


@pytest.fixture
def swept(ledger):
    """Two hours after the acknowledgement, a complete sweep begins; returns what it queued again."""

    def sweep(*served, begun=8_000.0):
        ledger.file_events(served, ONE, begun + 1)
        lost = ledger.outbox.lost_events(ONE, begun)
        ledger.outbox.requeue_lost(ONE, lost, begun, begun + 2, every=HEAL_SECONDS)
        return len(lost)

    return sweep


def test_what_a_relay_accepted_and_does_not_show_is_sent_again(me, ledger, write, swept):
    """P-07."""
    kept, lost, entry = write(me.memory("kept"), me.memory("lost"), me.journal())
    ledger.outbox.record_verdicts(ONE, dict.fromkeys((kept, lost, entry), ACCEPTED), 100.0)

    assert swept(me.memory("kept")) == 2
    assert _due(ledger) == [lost, entry]


def test_a_confirmed_event_that_disappears_is_sent_again_too(me, ledger, swept):
    ledger.file_events([me.memory()], ONE, 100.0)

    assert swept() == 1


def test_what_was_accepted_while_the_sweep_ran_is_not_missing(me, ledger, write, swept):
    (seq,) = write(me.memory())
    ledger.outbox.record_verdicts(ONE, {seq: ACCEPTED}, 8_000.5)

    assert swept() == 0
    assert ledger.outbox.states_by_relay(seq)[ONE] == "acked"


def test_older_versions_and_refusals_are_not_missing(me, ledger, write, swept):
    (old,) = write(me.memory(at=1))
    ledger.outbox.record_verdicts(ONE, {old: ACCEPTED}, 100.0)
    new, refused = write(me.memory(at=2, text="two"), me.memory("b", at=2))
    ledger.outbox.record_verdicts(
        ONE, {new: ACCEPTED, refused: RelayVerdict(RelayOutcome.REFUSED, "blocked")}, 100.0
    )

    assert swept(me.memory(at=2, text="two")) == 0


def test_a_tombstone_that_its_own_deletion_removed_is_settled(me, ledger, write, swept):
    grave, request = write(me.tombstone(at=9), me.deletion(9, ["a"]))
    ledger.outbox.record_verdicts(ONE, {grave: ACCEPTED, request: ACCEPTED}, 100.0)

    assert swept(me.deletion(9, ["a"])) == 0
    assert swept(begun=20_000.0) == 1  # the deletion itself must stay
    assert _due(ledger) == [request]


def test_a_lost_tombstone_is_sent_again_where_the_relay_refused_its_deletion(me, ledger, write, swept):
    """Another relay may have taken the deletion; at this relay only the tombstone says that the memory is forgotten."""
    grave, request = write(me.tombstone(at=9), me.deletion(9, ["a"]))
    refused = RelayVerdict(RelayOutcome.REFUSED, "blocked: no deletions")
    ledger.outbox.record_verdicts(ONE, {grave: ACCEPTED, request: refused}, 100.0)
    ledger.outbox.record_verdicts(TWO, {grave: ACCEPTED, request: ACCEPTED}, 100.0)

    assert swept() == 1
    assert _due(ledger) == [grave]


# ── Relays ──────────────────────────────────────────────────────────────────────────────


def test_a_removed_relay_loses_its_rows_and_a_returning_one_is_filled_anew(me, ledger, write):
    """P-13."""
    seqs = write(me.memory("a"), me.memory("b"))
    ledger.outbox.record_verdicts(ONE, {seqs[0]: ACCEPTED}, 100.0)
    ledger.relays.record_pull(ONE, 50, 100.0, swept=True)

    assert ledger.relays.remove(ONE) == 1
    assert ledger.outbox.counts(ONE) == {}
    assert ledger.relays.state(ONE).completed_at is None
    assert _due(ledger, TWO) == seqs
    ledger.relays.add([ONE])
    assert ledger.outbox.queue_missing(ONE, 200.0) == 2


def test_forgetting_an_unknown_relay_is_nothing(ledger):
    assert ledger.relays.remove("wss://unknown.example/") == 0


def test_the_cursor_and_the_sweep_are_remembered_apart(ledger):
    ledger.relays.record_pull(ONE, 50, 100.0, swept=True)
    ledger.relays.record_pull(ONE, 70, 200.0, swept=False)

    state = ledger.relays.state(ONE)
    assert (state.cursor, state.completed_at, state.swept_at) == (70, 200.0, 100.0)
    assert ledger.relays.state(TWO).cursor is None


def test_making_a_relay_known_twice_keeps_what_is_remembered(ledger):
    ledger.relays.record_pull(ONE, 50, 100.0, swept=True)

    ledger.relays.add([ONE, ONE, "wss://new.example/"])

    assert ledger.relays.state(ONE).cursor == 50
    assert ledger.relays.state("wss://new.example/").url == "wss://new.example/"


def test_no_method_leaves_a_transaction_open(me, ledger, write):
    """L-06."""
    (seq,) = write(me.memory())
    calls = [
        lambda: ledger.outbox.record_verdicts(ONE, {seq: "no verdict"}, 100.0),
        lambda: ledger.outbox.requeue_heads(ONE, [object()], 100.0),
        lambda: ledger.relays.record_pull(ONE, object(), 100.0, swept=True),
        lambda: ledger.append_versions([object()], [ONE], 100.0),
        lambda: ledger.file_events([object()], ONE, 100.0),
        lambda: ledger.edits.record_accesses([(object(), 100.0, 1)]),
    ]
    for call in calls:
        with pytest.raises(Exception):  # noqa: B017 - whatever it is, the transaction must be closed
            call()
        assert not database_of(ledger).in_transaction
