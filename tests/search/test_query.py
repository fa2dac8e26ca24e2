"""What a question asks for, once the words that only ask are gone."""

from __future__ import annotations

import pytest

from sense_memory.search.query import MAX_WANTED, parse, resolve
from sense_memory.search.vocabulary import Vocabulary


def asked(query, **options):
    return list(parse(query, **options).words)


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("What did you say about the kitchen?", ["kitchen"]),
        ("Was ist der Name meiner Katze?", ["name", "katze"]),
        ("Qual é o nome do meu cachorro?", ["nome", "cachorro"]),
        ("¿Dónde trabaja mi hermana?", ["trabaja", "hermana"]),
        ("Quel est le nom de mon chat ?", ["nom", "chat"]),
        ("ما اسم قطتي", ["اسم", "قطتي"]),
    ],
)
def test_stop_words_go_in_the_language_of_the_question(query, left):
    assert asked(query) == left


def test_a_question_of_nothing_but_stop_words_keeps_them():
    assert asked("to be or not to be") == ["to", "be", "or", "not"]


def test_a_capital_in_the_middle_keeps_a_name():
    assert asked("What did Will cook in May?") == ["will", "cook", "may"]
    assert asked("what will he cook") == ["cook"]
    assert asked("does the US do that") == ["us"]
    assert "will" not in asked("WHAT WILL HE COOK")


def test_names_that_are_matched_elsewhere_go_unless_nothing_is_left():
    assert asked("Where does Lisa's dog live?", ignored={"lisa"}) == ["dog", "live"]
    assert asked("Lisa", ignored={"lisa"}) == ["lisa"]


def test_phrases_and_beginnings_are_seen():
    ask = parse('the "Old Plan" and „zwei Worte“ or photo*')
    assert ask.phrases == (("old", "plan"), ("zwei", "worte"))
    assert ask.beginnings == ("photo",)
    assert "photo" not in ask.words


def test_hiragana_alone_counts_only_where_nothing_else_does():
    assert "です" not in asked("猫の名前は何ですか")
    assert asked("ねこです") == ["ねこ", "こで"]


def test_a_query_has_its_limits():
    assert len(asked(" ".join(f"word{number}" for number in range(500)))) == MAX_WANTED


def terms(vocabulary, query):
    names = list(vocabulary.dump()["terms"].split("\n"))
    return {
        item.label: {names[term]: weight for term, weight in zip(item.terms, item.weights, strict=True)}
        for item in resolve(parse(query), vocabulary)
    }


def test_compounds_are_found_by_their_parts_and_parts_by_their_compound():
    vocabulary = Vocabulary()
    vocabulary.add("Geburtstagskuchen")
    assert terms(vocabulary, "Kuchen") == {"kuchen": {"geburtstagskuchen": 0.5}}
    vocabulary.add("Kuchen")
    assert terms(vocabulary, "Kuchen") == {"kuchen": {"kuchen": 1.0, "geburtstagskuchen": 0.5}}

    parts = Vocabulary()
    parts.add("Geburtstag mit Kuchen")
    assert terms(parts, "Geburtstagskuchen") == {"geburtstagskuchen": {"geburtstag": 0.5, "kuchen": 0.5}}


def test_an_unknown_word_stands_for_those_that_resemble_it():
    vocabulary = Vocabulary()
    vocabulary.add("as corações, photographer")
    assert terms(vocabulary, "coração") == {"coracao": {"coraco": 0.5}}
    assert terms(vocabulary, "photog") == {"photog": {"photograph": 0.5}}
    assert terms(vocabulary, "xylophone") == {}


@pytest.mark.parametrize("query", ["Which weekday is the weekly meeting?", "weekly weekday"])
def test_a_known_word_counts_in_full_beside_an_unknown_word_that_resembles_it(index_of, query):
    index = index_of(
        "The weekly sync is on Tuesdays.", "Viktor will meet the auditors.", "Viktor will meet Ama."
    )

    best, *_ = index.search(query)
    assert (best.id, [reason.detail for reason in best.why]) == ("0", ["weekly"])
