"""Who said a memory decides what it may do: one rule for prompts, contradictions and summaries."""

from __future__ import annotations

import doctest

import pytest

from sense_memory.palace import sources


@pytest.mark.parametrize(
    ("source", "told", "outside", "found_by_tool"),
    [
        ("", True, False, False),
        ("user", True, False, False),
        ("agent", True, False, False),
        ("import", False, False, False),
        ("document:ab12", False, True, False),
        ("tool:browser", False, True, True),
        ("User", False, False, False),
        ("agent:other", False, False, False),
    ],
)
def test_the_table_of_sources_holds(source, told, outside, found_by_tool):
    assert sources.is_told(source) is told
    assert sources.is_from_outside(source) is outside
    assert sources.is_found_by_tool(source) is found_by_tool


def test_the_examples_hold():
    assert doctest.testmod(sources).failed == 0
