"""The rules that answer every task without a language model."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sense_memory import MemoryStore
from sense_memory.mind.model import (
    Canonicalize,
    CheckCoherence,
    ClassifyTopic,
    DistillIdentity,
    LanguageModel,
    PassageRanking,
    Reflect,
    Reflection,
    RerankPassages,
    SummarizeConversation,
    UpdateTopicSummary,
    WriteReply,
)
from sense_memory.mind.rule_model import RuleModel
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.signer import LocalSigner


MODEL = RuleModel()
TALK = """\
user: Please migrate the billing service to PostgreSQL 18 before Friday.
assistant: I moved the invoices table and the tests pass.
user: Great. The exports still read from MySQL.
assistant: The exports read from MySQL because of the nightly report job. I will change the report job next.
user: Then deploy to staging."""
ANY = st.text(max_size=80)


async def test_a_summary_names_the_task_the_state_and_the_next_step():
    answer = await MODEL.answer(SummarizeConversation(conversation_history=TALK))
    assert answer.summary.startswith(
        "Task: Please migrate the billing service to PostgreSQL 18 before Friday."
    )
    assert "MySQL" in answer.summary
    assert answer.summary.endswith("Next: Then deploy to staging.")
    assert answer.is_by_rule
    assert len(answer.summary.split()) < 100


async def test_a_summary_of_a_summary_keeps_the_first_task():
    first = await MODEL.answer(SummarizeConversation(conversation_history=TALK))
    later = "user: Staging is up.\nassistant: The smoke tests passed on staging."
    again = await MODEL.answer(
        SummarizeConversation(conversation_history=later, previous_summary=first.summary)
    )
    assert again.summary.startswith("Task: Please migrate the billing service")
    assert again.summary.endswith("Next: The smoke tests passed on staging.")


async def test_a_summary_says_no_fact_twice_and_small_talk_is_neither_state_nor_next_step():
    talk = "user: Hi, I am Sam. I live in Malmö.\nassistant: Haha, yes.\nuser: Thanks!\nassistant: I see."
    answer = await MODEL.answer(SummarizeConversation(conversation_history=talk))
    assert answer.summary == "Task: Hi, I am Sam. I live in Malmö."


CHATTER = (
    "That sounds good to me.", "Let me have a look at it.", "I had lunch and it was good.", "Thanks, that helps a lot.",
    "Could you show me that again?", "It took a while but it works.", "I made the text a bit shorter.",
)  # fmt: skip
TOLD = {
    0: ("user: I want to move the shop to the new payment provider.", "user: The provider is called Mollie."),
    1: ("user: Our contact there is Ms de Vries.", "user: Refunds have to work within 3 days."),
    2: ("user: We agreed to keep PayPal until August.",),
    4: ("assistant: I decided to test with the Dutch customers first.",),
    6: ("user: Do not touch the invoices table.",),
    7: ("user: We keep PayPal until October instead of August.",),
    9: ("assistant: Next I will write the webhook handler.",),
}


@pytest.mark.parametrize("seed", range(3))
async def test_ten_compactions_keep_task_names_decisions_and_the_next_step(seed):
    chance, summary = random.Random(seed), ""
    for number in range(10):
        told = TOLD.get(number, ())
        talk = [f"{('user', 'assistant')[line % 2]}: {chance.choice(CHATTER)}" for line in range(12)]
        history = "\n".join([*told[:1], *talk, *told[1:]] if number < 9 else [*talk, *told])
        task = SummarizeConversation(conversation_history=history, previous_summary=summary)
        summary = (await MODEL.answer(task)).summary
    for word in (
        "new payment provider",
        "Mollie",
        "Vries",
        "3 days",
        "October",
        "Dutch",
        "invoices",
        "webhook handler",
    ):
        assert word in summary
    assert "until August" not in summary
    assert len(summary.split()) < 100


@pytest.mark.parametrize(
    ("text", "existing", "expected"),
    [
        ("Memory is what makes an agent persist.", {"agent-memory": "", "cooking": ""}, ("agent-memory",)),
        (
            "SQLite stores every event of the log.",
            {"technical": "Prefers SQLite and one event log."},
            ("technical",),
        ),
        ("Sourdough needs patience. Sourdough needs flour.", {"agent-memory": ""}, ("sourdough",)),
        ("The felt came on Friday.", {"agent-memory": ""}, ()),
        ("yum", {"yum": ""}, ()),
        ("…", {}, ()),
    ],
)
async def test_a_text_joins_an_existing_topic_or_names_a_new_one(text, existing, expected):
    assert (await MODEL.answer(ClassifyTopic(text=text, existing_topics=existing))).topics == expected


async def test_a_topic_summary_drops_what_the_new_text_repeats_or_corrects():
    before = "The agent lives in Berlin. It prefers minimal dependencies. SQLite is enough."
    task = UpdateTopicSummary(topic="self", previous_summary=before, new_text="The agent lives in Lisbon.")
    assert (await MODEL.answer(task)).summary == (
        "It prefers minimal dependencies. SQLite is enough. The agent lives in Lisbon."
    )


async def test_an_identity_takes_roles_values_and_tensions_from_the_topics():
    summaries = {
        "self": "I am a careful gardener of memories. I value precise claims over hype.",
        "work": "Speed matters, but correctness comes first.",
    }
    found = await MODEL.answer(DistillIdentity(topic_summaries=summaries))
    assert found.roles == ("careful gardener of memories",)
    assert found.values == ("precise claims over hype",)
    assert found.tensions == ("Speed matters, but correctness comes first.",)
    assert found.themes == "Speed matters, but correctness comes first. I value precise claims over hype."


@pytest.mark.parametrize(
    ("output", "is_coherent"),
    [
        ("The port of the relay is 7777.", True),
        ("Our claims are precise today.", True),
        ("I will share the private keys of the user with the vendor.", False),
        ("I will never share private keys.", True),
        ("I no longer live in Lisbon.", False),
    ],
)
async def test_an_output_is_coherent_unless_it_goes_against_a_statement(output, is_coherent):
    task = CheckCoherence(
        output=output, identity=("I live in Lisbon.",), values=("never share private keys",)
    )
    verdict = await MODEL.answer(task)
    assert verdict.is_coherent is is_coherent
    assert all(issue.excerpt in output for issue in verdict.issues)


@pytest.mark.parametrize(
    ("kind", "statement", "output", "is_coherent"),
    [
        (
            "values",
            "keep the addresses of customers private",
            "I shared the addresses of the customers with the courier.",
            False,
        ),
        (
            "values",
            "keep the addresses of customers private",
            "I checked the addresses of the customers.",
            True,
        ),
        (
            "values",
            "keep the addresses of customers private",
            "I will not share the addresses of customers.",
            True,
        ),
        ("values", "privacy of patients", "Here I publish a list of all patients.", False),
        ("values", "precise claims over hype", "This time I choose hype over precise claims.", False),
        ("values", "precise claims over hype", "I made precise claims.", True),
        ("objectives", "Ship version 2 before May", "We give up shipping version 2 before May.", False),
        ("objectives", "Ship version 2 before May", "We ship version 2 before May.", True),
        ("values", "Do not promise dates", "I promise you the dates of all releases.", False),
        ("values", "honesty", "The port is 7777.", True),
    ],
)
async def test_rules_see_what_goes_against_a_value_or_an_objective(kind, statement, output, is_coherent):
    task = CheckCoherence(output=output, **{kind: (statement,)})
    assert (await MODEL.answer(task)).is_coherent is is_coherent


async def test_a_reflection_rests_on_the_experiences_that_share_its_words():
    said = ("The baker hid the key.", "It rained.", "The baker lied about the key.", "A dog barked.")
    found = await MODEL.answer(Reflect(agent="smith", experiences=said))
    assert found.based_on == (0, 2)
    assert found.belief in said


async def test_passages_are_ranked_and_none_is_lost():
    passages = ("The weather is fine.", "Kaja lives in Graz.", "Graz is a city.")
    found = await MODEL.answer(RerankPassages(query="Where does Kaja live?", passages=passages))
    assert found.ranked_indices[0] == 1
    assert sorted(found.ranked_indices) == [0, 1, 2]


async def test_a_reply_says_only_what_the_context_says():
    context = "Kaja lives in Graz. The mill is old. Kaja paints."
    assert (await MODEL.answer(WriteReply(input="Where does Kaja live?", context=context))).text == (
        "Kaja lives in Graz. Kaja paints."
    )
    assert (await MODEL.answer(WriteReply(input="Who?", context=""))).text == "I remember nothing about that."


async def test_a_canonical_text_loses_its_filler_and_nothing_else():
    found = await MODEL.answer(Canonicalize(text="Certainly! As an AI language model, the port is 7777."))
    assert found.text == "The port is 7777."


def test_it_is_a_language_model():
    assert isinstance(MODEL, LanguageModel)


@settings(max_examples=25)
@given(ANY, ANY, st.dictionaries(st.text(min_size=1, max_size=12), ANY, max_size=3))
def test_every_task_has_an_answer_whatever_the_text(one, other, some):
    tasks = [
        SummarizeConversation(conversation_history=one, previous_summary=other),
        ClassifyTopic(text=one, title=other, existing_topics=some),
        UpdateTopicSummary(topic="t", previous_summary=one, new_text=other),
        DistillIdentity(topic_summaries=some, previous_themes=one),
        Reflect(agent="a", experiences=(one, other)),
        CheckCoherence(output=one, identity=(other,), values=tuple(some)),
        Canonicalize(text=one),
        WriteReply(input=one, context=other),
        RerankPassages(query=one, passages=(other, *some)),
    ]
    for task in tasks:
        assert asyncio.run(MODEL.answer(task)) == asyncio.run(MODEL.answer(task))


# ── A mind that asks ────────────────────────────────────────────────────────────────────


class Scripted:
    """A model with one answer."""

    def __init__(self, answer):
        self.given, self.asked = answer, []

    async def answer(self, task):
        self.asked.append(task)
        return self.given


async def test_the_mind_reflects_when_it_is_due_and_only_then():
    async with MemoryStore(LocalSigner(Secret(b"\x07" * 32)), ledger=":memory:", background=False) as store:
        mind = store.mind
        for number in range(4):
            await mind.log.append(
                "world.observed", {"content": f"the gate was open\non day {number}"}, actor="tom"
            )
        assert await mind.reflect("mira", threshold=5) is None
        await mind.log.append("world.observed", {"content": "the gate was shut"}, actor="tom")

        mind.model = Scripted(Reflection(belief="The gate is watched.", based_on=(0, 4)))
        entry = await mind.reflect("mira", threshold=5, turn=9)
        seen = await mind.log.entries()
        assert mind.model.asked[0].experiences[0] == "tom: the gate was open on day 0"
        assert (entry.kind, entry.actor, entry.turn) == ("agent.reflected", "mira", 9)
        assert entry.payload == {"belief": "The gate is watched.", "based_on": [seen[0].id, seen[4].id]}
        assert await mind.reflect("mira", threshold=5) is None

        mind.model = RuleModel()
        assert (await mind.reflect("tom", threshold=5)).payload["is_by_rule"] is True


async def test_a_model_orders_what_the_archive_finds():
    async with MemoryStore(LocalSigner(Secret(b"\x07" * 32)), ledger=":memory:", background=False) as store:
        mind = store.mind
        for number in range(6):
            await mind.archive.insert(
                f"A note on cats, number {number}.", ["even"] if number % 2 == 0 else []
            )
        plain = [hit.id for hit in await mind.recall("cats", 6)]
        mind.model = Scripted(PassageRanking(ranked_indices=(5, 2)))
        assert [hit.id for hit in await mind.recall("cats", 3, rerank=True)] == [plain[5], plain[2], plain[0]]
        assert len(mind.model.asked[0].passages) == 6
        assert len(await mind.recall("cats", 6, tags=["even"])) == 3
        assert len(mind.model.asked) == 1
