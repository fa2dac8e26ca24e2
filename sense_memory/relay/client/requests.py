"""What every open question to a relay has in common: how it begins and ends, and how long one waits. No I/O.

A question is a REQ (`page`), a comparison (`comparison`) or a COUNT (`counting`). A relay may refuse any until
one has authenticated, answer with a NOTICE only, or not at all.
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
    from sense_memory.relay.client.timeouts import Timeouts


_REMEMBERED_COUNT: Final = 64  # finished subscriptions whose late events are recognised as such


def random_id() -> str:
    """A subscription id that nobody can guess."""
    return secrets.token_hex(8)


@dataclass(slots=True, kw_only=True)
class Inquiry(ABC):
    """A question whose answer is still coming in.

    Attributes:
        opened_at: when it was asked, seconds.
        heard_at: when the relay last sent something good for it, or when it was asked.
        others_at: when the relay last sent something good for another question: it may answer one after the other.
        noticed_at: when a NOTICE came while nothing had arrived yet.
        waiting: whether it was refused until we have authenticated (NIP-42), and waits for that.
        refusal: the relay's verdict then.
        resent: whether it was asked again after authenticating.
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
        """Whether nothing good has arrived yet."""

    @abstractmethod
    def opening(self, subscription: str) -> str:
        """The frame that asks."""

    @abstractmethod
    def closing(self, subscription: str) -> str:
        """The frame that tells the relay that no more is wanted."""

    @abstractmethod
    def done(
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> SessionAction:
        """What came of it; complete if and only if there is no reason why not."""

    def due(self, patience: Timeouts) -> float:
        """The moment at which patience ends, whichever limit comes first."""
        return min(end for end, _ in self._ends(patience))

    def overdue(self, patience: Timeouts, now: float) -> str:
        """Why it has to end now, in our words; empty if it does not."""
        return next((reason for end, reason in self._ends(patience) if end <= now), "")

    def settled(self, patience: Timeouts, now: float) -> bool:  # noqa: ARG002 - for those that can
        """Whether it is complete by now although it was left open."""
        return False

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        """When patience with it ends, and why; the first that is over counts."""
        ends = [(self.opened_at + patience.total, "took too long")]
        if not self.waiting:
            ends.append((max(self.heard_at, self.others_at) + patience.idle, "went silent"))
            if self.noticed_at is not None:
                ends.append((self.noticed_at + patience.notice_settle, "answered with a notice only"))
        return ends


def unauthenticated(refusal: RelayVerdict | None, verdict: RelayVerdict) -> RelayVerdict:
    """What becomes of something that was refused until we have authenticated, where that came to another verdict."""
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
        """Open a question: its id, and the frame to send."""
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
        """The relay sent something good: it is not silent, whatever it was about."""
        for inquiry in self._open.values():
            inquiry.others_at = now

    def note_notice(self, now: float) -> None:
        """A NOTICE came: it may be all the answer that an old relay has."""
        for inquiry in self._open.values():
            if inquiry.unanswered and inquiry.noticed_at is None:
                inquiry.noticed_at = now

    def complete(self, subscription: str) -> list[SessionAction]:
        """The relay has said everything."""
        inquiry = self._open.pop(subscription)
        self._finished.append(subscription)
        return [Send(inquiry.closing(subscription)), inquiry.done(subscription)]

    def end(self, subscription: str, verdict: RelayVerdict) -> SessionAction:
        """An incomplete answer to a question that the relay no longer holds."""
        return self._open.pop(subscription).done(subscription, verdict.reason, verdict.outcome)

    def cut(self, subscription: str, reason: str) -> list[SessionAction]:
        """An incomplete answer to a question that the relay has to be told about."""
        closing = Send(self._open[subscription].closing(subscription))
        return [closing, self.end(subscription, RelayVerdict(RelayOutcome.RETRY, reason))]

    def drop(self, subscription: str) -> list[SessionAction]:
        """Nobody wants that answer any more."""
        inquiry = self._open.pop(subscription, None)
        return [] if inquiry is None else [Send(inquiry.closing(subscription))]

    def ask_again(self, now: float) -> list[SessionAction]:
        """We are authenticated: ask what was refused before."""
        actions: list[SessionAction] = []
        for subscription, inquiry in self._open.items():
            if inquiry.waiting:
                inquiry.waiting, inquiry.resent, inquiry.heard_at = False, True, now
                actions.append(Send(inquiry.opening(subscription)))
        return actions

    def give_up_waiting(self, verdict: RelayVerdict) -> list[SessionAction]:
        """We will not be authenticated: end what waited for it."""
        waiting = {one: inquiry.refusal for one, inquiry in self._open.items() if inquiry.waiting}
        return [self.end(one, unauthenticated(refusal, verdict)) for one, refusal in waiting.items()]

    def give_up(self, verdict: RelayVerdict) -> list[SessionAction]:
        """End everything."""
        return [self.end(subscription, verdict) for subscription in tuple(self._open)]

    def cut_overdue(self, now: float) -> list[SessionAction]:
        """End what was waited for long enough."""
        actions: list[SessionAction] = []
        for subscription, inquiry in list(self._open.items()):
            if reason := inquiry.overdue(self._patience, now):
                actions += self.cut(subscription, reason)
            elif inquiry.settled(self._patience, now):
                actions += self.complete(subscription)
        return actions

    @property
    def due(self) -> float | None:
        """When the first of them is overdue, or None."""
        ends = [inquiry.due(self._patience) for inquiry in self._open.values()]
        return min((end for end in ends if end < inf), default=None)


# ── One question of how many events match (NIP-45) ──────────────────────────────────────
# One question of how many events match (NIP-45): what a relay's answer is, and how long it is waited for. No I/O.
#
# A count is the relay's word and no more: it shows no event, and some relays only estimate.


@dataclass(frozen=True, slots=True)
class Counted:
    """What a relay answered.

    Attributes:
        count: how many events match, or None where it did not say.
        reason: why it did not, in our words; empty when it did.
        outcome: ACCEPTED, else what the cause suggests: RETRY, RATE_LIMITED or REFUSED.
    """

    count: int | None
    reason: str = ""
    outcome: RelayOutcome = RelayOutcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class CountDone(SessionAction):
    """A question for a count has ended; this is the answer."""

    subscription: str
    counted: Counted


@dataclass(slots=True, kw_only=True)
class OpenCount(Inquiry):
    """A count that is waited for.

    Attributes:
        filters: any of which may match.
        doubtful: whether nobody said that the relay can count: it is not given long.
        count: its answer, or None so far.
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
        """The answer; none where there is a reason why not."""
        return CountDone(subscription, Counted(None if reason else self.count, reason, outcome))

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenCount, self)._ends(patience)  # a class with slots is created twice
        if self.doubtful and not self.waiting:
            ends.append((self.heard_at + patience.notice_settle, "went silent"))
        return ends


# ── One comparison with a relay (NIP-77) ────────────────────────────────────────────────
# The client's side of the conversation, and what it found. The relay is not believed further than this: the
# ids that it claims to have are asked for, and those events are verified like any other.


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        have: ids that only we have, 32 bytes each.
        need: ids that the relay says only it has; perhaps lies, until the events are here.
        complete: whether everything was compared. Where not, what was found so far stands.
        reason: why it is not complete, in our words; empty when it is.
        outcome: ACCEPTED when complete, else what the cause suggests: RETRY, RATE_LIMITED or REFUSED.
    """

    have: tuple[bytes, ...] = ()
    need: tuple[bytes, ...] = ()
    complete: bool = True
    reason: str = ""
    outcome: RelayOutcome = RelayOutcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class CompareDone(SessionAction):
    """A comparison has ended; this is what it found."""

    subscription: str
    comparison: Comparison


@dataclass(slots=True, kw_only=True)
class OpenComparison(Inquiry):
    """A comparison that is going on.

    Attributes:
        wanted: which events it is about.
        initiator: our side of the protocol.
        doubtful: whether nobody said that the relay can compare: it is not given long to begin.
    """

    wanted: Filter
    initiator: Initiator
    doubtful: bool = False
    answers: int = 0
    have: list[bytes] = field(default_factory=list)
    need: list[bytes] = field(default_factory=list)

    def read_answer(self, message: bytes, now: float) -> bytes | None:
        """Read one answer; returns what to say next, or None at the end.

        Raises:
            MalformedFrame: no such message, or more of them or of ids than an honest relay has.
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
