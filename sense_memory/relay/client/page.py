"""One REQ and the events that answer it: a page, which ends with EOSE, or a live subscription. No I/O, no clock.

What is guaranteed: an event is accepted only after it passed size, shape, author, filter, id and signature, in that
order. An event that fails changes a counter and nothing else: no cursor, no deadline, no memory.

Why it is safe: a page accepts each id once. It ends when the relay has sent more than 1.1 times the events that were
asked for (`OVER_DELIVERY`), or more than 64 MiB (`MAX_PULL_BYTES`).

What it costs: one signature check for each new event. A second copy, or an event that the page before ended with, costs
only a hash.
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
from sense_memory.relay.client.requests import OpenRequest


if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sense_memory.nostr.filters import Filter
    from sense_memory.relay.client.actions import Timeouts


LATE: Final = "sent events after saying that there were no more"


@dataclass(frozen=True, slots=True)
class EventPage:
    """A relay's answer to one REQ.

    Attributes:
        events: verified events of the author that match the filters, each id once, in order of arrival.
        complete: whether the relay said that it has sent everything (EOSE). Only then does "not in the page" mean
            "not at the relay", up to the relay's limit on the size of a page.
        reason: why the page is incomplete, in our words; empty for a complete page.
        received: how many events the relay sent, good or bad.
        invalid: how many of the received events were malformed or forged.
        over_delivered: how many of the received events were not asked for.
        outcome: ACCEPTED if complete; otherwise RETRY, RATE_LIMITED or REFUSED.
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
    """How one event that a relay sent was judged."""

    ACCEPTED = auto()
    DUPLICATE = auto()  # this page has the event already
    OVER_DELIVERED = auto()  # of another author, or no filter asked for the event
    INVALID = auto()  # malformed or forged
    OVER_BUDGET = auto()  # the relay has sent more than the subscription accepts


@dataclass(slots=True, kw_only=True)
class OpenPage(OpenRequest):
    """A REQ whose answer is still arriving.

    Attributes:
        filters: an event must match one of these filters.
        author: the only public key whose events are wanted, 64 hex digits.
        known: events by id that were verified on this connection before, because a page often begins with the events
            with which the page before ended.
        wait_after_eose: whether to wait `Timeouts.notice_settle` after EOSE for late events, because the relay sent
            events after an earlier EOSE.
        ended_at: when EOSE arrived, if `wait_after_eose`.
        late: how many good events arrived after EOSE.
        events: the accepted events, in order of arrival.
        received: how many events the relay sent, good or bad.
        bytes: total length of the EVENT frames that carried the received events.
        invalid: how many of the received events were malformed or forged.
        over_delivered: how many of the received events were not asked for.
    """

    filters: tuple[Filter, ...]
    author: str
    known: Mapping[str, Event] = field(default_factory=dict)
    wait_after_eose: bool = False
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
        """Judge one event of an EVENT frame, and add a good event to the page.

        Args:
            value: the parsed JSON that claims to be an event.
            size: length of the frame, as the session measures it.
            now: seconds.
        """
        self.received += 1
        self.bytes += size
        if self.received > self._budget or self.bytes > limits.MAX_PULL_BYTES:
            return Admission.OVER_BUDGET
        admission = self._judge(value)
        match admission:
            case Admission.ACCEPTED | Admission.DUPLICATE:
                self.last_frame_at, self.notice_at = now, None
                self.late += self.ended_at is not None
            case Admission.OVER_DELIVERED:
                self.over_delivered += 1
            case Admission.INVALID:
                self.invalid += 1
        return admission

    def end(self, now: float) -> bool:
        """Note that the relay sent EOSE; returns whether the page ends now."""
        if self.wait_after_eose and self.ended_at is None:
            self.ended_at = now
        return not self.wait_after_eose

    def pending_actions(self, subscription: str) -> list[SessionAction]:  # noqa: ARG002 - only `OpenLive` needs it
        """The actions that are due before the subscription ends."""
        return []

    def settled(self, timeouts: Timeouts, now: float) -> bool:
        """Whether we waited long enough after EOSE and no event arrived."""
        return self.ended_at is not None and not self.late and self.ended_at + timeouts.notice_settle <= now

    def oldest(self) -> dict[str, Event]:
        """The events of the oldest second by id; the next page of a walk begins with these events."""
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
        """The page with the events received so far."""
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

    def _ends(self, timeouts: Timeouts) -> list[tuple[float, str]]:
        """The deadlines of any request; while we wait after EOSE, also the end of that wait."""
        if self.ended_at is None:
            return super(OpenPage, self)._ends(timeouts)  # slots=True: super() needs arguments
        quiet = max(self.ended_at, self.last_frame_at) + timeouts.notice_settle
        return [(self.opened_at + timeouts.total, "took too long"), (quiet, LATE if self.late else "")]

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
        return Admission.ACCEPTED


def _budget(filters: tuple[Filter, ...]) -> float:
    """The most events that a page accepts; infinite if some filter has neither `limit` nor `ids`."""
    counts = [
        min(item.limit if item.limit is not None else inf, len(item.ids) if item.ids is not None else inf)
        for item in filters
    ]
    total = sum(counts)
    return total if total == inf else int(total * limits.OVER_DELIVERY)


def _has_its_id(raw: RawEvent) -> bool:
    """Whether the id is the hash of the fields. A copy of a verified event then needs no second signature check."""
    return event_id(raw.pubkey, raw.created_at, raw.kind, raw.tags, raw.content) == raw.id


# ── A live subscription ─────────────────────────────────────────────────────────────────
# A REQ that stays open after EOSE, so that the relay sends new events as they arrive.
#
# Verification is costly, so two sorts of events are dropped unverified: stored events, which the next pull fetches,
# and known events, such as our own, which the relay sends back. A `LookUpIds` asks which events are known: first about
# one event, then about all events that arrived before the answer. Unknown events pass the same checks as the events of
# a page. A subscription that brings too many useless events ends.


@dataclass(slots=True, kw_only=True)
class OpenLive(OpenPage):
    """A live subscription, which always ends as an incomplete page.

    Attributes:
        begun: whether the relay has sent EOSE, after which every event is new.
    """

    begun: bool = False
    _begins: bool = False  # whether the EOSE has not been reported yet
    _useless: int = 0  # consecutive events that were not new
    _asked: list[object] = field(default_factory=list)  # events of the unanswered `LookUpIds`
    _waiting: list[object] = field(default_factory=list)  # events that arrived after that `LookUpIds`
    _waiting_bytes: int = 0

    def add_event(self, value: object, size: int, now: float) -> Admission:  # noqa: ARG002 - as for a page
        """Queue an event for the next `LookUpIds`; before EOSE, drop the event.

        The subscription is over budget after too many consecutive events that were not new, too many new events, or
        too many queued events.
        """
        self.received += 1
        is_flood = len(self._ids) >= limits.MAX_LIVE_COUNT or self._useless >= limits.MAX_NOISE_COUNT
        if not self.begun:
            self._useless += 1
            return Admission.OVER_BUDGET if is_flood else Admission.ACCEPTED
        self._waiting.append(value)
        self._waiting_bytes += size
        is_late = len(self._waiting) > limits.MAX_LIVE_WAITING_COUNT
        is_late |= self._waiting_bytes > limits.MAX_LIVE_WAITING_BYTES
        return Admission.OVER_BUDGET if is_flood or is_late else Admission.ACCEPTED

    def admit_unknown(self, known: Collection[str]) -> Iterator[Admission]:
        """Judge the events of the last `LookUpIds` whose ids are not in `known`."""
        asked, self._asked = self._asked, []
        for value in asked:
            self._useless += 1
            if _claimed_id(value) not in known:
                before = len(self.events)
                yield super(OpenLive, self)._judge(value)  # slots=True: super() needs arguments
                if len(self.events) > before:
                    self._useless = 0

    def end(self, now: float) -> bool:
        """Note that the relay sent EOSE: the subscription is live from now on."""
        self._begins, self.begun, self.last_frame_at = True, True, now
        return False

    def pending_actions(self, subscription: str) -> list[SessionAction]:
        """Report new events, and ask which of the queued events are known."""
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

    def _ends(self, timeouts: Timeouts) -> list[tuple[float, str]]:
        return [(inf, "")] if self.begun else super(OpenLive, self)._ends(timeouts)


def _claimed_id(value: object) -> str:
    """The id that an event claims, unverified; empty if the event claims no id."""
    claimed = value.get("id") if isinstance(value, dict) else None
    return claimed if isinstance(claimed, str) else ""
