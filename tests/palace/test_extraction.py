"""Proposals from conversations: what is proposed, and what is left alone."""

from __future__ import annotations

import pytest

from sense_memory import InvalidInput, LocalSigner, MemoryStore
from sense_memory.palace.extraction import proposals


@pytest.mark.parametrize(
    ("said", "facet", "key", "value"),
    [
        ("I live in Graz now, by the river.", "facts", "nora-home", "Nora lives in Graz"),
        ("Well, I'm originally from Porto!", "facts", "nora-origin", "Nora is from Porto"),
        ("I work as a nurse because I like people.", "facts", "nora-work", "Nora works as a nurse"),
        ("My dog is called Pixel.", "facts", "nora-dog", "Nora's dog is called Pixel"),
        ("I have two kids.", "facts", "nora-has-two-kids", "Nora has two kids"),
        ("I'm allergic to peanuts.", "facts", "nora-allergy-peanuts", "Nora is allergic to peanuts"),
        ("My favorite film is Alien.", "preferences", "nora-favourite-film", "Nora's favourite film: Alien"),
        ("Yeah, I love hiking with my sister!", "preferences", "nora-likes-hiking-sister", "Nora likes hiking with their sister"),
        ("We decided to move the launch.", "decisions", "nora-decided-move-launch", "Nora decided to move the launch"),
        ("I'm a vegetarian.", "facts", "nora-diet", "Nora is a vegetarian"),
        ("I'm a vegan chef.", "facts", "nora-role-vegan-chef", "Nora is a vegan chef"),
        ("Actually, I no longer work as a plumber.", "facts", "nora-former-work", "Nora no longer works as a plumber"),
        ("I just joined a choir last week.", "facts", "nora-joined-choir", "Nora joined a choir"),
    ],
)  # fmt: skip
def test_what_a_speaker_says_of_itself_is_proposed(said, facet, key, value):
    text = f"Tom: Hello.\nNora: Hm. {said}\n"
    (proposal,) = proposals(text)

    assert (proposal.domain, proposal.facet, proposal.key, proposal.value) == ("people", facet, key, value)
    assert text[proposal.start : proposal.end] == said


@pytest.mark.parametrize(
    "said",
    [
        "Do I live in Graz?",
        "If I live in Graz next year, we meet.",
        "I wish I work at a bakery.",
        "I love it!",
        "I love your painting.",
        "I love the look of that.",
        "She has a job I enjoy hearing of.",
        "The things I love make me happy.",
        "I used to live in Graz.",
        "Tom said I live in Graz.",
        "I decided on version 1.2 of it.",
        "I decided on these parts: a, b.",
        "I'm a doctor's son.",
        "Just kidding, I live on Mars.",
        "I live on Mars. Just kidding!",
        "I live on the moon.",
        "I live in a dream.",
        "I pretended I live in Paris.",
        "It is not true that I live in Paris.",
        "I work at the mill no more.",
        "Kim says: I live in Paris.",
        "I prefer metric spoons... no wait, grams.",
        "I'm allergic to walnuts, sorry, no, to hazelnuts.",
        "I live in Graz. Scratch that.",
    ],
)
def test_what_is_doubtful_or_only_points_is_left_alone(said):
    assert proposals(f"Nora: {said}") == []


@pytest.mark.parametrize(
    ("said", "values"),
    [
        (
            "I'm allergic to walnuts, and my birthday is 3 May.",
            ["Nora is allergic to walnuts", "Nora's birthday is 3 May"],
        ),
        (
            "I'm allergic to walnuts and my birthday is 3 May.",
            ["Nora is allergic to walnuts", "Nora's birthday is 3 May"],
        ),
        ("I moved to Ghent and I work at a bakery.", ["Nora moved to Ghent", "Nora works at a bakery"]),
    ],
)
def test_each_clause_of_a_sentence_is_a_proposal(said, values):
    assert [item.value for item in proposals(f"Nora: {said}")] == values


def test_what_somebody_else_is_quoted_with_is_neither_a_speaker_nor_a_fact():
    assert proposals("I met Kim yesterday. He said: I live in Paris.") == []


def test_without_speakers_the_user_speaks_and_may_give_rules():
    found = proposals(
        "Please remember that the gate code is 4711. From now on always answer in German. I live in Graz."
    )

    assert [(item.domain, item.facet, item.value) for item in found] == [
        ("people", "facts", "The user asked to remember: the gate code is 4711"),
        ("skills", "procedures", "Always answer in German"),
        ("people", "facts", "The user lives in Graz"),
    ]
    assert proposals("Assistant: I live in a computer. I love poems.") == []


def test_a_sentence_that_takes_back_the_one_before_it_may_say_what_holds():
    (found,) = proposals("Nora: I have a dog called Rex. No wait, I live in Linz.")

    assert found.value == "Nora lives in Linz"
    assert len(proposals("Nora: I live in Linz.\nKim: No wait, who is there?")) == 1  # another speaker


def test_the_last_proposal_for_a_key_counts():
    (found,) = proposals("Nora: I live in Graz.\nNora: I live in Linz.")

    assert found.value == "Nora lives in Linz"


async def test_accepted_proposals_become_memories_and_a_model_may_propose():
    class Model:
        async def propose(self, text):
            return proposals(text)[:1]

    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        text = "Nora: I live in Graz. I love chess."
        found = await store.persona_extract(text)
        assert await store.persona_extract(text, extractor=Model()) == found[:1]
        assert await store.persona_stats() is not None

        await store.persona_remember_many(proposal.arguments() for proposal in found)
        memories = await store.persona_recall("people")
        assert {memory.value for memory in memories} == {"Nora lives in Graz", "Nora likes chess"}
        assert {memory.source for memory in memories} == {"user"}
        with pytest.raises(InvalidInput, match="must be a text"):
            await store.persona_extract(7)
