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


CALLS = {  # a call of each tool that does what the tool can do; those that delete come last
    "remember": {"path": "people/facts/tom", "value": "Tom paints."},
    "recall": {"path": "people/facts/lisa"},
    "search": {"query": "tea"},
    "context": {"question": "tea"},
    "connect": {"first": "people/facts/lisa", "second": "people/facts/emil"},
    "supersede": {"old": "people/facts/lisa", "new": "people/facts/emil"},
    "introspect": {},
    "review": {"accept": ["9a8c4b8f0d65"]},
    "journal": {"text": "We had tea."},
    "recent": {},
    "status": {},
    "memory_replace": {"block": "human", "old": "Likes", "new": "Likes, likes"},
    "memory_append": {"block": "human", "content": "Likes salt."},
    "memory_insert": {"block": "human", "content": "Likes ink."},
    "conversation_search": {"query": "tea"},
    "archival_insert": {"content": "Tea is grown in Uji."},
    "archival_search": {"query": "tea"},
    "export": {"name": "all.jsonl"},
    "export_plain": {"name": "plain.jsonl"},
    "forget": {"path": "people/facts/lisa"},
    "prune": {"apply": True},
}


async def _hints_by_watching(server, store, clock, folder):
    """What each tool of a server does: whether a call changes anything, deletes a text, and does it again if repeated."""

    async def state():
        await store.sync()  # also publishes the recalls that wait in this process
        texts = {(memory.path, memory.value) for memory in await store.persona_recall(include_forgotten=True)}
        return store.status().counts, sorted(folder.iterdir()), texts

    found = {}
    for name in (tool["name"] for tool in (await server.list_tools({}))["tools"]):
        states = [await state()]
        for _ in range(2):
            clock.advance(86_401)  # a recall is published a day after the one before
            await server.call_tool({"name": name, "arguments": CALLS[name]})
            states.append(await state())
        (*before, there), (*once, left), twice = *states[:2], list(states[2])
        found[name] = {
            "readOnlyHint": before == once,
            "destructiveHint": bool(there - left),
            "idempotentHint": [*once, left] == twice,
            "openWorldHint": False,  # by the protocol's own words, the world of a memory tool is closed
        }
    return found


EVERYTHING = {"allow_destructive": True, "allow_plain_export": True}


@pytest.mark.parametrize("options", [EVERYTHING, {"read_only": True}, {}], ids=str)
async def test_hints_are_what_watching_each_tool_shows(store, clock, tmp_path, options):
    async with store:
        await store.persona_remember("people", "facts", "old", "An old text.", halflife_days=1)
        clock.advance(60 * 86_400)
        await store.persona_prune(dry_run=False)  # it is dissolved from now on
        clock.advance(31 * 86_400)
        await store.persona_remember("people", "facts", "lisa", "Lisa drinks tea.")
        await store.persona_remember("people", "facts", "emil", "Emil plays chess.")
        await store.mind.blocks.update("human", value="Likes tea.")
        await store.mind.conversation("talk").add("user", "Tea?")
        await store.mind.proposals.propose(["From now on always answer in German."])
        clock.advance(86_400)
        server = server_of(store, clock, profile="all", export_folder=tmp_path, **options)

        told = {tool["name"]: tool["annotations"] for tool in (await server.list_tools({}))["tools"]}

        assert await _hints_by_watching(server, store, clock, tmp_path) == told
        assert options or {"forget", "prune", "export", "export_plain"} == CALLS.keys() - told.keys()


@pytest.mark.parametrize(
    ("name", "options", "option"),
    [
        ("export", {}, "with --allow-destructive"),
        ("export_plain", {"allow_destructive": True}, "with --allow-plain-export"),
        ("forget", {"read_only": True}, "without --read-only and with --allow-destructive"),
        ("remember", {"read_only": True}, "without --read-only"),
        ("recall", {"read_only": True, "profile": "mind"}, "with --profile all"),
        ("memory_append", {}, "with --profile all"),
    ],
)
async def test_a_tool_that_an_option_leaves_out_is_named_with_the_option(store, clock, name, options, option):
    with pytest.raises(UnknownName, match=f"there is no tool '{name}', .*start it {option}$"):
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


async def test_the_prompt_of_the_mind_has_its_parts_and_messages(store, clock):
    async with store:
        await store.persona_remember("people", "facts", "lisa", "Lisa paints with oil.")
        await store.mind.blocks.memory_append("persona", "I am patient.")
        await store.mind.conversation("chat").add("user", "Good morning!\u202e")
        await store.mind.conversation("chat").add("assistant", "Good morning.")
        server = server_of(store, clock)
        asked = {"conversation": "chat", "question": "What does Lisa paint with?"}
        found = await server.get_prompt({"name": "mind", "arguments": asked})
        assert await server.get_prompt({"name": "mind"})
    said = [(item["role"], item["content"]["text"]) for item in found["messages"]]
    assert said[0] == ("user", "<persona>\nI am patient.\n</persona>")
    assert "Lisa paints with oil." in said[1][1]
    assert said[2][1].endswith("Good morning!\\u202e")
    assert said[3:] == [("assistant", "Good morning."), ("user", "What does Lisa paint with?")]


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
