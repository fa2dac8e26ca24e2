"""OpenAI's function calling: schemas as the SDK types them, strict as the service wants them, and calls that never raise."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter, with_config

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.interfaces.openai_tools import OpenAITools
from tests.interfaces.test_tools import ELEVEN
from tests.late import Late, needs


pytestmark = needs("openai", "the extra `model` is not installed")
chat_types, response_types = Late("openai.types.chat"), Late("openai.types.responses")

KEY = LocalSigner.generate()
LISA = "people/facts/lisa"


def typed(kind, given):
    """What an SDK type takes and nothing else."""
    TypeAdapter(with_config(ConfigDict(extra="forbid"))(kind)).validate_python(given)


# What OpenAI's guide on structured outputs supports in a strict schema.
KEYWORDS = {"type", "description", "enum", "items", "minimum", "maximum", "minItems", "maxItems"}


def check_strict(schema):
    assert {"type", "properties", "required", "additionalProperties"} == schema.keys()
    assert ("object", False) == (schema["type"], schema["additionalProperties"])
    assert list(schema["properties"]) == schema["required"]
    for part in schema["properties"].values():
        assert part.keys() <= KEYWORDS
        kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
        assert set(kinds) <= {"string", "integer", "number", "boolean", "array", "null"}
        assert "enum" not in part or (None in part["enum"]) == ("null" in kinds)


async def test_both_shapes_are_what_the_sdk_types_and_strict():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = OpenAITools(store, profile="all", allow_destructive=True)
        chat, responses = tools.chat(), tools.responses()

        for tool in chat:
            typed(chat_types.ChatCompletionFunctionToolParam, tool)
            check_strict(tool["function"]["parameters"])
        for tool in responses:
            typed(response_types.FunctionToolParam, tool)
            check_strict(tool["parameters"])
        assert [tool["function"] for tool in chat] == [
            {key: value for key, value in tool.items() if key != "type"} for tool in responses
        ]
        assert {True} == {tool["strict"] for tool in responses}
        assert {tool["name"] for tool in responses} == set(ELEVEN) | {
            *("forget", "prune", "memory_replace", "memory_append", "memory_insert"),
            *("conversation_search", "archival_insert", "archival_search"),
        }
        assert set(ELEVEN) == {tool["function"]["name"] for tool in OpenAITools(store).chat()}


async def test_schemas_that_are_not_strict_leave_out_what_may_be_left_out():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = {tool["name"]: tool for tool in OpenAITools(store).responses(strict=False)}

        typed(response_types.FunctionToolParam, tools["search"])
        assert (False, ["query"]) == (tools["search"]["strict"], tools["search"]["parameters"]["required"])


async def test_null_means_that_an_argument_was_left_out():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = OpenAITools(store, profile="all")
        for tool in tools.responses():
            nothing = dict.fromkeys(tool["parameters"]["required"])
            kinds = {name: part["type"] for name, part in tool["parameters"]["properties"].items()}
            needed = {name: "people" for name, kind in kinds.items() if kind == "string"}
            full, bare = [
                json.loads(await tools.dispatch(tool["name"], json.dumps(arguments)))
                for arguments in (nothing | needed, needed)
            ]
            assert full.keys() == bare.keys(), tool["name"]


async def test_a_conversation_by_chat_completions():
    call = {"type": "function", "id": "call_1"}
    remember = {
        "name": "remember",
        "arguments": json.dumps({"path": LISA, "value": "Teaches art.", "themes": None}),
    }
    message = chat_types.ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {**call, "function": remember},
                {
                    **call,
                    "id": "call_2",
                    "function": {"name": "recall", "arguments": json.dumps({"path": LISA})},
                },
            ],
        }
    )
    async with MemoryStore(KEY, ledger=":memory:") as store:
        answers = await OpenAITools(store).answers(message.tool_calls)

    for answer in answers:
        typed(chat_types.ChatCompletionToolMessageParam, answer)
    assert ["call_1", "call_2"] == [answer["tool_call_id"] for answer in answers]
    assert "Teaches art." == json.loads(answers[1]["content"])["memories"][0]["value"]


def test_a_conversation_by_responses():
    output = [
        response_types.ResponseReasoningItem(id="rs_1", summary=[], type="reasoning"),
        response_types.ResponseFunctionToolCall(
            type="function_call", call_id="c1", name="journal", arguments='{"text": "Met Lisa."}'
        ),
        response_types.ResponseFunctionToolCall(
            type="function_call", call_id="c2", name="forget", arguments='{"path": "x"}'
        ),
    ]
    with SyncMemoryStore(KEY, ledger=":memory:") as store:
        answers = OpenAITools(store).answers_blocking(output)

        assert ["Met Lisa."] == [entry.content for entry in store.recent()]
    for answer in answers:
        typed(response_types.response_input_param.FunctionCallOutput, answer)
    assert ["c1", "c2"] == [answer["call_id"] for answer in answers]
    assert "there is no tool of this name" in json.loads(answers[1]["output"])["error"]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("remember", "{", "must be a JSON object"),
        ("remember", "[1]", "must be a JSON object"),
        ("remember", "[" * 100_000, "must be a JSON object"),
        ("remember", None, "must be a JSON object"),
        ("remember", "", "`path` is missing"),
        ("remember", '{"path": 1, "value": ["x"]}', "`path`"),
        ("remember", '{"path": "a", "value": "b", "colour": 1}', "`colour` is not an argument"),
        ("remember", '{"path": "a/b/c", "value": "x", "confidence": NaN}', "confidence"),
        ("remember", '{"path": "a/b/c", "value": "x", "halflife_days": 1e999}', "halflife_days"),
        ("remember", '{"path": "../b/c", "value": "x"}', "must not contain '..'"),
        ("remember", '{"path": "a/b", "value": "x"}', "domain/facet/key"),
        ("remember", '{"path": "a", "value": "\\ud800"}', ""),
        ("remember", json.dumps({"path": "a", "value": "x" * 50_000}), "split the memory"),
        ("search", '{"query": "x", "limit": 1000000}', "`limit`"),
        ("search", '{"query": "x", "state": "asleep"}', "`state`"),
        ("forget", '{"path": "a"}', "there is no tool"),
        ("no such\ntool \ud800", "{}", "there is no tool"),
        (None, "{}", "there is no tool"),
        (["a"], "{}", "there is no tool"),
    ],
)
async def test_a_call_that_cannot_be_carried_out_is_answered_and_changes_nothing(name, arguments, problem):
    async with MemoryStore(KEY, ledger=":memory:") as store:
        told = await OpenAITools(store).dispatch(name, arguments)

        assert problem in json.loads(told)["error"]
        assert told.encode()
        assert [] == [*await store.recall_all(), *await store.persona_recall()]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def test_no_arguments_at_all_make_a_tool_raise():
    """Any JSON under the names that a tool has, and any text."""

    async def play():
        async with MemoryStore(KEY, ledger=":memory:") as store:
            tools = OpenAITools(store, profile="all", allow_destructive=True)
            schemas = {tool["name"]: tool["parameters"]["required"] for tool in tools.responses()}
            calls = []

            @settings(max_examples=30)
            @given(st.data())
            def ask(data):
                name = data.draw(st.sampled_from(sorted(schemas)))
                fields = st.fixed_dictionaries({}, optional=dict.fromkeys(schemas[name], JSON))
                calls.append((name, data.draw(st.text() | fields.map(json.dumps))))

            ask()
            for name, arguments in calls:
                told = await tools.dispatch(name, arguments)
                assert isinstance(json.loads(told.encode()), dict)

    asyncio.run(play())


async def test_a_closed_store_is_an_answer():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = OpenAITools(store)
    with SyncMemoryStore(KEY, ledger=":memory:") as store:
        blocking = OpenAITools(store)

    for told in (await tools.dispatch("recall", "{}"), blocking.dispatch_blocking("recall", "{}")):
        assert "is not open" in json.loads(told)["error"]
