"""One question of how many events match (NIP-45): what a relay's answer is, and how long it is waited for. No I/O.

A count is the relay's word and no more: it shows no event, and some relays only estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sense_memory.nostr import wire
from sense_memory.nostr.verdict import Outcome
from sense_memory.relay.actions import Action
from sense_memory.relay.inquiry import Inquiry


if TYPE_CHECKING:
    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.conduct import Timeouts


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
    outcome: Outcome = Outcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class CountDone(Action):
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

    def done(self, subscription: str, reason: str = "", outcome: Outcome = Outcome.ACCEPTED) -> CountDone:
        """The answer; none where there is a reason why not."""
        return CountDone(subscription, Counted(None if reason else self.count, reason, outcome))

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        ends = super(OpenCount, self)._ends(patience)  # a class with slots is made twice
        if self.doubtful and not self.waiting:
            ends.append((self.heard_at + patience.notice_settle, "went silent"))
        return ends
