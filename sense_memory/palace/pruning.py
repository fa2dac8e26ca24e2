"""Pruning: a plan of the changes that decay requires, and the report of what was done. Pure.

A plan has a step, with a reason, for each memory whose stored state is outdated, or that has been dissolved for 30 days
and is due for deletion. The plan changes nothing: the caller carries it out, and makes the report from the refusals.

Guaranteed: no memory is deleted earlier than 30 days after it was marked as dissolved, by the clock of the caller. A mark
(`dissolved_at`) counts only if it is neither in the future nor before the last access, so a recall, and a mark by a
clock that is ahead, delay the deletion. With `keeps_used`, a memory that was ever recalled or used is never deleted: it
stays dissolved. The cost is one pass over the memories.
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
    """What a step of a plan does to a memory."""

    RESTATE = "restate"  # update the stored state, and `dissolved_at` with it
    MARK = "mark"  # set `dissolved_at` of a memory that is stored as dissolved without a valid mark
    CLEAR = "clear"  # set `dissolved_at` to None, because the memory is not dissolved
    DELETE = "delete"  # delete the memory for good


@dataclass(frozen=True, slots=True)
class PruneStep:
    """The step of a plan for one memory.

    Attributes:
        memory: the memory before the step.
        action: what to do.
        state: the new state; dissolved for a deletion.
        dissolved_at: the new value of the field, seconds since 1970; or None.
        reason: why, for people.
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
        """The memory to write; unchanged for a deletion."""
        if self.action is PruneAction.DELETE:
            return self.memory
        return self.memory.changed(state=self.state, dissolved_at=self.dissolved_at)


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The steps of a pruning, in the order of the memories' paths.

    Attributes:
        created_at: the time of the plan, seconds since 1970.
        steps: at most one step for each memory.
        held: why a dissolved memory is kept, by path.
    """

    created_at: float
    steps: tuple[PruneStep, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of memories whose state changes or that are deleted, as `persona_prune` returns it."""
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

    PLANNED = "planned"  # in a dry run
    DONE = "done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PruneLine:
    """One memory in a report.

    Attributes:
        path: the path of the memory.
        action: the planned action.
        before: the stored state.
        after: the new state.
        outcome: whether the step was done.
        reason: why the step was planned; if it was refused, why it was refused.
    """

    path: str
    action: PruneAction
    before: State
    after: State
    outcome: PruneOutcome
    reason: str


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The result of a pruning, in the order of the memories' paths.

    Attributes:
        created_at: the time of the plan, seconds since 1970.
        lines: the outcome of each step of the plan.
        held: why a dissolved memory was kept, by path.
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
            refused: why a step was not done, by path.
        """
        outcomes = {step.path: (PruneOutcome.DONE, step.reason) for step in made.steps}
        outcomes |= {path: (PruneOutcome.REFUSED, why) for path, why in refused.items()}
        return cls._of(made, outcomes)

    @property
    def count(self) -> int:
        """The number of memories whose state changed or that were deleted."""
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
        """The number of steps by action and outcome: `{"delete done": 3, …}`."""
        return Counter(f"{line.action} {line.outcome}" for line in self.lines)

    @classmethod
    def _of(cls, made: PrunePlan, outcomes: Mapping[str, tuple[PruneOutcome, str]]) -> PruneReport:
        lines = tuple(
            PruneLine(step.path, step.action, step.memory.state, step.state, *outcomes[step.path])
            for step in made.steps
        )
        return cls(made.created_at, lines, made.held)


def plan(
    memories: Iterable[PersonaMemory], now: float, *, columns: Columns | None = None, keeps_used: bool = False
) -> PrunePlan:
    """The plan of a pruning at a time (sense-memory v2, "State Transitions"). Changes nothing.

    Args:
        memories: all memories, each path once, in any order.
        now: seconds since 1970.
        columns: the columns of the same memories in the same order; computed if None.
        keeps_used: whether memories with an access are never deleted; the specification deletes them.
    """
    pruned = tuple(memories)
    numbers = (Columns.of(pruned) if columns is None else columns).states(now).tolist()
    steps: list[PruneStep] = []
    held: dict[str, str] = {}
    for memory, number in zip(pruned, numbers, strict=True):
        state = STATES[number]
        if state is not State.DISSOLVED:
            step = _step_of_living(memory, state)
        elif (why := _reason_to_keep(memory, now, keeps_used=keeps_used)) is not None:
            held[memory.path] = why
            step = _restated(memory, state, memory.dissolved_at)
        else:
            step = _step_of_dissolved(memory, now)
        if step is not None:
            steps.append(step)
    return PrunePlan(now, tuple(sorted(steps, key=lambda step: step.path)), dict(sorted(held.items())))


def _step_of_living(memory: PersonaMemory, state: State) -> PruneStep | None:
    """The step for a memory that is not dissolved; None if its stored state is right and it has no mark."""
    if memory.state is state and memory.dissolved_at is not None:
        reason = f"it is {state} again, and no longer counts as dissolved"
        return PruneStep(memory, PruneAction.CLEAR, state, None, reason)
    return _restated(memory, state, None)


def _reason_to_keep(memory: PersonaMemory, now: float, *, keeps_used: bool) -> str | None:
    """Why a dissolved memory is neither marked nor deleted; None if it is."""
    if keeps_used and memory.access_count:
        return "it was recalled or used; pruning deletes only what never was"
    if memory.halflife_days >= MAX_HALFLIFE_DAYS:
        return "its half-life is 'never'; it faded only through its links"
    if memory.dissolved_at is not None and memory.dissolved_at > now:
        return "a clock ahead of this one marked the memory; it is kept until 30 days after that mark"
    return None


def _step_of_dissolved(memory: PersonaMemory, now: float) -> PruneStep | None:
    """The step for a dissolved memory: mark it, or delete it 30 days after its mark."""
    since = memory.dissolved_at
    if since is None or since < memory.last_accessed:
        # A mark from before the last access is outdated: a program that does not know the field has kept it.
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
