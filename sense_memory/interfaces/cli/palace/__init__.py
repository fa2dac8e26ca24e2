"""`palace`: memories in domains and facets that fade, connect and contradict each other. See `group`."""

from __future__ import annotations

from sense_memory.interfaces.cli.palace import group, memories, memory, reviews


__all__ = ["group", "memories", "memory", "reviews"]
