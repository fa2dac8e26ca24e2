"""Rows of vectors: against plain numpy, whatever was added, replaced and selected before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search import vectors as vectors_module
from sense_memory.search.vectors import VectorRows


def stored(vectors):
    """Vectors in the form in which rows hold them: of length 1, in half precision."""
    wide = np.asarray(vectors, np.float64)
    lengths = np.sqrt((wide * wide).sum(1, keepdims=True))
    return (wide / np.where(lengths, lengths, 1)).astype(np.float32).astype(np.float16).astype(np.float32)


def random_vectors(count, dimension, seed=7):
    return np.random.default_rng(seed).standard_normal((count, dimension))


@pytest.fixture(params=["one block", "many blocks"])
def _blocks(request, monkeypatch):
    """Rows in blocks of four instead of very many."""
    if request.param == "many blocks":
        monkeypatch.setattr(vectors_module, "_PART_ROWS", 4)
        monkeypatch.setattr(vectors_module, "_BLOCK_BYTES", 1)


COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["extend", "extend", "extend_empty", "replace", "select"]),
        st.lists(st.integers(0, 31), min_size=1, max_size=9),
    ),
    max_size=30,
)


@pytest.mark.usefixtures("_blocks")
@given(commands=COMMANDS, dimension=st.sampled_from([1, 3, 64, 70]))
@settings(max_examples=30, deadline=None)
def test_rows_hold_what_plain_numpy_holds_after_any_changes(commands, dimension):
    pool = random_vectors(32, dimension).round(1)
    rows, held = VectorRows(dimension), np.empty((0, dimension), np.float32)
    for command, chosen in commands:
        places = sorted({number % len(held) for number in chosen}) if len(held) else []
        if command == "extend":
            rows.extend(pool[chosen])
            held = np.concatenate([held, stored(pool[chosen])])
        elif command == "extend_empty":
            rows.extend_empty(len(chosen))
            held = np.concatenate([held, np.zeros((len(chosen), dimension), np.float32)])
        elif command == "replace" and places:
            rows.replace(places, pool[chosen][: len(places)])
            held[places] = stored(pool[chosen][: len(places)])
        elif command == "select" and places:
            rows.select(np.array(places[::-1]))
            held = held[places[::-1]]
        assert len(rows) == len(held)
    assert np.array_equal(rows.at(np.arange(len(held))), held)
    (query,) = stored(pool[:1])
    assert rows.similarities(query) == pytest.approx(held @ query, abs=1e-5)


def test_similarities_are_cosines_whatever_the_lengths():
    rows = VectorRows(2)
    rows.extend(np.array([[2, 0], [0, 9], [-1, 0], [1, 1]]))

    found = rows.similarities(np.array([1, 0], np.float32))

    assert found == pytest.approx([1, 0, -1, 0.7071], abs=2e-4)
    assert found.dtype == np.float32


@pytest.mark.usefixtures("_blocks")
def test_a_cosine_does_not_depend_on_the_row():
    """BLAS does not guarantee this: the same text would rank differently after a restart."""
    vectors, (query,) = random_vectors(200, 96), stored(random_vectors(1, 96, seed=5))
    order = np.random.default_rng(3).permutation(200)
    rows, moved = VectorRows(96), VectorRows(96)
    rows.extend(vectors)
    moved.extend(vectors[order])

    assert np.array_equal(rows.similarities(query)[order], moved.similarities(query))


@pytest.mark.usefixtures("_blocks")
def test_rows_can_be_selected_in_another_order():
    vectors = random_vectors(200, 65)
    rows = VectorRows(65)
    rows.extend(vectors)
    rows.select(np.array([150, 3, 77]))
    rows.extend(vectors[:1])
    assert len(rows) == 4
    assert rows.similarities(stored(vectors[77:78])[0]).argmax() == 2
    assert rows.similarities(stored(vectors[:1])[0]).argmax() == 3
