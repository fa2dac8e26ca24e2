"""Merging of a file that two machines changed: laws, and what a reader of the file sees."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.mirror.sections import sections_of
from sense_memory.mirror.text_merge import FIELD_NOTE, NOTE, merged


LINES = (
    "# Title",
    "## Deploy",
    "- item one",
    "- item two",
    "  more of it",
    "A paragraph.",
    "Another one.",
    "",
    "",
    "```",
    "| a | b |",
    "---",
    "name: x",
    "name: y",
    "description: z",
    "> quoted",
    "<!-- c -->",
    "1. first",
)
ENDS = st.sampled_from(["\n", "\n", "\r\n"])
NAMES = st.sampled_from(["MEMORY.md", "notes.txt", "rules.yaml", "script.py", "log.jsonl", "odd.xyz"])


@st.composite
def texts(draw):
    end = draw(ENDS)
    lines = draw(st.lists(st.sampled_from(LINES), max_size=10))
    text = end.join(lines) + (end if draw(st.booleans()) else "")
    return (("\ufeff" if draw(st.integers(0, 9)) == 0 else "") + text) if text else text


@st.composite
def edited(draw, text):
    """A text with some lines deleted, inserted or replaced."""
    lines = text.split("\n")
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(lines)))
        low = min(place + draw(st.integers(0, 1)), len(lines))
        lines[place:low] = draw(
            st.lists(st.sampled_from((*LINES, "new one", "- new item", "name: new")), max_size=2)
        )
    return "\n".join(lines)


@st.composite
def cases(draw):
    base = draw(texts())
    return base, draw(edited(base)), draw(edited(base)), draw(NAMES)


def words(text):
    """The lines of a text, without the sentences of a merge, comment signs and line ends."""
    lines = (line.strip("\r\ufeff# ") for line in text.split("\n"))
    return Counter(line for line in lines if line and NOTE not in line and FIELD_NOTE not in line)


@given(texts(), NAMES)
def test_the_sections_of_a_text_are_the_text(text, name):
    assert "".join(section.text for section in sections_of(text, name)) == text


@given(cases())
def test_where_one_side_changed_nothing_the_other_side_counts_word_for_word(case):
    base, ours, _, name = case

    assert merged(base, ours, base, name).text == ours
    assert merged(base, base, ours, name).text == ours
    assert merged(base, ours, ours, name).text == ours


@given(cases())
def test_no_line_that_a_side_wrote_is_lost(case):
    base, ours, theirs, name = case
    found = set(words(merged(base, ours, theirs, name).text))

    for side in (ours, theirs):
        assert set(words(side)) - set(words(base)) <= found
    assert set(words(ours)) & set(words(theirs)) <= found


@given(cases())
def test_a_merge_has_the_same_lines_whichever_side_comes_first(case):
    base, ours, theirs, name = case
    one, two = merged(base, ours, theirs, name), merged(base, theirs, ours, name)

    assert set(words(one.text)) == set(words(two.text))
    assert one.conflicts == two.conflicts


@given(cases())
def test_merging_a_side_once_more_adds_nothing(case):
    """A process that was killed between writing the memory and writing the file merges the same file again."""
    base, ours, theirs, name = case
    once = merged(base, ours, theirs, name).text

    assert set(words(merged(base, ours, once, name).text)) == set(words(once))


@pytest.mark.parametrize("name", ["MEMORY.md", "rules.yaml"])
@pytest.mark.parametrize("lines", [["- a", "- b", "- c"] * 100, ["-"] * 20_000])
def test_edits_far_apart_merge_in_a_long_file_whose_lines_are_all_alike(lines, name):
    ours, theirs, both = (list(lines) for _ in range(3))
    ours[10] = both[10] = "- ours"
    theirs[-10] = both[-10] = "- theirs"

    found = merged(*("\n".join(one) for one in (lines, ours, theirs)), name)

    assert (found.text, found.conflicts) == ("\n".join(both), 0)
