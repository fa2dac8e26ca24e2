"""Pruning: the plan of what decay requires for a palace, and the report of what was done.

A plan lists each memory whose stored state is outdated, that is newly dissolved, that came back, or that has been
dissolved for 30 days and is due for deletion, with the reason. The plan changes nothing; the caller carries it out and
makes the report from what was refused. A deletion needs a trustworthy mark (`dissolved_at`): not in the future, and
not before the last access.
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
    """The effect of a step of a plan on a memory."""

    RESTATE = "restate"  # the stored state is updated, perhaps with `dissolved_at`
    MARK = "mark"  # stored as dissolved, without a valid mark: `dissolved_at` becomes now
    CLEAR = "clear"  # not dissolved: `dissolved_at` becomes None
    DELETE = "delete"  # for good


@dataclass(frozen=True, slots=True)
class PruneStep:
    """The step of a plan for one memory.

    Attributes:
        memory: the memory as it is.
        action: what to do.
        state: the new state; for a deletion, dissolved.
        dissolved_at: the new value of that field.
        reason: why.
    """

    memory: PersonaMemory
    action: PruneAction
    state: State
    dissolved_at: float | None
    reason: str

    @property
    def path(self) -> str:
        """The path of the memory."""
        return self.memory.path

    def applied(self) -> PersonaMemory:
        """The memory to write; for a deletion, the memory unchanged."""
        if self.action is PruneAction.DELETE:
            return self.memory
        return self.memory.changed(state=self.state, dissolved_at=self.dissolved_at)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning would do, memory by memory in the order of their paths.

    Attributes:
        created_at: the time that the plan is for, seconds since 1970.
        steps: what to do; at most one step for each memory.
        held: by path, why a dissolved memory is not deleted.
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
    """The outcome of a step."""

    PLANNED = "planned"  # a dry run
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PruneLine:
    """One memory in a report.

    Attributes:
        path: the path of the memory.
        action: what was to be done.
        before: the stored state.
        after: the new state.
        outcome: whether the step was done.
        reason: why the step was planned, or why it was refused.
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
        created_at: the time of the plan, seconds since 1970.
        lines: the outcome of each step of the plan.
        held: by path, why a dissolved memory was not deleted.
    """

    created_at: float
    lines: tuple[PruneLine, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def dry(cls, made: PrunePlan) -> PruneReport:
        """The report of a dry run."""
        return cls._of(made, {step.path: (PruneOutcome.PLANNED, step.reason) for step in made.steps})

    @classmethod
    def of(cls, made: PrunePlan, refused: Mapping[str, str]) -> PruneReport:
        """The report of a plan that was carried out.

        Args:
            made: the plan.
            refused: by path, why a step was not done.
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
        """The steps that were not done."""
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
        memories: all memories, each path once, in any order.
        now: seconds since 1970.
        columns: the columns of the same memories in the same order; computed if None.
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
    """The step for a memory that is not dissolved, if its stored state or its mark is outdated."""
    if memory.state is state and memory.dissolved_at is not None:
        reason = f"it is {state} again, and no longer counts as dissolved"
        return PruneStep(memory, PruneAction.CLEAR, state, None, reason)
    return _restated(memory, state, None)


def _held(memory: PersonaMemory, now: float) -> str | None:
    """Why a dissolved memory is neither marked nor deleted, or None."""
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return "its half-life means never; only its links made it fade"
    if memory.dissolved_at is not None and memory.dissolved_at > now:
        return "a clock ahead of this one marked the memory; it is kept until 30 days after that mark"
    return None


def _dissolved(memory: PersonaMemory, now: float) -> PruneStep | None:
    """The step for a dissolved memory: mark it, wait, or delete it."""
    since = memory.dissolved_at
    if since is None or since < memory.last_accessed:
        # A mark older than the last access is outdated: a writer that does not know the field kept it.
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
