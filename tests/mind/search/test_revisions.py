"""A later statement that denies or changes what an earlier one says ranks before it, and nothing else does."""

from __future__ import annotations

import pytest

from sense_memory.mind.model import SummarizeConversation
from sense_memory.mind.rule_model import RuleModel
from sense_memory.mind.search.revisions import Revision, best_revisions, revised, revision
from tests.mind.search.revision_cases import CORRECTIONS, OTHER, QUIET
from tests.mind.test_log import opened


def ranks_before(hits, later, earlier):
    order = [hit.id for hit in hits]
    return later in order and (earlier not in order or order.index(later) < order.index(earlier))


async def searched(cases):
    """For each case the hits for its question, and the ids of the later and the earlier statement."""
    found = []
    async with opened() as store:
        for number, (question, old, new) in enumerate(cases):
            chat = store.mind.conversation(f"c{number}")
            for text in QUIET[:4]:
                await chat.add("user", text)
            earlier = await chat.add("user", old)
            for text in QUIET[4:]:
                await chat.add("user", text)
            later = await chat.add("user", new)
            hits = await store.mind.search(question, 8, conversation=f"c{number}")
            found.append((hits, later.id, earlier.id))
    return found


async def test_a_correction_that_only_denies_or_changes_the_old_value_ranks_before_the_old_statement():
    found = await searched(CORRECTIONS)
    assert sum(ranks_before(*case) for case in found) >= 0.9 * len(CORRECTIONS)
    marked = [hit for hits, later, earlier in found for hit in hits if hit.corrected_by]
    right = sum(hit.id == earlier for hits, _, earlier in found for hit in hits if hit.corrected_by)
    assert right == len(marked) >= 0.6 * len(CORRECTIONS)


async def test_a_later_statement_about_the_same_subject_marks_nothing():
    found = await searched(OTHER)
    assert not [hit for hits, *_ in found for hit in hits if hit.corrected_by]


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in OTHER])
def test_a_later_statement_about_the_same_subject_revises_nothing(old, new):
    assert revision(new, old) is Revision.NONE
    assert revised(new, [old, *QUIET]) is None


@pytest.mark.parametrize("quiet", QUIET)
def test_what_is_said_of_something_else_revises_nothing(quiet):
    assert revised(quiet, [case[1] for case in CORRECTIONS]) is None


def test_a_correction_means_what_it_speaks_against_most():
    before = ["The dentist comes on Wednesday.", "The conference call is on Wednesday."]
    new = "Ignore Wednesday. The call's on Tuesday."
    assert best_revisions(new, before) == {1: Revision.SURE}
    assert revised(new, before) == (1, Revision.SURE)


async def test_what_may_be_a_correction_ranks_before_the_old_statement_and_marks_nothing():
    async with opened() as store:
        chat = store.mind.conversation("c")
        old = await chat.add("user", "The loan runs until 2031.")
        new = await chat.add("user", "The bank's letter about the loan: 2033.")
        assert revision(new.content, old.content) is Revision.SUSPECTED
        hits = await store.mind.search("Until when does the loan run?", 4)
        assert ranks_before(hits, new.id, old.id)
        assert not any(hit.corrected_by for hit in hits)


async def test_nobody_corrects_another_speaker():
    async with opened() as store:
        chat = store.mind.conversation("c")
        old = await chat.add("user", "The conference call is on Wednesday.", name="Ida")
        await chat.add("user", "Ignore Wednesday. The call's on Tuesday.", name="Tom")
        hits = await store.mind.search("When is the conference call?", 4)
        assert not any(hit.corrected_by for hit in hits if hit.id == old.id)


def test_rows_of_one_form_do_not_revise_each_other():
    assert revision("Mark 4: blue.", "Mark 3: red.") is Revision.NONE


@pytest.mark.parametrize("text", ["", "?", "!", "Is it on Tuesday?", "word " * 60, "No. No. No. No. No."])
def test_what_is_empty_long_or_asked_revises_nothing(text):
    assert revised(text, ["The call is on Wednesday."]) is None
    assert revision("Ignore Wednesday, it's Tuesday.", text) is Revision.NONE


async def test_a_summary_by_rules_has_a_revised_fact_as_revised_only():
    pairs = [
        ("The conference call is on Wednesday.", "Ignore Wednesday. The call is on Tuesday."),
        (
            "Esme can't have strawberries.",
            "No no, strawberries are fine for Esme, raspberries are the trouble.",
        ),
    ]
    for old, new in pairs:
        said = "\n".join(f"user: {text}" for text in [*QUIET[:4], old, *QUIET[4:], new])
        done = await RuleModel().answer(SummarizeConversation(conversation_history=said))
        assert old not in done.summary
        assert new in done.summary


def test_what_is_told_as_an_event_revises_nothing():
    assert revision("Visited the free museum on Sunday.", "The museum is free on Mondays.") is Revision.NONE
    assert revision("The museum is free on Sundays.", "The museum is free on Mondays.") is not Revision.NONE
