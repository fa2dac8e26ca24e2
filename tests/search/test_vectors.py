"""Vectors by id: every kind against a brute-force oracle, whatever was put, replaced, dropped and reloaded before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.errors import InvalidInput
from sense_memory.search import rows as rows_module
from sense_memory.search import vectors as vectors_module
from sense_memory.search.rows import BitRows, ExactRows
from sense_memory.search.vectors import BitIndex, FlatIndex, VectorIndex, choose, load


KINDS = [FlatIndex, BitIndex]


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


def filled(kind, vectors):
    index = kind(vectors.shape[1])
    index.put_many([f"m{place}" for place in range(len(vectors))], vectors)
    return index


# ── Against the oracle ──────────────────────────────────────────────────────────────────

COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "many", "reload"]),
        st.integers(0, 11),
        st.integers(0, 30),
    ),
    max_size=40,
)


@pytest.fixture(params=["one block", "many blocks"])
def _blocks(request, monkeypatch):
    """Rows in blocks of four instead of very many."""
    if request.param == "many blocks":
        monkeypatch.setattr(rows_module, "_PART_ROWS", 4)
        monkeypatch.setattr(rows_module, "_BLOCK_BYTES", 1)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("kind", KINDS)
@given(commands=COMMANDS, dimension=st.sampled_from([1, 3, 64, 70]), k=st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_it_answers_like_brute_force_after_any_changes(kind, commands, dimension, k):
    pool = random_vectors(32, dimension).round(1)  # rounded, so that some are alike
    index, oracle = kind(dimension), Oracle()
    for command, name, seed in commands:
        ident, vector = f"m{name}", pool[seed]
        if command == "put":
            index.put(ident, vector)
            oracle.put(ident, vector)
        elif command == "drop":
            assert index.drop(ident) == oracle.drop(ident)
        elif command == "many":
            idents = [ident, f"m{name + 1}", ident]
            index.put_many(idents, pool[[seed, 0, 1]])
            for one, row in zip(idents, (seed, 0, 1), strict=True):
                oracle.put(one, pool[row])
        else:
            index = load(index.dump())
        assert len(index) == len(oracle.held)
    for query in pool[:5]:
        assert index.search(query, k).ids == oracle.search(query, k)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_grew_is_the_index_built_at_once(kind, monkeypatch):
    monkeypatch.setattr(rows_module, "RESCORED_COUNT", 40)
    vectors = clustered(900, 96)
    at_once, grown = filled(kind, vectors), kind(96)
    for place in np.random.default_rng(3).permutation(900):
        grown.put(f"gone{place}", vectors[place])
        grown.put(f"m{place}", vectors[-1 - place])
        grown.put(f"m{place}", vectors[place])
        grown.drop(f"gone{place}")
    for query in clustered(30, 96, seed=5):
        one, other = at_once.search(query, 10), grown.search(query, 10)
        assert one.ids == other.ids
        assert np.array_equal(one.similarities, other.similarities)


@pytest.mark.parametrize("kind", KINDS)
def test_most_of_the_nearest_are_found_among_many(kind, monkeypatch):
    """As `exactness` says: all, nearly all, most."""
    monkeypatch.setattr(rows_module, "RESCORED_COUNT", 100)  # of 5,000, as 2,000 are of 100,000
    monkeypatch.setattr(rows_module, "OVERSAMPLED", 10)
    vectors = clustered(5_000, 128)
    index, exact = filled(kind, vectors), filled(FlatIndex, vectors)
    found = [
        len({*index.search(query, 10).ids} & {*exact.search(query, 10).ids})
        for query in vectors[:60] + 0.3 * random_vectors(60, 128)
    ]
    least = {"flat": 1.0, "bits": 0.97}[kind.kind]
    assert np.mean(found) / 10 >= least
    assert index.exactness.split(":")[0] in {"exact", "nearly exact", "approximate"}


@pytest.mark.parametrize("kind", KINDS)
def test_similarities_are_cosines_nearest_first(kind):
    index = kind(2)
    index.put_many(["east", "north", "west", "north-east"], [[2, 0], [0, 9], [-1, 0], [1, 1]])
    found = index.search([5, 0], 4)
    assert found.ids == ["east", "north-east", "north", "west"]
    assert found.similarities == pytest.approx([1, 0.7071, 0, -1], abs=2e-4)
    assert found.similarities.dtype == np.float32
    assert index.search([5, 0], 2).ids == ["east", "north-east"]


# ── One interface ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_vector_index(kind):
    index = kind(3)
    assert isinstance(index, VectorIndex)
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


@pytest.mark.parametrize("kind", KINDS)
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
def test_what_is_no_vector_changes_nothing(kind, wrong):
    index = kind(3)
    index.put("a", [1, 0, 0])
    with pytest.raises(InvalidInput):
        index.put("b", wrong)
    with pytest.raises(InvalidInput):
        index.put_many(["a", "b"], [wrong, [1, 2, 3]] if len(wrong) == 3 else [wrong])
    with pytest.raises(InvalidInput):
        index.search(wrong)
    assert (len(index), index.search([1, 0, 0]).ids) == (1, ["a"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_dump_is_the_index(kind):
    vectors = clustered(300, 40)
    index = filled(kind, vectors)
    for place in range(0, 300, 7):
        index.drop(f"m{place}")
    loaded = load(index.dump())
    assert (type(loaded), len(loaded), loaded.dimension) == (kind, len(index), 40)
    for query in vectors[:20]:
        assert loaded.search(query, 5).ids == index.search(query, 5).ids
    loaded.put("new", vectors[0])
    loaded.put("m1", vectors[5])
    loaded.drop("m2")
    assert "new" in loaded.search(vectors[0], 1).ids
    assert len(loaded) == len(index)
    assert len(load(kind(4).dump())) == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: b"",
        lambda raw: b"nonsense, not a dump at all",
        lambda raw: raw[:-40],
        lambda raw: raw.replace(b'"format":1', b'"format":2'),
        lambda raw: raw.replace(b'"flat"', b'"tree"'),
        lambda raw: raw.replace(b'"m1",', b""),
    ],
)
def test_what_is_no_dump_is_refused(spoil):
    with pytest.raises(ValueError, match="build the index anew"):
        load(spoil(filled(FlatIndex, random_vectors(5, 8)).dump()))


def test_the_kind_is_chosen_by_size():
    assert type(choose(100_000, 384)) is FlatIndex
    assert type(choose(100_001, 384)) is BitIndex


def test_one_that_outgrows_its_kind_becomes_the_next():
    """By way of a dump's content: the same vectors, the other kind."""
    assert vectors_module.FLAT_COUNT == 100_000
    flat = ExactRows(70)
    flat.extend(clustered(500, 70))
    bits = BitRows(70, flat.halves())
    query = unit(clustered(1, 70, seed=9)[0])
    assert np.array_equal(
        np.sort(bits.nearest(query, 500).similarities), np.sort(flat.nearest(query, 500).similarities)
    )


# ── Rows ────────────────────────────────────────────────────────────────────────────────


def test_signs_guess_what_they_do_not_compare(monkeypatch):
    monkeypatch.setattr(rows_module, "RESCORED_COUNT", 50)
    vectors = clustered(2_000, 256)
    exact, bits = ExactRows(256), BitRows(256)
    exact.extend(vectors)
    bits.extend(vectors)
    query = unit(vectors[3])
    right, guessed = exact.similarities(query), bits.similarities(query)
    nearest = np.argsort(-right)[:10]
    assert guessed[nearest] == pytest.approx(right[nearest], abs=1e-6)
    assert np.abs(guessed - right).mean() < 0.08
    assert np.corrcoef(guessed, right)[0, 1] > 0.7


@pytest.mark.parametrize("count", [1, 40, 299])
def test_those_whose_signs_agree_best_are_compared_all_ties_included(monkeypatch, count):
    monkeypatch.setattr(rows_module, "RESCORED_COUNT", count)
    monkeypatch.setattr(rows_module, "OVERSAMPLED", 1)
    vectors = random_vectors(300, 20)
    rows = BitRows(20)
    rows.extend(vectors)
    differing = ((vectors > 0) != (vectors[7] > 0)).sum(1)
    expected = np.flatnonzero(differing <= np.sort(differing)[count - 1])
    assert rows.nearest(unit(vectors[7]), 1).rows.tolist() == expected.tolist()


def test_what_signs_do_compare_is_right_to_single_precision():
    dice = np.random.default_rng(2)
    vectors = dice.standard_normal((300, 24)) * 10.0 ** dice.integers(
        -7, 1, (300, 24)
    )  # down to almost nothing
    rows = BitRows(24)
    rows.extend(vectors)
    query = unit(vectors[5])
    exact = (rows.halves().astype(np.float64) * query).sum(1)
    assert rows.similarities(query) == pytest.approx(exact, abs=1e-7)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("kind", [ExactRows, BitRows])
def test_rows_can_be_kept_in_another_order(kind):
    vectors = random_vectors(200, 65)
    rows = kind(65)
    rows.extend(vectors)
    chosen = np.array([150, 3, 77])
    rows.keep(chosen)
    rows.extend(vectors[:1])
    assert len(rows) == 4
    assert rows.similarities(unit(vectors[77])).argmax() == 2
    assert rows.similarities(unit(vectors[0])).argmax() == 3
