"""A palace memory at another path: what changes in it, and in the memories that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.errors import InvalidInput


if TYPE_CHECKING:
    from sense_memory.memories.persona.palace import EditBatch
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.catalog import Catalog

_LINKS: Final = ("connections", "contradicts", "marked_by_hand", "dismissed")


async def add_copy(batch: EditBatch, catalog: Catalog, old: str, new: str) -> None:
    """Add to a batch the memory of a path at another one, with its dates, and its new name in the links of other memories.

    Raises:
        InvalidInput: there is no such memory, or another memory has the new path; nothing was written.
    """
    memory = await batch.get(old)
    if memory is None:
        raise InvalidInput(f"there is no memory {old!r}; nothing was moved")
    if await batch.get(new) is not None:
        raise InvalidInput(f"there is a memory at {new!r} already; nothing was moved")
    domain, facet, key = new.split("/")
    batch.change(
        memory.changed(domain=domain, facet=facet, key=key, conflict_of=None, seen={}), is_new_value=True
    )
    for path in [other.path for other in catalog if other.path != old and _names(other, old)]:
        if (other := await batch.get(path)) is not None:
            batch.change(_renamed(other, old, new))


def _names(memory: PersonaMemory, path: str) -> bool:
    """Whether a link of a memory names a path."""
    return memory.superseded_by == path or any(path in getattr(memory, name) for name in _LINKS)


def _renamed(memory: PersonaMemory, old: str, new: str) -> PersonaMemory:
    """A memory whose links name `new` instead of `old`."""
    changed = {
        name: tuple(dict.fromkeys(new if path == old else path for path in getattr(memory, name)))
        for name in _LINKS
    }
    by = new if memory.superseded_by == old else memory.superseded_by
    return memory.changed(**changed, superseded_by=by)
