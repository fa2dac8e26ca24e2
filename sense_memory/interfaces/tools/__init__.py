"""The tools that an agent uses on its memory: one registry for MCP, function calling, and plain functions.

`registry.py` says which tools an agent gets. `palace.py` has the functions of those of memories, `sense_memory/mind/tools.py`
of those of the four-tier memory; a new tool is one function there, marked by `tool`. `results.py` has what they answer.
"""

from __future__ import annotations

from sense_memory.interfaces.tools.registry import MemoryTool, Profile, memory_tools
from sense_memory.mind.agent_tool import Access


__all__ = ["Access", "MemoryTool", "Profile", "memory_tools"]
