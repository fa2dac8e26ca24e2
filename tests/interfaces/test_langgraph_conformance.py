"""LangGraph's public suite for checkpointers, on checkpoints in a ledger."""

from __future__ import annotations

import pytest

from sense_memory import LocalSigner, MemoryStore


pytest.importorskip(
    "langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed"
)

from langgraph.checkpoint.conformance import checkpointer_test, validate

from sense_memory.interfaces.langgraph_checkpointer import SenseMemorySaver


@checkpointer_test(name="SenseMemorySaver")
async def saver_of_a_new_store():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:") as store:
        yield SenseMemorySaver(store)


async def test_the_checkpointer_has_every_capability_and_passes_every_test_of_it():
    report = await validate(saver_of_a_new_store)

    assert {
        "put",
        "put_writes",
        "get_tuple",
        "list",
        "delete_thread",
        "delete_for_runs",
        "copy_thread",
        "prune",
    } <= {name for name, result in report.results.items() if result.detected}
    assert [] == [failure for result in report.results.values() for failure in result.failures]
