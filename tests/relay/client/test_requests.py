"""Comparisons (NIP-77) in the relay session: frames and plain numbers as time in, actions out."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from sense_memory.nostr.filters import Filter
from sense_memory.nostr.negentropy import Initiator, Items, Responder
from sense_memory.relay.client.actions import Hangup, Send, SignAuth, Timeouts
from sense_memory.relay.client.authentication import auth_event
from sense_memory.relay.client.page import PageDone
from sense_memory.relay.client.requests import CompareDone
from sense_memory.relay.client.session import Session


IN_STEP = "61"
PATIENCE = Timeouts(idle=10.0, total=120.0, notice_settle=3.0, ok=10.0)
URL = "wss://relay.example"


def make_pairs(seed, count):
    rng = random.Random(seed)
    return [(1_700_000_000 + number // 3, rng.randbytes(32)) for number in range(count)]


def sent(actions):
    return [json.loads(action.text) for action in actions if isinstance(action, Send)]


def found(actions):
    (comparison,) = [action.comparison for action in actions if isinstance(action, CompareDone)]
    return comparison


class Talk:
    """One session with a hand-moved time, and the relay's side of comparisons."""

    def __init__(self, signer, sign, **options) -> None:
        names = (f"sub{number}" for number in itertools.count())
        options = {"can_sign": True, "timeouts": PATIENCE, "new_id": lambda: next(names), **options}
        self.session = Session(signer.public_key, **options)
        self.wanted = Filter(authors=(signer.public_key,), kinds=(4, 5, 30078))
        self.now = 1_000.0
        self._sign = lambda unsigned: sign(signer, unsigned)

    def compare(self, pairs=(), *, doubtful=False, **options):
        """Begin a comparison; returns its id and the first message."""
        initiator = Initiator(Items(pairs), **options)
        subscription, actions = self.session.compare(self.wanted, initiator, self.now, doubtful=doubtful)
        ((verb, name, wanted, message),) = sent(actions)
        assert (verb, name) == ("NEG-OPEN", subscription)
        assert wanted == {"authors": list(self.wanted.authors), "kinds": [4, 5, 30078]}
        return subscription, message

    def hear(self, *frame):
        return self.session.received(json.dumps(frame), self.now)

    def converse(self, subscription, message, responder):
        """Let an honest relay answer to the end; returns the last actions and the number of rounds."""
        for rounds in itertools.count(1):
            answer = responder.reply(bytes.fromhex(message)).hex()
            actions = self.hear("NEG-MSG", subscription, answer)
            ((verb, name, *rest),) = sent(actions)
            assert name == subscription
            if verb == "NEG-CLOSE":
                return actions, rounds
            assert verb == "NEG-MSG"
            (message,) = rest
        raise AssertionError

    def wait(self, seconds):
        end, actions = self.now + seconds, []
        while (due := self.session.deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            actions += self.session.tick(self.now)
        self.now = end
        return actions + self.session.tick(end)

    def sign_in(self, challenge):
        event = self._sign(auth_event(URL, challenge, 1_800_000_000))
        self.session.authenticated(event, self.now)
        return self.hear("OK", event.id, True, "")


@pytest.fixture
def talk(signer, sign):
    return Talk(signer, sign)


# ── Honest relays ───────────────────────────────────────────────────────────────────────


def test_a_relay_in_step_costs_one_round(talk):
    pairs = make_pairs(1, 1_000)
    sub, message = talk.compare(pairs)
    actions, rounds = talk.converse(sub, message, Responder(Items(pairs)))
    comparison = found(actions)
    assert rounds == 1
    assert (comparison.have, comparison.need) == ((), ())
    assert (comparison.complete, comparison.reason) == (True, "")
    assert talk.session.deadline() is None


def test_both_differences_are_found_over_many_rounds(talk):
    common, ours, theirs = make_pairs(1, 500), make_pairs(2, 300), make_pairs(3, 400)
    sub, message = talk.compare(common + ours, frame_bytes=4_096)
    actions, rounds = talk.converse(sub, message, Responder(Items(common + theirs), 4_096))
    comparison = found(actions)
    assert rounds > 3
    assert sorted(comparison.have) == sorted(ident for _, ident in ours)
    assert sorted(comparison.need) == sorted(ident for _, ident in theirs)
    assert comparison.complete


def test_each_answer_buys_the_relay_its_full_patience(talk):
    common, theirs = make_pairs(1, 500), make_pairs(3, 400)
    sub, message = talk.compare(common, frame_bytes=4_096)
    responder = Responder(Items(common + theirs), 4_096)
    for _ in range(3):
        assert talk.wait(9.9) == []
        ((verb, _, message),) = sent(talk.hear("NEG-MSG", sub, responder.reply(bytes.fromhex(message)).hex()))
        assert verb == "NEG-MSG"
    assert found(talk.wait(10.0)).reason == "went silent"


def test_the_deadline_that_passed_first_is_the_reason_however_late_it_is_noticed(talk):
    talk.compare(make_pairs(1, 5))

    assert found(talk.wait(PATIENCE.total + 1)).reason == "went silent"


def test_comparisons_and_pages_go_on_side_by_side(talk):
    pairs = make_pairs(1, 10)
    one, first = talk.compare(pairs)
    page, _ = talk.session.request([talk.wanted], talk.now)
    two, second = talk.compare(pairs[:5])
    assert found(talk.converse(two, second, Responder(Items(pairs)))[0]).need == tuple(
        ident for _, ident in sorted(pairs[5:])
    )
    assert [type(action) for action in talk.hear("EOSE", page)] == [Send, PageDone]
    assert found(talk.converse(one, first, Responder(Items(pairs)))[0]).complete


def test_nobody_wants_the_comparison_any_more(talk):
    sub, _ = talk.compare()
    assert sent(talk.session.cancel(sub)) == [["NEG-CLOSE", sub]]
    assert talk.hear("NEG-MSG", sub, IN_STEP) == []
    assert talk.session.deadline() is None


# ── Relays that do not compare ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("blocked: too many query results", "blocked"),
        ("error: quokka", "relay error"),
        ("closed: quokka", "unknown answer"),
        ("PROTOCOL-ERROR", "unreadable answer"),
        ("rate-limited: quokka", "rate-limited"),
        ("duplicate: quokka", "closed by the relay"),
        ("x" * 5_000, "unreadable answer"),
    ],
)
@pytest.mark.parametrize("verb", ["NEG-ERR", "CLOSED"])
def test_a_refusal_ends_the_comparison_in_our_words(talk, verb, text, reason):
    sub, _ = talk.compare(make_pairs(1, 100))
    actions = talk.hear(verb, sub, text)
    comparison = found(actions)
    assert (comparison.complete, comparison.reason) == (False, reason)
    assert sent(actions) == []
    assert talk.session.deadline() is None


def test_a_refusal_may_name_a_number_too(talk):
    sub, _ = talk.compare()
    assert found(talk.hear("NEG-ERR", sub, "blocked: too many query results", 1_000_000)).reason == "blocked"


def test_silence_ends_the_comparison(talk):
    sub, _ = talk.compare()
    assert talk.wait(9.9) == []
    actions = talk.wait(0.1)
    assert (found(actions).complete, found(actions).reason) == (False, "went silent")
    assert sent(actions) == [["NEG-CLOSE", sub]]


def test_a_relay_that_never_said_it_compares_is_not_given_long_to_begin(talk):
    sub, _ = talk.compare(doubtful=True)
    assert talk.wait(2.9) == []
    actions = talk.wait(0.1)
    assert found(actions).reason == "went silent"
    assert sent(actions) == [["NEG-CLOSE", sub]]


def test_once_begun_a_doubtful_relay_is_a_relay_like_any_other(talk):
    common, theirs = make_pairs(1, 500), make_pairs(3, 400)
    sub, message = talk.compare(common, doubtful=True)
    responder = Responder(Items(common + theirs))
    ((_, _, message),) = sent(talk.hear("NEG-MSG", sub, responder.reply(bytes.fromhex(message)).hex()))
    assert talk.wait(9.9) == []
    assert found(talk.converse(sub, message, responder)[0]).complete


def test_a_notice_and_nothing_else_ends_the_comparison_soon(talk):
    sub, _ = talk.compare()
    assert talk.hear("NOTICE", "ERROR: bad msg: unknown cmd") == []
    assert talk.wait(2.9) == []
    actions = talk.wait(0.1)
    assert found(actions).reason == "answered with a notice only"
    assert sent(actions) == [["NEG-CLOSE", sub]]


def test_a_notice_beside_answers_means_nothing(talk):
    common, theirs = make_pairs(1, 500), make_pairs(3, 400)
    sub, message = talk.compare(common)
    responder = Responder(Items(common + theirs))
    ((_, _, message),) = sent(talk.hear("NEG-MSG", sub, responder.reply(bytes.fromhex(message)).hex()))
    talk.hear("NOTICE", "welcome")
    assert talk.wait(9.0) == []
    assert found(talk.converse(sub, message, responder)[0]).complete


def test_a_relay_that_never_comes_to_an_end_is_cut_off(talk):
    sub, _ = talk.compare(make_pairs(1, 100))
    for number in range(13):
        assert talk.wait(9.0) == []
        assert sent(talk.hear("NEG-MSG", sub, f"61000001{number:032x}"))[0][0] == "NEG-MSG"
    assert talk.wait(2.9) == []
    assert found(talk.wait(0.1)).reason == "took too long"


def test_rounds_are_counted(talk):
    sub, _ = talk.compare(make_pairs(1, 100), max_rounds=5)
    for number in range(5):
        assert sent(talk.hear("NEG-MSG", sub, f"61000001{number:032x}"))[0][0] == "NEG-MSG"
    actions = talk.hear("NEG-MSG", sub, f"61000001{5:032x}")
    assert found(actions).reason == "broke the negentropy protocol"


def test_a_lost_connection_ends_the_comparison(talk):
    talk.compare(make_pairs(1, 100))
    comparison = found(talk.session.disconnected())
    assert comparison.reason == "connection lost"


# ── Relays that lie ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "message",
    ["", "62", "60", "6100", "61000003", "610000", "61000001aa", "6100000205"],
    ids=["empty", "next version", "version 0", "cut", "mode", "no mode", "short fingerprint", "short ids"],
)
def test_a_malformed_message_ends_the_comparison(talk, message):
    sub, _ = talk.compare(make_pairs(1, 100))
    actions = talk.hear("NEG-MSG", sub, message)
    assert found(actions).reason == "broke the negentropy protocol"
    assert sent(actions) == [["NEG-CLOSE", sub]]
    assert talk.session.counts.malformed == 1


def test_what_is_no_hex_is_no_frame(talk):
    sub, _ = talk.compare()
    for text in ("6", "6G", "61 ", None, 61):
        assert talk.hear("NEG-MSG", sub, text) == []
    assert talk.session.counts.malformed == 5
    assert found(talk.hear("NEG-MSG", sub, IN_STEP)).complete


def test_what_was_found_before_a_failure_stands(talk):
    common, ours, theirs = make_pairs(1, 500), make_pairs(2, 300), make_pairs(3, 400)
    sub, message = talk.compare(common + ours, frame_bytes=4_096)
    responder = Responder(Items(common + theirs), 4_096)
    for _ in range(4):
        ((_, _, message),) = sent(talk.hear("NEG-MSG", sub, responder.reply(bytes.fromhex(message)).hex()))
    comparison = found(talk.hear("NEG-ERR", sub, "closed: you took too long"))
    assert not comparison.complete
    assert set(comparison.have) < {ident for _, ident in ours}
    assert set(comparison.need) < {ident for _, ident in theirs}
    assert comparison.need


def test_a_relay_that_claims_too_much_is_cut_off(talk):
    sub, _ = talk.compare(max_need=100)
    lie = bytes.fromhex("61000002") + bytes([101]) + random.Random(1).randbytes(32 * 101)
    actions = talk.hear("NEG-MSG", sub, lie.hex())
    assert found(actions).reason == "broke the negentropy protocol"
    assert len(found(actions).need) == 0


def test_frames_of_the_wrong_kind_change_nothing(talk):
    sub, _ = talk.compare()
    page, _ = talk.session.request([talk.wanted], talk.now)
    for frame in (
        ("EOSE", sub),
        ("EVENT", sub, {"id": "ab" * 32}),
        ("COUNT", sub, {"count": 5}),
        ("NEG-MSG", page, IN_STEP),
        ("NEG-ERR", page, "blocked: quokka"),
        ("NEG-MSG", "nobody's", IN_STEP),
        ("NEG-ERR", "nobody's", "blocked: quokka"),
    ):
        assert talk.hear(*frame) == []
    assert talk.session.counts.unasked == 7
    assert found(talk.hear("NEG-MSG", sub, IN_STEP)).complete
    (done,) = [action for action in talk.hear("EOSE", page) if isinstance(action, PageDone)]
    assert done.page.complete


def test_what_comes_after_the_end_is_ignored(talk):
    sub, _ = talk.compare()
    assert found(talk.hear("NEG-MSG", sub, IN_STEP)).complete
    assert talk.hear("NEG-MSG", sub, IN_STEP) == []
    assert talk.hear("NEG-ERR", sub, "closed: unknown subscription") == []
    assert talk.session.counts.unasked == 0  # some relays confirm our NEG-CLOSE


def test_a_flood_of_messages_for_nobody_is_hung_up_on(signer, sign):
    talk = Talk(signer, sign, noise_budget=100)
    sub, _ = talk.compare()
    actions = []
    for _ in range(101):
        actions += talk.hear("NEG-MSG", "nobody's", IN_STEP)
    assert any(isinstance(action, Hangup) for action in actions)
    assert found(actions).reason.startswith("disconnected")
    assert talk.session.received(json.dumps(["NEG-MSG", sub, IN_STEP]), talk.now) == []


# ── Authentication ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", ["auth-required: who are you?", "ERROR: auth-required: x"])
@pytest.mark.parametrize("verb", ["NEG-ERR", "CLOSED"])
def test_a_comparison_is_opened_again_after_auth(talk, verb, words):
    pairs = make_pairs(1, 100)
    sub, message = talk.compare(pairs)
    talk.hear("AUTH", "challenge")
    assert talk.hear(verb, sub, words) == [SignAuth("challenge")]
    assert talk.hear("NEG-MSG", sub, IN_STEP) == []  # nothing is taken before
    ((verb, name, _, again),) = sent(talk.sign_in("challenge"))
    assert (verb, name, again) == ("NEG-OPEN", sub, message)
    assert found(talk.converse(sub, again, Responder(Items(pairs)))[0]).complete


def test_auth_required_again_after_auth_is_a_refusal(talk):
    sub, _ = talk.compare()
    talk.hear("AUTH", "challenge")
    talk.hear("NEG-ERR", sub, "auth-required: x")
    talk.sign_in("challenge")
    comparison = found(talk.hear("NEG-ERR", sub, "auth-required: x"))
    assert comparison.reason == "auth-required"


def test_without_a_challenge_auth_required_is_a_refusal(talk):
    sub, _ = talk.compare()
    talk.hear("NEG-ERR", sub, "auth-required: x")
    assert found(talk.wait(120.0)).complete is False
