"""A correction ranks before what it corrects, and nothing else does."""

from __future__ import annotations

import pytest

from sense_memory.mind.search.corrections import corrects
from tests.mind.chat.test_conversation import talk
from tests.mind.test_log import opened


CORRECTED = [
    (
        "My meeting with the dentist is on Monday at nine.",
        "Correction: the dentist is on Thursday, not on Monday.",
    ),
    ("I live in Berlin with two cats.", "I live in Lisbon now."),
    ("The server runs on port 8080.", "The server runs on port 9090 now."),
    ("Our launch is planned for 3 May.", "The launch was moved to 17 May."),
    ("My sister's name is Anna.", "Sorry, I meant my sister's name is Hanna."),
    ("I drink my coffee with milk.", "I no longer drink my coffee with milk."),
]
OTHER = [
    ("My meeting with the dentist is on Monday at nine.", "The dentist said I should come back in May."),
    ("I live in Berlin with two cats.", "My brother lives in Lisbon."),
    ("The server runs on port 8080.", "Is the server still on port 8080 now?"),
    ("My favourite colour is blue.", "My wife's favourite colour is green."),
    ("The code for the gate is 4711.", "The code for the garage is 2280."),
]


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(*pair, True) for pair in CORRECTED] + [(*pair, False) for pair in OTHER]
)
def test_what_says_that_something_changed_corrects_what_was_said_of_it(old, new, expected):
    assert corrects(new, old) is expected


async def test_a_search_shows_the_correction_first_and_marks_what_it_corrects():
    async with opened() as store:
        chat = talk(store)
        for old, _ in CORRECTED:
            await chat.add("user", old)
            await chat.add("assistant", "Noted.")
        said = [await chat.add("user", new) for _, new in CORRECTED]
        first, second, *_ = await store.mind.search("When is the meeting with the dentist?", 3)
        assert (first.id, second.corrected_by) == (said[0].id, said[0].id)
        assert first.why[-1].kind == "corrects"
        assert sum(reason.share for reason in first.why) == pytest.approx(first.score)
        (tool,) = [tool for tool in store.mind.tools() if tool.name == "conversation_search"]
        assert "user; corrected later]" in await tool.call({"query": "meeting with the dentist", "limit": 3})
        other = store.mind.conversation("another user's")
        await other.add("user", "Correction: my meeting with the dentist is on Friday.")
        assert (await store.mind.search("meeting with the dentist", 1, conversation="c1"))[0].id == said[0].id


async def test_a_word_finds_words_of_its_root_although_the_word_itself_is_known():
    async with opened() as store:
        mind = store.mind
        await mind.archive.insert("Lisa is allergic to hazelnuts.")
        await mind.archive.insert("The deploy key rotates in May.")
        await mind.conversation("c").add("user", "Does Lisa have an allergy?")
        for question in ("allergy", "allergies"):
            assert [hit.text for hit in await mind.search(question, within=["archive"])] == [
                "Lisa is allergic to hazelnuts."
            ]


async def test_the_question_that_was_just_asked_does_not_rank_before_its_answer():
    async with opened() as store:
        chat = talk(store)
        for text in ("The exhibition opens on Friday.", "When does the exhibition open?"):
            await chat.add("user", text)
        hits = await store.mind.search("When does the exhibition open?")
        assert [hit.text for hit in hits] == [
            "The exhibition opens on Friday.",
            "When does the exhibition open?",
        ]
        assert len(await store.mind.search("exhibition", 5)) == 2
