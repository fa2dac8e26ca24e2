"""What all open questions to a relay have in common: how they begin and end, and how long we wait. No I/O.

A question is a REQ (`OpenPage`), a comparison (`OpenComparison`) or a COUNT (`OpenCount`). A relay may refuse
any question until we have authenticated, may answer with a NOTICE only, or may not answer at all.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from sense_memory.nostr import wire
from sense_memory.nostr.verdict import RelayOutcome, RelayVerdict
from sense_memory.relay.client.actions import Send, SessionAction


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Initiator
    from sense_memory.relay.client.actions import Timeouts


_REMEMBERED_COUNT: Final = 64  # finished subscriptions whose late events are recognised as such


def random_id() -> str:
    """A subscription id that nobody can guess."""
    return secrets.token_hex(8)


@dataclass(slots=True, kw_only=True)
class Inquiry(ABC):
    """A question whose answer is still arriving.

    Attributes:
        opened_at: when the question was asked, seconds.
        heard_at: when the relay last sent a good frame for this question, or when the question was asked.
        others_at: when the relay last sent a good frame for any question: relays may answer one after the other.
        noticed_at: when a NOTICE arrived before any answer.
        waiting: whether the relay refused the question until we have authenticated (NIP-42).
        refusal: the verdict of that refusal.
        resent: whether the question was asked again after authenticating.
    """

    opened_at: float
    heard_at: float = field(init=False)
    others_at: float = -inf
    noticed_at: float | None = None
    waiting: bool = False
    refusal: RelayVerdict | None = None
    resent: bool = False

    @property
    @abstractmethod
    def unanswered(self) -> bool:
        """Whether no good frame has arrived yet."""

    @abstractmethod
    def opening(self, subscription: str) -> str:
        """The frame that asks."""

    @abstractmethod
    def closing(self, subscription: str) -> str:
        """The frame that ends the question at the relay."""

    @abstractmethod
    def done(
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> SessionAction:
        """The result; complete if and only if `reason` is empty."""

    def due(self, patience: Timeouts) -> float:
        """When the first time limit passes."""
        return min(end for end, _ in self._ends(patience))

    def overdue(self, patience: Timeouts, now: float) -> str:
        """Why the question has to end now, in our words; empty if it may go on."""
        return next((reason for end, reason in self._ends(patience) if end <= now), "")

    def settled(self, patience: Timeouts, now: float) -> bool:  # noqa: ARG002 - for those that can
        """Whether the answer is complete now, although the question was left open after EOSE."""
        return False

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        """The time limits of the question, each with the reason to end it; the first that has passed counts."""
        ends = [(self.opened_at + patience.total, "took too long")]
        if not self.waiting:
            ends.append((max(self.heard_at, self.others_at) + patience.idle, "went silent"))
            if self.noticed_at is not None:
                ends.append((self.noticed_at + patience.notice_settle, "answered with a notice only"))
        return ends


def unauthenticated(refusal: RelayVerdict | None, verdict: RelayVerdict) -> RelayVerdict:
    """The verdict on a refused question or event after authentication failed: the first refusal, if both are final."""
    if refusal is not None and refusal.outcome is verdict.outcome is RelayOutcome.REFUSED:
        return refusal
    return verdict


class Inquiries:
    """The open questions of one connection, by subscription id.

    Args:
        patience: how long to wait for answers.
        new_id: makes subscription ids (NIP-01: at most 64 characters).
    """

    def __init__(self, patience: Timeouts, new_id: Callable[[], str]) -> None:
        self._patience, self._new_id = patience, new_id
        self._open: dict[str, Inquiry] = {}
        self._finished: deque[str] = deque(maxlen=_REMEMBERED_COUNT)

    def ask(self, inquiry: Inquiry) -> tuple[str, list[SessionAction]]:
        """Open a question; returns its subscription id and the frame to send."""
        subscription = self._new_id()
        self._open[subscription], inquiry.heard_at = inquiry, inquiry.opened_at
        return subscription, [Send(inquiry.opening(subscription))]

    def find(self, subscription: str) -> Inquiry | None:
        """An open question that the relay may answer now."""
        inquiry = self._open.get(subscription)
        return None if inquiry is None or inquiry.waiting else inquiry

    def was_finished(self, subscription: str) -> bool:
        """Whether a question was answered completely, not long ago."""
        return subscription in self._finished

    def note_activity(self, now: float) -> None:
        """The relay sent a good frame, so the relay is not silent for any question."""
        for inquiry in self._open.values():
            inquiry.others_at = now

    def note_notice(self, now: float) -> None:
        """A NOTICE arrived: an old relay may send no other answer."""
        for inquiry in self._open.values():
            if inquiry.unanswered and inquiry.noticed_at is None:
                inquiry.noticed_at = now

    def complete(self, subscription: str) -> list[SessionAction]:
        """End a question that the relay has answered completely."""
        inquiry = self._open.pop(subscription)
        self._finished.append(subscription)
        return [Send(inquiry.closing(subscription)), inquiry.done(subscription)]

    def end(self, subscription: str, verdict: RelayVerdict) -> SessionAction:
        """End a question incompletely, where the relay has closed it already."""
        return self._open.pop(subscription).done(subscription, verdict.reason, verdict.outcome)

    def cut(self, subscription: str, reason: str) -> list[SessionAction]:
        """End a question incompletely, and close it at the relay."""
        closing = Send(self._open[subscription].closing(subscription))
        return [closing, self.end(subscription, RelayVerdict(RelayOutcome.RETRY, reason))]

    def drop(self, subscription: str) -> list[SessionAction]:
        """Close a question whose answer is no longer wanted."""
        inquiry = self._open.pop(subscription, None)
        return [] if inquiry is None else [Send(inquiry.closing(subscription))]

    def ask_again(self, now: float) -> list[SessionAction]:
        """Ask the refused questions again, because we are authenticated now."""
        actions: list[SessionAction] = []
        for subscription, inquiry in self._open.items():
            if inquiry.waiting:
                inquiry.waiting, inquiry.resent, inquiry.heard_at = False, True, now
                actions.append(Send(inquiry.opening(subscription)))
        return actions

    def give_up_waiting(self, verdict: RelayVerdict) -> list[SessionAction]:
        """End the questions that waited for authentication, because authentication failed."""
        waiting = {one: inquiry.refusal for one, inquiry in self._open.items() if inquiry.waiting}
        return [self.end(one, unauthenticated(refusal, verdict)) for one, refusal in waiting.items()]

    def give_up(self, verdict: RelayVerdict) -> list[SessionAction]:
        """End every question."""
        return [self.end(subscription, verdict) for subscription in tuple(self._open)]

    def cut_overdue(self, now: float) -> list[SessionAction]:
        """End the questions whose time limit has passed."""
        actions: list[SessionAction] = []
        for subscription, inquiry in list(self._open.items()):
            if reason := inquiry.overdue(self._patience, now):
                actions += self.cut(subscription, reason)
            elif inquiry.settled(self._patience, now):
                actions += self.complete(subscription)
        return actions

    @property
    def due(self) -> float | None:
        """When the first question is overdue, or None."""
        ends = [inquiry.due(self._patience) for inquiry in self._open.values()]
        return min((end for end in ends if end < inf), default=None)


# ── One question of how many events match (NIP-45) ──────────────────────────────────────
# The question of how many events match (NIP-45). No I/O.
#
# A count proves nothing: the relay shows no event, and some relays only estimate.


@dataclass(frozen=True, slots=True)
class Counted:
    """A relay's answer to a COUNT.

    Attributes:
        count: how many events match, or None if the relay did not say.
        reason: why the relay did not say, in our words; else empty.
        outcome: ACCEPTED, else what the cause suggests: RETRY, RATE_LIMITED or REFUSED.
    """

    count: int | None
    reason: str = ""
    outcome: RelayOutcome = RelayOutcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class CountDone(SessionAction):
    """A COUNT has ended with this answer."""

    subscription: str
    counted: Counted


@dataclass(slots=True, kw_only=True)
class OpenCount(Inquiry):
    """A COUNT whose answer has not arrived yet.

    Attributes:
        filters: an event has to match one of them.
        doubtful: whether the relay may not know NIP-45; we then wait only a short time for the answer.
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
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> CountDone:
        """The answer; without a count if there is a `reason`."""
        return CountDone(subscription, Counted(None if reason else self.count, reason, outcome))

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenCount, self)._ends(patience)  # a class with slots is created twice
        if self.doubtful and not self.waiting:
            ends.append((self.heard_at + patience.notice_settle, "went silent"))
        return ends


# ── One comparison with a relay (NIP-77) ────────────────────────────────────────────────
# The client's side of the conversation, and the result. The relay's claims are believed only so far: the claimed
# ids are asked for, and their events are verified like any other event.


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        have: ids that only we have, 32 bytes each.
        need: ids that, the relay says, only the relay has; unproven until the events are here.
        complete: whether everything was compared. An incomplete comparison still has what was found so far.
        reason: why the comparison is not complete, in our words; empty for a complete comparison.
        outcome: ACCEPTED when complete, else what the cause suggests: RETRY, RATE_LIMITED or REFUSED.
    """

    have: tuple[bytes, ...] = ()
    need: tuple[bytes, ...] = ()
    complete: bool = True
    reason: str = ""
    outcome: RelayOutcome = RelayOutcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class CompareDone(SessionAction):
    """A comparison has ended with this result."""

    subscription: str
    comparison: Comparison


@dataclass(slots=True, kw_only=True)
class OpenComparison(Inquiry):
    """A comparison that is going on.

    Attributes:
        wanted: which events to compare.
        initiator: our side of the protocol.
        doubtful: whether the relay may not know NIP-77; we then wait only a short time for its first answer.
    """

    wanted: Filter
    initiator: Initiator
    doubtful: bool = False
    answers: int = 0
    have: list[bytes] = field(default_factory=list)
    need: list[bytes] = field(default_factory=list)

    def read_answer(self, message: bytes, now: float) -> bytes | None:
        """Read one answer; returns the next message to send, or None at the end.

        Raises:
            MalformedFrame: not a negentropy message, or more messages or more ids than an honest relay sends.
        """
        step = self.initiator.reconcile(message)
        self.heard_at, self.noticed_at = now, None
        self.answers += 1
        self.have += step.have
        self.need += step.need
        return step.message

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenComparison, self)._ends(patience)  # a class with slots is created twice
        if self.doubtful and self.unanswered and not self.waiting:
            ends.append((self.heard_at + patience.notice_settle, "went silent"))
        return ends

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not answered at all."""
        return not self.answers

    def opening(self, subscription: str) -> str:
        """The NEG-OPEN frame."""
        return wire.neg_open(subscription, self.wanted, self.initiator.first())

    def closing(self, subscription: str) -> str:
        """The NEG-CLOSE frame."""
        return wire.neg_close(subscription)

    def done(
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> CompareDone:
        """What was found so far."""
        found = Comparison(tuple(self.have), tuple(self.need), not reason, reason, outcome)
        return CompareDone(subscription, found)
