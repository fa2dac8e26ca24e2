"""A language model that answers badly, task by task: an answer that does not fit its inputs is repaired once, and else refused."""

from __future__ import annotations

import hashlib

import pytest

from sense_memory.errors import ModelError
from sense_memory.mind import model as tasks
from tests.late import needs
from tests.mind.test_endpoint_model import _platform_asked_here, completion, endpoint, minds, serving


__all__ = ["_platform_asked_here"]  # a fixture
pytestmark = [pytest.mark.virtual_time, needs("pydantic_ai", "the extra `model` is not installed")]

TOPIC = tasks.ClassifyTopic(text="The press is old.", existing_topics={"press": ""}, unsorted=("It rained.",))
SUMMARY = tasks.UpdateTopicSummary(topic="press", previous_summary="", new_text="The press is old.")
IDENTITY = tasks.DistillIdentity(topic_summaries={"press": "The press is old."})
REFLECT = tasks.Reflect(
    agent="mira", experiences=("The press is old.", "It rained."), beliefs=("It is dry.",)
)
CHECK = tasks.CheckCoherence(output="I live in Vienna.", identity=("I live in Graz.",))
CANON = tasks.Canonicalize(text="Sure! The roller is 64 mm wide.")
REPLY = tasks.WriteReply(input="How old is the press?")
EXTRACT = tasks.ExtractMemories(conversation="Nora: I live in Graz.")
TALK = tasks.SummarizeConversation(conversation_history="user: The press is old.")
RANK = tasks.RerankPassages(query="press", passages=("The press is old.", "It rained."))
ISSUE = {
    "against": "identity",
    "statement": "I live in Graz.",
    "excerpt": "I live in Vienna.",
    "reason": "another city",
}
MEMORY = {
    "domain": "people",
    "facet": "facts",
    "key": "nora-home",
    "value": "Nora lives in Graz.",
    "quote": "I live in Graz.",
}

GOOD = {
    tasks.ClassifyTopic: {"topics": ["press"]},
    tasks.UpdateTopicSummary: {"summary": "The press is old."},
    tasks.DistillIdentity: {"themes": "Old things."},
    tasks.Reflect: {"belief": "The press is old.", "based_on": [0], "confidence": 0.8, "supports": [0]},
    tasks.CheckCoherence: {"is_coherent": False, "issues": [ISSUE]},
    tasks.Canonicalize: {"text": "The roller is 64 mm wide."},
    tasks.WriteReply: {"text": "It is old."},
    tasks.ExtractMemories: {"memories": [MEMORY]},
    tasks.SummarizeConversation: {"summary": "The press is old."},
    tasks.RerankPassages: {"ranked_indices": [0, 1]},
}
BAD = {
    "a topic that is a sentence": (TOPIC, {"topics": ["This text is about the old press of the shop"]}),
    "a topic without a name": (TOPIC, {"topics": [" "]}),
    "four topics": (TOPIC, {"topics": ["a", "b", "c", "d"]}),
    "a text that was not shown": (TOPIC, {"topics": ["press"], "also": [1]}),
    "an empty summary of a topic": (SUMMARY, {"summary": "  "}),
    "an endless summary of a topic": (SUMMARY, {"summary": "old " * 2_000}),
    "an identity with a phone number": (IDENTITY, {"themes": "Mira's number is 0664 5550143."}),
    "an identity with a mail address": (IDENTITY, {"themes": "Prints.", "roles": ["mira@example.org"]}),
    "a belief without evidence": (REFLECT, {"belief": "The press is old.", "based_on": []}),
    "evidence without a belief": (REFLECT, {"belief": "", "based_on": [0]}),
    "evidence that does not exist": (REFLECT, {"belief": "The press is old.", "based_on": [2]}),
    "support of a belief that does not exist": (
        REFLECT,
        {"belief": "It is old.", "based_on": [0], "supports": [1]},
    ),
    "a contradiction of a belief that does not exist": (
        REFLECT,
        {"belief": "It is old.", "based_on": [0], "contradicts": [-1]},
    ),
    "a confidence in percent": (REFLECT, {"belief": "It is old.", "based_on": [0], "confidence": 80}),
    "a confidence in words": (REFLECT, {"belief": "It is old.", "based_on": [0], "confidence": "high"}),
    "a verdict against its issues": (CHECK, {"is_coherent": True, "issues": [ISSUE]}),
    "words that the output does not have": (
        CHECK,
        {"is_coherent": False, "issues": [ISSUE | {"excerpt": "I live in Rome."}]},
    ),
    "a canonical text without its number": (CANON, {"text": "The roller is wide."}),
    "an empty canonical text": (CANON, {"text": ""}),
    "an empty reply": (REPLY, {"text": "\n"}),
    "a quote that nobody said": (EXTRACT, {"memories": [MEMORY | {"quote": "I live in Rome."}]}),
    "an unknown facet": (EXTRACT, {"memories": [MEMORY | {"facet": "gossip"}]}),
    "a summary of too many words": (TALK, {"summary": "old " * 100}),
    "an empty summary": (TALK, {"summary": ""}),
    "a place twice": (RANK, {"ranked_indices": [0, 0]}),
}


@pytest.mark.parametrize(("task", "bad"), BAD.values(), ids=BAD)
async def test_an_answer_that_does_not_fit_its_inputs_is_sent_back_once_and_then_refused(task, bad):
    good = GOOD[type(task)]
    async with serving(completion(bad), completion(good)) as (service, model):
        assert await model.answer(task) == type(task).answer_type.model_validate(good)
        assert len(service.asked) == 2
    async with serving(completion(bad)) as (service, model):
        with pytest.raises(ModelError, match="answered twice"):
            await model.answer(task)
        assert len(service.asked) == 2


async def test_a_model_that_concludes_nothing_leaves_the_log_as_it_was():
    async with serving(completion({"belief": "", "based_on": []})) as (_, model), minds(model) as mind:
        for _ in range(20):
            await mind.log.append("agent.spoke", {"text": "haha"}, actor="mira")
        assert await mind.reflect("mira") is None
        assert await mind.log.entries(kind="agent.reflected") == []


async def test_the_confidence_and_the_links_of_a_model_are_in_the_log():
    answers = [GOOD[tasks.Reflect] | {"supports": []}, GOOD[tasks.Reflect] | {"confidence": 0.5}]
    async with serving(*map(completion, answers)) as (service, model), minds(model) as mind:
        found = []
        for _ in range(2):
            for _ in range(20):
                await mind.log.append("agent.spoke", {"text": "The press is old."}, actor="mira")
            found.append(await mind.reflect("mira"))
        assert [entry.payload["confidence"] for entry in found] == [0.8, 0.5]
        assert ("supports" in found[0].payload, found[1].payload["supports"]) == (False, [found[0].id])
        assert (
            '<beliefs>\n<item place="0">The press is old.</item>'
            in service.asked[-1]["messages"][-1]["content"]
        )


async def test_an_input_of_many_items_is_bounded_as_a_whole():
    task = tasks.RerankPassages(query="press", passages=("old " * 20_000,) * 40)
    assert len(endpoint.inputs(task)) < 1.1 * endpoint.MAX_INPUT_CHARS


# ── Prompts ─────────────────────────────────────────────────────────────────────────────

PROMPTS = {
    "CheckCoherence": (1, "7cf19da7"),
    "ClassifyTopic": (2, "7cd3bd80"),
    "Canonicalize": (1, "0e0f74dc"),
    "DistillIdentity": (2, "49ad50b2"),
    "ExtractMemories": (1, "a152b018"),
    "Reflect": (2, "3fe59ad6"),
    "RerankPassages": (1, "4c27a2b5"),
    "SummarizeConversation": (1, "97bdcefc"),
    "UpdateTopicSummary": (1, "bb94ce38"),
    "WriteReply": (1, "a7325eeb"),
}


def test_prompts_are_short_and_change_only_with_their_version():
    """Where this fails, raise `version` of the task whose instructions or types have changed, and write the new hash here."""
    found = {}
    for task in GOOD:
        assert len(task.instructions.split()) <= 75, task
        text = f"{task.instructions} {sorted(task.model_fields)} {sorted(task.answer_type.model_fields)}"
        found[task.__name__] = task.version, hashlib.sha256(text.encode()).hexdigest()[:8]
    assert found == PROMPTS
