"""What rules conclude from talk: quotations of what was said, and otherwise nothing."""

from __future__ import annotations

import time

import pytest

from sense_memory.mind.beliefs import BeliefGraph
from sense_memory.mind.model import (
    CheckCoherence,
    ClassifyTopic,
    DistillIdentity,
    Reflect,
    SummarizeConversation,
    UpdateTopicSummary,
    WriteReply,
)
from sense_memory.mind.private_identifiers import has_identifier, is_private
from sense_memory.mind.rule_model import RuleModel
from sense_memory.mind.sentence_kinds import (
    SAYING,
    SentenceKind,
    kind_of,
    may_be_thought,
    says_something,
    split_sentences,
    subject_of,
)
from sense_memory.mind.sentence_values import values_of
from tests.mind.sentence_cases import KEPT_APART, TUNED
from tests.mind.talk_of_a_week import FACTS, LONG_FACTS, LONG_WEEK, OTHER_FACTS, OTHER_WEEK, WEEK
from tests.mind.test_log import opened


MODEL = RuleModel()
EMPTY = [text for text, kind in TUNED if kind in {"small_talk", "question", "command", "fragment"}]


def kind_named(name):
    return SentenceKind(name.replace("_", " "))


# ── Kinds of sentences ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("cases", "recall", "exact"), [(TUNED, 0.95, 0.9), (KEPT_APART, 0.8, 0.75)])
def test_of_what_rules_conclude_19_of_20_sentences_say_something(cases, recall, exact):
    said = {text for text, kind in cases if kind_named(kind) in SAYING}
    found = {text for text, _ in cases if kind_of(text) in SAYING}
    assert len(found & said) >= 0.95 * len(found)
    assert len(found & said) >= recall * len(said)
    assert sum(kind_of(text) is kind_named(kind) for text, kind in cases) >= exact * len(cases)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Ms. Haller speaks at 2.30. It's free!", ["Ms. Haller speaks at 2.30.", "It's free!"]),
        ("Der Termin ist am 14. März.\n\nGut.", ["Der Termin ist am 14. März.", "Gut."]),
        ("Hi… ok", ["Hi… ok"]),
        (" \n ", []),
    ],
)
def test_a_text_is_cut_into_sentences(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize("text", EMPTY)
async def test_chat_becomes_no_topic_no_belief_no_identity_and_no_answer(text):
    assert (await MODEL.answer(ClassifyTopic(text=text, existing_topics={text: text}))).topics == ()
    assert (await MODEL.answer(Reflect(agent="mira", experiences=(f"mira: {text}",) * 3))).belief == ""
    identity = await MODEL.answer(DistillIdentity(topic_summaries={"chat": text}))
    assert (identity.themes, identity.roles, identity.values, identity.tensions) == ("", (), (), ())
    task = UpdateTopicSummary(topic="t", previous_summary="The mill is old.", new_text=text)
    assert (await MODEL.answer(task)).summary == "The mill is old."
    assert not says_something(text)


@pytest.mark.parametrize(
    "text", ["Кайя живёт в Граце.", "カヤはグラーツに住んでいます。", "Kaja bydlí v Grazu už deset let."]
)
def test_a_text_of_a_language_that_no_rule_reads_may_be_a_thought(text):
    assert may_be_thought(text)
    assert not says_something(text)


def test_the_subject_and_the_values_of_a_sentence_are_read():
    assert subject_of("By the way, the roller of my press is 62 mm wide.") == ("roller", "press")
    assert subject_of("I live in Graz.") == subject_of("It is late.") == ()
    assert values_of("On Friday the 14th at 19:00 Anna brings 12 glasses.") == {
        "weekday": ("Friday",),
        "date": ("14th",),
        "time": ("19:00",),
        "number": ("12",),
        "name": ("Anna",),
    }


# ── Topics, beliefs, identity ───────────────────────────────────────────────────────────


async def test_a_week_of_talk_leaves_topics_of_two_thoughts_or_more_and_beliefs_that_were_said():
    async with opened() as store:
        mind = store.mind
        for role, text in WEEK:
            await mind.log.append("agent.spoke", {"text": text}, actor={"user": "mira"}.get(role, "agent"))
        assert await mind.reflect("agent") is None or not BeliefGraph(await mind.log.entries()).tensions()
        belief = (await mind.reflect("mira")).payload["belief"]
        assert belief.removeprefix("mira: ") in {
            sentence for _, text in WEEK for sentence in split_sentences(text) if kind_of(sentence) in SAYING
        }
        assert await mind.backfill() < 0.6 * len(WEEK)
        topics = await mind.topics.all()
        assert 5 <= len(topics) <= 20
        assert all(topic.passages >= 2 for topic in topics)
        assert {"yum", "general"}.isdisjoint(topic.name for topic in topics)
        identity = await mind.identity.refresh_identity_kernel()
        told = " ".join((identity.themes, *identity.roles, *identity.values, *identity.tensions))
        assert not is_private(told)
        assert not any(word in told for word in ("0664", "Brandl", "Friday", "know", "bye"))


async def test_the_first_thought_about_a_subject_gets_its_topic_together_with_the_second():
    async with opened() as store:
        mind = store.mind
        thoughts = ["The press needs new felt.", "Kaja paints bridges.", "The press is from 1930."]
        found = []
        for text in thoughts:
            entry = await mind.log.append("agent.output", {"text": text}, actor="agent")
            found.append(await mind.store_thought(entry))
        assert found == [(), (), ("press",)]
        assert [passage.topics for passage in await mind.archive.all()] == [("press",), (), ("press",)]
        (topic,) = await mind.topics.all()
        assert (topic.name, topic.covered, topic.passages) == ("press", 2, 2)
        assert topic.summary == "The press needs new felt. The press is from 1930."


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("My phone number is 0664 5550143.", True),
        ("Call +43 (664) 555-01-43.", True),
        ("Write to mira@example.org.", True),
        ("The IBAN is AT61 1904 3002 3457 3201.", True),
        ("Her card is 4111 1111 1111 1111.", True),
        ("Born 2019-05-03 in Graz.", False),
        ("The rent is 1,240 euros, the port 8443.", False),
        ("Version 10.0.19045 runs on 12 machines.", False),
    ],
)
def test_private_identifiers_are_seen(text, has):
    assert has_identifier(text) is has


@pytest.mark.parametrize("part", ["a", "1.", "日"])
def test_looking_for_identifiers_in_a_long_word_takes_no_long_time(part):
    start = time.process_time()
    assert not has_identifier(part * (40_000 // len(part)))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("text", "is_seen"),
    [
        ("The password is short, pin 12.", True),
        ("The passphrase, the old one: kestrel 7", True),
        ("12 passwords", False),
        ("4 of us forgot the passphrase", False),
        ("We lost the IBAN\nin 2019.", False),
    ],
)
def test_a_secret_is_private_with_a_digit_after_the_word_for_it_in_its_line(text, is_seen):
    assert is_private(text) is is_seen


def test_a_text_that_repeats_the_word_for_a_secret_takes_no_long_time():
    start = time.process_time()
    assert not is_private("password " * 20_000)
    assert time.process_time() - start < 1


async def test_comparing_a_long_choice_with_an_output_takes_no_long_time():
    start = time.process_time()
    await MODEL.answer(CheckCoherence(output="I prefer tea over coffee.", objectives=("a " * 20_000,)))
    assert time.process_time() - start < 1
    found = await MODEL.answer(
        CheckCoherence(output="I take coffee over tea.", values=("Tea  over coffee.",))
    )
    assert [issue.reason for issue in found.issues] == ["it chooses the other way round"]


async def test_an_identity_says_views_and_nobodys_number_address_or_appointment():
    told = {
        "self": "I am a careful archivist. I value plain words. I care about letters to mira@example.org.",
        "mira": "Mira lives at 12 Mill Street. The alarm code is 2280. Mira is a printer. Her birthday is in May.",
        "craft": "Patience matters more than speed. The exhibition opens on Friday.",
    }
    found = await MODEL.answer(DistillIdentity(topic_summaries=told))
    assert (found.roles, found.values) == (("careful archivist",), ("plain words",))
    assert "Patience matters more than speed." in found.themes
    for word in ("example.org", "Mill", "2280", "Mira", "birthday", "Friday"):
        assert word not in found.themes


@pytest.mark.parametrize(
    ("experiences", "belief", "based_on"),
    [
        (("tom: We chose the blue tiles.", "tom: haha", "tom: bye"), "tom: We chose the blue tiles.", (0,)),
        (
            ("tom: The baker hid a key.", "ann: It rained.", "ann: The baker took the key back."),
            "ann: The baker took the key back.",
            (0, 2),
        ),
        (("tom: The gate is open.", "ann: I know."), "", ()),
        (
            ("tom: I prefer tea over coffee.", "tom: I no longer prefer tea."),
            "tom: I no longer prefer tea.",
            (0, 1),
        ),
    ],
)
async def test_a_belief_quotes_a_decision_a_preference_a_correction_or_what_was_said_twice(
    experiences, belief, based_on
):
    found = await MODEL.answer(Reflect(agent="mira", experiences=experiences))
    assert (found.belief, found.based_on) == (belief, based_on)
    assert found.confidence is None


async def test_a_long_text_costs_a_topic_no_more_than_the_sentences_that_fit():
    """Comparing all sentences with all others would take minutes."""
    text = " ".join(f"Room {number} holds {number} presses." for number in range(4_000))
    found = await MODEL.answer(UpdateTopicSummary(topic="rooms", previous_summary=text, new_text=text))
    assert found.summary.endswith("Room 3999 holds 3999 presses.")
    assert len(found.summary.split()) <= 120


# ── Summaries ───────────────────────────────────────────────────────────────────────────


async def summary_of(talk, parts=3):
    summary, size = "", len(talk)
    for number in range(parts):
        part = talk[number * size // parts : (number + 1) * size // parts]
        history = "\n".join(f"{role}: {text}" for role, text in part)
        task = SummarizeConversation(conversation_history=history, previous_summary=summary)
        summary = (await MODEL.answer(task)).summary
        assert len(summary.split()) < 100
    return summary


def has(summary, fact):
    words, corrected = fact
    low = summary.lower()
    return all(word.lower() in low for word in words) and not any(word.lower() in low for word in corrected)


@pytest.mark.parametrize(
    ("talk", "facts", "share"),
    [(WEEK, FACTS, 0.53), (OTHER_WEEK, OTHER_FACTS, 0.78), (LONG_WEEK, LONG_FACTS, 0.4)],
)
async def test_three_compactions_of_a_week_keep_half_of_its_facts_within_a_hundred_words(talk, facts, share):
    summary = await summary_of(talk)
    assert sum(has(summary, fact) for fact in facts) >= share * len(facts)


async def test_a_wish_to_be_reminded_and_a_remark_with_figures_are_facts_and_other_questions_are_not():
    talk = [
        "user: Please help me plan the week.",
        "user: Can you remind me that my mother's birthday is on the 23rd of May?",
        "user: The rent would be 1,950 euros from September on, phew.",
        "user: Did you see the match at 20:45?",
        "user: Nice weather.",
    ]
    summary = (await MODEL.answer(SummarizeConversation(conversation_history="\n".join(talk)))).summary
    facts = summary.partition("Facts: ")[2].partition(" Next: ")[0]
    assert "23rd of May" in facts
    assert "1,950 euros" in facts
    assert "20:45" not in facts


@pytest.mark.parametrize(
    ("old", "new", "kept", "gone"),
    [
        ("The roller is 62 mm wide.", "Correction: the roller is 64 mm wide.", "64 mm", "62"),
        (
            "My dentist appointment is on Wednesday at nine.",
            "No, it's on Thursday.",
            "Thursday at nine",
            "Wednesday",
        ),
        ("The meeting with Ms Haller is on the 12th.", "Sorry, I meant the 14th.", "the 14th", "12th"),
        (
            "The exhibition opens on Friday at 18:00.",
            "It opens at 19:00 now, not at 18:00.",
            "Friday at 19:00",
            "18:00",
        ),
        (
            "Tom does the accounting.",
            "Tom no longer does the accounting.",
            "no longer",
            "Tom does the accounting",
        ),
        ("Our workshop is on Mill Street.", "Scratch that.", "", "Mill Street"),
    ],
)
@pytest.mark.parametrize("is_later", [False, True])
async def test_a_corrected_fact_is_in_a_summary_as_corrected_only(old, new, kept, gone, is_later):
    """Whether the correction comes in the same part or in the next."""
    first = ["user: Can you help me plan the week?", f"user: {old}", "assistant: Noted."]
    second = [f"user: {new}", "assistant: Okay.", "user: Thanks, bye!"]
    if is_later and "that" not in new and "it's" not in new and "meant" not in new:
        before = (await MODEL.answer(SummarizeConversation(conversation_history="\n".join(first)))).summary
        task = SummarizeConversation(conversation_history="\n".join(second), previous_summary=before)
    else:
        task = SummarizeConversation(conversation_history="\n".join([*first, *second]))
    summary = (await MODEL.answer(task)).summary
    assert kept in summary
    assert gone not in summary


@pytest.mark.parametrize(
    "later",
    [
        "We decided to use Hugo instead of WordPress.",
        "No, I don't like Ubuntu.",
        "Not Ubuntu but Arch.",
        "Actually, tea is fine.",
    ],
)
async def test_no_fact_gets_the_value_of_a_sentence_about_something_else(later):
    talk = ["user: The site runs Debian 12.", "assistant: Good.", f"user: {later}"]
    summary = (await MODEL.answer(SummarizeConversation(conversation_history="\n".join(talk)))).summary
    assert "The site runs Debian 12." in summary


async def test_an_agent_that_repeats_does_not_correct_what_the_person_said_and_an_allergy_comes_before_all():
    talk = [
        f"user: The {name} opens at {hour}:30 on Friday."
        for hour, name in enumerate(("mill", "shop", "school", "bank") * 5, 1)
    ]
    talk += ["user: I can't stand pop-up banners.", "assistant: No banners.", "assistant: No, on Monday."]
    talk += ["user: I'm diabetic, so I have to eat on time, don't plan anything over noon because of that."]
    summary = (await MODEL.answer(SummarizeConversation(conversation_history="\n".join(talk)))).summary
    assert "diabetic" in summary
    assert "pop-up banners" in summary
    assert "Monday" not in summary


# ── Answers and coherence ───────────────────────────────────────────────────────────────


async def test_a_heading_of_the_context_is_no_answer():
    context = "people:\nKaja lives in Graz.\n\nbridges and people:\nWhere do people live?"
    found = await MODEL.answer(WriteReply(input="Which people live in Graz?", context=context))
    assert found.text == "Kaja lives in Graz."
    assert (await MODEL.answer(WriteReply(input="people", context="people:\n\nbridges:"))).is_empty


async def test_a_draft_that_quotes_a_topic_or_the_identity_feeds_nothing():
    async with opened() as store:
        mind = store.mind
        for text in ("The press needs new felt.", "The press is from 1930."):
            entry = await mind.log.append("agent.output", {"text": text}, actor="agent")
            await mind.store_thought(entry, topics=["press"])
        await mind.identity.set_roles("careful archivist")
        before = await mind.archive.all(), await mind.topics.all()
        for question in ("What does the press need?", "press", "Who is a careful archivist?"):
            result = await mind.draft(question)
            assert not result.is_new
            assert "press:" not in result.text
        assert (await mind.archive.all(), await mind.topics.all()) == before


@pytest.mark.parametrize("kind", ["identity", "values"])
async def test_an_output_is_compared_with_each_sentence_of_a_statement(kind):
    lines = ("Speed matters. I live in Graz. The mill is old.",)
    verdict = await MODEL.answer(CheckCoherence(output="I live in Vienna. It is sunny.", **{kind: lines}))
    assert [(issue.statement, issue.excerpt) for issue in verdict.issues] == [
        ("I live in Graz.", "I live in Vienna.")
    ]
