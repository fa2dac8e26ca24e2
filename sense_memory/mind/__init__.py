"""The mind: log, conversations, blocks, archive, topics and identity of an agent, on the same ledger as its memories.

`MemoryStore.mind` holds the parts of an agent's mind. The names exported here are public too: the pure views over log
entries (windows, salience, reflections, beliefs, prompts), models, and the results of calls. Each is imported when it is
first used. The draft pipeline is `sense_memory.mind.layers.draft.draft`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from sense_memory.mind.beliefs import Belief, BeliefGraph
    from sense_memory.mind.blocks import Block, compile_blocks
    from sense_memory.mind.chat.compaction import ContextState
    from sense_memory.mind.chat.conversation import Conversation
    from sense_memory.mind.chat.messages import Message, ToolCall
    from sense_memory.mind.context import Context, ContextBuilder
    from sense_memory.mind.endpoint_model import (
        EndpointModel as EndpointModel,
    )  # not in __all__: it needs the extra `model`
    from sense_memory.mind.episodic import EpisodicMemory
    from sense_memory.mind.four_tier import MemoryManager
    from sense_memory.mind.layers.archive import Passage
    from sense_memory.mind.layers.draft import DraftResult, backfill, store_thought
    from sense_memory.mind.layers.identity import AgentIdentity, Objective
    from sense_memory.mind.layers.topics import Topic, TopicProposal
    from sense_memory.mind.log import LogEntry, NewEntry
    from sense_memory.mind.memory_index import HybridIndex, MemoryIndex, memory_index_from_env
    from sense_memory.mind.mind import Mind
    from sense_memory.mind.model import LanguageModel, ModelExtractor, Reflect
    from sense_memory.mind.prompts.prompt import Prompt, PromptReport
    from sense_memory.mind.reflection import Digest, ReflectionTracker, digest, reflect
    from sense_memory.mind.rule_model import RuleModel
    from sense_memory.mind.salience import SalienceMemory, SalienceWeights
    from sense_memory.mind.scenes.membership import SceneState
    from sense_memory.mind.scenes.scene import Scene
    from sense_memory.mind.search.hits import MindHit, Place
    from sense_memory.mind.token_counter import tokenizer
    from sense_memory.mind.tools import MindTool

_HOMES = {
    "AgentIdentity": "layers.identity",
    "Belief": "beliefs",
    "BeliefGraph": "beliefs",
    "Block": "blocks",
    "Context": "context",
    "ContextBuilder": "context",
    "ContextState": "chat.compaction",
    "Conversation": "chat.conversation",
    "Digest": "reflection",
    "DraftResult": "layers.draft",
    "EndpointModel": "endpoint_model",
    "EpisodicMemory": "episodic",
    "HybridIndex": "memory_index",
    "LanguageModel": "model",
    "LogEntry": "log",
    "MemoryIndex": "memory_index",
    "MemoryManager": "four_tier",
    "Message": "chat.messages",
    "Mind": "mind",
    "MindHit": "search.hits",
    "MindTool": "tools",
    "ModelExtractor": "model",
    "NewEntry": "log",
    "Objective": "layers.identity",
    "Passage": "layers.archive",
    "Place": "search.hits",
    "Prompt": "prompts.prompt",
    "PromptReport": "prompts.prompt",
    "Reflect": "model",
    "ReflectionTracker": "reflection",
    "RuleModel": "rule_model",
    "SalienceMemory": "salience",
    "SalienceWeights": "salience",
    "Scene": "scenes.scene",
    "SceneState": "scenes.membership",
    "ToolCall": "chat.messages",
    "Topic": "layers.topics",
    "TopicProposal": "layers.topics",
    "backfill": "layers.draft",
    "compile_blocks": "blocks",
    "digest": "reflection",
    "memory_index_from_env": "memory_index",
    "reflect": "reflection",
    "store_thought": "layers.draft",
    "tokenizer": "token_counter",
}

__all__ = [
    "AgentIdentity",
    "Belief",
    "BeliefGraph",
    "Block",
    "Context",
    "ContextBuilder",
    "ContextState",
    "Conversation",
    "Digest",
    "DraftResult",
    "EpisodicMemory",
    "HybridIndex",
    "LanguageModel",
    "LogEntry",
    "MemoryIndex",
    "MemoryManager",
    "Message",
    "Mind",
    "MindHit",
    "MindTool",
    "ModelExtractor",
    "NewEntry",
    "Objective",
    "Passage",
    "Place",
    "Prompt",
    "PromptReport",
    "Reflect",
    "ReflectionTracker",
    "RuleModel",
    "SalienceMemory",
    "SalienceWeights",
    "Scene",
    "SceneState",
    "ToolCall",
    "Topic",
    "TopicProposal",
    "backfill",
    "compile_blocks",
    "digest",
    "memory_index_from_env",
    "reflect",
    "store_thought",
    "tokenizer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
