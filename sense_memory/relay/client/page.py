"""One REQ and what came back: the intake of events in its fixed order, and the finished `EventPage`.

An event passes size, shape, filter, author, id and signature, in that order, before it is kept. An event that
fails changes a counter and nothing else: no cursor, no timer, no memory. The budgets bound what is kept,
whatever a relay sends. No I/O, no clock.
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
    from sense_memory.relay.client.actions import Timeouts


LATE: Final = "sent events after saying that there were no more"


@dataclass(frozen=True, slots=True)
class EventPage:
    """What a relay answered to one REQ.

    Attributes:
        events: verified, ours, matching the filters, each id once, in order of arrival.
        complete: whether the relay itself said that this is everything (EOSE). Only then does "not in
            the page" mean "not at the relay", up to the relay's own cap on a page.
        reason: why the page is not complete, in our words; empty for a complete page.
        received: events that the relay sent, good or bad.
        invalid: those that were malformed or forged.
        over_delivered: those that were not asked for.
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
    """A subscription has ended with this page."""

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
    """A subscription whose answer is still arriving.

    Attributes:
        filters: what was asked.
        author: the only public key whose events are wanted, 64 hex digits.
        known: events by id that were verified on this connection before; a page begins where another ended.
        patient: whether to listen for a while after EOSE, because the relay went on sending after an earlier EOSE.
        ended_at: when EOSE arrived, if we listen on after EOSE.
        late: how many good events arrived after EOSE.
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
        """Judge one event of an EVENT frame, and keep a good event.

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
        """The relay sent EOSE; returns whether the page ends now."""
        if self.patient and self.ended_at is None:
            self.ended_at = now
        return not self.patient

    def pending_actions(self, subscription: str) -> list[SessionAction]:  # noqa: ARG002 - for those that never end
        """What to hand to the caller before the subscription ends."""
        return []

    def settled(self, patience: Timeouts, now: float) -> bool:
        """Whether we listened for long enough after EOSE, and nothing more arrived."""
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
        """As for any question; after an EOSE that is not believed, also when the relay was quiet for long enough."""
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
    """Whether a second copy is the same event: a verified id commits to all fields, which spares the signature check."""
    return event_id(raw.pubkey, raw.created_at, raw.kind, raw.tags, raw.content) == raw.id


# ── A live subscription ─────────────────────────────────────────────────────────────────
# A live subscription: one REQ that stays open, so that the relay sends new events as they arrive. No I/O.
#
# Verification is costly, so two sorts of events are dropped unverified: stored events, which the next pull fetches,
# and known events, such as our own, which the relay sends back. A `LookUpIds` asks which events are known: first about
# one event, then about all events that arrived before the answer. Unknown events pass the same checks as the events of
# a page. A subscription that brings too many useless events ends.


@dataclass(slots=True, kw_only=True)
class OpenLive(OpenPage):
    """A live subscription; it always ends as an incomplete page.

    Attributes:
        begun: whether the relay has sent EOSE, after which every event is new.
    """

    begun: bool = False
    _begins: bool = False
    _useless: int = 0
    _asked: list[object] = field(default_factory=list)  # events of the unanswered `LookUpIds`
    _waiting: list[object] = field(default_factory=list)  # events that arrived after it
    _waiting_bytes: int = 0

    def add_event(self, value: object, size: int, now: float) -> Admission:  # noqa: ARG002 - as for a page
        """Let an event wait until its `LookUpIds` is answered.

        Over budget means too many known events in a row, too many new events, or too many waiting events.
        """
        self.received += 1
        is_flood = len(self._ids) >= limits.MAX_LIVE_COUNT or self._useless >= limits.MAX_NOISE_COUNT
        if not self.begun:
            self._useless += 1
            return Admission.OVER_BUDGET if is_flood else Admission.KEPT
        self._waiting.append(value)
        self._waiting_bytes += size
        is_late = len(self._waiting) > limits.MAX_LIVE_WAITING_COUNT
        is_late |= self._waiting_bytes > limits.MAX_LIVE_WAITING_BYTES
        return Admission.OVER_BUDGET if is_flood or is_late else Admission.KEPT

    def admit_unknown(self, known: Collection[str]) -> Iterator[Admission]:
        """Judge those events of the last `LookUpIds` that are not known."""
        asked, self._asked = self._asked, []
        for value in asked:
            self._useless += 1
            if _claimed_id(value) not in known:
                before = len(self.events)
                yield super(OpenLive, self)._judge(value)  # a class with slots is created twice
                if len(self.events) > before:
                    self._useless = 0

    def end(self, now: float) -> bool:
        """The relay has sent the stored events: the subscription is live from now on."""
        self._begins, self.begun, self.heard_at = True, True, now
        return False

    def pending_actions(self, subscription: str) -> list[SessionAction]:
        """The new events to hand to the caller, and the ids to look up."""
        actions: list[SessionAction] = []
        if self.events or self._begins:
            actions.append(LiveEvents(subscription, tuple(self.events)))
            self.events, self._begins = [], False
        if self._waiting and not self._asked:
            self._asked, self._waiting, self._waiting_bytes = self._waiting, [], 0
            actions.append(LookUpIds(subscription, tuple(filter(None, map(_claimed_id, self._asked)))))
        return actions

    @property
    def unanswered(self) -> bool:
        """Whether the relay has not opened the subscription yet."""
        return not self.begun

    def _ends(self, patience: Timeouts) -> list[tuple[float, str]]:
        return [(inf, "")] if self.begun else super(OpenLive, self)._ends(patience)


def _claimed_id(value: object) -> str:
    """The id that an event claims, unverified; empty if the event claims no id."""
    claimed = value.get("id") if isinstance(value, dict) else None
    return claimed if isinstance(claimed, str) else ""
