"""One REQ and what came back: the intake of events in its fixed order, and the finished `Page`.

An event passes size, shape, filter, author, id and signature before it is kept, in that order. One that
fails changes a counter and nothing else: no cursor, no timer, no memory. What is kept is bounded by the
budgets, whatever a relay sends. No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING

from sense_memory import limits
from sense_memory.errors import InvalidEvent
from sense_memory.nostr.event import Event, RawEvent, event_id, verify
from sense_memory.nostr.verdict import Outcome


if TYPE_CHECKING:
    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.conduct import Timeouts


@dataclass(frozen=True, slots=True)
class Page:
    """What a relay answered to one REQ.

    Attributes:
        events: verified, ours, matching the filters, each id once, in order of arrival.
        complete: whether the relay itself said that this is everything (EOSE). Only then does "not in
            the page" mean "not at the relay", up to the relay's own cap on a page.
        reason: why it is not complete, in our words; empty when it is.
        received: events the relay sent, of whatever quality.
        invalid: of these, malformed or forged.
        over_delivered: of these, not asked for.
        outcome: ACCEPTED when complete, else what the cause suggests: RETRY, RATE_LIMITED or REFUSED.
    """

    events: tuple[Event, ...]
    complete: bool
    reason: str = ""
    received: int = 0
    invalid: int = 0
    over_delivered: int = 0
    outcome: Outcome = Outcome.ACCEPTED


class Fate(Enum):
    """What became of one event that a relay sent."""

    KEPT = auto()
    DUPLICATE = auto()
    OVER_DELIVERED = auto()
    INVALID = auto()
    OVER_BUDGET = auto()


@dataclass(slots=True)
class OpenPage:
    """A subscription whose answer is still coming in.

    Attributes:
        filters: what was asked.
        author: the only public key whose events are wanted, 64 hex digits.
        opened_at: when it was asked, seconds.
        heard_at: when the relay last sent something good for it.
        noticed_at: when a NOTICE came while nothing had arrived yet.
        waiting: whether it was closed with `auth-required` and waits for NIP-42.
        resent: whether it was asked again after authenticating.
    """

    filters: tuple[Filter, ...]
    author: str
    opened_at: float
    heard_at: float
    noticed_at: float | None = None
    waiting: bool = False
    resent: bool = False
    events: list[Event] = field(default_factory=list)
    received: int = 0
    bytes: int = 0
    invalid: int = 0
    over_delivered: int = 0
    _ids: set[str] = field(default_factory=set)
    _budget: float = field(init=False)

    def __post_init__(self) -> None:
        self._budget = _budget(self.filters)

    def take(self, value: object, size: int, now: float) -> Fate:
        """Judge one event of an EVENT frame, and keep it if it is good.

        Args:
            value: the parsed JSON that claims to be an event.
            size: bytes of the frame.
            now: seconds.
        """
        self.received += 1
        self.bytes += size
        if self.received > self._budget or self.bytes > limits.MAX_PULL_BYTES:
            return Fate.OVER_BUDGET
        fate = self._judge(value)
        match fate:
            case Fate.KEPT | Fate.DUPLICATE:
                self.heard_at, self.noticed_at = now, None
            case Fate.OVER_DELIVERED:
                self.over_delivered += 1
            case Fate.INVALID:
                self.invalid += 1
        return fate

    def due(self, patience: Timeouts) -> float:
        """The moment at which patience with this page ends, whichever limit comes first."""
        return min(end for end, _ in self._ends(patience))

    def overdue(self, patience: Timeouts, now: float) -> str:
        """Why the page has to end now, in our words; empty if it does not."""
        return next((reason for end, reason in self._ends(patience) if end <= now), "")

    def finished(self, reason: str = "", outcome: Outcome = Outcome.ACCEPTED) -> Page:
        """The page as it stands; complete if and only if there is no reason why not."""
        return Page(
            events=tuple(self.events),
            complete=not reason,
            reason=reason,
            received=self.received,
            invalid=self.invalid,
            over_delivered=self.over_delivered,
            outcome=outcome,
        )

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        ends = [(self.opened_at + patience.total, "took too long")]
        if not self.waiting:
            ends.append((self.heard_at + patience.idle, "went silent"))
            if self.noticed_at is not None:
                ends.append((self.noticed_at + patience.notice_settle, "answered with a notice only"))
        return ends

    def _judge(self, value: object) -> Fate:
        try:
            raw = RawEvent.parse(value)
            if raw.pubkey != self.author or not any(item.matches(raw) for item in self.filters):
                return Fate.OVER_DELIVERED
            if raw.id in self._ids:
                return Fate.DUPLICATE if _has_its_id(raw) else Fate.INVALID
            event = verify(raw)
        except InvalidEvent:
            return Fate.INVALID
        self._ids.add(event.id)
        self.events.append(event)
        return Fate.KEPT


def _budget(filters: tuple[Filter, ...]) -> float:
    """Most events of an honest answer; a filter with neither limit nor ids leaves only the bytes bounded."""
    counts = [
        min(item.limit if item.limit is not None else inf, len(item.ids) if item.ids is not None else inf)
        for item in filters
    ]
    total = sum(counts)
    return total if total == inf else int(total * limits.OVER_DELIVERY)


def _has_its_id(raw: RawEvent) -> bool:
    """Whether a second copy is the same event: a verified id commits to all fields, so no signature is due."""
    return event_id(raw.pubkey, raw.created_at, raw.kind, raw.tags, raw.content) == raw.id
