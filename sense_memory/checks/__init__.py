"""Tests for a memory: files of expectations, and what a store makes of them now, at an earlier time, and between two writes."""

from __future__ import annotations

from sense_memory.checks.check_file import Demand, Expectation, MemoryCheck, parsed
from sense_memory.checks.culprit import Culprit, culprit
from sense_memory.checks.outcomes import Outcome, outcomes
from sense_memory.checks.past_state import PastStates, PastWrite


__all__ = [
    "Culprit",
    "Demand",
    "Expectation",
    "MemoryCheck",
    "Outcome",
    "PastStates",
    "PastWrite",
    "culprit",
    "outcomes",
    "parsed",
]
