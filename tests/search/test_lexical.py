"""The lexical index against a slow reading of the same formula; what changes little by little equals what is built."""

from __future__ import annotations

import math
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search.column import PackedColumn
from sense_memory.search.lexical import LENGTH_SHARE, SATURATION, LexicalIndex, RowText
from sense_memory.search.postings import KEY, NAME, THEMES, VALUE, FieldTerms, Postings
from sense_memory.search.query import Wanted, parse, resolve
from sense_memory.search.tokens import stemmer, words
from sense_memory.search.vocabulary import FORM_BITS


WORDS = ["cat", "dog", "dogs", "running", "ran", "kitchen", "blue", "2024", "猫が好き", "café", "the"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=12)


@pytest.fixture(params=[1, 10_000], ids=["in bulk", "one by one"], autouse=True)
def _either_way(request, monkeypatch):
    monkeypatch.setattr("sense_memory.search.lexical.BULK_ROWS", request.param)


def index_of(rows):
    index = LexicalIndex()
    index.extend([RowText(text) for text in rows])
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
    changed.extend([RowText(text) for text in second])
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
        assert loaded.append(RowText(text)) == index.append(RowText(text))
    if first:
        loaded.drop(0)
        index.drop(0)
    assert scores(loaded, query) == scores(index, query)


def test_a_row_that_comes_alone_never_waits_for_all_others(monkeypatch):
    index = index_of(["cat"] * 20)
    monkeypatch.setattr(Postings, "sort_in", lambda self: pytest.fail("all rows were sorted anew"))
    for number in range(3_000):
        index.append(RowText(f"cat number{number}"))
    assert index.listing(Wanted("cat", "word", (0,), (1.0,))).rows.tolist() == list(range(3_020))


def test_few_rows_are_listed_one_by_one_and_many_sorted_at_once(monkeypatch):
    sorts = []
    monkeypatch.setattr("sense_memory.search.lexical.BULK_ROWS", 5)
    monkeypatch.setattr("sense_memory.search.lexical.BULK_SHARE", 0.5)
    monkeypatch.setattr(Postings, "sort_in", lambda self: sorts.append(len(self)))
    index = LexicalIndex()
    for count in (4, 20, 16, 40):  # of 4, 24 and 40 that are there, half and five more are 7, 17 and 25
        index.extend([RowText("cat")] * count)
    assert sorts == [24, 80]


def plain(term):
    """The code of a term in its plain form."""
    return term << FORM_BITS


@pytest.mark.parametrize("seed", range(4))
def test_every_listing_is_right_however_rows_came_and_went(seed):
    dice = random.Random(seed)
    postings, held = Postings(), {}
    for number in range(700):
        rows = [
            (
                [plain(int(40 * dice.random() ** 3)) for _ in range(dice.randrange(12))],
                [*map(plain, dice.sample(range(45), 2))],
                [],
            )
            for _ in range(dice.choice((1, 1, 1, 5)))
        ]
        if dice.random() < 0.01:
            rows[0][0].extend([plain(3)] * 400)
        held |= {
            len(postings) + place: terms + asides for place, (terms, asides, _) in enumerate(rows) if terms
        }
        if dice.random() < 0.01:
            postings.extend(rows)
            postings.sort_in()
        else:
            for terms, asides, _ in rows:
                postings.append(terms, asides if terms else ())
        if dice.random() < 0.2 and held:
            gone = dice.choice([*held])
            postings.drop(gone)
            del held[gone]
        if number % 200 == 150:
            postings = Postings.load(postings.dump())

    for term in range(46):
        listing = postings.listing(term)
        counts = {
            row: min(255, codes.count(plain(term))) for row, codes in held.items() if plain(term) in codes
        }
        assert dict(zip(listing.rows.tolist(), listing.counts.tolist(), strict=True)) == counts
        assert listing.rows.tolist() == sorted(counts)


def test_rows_that_are_too_many_to_be_sorted_at_once_are_listed_as_if_they_were():
    """Some 2 ** 18 terms are sorted at a time; one row may have more."""
    sizes = (100_000, 100_000, 100_000, 0, 600_000, 9, 262_144)
    rows = [[(place * 7 + row) % (900 + row) for place in range(size)] for row, size in enumerate(sizes)]
    postings = Postings()
    postings.extend(
        [([*map(plain, terms)], [plain(950)] if row == 5 else [], []) for row, terms in enumerate(rows)]
    )
    postings.drop(1)
    postings.sort_in()

    rows[1] = []
    rows[5].append(950)
    counts = [Counter(terms) for terms in rows]
    for term in (0, 3, 899, 900, 902, 905, 950, 2_000):
        listing = postings.listing(term)
        expected = {row: min(255, counted[term]) for row, counted in enumerate(counts) if counted[term]}
        assert dict(zip(listing.rows.tolist(), listing.counts.tolist(), strict=True)) == expected
        assert listing.rows.tolist() == sorted(expected)


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_weighed_by_field_and_listings_say_in_which_a_term_stands_and_in_which_forms(seed):
    dice = random.Random(seed)
    postings, held = Postings(), {}

    def some():
        return [dice.randrange(36) for _ in range(dice.randrange(5))]

    for number in range(300):
        row = (some(), some() if dice.random() < 0.3 else [], [])
        if dice.random() < 0.5:
            row[2].extend(FieldTerms(field, some(), some()[:1]) for field in (THEMES, KEY, NAME))
        if dice.random() < 0.5:
            postings.append(*row)
        else:
            postings.extend([row])
            postings.sort_in()
        if not postings.lengths[number]:
            continue
        held[number] = {}
        for field, codes, asides in (FieldTerms(VALUE, *row[:2]), *row[2]):
            for code in (*codes, *asides):
                term, form = divmod(code, 4)
                count, bits = held[number].get(term, (0, 0))
                held[number][term] = (
                    count + (1, 2, 3, 0)[field],
                    bits | 1 << field | (field != NAME) << 4 + form,
                )
        if number % 90 == 80:
            postings = Postings.load(postings.dump())

    for term in range(9):
        rows, counts, fields = (values.tolist() for values in postings.listing(term))
        expected = {row: terms[term] for row, terms in held.items() if term in terms}
        assert dict(zip(rows, zip(counts, fields, strict=True), strict=True)) == expected


@pytest.mark.parametrize("is_read", [False, True])
def test_phrases_are_found_in_what_was_loaded_and_in_what_came_since(is_read):
    """The order of words stays packed until a phrase is asked for, however often the index is kept meanwhile."""

    def phrased(index):
        terms = tuple(map(index.vocabulary.find, ("blue", "kitchen")))
        return index.listing(Wanted("", "phrase", terms, (1.0, 1.0))).rows.tolist()

    index = index_of(["a blue kitchen", "kitchen blue", "", "the blue kitchen of Anna 猫が好き"])
    for text in ("blue cat", "a cat in a blue kitchen", ""):
        index = LexicalIndex.load(index.dump())
        if is_read:
            phrased(index)
        index.append(RowText(text))

    assert phrased(index) == phrased(LexicalIndex.load(index.dump())) == [0, 3, 5]
    index = LexicalIndex.load(LexicalIndex.load(LexicalIndex.load(index.dump()).dump()).dump())
    index.drop(3)
    assert phrased(index) == [0, 5]


def test_a_search_reads_the_order_of_words_while_a_thread_sorts_them():
    """What is loaded is unpacked by whoever reads first, while the other waits."""
    whole = PackedColumn()
    whole.extend(np.arange(300_000))
    packed = whole.packed()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(10):
            column, start = PackedColumn(packed, 300_000), Barrier(2)
            column.extend([7])

            def read(column=column, start=start):
                start.wait(10)
                return column.view[[0, -2, -1]].tolist()

            reads = [threads.submit(read) for _ in range(2)]
            assert [one.result(10) for one in reads] == [[0, 299_999, 7]] * 2


def test_a_loaded_index_knows_the_forms_of_its_words_and_learns_new_ones():
    index = LexicalIndex.load(LexicalIndex.load(index_of(["running cats", "a dog"]).dump()).dump())

    assert index.vocabulary.count == 4
    assert index.vocabulary.find("runs") == index.vocabulary.find("running") == 0
    assert index.vocabulary.find("horse") is None
    index.append(RowText("dogs chase horses"))
    assert index.vocabulary.count == 6
    assert scores(index, "runs") == [pytest.approx(scores(index, "running")[0]), 0, 0]
    assert [score > 0 for score in scores(index, "dog")] == [False, True, True]
    assert LexicalIndex.load(index.dump()).vocabulary.find("horse") == 5


@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"\x02\0\0\0\0\0\0\0{}", b"\x04\0\0\0\0\0\0\0[{}]" + bytes(64)]
)
def test_bytes_that_are_no_dump_are_refused(junk):
    with pytest.raises(ValueError):
        LexicalIndex.load(junk)
