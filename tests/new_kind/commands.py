"""`mind sightings`: birds that an agent has seen, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sense_memory.interfaces.cli.inputs import argument
from sense_memory.interfaces.cli.mind.group import group
from sense_memory.interfaces.cli.operations import as_sentence, as_table, operation


if TYPE_CHECKING:
    from sense_memory.mind.sightings import Sighting
    from sense_memory.store import MemoryStore

sightings = group("sightings", "Keep which birds were seen, and where.", "sense-memory mind sightings list")

_LIST = as_table(
    ("name", "place", "note"), lambda one, _: (one.name, one.place, one.note), none="no sightings"
)
_WRITTEN = as_sentence(lambda made: f"{made.name}: {made.place}")


@operation(sightings, "put", "sense-memory mind sightings put heron lake", shows=_WRITTEN, writes=True)
async def put(
    store: MemoryStore,
    name: Annotated[str, argument("NAME", "The bird.")],
    place: Annotated[str, argument("PLACE", "Where it was seen.")],
) -> Sighting:
    """Write a sighting."""
    return await store.mind.sightings.put(name, place)


@operation(sightings, "list", "sense-memory mind sightings list", shows=_LIST)
async def list_sightings(store: MemoryStore) -> list[Sighting]:
    """List the sightings."""
    return await store.mind.sightings.all()
