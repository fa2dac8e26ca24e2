"""The client side of one relay connection as a state machine: frames and time in, actions out.

The session decides, and the driver (`connection`) acts: the driver passes in frames, the time and which events are
known, and carries out the returned actions. The session has no socket, task, clock or ledger.

What is guaranteed: whatever a relay sends or withholds, every request ends with exactly one result, and every published
event with exactly one verdict (a cancelled request ends without a result). An answer is called complete only if the
relay itself ended it. A frame that is malformed or answers nothing never raises; it changes a counter.

Why it is safe: every wait has a deadline, and everything that a relay can make us store is bounded: events by the page
that asked for them, NOTICE texts by number and length, finished requests by number. A relay that keeps sending
useless frames is disconnected.

What it costs: memory for the open pages, at most 64 MiB each, and for the frames of events in flight; one signature check
for each new event.
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
)
from sense_memory.plain_text import printable
from sense_memory.relay.client.actions import EventJudged, Hangup, Send, SessionAction, SignAuth, Timeouts
from sense_memory.relay.client.authentication import Authentication, Phase
from sense_memory.relay.client.page import Admission, OpenLive, OpenPage
from sense_memory.relay.client.requests import (
    OpenComparison,
    OpenCount,
    OpenRequests,
    random_id,
    unauthenticated,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Initiator


# ── Events in flight ────────────────────────────────────────────────────────────────────
# An event in flight waits for its OK, or is held back until we have authenticated.


@dataclass(slots=True)
class InFlightEvent:
    """An event in flight.

    Attributes:
        text: the EVENT frame.
        sent_at: when the frame was last sent, seconds.
        resent: whether the frame was sent again after authenticating.
        refusal: the verdict of the refusal for which the event was held back.
    """

    text: str
    sent_at: float
    resent: bool = False
    refusal: RelayVerdict | None = None


class InFlightEvents:
    """The events that one connection has in flight, by event id.

    Args:
        timeouts: how long to wait for OKs.
    """

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._sent: dict[str, InFlightEvent] = {}  # in the order in which they were sent
        self._held: dict[str, InFlightEvent] = {}
        self._answered_at = float("-inf")  # when the last OK for an event in flight arrived

    def __contains__(self, event_id: str) -> bool:
        return event_id in self._sent or event_id in self._held

    def send(self, event_id: str, text: str, now: float) -> Send:
        """Send an event."""
        self._sent[event_id] = InFlightEvent(text, now)
        return Send(text)

    def acknowledge(self, event_id: str, now: float) -> InFlightEvent | None:
        """Note an OK; returns the event in flight that the OK is for, or None."""
        flight = self._sent.pop(event_id, None)
        if flight is not None:
            self._answered_at = now
        return flight

    def hold_back(self, event_id: str, flight: InFlightEvent, refusal: RelayVerdict) -> None:
        """Hold back an event that the relay refuses until we have authenticated."""
        flight.refusal = refusal
        self._held[event_id] = flight

    def resend(self, now: float) -> list[Send]:
        """Send the held-back events again."""
        held, self._held = self._held, {}
        for event_id, flight in held.items():
            self._sent[event_id] = InFlightEvent(flight.text, now, resent=True)
        return [Send(flight.text) for flight in held.values()]

    def drop_held(self) -> dict[str, RelayVerdict | None]:
        """Forget the held-back events; returns their ids, each with the relay's refusal."""
        held, self._held = self._held, {}
        return {event_id: flight.refusal for event_id, flight in held.items()}

    def drop_all(self) -> list[str]:
        """Forget every event; returns their ids."""
        sent, self._sent = self._sent, {}
        return [*sent, *self.drop_held()]

    def drop_overdue(self, now: float) -> list[str]:
        """Forget the events whose deadline has passed; returns their ids."""
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
        """When the first event becomes overdue, or None."""
        return self._due(next(iter(self._sent.values()))) if self._sent else None

    def _due(self, flight: InFlightEvent) -> float:
        """The deadline of an event; each OK moves it, because a slow relay that keeps answering is not silent."""
        silence = max(flight.sent_at, self._answered_at) + self._timeouts.ok
        return min(silence, flight.sent_at + self._timeouts.total)


@dataclass(slots=True)
class UselessCounts:
    """Counts of useless frames that a relay sent on one connection.

    Attributes:
        malformed: messages that are not frames, invalid comparison messages, and challenges that are too long.
        invalid: malformed or forged events.
        duplicates: events that the same page already had.
        over_delivered: events that the subscription had not asked for.
        after_eose: events that arrived after the EOSE of their subscription.
        unasked: frames for subscriptions that are not open.
        stray_oks: OKs for events that are not in flight.
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


_Opened: TypeAlias = "tuple[str, list[SessionAction]]"  # a subscription id, and the actions

_AUTH_AGAIN = RelayVerdict(RelayOutcome.REFUSED, "auth-required")  # although we have authenticated
_CLOSED_OUTCOMES = frozenset(
    {RelayOutcome.RETRY, RelayOutcome.RATE_LIMITED, RelayOutcome.REFUSED}
)  # the outcomes that make sense for a CLOSED


class Session:
    """The protocol state of one connection. Times are seconds of any one clock that never goes back.

    Args:
        author: the only public key whose events are wanted, 64 hex digits.
        can_sign: whether a signer can answer NIP-42 challenges.
        timeouts: how long to wait for the relay and the signer.
        invalid_budget: the session hangs up at this many invalid events.
        noise_budget: the session hangs up after more than this many consecutive frames that answer nothing.
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
        self._author, timeouts = author, timeouts or Timeouts()
        self._invalid_budget, self._noise_budget, self._noise = invalid_budget, noise_budget, 0
        self._auth = Authentication(
            can_sign=can_sign,
            sign_seconds=timeouts.sign,
            ok_seconds=timeouts.ok,
            challenge_seconds=timeouts.notice_settle,
        )
        self._requests, self._in_flight = OpenRequests(timeouts, new_id), InFlightEvents(timeouts)
        self._last_seen: Mapping[str, Event] = {}  # verified events of the oldest second of the last page
        self._ended = False
        self._notices: deque[str] = deque(maxlen=limits.MAX_NOTICES_COUNT)

    @property
    def notices(self) -> tuple[str, ...]:
        """The last few NOTICE texts, escaped and cut: data to show in a status, never instructions."""
        return tuple(self._notices)

    # ── Calls of the driver ─────────────────────────────────────────────────────────────

    def request(self, filters: Iterable[Filter], now: float, *, wait_after_eose: bool = False) -> _Opened:
        """Open a subscription; returns its id and the actions. A `PageDone` with this id will follow.

        Args:
            filters: an event must match one of these filters.
            now: seconds.
            wait_after_eose: whether to wait `Timeouts.notice_settle` after EOSE for late events, because the relay
                sent events after an earlier EOSE.
        """
        page = OpenPage(
            filters=tuple(filters),
            author=self._author,
            known=self._last_seen,
            wait_after_eose=wait_after_eose,
            opened_at=now,
        )
        return self._requests.open(page)

    def compare(self, wanted: Filter, initiator: Initiator, now: float, *, doubtful: bool = False) -> _Opened:
        """Begin a comparison (NIP-77); returns its id and the actions. A `CompareDone` with this id will follow.

        Args:
            wanted: which events to compare.
            initiator: a new initiator over our events that match.
            now: seconds.
            doubtful: whether the relay may not know NIP-77; we then wait for its first answer only
                `Timeouts.notice_settle`.
        """
        comparison = OpenComparison(wanted=wanted, initiator=initiator, doubtful=doubtful, opened_at=now)
        return self._requests.open(comparison)

    def count(self, filters: Iterable[Filter], now: float, *, doubtful: bool = False) -> _Opened:
        """Ask how many events match (NIP-45); returns the id and the actions. A `CountDone` with this id will follow.

        Args:
            filters: an event must match one of these filters.
            now: seconds.
            doubtful: whether the relay may not know NIP-45; we then wait for the answer only
                `Timeouts.notice_settle`.
        """
        request = OpenCount(filters=tuple(filters), doubtful=doubtful, opened_at=now)
        return self._requests.open(request)

    def listen(self, live: OpenLive) -> _Opened:
        """Open a live subscription; returns its id and the actions. A `PageDone` with this id marks its end."""
        return self._requests.open(live)

    def looked_up(self, subscription: str, known: Collection[str]) -> list[SessionAction]:
        """Handle the answer to a `LookUpIds`: `known` are the ids that are stored here."""
        live = self._requests.find(subscription)
        if not isinstance(live, OpenLive):
            return []
        for admission in live.admit_unknown(known):
            if ended := self._count_useless(subscription, admission):
                return ended
        return live.pending_actions(subscription)

    def cancel(self, subscription: str) -> list[SessionAction]:
        """Close a request whose answer is no longer wanted; no result will follow."""
        return self._requests.cancel(subscription)

    def publish(self, event_id: str, body: bytes, now: float) -> list[SessionAction]:
        """Send an event, given as id (64 hex digits) and canonical JSON. One `EventJudged` with the id will follow.

        An event that is in flight already is not sent again.
        """
        return (
            [] if event_id in self._in_flight else [self._in_flight.send(event_id, wire.publish(body), now)]
        )

    def authenticated(self, event: Event, now: float) -> list[SessionAction]:
        """Handle the signer's answer to a `SignAuth`: the signed AUTH event."""
        return [Send(wire.frame("AUTH", event.as_json()))] if self._auth.signed(event, now) else []

    def signing_failed(self) -> list[SessionAction]:
        """Handle the failure of the signer to answer a `SignAuth`."""
        return self._fail_waiting(self._auth.give_up()) if self._auth.phase is Phase.SIGNING else []

    # ── Messages, time and the end ──────────────────────────────────────────────────────

    def received(self, data: str | bytes, now: float) -> list[SessionAction]:
        """Handle one message of the relay: a text message as str, a binary message (which is no Nostr frame) as bytes."""
        if self._ended:
            return []
        try:
            if isinstance(data, bytes):
                raise MalformedFrame("a binary message")
            found = wire.parse_relay_frame(data)
        except MalformedFrame:
            self.counts.malformed += 1
            return self._count_noise()
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
                return self._negentropy_message(subscription, message, now)
            case wire.NegError(subscription, text):
                return self._negentropy_error(subscription, text, now)
            case wire.CountFrame(subscription, count):
                return self._count_answer(subscription, count)

    def deadline(self) -> float | None:
        """When `tick` must be called, unless a message arrives earlier; None for never."""
        if self._ended:
            return None
        ends = (self._requests.due, self._auth.due, self._in_flight.due)
        return min((end for end in ends if end is not None), default=None)

    def tick(self, now: float) -> list[SessionAction]:
        """End everything whose deadline has passed."""
        verdict = self._auth.overdue(now)
        actions = [] if verdict is None else self._fail_waiting(verdict)
        actions += self._requests.end_overdue(now)
        return actions + [EventJudged(event_id, NO_ANSWER) for event_id in self._in_flight.drop_overdue(now)]

    def disconnected(self, reason: str = "connection lost") -> list[SessionAction]:
        """Handle the end of the connection: every request ends incomplete, every event in flight gets a verdict."""
        self._ended = True
        verdict = RelayVerdict(RelayOutcome.RETRY, reason)
        actions = self._requests.end_all(verdict)
        return actions + [EventJudged(event_id, verdict) for event_id in self._in_flight.drop_all()]

    # ── Frames ──────────────────────────────────────────────────────────────────────────

    def _event(self, subscription: str, value: object, size: int, now: float) -> list[SessionAction]:
        page = self._requests.find(subscription)
        if not isinstance(page, OpenPage):
            return self._unsolicited_event(subscription)
        admission = page.add_event(value, size, now)
        if admission is Admission.ACCEPTED:
            self._requests.note_activity(now)
        return self._count_useless(subscription, admission) or page.pending_actions(subscription)

    def _count_useless(self, subscription: str, admission: Admission) -> list[SessionAction]:
        """Count a useless event; end its subscription or the connection if a budget is exceeded."""
        match admission:
            case Admission.DUPLICATE:
                self.counts.duplicates += 1
            case Admission.OVER_DELIVERED:
                self.counts.over_delivered += 1
            case Admission.OVER_BUDGET:
                return self._requests.abort(subscription, "sent more than was asked for")
            case Admission.INVALID:
                self.counts.invalid += 1
                if self.counts.invalid >= self._invalid_budget:
                    return self._hang_up("disconnected: it sent too many invalid events")
        return []

    def _eose(self, subscription: str, now: float) -> list[SessionAction]:
        page = self._requests.find(subscription)
        if not isinstance(page, OpenPage):
            return self._unsolicited_end(subscription)
        self._requests.note_activity(now)
        if not page.end(now):
            return page.pending_actions(subscription)
        self._last_seen = page.oldest() or self._last_seen
        return self._complete(subscription)

    def _negentropy_message(self, subscription: str, message: bytes, now: float) -> list[SessionAction]:
        comparison = self._requests.find(subscription)
        if not isinstance(comparison, OpenComparison):
            return self._unsolicited_end(subscription)
        try:
            answer = comparison.read_answer(message, now)
        except MalformedFrame:
            self.counts.malformed += 1
            return self._requests.abort(subscription, "broke the negentropy protocol")
        return (
            self._complete(subscription) if answer is None else [Send(wire.neg_message(subscription, answer))]
        )

    def _negentropy_error(self, subscription: str, text: str, now: float) -> list[SessionAction]:
        is_ours = isinstance(self._requests.find(subscription), OpenComparison)
        return self._closed(subscription, text, now) if is_ours else self._unsolicited_end(subscription)

    def _count_answer(self, subscription: str, count: int) -> list[SessionAction]:
        request = self._requests.find(subscription)
        if not isinstance(request, OpenCount):
            return self._unsolicited_end(subscription)
        request.count = count
        return self._complete(subscription)

    def _complete(self, subscription: str) -> list[SessionAction]:
        """End a request that the relay has answered completely."""
        self._noise = 0
        return self._requests.complete(subscription)

    def _closed(self, subscription: str, text: str, now: float) -> list[SessionAction]:
        request = self._requests.find(subscription)
        if request is None:
            return self._unsolicited_end(subscription)
        verdict = classify_closed(text)
        if not request.resent and self._needs_auth(verdict, request.opened_at):
            request.waiting, request.refusal = True, verdict
            return self._authenticate(now)
        if verdict.outcome is RelayOutcome.NEEDS_AUTH:
            verdict = _AUTH_AGAIN
        if verdict.outcome not in _CLOSED_OUTCOMES:
            verdict = RelayVerdict(RelayOutcome.RETRY, "closed by the relay")
        return [self._requests.end(subscription, verdict)]

    def _ok(self, event_id: str, accepted: bool, text: str, now: float) -> list[SessionAction]:
        if self._auth.is_answer(event_id):
            return self._next_auth_step(self._auth.answered(accepted=accepted, now=now), now)
        flight = self._in_flight.acknowledge(event_id, now)
        if flight is None:
            self.counts.stray_oks += 1
            return self._count_noise()
        self._noise = 0
        verdict = classify(accepted, text)
        if not flight.resent and self._needs_auth(verdict, flight.sent_at):
            self._in_flight.hold_back(event_id, flight, verdict)
            return self._authenticate(now)
        return [EventJudged(event_id, _AUTH_AGAIN if verdict.outcome is RelayOutcome.NEEDS_AUTH else verdict)]

    def _notice(self, text: str, now: float) -> list[SessionAction]:
        self.counts.notices += 1
        self._notices.append(printable(text))
        self._requests.note_notice(now)
        return self._count_noise()

    def _challenge(self, challenge: str, now: float) -> list[SessionAction]:
        if len(challenge) > limits.MAX_CHALLENGE_CHARS:
            self.counts.malformed += 1
            return self._count_noise()
        self.counts.challenges += 1
        to_sign = self._auth.challenged(challenge, now)
        return [SignAuth(to_sign)] if to_sign is not None else self._count_noise()

    def _unsolicited_event(self, subscription: str) -> list[SessionAction]:
        """Count an event for a subscription that is not open, without verifying the event."""
        if self._requests.was_finished(subscription):
            self.counts.after_eose += 1
        else:
            self.counts.unasked += 1
        return self._count_noise()

    def _unsolicited_end(self, subscription: str) -> list[SessionAction]:
        """Handle a frame, other than an event, for a subscription that is not open.

        Some relays confirm our CLOSE with a CLOSED.
        """
        if self._requests.was_finished(subscription):
            return []
        self.counts.unasked += 1
        return self._count_noise()

    # ── Authentication ──────────────────────────────────────────────────────────────────

    def _needs_auth(self, verdict: RelayVerdict, sent_at: float) -> bool:
        """Whether an authenticated client may get another verdict."""
        if verdict.outcome is RelayOutcome.NEEDS_AUTH:
            return True
        return verdict == RESTRICTED and self._auth.may_help(sent_at)

    def _authenticate(self, now: float) -> list[SessionAction]:
        """Authenticate, because a request or an event waits for authentication."""
        if self._auth.settled:
            return self._resend_waiting(now)
        step = self._auth.demand(now)
        return [] if step is None else self._next_auth_step(step, now)

    def _next_auth_step(self, step: str | RelayVerdict | None, now: float) -> list[SessionAction]:
        """Go on with the authentication: a challenge is to be signed, a verdict is a failure, None is success."""
        match step:
            case str(challenge):
                return [SignAuth(challenge)]
            case RelayVerdict() as verdict:
                return self._fail_waiting(verdict)
            case None:
                return self._resend_waiting(now)

    def _resend_waiting(self, now: float) -> list[SessionAction]:
        return [*self._requests.reopen(now), *self._in_flight.resend(now)]

    def _fail_waiting(self, verdict: RelayVerdict) -> list[SessionAction]:
        actions = self._requests.end_waiting(verdict)
        held = self._in_flight.drop_held()
        return actions + [
            EventJudged(event_id, unauthenticated(refusal, verdict)) for event_id, refusal in held.items()
        ]

    # ── Floods ──────────────────────────────────────────────────────────────────────────

    def _count_noise(self) -> list[SessionAction]:
        """Count a frame that answers nothing; hang up if the relay sends too many in a row."""
        self._noise += 1
        if self._noise <= self._noise_budget:
            return []
        return self._hang_up("disconnected: it sent too much that was not requested")

    def _hang_up(self, reason: str) -> list[SessionAction]:
        self.misbehaving = True
        return [*self.disconnected(reason), Hangup(reason)]
