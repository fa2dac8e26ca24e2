"""Live subscriptions as the session sees them: frames and plain numbers as time in, actions out."""

from __future__ import annotations

import json

import pytest

from sense_memory import limits
from sense_memory.nostr.event import KIND_APP_DATA
from sense_memory.nostr.filters import Filter
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.actions import Hangup, LiveEvents, LookUpIds, Send, SignAuth, Timeouts
from sense_memory.relay.client.authentication import auth_event
from sense_memory.relay.client.page import OpenLive, PageDone
from sense_memory.relay.client.session import Session


class Talk:
    """A session with one live subscription, `sub`; what it brings is in `heard`, a list for each time."""

    def __init__(self, signer, known=()):
        self.session = Session(signer.public_key, can_sign=True, new_id=lambda: "sub")
        self.heard, self.now = [], 1_000.0
        self.live = OpenLive(
            filters=(Filter(authors=(signer.public_key,), kinds=(KIND_APP_DATA,), limit=1),),
            author=signer.public_key,
            opened_at=self.now,
        )
        self.known = frozenset(known)
        _, (self.opening,) = self.session.listen(self.live)

    def hear(self, *frame):
        """What the relay says; returns the actions, but for what is heard."""
        return self._done(self.session.received(json.dumps(frame), self.now))

    def wait(self, seconds):
        self.now += seconds
        return self._done(self.session.tick(self.now))

    def _done(self, actions):
        """Note what is heard, and answer what is looked up at once."""
        done = []
        for action in actions:
            match action:
                case LiveEvents("sub", events):
                    self.heard.append([event.id for event in events])
                case LookUpIds("sub", ids):
                    done += self._done(self.session.looked_up("sub", self.known.intersection(ids)))
                case _:
                    done.append(action)
        return done


@pytest.fixture
def talk(signer):
    return Talk(signer)


@pytest.fixture
def begun(talk):
    talk.hear("EOSE", "sub")
    talk.heard.clear()
    return talk


def frames(actions):
    return [json.loads(action.text) for action in actions if isinstance(action, Send)]


def the_end(actions):
    """Why the subscription ended."""
    (page,) = [action.page for action in actions if isinstance(action, PageDone)]
    assert not page.complete
    return page.reason, page.outcome


def test_it_begins_with_eose_and_then_hands_on_each_event_at_once(talk, make_event):
    assert json.loads(talk.opening.text)[:2] == ["REQ", "sub"]
    assert talk.hear("EVENT", "sub", make_event(1).as_json()) == []
    assert talk.heard == [], "what is stored is the next pull's business"

    assert talk.hear("EOSE", "sub") == []
    assert talk.hear("EVENT", "sub", make_event(2).as_json()) == []
    assert talk.hear("EVENT", "sub", make_event(3).as_json()) == []

    assert talk.heard == [[], [make_event(2).id], [make_event(3).id]]


def test_there_is_no_hurry_once_it_has_begun(begun):
    """No timer runs, so an idle connection costs nothing."""
    assert begun.session.deadline() is None
    assert begun.wait(86_400) == []
    assert begun.hear("NOTICE", "hello") == []
    assert begun.session.deadline() is None


def test_a_relay_that_does_not_agree_is_not_waited_for(talk):
    patience = Timeouts()
    assert talk.session.deadline() == 1_000.0 + patience.idle

    actions = talk.wait(patience.idle)

    assert frames(actions) == [["CLOSE", "sub"]]
    assert the_end(actions) == ("went silent", RelayOutcome.RETRY)


def test_an_old_relay_answers_with_a_notice_only(talk):
    talk.hear("NOTICE", "too many subscriptions")

    assert the_end(talk.wait(Timeouts().notice_settle)) == ("answered with a notice only", RelayOutcome.RETRY)


@pytest.mark.parametrize("when", ["at once", "later"])
def test_the_relay_may_end_it(talk, when):
    if when == "later":
        talk.hear("EOSE", "sub")

    assert the_end(talk.hear("CLOSED", "sub", "blocked: \x1b[31mno")) == ("blocked", RelayOutcome.REFUSED)
    assert talk.session.deadline() is None


def test_it_is_asked_again_after_authenticating(talk, signer, sign, make_event):
    talk.hear("AUTH", "challenge")
    (ask,) = talk.hear("CLOSED", "sub", "auth-required: who are you")
    assert isinstance(ask, SignAuth)
    event = sign(signer, auth_event("wss://relay.example", ask.challenge, 1_800_000_000))
    talk.session.authenticated(event, talk.now)

    assert frames(talk.hear("OK", event.id, True, "")) == [json.loads(talk.opening.text)]
    talk.hear("EOSE", "sub")
    talk.hear("EVENT", "sub", make_event(1).as_json())
    assert talk.heard == [[], [make_event(1).id]]


def test_what_is_known_is_dropped_unread(signer, make_event):
    """Whatever else it says: under a known id nothing can be new."""
    talk = Talk(signer, known={make_event(1).id})
    talk.hear("EOSE", "sub")
    for value in ({"id": make_event(1).id, "sig": "forged"}, make_event(1).as_json()):
        assert talk.hear("EVENT", "sub", value) == []

    assert talk.heard == [[]]
    assert (talk.session.counts.invalid, talk.session.counts.duplicates) == (0, 0)


def test_one_question_at_a_time_is_asked_about_all_that_came_since_the_last(begun, make_event):
    """So what is known costs one look at the ledger for many events, and the session none."""
    first, second, third = make_event(1), make_event(2), make_event(3)

    def hear(value):
        return begun.session.received(json.dumps(["EVENT", "sub", value]), begun.now)

    assert hear(first.as_json()) == [LookUpIds("sub", (first.id,))]
    assert [hear(value) for value in (second.as_json(), third.as_json(), {"id": 7}, "junk")] == [[]] * 4
    heard, asked = begun.session.looked_up("sub", set())
    assert (heard, asked) == (LiveEvents("sub", (first,)), LookUpIds("sub", (second.id, third.id)))
    assert begun.session.looked_up("sub", {second.id}) == [LiveEvents("sub", (third,))]
    assert begun.session.counts.invalid == 2
    assert begun.session.looked_up("sub", {second.id}) == []


def test_more_than_may_wait_for_an_answer_ends_it(begun, make_event, monkeypatch):
    monkeypatch.setattr(limits, "MAX_LIVE_WAITING_COUNT", 3)

    def hear(number):
        frame = ["EVENT", "sub", make_event(number).as_json()]
        return begun.session.received(json.dumps(frame), begun.now)

    assert [len(hear(number)) for number in range(4)] == [1, 0, 0, 0]

    assert the_end(hear(4)) == ("sent more than was asked for", RelayOutcome.RETRY)
    assert begun.session.looked_up("sub", set()) == []


def test_a_flood_of_nothing_new_ends_it_without_a_hangup(signer, make_event, monkeypatch):
    """Another process that writes a lot comes back the same way: that is no fault of the relay's."""
    monkeypatch.setattr(limits, "MAX_NOISE_COUNT", 100)
    talk = Talk(signer, known={make_event(1).id})
    talk.hear("EOSE", "sub")
    for _ in range(100):
        assert talk.hear("EVENT", "sub", make_event(1).as_json()) == []

    actions = talk.hear("EVENT", "sub", make_event(1).as_json())

    assert frames(actions) == [["CLOSE", "sub"]]
    assert the_end(actions) == ("sent more than was asked for", RelayOutcome.RETRY)
    assert not talk.session.misbehaving


def test_repeated_and_foreign_events_are_part_of_the_flood(begun, stranger, make_event, monkeypatch):
    monkeypatch.setattr(limits, "MAX_NOISE_COUNT", 10)
    begun.hear("EVENT", "sub", make_event(1).as_json())
    for _ in range(5):
        begun.hear("EVENT", "sub", make_event(1).as_json())
        begun.hear("EVENT", "sub", make_event(2, by=stranger).as_json())

    assert the_end(begun.hear("EVENT", "sub", make_event(1).as_json()))[1] is RelayOutcome.RETRY
    assert begun.heard == [[make_event(1).id]]
    assert (begun.session.counts.duplicates, begun.session.counts.over_delivered) == (5, 5)


def test_something_new_now_and_then_keeps_it_up_to_a_number(begun, make_event, monkeypatch):
    monkeypatch.setattr(limits, "MAX_NOISE_COUNT", 3)
    monkeypatch.setattr(limits, "MAX_LIVE_COUNT", 5)
    for number in (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4):
        assert begun.hear("EVENT", "sub", make_event(number).as_json()) == []

    assert the_end(begun.hear("EVENT", "sub", make_event(9).as_json()))[1] is RelayOutcome.RETRY
    assert [ids for (ids,) in begun.heard] == [make_event(number).id for number in range(5)]


def test_forged_events_are_counted_and_the_relay_is_hung_up_on(begun, make_event):
    event = make_event(1).as_json()
    for number in range(limits.MAX_INVALID_COUNT - 1):
        assert begun.hear("EVENT", "sub", {**event, "sig": f"{number:0128x}"}) == []

    actions = begun.hear("EVENT", "sub", {**event, "sig": "f" * 128})

    assert Hangup("disconnected: it sent too many invalid events") in actions
    assert the_end(actions) == ("disconnected: it sent too many invalid events", RelayOutcome.RETRY)
    assert begun.heard == []


def test_nobody_wants_it_any_more(begun, make_event):
    assert frames(begun.session.cancel("sub")) == [["CLOSE", "sub"]]

    assert begun.hear("EVENT", "sub", make_event(1).as_json()) == []
    assert begun.heard == []
    assert begun.session.counts.unasked == 1
