"""One REQ and what came back: the intake of events in its fixed order, and the finished `EventPage`.

An event passes size, shape, filter, author, id and signature before it is kept, in that order. One that
fails changes a counter and nothing else: no cursor, no timer, no memory. What is kept is bounded by the
budgets, whatever a relay sends. No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import TYPE_CHECKING, Final

from sense_memory import limits
from sense_memory.errors import InvalidEvent
from sense_memory.nostr import wire
from sense_memory.nostr.event import Event, RawEvent, event_id, verify
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay.client.actions import LiveEvents, LookUpIds, SessionAction
from sense_memory.relay.client.requests import Inquiry


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.client.timeouts import Timeouts


LATE: Final = "sent events after saying that there were no more"


@dataclass(frozen=True, slots=True)
class EventPage:
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
    outcome: RelayOutcome = RelayOutcome.ACCEPTED


@dataclass(frozen=True, slots=True)
class PageDone(SessionAction):
    """A subscription has ended; this is its page."""

    subscription: str
    page: EventPage


class Admission(Enum):
    """What became of one event that a relay sent."""

    KEPT = auto()
    DUPLICATE = auto()
    OVER_DELIVERED = auto()
    INVALID = auto()
    OVER_BUDGET = auto()


@dataclass(slots=True, kw_only=True)
class OpenPage(Inquiry):
    """A subscription whose answer is still coming in.

    Attributes:
        filters: what was asked.
        author: the only public key whose events are wanted, 64 hex digits.
        known: events by id that were verified on this connection before; a page begins where another ended.
        patient: whether to listen on for a while after EOSE, at a relay that went on after one before.
        ended_at: when EOSE came in spite of which one listens.
        late: good events since then.
    """

    filters: tuple[Filter, ...]
    author: str
    known: Mapping[str, Event] = field(default_factory=dict)
    patient: bool = False
    ended_at: float | None = None
    late: int = 0
    events: list[Event] = field(default_factory=list)
    received: int = 0
    bytes: int = 0
    invalid: int = 0
    over_delivered: int = 0
    _ids: set[str] = field(default_factory=set)
    _budget: float = field(init=False)

    def __post_init__(self) -> None:
        self._budget = _budget(self.filters)

    def add_event(self, value: object, size: int, now: float) -> Admission:
        """Judge one event of an EVENT frame, and keep it if it is good.

        Args:
            value: the parsed JSON that claims to be an event.
            size: bytes of the frame.
            now: seconds.
        """
        self.received += 1
        self.bytes += size
        if self.received > self._budget or self.bytes > limits.MAX_PULL_BYTES:
            return Admission.OVER_BUDGET
        fate = self._judge(value)
        match fate:
            case Admission.KEPT | Admission.DUPLICATE:
                self.heard_at, self.noticed_at = now, None
                self.late += self.ended_at is not None
            case Admission.OVER_DELIVERED:
                self.over_delivered += 1
            case Admission.INVALID:
                self.invalid += 1
        return fate

    def end(self, now: float) -> bool:
        """The relay says that this is all: whether to take its word."""
        if self.patient and self.ended_at is None:
            self.ended_at = now
        return not self.patient

    def pending_actions(self, subscription: str) -> list[SessionAction]:  # noqa: ARG002 - for those that never end
        """What is to be handed on before the end."""
        return []

    def settled(self, patience: Timeouts, now: float) -> bool:
        """Whether it was listened to for long enough after EOSE, and nothing more came."""
        return self.ended_at is not None and not self.late and self.ended_at + patience.notice_settle <= now

    def oldest(self) -> dict[str, Event]:
        """The events of the oldest second by id: what the next page of a walk begins with."""
        second = min((event.created_at for event in self.events), default=0)
        return {event.id: event for event in self.events if event.created_at == second}

    @property
    def unanswered(self) -> bool:
        """Whether no good event has arrived yet."""
        return not self.events

    def opening(self, subscription: str) -> str:
        """The REQ frame."""
        return wire.request(subscription, self.filters)

    def closing(self, subscription: str) -> str:
        """The CLOSE frame."""
        return wire.close(subscription)

    def done(
        self, subscription: str, reason: str = "", outcome: RelayOutcome = RelayOutcome.ACCEPTED
    ) -> PageDone:
        """The page as it stands."""
        page = EventPage(
            events=tuple(self.events),
            complete=not reason,
            reason=reason,
            received=self.received,
            invalid=self.invalid,
            over_delivered=self.over_delivered,
            outcome=outcome,
        )
        return PageDone(subscription, page)

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        """As of any question; after an EOSE that is not believed, when it was quiet for long enough."""
        if self.ended_at is None:
            return super(OpenPage, self)._ends(patience)  # a class with slots is created twice
        quiet = max(self.ended_at, self.heard_at) + patience.notice_settle
        return [(self.opened_at + patience.total, "took too long"), (quiet, LATE if self.late else "")]

    def _judge(self, value: object) -> Admission:
        try:
            raw = RawEvent.parse(value)
            if raw.pubkey != self.author or not any(item.matches(raw) for item in self.filters):
                return Admission.OVER_DELIVERED
            if raw.id in self._ids:
                return Admission.DUPLICATE if _has_its_id(raw) else Admission.INVALID
            event = self.known.get(raw.id)
            if event is None:
                event = verify(raw)
            elif not _has_its_id(raw):
                return Admission.INVALID
        except InvalidEvent:
            return Admission.INVALID
        self._ids.add(event.id)
        self.events.append(event)
        return Admission.KEPT


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


# ── A live subscription ─────────────────────────────────────────────────────────────────
# A live subscription: one REQ that is never finished, so that a relay tells what comes in while it comes. No I/O.
#
# What was stored before is the next pull's business, and what is known already is of no use, such as our own events,
# which come back this way too: both are dropped unread, which costs less than looking at them. A `LookUpIds` asks which
# events are known: at first about one event, then about all that came before the answer. The others pass the same checks
# as those of a page. A subscription that brings too much of no use ends.


@dataclass(slots=True, kw_only=True)
class OpenLive(OpenPage):
    """A subscription that stays; it ends as an incomplete page.

    Attributes:
        begun: whether the relay has said that from now on it tells.
    """

    begun: bool = False
    _begins: bool = False
    _useless: int = 0
    _asked: list[object] = field(default_factory=list)  # what a `LookUpIds` is about
    _aside: list[object] = field(default_factory=list)  # what came since
    _aside_bytes: int = 0

    def add_event(self, value: object, size: int, now: float) -> Admission:  # noqa: ARG002 - as for a page
        """Put an event aside until its `LookUpIds` is answered.

        Over budget: too many known events in a row, too many new ones, or too many that wait.
        """
        self.received += 1
        is_flood = len(self._ids) >= limits.MAX_LIVE_COUNT or self._useless >= limits.MAX_NOISE_COUNT
        if not self.begun:
            self._useless += 1
            return Admission.OVER_BUDGET if is_flood else Admission.KEPT
        self._aside.append(value)
        self._aside_bytes += size
        is_late = len(self._aside) > limits.MAX_LIVE_WAITING_COUNT
        is_late |= self._aside_bytes > limits.MAX_LIVE_WAITING_BYTES
        return Admission.OVER_BUDGET if is_flood or is_late else Admission.KEPT

    def admit_unknown(self, known: Collection[str]) -> Iterator[Admission]:
        """Judge the events that a `LookUpIds` was about, but for those that are known."""
        asked, self._asked = self._asked, []
        for value in asked:
            self._useless += 1
            if _claimed_id(value) not in known:
                before = len(self.events)
                yield super(OpenLive, self)._judge(value)  # a class with slots is created twice
                if len(self.events) > before:
                    self._useless = 0

    def end(self, now: float) -> bool:
        """What was stored has been sent: from now on it is live."""
        self._begins, self.begun, self.heard_at = True, True, now
        return False

    def pending_actions(self, subscription: str) -> list[SessionAction]:
        """What came, to be handed on, and what is to be looked up."""
        actions: list[SessionAction] = []
        if self.events or self._begins:
            actions.append(LiveEvents(subscription, tuple(self.events)))
            self.events, self._begins = [], False
        if self._aside and not self._asked:
            self._asked, self._aside, self._aside_bytes = self._aside, [], 0
            actions.append(LookUpIds(subscription, tuple(filter(None, map(_claimed_id, self._asked)))))
        return actions

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not agreed yet."""
        return not self.begun

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        return [(inf, "")] if self.begun else super(OpenLive, self)._ends(patience)


def _claimed_id(value: object) -> str:
    """What an event says its id is; empty where it says nothing of the kind."""
    claimed = value.get("id") if isinstance(value, dict) else None
    return claimed if isinstance(claimed, str) else ""
