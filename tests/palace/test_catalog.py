"""The catalog against a dumb list: whatever comes and goes, it lists, counts and orders the same."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sense_memory.models import PersonaMemory, State
from sense_memory.palace.catalog import Catalog, Columns, Forecast
from sense_memory.palace.lifecycle import current_relevance, current_state


NOW = 1_775_000_000.0
DAY = 86_400.0

names = st.sampled_from("ab")
moves = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "unread", "unread", "drop", "get", "list")),
        names,
        names,
        st.sampled_from("klmn"),
        st.sampled_from([0, 20, 60, 130, 500]),
    ),
    max_size=30,
)


def memory(domain, facet, key, days, **fields):
    """A memory; some are linked, and one of 20 days is superseded by a memory that may not be there."""
    fields = {"connections": ["c"] * (days % 3), "superseded_by": "a/a/k" if days == 20 else None} | fields
    return PersonaMemory(
        domain=domain, facet=facet, key=key, value="x", created_at=NOW - days * DAY, **fields
    )


class Oracle(dict):
    """Memories by path; a mark of a memory counts where the memory that it names is another one, and there."""

    def get(self, path):
        item = super().get(path)
        is_void = item is not None and (item.superseded_by == path or item.superseded_by not in self)
        return item.changed(superseded_by=None) if is_void else item

    def values(self):
        return [self.get(path) for path in self]


def played(deal):
    catalog, oracle = Catalog(), Oracle()
    play(deal, catalog, oracle)
    return catalog, oracle


def play(deal, catalog, oracle):
    for what, domain, facet, key, days in deal:
        item = memory(domain, facet, key, days)
        if what == "put":
            catalog.put(item)
        elif what == "unread":
            catalog.put_unread(domain, facet, key, once(item))
        elif what == "drop":
            catalog.drop(item.path)
            oracle.pop(item.path, None)
        elif what == "get":
            assert catalog.get(item.path) == oracle.get(item.path)
        else:
            catalog.ranked(NOW, domain)
        if what in {"put", "unread"}:
            oracle[item.path] = item


def once(item):
    """A way to read a memory, for one time."""
    left = [item]
    return left.pop


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
    assert {item.path: item for item in catalog} == {path: oracle.get(path) for path in oracle}
    assert catalog.domains() == sorted({item.domain for item in oracle.values()})
    assert catalog.facets("a") == sorted({item.facet for item in oracle.values() if item.domain == "a"})
    assert catalog.named("k") == sorted(item.path for item in oracle.values() if item.key == "k")
    assert {state: n for state, n in catalog.counts_by_state(NOW).items() if n} == Counter(
        current_state(item, NOW) for item in oracle.values()
    )


@given(moves)
def test_columns_and_sums_are_those_of_the_memories(deal):
    catalog, oracle = played(deal)
    lost = memory("z", "z", "lost", 0, conflict_of="z/z/won", connections=())
    catalog.put_unread("z", "z", "lost", once(lost))

    assert catalog.tally() == (
        sum(len(item.connections) for item in oracle.values()),
        sum(item.superseded_by is not None for item in oracle.values()),
        1,
    )
    columns, expected = catalog.columns(), Columns.of(list(catalog))
    for name in ("last_accessed", "rates", "factors"):
        assert getattr(columns, name).tolist() == getattr(expected, name).tolist()


def test_what_is_gone_counts_for_nothing():
    catalog = Catalog()
    catalog.put(memory("a", "a", "k", 20))
    catalog.put_unread("a", "a", "l", once(memory("a", "a", "l", 20, conflict_of="a/a/k")))
    assert catalog.tally() == (4, 1, 1)
    catalog.drop("a/a/k")
    assert catalog.tally() == (2, 0, 1)  # no memory is superseded by one that is gone
    catalog.drop("a/a/l")
    assert (catalog.tally(), len(catalog.columns().rates)) == ((0, 0, 0), 0)


@given(moves, st.lists(st.sampled_from(["a/a/k", "a/b/l", "b/b/m", "nobody"]), unique=True))
def test_several_memories_at_once_are_those_at_their_paths(deal, paths):
    catalog, oracle = played(deal)

    assert sorted(catalog.paths()) == sorted(oracle)
    assert catalog.all_of(paths) == [oracle.get(path) for path in paths if path in oracle]


def test_what_nobody_asks_for_is_not_read():
    read = []
    catalog = Catalog()
    for key in "abc":
        catalog.put_unread(
            "people", "facts", key, lambda key=key: read.append(key) or memory("people", "facts", key, 0)
        )
    catalog.put_unread("self", "facts", "d", lambda: read.append("d") or memory("self", "facts", "d", 0))

    assert (len(catalog), catalog.sizes()) == (4, {"people": {"facts": 3}, "self": {"facts": 1}})
    assert "people/facts/a" in catalog
    assert catalog.named("b") == ["people/facts/b"]
    assert read == []
    assert catalog.get("people/facts/b").key == "b"
    assert len(catalog.ranked(NOW, "people")) == 3
    assert sorted(read) == ["a", "b", "c"]
    assert len(list(catalog)) == 4
    assert sorted(read) == ["a", "b", "c", "d"]


def test_a_key_with_a_slash_in_it_has_its_name():
    """Another program may write one."""
    catalog = Catalog()
    catalog.put(memory("a", "b", "c/d", 0))
    assert (catalog.named("c/d"), catalog.named("d")) == (["a/b/c/d"], [])
    catalog.drop("a/b/c/d")
    assert catalog.named("c/d") == []


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
        catalog.named("k"),
    )
    play(then, catalog, oracle)
    assert catalog.named("k") == sorted(item.path for item in oracle.values() if item.key == "k")
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


def test_a_forecast_counts_the_states_that_each_memory_will_have():
    memories = [memory("a", "f", "k", 0), memory("b", "f", "l", 60), memory("b", "f", "m", 130)]
    times = [NOW, NOW + 90 * DAY]

    found = Forecast.of(memories, times)

    assert found.domains() == {"b": [1, 2], "a": [0]}
    for places in ([0, 1, 2], [1, 2]):
        counts = found.states(places)
        assert list(counts) == ["active", "fading", "forgotten", "dissolved"]
        for number, now in enumerate(times):
            oracle = Counter(current_state(memories[place], now).value for place in places)
            assert {state: int(count[number]) for state, count in counts.items()} == {
                state: oracle[state] for state in counts
            }


def standing(written):
    """The paths whose `superseded_by` counts, found without any index: of a circle all but the newest."""
    marks = {}
    for path, item in written.items():
        names = [*item.contradicts, item.superseded_by] if item.superseded_by else []
        if there := [name for name in names if name in written and name != path]:
            marks[path] = there[-1]
    found = dict(marks)
    for path in marks:
        line = [path]
        while line[-1] in marks and marks[line[-1]] not in line:
            line.append(marks[line[-1]])
        if marks.get(line[-1]) == path and path == max(line, key=lambda one: (written[one].created_at, one)):
            del found[path]
    return found


def test_of_memories_that_supersede_each_other_the_newest_stands_whatever_came_first():
    chance = random.Random(5)
    for _ in range(300):
        catalog, written = Catalog(), {}
        for _ in range(12):
            key, days, other = chance.choice("abcd"), chance.randrange(3), chance.choice("abcd")
            item = memory("x", "f", key, days)
            if chance.random() < 0.8:
                names = dict.fromkeys(f"x/f/{name}" for name in (*chance.sample("abcd", k=2), other))
                names = names if chance.random() < 0.5 else {f"x/f/{other}": None}
                item = item.changed(superseded_by=f"x/f/{other}", contradicts=tuple(names))
            match chance.randrange(5):
                case 0 | 1:
                    catalog.put(item)
                    written[item.path] = item
                case 2 | 3:
                    catalog.put_unread("x", "f", key, once(item))
                    written[item.path] = item
                case _:
                    catalog.drop(item.path)
                    written.pop(item.path, None)
            if chance.random() < 0.3:
                catalog.get(f"x/f/{other}")
        expected = standing(written)
        found = {item.path: item for item in catalog}
        assert {path: one.superseded_by for path, one in found.items() if one.superseded_by} == expected
        assert all(by in found[path].contradicts for path, by in expected.items())
        assert all({*one.contradicts} <= written.keys() - {path} for path, one in found.items())
        assert all(catalog.written(path) == item for path, item in written.items())
        rates, oracle = catalog.columns().rates.tolist(), Columns.of(list(catalog)).rates.tolist()
        assert rates == oracle
