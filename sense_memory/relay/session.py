"""The client side of one relay connection as a state machine: frames and time in, actions out.

It decides everything and does nothing: no socket, no task, no clock. The driver (`connection`) feeds it
what the relay sent and what time it is, and carries out the actions it returns. A relay may send
anything at any time: nothing raises, whatever is wrong is counted, and everything kept is bounded.
"""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory import limits
from sense_memory.errors import MalformedFrame
from sense_memory.nostr import wire
from sense_memory.nostr.verdict import Outcome, Verdict, classify, classify_closed, printable
from sense_memory.relay.actions import Action, Hangup, Judged, PageDone, Send, SignAuth
from sense_memory.relay.auth import Authentication, Phase
from sense_memory.relay.conduct import Counts, Timeouts
from sense_memory.relay.page import Fate, OpenPage, Page


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.nostr.event import Event
    from sense_memory.nostr.filters import Filter

__all__ = [
    "Action", "Counts", "Hangup", "Judged", "Page", "PageDone", "Send", "Session", "SignAuth", "Timeouts",
]  # fmt: skip


_NO_ANSWER = Verdict(Outcome.RETRY, "no answer")
_AUTH_AGAIN = Verdict(Outcome.REFUSED, "auth-required")
_ENDED = frozenset({Outcome.RETRY, Outcome.RATE_LIMITED, Outcome.REFUSED})  # what CLOSED can sensibly mean
_REMEMBERED_COUNT = 64  # finished subscriptions whose late events are recognised as such


@dataclass(slots=True)
class _Flight:
    """An event on its way: its frame, when it was sent, and whether for the second time."""

    text: str
    sent_at: float
    resent: bool = False


def _random_id() -> str:
    return secrets.token_hex(8)


class Session:
    """One connection's conversation. Times are seconds of any one clock that never goes back.

    Args:
        author: the only public key whose events are wanted, 64 hex digits.
        can_sign: whether somebody can answer NIP-42 challenges.
        timeouts: patience.
        invalid_budget: invalid events after which the relay is hung up on.
        noise_budget: frames that answer nothing, in a row, after which it is.
        new_id: makes subscription ids (NIP-01: at most 64 characters); 16 random hex digits by default.

    Attributes:
        counts: what the relay sent that was of no use.
        misbehaving: whether it was hung up on.
    """

    def __init__(
        self,
        author: str,
        *,
        can_sign: bool = False,
        timeouts: Timeouts | None = None,
        invalid_budget: int = limits.MAX_INVALID_COUNT,
        noise_budget: int = limits.MAX_NOISE_COUNT,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        self.counts = Counts()
        self.misbehaving = False
        self._author, self._new_id = author, new_id
        self._timeouts = timeouts or Timeouts()
        self._invalid_budget, self._noise_budget, self._noise = invalid_budget, noise_budget, 0
        self._auth = Authentication(
            able=can_sign, sign_seconds=self._timeouts.sign, ok_seconds=self._timeouts.ok
        )
        self._ended = False
        self._pages: dict[str, OpenPage] = {}
        self._flights: dict[str, _Flight] = {}  # in the order in which they were sent
        self._waiting: dict[str, _Flight] = {}  # for NIP-42
        self._answered_at = float("-inf")  # when the last OK judged something
        self._finished: deque[str] = deque(maxlen=_REMEMBERED_COUNT)
        self._notices: deque[str] = deque(maxlen=limits.MAX_NOTICES_COUNT)

    @property
    def notices(self) -> tuple[str, ...]:
        """The last few NOTICE texts, escaped and cut: data to show in a status, never to act on."""
        return tuple(self._notices)

    # ── What the user wants ─────────────────────────────────────────────────────────────

    def request(self, filters: Iterable[Filter], now: float) -> tuple[str, list[Action]]:
        """Open a subscription. Its id, and the actions; a `PageDone` with that id will follow."""
        subscription = self._new_id()
        page = OpenPage(tuple(filters), self._author, opened_at=now, heard_at=now)
        self._pages[subscription] = page
        return subscription, [Send(wire.request(subscription, page.filters))]

    def abandon(self, subscription: str) -> list[Action]:
        """Nobody wants that page any more: close it; no `PageDone` follows."""
        if self._pages.pop(subscription, None) is None or self._ended:
            return []
        return [Send(wire.close(subscription))]

    def publish(self, event_id: str, body: bytes, now: float) -> list[Action]:
        """Send an event; one `Judged` with its id will follow. An id that is in flight is not sent twice.

        Args:
            event_id: 64 hex digits.
            body: the event as canonical JSON bytes.
            now: seconds.
        """
        if event_id in self._flights or event_id in self._waiting:
            return []
        flight = self._flights[event_id] = _Flight(wire.publish(body), now)
        return [Send(flight.text)]

    def authenticated(self, event: Event, now: float) -> list[Action]:
        """The signer signed what `SignAuth` asked for."""
        return [Send(wire.frame("AUTH", event.as_json()))] if self._auth.signed(event, now) else []

    def signing_failed(self) -> list[Action]:
        """The signer did not sign what `SignAuth` asked for."""
        return self._fail_waiting(self._auth.give_up()) if self._auth.phase is Phase.SIGNING else []

    # ── What happens ────────────────────────────────────────────────────────────────────

    def received(self, data: str | bytes, now: float) -> list[Action]:
        """One message of the relay: text as str, a binary message as bytes (which is no Nostr frame)."""
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
                return self._eose(subscription)
            case wire.ClosedFrame(subscription, text):
                return self._closed(subscription, text, now)
            case wire.NoticeFrame(text):
                return self._notice(text, now)
            case wire.AuthFrame(challenge):
                return self._challenge(challenge, now)

    def deadline(self) -> float | None:
        """When `tick` has something to do, unless something arrives before; None for never."""
        if self._ended:
            return None
        ends = [page.due(self._timeouts) for page in self._pages.values()]
        if self._auth.due is not None:
            ends.append(self._auth.due)
        if self._flights:
            ends.append(self._flight_due(next(iter(self._flights.values()))))
        return min(ends, default=None)

    def tick(self, now: float) -> list[Action]:
        """Time has passed: end what is overdue."""
        actions: list[Action] = []
        verdict = self._auth.overdue(now)
        if verdict is not None:
            actions += self._fail_waiting(verdict)
        for subscription, page in list(self._pages.items()):
            if reason := page.overdue(self._timeouts, now):
                actions += self._cut(subscription, reason)
        while self._flights:
            event_id, flight = next(iter(self._flights.items()))
            if self._flight_due(flight) > now:
                break
            del self._flights[event_id]
            actions.append(Judged(event_id, _NO_ANSWER))
        return actions

    def disconnected(self, reason: str = "connection lost") -> list[Action]:
        """The connection is gone: every page ends incomplete, every event goes back."""
        self._ended = True
        actions: list[Action] = [
            PageDone(subscription, page.finished(reason, Outcome.RETRY))
            for subscription, page in self._pages.items()
        ]
        verdict = Verdict(Outcome.RETRY, reason)
        actions += [Judged(event_id, verdict) for event_id in (*self._flights, *self._waiting)]
        self._pages, self._flights, self._waiting = {}, {}, {}
        return actions

    # ── Frames ──────────────────────────────────────────────────────────────────────────

    def _event(self, subscription: str, value: object, size: int, now: float) -> list[Action]:
        page = self._pages.get(subscription)
        if page is None or page.waiting:
            return self._late_event(subscription)
        match page.take(value, size, now):
            case Fate.DUPLICATE:
                self.counts.duplicates += 1
            case Fate.OVER_DELIVERED:
                self.counts.over_delivered += 1
            case Fate.OVER_BUDGET:
                return self._cut(subscription, "more than was asked for")
            case Fate.INVALID:
                self.counts.invalid += 1
                if self.counts.invalid >= self._invalid_budget:
                    return self._hang_up("hung up: it sends invalid events")
        return []

    def _eose(self, subscription: str) -> list[Action]:
        page = self._pages.get(subscription)
        if page is None or page.waiting:
            return self._late_end(subscription)
        self._noise = 0
        del self._pages[subscription]
        self._finished.append(subscription)
        return [Send(wire.close(subscription)), PageDone(subscription, page.finished())]

    def _closed(self, subscription: str, text: str, now: float) -> list[Action]:
        page = self._pages.get(subscription)
        if page is None or page.waiting:
            return self._late_end(subscription)
        verdict = classify_closed(text)
        if verdict.outcome is Outcome.NEEDS_AUTH:
            if not page.resent:
                page.waiting = True
                return self._authenticate(now)
            verdict = _AUTH_AGAIN
        if verdict.outcome not in _ENDED:
            verdict = Verdict(Outcome.RETRY, "closed by the relay")
        return [self._end(subscription, verdict)]

    def _ok(self, event_id: str, accepted: bool, text: str, now: float) -> list[Action]:
        if self._auth.is_answer(event_id):
            return self._carry_on(self._auth.answered(accepted=accepted, now=now), now)
        flight = self._flights.pop(event_id, None)
        if flight is None:
            self.counts.stray_oks += 1
            return self._noisy()
        self._noise, self._answered_at = 0, now
        verdict = classify(accepted, text)
        if verdict.outcome is Outcome.NEEDS_AUTH:
            if not flight.resent:
                self._waiting[event_id] = flight
                return self._authenticate(now)
            verdict = _AUTH_AGAIN
        return [Judged(event_id, verdict)]

    def _notice(self, text: str, now: float) -> list[Action]:
        self.counts.notices += 1
        self._notices.append(printable(text))
        for page in self._pages.values():
            if not page.events and page.noticed_at is None:
                page.noticed_at = now
        return self._noisy()

    def _challenge(self, challenge: str, now: float) -> list[Action]:
        if len(challenge) > limits.MAX_CHALLENGE_CHARS:
            self.counts.malformed += 1
            return self._noisy()
        self.counts.challenges += 1
        wanted = self._auth.challenged(challenge, now)
        return [SignAuth(wanted)] if wanted is not None else self._noisy()

    def _late_event(self, subscription: str) -> list[Action]:
        """An event for a subscription that is not open: dropped before anything is spent on it."""
        if subscription in self._finished:
            self.counts.after_eose += 1
        else:
            self.counts.unasked += 1
        return self._noisy()

    def _late_end(self, subscription: str) -> list[Action]:
        """The end of a subscription that is not open; some relays confirm our CLOSE with a CLOSED."""
        if subscription in self._finished:
            return []
        self.counts.unasked += 1
        return self._noisy()

    # ── Authentication ──────────────────────────────────────────────────────────────────

    def _authenticate(self, now: float) -> list[Action]:
        """Something was put aside until we are authenticated."""
        if self._auth.settled:
            return self._resend_waiting(now)
        wanted = self._auth.demand(now)
        return [] if wanted is None else self._carry_on(wanted, now)

    def _carry_on(self, step: str | Verdict | None, now: float) -> list[Action]:
        """The next step of the authentication: a challenge to sign, a refusal, or None for success."""
        match step:
            case str(challenge):
                return [SignAuth(challenge)]
            case Verdict() as verdict:
                return self._fail_waiting(verdict)
            case None:
                return self._resend_waiting(now)

    def _resend_waiting(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for subscription, page in self._pages.items():
            if page.waiting:
                page.waiting, page.resent, page.heard_at = False, True, now
                actions.append(Send(wire.request(subscription, page.filters)))
        for event_id, flight in self._waiting.items():
            self._flights[event_id] = _Flight(flight.text, now, resent=True)
            actions.append(Send(flight.text))
        self._waiting = {}
        return actions

    def _fail_waiting(self, verdict: Verdict) -> list[Action]:
        waiting = [subscription for subscription, page in self._pages.items() if page.waiting]
        actions: list[Action] = [self._end(subscription, verdict) for subscription in waiting]
        actions += [Judged(event_id, verdict) for event_id in self._waiting]
        self._waiting = {}
        return actions

    # ── Endings ─────────────────────────────────────────────────────────────────────────

    def _end(self, subscription: str, verdict: Verdict) -> PageDone:
        """An incomplete page of a subscription that the relay no longer holds."""
        page = self._pages.pop(subscription)
        return PageDone(subscription, page.finished(verdict.reason, verdict.outcome))

    def _cut(self, subscription: str, reason: str) -> list[Action]:
        """An incomplete page of a subscription that the relay has to be told about."""
        return [Send(wire.close(subscription)), self._end(subscription, Verdict(Outcome.RETRY, reason))]

    def _noisy(self) -> list[Action]:
        """A frame answered nothing. A flood of them would keep this process busy for no good."""
        self._noise += 1
        if self._noise <= self._noise_budget:
            return []
        return self._hang_up("hung up: it sends what nobody asked for")

    def _hang_up(self, reason: str) -> list[Action]:
        self.misbehaving = True
        return [*self.disconnected(reason), Hangup(reason)]

    def _flight_due(self, flight: _Flight) -> float:
        """Judged by the relay's progress: a slow relay that keeps answering is not a silent one."""
        silence = max(flight.sent_at, self._answered_at) + self._timeouts.ok
        return min(silence, flight.sent_at + self._timeouts.total)
