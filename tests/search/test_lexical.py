"""The lexical index against a slow reading of the same formula; what changes little by little equals what is built."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search import postings
from sense_memory.search.lexical import LENGTH_SHARE, SATURATION, LexicalIndex
from sense_memory.search.query import Wanted, parse, resolve
from sense_memory.search.tokens import stemmer, words


WORDS = ["cat", "dog", "dogs", "running", "ran", "kitchen", "blue", "2024", "猫が好き", "café", "the"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


@pytest.fixture(params=[1, 10_000], ids=["in bulk", "one by one"], autouse=True)
def _either_way(request, monkeypatch):
    monkeypatch.setattr("sense_memory.search.lexical.BULK_ROWS", request.param)


def index_of(rows):
    index = LexicalIndex()
    index.extend([(text,) for text in rows])
    return index


def scores(index, query):
    wanted = resolve(parse(query), index.vocabulary, is_spread=False)
    return index.totals(index.scored(wanted)).tolist()


def by_hand(rows, query):
    """BM25 as the books have it, row by row."""
    stem = stemmer("english")
    rows = [[stem(word) for word in words(row)] for row in rows]
    full = [row for row in rows if row]
    mean = sum(map(len, full)) / max(1, len(full))
    asked = dict.fromkeys(stem(word) for word in parse(query).words)
    found = []
    for row in rows:
        total, counts = 0.0, Counter(row)
        for word in asked:
            having = sum(word in other for other in full)
            if counts[word]:
                rarity = math.log1p((len(full) - having + 0.5) / (having + 0.5))
                norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * len(row) / mean)
                total += rarity * counts[word] * (SATURATION + 1) / (counts[word] + norm)
        found.append(total)
    return found


@given(
    texts, st.lists(st.sampled_from(["cat", "dog", "run", "kitchens", "blue", "2024", "cafe"]), min_size=1)
)
def test_scores_are_bm25(rows, query):
    query = " ".join(query)
    assert scores(index_of(rows), query) == pytest.approx(by_hand(rows, query), rel=1e-4, abs=1e-6)


@given(texts, texts, st.sets(st.integers(0, 11)), st.sampled_from(WORDS))
def test_rows_that_came_and_went_leave_no_trace_in_the_scores(first, second, dropped, query):
    changed = index_of(first)
    changed.extend([(text,) for text in second])
    gone = {row for row in dropped if row < len(first)}
    for row in gone:
        changed.drop(row)
    left = [text for row, text in enumerate(first + second) if row not in gone]

    kept = [score for row, score in enumerate(scores(changed, query)) if row not in gone]
    assert kept == pytest.approx(scores(index_of(left), query))


@given(texts, st.lists(st.sampled_from(WORDS), min_size=2, max_size=3))
def test_a_phrase_stands_where_its_words_stand_side_by_side(rows, phrase):
    index = index_of(rows)
    stem = stemmer("english")
    asked = [stem(word) for word in words(" ".join(phrase))]
    terms = [index.vocabulary.find(word) for word in words(" ".join(phrase))]
    if len(asked) < 2 or None in terms:
        return
    listing = index.listing(Wanted("", "phrase", tuple(terms), (1.0,) * len(terms)))

    expected = {}
    for row, text in enumerate(rows):
        there = [stem(word) for word in words(text)]
        count = sum(there[at : at + len(asked)] == asked for at in range(len(there)))
        expected |= {row: count} if count else {}
    assert dict(zip(listing.rows.tolist(), listing.counts.tolist(), strict=True)) == expected


@settings(max_examples=30)
@given(texts, texts, st.sampled_from(WORDS))
def test_a_loaded_index_scores_the_same_and_goes_on_growing(first, second, query):
    index = index_of(first)
    loaded = LexicalIndex.load(index.dump())
    assert scores(loaded, query) == scores(index, query)

    for text in second:
        assert loaded.append((text,)) == index.append((text,))
    if first:
        loaded.drop(0)
        index.drop(0)
    assert scores(loaded, query) == scores(index, query)


def test_late_rows_are_folded_in_once_there_are_many(monkeypatch):
    monkeypatch.setattr(postings, "FOLD_ROWS", 10)
    index = LexicalIndex()
    for number in range(25):
        index.append((f"cat number{number}",))
    assert not index.fields[0].needs_folding()
    assert index.listing(Wanted("cat", "word", (0,), (1.0,))).rows.tolist() == list(range(25))


@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"\x02\0\0\0\0\0\0\0{}", b"\x04\0\0\0\0\0\0\0[{}]" + bytes(64)]
)
def test_bytes_that_are_no_dump_are_refused(junk):
    with pytest.raises(ValueError):
        LexicalIndex.load(junk)
