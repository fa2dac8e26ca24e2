"""The catalog against a dumb list: whatever comes and goes, it lists, counts and orders the same."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import Catalog
from sense_memory.palace.lifecycle import current_relevance, current_state


NOW = 1_775_000_000.0
DAY = 86_400.0

names = st.sampled_from("ab")
moves = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "put", "drop")),
        names,
        names,
        st.sampled_from("klmn"),
        st.sampled_from([0, 20, 60, 130, 500]),
    ),
    max_size=30,
)


def memory(domain, facet, key, days):
    return PersonaMemory(domain=domain, facet=facet, key=key, value="x", created_at=NOW - days * DAY)


def played(deal):
    catalog, oracle = Catalog(), {}
    for what, domain, facet, key, days in deal:
        item = memory(domain, facet, key, days)
        if what == "put":
            catalog.put(item)
            oracle[item.path] = item
        else:
            catalog.drop(item.path)
            oracle.pop(item.path, None)
    return catalog, oracle


@given(moves, st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, "a", "b"]), st.booleans())
def test_a_listing_is_what_a_dumb_list_would_give(deal, domain, facet, everything):
    catalog, oracle = played(deal)
    expected = sorted(
        (
            item.changed(state=current_state(item, NOW))
            for item in oracle.values()
            if domain in {None, item.domain} and facet in {None, item.facet}
        ),
        key=lambda item: (-current_relevance(item, NOW), item.path),
    )
    if not everything:
        expected = [item for item in expected if item.state in {State.ACTIVE, State.FADING}]

    assert catalog.ranked(NOW, domain, facet, include_forgotten=everything) == expected


@given(moves)
def test_counts_and_names_are_those_of_a_dumb_list(deal):
    catalog, oracle = played(deal)

    assert len(catalog) == len(oracle)
    assert {item.path: item for item in catalog} == oracle
    assert catalog.domains() == sorted({item.domain for item in oracle.values()})
    assert catalog.facets("a") == sorted({item.facet for item in oracle.values() if item.domain == "a"})
    assert catalog.named("k") == sorted(item.path for item in oracle.values() if item.key == "k")
    assert {state: n for state, n in catalog.census(NOW).items() if n} == Counter(
        current_state(item, NOW) for item in oracle.values()
    )


def test_listing_does_not_change_what_was_written():
    catalog = Catalog()
    catalog.put(memory("a", "a", "k", 60))
    (listed,) = catalog.ranked(NOW)

    assert listed.state is State.FADING
    assert catalog.get("a/a/k").state is State.ACTIVE
    assert catalog.ranked(NOW)[0] is listed


@given(moves, moves)
def test_a_listing_that_was_asked_for_before_follows_what_comes_and_goes(first, then):
    catalog, oracle = played(first)
    (
        catalog.ranked(NOW),
        catalog.ranked(NOW, "a"),
        catalog.ranked(NOW, "a", "b"),
        catalog.ranked(NOW, None, "b"),
    )
    for what, domain, facet, key, days in then:
        item = memory(domain, facet, key, days)
        if what == "put":
            catalog.put(item)
            oracle[item.path] = item
        else:
            catalog.drop(item.path)
            oracle.pop(item.path, None)
    fresh = Catalog()
    for item in oracle.values():
        fresh.put(item)

    for where in ((None, None), ("a", None), ("a", "b"), (None, "b")):
        assert catalog.ranked(NOW, *where) == fresh.ranked(NOW, *where)


def test_thousands_fit_and_keep_their_order():
    catalog = Catalog()
    for number in range(3_000):
        catalog.put(memory("a", "a", f"{number:05}", 0))

    assert [item.key for item in catalog.ranked(NOW)] == [f"{number:05}" for number in range(3_000)]
