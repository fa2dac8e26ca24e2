"""Every public call of the mind with arguments that cannot be used: nothing outside the tree of errors escapes."""

from __future__ import annotations

import inspect
import math
from contextlib import asynccontextmanager
from enum import IntEnum

import numpy as np
import pytest

from sense_memory import EmbeddedRelay, LocalSigner, MemoryStore
from sense_memory.errors import InvalidInput, SenseMemoryError
from sense_memory.mind import ContextBuilder, EpisodicMemory, ReflectionTracker, SalienceMemory
from sense_memory.mind.records import MindRecord
from sense_memory.mind.rule_model import RuleModel
from tests.mind.test_log import opened


LONG = "x" * 60_000
BAD = (
    None,
    7,
    -1,
    math.nan,
    10**30,
    "",
    "\ud800",
    LONG,
    b"x",
    [None],
    ["\ud800"],
    {"a": object()},
    object(),
    type,
)

# A good value for each argument, by its name; a method may need another one.
GOOD = {
    "kind": "world.observed", "payload": {"text": "x"}, "actor": "ann", "turn": 1, "conversation": "c", "at": 1.0,
    "entries": [], "entry_id": "0" * 20, "since": 1.0, "after": None, "limit": 3, "arrived": 0, "gone": 0, "signing": None,
    "label": "human", "value": "x", "description": "x", "read_only": False, "block": "human", "old": "x", "new": "y",
    "content": "x", "line": -1, "tags": ["a"], "topics": ["a"], "title": "x", "source": "", "passage_id": "0" * 16,
    "text": "x", "existing_topics": ["a"], "topic": "a", "new_text": "x", "last": "", "into": "b", "names": {"a": "b"},
    "query": "x", "within": ["log"], "n_results": 2, "rerank": False, "conversation_id": "c", "window": 1_000,
    "count_tokens": len, "agent_name": "ann", "threshold": 3, "scene": "", "belief": "x", "evidence": [],
    "recalled_count": 2, "identity_every": 3, "model": RuleModel(), "progress": lambda _: None, "role": "user", "name": "",
    "tool_calls": [], "tool_call_id": "", "given": {"role": "user", "content": "x"}, "system": "x", "ids": [],
    "current_tokens": 1, "base": "x", "arguments": {}, "every": 3, "output": "x", "identity": "x", "objectives": ["x"],
    "values": ["x"], "roles": ["x"], "priority": 1, "status": "active", "objective_id": "0" * 16, "domain": "people",
    "facet": "facts", "with_": "0" * 64, "invitation": "x", "as_name": "ann", "ident": "0" * 32, "scene_id": "0" * 32,
    "npub": "0" * 64, "seen": 0, "thought": "x", "thought_id": "0" * 16, "state": None, "with_members": False, "moved": 0.1, "fields": {"value": "x", "description": "", "limit": 20_000, "read_only": False, "version": 1, "ts": 1.0}, "budget": 1_000, "memory": EpisodicMemory("ann").visible, "extra": "", "output_format": "",
}  # fmt: skip
LEFT_OUT = {
    "close",
    "judge",
    "refresh",
    "model",
    "count_tokens",
}  # of the program itself, or no method


@asynccontextmanager
async def parts():
    """The parts of a mind by name, with an entry, a message, a passage and an objective in it."""
    async with EmbeddedRelay() as relay, opened(relays=[relay.url]) as store:
        mind = store.mind
        entry = await mind.log.append(
            "agent.output", {"text": "Kaja lives in Graz."}, actor="ann", conversation="c"
        )
        GOOD["entry"] = entry
        GOOD["record"] = MindRecord("mind/block/human", GOOD["fields"], "0" * 64, 0)
        chat = mind.conversation("c", window=1_000)
        await chat.add("user", "hello")
        await mind.blocks.create("notes", "x")
        GOOD["passage"] = await mind.archive.insert("Kaja lives in Graz.")
        yield {
            "mind": mind, "log": mind.log, "blocks": mind.blocks, "archive": mind.archive, "topics": mind.topics,
            "identity": mind.identity, "conversation": chat, "manager": mind.manager("c", window=1_000),
            "tool": mind.tools()[0], "shares": mind.shares, "scenes": mind.scenes,
            "scene": await mind.scenes.create("village", as_name="baker"),
            "context": ContextBuilder(1_000), "tracker": ReflectionTracker("ann"), "salience": SalienceMemory("ann"),
            "episodic": EpisodicMemory("ann"),
        }  # fmt: skip


def calls(part):
    """Each public method of a part with each of its arguments, and the other arguments that it needs."""
    for name, method in inspect.getmembers(part, callable):
        if name.startswith("_") or name in LEFT_OUT:
            continue
        wanted = inspect.signature(method).parameters
        needed = {key: GOOD[key] for key, item in wanted.items() if item.default is item.empty}
        for key in wanted:
            yield name, method, needed, key


NAMES = ("mind", "log", "blocks", "archive", "topics", "identity", "conversation", "manager", "tool", "context", "tracker",
         "salience", "episodic", "shares", "scenes", "scene")  # fmt: skip


@pytest.mark.parametrize("part", NAMES)
async def test_an_argument_that_cannot_be_used_is_an_error_of_the_tree_or_harmless(part):
    escaped = []
    async with parts() as known:
        for name, method, needed, key in calls(known[part]):
            for bad in BAD:
                try:
                    found = method(**needed | {key: bad})
                    if inspect.isawaitable(found):
                        await found
                except SenseMemoryError:
                    pass
                except Exception as error:
                    escaped.append(
                        f"{name}({key}={str(bad)[:12]!r}): {type(error).__name__} {str(error)[:60]}"
                    )
    assert escaped == [], "\n".join(escaped)


async def test_a_negative_limit_and_what_is_no_model_are_refused_and_nothing_is_asked():
    async with parts() as known:
        for part, name in (("log", "entries"), ("conversation", "messages")):
            with pytest.raises(InvalidInput, match="limit must be at least 0"):
                await getattr(known[part], name)(limit=-1)
        with pytest.raises(InvalidInput, match="limit must be at least 0"):
            await known["mind"].search("x", -1)
        with pytest.raises(InvalidInput, match="n_results must be at least 0"):
            await known["mind"].recall("x", -1)
        with pytest.raises(InvalidInput, match="a place is one of conversation, archive, log"):
            await known["mind"].search("x", within=["palace"])
        with pytest.raises(InvalidInput, match="model must be LanguageModel, not str"):
            known["mind"].model = "a name"
        assert await known["mind"].search("Graz", 0) == []


async def test_numbers_of_a_subclass_are_numbers():
    class Few(IntEnum):
        ONE = 1

    async with opened() as store:
        await store.mind.archive.insert("Kaja restores old violins.", at=np.float64(3.0))
        assert len(await store.mind.search("violins", Few.ONE)) == 1
        with pytest.raises(InvalidInput, match="limit must be a whole number"):
            await store.mind.search("violins", True)


async def test_a_text_that_is_not_valid_unicode_is_called_so():
    async with MemoryStore(LocalSigner.generate(), ledger=":memory:", background=False) as store:
        with pytest.raises(InvalidInput, match="query must be valid Unicode"):
            await store.mind.search("\ud800")
