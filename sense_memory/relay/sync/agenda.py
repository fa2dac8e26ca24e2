"""What one relay is asked next: decided here and nowhere else, from plain state. No I/O, no clock, no ledger.

A relay is asked one `RelayQuestion` at a time. `Agenda` picks the background's next question, `first_step` and the steps
after it make a pull of comparisons and walks, and `after_cut_off` says what is left of a question when the relay hung
up. The link, the puller and the live subscription carry out these decisions and report what happened.

What is guaranteed: everything that a relay serves is seen within a day, whatever its date. A relay that was not asked
yet, or was not listened to for a while, is compared completely, because what came meanwhile may be dated long ago. Then
each pull asks for what is dated since the cursor, two hours before the newest event seen (`CURSOR_OVERLAP_SECONDS`),
because events may reach a relay that long after their date. Once a day a sweep asks for everything.

Why it is safe to ask for less: only a complete pull moves the cursor. After a burst, the overlap holds thousands of known
events, which each pull would fetch again. So pulls between two whole ones ask only for what is newer than the newest
event seen. They move no cursor, so a late event is still found by the next whole pull, however late that is.

What it costs: the next whole pull is put off by up to a second for each known event that the last one fetched in vain.
A late event waits for that long, unless a subscription or a sync that somebody asks for brings it at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from sense_memory.ledger.relays import PullProgress
from sense_memory.limits import (
    BACKGROUND_SECONDS,
    HEAL_SECONDS,
    INCOMPLETE_SECONDS,
    KNOWN_EVENT_PAUSE_SECONDS,
    MAX_PAUSE_DOUBLINGS_COUNT,
    POLL_SECONDS,
    RESUME_SECONDS,
    SWEEP_SECONDS,
)
from sense_memory.nostr.event import KIND_APP_DATA, KIND_DELETION, KIND_DIRECT_MESSAGE
from sense_memory.relay.sync.walk import CROWDED, GAP


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

KINDS: Final = (KIND_DELETION, KIND_APP_DATA, KIND_DIRECT_MESSAGE)  # each is walked by itself
BEGINNING: Final[Mapping[int, tuple[int | None, int, str]]] = dict.fromkeys(KINDS, (None, 0, ""))
_CUT_OFF_COUNT: Final = 2  # connections in a row, before a relay is pulled without a subscription


class RelayQuestion(Enum):
    """What a relay can be asked. Every pull is followed by sending what is queued."""

    NOTHING = auto()
    PUSH = auto()  # only send what is queued
    NEWER = auto()  # events dated after the newest event seen; RECENT if none was seen
    RECENT = auto()  # events dated since the cursor
    COMPARE = auto()  # compare everything (NIP-77); RECENT if the relay does not compare
    SWEEP = auto()  # everything, and send missing events again: a user asks for it

    @property
    def pulls(self) -> bool:
        """Whether the relay is asked for events."""
        return self not in {RelayQuestion.NOTHING, RelayQuestion.PUSH}


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What a run over a connection does.

    Attributes:
        question: what the relay is asked; queued events are sent afterwards.
        offline_first: whether to send to a relay that never completed a pull.
    """

    question: RelayQuestion = RelayQuestion.COMPARE
    offline_first: bool = False


# ── The background ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a question, as far as the next question depends on it.

    Attributes:
        question: what was asked.
        failed: whether the report names a problem.
        complete: whether the relay showed everything it was asked for.
        cut_off: whether the relay hung up in the middle.
        leaves_queued: whether events that could be sent are still queued.
        in_vain: known events that the pull fetched again.
        new: new events that the pull fetched.
    """

    question: RelayQuestion
    failed: bool = False
    complete: bool = True
    cut_off: bool = False
    leaves_queued: bool = False
    in_vain: int = 0
    new: int = 0


class Agenda:
    """The next question to one relay. Times are seconds of one clock that never goes back.

    Attributes:
        pull_is_due: whether a pull is due now, because a subscription has to begin with a pull.
    """

    def __init__(self) -> None:
        self.pull_is_due = False
        self._cut_off = 0  # connections in a row that achieved only a subscription
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Begin to follow the relay, perhaps again: a pull is due at once, and compares everything."""
        self._next_pull, self._idle_until = now, now
        self._whole_due = 0.0  # when the overlap is fetched again
        self._vain_pulls = 0  # whole pulls in a row that brought nothing new
        self._compares, self._sends_first = True, False

    def next_question(
        self, now: float, *, rest_ends: float = 0.0, unheard: bool = False
    ) -> tuple[RelayQuestion, float]:
        """The next question; NOTHING comes with the time at which to ask again.

        Args:
            now: seconds.
            rest_ends: until when the relay is left alone, because dialling it failed or it hung up.
            unheard: whether a subscription is wanted and not open, so that events may have been missed.
        """
        idle_until = rest_ends if now < rest_ends else self._idle_until
        if now < idle_until:
            return RelayQuestion.NOTHING, idle_until
        self._compares |= unheard
        if self._sends_first or not (self.pull_is_due or now >= self._next_pull):
            return RelayQuestion.PUSH, now
        if self._compares:
            return RelayQuestion.COMPARE, now
        return (RelayQuestion.RECENT if now >= self._whole_due else RelayQuestion.NEWER), now

    def wake(self) -> None:
        """Let `next_question` be asked now: an event was written, or the relay works again."""
        self._idle_until = 0.0

    def ended(self, now: float, done: Round) -> None:
        """A round is over. After repeatedly cut-off pulls, the relay gets the queued events before the next pull."""
        self._idle_until = now + POLL_SECONDS
        self._sends_first = done.question.pulls and done.cut_off and done.leaves_queued
        if not done.question.pulls or done.failed:
            return
        self._compares = False
        self._next_pull = now + (BACKGROUND_SECONDS if done.complete else INCOMPLETE_SECONDS)
        if done.question is not RelayQuestion.NEWER:
            self._vain_pulls = 0 if done.new else min(self._vain_pulls + 1, MAX_PAUSE_DOUBLINGS_COUNT)
            self._whole_due = now + done.in_vain * KNOWN_EVENT_PAUSE_SECONDS * 2**self._vain_pulls

    # ── Subscriptions ───────────────────────────────────────────────────────────────────

    @property
    def may_subscribe(self) -> bool:
        """Whether a pull may begin with a subscription: not while connections achieve only a subscription."""
        return self._cut_off < _CUT_OFF_COUNT

    def connection_used(self, *, cut_off: bool, only_subscribed: bool) -> None:
        """A run over a connection ended; `only_subscribed` if the run achieved only a subscription."""
        if not cut_off:
            self._cut_off = 0
        elif only_subscribed:
            self._cut_off += 1

    def subscription_ended(self, seconds: float, *, is_connected: bool) -> None:
        """A subscription ended after `seconds`. After an early end on a live connection the next try has to wait."""
        self.pull_is_due = seconds > BACKGROUND_SECONDS or not is_connected


def after_cut_off(question: RelayQuestion, *, further: bool, complete: bool) -> RelayQuestion:
    """What is left of a question when the relay hung up; NOTHING if trying again at once is useless.

    Args:
        question: what was asked.
        further: whether the run achieved something that the next run builds on.
        complete: whether the run's pull was complete.
    """
    if question.pulls and further and not complete:
        return question
    return RelayQuestion.PUSH if further or question.pulls else RelayQuestion.NOTHING


# ── A pull ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PullState:
    """What is known of a relay when a pull begins. Times are seconds since 1970.

    Attributes:
        now: when the pull begins.
        cursor: where the last complete pull left off, or None.
        swept_at: when the relay last showed everything, or None.
        newest_seen: the latest second of which everything was seen, or 0.
        may_heal: whether lost events may be sent again at once.
        serves_deleted: whether the relay serves events although it accepted their deletion.
        is_forgetful: whether the relay lost events that it had accepted.
        unfinished: the pull that was cut off, or None.
    """

    now: float
    cursor: int | None = None
    swept_at: float | None = None
    newest_seen: int = 0
    may_heal: bool = True
    serves_deleted: bool = False
    is_forgetful: bool = False
    unfinished: PullProgress | None = None


@dataclass(frozen=True, slots=True)
class PullStep:
    """One step of a pull: a comparison, with a walk if the comparison fails; or a walk alone.

    Attributes:
        progress: the walk: how far back it goes, and where it begins.
        compares: whether a comparison is tried first.
        compare_since: only events dated then or later are compared; None for everything.
        heals: whether missing events are sent again at once, rather than after an hour.
        only_newer: whether the step asks only for newer events, and leaves the cursor where it is.
    """

    progress: PullProgress
    compares: bool = False
    compare_since: int | None = None
    heals: bool = False
    only_newer: bool = False

    @property
    def heal_seconds(self) -> float:
        """How long ago a missing event must have been sent, before it is sent again."""
        return 0 if self.heals else HEAL_SECONDS


def first_step(question: RelayQuestion, state: PullState) -> PullStep:
    """How a pull begins.

    Only a walk shows which deleted events a relay still serves, because a comparison takes them for known. A relay that
    loses events is pulled completely; a relay that serves deleted events is walked if everything has to be compared.
    """
    asks_all, sweeps = (
        question in {RelayQuestion.COMPARE, RelayQuestion.SWEEP},
        question is RelayQuestion.SWEEP,
    )
    heals = sweeps or state.may_heal
    looks_again = (asks_all and state.serves_deleted) or ((asks_all or heals) and state.is_forgetful)
    if question is RelayQuestion.NEWER and (newer := _newer(state)) is not None:
        return PullStep(newer, only_newer=True)
    progress = _progress(state, sweeps=sweeps or looks_again)
    compares = progress.walks == BEGINNING and not state.serves_deleted
    return PullStep(progress, compares, None if asks_all else progress.since, heals)


def step_after_losses(step: PullStep, state: PullState, *, missing: int, saw_all: bool) -> PullStep | None:
    """The step after a pull that found events missing: if newest events are gone, all events may be."""
    if not (missing and step.heals) or saw_all:
        return None
    return PullStep(_progress(state, sweeps=True), not state.serves_deleted, None, step.heals)


def step_after_resuming(step: PullStep, state: PullState, as_of: float) -> PullStep | None:
    """The step after a resumed walk, which misses the events that arrived above its start since it was cut off.

    Args:
        step: the walk.
        state: the state of the relay now.
        as_of: the relay has to show everything that reached it until then.
    """
    is_old = as_of - step.progress.begun_at > BACKGROUND_SECONDS
    return PullStep(_progress(state, sweeps=False), heals=step.heals) if is_old else None


def may_compare_after(reasons: Collection[str]) -> bool:
    """Whether a comparison may show what a walk could not: if the walk is incomplete only by `CROWDED` or `GAP`."""
    return bool(reasons) and {CROWDED, GAP}.issuperset(reasons)


def _newer(state: PullState) -> PullProgress | None:
    """The walk over events newer than the newest event seen; None if more has to be asked for."""
    usual = _progress(state, sweeps=False)
    is_known = 0 < state.newest_seen <= usual.begun_at  # false if the clock was set back
    if not is_known or usual.since is None or usual.walks != BEGINNING:
        return None
    return replace(usual, since=state.newest_seen + 1)


def _progress(state: PullState, *, sweeps: bool) -> PullProgress:
    """The walk to make: the walk that was recently cut off, or a new walk."""
    left, now = state.unfinished, state.now
    if (
        left is not None
        and 0 <= now - left.begun_at < RESUME_SECONDS
        and not (sweeps and left.since is not None)
    ):
        return left
    is_swept = state.swept_at is not None and now - state.swept_at <= SWEEP_SECONDS
    return PullProgress(now, state.cursor if is_swept and not sweeps else None, 0, BEGINNING)
