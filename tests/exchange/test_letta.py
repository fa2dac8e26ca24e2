"""Agent files of Letta, in the layout of its `AgentFileSchema` and of its first version."""

from __future__ import annotations

import json

import pytest

from sense_memory.exchange import ItemKind, read


def message(role, content, at="2026-02-11T20:08:35Z", **more):
    return {"role": role, "content": content, "id": "message-6", "created_at": at, **more}


def said(text):
    return [{"type": "text", "text": text, "signature": None}]


def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": "toolu_1", "type": "function", "function": function}


def agent_file(*messages, blocks=(), **more):
    agent = {
        "name": "scout",
        "id": "agent-0",
        "block_ids": [block["id"] for block in blocks],
        "system": "You are an agent.",
        "messages": list(messages),
        "tool_rules": [{"type": "run_first"}],
        "tool_exec_environment_variables": {"TOKEN": "secret"},
        **more,
    }
    return {
        "agents": [agent],
        "groups": [],
        "blocks": list(blocks),
        "files": [],
        "sources": [],
        "tools": [{"name": "send_message"}],
        "mcp_servers": [],
        "metadata": {"revision_id": "x"},
        "created_at": "2026-03-01T00:00:00Z",
    }


def block(ident, label, value, **more):
    return {"id": ident, "label": label, "value": value, "limit": 5000, "read_only": False, **more}


@pytest.fixture
def letta(tmp_path):
    """Reads a value as an agent file."""

    def letta(value, name="scout.af", format_=""):
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return read(path, format_)

    return letta


def of_kind(found, kind):
    return [item for item in found.items if item.kind is kind]


def test_blocks_messages_passages_and_files_have_a_place_and_the_rest_is_counted(letta):
    value = agent_file(
        message("system", said("You are an agent.")),
        message("user", said("Where is staging?")),
        message("assistant", [{"type": "reasoning", "reasoning": "hm"}, *said("In Lisbon.")]),
        message("tool", said('{"status": "OK"}')),
        blocks=[block("block-0", "human", "The user is Alex.", description="About the user")],
        archival_memory=[{"text": "Staging moved to Lisbon.", "tags": ["infra"], "created_at": "2026-01-05"}],
    )
    value["files"] = [{"file_name": "a/notes.md", "original_file_name": "notes.md", "content": "Whole text"}]

    found = letta(value)

    assert found.format == "an agent file of Letta"
    assert found.problems == []
    (human, passage, file) = of_kind(found, ItemKind.MIND)
    assert (human.path, human.text) == ("mind/block/human", "The user is Alex.")
    assert (human.fields["description"], human.fields["limit"]) == ("About the user", 5000)
    assert (passage.text, passage.fields["tags"], passage.at) == (
        "Staging moved to Lisbon.",
        ["infra"],
        1_767_614_400.0,
    )
    assert (file.fields["title"], file.text) == ("notes.md", "Whole text")
    title, *turns = of_kind(found, ItemKind.LOG)
    assert title.text == "scout"
    assert [(turn.fields["actor"], turn.text) for turn in turns] == [
        ("user", "Where is staging?"),
        ("assistant", "In Lisbon."),
    ]
    assert found.left_out == {
        "instructions of an agent": 1,
        "system messages": 1,
        "thoughts of the model": 1,
        "tool calls": 1,
        "tools": 1,
        "rules for tools": 1,
        "environment variables": 1,
    }


def test_no_environment_variable_is_imported(letta):
    found = letta(agent_file(message("user", said("hello"))))

    assert not [item for item in found.items if "secret" in repr(item.fields) + item.text]


def test_packets_of_older_agents_are_opened(letta):
    packet = {"type": "user_message", "message": "I moved to Porto", "time": "2026-01-01"}
    found = letta(
        agent_file(
            message("user", said(json.dumps(packet))),
            message("user", said(json.dumps({"type": "heartbeat", "reason": "x"}))),
            message("user", said('{"type": "my own JSON"}')),
            message(
                "assistant", [], tool_calls=[call("send_message", message="Noted"), call("search", q="x")]
            ),
        )
    )

    assert [item.text for item in of_kind(found, ItemKind.LOG)[1:]] == [
        "I moved to Porto",
        '{"type": "my own JSON"}',
        "Noted",
    ]
    assert found.left_out["events of the program"] == 1
    assert found.left_out["tool calls"] == 1


async def test_the_next_export_of_a_growing_agent_adds_only_what_is_new(tmp_path, open_store, bring, fates):
    path = tmp_path / "scout.af"
    human = block("block-0", "human", "The user is Alex.")
    first = message("user", said("one"), at="2026-01-01T00:00:00Z", id="message-0")
    second = message("user", said("two"), at="2026-01-02T00:00:00Z", id="message-1")
    async with open_store() as store:
        path.write_text(json.dumps(agent_file(first, second, blocks=[human])))
        assert fates(await bring(store, path)) == {"new": 4}
        assert fates(await bring(store, path)) == {"known": 4}
        later = message("user", said("three"), at="2026-01-03T00:00:00Z", id="message-1")
        path.write_text(json.dumps(agent_file({**second, "id": "message-0"}, later, blocks=[human])))
        fate = fates(await bring(store, path))
        texts = [entry.payload.get("content") for entry in await store.mind.log.entries()]
        block_here = await store.mind.blocks.get("human")

    assert fate["new"] >= 1
    assert [text for text in texts if text] == ["one", "two", "three"]
    assert (block_here.value, block_here.limit) == ("The user is Alex.", 5000)


async def test_a_block_that_was_edited_here_stays(tmp_path, open_store, bring):
    path = tmp_path / "scout.af"
    path.write_text(json.dumps(agent_file(blocks=[block("block-0", "persona", "I am Scout.")])))
    async with open_store() as store:
        await bring(store, path)
        await store.mind.blocks.update("persona", value="I am Scout, and tired.")
        made = await bring(store, path)
        assert [(step.fate.value, step.reason) for step in made.steps] == [
            ("kept", "differs here; --replace uses the file's text")
        ]
        assert (await store.mind.blocks.get("persona")).value == "I am Scout, and tired."


def test_agents_that_share_a_block_give_it_once_and_others_of_the_label_keep_their_text(letta):
    shared = block("block-0", "human", "Alex")
    value = agent_file(blocks=[shared, block("block-1", "persona", "I am Scout.")])
    other = block("block-2", "persona", "I am the sleeper.")
    value["agents"].append({"name": "sleeper", "block_ids": ["block-0", "block-2"], "messages": []})
    value["blocks"] += [other, block("block-3", "lone/label 7", "of no agent"), block("block-4", "x", " ")]

    found = letta(value)

    assert {item.path: item.text for item in found.items} == {
        "mind/block/human": "Alex",
        "mind/block/persona": "I am Scout.",
        "mind/block/persona-sleeper": "I am the sleeper.",
        "mind/block/lone_label_7": "of no agent",
    }
    assert found.left_out["empty blocks"] == 1


async def test_a_block_that_is_too_long_becomes_passages_word_for_word(tmp_path, open_store, bring, letta):
    value = "a long line of text\n" * 3_000
    path = tmp_path / "scout.af"
    path.write_text(json.dumps(agent_file(blocks=[block("block-0", "notes", value)])))
    async with open_store() as store:
        made = await bring(store, path)
        again = await bring(store, path)

    assert "".join(step.item.text for step in made.steps) == value
    assert {step.fate.value for step in again.steps} == {"known"}
    assert any("becomes passages of the archive" in note for note in made.notes)


def test_a_file_that_is_json_within_json_is_read(letta):
    found = letta(json.dumps(agent_file(blocks=[block("block-0", "human", "Alex")])))

    assert [item.path for item in found.items] == ["mind/block/human"]


def test_the_first_layout_of_agent_files_is_read(letta):
    first = {
        "name": "old",
        "core_memory": [{"label": "human", "value": "Alex", "limit": 2000}],
        "messages": [
            {"role": "user", "text": "hello", "content": None, "created_at": "2025-01-01T00:00:00Z"}
        ],
        "system": "x",
    }
    found = letta(first, "old.json")

    assert [item.text for item in found.items] == ["Alex", "old", "hello"]


@pytest.mark.parametrize(
    "value",
    [
        {"agents": [], "blocks": []},
        {"agents": [7, {"messages": 7, "block_ids": 7, "name": 7}], "blocks": [7, {"value": 7}]},
        {"agents": [{"messages": [7, {"role": 7}, {"role": "user", "content": [7, None]}]}], "blocks": []},
        {"agents": [{"block_ids": ["none"], "passages": [{}, 7]}], "blocks": [], "files": [7, {}]},
    ],
)
def test_a_damaged_file_gives_what_is_sound_and_never_fails(letta, value):
    found = letta(value)

    assert [item for item in found.items if not item.text.strip()] == []


def test_any_other_json_is_refused_if_the_format_is_named(letta):
    found = letta({"a": 1}, format_="letta")

    assert [problem.reason for problem in found.problems] == [
        "is not an agent file of Letta: it has no agents, or no blocks"
    ]
