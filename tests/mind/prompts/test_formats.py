"""A prompt in every format: OpenAI's, Anthropic's, LangChain's and pydantic-ai's own types."""

from __future__ import annotations

import pytest

from sense_memory.mind.chat import framework_messages
from tests.mind.test_log import opened


CALL = {"id": "c1", "type": "function", "function": {"name": "felt", "arguments": '{"press": 1}'}}
PIXEL = "data:image/png;base64,aGk="


async def prompt_of(store):
    await store.mind.blocks.update("persona", value="I am patient.")
    chat = store.mind.conversation("chat")
    for shown in (
        {"role": "user", "content": "How thick is the felt?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "3 mm"},
        {"role": "assistant", "content": "3 mm."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": "https://x.example/felt.png"}},
                {"type": "image_url", "image_url": {"url": PIXEL}},
            ],
        },
    ):
        await chat.add_openai(shown, at=0.0)
    return await store.mind.prompt(chat)


async def test_a_prompt_is_the_same_in_both_chat_apis():
    async with opened() as store:
        found = await prompt_of(store)
    openai, (system, anthropic) = found.as_openai(), found.as_anthropic()
    assert openai[0] == {"role": "system", "content": system}
    assert system == found.system
    assert openai[1]["content"] == anthropic[0]["content"] == "[Thu 1970-01-01 00:00] How thick is the felt?"
    assert openai[-1]["content"][0] == {"type": "text", "text": "[Thu 1970-01-01 00:00]"}
    assert openai[-1]["content"][1] == {"type": "text", "text": "And this?"}
    assert anthropic[2]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": "3 mm"}]


async def test_a_prompt_has_the_types_of_langchain():
    messages = pytest.importorskip("langchain_core.messages")
    async with opened() as store:
        found = (await prompt_of(store)).as_langchain()
    kinds = [type(item) for item in found]
    assert kinds[:5] == [
        messages.SystemMessage,
        messages.HumanMessage,
        messages.AIMessage,
        messages.ToolMessage,
        messages.AIMessage,
    ]
    assert found[2].tool_calls == [{"name": "felt", "args": {"press": 1}, "id": "c1", "type": "tool_call"}]
    assert found[3].tool_call_id == "c1"


async def test_a_prompt_has_the_types_of_pydantic_ai_and_an_agent_takes_it():
    from pydantic_ai import Agent  # a second, which only the process that comes here pays
    from pydantic_ai import messages as types
    from pydantic_ai.models.function import FunctionModel

    async with opened() as store:
        found = (await prompt_of(store)).as_pydantic_ai()
    assert [type(item) for item in found] == [
        types.ModelRequest,
        types.ModelResponse,
        types.ModelRequest,
        types.ModelResponse,
        types.ModelRequest,
    ]
    assert [type(part) for part in found[0].parts] == [types.SystemPromptPart, types.UserPromptPart]
    (call,) = found[1].parts
    assert isinstance(call, types.ToolCallPart)
    assert (call.tool_name, call.tool_call_id, call.args_as_dict()) == ("felt", "c1", {"press": 1})
    (result,) = found[2].parts
    assert isinstance(result, types.ToolReturnPart)
    assert (result.tool_name, result.content) == ("felt", "3 mm")
    image, pixel = found[-1].parts[-1].content[-2:]
    assert image == types.ImageUrl("https://x.example/felt.png")
    assert isinstance(pixel, types.BinaryContent)
    assert (pixel.data, pixel.media_type) == (b"hi", "image/png")

    def answer(messages, info):
        assert len(messages) == len(found)
        return types.ModelResponse(parts=[types.TextPart("3 mm too.")])

    result = await Agent(FunctionModel(answer)).run(message_history=found)
    assert result.output == "3 mm too."


def test_an_image_that_is_not_base64_is_named():
    shown = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}}],
    }
    (found,) = framework_messages.as_pydantic_ai([shown])
    assert found.parts[0].content == ["[image_url]"]
