"""The rules of marks, one memory at a time."""

from __future__ import annotations

import pytest

from sense_memory.models import PersonaMemory
from sense_memory.palace.supersession import opponents, reconciled, standing, superseded, without


N = "people/facts/n"


def memory(**fields):
    return PersonaMemory(domain="people", facet="facts", key="k", value="x", created_at=1.0, **fields)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({}, ()),
        ({"contradicts": [N, "a/b/c"], "superseded_by": N}, (N, "a/b/c")),
        ({"contradicts": [N, "a/b/c"], "superseded_by": N, "dismissed": [N]}, ("a/b/c",)),
        ({"superseded_by": N, "dismissed": ["a/b/c"]}, (N,)),
        ({"contradicts": ["n"], "dismissed": [N]}, ()),  # the bare key of another writer
    ],
)
def test_what_is_dismissed_is_no_mark(fields, left):
    assert opponents(standing(memory(**fields))) == left


def test_the_last_word_counts():
    marked = superseded(memory(dismissed=[N]), N)
    assert (marked.contradicts, marked.superseded_by, marked.dismissed) == ((N,), N, ())
    assert superseded(marked, N) == marked
    freed = reconciled(marked, [N])
    assert (freed.contradicts, freed.superseded_by, freed.dismissed) == ((), None, (N,))
    assert reconciled(freed, [N]) == freed


def test_void_names_are_left_out_and_others_stay():
    marked = superseded(superseded(memory(), "a/b/c"), N)
    assert opponents(without(marked, N.__eq__)) == ("a/b/c",)
    assert without(marked, "z/z/z".__eq__) is marked
