"""What a session may propose for the palace: lasting things in the user's own words, and no junk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.mind.junk_gate import MAX_OWN_CHARS, worth_proposing


LASTING = [
    "Never commit directly to main.",
    "From now on use pnpm instead of npm.",
    "Please always answer in German.",
    "Call me Jo.",
    "I prefer tabs over spaces.",
    "I'm allergic to hazelnuts.",
    "I don't eat meat.",
    "My sister Lisa lives in Graz.",
    "I live in Graz and work as a nurse.",
    "We deploy with Ansible from the ops repo.",
    "Our production database is Postgres 16 on db1.example.net.",
    "We decided to use SQLite for the cache.",
    "Remember that the invoice numbers start with INV-.",
    "Antworte mir bitte immer auf Deutsch.",
]
JUNK = [
    "Fix the failing test.",
    "Use the other one.",
    "I like option B.",
    "Write a function that always returns a list.",
    "The build is failing with exit code 2.",
    "Our tests are failing on CI.",
    "Never mind, it works now.",
    "Always great to see green!",
    "Can you always do it like that?",
    "For now, use a mock.",
    "Don't touch the tests.",
    "The button should always be visible.",
    "I'm working on the parser today.",
    "Remember to run the tests.",
    "I decided to go with your suggestion.",
    "We have a meeting at 3 pm today.",
    "Always use this helper here.",
    "I love it!",
    "> Always use tabs.\nWhat do you think?",
    "- Always use tabs.\n- Never use spaces.",
    "$ git status\nOn branch main",
    'Traceback (most recent call last):\n  File "x.py", line 3\nValueError: I live in Graz.',
    "```\nNever commit directly to main.\n```",
    "Remember that my password is hunter2!x.",
    "Our production database is at postgres://admin:s3cret@db1/prod.",
    "Remember: the key of the API is sk-ant-REDACTED0123456789abcdefghijkl.",
    "I live in Graz. No wait, I meant Linz is where she is.",
]


@pytest.mark.parametrize("said", LASTING)
def test_what_lasts_passes_in_the_users_own_words(said):
    (found,) = worth_proposing(f"{said} Then fix the test.", "kiln")

    assert len(found.value) < 200
    assert found.value.split()[-1].strip(".") in said


@pytest.mark.parametrize("said", JUNK)
def test_junk_does_not_pass(said):
    assert worth_proposing(said, "kiln") == []


def test_a_request_at_the_end_of_a_sentence_is_cut_off():
    said = "I'm trying to plan my week, and I prefer writing in the mornings, can you help me with this?"

    assert [found.value for found in worth_proposing(said)] == ["The user: I prefer writing in the mornings."]


def test_a_fact_about_us_needs_a_project_and_names_it():
    assert worth_proposing("We deploy with Ansible.") == []
    assert worth_proposing("We deploy with Ansible.", "kiln")[0].value == "kiln: We deploy with Ansible."


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("From now on always use pnpm in this project.", "projects/procedures/kiln-pnpm"),
        ("In this repo, never commit directly to main.", "projects/procedures/kiln-commit-directly-main"),
        ("In this project we use pnpm.", "projects/facts/kiln-project-pnpm"),
    ],
)
def test_what_holds_in_this_project_is_proposed_for_the_project_by_its_name(said, path):
    (found,) = worth_proposing(said, "kiln")

    assert f"{found.domain}/{found.facet}/{found.key}" == path
    assert found.value == f"kiln: {said}"
    assert worth_proposing(said) == []


@pytest.mark.parametrize(
    "said",
    [
        "Fix the failing test in this project.",
        "Always use this helper in this project.",
        "In this project the tests are red.",
        "For now always use pnpm in this project.",
        "I like option B in this project.",
    ],
)
def test_a_request_stays_a_request_where_it_names_the_project(said):
    assert worth_proposing(said, "kiln") == []


def test_a_message_that_was_mostly_pasted_gives_nothing():
    page = "\n".join(f"Paragraph {number} of a page." for number in range(9))

    assert worth_proposing(f"I live in Graz.\n{page}") == []
    assert worth_proposing(f"I live in Graz. {'It was a long day. ' * (MAX_OWN_CHARS // 19)}") == []


@given(st.text(max_size=400))
def test_any_text_gives_short_memories_with_an_address(said):
    for found in worth_proposing(said, said[:9]):
        assert found.domain
        assert found.key
        assert len(found.value) <= 330
