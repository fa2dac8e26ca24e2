"""What a synchronisation did, relay by relay: plain data for people and for JSON."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sense_memory.ledger.manifests import NOTHING_CHECKED, ManifestCheck
from sense_memory.nostr.verdict import RelayOutcome
from sense_memory.relay import log
from sense_memory.relay.sync.walk import PullResult


if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RelayReport:
    """What a synchronisation did with one relay.

    Attributes:
        url: the relay.
        problem: why the relay could not be used, or empty.
        pulled: the result of the pull, with the reasons why the relay may not have shown everything.
        served: the relay's events, counted by how they were filed: new, known, stale, deleted, quarantined, foreign,
            misfiled, …
        sent: our events, counted by the relay's verdict: accepted, refused, retry, rate-limited, superseded, …
        reasons: why events were refused or wait, in our words, with counts.
        waiting: how many events are still queued for the relay.
        refused: how many events the relay refuses, in this run or before.
        paused_seconds: for how long nothing is sent to the relay, because of its rate limit.
        serves_deleted: whether the relay still serves forgotten memories, although it accepted the deletion.
        useless: useless frames that the relay sent, with counts: see `relay.client.session.UselessCounts`.
        misbehaving: whether we hung up because the relay broke the protocol or our limits.
        asked: whether the relay was asked for events in this run.
        held_back: whether nothing is sent before the first complete pull.
        seconds: how long the run took.
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
    def shows_all_but_hidden(self) -> bool:
        """As `complete`, although the relay may hide the journal."""
        return self.asked and not self.problem and self.pulled.shows_all_but_hidden

    @property
    def in_step(self) -> bool:
        """Whether the relay and the ledger hold the same events.

        The relay's OK is believed for events accepted in this run; the pull looked for events accepted earlier, or
        compared them and checked a sample.
        """
        return self.complete and self.in_step_but_hidden

    @property
    def in_step_but_hidden(self) -> bool:
        """As `in_step`, although the relay may hide the journal; a scene has none."""
        is_honest = not self.pulled.missing and not self.serves_deleted
        return self.shows_all_but_hidden and is_honest and not self.waiting and not self.refused

    def followed_by(self, later: RelayReport) -> RelayReport:
        """This report joined with the report of a later run that only sent events."""
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
        """This report joined with the report of a later run that asked again, such as after the relay hung up."""
        both = replace(self.followed_by(later), held_back=later.held_back)
        return replace(both, pulled=replace(self.pulled, reasons=()) + later.pulled) if later.asked else both


@dataclass(frozen=True, slots=True)
class FirstTrust:
    """How far relays agreed when a ledger that was empty before was first filled: trust on first use.

    Attributes:
        relays: how many relays are configured.
        complete: how many of them showed everything they were asked for.
        agreeing: how many of these showed every memory and journal entry that any of them showed.
    """

    relays: int
    complete: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a synchronisation did.

    Attributes:
        relays: the report of every configured relay, in the configured order.
        overruled: names of memories that this device and another device changed independently, where the other change
            is later and counts. Our text is in the memory's history, in a conflict copy or in a draft.
        written_again: names of memories that were forgotten, and have been written again on another device since.
        conflicts: paths of conflict copies, of memories that this device and another device changed independently, where
            the change of this device counts. The copy has the text of the other device.
        prevailed: names of memories without conflict copies (flat memories and records of the mind) that this device and
            another device changed independently, where the change of this device counts. The other text is in the history.
        unclaimed: names of such memories in whose history is a text that was written under an id of this ledger, but not by
            this ledger as it stands: here before it was set back, or on a copy of it. Another text counts.
        unfit: paths of memories whose text leaves no room in an event for their accesses; the accesses stay on this
            machine.
        is_first: whether the ledger was empty before. Then nothing here shows what the relays left out or have lost, except
            the manifests of other devices.
        trust: how far the relays agreed, if the ledger was empty before; else None.
        manifests: what the manifests of other devices say about the memories here.
        found: relays that other machines of this agent use and this store does not; none of them was asked.
    """

    relays: tuple[RelayReport, ...] = ()
    overruled: tuple[str, ...] = ()
    written_again: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    prevailed: tuple[str, ...] = ()
    unclaimed: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()
    is_first: bool = False
    trust: FirstTrust | None = None
    manifests: ManifestCheck = NOTHING_CHECKED
    found: tuple[str, ...] = ()

    def continued_by(self, later: SyncReport) -> SyncReport:
        """This report joined with the report of a later synchronisation with the same relays."""
        both = zip(self.relays, later.relays, strict=True)
        relays = tuple(relay.continued_by(again) for relay, again in both)
        unfit = tuple(dict.fromkeys((*self.unfit, *later.unfit)))
        manifests = later.manifests if later.manifests.checked_at is not None else self.manifests
        if self.manifests.lacking or self.manifests.relapsed:
            relapsed = tuple(dict.fromkeys((*self.manifests.relapsed, *manifests.relapsed)))
            manifests = replace(manifests, lacking=self.manifests.lacking, relapsed=relapsed)
        whole = replace(later, relays=relays, unfit=unfit, manifests=manifests)
        return replace(whole, is_first=self.is_first, trust=self.trust)

    @property
    def complete(self) -> bool:
        """Whether there is a relay, every relay showed everything it was asked for, and no manifest names more.

        Relays that all hide the same memories, and the manifests that name these, are not found out.
        """
        answered = bool(self.relays) and all(relay.complete for relay in self.relays)
        return answered and self.manifests.holds

    @property
    def in_step(self) -> bool:
        """Whether there is a relay, every relay holds the same events as the ledger, and no manifest names more."""
        return bool(self.relays) and all(relay.in_step for relay in self.relays) and self.manifests.holds

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each relay that failed or was incomplete."""
        return tuple(
            f"{relay.url}: {relay.problem or 'incomplete: ' + ', '.join(relay.pulled.reasons)}"
            for relay in self.relays
            if relay.problem or relay.pulled.reasons
        )


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return dict(Counter(first) + Counter(second))


# ── The log of a relay ──────────────────────────────────────────────────────────────────


class RelayLog:
    """Logs each change in the state of one relay once.

    Args:
        url: the relay.
    """

    def __init__(self, url: str) -> None:
        self._url, self._state = url, ""

    def log_connected(self) -> None:
        """Log that the relay was dialled."""
        log.info("%s: connected", self._url)

    def log_lost(self, problem: str) -> None:
        """Log that the connection was lost."""
        self._change(logging.WARNING, problem)

    def log_run(self, report: RelayReport, wait: float) -> None:
        """Log a run of the background; `wait` is the number of seconds before the next dial, or 0."""
        if count := report.sent.get(RelayOutcome.REFUSED.value, 0):
            log.warning("%s: events refused: %d (%s)", self._url, count, ", ".join(report.reasons))
        self._change(*_state(report))
        if wait:
            log.info("%s: backing off for %.0f s", self._url, wait)

    def _change(self, level: int, state: str) -> None:
        if state and state != self._state:
            self._state = state
            log.log(level, "%s: %s", self._url, state)


def _state(report: RelayReport) -> tuple[int, str]:
    """The log level and the state of a relay after a run; the state is empty if the relay was not asked for events."""
    if report.problem:
        return logging.WARNING, report.problem
    if not report.asked:
        return logging.INFO, ""
    if not report.complete:
        return logging.WARNING, f"incomplete: {', '.join(report.pulled.reasons)}"
    return (
        logging.INFO,
        "in step" if report.in_step else "not in step: the relay does not hold everything yet",
    )
