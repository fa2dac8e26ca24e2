"""What the server offers and answers, without an SDK: names, hints, errors, and what never leaves it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import LedgerBusy
from sense_memory.interfaces.mcp.server import MAX_AT_ONCE, MemoryServer, UnknownName


QUOTED = "my text that an exception quotes"


@pytest.fixture
def store(clock):
    return MemoryStore(LocalSigner.generate(), ledger=":memory:", clock=clock)


def server_of(store, clock, **options):
    async def opened():
        return store

    return MemoryServer(opened, clock=clock, **options)


async def call(server, name, **arguments):
    result = await server.call_tool({"name": name, "arguments": arguments})
    return json.loads(result["content"][0]["text"])


async def test_hints_tell_a_client_what_each_tool_may_do(store, clock):
    server = server_of(store, clock, profile="all", allow_destructive=True)
    hints = {tool["name"]: tool["annotations"] for tool in (await server.list_tools({}))["tools"]}

    assert {name for name, hint in hints.items() if hint["destructiveHint"]} == {"forget", "prune"}
    assert hints["search"]["readOnlyHint"]
    assert not hints["memory_append"]["readOnlyHint"]
    assert not any(hint["openWorldHint"] for hint in hints.values())


@pytest.mark.parametrize(
    ("name", "options", "option"),
    [
        ("export", {}, "with --allow-destructive"),
        ("forget", {"read_only": True}, "without --read-only and with --allow-destructive"),
        ("remember", {"read_only": True}, "without --read-only"),
        ("memory_append", {}, "with --profile all"),
    ],
)
async def test_a_tool_that_an_option_leaves_out_is_named_with_the_option(store, clock, name, options, option):
    with pytest.raises(UnknownName, match=f"start this server {option}: .*there is no tool '{name}'"):
        await call(server_of(store, clock, **options), name)


async def test_the_minds_tools_work_beside_the_others(store, clock):
    async with store:
        server = server_of(store, clock, profile="all")
        await call(server, "memory_append", block="human", content="Likes tea.")
        wrong = await call(server, "memory_append", block="nobody", content="x")

    assert "nobody" in wrong["error"]


async def test_resources_and_the_prompt_revive_nothing(store, clock):
    async with store:
        await store.persona_remember("people", "facts", "lisa", "Lisa paints")
        clock.advance(30 * 86_400)
        server = server_of(store, clock)
        for uri in ("palace", "memory/people/facts/lisa"):
            await server.read_resource({"uri": f"sense-memory://{uri}"})
        await server.get_prompt({"name": "memory", "arguments": {"question": "who paints?"}})
        (memory,) = await store.persona_recall("people")

    assert memory.access_count == 0
    assert memory.current_relevance == pytest.approx(0.5)


async def test_a_prompt_or_resource_of_another_name_is_refused(store, clock):
    server = server_of(store, clock)
    for ask in (
        server.get_prompt({"name": "persona"}),
        server.read_resource({"uri": "sense-memory://keys"}),
        server.read_resource({"uri": "sense-memory://palace/../keys"}),
        server.call_tool({"name": "forget", "arguments": {}}),
    ):
        with pytest.raises(UnknownName):
            await ask


async def test_a_bug_is_told_by_its_type_only_and_the_next_call_works(store, clock, caplog, monkeypatch):
    """An exception that nobody foresaw may quote a memory."""
    async with store:
        server = server_of(store, clock)
        monkeypatch.setattr(store, "persona_stats", lambda: 1 / {}[QUOTED])
        result = await call(server, "recall")
        after = await call(server, "status")

    assert "KeyError" in result["error"]
    assert QUOTED not in result["error"] + caplog.text
    assert after["memories"] == 0


async def test_a_bug_while_a_resource_is_read_is_logged_without_its_text(store, clock, monkeypatch, caplog):
    caplog.set_level("ERROR", logger="sense_memory")
    async with store:
        server = server_of(store, clock)
        monkeypatch.setattr(store, "persona_recall", lambda **_: 1 / {}[QUOTED])
        with pytest.raises(KeyError) as error:
            await server.read_resource({"uri": "sense-memory://palace"})
        told = server.problem("ReadResource", error.value)

    assert told == "ReadResource failed because of a bug (KeyError); try another way"
    assert "ReadResource failed because of a bug" in caplog.text
    assert "in <lambda>" in caplog.text
    assert QUOTED not in caplog.text


async def test_a_text_that_names_a_hidden_folder_comes_back_word_for_word(store, clock):
    text = "The ledger lies in /home/ada/.local/share/sense-memory."

    async def opened():
        return store

    async with store:
        await store.remember("ledger_place", text)
        server = MemoryServer(opened, hidden=[Path("/home/ada/.local/share/sense-memory")], clock=clock)
        answer = await server.call_tool({"name": "recall", "arguments": {"path": "ledger_place"}})

    assert answer["structuredContent"]["memories"][0]["value"] == text
    assert text in answer["content"][0]["text"]


async def test_no_error_names_a_file_of_this_machine(clock):
    async def opened():
        raise LedgerBusy("/home/ada/.local/share/sense-memory/ledgers/npub1.db")

    server = MemoryServer(opened, hidden=[Path("/home/ada/.local/share/sense-memory")], clock=clock)
    result = await call(server, "status")
    with pytest.raises(Exception, match="locked by another process") as error:
        await server.get_prompt({"name": "memory"})

    for text in (result["error"], server.problem("GetPrompt", error.value)):
        assert "/home" not in text
        assert "another process" in text


async def test_of_many_calls_some_run_and_the_others_wait(store, clock):
    running, most, gate = 0, 0, asyncio.Event()

    async def opened():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return store

    async with store:
        server = MemoryServer(opened, clock=clock)
        calls = asyncio.gather(*(call(server, "status") for _ in range(3 * MAX_AT_ONCE)))
        while running < MAX_AT_ONCE:  # noqa: ASYNC110 - every turn is taken
            await asyncio.sleep(0)
        assert not server.idle.is_set()
        gate.set()
        assert len(await calls) == 3 * MAX_AT_ONCE

    assert most == MAX_AT_ONCE
    assert server.idle.is_set()
