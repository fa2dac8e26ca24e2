import doctest
import json
from itertools import combinations
from pathlib import Path

import pytest

from sense_memory import PersonaMemory
from sense_memory.palace import ClaimIndex, compare
from sense_memory.palace.contradictions import suspicion
from sense_memory.palace.contradictions.suspicion import Note, suspected


CORPORA = Path(__file__).parents[1]
BY_AUTHOR = [
    json.loads(line)
    for line in (CORPORA / "contradictions_by_author.jsonl").read_text(encoding="utf-8").splitlines()
]
ABOUT_LISA = """lives in Graz/works at a bakery/plays the violin/is allergic to nuts/has two brothers/likes hiking/drives
an old van/speaks Polish/was born in May/is learning to swim/prefers short answers/reads novels at night/pays 900 euros of
rent/is married to Tom/wants a dog/is a nurse/rides a bike to work""".replace("\n", " ").split("/")


def judged(pair):
    old, new = (
        PersonaMemory(domain="people", facet="facts", key=key, value=value, created_at=float(at))
        for at, (key, value) in enumerate((pair["old"], pair["new"]), 1)
    )
    return compare(old, new)


def test_the_examples_hold():
    results = doctest.testmod(suspicion)

    assert results.attempted > 4
    assert results.failed == 0


def test_of_the_pairs_by_authors_who_did_not_know_the_rules_most_are_found_and_none_acts_wrongly():
    verdicts = [
        (pair["label"] == "contradiction", judged(pair)) for pair in BY_AUTHOR if pair["half"] == "held"
    ]

    opposed = [verdict is not None for is_opposed, verdict in verdicts if is_opposed]
    others = [verdict for is_opposed, verdict in verdicts if not is_opposed]
    assert sum(opposed) >= 0.62 * len(opposed)
    assert sum(verdict is not None for verdict in others) <= 0.07 * len(others)
    assert not [verdict for verdict in others if verdict and verdict.acts]


@pytest.mark.parametrize(
    ("new", "ended"),
    [
        ("Lisa sold her bike", ["rides a bike to work"]),
        ("Lisa quit smoking", []),
        ("Lisa finally repaired the van", ["drives an old van"]),
        ("Lisa left the party early", []),
    ],
)
def test_what_shares_a_name_only_is_never_suspected(new, ended):
    claims = ClaimIndex()
    for at, told in enumerate(ABOUT_LISA):
        claims.put(
            PersonaMemory(
                domain="people", facet="lisa", key=f"k{at}", value=f"Lisa {told}", created_at=1.0 + at
            )
        )

    found = claims.check(PersonaMemory(domain="people", facet="lisa", key="new", value=new, created_at=99.0))

    assert [ABOUT_LISA[int(each.old.rpartition("k")[2])] for each in found] == ended
    assert not [each for each in found if each.acts]


def test_notes_that_say_nothing_new_of_anything_are_never_suspected():
    notes = [Note.of(f"Lisa {told}") for told in ABOUT_LISA]

    assert not [pair for pair in combinations(notes, 2) if suspected(*pair)]


@pytest.mark.parametrize(
    "text", ["", " ", "…", "?!", "- - -", "\u0000", "a" * 5_000, "no " * 400, "15 " * 300, "ist ja gut"]
)
def test_any_text_is_read(text):
    odd, plain = Note.of(text), Note.of("Lisa no longer teaches Latin")

    assert suspected(odd, plain) in {True, False}
    assert suspected(plain, odd) in {True, False}
