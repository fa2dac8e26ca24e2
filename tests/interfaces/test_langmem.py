"""A real graph: two agents with langmem's tools, one palace, a model that plays its part from a script."""

from __future__ import annotations

import asyncio

import pytest

from sense_memory import LocalSigner, MemoryStore, SyncMemoryStore
from tests.late import Late, needs


pytestmark = [
    needs("langmem", "langmem is not installed"),
    pytest.mark.filterwarnings("ignore:Importing Send from langgraph.constants"),  # by its own import
]
langmem, langgraph, messages = Late("langmem"), Late("langgraph.graph"), Late("langchain_core.messages")
langgraph_store = Late("sense_memory.interfaces.langgraph_store")

SPACE = ("memories", "{user}")
CONFIG = {"configurable": {"user": "nora"}}


def call(name, **arguments):
    return messages.AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{name}"}])


def graph(store):
    """A scribe that writes a memory, and a reader that looks for it; each runs its tools and ends with a sentence."""
    manage, search = langmem.create_manage_memory_tool(SPACE), langmem.create_search_memory_tool(SPACE)
    scribe = [
        call(manage.name, content="Nora prefers green tea."),
        messages.AIMessage("Written."),
    ]
    reader = [
        call(search.name, query="What tea does Nora like?"),
        messages.AIMessage("Green tea."),
    ]

    def agent(script):
        said = iter(script)
        return lambda state: {"messages": [next(said)]}

    def after(tools, following):
        return lambda state: tools if state["messages"][-1].tool_calls else following

    made = langgraph.StateGraph(langgraph.MessagesState)
    for name, script, tool, following in (
        ("scribe", scribe, manage, "reader"),
        ("reader", reader, search, langgraph.END),
    ):
        made.add_node(name, agent(script))
        made.add_node(f"{name}_tools", Late("langgraph.prebuilt").ToolNode([tool]))
        made.add_conditional_edges(name, after(f"{name}_tools", following))
        made.add_edge(f"{name}_tools", name)
    made.add_edge(langgraph.START, "scribe")
    return made.compile(store=store)


def found_in(state):
    by_tool = {message.name: message.content for message in state["messages"] if message.type == "tool"}
    assert by_tool["manage_memory"].startswith("created memory ")
    return by_tool["search_memory"]


async def test_what_one_agent_writes_another_finds_and_the_palace_shows_as_text():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as palace:
        state = await graph(langgraph_store.SenseMemoryStore(palace)).ainvoke({"messages": []}, CONFIG)

        assert "Nora prefers green tea." in found_in(state)
        (memory,) = await palace.persona_recall("memories", "nora")
        assert ("Nora prefers green tea.", "tool:langgraph") == (memory.value, memory.source)


def test_a_graph_that_blocks_runs_on_the_blocking_store():
    with SyncMemoryStore(LocalSigner.generate(), ledger=":memory:") as palace:
        state = graph(langgraph_store.SenseMemoryStore(palace)).invoke({"messages": []}, CONFIG)

        assert "Nora prefers green tea." in found_in(state)


async def test_a_blocking_graph_in_a_thread_uses_the_store_of_this_loop():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as palace:
        store = langgraph_store.SenseMemoryStore(palace)
        state = await asyncio.to_thread(graph(store).invoke, {"messages": []}, CONFIG)

        assert "Nora prefers green tea." in found_in(state)


async def test_a_memory_is_changed_and_deleted_by_its_id():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as palace:
        store = langgraph_store.SenseMemoryStore(palace)
        manage = langmem.create_manage_memory_tool(("memories",), store=store)
        ident = (await manage.ainvoke({"content": "Tea.", "action": "create"})).removeprefix(
            "created memory "
        )
        await manage.ainvoke({"content": "Coffee.", "action": "update", "id": ident})

        assert {"content": "Coffee."} == (await store.aget(("memories",), ident)).value

        await manage.ainvoke({"action": "delete", "id": ident})

        assert [] == await palace.persona_recall()
