"""Reasons and remarks: codes in the file, sentences for people, and the sentences of older ledgers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sense_memory.ledger import Ledger, database
from sense_memory.ledger.relays import (
    LedgerReason,
    PullProgress,
    RelayState,
    Remark,
    last_pull,
    reason_code,
    reason_sentence,
    remark_sentence,
)
from sense_memory.ledger.schema import MIGRATIONS
from sense_memory.limits import CURSOR_OVERLAP_SECONDS, HEAL_SECONDS, INCOMPLETE_COUNT, LOST_COUNT
from sense_memory.nostr.verdict import REASONS, RelayOutcome, RelayVerdict
from tests.inside import database_of


RELAY = "wss://relay.example/"
OWNER = "ab" * 32
SENTENCES = next(number for number, step in enumerate(MIGRATIONS) if "SET remark = CASE" in step)


@pytest.mark.parametrize("code", [*REASONS, *LedgerReason])
def test_a_reason_is_stored_as_its_code_and_read_as_its_sentence(code):
    sentence = reason_sentence(code)

    assert " " in sentence
    assert reason_code(sentence) == code


def test_a_text_without_a_code_stays_what_it_is():
    assert (
        reason_code("closed by the relay") == reason_sentence("closed by the relay") == "closed by the relay"
    )
    assert remark_sentence("of-a-newer-program") == "of-a-newer-program"


RELEASED = {
    "newer-version": "says it has a newer version",
    "proof-of-work": "requires proof of work",
    "no-answer": "no answer",
    "relay-error": "relay error",
    "invalid": "called invalid",
    "unreadable-answer": "unreadable answer",
    "unknown-answer": "unknown answer",
    "too-old": "too old for this relay",
    "too-far-ahead": "too far in the future for this relay",
    "too-large": "too large for this relay",
    LedgerReason.NOT_OUR_DELETION: "deleted there, though never forgotten here",
    LedgerReason.OLD_DELETION: "an older deletion counts there for what was written anew; `refresh` may help",
    LedgerReason.NO_TOMBSTONE: "keeps neither the deletion request nor the tombstone",
    LedgerReason.LOST: "accepted before, and not there any more",
    LedgerReason.BEHIND: "accepted before, and an older version is served instead",
    LedgerReason.AFTER_DELETION: "waits until the relay has an older deletion request that may remove it",
}
RELEASED_REMARKS = {
    Remark.LATE: "sends events after saying that there are no more",
    Remark.FORGETFUL: "forgets what it accepted",
    Remark.DROPS_DELETIONS: (
        "keeps no deletion requests: tombstones stay in their place, and a journal entry that was forgotten may "
        "come back from another device"
    ),
    Remark.INCOMPLETE: (
        "has not shown everything for hours: conflict copies and recalls do not wait for it any more, and a text "
        "that only it knows to be forgotten may be copied"
    ),
    Remark.UNDELETED: "deletion not honoured: it accepted the request and still serves the memory",
    Remark.RATE_LIMITED: "limits how often it takes events: sending to it pauses, for an hour at most",
}


def test_the_sentences_of_an_older_ledger_become_codes(tmp_path, monkeypatch):
    """Every sentence that was released, whatever it is today; a text without a code is left alone."""
    reasons = {code: RELEASED[code] for code in REASONS}
    reasons |= {
        code: RELEASED[code] for code in LedgerReason if code in RELEASED
    }  # later ones are codes only
    reasons |= {text: text for text in ("blocked", "closed by the relay")}
    remarks = RELEASED_REMARKS  # later remarks are written as codes only
    with monkeypatch.context() as past:
        past.setattr(database, "MIGRATIONS", MIGRATIONS[:SENTENCES])
        past.setattr(database, "VERSION", SENTENCES)
        old = database.Database(tmp_path / "k.db", OWNER)
        with old.transaction():
            old.execute("INSERT INTO relays (url) VALUES (?)", RELAY)
            for number, sentence in enumerate(reasons.values()):
                old.execute("INSERT INTO events VALUES (?, ?, 's', 4, 0, 0, 0, x'')", number, b"%d" % number)
                old.execute(
                    "INSERT INTO outbox (relay, event, state, reason, due_at) VALUES (1, ?, 'queued', ?, 0)",
                    number,
                    sentence,
                )
            for sentence in remarks.values():
                old.execute("INSERT INTO remarks VALUES (1, ?, 0, 0, 9)", sentence)
        old.close()

    ledger = Ledger(tmp_path / "k.db", OWNER)
    try:
        assert {code for (code,) in database_of(ledger).rows("SELECT reason FROM outbox")} == set(
            map(str, reasons)
        )
        assert ledger.outbox.reasons(RELAY) == dict.fromkeys(map(reason_sentence, reasons), 1)
        assert set(ledger.relays.remarks(RELAY)) == set(map(remark_sentence, remarks))
        assert ledger.outbox.has_lost(RELAY)
    finally:
        ledger.close()


# ── After a backup ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lost", "also", "is_excused"),
    [
        ("tombstone", None, True),
        ("deletion", None, True),
        ("memory", None, False),  # the relay has the deletion, and does not honour it
        ("tombstone", Remark.FORGETFUL, False),  # it loses them again and again
    ],
)
def test_a_relay_that_lost_a_deletion_is_excused_once_for_serving_what_was_deleted(
    me, ledger, lost, also, is_excused
):
    items = {"memory": me.memory("a"), "tombstone": me.tombstone("b"), "deletion": me.deletion(60, ["c"])}
    ledger.file_events(list(items.values()), None, 100.0)
    ledger.relays.add_remark(RELAY, Remark.UNDELETED, 100.0)
    if also is not None:
        ledger.relays.add_remark(RELAY, also, 100.0)

    ledger.relays.excuse_lost_deletions(RELAY, [ledger.by_id(items[lost].event.id).seq])

    assert ledger.relays.has_remark(RELAY, Remark.UNDELETED) is not is_excused


def test_a_relay_that_is_behind_is_sent_everything_at_once_and_for_an_hour_no_second_time(ledger, relay):
    assert ledger.relays.state(relay).behind_seconds(1_000.0) == 0

    ledger.relays.record_healing(relay, 1_000.0)

    assert ledger.relays.state(relay).behind_seconds(1_000.0 + HEAL_SECONDS - 1) == HEAL_SECONDS
    assert ledger.relays.state(relay).behind_seconds(1_000.0 + HEAL_SECONDS) == 0


def test_the_last_pull_is_that_of_the_relay_that_was_asked_last(tmp_path):
    path = tmp_path / "k.db"
    assert last_pull(path) is None
    ledger = Ledger(path, OWNER)
    ledger.relays.add(["wss://one.example/", "wss://two.example/", "wss://never.example/"])
    assert last_pull(path) is None
    for url, at in (("wss://one.example/", 20.0), ("wss://two.example/", 10.0)):
        ledger.relays.record_pull(url, None, at, swept=True)
    ledger.close()

    assert last_pull(path) == 20.0


# ── Pulls and remarks ───────────────────────────────────────────────────────────────────


def test_the_progress_of_a_pull_comes_back_until_the_pull_is_complete(ledger, relay):
    progress = PullProgress(50.0, 7, 40, {4: (30, 200, "ab"), 30078: (None, 0, "")})
    assert ledger.relays.unfinished_pull(relay) is None
    for one in (replace(progress, since=None), progress):
        ledger.relays.save_unfinished_pull(relay, one)
        assert ledger.relays.unfinished_pull(relay) == one
    ledger.relays.save_unfinished_pull(relay, None)
    assert ledger.relays.unfinished_pull(relay) is None

    ledger.relays.save_unfinished_pull(relay, progress)
    ledger.relays.record_pull(relay, 5, 60.0, swept=False)
    assert ledger.relays.unfinished_pull(relay) is None
    assert ledger.relays.state(relay) == RelayState(relay, 5, 60.0, None, None)


def test_the_progress_of_an_earlier_version_has_no_ids(ledger, relay):
    ledger.relays.save_unfinished_pull(relay, PullProgress(50.0, walks={4: (30, 200)}))

    assert ledger.relays.unfinished_pull(relay) == PullProgress(50.0, walks={4: (30, 200, "")})


@pytest.mark.parametrize(
    ("remark", "before", "needed"),
    [
        (Remark.LATE, None, 1),
        (Remark.FORGETFUL, Remark.LOST, LOST_COUNT),
        (Remark.INCOMPLETE, None, INCOMPLETE_COUNT),
    ],
)
def test_a_remark_counts_once_an_hour_and_some_must_be_made_several_times(
    ledger, relay, remark, before, needed
):
    for hour in range(needed):
        shown = (remark_sentence(before),) if before and hour else ()
        assert ledger.relays.remarks(relay) == shown
        assert not ledger.relays.never_shows_all(relay)
        for seconds in (0, 1, HEAL_SECONDS - 1):
            ledger.relays.add_remark(relay, remark, hour * HEAL_SECONDS + seconds)

    assert ledger.relays.remarks(relay) == (remark_sentence(remark),)
    assert ledger.relays.never_shows_all(relay) is (remark is Remark.INCOMPLETE)


@pytest.mark.parametrize(("before", "is_left"), [(None, False), (51.0, False), (50.0, True)])
def test_a_remark_is_removed_unless_it_was_made_since(ledger, relay, before, is_left):
    ledger.relays.add_remark(relay, Remark.UNDELETED, 50.0)
    ledger.relays.add_remark(relay, Remark.LATE, 50.0)

    ledger.relays.remove_remark(relay, Remark.UNDELETED, before)

    assert ledger.relays.has_remark(relay, Remark.UNDELETED) is is_left
    assert ledger.relays.has_remark(relay, Remark.LATE)


def test_a_journal_was_shown_if_a_pull_was_complete_and_did_not_hide_it(ledger, relay):
    assert not ledger.relays.has_shown_journal(relay)
    ledger.relays.record_pull(relay, 5, 60.0, swept=True)
    assert ledger.relays.has_shown_journal(relay)
    ledger.relays.add_remark(relay, Remark.HIDES_JOURNAL, 60.0)
    assert not ledger.relays.has_shown_journal(relay)


def test_a_relay_that_limits_its_rate_is_sent_nothing_until_the_last_pause_is_over(ledger, relay):
    assert (ledger.relays.rate_limits(relay), ledger.relays.paused_until(relay)) == (0, 0.0)
    for count, until in ((1, 160.0), (2, 220.0)):
        ledger.relays.pause(relay, until, count, 100.0)
        assert (ledger.relays.rate_limits(relay), ledger.relays.paused_until(relay)) == (count, until)
    assert ledger.relays.remarks(relay) == (remark_sentence(Remark.RATE_LIMITED),)


def test_a_removed_relay_takes_its_queue_along_and_says_how_much_that_was(me, ledger, relay):
    ledger.append_versions([me.memory("a"), me.memory("b"), me.memory("c")], [relay], 100.0)
    (sent, *_) = ledger.outbox.due(relay, 100.0, 9)
    ledger.outbox.record_verdicts(relay, {sent.seq: RelayVerdict(RelayOutcome.ACCEPTED)}, 100.0)
    ledger.relays.record_pull(relay, 5, 60.0, swept=True)

    assert (ledger.relays.remove(relay), ledger.relays.remove(relay)) == (2, 0)
    ledger.relays.add([relay])
    assert ledger.relays.state(relay) == RelayState(relay, None, None, None, None)


# ── After a clock that ran ahead ────────────────────────────────────────────────────────


def test_what_was_recorded_while_the_clock_ran_ahead_holds_nothing_back(me, ledger, relay):
    """What waits is due at once, and what was seen "later" can be missed now."""
    ahead, now = 1_000_000.0, 5_000.0
    ledger.append_versions([me.memory("waits")], [relay], ahead)
    (waiting,) = ledger.outbox.due(relay, ahead, 9)
    ledger.outbox.record_verdicts(relay, {waiting.seq: RelayVerdict(RelayOutcome.RETRY, "no answer")}, ahead)
    ledger.file_events([me.memory("seen")], relay, ahead)
    ledger.relays.record_pull(relay, int(ahead), ahead, swept=True)
    ledger.relays.record_healing(relay, ahead)
    assert (ledger.outbox.due(relay, now, 9), ledger.outbox.lost_events(relay, now + 1)) == ([], [])

    assert ledger.relays.correct_future_times(relay, now)

    assert [entry.id for entry in ledger.outbox.due(relay, now, 9)] == [me.memory("waits").event.id]
    seen = ledger.by_id(me.memory("seen").event.id)
    assert ledger.outbox.lost_events(relay, now + 1) == [seen.seq]
    assert ledger.relays.state(relay) == RelayState(relay, int(now) - CURSOR_OVERLAP_SECONDS, now, None, None)
    assert not ledger.relays.correct_future_times(relay, now)
