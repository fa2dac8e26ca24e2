"""Who stands beside whom in a session, and how many there are: against a list that is sorted each time."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory.search import documents
from sense_memory.search.documents import DocumentTable, SearchItem


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop", "look", "reload"]),
        st.sampled_from("abcdefghij"),
        st.sampled_from([None, nan, 0.0, 1.0, 2.0, 90_000.0]),
    ),
    max_size=40,
)


class Plain:
    """The slow one: what was put, by id, in the order in which each came first."""

    def __init__(self):
        self.held = {}

    def put(self, ident, time):
        self.held[ident] = nan if time is None else time

    def sessions(self):
        found = {}
        for ident, time in self.held.items():
            name = "" if isnan(time) else int(time // 86_400)
            found.setdefault(name, []).append((isnan(time), 0 if isnan(time) else time, ident))
        found.pop("", None)
        return [
            [ident for *_, ident in sorted(members, key=lambda member: member[:2])]
            for members in found.values()
        ]


def chains(table):
    """The ids of each session in their order, read from the links in both directions."""
    before, after = table.neighbours()
    sessions, alive = table.column("sessions"), table.column("alive")
    firsts = np.flatnonzero((before < 0) & alive & (sessions >= 0))
    found = []
    for row in firsts.tolist():
        chain = [row]
        while after[chain[-1]] >= 0:
            assert before[after[chain[-1]]] == chain[-1]
            chain.append(int(after[chain[-1]]))
        assert len({int(sessions[member]) for member in chain}) == 1
        assert table.session_sizes[sessions[row]] == len(chain)
        found.append([table.ids[member] for member in chain])
    assert table.session_sizes.sum() == sum(map(len, found))
    return found


@pytest.fixture(params=[1, 64])
def _steps(request, monkeypatch):
    """How far a memory is moved ahead before all are sorted."""
    monkeypatch.setattr(documents, "_STEPS", request.param)


@pytest.mark.usefixtures("_steps")
@given(changes=CHANGES)
@settings(max_examples=40, deadline=None)
def test_neighbours_are_those_of_a_session_sorted_by_time_and_arrival(changes):
    table, plain = DocumentTable(), Plain()
    for change, ident, time in changes:
        if change == "put":
            table.add(SearchItem(ident, "", time), 0)
            plain.put(ident, time)
        elif change == "drop" and ident in plain.held:
            table.drop(ident)
            del plain.held[ident]
        elif change == "look":
            assert sorted(chains(table)) == sorted(plain.sessions())
        elif change == "reload" and len(table):
            alive = np.flatnonzero(table.column("alive"))
            table.select(alive, np.arange(len(alive)))
            names, columns = table.dump()
            table = DocumentTable.load(names, columns)
    assert sorted(chains(table)) == sorted(plain.sessions())


def test_what_changes_or_comes_a_little_late_is_linked_without_sorting_all(monkeypatch):
    table = DocumentTable()
    for number in range(50):
        table.add(SearchItem(str(number), "", float(number)), 0)
    monkeypatch.setattr(DocumentTable, "_sort", lambda self: pytest.fail("all were sorted anew"))
    table.add(SearchItem("7", "", 7.0, "Ann"), 0)
    table.add(SearchItem("late", "", 39.5), 0)
    table.drop("20")
    (chain,) = chains(table)
    assert chain == [str(n) for n in range(40) if n != 20] + ["late"] + [str(n) for n in range(40, 50)]
