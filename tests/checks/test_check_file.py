"""The file of checks, as a person reads it aloud."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.checks import Demand, parsed
from sense_memory.errors import InvalidInput


FILE = """
# What must hold
must not put "sk-" into a prompt
asked "Where does Lisa live?"
  must find "Lisbon" in the first 3
  must not find "Berlin"
  must put "Lis\\"bon" into a prompt
  at most 1,800 tokens
as of 2026-11-01
asked "Who leads?"
  must find "Ada"
as of now
asked "And now?"
  must find "Bo"
"""


def test_a_file_is_read_as_it_is_written():
    first, lisa, ada, now = parsed(FILE)
    assert (first.question, first.expected[0].wanted) == ("", Demand.NOT_PUT)
    assert [one.told for one in lisa.expected] == [
        'must find "Lisbon" in the first 3',
        'must not find "Berlin"',
        'must put "Lis\\"bon" into a prompt',
        "at most 1,800 tokens",
    ]
    assert [one.line for one in lisa.expected] == [5, 6, 7, 8]
    assert (ada.when, now.when) == ("2026-11-01", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no checks"),
        ("# only a comment\nas of now\n", "has no checks"),
        ('asked "a"\nmust be "b"\n', "line 2 cannot be read"),
        ('must find "b"\n', "line 1 needs a question"),
        ('asked "a"\nmust find "b" in the first 11\n', "line 2: look among"),
        ('asked "a"\nmust find ""\n', "line 2: a text must not be empty"),
        ('asked "a"\nat most many tokens\n', "line 2 cannot be read"),
        ('asked "a\n', "line 1 cannot be read"),
    ],
)
def test_a_mistake_is_named_with_its_line(text, said):
    with pytest.raises(InvalidInput, match=said):
        parsed(text)


@given(st.text(min_size=1).filter(lambda text: text.strip() and text.isprintable()))
def test_any_text_can_be_looked_for(text):
    quoted = json.dumps(text, ensure_ascii=False)
    ((check,),) = [parsed(f"asked {quoted}\n  must find {quoted}\n")]
    assert (check.question, check.expected[0].text) == (text, text)


@given(st.text(max_size=200))
def test_whatever_a_file_holds_it_is_read_or_refused(text):
    with suppress(InvalidInput):
        parsed(text)
