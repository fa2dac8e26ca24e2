"""How a persona memory ages: the spec's decay and states, one memory at a time.

This is the readable reference; `palace.catalog` computes the same for a whole palace at once, and a property test
compares the two. Where the prose and the code of the specification differ, its code is followed: connections multiply
the score, and do not lengthen the half-life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sense_memory.limits import (
    ACTIVE_ABOVE,
    CONNECTION_BOOST,
    DAY_SECONDS,
    FADING_FROM,
    FORGOTTEN_FROM,
    MAX_SAFE_INTEGER,
    SUPERSEDED_FACTOR,
)
from sense_memory.models import State


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


def current_relevance(memory: PersonaMemory, now: float) -> float:
    """The relevance of a memory at a time (sense-memory v2, "Decay Function").

    Args:
        memory: a memory whose `relevance` was valid at `last_accessed`.
        now: seconds since 1970; a time before `last_accessed`, by another clock, counts as `last_accessed`.

    Returns:
        0 or more; connections may raise the relevance above 1.
    """
    days = max(0.0, now - memory.last_accessed) / DAY_SECONDS
    decay: float = 0.5 ** (days / memory.halflife_days)
    if memory.superseded_by:
        decay = decay**SUPERSEDED_FACTOR
    boost = 1.0 + len(memory.connections) * CONNECTION_BOOST
    penalty: float = 0.5 ** len(memory.contradicts)
    return memory.relevance * decay * boost * penalty


def state_at(relevance: float) -> State:
    """The state that a current relevance means: above 0.3 active, from 0.1 fading, from 0.01 forgotten."""
    if relevance > ACTIVE_ABOVE:
        return State.ACTIVE
    if relevance >= FADING_FROM:
        return State.FADING
    return State.FORGOTTEN if relevance >= FORGOTTEN_FROM else State.DISSOLVED


def current_state(memory: PersonaMemory, now: float) -> State:
    """The state of a memory at a time (seconds since 1970)."""
    return state_at(current_relevance(memory, now))


def shown(memory: PersonaMemory, now: float) -> PersonaMemory:
    """A memory with its current relevance at a time, the form that callers get."""
    return memory.changed(current_relevance=current_relevance(memory, now))


def revived(memory: PersonaMemory, now: float, times: int = 1) -> PersonaMemory:
    """A memory after `times` recalls by its exact key: relevance 1.0, and that many accesses more."""
    return memory.changed(
        relevance=1.0,
        last_accessed=max(now, memory.last_accessed),
        access_count=min(memory.access_count + times, MAX_SAFE_INTEGER),
        state=current_state(memory.changed(relevance=1.0, last_accessed=now), now),
        dissolved_at=None,
    )
