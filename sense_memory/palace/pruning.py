"""Pruning: what time has done to a palace, as a plan first, and as a report afterwards.

A plan names every memory whose stored state is no longer true, who is seen dissolved for the first time,
who came back, and who has been dissolved for 30 days and is due for deletion; each with its reason. It
changes nothing: whoever carries it out says what was done, and what was refused and why, and gets the
report. A deletion needs a mark that can be trusted: none from the future, and none from before the last
access.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sense_memory.limits import DAY_SECONDS, DISSOLVED_DAYS, MAX_HALFLIFE_DAYS
from sense_memory.models import State
from sense_memory.palace.catalog import STATES, Columns


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sense_memory.models import PersonaMemory

_DAYS: Final = f"{DISSOLVED_DAYS:.0f} days"


class PruneAction(StrEnum):
    """What a step of a plan does to one memory."""

    RESTATE = "restate"  # its state becomes what its relevance means; `dissolved_at` may change with it
    MARK = "mark"  # dissolved all along, seen so for the first time: `dissolved_at` becomes now
    CLEAR = "clear"  # not dissolved: `dissolved_at` becomes None
    DELETE = "delete"  # for good


@dataclass(frozen=True, slots=True)
class PruneStep:
    """What becomes of one memory.

    Attributes:
        memory: as it is.
        action: what is to be done.
        state: what it is to become; of a deletion, dissolved.
        dissolved_at: what that is to become.
        reason: why.
    """

    memory: PersonaMemory
    action: PruneAction
    state: State
    dissolved_at: float | None
    reason: str

    @property
    def path(self) -> str:
        """Of the memory."""
        return self.memory.path

    def applied(self) -> PersonaMemory:
        """The memory as it is to be written; of a deletion, as it was."""
        if self.action is PruneAction.DELETE:
            return self.memory
        return self.memory.changed(state=self.state, dissolved_at=self.dissolved_at)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning would do, memory by memory in the order of their paths.

    Attributes:
        created_at: the moment it was made for, seconds since 1970.
        steps: what to do; a memory has at most one.
        held: dissolved memories that are not deleted: path and why.
    """

    created_at: float
    steps: tuple[PruneStep, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many memories change their state or are deleted: what `persona_prune` returns."""
        return sum(step.action in {PruneAction.RESTATE, PruneAction.DELETE} for step in self.steps)

    @property
    def deletions(self) -> tuple[PruneStep, ...]:
        """The steps that cannot be undone."""
        return tuple(step for step in self.steps if step.action is PruneAction.DELETE)

    @property
    def rewrites(self) -> tuple[PruneStep, ...]:
        """The steps that write a new version."""
        return tuple(step for step in self.steps if step.action is not PruneAction.DELETE)


class PruneOutcome(StrEnum):
    """What became of a step."""

    PLANNED = "planned"  # a dry run
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PruneLine:
    """One memory in a report.

    Attributes:
        path: which.
        action: what was to be done.
        before: the state that was stored.
        after: the state that it has now.
        outcome: what became of it.
        reason: why it was to be done; where it was refused, why it was refused.
    """

    path: str
    action: PruneAction
    before: State
    after: State
    outcome: PruneOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What pruning did, memory by memory in the order of their paths.

    Attributes:
        created_at: when, seconds since 1970.
        lines: what became of each step of the plan.
        held: dissolved memories that are kept: path and why.
    """

    created_at: float
    lines: tuple[PruneLine, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def dry(cls, made: PrunePlan) -> PruneReport:
        """What a plan would do."""
        return cls._of(made, {step.path: (PruneOutcome.PLANNED, step.reason) for step in made.steps})

    @classmethod
    def of(cls, made: PrunePlan, refused: Mapping[str, str]) -> PruneReport:
        """What came of a plan.

        Args:
            made: the plan.
            refused: paths of memories to which nothing was done, and why.
        """
        ends = {step.path: (PruneOutcome.DONE, step.reason) for step in made.steps}
        ends |= {path: (PruneOutcome.REFUSED, why) for path, why in refused.items()}
        return cls._of(made, ends)

    @property
    def count(self) -> int:
        """How many memories changed their state or were deleted."""
        return sum(
            line.outcome is PruneOutcome.DONE and line.action in {PruneAction.RESTATE, PruneAction.DELETE}
            for line in self.lines
        )

    @property
    def refused(self) -> tuple[PruneLine, ...]:
        """What was not done."""
        return tuple(line for line in self.lines if line.outcome is PruneOutcome.REFUSED)

    @property
    def totals(self) -> Mapping[str, int]:
        """How many steps of each kind were planned, done or refused: `{"delete done": 3, …}`."""
        return Counter(f"{line.action} {line.outcome}" for line in self.lines)

    @classmethod
    def _of(cls, made: PrunePlan, ends: Mapping[str, tuple[PruneOutcome, str]]) -> PruneReport:
        lines = tuple(
            PruneLine(step.path, step.action, step.memory.state, step.state, *ends[step.path])
            for step in made.steps
        )
        return cls(made.created_at, lines, made.held)


def plan(memories: Iterable[PersonaMemory], now: float, *, columns: Columns | None = None) -> PrunePlan:
    """What pruning would do now (sense-memory v2, "State Transitions"). Changes nothing.

    Args:
        memories: all of them, each path once, in any order.
        now: seconds since 1970.
        columns: of the same memories in the same order, where the caller has them already.
    """
    everybody = tuple(memories)
    numbers = (Columns.of(everybody) if columns is None else columns).states(now).tolist()
    steps: list[PruneStep] = []
    held: dict[str, str] = {}
    for memory, number in zip(everybody, numbers, strict=True):
        state = STATES[number]
        if state is not State.DISSOLVED:
            step = _alive(memory, state)
        elif (why := _held(memory, now)) is not None:
            held[memory.path] = why
            step = _restated(memory, state, memory.dissolved_at)
        else:
            step = _dissolved(memory, now)
        if step is not None:
            steps.append(step)
    return PrunePlan(now, tuple(sorted(steps, key=lambda step: step.path)), dict(sorted(held.items())))


def _alive(memory: PersonaMemory, state: State) -> PruneStep | None:
    """A memory that is not dissolved: perhaps in another state, perhaps back from being dissolved."""
    if memory.state is state and memory.dissolved_at is not None:
        reason = f"it is {state} again, and no longer counts as dissolved"
        return PruneStep(memory, PruneAction.CLEAR, state, None, reason)
    return _restated(memory, state, None)


def _held(memory: PersonaMemory, now: float) -> str | None:
    """Why a dissolved memory is neither marked nor deleted, or None."""
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return "its half-life says that it shall never go; its links brought it down"
    if memory.dissolved_at is not None and memory.dissolved_at > now:
        return "it was marked by a clock ahead of this one; it is kept until that time and the days after it"
    return None


def _dissolved(memory: PersonaMemory, now: float) -> PruneStep | None:
    """A dissolved memory: seen so for the first time, waiting, or due."""
    since = memory.dissolved_at
    if since is None or since < memory.last_accessed:
        # An older mark is from a life before the last access, kept by a writer that does not know it.
        reason = f"relevance fell below every bound; it is deleted {_DAYS} from now unless it is recalled"
        action = PruneAction.MARK if memory.state is State.DISSOLVED else PruneAction.RESTATE
        return PruneStep(memory, action, State.DISSOLVED, max(now, memory.last_accessed), reason)
    days = (now - since) / DAY_SECONDS
    if days >= DISSOLVED_DAYS:
        reason = f"dissolved for {int(days)} days, {_DAYS} or more"
        return PruneStep(memory, PruneAction.DELETE, State.DISSOLVED, since, reason)
    return _restated(memory, State.DISSOLVED, since)


def _restated(memory: PersonaMemory, state: State, dissolved_at: float | None) -> PruneStep | None:
    if memory.state is state:
        return None
    reason = f"its relevance makes it {state}, it was {memory.state}"
    return PruneStep(memory, PruneAction.RESTATE, state, dissolved_at, reason)
