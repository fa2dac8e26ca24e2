"""Versions that machines wrote without knowing of each other, as one."""

from __future__ import annotations

from itertools import permutations

from sense_memory.mind.files import MirroredFile
from sense_memory.mirror.file_versions import copy_name, united, unknown_to


def version(ident, text, *, deleted=False, at=0.0, name="MEMORY.md", **seen):
    return MirroredFile("app", name, text, deleted, at, ident, seen)


BASE = version("0", "- one\n- two\n", a=1)
ONE = version("1", "- zero\n- one\n- two\n", a=2, at=1)
TWO = version("2", "- one\n- two\n- three\n", a=1, b=1, at=2)


def test_versions_that_do_not_know_each_other_are_merged_from_what_both_knew():
    found = united(TWO, [TWO, ONE, BASE], lambda _: True)

    assert found.file.text == "- zero\n- one\n- two\n- three\n"
    assert found.file.seen == {"a": 2, "b": 1}
    assert found.conflicts == 0


def test_the_result_does_not_depend_on_which_version_counts_or_on_their_order():
    third = version("3", "- one\n- two, really\n", a=1, c=1, at=3)
    texts = {
        united(heads[0], [*heads, BASE], lambda _: True).file.text
        for heads in permutations((ONE, TWO, third))
    }

    assert len({frozenset(text.split("\n")) for text in texts}) == 1


def test_what_the_head_knows_is_not_merged_again():
    head = version("3", "- one\n", a=2, b=1, c=1)

    assert united(head, [head, TWO, ONE, BASE], lambda _: True) is None


def test_machines_that_united_the_same_versions_at_once_have_nothing_left_to_unite():
    """Each knows its own union, and the text of the other's: a line that somebody then takes out does not come back."""
    union = "- zero\n- one\n- two\n- three\n"
    mine, theirs = version("3", union, a=3, b=1), version("4", union, a=2, b=2)
    later = version("5", "- zero\n- one\n- two\n", a=4, b=1)

    assert unknown_to(mine, [mine, theirs, ONE, TWO, BASE]) == []
    assert unknown_to(later, [later, mine, theirs, ONE, TWO, BASE]) == []


def test_a_text_that_somebody_brought_back_is_not_the_old_text():
    """The other machine edited what came between, so its edit and the return meet."""
    between = version("1", "- one\n- two\n- bad\n", a=2)
    back = version("2", BASE.text, a=3, at=1)
    edit = version("3", "- one\n- two\n- bad\n- good\n", a=2, b=1, at=2)

    found = united(edit, [edit, back, between, BASE], lambda _: True)

    assert found.file.text == "- one\n- two\n- good\n"


def test_an_edit_wins_over_a_deletion_and_two_deletions_are_one():
    gone = version("1", BASE.text, deleted=True, a=2)

    assert united(gone, [gone, TWO, BASE], lambda _: True).file.text == TWO.text
    assert not united(TWO, [TWO, gone, BASE], lambda _: True).file.is_deleted
    other = version("3", "x", deleted=True, b=1)
    assert united(gone, [gone, other], lambda _: True) is None


def test_a_union_that_does_not_fit_an_event_keeps_the_other_text_in_a_file_of_its_own():
    found = united(TWO, [TWO, ONE, BASE], lambda _: False)

    assert found.file.text == TWO.text
    assert found.copies == {copy_name("MEMORY.md", ONE.text): ONE.text}


def test_of_a_program_that_keeps_no_vectors_the_later_version_counts():
    head = version("9", "from elsewhere\n", at=9)

    assert united(head, [head, TWO, ONE, BASE], lambda _: True) is None


def test_the_name_of_a_copy_keeps_the_suffix():
    assert copy_name("a/data.json", "x").startswith("a/data.other-")
    assert copy_name("a/data.json", "x").endswith(".json")
    assert copy_name("a.b/NOTES", "x").startswith("a.b/NOTES.other-")
