"""`palace`: memories in domains and facets that fade, connect and contradict each other. See `group`."""

from __future__ import annotations

from sense_memory.interfaces.cli.palace import (
    linking,
    looking,
    memories,
    pruning,
    remembering,
    reviewing,
    showing,
)
from sense_memory.interfaces.cli.palace.group import commands


__all__ = ["commands", "linking", "looking", "memories", "pruning", "remembering", "reviewing", "showing"]
