"""The tools of an agent as plain functions, as frameworks see and call them."""

from __future__ import annotations

import asyncio
import inspect
from typing import get_type_hints

import pytest

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.errors import InvalidInput
from sense_memory.interfaces.functions import memory_functions
from sense_memory.interfaces.tools import memory_tools


KEY = LocalSigner.generate()
LISA = "people/facts/lisa"


def by_name(store, **options):
    return {function.__name__: function for function in memory_functions(store, **options)}


async def test_functions_are_called_by_position_or_by_name_and_answer_with_json():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = by_name(store)
        await tools["remember"](LISA, "Teaches printmaking.", themes=["art"])
        (found,) = (await tools["search"](query="printmaking"))["memories"]

        assert (LISA, ["art"]) == (
            found["path"],
            list((await store.persona_recall(*LISA.split("/")))[0].themes),
        )
        assert {"error"} == (await tools["remember"](path=LISA)).keys()
        assert "is not an argument" in (await tools["search"](query="x", colour="red"))["error"]
        with pytest.raises(TypeError, match="too many positional"):
            await tools["recall"](LISA, 20, False, "lost")


def test_a_program_without_a_loop_gets_functions_that_wait():
    with SyncMemoryStore(KEY, ledger=":memory:") as store:
        tools = by_name(store, profile="all")
        tools["remember"](LISA, "Teaches printmaking.")

        assert "Teaches printmaking." == tools["recall"](LISA)["memories"][0]["value"]
        assert "error" in tools["memory_append"]("nowhere", "text")
        assert not any(map(inspect.iscoroutinefunction, tools.values()))


async def test_a_function_says_of_itself_what_the_tool_says():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = {tool.name: tool for tool in memory_tools(store, profile="all", allow_destructive=True)}
        functions = by_name(store, profile="all", allow_destructive=True)

        assert tools.keys() == functions.keys()
        for name, function in functions.items():
            assert tools[name].description == function.__doc__
            assert list(tools[name].parameters["properties"]) == list(inspect.signature(function).parameters)
            assert dict[str, object].__origin__ is get_type_hints(function)["return"].__origin__
            assert inspect.iscoroutinefunction(function)


async def test_functions_work_from_other_threads_and_loops():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        remember = by_name(store)["remember"]
        await asyncio.gather(*(asyncio.to_thread(asyncio.run, remember(f"n{n}", "text")) for n in range(10)))

        assert 10 == len(await store.recall_all())


async def test_what_was_not_allowed_is_not_there():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        assert "forget" not in by_name(store)
        assert "remember" not in by_name(store, read_only=True)
        with pytest.raises(InvalidInput, match="contradict each other"):
            memory_functions(store, read_only=True, allow_destructive=True)
        with pytest.raises(InvalidInput, match="give an open MemoryStore"):
            memory_functions(None)
