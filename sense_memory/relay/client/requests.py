"""The open requests of one connection: how they begin and end, and how long we wait for answers. No I/O, no clock.

A request is a REQ (`OpenPage`, `OpenLive`), a comparison (`OpenComparison`) or a COUNT (`OpenCount`). A relay may refuse
a request until we have authenticated, may answer with a NOTICE only, or may not answer at all.

What is guaranteed: every request ends exactly once, unless it is cancelled. It ends complete only if the relay itself
ended its answer; in every other case it ends incomplete, with a reason.

Why it is safe: only good frames extend a deadline, and nothing extends the deadline for the whole answer. What a relay
claims without an event (a count, an id in a comparison) is marked as a claim in the result.

What it costs: a silent relay takes 10 seconds of waiting per request, and a slow relay at most 120 seconds (`Timeouts`).
A live subscription has no deadline once it is open.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from sense_memory.nostr import wire
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from sense_memory.relay.client.actions import Send, SessionAction


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Initiator
    from sense_memory.relay.client.actions import Timeouts


_REMEMBERED_COUNT: Final = 64  # finished subscriptions whose ids are kept, to recognise late frames


def random_id() -> str:
    """A subscription id that nobody can guess."""
    return secrets.token_hex(8)


@dataclass(slots=True, kw_only=True)
class OpenRequest(ABC):
    """A request whose answer is still arriving.

    Attributes:
        opened_at: when the request was first sent, seconds.
        last_frame_at: when the relay last sent a good frame for this request, or when the request was last sent.
        last_activity_at: when the relay last sent a good event or EOSE for any request, because relays may answer one
            request after the other.
        notice_at: when a NOTICE arrived before any answer.
        waiting: whether the relay refused the request until we have authenticated (NIP-42).
        refusal: the verdict of that refusal.
        resent: whether the request was sent again after authenticating.
    """

    opened_at: float
    last_frame_at: float = field(init=False)
    last_activity_at: float = -inf
    notice_at: float | None = None
    waiting: bool = False
    refusal: RelayVerdict | None = None
    resent: bool = False

    @property
    @abstractmethod
    def unanswered(self) -> bool:
        """Whether no good frame has arrived yet."""

    @abstractmethod
    def opening(self, subscription: str) -> str:
        """The frame that opens the request at the relay."""

    @abstractmethod
    def closing(self, subscription: str) -> str:
        """The frame that ends the request at the relay."""

    @abstractmethod
    def done(
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> SessionAction:
        """The result; complete if and only if `reason` is empty."""

    def due(self, timeouts: Timeouts) -> float:
        """When the first deadline passes."""
        return min(end for end, _ in self._ends(timeouts))

    def overdue(self, timeouts: Timeouts, now: float) -> str:
        """Why the request must end now, in our words: the deadline that passed first; empty if none has passed."""
        passed = [(end, reason) for end, reason in self._ends(timeouts) if end <= now]
        return min(passed, key=itemgetter(0))[1] if passed else ""

    def settled(self, timeouts: Timeouts, now: float) -> bool:  # noqa: ARG002 - only `OpenPage` needs them
        """Whether a request that stayed open after EOSE is complete now."""
        return False

    def _ends(self, timeouts: Timeouts) -> list[tuple[float, str]]:
        """The deadlines of the request, each with the reason to end the request when the deadline passes."""
        ends = [(self.opened_at + timeouts.total, "took too long")]
        if not self.waiting:
            ends.append((max(self.last_frame_at, self.last_activity_at) + timeouts.idle, "went silent"))
            if self.notice_at is not None:
                ends.append((self.notice_at + timeouts.notice_settle, "answered with a notice only"))
        return ends


def unauthenticated(refusal: RelayVerdict | None, verdict: RelayVerdict) -> RelayVerdict:
    """The verdict on a refused request or event after authentication failed.

    Args:
        refusal: the relay's refusal before we tried to authenticate.
        verdict: why authentication failed. If both are final, the relay's first refusal says more.
    """
    if refusal is not None and refusal.outcome is verdict.outcome is RelayOutcome.REFUSED:
        return refusal
    return verdict


class OpenRequests:
    """The open requests of one connection, by subscription id.

    Args:
        timeouts: how long to wait for answers.
        new_id: makes subscription ids (NIP-01: at most 64 characters).
    """

    def __init__(self, timeouts: Timeouts, new_id: Callable[[], str]) -> None:
        self._timeouts, self._new_id = timeouts, new_id
        self._open: dict[str, OpenRequest] = {}
        self._finished: deque[str] = deque(maxlen=_REMEMBERED_COUNT)

    def open(self, request: OpenRequest) -> tuple[str, list[SessionAction]]:
        """Open a request; returns its subscription id and the actions."""
        subscription = self._new_id()
        self._open[subscription], request.last_frame_at = request, request.opened_at
        return subscription, [Send(request.opening(subscription))]

    def find(self, subscription: str) -> OpenRequest | None:
        """The open request that the relay may answer now under this subscription id, or None."""
        request = self._open.get(subscription)
        return None if request is None or request.waiting else request

    def was_finished(self, subscription: str) -> bool:
        """Whether this request is among the last 64 that were answered completely."""
        return subscription in self._finished

    def note_activity(self, now: float) -> None:
        """Note that the relay sent a good event or EOSE, so the relay is not silent."""
        for request in self._open.values():
            request.last_activity_at = now

    def note_notice(self, now: float) -> None:
        """Note that a NOTICE arrived, because an old relay may send no other answer."""
        for request in self._open.values():
            if request.unanswered and request.notice_at is None:
                request.notice_at = now

    def complete(self, subscription: str) -> list[SessionAction]:
        """End a request that the relay has answered completely."""
        request = self._open.pop(subscription)
        self._finished.append(subscription)
        return [Send(request.closing(subscription)), request.done(subscription)]

    def end(self, subscription: str, verdict: RelayVerdict) -> SessionAction:
        """End a request incompletely after the relay has closed it."""
        return self._open.pop(subscription).done(subscription, verdict.reason, verdict.outcome)

    def abort(self, subscription: str, reason: str) -> list[SessionAction]:
        """End a request incompletely, and close it at the relay."""
        closing = Send(self._open[subscription].closing(subscription))
        return [closing, self.end(subscription, RelayVerdict(RelayOutcome.RETRY, reason))]

    def cancel(self, subscription: str) -> list[SessionAction]:
        """Close a request whose answer is no longer wanted."""
        request = self._open.pop(subscription, None)
        return [] if request is None else [Send(request.closing(subscription))]

    def reopen(self, now: float) -> list[SessionAction]:
        """Send the refused requests again, because we are authenticated now."""
        actions: list[SessionAction] = []
        for subscription, request in self._open.items():
            if request.waiting:
                request.waiting, request.resent, request.last_frame_at = False, True, now
                actions.append(Send(request.opening(subscription)))
        return actions

    def end_waiting(self, verdict: RelayVerdict) -> list[SessionAction]:
        """End the requests that waited for authentication, because authentication failed."""
        refused = {ident: request.refusal for ident, request in self._open.items() if request.waiting}
        return [self.end(ident, unauthenticated(refusal, verdict)) for ident, refusal in refused.items()]

    def end_all(self, verdict: RelayVerdict) -> list[SessionAction]:
        """End every request."""
        return [self.end(subscription, verdict) for subscription in tuple(self._open)]

    def end_overdue(self, now: float) -> list[SessionAction]:
        """End the requests whose deadline has passed."""
        actions: list[SessionAction] = []
        for subscription, request in list(self._open.items()):
            if reason := request.overdue(self._timeouts, now):
                actions += self.abort(subscription, reason)
            elif request.settled(self._timeouts, now):
                actions += self.complete(subscription)
        return actions

    @property
    def due(self) -> float | None:
        """When the first request is overdue, or None."""
        ends = [request.due(self._timeouts) for request in self._open.values()]
        return min((end for end in ends if end < inf), default=None)


# ── COUNT: how many events match (NIP-45) ───────────────────────────────────────────────
# A count proves nothing: the relay shows no event, and some relays only estimate.


@dataclass(frozen=True, slots=True)
class Counted:
    """A relay's answer to a COUNT.

    Attributes:
        count: how many events match, or None if the relay gave no count.
        reason: why there is no count, in our words; empty if there is one.
    """

    count: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CountDone(SessionAction):
    """A COUNT has ended with this answer."""

    subscription: str
    counted: Counted


@dataclass(slots=True, kw_only=True)
class OpenCount(OpenRequest):
    """A COUNT whose answer has not arrived yet.

    Attributes:
        filters: an event must match one of these filters.
        doubtful: whether the relay may not know NIP-45; we then wait for the answer only `Timeouts.notice_settle`.
        count: the relay's answer, or None so far.
    """

    filters: tuple[Filter, ...]
    doubtful: bool = False
    count: int | None = None

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not answered."""
        return self.count is None

    def opening(self, subscription: str) -> str:
        """The COUNT frame."""
        return wire.count(subscription, self.filters)

    def closing(self, subscription: str) -> str:
        """The CLOSE frame."""
        return wire.close(subscription)

    def done(
        self,
        subscription: str,
        reason: str = "",
        outcome: RelayOutcome = RelayOutcome.ACCEPTED,  # noqa: ARG002 - only pages have one
    ) -> CountDone:
        """The answer; without a count if there is a `reason`."""
        return CountDone(subscription, Counted(None if reason else self.count, reason))

    def _ends(self, timeouts: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenCount, self)._ends(timeouts)  # slots=True: super() needs arguments
        if self.doubtful and not self.waiting:
            ends.append((self.last_frame_at + timeouts.notice_settle, "went silent"))
        return ends


# ── Comparison of event sets (NIP-77) ───────────────────────────────────────────────────
# An id that the relay claims to have proves nothing: the caller fetches the events and verifies each, like any event.


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        have: ids that only we have, 32 bytes each.
        need: ids that only the relay claims to have; unproven until we have fetched and verified the events.
        complete: whether everything was compared. An incomplete comparison contains what was found so far.
        reason: why the comparison is incomplete, in our words; empty for a complete comparison.
    """

    have: tuple[bytes, ...] = ()
    need: tuple[bytes, ...] = ()
    complete: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompareDone(SessionAction):
    """A comparison has ended with this result."""

    subscription: str
    comparison: Comparison


@dataclass(slots=True, kw_only=True)
class OpenComparison(OpenRequest):
    """A comparison that is going on.

    Attributes:
        wanted: which events to compare.
        initiator: our side of the protocol.
        doubtful: whether the relay may not know NIP-77; we then wait for its first answer only
            `Timeouts.notice_settle`.
        answers: how many messages the relay has sent.
        have: ids found so far that only we have.
        need: ids found so far that only the relay claims to have.
    """

    wanted: Filter
    initiator: Initiator
    doubtful: bool = False
    answers: int = 0
    have: list[bytes] = field(default_factory=list)
    need: list[bytes] = field(default_factory=list)

    def read_answer(self, message: bytes, now: float) -> bytes | None:
        """Read one message of the relay; returns our next message, or None if the comparison is complete.

        Raises:
            MalformedFrame: this is not a negentropy message, or the relay sent more messages or ids than an honest
                relay sends.
        """
        step = self.initiator.reconcile(message)
        self.last_frame_at, self.notice_at = now, None
        self.answers += 1
        self.have += step.have
        self.need += step.need
        return step.message

    def _ends(self, timeouts: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenComparison, self)._ends(timeouts)  # slots=True: super() needs arguments
        if self.doubtful and self.unanswered and not self.waiting:
            ends.append((self.last_frame_at + timeouts.notice_settle, "went silent"))
        return ends

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not answered yet."""
        return not self.answers

    def opening(self, subscription: str) -> str:
        """The NEG-OPEN frame."""
        return wire.neg_open(subscription, self.wanted, self.initiator.first())

    def closing(self, subscription: str) -> str:
        """The NEG-CLOSE frame."""
        return wire.neg_close(subscription)

    def done(
        self,
        subscription: str,
        reason: str = "",
        outcome: RelayOutcome = RelayOutcome.ACCEPTED,  # noqa: ARG002 - only pages have one
    ) -> CompareDone:
        """The result; contains what was found so far."""
        found = Comparison(tuple(self.have), tuple(self.need), not reason, reason)
        return CompareDone(subscription, found)
