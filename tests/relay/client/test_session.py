"""The relay session: frames and plain numbers as time in, actions out. No socket, no clock."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from sense_memory import limits
from sense_memory.nostr.event import KIND_APP_DATA, KIND_AUTH, verify
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from sense_memory.relay.client import page as page_module
from sense_memory.relay.client.actions import EventJudged, Hangup, Send, SignAuth, Timeouts
from sense_memory.relay.client.authentication import auth_event
from sense_memory.relay.client.page import PageDone
from sense_memory.relay.client.session import Session


ACCEPTED = RelayVerdict(RelayOutcome.ACCEPTED)
URL = "wss://relay.example"


class Talk:
    """One session with a hand-moved time; says what a relay says, and reads what the session wants."""

    def __init__(self, signer, sign, **options) -> None:
        names = (f"sub{number}" for number in itertools.count())
        options = {"can_sign": True, "new_id": lambda: next(names), **options}
        self.session = Session(signer.public_key, **options)
        self.now = 1_000.0
        self._author = signer.public_key
        self._sign = lambda unsigned: sign(signer, unsigned)

    @property
    def counts(self):
        return self.session.counts

    def wanted(self, **changes):
        return Filter(**{"authors": (self._author,), "kinds": (KIND_APP_DATA,), "limit": 500, **changes})

    def ask(self, *filters):
        """Open a subscription; returns its id."""
        subscription, actions = self.session.request(filters or (self.wanted(),), self.now)
        assert [frame[:2] for frame in sent(actions)] == [["REQ", subscription]]
        return subscription

    def publish(self, event):
        return self.session.publish(event.id, event.body(), self.now)

    def hear(self, *frame):
        return self.session.received(json.dumps(frame), self.now)

    def hear_event(self, subscription, event, **changes):
        return self.hear("EVENT", subscription, {**event.as_json(), **changes})

    def wait(self, seconds):
        """Let time pass as a driver does: ring at every deadline on the way."""
        end, actions = self.now + seconds, []
        while (due := self.session.deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            actions += self.session.tick(self.now)
        self.now = end
        return actions + self.session.tick(end)

    def signed(self, challenge, url=URL):
        """Answer a SignAuth; returns the AUTH event and the actions."""
        event = self._sign(auth_event(url, challenge, 1_800_000_000))
        return event, self.session.authenticated(event, self.now)


@pytest.fixture
def talk(signer, sign):
    return Talk(signer, sign)


@pytest.fixture
def start(signer, sign):
    """A talk with other options."""
    return lambda **options: Talk(signer, sign, **options)


def sent(actions):
    return [json.loads(action.text) for action in actions if isinstance(action, Send)]


def pages(actions):
    return [action.page for action in actions if isinstance(action, PageDone)]


def the_page(actions):
    (page,) = pages(actions)
    return page


def judged(actions):
    return {action.event_id: action.verdict for action in actions if isinstance(action, EventJudged)}


def forged(event, number=0):
    """The event with another signature, well-formed and wrong."""
    return {**event.as_json(), "sig": f"{number:0128x}"}


# ── Pages ───────────────────────────────────────────────────────────────────────────────


def test_a_page_ended_by_the_relay_is_complete(talk, make_event):
    sub = talk.ask()
    events = [make_event(number) for number in range(3)]
    for event in events:
        assert talk.hear_event(sub, event) == []
    actions = talk.hear("EOSE", sub)
    page = the_page(actions)
    assert (page.complete, page.reason, page.outcome) == (True, "", RelayOutcome.ACCEPTED)
    assert page.events == tuple(events)
    assert page.received == 3
    assert sent(actions) == [["CLOSE", sub]]
    assert talk.session.deadline() is None


def test_an_empty_page_is_complete_only_by_eose(talk):
    sub = talk.ask()
    page = the_page(talk.hear("EOSE", sub))
    assert (page.complete, page.events) == (True, ())


def test_subscription_ids_are_sixteen_random_hex_digits(signer):
    session = Session(signer.public_key)
    ids = [session.request((), 0.0)[0] for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(len(ident) == 16 and set(ident) <= set("0123456789abcdef") for ident in ids)


def test_two_subscriptions_do_not_mix(talk, make_event):
    first, second = make_event(1), make_event(2)
    one, two = talk.ask(), talk.ask()
    talk.hear_event(two, second)
    talk.hear_event(one, first)
    assert the_page(talk.hear("EOSE", two)).events == (second,)
    assert the_page(talk.hear("EOSE", one)).events == (first,)


def test_abandoning_a_page_closes_it_and_reports_nothing(talk, make_event):
    sub = talk.ask()
    assert sent(talk.session.cancel(sub)) == [["CLOSE", sub]]
    assert talk.session.cancel(sub) == []
    assert talk.hear_event(sub, make_event()) == talk.hear("EOSE", sub) == []
    assert talk.session.deadline() is None


# ── Events: the order of the checks ─────────────────────────────────────────────────────


@pytest.mark.parametrize("known", ["never opened", "closed"])
def test_w10_wrong_subscription_id_never_delivers(talk, make_event, monkeypatch, known):
    sub = "other"
    if known == "closed":
        sub = talk.ask()
        talk.hear("CLOSED", sub, "blocked: no")
    open_one = talk.ask()
    monkeypatch.setattr(page_module.RawEvent, "parse", lambda value: pytest.fail("a cost was paid"))
    assert talk.hear_event(sub, make_event()) == []
    assert talk.counts.unasked == 1
    assert the_page(talk.hear("EOSE", open_one)).received == 0


def test_events_that_were_not_asked_for_are_dropped_and_counted(talk, make_event, stranger):
    sub = talk.ask(talk.wanted(since=1_800_000_010, until=1_800_000_020))
    talk.hear_event(sub, make_event(15, by=stranger))
    talk.hear_event(sub, make_event(15, kind=1))
    talk.hear_event(sub, make_event(9))
    talk.hear_event(sub, make_event(21))
    wanted = make_event(20)
    talk.hear_event(sub, wanted)
    page = the_page(talk.hear("EOSE", sub))
    assert page.events == (wanted,)
    assert (page.received, page.over_delivered, page.invalid) == (5, 4, 0)
    assert talk.counts.over_delivered == 4


def test_a_strangers_event_is_dropped_even_if_the_filter_forgot_the_author(talk, make_event, stranger):
    sub = talk.ask(Filter(kinds=(KIND_APP_DATA,)))
    talk.hear_event(sub, make_event(by=stranger))
    page = the_page(talk.hear("EOSE", sub))
    assert (page.events, page.over_delivered) == ((), 1)


def test_any_filter_of_the_request_may_match(talk, make_event):
    sub = talk.ask(talk.wanted(tags={"d": ("sense-memory/1",)}), talk.wanted(tags={"d": ("sense-memory/2",)}))
    for number in (1, 2, 3):
        talk.hear_event(sub, make_event(number))
    page = the_page(talk.hear("EOSE", sub))
    assert [event.d_tag for event in page.events] == ["sense-memory/1", "sense-memory/2"]
    assert page.over_delivered == 1


@pytest.mark.parametrize(
    "change",
    [{"content": "altered"}, {"created_at": 1_800_000_001}, {"sig": "0" * 128}, {"id": "0" * 64}, {"sig": 7}],
)
def test_altered_events_are_invalid(talk, make_event, change):
    sub = talk.ask()
    talk.hear_event(sub, make_event(), **change)
    page = the_page(talk.hear("EOSE", sub))
    assert (page.events, page.invalid, page.received) == ((), 1, 1)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, {"id": "x"}])
def test_what_is_no_event_at_all_is_invalid(talk, value):
    sub = talk.ask()
    assert talk.hear("EVENT", sub, value) == []
    assert the_page(talk.hear("EOSE", sub)).invalid == 1


@pytest.mark.parametrize("noticed", [False, True])
def test_an_unverified_event_changes_nothing_but_a_counter(talk, make_event, noticed):
    sub = talk.ask()
    if noticed:
        talk.hear("NOTICE", "busy")
    before = talk.session.deadline()
    talk.now += 1
    talk.hear("EVENT", sub, forged(make_event(99)))
    talk.hear_event(sub, make_event(kind=1))
    assert talk.session.deadline() == before
    assert talk.counts.invalid == talk.counts.over_delivered == 1


def test_e06_forged_copy_never_hides_the_real_event(talk, make_event):
    sub, event = talk.ask(), make_event()
    talk.hear("EVENT", sub, {"id": event.id})
    talk.hear("EVENT", sub, forged(event))
    talk.hear_event(sub, event)
    page = the_page(talk.hear("EOSE", sub))
    assert (page.events, page.invalid) == ((event,), 2)


def test_e04_known_id_with_other_body_is_verified_again(talk, make_event):
    sub, event = talk.ask(), make_event()
    talk.hear_event(sub, event)
    talk.hear_event(sub, event, content="altered")
    page = the_page(talk.hear("EOSE", sub))
    assert (page.events, page.invalid) == ((event,), 1)
    assert talk.counts.duplicates == 0


def test_e05_failed_verification_is_not_cached(talk, make_event):
    sub, event = talk.ask(), make_event()
    for _ in range(2):
        talk.hear("EVENT", sub, forged(event))
    assert the_page(talk.hear("EOSE", sub)).invalid == 2


def test_a_second_copy_is_counted_without_a_second_signature_check(talk, make_event, monkeypatch):
    sub, event = talk.ask(), make_event()
    talk.hear_event(sub, event)
    monkeypatch.setattr(page_module, "verify", lambda raw: pytest.fail("verified twice"))
    talk.hear_event(sub, event)
    page = the_page(talk.hear("EOSE", sub))
    assert (page.events, page.received, talk.counts.duplicates) == ((event,), 2, 1)


def test_where_a_page_begins_with_what_the_last_one_ended_with_no_signature_is_checked_twice(
    talk, make_event, monkeypatch
):
    newer, older = make_event(1, at=200), make_event(2, at=100)
    first = talk.ask()
    for event in (newer, older):
        talk.hear_event(first, event)
    talk.hear("EOSE", first)

    verified = []
    monkeypatch.setattr(page_module, "verify", lambda raw: verified.append(raw.id) or verify(raw))
    second = talk.ask(talk.wanted(until=100))
    talk.hear("EVENT", second, forged(older))

    # The id commits to everything else: what is kept is the event that was verified, signature included.
    assert the_page(talk.hear("EOSE", second)).events == (older,)
    third = talk.ask()
    talk.hear_event(third, newer)
    talk.hear_event(third, older, content="altered")
    page = the_page(talk.hear("EOSE", third))
    assert (page.events, page.invalid) == ((newer,), 1)
    assert verified == [newer.id]  # only the oldest second is remembered


# ── Budgets ─────────────────────────────────────────────────────────────────────────────


def test_r11_duplicate_flood(talk, make_event):
    sub, frame = talk.ask(talk.wanted(limit=500)), json.dumps(["EVENT", "sub0", make_event().as_json()])
    actions = []
    for _ in range(2_000):
        actions += talk.session.received(frame, talk.now)
    page = the_page(actions)
    assert (page.complete, page.reason, len(page.events)) == (False, "sent more than was asked for", 1)
    assert sent(actions) == [["CLOSE", sub]]
    assert talk.counts.duplicates == 549
    assert talk.counts.unasked == 2_000 - 551


def test_r12_distinct_forged_flood(talk, make_event):
    sub, event = talk.ask(), make_event()
    other = talk.ask()
    actions = []
    for number in range(60):
        actions += talk.hear("EVENT", sub, forged(event, number))
    assert talk.counts.invalid == limits.MAX_INVALID_COUNT
    assert {action.subscription for action in actions if isinstance(action, PageDone)} == {sub, other}
    assert not any(page.complete for page in pages(actions))
    assert isinstance(actions[-1], Hangup)
    assert talk.session.misbehaving
    assert talk.session.deadline() is None


def test_one_invalid_event_less_than_the_budget_is_forgiven(start, make_event):
    talk = start(invalid_budget=3)
    sub = talk.ask()
    for number in range(2):
        talk.hear("EVENT", sub, forged(make_event(), number))
    assert the_page(talk.hear("EOSE", sub)).complete
    assert not talk.session.misbehaving


def test_r13_more_than_limit(talk, make_event):
    sub = talk.ask(talk.wanted(limit=20))
    actions = []
    for number in range(40):
        actions += talk.hear_event(sub, make_event(number))
    page = the_page(actions)
    assert (page.complete, page.outcome) == (False, RelayOutcome.RETRY)
    assert len(page.events) == 22  # the limit and a tenth
    assert sent(actions) == [["CLOSE", sub]]


def test_a_filter_by_ids_can_not_be_answered_with_more_than_its_ids(talk, make_event):
    event = make_event()
    sub = talk.ask(Filter(ids=(event.id,)))
    assert talk.hear_event(sub, event) == []
    assert not the_page(talk.hear_event(sub, event)).complete


def test_a_page_is_cut_when_its_bytes_are_too_many(talk, make_event, monkeypatch):
    monkeypatch.setattr(limits, "MAX_PULL_BYTES", 5_000)
    sub = talk.ask(Filter(kinds=(KIND_APP_DATA,)))
    actions = []
    for number in range(10):
        actions += talk.hear_event(sub, make_event(number, "c" * 1_000))
    page = the_page(actions)
    assert (page.complete, len(page.events)) == (False, 3)


def test_a_flood_of_frames_that_answer_nothing_is_hung_up_on(start):
    talk = start(noise_budget=100)
    sub = talk.ask()
    actions = [action for _ in range(100) for action in talk.hear("COUNT", "x", {})]
    assert actions == []
    actions = talk.hear("EOSE", "unknown")
    assert not the_page(actions).complete
    assert isinstance(actions[-1], Hangup)
    assert talk.hear("EOSE", sub) == []


def test_an_ok_forgives_the_noise_before_it(start, make_event):
    talk = start(noise_budget=100)
    for number in range(5):
        event = make_event(number)
        talk.publish(event)
        for _ in range(90):
            assert talk.hear("NOTICE", "hello") == []
        assert judged(talk.hear("OK", event.id, True, "")) == {event.id: ACCEPTED}


def test_a_page_forgives_the_noise_before_it(start):
    talk = start(noise_budget=100)
    for _ in range(5):
        sub = talk.ask()
        for _ in range(90):
            assert talk.hear("NOTICE", "hello") == []
        assert the_page(talk.hear("EOSE", sub)).complete


# ── Pages that the relay does not finish ────────────────────────────────────────────────


def test_r03_never_sends_eose(talk, make_event):
    sub, event = talk.ask(), make_event()
    talk.now += 9
    talk.hear_event(sub, event)
    assert talk.wait(9.9) == []
    actions = talk.wait(0.1)
    page = the_page(actions)
    assert (page.complete, page.reason, page.events) == (False, "went silent", (event,))
    assert sent(actions) == [["CLOSE", sub]]


def test_r04_drip_feeds_forever(talk, make_event):
    sub, begun, done, count = talk.ask(), talk.now, [], 0
    while not done:
        done = talk.hear_event(sub, make_event(count)) + talk.wait(1)
        count += 1
    page = the_page(done)
    assert (talk.now - begun, page.complete, page.reason) == (limits.TOTAL_SECONDS, False, "took too long")
    assert len(page.events) == 120


def test_r05_notice_only_refusal(talk):
    talk.ask()
    talk.now += 2
    assert talk.hear("NOTICE", "ERROR: bad req: too many filters") == []
    assert talk.wait(1) == talk.hear("NOTICE", "again") == []
    assert talk.wait(1.9) == []
    page = the_page(talk.wait(0.1))
    assert (page.complete, page.reason) == (False, "answered with a notice only")


def test_a_notice_is_forgotten_once_events_arrive(talk, make_event):
    sub = talk.ask()
    talk.hear("NOTICE", "welcome")
    talk.hear_event(sub, make_event())
    assert talk.wait(5) == []
    talk.hear("NOTICE", "welcome again")
    assert talk.wait(4.9) == []
    assert the_page(talk.hear("EOSE", sub)).complete


def test_r06_early_eose_then_events(talk, make_event):
    sub = talk.ask()
    assert the_page(talk.hear("EOSE", sub)).events == ()
    assert talk.hear_event(sub, make_event()) == []
    assert (talk.counts.after_eose, talk.counts.unasked) == (1, 0)


def test_a_relay_may_confirm_our_close(talk):
    sub = talk.ask()
    talk.hear("EOSE", sub)
    assert talk.hear("CLOSED", sub, "") == []
    assert (talk.counts.after_eose, talk.counts.unasked) == (0, 0)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("rate-limited: slow down", RelayOutcome.RATE_LIMITED),
        ("blocked: no", RelayOutcome.REFUSED),
        ("restricted: members only", RelayOutcome.REFUSED),
        ("pow: 28 bits", RelayOutcome.REFUSED),
        ("mute: x", RelayOutcome.REFUSED),
        ("unsupported: filter", RelayOutcome.REFUSED),
        ("invalid: filter", RelayOutcome.REFUSED),
        ("error: database", RelayOutcome.RETRY),
        ("duplicate: sub", RelayOutcome.RETRY),
        ("replaced: have newer event", RelayOutcome.RETRY),
        ("deleted: user requested deletion", RelayOutcome.RETRY),
        ("shutting-down: bye", RelayOutcome.RETRY),
        ("", RelayOutcome.RETRY),
        ("\x1b[31mgarbage", RelayOutcome.RETRY),
        ("x" * 5_000, RelayOutcome.RETRY),
    ],
)
def test_r07_closed_each_prefix(talk, make_event, text, outcome):
    sub, event = talk.ask(), make_event()
    talk.hear_event(sub, event)
    actions = talk.hear("CLOSED", sub, text)
    page = the_page(actions)
    assert (page.complete, page.outcome, page.events) == (False, outcome, (event,))
    assert page.reason
    assert not text or text not in page.reason
    assert sent(actions) == []


def test_a_relays_words_never_become_a_reason(talk, make_event):
    secret = "wss://evil.example <b>click</b>"
    event, sub = make_event(), talk.ask()
    talk.publish(event)
    actions = talk.hear("CLOSED", sub, f"blocked: {secret}") + talk.hear(
        "OK", event.id, False, f"error: {secret}"
    )
    assert len(actions) == 2
    assert secret not in repr(actions)


def test_disconnect_ends_everything_as_incomplete(talk, make_event):
    sub, kept, flying = talk.ask(), make_event(1), make_event(2)
    talk.hear_event(sub, kept)
    talk.publish(flying)
    actions = talk.session.disconnected()
    page = the_page(actions)
    assert (page.complete, page.reason, page.events) == (False, "connection lost", (kept,))
    assert judged(actions) == {flying.id: RelayVerdict(RelayOutcome.RETRY, "connection lost")}
    assert talk.session.disconnected() == talk.hear("EOSE", sub) == []


def test_disconnect_ends_what_waits_for_auth(talk, make_event):
    event, sub = make_event(), talk.ask()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    talk.hear("CLOSED", sub, "auth-required: x")
    actions = talk.session.disconnected()
    assert judged(actions) == {event.id: RelayVerdict(RelayOutcome.RETRY, "connection lost")}
    assert the_page(actions).reason == "connection lost"
    assert talk.session.deadline() is None


# ── Frames that are none ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        '["EOSE"]',
        "[]",
        "{}",
        '"hi"',
        '["OK"]',
        '["COUNT","sub0"]',
        "",
        "[" * 100_000,
        "NaN",
        "null",
    ],
)
def test_w09_unknown_or_short_frames_are_ignored(talk, text):
    sub = talk.ask()
    assert talk.session.received(text, talk.now) == []
    assert talk.counts.malformed == 1
    assert the_page(talk.hear("EOSE", sub)).complete


def test_w09_binary_messages_are_ignored(talk):
    sub = talk.ask()
    assert talk.session.received(json.dumps(["EOSE", sub]).encode(), talk.now) == []
    assert talk.counts.malformed == 1


def test_w11_notice_text_is_data(talk):
    talk.hear("NOTICE", "\x1b[31mred\n</script>\u202e" + "x" * 100_000)
    (notice,) = talk.session.notices
    assert notice.isprintable()
    assert notice.startswith("\\u001b[31mred\\u000a</script>\\u202e")
    assert len(notice) < 300
    for number in range(10):
        talk.hear("NOTICE", f"notice {number}")
    assert talk.session.notices == tuple(f"notice {number}" for number in range(5, 10))


def test_w12_no_mutated_frame_raises(start, make_event):
    rng = random.Random(20_260_101)
    talk = start(invalid_budget=10**9, noise_budget=10**9)
    event = make_event()
    frames = [
        json.dumps(frame)
        for frame in (
            ["EVENT", "sub0", event.as_json()],
            ["OK", event.id, False, "auth-required: x"],
            ["EOSE", "sub0"],
            ["CLOSED", "sub0", "auth-required: x"],
            ["NOTICE", "x"],
            ["AUTH", "challenge"],
        )
    ]
    for _ in range(5_000):
        text = rng.choice(frames)
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at] + rng.choice('"[]{},:0\\aé\x00') * rng.randrange(3) + text[at + rng.randrange(4) :]
            )
        talk.ask()
        talk.publish(event)
        talk.session.received(text, talk.now)
        talk.wait(rng.choice((0, 0, 1, 11)))
    assert talk.counts.malformed > 1_000


# ── Publishing ──────────────────────────────────────────────────────────────────────────


def test_an_event_is_sent_as_its_own_bytes_and_judged_once(talk, make_event):
    event = make_event()
    (send,) = talk.publish(event)
    assert send.text == f'["EVENT",{event.body().decode()}]'
    assert judged(talk.hear("OK", event.id, True, "welcome")) == {event.id: ACCEPTED}
    assert talk.session.deadline() is None


def test_an_id_in_flight_is_not_sent_twice(talk, make_event):
    event = make_event()
    talk.publish(event)
    assert talk.publish(event) == []
    assert len(judged(talk.hear("OK", event.id, True, ""))) == 1


def test_p04_ack_for_other_id_is_ignored(talk, make_event):
    event, other = make_event(1), make_event(2)
    assert talk.hear("OK", event.id, True, "") == []  # before it was sent
    talk.publish(event)
    assert talk.hear("OK", other.id, True, "") == []
    assert len(judged(talk.hear("OK", event.id, False, "blocked: no"))) == 1
    assert talk.hear("OK", event.id, True, "") == []  # the second word does not count
    assert talk.counts.stray_oks == 3


def test_p05_no_ok_ever(talk, make_event):
    event = make_event()
    talk.publish(event)
    assert talk.wait(9.9) == []
    assert judged(talk.wait(0.1)) == {event.id: RelayVerdict(RelayOutcome.RETRY, "no answer")}
    assert talk.hear("OK", event.id, True, "") == []


def test_a_slow_relay_that_keeps_answering_is_not_silent(talk, make_event):
    events = [make_event(number) for number in range(10)]
    for event in events:
        talk.publish(event)
    for event in events[:5]:
        assert talk.wait(9) == []
        assert judged(talk.hear("OK", event.id, True, "")) == {event.id: ACCEPTED}
    assert set(judged(talk.wait(10)).values()) == {RelayVerdict(RelayOutcome.RETRY, "no answer")}


def test_an_event_is_given_up_in_the_end_though_others_are_answered(talk, make_event):
    lost, done = make_event(0), {}
    talk.publish(lost)
    for number in range(1, 200):
        event = make_event(number)
        talk.publish(event)
        talk.hear("OK", event.id, True, "")
        done |= judged(talk.wait(1))
    assert list(done) == [lost.id]


def test_ok_texts_become_verdicts(talk, make_event):
    texts = {
        "duplicate: have it": RelayOutcome.ACCEPTED,
        "rate-limited: slow": RelayOutcome.RATE_LIMITED,
        "replaced: have newer event": RelayOutcome.SUPERSEDED,
        "deleted: user requested deletion": RelayOutcome.DELETED,
        "blocked: x": RelayOutcome.REFUSED,
        "": RelayOutcome.RETRY,
    }
    for number, (text, outcome) in enumerate(texts.items()):
        event = make_event(number)
        talk.publish(event)
        assert judged(talk.hear("OK", event.id, False, text))[event.id].outcome is outcome


# ── NIP-42 ──────────────────────────────────────────────────────────────────────────────


def test_a_slow_relay_that_answers_one_question_after_another_is_not_silent(talk, make_event):
    first, second, third = talk.ask(), talk.ask(), talk.ask()
    idle = Timeouts().idle
    talk.wait(idle - 1)
    talk.hear_event(first, make_event(1))
    talk.wait(idle - 1)
    talk.hear("EOSE", first)
    talk.wait(idle - 1)
    assert the_page(talk.hear("EOSE", second)).complete

    page = the_page(talk.wait(idle))
    assert (page.reason, page.complete) == ("went silent", False)
    assert talk.hear("EOSE", third) == []


def test_r10_auth_required_then_ok(talk, make_event):
    event = make_event()
    assert talk.hear("AUTH", "challenge one") == []  # nothing needs it yet
    talk.publish(event)
    assert talk.hear("OK", event.id, False, "auth-required: who are you") == [SignAuth("challenge one")]
    auth, actions = talk.signed("challenge one")
    assert sent(actions) == [["AUTH", {**auth.as_json(), "tags": [list(tag) for tag in auth.tags]}]]
    again = talk.hear("OK", auth.id, True, "")
    assert [frame[0] for frame in sent(again)] == ["EVENT"]
    assert judged(talk.hear("OK", event.id, True, "")) == {event.id: ACCEPTED}


def test_r10_a_subscription_is_asked_again_after_auth(talk, make_event):
    sub, event = talk.ask(), make_event()
    talk.hear("AUTH", "one")
    assert talk.hear("CLOSED", sub, "auth-required: who are you") == [SignAuth("one")]
    auth, _ = talk.signed("one")
    assert [frame[:2] for frame in sent(talk.hear("OK", auth.id, True, ""))] == [["REQ", sub]]
    talk.hear_event(sub, event)
    page = the_page(talk.hear("EOSE", sub))
    assert (page.complete, page.events) == (True, (event,))


def test_r21_restricted_while_a_challenge_is_unused_is_asked_again_after_auth_and_then_believed(
    talk, make_event
):
    """NIP-42 has `auth-required` for this; a relay from a registry says `restricted`."""
    event, sub = make_event(), talk.ask()
    talk.publish(event)
    talk.hear("AUTH", "one")
    assert talk.hear("CLOSED", sub, "restricted: who are you") == [SignAuth("one")]
    assert talk.hear("OK", event.id, False, "restricted: who are you") == []
    auth, _ = talk.signed("one")
    again = sent(talk.hear("OK", auth.id, True, ""))
    assert [frame[0] for frame in again] == ["REQ", "EVENT"]

    page = the_page(talk.hear("CLOSED", sub, "restricted: not you"))
    assert (page.reason, page.outcome) == ("restricted", RelayOutcome.REFUSED)
    verdicts = judged(talk.hear("OK", event.id, False, "restricted: not you"))
    assert verdicts == {event.id: RelayVerdict(RelayOutcome.REFUSED, "restricted")}


def test_r21_restricted_stays_the_reason_where_authentication_is_refused(talk, make_event):
    event, sub = make_event(), talk.ask()
    talk.publish(event)
    talk.hear("AUTH", "one")
    talk.hear("CLOSED", sub, "restricted: who are you")
    talk.hear("OK", event.id, False, "restricted: who are you")
    auth, _ = talk.signed("one")
    actions = talk.hear("OK", auth.id, False, "invalid: not you")
    assert the_page(actions).reason == "restricted"
    assert judged(actions) == {event.id: RelayVerdict(RelayOutcome.REFUSED, "restricted")}


def test_r21_restricted_is_believed_at_once_where_authenticating_can_not_help(talk, start, make_event):
    """No challenge, nobody to sign, or authenticated before it was asked; `blocked` is no question of who we are."""
    event = make_event()
    nobody = start(can_sign=False)
    nobody.hear("AUTH", "one")
    challenged = start()
    challenged.hear("AUTH", "one")
    for talking, words in ((talk, "restricted: x"), (nobody, "restricted: x"), (challenged, "blocked: x")):
        talking.publish(event)
        assert judged(talking.hear("OK", event.id, False, words))[event.id].outcome is RelayOutcome.REFUSED

    first, second, third = make_event(1), make_event(2), make_event(3)
    challenged.publish(first)
    challenged.publish(second)
    challenged.hear("OK", first.id, False, "auth-required: x")
    auth, _ = challenged.signed("one")
    challenged.hear("OK", auth.id, True, "")
    pipelined = challenged.hear("OK", second.id, False, "restricted: x")  # said before it knew us
    assert [frame[0] for frame in sent(pipelined)] == ["EVENT"]
    challenged.now += 1
    challenged.publish(third)
    assert judged(challenged.hear("OK", third.id, False, "restricted: x")).keys() == {third.id}


def test_a_subscription_that_waits_for_auth_takes_no_events(talk, make_event):
    sub = talk.ask()
    talk.hear("AUTH", "one")
    talk.hear("CLOSED", sub, "auth-required: x")
    assert talk.hear_event(sub, make_event()) == talk.hear("EOSE", sub) == []
    assert talk.counts.unasked == 2
    auth, _ = talk.signed("one")
    talk.hear("OK", auth.id, True, "")
    assert the_page(talk.hear("EOSE", sub)).received == 0


def test_a_subscription_asked_again_gets_the_full_patience(talk):
    sub = talk.ask()
    talk.hear("AUTH", "one")
    talk.hear("CLOSED", sub, "auth-required: x")
    assert talk.wait(30) == []  # a slow signer
    auth, _ = talk.signed("one")
    talk.hear("OK", auth.id, True, "")
    assert talk.wait(9) == []
    assert the_page(talk.wait(1)).reason == "went silent"


def test_an_event_that_waits_for_auth_is_not_sent_twice(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    assert talk.publish(event) == []


def test_a_challenge_after_the_acceptance_is_answered_when_it_matters(talk, make_event):
    first, second = make_event(1), make_event(2)
    talk.hear("AUTH", "one")
    talk.publish(first)
    talk.hear("OK", first.id, False, "auth-required: x")
    auth, _ = talk.signed("one")
    talk.hear("OK", auth.id, True, "")
    assert talk.hear("AUTH", "two") == []
    talk.publish(second)
    assert talk.hear("OK", second.id, False, "auth-required: again") == [SignAuth("two")]


def test_the_challenge_may_come_after_the_refusal(talk, make_event):
    event = make_event()
    talk.publish(event)
    assert talk.hear("OK", event.id, False, "auth-required: x") == []
    assert talk.hear("AUTH", "late") == [SignAuth("late")]


def test_strfry_puts_a_word_before_auth_required_in_ok_and_closed(talk, make_event):
    event, sub = make_event(), talk.ask()
    talk.publish(event)
    talk.hear("AUTH", "challenge")
    assert talk.hear("CLOSED", sub, "ERROR: auth-required: x") == [SignAuth("challenge")]
    assert talk.hear("OK", event.id, False, "ERROR: auth-required: x") == []
    auth, _ = talk.signed("challenge")
    again = talk.hear("OK", auth.id, True, "")
    assert sorted(frame[0] for frame in sent(again)) == ["EVENT", "REQ"]


def test_a_challenge_is_waited_for_once_in_a_connection(talk):
    first = talk.ask()
    assert talk.hear("CLOSED", first, "auth-required: x") == []
    assert the_page(talk.wait(3)).reason == "auth-required"
    second = talk.ask()
    assert the_page(talk.hear("CLOSED", second, "auth-required: x")).reason == "auth-required"
    third = talk.ask()
    talk.hear("AUTH", "late")
    assert talk.hear("CLOSED", third, "auth-required: x") == [SignAuth("late")]


def test_without_a_challenge_auth_required_is_a_refusal(talk, make_event):
    event, sub = make_event(), talk.ask()
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    talk.hear("CLOSED", sub, "auth-required: x")
    actions = talk.wait(10)
    assert judged(actions) == {event.id: RelayVerdict(RelayOutcome.REFUSED, "auth-required")}
    assert (the_page(actions).reason, the_page(actions).outcome) == ("auth-required", RelayOutcome.REFUSED)


def test_without_a_signer_auth_required_is_a_refusal_at_once(start, make_event):
    talk, event = start(can_sign=False), make_event()
    talk.hear("AUTH", "one")
    talk.publish(event)
    verdict = judged(talk.hear("OK", event.id, False, "auth-required: x"))[event.id]
    assert verdict == RelayVerdict(RelayOutcome.REFUSED, "auth-required")


def test_auth_required_again_after_auth_is_a_refusal(talk, make_event):
    event, sub = make_event(), talk.ask()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    talk.hear("CLOSED", sub, "auth-required: x")
    auth, _ = talk.signed("one")
    talk.hear("OK", auth.id, True, "")
    actions = talk.hear("OK", event.id, False, "auth-required: x") + talk.hear(
        "CLOSED", sub, "auth-required: x"
    )
    assert judged(actions) == {event.id: RelayVerdict(RelayOutcome.REFUSED, "auth-required")}
    assert the_page(actions).outcome is RelayOutcome.REFUSED
    assert sent(actions) == []


def test_what_was_pipelined_before_the_auth_is_sent_once_more(talk, make_event):
    first, second = make_event(1), make_event(2)
    talk.hear("AUTH", "one")
    talk.publish(first)
    talk.publish(second)
    talk.hear("OK", first.id, False, "auth-required: x")
    auth, _ = talk.signed("one")
    talk.hear("OK", auth.id, True, "")
    again = talk.hear("OK", second.id, False, "auth-required: x")
    assert [(name, body["id"]) for name, body in sent(again)] == [("EVENT", second.id)]
    assert not any(isinstance(action, SignAuth) for action in again)


def test_refused_authentication_refuses_all_that_waited(talk, make_event):
    event, later, sub = make_event(1), make_event(2), talk.ask()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    talk.hear("CLOSED", sub, "auth-required: x")
    auth, _ = talk.signed("one")
    actions = talk.hear("OK", auth.id, False, "restricted: not a member")
    refused = RelayVerdict(RelayOutcome.REFUSED, "authentication refused")
    assert judged(actions) == {event.id: refused}
    assert the_page(actions).reason == "authentication refused"
    talk.publish(later)
    assert judged(talk.hear("OK", later.id, False, "auth-required: x")) == {later.id: refused}


def test_a_challenge_replaced_while_signing_is_answered_once_more(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "old")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    talk.hear("AUTH", "new")
    stale, _ = talk.signed("old")
    assert talk.hear("OK", stale.id, False, "invalid: wrong challenge") == [SignAuth("new")]
    auth, _ = talk.signed("new")
    assert [frame[0] for frame in sent(talk.hear("OK", auth.id, True, ""))] == ["EVENT"]


def test_r08_auth_storm(talk, make_event):
    event, signatures = make_event(), []
    for number in range(10_000):
        signatures += talk.hear("AUTH", f"challenge {number}")
    assert signatures == []
    talk.publish(event)
    assert talk.hear("OK", event.id, False, "auth-required: x") == [SignAuth("challenge 9999")]
    for number in range(5_000):
        signatures += talk.hear("AUTH", f"more {number}")
    assert signatures == []
    assert talk.counts.challenges == 15_000


def test_r08_a_relay_that_never_has_enough_gets_three_signatures(talk, make_event):
    event, signatures, verdicts = make_event(), 0, {}
    talk.publish(event)
    actions = talk.hear("AUTH", "0") + talk.hear("OK", event.id, False, "auth-required: x")
    while not verdicts:
        (wanted,) = actions
        signatures += 1
        auth, _ = talk.signed(wanted.challenge)
        talk.hear("AUTH", str(signatures))
        actions = talk.hear("OK", auth.id, False, "invalid: too slow")
        verdicts = judged(actions)
    assert signatures == limits.MAX_SIGNATURES_COUNT == 3
    assert verdicts[event.id].outcome is RelayOutcome.RETRY  # another connection may fare better


def test_an_endless_challenge_is_ignored(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "x" * 1_025)
    talk.publish(event)
    assert talk.hear("OK", event.id, False, "auth-required: x") == []
    assert talk.counts.malformed == 1


def test_r09_auth_names_the_url_that_was_dialled_and_nothing_else(talk):
    auth, _ = talk.signed("a challenge", url="wss://relay.example/path")
    assert auth.kind == KIND_AUTH == 22242
    assert auth.tags == (("relay", "wss://relay.example/path"), ("challenge", "a challenge"))
    assert (auth.content, auth.created_at) == ("", 1_800_000_000)


def test_a_signer_that_does_not_answer_leaves_the_event_for_later(talk, make_event):
    event, later = make_event(1), make_event(2)
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    assert talk.wait(59) == []
    verdict = RelayVerdict(RelayOutcome.RETRY, "the signer did not answer")
    assert judged(talk.wait(1)) == {event.id: verdict}
    _, actions = talk.signed("one")  # too late
    assert actions == []
    talk.publish(later)
    assert judged(talk.hear("OK", later.id, False, "auth-required: x")) == {later.id: verdict}


def test_a_signer_that_fails_leaves_the_event_for_later(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    assert judged(talk.session.signing_failed())[event.id].outcome is RelayOutcome.RETRY
    assert talk.session.signing_failed() == []


def test_a_failure_reported_after_the_signature_changes_nothing(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    auth, _ = talk.signed("one")
    assert talk.session.signing_failed() == []
    assert [frame[0] for frame in sent(talk.hear("OK", auth.id, True, ""))] == ["EVENT"]


def test_a_relay_that_never_answers_the_auth_leaves_the_event_for_later(talk, make_event):
    event = make_event()
    talk.hear("AUTH", "one")
    talk.publish(event)
    talk.hear("OK", event.id, False, "auth-required: x")
    auth, _ = talk.signed("one")
    assert judged(talk.wait(10)) == {
        event.id: RelayVerdict(RelayOutcome.RETRY, "did not answer the authentication")
    }
    assert talk.hear("OK", auth.id, True, "") == []


def test_waiting_for_auth_is_not_silence_but_ends_in_total(start):
    talk = start(timeouts=Timeouts(sign=500.0))
    sub = talk.ask()
    talk.hear("AUTH", "one")
    talk.hear("CLOSED", sub, "auth-required: x")
    assert talk.wait(119) == []
    assert the_page(talk.wait(1)).reason == "took too long"
