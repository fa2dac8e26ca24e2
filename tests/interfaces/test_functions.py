"""The tools of an agent as plain functions, as frameworks see and call them."""

from __future__ import annotations

import asyncio
import inspect
from typing import get_type_hints

import pytest
from pydantic.fields import FieldInfo

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.errors import InvalidInput
from sense_memory.interfaces.functions import memory_functions
from sense_memory.interfaces.tools import memory_tools
from tests.late import Late, needs


KEY = LocalSigner.generate()
LISA = "people/facts/lisa"


def by_name(store, **options):
    return {function.__name__: function for function in memory_functions(store, **options)}


async def test_functions_are_called_by_position_or_by_name_and_answer_with_json():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        tools = by_name(store)
        await tools["remember"](LISA, "Teaches printmaking.", themes=["art"])
        (found,) = (await tools["search"](query="printmaking"))["hits"]

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
            assert tools[name].description == function.__doc__.partition("\n\nArgs:\n")[0]
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


# ── What frameworks ask of a function ───────────────────────────────────────────────────


def everything(tmp_path):
    """Every tool there is as a blocking function, by name; the store stays open until the end of the block."""
    store = SyncMemoryStore(KEY, ledger=":memory:")
    return store, by_name(store, profile="all", allow_destructive=True, export_folder=tmp_path)


def test_each_argument_is_described_wherever_a_framework_looks(tmp_path):
    """In a line under `Args:`, in the annotation as a text that comes first, and in the annotation as a field."""
    store, functions = everything(tmp_path)
    with store:
        assert {"remember", "export", "prune", "archival_search"} <= functions.keys()
        for name, function in functions.items():
            lines = (function.__doc__ or "").partition("\n\nArgs:\n")[2].splitlines()
            told = dict(line.removeprefix("    ").split(": ", 1) for line in lines)
            parameters = inspect.signature(function).parameters
            assert list(parameters) == list(told), name
            for argument, parameter in parameters.items():
                text, *extras = parameter.annotation.__metadata__
                (field,) = (extra for extra in extras if isinstance(extra, FieldInfo))
                assert "" != text == told[argument] == field.description, (name, argument)
                assert text.isprintable(), (name, argument)  # one line


def test_annotations_are_types_and_no_texts_that_name_types(tmp_path):
    """Some frameworks read `__annotations__` as it is, some the signature, some resolve it: all find the same."""
    store, functions = everything(tmp_path)
    with store:
        for function in functions.values():
            signature, found = inspect.signature(function), function.__annotations__
            assert not any(isinstance(hint, str) for hint in found.values())
            assert found == get_type_hints(function, include_extras=True)
            parameters = {name: item.annotation for name, item in signature.parameters.items()}
            assert found == parameters | {"return": signature.return_annotation}


@needs("smolagents", "smolagents is not installed")
def test_smolagents_takes_every_function_and_calls_it(tmp_path):
    store, functions = everything(tmp_path)
    with store:
        tools = {name: Late("smolagents").tool(function) for name, function in functions.items()}
        for name, made in tools.items():
            assert list(inspect.signature(functions[name]).parameters) == list(made.inputs)
        tools["remember"](path=LISA, value="Teaches printmaking.")

        assert LISA == tools["search"](query="printmaking")["hits"][0]["path"]


@needs("autogen_core", "autogen-core is not installed")
def test_autogen_takes_every_function_and_calls_it(tmp_path):
    store, functions = everything(tmp_path)
    with store:
        make, token = Late("autogen_core.tools").FunctionTool, Late("autogen_core").CancellationToken
        tools = {name: make(each, description=each.__doc__) for name, each in functions.items()}
        for name, made in tools.items():
            described = made.schema["parameters"]["properties"]
            assert list(inspect.signature(functions[name]).parameters) == list(described)
            assert all(part["description"] for part in described.values())

        async def use():
            await tools["remember"].run_json({"path": LISA, "value": "Teaches printmaking."}, token())
            return await tools["search"].run_json({"query": "printmaking"}, token())

        assert LISA == asyncio.run(use())["memories"][0]["path"]


@needs("llama_index", "llama-index-core is not installed")
def test_llama_index_takes_every_function_and_calls_it(tmp_path):
    store, functions = everything(tmp_path)
    with store:
        make = Late("llama_index.core.tools").FunctionTool.from_defaults
        tools = {name: make(fn=function) for name, function in functions.items()}
        for made in tools.values():
            described = made.metadata.get_parameters_dict()["properties"]
            assert all(part["description"] for part in described.values())
        tools["remember"].call(path=LISA, value="Teaches printmaking.")

        assert LISA in tools["search"].call(query="printmaking").content


@needs("crewai", "crewai is not installed")
def test_crewai_takes_every_function_and_calls_it(tmp_path):
    store, functions = everything(tmp_path)
    with store:
        tools = {name: Late("crewai.tools").tool(function) for name, function in functions.items()}
        tools["remember"].run(path=LISA, value="Teaches printmaking.")

        assert LISA == tools["search"].run(query="printmaking")["hits"][0]["path"]


@needs("pydantic_ai", "pydantic-ai is not installed")
async def test_pydantic_ai_takes_every_function_and_describes_each_argument_once():
    async with MemoryStore(KEY, ledger=":memory:") as store:
        functions = memory_functions(store, profile="all", allow_destructive=True)
        seen = Late("pydantic_ai.models.test").TestModel(call_tools=["status"])
        await Late("pydantic_ai").Agent(seen, tools=functions).run("How many?")

        for told in seen.last_model_request_parameters.function_tools:
            assert "Args:" not in told.description
            assert all(part["description"] for part in told.parameters_json_schema["properties"].values())
