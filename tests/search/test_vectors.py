"""Vectors by id: against a brute-force oracle, whatever was put, replaced and dropped before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidInput
from sense_memory.search import vectors as vectors_module
from sense_memory.search.vectors import VectorIndex, VectorRows


def unit(vector):
    """A vector as it is kept."""
    wide = np.asarray(vector, np.float64)
    length = np.sqrt((wide * wide).sum())
    return (wide / (length or 1)).astype(np.float32)


class Oracle:
    """The dumb one: a dictionary, and a Python loop over all of it."""

    def __init__(self):
        self.held = {}

    def put(self, ident, vector):
        self.held[ident] = unit(vector).astype(np.float16).astype(np.float64)

    def drop(self, ident):
        return self.held.pop(ident, None) is not None

    def search(self, query, k):
        direction = unit(query).astype(np.float64)
        scored = [(-float((vector * direction).sum()), ident) for ident, vector in self.held.items()]
        return [ident for _, ident in sorted(scored)[:k]]


def random_vectors(count, dimension, seed=7):
    return np.random.default_rng(seed).standard_normal((count, dimension))


def clustered(count, dimension, seed=7):
    """As texts lie: some near each other, not in all directions alike."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((count // 20 + 1, dimension))
    return centres[rng.integers(0, len(centres), count)] + 0.7 * rng.standard_normal((count, dimension))


def filled(vectors):
    index = VectorIndex(vectors.shape[1])
    index.put_many([f"m{place}" for place in range(len(vectors))], vectors)
    return index


# ── Against the oracle ──────────────────────────────────────────────────────────────────

COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "many"]),
        st.integers(0, 11),
        st.integers(0, 30),
    ),
    max_size=40,
)


@pytest.fixture(params=["one block", "many blocks"])
def _blocks(request, monkeypatch):
    """Rows in blocks of four instead of very many."""
    if request.param == "many blocks":
        monkeypatch.setattr(vectors_module, "_PART_ROWS", 4)
        monkeypatch.setattr(vectors_module, "_BLOCK_BYTES", 1)


@pytest.mark.usefixtures("_blocks")
@given(commands=COMMANDS, dimension=st.sampled_from([1, 3, 64, 70]), k=st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_it_answers_like_brute_force_after_any_changes(commands, dimension, k):
    pool = random_vectors(32, dimension).round(1)  # rounded, so that some are alike
    index, oracle = VectorIndex(dimension), Oracle()
    for command, name, seed in commands:
        ident, vector = f"m{name}", pool[seed]
        if command == "put":
            index.put(ident, vector)
            oracle.put(ident, vector)
        elif command == "drop":
            assert index.drop(ident) == oracle.drop(ident)
        else:
            idents = [ident, f"m{name + 1}", ident]
            index.put_many(idents, pool[[seed, 0, 1]])
            for one, row in zip(idents, (seed, 0, 1), strict=True):
                oracle.put(one, pool[row])
        assert len(index) == len(oracle.held)
    for query in pool[:5]:
        assert index.search(query, k).ids == oracle.search(query, k)


@pytest.mark.usefixtures("_blocks")
def test_an_index_that_grew_is_the_index_built_at_once():
    vectors = clustered(900, 96)
    at_once, grown = filled(vectors), VectorIndex(96)
    for place in np.random.default_rng(3).permutation(900):
        grown.put(f"gone{place}", vectors[place])
        grown.put(f"m{place}", vectors[-1 - place])
        grown.put(f"m{place}", vectors[place])
        grown.drop(f"gone{place}")
    for query in clustered(30, 96, seed=5):
        one, other = at_once.search(query, 10), grown.search(query, 10)
        assert one.ids == other.ids
        assert np.array_equal(one.similarities, other.similarities)


def test_similarities_are_cosines_nearest_first():
    index = VectorIndex(2)
    index.put_many(["east", "north", "west", "north-east"], [[2, 0], [0, 9], [-1, 0], [1, 1]])
    found = index.search([5, 0], 4)
    assert found.ids == ["east", "north-east", "north", "west"]
    assert found.similarities == pytest.approx([1, 0.7071, 0, -1], abs=2e-4)
    assert found.similarities.dtype == np.float32
    assert index.search([5, 0], 2).ids == ["east", "north-east"]


# ── One interface ───────────────────────────────────────────────────────────────────────


def test_vectors_come_and_go():
    index = VectorIndex(3)
    assert index.dimension == 3
    assert (len(index), "a" in index, index.drop("a")) == (0, False, False)
    assert index.search([1, 0, 0]).ids == []
    index.put("a", [1, 0, 0])
    index.put("a", [0, 1, 0])
    assert (len(index), "a" in index) == (1, True)
    assert index.search([0, 1, 0], 5).similarities == pytest.approx([1], abs=1e-3)
    assert index.search([0, 1, 0], 0).ids == []
    assert index.drop("a")
    assert (len(index), index.search([0, 1, 0]).ids) == (0, [])
    index.put_many([], [])
    assert len(index) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        [1, 2],
        [1, 2, 3, 4],
        [1, 2, float("nan")],
        [1, 2, float("inf")],
        ["a", "b", "c"],
        [],
        [[1, 2, 3], [1, 2, 3]],
    ],
)
def test_what_is_no_vector_changes_nothing(wrong):
    index = VectorIndex(3)
    index.put("a", [1, 0, 0])
    with pytest.raises(InvalidInput):
        index.put("b", wrong)
    with pytest.raises(InvalidInput):
        index.put_many(["a", "b"], [wrong, [1, 2, 3]] if len(wrong) == 3 else [wrong])
    with pytest.raises(InvalidInput):
        index.search(wrong)
    assert (len(index), index.search([1, 0, 0]).ids) == (1, ["a"])


# ── Rows ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("_blocks")
def test_rows_can_be_kept_in_another_order():
    vectors = random_vectors(200, 65)
    rows = VectorRows(65)
    rows.extend(vectors)
    chosen = np.array([150, 3, 77])
    rows.select(chosen)
    rows.extend(vectors[:1])
    assert len(rows) == 4
    assert rows.similarities(unit(vectors[77])).argmax() == 2
    assert rows.similarities(unit(vectors[0])).argmax() == 3
