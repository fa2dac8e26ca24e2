"""Who stands beside whom in a session, and how many there are: against a list that is sorted each time."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search import documents as shelf_module
from sense_memory.search.documents import SearchItem, Shelf


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "look", "reload"]),
        st.sampled_from("abcdefghij"),
        st.sampled_from([None, nan, 0.0, 1.0, 2.0, 90_000.0]),
        st.sampled_from(["", "s", "t"]),
    ),
    max_size=40,
)


class Plain:
    """The slow one: what was put, by id, in the order in which each came first."""

    def __init__(self):
        self.held = {}

    def put(self, ident, time, session):
        self.held[ident] = (nan if time is None else time, session or ("" if time is None else f"{time:.0f}"))

    def sessions(self):
        found = {}
        for ident, (time, session) in self.held.items():
            name = session if session in {"s", "t"} else "" if isnan(time) else int(time // 86_400)
            found.setdefault(name, []).append((isnan(time), 0 if isnan(time) else time, ident))
        found.pop("", None)
        return [
            [ident for *_, ident in sorted(members, key=lambda member: member[:2])]
            for members in found.values()
        ]


def chains(shelf):
    """The ids of each session in their order, read from the links in both directions."""
    before, after = shelf.neighbours()
    sessions, alive = shelf.column("sessions"), shelf.column("alive")
    firsts = np.flatnonzero((before < 0) & alive & (sessions >= 0))
    found = []
    for row in firsts.tolist():
        chain = [row]
        while after[chain[-1]] >= 0:
            assert before[after[chain[-1]]] == chain[-1]
            chain.append(int(after[chain[-1]]))
        assert len({int(sessions[member]) for member in chain}) == 1
        assert shelf.session_sizes[sessions[row]] == len(chain)
        found.append([shelf.ids[member] for member in chain])
    assert shelf.session_sizes.sum() == sum(map(len, found))
    return found


@pytest.fixture(params=[1, 64])
def _steps(request, monkeypatch):
    """How far a memory is moved ahead before all are sorted."""
    monkeypatch.setattr(shelf_module, "_STEPS", request.param)


@pytest.mark.usefixtures("_steps")
@given(changes=CHANGES)
@settings(max_examples=150, deadline=None)
def test_neighbours_are_those_of_a_session_sorted_by_time_and_arrival(changes):
    shelf, plain = Shelf(), Plain()
    for change, ident, time, session in changes:
        if change == "put":
            shelf.put(SearchItem(ident, "", time, session), 0)
            plain.put(ident, time, session)
        elif change == "drop" and ident in plain.held:
            shelf.drop(ident)
            del plain.held[ident]
        elif change == "look":
            assert sorted(chains(shelf)) == sorted(plain.sessions())
        elif change == "reload" and len(shelf):
            alive = np.flatnonzero(shelf.column("alive"))
            shelf.keep(alive, np.arange(len(alive)))
            names, columns = shelf.dump()
            shelf = Shelf.load(names, columns)
    assert sorted(chains(shelf)) == sorted(plain.sessions())


def test_what_changes_or_comes_a_little_late_is_linked_without_sorting_all(monkeypatch):
    shelf = Shelf()
    for number in range(50):
        shelf.put(SearchItem(str(number), "", float(number), "s"), 0)
    monkeypatch.setattr(Shelf, "_sort", lambda self: pytest.fail("all were sorted anew"))
    shelf.put(SearchItem("7", "", 7.0, "s", "Ann"), 0)
    shelf.put(SearchItem("late", "", 39.5, "s"), 0)
    shelf.drop("20")
    (chain,) = chains(shelf)
    assert chain == [str(n) for n in range(40) if n != 20] + ["late"] + [str(n) for n in range(40, 50)]
