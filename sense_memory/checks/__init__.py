"""Tests for a memory: files of expectations, and what a store makes of them now, at an earlier time, and between two writes."""

from __future__ import annotations

from sense_memory.checks.check_file import Check, Expectation, Wanted, parsed
from sense_memory.checks.culprit import Culprit, culprit
from sense_memory.checks.outcomes import Outcome, outcomes
from sense_memory.checks.past_state import PastStates, Write


__all__ = [
    "Check",
    "Culprit",
    "Expectation",
    "Outcome",
    "PastStates",
    "Wanted",
    "Write",
    "culprit",
    "outcomes",
    "parsed",
]
