"""Memories that a conversation suggests, by whatever answers tasks."""

from __future__ import annotations

from sense_memory import MemoryStore
from sense_memory.mind.model import ExtractedMemories, ExtractedMemory, ExtractMemories, ModelExtractor
from sense_memory.mind.rule_model import RuleModel
from sense_memory.nostr.keys import Secret
from sense_memory.nostr.signer import LocalSigner


TALK = "Nora: I live in Graz. What about you?\nTom: I hate R&D. I'm allergic to nuts."


class Scripted:
    async def answer(self, task):
        likes = ("people", "preferences", "tom-dislikes", "Tom hates R&D.", "I hate R&amp;D.")
        home = ("people", "facts", "nora-home", "Nora lives in Graz.", "I live in Graz.")
        names = ("domain", "facet", "key", "value", "quote")
        found = [ExtractedMemory(**dict(zip(names, item, strict=True))) for item in (likes, home)]
        return ExtractedMemories(memories=found)


async def test_a_model_proposes_memories_with_their_places_and_nothing_is_written():
    async with MemoryStore(LocalSigner(Secret(b"\x07" * 32)), ledger=":memory:", background=False) as store:
        found = await store.persona_extract(TALK, extractor=ModelExtractor(Scripted()))
        assert [TALK[proposal.start : proposal.end] for proposal in found] == [
            "I live in Graz.",
            "I hate R&D.",
        ]
        await store.persona_remember_many(proposal.arguments() for proposal in found)
        (memory,) = await store.persona_recall("people", "facts", "nora-home")
        assert memory.value == "Nora lives in Graz."


async def test_rules_answer_the_task_with_what_the_store_proposes_by_itself():
    async with MemoryStore(LocalSigner(Secret(b"\x07" * 32)), ledger=":memory:", background=False) as store:
        by_rule = await store.persona_extract(TALK)
        assert by_rule
        assert await store.persona_extract(TALK, extractor=ModelExtractor(RuleModel())) == by_rule
        assert await store.persona_extract(" ", extractor=ModelExtractor(RuleModel())) == []


def test_a_quote_that_nobody_said_does_not_fit():
    task = ExtractMemories(conversation=TALK)
    said = ExtractedMemory(domain="people", facet="facts", key="k", value="v", quote="I live in Rome.")
    assert (
        task.problem(ExtractedMemories(memories=(said,)))
        == "each quote must be in the conversation, word for word"
    )
