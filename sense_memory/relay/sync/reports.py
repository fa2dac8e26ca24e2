"""What a synchronisation did, relay by relay: plain data for people and for JSON."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay import log
from sense_memory.relay.sync.walk import PullResult


if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RelayReport:
    """One relay's part.

    Attributes:
        url: the relay.
        problem: why the relay could not be used, or empty.
        pulled: what the relay served, and why that may not be everything.
        served: how its events were filed: new, known, stale, deleted, quarantined, foreign, misfiled, …
        sent: its verdicts on our events: accepted, refused, retry, rate-limited, superseded, …
        reasons: why events were refused or wait, in our words, with counts.
        waiting: events that are still queued for the relay.
        refused: events that the relay will not take, in this run or before.
        paused_seconds: how long nothing is sent to it, because it limits how often it takes events.
        serves_deleted: whether the relay still serves forgotten memories, although it accepted the deletion.
        useless: useless frames that the relay sent, with counts: see `relay.client.session.UselessCounts`.
        misbehaving: whether the relay broke the protocol or our limits, so that we hung up.
        asked: whether this relay was pulled in this run.
        held_back: whether sending waits for a first complete pull.
        seconds: how long it took.
    """

    url: str
    problem: str = ""
    pulled: PullResult = field(default_factory=PullResult)
    served: Mapping[str, int] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    refused: int = 0
    paused_seconds: float = 0.0
    serves_deleted: bool = False
    useless: Mapping[str, int] = field(default_factory=dict)
    misbehaving: bool = False
    asked: bool = True
    held_back: bool = False
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether the relay was reached and showed everything it was asked for."""
        return self.asked and not self.problem and self.pulled.complete

    @property
    def in_step(self) -> bool:
        """Whether this relay and the ledger hold the same.

        For events accepted in this run, the relay's OK is believed; events accepted earlier were looked for.
        """
        kept_its_word = not self.pulled.missing and not self.serves_deleted
        return self.complete and kept_its_word and not self.waiting and not self.refused

    def followed_by(self, later: RelayReport) -> RelayReport:
        """This report joined with the report of a second run, which at most sent events."""
        return replace(
            later,
            pulled=self.pulled,
            served=_sum(self.served, later.served),
            sent=_sum(self.sent, later.sent),
            useless=_sum(self.useless, later.useless),
            misbehaving=self.misbehaving or later.misbehaving,
            asked=self.asked,
            held_back=self.held_back,
            seconds=self.seconds + later.seconds,
        )

    def continued_by(self, later: RelayReport) -> RelayReport:
        """This report of a cut-off run joined with the report of the run that continued it."""
        both = replace(self.followed_by(later), held_back=later.held_back)
        return replace(both, pulled=replace(self.pulled, reasons=()) + later.pulled) if later.asked else both


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a synchronisation did.

    Attributes:
        relays: every configured relay's part, in their order.
        overruled: names of memories that were edited here, where another device, which did not know that, wrote or
            forgot later; ours is in their history, in a conflict copy, or a draft.
        unfit: paths of memories whose text leaves no room in an event for the accesses that should travel: those
            stay on this machine.
    """

    relays: tuple[RelayReport, ...] = ()
    overruled: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether at least one relay was asked, and all showed everything."""
        return bool(self.relays) and all(relay.complete for relay in self.relays)

    @property
    def in_step(self) -> bool:
        """Whether all relays hold what the ledger holds."""
        return bool(self.relays) and all(relay.in_step for relay in self.relays)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each relay that was not reached or not complete."""
        return tuple(
            f"{relay.url}: {relay.problem or 'incomplete: ' + ', '.join(relay.pulled.reasons)}"
            for relay in self.relays
            if relay.problem or relay.pulled.reasons
        )


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(first) + Counter(second))


# ── The log of a relay ──────────────────────────────────────────────────────────────────


class RelayLog:
    """Logs what changes with one relay: each problem once, and its end.

    Args:
        url: the relay.
    """

    def __init__(self, url: str) -> None:
        self._url, self._state = url, ""

    def connected(self) -> None:
        """The relay was dialled."""
        log.info("%s: connected", self._url)

    def lost(self, problem: str) -> None:
        """The connection was found to be gone."""
        self._change(logging.WARNING, problem)

    def ended(self, report: RelayReport, rest: float) -> None:
        """A run of the background ended; the next begins after so many seconds, if it has to wait at all."""
        if count := report.sent.get(RelayOutcome.REFUSED.value, 0):
            log.warning("%s: events refused: %d (%s)", self._url, count, ", ".join(report.reasons))
        self._change(*_state(report))
        if rest:
            log.info("%s: backing off for %.0f s", self._url, rest)

    def _change(self, level: int, state: str) -> None:
        if state and state != self._state:
            self._state = state
            log.log(level, "%s: %s", self._url, state)


def _state(report: RelayReport) -> tuple[int, str]:
    """How a relay stands after a run, and how loud that is; empty where nothing was asked of it."""
    if report.problem:
        return logging.WARNING, report.problem
    if not report.asked:
        return logging.INFO, ""
    if not report.complete:
        return logging.WARNING, f"incomplete: {', '.join(report.pulled.reasons)}"
    return logging.INFO, "in step" if report.in_step else "not in step: it does not hold everything yet"
