"""Messages of OpenAI's chat completions and of Anthropic's API come back as they came, and fit the SDKs' own types."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sense_memory.errors import InvalidInput
from sense_memory.mind.chat import formats
from sense_memory.mind.chat.conversation import Conversation
from sense_memory.mind.chat.messages import ToolCall
from sense_memory.mind.log import LogEntry
from tests.late import needs
from tests.mind.test_log import opened


def talk(store, window=100_000):
    return Conversation(
        store.mind.log, store.mind.records, "c1", count_tokens=lambda text: len(text.split()), window=window
    )


CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"q": "felt",  "n": 3}'},
}
CUSTOM = {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}}
OPENAI = [
    {"role": "developer", "content": "Be brief.", "name": "ops"},
    {"role": "system", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},
    {"role": "user", "content": "How thick is the felt?", "name": "lisa"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And\nthis?"},
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png", "detail": "low"}},
            {"type": "text", "text": ""},
        ],
    },
    {"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM], "refusal": None},
    {"role": "tool", "tool_call_id": "call_1", "content": "3 mm"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "a.txt"}]},
    {"role": "assistant", "tool_calls": [CALL | {"id": "call_3"}]},
    {"role": "tool", "tool_call_id": "call_3", "content": ""},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "No."}, {"type": "refusal", "refusal": "I must not."}],
    },
    {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "done"},
    {"role": "assistant", "content": "It is 3 mm."},
]
ANTHROPIC = [
    {"role": "user", "content": "How thick is the felt?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "I look.", "signature": "c2ln"},
            {"type": "text", "text": "Let me look."},
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "search",
                "input": {"q": "felt", "deep": {"n": [1, 2.5, None]}},
            },
            {"type": "tool_use", "id": "toolu_2", "name": "search", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3 mm", "is_error": False},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": [
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
                    },
                ],
            },
            {"type": "text", "text": "and go on", "cache_control": {"type": "ephemeral"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2"}]},
    {"role": "assistant", "content": "It is 3 mm."},
    {"role": "system", "content": "From here on in French."},
]


def valid(kind, message):
    """A message as the SDK's own type has it; wrong ones raise."""
    import anthropic.types
    import openai.types.chat
    from pydantic import TypeAdapter

    known = {
        "openai": openai.types.chat.ChatCompletionMessageParam,
        "anthropic": anthropic.types.MessageParam,
    }
    return TypeAdapter(known[kind]).validate_python(message)


@needs("openai", "the extra `model` is not installed")
@pytest.mark.parametrize("message", OPENAI, ids=lambda message: message["role"])
async def test_a_message_of_openai_comes_back_as_it_came(message):
    valid("openai", message)
    async with opened() as store:
        await talk(store).add_openai(message)
        assert await talk(store).as_messages() == [message]


@needs("anthropic", "the extra `anthropic` is not installed")
@pytest.mark.parametrize("message", ANTHROPIC, ids=lambda message: message["role"])
async def test_a_message_of_anthropic_comes_back_as_it_came(message):
    valid("anthropic", message)
    async with opened() as store:
        await talk(store).add_anthropic(message)
        assert await talk(store).as_anthropic() == ("", [message])


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BLOCKS = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
        st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, TEXTS),
        st.builds(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text}, TEXTS),
        st.builds(
            lambda texts: {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": x} for x in texts],
            },
            st.lists(TEXTS, max_size=3),
        ),
        st.builds(
            lambda given: {"type": "tool_use", "id": "t", "name": "n", "input": {"given": given}}, TEXTS
        ),
    ),
    max_size=6,
)


@given(BLOCKS)
def test_whatever_is_in_the_blocks_of_a_content_comes_back(blocks):
    message = {"role": "user", "content": blocks}
    role, payload = formats.from_anthropic(message)
    entry = LogEntry("1", f"message.{role}", role, json.loads(json.dumps(payload)), 1.0)
    assert formats.to_anthropic([entry]) == ("", [message])
    role, payload = formats.from_openai(message)
    assert formats.to_openai([LogEntry("1", f"message.{role}", role, payload, 1.0)]) == [message]


@needs("openai", "the extra `model` is not installed")
@needs("anthropic", "the extra `anthropic` is not installed")
async def test_each_format_is_sent_to_the_other_service_with_its_texts_calls_and_results():
    async with opened() as store:
        for message in OPENAI:
            await talk(store).add_openai(message)
        system, messages = await talk(store).as_anthropic("You are Sage.")
    assert system == "You are Sage.\n\nBe brief.\n\nOne.\nTwo."
    for message in messages:
        valid("anthropic", message)
    assert [message["role"] for message in messages] == [
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert messages[2]["content"] == [
        {"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "felt", "n": 3}},
        {"type": "tool_use", "id": "call_2", "name": "shell", "input": {"input": "ls -l"}},
    ]
    assert messages[3]["content"] == [  # the results of parallel calls in one message
        {"type": "tool_result", "tool_use_id": "call_1", "content": "3 mm"},
        {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "a.txt"}]},
    ]
    async with opened() as store:
        for message in ANTHROPIC:
            await talk(store).add_anthropic(message)
        messages = await talk(store).as_messages()
    for message in messages:
        valid("openai", message)
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "tool",
        "assistant",
        "system",
    ]
    assert messages[1]["content"] == "Let me look."
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["toolu_1", "toolu_2"]
    assert (
        json.loads(messages[1]["tool_calls"][0]["function"]["arguments"])
        == ANTHROPIC[1]["content"][2]["input"]
    )
    assert messages[2] == {"role": "tool", "tool_call_id": "toolu_1", "content": "3 mm"}


@needs("openai", "the extra `model` is not installed")
async def test_a_message_of_openais_sdk_comes_back_as_the_service_sent_it():
    from openai.types.chat import ChatCompletionMessage

    sent = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []}
    async with opened() as store:
        said = await talk(store).add_openai(ChatCompletionMessage.model_validate(sent))
        assert said.tool_calls == (ToolCall("call_1", "search", '{"q": "felt",  "n": 3}'),)
        (message,) = await talk(store).as_messages()
        assert message == sent
        assert ChatCompletionMessage.model_validate(message).model_dump(exclude_unset=True) == sent


@needs("anthropic", "the extra `anthropic` is not installed")
async def test_a_response_of_anthropics_sdk_comes_back_as_a_message_and_so_do_its_blocks():
    from anthropic.types import Message

    usage = {"input_tokens": 1, "output_tokens": 1}
    about = {
        "id": "msg_1",
        "type": "message",
        "model": "m",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": usage,
    }
    response = Message.model_validate(about | ANTHROPIC[1])
    async with opened() as store:
        await talk(store).add_anthropic(response)
        await talk(store).add_anthropic({"role": "assistant", "content": response.content})
        _, messages = await talk(store).as_anthropic()
        assert messages == [ANTHROPIC[1]] * 2
        valid("anthropic", messages[0])


@needs("openai", "the extra `model` is not installed")
@pytest.mark.parametrize(
    "calls", [[CALL], [ToolCall("call_1", "search", CALL["function"]["arguments"])]], ids=["dict", "ToolCall"]
)
async def test_a_call_that_is_added_by_hand_goes_out_with_its_name_and_arguments(calls):
    async with opened() as store:
        said = await talk(store).add("assistant", "let me look", tool_calls=calls)
        await talk(store).add("tool", "3 mm", name="search", tool_call_id="call_1")
        assert [call.name for call in said.tool_calls] == ["search"]
        assert await talk(store).as_messages() == [
            {"role": "assistant", "content": "let me look", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "3 mm"},
        ]


@needs("openai", "the extra `model` is not installed")
async def test_messages_that_an_earlier_version_stored_are_read_and_can_be_sent():
    """It stored ids, and dicts of OpenAI in their place; and results without the id of their call."""
    async with opened() as store:
        for role, payload in (
            ("assistant", {"content": "", "tool_calls": ["call_1"]}),
            ("tool", {"content": "3 mm", "tool_call_id": "call_1"}),
            ("assistant", {"content": "", "tool_calls": [CALL]}),
            ("tool", {"content": "4 mm", "tool_call_id": "call_1"}),
            ("tool", {"content": "of an unknown call"}),
        ):
            await store.mind.log.append(f"message.{role}", payload, actor=role, conversation="c1")
        said = await talk(store).messages()
        assert [call for message in said for call in message.tool_calls] == [
            ToolCall("call_1"),
            ToolCall("call_1", "search", CALL["function"]["arguments"]),
        ]
        assert [message.tool_call_id for message in said] == ["", "call_1", "", "call_1", ""]
        messages = await talk(store).as_messages()
    for message in messages:
        valid("openai", message)
    assert messages[0]["tool_calls"][0]["id"] == messages[1]["tool_call_id"] == "call_1"
    assert messages[2]["tool_calls"] == [CALL]
    assert messages[4] == {"role": "user", "content": "[tool] of an unknown call"}


async def test_arguments_and_blocks_count_as_tokens():
    arguments = json.dumps({"q": "word " * 500})
    async with opened() as store:
        await talk(store).add("assistant", "", tool_calls=[ToolCall("call_1", "search", arguments)])
        assert await talk(store).tokens() > 500
        before = await talk(store).tokens()
        use = {"type": "tool_use", "id": "t", "name": "search", "input": {"q": "word " * 500}}
        thinking = {"type": "thinking", "thinking": "word " * 500, "signature": "s"}
        await talk(store).add_anthropic({"role": "assistant", "content": [thinking, use]})
        assert await talk(store).tokens() > before + 1_000


async def test_a_context_that_begins_with_the_assistant_after_a_compaction_begins_with_the_user_for_anthropic():
    async with opened() as store:
        chat = talk(store, 40)
        for number in range(10):
            await chat.add(("user", "assistant")[number % 2], f"message {number} of this talk")
        await chat.compact(store.mind.model)
        system, messages = await chat.as_anthropic()
        assert "Summary of the conversation so far: " in system
        assert messages[0]["role"] == "user"
        assert messages[-1] == {"role": "assistant", "content": "message 9 of this talk"}


LOOP: list = []
LOOP.append(LOOP)
NO_MESSAGES = (None, 7, "text", [], {}, {"role": "robot", "content": "x"}, {"role": ["user"], "content": "x"},
               {"role": "user", "content": 7}, {"role": "user", "content": ["text"]}, {"role": "user", "content": LOOP},
               {"role": "user", "content": [{"type": "text", "text": 5}]}, {"role": "user", "content": "\ud800"},
               {"role": "assistant", "content": None, "tool_calls": [{"type": "function"}]},
               {"role": "assistant", "content": "x", "tool_calls": 7}, {"role": "assistant", "content": float("nan")},
               {"role": "user", "content": [{"type": "image", "source": b"x"}]}, type, object())  # fmt: skip


@pytest.mark.parametrize("given", NO_MESSAGES, ids=lambda given: str(type(given)))
@pytest.mark.parametrize("name", ["add_openai", "add_anthropic"])
async def test_what_is_no_message_is_refused(name, given):
    async with opened() as store:
        if name == "add_anthropic" and isinstance(given, dict) and "tool_calls" in given:
            given = given | {"content": None}  # what is beside role and content does not count
        with pytest.raises(InvalidInput):
            await getattr(talk(store), name)(given)
        assert await store.mind.log.entries() == []


async def test_a_refusal_goes_to_the_other_service_and_blank_texts_do_not():
    async with opened() as store:
        for message in (
            {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "Open it."}]},
            {"role": "assistant", "content": None, "refusal": "I must not."},
            {"role": "user", "content": " \n"},
            {"role": "user", "content": [{"type": "text", "text": " "}]},
            {"role": "assistant", "content": " ", "tool_calls": [CALL]},
        ):
            await talk(store).add_openai(message)
        _, messages = await talk(store).as_anthropic()
    assert messages[:2] == [
        {"role": "user", "content": [{"type": "text", "text": "Open it."}]},
        {"role": "assistant", "content": "I must not."},
    ]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_use"]
    assert len(messages) == 3


async def test_fields_that_are_sent_again_count_tokens():
    async with opened() as store:
        await talk(store).add_openai(
            {"role": "assistant", "content": "Yes.", "reasoning_content": "I think. " * 500, "refusal": None}
        )
        assert await talk(store).tokens() > 1_000
