"""Words: the same for what is kept and what is asked, in any script."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.search.tokens import asides, fold, stemmer, words
from sense_memory.search.vocabulary import FORM_BITS, Vocabulary


ENGLISH = stemmer("english")


def stems(text):
    return [ENGLISH(word) for word in words(text)]


def test_case_accents_width_and_apostrophes_are_folded_away():
    assert fold("CAFÉ \uff34okyo Straße it\u2019s") == "cafe tokyo strasse it's"
    assert fold("São João, coração") == "sao joao, coracao"


def test_numbers_times_versions_and_dates_stay_whole():
    assert words("v 2.3.1 at 10:30 for $1,200 on 2024-03-15, 50%") == [
        *["v", "2.3.1", "at", "10:30", "for", "1,200", "on", "2024", "03", "15", "50"]
    ]
    assert stems("1,200 3rd 21st third") == ["1200", "3", "21", "third"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("adopted", "adopting"),
        ("went", "goes"),
        ("bought", "buying"),
        ("kids", "children"),
        ("John's", "john"),
        ("colour", "color"),
        ("two", "2"),
        ("Sept", "September"),
    ],
)
def test_forms_of_one_english_word_have_one_stem(one, other):
    assert stems(one) == stems(other)


def test_arabic_loses_vowel_points_tatweel_and_kinds_of_alef():
    assert words("مِشْمِش إسم قطّة") == words("مشمش اسم قطـة")


def test_russian_is_stemmed_and_yo_is_ye():
    assert stems("ёлка кошками") == stems("елка кошка")


def test_hindi_words_keep_their_vowel_signs():
    assert words("मेरी बिल्ली।") == ["मेरी", "बिल्ली"]


def test_unspaced_scripts_come_in_pairs_and_han_alone_too():
    assert words("猫の名前 cat") == ["猫の", "の名", "名前", "cat"]
    assert asides("猫の名前") == ["猫", "名", "前"]
    assert words("한국어") == ["한국", "국어"]


def test_a_hyphenated_word_is_found_in_one_piece_too():
    assert asides("an e-mail") == ["email"]
    assert asides("plain words") == []


def test_german_is_stemmed_where_it_is_the_language():
    german = stemmer("german")
    assert german("hauser") == german("haus")
    with pytest.raises(KeyError):
        stemmer("klingon")


@given(st.text())
def test_folding_twice_changes_no_word(text):
    assert words(fold(text)) == words(text)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_every_word_of_any_text_has_a_stem(text):
    assert all(stems(text)) or not words(text)


def test_terms_of_ascii_texts_are_those_of_their_words_one_by_one():
    """Known words are looked up without the pattern that cuts words: whatever stands around them, nothing changes."""
    dice = random.Random(4)
    parts = [
        "a",
        "v3.2.1",
        "1,200",
        "10:30",
        "3rd_",
        "3rd",
        "o'clock",
        "rock'n'roll",
        "E-52",
        "e-mail",
        "`x`",
        "_f_",
        "'q'",
        ",1,",
        "..",
        "é",
        "\n",
        "(b)",
        "-c-",
    ]
    vocabulary = Vocabulary()
    for _ in range(3_000):
        text = dice.choice(("", " ", "-")).join(dice.choice(parts) for _ in range(dice.randrange(9)))
        codes, besides = vocabulary.add(text)

        assert [code >> FORM_BITS for code in codes] == [vocabulary.find(word) for word in words(text)]
        assert [code >> FORM_BITS for code in besides] == [vocabulary.find(word) for word in asides(text)]
