"""LangGraph's own runtime on checkpoints in a ledger: each graph does what it does with LangGraph's checkpointer in memory."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from random import Random
from typing import Annotated, TypedDict

import pytest

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.errors import InvalidInput


pytest.importorskip("langgraph.graph", reason="the extra `langgraph` and langgraph are not installed")

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from sense_memory.interfaces.langgraph_checkpointer import SenseMemorySaver


CONFIG = {"configurable": {"thread_id": "t"}}
# While LangGraph saves a checkpoint beside the next step, that step changes the set of nodes for which an edge has waited.
EXACT = {"durability": "sync"}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def joined(state, writes):
    return [*state, *(word for write in writes for word in write)]


class Deltas(TypedDict):
    said: Annotated[list[str], DeltaChannel(joined)]


def graph_of(saver, nodes, edges):
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for edge in edges:
        graph.add_edge(*edge)
    return graph.compile(checkpointer=saver)


def says(text):
    async def speak(state):
        return {"said": [text]}

    return speak


async def history_of(graph, config=CONFIG):
    """What a user sees of a thread, without ids and times; each checkpoint by its place."""
    states = [state async for state in graph.aget_state_history(config)]
    places = {state.config["configurable"]["checkpoint_id"]: place for place, state in enumerate(states)}
    return [
        (
            state.values,
            state.next,
            {key: value for key, value in state.metadata.items() if key in {"source", "step"}},
            places.get((state.parent_config or {}).get("configurable", {}).get("checkpoint_id")),
            [
                (task.name, task.error, [one.value for one in task.interrupts], task.result)
                for task in state.tasks
            ],
        )
        for state in states
    ]


# ── Graphs that both savers run; each returns all that a user sees ──────────────────────


async def a_person_is_asked_and_answers(saver):
    async def ask(state):
        return {"said": [interrupt("name?"), interrupt("age?")]}

    graph = graph_of(
        saver, {"a": says("a"), "ask": ask, "b": says("b")}, [(START, "a"), ("a", "ask"), ("ask", "b")]
    )
    first = await graph.ainvoke({"said": []}, CONFIG)
    second = await graph.ainvoke(Command(resume="Lisa"), CONFIG)
    waiting = await history_of(graph)
    last = await graph.ainvoke(Command(resume="41"), CONFIG)
    asked = [[one.value for one in found["__interrupt__"]] for found in (first, second)]
    return asked, waiting, last, await history_of(graph)


async def parallel_nodes_of_which_one_fails(saver):
    calls = Counter()

    def counted(name):
        async def speak(state):
            calls[name] += 1
            if name == "b" and calls[name] == 1:
                raise ConnectionError("b is down")
            return {"said": [name]}

        return speak

    names = ("a", "b", "c")
    graph = graph_of(
        saver,
        {**{name: counted(name) for name in names}, "end": says("end")},
        [*((START, name) for name in names), ([*names], "end")],
    )
    with pytest.raises(ConnectionError):
        await graph.ainvoke({"said": ["go"]}, CONFIG, **EXACT)
    found = await graph.ainvoke(None, CONFIG, **EXACT)
    return found, calls["b"], await history_of(graph)


async def time_travel(saver):
    graph = graph_of(
        saver, {name: says(name) for name in "abc"}, [(START, "a"), ("a", "b"), ("b", "c"), ("c", END)]
    )
    await graph.ainvoke({"said": ["go"]}, CONFIG)
    states = [state async for state in graph.aget_state_history(CONFIG)]
    (before_b,) = [state for state in states if state.next == ("b",)]
    replayed = await graph.ainvoke(None, before_b.config)
    fork = await graph.aupdate_state(before_b.config, {"said": ["changed"]}, as_node="a")
    forked = await graph.ainvoke(None, fork)
    return replayed, forked, (await graph.aget_state(CONFIG)).values, await history_of(graph)


async def a_subgraph_that_asks(saver):
    async def ask(state):
        return {"said": [interrupt("inside?")]}

    inner = graph_of(None, {"x": says("x"), "ask": ask}, [(START, "x"), ("x", "ask")])
    graph = graph_of(
        saver,
        {"a": says("a"), "inner": inner, "b": says("b")},
        [(START, "a"), ("a", "inner"), ("inner", "b")],
    )
    await graph.ainvoke({"said": []}, CONFIG)
    (task,) = (await graph.aget_state(CONFIG, subgraphs=True)).tasks
    inside = task.state.values, task.state.next
    found = await graph.ainvoke(Command(resume="yes"), CONFIG)
    namespaces = {
        item.config["configurable"]["checkpoint_ns"].partition(":")[0] async for item in saver.alist(CONFIG)
    }
    return inside, found, namespaces, await history_of(graph)


async def tasks_that_are_sent(saver):
    async def one(state):
        return {"said": [f"one {state['said'][0]}"]}

    graph = StateGraph(State)
    graph.add_node("a", says("a"))
    graph.add_node("one", one)
    graph.add_edge(START, "a")
    graph.add_conditional_edges(
        "a", lambda state: [Send("one", {"said": [str(n)]}) for n in range(5)], ["one"]
    )
    compiled = graph.compile(checkpointer=saver, interrupt_before=["one"])
    await compiled.ainvoke({"said": []}, CONFIG)
    waiting = (await compiled.aget_state(CONFIG)).next
    return waiting, await compiled.ainvoke(None, CONFIG), await history_of(compiled)


async def threads_at_once(saver):
    graph = graph_of(
        saver, {name: says(name) for name in "abc"}, [(START, "a"), (START, "b"), (["a", "b"], "c")]
    )
    configs = [{"configurable": {"thread_id": str(n)}} for n in range(6)]
    found = await asyncio.gather(
        *(graph.ainvoke({"said": [str(n)]}, config, **EXACT) for n, config in enumerate(configs))
    )
    again = await asyncio.gather(*(graph.ainvoke({"said": ["again"]}, config, **EXACT) for config in configs))
    return found, again, [await history_of(graph, config) for config in configs]


@pytest.mark.parametrize(
    "scenario",
    [
        a_person_is_asked_and_answers,
        parallel_nodes_of_which_one_fails,
        time_travel,
        a_subgraph_that_asks,
        tasks_that_are_sent,
        threads_at_once,
    ],
)
async def test_a_graph_does_what_it_does_with_the_saver_in_memory(scenario):
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        assert await scenario(InMemorySaver()) == await scenario(SenseMemorySaver(store))


def test_a_graph_in_threads_with_nodes_at_once_keeps_every_write():
    def speak(name):
        return lambda state: {"said": [name]}

    with SyncMemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        names = [f"n{n}" for n in range(8)]
        graph = graph_of(
            SenseMemorySaver(store), {name: speak(name) for name in names}, [(START, name) for name in names]
        )

        assert {*names, "go"} == {*graph.invoke({"said": ["go"]}, CONFIG)["said"]}
        (state, *_) = graph.get_state_history(CONFIG)
        assert {*names, "go"} == {*state.values["said"]}


# ── Housekeeping ────────────────────────────────────────────────────────────────────────


async def talked(saver, thread, count=2, **metadata):
    graph = graph_of(saver, {"a": says("a"), "b": says("b")}, [(START, "a"), ("a", "b")])
    config = {"configurable": {"thread_id": thread}, **metadata}
    for _ in range(count):
        await graph.ainvoke({"said": ["go"]}, config)
    return graph, config


async def record_of(store, item):
    """The path and the first record of a checkpoint."""
    paths = store.mind.records.paths_beneath("mind/thread/")
    (path,) = (path for path in paths if "/c-" in path and path.endswith(item.checkpoint["id"]))
    return path, await store.mind.records.read(path)


async def listed(saver, thread):
    return [item async for item in saver.alist({"configurable": {"thread_id": thread}})]


async def test_a_copied_thread_goes_on_by_itself_and_the_first_stays():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)
        graph, config = await talked(saver, "first")
        before = await history_of(graph, config)
        copy = {"configurable": {"thread_id": "second"}}
        await saver.acopy_thread("first", "second")

        assert before == await history_of(graph, copy)
        await graph.ainvoke({"said": ["more"]}, copy)
        assert before == await history_of(graph, config)
        await saver.adelete_thread("second")
        await saver.acopy_thread("first", "second")
        assert before == await history_of(graph, copy)


async def test_pruning_keeps_the_newest_of_each_namespace_and_the_thread_goes_on():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver, records = SenseMemorySaver(store), store.mind.records
        graph, other = await talked(saver, "other")
        untouched, others = await history_of(graph, other), len(records.paths_beneath("mind/thread/"))
        _, config = await talked(saver, "mine")
        state = await graph.aget_state(config)
        inside = {"configurable": {"thread_id": "mine", "checkpoint_ns": "inner:1"}}
        for step in range(3):
            kept = await saver.aput(inside, empty_checkpoint(), {"step": step}, {})
            await saver.aput_writes(kept, [("said", step)], "task")
        await saver.aprune(["mine", "nobody"])

        namespaces = [item.config["configurable"]["checkpoint_ns"] for item in await listed(saver, "mine")]
        assert ["", "inner:1"] == sorted(namespaces)
        assert [("task", "said", 2)] == (await saver.aget_tuple(inside)).pending_writes
        assert 3 == len(records.paths_beneath("mind/thread/")) - others  # two checkpoints, and these writes
        assert state.values == (await graph.aget_state(config)).values
        assert [*state.values["said"], "go", "a", "b"] == (await graph.ainvoke({"said": ["go"]}, config))[
            "said"
        ]
        with pytest.raises(InvalidInput, match="nothing was forgotten"):
            await saver.aprune(["mine", "other"], strategy="oldest")
        await saver.aprune(["mine"], strategy="delete")
        assert others == len(records.paths_beneath("mind/thread/"))
        assert untouched == await history_of(graph, other)


async def test_pruning_keeps_what_a_delta_channel_is_made_of():
    async def speak(state):
        return {"said": ["a"]}

    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)
        graph = StateGraph(Deltas)
        graph.add_node("a", speak)
        graph.add_edge(START, "a")
        compiled = graph.compile(checkpointer=saver)
        for n in range(3):
            await compiled.ainvoke({"said": [str(n)]}, CONFIG)
        before = (await compiled.aget_state(CONFIG)).values
        (*_, middle, _, _) = await listed(saver, "t")
        path, held = await record_of(store, middle)
        await store.mind.records.write({path: {**held.fields, "count": 2}})  # a piece has not arrived
        await saver.aprune(["t"])
        await store.mind.records.write({path: held.fields})
        assert before == (await compiled.aget_state(CONFIG)).values
        await saver.aprune(["t"])

        assert (
            {"said": ["0", "a", "1", "a", "2", "a"]} == before == (await compiled.aget_state(CONFIG)).values
        )


async def test_pruning_forgets_nothing_that_has_not_been_replaced_as_a_whole():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)
        await talked(saver, "mine", 1)
        (newest, second, *_) = await listed(saver, "mine")
        records = store.mind.records
        path, held = await record_of(store, newest)
        await records.write({path: {**held.fields, "count": 2}})  # a piece has not arrived
        await saver.aprune(["mine"])

        assert second == (await listed(saver, "mine"))[0]
        await records.write({path: held.fields})
        assert [newest, second] == await listed(saver, "mine")


async def test_values_larger_than_an_event_are_copied_and_pruned_as_wholes():
    noise = Random(1).randbytes(40_000).hex()
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver, records = SenseMemorySaver(store), store.mind.records
        config = {"configurable": {"thread_id": "big", "checkpoint_ns": ""}}
        for step in range(2):
            kept = await saver.aput(config, empty_checkpoint(), {"step": step, "noise": noise}, {})
            await saver.aput_writes(kept, [("said", noise)], "task")
        await saver.acopy_thread("big", "copy")
        pieces = len(records.paths_beneath("mind/thread/"))
        await saver.aprune(["big"])

        assert pieces * 3 // 4 == len(records.paths_beneath("mind/thread/"))
        for thread, count in (("big", 1), ("copy", 2)):
            items = await listed(saver, thread)
            assert [[("task", "said", noise)]] * count == [item.pending_writes for item in items]
            assert [noise] * count == [item.metadata["noise"] for item in items]


async def test_what_a_run_made_is_forgotten_in_every_thread_and_nothing_else():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)
        for thread in ("one", "two"):
            for run in ("first", "second"):
                await talked(saver, thread, 1, metadata={"run_id": run})
        before = {thread: await listed(saver, thread) for thread in ("one", "two")}
        await saver.adelete_for_runs(["first", "unknown"])

        for thread, items in before.items():
            assert [item for item in items if item.metadata["run_id"] == "second"] == await listed(
                saver, thread
            )
        await saver.adelete_for_runs([])
        assert 2 == len(await saver._threads.threads())


async def test_threads_are_listed_together_newest_first_and_only_what_is_asked_for_is_read():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)
        for thread in ("a", "b", "a"):
            await talked(saver, thread, 1)
        everything = [item async for item in saver.alist(None)]
        ids = [item.checkpoint["id"] for item in everything]

        assert ids == sorted(ids, reverse=True)
        assert everything[:3] == [item async for item in saver.alist(None, limit=3)]
        assert [] == [item async for item in saver.alist(None, limit=0)]
        (one,) = [item async for item in saver.alist(everything[4].config)]
        assert everything[4] == one
        below = {"configurable": {"thread_id": "a", "checkpoint_ns": "elsewhere"}}
        assert [] == [item async for item in saver.alist(below)]
