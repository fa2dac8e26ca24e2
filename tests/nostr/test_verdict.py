"""Verdicts: the table of what a relay's OK or CLOSED means."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.limits import MAX_VERDICT_BYTES
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict, classify, classify_closed


seeded = settings(max_examples=30, deadline=None, derandomize=True)

PREFIXES = [
    "duplicate",
    "rate-limited",
    "auth-required",
    "pow",
    "blocked",
    "restricted",
    "mute",
    "unsupported",
    "replaced",
    "deleted",
    "error",
    "invalid",
]

# Row by row; the texts are those of real relays where one is known.
TABLE = [
    # duplicate
    ("duplicate: already have this event", RelayOutcome.ACCEPTED),
    ("duplicate:", RelayOutcome.ACCEPTED),
    # rate-limited, whatever else it mentions
    ("rate-limited: slow down there chief", RelayOutcome.RATE_LIMITED),
    ("rate-limited: you have newer events pending", RelayOutcome.RATE_LIMITED),
    ("rate-limited: the queue has been deleted", RelayOutcome.RATE_LIMITED),
    # auth-required
    ("auth-required: we only accept events from registered users", RelayOutcome.NEEDS_AUTH),
    ("auth-required: your session has been deleted", RelayOutcome.NEEDS_AUTH),
    # behind strfry's own word
    ("ERROR: auth-required: requested filter requires authentication", RelayOutcome.NEEDS_AUTH),
    ("ERROR:auth-required:", RelayOutcome.NEEDS_AUTH),
    ("ERROR: restricted: paying members", RelayOutcome.REFUSED),
    ("ERROR: blocked: x", RelayOutcome.RETRY),
    ("ERROR: the session is auth-required: x", RelayOutcome.RETRY),
    ("ERROR: auth-required", RelayOutcome.RETRY),
    # pow
    ("pow: difficulty 25>=24", RelayOutcome.REFUSED),
    ("pow: 28 bits needed", RelayOutcome.REFUSED),
    # invalid with created_at wording: too late
    ("invalid: created_at too late", RelayOutcome.RETRY),
    ("invalid: event creation date is too far off from the current time", RelayOutcome.RETRY),
    ("invalid: the event's timestamp is more than 900 seconds ahead", RelayOutcome.RETRY),
    ("invalid: event is in the future", RelayOutcome.RETRY),
    ("invalid: created_at too far in the past or in the future", RelayOutcome.RETRY),
    # invalid with created_at wording: too early
    ("invalid: created_at too early", RelayOutcome.REFUSED),
    ("invalid: event is too old", RelayOutcome.REFUSED),
    ("invalid: created_at is too far in the past", RelayOutcome.REFUSED),
    ("invalid: created_at lies more than three years ago", RelayOutcome.REFUSED),
    # invalid otherwise, blocked, restricted, mute, unsupported
    ("invalid: bad signature", RelayOutcome.REFUSED),
    ("invalid: event too large", RelayOutcome.REFUSED),
    ("blocked: you are banned from posting here", RelayOutcome.REFUSED),
    ("blocked: please use a newer version of your client", RelayOutcome.REFUSED),
    ("restricted: not allowed to write", RelayOutcome.REFUSED),
    ("mute: no one was listening to you", RelayOutcome.REFUSED),
    ("unsupported: kind 30078", RelayOutcome.REFUSED),
    # replaced, or "have newer"
    ("replaced: have newer event", RelayOutcome.SUPERSEDED),
    ("replaced:", RelayOutcome.SUPERSEDED),
    ("have newer event", RelayOutcome.SUPERSEDED),
    ("blocked: a newer version already exists", RelayOutcome.SUPERSEDED),
    ("duplicate: we have a newer version of this event", RelayOutcome.SUPERSEDED),
    # deleted, or "has been deleted"
    ("deleted: user requested deletion", RelayOutcome.DELETED),
    ("deleted:", RelayOutcome.DELETED),
    ("blocked: this event has been deleted", RelayOutcome.DELETED),
    ("this event was deleted", RelayOutcome.DELETED),
    ("invalid: event already deleted", RelayOutcome.DELETED),
    # the prefix decides before the words: what was deleted or is newer there is not this event
    ("blocked: your account was deleted", RelayOutcome.REFUSED),
    ("blocked: your event quota was deleted", RelayOutcome.REFUSED),
    ("blocked: we have newer terms of service", RelayOutcome.REFUSED),
    ("restricted: this event was deleted", RelayOutcome.REFUSED),
    ("restricted: your invitation has been deleted", RelayOutcome.REFUSED),
    ("unsupported: a newer version exists", RelayOutcome.REFUSED),
    ("mute: user requested deletion", RelayOutcome.REFUSED),
    ("error: table was deleted, try later", RelayOutcome.RETRY),
    ("error: this event was deleted", RelayOutcome.RETRY),
    ("error: we have a newer version of the database", RelayOutcome.RETRY),
    ("teapot: this event was deleted", RelayOutcome.RETRY),
    ("the index was deleted, please wait", RelayOutcome.RETRY),
    # error, none, garbage, longer than 1 KiB
    ("error: could not connect to the database", RelayOutcome.RETRY),
    ("error:", RelayOutcome.RETRY),
    ("", RelayOutcome.RETRY),
    ("no idea", RelayOutcome.RETRY),
    (":", RelayOutcome.RETRY),
    ("blocked", RelayOutcome.RETRY),
    ("blocked " + "x" * 100 + ":", RelayOutcome.RETRY),
    ("teapot: short and stout", RelayOutcome.RETRY),
    ("\x1b[31mblocked: red", RelayOutcome.RETRY),
    ("blocked: " + "x" * MAX_VERDICT_BYTES, RelayOutcome.RETRY),
    ("deleted: " + "🌱" * 300, RelayOutcome.RETRY),  # over 1 KiB in bytes, not in characters
    ("\ud800", RelayOutcome.RETRY),
]


@pytest.mark.parametrize(("text", "outcome"), TABLE, ids=[text[:40] or "none" for text, _ in TABLE])
def test_the_verdict_table(text, outcome):
    assert outcome is classify_closed(text).outcome
    assert classify_closed(text) == classify(False, text)
    assert RelayOutcome.ACCEPTED is classify(True, text).outcome


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_are_read_in_any_case_and_behind_blanks(prefix):
    plain = classify_closed(f"{prefix}: x")
    assert plain == classify_closed(f"  {prefix.upper()}: x\n")
    assert plain.outcome is not RelayOutcome.RETRY or prefix == "error"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("invalid: created_at too early", "too old for this relay"),
        ("invalid: created_at too late", "too far in the future for this relay"),
        ("invalid: event size exceeds 65536 bytes", "too large for this relay"),
        ("invalid: missing fields", "called invalid"),
        ("pow: 28", "requires proof of work"),
        ("blocked: no", "blocked"),
        ("replaced: have newer event", "says it has a newer version"),
        ("", "unreadable answer"),
        ("teapot: x", "unknown answer"),
    ],
)
def test_the_reason_is_a_word_of_ours(text, reason):
    assert reason == classify_closed(text).reason


def test_a_text_of_exactly_one_kibibyte_is_still_read():
    text = "blocked: ".ljust(MAX_VERDICT_BYTES, "x")
    assert classify_closed(text).outcome is RelayOutcome.REFUSED
    assert classify_closed(text + "x").outcome is RelayOutcome.RETRY


def test_every_outcome_can_be_reached():
    assert set(RelayOutcome) == {outcome for _, outcome in TABLE}


anything = st.text(max_size=1_500) | st.builds(
    "{}{}{}".format,
    st.sampled_from([*PREFIXES, "x", ""]),
    st.sampled_from([": ", ":", " "]),
    st.text(max_size=80),
)


@settings(seeded, max_examples=75)
@given(st.booleans(), anything)
def test_a_verdict_is_total_and_never_repeats_the_relay(accepted, text):
    verdict = classify(accepted, text)
    assert isinstance(verdict, RelayVerdict)
    assert (verdict.outcome is RelayOutcome.ACCEPTED) is (verdict.reason == "")
    assert verdict.reason.isascii()
    if not accepted:
        assert verdict in {classify_closed(known) for known, _ in TABLE}


@settings(seeded, max_examples=75)
@given(anything)
def test_an_unknown_answer_is_never_final(text):
    """Unknown prefixes and plain words mean "later": only a known word may end the attempts."""
    if not any(word in text.lower() for word in (*PREFIXES, "newer", "delet")):
        assert classify_closed(text).outcome is RelayOutcome.RETRY
