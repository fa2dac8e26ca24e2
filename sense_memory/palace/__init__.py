"""The palace: pure views over palace memories (sense-memory v2). No I/O; the time is a parameter.

The views exported here are public; `MemoryStore` applies them to the memories of its ledger. Each view is imported when
it is first used, because most views need numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from sense_memory.palace.catalog import Columns
    from sense_memory.palace.compression import Compressed, compress
    from sense_memory.palace.contradictions.claim_index import ClaimIndex
    from sense_memory.palace.contradictions.detection import Contradiction, compare
    from sense_memory.palace.introspection import introspect
    from sense_memory.palace.lifecycle import current_relevance, current_state
    from sense_memory.palace.token_estimate import estimated_tokens

_HOMES = {
    "ClaimIndex": "contradictions.claim_index",
    "Columns": "catalog",
    "Compressed": "compression",
    "Contradiction": "contradictions.detection",
    "compare": "contradictions.detection",
    "compress": "compression",
    "current_relevance": "lifecycle",
    "current_state": "lifecycle",
    "estimated_tokens": "token_estimate",
    "introspect": "introspection",
}

__all__ = [
    "ClaimIndex",
    "Columns",
    "Compressed",
    "Contradiction",
    "compare",
    "compress",
    "current_relevance",
    "current_state",
    "estimated_tokens",
    "introspect",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
