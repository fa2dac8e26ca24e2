"""Recall memory: messages, the context window, and compaction (four-tier memory, tiers 2 and 4)."""

from __future__ import annotations

import pytest

from sense_memory import EmbeddedRelay
from sense_memory.errors import InvalidInput
from sense_memory.mind.chat.conversation import Conversation
from sense_memory.mind.model import Summary
from tests.mind.test_log import loop_clock, opened


class Scripted:
    """A model that answers with a fixed summary and notes what it was asked."""

    def __init__(self, error=None):
        self.asked, self.error = [], error

    async def answer(self, task):
        self.asked.append(task)
        if self.error is not None:
            raise self.error
        return Summary(summary=f"summary {len(self.asked)}")


def talk(store, window=100):
    """A conversation whose tokens are its words."""
    return Conversation(
        store.mind.log, store.mind.records, "c1", count_tokens=lambda text: len(text.split()), window=window
    )


async def filled(conversation, count=20, of="a talk"):
    return [
        await conversation.add(("user", "assistant")[number % 2], f"message number {number} of {of}")
        for number in range(count)
    ]


async def test_messages_of_one_conversation_come_back_with_their_times():
    async with opened() as store:
        conversation = talk(store)
        said = await filled(conversation, 3)
        await store.mind.log.append("message.user", {"content": "elsewhere"}, actor="user", conversation="c2")
        await store.mind.log.append("agent.thought", {"text": "hm"}, actor="me", conversation="c1")
        assert await conversation.messages() == await conversation.in_context() == said
        assert await conversation.messages(1) == said[2:]


async def test_compaction_summarises_the_older_messages_and_keeps_the_newest_verbatim():
    async with opened() as store:
        conversation, model = talk(store), Scripted()
        said = await filled(conversation)
        assert conversation.needs_compaction(80)
        assert not conversation.needs_compaction(79)
        state = await conversation.compact(model)
        kept = await conversation.in_context()
        assert kept == said[-len(kept) :]
        assert 1 < len(kept) < 10
        assert (state.summary, state.covered_count) == ("summary 1", 20 - len(kept))
        assert state.covers == said[-len(kept) - 1].id
        assert model.asked[0].conversation_history.startswith("user: message number 0")
        assert await conversation.messages() == said


async def test_a_summary_of_a_summary_covers_what_both_did():
    async with opened() as store:
        conversation, model = talk(store), Scripted()
        first = await filled(conversation)
        await conversation.compact(model)
        later = await filled(conversation, of="another talk")
        state = await conversation.compact(model)
        kept = await conversation.in_context()
        assert model.asked[1].previous_summary == "summary 1"
        assert first[0].content not in model.asked[1].conversation_history
        assert kept == later[-len(kept) :]
        assert state.covered_count == 40 - len(kept)


async def test_compacting_twice_without_new_messages_changes_nothing():
    async with opened() as store:
        conversation, model = talk(store), Scripted()
        await filled(conversation)
        state = await conversation.compact(model)
        assert await conversation.compact(model) == state
        assert len(model.asked) == 1


async def test_a_tool_call_is_never_parted_from_its_result():
    async with opened() as store:
        conversation = talk(store)
        await filled(conversation, 6)
        call = await conversation.add("assistant", "let me look", tool_calls=["call-1"])
        await filled(conversation, 3)
        result = await conversation.add("tool", "word " * 20, name="search", tool_call_id="call-1")
        await conversation.add("assistant", "found it")
        await conversation.compact(Scripted())
        kept = await conversation.in_context()
        assert call in kept
        assert result in kept


async def test_a_model_that_fails_leaves_the_context_as_it_was():
    async with opened() as store:
        conversation = talk(store)
        said = await filled(conversation)
        with pytest.raises(RuntimeError):
            await conversation.compact(Scripted(RuntimeError("no model")))
        assert await conversation.in_context() == said
        assert (await conversation.state()).summary == ""


async def test_message_ids_can_be_chosen_and_later_messages_join_them():
    async with opened() as store:
        conversation = talk(store)
        said = await filled(conversation, 6)
        await conversation.set_message_ids([said[1].id, said[4].id])
        later = await conversation.add("user", "and now?")
        assert await conversation.message_ids() == [said[1].id, said[4].id, later.id]
        with pytest.raises(InvalidInput, match="1 of the ids"):
            await conversation.set_message_ids(["0" * 20])


async def test_a_bare_machine_has_the_conversation_and_its_context():
    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            await filled(talk(store))
            await talk(store).compact(Scripted())
            expected = await talk(store).in_context(), await talk(store).state()
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            assert (await talk(bare).in_context(), await talk(bare).state()) == expected


@pytest.mark.parametrize(("role", "content"), [("robot", "hi"), ("user", None), ("", "hi")])
async def test_a_message_without_text_or_a_known_role_is_refused(role, content):
    async with opened() as store:
        with pytest.raises(InvalidInput):
            await talk(store).add(role, content)
        assert await store.mind.log.entries() == []


@pytest.mark.virtual_time
async def test_what_another_device_said_during_a_compaction_is_in_context_when_it_arrives():
    """Both devices compact, and neither knows of what the other said."""
    async with (
        EmbeddedRelay(clock=loop_clock()) as relay,
        opened(relays=[relay.url], clock=loop_clock()) as one,
        opened(relays=[relay.url], clock=loop_clock()) as two,
    ):
        early = await talk(two).add("user", "said offline, before everything")
        await filled(talk(one), 10)
        await one.sync()
        late = [await talk(store, 20).add("user", "meanwhile") for store in (one, two)]
        await talk(one, 20).compact(Scripted())
        for store in (two, one, two):
            await store.sync()
        contexts = [await talk(store, 20).message_ids() for store in (one, two)]
        assert contexts[0] == contexts[1]
        assert {early.id, *(message.id for message in late)} <= set(contexts[0])


async def test_a_message_dated_back_is_in_context_and_one_dated_ahead_hides_nothing():
    async with opened() as store:
        conversation = talk(store, 20)
        await filled(conversation, 10)
        await conversation.add("user", "dated ahead", at=9e9)
        await conversation.compact(Scripted())
        new = [await conversation.add("user", "dated back", at=1.0), await conversation.add("user", "now")]
        assert {message.id for message in new} <= set(await conversation.message_ids())


async def test_a_chat_model_is_sent_the_summary_and_the_messages_in_context():
    async with opened() as store:
        conversation = talk(store)
        said = await filled(conversation)
        await conversation.compact(Scripted())
        system, *messages = await conversation.as_messages("You are Sage.")
        assert system == {
            "role": "system",
            "content": "You are Sage.\n\nSummary of the conversation so far: summary 1",
        }
        assert [message["content"] for message in messages] == [
            item.content for item in said[-len(messages) :]
        ]


async def test_a_summary_leaves_room_in_a_small_window():
    async with opened() as store:
        chat, compacted = store.mind.conversation("c1", window=160), 0
        for number in range(20):
            await chat.add(
                "user", f"My {number}th note is that shelf {number} holds {number * 7} boxes of paper."
            )
            if chat.needs_compaction(await chat.tokens()):
                await chat.compact(store.mind.model)
                compacted += 1
                assert await chat.tokens() < 0.65 * chat.window
        assert 1 <= compacted <= 10
