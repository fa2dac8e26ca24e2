"""LangGraph's checkpoints in a ledger: a real graph that is killed, and goes on where it was on another machine."""

from __future__ import annotations

import asyncio
import operator
from random import Random
from typing import Annotated, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore, SyncMemoryStore
from sense_memory.interfaces.langgraph_checkpointer import SenseMemorySaver
from tests.mind.test_log import ME, opened
from tests.mind.test_records import Slow


CONFIG = {"configurable": {"thread_id": "a thread/with: any name"}}


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def graph_of(saver, *, fails=False):
    """Three steps: one that speaks, one that asks a person, and one that fails if it is told to."""
    # A second, which no process of the suite pays that runs other tests.
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import interrupt

    async def speak(state):
        return {"said": ["speak"]}

    async def ask(state):
        return {"said": [interrupt("how wide?")]}

    async def finish(state):
        if fails:
            raise ConnectionError("killed")
        return {"said": ["finish"]}

    graph = StateGraph(State)
    graph.add_node("speak", speak)
    graph.add_node("ask", ask)
    graph.add_node("finish", finish)
    graph.add_edge(START, "speak")
    graph.add_edge("speak", "ask")
    graph.add_edge("ask", "finish")
    graph.add_edge("finish", END)
    return graph.compile(checkpointer=saver)


async def test_a_graph_that_was_killed_goes_on_on_another_machine():
    from langgraph.types import Command

    async with EmbeddedRelay() as relay:
        async with opened(relays=[relay.url]) as store:
            graph = graph_of(SenseMemorySaver(store), fails=True)
            found = await graph.ainvoke({"said": ["begin"]}, CONFIG)
            assert found["__interrupt__"][0].value == "how wide?"
            with pytest.raises(ConnectionError):
                await graph.ainvoke(Command(resume="64 mm"), CONFIG)
            await store.sync()
        async with opened(relays=[relay.url]) as bare:
            await bare.sync()
            graph = graph_of(SenseMemorySaver(bare))
            state = await graph.aget_state(CONFIG)
            assert (state.next, state.values["said"]) == (("finish",), ["begin", "speak", "64 mm"])
            assert (await graph.ainvoke(None, CONFIG))["said"] == ["begin", "speak", "64 mm", "finish"]
            history = [item.values["said"] async for item in graph.aget_state_history(CONFIG)]
            assert history[0] == ["begin", "speak", "64 mm", "finish"]
            assert history[-1] == []


async def test_checkpoints_are_listed_newest_first_and_filtered():
    async with opened() as store:
        saver = SenseMemorySaver(store)
        await graph_of(saver).ainvoke({"said": ["begin"]}, CONFIG)
        await graph_of(saver).ainvoke({"said": ["x"]}, {"configurable": {"thread_id": "other"}})
        mine = [item async for item in saver.alist(CONFIG)]
        ids = [item.config["configurable"]["checkpoint_id"] for item in mine]
        assert ids == sorted(ids, reverse=True)
        assert len([item async for item in saver.alist(None)]) == 2 * len(mine)
        assert [item async for item in saver.alist(CONFIG, limit=1)] == mine[:1]
        assert [item async for item in saver.alist(CONFIG, before=mine[0].config)] == mine[1:]
        (first,) = [item async for item in saver.alist(CONFIG, filter={"source": "input"})]
        assert first == mine[-1]
        assert mine[0].parent_config == mine[1].config
        assert await saver.aget_tuple(mine[1].config) == mine[1]


async def test_a_thread_that_was_deleted_is_gone_and_others_stay():
    async with opened() as store:
        saver = SenseMemorySaver(store)
        other = {"configurable": {"thread_id": "other"}}
        for config in (CONFIG, other):
            await graph_of(saver).ainvoke({"said": ["begin"]}, config)
        await saver.adelete_thread(CONFIG["configurable"]["thread_id"])
        assert await saver.aget_tuple(CONFIG) is None
        assert await saver.aget_tuple(other) is not None


async def test_a_checkpoint_larger_than_an_event_is_whole_or_not_there():
    async with opened() as store:
        saver = SenseMemorySaver(store)
        config = {"configurable": {"thread_id": "big", "checkpoint_ns": ""}}
        noise = Random(1).randbytes(60_000).hex()
        small, big = empty_checkpoint(), empty_checkpoint()
        big["channel_values"] = {"text": noise}
        small["id"], big["id"] = sorted((small["id"], big["id"]))
        await saver.aput(config, small, {"step": 0}, {})
        kept = await saver.aput(config, big, {"step": 1}, {})
        found = await saver.aget_tuple(config)
        assert found.checkpoint["channel_values"]["text"] == noise
        records = store.mind.records
        (piece, *_) = [path for path in records.paths_beneath("mind/thread/") if "+" in path]
        await records.forget([piece])
        assert await saver.aget_tuple(kept) is None
        assert (await saver.aget_tuple(config)).metadata == {"step": 0}


async def test_a_task_that_runs_again_keeps_what_it_wrote_first():
    async with opened() as store:
        saver = SenseMemorySaver(store)
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        kept = await saver.aput(config, empty_checkpoint(), {"step": 0}, {})
        await saver.aput_writes(kept, [("said", "first")], "task")
        await saver.aput_writes(kept, [("said", "second"), ("more", 1)], "task")
        found = await saver.aget_tuple(config)
        assert found.pending_writes == [("task", "said", "first"), ("task", "more", 1)]


async def test_writes_of_a_task_from_two_processes_at_once_are_all_kept(tmp_path):
    stores = [
        MemoryStore(Slow.from_hex(ME), ledger=tmp_path / "a.db", background=False, snapshot=False)
        for _ in range(2)
    ]
    async with stores[0], stores[1]:
        savers = list(map(SenseMemorySaver, stores))
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        kept = await savers[0].aput(config, empty_checkpoint(), {"step": 0}, {})
        noise = Random(1).randbytes(30_000).hex()  # more than one event holds
        many = [("said", noise), ("__error__", "e"), ("__interrupt__", "i"), ("__resume__", "r")]
        calls = [(savers[number % 2], write) for number, write in enumerate(many)]
        await asyncio.gather(*(saver.aput_writes(kept, [write], "task") for saver, write in calls))
        found = await savers[0].aget_tuple(config)
        assert sorted(value for _, _, value in found.pending_writes) == sorted([noise, "e", "i", "r"])


def test_a_graph_in_threads_uses_a_store_without_a_loop():
    from langgraph.graph import START, StateGraph

    with SyncMemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        saver = SenseMemorySaver(store)

        def speak(state):
            return {"said": ["speak"]}

        graph = StateGraph(State)
        graph.add_node("speak", speak)
        graph.add_edge(START, "speak")
        compiled = graph.compile(checkpointer=saver)
        compiled.invoke({"said": ["one"]}, CONFIG)
        assert compiled.invoke({"said": ["two"]}, CONFIG)["said"] == ["one", "speak", "two", "speak"]
        assert len(list(saver.list(CONFIG))) == 6
        saver.delete_thread(CONFIG["configurable"]["thread_id"])
        assert list(saver.list(CONFIG)) == []


async def test_checkpoints_are_neither_memories_nor_recalled():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", background=False) as store:
        await graph_of(SenseMemorySaver(store)).ainvoke({"said": ["begin of the felt"]}, CONFIG)
        assert await store.recall_all() == []
        assert (await store.mind.prompt(query="felt")).recalled == ()
