"""One comparison with a relay (NIP-77): the client's side of the conversation, and what it found. No I/O.

What the relay says is never believed further than this: the ids that it claims to have are asked for, and
verified like any other event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sense_memory.nostr import wire
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.actions import SessionAction
from sense_memory.relay.client.requests import Inquiry


if TYPE_CHECKING:
    from sense_memory.nostr.filters import Filter
    from sense_memory.nostr.negentropy import Initiator
    from sense_memory.relay.client.conduct import Timeouts


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
