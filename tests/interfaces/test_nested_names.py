"""Nested names and places in the palace: one to one, whatever a name holds."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sense_memory.errors import InvalidAddress
from sense_memory.interfaces.nested_names import nested_name, palace_domain, palace_name
from sense_memory.nostr import address


ANY = st.text(st.characters(exclude_categories=()), max_size=90)
TRICKY = st.sampled_from(
    [
        "flat",
        ".",
        "..",
        "~",
        "a~",
        "%",
        "50%",
        "%4",
        "%2F",
        "%2\n",
        "a.b",
        "a/b",
        " ",
        "\t",
        "\n\u0301",
        "e\u0301",
        "\ud800",
        "x" * 70,
    ]
)
NAME = ANY | TRICKY
LABEL = NAME.filter(bool)


@given(st.lists(LABEL, min_size=1, max_size=5), NAME)
@example(["a", "b" * 70, "c"], "k" * 60)
@example(["A\u0301" * 40], "")
@example(["flat"], "")
def test_every_name_has_a_place_and_is_found_there_again(labels, name):
    place = palace_name(labels, name)

    assert (tuple(labels), name) == nested_name(*place)
    assert place[0] == palace_domain(labels[0])
    if len(place[2]) > 256:  # the only reason for which a name cannot be kept
        with pytest.raises(InvalidAddress):
            address.persona_path(*place)
    else:
        assert "persona/" + "/".join(place) == address.persona_path(*place)  # nothing was normalised away


@given(*[st.text(st.characters(exclude_characters="/"), min_size=1, max_size=70) | TRICKY] * 3)
@example("people", "facts", "lisa")
@example("misc~", "facts", "lisa")
def test_a_place_has_at_most_one_name(domain, facet, key):
    found = nested_name(domain, facet, key)

    assert found is None or (domain, facet, key) == palace_name(*found)


@pytest.mark.parametrize(
    ("labels", "name", "place"),
    [
        (["people", "facts"], "lisa", "people/facts/lisa"),
        (["people"], "notes.md", "people/./notes.md"),
        (["users", "1", "memories"], "m", "users/1.memories/m"),
        (["users", "v1.2"], "m", "users/v1%2E2/m"),
        (["flat"], "50%", "%66lat/./50%"),
        (["a", "b"], "x~y", "a/b/x~y"),
        (["a", "b"], "%41", "a/b/%2541"),
        (["a"], "", "a/./%"),
        (["a"], "%", "a/./%25"),
        (["a", "x" * 70], "k", f"a/{'x' * 63}~/{'x' * 7}~k"),
    ],
)
def test_names_as_they_look(labels, name, place):
    assert place == "/".join(palace_name(labels, name))


@pytest.mark.parametrize("place", ["a/b..c/k", "misc~/b/k", "a/b~c/k", "a/%FF/k", "a/%66/k", "a/b/100%25"])
def test_what_others_wrote_under_a_name_that_no_nested_name_leads_to_has_none(place):
    assert nested_name(*place.split("/")) is None
