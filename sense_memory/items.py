"""Memories as the one search over everything takes them: which words count, and how often.

A key counts as if its words stood three times in the text and themes twice, which are the specification's
weights beside the value's one; every other view of a memory's text has its own.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from sense_memory.envelope import RecordType
from sense_memory.search.hits import Kind
from sense_memory.search.shelf import SearchItem


if TYPE_CHECKING:
    from collections.abc import Sequence

    from sense_memory.envelope import Record
    from sense_memory.models import PersonaMemory

ROLES: Final = frozenset({"user", "agent"})  # the sources that "I" and "you" of a question may mean
STAMP_BYTES: Final = 8
_KEY_TIMES: Final = 3  # sense-memory v2, "Semantic Search"
_THEMES_TIMES: Final = 2


def text_of(record: Record) -> str:
    """The text of a flat memory or a journal entry."""
    return str(record.fields["content" if record.type is RecordType.JOURNAL else "value"])


def written_at(record: Record, event_time: int) -> float:
    """When a record was written, seconds since 1970: the time inside, else its event's."""
    ts = record.fields.get("ts")
    return float(ts) if type(ts) is float or type(ts) is int else float(event_time)


def item_of(record: Record, event_id: str, created_at: float) -> SearchItem | None:
    """A flat memory or journal entry as the index takes it; None for anything else."""
    if record.type is RecordType.JOURNAL:
        return SearchItem(f"{Kind.JOURNAL}/{event_id}", text_of(record), created_at)
    if record.type is not RecordType.FLAT:
        return None
    key = record.fields["key"]
    return SearchItem(f"{Kind.FLAT}/{key}", _weighed(key, (), text_of(record)))


def item_of_persona(memory: PersonaMemory) -> SearchItem:
    """A persona memory as the index takes it."""
    text = _weighed(memory.key, memory.themes, memory.value)
    speaker = memory.source if memory.source in ROLES else ""
    return SearchItem(f"{Kind.PALACE}/{memory.path}", text, speaker=speaker)


def _weighed(key: str, themes: Sequence[str], value: str) -> str:
    return " \n".join((*(key,) * _KEY_TIMES, *tuple(themes) * _THEMES_TIMES, value))


def stamp_of(memory: PersonaMemory) -> str:
    """What tells whether a persona memory has to be indexed anew."""
    joined = "\0".join((memory.key, *memory.themes, "", memory.value, memory.source))
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=STAMP_BYTES).hexdigest()
