"""The pages of the log: which rows count, where new rows go, and what several pages hold together."""

from __future__ import annotations

import pytest

from sense_memory.limits import LOG_PAGE_BYTES, MAX_PLAINTEXT_BYTES
from sense_memory.mind.log_pages import LogPage, LogPages, entry_key, is_row
from sense_memory.nostr import address


PREFIX = f"{address.LOG_PAGES}aaaaaaaa-"


def row(number, size=0, **changed):
    fields = {
        "id": f"{number:020x}",
        "at": 1.0,
        "kind": "k",
        "actor": "a",
        "turn": None,
        "conversation": None,
    }
    return [*(fields | changed).values(), {"text": "x" * size}]


def pages_with(**contents):
    """Pages by the end of their slot, with rows by number."""
    found = LogPages()
    for end, numbers in contents.items():
        page = found.at(f"{PREFIX}{end[1:]}")
        page.unite([row(number) for number in numbers], set(), set())
    return found


def numbers_in(pages, end):
    return [int(key, 16) for key in pages.by_slot[f"{PREFIX}{end}"].entries]


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"id": "x" * 64}, True),
        ({"id": "x" * 65}, False),
        ({"id": ""}, False),
        ({"id": 7}, False),
        ({"at": True}, False),
        ({"at": float("nan")}, False),
        ({"at": 3}, True),
        ({"kind": None}, False),
        ({"actor": 7}, False),
        ({"turn": 7}, True),
        ({"turn": 7.0}, False),
        ({"conversation": "c"}, True),
        ({"conversation": []}, False),
    ],
)
def test_a_row_counts_if_it_is_as_this_program_writes_rows(changed, counts):
    assert is_row(row(1, **changed)) is counts
    assert is_row([*row(1, **changed), "author", "signature"]) is counts


@pytest.mark.parametrize("found", [None, {}, [], row(1)[:6], [*row(1)[:6], "text"], [*row(1), 7]])
def test_no_other_value_is_a_row(found):
    assert not is_row(found)


def test_new_rows_go_to_the_last_page_of_the_device_and_to_new_pages_when_it_is_full():
    pages = pages_with(p1=[1], p2=[2])
    pages.at(f"{address.LOG_PAGES}bbbbbbbb-9")
    half = LOG_PAGE_BYTES // 2 - 200
    changed = pages.place([row(3, half), row(4, half), row(5, half)], "aaaaaaaa", ())
    assert changed == [f"{PREFIX}2", f"{PREFIX}3", f"{PREFIX}3"]
    assert (numbers_in(pages, 2), numbers_in(pages, 3)) == ([2, 3], [4, 5])
    assert [pages.by_slot[f"{PREFIX}{end}"].is_behind for end in (1, 2, 3)] == [False, True, True]


def test_the_first_page_of_a_device_has_the_number_one():
    assert LogPages().place([row(1)], "aaaaaaaa", ()) == [f"{PREFIX}1"]


def test_a_page_dated_ahead_is_left_alone_and_its_number_is_taken():
    pages = pages_with(p1=[1])
    assert pages.place([row(2)], "aaaaaaaa", {f"{PREFIX}1"}) == [f"{PREFIX}2"]
    assert LogPages().place([row(2)], "aaaaaaaa", {f"{PREFIX}4"}) == [f"{PREFIX}5"]


def test_a_number_that_no_device_reaches_is_not_counted_on():
    pages = pages_with(p1=[1])
    pages.at(f"{PREFIX}{'9' * 151}")
    pages.at(f"{PREFIX}{'9' * 12}x")
    assert pages.place([row(2)], "aaaaaaaa", ()) == [f"{PREFIX}1"]


def test_a_removal_is_listed_in_the_last_page_or_in_a_new_one():
    pages = pages_with(p1=[1])
    assert pages.place([], "aaaaaaaa", (), {"gone"}) == [f"{PREFIX}1"]
    assert pages.by_slot[f"{PREFIX}1"].removed == {"gone"}
    assert pages.place([], "aaaaaaaa", {f"{PREFIX}1"}, {"gone"}) == [f"{PREFIX}2"]
    assert pages.by_slot[f"{PREFIX}2"].fields() == {"entries": [], "removed": ["gone"]}


def test_more_removals_than_a_page_can_hold_go_into_several_pages():
    pages, removed = LogPages(), {f"{number:020x}" for number in range(2_000)}
    slots = pages.place([], "aaaaaaaa", (), removed)
    assert set().union(*(pages.at(slot).removed for slot in slots)) == removed
    assert all(pages.at(slot).size() < MAX_PLAINTEXT_BYTES for slot in slots)


def test_versions_of_a_page_unite_and_a_removal_outlives_them():
    page = LogPage()
    assert page.unite([row(1), row(2)], set(), set()) == []
    assert page.unite([row(2, 9), row(3)], {f"{1:020x}"}, set()) == [f"{1:020x}"]
    page.unite([row(1)], set(), {f"{3:020x}"})
    assert page.fields() == {"entries": [row(2)], "removed": [f"{1:020x}"], "moved": [f"{3:020x}"]}
    assert page.is_covered_by([row(2)], page.fields())
    assert not page.is_covered_by([row(2), row(3)], page.fields())
    assert not page.is_covered_by([row(2)], {})
    assert not page.is_covered_by([], page.fields())


def test_a_page_that_grew_too_large_gives_its_newest_rows_away():
    page, half = LogPage(), MAX_PLAINTEXT_BYTES // 2
    page.unite([row(1, half - 400), row(2, half - 400), row(3, half - 400)], set(), set())
    assert page.overflow() == [row(3, half - 400)]
    assert page.moved == {f"{3:020x}"}
    assert page.size() <= MAX_PLAINTEXT_BYTES


def test_rows_that_another_page_holds_are_neither_moved_nor_lost():
    pages, half = pages_with(p1=[3], p2=[]), MAX_PLAINTEXT_BYTES // 2
    pages.at(f"{PREFIX}2").unite([row(number, half - 400) for number in (1, 2, 3, 4)], set(), set())
    assert [entry_key(one) for one in pages.overflow([f"{PREFIX}2"])] == [f"{4:020x}"]


def test_what_only_some_pages_hold():
    pages = pages_with(p1=[1, 2], p2=[2, 3])
    assert pages.only_in({f"{PREFIX}2"}) == [row(3)]
    assert pages.entries(without={f"{PREFIX}2"}) == {f"{1:020x}", f"{2:020x}"}
    assert pages.holding(f"{2:020x}") == {f"{PREFIX}1", f"{PREFIX}2"}
    assert pages.close([f"{PREFIX}2", f"{PREFIX}7"]) == [f"{3:020x}"]
    assert pages.by_slot.keys() == {f"{PREFIX}1"}


def test_an_entry_that_any_page_lists_as_removed_goes_from_every_page():
    pages = pages_with(p1=[1, 2], p2=[2, 3])
    pages.removed.add(f"{2:020x}")
    assert pages.remove_from(list(pages.by_slot)) == [f"{2:020x}"] * 2
    assert (numbers_in(pages, 1), numbers_in(pages, 2)) == ([1], [3])
    assert all(page.is_behind for page in pages.by_slot.values())
    assert pages.remove_from(list(pages.by_slot)) == []


@pytest.mark.parametrize(
    ("ahead", "own", "untaken", "expected"),
    [
        ([], True, [], []),
        ([2], True, [], [3]),  # 2 is in a page that is not ahead
        ([2], False, [], []),  # another ledger takes care of it
        (range(1, 10), True, [], []),  # most pages: the clock may be behind, and relays have them
        (range(1, 10), True, [4], [4]),
        (range(1, 9), True, [], [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_rows_are_stranded_that_only_pages_dated_ahead_hold(ahead, own, untaken, expected):
    pages = pages_with(p1=[1, 2], p2=[2, 3]) if list(ahead) in ([], [2]) else pages_with(
        **{f"p{number}": [number] for number in range(1, 10)}
    )  # fmt: skip
    found, removed = pages.stranded(
        {f"{PREFIX}{end}" for end in ahead}, lambda _: own, lambda: {f"{PREFIX}{end}" for end in untaken}
    )
    assert sorted(int(one[0], 16) for one in found) == expected
    assert removed == set()


def test_removals_are_stranded_that_only_pages_dated_ahead_list():
    pages = pages_with(p1=[], p2=[])
    pages.at(f"{PREFIX}1").removed |= {"everywhere"}
    pages.at(f"{PREFIX}2").removed |= {"everywhere", "only ahead"}
    assert pages.stranded({f"{PREFIX}2"}, lambda _: True, set) == ([], {"only ahead"})
    assert pages.stranded({f"{PREFIX}2"}, lambda _: False, set) == ([], set())


def test_authors_of_one_id_do_not_take_each_others_entries():
    assert entry_key(row(1)) == f"{1:020x}"
    assert len({entry_key([*row(1), author, "signature"]) for author in ("one", "two")}) == 2
