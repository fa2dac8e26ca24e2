"""Search: one lexical index under everything that searches. Pure: no I/O, no clock but a parameter.

The names exported here are public, for searches in other texts than memories. Each name is imported when first used,
because most of the package needs numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from sense_memory.search.documents import SearchItem
    from sense_memory.search.index import SearchIndex
    from sense_memory.search.ranking import SearchHit, SearchOptions

_HOMES = {
    "SearchIndex": "index",
    "SearchHit": "ranking",
    "SearchItem": "documents",
    "SearchOptions": "ranking",
}

__all__ = ["SearchHit", "SearchIndex", "SearchItem", "SearchOptions"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
