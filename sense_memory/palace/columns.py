"""How a whole palace ages: `palace.lifecycle`, for all memories at once with numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from sense_memory.limits import (
    ACTIVE_ABOVE,
    CONNECTION_BOOST,
    DAY_SECONDS,
    FADING_FROM,
    FORGOTTEN_FROM,
    SUPERSEDED_FACTOR,
)
from sense_memory.models import State


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sense_memory.models import PersonaMemory

STATES: Final = (State.DISSOLVED, State.FORGOTTEN, State.FADING, State.ACTIVE)  # by the numbers of `states`


@dataclass(frozen=True, slots=True)
class Columns:
    """What decay depends on, one place per memory.

    Attributes:
        last_accessed: seconds since 1970, float64 of shape (n,).
        rates: halvings per second; four times as many where a memory is superseded.
        factors: relevance at the last access times what links make of it.
    """

    last_accessed: NDArray[np.float64]
    rates: NDArray[np.float64]
    factors: NDArray[np.float64]

    @classmethod
    def of(cls, memories: Sequence[PersonaMemory]) -> Self:
        """The columns of some memories, in their order."""
        table = np.array([row(memory) for memory in memories], dtype=np.float64).reshape(-1, 3)
        return cls(*(np.ascontiguousarray(column) for column in table.T))

    def relevances(self, now: float) -> NDArray[np.float64]:
        """Current relevance of each, at a time in seconds since 1970."""
        return relevances_at(now, np.stack((self.last_accessed, self.rates, self.factors)))

    def states(self, now: float) -> NDArray[np.int8]:
        """The state of each at a time, as an index into `STATES`."""
        return states_at(self.relevances(now))


def row(memory: PersonaMemory) -> tuple[float, float, float]:
    """One memory's place in `Columns`: last access, rate, factor."""
    rate = (SUPERSEDED_FACTOR if memory.superseded_by else 1) / (memory.halflife_days * DAY_SECONDS)
    boost = 1.0 + CONNECTION_BOOST * len(memory.connections)
    return memory.last_accessed, rate, memory.relevance * boost * 0.5 ** len(memory.contradicts)


def relevances_at(now: float, table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Current relevances at a time (seconds since 1970), of rows as `row` makes them: shape (3, n)."""
    last_accessed, rates, factors = table
    relevances: NDArray[np.float64] = np.exp2(-np.maximum(0.0, now - last_accessed) * rates) * factors
    return relevances


def states_at(relevances: NDArray[np.float64]) -> NDArray[np.int8]:
    """The states that current relevances mean, as indices into `STATES`."""
    count = (
        (relevances >= FORGOTTEN_FROM).astype(np.int8)
        + (relevances >= FADING_FROM)
        + (relevances > ACTIVE_ABOVE)
    )
    return count.astype(np.int8)
