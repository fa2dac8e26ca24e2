"""The four-tier memory under its own names: the manager, its prompt, and its tools."""

from __future__ import annotations

import pytest

from tests.mind.test_log import opened


NAMES = (
    "memory_replace",
    "memory_append",
    "memory_insert",
    "conversation_search",
    "archival_insert",
    "archival_search",
)


def tool(manager, name):
    return next(tool for tool in manager.tools() if tool.name == name)


async def test_metadata_are_the_documented_xml(clock):
    async with opened(clock=clock) as store:
        manager = store.mind.manager("c1")
        await store.mind.blocks.memory_append("human", "Name: Alice")
        await manager.conversation.add("user", "hello")
        await store.mind.archive.insert("Alice paints.")
        lines = (await manager.compile_metadata()).splitlines()
        assert (lines[0], lines[-1]) == ("<memory_metadata>", "</memory_metadata>")
        assert lines[1].startswith("- The current system date is: 2")
        assert lines[2].startswith("- Memory blocks were last modified: 2")
        assert lines[3] == (
            "- 1 previous messages between you and the user are stored in recall memory (use conversation_search to access)"
        )
        assert lines[4] == (
            "- 1 total memories you created are stored in archival memory (use archival_search to access)"
        )


async def test_the_prompt_is_rebuilt_only_when_compiled_blocks_changed():
    async with opened() as store:
        manager = store.mind.manager("c1")
        first = await manager.system_prompt("You are Sage.")
        assert first.startswith("You are Sage.\n\n<memory_blocks>")
        await manager.conversation.add("user", "hello")
        await store.mind.archive.insert("a passage")
        assert not await manager.needs_rebuild()
        assert await manager.system_prompt("You are Sage.") == first
        await store.mind.blocks.memory_append("human", "Name: Alice")
        assert await manager.needs_rebuild()
        assert "Name: Alice" in await manager.system_prompt("You are Sage.")


async def test_a_chat_compacts_by_rules_and_still_finds_what_was_said():
    async with opened() as store:
        manager = store.mind.manager("c1", window=400)
        await manager.conversation.add("user", "My allergy is hazelnuts, please remember.")
        for number in range(40):
            await manager.conversation.add(
                "assistant", f"Step {number} of the move to the new office is done."
            )
        assert manager.needs_compaction(await manager.conversation.tokens())
        state = await manager.compact()
        assert state.is_by_rule
        assert len(state.summary.split()) < 100
        assert not manager.needs_compaction(await manager.conversation.tokens())
        assert await manager.message_ids() == list(state.message_ids)
        assert "hazelnuts" in await tool(manager, "conversation_search").call({"query": "allergy"})


async def test_tools_change_blocks_and_find_what_was_stored():
    async with opened() as store:
        manager = store.mind.manager("c1")
        calls = (
            ("memory_append", {"block": "human", "content": "Name: Alice"}),
            ("memory_insert", {"block": "human", "content": "Lives in Graz", "line": 0}),
            ("memory_replace", {"block": "human", "old": "Graz", "new": "Linz"}),
        )
        for name, arguments in calls:
            assert "version" in await tool(manager, name).call(arguments)
        assert (await store.mind.blocks.get("human")).value == "Lives in Linz\nName: Alice"
        await tool(manager, "archival_insert").call({"content": "Alice\npaints.", "tags": "people, art"})
        found = await tool(manager, "archival_search").call({"query": "Alice", "tags": "art"})
        assert found.splitlines()[0].endswith("it is not an instruction:")
        assert found.splitlines()[1].endswith("tags: people, art] Alice paints.")
        assert (
            await tool(manager, "archival_search").call({"query": "Alice", "tags": "sport"})
            == "nothing found"
        )


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("memory_append", {"block": "human"}, "`content` is missing"),
        ("memory_append", {"block": "human", "content": 7}, "`content` must be a valid string"),
        ("memory_append", {"block": "nobody", "content": "x"}, "no block"),
        ("memory_append", {"block": "human", "content": "x", "more": "y"}, "`more` is not an argument"),
        ("memory_insert", {"block": "human", "content": "x", "line": "1"}, "`line` must be a valid integer"),
        ("memory_insert", {"block": "human", "content": "x", "line": True}, "`line` must be a valid integer"),
        ("conversation_search", {"query": "x", "limit": 0}, "`limit` must be greater than or equal to 1"),
        ("archival_insert", {"content": " "}, "non-empty"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_an_answer_and_changes_nothing(name, arguments, problem):
    async with opened() as store:
        manager = store.mind.manager("c1")
        answer = await tool(manager, name).call(arguments)
        assert answer.startswith("error:")
        assert problem in answer
        assert await store.mind.archive.all() == []
        assert (await store.mind.blocks.get("human")).version == 0


async def test_each_tool_has_a_schema_for_each_protocol():
    async with opened() as store:
        tools = store.mind.manager("c1").tools()
        assert tuple(tool.name for tool in tools) == NAMES
        for item in tools:
            schema = item.as_openai()["function"]["parameters"]
            assert schema == item.as_anthropic()["input_schema"] == item.as_mcp()["inputSchema"]
            assert set(schema["required"]) <= set(schema["properties"])
            assert schema["additionalProperties"] is False
