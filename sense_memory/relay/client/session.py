"""The client side of one relay connection as a state machine: frames and time in, actions out.

The session decides everything and does nothing: no socket, no task, no clock, no ledger. The driver (`connection`)
feeds the session what the relay sent, the time and which events are known, and carries out the returned actions.
A relay may send anything at any time: the session never raises, counts every fault, and bounds everything it keeps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sense_memory import limits
from sense_memory.errors import MalformedFrame
from sense_memory.nostr import wire
from sense_memory.nostr.verdict import (
    NO_ANSWER,
    RESTRICTED,
    RelayOutcome,
    RelayVerdict,
    classify,
    classify_closed,
    printable,
)
from sense_memory.relay.client.actions import EventJudged, Hangup, Send, SessionAction, SignAuth, Timeouts
from sense_memory.relay.client.authentication import Authentication, Phase
from sense_memory.relay.client.page import Admission, EventPage, OpenLive, OpenPage, PageDone
from sense_memory.relay.client.requests import (
    CompareDone,
    Comparison,
    Inquiries,
    OpenComparison,
    OpenCount,
    random_id,
    unauthenticated,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Initiator


# ── Events on their way to a relay ──────────────────────────────────────────────────────
# Events that were sent and wait for an OK, or are held back until we have authenticated. No I/O.


@dataclass(slots=True)
class InFlightEvent:
    """An event in flight: its frame, when and whether again it was sent, and why the relay refused it at first."""

    text: str
    sent_at: float
    resent: bool = False
    refusal: RelayVerdict | None = None


class InFlightEvents:
    """The events that one connection has in flight, by event id.

    Args:
        patience: how long to wait for OKs.
    """

    def __init__(self, patience: Timeouts) -> None:
        self._patience = patience
        self._sent: dict[str, InFlightEvent] = {}  # in the order in which they were sent
        self._held: dict[str, InFlightEvent] = {}
        self._answered_at = float("-inf")  # when the last OK judged something

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._sent or event_id in self._held

    def send(self, event_id: str, text: str, now: float) -> Send:
        """Send an event."""
        self._sent[event_id] = InFlightEvent(text, now)
        return Send(text)

    def acknowledge(self, event_id: str, now: float) -> InFlightEvent | None:
        """An OK arrived; returns the event in flight that the OK judges, or None."""
        flight = self._sent.pop(event_id, None)
        if flight is not None:
            self._answered_at = now
        return flight

    def hold_back(self, event_id: str, flight: InFlightEvent, refusal: RelayVerdict) -> None:
        """Keep an event that the relay refused until we have authenticated."""
        flight.refusal = refusal
        self._held[event_id] = flight

    def resend(self, now: float) -> list[Send]:
        """Send the held-back events again."""
        held, self._held = self._held, {}
        for event_id, flight in held.items():
            self._sent[event_id] = InFlightEvent(flight.text, now, resent=True)
        return [Send(flight.text) for flight in held.values()]

    def give_up_held(self) -> dict[str, RelayVerdict | None]:
        """Forget the held-back events; returns their ids, each with the relay's refusal."""
        held, self._held = self._held, {}
        return {event_id: flight.refusal for event_id, flight in held.items()}

    def give_up(self) -> list[str]:
        """Forget every event; returns their ids."""
        sent, self._sent = self._sent, {}
        return [*sent, *self.give_up_held()]

    def give_up_overdue(self, now: float) -> list[str]:
        """Forget the events whose time limit has passed; returns their ids."""
        late: list[str] = []
        for event_id, flight in self._sent.items():
            if self._due(flight) > now:
                break
            late.append(event_id)
        for event_id in late:
            del self._sent[event_id]
        return late

    @property
    def due(self) -> float | None:
        """When the first event is overdue, or None."""
        return self._due(next(iter(self._sent.values()))) if self._sent else None

    def _due(self, flight: InFlightEvent) -> float:
        """Every OK of the relay extends the limit, because a slow relay that keeps answering is not silent."""
        silence = max(flight.sent_at, self._answered_at) + self._patience.ok
        return min(silence, flight.sent_at + self._patience.total)


@dataclass(slots=True)
class UselessCounts:
    """Counts of useless frames that a relay sent on one connection.

    Attributes:
        malformed: messages that are not frames, and challenges that are too long.
        invalid: malformed or forged events.
        duplicates: events that the same page already held.
        over_delivered: events that the subscription had not asked for.
        after_eose: events that arrived for a subscription after its EOSE.
        unasked: frames for subscriptions that are not open.
        stray_oks: OKs for events that do not wait for an OK.
        notices: NOTICE frames.
        challenges: NIP-42 challenges.
    """

    malformed: int = 0
    invalid: int = 0
    duplicates: int = 0
    over_delivered: int = 0
    after_eose: int = 0
    unasked: int = 0
    stray_oks: int = 0
    notices: int = 0
    challenges: int = 0


__all__ = [
    "CompareDone",
    "Comparison",
    "EventJudged",
    "EventPage",
    "Hangup",
    "PageDone",
    "Send",
    "Session",
    "SessionAction",
    "SignAuth",
    "Timeouts",
    "UselessCounts",
]  # fmt: skip

_Asked: TypeAlias = "tuple[str, list[SessionAction]]"  # a subscription's id, and the actions

_AUTH_AGAIN = RelayVerdict(RelayOutcome.REFUSED, "auth-required")
_ENDED = frozenset(
    {RelayOutcome.RETRY, RelayOutcome.RATE_LIMITED, RelayOutcome.REFUSED}
)  # what CLOSED can sensibly mean


class Session:
    """One connection's conversation. Times are seconds of any one clock that never goes back.

    Args:
        author: the only public key whose events are wanted, 64 hex digits.
        can_sign: whether a signer can answer NIP-42 challenges.
        timeouts: how long to wait for the relay and the signer.
        invalid_budget: the session hangs up after this many invalid events.
        noise_budget: the session hangs up after this many consecutive frames that answer nothing.
        new_id: makes subscription ids (NIP-01: at most 64 characters); 16 random hex digits by default.

    Attributes:
        counts: the useless frames that the relay sent.
        misbehaving: whether the session hung up because the relay misbehaved.
    """

    def __init__(
        self,
        author: str,
        *,
        can_sign: bool = False,
        timeouts: Timeouts | None = None,
        invalid_budget: int = limits.MAX_INVALID_COUNT,
        noise_budget: int = limits.MAX_NOISE_COUNT,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.counts = UselessCounts()
        self.misbehaving = False
        self._author, patience = author, timeouts or Timeouts()
        self._invalid_budget, self._noise_budget, self._noise = invalid_budget, noise_budget, 0
        self._auth = Authentication(able=can_sign, sign_seconds=patience.sign, ok_seconds=patience.ok)
        self._inquiries, self._in_flight = Inquiries(patience, new_id), InFlightEvents(patience)
        self._seen: Mapping[str, Event] = {}  # the oldest second of the last page, verified
        self._ended = False
        self._notices: deque[str] = deque(maxlen=limits.MAX_NOTICES_COUNT)

    @property
    def notices(self) -> tuple[str, ...]:
        """The last few NOTICE texts, escaped and cut: data to show in a status, never to act on."""
        return tuple(self._notices)

    # ── Requests of the user ────────────────────────────────────────────────────────────

    def request(self, filters: Iterable[Filter], now: float, *, patient: bool = False) -> _Asked:
        """Open a subscription; returns its id and the actions. A `PageDone` with that id will follow.

        Args:
            filters: an event has to match one of them.
            now: seconds.
            patient: whether to listen for a while after EOSE, because the relay went on sending after an earlier EOSE.
        """
        page = OpenPage(
            filters=tuple(filters), author=self._author, known=self._seen, patient=patient, opened_at=now
        )
        return self._inquiries.ask(page)

    def compare(self, wanted: Filter, initiator: Initiator, now: float, *, doubtful: bool = False) -> _Asked:
        """Begin a comparison (NIP-77); returns its id and the actions. A `CompareDone` with that id will follow.

        Args:
            wanted: which events to compare.
            initiator: a new initiator over our events that match.
            now: seconds.
            doubtful: whether the relay may not know NIP-77; we then wait only a short time for its first answer.
        """
        comparison = OpenComparison(wanted=wanted, initiator=initiator, doubtful=doubtful, opened_at=now)
        return self._inquiries.ask(comparison)

    def count(self, filters: Iterable[Filter], now: float, *, doubtful: bool = False) -> _Asked:
        """Ask how many events match (NIP-45), as `compare` does. A `CountDone` with the id will follow."""
        question = OpenCount(filters=tuple(filters), doubtful=doubtful, opened_at=now)
        return self._inquiries.ask(question)

    def listen(self, live: OpenLive) -> _Asked:
        """Open a live subscription; returns its id and the actions. A `PageDone` with that id marks its end."""
        return self._inquiries.ask(live)

    def looked_up(self, subscription: str, known: Collection[str]) -> list[SessionAction]:
        """Take the answer to a `LookUpIds`: `known` are those of its ids that are stored here."""
        live = self._inquiries.find(subscription)
        if not isinstance(live, OpenLive):
            return []
        for fate in live.admit_unknown(known):
            if ended := self._tally(subscription, fate):
                return ended
        return live.pending_actions(subscription)

    def abandon(self, subscription: str) -> list[SessionAction]:
        """Close a question whose answer is no longer wanted; no result follows."""
        return self._inquiries.drop(subscription)

    def publish(self, event_id: str, body: bytes, now: float) -> list[SessionAction]:
        """Send an event, given as id (64 hex digits) and canonical JSON. One `EventJudged` with the id will follow.

        An id that is in flight is not sent twice.
        """
        return (
            [] if event_id in self._in_flight else [self._in_flight.send(event_id, wire.publish(body), now)]
        )

    def authenticated(self, event: Event, now: float) -> list[SessionAction]:
        """The signer signed what `SignAuth` asked for."""
        return [Send(wire.frame("AUTH", event.as_json()))] if self._auth.signed(event, now) else []

    def signing_failed(self) -> list[SessionAction]:
        """The signer did not sign what `SignAuth` asked for."""
        return self._fail_waiting(self._auth.give_up()) if self._auth.phase is Phase.SIGNING else []

    # ── What happens ────────────────────────────────────────────────────────────────────

    def received(self, data: str | bytes, now: float) -> list[SessionAction]:
        """Handle one message of the relay: text as str; a binary message, never a Nostr frame, as bytes."""
        if self._ended:
            return []
        try:
            if isinstance(data, bytes):
                raise MalformedFrame("a binary message")
            found = wire.parse_relay_frame(data)
        except MalformedFrame:
            self.counts.malformed += 1
            return self._noisy()
        match found:
            case wire.EventFrame(subscription, value):
                return self._event(subscription, value, len(data), now)
            case wire.OkFrame(event_id, accepted, text):
                return self._ok(event_id, accepted, text, now)
            case wire.EoseFrame(subscription):
                return self._eose(subscription, now)
            case wire.ClosedFrame(subscription, text):
                return self._closed(subscription, text, now)
            case wire.NoticeFrame(text):
                return self._notice(text, now)
            case wire.AuthFrame(challenge):
                return self._challenge(challenge, now)
            case wire.NegMessage(subscription, message):
                return self._compared(subscription, message, now)
            case wire.NegError(subscription, text):
                return self._not_compared(subscription, text, now)
            case wire.CountFrame(subscription, count):
                return self._counted(subscription, count)

    def deadline(self) -> float | None:
        """When `tick` has to be called, unless a message arrives earlier; None for never."""
        if self._ended:
            return None
        ends = (self._inquiries.due, self._auth.due, self._in_flight.due)
        return min((end for end in ends if end is not None), default=None)

    def tick(self, now: float) -> list[SessionAction]:
        """End everything that is overdue now."""
        verdict = self._auth.overdue(now)
        actions = [] if verdict is None else self._fail_waiting(verdict)
        actions += self._inquiries.cut_overdue(now)
        return actions + [
            EventJudged(event_id, NO_ANSWER) for event_id in self._in_flight.give_up_overdue(now)
        ]

    def disconnected(self, reason: str = "connection lost") -> list[SessionAction]:
        """The connection is lost: every answer ends incomplete, every event in flight gets a verdict."""
        self._ended = True
        verdict = RelayVerdict(RelayOutcome.RETRY, reason)
        actions = self._inquiries.give_up(verdict)
        return actions + [EventJudged(event_id, verdict) for event_id in self._in_flight.give_up()]

    # ── Frames ──────────────────────────────────────────────────────────────────────────

    def _event(self, subscription: str, value: object, size: int, now: float) -> list[SessionAction]:
        page = self._inquiries.find(subscription)
        if not isinstance(page, OpenPage):
            return self._late_event(subscription)
        fate = page.add_event(value, size, now)
        if fate is Admission.KEPT:
            self._inquiries.note_activity(now)
        return self._tally(subscription, fate) or page.pending_actions(subscription)

    def _tally(self, subscription: str, fate: Admission) -> list[SessionAction]:
        """Count a useless event; end its subscription, or the connection, once the event exceeds a budget."""
        match fate:
            case Admission.DUPLICATE:
                self.counts.duplicates += 1
            case Admission.OVER_DELIVERED:
                self.counts.over_delivered += 1
            case Admission.OVER_BUDGET:
                return self._inquiries.cut(subscription, "more than was asked for")
            case Admission.INVALID:
                self.counts.invalid += 1
                if self.counts.invalid >= self._invalid_budget:
                    return self._hang_up("disconnected: it sent too many invalid events")
        return []

    def _eose(self, subscription: str, now: float) -> list[SessionAction]:
        page = self._inquiries.find(subscription)
        if not isinstance(page, OpenPage):
            return self._late_end(subscription)
        self._inquiries.note_activity(now)
        if not page.end(now):
            return page.pending_actions(subscription)
        self._seen = page.oldest() or self._seen
        return self._complete(subscription)

    def _compared(self, subscription: str, message: bytes, now: float) -> list[SessionAction]:
        comparison = self._inquiries.find(subscription)
        if not isinstance(comparison, OpenComparison):
            return self._late_end(subscription)
        try:
            answer = comparison.read_answer(message, now)
        except MalformedFrame:
            self.counts.malformed += 1
            return self._inquiries.cut(subscription, "broke the negentropy protocol")
        return (
            self._complete(subscription) if answer is None else [Send(wire.neg_message(subscription, answer))]
        )

    def _not_compared(self, subscription: str, text: str, now: float) -> list[SessionAction]:
        is_ours = isinstance(self._inquiries.find(subscription), OpenComparison)
        return self._closed(subscription, text, now) if is_ours else self._late_end(subscription)

    def _counted(self, subscription: str, count: int) -> list[SessionAction]:
        question = self._inquiries.find(subscription)
        if not isinstance(question, OpenCount):
            return self._late_end(subscription)
        question.count = count
        return self._complete(subscription)

    def _complete(self, subscription: str) -> list[SessionAction]:
        """End a question that the relay has answered completely."""
        self._noise = 0
        return self._inquiries.complete(subscription)

    def _closed(self, subscription: str, text: str, now: float) -> list[SessionAction]:
        inquiry = self._inquiries.find(subscription)
        if inquiry is None:
            return self._late_end(subscription)
        verdict = classify_closed(text)
        if not inquiry.resent and self._needs_auth(verdict, inquiry.opened_at):
            inquiry.waiting, inquiry.refusal = True, verdict
            return self._authenticate(now)
        if verdict.outcome is RelayOutcome.NEEDS_AUTH:
            verdict = _AUTH_AGAIN
        if verdict.outcome not in _ENDED:
            verdict = RelayVerdict(RelayOutcome.RETRY, "closed by the relay")
        return [self._inquiries.end(subscription, verdict)]

    def _ok(self, event_id: str, accepted: bool, text: str, now: float) -> list[SessionAction]:
        if self._auth.is_answer(event_id):
            return self._carry_on(self._auth.answered(accepted=accepted, now=now), now)
        flight = self._in_flight.acknowledge(event_id, now)
        if flight is None:
            self.counts.stray_oks += 1
            return self._noisy()
        self._noise = 0
        verdict = classify(accepted, text)
        if not flight.resent and self._needs_auth(verdict, flight.sent_at):
            self._in_flight.hold_back(event_id, flight, verdict)
            return self._authenticate(now)
        return [EventJudged(event_id, _AUTH_AGAIN if verdict.outcome is RelayOutcome.NEEDS_AUTH else verdict)]

    def _notice(self, text: str, now: float) -> list[SessionAction]:
        self.counts.notices += 1
        self._notices.append(printable(text))
        self._inquiries.note_notice(now)
        return self._noisy()

    def _challenge(self, challenge: str, now: float) -> list[SessionAction]:
        if len(challenge) > limits.MAX_CHALLENGE_CHARS:
            self.counts.malformed += 1
            return self._noisy()
        self.counts.challenges += 1
        wanted = self._auth.challenged(challenge, now)
        return [SignAuth(wanted)] if wanted is not None else self._noisy()

    def _late_event(self, subscription: str) -> list[SessionAction]:
        """Drop an event for a subscription that is not open, before any work is spent on it."""
        if self._inquiries.was_finished(subscription):
            self.counts.after_eose += 1
        else:
            self.counts.unasked += 1
        return self._noisy()

    def _late_end(self, subscription: str) -> list[SessionAction]:
        """Handle the end of a subscription that is not open; some relays confirm our CLOSE with a CLOSED."""
        if self._inquiries.was_finished(subscription):
            return []
        self.counts.unasked += 1
        return self._noisy()

    # ── Authentication ──────────────────────────────────────────────────────────────────

    def _needs_auth(self, verdict: RelayVerdict, asked_at: float) -> bool:
        """Whether an authenticated client may get another verdict."""
        if verdict.outcome is RelayOutcome.NEEDS_AUTH:
            return True
        return verdict == RESTRICTED and self._auth.may_help(asked_at)

    def _authenticate(self, now: float) -> list[SessionAction]:
        """Authenticate, because a question or an event waits for authentication."""
        if self._auth.settled:
            return self._resend_waiting(now)
        wanted = self._auth.demand(now)
        return [] if wanted is None else self._carry_on(wanted, now)

    def _carry_on(self, step: str | RelayVerdict | None, now: float) -> list[SessionAction]:
        """The next step of the authentication: a challenge to sign, a refusal, or None for success."""
        match step:
            case str(challenge):
                return [SignAuth(challenge)]
            case RelayVerdict() as verdict:
                return self._fail_waiting(verdict)
            case None:
                return self._resend_waiting(now)

    def _resend_waiting(self, now: float) -> list[SessionAction]:
        return [*self._inquiries.ask_again(now), *self._in_flight.resend(now)]

    def _fail_waiting(self, verdict: RelayVerdict) -> list[SessionAction]:
        actions = self._inquiries.give_up_waiting(verdict)
        held = self._in_flight.give_up_held()
        return actions + [
            EventJudged(one, unauthenticated(refusal, verdict)) for one, refusal in held.items()
        ]

    # ── Floods ──────────────────────────────────────────────────────────────────────────

    def _noisy(self) -> list[SessionAction]:
        """Count a frame that answered nothing: a flood of such frames would only keep this process busy."""
        self._noise += 1
        if self._noise <= self._noise_budget:
            return []
        return self._hang_up("disconnected: it sent too much that was not requested")

    def _hang_up(self, reason: str) -> list[SessionAction]:
        self.misbehaving = True
        return [*self.disconnected(reason), Hangup(reason)]
