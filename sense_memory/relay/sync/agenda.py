"""The agenda of one relay: this module alone decides what the relay is asked next. No I/O, no clock, no ledger.

A relay is asked one `RelayQuestion` at a time. `Agenda` picks the background's next question, `first_step` and the steps
after it divide a pull into comparisons and walks, and `after_cut_off` says what is left of a question when the relay
hung up. The link, the puller and the live subscription carry out these decisions and report what happened.

What is guaranteed: every event that a relay serves is seen within a day, whatever the event's date. A new relay, and a
relay whose subscription was interrupted, is compared completely, because events that arrived meanwhile may have old
dates. Each later pull asks for events dated since the cursor, which lies two hours before the newest event seen
(`CURSOR_OVERLAP_SECONDS`), because an event may reach a relay that long after its date. Once a day a sweep asks for
everything.

Why it is safe to ask for less: only a complete pull moves the cursor. After a burst, the two hours contain thousands of
known events, and each pull would fetch all of them again. Between two pulls from the cursor, pulls therefore ask only
for events newer than the newest event seen. Such a pull moves no cursor, so the next pull from the cursor still finds a
late event.

What it costs: the next pull from the cursor is delayed by up to a second for each known event that the last one fetched
again. A late event waits that long, unless a subscription or a synchronisation that a user asks for brings it at once.
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
from sense_memory.nostr.event import KIND_DIRECT_MESSAGE, KINDS
from sense_memory.relay.sync.walk import CROWDED, GAP, HIDDEN


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Each kind is walked by itself.
BEGINNING: Final[Mapping[int, tuple[int | None, int, str]]] = dict.fromkeys(KINDS, (None, 0, ""))
_CUT_OFF_COUNT: Final = (
    2  # consecutive connections that were cut off, before a relay is pulled without a subscription
)


class RelayQuestion(Enum):
    """A question to a relay. After every pull, queued events are sent."""

    NOTHING = auto()
    PUSH = auto()  # send queued events, and ask for nothing
    NEWER = auto()  # events dated after the newest event seen; RECENT if none was seen
    RECENT = auto()  # events dated since the cursor
    COMPARE = auto()  # compare everything (NIP-77); RECENT if the relay does not compare
    SWEEP = auto()  # walk everything, and send missing events again; only a user asks for this

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
    """The result of a question, as far as the next question depends on the result.

    Attributes:
        question: what was asked.
        failed: whether the report names a problem.
        complete: whether the relay showed everything it was asked for.
        cut_off: whether the relay hung up during the run.
        leaves_queued: whether events that could be sent are still queued.
        refetched: how many known events the pull fetched again.
        new: how many new events the pull fetched.
    """

    question: RelayQuestion
    failed: bool = False
    complete: bool = True
    cut_off: bool = False
    leaves_queued: bool = False
    refetched: int = 0
    new: int = 0


class Agenda:
    """The next question to one relay. Times are seconds of one clock that never goes back.

    Attributes:
        pull_is_due: whether a pull is due now, because a subscription must begin with a pull.
    """

    def __init__(self) -> None:
        self.pull_is_due = False
        self._cut_off_in_row = 0  # consecutive connections that were cut off and achieved only a subscription
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start or restart: a pull that compares everything is due at once."""
        self._next_pull, self._idle_until = now, now
        self._next_from_cursor = 0.0  # when a pull may fetch the overlap again
        self._fruitless_pulls = 0  # consecutive pulls from the cursor that fetched nothing new
        self._compares, self._push_first = True, False

    def next_question(
        self, now: float, *, paused_until: float = 0.0, may_have_missed: bool = False
    ) -> tuple[RelayQuestion, float]:
        """The next question and now; or NOTHING, and the time at which to call again.

        Args:
            now: seconds.
            paused_until: when the relay may be dialled again; 0 if it may be dialled now.
            may_have_missed: whether a wanted subscription is not open, so that events may have been missed.
        """
        idle_until = paused_until if now < paused_until else self._idle_until
        if now < idle_until:
            return RelayQuestion.NOTHING, idle_until
        self._compares |= may_have_missed
        if self._push_first or not (self.pull_is_due or now >= self._next_pull):
            return RelayQuestion.PUSH, now
        if self._compares:
            return RelayQuestion.COMPARE, now
        return (RelayQuestion.RECENT if now >= self._next_from_cursor else RelayQuestion.NEWER), now

    def wake(self) -> None:
        """End the pause between two questions, because an event was written or the relay works again."""
        self._idle_until = 0.0

    def record_round(self, now: float, done: Round) -> None:
        """Record a round. After a pull that was cut off, queued events are sent before the next pull."""
        self._idle_until = now + POLL_SECONDS
        self._push_first = done.question.pulls and done.cut_off and done.leaves_queued
        if not done.question.pulls or done.failed:
            return
        self._compares = False
        self._next_pull = now + (BACKGROUND_SECONDS if done.complete else INCOMPLETE_SECONDS)
        if done.question is not RelayQuestion.NEWER:
            self._fruitless_pulls = (
                0 if done.new else min(self._fruitless_pulls + 1, MAX_PAUSE_DOUBLINGS_COUNT)
            )
            self._next_from_cursor = (
                now + done.refetched * KNOWN_EVENT_PAUSE_SECONDS * 2**self._fruitless_pulls
            )

    # ── Subscriptions ───────────────────────────────────────────────────────────────────

    @property
    def may_subscribe(self) -> bool:
        """Whether a pull may begin with a subscription; False after connections that achieved only a subscription."""
        return self._cut_off_in_row < _CUT_OFF_COUNT

    def record_connection(self, *, cut_off: bool, only_subscribed: bool) -> None:
        """Record a run over a connection.

        Args:
            cut_off: whether the relay hung up during the run.
            only_subscribed: whether a subscription is all that the run achieved.
        """
        if not cut_off:
            self._cut_off_in_row = 0
        elif only_subscribed:
            self._cut_off_in_row += 1

    def record_subscription_end(self, seconds: float, *, is_connected: bool) -> None:
        """Record that a subscription ended after `seconds`.

        A pull is due at once, unless the relay ended the subscription early and stayed connected.
        """
        self.pull_is_due = seconds > BACKGROUND_SECONDS or not is_connected


def after_cut_off(question: RelayQuestion, *, progressed: bool, complete: bool) -> RelayQuestion:
    """What is left of a question when the relay hung up; NOTHING if an immediate retry is useless.

    Args:
        question: what was asked.
        progressed: whether the next run can build on a result of this run.
        complete: whether the run's pull was complete.
    """
    if question.pulls and progressed and not complete:
        return question
    return RelayQuestion.PUSH if progressed or question.pulls else RelayQuestion.NOTHING


# ── A pull ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PullState:
    """What is known of a relay when a pull begins. Times are seconds since 1970.

    Attributes:
        now: when the pull begins.
        cursor: the date from which the next pull asks for events, or None before the first complete pull.
        swept_at: when the relay last showed everything, or None.
        newest_seen: the latest second up to which all events were seen, or 0.
        may_heal: whether lost events may be sent again at once.
        serves_deleted: whether the relay serves events although it accepted their deletion.
        is_forgetful: whether the relay lost events that it had accepted.
        hides_journal: whether the relay hid the journal in the last complete pull.
        unfinished: the position of a walk that was cut off, or None.
    """

    now: float
    cursor: int | None = None
    swept_at: float | None = None
    newest_seen: int = 0
    may_heal: bool = True
    serves_deleted: bool = False
    is_forgetful: bool = False
    hides_journal: bool = False
    unfinished: PullProgress | None = None


@dataclass(frozen=True, slots=True)
class PullStep:
    """One step of a pull: a walk, or a comparison with a walk in case the comparison fails.

    Attributes:
        progress: how far back the walk goes, and where it begins.
        compares: whether a comparison is tried first.
        compare_since: the date from which events are compared, seconds since 1970; None compares all events.
        heals: whether missing events are sent again at once, rather than after an hour.
        only_newer: whether the step asks only for events newer than the newest event seen, and moves no cursor.
        whole_journal: whether entries of any date are asked for, because the relay has hidden the journal so far.
        kinds: the kinds that are walked.
    """

    progress: PullProgress
    compares: bool = False
    compare_since: int | None = None
    heals: bool = False
    only_newer: bool = False
    whole_journal: bool = False
    kinds: tuple[int, ...] = KINDS

    @property
    def heal_seconds(self) -> float:
        """How many seconds after its last sending a missing event is sent again."""
        return 0 if self.heals else HEAL_SECONDS

    def since(self, kind: int) -> int | None:
        """The date from which events of a kind are walked, seconds since 1970; None for events of any date."""
        return None if self.whole_journal and kind == KIND_DIRECT_MESSAGE else self.progress.since


def first_step(question: RelayQuestion, state: PullState) -> PullStep:
    """The first step of a pull.

    A relay that loses events is asked for everything, in the background at most once an hour. Only a walk proves what a
    relay holds, because the result of a comparison is the relay's claim; so a user who asks for everything gets a walk.
    Only a walk shows which deleted events a relay still serves, because a comparison counts them as known; so a relay
    that serves deleted events is walked without a comparison.
    """
    asks_all, sweeps = (
        question in {RelayQuestion.COMPARE, RelayQuestion.SWEEP},
        question is RelayQuestion.SWEEP,
    )
    heals = sweeps or state.may_heal
    walks_all = (asks_all and state.serves_deleted) or ((asks_all or heals) and state.is_forgetful)
    if question is RelayQuestion.NEWER and (newer := _newer(state)) is not None:
        return PullStep(newer, only_newer=True, whole_journal=state.hides_journal)
    progress = _progress(state, sweeps=sweeps or walks_all)
    compares = progress.walks == BEGINNING and not state.serves_deleted and not sweeps
    since = None if asks_all else progress.since
    return PullStep(progress, compares, since, heals, whole_journal=state.hides_journal)


def step_after_losses(step: PullStep, state: PullState, *, lost: bool, saw_all: bool) -> PullStep | None:
    """A second step over all events, if the first covered only recent events and showed that the relay lost some."""
    if not (lost and step.heals) or saw_all:
        return None
    compares, progress = not state.serves_deleted, _progress(state, sweeps=True)
    return PullStep(progress, compares, None, step.heals, whole_journal=state.hides_journal)


def step_after_false_comparison(step: PullStep, state: PullState) -> PullStep:
    """A walk over all events, because the relay did not serve what it claimed to hold in a comparison."""
    return PullStep(_progress(state, sweeps=True), heals=step.heals, whole_journal=state.hides_journal)


def step_after_blind_comparison(step: PullStep, newest: int, *, whole: bool) -> PullStep:
    """A walk over the journal, because the relay did not compare it.

    Args:
        step: the comparison.
        newest: the latest date among the other kinds, seconds since 1970, or 0.
        whole: whether entries of any date are asked for, because more than the recent ones may be missing.
    """
    walks = {KIND_DIRECT_MESSAGE: BEGINNING[KIND_DIRECT_MESSAGE]}
    progress = replace(step.progress, newest=newest, walks=walks)
    whole = step.whole_journal or whole
    return replace(step, progress=progress, compares=False, kinds=(KIND_DIRECT_MESSAGE,), whole_journal=whole)


def step_after_resuming(step: PullStep, state: PullState, as_of: float) -> PullStep | None:
    """A second step after a resumed walk, which misses events that arrived after the walk began.

    Args:
        step: the resumed walk.
        state: the state of the relay now.
        as_of: the relay must show everything that had reached it by this time, seconds since 1970.
    """
    is_old = as_of - step.progress.begun_at > BACKGROUND_SECONDS
    if not is_old:
        return None
    return PullStep(_progress(state, sweeps=False), heals=step.heals, whole_journal=state.hides_journal)


def may_compare_after(reasons: Collection[str]) -> bool:
    """Whether a comparison may complete an incomplete walk: only if all reasons are `CROWDED` or `GAP`.

    A journal that the relay hides stays hidden, and is no obstacle.
    """
    others = set(reasons) - {HIDDEN}
    return bool(others) and others <= {CROWDED, GAP}


def _newer(state: PullState) -> PullProgress | None:
    """The walk over events newer than the newest event seen; None if the pull must ask for more."""
    usual = _progress(state, sweeps=False)
    is_known = 0 < state.newest_seen <= usual.begun_at  # false if the clock was set back
    if not is_known or usual.since is None or usual.walks != BEGINNING:
        return None
    shown = {
        kind: at
        for kind, at in BEGINNING.items()
        if not (state.hides_journal and kind == KIND_DIRECT_MESSAGE)
    }
    return replace(usual, since=state.newest_seen + 1, walks=shown)


def _progress(state: PullState, *, sweeps: bool) -> PullProgress:
    """The walk that was cut off less than `RESUME_SECONDS` ago, or a new walk."""
    left, now = state.unfinished, state.now
    if (
        left is not None
        and 0 <= now - left.begun_at < RESUME_SECONDS
        and not (sweeps and left.since is not None)
    ):
        return left
    is_swept = state.swept_at is not None and now - state.swept_at <= SWEEP_SECONDS
    return PullProgress(now, state.cursor if is_swept and not sweeps else None, 0, BEGINNING)
