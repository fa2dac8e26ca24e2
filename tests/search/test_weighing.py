"""Searches that leave items out or weigh them down; and where in a text the words of a hit stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import InvalidInput
from sense_memory.search import SearchIndex, SearchItem
from sense_memory.search.found_fields import FoundFields
from sense_memory.search.hits import scope
from sense_memory.search.query import Fields, marked
from sense_memory.search.vocabulary import Vocabulary


WORDS = ["paint", "green", "harbour", "ferry", "tea", "lisa", "bob"]
texts = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=300
)
shares = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=20)


def index_of(items):
    index = SearchIndex()
    index.put_many(SearchItem(f"{number:03}", text, 3_600.0 * number) for number, text in enumerate(items))
    return index


@settings(max_examples=40, deadline=None, derandomize=True)
@given(texts, shares, st.sampled_from(["paint green", "harbour", "tea lisa bob"]), st.integers(1, 20))
def test_factors_find_what_weighing_every_hit_would_find(items, weights, query, limit):
    index = index_of(items)
    factor = {ident: weights[int(ident) % len(weights)] for ident in (f"{n:03}" for n in range(len(items)))}

    found = index.search(query, limit, factors=lambda idents: [factor[ident] for ident in idents])

    everything = index.search(query, 1_000)
    weighed = sorted((-round(hit.score * factor[hit.id], 4), hit.id) for hit in everything if factor[hit.id])
    assert [(-round(hit.score, 4)) for hit in found] == pytest.approx(
        [score for score, _ in weighed[:limit]], abs=2e-4
    )
    for hit in found:
        assert sum(reason.share for reason in hit.why) == pytest.approx(hit.score, abs=1e-3)


def test_not_all_candidates_are_asked_for_their_factors():
    index, asked = index_of(["green"] * 500 + ["paint paint green"] * 20), []

    def factors(idents):
        asked.extend(idents)
        return [1.0] * len(idents)

    assert len(index.search("paint green", 10, factors=factors)) == 10
    assert len(asked) < 200


@settings(max_examples=40, deadline=None, derandomize=True)
@given(texts, st.integers(1, 7))
def test_only_what_is_allowed_is_found_and_all_of_it_can_be(items, nth):
    index = index_of(items)
    found = index.search("paint green harbour", 1_000, only=lambda ident: int(ident) % nth == 0)
    expected = {hit.id for hit in index.search("paint green harbour", 1_000) if int(hit.id) % nth == 0}

    assert {hit.id for hit in found} == expected


def test_what_is_allowed_is_chosen_before_the_best_are():
    index = index_of(
        ["paint paint"] * 3_000 + ["a long text in which somebody once painted among other things"]
    )

    assert [hit.id for hit in index.search("paint", only="3000".__eq__)] == ["3000"]


def test_nothing_is_found_where_nothing_is_allowed_or_everything_weighs_nothing():
    index = index_of(["paint", "green paint"])

    assert index.search("paint", only=lambda ident: False) == []
    assert index.search("paint", factors=lambda idents: [0.0] * len(idents)) == []


# ── Where words stand ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "terms", "shown"),
    [
        ("She painted the harbour.", ["painting"], ["painted"]),
        ("Photos, a photograph; no phone.", ["photo*"], ["Photos", "photograph"]),
        ("The blue boat and the boat.", ["blue boat"], ["blue", "boat", "boat"]),
        ("Zürich and ZÜRICH", ["zurich"], ["Zürich", "ZÜRICH"]),
        ("Geburtstagstorte", ["torte"], ["Geburtstagstorte"]),
        ("京都で抹茶を飲む", ["抹茶"], ["抹茶"]),
        ("Lisa's boat", ["lisa"], ["Lisa's"]),
        ("nothing of it", ["zeppelin"], []),
        ("", ["a"], []),
        ("a.b*c(d", ["b*", "(", ""], ["b"]),
        ("fin\ufb01ne \u0130stanbul ß", ["istanbul"], ["\u0130stanbul"]),
    ],
)
def test_words_are_marked_in_the_forms_in_which_they_stand(text, terms, shown):
    assert [text[start:end] for start, end in marked(text, terms)] == shown


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=4))
def test_marks_lie_within_the_text_in_order_and_apart(text, terms):
    spans = marked(text, terms)

    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))


def test_fields_that_have_a_word_in_any_form_are_named():
    vocabulary = Vocabulary()
    texts = {"key": "painting-lessons", "themes": "art \nharbour", "value": "She paints the Hafenrundfahrt."}
    for text in texts.values():
        vocabulary.add(text)
    fields = Fields(texts, vocabulary)

    assert fields.having("painted") == ("key", "value")
    assert fields.having("harbour") == ("themes",)
    assert fields.having("less*") == ("key",)
    assert fields.having("hafen") == ("value",)
    assert fields.having("zeppelin") == ()


def test_the_index_names_the_fields_of_a_hit_as_its_texts_do():
    texts = {
        "key": "painting-lessons",
        "themes": "art \nharbour",
        "value": "She paints. " + "So it is. " * 90 + "Boats",
    }
    item = SearchItem("a", texts["value"], key=texts["key"], themes=("art", "harbour"))
    index = SearchIndex()
    index.put_many([SearchItem("z", "A lamp."), item, SearchItem("b", "The harbour.")])
    fields = FoundFields(index, "painted four-day harbour")

    for term in ("painted", "harbour", "less*", "boats", "harbour boats", "so it is", "zeppelin", "lamp"):
        assert fields.having("a", term, texts) == Fields(texts, index.vocabulary).having(term), term
    index.drop("a")  # while the search went on
    assert fields.having("a", "painted", texts) == ("key", "value")


def test_a_scope_is_checked():
    assert scope("journal", None, None).within == {"journal"}
    assert scope(["palace", "flat", "journal", "file"], None, None).is_all
    assert not scope(["palace", "flat", "journal", "file"], 3, None).is_all
    assert not scope(["palace", "flat", "journal"], None, None).is_all
    with pytest.raises(InvalidInput, match="palace, journal, flat"):
        scope(["memories"], None, None)
