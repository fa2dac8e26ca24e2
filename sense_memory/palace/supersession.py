"""When a contradiction counts: the rules of `contradicts` and `superseded_by`. Pure.

Both fields name memories that contradict this one. Three rules keep every such mark removable:

* A dismissed name is never a mark. Dismissed names unite when versions are merged, so a mark that was taken away does
  not come back from a device that has not heard of it.
* A mark counts while the memory that it names exists. A memory that was forgotten or pruned contradicts nothing; the
  catalog leaves such marks out, and the next write of the memory drops them.
* Only `superseded` adds a mark, and takes the name out of `dismissed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sense_memory.models import PersonaMemory


def opponents(memory: PersonaMemory) -> tuple[str, ...]:
    """The names in the marks of a memory: paths, or the bare keys of another writer."""
    if not memory.contradicts and memory.superseded_by is None:
        return ()
    named = (
        memory.contradicts if memory.superseded_by is None else (*memory.contradicts, memory.superseded_by)
    )
    return tuple(dict.fromkeys(named))


def superseded(memory: PersonaMemory, by: str) -> PersonaMemory:
    """A memory, marked as contradicted and replaced by the memory at a path."""
    contradicts = tuple(dict.fromkeys((*memory.contradicts, by)))
    return undismissed(memory, by).changed(contradicts=contradicts, superseded_by=by)


def reconciled(memory: PersonaMemory, names: Iterable[str]) -> PersonaMemory:
    """A memory that is compatible with some others: their marks are gone, and their names are dismissed."""
    dismissed = tuple(dict.fromkeys((*memory.dismissed, *names)))
    return standing(memory.changed(dismissed=dismissed))


def undismissed(memory: PersonaMemory, name: str) -> PersonaMemory:
    """A memory for which a name is no longer dismissed."""
    return memory.changed(dismissed=tuple(path for path in memory.dismissed if path != name))


def unopposed(memory: PersonaMemory) -> PersonaMemory:
    """A memory without its marks."""
    return memory.changed(contradicts=(), superseded_by=None)


def without(memory: PersonaMemory, is_void: Callable[[str], bool]) -> PersonaMemory:
    """A memory without the marks whose names are void."""
    void = {name for name in opponents(memory) if is_void(name)}
    if not void:
        return memory
    return memory.changed(
        contradicts=tuple(name for name in memory.contradicts if name not in void),
        superseded_by=None if memory.superseded_by in void else memory.superseded_by,
    )


def standing(memory: PersonaMemory) -> PersonaMemory:
    """A memory without the marks that were dismissed."""
    if not memory.dismissed:
        return memory
    # Another writer may name a memory by its bare key.
    dismissed = {name for path in memory.dismissed for name in (path, path.rpartition("/")[2])}
    return without(memory, dismissed.__contains__)
